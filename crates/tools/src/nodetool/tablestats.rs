//! `tablestats`: its arguments, which tables are shown in which order, and the lines of each. A line has a
//! label for people and a key for programs, and stands in one list for text, JSON and YAML alike.

mod sort;

use super::{Failure, Show, usage};
use crate::api::{SnapshotEntry, TableReport};
use crate::format::{bytes, duration_words, pretty_bytes};
use crate::structured::{Format, print};
use clap::Args;
use serde_json::{Map, Value, json};
use sort::SortKey;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Arguments of `tablestats`.
#[derive(Debug, Args)]
pub(super) struct TablestatsArgs {
    /// List of tables (or keyspace) names
    tables: Vec<String>,
    /// Output format (json, yaml)
    #[arg(short = 'F', long, default_value = "")]
    format: String,
    /// Display bytes in human readable form, i.e. KiB, MiB, GiB, TiB
    #[arg(short = 'H', long)]
    human_readable: bool,
    /// Ignore the list of tables and display the remaining tables
    #[arg(short = 'i')]
    ignore: bool,
    /// Check whether or not the SSTables are in the correct location
    #[arg(short = 'l', long)]
    sstable_location_check: bool,
    /// Sort tables by specified sort key
    #[arg(short = 's', long, default_value = "", hide_default_value = true)]
    sort: String,
    /// Show only the top K tables for the sort key (specify the number K of tables to be shown
    #[arg(short = 't', long, default_value_t = 0, allow_negative_numbers = true, hide_default_value = true)]
    top: i64,
}

/// A table with what else is known of it.
pub(super) struct Shown {
    pub(super) report: TableReport,
    pub(super) snapshot_bytes: u64,
}

impl Shown {
    /// All memory is outside of a Java heap.
    fn off_heap_bytes(&self) -> u64 {
        let t = &self.report;
        t.memtable_bytes + t.bloom_bytes + t.index_summary_bytes + t.chunk_offsets_bytes
    }

    fn percent_repaired(&self) -> f64 {
        let t = &self.report;
        match t.repaired_bytes + t.unrepaired_bytes + t.pending_repair_bytes {
            0 => 100.0,
            all => (t.repaired_bytes as f64 / all as f64 * 10_000.0).round() / 100.0,
        }
    }

    fn read_write_ratio(&self) -> f64 {
        if self.report.writes == 0 { 0.0 } else { self.report.reads as f64 / self.report.writes as f64 }
    }
}

/// How lines are written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Style {
    pub(super) human: bool,
    pub(super) tells_location: bool,
}

/// A line about a table.
struct Line {
    label: &'static str,
    key: &'static str,
    text: String,
    value: Value,
}

/// Runs it; the text is what it prints.
pub(super) fn run(show: &Show<'_>, args: &TablestatsArgs) -> Result<String, Failure> {
    let format = match Format::of(&args.format) {
        Ok(format) => format,
        Err(message) => return usage(message),
    };
    let sort = match args.sort.as_str() {
        "" if args.top > 0 => return usage("cannot filter top K tables without specifying a sort key."),
        "" => None,
        name => match SortKey::of(name) {
            Some(key) => Some((name, key)),
            None => return usage(&format!("argument for sort must be one of: {}", SortKey::names())),
        },
    };
    let Ok(top) = usize::try_from(args.top) else {
        return usage("argument for top must be a positive integer.");
    };
    let all: Vec<TableReport> = show.client.get("/api/v1/tables", &[])?;
    let chosen = choose(all, &args.tables, args.ignore)?;
    if show.json {
        return show.print(&chosen, |_| String::new());
    }
    let snapshots: Vec<SnapshotEntry> = show.client.get("/api/v1/snapshots", &[])?;
    let mut shown: Vec<Shown> = chosen.into_iter().map(|report| with_snapshots(report, &snapshots)).collect();
    let style = Style { human: args.human_readable, tells_location: args.sstable_location_check };
    let Some((name, key)) = sort else {
        return Ok(match format {
            None => tables_text(&shown, style),
            Some(format) => print(&by_keyspace(&shown, style), format),
        });
    };
    let total = shown.len();
    shown.sort_by(|a, b| key.order(a, b));
    let is_cut = top > 0 && top < total;
    if is_cut {
        shown.truncate(top);
    }
    Ok(match format {
        None => sorted_text(&shown, total, is_cut.then_some((top, name)), style),
        Some(format) => print(&by_name(&shown, style), format),
    })
}

