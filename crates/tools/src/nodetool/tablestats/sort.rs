//! What `tablestats -s` may name, and what order it means: numbers from the largest on, names from a to z.

use super::Shown;
use std::cmp::Ordering;

/// What tables are sorted by.
#[derive(Clone, Copy, Debug)]
pub(in crate::nodetool) enum SortKey {
    /// By a name.
    FullName,
    /// By the name within the keyspace.
    TableName,
    /// By a number.
    Number(fn(&Shown) -> f64),
}

/// Names in Cassandra's order. What is not here is nothing for every table.
const KEYS: [(&str, SortKey); 47] = {
    use SortKey::{FullName, Number, TableName};
    const NOTHING: SortKey = Number(|_| 0.0);
    [
        (
            "average_live_cells_per_slice_last_five_minutes",
            Number(|t| t.report.rows_per_read_mean.unwrap_or(-1.0)),
        ),
        (
            "average_tombstones_per_slice_last_five_minutes",
            Number(|t| t.report.tombstones_per_read_mean.unwrap_or(-1.0)),
        ),
        ("bloom_filter_false_positives", Number(|t| t.report.bloom_false_positives as f64)),
        ("bloom_filter_false_ratio", Number(|t| t.report.bloom_false_ratio)),
        ("bloom_filter_off_heap_memory_used", Number(|t| t.report.bloom_bytes as f64)),
        ("bloom_filter_space_used", Number(|t| t.report.bloom_bytes as f64)),
        ("compacted_partition_maximum_bytes", Number(|t| t.report.partition_max_bytes as f64)),
        ("compacted_partition_mean_bytes", Number(|t| t.report.partition_mean_bytes as f64)),
        ("compacted_partition_minimum_bytes", Number(|t| t.report.partition_min_bytes as f64)),
        ("compression_metadata_off_heap_memory_used", Number(|t| t.report.chunk_offsets_bytes as f64)),
        ("dropped_mutations", NOTHING),
        ("full_name", FullName),
        ("index_summary_off_heap_memory_used", Number(|t| t.report.index_summary_bytes as f64)),
        ("local_read_count", Number(|t| t.report.reads as f64)),
        ("local_read_latency_ms", Number(|t| t.report.read_millis.unwrap_or(-1.0))),
        ("local_write_latency_ms", Number(|t| t.report.write_millis.unwrap_or(-1.0))),
        ("maximum_live_cells_per_slice_last_five_minutes", Number(|t| t.report.rows_per_read_max as f64)),
        (
            "maximum_tombstones_per_slice_last_five_minutes",
            Number(|t| t.report.tombstones_per_read_max as f64),
        ),
        ("memtable_cell_count", Number(|t| t.report.memtable_operations as f64)),
        ("memtable_data_size", Number(|t| t.report.memtable_data_bytes as f64)),
        ("memtable_off_heap_memory_used", Number(|t| t.report.memtable_bytes as f64)),
        ("memtable_switch_count", Number(|t| t.report.memtable_switches as f64)),
        ("number_of_partitions_estimate", Number(|t| t.report.partitions as f64)),
        ("off_heap_memory_used_total", Number(|t| t.off_heap_bytes() as f64)),
        ("pending_flushes", Number(|t| t.report.pending_flushes as f64)),
        ("percent_repaired", Number(|t| t.percent_repaired())),
        ("read_latency", Number(|t| t.report.read_millis.unwrap_or(-1.0))),
        ("reads", Number(|t| t.report.reads as f64)),
        ("space_used_by_snapshots_total", Number(|t| t.snapshot_bytes as f64)),
        ("space_used_live", Number(|t| t.report.live_bytes as f64)),
        ("space_used_total", Number(|t| t.report.live_bytes as f64)),
        ("sstable_compression_ratio", Number(|t| t.report.compression_ratio.unwrap_or(-1.0))),
        ("sstable_count", Number(|t| t.report.sstables as f64)),
        ("table_name", TableName),
        ("write_latency", Number(|t| t.report.write_millis.unwrap_or(-1.0))),
        ("writes", Number(|t| t.report.writes as f64)),
        ("max_sstable_size", Number(|t| t.report.sstable_bytes_max as f64)),
        ("local_read_write_ratio", Number(|t| t.read_write_ratio())),
        ("twcs_max_duration", Number(|t| t.report.sstable_duration_millis_max as f64)),
        ("sai_local_query_latency_ms", NOTHING),
        ("sai_post_filtering_read_latency", NOTHING),
        ("sai_disk_used_bytes", NOTHING),
        ("sai_sstable_indexes_hit", NOTHING),
        ("sai_index_segments_hit", NOTHING),
        ("sai_rows_filtered", NOTHING),
        ("sai_total_query_timeouts", NOTHING),
        ("sai_total_queryable_index_ratio", NOTHING),
    ]
};

impl SortKey {
    /// The key of a name.
    pub(in crate::nodetool) fn of(name: &str) -> Option<SortKey> {
        KEYS.iter().find(|(known, _)| *known == name).map(|(_, key)| *key)
    }

    /// All names.
    pub(in crate::nodetool) fn names() -> String {
        KEYS.map(|(name, _)| name).join(", ")
    }

    /// Which of two tables comes first. Those that are alike are in the order of their names.
    pub(in crate::nodetool) fn order(self, a: &Shown, b: &Shown) -> Ordering {
        let by_name = || (&a.report.keyspace, &a.report.table).cmp(&(&b.report.keyspace, &b.report.table));
        match self {
            SortKey::FullName => by_name(),
            SortKey::TableName => a.report.table.cmp(&b.report.table).then_with(by_name),
            SortKey::Number(of) => of(b).total_cmp(&of(a)).then_with(by_name),
        }
    }
}
