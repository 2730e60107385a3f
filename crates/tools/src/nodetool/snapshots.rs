//! SSTables that come and snapshots that stay.

use super::{Failure, Show, cells, silently, usage};
use crate::api::{
    ClearSnapshots, ImportSstables, ImportedDirectory, IncrementalBackups, QualifiedTable, Refreshed,
    SetIncrementalBackups, SnapshotEntry, TakeSnapshot, ttl_seconds,
};
use crate::client::{Client, ClientError};
use crate::format::{columns, file_size};
use clap::Subcommand;
use std::fmt::Write;
use std::path::PathBuf;

const IMPORT_WANTS: &str = "import requires keyspace, table name and directories";

/// Verbs that take SSTables in and keep them.
#[derive(Debug, Subcommand)]
pub(super) enum SnapshotVerb {
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
        #[arg(short = 'p', long, visible_alias = "cd")]
        copy_data: bool,
        /// The keyspace, table name and directories to import sstables from
        keyspace_table_directories: Vec<String>,
    },
    /// Load newly placed SSTables to the system without restart
    Refresh {
        /// The keyspace and table name
        keyspace_table: Vec<String>,
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
    /// Status of incremental backup
    Statusbackup,
    /// Enable incremental backup
    Enablebackup,
    /// Disable incremental backup
    Disablebackup,
}

