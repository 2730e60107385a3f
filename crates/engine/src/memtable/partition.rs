//! One partition of a memtable: its state under a lock, and how an update changes it.

use super::ordered::{At, RowEntry};
use super::ranges::RangeSet;
use super::rows::Rows;
use bytes::Bytes;
use env::sync::Mutex;
use model::clustering::Position;
use model::{Cell, Deletion, PartitionUpdate, Row, Slice, TableSchema, reconcile};
use std::mem::{self, size_of};
use std::sync::Arc;

/// Memory of a row besides its cells: the shared allocation and its place in the tree.
const ROW_OVERHEAD_BYTES: u64 = size_of::<Row>() as u64 + 64;
/// Memory of a range deletion besides its prefixes.
pub(super) const RANGE_OVERHEAD_BYTES: u64 = 192;

/// Bytes that the times of a row count for, and those of a cell, in the data of a memtable: as many as in
/// Cassandra's, which nodetool shows.
const ROW_TIMES_BYTES: u64 = 24;
const CELL_TIMES_BYTES: u64 = 16;

/// By how much an update made a partition larger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Growth {
    /// Estimated memory.
    pub(super) memory_bytes: u64,
    /// What was written: clusterings, values and times, without what holds them.
    pub(super) data_bytes: u64,
}

impl std::ops::AddAssign for Growth {
    fn add_assign(&mut self, other: Growth) {
        self.memory_bytes += other.memory_bytes;
        self.data_bytes += other.data_bytes;
    }
}

/// A partition.
#[derive(Debug, Default)]
pub(super) struct MemPartition {
    state: Mutex<PartitionState>,
}

/// Everything a partition holds. Cloning it is O(1) and gives a snapshot that no writer changes.
#[derive(Clone, Debug)]
pub(super) struct PartitionState {
    pub(super) deletion: Deletion,
    pub(super) static_row: Option<Arc<Row>>,
    pub(super) rows: Rows,
    pub(super) ranges: RangeSet,
}

impl Default for PartitionState {
    fn default() -> Self {
        PartitionState {
            deletion: Deletion::NONE,
            static_row: None,
            rows: Rows::default(),
            ranges: RangeSet::default(),
        }
    }
}

impl MemPartition {
    /// The state as it is now.
    pub(super) fn snapshot(&self) -> PartitionState {
        self.state.lock().clone()
    }

    /// Frees it, and calls `pause` after each piece of that work; returns the rows of the last piece.
    pub(super) fn free(self, pause: impl FnMut()) -> usize {
        self.state.into_inner().rows.free(pause)
    }

    /// Applies an update and returns by how much the partition grew.
    pub(super) fn apply(&self, update: &PartitionUpdate) -> Growth {
        let table = update.table.as_ref();
        // Copying comes before the lock: writers of one partition wait only for the tree.
        let static_row = update.static_row.as_ref().and_then(|row| own_copy(table, row));
        let rows: Vec<Row> = update.rows.iter().filter_map(|row| own_copy(table, row)).collect();

        let mut grown = Growth::default();
        let mut state = self.state.lock();
        state.deletion = state.deletion.max(update.deletion);
        if let Some(fresh) = static_row {
            grown += state.add_static(table, fresh);
        }
        for fresh in rows {
            grown += state.add_row(table, fresh);
        }
        for range in &update.range_tombstones {
            grown += state.add_range(table, &range.slice, range.deletion);
        }
        grown
    }
}

impl PartitionState {
    pub(super) fn add_static(&mut self, table: &TableSchema, fresh: Row) -> Growth {
        let memory_bytes = fresh.data_size() as u64 + cells_bytes(&fresh);
        let grown = Growth { memory_bytes, data_bytes: data_bytes(&fresh) };
        let merged = match &self.static_row {
            Some(existing) => {
                let mut merged = existing.as_ref().clone();
                reconcile::merge_row_into(table, &mut merged, &fresh);
                merged
            }
            None => fresh,
        };
        self.static_row = Some(Arc::new(merged));
        grown
    }

