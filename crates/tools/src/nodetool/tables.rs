//! What tables hold and how they are read.

use super::tablestats::{self, TablestatsArgs};
use super::{Failure, PERCENTILES, Show, selection, silently, silently_of_tables, usage};
use crate::api::{Percentiles, TableHistograms};
use clap::Subcommand;
use std::fmt::Write;

/// Verbs about what tables hold and how they are read.
#[derive(Debug, Subcommand)]
pub(super) enum TableVerb {
    /// Flush one or more tables
    Flush {
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
    },
    /// Refresh system.size_estimates
    Refreshsizeestimates,
    /// Print statistics on tables
    #[command(visible_alias = "cfstats")]
    Tablestats(TablestatsArgs),
    /// Print statistic histograms for a given table
    #[command(visible_alias = "cfhistograms")]
    Tablehistograms {
        /// The keyspace and table name: KEYSPACE TABLE, or KEYSPACE.TABLE
        names: Vec<String>,
    },
}

impl TableVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        match self {
            TableVerb::Flush { keyspace_tables } => {
                silently_of_tables(client.post("/api/v1/flush", &selection(keyspace_tables)))
            }
            TableVerb::Refreshsizeestimates => silently(client.post("/api/v1/estimates/refresh", &())),
            TableVerb::Tablestats(args) => tablestats::run(show, args),
            TableVerb::Tablehistograms { names } => tablehistograms(show, names),
        }
    }
}

fn tablehistograms(show: &Show<'_>, names: &[String]) -> Result<String, Failure> {
    let named = match names {
        [] => None,
        [keyspace, table] => Some((keyspace.as_str(), table.as_str())),
        [both] => match both.split_once('.').filter(|(_, table)| !table.contains('.')) {
            None => return usage("tablehistograms requires keyspace and table name arguments"),
            named => named,
        },
        _ => {
            return usage("tablehistograms requires <keyspace> <table> or <keyspace.table> format argument.");
        }
    };
    if let Some((keyspace, "")) = named {
        return usage(&format!("Unknown table {keyspace}."));
    }
    let query = named.map_or_else(Vec::new, |(k, t)| vec![("keyspace", k), ("tables", t)]);
    show.get("/api/v1/tables/histograms", &query, |found: &Vec<_>| histograms_text(found))
}

/// `tablehistograms`: the columns of Cassandra's nodetool in its layout, and behind them what a read of the
/// table took from the disk and how many tombstones it met.
pub(super) fn histograms_text(tables: &[TableHistograms]) -> String {
    let mut out = String::new();
    for table in tables {
        let sizes = (table.partition_bytes, table.partition_cells);
        if sizes.0.is_none() || sizes.1.is_none() {
            out.push_str(
                "No SSTables exists, unable to calculate 'Partition Size' and 'Cell Count' percentiles\n",
            );
        }
        let _ = writeln!(out, "{}/{} histograms", table.keyspace, table.table);
        let mut line = |name: &str, cells: [String; 8]| {
            let _ = write!(out, "{name:<10}");
            for cell in cells {
                let _ = write!(out, "{cell:>18}");
            }
            out.push('\n');
        };
        for [name, cells @ ..] in [
            [
                "Percentile",
                "Read Latency",
                "Write Latency",
                "SSTables",
                "Partition Size",
                "Cell Count",
                "Disk I/Os",
                "Amplification",
                "Tombstones",
            ],
            ["", "(micros)", "(micros)", "", "(bytes)", "", "", "(read/answered)", ""],
        ] {
            line(name, cells.map(str::to_owned));
        }
        for (name, of) in PERCENTILES {
            let exact = |percentiles: &Percentiles| format!("{:.2}", of(percentiles));
            let size = |sizes: &Option<Percentiles>| format!("{:.0}", sizes.as_ref().map_or(f64::NAN, of));
            let cells = [
                exact(&table.read_micros),
                exact(&table.write_micros),
                exact(&table.sstables_per_read),
                size(&sizes.0),
                size(&sizes.1),
                exact(&table.ios_per_read),
                exact(&table.read_amplification),
                exact(&table.tombstones_per_read),
            ];
            line(name, cells);
        }
        out.push('\n');
    }
    out
}
