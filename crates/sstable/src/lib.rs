//! SSTables: sorted, immutable files of partitions, in the formats of Cassandra (docs/formats/sstable-nb.md).
//!
//! This crate knows one SSTable at a time and nothing about tables. Format `nb` of the `big` layout is read and
//! written, `na` is read; the other versions are recognised and refused by name.
//!
//! * [`Descriptor`] names the files of an SSTable; [`descriptor::list`] finds them in a directory.
//! * [`SsTableWriter`] takes a stream of fragments and makes all components; [`SsTable`] opens them and reads single
//!   partitions or ranges as a [`partition::PartitionStream`].
//! * [`PageSource`] stands between a reader and its files, for a cache of index pages and data chunks.
//! * [`txn_log`] makes a set of SSTables replace another one atomically.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

mod big;
pub mod bloom;
mod checksum;
pub mod compression;
pub mod descriptor;
mod error;
pub mod fuzz;
mod pages;
pub mod statistics;
#[cfg(test)]
mod tests;
mod toc;
pub mod txn_log;

pub use big::stream::SsTableStream;
pub use big::table::SsTable;
pub use big::writer::{SsTableMeta, SsTableWriter, WriterOptions, remove_files};
pub use descriptor::{Component, Descriptor, SsTableId, Version};
pub use error::{OpenError, WriteError};
pub use pages::{FileId, FilePart, PageSource, Uncached, count_page};