fn with_snapshots(report: TableReport, snapshots: &[SnapshotEntry]) -> Shown {
    let own = snapshots.iter().filter(|s| s.keyspace == report.keyspace && s.table == report.table);
    Shown { snapshot_bytes: own.map(|s| s.true_bytes).sum(), report }
}

/// The tables that `names` name, or all others.
pub(super) fn choose(
    mut all: Vec<TableReport>,
    names: &[String],
    ignore: bool,
) -> Result<Vec<TableReport>, Failure> {
    let split = |name: &str| match name.split_once('.') {
        Some((keyspace, table)) => (keyspace.to_owned(), Some(table.to_owned())),
        None => (name.to_owned(), None),
    };
    let named: Vec<(String, Option<String>)> = names.iter().map(|name| split(name)).collect();
    for (keyspace, table) in &named {
        if !all.iter().any(|report| report.keyspace == *keyspace) {
            return Err(Failure::Usage(format!("Unknown keyspace: {keyspace}")));
        }
        let is_table = |table: &String| all.iter().any(|r| r.keyspace == *keyspace && r.table == *table);
        if let Some(table) = table.as_ref().filter(|table| !is_table(table)) {
            return Err(Failure::Usage(format!("Unknown tables: [{table}] in keyspace: {keyspace}")));
        }
    }
    if !named.is_empty() {
        let is_named = |report: &TableReport| {
            let means = |table: &Option<String>| table.as_ref().is_none_or(|table| *table == report.table);
            named.iter().any(|(keyspace, table)| *keyspace == report.keyspace && means(table))
        };
        all.retain(|report| is_named(report) != ignore);
    }
    Ok(all)
}

/// As text, by keyspace.
pub(super) fn tables_text(shown: &[Shown], style: Style) -> String {
    let mut out = format!("Total number of tables: {}\n----------------\n", shown.len());
    for (keyspace, tables) in keyspaces(shown) {
        let _ = writeln!(out, "Keyspace: {keyspace}");
        let sums = Sums::of(&tables);
        let millis = |mean: Option<f64>| mean.map_or_else(|| "NaN".to_owned(), |ms| format!("{ms:?}"));
        let _ = writeln!(out, "\tRead Count: {}", sums.reads);
        let _ = writeln!(out, "\tRead Latency: {} ms", millis(sums.read_millis));
        let _ = writeln!(out, "\tWrite Count: {}", sums.writes);
        let _ = writeln!(out, "\tWrite Latency: {} ms", millis(sums.write_millis));
        let _ = writeln!(out, "\tPending Flushes: {}", sums.pending_flushes);
        for table in tables {
            let _ = writeln!(out, "\t\tTable: {}", table.report.table);
            lines_text(&mut out, "\t\t", table, style);
        }
        out.push_str("----------------\n");
    }
    out
}

/// As text, in the order in which they are.
pub(super) fn sorted_text(shown: &[Shown], total: usize, cut: Option<(usize, &str)>, style: Style) -> String {
    let cut = cut.map_or_else(String::new, |(top, key)| format!(" (showing top {top} by {key})"));
    let mut out = format!("Total number of tables: {total}{cut}\n----------------\n");
    for table in shown {
        let _ = writeln!(out, "\tTable: {}.{}", table.report.keyspace, table.report.table);
        lines_text(&mut out, "\t", table, style);
    }
    out.push_str("----------------\n");
    out
}

fn lines_text(out: &mut String, indent: &str, table: &Shown, style: Style) {
    for Line { label, text, .. } in lines(table, style) {
        let _ = writeln!(out, "{indent}{label}: {text}");
    }
    out.push('\n');
}

fn keyspaces(shown: &[Shown]) -> BTreeMap<&str, Vec<&Shown>> {
    let mut out: BTreeMap<&str, Vec<&Shown>> = BTreeMap::new();
    for table in shown {
        out.entry(&table.report.keyspace).or_default().push(table);
    }
    out
}

/// What the tables of a keyspace come to.
struct Sums {
    reads: u64,
    writes: u64,
    pending_flushes: u64,
    read_millis: Option<f64>,
    write_millis: Option<f64>,
}

