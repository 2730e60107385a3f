//! Compactions, and what else rewrites or reads whole SSTables.

use super::compact::CompactArgs;
use super::{Failure, MIB, Show, cells, number, selection, silently, silently_of_tables, usage};
use crate::api::{
    Autocompaction, AutocompactionStatus, COMPACTION, CompactionRecord, CompactionStats,
    CompactionThresholds, ConcurrentCompactors, TableAdoption, Throughput, VERIFY,
};
use crate::client::Client;
use crate::format::{bytes, columns, local_date_time};
use crate::structured::{Format, print};
use clap::Subcommand;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};

/// Verbs about compactions and other work on whole SSTables.
#[derive(Debug, Subcommand)]
pub(super) enum CompactionVerb {
    /// Force a (major) compaction on one or more tables
    Compact(CompactArgs),
    /// Print statistics on compactions
    Compactionstats {
        /// Display bytes in human readable form, i.e. KiB, MiB, GiB, TiB
        #[arg(short = 'H', long)]
        human_readable: bool,
    },
    /// Print history of compaction
    Compactionhistory {
        /// Output format (json, yaml)
        #[arg(short = 'F', long, default_value = "")]
        format: String,
    },
    /// Print which SSTables of Cassandra have a finer index of their large partitions (a verb of Ilion's)
    Adoptionstats {
        /// Display bytes in human readable form, i.e. KiB, MiB, GiB, TiB
        #[arg(short = 'H', long)]
        human_readable: bool,
    },
    /// Stop compactions, or the comparison of SSTables with their digests
    Stop {
        /// What to stop: COMPACTION or VERIFY
        #[arg(default_value = "COMPACTION")]
        compaction_type: String,
    },
    /// Print whether tables compact by themselves
    Statusautocompaction {
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
        /// Show auto compaction status for each keyspace/table
        #[arg(short = 'a', long)]
        all: bool,
    },
    /// Disable autocompaction for the given keyspace and table
    Disableautocompaction {
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
    },
    /// Enable autocompaction for the given keyspace and table
    Enableautocompaction {
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
    },
    /// Print min and max compaction thresholds for a given table
    Getcompactionthreshold {
        /// The keyspace with a table
        names: Vec<String>,
    },
    /// Set min and max compaction thresholds for a given table
    Setcompactionthreshold {
        /// The keyspace, the table, min and max threshold
        #[arg(allow_hyphen_values = true)]
        values: Vec<String>,
    },
    /// Print the number of concurrent compactors in the system
    Getconcurrentcompactors,
    /// Set number of concurrent compactors in the system
    Setconcurrentcompactors {
        /// Number of concurrent compactors, greater than 0
        #[arg(allow_hyphen_values = true)]
        value: Option<String>,
    },
    /// Print the MiB/s throughput cap for compaction in the system
    Getcompactionthroughput,
    /// Set the MiB/s throughput cap for compaction in the system, or 0 to disable throttling
    Setcompactionthroughput {
        /// Value in MiB, 0 to disable throttling
        compaction_throughput: Option<String>,
    },
}

impl CompactionVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        match self {
            CompactionVerb::Compact(args) => {
                silently_of_tables(client.post("/api/v1/compact", &args.question()?))
            }
            CompactionVerb::Compactionstats { human_readable } => {
                show.get("/api/v1/compactions", &[], |stats| compactions_text(stats, *human_readable))
            }
            CompactionVerb::Compactionhistory { format } => match Format::of(format) {
                Err(message) => usage(message),
                Ok(format) => {
                    let path = "/api/v1/compactions/history";
                    show.get(path, &[], |history: &Vec<_>| history_text(history, format))
                }
            },
            CompactionVerb::Adoptionstats { human_readable } => {
                show.get("/api/v1/adoption", &[], |tables: &Vec<_>| adoption_text(tables, *human_readable))
            }
            CompactionVerb::Stop { compaction_type } => {
                let kinds = [COMPACTION, VERIFY];
                let Some(kind) = kinds.into_iter().find(|kind| compaction_type.eq_ignore_ascii_case(kind))
                else {
                    return Err(Failure::Usage(format!(
                        "compaction_type: can not convert \"{compaction_type}\" to a OperationType"
                    )));
                };
                silently(client.delete(&format!("/api/v1/compactions?kind={kind}"), &()))
            }
            CompactionVerb::Disableautocompaction { keyspace_tables } => {
                set_auto(client, keyspace_tables, false)
            }
            CompactionVerb::Enableautocompaction { keyspace_tables } => {
                set_auto(client, keyspace_tables, true)
            }
            CompactionVerb::Statusautocompaction { keyspace_tables, all } => {
                let selection = selection(keyspace_tables);
                let tables = selection.tables.join(",");
                let keyspace = selection.keyspace.iter().map(|name| ("keyspace", name.as_str()));
                let query: Vec<_> = keyspace.chain([("tables", tables.as_str())]).collect();
                show.get("/api/v1/compactions/auto", &query, |found: &Vec<_>| auto_text(found, *all))
            }
            CompactionVerb::Getcompactionthreshold { names } => get_threshold(show, names),
            CompactionVerb::Setcompactionthreshold { values } => set_threshold(client, values),
            CompactionVerb::Getconcurrentcompactors => {
                show.get("/api/v1/compactions/concurrent", &[], |answer: &ConcurrentCompactors| {
                    format!("Current concurrent compactors in the system is: \n{}\n", answer.compactors)
                })
            }
            CompactionVerb::Setconcurrentcompactors { value } => set_compactors(client, value.as_deref()),
            CompactionVerb::Getcompactionthroughput => {
                show.get("/api/v1/compactions/throughput", &[], |limit: &Throughput| {
                    format!("Current compaction throughput: {} MB/s\n", limit.mebibytes_per_second)
                })
            }
            CompactionVerb::Setcompactionthroughput { compaction_throughput } => {
                let Some(text) = compaction_throughput else {
                    return usage("Required parameters are missing: compaction_throughput");
                };
                let limit =
                    Throughput { mebibytes_per_second: number("compaction_throughput", text, "Integer")? };
                silently(client.put("/api/v1/compactions/throughput", &limit))
            }
        }
    }
}

