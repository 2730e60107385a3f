//! Tasks: SSTables that are going to be compacted, are busy meanwhile, and how far it has come.

use super::strategy::{Candidate, Output};
use crate::table::TableStore;
use env::fs::FileSystem;
use model::DecoratedKey;
use partition::Garbage;
use sstable::{Component, SsTable};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uuid::Uuid;

/// Why SSTables are compacted, or read from end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactionKind {
    /// The table's strategy picked them.
    Minor,
    /// An operator had all of a table, or some of it, compacted.
    Major,
    /// They are written anew in the version that new SSTables are of.
    Upgrade,
    /// They were found sound, and are written anew.
    Scrub,
    /// Each is written anew without what others shadow.
    GarbageCollection,
    /// Nothing is: one is compared with its digest.
    Verification,
}

impl CompactionKind {
    /// The word of Cassandra's `OperationType`.
    pub fn name(self) -> &'static str {
        match self {
            CompactionKind::Minor => "Compaction",
            CompactionKind::Major => "Major compaction",
            CompactionKind::Upgrade => "Upgrade sstables",
            CompactionKind::Scrub => "Scrub",
            CompactionKind::GarbageCollection => "Remove deleted data",
            CompactionKind::Verification => "Verify",
        }
    }
}

/// A compaction that runs, for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionInfo {
    /// Names the compaction.
    pub id: Uuid,
    /// Why.
    pub kind: CompactionKind,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// SSTables that it reads.
    pub inputs: usize,
    /// Bytes of rows read so far, before compression.
    pub completed_bytes: u64,
    /// Bytes of rows to be read.
    pub total_bytes: u64,
}

/// What a compaction leaves out beyond what every one does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// Nothing.
    #[default]
    NothingElse,
    /// Tombstones of these partitions, however young.
    YoungTombstones(Vec<DecoratedKey>),
    /// What other SSTables shadow.
    Shadowed(Garbage),
}

/// SSTables that are being compacted.
pub(crate) struct Task {
    pub(crate) id: Uuid,
    pub(crate) kind: CompactionKind,
    pub(crate) leaving: Leaving,
    pub(crate) table: Arc<TableStore>,
    /// To be read and replaced.
    pub(crate) inputs: Vec<Arc<SsTable>>,
    /// To be dropped unread: everything in them has expired.
    pub(crate) expired: Vec<Arc<SsTable>>,
    pub(crate) output: Output,
    pub(crate) completed_bytes: AtomicU64,
    pub(crate) cancelled: AtomicBool,
}

impl Task {
    pub(crate) fn info(&self) -> CompactionInfo {
        let schema = self.table.schema();
        CompactionInfo {
            id: self.id,
            kind: self.kind,
            keyspace: schema.keyspace.clone(),
            table: schema.name.clone(),
            inputs: self.inputs.len() + self.expired.len(),
            completed_bytes: self.completed_bytes.load(Ordering::Relaxed),
            total_bytes: self.inputs.iter().map(|t| t.data_bytes()).sum(),
        }
    }

    /// Every SSTable that the task takes away.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<SsTable>> {
        self.inputs.iter().chain(&self.expired)
    }
}

/// What keeps SSTables apart: they are compacted only with those of the same group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    directory: PathBuf,
    is_repaired: bool,
    pending_repair: Option<Uuid>,
}

impl Group {
    pub(crate) fn of(table: &SsTable) -> Group {
        let stats = table.stats();
        Group {
            directory: table.descriptor().directory.clone(),
            is_repaired: stats.repaired_at_ms > 0,
            pending_repair: stats.pending_repair,
        }
    }
}

/// What a strategy sees of `table`; `id` is its name there.
pub(crate) fn candidate(
    fs: &dyn FileSystem,
    id: u64,
    table: &SsTable,
    now_ms: i64,
    gc_before_s: u32,
) -> Candidate {
    let stats = table.stats();
    let droppable = stats.tombstones.count_until(gc_before_s) as f64;
    let cells = stats.cells_per_partition.mean() * stats.cells_per_partition.count() as f64;
    let droppable_ratio = if cells > 0.0 { (droppable / cells).min(1.0) } else { 0.0 };
    // The age matters only to those that may be rewritten for their tombstones.
    let age_s = if droppable_ratio > 0.0 {
        let written = fs.modified_ms(&table.descriptor().path(Component::Data)).unwrap_or(now_ms);
        (now_ms.saturating_sub(written).max(0) / 1000) as u64
    } else {
        0
    };
    Candidate {
        id,
        bytes: table.disk_bytes(),
        level: stats.level.max(0) as u32,
        // The largest only tells SSTables apart; for the smallest others are kept.
        timestamps: (table.oldest_timestamp(), stats.max_timestamp),
        keys: (table.first_key().clone(), table.last_key().clone()),
        max_local_deletion_time: table.last_local_deletion_time(),
        droppable_ratio,
        age_s,
    }
}
