//! What tables hold and how they are read.

use super::{Failure, Show, selection, silently, usage};
use crate::api::{Percentiles, TableHistograms, TableReport};
use crate::format::{bytes, pretty_bytes};
use clap::Subcommand;
use std::collections::BTreeMap;
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
    Tablestats {
        /// List of tables (or keyspace) names
        tables: Vec<String>,
        /// Display bytes in human readable form, i.e. KiB, MiB, GiB, TiB
        #[arg(short = 'H', long)]
        human_readable: bool,
    },
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
                silently(client.post("/api/v1/flush", &selection(keyspace_tables)))
            }
            TableVerb::Refreshsizeestimates => silently(client.post("/api/v1/estimates/refresh", &())),
            TableVerb::Tablestats { tables, human_readable } => tablestats(show, tables, *human_readable),
            TableVerb::Tablehistograms { names } => tablehistograms(show, names),
        }
    }
}

fn tablestats(show: &Show<'_>, names: &[String], human: bool) -> Result<String, Failure> {
    let mut stats: Vec<TableReport> = Vec::new();
    if names.is_empty() {
        stats = show.client.get("/api/v1/tables", &[])?;
    }
    for name in names {
        let query = match name.split_once('.') {
            Some((keyspace, table)) => vec![("keyspace", keyspace), ("tables", table)],
            None => vec![("keyspace", name.as_str())],
        };
        let found: Vec<TableReport> = show.client.get("/api/v1/tables", &query)?;
        stats.extend(found);
    }
    let total = stats.len();
    show.print(&stats, |stats| tables_text(stats, total, human))
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

/// `tablestats`.
pub(super) fn tables_text(stats: &[TableReport], total: usize, human: bool) -> String {
    let mut by_keyspace: BTreeMap<&str, Vec<&TableReport>> = BTreeMap::new();
    for table in stats {
        by_keyspace.entry(&table.keyspace).or_default().push(table);
    }
    let mut out = format!("Total number of tables: {total}\n----------------\n");
    for (keyspace, tables) in by_keyspace {
        let _ = writeln!(out, "Keyspace: {keyspace}");
        let sum = |of: &dyn Fn(&TableReport) -> u64| tables.iter().map(|t| of(t)).sum::<u64>();
        let mean = |count: u64, of: &dyn Fn(&TableReport) -> (u64, Option<f64>)| match count {
            0 => "NaN".to_owned(),
            count => {
                let time: f64 =
                    tables.iter().map(|t| of(t)).map(|(n, ms)| n as f64 * ms.unwrap_or(0.0)).sum();
                format!("{:?}", time / count as f64)
            }
        };
        let (reads, writes) = (sum(&|t| t.reads), sum(&|t| t.writes));
        let _ = writeln!(out, "\tRead Count: {reads}");
        let _ = writeln!(out, "\tRead Latency: {} ms", mean(reads, &|t| (t.reads, t.read_millis)));
        let _ = writeln!(out, "\tWrite Count: {writes}");
        let _ = writeln!(out, "\tWrite Latency: {} ms", mean(writes, &|t| (t.writes, t.write_millis)));
        let _ = writeln!(out, "\tPending Flushes: {}", sum(&|t| t.pending_flushes));
        for table in tables {
            table_lines(&mut out, table, human);
        }
        out.push_str("----------------\n");
    }
    out
}

fn table_lines(out: &mut String, table: &TableReport, human: bool) {
    let mut line = |name: &str, value: String| {
        let _ = writeln!(out, "\t\t{name}: {value}");
    };
    let millis = |value: Option<f64>| value.map_or_else(|| "NaN".to_owned(), |ms| format!("{ms:.3}"));
    line("Table", table.table.clone());
    line("SSTable count", table.sstables.to_string());
    line("Old SSTable count", "0".to_owned());
    line("Max SSTable size", pretty_bytes(table.sstable_bytes_max));
    line("Space used (live)", bytes(table.live_bytes, human));
    line("Space used (total)", bytes(table.live_bytes, human));
    let off_heap = table.bloom_bytes + table.index_summary_bytes;
    line("Off heap memory used (total)", bytes(off_heap, human));
    line("SSTable Compression Ratio", format!("{:.5}", table.compression_ratio.unwrap_or(-1.0)));
    line("Number of partitions (estimate)", table.partitions.to_string());
    line("Memtable cell count", table.memtable_writes.to_string());
    line("Memtable data size", bytes(table.memtable_bytes, human));
    line("Local read count", table.reads.to_string());
    line("Local read latency", format!("{} ms", millis(table.read_millis)));
    line("Local write count", table.writes.to_string());
    line("Local write latency", format!("{} ms", millis(table.write_millis)));
    let ratio = if table.writes == 0 { 0.0 } else { table.reads as f64 / table.writes as f64 };
    line("Local read/write ratio", format!("{ratio:.5}"));
    line("Pending flushes", table.pending_flushes.to_string());
    line("Bloom filter space used", bytes(table.bloom_bytes, human));
    line("Index summary off heap memory used", bytes(table.index_summary_bytes, human));
    line("Compacted partition maximum bytes", table.partition_max_bytes.to_string());
    line("Compacted partition mean bytes", table.partition_mean_bytes.to_string());
    out.push('\n');
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
        type Of = fn(&Percentiles) -> f64;
        let lines: [(&str, Of); 7] = [
            ("50%", |p| p.p50),
            ("75%", |p| p.p75),
            ("95%", |p| p.p95),
            ("98%", |p| p.p98),
            ("99%", |p| p.p99),
            ("Min", |p| p.min),
            ("Max", |p| p.max),
        ];
        for (name, of) in lines {
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
