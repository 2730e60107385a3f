//! Gathers [`Stats`] while an SSTable is written.

use super::clusterings::{CoveredClusterings, PositionRange, ValueRange};
use super::{EstimatedHistogram, Stats, TombstoneHistogram};
use crate::descriptor::Version;
use model::clustering::Position;
use model::counter::{ShardKind, shards};
use model::{ClusteringComparator, Deletion, NO_DELETION_TIME, NO_TTL, Row, TableSchema};

/// Statistics of the partitions written so far.
#[derive(Clone, Debug)]
pub(crate) struct Collector {
    version: Version,
    partition_sizes: EstimatedHistogram,
    cells_per_partition: EstimatedHistogram,
    timestamps: Option<(i64, i64)>,
    local_deletion_times: Option<(u32, u32)>,
    ttls: Option<(i32, i32)>,
    tombstones: TombstoneHistogram,
    clusterings: CoveredClusterings,
    has_partition_deletions: bool,
    has_legacy_counter_shards: bool,
    total_columns_set: i64,
    total_rows: i64,
    partition_cells: i64,
    partition_tombstones: u64,
}

fn widen<T: Ord + Copy>(range: &mut Option<(T, T)>, value: T) {
    *range = Some(range.map_or((value, value), |(min, max)| (min.min(value), max.max(value))));
}

impl Collector {
    /// For an SSTable of a version.
    pub fn new(version: Version) -> Collector {
        Collector {
            version,
            partition_sizes: EstimatedHistogram::partition_sizes(),
            cells_per_partition: EstimatedHistogram::cell_counts(),
            timestamps: None,
            local_deletion_times: None,
            ttls: None,
            tombstones: TombstoneHistogram::default(),
            clusterings: match version.has_covered_slice() {
                true => CoveredClusterings::Positions(PositionRange::default()),
                false => CoveredClusterings::Values(ValueRange::default()),
            },
            has_partition_deletions: false,
            has_legacy_counter_shards: false,
            total_columns_set: 0,
            total_rows: 0,
            partition_cells: 0,
            partition_tombstones: 0,
        }
    }

    fn seen(&mut self, timestamp: i64, ttl: i32, local_deletion_time: u32) {
        widen(&mut self.timestamps, timestamp);
        widen(&mut self.ttls, ttl);
        widen(&mut self.local_deletion_times, local_deletion_time);
        self.tombstones.add(local_deletion_time);
    }

    pub fn deletion(&mut self, deletion: &Deletion) {
        if !deletion.is_none() {
            widen(&mut self.timestamps, deletion.timestamp);
            widen(&mut self.local_deletion_times, deletion.local_deletion_time);
            self.tombstones.add(deletion.local_deletion_time);
            self.partition_tombstones += 1;
        }
    }

    pub fn partition_deletion(&mut self, deletion: &Deletion) {
        self.has_partition_deletions |= !deletion.is_none();
        self.deletion(deletion);
    }

    pub fn position(&mut self, position: Position<'_>, comparator: &ClusteringComparator) {
        self.clusterings.add(position, comparator);
    }

    pub fn row(&mut self, row: &Row, table: &TableSchema) {
        if !row.liveness.is_none() {
            let liveness = &row.liveness;
            self.seen(liveness.timestamp, liveness.ttl, liveness.local_expiration_time);
        }
        self.deletion(&row.deletion);
        row.complex_deletions.iter().for_each(|(_, deletion)| self.deletion(deletion));
        let mut last = None;
        for cell in &row.cells {
            self.seen(cell.timestamp, cell.ttl, cell.local_deletion_time);
            self.partition_tombstones += u64::from(cell.is_tombstone());
            self.total_columns_set += (last != Some(cell.column)) as i64;
            last = Some(cell.column);
            if table.is_counter_column(cell.column) {
                self.has_legacy_counter_shards |= !cell.is_tombstone()
                    && shards(&cell.value)
                        .is_some_and(|s| s.iter().any(|shard| shard.kind != ShardKind::Global));
            }
        }
        self.total_rows += 1;
        self.partition_cells += row.cells.len() as i64;
    }

    /// Returns the tombstones of the partition.
    pub fn partition_end(&mut self, bytes: u64) -> u64 {
        self.partition_sizes.add(bytes as i64);
        self.cells_per_partition.add(self.partition_cells);
        self.partition_cells = 0;
        std::mem::take(&mut self.partition_tombstones)
    }

    /// The stats; what rows do not tell is left at its default.
    pub fn finish(self) -> Stats {
        let (min_timestamp, max_timestamp) = self.timestamps.unwrap_or((i64::MAX, i64::MIN));
        let (min_local_deletion_time, max_local_deletion_time) =
            self.local_deletion_times.unwrap_or((NO_DELETION_TIME, NO_DELETION_TIME));
        let (min_ttl, max_ttl) = self.ttls.unwrap_or((NO_TTL, NO_TTL));
        Stats {
            partition_sizes: self.partition_sizes,
            cells_per_partition: self.cells_per_partition,
            commit_log_intervals: Vec::new(),
            min_timestamp,
            max_timestamp,
            min_local_deletion_time,
            max_local_deletion_time,
            min_ttl,
            max_ttl,
            compression_ratio: -1.0,
            tombstones: self.tombstones,
            level: 0,
            repaired_at_ms: 0,
            covered_clusterings: self.clusterings.finish(),
            has_legacy_counter_shards: self.has_legacy_counter_shards,
            total_columns_set: self.total_columns_set,
            total_rows: self.total_rows,
            pending_repair: None,
            is_transient: false,
            host_id: None,
            has_partition_deletions: self
                .version
                .has_partition_deletions_flag()
                .then_some(self.has_partition_deletions),
            key_range: None,
            token_space_coverage: None,
        }
    }
}
