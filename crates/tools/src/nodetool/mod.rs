//! `ilion nodetool`: asks a running node through its admin API, in the words and layouts of Cassandra's
//! nodetool.
//!
//! Exit status: 0 done, 1 the command makes no sense or a directory could not be imported, 2 the node refused
//! or cannot be reached.

mod alone;
mod help;
mod print;

use crate::api::{
    Autocompaction, COMPACTION, CacheCapacity, CacheKind, ClearSnapshots, ImportSstables, ImportedDirectory,
    InvalidateCache, NativeTransport, QualifiedTable, Refreshed, Selection, SetNativeTransport,
    SnapshotEntry, TableReport, TakeSnapshot, Throughput, VERIFY, ttl_seconds,
};
use crate::client::{Client, ClientError, Place, default_admin};
use crate::console::complain;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `ilion nodetool`.
#[derive(Debug, Args)]
#[command(disable_help_subcommand = true)]
pub struct NodetoolArgs {
    /// Where the node's admin API listens
    #[arg(long, value_name = "HOST:PORT", global = true, default_value_t = default_admin())]
    admin: String,
    /// The Unix socket of the node's admin API, instead of its address
    #[arg(long, value_name = "PATH", global = true, conflicts_with = "admin")]
    socket: Option<PathBuf>,
    /// Print the admin API's JSON instead of text
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    verb: Verb,
}