impl Sums {
    fn of(tables: &[&Shown]) -> Sums {
        let sum = |of: &dyn Fn(&TableReport) -> u64| tables.iter().map(|t| of(&t.report)).sum::<u64>();
        let mean = |count: u64, of: &dyn Fn(&TableReport) -> (u64, Option<f64>)| {
            let times = tables.iter().map(|t| of(&t.report)).map(|(n, ms)| n as f64 * ms.unwrap_or(0.0));
            (count > 0).then(|| times.sum::<f64>() / count as f64)
        };
        let (reads, writes) = (sum(&|t| t.reads), sum(&|t| t.writes));
        Sums {
            reads,
            writes,
            pending_flushes: sum(&|t| t.pending_flushes),
            read_millis: mean(reads, &|t| (t.reads, t.read_millis)),
            write_millis: mean(writes, &|t| (t.writes, t.write_millis)),
        }
    }
}

/// For programs, by keyspace.
fn by_keyspace(shown: &[Shown], style: Style) -> Value {
    let mut out = Map::new();
    out.insert("total_number_of_tables".to_owned(), json!(shown.len()));
    for (keyspace, tables) in keyspaces(shown) {
        let sums = Sums::of(&tables);
        let of_tables: Map<String, Value> =
            tables.iter().map(|table| (table.report.table.clone(), values(table, style))).collect();
        let value = json!({
            "read_count": sums.reads,
            "read_latency": sums.read_millis,
            "read_latency_ms": sums.read_millis,
            "write_count": sums.writes,
            "write_latency_ms": sums.write_millis,
            "pending_flushes": sums.pending_flushes,
            "tables": of_tables,
        });
        out.insert(keyspace.to_owned(), value);
    }
    Value::Object(out)
}

/// For programs, sorted: one entry a table.
fn by_name(shown: &[Shown], style: Style) -> Value {
    let named = |table: &Shown| format!("{}.{}", table.report.keyspace, table.report.table);
    Value::Object(shown.iter().map(|table| (named(table), values(table, style))).collect())
}

fn values(table: &Shown, style: Style) -> Value {
    let mut out: Map<String, Value> =
        lines(table, style).into_iter().map(|line| (line.key.to_owned(), line.value)).collect();
    for key in ["sstables_in_each_level", "sstable_bytes_in_each_level"] {
        out.entry(key).or_insert_with(|| json!([]));
    }
    out.entry("twcs").or_insert(Value::Null);
    Value::Object(out)
}

/// How many SSTables a level holds, and how many it may hold where these are too many.
fn level_text(level: usize, count: u64) -> String {
    let most = if level == 0 { 4 } else { 10u64.saturating_pow(level as u32) };
    if count > most { format!("{count}/{most}") } else { count.to_string() }
}