fn set_auto(client: &Client, words: &[String], enabled: bool) -> Result<String, Failure> {
    silently(client.put("/api/v1/compactions/auto", &Autocompaction { selection: selection(words), enabled }))
}

/// `statusautocompaction`: of all tables together, or of each.
pub(super) fn auto_text(tables: &[AutocompactionStatus], each: bool) -> String {
    let word = |running: bool| if running { "running" } else { "not running" };
    if each {
        let mut rows = vec![cells(&["Keyspace", "Table", "Status"])];
        rows.extend(tables.iter().map(|t| cells(&[&t.keyspace, &t.table, word(t.running)])));
        return columns(&rows, " ");
    }
    let running = tables.iter().filter(|table| table.running).count();
    let status = if running > 0 && running < tables.len() { "partially running" } else { word(running > 0) };
    format!("{status}\n")
}

fn get_threshold(show: &Show<'_>, names: &[String]) -> Result<String, Failure> {
    let [keyspace, table] = names else {
        return usage("getcompactionthreshold requires ks and cf args");
    };
    let query = [("keyspace", keyspace.as_str()), ("table", table.as_str())];
    let found = show.get("/api/v1/compactions/thresholds", &query, |found: &CompactionThresholds| {
        let CompactionThresholds { keyspace, table, min, max } = found;
        format!("Current compaction thresholds for {keyspace}/{table}: \n min = {min},  max = {max}\n")
    });
    found.map_err(no_store)
}

/// What Cassandra says of an unknown table by itself, without a word about help.
fn no_store(failure: Failure) -> Failure {
    match failure {
        Failure::Usage(message) if message.starts_with("ColumnFamilyStore for ") => {
            Failure::Partial(message + "\n")
        }
        other => other,
    }
}

fn set_threshold(client: &Client, values: &[String]) -> Result<String, Failure> {
    let [keyspace, table, min, max] = values else {
        return usage(match values {
            [] => "Required parameters are missing: <keyspace> <table> <minthreshold> <maxthreshold>",
            _ => "setcompactionthreshold requires ks, cf, min, and max threshold args.",
        });
    };
    let number = |text: &String| {
        let parsed: Result<i32, _> = text.parse();
        parsed.map_err(|_| Failure::Usage(format!("For input string: \"{text}\"")))
    };
    let (min, max) = (number(min)?, number(max)?);
    if min > max {
        return usage("Min threshold cannot be greater than max.");
    }
    if min < 0 || min == 1 {
        return usage("Min threshold must be at least 2");
    }
    let (keyspace, table) = (keyspace.clone(), table.clone());
    let wanted = CompactionThresholds { keyspace, table, min: min as u32, max: max as u32 };
    silently(client.put("/api/v1/compactions/thresholds", &wanted)).map_err(no_store)
}

fn set_compactors(client: &Client, value: Option<&str>) -> Result<String, Failure> {
    let Some(text) = value else {
        return usage("Required parameters are missing: concurrent_compactors");
    };
    let Ok(number) = text.parse::<i32>() else {
        return usage(&format!("concurrent_compactors: can not convert \"{text}\" to a Integer"));
    };
    let compactors = u64::try_from(number).unwrap_or(0);
    if compactors == 0 {
        return usage("concurrent_compactors should be great than 0.");
    }
    silently(client.put("/api/v1/compactions/concurrent", &ConcurrentCompactors { compactors }))
}

