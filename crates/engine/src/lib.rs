//! One node's tables: memtables, commit log, SSTables, schema and snapshots, as synchronous code.
//!
//! ```text
//! open ───▶ intake ──▶ background ──▶ writing ──▶ catalog ──▶ table ──▶ memtable, cache, commitlog
//!           what       compactions,    log,        the         one
//!           comes from proofs,         memtables,  tables;     table's
//!           outside    filters         flushes     reads       files
//! ```
//! A room uses those to its right. An [`Engine`] is all of them, and what others ask of each:
//! - a read: [`Engine::read`], [`table`];
//! - a write: [`Engine::apply`] in `writing/write.rs`, then `commitlog`, [`memtable`], `writing/flush.rs`;
//! - a change of the schema: [`Engine::install_schema`] in `intake/ddl.rs`;
//! - a start: [`Engine::open`] in `open.rs`.
//!
//! Rooms to the left are told of what happens to the right by an observer (`writing::FlushObserver`).
//!
//! What an [`Engine`] promises:
//! - A write is seen by readers when `apply` returns, each partition update whole; it is acknowledged when
//!   its [`SyncTicket`] is, and is then found again after a crash, as the sync mode says.
//! - A failed flush, a full disk or a failing device never end the process: what cannot be kept is refused.
//! - Memory of memtables is bounded: writes wait for it and are then refused.
//! - A reader's view does not change under it; files live until the last reader that may use them is gone.

mod background;
mod cache;
mod catalog;
mod commitlog;
mod disk_failure;
mod engine;
mod error;
mod intake;
pub mod memtable;
mod open;
mod options;
mod schema;
mod stats;
pub mod system;
pub mod table;
#[cfg(test)]
mod tests;
pub mod turns;
mod warm;
mod writing;

pub use background::compaction::{
    CompactionInfo, CompactionKind, CompactionRequest, Stopped, Thresholds, Throttle,
};
pub use background::demands::{Compared, ProofDemand, TellCompared};
pub use background::prover::{ProvingStats, TableAdoption};
pub use background::verifying::{DamagedSsTable, VerifyOptions};
pub use cache::{CacheStats, PageCache, RowCache};
pub use commitlog::{
    CommitLogStats, FailureHook, IntervalSet, LogPosition, SyncCallback, SyncTicket, fuzz_commit_log,
};
pub use disk_failure::{DiskFailure, DiskFailureHook};
pub use engine::Engine;
pub use error::{EngineError, WriteError};
pub use intake::import::{ImportOptions, ImportedDirectory};
pub use intake::schema_exchange::{MergedSchema, SchemaChangeHook};
pub use intake::snapshot::{SchemaText, SnapshotInfo, SnapshotOptions};
pub use open::Opening;
pub use options::{
    COLUMN_INDEX_BYTES, EngineOptions, FailurePolicy, PartitionLimits, SsTableFormat, StorageCompatibility,
    SyncMode,
};
pub use schema::of_directory::schema_of_directory;
pub use stats::{EngineStats, TableStats};
pub use writing::write::WriteOptions;
