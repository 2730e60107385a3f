//! Compactions, and the other tasks that read SSTables.

use super::Selection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Question to `/compactions/auto`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Autocompaction {
    /// The tables.
    #[serde(flatten)]
    pub selection: Selection,
    /// On or off.
    pub enabled: bool,
}

/// Question to `/compact`: all of the tables, or a part of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Compact {
    /// The tables.
    #[serde(flatten)]
    pub selection: Selection,
    /// Size-tiered tables get SSTables each of which is half of what is left.
    #[serde(default)]
    pub split: bool,
    /// The SSTables that reach into it alone.
    #[serde(default)]
    pub range: Option<TokenRange>,
    /// The SSTables alone that may have this partition, whose key has colons between its components.
    #[serde(default)]
    pub partition: Option<String>,
    /// These alone, by the paths of their Data.db; the tables do not matter then.
    #[serde(default)]
    pub files: Vec<PathBuf>,
}

/// A part of the ring, which may go over its end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TokenRange {
    /// It begins behind this token.
    pub start: i64,
    /// And ends with this one.
    pub end: i64,
}

/// Question to `/upgradesstables`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpgradeSstables {
    /// The tables.
    #[serde(flatten)]
    pub selection: Selection,
    /// Also SSTables of the newest version.
    #[serde(default)]
    pub all: bool,
    /// Those alone that were written before.
    #[serde(default)]
    pub older_than_millis: Option<i64>,
}

/// Question to `/verify`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct VerifySstables {
    /// The tables.
    #[serde(flatten)]
    pub selection: Selection,
    /// SSTables of another version than the newest are told of.
    #[serde(default)]
    pub check_version: bool,
    /// Damage is acted on as `disk_failure_policy` says.
    #[serde(default)]
    pub apply_disk_failure_policy: bool,
}

/// Question to `/scrub`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScrubSstables {
    /// The tables.
    #[serde(flatten)]
    pub selection: Selection,
    /// No snapshot is taken before.
    #[serde(default)]
    pub no_snapshot: bool,
}

/// What `garbagecollect` looks at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Granularity {
    /// Deletions of partitions, ranges and rows.
    #[default]
    Row,
    /// Each cell, too.
    Cell,
}

/// Question to `/garbagecollect`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CollectGarbage {
    /// The tables.
    #[serde(flatten)]
    pub selection: Selection,
    /// What counts as garbage.
    #[serde(default)]
    pub granularity: Granularity,
}

/// Question to `/forcecompact`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForceCompact {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Keys of partitions, with colons between their components.
    pub keys: Vec<String>,
}

/// What is wrong with an SSTable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SstableFinding {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Its name.
    pub sstable: String,
    /// The first thing that was found.
    pub finding: String,
}

/// Whether a table compacts by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AutocompactionStatus {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// It does.
    pub running: bool,
}

/// How many SSTables of a table are compacted together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompactionThresholds {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// At least.
    pub min: u32,
    /// At most.
    pub max: u32,
}

/// `/compactions/concurrent`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConcurrentCompactors {
    /// How many compactions may run at once.
    pub compactors: u64,
}

/// `/compactions/throughput`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// MiB for each second, 0 for no limit.
    pub mebibytes_per_second: u64,
}

/// Kind of a task that compacts.
pub const COMPACTION: &str = "Compaction";
/// Kind of a task that compares an SSTable with its digest.
pub const VERIFY: &str = "Verify";

/// A compaction that runs, or another task that reads SSTables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompactionTask {
    /// Id, a time uuid.
    pub id: String,
    /// [`COMPACTION`], [`VERIFY`], or why else SSTables are compacted, in the words of Cassandra.
    pub kind: String,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Units done.
    pub completed: u64,
    /// Units in all.
    pub total: u64,
    /// `bytes`.
    pub unit: String,
    /// SSTables that it reads.
    pub sstables: u64,
}

/// SSTables of a table that Cassandra wrote, as far as they have large partitions (docs/formats/blocks.md).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableAdoption {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// SSTables whose large partitions are described.
    pub described: u64,
    /// SSTables that are still to be described.
    pub waiting: u64,
    /// Large partitions that are described.
    pub partitions: u64,
    /// Bytes on disk that this takes.
    pub bytes: u64,
}

/// A compaction that came to its end, as `system.compaction_history` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompactionRecord {
    /// Id, a time uuid.
    pub id: String,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// When it ended, in milliseconds since the epoch.
    pub compacted_at_millis: i64,
    /// Bytes of its inputs' data.
    pub bytes_in: i64,
    /// Bytes of its outputs' data.
    pub bytes_out: i64,
    /// Numbers of inputs that a partition was in, and how many such partitions there were.
    pub rows_merged: BTreeMap<i32, i64>,
    /// `compaction_type`.
    pub properties: BTreeMap<String, String>,
}

/// Tasks that wait for a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingTasks {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// How many.
    pub tasks: u64,
}

/// Compactions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CompactionStats {
    /// How many may run at once.
    pub concurrent_compactors: u64,
    /// How many are due.
    pub pending: u64,
    /// The same by table.
    pub pending_by_table: Vec<PendingTasks>,
    /// How many came to their end.
    pub completed: u64,
    /// How many failed.
    pub failed: u64,
    /// Limit in bytes for each second, 0 for none.
    pub throughput_bytes: u64,
    /// Those that run, and what else reads SSTables.
    pub active: Vec<CompactionTask>,
}

impl CompactionStats {
    /// Number of compactions that run.
    pub fn running(&self) -> usize {
        self.active.iter().filter(|task| task.kind != VERIFY).count()
    }
}
