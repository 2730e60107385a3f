//! What `--once` and `--json` print: the same figures, without a screen.

use super::app::{TableColumn, bands_text};
use super::rates::Interval;
use super::scans::Scans;
use super::text;
use crate::api::HeatColumns;
use crate::format::columns;
use serde::Serialize;

/// Characters of the longest bar.
const BAR_MAX: u64 = 40;

/// One interval for scripts.
#[derive(Debug, Serialize)]
struct Line<'a> {
    address: &'a str,
    cluster: &'a str,
    #[serde(flatten)]
    interval: &'a Interval,
    heat: &'a HeatColumns,
    /// Null where the node was built without bulk reads.
    scans: &'a Option<Scans>,
}

/// One line of JSON.
pub(super) fn json(
    address: &str,
    cluster: &str,
    interval: &Interval,
    heat: &HeatColumns,
    scans: &Option<Scans>,
) -> String {
    let line = Line { address, cluster, interval, heat, scans };
    match serde_json::to_string(&line) {
        Ok(text) => text + "\n",
        // Names and numbers always are JSON.
        Err(error) => format!("{{\"error\":\"{error}\"}}\n"),
    }
}

/// The tables with reads and a line for all, then how many reads of which latency there were, then the bulk
/// reads under way.
pub(super) fn text(interval: &Interval, heat: &HeatColumns, scans: &Option<Scans>) -> String {
    let titles = TableColumn::ALL.iter().map(|column| column.title().to_owned()).collect();
    let of = |rates| TableColumn::ALL.iter().map(|column| column.text(rates)).collect::<Vec<_>>();
    let mut busy: Vec<_> = interval.tables.iter().filter(|table| table.reads > 0).collect();
    busy.sort_by_key(|table| std::cmp::Reverse(table.reads));
    let mut rows: Vec<Vec<String>> = vec![titles, of(&interval.all)];
    rows.extend(busy.into_iter().map(of));
    let mut out = trimmed(&columns(&rows, "  "));
    let sums: Vec<u64> = (0..heat.bands.len())
        .map(|band| heat.counts.iter().filter_map(|c| c.get(band)).map(|n| u64::from(*n)).sum())
        .collect();
    let max = sums.iter().copied().max().unwrap_or(0).max(1);
    out.push_str(&format!("\nreads of the last {} seconds by latency\n", heat.counts.len()));
    let row = |(band, sum): (usize, &u64)| {
        // A bar for every band that has a read.
        let bar = (sum * BAR_MAX).div_ceil(max) as usize;
        vec![bands_text(&(band..=band), &heat.bands), text::number(*sum as f64), "#".repeat(bar)]
    };
    let used = sums.iter().enumerate().filter(|(_, sum)| **sum > 0);
    out.push_str(&trimmed(&columns(&used.map(row).collect::<Vec<_>>(), "  ")));
    if let Some(scans) = scans.as_ref().filter(|scans| !scans.tables.is_empty()) {
        out.push_str(&format!("\n{}\n", scans.title()));
        scans.tables.iter().for_each(|table| out.push_str(&format!("{}\n", table.line())));
    }
    out
}

/// Without spaces at the ends of lines.
fn trimmed(lines: &str) -> String {
    lines.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rates::Rates;
    use super::super::scans::TableScans;
    use super::*;
    use crate::api::Band;

    fn interval() -> Interval {
        let table = |table: &str, reads: u64| Rates {
            keyspace: "ks".to_owned(),
            table: table.to_owned(),
            reads,
            reads_per_second: reads as f64,
            p50_micros: Some(50),
            hit_ratio: Some(0.5),
            ..Rates::default()
        };
        let all = Rates { keyspace: String::new(), ..table("", 12) };
        Interval { seconds: 1.0, all, tables: vec![table("few", 2), table("none", 0), table("many", 10)] }
    }

    fn heat() -> HeatColumns {
        let bands = vec![
            Band { from_micros: 0, to_micros: Some(20) },
            Band { from_micros: 20, to_micros: Some(50) },
            Band { from_micros: 50, to_micros: None },
        ];
        HeatColumns { bands, last_second: 100, counts: vec![vec![0, 79, 1], vec![0, 1, 0]] }
    }

    #[test]
    fn text_has_the_tables_that_were_read_and_the_bands() {
        let table =
            TableScans { keyspace: "ks".into(), table: "t".into(), splits: 2, ..TableScans::default() };
        let scans = Scans { tables: vec![table], ..Scans::default() };
        let text = text(&interval(), &heat(), &Some(scans));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("TABLE    READS/S  P50   P99  P99.9  HIT%"), "{text}");
        assert!(lines[1].starts_with("all      12       50us  -    -      50.0"), "{text}");
        assert!(lines[2].starts_with("ks.many  10"), "{text}");
        assert!(lines[3].starts_with("ks.few   2"), "{text}");
        let bar = "#".repeat(40);
        let bands = ["", "reads of the last 2 seconds by latency", &format!("20us-50us      80  {bar}")];
        assert_eq!(lines[4..7], bands);
        assert_eq!(lines[7..10], ["50us and more  1   #", "", "SCANS  0B/s, 0 rows/s, no limit"]);
        assert!(lines[10].starts_with("ks.t by : 2 splits, 0us, 0 rows"), "{text}");
        assert!(!super::text(&interval(), &heat(), &Some(Scans::default())).contains("SCANS"));
    }

    #[test]
    fn json_is_one_line() {
        let line = json("127.0.0.1:9180", "a \"cluster\"", &interval(), &heat(), &Some(Scans::default()));
        assert_eq!(line.matches('\n').count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&value["cluster"], &value["seconds"]), (&"a \"cluster\"".into(), &1.0.into()));
        assert_eq!((&value["all"]["reads"], &value["tables"][2]["table"]), (&12.into(), &"many".into()));
        assert_eq!(value["scans"]["bytes_per_second"], 0.0);
        assert_eq!(value["heat"]["counts"][0][1], 79);
        assert_eq!(value["tables"][0]["p99_micros"], serde_json::Value::Null);
    }
}