/// The lines of a table in Cassandra's order.
fn lines(shown: &Shown, style: Style) -> Vec<Line> {
    let t = &shown.report;
    let mut out = Vec::new();
    let mut line = |label, key, text: String, value| out.push(Line { label, key, text, value });
    let millis = |value: Option<f64>| value.map_or_else(|| "NaN".to_owned(), |ms| format!("{ms:.3}"));
    macro_rules! lines {
        ($($kind:ident $label:literal $key:literal $value:expr;)+) => {$( lines!(@$kind $label $key $value); )+};
        (@number $label:literal $key:literal $value:expr) => {
            let value = $value;
            line($label, $key, value.to_string(), json!(value));
        };
        (@words $label:literal $key:literal $value:expr) => {
            let value: String = $value;
            line($label, $key, value.clone(), json!(value));
        };
        (@size $label:literal $key:literal $value:expr) => {
            let value = bytes($value, style.human);
            line($label, $key, value.clone(), json!(value));
        };
        (@pretty $label:literal $key:literal $value:expr) => {
            let value = $value;
            line($label, $key, pretty_bytes(value), json!(value));
        };
        (@mean $label:literal $key:literal $value:expr) => {
            let value: Option<f64> = $value;
            let text = value.map_or_else(|| "NaN".to_owned(), |mean| format!("{mean:?}"));
            line($label, $key, text, value.map_or_else(|| json!("NaN"), |mean| json!(mean)));
        };
    }
    lines! {
        number "SSTable count" "sstable_count" t.sstables;
        number "Old SSTable count" "old_sstable_count" t.old_sstables;
        pretty "Max SSTable size" "max_sstable_size" t.sstable_bytes_max;
    }
    if let Some(window) = &t.time_window {
        let longest = duration_words(t.sstable_duration_millis_max / 1_000);
        lines! { words "SSTables Time Window" "twcs" format!("{window}, max duration: {longest}"); }
    }
    if !t.levels.is_empty() {
        let of_level = |(level, count): (usize, &u64)| level_text(level, *count);
        let counts: Vec<String> = t.levels.iter().enumerate().map(of_level).collect();
        let text = format!("[{}]", counts.join(", "));
        line("SSTables in each level", "sstables_in_each_level", text, json!(counts));
        let (text, value) = (format!("{:?}", t.level_bytes), json!(t.level_bytes));
        line("SSTable bytes in each level", "sstable_bytes_in_each_level", text, value);
    }
    let (live, ratio) = (t.live_bytes, t.compression_ratio.unwrap_or(-1.0));
    lines! {
        size "Space used (live)" "space_used_live" live;
        size "Space used (total)" "space_used_total" live;
        size "Space used by snapshots (total)" "space_used_by_snapshots_total" shown.snapshot_bytes;
        size "Off heap memory used (total)" "off_heap_memory_used_total" shown.off_heap_bytes();
    }
    line("SSTable Compression Ratio", "sstable_compression_ratio", format!("{ratio:.5}"), json!(ratio));
    lines! {
        number "Number of partitions (estimate)" "number_of_partitions_estimate" t.partitions;
        number "Memtable cell count" "memtable_cell_count" t.memtable_operations;
        size "Memtable data size" "memtable_data_size" t.memtable_data_bytes;
        size "Memtable off heap memory used" "memtable_off_heap_memory_used" t.memtable_bytes;
        number "Memtable switch count" "memtable_switch_count" t.memtable_switches;
        number "Speculative retries" "speculative_retries" 0;
        number "Local read count" "local_read_count" t.reads;
    }
    let (read, write) = (millis(t.read_millis), millis(t.write_millis));
    line("Local read latency", "local_read_latency_ms", format!("{read} ms"), json!(read));
    lines! { number "Local write count" "local_write_count" t.writes; }
    line("Local write latency", "local_write_latency_ms", format!("{write} ms"), json!(write));
    lines! {
        words "Local read/write ratio" "local_read_write_ratio" format!("{:.5}", shown.read_write_ratio());
        number "Pending flushes" "pending_flushes" t.pending_flushes;
        mean "Percent repaired" "percent_repaired" Some(shown.percent_repaired());
        pretty "Bytes repaired" "bytes_repaired" t.repaired_bytes;
        pretty "Bytes unrepaired" "bytes_unrepaired" t.unrepaired_bytes;
        pretty "Bytes pending repair" "bytes_pending_repair" t.pending_repair_bytes;
        number "Bloom filter false positives" "bloom_filter_false_positives" t.bloom_false_positives;
        words "Bloom filter false ratio" "bloom_filter_false_ratio" format!("{:.5}", t.bloom_false_ratio);
        size "Bloom filter space used" "bloom_filter_space_used" t.bloom_bytes;
        size "Bloom filter off heap memory used" "bloom_filter_off_heap_memory_used" t.bloom_bytes;
        size "Index summary off heap memory used" "index_summary_off_heap_memory_used" t.index_summary_bytes;
        size "Compression metadata off heap memory used" "compression_metadata_off_heap_memory_used"
            t.chunk_offsets_bytes;
        number "Compacted partition minimum bytes" "compacted_partition_minimum_bytes" t.partition_min_bytes;
        number "Compacted partition maximum bytes" "compacted_partition_maximum_bytes" t.partition_max_bytes;
        number "Compacted partition mean bytes" "compacted_partition_mean_bytes" t.partition_mean_bytes;
        mean "Average live cells per slice (last five minutes)"
            "average_live_cells_per_slice_last_five_minutes" t.rows_per_read_mean;
        number "Maximum live cells per slice (last five minutes)"
            "maximum_live_cells_per_slice_last_five_minutes" t.rows_per_read_max;
        mean "Average tombstones per slice (last five minutes)"
            "average_tombstones_per_slice_last_five_minutes" t.tombstones_per_read_mean;
        number "Maximum tombstones per slice (last five minutes)"
            "maximum_tombstones_per_slice_last_five_minutes" t.tombstones_per_read_max;
        words "Droppable tombstone ratio" "droppable_tombstone_ratio"
            format!("{:.5}", t.droppable_tombstone_ratio);
    }
    if style.tells_location {
        // Every directory of a table is right for any of its SSTables: tokens are not divided among them.
        line("SSTables in correct location", "location_check", "true".to_owned(), json!(true));
    }
    out
}