/// The verbs. Names, arguments and their order are nodetool's.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Print cluster information (state, load, IDs, ...)
    Status {
        /// The keyspace name
        keyspace: Option<String>,
    },
    /// Print node information (uptime, load, ...)
    Info {
        /// Display all tokens
        #[arg(short = 'T', long)]
        tokens: bool,
    },
    /// Print the name, snitch, partitioner and schema version of a cluster
    Describecluster,
    /// Print the release version
    Version,
    /// Flush one or more tables
    Flush {
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
    },
    /// Force a (major) compaction on one or more tables
    Compact {
        /// The keyspace followed by one or many tables
        keyspace_tables: Vec<String>,
    },
    /// Print statistics on compactions
    Compactionstats {
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
    /// Print the MiB/s throughput cap for compaction in the system
    Getcompactionthroughput,
    /// Set the MiB/s throughput cap for compaction in the system, or 0 to disable throttling
    Setcompactionthroughput {
        /// Value in MiB, 0 to disable throttling
        compaction_throughput: u64,
    },
    /// Import new SSTables to the system
    Import {
        /// Keep the level on the new sstables
        #[arg(short = 'l', long)]
        keep_level: bool,
        /// Keep any repaired information from the sstables
        #[arg(short = 'r', long)]
        keep_repaired: bool,
        /// Don't verify new sstables
        #[arg(short = 'v', long = "no-verify")]
        no_verify: bool,
        /// Don't verify that all tokens in the new sstable are owned by the current node (it owns all of
        /// them)
        #[arg(short = 't', long = "no-tokens")]
        no_tokens: bool,
        /// Don't invalidate the row cache when importing (nothing stale is ever served)
        #[arg(short = 'c', long = "no-invalidate-caches")]
        no_invalidate_caches: bool,
        /// Do a quick import without verifying sstables
        #[arg(short = 'q', long)]
        quick: bool,
        /// Run an extended verify, verifying all values in the new sstables (every verification does)
        #[arg(short = 'e', long)]
        extended_verify: bool,
        /// Copy data from source directories instead of moving them
        #[arg(long, visible_alias = "cd")]
        copy_data: bool,
        /// The keyspace name
        keyspace: String,
        /// The table name
        table: String,
        /// The directories to import sstables from
        #[arg(required = true, value_name = "DIRECTORY")]
        directories: Vec<PathBuf>,
    },
    /// Load newly placed SSTables to the system without restart
    Refresh {
        /// The keyspace name
        keyspace: String,
        /// The table name
        table: String,
    },
    /// Take a snapshot of specified keyspaces or a snapshot of the specified table
    Snapshot {
        /// The name of the snapshot
        #[arg(short = 't', long = "tag")]
        tag: Option<String>,
        /// The table name (you must specify one and only one keyspace for using this option)
        #[arg(long = "table", visible_alias = "column-family", value_name = "TABLE")]
        table: Option<String>,
        /// The list of keyspace.table to take a snapshot of
        #[arg(long = "kt-list", visible_alias = "kt", value_delimiter = ',')]
        kt_list: Vec<String>,
        /// Do not flush memtables before snapshotting (snapshot will not contain unflushed data)
        #[arg(long, visible_alias = "sf")]
        skip_flush: bool,
        /// Specify a TTL of created snapshot: 5h, 7d, at least a minute
        #[arg(long)]
        ttl: Option<String>,
        /// List of keyspaces. By default, all keyspaces
        keyspaces: Vec<String>,
    },
    /// Remove the snapshot with the given name from the given keyspaces
    Clearsnapshot {
        /// Remove the snapshot with a given name
        #[arg(short = 't')]
        tag: Option<String>,
        /// Removes all snapshots
        #[arg(long)]
        all: bool,
        /// Remove snapshots from the given keyspaces
        keyspaces: Vec<String>,
    },
    /// Lists all the snapshots along with the size on disk and true size
    Listsnapshots {
        /// Skip snapshots with TTL
        #[arg(long, visible_alias = "nt")]
        no_ttl: bool,
        /// Include ephemeral snapshots (there are none)
        #[arg(short = 'e', long)]
        ephemeral: bool,
    },
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
    /// Invalidate the key cache: the index pages of the page cache
    Invalidatekeycache,
    /// Invalidate the page cache, index and data
    Invalidatepagecache,
    /// Invalidate the row cache
    Invalidaterowcache,
    /// Invalidate the counter cache (there is none: counters are read where other rows are)
    Invalidatecountercache,
    /// Set the capacity of the row cache, in MiB: it keeps what fits; the other two have no counterpart here
    Setcachecapacity {
        /// Index pages lie in the page cache: ignored
        key_cache_capacity: u64,
        /// MiB of the row cache, 0 to turn it off
        row_cache_capacity: u64,
        /// There is no counter cache: ignored
        counter_cache_capacity: u64,
    },
    /// Disable native transport (binary protocol)
    Disablebinary {
        /// Interrupt client requests that have already started
        #[arg(short = 'f', long)]
        force: bool,
    },
    /// Reenable native transport (binary protocol)
    Enablebinary,
    /// Status of native transport (binary protocol)
    Statusbinary,
    /// Repair one or more tables (a node that is alone has nothing to repair)
    #[command(disable_help_flag = true)]
    Repair {
        /// The keyspace followed by one or many tables, and Cassandra's flags
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Remove keys that no longer belong to the node (a node that is alone owns them all)
    #[command(disable_help_flag = true)]
    Cleanup {
        /// The keyspace followed by one or many tables, and Cassandra's flags
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Drain the node (stop accepting writes and flush all tables)
    Drain,
    /// Display help information
    Help {
        /// The verb
        verb: Option<String>,
    },
    // The parser would suggest a verb that looks alike: `drain` for `brain`.
    #[command(external_subcommand)]
    Unknown(Vec<String>),
}

/// Verbs that are commands of `ilion`, too.
pub const SHORT_COMMANDS: [&str; 4] = ["import", "refresh", "snapshot", "clearsnapshot"];

/// The words of the command line as the parser wants them: short commands as verbs of nodetool, and those of
/// nodetool's flags that have one dash and several letters (`-kt`) spelled with two.
pub fn with_long_flags(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut words: Vec<String> = words.into_iter().collect();
    if words.get(1).is_some_and(|word| SHORT_COMMANDS.contains(&word.as_str())) {
        words.insert(1, "nodetool".to_owned());
    }
    let mut of_nodetool = false;
    let long = |word: String| match word.as_str() {
        "nodetool" => {
            of_nodetool = true;
            word
        }
        "-kt" if of_nodetool => "--kt-list".to_owned(),
        "-cf" if of_nodetool => "--column-family".to_owned(),
        "-cd" if of_nodetool => "--copy-data".to_owned(),
        "-sf" if of_nodetool => "--skip-flush".to_owned(),
        "-nt" if of_nodetool => "--no-ttl".to_owned(),
        _ => word,
    };
    words.into_iter().map(long).collect()
}

/// Why a verb failed.
#[derive(Debug)]
enum Failure {
    /// The command makes no sense.
    Usage(String),
    /// The node refused, or does not answer.
    Node(String),
    /// A part of the work failed: what to say about it.
    Partial(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Failure::Usage(message) | Failure::Node(message) | Failure::Partial(message)) = self;
        f.write_str(message)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            // As in Cassandra's nodetool, it is the caller's mistake.
            ClientError::Refused(message) => Failure::Usage(message),
            ClientError::Node(message) => Failure::Node(message),
        }
    }
}

