//! The histograms of a table, for `nodetool tablehistograms` and the admin API.

use crate::histogram::Histogram;
use crate::metrics::TableMetrics;
use crate::state::NodeState;
use engine::table::TableStore;
use sstable::statistics::EstimatedHistogram;
use std::collections::BTreeMap;
use tools::api::{Percentiles, TableHistograms};

/// Of what was counted since the start, each value times `scale`.
pub fn percentiles(histogram: &Histogram, scale: f64) -> Percentiles {
    let quantile = |q| histogram.quantile(q) as f64 * scale;
    Percentiles {
        count: histogram.count(),
        p50: quantile(0.5),
        p75: quantile(0.75),
        p95: quantile(0.95),
        p98: quantile(0.98),
        p99: quantile(0.99),
        min: histogram.min() as f64 * scale,
        max: histogram.max() as f64 * scale,
    }
}

/// Of what SSTables say of their partitions; `None` without any, and for values beyond all buckets. A
/// percentile is the limit of the first bucket at which as many values are reached, rounded up
/// (Cassandra: `EstimatedHistogram`).
fn percentiles_of_sstables<'h>(
    histograms: impl Iterator<Item = &'h EstimatedHistogram>,
) -> Option<Percentiles> {
    let mut buckets: BTreeMap<i64, i64> = BTreeMap::new();
    for histogram in histograms {
        for (limit, count) in histogram.buckets().filter(|(_, count)| *count > 0) {
            *buckets.entry(limit?).or_default() += count;
        }
    }
    let count: i64 = buckets.values().sum();
    let (Some(first), Some(last)) = (buckets.first_key_value(), buckets.last_key_value()) else {
        return None;
    };
    let quantile = |q: f64| {
        let wanted = (count as f64 * q).ceil() as i64;
        let mut seen = 0;
        let reached = buckets.iter().find(|(_, n)| {
            seen += **n;
            seen >= wanted
        });
        reached.map_or(0.0, |(limit, _)| *limit as f64)
    };
    Some(Percentiles {
        count: count as u64,
        p50: quantile(0.5),
        p75: quantile(0.75),
        p95: quantile(0.95),
        p98: quantile(0.98),
        p99: quantile(0.99),
        min: smallest_of(*first.0) as f64,
        max: *last.0 as f64,
    })
}

/// The smallest value of the bucket with this limit; limits grow by a fifth.
fn smallest_of(limit: i64) -> i64 {
    let mut before = 0;
    let mut at = 1i64;
    while at < limit {
        before = at;
        at = (at + 1).max((at as f64 * 1.2 + 0.5) as i64);
    }
    if before == 0 { 0 } else { before + 1 }
}

/// The histograms of every table that was used or has SSTables.
pub fn all(state: &NodeState) -> Vec<TableHistograms> {
    let mut out: Vec<TableHistograms> = state
        .engine
        .tables()
        .iter()
        .map(|table| {
            let schema = table.schema();
            of_table(table, state.metrics.table_by_id(schema.id).as_deref())
        })
        .collect();
    out.sort_by(|a, b| (&a.keyspace, &a.table).cmp(&(&b.keyspace, &b.table)));
    out
}

fn of_table(store: &TableStore, counted: Option<&TableMetrics>) -> TableHistograms {
    let schema = store.schema();
    let view = store.view();
    let stats = || view.sstables.iter().map(|sstable| sstable.stats());
    let mut out = TableHistograms {
        keyspace: schema.keyspace.clone(),
        table: schema.name.clone(),
        partition_bytes: percentiles_of_sstables(stats().map(|s| &s.partition_sizes)),
        partition_cells: percentiles_of_sstables(stats().map(|s| &s.cells_per_partition)),
        ..TableHistograms::default()
    };
    let Some(counted) = counted else { return out };
    let of = |histogram: &Histogram| percentiles(histogram, 1.0);
    out.read_micros = percentiles(&counted.read.nanos, 1e-3);
    out.write_micros = percentiles(&counted.write.nanos, 1e-3);
    out.sstables_per_read = of(&counted.sstables_per_read);
    out.ios_per_read = of(&counted.ios_per_read);
    out.disk_bytes_per_read = of(&counted.disk_bytes_per_read);
    out.returned_bytes_per_read = of(&counted.returned_bytes_per_read);
    out.read_amplification = percentiles(&counted.read_amplification, 0.01);
    out.rows_per_read = of(&counted.rows_per_read);
    out.tombstones_per_read = of(&counted.tombstones_per_read);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_partitions_are_limits_of_buckets() {
        let mut sizes = EstimatedHistogram::partition_sizes();
        for _ in 0..100 {
            sizes.add(50);
        }
        sizes.add(100_000);
        let merged = percentiles_of_sstables([&sizes, &sizes].into_iter()).unwrap();
        assert_eq!((merged.count, merged.p50, merged.p99, merged.max), (202, 50.0, 50.0, 105_778.0));
        assert_eq!(merged.min, 43.0);
        let mut one = EstimatedHistogram::partition_sizes();
        one.add(1);
        let one = percentiles_of_sstables([&one].into_iter()).unwrap();
        assert_eq!((one.p50, one.p99, one.min, one.max), (1.0, 1.0, 0.0, 1.0));
        assert_eq!(percentiles_of_sstables(std::iter::empty()), None);
    }
}
