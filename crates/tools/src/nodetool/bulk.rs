//! Verbs about bulk reads, which Cassandra has not.

use super::{Failure, Show, cells, number, silently, usage};
use crate::api::{BulkStats, Throughput};
use crate::format::{bytes, columns};
use clap::Subcommand;

/// The verbs.
#[derive(Debug, Subcommand)]
pub(super) enum BulkVerb {
    /// Print the bulk reads under way, and what all came to: Flight, exports, SQL (a verb of Ilion's)
    Bulkstats {
        /// Display bytes in human readable form, i.e. KiB, MiB, GiB, TiB
        #[arg(short = 'H', long)]
        human_readable: bool,
    },
    /// Print the MiB/s throughput cap for bulk reads (a verb of Ilion's)
    Getbulkthroughput,
    /// Set the MiB/s throughput cap for bulk reads, or 0 to disable throttling (a verb of Ilion's)
    Setbulkthroughput {
        /// Value in MiB, 0 to disable throttling
        bulk_throughput: Option<String>,
    },
}

impl BulkVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        match self {
            BulkVerb::Bulkstats { human_readable } => {
                show.get("/api/v1/bulk", &[], |stats| bulk_text(stats, *human_readable))
            }
            BulkVerb::Getbulkthroughput => show.get("/api/v1/bulk", &[], |stats: &BulkStats| {
                format!("Current bulk throughput: {} MB/s\n", stats.mebibytes_per_second)
            }),
            BulkVerb::Setbulkthroughput { bulk_throughput } => {
                let Some(text) = bulk_throughput else {
                    return usage("Required parameters are missing: bulk_throughput");
                };
                let limit = Throughput { mebibytes_per_second: number("bulk_throughput", text, "Integer")? };
                silently(show.client.put("/api/v1/bulk/throughput", &limit))
            }
        }
    }
}

/// `bulkstats`.
fn bulk_text(stats: &BulkStats, human_readable: bool) -> String {
    let limit = match stats.mebibytes_per_second {
        0 => "none".to_owned(),
        limit => format!("{limit} MiB/s"),
    };
    let mut out = format!(
        "Scans: {}\nFailed scans: {}\nRows: {}\nBytes: {}\nLimit: {limit}\n",
        stats.scans,
        stats.failures,
        stats.rows,
        bytes(stats.bytes, human_readable)
    );
    if stats.running.is_empty() {
        return out;
    }
    let head = ["id", "keyspace", "table", "asked_by", "after", "through", "seconds", "rows", "bytes", "of"];
    let mut rows = vec![cells(&head)];
    for scan in &stats.running {
        let token = |token: Option<i64>| token.map_or_else(|| "-".to_owned(), |token| token.to_string());
        rows.push(vec![
            scan.id.to_string(),
            scan.keyspace.clone(),
            scan.table.clone(),
            scan.asked_by.clone(),
            token(scan.after),
            token(scan.through),
            format!("{:.1}", scan.seconds),
            scan.rows.to_string(),
            bytes(scan.bytes, human_readable),
            bytes(scan.bytes_estimate, human_readable),
        ]);
    }
    out.push('\n');
    out.push_str(&columns(&rows, " "));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::BulkScan;

    #[test]
    fn scans_are_printed_below_the_totals() {
        let scan = BulkScan {
            id: 7,
            keyspace: "ks".into(),
            table: "t".into(),
            through: Some(-5),
            ..BulkScan::default()
        };
        let mut stats =
            BulkStats { scans: 9, rows: 3, bytes: 2 << 20, running: vec![scan], ..BulkStats::default() };
        let text = bulk_text(&stats, true);
        assert!(
            text.starts_with("Scans: 9\nFailed scans: 0\nRows: 3\nBytes: 2 MiB\nLimit: none\n\nid"),
            "{text}"
        );
        assert_eq!(text.lines().count(), 8);
        stats.running.clear();
        stats.mebibytes_per_second = 5;
        assert!(bulk_text(&stats, false).ends_with("Bytes: 2097152\nLimit: 5 MiB/s\n"));
    }
}