/// Runs a verb; the result is the exit status.
pub fn run(args: &NodetoolArgs) -> u8 {
    match execute(args) {
        Ok(text) => {
            let mut out = std::io::stdout().lock();
            match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                // A closed pipe (`| head`) is no failure.
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    complain(&format!("error: {error}\n"));
                    2
                }
                _ => 0,
            }
        }
        Err(Failure::Usage(message)) => {
            complain(&format!(
                "nodetool: {message}\nSee 'ilion nodetool help' or 'ilion nodetool help <command>'.\n"
            ));
            1
        }
        Err(Failure::Partial(message)) => {
            complain(&message);
            1
        }
        Err(Failure::Node(message)) => {
            complain(&format!("error: {message}\n"));
            2
        }
    }
}

fn execute(args: &NodetoolArgs) -> Result<String, Failure> {
    let client = Client::new(Place::of(&args.admin, args.socket.as_ref()));
    let show = Show { client: &client, json: args.json };
    match &args.verb {
        Verb::Status { keyspace } => {
            let query: Vec<(&str, &str)> = keyspace.iter().map(|k| ("keyspace", k.as_str())).collect();
            show.get("/api/v1/status", &query, print::status)
        }
        Verb::Info { tokens } => show.get("/api/v1/info", &[], |info| print::info(info, *tokens)),
        Verb::Describecluster => show.get("/api/v1/cluster", &[], print::cluster),
        Verb::Version => show.get("/api/v1/version", &[], print::version),
        Verb::Flush { keyspace_tables } => {
            silently(client.post("/api/v1/flush", &selection(keyspace_tables)))
        }
        Verb::Invalidatekeycache => invalidate(&client, CacheKind::Keys),
        Verb::Invalidatepagecache => invalidate(&client, CacheKind::Pages),
        Verb::Invalidaterowcache => invalidate(&client, CacheKind::Rows),
        Verb::Invalidatecountercache => Ok(String::new()),
        Verb::Setcachecapacity { row_cache_capacity, .. } => silently(
            client.put("/api/v1/caches/capacity", &CacheCapacity { rows_mebibytes: *row_cache_capacity }),
        ),
        Verb::Compact { keyspace_tables } => {
            silently(client.post("/api/v1/compact", &selection(keyspace_tables)))
        }
        Verb::Compactionstats { human_readable } => {
            show.get("/api/v1/compactions", &[], |stats| print::compactions(stats, *human_readable))
        }
        Verb::Stop { compaction_type } => {
            let kinds = [COMPACTION, VERIFY];
            let Some(kind) = kinds.into_iter().find(|kind| compaction_type.eq_ignore_ascii_case(kind)) else {
                return Err(Failure::Usage(format!(
                    "compaction_type: can not convert \"{compaction_type}\" to a OperationType"
                )));
            };
            silently(client.delete(&format!("/api/v1/compactions?kind={kind}"), &()))
        }
        Verb::Disableautocompaction { keyspace_tables } => set_auto(&client, keyspace_tables, false),
        Verb::Enableautocompaction { keyspace_tables } => set_auto(&client, keyspace_tables, true),
        Verb::Getcompactionthroughput => {
            show.get("/api/v1/compactions/throughput", &[], |limit: &Throughput| {
                format!("Current compaction throughput: {} MB/s\n", limit.mebibytes_per_second)
            })
        }
        Verb::Setcompactionthroughput { compaction_throughput } => {
            let limit = Throughput { mebibytes_per_second: *compaction_throughput };
            silently(client.put("/api/v1/compactions/throughput", &limit))
        }
        Verb::Import {
            keep_level,
            keep_repaired,
            no_verify,
            quick,
            copy_data,
            keyspace,
            table,
            directories,
            ..
        } => {
            let absolute = |d: &PathBuf| std::path::absolute(d).unwrap_or_else(|_| d.clone());
            let body = ImportSstables {
                keyspace: keyspace.clone(),
                table: table.clone(),
                directories: directories.iter().map(absolute).collect(),
                no_verify: *no_verify || *quick,
                copy_data: *copy_data,
                keep_level: *keep_level,
                keep_repaired: *keep_repaired,
            };
            let answer: Vec<ImportedDirectory> = client.post_for("/api/v1/import", &body)?;
            let failed = print::failed_imports(&answer);
            if !failed.is_empty() {
                return Err(Failure::Partial(failed));
            }
            let quick = if *quick {
                "Doing a quick import - skipping sstable verification and row cache invalidation\n"
            } else {
                ""
            };
            show.print(&answer, |_| quick.to_owned())
        }
        Verb::Refresh { keyspace, table } => {
            let body = QualifiedTable { keyspace: keyspace.clone(), table: table.clone() };
            let answer: Refreshed = client.post_for("/api/v1/refresh", &body)?;
            show.print(&answer, |_| String::new())
        }
        Verb::Snapshot { tag, table, kt_list, skip_flush, ttl, keyspaces } => {
            let mut body = snapshot_of(tag, table, kt_list, *skip_flush, keyspaces)?;
            if let Some(ttl) = ttl {
                ttl_seconds(ttl).map_err(Failure::Usage)?;
                body.ttl = Some(ttl.clone());
            }
            let text = print::snapshot(&body);
            client.post("/api/v1/snapshots", &body)?;
            Ok(text)
        }
        Verb::Clearsnapshot { tag, all, keyspaces } => {
            if tag.is_none() && !all {
                return Err(Failure::Usage("Specify snapshot name or --all".to_owned()));
            }
            if tag.is_some() && *all {
                return Err(Failure::Usage("Specify only one of snapshot name or --all".to_owned()));
            }
            let body = ClearSnapshots { name: tag.clone(), keyspaces: keyspaces.clone() };
            client.delete("/api/v1/snapshots", &body)?;
            Ok(print::cleared(&body))
        }
        Verb::Listsnapshots { no_ttl, ephemeral } => {
            let mut found: Vec<SnapshotEntry> = client.get("/api/v1/snapshots", &[])?;
            found.retain(|entry| !no_ttl || entry.expires_at.is_none());
            show.print(&found, |found| print::snapshots(found, *ephemeral))
        }
        Verb::Tablestats { tables, human_readable } => tablestats(&show, tables, *human_readable),
        Verb::Tablehistograms { names } => tablehistograms(&show, names),
        Verb::Disablebinary { force } => silently(
            client.put("/api/v1/native_transport", &SetNativeTransport { enabled: false, force: *force }),
        ),
        Verb::Enablebinary => silently(
            client.put("/api/v1/native_transport", &SetNativeTransport { enabled: true, force: false }),
        ),
        Verb::Statusbinary => show.get("/api/v1/native_transport", &[], |state: &NativeTransport| {
            let running = if state.running { "running" } else { "not running" };
            format!("{running}\n")
        }),
        Verb::Drain => silently(client.post("/api/v1/drain", &())),
        Verb::Repair { words } => alone::repair(&client, words),
        Verb::Cleanup { words } => alone::cleanup(&client, words),
        Verb::Help { verb } => help::help(verb.as_deref()),
        Verb::Unknown(words) => help::unknown(words),
    }
}

