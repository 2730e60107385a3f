//! A part of a partition that is filled once, in the order of its rows, and then read like a memtable's: what
//! the row cache keeps.

use super::Extremes;
use super::partition::{PartitionState, RANGE_OVERHEAD_BYTES, own_copy, row_bytes};
use super::rows::SET_BYTES;
use super::stream::MemtableStream;
use ::partition::ReadContext;
use model::command::ClusteringFilter;
use model::{DecoratedKey, Deletion, Row, Slice, TableSchema};
use std::sync::Arc;

/// See the top of the module.
#[derive(Debug, Default)]
pub struct FrozenPartition {
    state: PartitionState,
    seen: Extremes,
    bytes: u64,
}

impl FrozenPartition {
    /// Sets the partition's deletion.
    pub fn set_deletion(&mut self, deletion: Deletion) {
        self.seen.deletion(&deletion);
        self.state.deletion = deletion;
    }

    /// Sets the static row; its values are copied.
    pub fn set_static(&mut self, table: &TableSchema, row: &Row) {
        self.seen.row(row);
        if let Some(row) = own_copy(table, row) {
            self.bytes += self.state.add_static(table, row).memory_bytes;
        }
    }

    /// Whether it takes at most `bytes_max` with another row, and a range deletion that ends there.
    pub fn has_room(&self, row: &Row, bytes_max: u64) -> bool {
        self.bytes + row_bytes(row) + SET_BYTES + RANGE_OVERHEAD_BYTES <= bytes_max
    }

    /// Adds a row that is not there yet; its values are copied.
    pub fn add_row(&mut self, table: &TableSchema, row: &Row) {
        self.seen.row(row);
        if let Some(row) = own_copy(table, row) {
            self.bytes += self.state.add_row(table, row).memory_bytes;
        }
    }

    /// Adds a range deletion.
    pub fn add_range(&mut self, table: &TableSchema, slice: &Slice, deletion: Deletion) {
        self.seen.deletion(&deletion);
        self.bytes += self.state.add_range(table, slice, deletion).memory_bytes;
    }

    /// Estimated memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the first of what is deleted or expires in it does, in seconds since the epoch.
    pub fn min_local_deletion_time(&self) -> u32 {
        self.seen.min_local_deletion_time
    }

    /// A stream of it.
    pub fn read(
        &self,
        table: &Arc<TableSchema>,
        key: &DecoratedKey,
        filter: &ClusteringFilter,
        ctx: &ReadContext,
    ) -> MemtableStream {
        MemtableStream::of_partition(table, key.clone(), self.state.clone(), filter, ctx)
    }
}
