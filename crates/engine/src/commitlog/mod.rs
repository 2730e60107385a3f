//! The commit log: every write, in segments of Cassandra's format, until its memtable is on disk.
//!
//! Life of a write: its section is written to the segment's file (it now outlives the process), then the
//! memtable takes it, then it waits for the device as the sync mode says, then it is acknowledged. Life of a
//! segment:
//!
//! 1. *Spare*: made ahead by the sync thread, allocated, its header and name durable.
//! 2. *Current*: sections are appended under one lock. It remembers for each table its last position.
//! 3. *Closed*: full, or left after a failure. Synced by the next sync.
//! 4. *Gone*: closed, and no table has a write in it that is not in an SSTable.
//!
//! [`format`](self::format) draws the bytes, [`replay`] reads them after a restart, Cassandra's with the help
//! of [`foreign`], [`log`](self::log) is the writer, [`ticket`](self::ticket) settles who waits.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod foreign;
pub mod format;
mod fuzz;
mod log;
mod position;
pub mod replay;
#[cfg(test)]
mod tests;
mod ticket;

pub use fuzz::fuzz_commit_log;
pub use log::{CommitLog, CommitLogOptions, CommitLogStats, FailureHook};
pub use position::{IntervalSet, LogPosition};
pub use ticket::{SyncCallback, SyncTicket};
