//! From two looks at the sums of a node to what the tables did in between. Pure functions.

use crate::api::{ReadsByTable, TableReads};
use serde::Serialize;
use std::collections::BTreeMap;

/// What reads of a table, or of several, came to in an interval. Means are those of a read; what cannot be
/// said without reads is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Rates {
    /// Keyspace.
    pub(super) keyspace: String,
    /// Table.
    pub(super) table: String,
    /// Reads in the interval.
    pub(super) reads: u64,
    /// Reads in each second.
    pub(super) reads_per_second: f64,
    /// Microseconds that half of the requests did not exceed.
    pub(super) p50_micros: Option<u64>,
    /// Microseconds that 99 of 100 did not exceed.
    pub(super) p99_micros: Option<u64>,
    /// Microseconds that 999 of 1,000 did not exceed.
    pub(super) p999_micros: Option<u64>,
    /// Microseconds that none exceeded.
    pub(super) max_micros: Option<u64>,
    /// The part of all touched pages that was in memory, 0 to 1.
    pub(super) hit_ratio: Option<f64>,
    /// Bytes from the disk for each byte that was answered.
    pub(super) read_amplification: Option<f64>,
    /// SSTables that a read opened.
    pub(super) sstables: Option<f64>,
    /// Calls to the disk of a read.
    pub(super) ios: Option<f64>,
    /// Tombstones of a read.
    pub(super) tombstones: Option<f64>,
    /// Live rows of a read.
    pub(super) rows: Option<f64>,
    /// Bytes from the disk in each second.
    pub(super) disk_bytes_per_second: f64,
    /// Bytes that were answered in each second.
    pub(super) returned_bytes_per_second: f64,
}

/// What an interval came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Interval {
    /// How long it was.
    pub(super) seconds: f64,
    /// All tables together; its names are empty.
    pub(super) all: Rates,
    /// The tables, by name.
    pub(super) tables: Vec<Rates>,
}

/// What happened between two looks. A node that was started anew in between counts from its start.
pub(super) fn between(before: &ReadsByTable, now: &ReadsByTable) -> Interval {
    let is_same_run = now.uptime_millis >= before.uptime_millis;
    let since = if is_same_run { before.uptime_millis } else { 0 };
    let seconds = (now.uptime_millis - since) as f64 / 1e3;
    let earlier: BTreeMap<(&str, &str), &TableReads> = match is_same_run {
        true => before.tables.iter().map(|t| ((t.keyspace.as_str(), t.table.as_str()), t)).collect(),
        false => BTreeMap::new(),
    };
    let nothing = TableReads::default();
    let mut all = TableReads::default();
    let tables = now.tables.iter().map(|table| {
        let before = earlier.get(&(table.keyspace.as_str(), table.table.as_str())).copied();
        // Fewer reads than before: the table was dropped and made again.
        let before = before.filter(|before| before.reads <= table.reads).unwrap_or(&nothing);
        let delta = difference(table, before);
        add(&mut all, &delta);
        rates(&delta, seconds)
    });
    let tables = tables.collect();
    Interval { seconds, all: rates(&all, seconds), tables }
}

fn difference(now: &TableReads, before: &TableReads) -> TableReads {
    let mut buckets: BTreeMap<u64, u64> = now.request_buckets.iter().copied().collect();
    for (micros, count) in &before.request_buckets {
        if let Some(left) = buckets.get_mut(micros) {
            *left = left.saturating_sub(*count);
        }
    }
    TableReads {
        keyspace: now.keyspace.clone(),
        table: now.table.clone(),
        reads: now.reads.saturating_sub(before.reads),
        rows: now.rows.saturating_sub(before.rows),
        tombstones: now.tombstones.saturating_sub(before.tombstones),
        sstables: now.sstables.saturating_sub(before.sstables),
        ios: now.ios.saturating_sub(before.ios),
        disk_bytes: now.disk_bytes.saturating_sub(before.disk_bytes),
        returned_bytes: now.returned_bytes.saturating_sub(before.returned_bytes),
        page_hits: now.page_hits.saturating_sub(before.page_hits),
        page_misses: now.page_misses.saturating_sub(before.page_misses),
        request_buckets: buckets.into_iter().filter(|(_, count)| *count > 0).collect(),
    }
}