/// `compactionstats`.
pub(super) fn compactions_text(stats: &CompactionStats, human: bool) -> String {
    let throughput = match stats.throughput_bytes {
        0 => "unlimited".to_owned(),
        limit => format!("{:?}", limit as f64 / MIB),
    };
    let mut rows = vec![
        vec!["concurrent compactors".to_owned(), stats.concurrent_compactors.to_string()],
        vec!["pending tasks".to_owned(), stats.pending.to_string()],
    ];
    for pending in &stats.pending_by_table {
        rows.push(vec![pending.keyspace.clone(), pending.table.clone(), pending.tasks.to_string()]);
    }
    rows.extend([
        vec!["compactions completed".to_owned(), stats.completed.to_string()],
        vec!["compactions aborted".to_owned(), stats.failed.to_string()],
        vec!["compaction throughput (MiB/s)".to_owned(), throughput],
    ]);
    let mut out = columns(&rows, " ");
    if stats.active.is_empty() {
        return out;
    }
    let head = ["id", "compaction type", "keyspace", "table", "completed", "total", "unit", "progress"];
    let mut rows = vec![cells(&head)];
    let mut left = 0;
    for task in &stats.active {
        let amount = |n: u64| if task.unit == "bytes" { bytes(n, human) } else { n.to_string() };
        let progress = match task.total {
            0 => "n/a".to_owned(),
            total => format!("{:.2}%", task.completed as f64 / total as f64 * 100.0),
        };
        left += task.total.saturating_sub(task.completed);
        rows.push(vec![
            task.id.to_string(),
            task.kind.clone(),
            task.keyspace.clone(),
            task.table.clone(),
            amount(task.completed),
            amount(task.total),
            task.unit.clone(),
            progress,
        ]);
    }
    out.push_str(&columns(&rows, " "));
    let remaining = match stats.throughput_bytes {
        0 => "n/a".to_owned(),
        limit => {
            let seconds = left / limit;
            format!("{}h{:02}m{:02}s", seconds / 3_600, seconds / 60 % 60, seconds % 60)
        }
    };
    let _ = writeln!(out, "Active compaction remaining time : {remaining:>10}");
    out
}

/// `adoptionstats`.
pub(super) fn adoption_text(tables: &[TableAdoption], human_readable: bool) -> String {
    if tables.is_empty() {
        return "No SSTable of Cassandra has large partitions\n".to_owned();
    }
    let mut rows =
        vec![cells(&["keyspace_name", "table_name", "described", "waiting", "partitions", "bytes"])];
    for table in tables {
        rows.push(vec![
            table.keyspace.clone(),
            table.table.clone(),
            table.described.to_string(),
            table.waiting.to_string(),
            table.partitions.to_string(),
            bytes(table.bytes, human_readable),
        ]);
    }
    columns(&rows, " ")
}

/// `compactionhistory`.
pub(super) fn history_text(history: &[CompactionRecord], format: Option<Format>) -> String {
    if let Some(format) = format {
        let entry = |record: &CompactionRecord| {
            json!({
                "id": record.id,
                "keyspace_name": record.keyspace,
                "columnfamily_name": record.table,
                "compacted_at": local_date_time(record.compacted_at_millis),
                "bytes_in": record.bytes_in,
                "bytes_out": record.bytes_out,
                "rows_merged": map_text(&record.rows_merged),
                "compaction_properties": map_text(&record.properties),
            })
        };
        let entries: Vec<_> = history.iter().map(entry).collect();
        return print(&json!({ "CompactionHistory": entries }), format);
    }
    if history.is_empty() {
        return "There is no compaction history\n".to_owned();
    }
    let mut rows = vec![cells(&[
        "id",
        "keyspace_name",
        "columnfamily_name",
        "compacted_at",
        "bytes_in",
        "bytes_out",
        "rows_merged",
        "compaction_properties",
    ])];
    for record in history {
        rows.push(vec![
            record.id.clone(),
            record.keyspace.clone(),
            record.table.clone(),
            local_date_time(record.compacted_at_millis),
            record.bytes_in.to_string(),
            record.bytes_out.to_string(),
            map_text(&record.rows_merged),
            map_text(&record.properties),
        ]);
    }
    format!("Compaction History: \n{}", columns(&rows, " "))
}

/// `{1:3, 2:1}`.
fn map_text(map: &BTreeMap<impl Display, impl Display>) -> String {
    let entries: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{value}")).collect();
    format!("{{{}}}", entries.join(", "))
}
