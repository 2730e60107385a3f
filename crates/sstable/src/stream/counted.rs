//! What a stream has met on its way: costs that are reported once for each partition.

use model::Row;
use partition::ReadCost;

/// Since it was reported last.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub rows: u64,
    cells: u64,
    pub tombstones: u64,
}

impl Counted {
    /// Takes a row.
    #[inline]
    pub fn row(&mut self, row: &Row) {
        self.rows += 1;
        self.cells += row.cells.len() as u64;
        self.tombstones += row.tombstones_at_source();
    }

    /// Takes plain rows with so many cells.
    pub fn plain(&mut self, rows: u64, cells: u64) {
        self.rows += rows;
        self.cells += cells;
    }

    /// Adds up and starts anew.
    pub fn report(&mut self, cost: &ReadCost) {
        cost.rows_scanned.add(self.rows);
        cost.cells_scanned.add(self.cells);
        cost.tombstones_scanned.add(self.tombstones);
        *self = Counted::default();
    }
}
