//! The vocabulary of the node: values without I/O.
//!
//! Types and their values, schema, partition keys and tokens, clusterings and bounds, cells, rows, deletions,
//! mutations, read commands, consistency levels, and [`reconcile`]: the one place that decides which of two
//! writes wins.
//!
//! Conventions that hold everywhere in the workspace:
//! - timestamps are microseconds since the epoch in an `i64`; [`NO_TIMESTAMP`] means "none";
//! - local deletion times and expirations are seconds since the epoch in a `u32`; [`NO_DELETION_TIME`] means
//!   "none";
//! - TTLs are seconds in an `i32`; [`NO_TTL`] means "does not expire";
//! - values are [`bytes::Bytes`] in the encoding of the native protocol v3 and later.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod byte_comparable;
pub mod cell;
pub mod checksum;
pub mod clustering;
pub mod command;
pub mod consistency;
pub mod counter;
pub mod deletion;
pub mod elements;
pub mod filter;
pub mod key;
pub mod multi_cell;
pub mod murmur3;
pub mod mutation;
pub mod reconcile;
pub mod row;
pub mod schema;
pub mod types;
pub mod vint;
pub mod write_type;

pub use cell::{Cell, ColumnId};
pub use clustering::{BoundKind, Clustering, ClusteringBound, ClusteringComparator, Component, Slice};
pub use consistency::Consistency;
pub use deletion::{Deletion, Liveness};
pub use key::{DecoratedKey, PartitionKey, Token};
pub use mutation::{Mutation, PartitionUpdate, RangeTombstone};
pub use row::Row;
pub use schema::{ColumnDef, ColumnKind, KeyspaceSchema, Schema, TableSchema};
pub use types::CqlType;
pub use write_type::WriteType;

/// The timestamp of something that was never written.
pub const NO_TIMESTAMP: i64 = i64::MIN;
/// The local deletion time of something that neither is deleted nor expires.
pub const NO_DELETION_TIME: u32 = u32::MAX;
/// The TTL of something that does not expire.
pub const NO_TTL: i32 = 0;
