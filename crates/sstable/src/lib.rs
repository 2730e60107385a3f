//! SSTables: sorted, immutable files of partitions, in the formats of Cassandra (docs/formats/sstable-big.md,
//! docs/formats/sstable-bti.md).
//!
//! This crate knows one SSTable at a time and nothing about tables. Two layouts differ in how a partition is
//! found, and share data, statistics and compression:
//!
//! | layout | index | versions read and written | versions read |
//! |---|---|---|---|
//! | `big` | sorted entries (Index.db, Summary.db) | `nb`, `oa` | `ma`, `mb`, `mc`, `md`, `me`, `na` |
//! | `bti` | tries (Partitions.db, Rows.db) | `da` | |
//!
//! Other versions are recognised and refused by name.
//!
//! * [`Descriptor`] names the files of an SSTable; [`descriptor::list`] finds them in a directory.
//! * [`SsTableWriter`] takes a stream of fragments and makes all components; [`SsTable`] opens them and reads
//!   single partitions or ranges as a [`partition::PartitionStream`].
//! * [`PageSource`] stands between a reader and its files, for a cache of index pages and data chunks.
//! * [`verify`] tells whether all components of an SSTable are sound, [`salvage`] saves what it can of one
//!   that is not.
//! * [`txn_log`] makes a set of SSTables replace another one atomically.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod adopted;
mod big;
pub mod bloom;
mod bti;
mod checksum;
pub mod compression;
mod data_walk;
pub mod descriptor;
mod error;
mod frozen;
pub mod fuzz;
mod header_check;
mod header_table;
mod index;
mod key_filter;
mod large;
mod minima;
mod outline;
mod pages;
mod proof;
mod salvage;
pub mod statistics;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod toc;
pub mod txn_log;
mod verify;
mod writer;

pub use adopted::Adoption;
pub use data_walk::WorkDone;
pub use descriptor::{Component, Descriptor, SsTableId, Version, remove_files};
pub use error::{OpenError, WriteError};
pub use frozen::table_with_frozen_types;
pub use header_table::table_of_header;
pub use large::{LargeFrom, LargePartition, LargePartitions};
pub use pages::{FileId, FilePart, PageSink, PageSource, Uncached, count_page};
pub use salvage::{Loss, SalvageError, Salvaged, salvage};
pub use stream::SsTableStream;
pub use table::{Head, Heads, Mark, NewProof, Proved, SsTable};
pub use verify::{Finding, Verified, verify, verify_as};
pub use writer::{SsTableMeta, SsTableWriter, WriterOptions};
