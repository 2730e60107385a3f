//! Rows: everything that one clustering of a partition holds.

use crate::cell::{Cell, ColumnId};
use crate::clustering::Clustering;
use crate::deletion::{Deletion, Liveness};
use crate::key::DecoratedKey;

/// A row, or what one source knows about it.
///
/// `cells` are sorted by column, and inside a multi-cell column by path in the order of the path's type;
/// `complex_deletions` are sorted by column and hold no [`Deletion::NONE`]. A `Row` is reused from one read
/// row to the next: [`Row::clear`] keeps its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Empty for a static row.
    pub clustering: Clustering,
    /// Whether and when the row was inserted.
    pub liveness: Liveness,
    /// Deletion of the whole row.
    pub deletion: Deletion,
    /// Whether a newer liveness takes the deletion back, so that older cells are there again. Cassandra's
    /// views of early 3.x have such deletions (CASSANDRA-10261).
    pub is_shadowable: bool,
    /// Deletions of whole multi-cell columns.
    pub complex_deletions: Vec<(ColumnId, Deletion)>,
    /// The cells.
    pub cells: Vec<Cell>,
}

/// Cells that are looked through one by one.
const FEW_CELLS: usize = 8;

/// One row of a query's result before selection: merged, filtered, with a live row or live static content.
#[derive(Clone, Copy, Debug)]
pub struct ResultRow<'a> {
    /// The partition.
    pub key: &'a DecoratedKey,
    /// The partition's static row, when it has one.
    pub static_row: Option<&'a Row>,
    /// The row; `None` for a partition that has static content only.
    pub row: Option<&'a Row>,
    /// Seconds since the epoch at which cells are judged: the row may still hold tombstones and expired
    /// cells.
    pub now_s: u32,
}

impl ResultRow<'_> {
    /// The live cell of a single-cell static or regular column.
    #[inline]
    pub fn live_cell(&self, column: ColumnId, is_static: bool) -> Option<&Cell> {
        let row = if is_static { self.static_row } else { self.row };
        row?.cell(column).filter(|cell| cell.is_live(self.now_s))
    }

    /// The live cells of a static or regular column, in path order.
    #[inline]
    pub fn live_cells(&self, column: ColumnId, is_static: bool) -> impl Iterator<Item = &Cell> {
        let row = if is_static { self.static_row } else { self.row };
        let now_s = self.now_s;
        row.map_or(&[][..], |r| r.cells_of(column)).iter().filter(move |c| c.is_live(now_s))
    }
}

impl Default for Row {
    fn default() -> Self {
        Row::new(Clustering::empty())
    }
}

impl Row {
    /// A row about which nothing is known yet.
    pub fn new(clustering: Clustering) -> Row {
        Row {
            clustering,
            liveness: Liveness::NONE,
            deletion: Deletion::NONE,
            is_shadowable: false,
            complex_deletions: Vec::new(),
            cells: Vec::new(),
        }
    }

    /// Empties the row and keeps its memory.
    pub fn clear(&mut self) {
        self.clustering.clear();
        self.clear_content();
    }

    /// Empties everything but the clustering.
    pub fn clear_content(&mut self) {
        self.liveness = Liveness::NONE;
        self.set_deletion(Deletion::NONE, false);
        self.complex_deletions.clear();
        self.cells.clear();
    }

    /// Copies `other` into this row, reusing the memory.
    pub fn assign(&mut self, other: &Row) {
        self.clustering.assign(&other.clustering);
        self.liveness = other.liveness;
        self.set_deletion(other.deletion, other.is_shadowable);
        self.complex_deletions.clear();
        self.complex_deletions.extend_from_slice(&other.complex_deletions);
        self.cells.clear();
        self.cells.extend_from_slice(&other.cells);
    }

    /// Gives the row this deletion and no other.
    #[inline]
    pub fn set_deletion(&mut self, deletion: Deletion, is_shadowable: bool) {
        (self.deletion, self.is_shadowable) = (deletion, is_shadowable);
    }

    /// Drops the deletion if the liveness takes it back, and says so.
    #[inline]
    pub fn drop_outlived_deletion(&mut self) -> bool {
        let is_outlived = self.is_shadowable && self.liveness.timestamp > self.deletion.timestamp;
        if is_outlived {
            self.set_deletion(Deletion::NONE, false);
        }
        is_outlived
    }

    /// Whether the row says nothing at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.liveness.is_none()
            && self.deletion.is_none()
            && self.cells.is_empty()
            && self.complex_deletions.is_empty()
    }

    /// Whether a reader sees the row at `now_s`: it was inserted, or a cell is live.
    pub fn is_live(&self, now_s: u32) -> bool {
        self.liveness.is_live(now_s) || self.cells.iter().any(|c| c.is_live(now_s))
    }

    /// Tombstones that a read meets in the row, as Cassandra counts them for its histogram and its
    /// thresholds. Each of the `dead` cells is one. A row without dead cells counts one if nothing of it
    /// `lives`, for what deleted it. A collection that was written whole has none.
    #[inline]
    pub fn tombstones(&self, dead: usize, lives: bool) -> u64 {
        let is_deleted = !lives && dead == 0 && !self.is_empty();
        dead as u64 + u64::from(is_deleted)
    }

    /// As [`Row::tombstones`] of what one source knows of the row: what expires lives, whenever that is.
    #[inline]
    pub fn tombstones_at_source(&self) -> u64 {
        let dead = self.cells.iter().filter(|cell| cell.is_tombstone()).count();
        self.tombstones(dead, !self.liveness.is_none() || dead < self.cells.len())
    }

    /// The cells of one column, in path order.
    #[inline]
    pub fn cells_of(&self, column: ColumnId) -> &[Cell] {
        let start = self.cells.partition_point(|c| c.column < column);
        let rest = self.cells.get(start..).unwrap_or_default();
        let len = rest.iter().take_while(|c| c.column == column).count();
        rest.get(..len).unwrap_or_default()
    }

    /// The cell of a simple column.
    #[inline]
    pub fn cell(&self, column: ColumnId) -> Option<&Cell> {
        let at = match self.cells.len() {
            // The first of few is seen sooner than halved for.
            ..=FEW_CELLS => self.cells.iter().position(|cell| cell.column >= column)?,
            _ => self.cells.partition_point(|cell| cell.column < column),
        };
        self.cells.get(at).filter(|cell| cell.column == column)
    }

    /// The deletion of a whole multi-cell column.
    pub fn complex_deletion(&self, column: ColumnId) -> Deletion {
        self.complex_deletions.iter().find(|(c, _)| *c == column).map_or(Deletion::NONE, |(_, d)| *d)
    }

    /// Bytes of the row's values, for accounting and limits.
    #[inline]
    pub fn data_size(&self) -> usize {
        self.clustering.data_size() + self.cells.iter().map(|c| c.path.len() + c.value.len()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_cell_is_found_among_few_and_many() {
        for count in 0..3 * FEW_CELLS as u32 {
            let cells = (0..count).map(|i| Cell::live(ColumnId(2 * i + 1), 5, Bytes::new())).collect();
            let row = Row { cells, ..Row::default() };
            for column in 0..=2 * count + 1 {
                let found = row.cell(ColumnId(column)).map(|cell| cell.column);
                let is_there = column % 2 == 1 && column < 2 * count;
                assert_eq!(found, is_there.then_some(ColumnId(column)), "of {count}");
            }
        }
    }
}
