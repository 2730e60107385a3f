//! The numbers of a table, for `nodetool tablestats`, the admin API, /metrics and `system_views`.

use crate::metrics::{Latency, Metrics};
use crate::state::NodeState;
use engine::Engine;
use engine::table::TableStore;
use sstable::SsTable;
use tools::api::TableReport;

/// Levels that Cassandra's leveled compaction knows.
const LEVELS: usize = 9;

/// Numbers of every table, by name.
pub fn tables(engine: &Engine) -> Vec<TableReport> {
    let mut all: Vec<TableReport> = engine.tables().iter().map(|table| report(engine, table)).collect();
    all.sort_by(|a, b| (&a.keyspace, &a.table).cmp(&(&b.keyspace, &b.table)));
    all
}

/// Numbers of tables with what was counted of their requests.
pub fn tables_with_times(state: &NodeState) -> Vec<TableReport> {
    let mut all = tables(&state.engine);
    let metrics: &Metrics = &state.metrics;
    let schema = state.engine.schema();
    let millis = |latency: &Latency| (latency.nanos.count() > 0).then(|| latency.nanos.mean() / 1e6);
    for stats in &mut all {
        let id = schema.keyspace(&stats.keyspace).and_then(|k| k.store(&stats.table)).map(|t| t.id);
        let Some(counted) = id.and_then(|id| metrics.table_by_id(id)) else { continue };
        stats.reads = counted.read.nanos.count() + counted.scan.nanos.count();
        stats.writes = counted.write.nanos.count();
        stats.read_millis = millis(&counted.read);
        stats.write_millis = millis(&counted.write);
        let (wrong, excluded) = (counted.bloom_false_positives.get(), counted.bloom_exclusions.get());
        let asked = counted.sstables_per_read.sum() + excluded;
        stats.bloom_false_positives = wrong;
        stats.bloom_false_ratio = if asked > 0 { wrong as f64 / asked as f64 } else { 0.0 };
        let rows = counted.rows_per_recent_read.summary(&counted.rows_per_read);
        let tombstones = counted.tombstones_per_recent_read.summary(&counted.tombstones_per_read);
        (stats.rows_per_read_mean, stats.rows_per_read_max) = (rows.mean(), rows.max);
        (stats.tombstones_per_read_mean, stats.tombstones_per_read_max) = (tombstones.mean(), tombstones.max);
    }
    all
}

fn report(engine: &Engine, table: &TableStore) -> TableReport {
    let stats = table.stats();
    let (view, schema) = (table.view(), table.schema());
    let sstables = || view.sstables.iter();
    let sizes = || sstables().map(|sstable| &sstable.stats().partition_sizes);
    let partitions: i64 = sizes().map(|sizes| sizes.count()).sum();
    let partition_bytes: f64 = sizes().map(|sizes| sizes.mean().ceil() * sizes.count() as f64).sum();
    let ratios: Vec<f64> = sstables().map(|s| s.stats().compression_ratio).filter(|r| *r > 0.0).collect();
    let bytes_of = |is_meant: &dyn Fn(&SsTable) -> bool| -> u64 {
        sstables().filter(|s| is_meant(s)).map(|s| s.data_bytes()).sum()
    };
    let is_pending = |s: &SsTable| s.stats().pending_repair.is_some();
    let is_repaired = |s: &SsTable| s.stats().repaired_at_ms > 0 && !is_pending(s);
    let compaction = &schema.options.compaction;
    let has_levels = compaction.short_class() == "LeveledCompactionStrategy";
    let (levels, level_bytes) = if has_levels { levels(&view.sstables) } else { Default::default() };
    TableReport {
        sstables: stats.sstables,
        sstable_bytes_max: sstables().map(|sstable| sstable.disk_bytes()).max().unwrap_or(0),
        sstable_duration_millis_max: sstables().map(|s| duration_millis(s.stats())).max().unwrap_or(0),
        live_bytes: stats.disk_bytes,
        compression_ratio: (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64),
        partitions: stats.partitions_estimated + stats.memtable_partitions,
        memtable_bytes: stats.memtable_bytes,
        memtable_data_bytes: stats.memtable_data_bytes,
        memtable_operations: stats.memtable_operations,
        memtable_switches: stats.memtable_switches,
        pending_flushes: stats.flushing_memtables,
        bloom_bytes: stats.filter_bytes,
        index_summary_bytes: sstables().map(|s| s.index_memory_bytes() as u64).sum(),
        chunk_offsets_bytes: sstables().map(|s| s.chunk_offsets_bytes() as u64).sum(),
        partition_min_bytes: sizes().map(|sizes| sizes.min().max(0) as u64).min().unwrap_or(0),
        partition_max_bytes: sizes().map(|sizes| sizes.max().max(0) as u64).max().unwrap_or(0),
        partition_mean_bytes: if partitions > 0 { (partition_bytes / partitions as f64) as u64 } else { 0 },
        old_sstables: sstables().filter(|s| s.descriptor().version != engine.sstable_version()).count()
            as u64,
        repaired_bytes: bytes_of(&is_repaired),
        pending_repair_bytes: bytes_of(&is_pending),
        unrepaired_bytes: bytes_of(&|s| !is_repaired(s) && !is_pending(s)),
        droppable_tombstone_ratio: droppable_ratio(&view.sstables, engine, schema.options.gc_grace_seconds),
        time_window: (compaction.short_class() == "TimeWindowCompactionStrategy").then(|| {
            let option = |name: &str, default: &str| {
                compaction.options.get(name).cloned().unwrap_or_else(|| default.to_owned())
            };
            format!("{} {}", option("compaction_window_size", "1"), option("compaction_window_unit", "DAYS"))
        }),
        levels,
        level_bytes,
        reads: stats.reads,
        writes: stats.writes,
        keyspace: stats.keyspace,
        table: stats.table,
        ..TableReport::default()
    }
}

/// Time between the oldest and the newest write of an SSTable.
fn duration_millis(stats: &sstable::statistics::Stats) -> u64 {
    u64::try_from(stats.max_timestamp.saturating_sub(stats.min_timestamp)).unwrap_or(0) / 1_000
}

/// SSTables of each level, and bytes of their Data.db.
fn levels(sstables: &[std::sync::Arc<SsTable>]) -> (Vec<u64>, Vec<u64>) {
    let (mut counts, mut bytes) = (vec![0; LEVELS], vec![0; LEVELS]);
    for sstable in sstables {
        let level = usize::try_from(sstable.stats().level).unwrap_or(0);
        if let (Some(count), Some(bytes)) = (counts.get_mut(level), bytes.get_mut(level)) {
            *count += 1;
            *bytes += sstable.data_file_bytes();
        }
    }
    (counts, bytes)
}

/// Tombstones whose grace is over, for each cell (Cassandra: `ColumnFamilyStore.getDroppableTombstoneRatio`).
fn droppable_ratio(sstables: &[std::sync::Arc<SsTable>], engine: &Engine, gc_grace_s: i32) -> f64 {
    let before = engine.env().now_seconds() - i64::from(gc_grace_s);
    let before = u32::try_from(before).unwrap_or(0);
    let droppable: f64 = sstables.iter().map(|s| s.stats().tombstones.count_until(before) as f64).sum();
    let cells = |s: &SsTable| {
        let cells = &s.stats().cells_per_partition;
        cells.mean().ceil() * cells.count() as f64
    };
    let cells: f64 = sstables.iter().map(|s| cells(s)).sum();
    if cells > 0.0 { droppable / cells } else { 0.0 }
}
