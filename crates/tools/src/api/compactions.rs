//! Compactions, and the other tasks that read SSTables.

use super::Selection;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Question to `/compactions/auto`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Autocompaction {
    /// The tables.
    #[serde(flatten)]
    pub selection: Selection,
    /// On or off.
    pub enabled: bool,
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