impl SnapshotVerb {
    /// Runs it; the text is what it prints.
    pub(super) fn run(&self, show: &Show<'_>) -> Result<String, Failure> {
        let client = show.client;
        match self {
            SnapshotVerb::Import {
                keep_level,
                keep_repaired,
                no_verify,
                quick,
                copy_data,
                keyspace_table_directories,
                ..
            } => {
                let [keyspace, table, directories @ ..] = keyspace_table_directories.as_slice() else {
                    return usage(IMPORT_WANTS);
                };
                if directories.is_empty() {
                    return usage(IMPORT_WANTS);
                }
                let absolute = |d: &String| std::path::absolute(d).unwrap_or_else(|_| PathBuf::from(d));
                let body = ImportSstables {
                    keyspace: keyspace.clone(),
                    table: table.clone(),
                    directories: directories.iter().map(absolute).collect(),
                    no_verify: *no_verify || *quick,
                    copy_data: *copy_data,
                    keep_level: *keep_level,
                    keep_repaired: *keep_repaired,
                };
                let answer: Result<Vec<ImportedDirectory>, ClientError> =
                    client.post_for("/api/v1/import", &body);
                let answer = answer.map_err(|error| match error {
                    ClientError::Refused(_) => {
                        Failure::Partial(format!("ColumnFamilyStore for {keyspace}/{table} not found.\n"))
                    }
                    other => other.into(),
                })?;
                let failed = failed_imports_text(&answer);
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
            SnapshotVerb::Statusbackup => show.get("/api/v1/backups", &[], |state: &IncrementalBackups| {
                let running = if state.running { "running" } else { "not running" };
                format!("{running}\n")
            }),
            SnapshotVerb::Enablebackup => set_backups(client, true),
            SnapshotVerb::Disablebackup => set_backups(client, false),
            SnapshotVerb::Refresh { keyspace_table } => {
                let [keyspace, table] = keyspace_table.as_slice() else {
                    return usage("refresh requires ks and cf args");
                };
                let body = QualifiedTable { keyspace: keyspace.clone(), table: table.clone() };
                let answer: Refreshed = client.post_for("/api/v1/refresh", &body)?;
                show.print(&answer, |_| String::new())
            }
            SnapshotVerb::Snapshot { tag, table, kt_list, skip_flush, ttl, keyspaces } => {
                let mut body = snapshot_of(tag, table, kt_list, *skip_flush, keyspaces)?;
                if let Some(ttl) = ttl {
                    ttl_seconds(ttl).map_err(Failure::Usage)?;
                    body.ttl = Some(ttl.clone());
                }
                let text = snapshot_text(&body);
                client.post("/api/v1/snapshots", &body)?;
                Ok(text)
            }
            SnapshotVerb::Clearsnapshot { tag, all, keyspaces } => {
                if tag.is_none() && !all {
                    return Err(Failure::Usage("Specify snapshot name or --all".to_owned()));
                }
                if tag.is_some() && *all {
                    return Err(Failure::Usage("Specify only one of snapshot name or --all".to_owned()));
                }
                let body = ClearSnapshots { name: tag.clone(), keyspaces: keyspaces.clone() };
                client.delete("/api/v1/snapshots", &body)?;
                Ok(cleared_text(&body))
            }
            SnapshotVerb::Listsnapshots { no_ttl, ephemeral } => {
                let mut found: Vec<SnapshotEntry> = client.get("/api/v1/snapshots", &[])?;
                found.retain(|entry| !no_ttl || entry.expires_at.is_none());
                show.print(&found, |found| snapshots_text(found, *ephemeral))
            }
        }
    }
}

fn set_backups(client: &Client, enabled: bool) -> Result<String, Failure> {
    silently(client.put("/api/v1/backups", &SetIncrementalBackups { enabled }))
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

pub(super) fn snapshot_of(
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

/// The directories that `import` failed with, and why; nothing when there are none.
pub(super) fn failed_imports_text(answer: &[ImportedDirectory]) -> String {
    let mut out = String::new();
    for failed in answer {
        let Some(reason) = &failed.failure else { continue };
        if out.is_empty() {
            out.push_str("Some directories failed to import, check server logs for details:\n");
        }
        let _ = writeln!(out, "{}\n  {reason}", failed.directory.display());
    }
    out
}

/// `snapshot`.
pub(super) fn snapshot_text(body: &TakeSnapshot) -> String {
    let what = if !body.tables.is_empty() {
        let names: Vec<String> = body.tables.iter().map(|t| format!("{}.{}", t.keyspace, t.table)).collect();
        names.join(",")
    } else if body.keyspaces.is_empty() {
        "all keyspaces".to_owned()
    } else {
        body.keyspaces.join(", ")
    };
    let ttl = body.ttl.as_ref().map_or_else(String::new, |ttl| format!(", ttl={ttl}"));
    format!(
        "Requested creating snapshot(s) for [{what}] with snapshot name [{0}] and options {{skipFlush={1}{ttl}}}\n\
         Snapshot directory: {0}\n",
        body.name, body.skip_flush
    )
}

/// `clearsnapshot`.
pub(super) fn cleared_text(body: &ClearSnapshots) -> String {
    let keyspaces = match body.keyspaces.as_slice() {
        [] => "all keyspaces".to_owned(),
        some => some.join(", "),
    };
    match &body.name {
        Some(name) => {
            format!("Requested clearing snapshot(s) for [{keyspaces}] with snapshot name [{name}]\n")
        }
        None => format!("Requested clearing snapshot(s) for [{keyspaces}] with [all snapshots]\n"),
    }
}

/// A name that a terminal shows and does not act on: another node may have given it.
fn visible(name: &str) -> String {
    let plain = |c: char| !c.is_control() && !c.escape_debug().to_string().starts_with("\\u{");
    name.chars().map(|c| if plain(c) { c.to_string() } else { c.escape_unicode().to_string() }).collect()
}

/// `listsnapshots`.
pub(super) fn snapshots_text(found: &[SnapshotEntry], ephemeral: bool) -> String {
    if found.is_empty() {
        return "Snapshot Details: \nThere are no snapshots\n".to_owned();
    }
    let head = [
        "Snapshot name",
        "Keyspace name",
        "Column family name",
        "True size",
        "Size on disk",
        "Creation time",
        "Expiration time",
    ];
    let mut rows = vec![cells(&head)];
    for entry in found {
        rows.push(vec![
            visible(&entry.name),
            entry.keyspace.clone(),
            entry.table.clone(),
            file_size(entry.true_bytes),
            file_size(entry.disk_bytes),
            entry.created_at.clone(),
            entry.expires_at.clone().unwrap_or_default(),
        ]);
    }
    if ephemeral {
        let column = std::iter::once("Ephemeral").chain(std::iter::repeat("false"));
        rows.iter_mut().zip(column).for_each(|(row, word)| row.push(word.to_owned()));
    }
    let total: u64 = found.iter().map(|entry| entry.true_bytes).sum();
    format!("Snapshot Details: \n{}\nTotal TrueDiskSpaceUsed: {}\n\n", columns(&rows, " "), file_size(total))
}
