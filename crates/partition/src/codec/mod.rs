//! Rows as bytes: the encoding that SSTables, the commit log and messages between nodes share
//! (docs/formats/sstable-big.md).
//!
//! ```text
//! unfiltered := row | marker | 0x01 (end of the partition)
//! row        := flags [ext] clustering [size prev] [timestamp] [ttl expiration] [deletion] [columns] column*
//! column     := cell                                    a single-cell column
//!             | [deletion] uvint count, cell*           a multi-cell column
//! cell       := flags [timestamp] [local deletion] [ttl] [path] [value]
//! marker     := 0x02 bound [size prev] deletion [deletion]
//! ```
//! Parts in brackets are there when a flag says so. `size prev` stand in SSTables only
//! ([`Layout::is_sized`]). Timestamps, deletion times and TTLs are differences to an [`EncodingStats`].
//!
//! * [`SerializationHeader`] is what an SSTable says about its columns. [`Layout`] maps such a list of
//!   columns to the ids of a table's schema. Rows are encoded and decoded with it.
//! * [`Input`] is where encoded bytes come from: a buffer, or the pages of a file. Values are slices of the
//!   buffer that is decoded.
//! * [`mutation`] holds the encoding of whole mutations (docs/formats/commit-log.md).
//!
//! The versions of SSTables and of messages share all of it but for [`DeletionTimes`].

mod clustering;
mod columns;
mod decode;
mod encode;
mod header;
mod input;
mod layout;
pub mod mutation;
mod plain;
mod ranges;
mod stats;
#[cfg(test)]
mod tests;

pub use clustering::{
    read_bound, read_clustering, read_prefix, skip_prefix, write_bound, write_clustering, write_prefix,
};
pub use columns::ColumnSet;
pub use decode::{Marker, RowFlags, UnfilteredHead};
pub use encode::{EncodeError, LONG_VALUE_BYTES, RowSizes, write_end};
pub use header::{HeaderColumn, SerializationHeader};
pub use input::{DecodeError, Input, SliceInput};
pub use layout::{Layout, LayoutError, Others, ValueLen, Wanted};
pub use plain::InPlace;
pub use ranges::{changes_of_tombstones, tombstones_of_changes};
pub use stats::{DELETION_EPOCH_S, DeletionTimes, EncodingStats, StatsCollector, TIMESTAMP_EPOCH_MICROS};
