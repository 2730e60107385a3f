//! One node's tables: memtables, commit log, SSTables, schema and snapshots, as synchronous code.
//!
//! Follow a write through [`write`](Engine::apply), [`commitlog`], [`memtable`], [`flush`]; a read through
//! [`table`]; a start through [`open`](Engine::open); a change of the schema through
//! [`ddl`](Engine::install_schema).
//!
//! What an [`Engine`] promises:
//! - A write is seen by readers when `apply` returns, each partition update whole; it is acknowledged when
//!   its [`SyncTicket`] is, and is then found again after a crash, as the sync mode says.
//! - A failed flush, a full disk or a failing device never end the process: what cannot be kept is refused.
//! - Memory of memtables is bounded: writes wait for it and are then refused.
//! - A reader's view does not change under it; files live until the last reader that may use them is gone.

mod batchlog;
mod cache;
mod commitlog;
mod compaction;
mod ddl;
mod demands;
mod derived;
mod disk_failure;
mod engine;
mod error;
mod filters;
mod flush;
mod import;
mod local;
mod memory;
pub mod memtable;
mod open;
mod options;
mod prover;
mod recovery;
mod refresh;
mod schema;
mod schema_flush;
mod snapshot;
mod stats;
pub mod system;
pub mod table;
#[cfg(test)]
mod tests;
mod truncate;
mod turns;
mod warm;
mod write;

pub use cache::{CacheStats, PageCache, RowCache};
pub use commitlog::{
    CommitLogStats, FailureHook, IntervalSet, LogPosition, SyncCallback, SyncTicket, fuzz_commit_log,
};
pub use compaction::CompactionInfo;
pub use demands::{Compared, ProofDemand, TellCompared};
pub use disk_failure::{DiskFailure, DiskFailureHook};
pub use engine::Engine;
pub use error::{EngineError, WriteError};
pub use import::{ImportOptions, ImportedDirectory};
pub use open::Opening;
pub use options::{
    COLUMN_INDEX_BYTES, EngineOptions, FailurePolicy, SsTableFormat, StorageCompatibility, SyncMode,
};
pub use prover::ProvingStats;
pub use snapshot::{SchemaText, SnapshotInfo, SnapshotOptions};
pub use stats::{EngineStats, TableStats};
pub use write::WriteOptions;
