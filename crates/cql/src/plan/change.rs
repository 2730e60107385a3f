//! Changes to the cells of one row.
//!
//! The elements of a list live under time uuids: what is appended gets new ones, what is prepended the mirror image
//! of new ones at a moment in the past, so that later prepends sort first.

use crate::bind::UuidSource;
use crate::error::{Result, bail};
use crate::functions::mirrored;
use bytes::Bytes;
use model::cell::{Cell, ColumnId};
use model::row::{ResultRow, Row};
use model::{ColumnKind, Deletion, TableSchema};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};

/// One change of one column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Sets a cell, or deletes it.
    Cell {
        column: ColumnId,
        path: Bytes,
        value: Option<Bytes>,
    },
    /// Deletes the elements of a column just before new ones are written with the same timestamp.
    Overwrite {
        column: ColumnId,
    },
    /// Deletes the elements of a column.
    DeleteColumn {
        column: ColumnId,
    },
    ListAppend {
        column: ColumnId,
        values: Vec<Bytes>,
    },
    ListPrepend {
        column: ColumnId,
        values: Vec<Bytes>,
    },
    ListSet {
        column: ColumnId,
        index: i32,
        value: Option<Bytes>,
    },
    ListDelete {
        column: ColumnId,
        index: i32,
    },
    ListDiscard {
        column: ColumnId,
        values: Vec<Bytes>,
    },
    Increment {
        column: ColumnId,
        delta: i64,
    },
}

/// When cells are written and when they expire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) timestamp: i64,
    /// Seconds; 0 for none.
    pub(crate) ttl: i32,
    pub(crate) now_s: u32,
    pub(crate) expiration_max: u32,
}

impl Stamp {
    /// When what is written now is gone.
    pub(crate) fn expiration(&self) -> u32 {
        self.now_s.saturating_add(self.ttl.max(0) as u32).min(self.expiration_max)
    }

    fn cell(&self, column: ColumnId, path: Bytes, value: Option<Bytes>) -> Cell {
        let cell = match (value, self.ttl) {
            (None, _) => Cell::tombstone(column, self.timestamp, self.now_s),
            (Some(value), 0) => Cell::live(column, self.timestamp, value),
            (Some(value), ttl) => Cell::expiring(column, self.timestamp, ttl, self.expiration(), value),
        };
        cell.with_path(path)
    }
}

/// Applies changes to `row`. `before` is the row as it was read, for changes that depend on it.
pub(crate) fn apply(
    table: &TableSchema,
    changes: &[Change],
    row: &mut Row,
    before: Option<ResultRow<'_>>,
    stamp: Stamp,
    uuids: &dyn UuidSource,
) -> Result<()> {
    let mut lists = Lists { table, before: &before, known: BTreeMap::new() };
    let mut discarded = discarded_values(changes);
    for change in changes {
        match change {
            Change::Cell { column, path, value } => {
                row.cells.push(stamp.cell(*column, path.clone(), value.clone()));
            }
            Change::Overwrite { column } => {
                let deletion = Deletion::new(stamp.timestamp.saturating_sub(1), stamp.now_s);
                row.complex_deletions.push((*column, deletion));
            }
            Change::DeleteColumn { column } => {
                row.complex_deletions.push((*column, Deletion::new(stamp.timestamp, stamp.now_s)));
            }
            Change::ListAppend { column, values } => {
                for value in values {
                    let path = Bytes::copy_from_slice(uuids.time_uuid().as_bytes());
                    row.cells.push(stamp.cell(*column, path, Some(value.clone())));
                }
            }
            Change::ListPrepend { column, values } => {
                for value in values.iter().rev() {
                    let path = Bytes::copy_from_slice(mirrored(&uuids.time_uuid()).as_bytes());
                    row.cells.push(stamp.cell(*column, path, Some(value.clone())));
                }
            }
            Change::ListSet { column, index, value } => {
                let cells = lists.cells(*column);
                if cells.is_empty() {
                    bail!("Attempted to set an element on a list which is null");
                }
                let path = path_at(cells, *index)?;
                row.cells.push(stamp.cell(*column, path, value.clone()));
            }
            Change::ListDelete { column, index } => {
                let cells = lists.cells(*column);
                if cells.is_empty() {
                    bail!("Attempted to delete an element from a list which is null");
                }
                let path = path_at(cells, *index)?;
                row.cells.push(stamp.cell(*column, path, None));
            }
            Change::ListDiscard { column, .. } => {
                // The first one of a column does it for all of them.
                let Some(values) = discarded.remove(column) else { continue };
                for cell in lists.cells(*column) {
                    if values.contains(&cell.value) {
                        row.cells.push(stamp.cell(*column, cell.path.clone(), None));
                    }
                }
            }
            Change::Increment { column, delta } => {
                let value = Bytes::copy_from_slice(&delta.to_be_bytes());
                row.cells.push(Cell::live(*column, stamp.timestamp, value));
            }
        }
    }
    sort(table, row);
    Ok(())
}

/// What is taken out of each list.
fn discarded_values(changes: &[Change]) -> BTreeMap<ColumnId, HashSet<&Bytes>> {
    let mut out: BTreeMap<ColumnId, HashSet<&Bytes>> = BTreeMap::new();
    for change in changes {
        if let Change::ListDiscard { column, values } = change {
            out.entry(*column).or_default().extend(values);
        }
    }
    out
}

/// The lists of a row as they were read. Each is looked at once, however many of its elements change.
struct Lists<'r, 'b> {
    table: &'r TableSchema,
    before: &'r Option<ResultRow<'b>>,
    known: BTreeMap<ColumnId, Vec<&'r Cell>>,
}

impl<'r> Lists<'r, '_> {
    /// The live elements of a list, in order.
    fn cells(&mut self, column: ColumnId) -> &[&'r Cell] {
        let (table, before) = (self.table, self.before);
        self.known.entry(column).or_insert_with(|| {
            let is_static = table.cell_column(column).is_some_and(|c| c.kind == ColumnKind::Static);
            before.as_ref().map_or_else(Vec::new, |row| row.live_cells(column, is_static).collect())
        })
    }
}

fn path_at(cells: &[&Cell], index: i32) -> Result<Bytes> {
    match usize::try_from(index).ok().and_then(|i| cells.get(i)) {
        Some(cell) => Ok(cell.path.clone()),
        None => bail!("List index {index} out of bound, list has size {}", cells.len()),
    }
}

/// Brings cells and deletions into the order of a row. Of two cells in one place, the one that wins stays.
fn sort(table: &TableSchema, row: &mut Row) {
    let position = |a: &Cell, b: &Cell| model::reconcile::compare_cell_positions(table, a, b);
    row.cells.sort_by(|a, b| position(a, b).then_with(|| model::reconcile::compare_cells(b, a)));
    row.cells.dedup_by(|a, b| position(a, b) == Ordering::Equal);
    row.complex_deletions.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.timestamp.cmp(&a.1.timestamp)));
    row.complex_deletions.dedup_by_key(|(column, _)| *column);
}
