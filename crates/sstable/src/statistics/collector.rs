//! Gathers [`Stats`] while an SSTable is written.

use super::stats::ClusteringRange;
use super::{EstimatedHistogram, Stats, TombstoneHistogram};
use model::clustering::Position;
use model::counter::{ShardKind, shards};
use model::{ClusteringComparator, Deletion, NO_DELETION_TIME, NO_TTL, Row, TableSchema};

/// Statistics of the partitions written so far.
#[derive(Debug)]
pub(crate) struct Collector {
    partition_sizes: EstimatedHistogram,
    cells_per_partition: EstimatedHistogram,
    timestamps: Option<(i64, i64)>,
    local_deletion_times: Option<(u32, u32)>,
    ttls: Option<(i32, i32)>,
    tombstones: TombstoneHistogram,
    clusterings: ClusteringRange,
    has_legacy_counter_shards: bool,
    total_columns_set: i64,
    total_rows: i64,
    partition_cells: i64,
}

fn widen<T: Ord + Copy>(range: &mut Option<(T, T)>, value: T) {
    *range = Some(range.map_or((value, value), |(min, max)| (min.min(value), max.max(value))));
}

impl Collector {
    pub fn new() -> Collector {
        Collector {
            partition_sizes: EstimatedHistogram::partition_sizes(),
            cells_per_partition: EstimatedHistogram::cell_counts(),
            timestamps: None,
            local_deletion_times: None,
            ttls: None,
            tombstones: TombstoneHistogram::default(),
            clusterings: ClusteringRange::default(),
            has_legacy_counter_shards: false,
            total_columns_set: 0,
            total_rows: 0,
            partition_cells: 0,
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
        }
    }

    pub fn position(&mut self, position: Position<'_>, comparator: &ClusteringComparator) {
        self.clusterings.add(position.prefix, comparator);
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

    pub fn partition_end(&mut self, bytes: u64) {
        self.partition_sizes.add(bytes as i64);
        self.cells_per_partition.add(self.partition_cells);
        self.partition_cells = 0;
    }

    /// The stats; what rows do not tell is left at its default.
    pub fn finish(self) -> Stats {
        let (min_timestamp, max_timestamp) = self.timestamps.unwrap_or((i64::MAX, i64::MIN));
        let (min_local_deletion_time, max_local_deletion_time) =
            self.local_deletion_times.unwrap_or((NO_DELETION_TIME, NO_DELETION_TIME));
        let (min_ttl, max_ttl) = self.ttls.unwrap_or((NO_TTL, NO_TTL));
        let (min_clustering, max_clustering) = self.clusterings.finish();
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
            min_clustering,
            max_clustering,
            has_legacy_counter_shards: self.has_legacy_counter_shards,
            total_columns_set: self.total_columns_set,
            total_rows: self.total_rows,
            pending_repair: None,
            is_transient: false,
            host_id: None,
        }
    }
}