    pub(super) fn add_range(&mut self, table: &TableSchema, slice: &Slice, deletion: Deletion) -> Growth {
        let added = self.ranges.insert(table.comparator(), slice, deletion) as u64;
        let clusterings = slice.start.prefix.data_size() + slice.end.prefix.data_size();
        Growth {
            memory_bytes: added * RANGE_OVERHEAD_BYTES,
            data_bytes: added * (clusterings as u64 + CELL_TIMES_BYTES),
        }
    }

    pub(super) fn add_row(&mut self, table: &TableSchema, fresh: Row) -> Growth {
        let existing = self.rows.get(&At(Position::row(&fresh.clustering)));
        let Some(existing) = existing else {
            let (row_bytes, data_bytes) = (row_bytes(&fresh), data_bytes(&fresh));
            let memory_bytes = row_bytes + self.rows.insert(RowEntry::new(table.comparator(), fresh));
            return Growth { memory_bytes, data_bytes };
        };
        let before = (row_bytes(existing.row()), data_bytes(existing.row()));
        let mut merged = existing.row().clone();
        reconcile::merge_row_into(table, &mut merged, &fresh);
        let grown = Growth {
            memory_bytes: row_bytes(&merged).saturating_sub(before.0),
            data_bytes: data_bytes(&merged).saturating_sub(before.1),
        };
        self.rows.insert(RowEntry::new(table.comparator(), merged));
        grown
    }
}

fn cells_bytes(row: &Row) -> u64 {
    (row.cells.len() * size_of::<Cell>()) as u64
}

pub(super) fn row_bytes(row: &Row) -> u64 {
    ROW_OVERHEAD_BYTES + row.data_size() as u64 + cells_bytes(row)
}

fn data_bytes(row: &Row) -> u64 {
    ROW_TIMES_BYTES + row.data_size() as u64 + row.cells.len() as u64 * CELL_TIMES_BYTES
}

/// The row, reconciled within itself, with all its values in one buffer of its own; `None` when nothing is
/// left of it.
pub(super) fn own_copy(table: &TableSchema, row: &Row) -> Option<Row> {
    let mut copy = Row::new(row.clustering.clone());
    // A list that grows by itself begins with room for four cells.
    copy.cells.reserve_exact(row.cells.len());
    reconcile::merge_row_into(table, &mut copy, row);
    if !table.dropped.is_empty() {
        forget_dropped(table, &mut copy);
        if copy.is_empty() {
            return None;
        }
    }
    let total = copy.cells.iter().map(|c| c.path.len() + c.value.len()).sum();
    if total == 0 {
        for cell in &mut copy.cells {
            cell.path = Bytes::new();
            cell.value = Bytes::new();
        }
        return Some(copy);
    }
    let mut buffer = Vec::with_capacity(total);
    for cell in &copy.cells {
        buffer.extend_from_slice(&cell.path);
        buffer.extend_from_slice(&cell.value);
    }
    // A buffer that goes to one value as a whole needs no count of those who share it.
    let mut rest = Bytes::from(buffer);
    let mut take = |piece: &mut Bytes| {
        *piece = if piece.len() == rest.len() { mem::take(&mut rest) } else { rest.split_to(piece.len()) };
    };
    for cell in &mut copy.cells {
        take(&mut cell.path);
        take(&mut cell.value);
    }
    Some(copy)
}

/// Takes out what is written into a column as of a time when an earlier column of that name was not dropped
/// yet: it went with that one, also when it comes late.
fn forget_dropped(table: &TableSchema, row: &mut Row) {
    let dropped_at = |column| {
        let column = table.cell_column(column)?;
        let dropped = table.dropped_column(&column.name)?;
        Some(dropped.dropped_time_micros)
    };
    let stays = |column, timestamp| dropped_at(column).is_none_or(|dropped| timestamp > dropped);
    row.complex_deletions.retain(|(column, deletion)| stays(*column, deletion.timestamp));
    row.cells.retain(|cell| stays(cell.column, cell.timestamp));
}