/// Prints what the node answers, as text or as it came.
struct Show<'a> {
    client: &'a Client,
    json: bool,
}

impl Show<'_> {
    fn get<T: DeserializeOwned + Serialize>(
        &self,
        path: &str,
        query: &[(&str, &str)],
        text: impl FnOnce(&T) -> String,
    ) -> Result<String, Failure> {
        let answer: T = self.client.get(path, query)?;
        self.print(&answer, text)
    }

    fn print<T: Serialize>(&self, answer: &T, text: impl FnOnce(&T) -> String) -> Result<String, Failure> {
        if !self.json {
            return Ok(text(answer));
        }
        let mut json = serde_json::to_string_pretty(answer).map_err(|e| Failure::Node(e.to_string()))?;
        json.push('\n');
        Ok(json)
    }
}

/// What a verb prints that only has to be done.
fn silently(done: Result<(), ClientError>) -> Result<String, Failure> {
    Ok(done.map(|()| String::new())?)
}

/// `ks t1 t2`: a keyspace and its tables.
fn selection(words: &[String]) -> Selection {
    match words {
        [] => Selection::default(),
        [keyspace, tables @ ..] => Selection { keyspace: Some(keyspace.clone()), tables: tables.to_vec() },
    }
}

fn set_auto(client: &Client, words: &[String], enabled: bool) -> Result<String, Failure> {
    silently(client.put("/api/v1/compactions/auto", &Autocompaction { selection: selection(words), enabled }))
}

