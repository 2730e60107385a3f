//! The bulk reads of a node, by table: a table is read in many splits, and nobody watches each.

use super::rates::Interval;
use super::text;
use crate::api::BulkStats;
use serde::Serialize;
use std::collections::BTreeMap;

/// What bulk reads do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Scans {
    /// Bytes of SSTables that were gone over in each second, before compression.
    pub(super) bytes_per_second: f64,
    /// Rows that were made in each second.
    pub(super) rows_per_second: f64,
    /// As many bytes a second as all of them may go over; 0 for no limit.
    pub(super) limit_bytes_per_second: u64,
    /// The tables that are read, in order of their names.
    pub(super) tables: Vec<TableScans>,
}

/// The bulk reads of a table that were asked for at one place.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct TableScans {
    /// Keyspace.
    pub(super) keyspace: String,
    /// Table.
    pub(super) table: String,
    /// `flight` or `admin`.
    pub(super) asked_by: String,
    /// Splits under way.
    pub(super) splits: u64,
    /// Seconds since the oldest of them began.
    pub(super) seconds: f64,
    /// Rows so far.
    pub(super) rows: u64,
    /// About how many bytes they have gone over.
    pub(super) bytes: u64,
    /// About how many there are.
    pub(super) bytes_estimate: u64,
}

impl Scans {
    /// What happened between two looks; `None` of a node that has no bulk reads.
    pub(super) fn between(
        before: Option<&BulkStats>,
        now: Option<&BulkStats>,
        interval: &Interval,
    ) -> Option<Scans> {
        let now = now?;
        let mut tables: BTreeMap<(&str, &str, &str), TableScans> = BTreeMap::new();
        for scan in &now.running {
            let names = (scan.keyspace.as_str(), scan.table.as_str(), scan.asked_by.as_str());
            let sum = tables.entry(names).or_insert_with(|| TableScans {
                keyspace: scan.keyspace.clone(),
                table: scan.table.clone(),
                asked_by: scan.asked_by.clone(),
                ..TableScans::default()
            });
            sum.splits += 1;
            sum.seconds = sum.seconds.max(scan.seconds);
            sum.rows += scan.rows;
            sum.bytes += scan.bytes;
            sum.bytes_estimate += scan.bytes_estimate;
        }
        // A node that was started anew counts from its start.
        let since = |of: fn(&BulkStats) -> u64| {
            let before = before.map_or(0, of);
            of(now).checked_sub(before).unwrap_or(of(now)) as f64
        };
        let a_second = |count: f64| if interval.seconds > 0.0 { count / interval.seconds } else { 0.0 };
        Some(Scans {
            bytes_per_second: a_second(since(|stats| stats.bytes)),
            rows_per_second: a_second(since(|stats| stats.rows)),
            limit_bytes_per_second: now.mebibytes_per_second << 20,
            tables: tables.into_values().collect(),
        })
    }

    /// All of them in one line.
    pub(super) fn title(&self) -> String {
        let limit = match self.limit_bytes_per_second {
            0 => "no limit".to_owned(),
            limit => format!("limit {}/s", text::bytes(limit as f64)),
        };
        let (bytes, rows) = (text::bytes(self.bytes_per_second), text::number(self.rows_per_second.round()));
        format!("SCANS  {bytes}/s, {rows} rows/s, {limit}")
    }
}

impl TableScans {
    /// One table in one line.
    pub(super) fn line(&self) -> String {
        let splits = if self.splits == 1 { "split" } else { "splits" };
        format!(
            "{}.{} by {}: {} {splits}, {}, {} rows, {} of about {}",
            self.keyspace,
            self.table,
            self.asked_by,
            self.splits,
            text::duration((self.seconds * 1e6) as u64),
            text::number(self.rows as f64),
            text::bytes(self.bytes as f64),
            text::bytes(self.bytes_estimate as f64),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::BulkScan;

    fn scan(table: &str, asked_by: &str, seconds: f64) -> BulkScan {
        BulkScan {
            keyspace: "shop".into(),
            table: table.into(),
            asked_by: asked_by.into(),
            seconds,
            rows: 1000,
            bytes: 1 << 20,
            bytes_estimate: 4 << 20,
            ..BulkScan::default()
        }
    }

    #[test]
    fn splits_of_a_table_are_one_line() {
        let before = BulkStats { rows: 1000, bytes: 10 << 20, ..BulkStats::default() };
        let now = BulkStats {
            rows: 3000,
            bytes: 30 << 20,
            mebibytes_per_second: 5,
            running: vec![scan("t", "flight", 2.0), scan("s", "admin", 0.5), scan("t", "flight", 1.0)],
            ..BulkStats::default()
        };
        let interval = Interval { seconds: 2.0, ..Interval::default() };
        let scans = Scans::between(Some(&before), Some(&now), &interval).unwrap();
        assert_eq!(scans.title(), "SCANS  10.0M/s, 1.00k rows/s, limit 5.00M/s");
        let lines: Vec<String> = scans.tables.iter().map(TableScans::line).collect();
        assert_eq!(
            lines,
            [
                "shop.s by admin: 1 split, 500ms, 1.00k rows, 1.00M of about 4.00M",
                "shop.t by flight: 2 splits, 2.00s, 2.00k rows, 2.00M of about 8.00M"
            ]
        );
    }

    #[test]
    fn a_node_that_was_started_anew_counts_from_its_start() {
        let before = BulkStats { rows: 1000, bytes: 10 << 20, ..BulkStats::default() };
        let now = BulkStats { rows: 10, bytes: 20, ..BulkStats::default() };
        let interval = Interval { seconds: 1.0, ..Interval::default() };
        let scans = Scans::between(Some(&before), Some(&now), &interval).unwrap();
        assert_eq!((scans.bytes_per_second, scans.rows_per_second), (20.0, 10.0));
        assert_eq!(Scans::between(None, None, &interval), None);
        assert_eq!(Scans::between(None, Some(&now), &Interval::default()).unwrap().bytes_per_second, 0.0);
    }
}
