//! What the reads of each table came to since the start, as sums: who asks twice has the reads in between.

use crate::metrics::{Metrics, TableMetrics};
use std::collections::BTreeMap;
use tools::api::{ReadsByTable, TableReads};

/// The reads of every table so far.
pub fn reads_by_table(metrics: &Metrics, uptime_millis: u64) -> ReadsByTable {
    let tables = metrics.tables().iter().map(|table| of_table(table)).filter(|t| t.reads > 0).collect();
    ReadsByTable { uptime_millis, tables }
}

fn of_table(counted: &TableMetrics) -> TableReads {
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    for latency in [&counted.coordinator_read, &counted.coordinator_scan] {
        for (nanos, count) in latency.nanos.buckets() {
            *buckets.entry(nanos.div_ceil(1_000)).or_default() += count;
        }
    }
    TableReads {
        keyspace: counted.keyspace.clone(),
        table: counted.table.clone(),
        reads: buckets.values().sum(),
        rows: counted.rows_per_read.sum(),
        tombstones: counted.tombstones_per_read.sum(),
        sstables: counted.sstables_per_read.sum(),
        ios: counted.ios_per_read.sum(),
        disk_bytes: counted.disk_bytes_per_read.sum(),
        returned_bytes: counted.returned_bytes_per_read.sum(),
        page_hits: counted.page_hits.get(),
        page_misses: counted.page_misses.get(),
        request_buckets: buckets.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::ReadNumbers;
    use model::{CqlType, TableSchema};
    use partition::CostSnapshot;

    #[test]
    fn reads_and_scans_are_summed_and_other_tables_left_out() {
        let metrics = Metrics::default();
        let table = |name| TableSchema::builder("ks", name, uuid::Uuid::from_u128(name.len() as u128));
        let table = |name| table(name).partition_key("k", CqlType::Int).build();
        let cost = CostSnapshot {
            sstables_read: 2,
            ios: 3,
            disk_bytes: 4_096,
            returned_bytes: 100,
            index_page_hits: 5,
            chunk_misses: 1,
            ..CostSnapshot::default()
        };
        for is_scan in [false, true] {
            let met = ReadNumbers { rows: 7, tombstones: 1, cost: &cost };
            metrics.table(&table("read")).record_read(is_scan, 1_000, 7_000, &met);
        }
        metrics.table(&table("unread")).write.record(1);
        let found = reads_by_table(&metrics, 12);
        let [of] = found.tables.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.uptime_millis, of.table.as_str(), of.reads), (12, "read", 2));
        assert_eq!((of.rows, of.tombstones, of.sstables, of.ios), (14, 2, 4, 6));
        assert_eq!((of.disk_bytes, of.returned_bytes, of.page_hits, of.page_misses), (8_192, 200, 10, 2));
        assert_eq!(of.request_buckets, [(8, 2)]);
    }
}