fn add(sum: &mut TableReads, other: &TableReads) {
    sum.reads += other.reads;
    sum.rows += other.rows;
    sum.tombstones += other.tombstones;
    sum.sstables += other.sstables;
    sum.ios += other.ios;
    sum.disk_bytes += other.disk_bytes;
    sum.returned_bytes += other.returned_bytes;
    sum.page_hits += other.page_hits;
    sum.page_misses += other.page_misses;
    let mut buckets: BTreeMap<u64, u64> = sum.request_buckets.iter().copied().collect();
    for (micros, count) in &other.request_buckets {
        *buckets.entry(*micros).or_default() += count;
    }
    sum.request_buckets = buckets.into_iter().collect();
}

fn rates(delta: &TableReads, seconds: f64) -> Rates {
    let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let per_second = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
    Rates {
        keyspace: delta.keyspace.clone(),
        table: delta.table.clone(),
        reads: delta.reads,
        reads_per_second: per_second(delta.reads),
        p50_micros: quantile(&delta.request_buckets, 0.5),
        p99_micros: quantile(&delta.request_buckets, 0.99),
        p999_micros: quantile(&delta.request_buckets, 0.999),
        max_micros: quantile(&delta.request_buckets, 1.0),
        hit_ratio: ratio(delta.page_hits, delta.page_hits + delta.page_misses),
        read_amplification: ratio(delta.disk_bytes, delta.returned_bytes),
        sstables: ratio(delta.sstables, delta.reads),
        ios: ratio(delta.ios, delta.reads),
        tombstones: ratio(delta.tombstones, delta.reads),
        rows: ratio(delta.rows, delta.reads),
        disk_bytes_per_second: per_second(delta.disk_bytes),
        returned_bytes_per_second: per_second(delta.returned_bytes),
    }
}

/// The limit of the first bucket at which the part `q` of all values is reached.
fn quantile(buckets: &[(u64, u64)], q: f64) -> Option<u64> {
    let count: u64 = buckets.iter().map(|(_, count)| count).sum();
    let wanted = ((count as f64 * q).ceil() as u64).max(1);
    let mut seen = 0;
    let reached = buckets.iter().find(|(_, count)| {
        seen += count;
        seen >= wanted
    });
    reached.map(|(micros, _)| *micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(table: &str, reads: u64, buckets: &[(u64, u64)]) -> TableReads {
        TableReads {
            keyspace: "ks".to_owned(),
            table: table.to_owned(),
            reads,
            sstables: reads * 2,
            ios: reads,
            disk_bytes: reads * 4_096,
            returned_bytes: reads * 1_024,
            page_hits: reads * 3,
            page_misses: reads,
            request_buckets: buckets.to_vec(),
            ..TableReads::default()
        }
    }

    fn look(uptime_millis: u64, tables: Vec<TableReads>) -> ReadsByTable {
        ReadsByTable { uptime_millis, tables }
    }

    #[test]
    fn an_interval_has_what_came_since() {
        let before = look(1_000, vec![reads("a", 100, &[(50, 100)])]);
        let now = look(3_000, vec![reads("a", 300, &[(50, 296), (900, 4)]), reads("b", 10, &[(100, 10)])]);
        let found = between(&before, &now);
        let [a, b] = found.tables.as_slice() else { panic!("{found:?}") };
        assert_eq!((found.seconds, a.reads, a.reads_per_second, b.reads_per_second), (2.0, 200, 100.0, 5.0));
        assert_eq!((a.p50_micros, a.p99_micros, a.p999_micros), (Some(50), Some(900), Some(900)));
        assert_eq!((a.hit_ratio, a.read_amplification, a.sstables), (Some(0.75), Some(4.0), Some(2.0)));
        assert_eq!((found.all.reads, found.all.p50_micros, found.all.max_micros), (210, Some(50), Some(900)));
    }

    #[test]
    fn nothing_is_said_of_no_reads() {
        let at = |uptime| look(uptime, vec![reads("a", 100, &[(50, 100)])]);
        let found = between(&at(1_000), &at(2_000));
        let a = &found.tables[0];
        assert_eq!((a.reads, a.reads_per_second, a.p50_micros), (0, 0.0, None));
        assert_eq!((a.hit_ratio, a.read_amplification, a.sstables), (None, None, None));
        assert_eq!(between(&at(1_000), &at(1_000)).all.reads_per_second, 0.0);
    }

    #[test]
    fn a_node_or_a_table_that_began_anew_counts_from_there() {
        let before = look(90_000, vec![reads("a", 100, &[(50, 100)])]);
        let restarted = between(&before, &look(2_000, vec![reads("a", 300, &[(50, 300)])]));
        assert_eq!((restarted.seconds, restarted.all.reads), (2.0, 300));
        let made_again = between(&before, &look(91_000, vec![reads("a", 7, &[(50, 7)])]));
        assert_eq!((made_again.seconds, made_again.all.reads), (1.0, 7));
    }
}