fn invalidate(client: &Client, cache: CacheKind) -> Result<String, Failure> {
    silently(client.post("/api/v1/caches/invalidate", &InvalidateCache { cache }))
}

fn qualified(name: &str) -> Result<QualifiedTable, Failure> {
    match name.split_once('.') {
        Some((keyspace, table)) => {
            Ok(QualifiedTable { keyspace: keyspace.to_owned(), table: table.to_owned() })
        }
        None => Err(Failure::Usage(
            "You must specify a keyspace.table in the list of tables (kt-list)".to_owned(),
        )),
    }
}

fn snapshot_of(
    tag: &Option<String>,
    table: &Option<String>,
    kt_list: &[String],
    skip_flush: bool,
    keyspaces: &[String],
) -> Result<TakeSnapshot, Failure> {
    let name = tag.clone().unwrap_or_else(|| {
        let clock: &dyn env::clock::Clock = &env::clock::SystemClock::new();
        clock.now_millis().to_string()
    });
    let mut body =
        TakeSnapshot { name, keyspaces: keyspaces.to_vec(), tables: Vec::new(), skip_flush, ttl: None };
    if !kt_list.is_empty() {
        if !keyspaces.is_empty() || table.is_some() {
            return Err(Failure::Usage(
                "When specifying the Keyspace table list (using -kt,--kt-list), you must not also specify \
                 keyspaces to snapshot"
                    .to_owned(),
            ));
        }
        body.tables = kt_list.iter().map(|name| qualified(name)).collect::<Result<_, _>>()?;
    } else if let Some(table) = table {
        let [keyspace] = keyspaces else {
            return Err(Failure::Usage(
                "When specifying the table for a snapshot, you must specify one and only one keyspace"
                    .to_owned(),
            ));
        };
        body.tables = vec![QualifiedTable { keyspace: keyspace.clone(), table: table.clone() }];
        body.keyspaces = Vec::new();
    }
    Ok(body)
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
    show.print(&stats, |stats| print::tables(stats, total, human))
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
    show.get("/api/v1/tables/histograms", &query, |found: &Vec<_>| print::histograms(found))
}

fn usage(text: &str) -> Result<String, Failure> {
    Err(Failure::Usage(text.to_owned()))
}

#[cfg(test)]
mod tests;
