//! Changes to the cells of one row.
//!
//! The elements of a list live under time uuids. Appended elements get new ones. Prepended elements get the
//! mirror image of new ones at a moment in the past, so that later prepends sort first.

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
    /// Sets nothing, but the list has to have that element.
    ListLook {
        column: ColumnId,
        index: i32,
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
    let mut changes = changes.iter().peekable();
    while let Some(change) = changes.next() {
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
                let cells = lists.cells(*column, &row.cells);
                if cells.is_empty() {
                    bail!("Attempted to set an element on a list which is null");
                }
                let path = path_at(cells, *index)?;
                row.cells.push(stamp.cell(*column, path, value.clone()));
            }
            Change::ListLook { column, index } => {
                let cells = lists.cells(*column, &row.cells);
                if cells.is_empty() {
                    bail!("Attempted to set an element on a list which is null");
                }
                path_at(cells, *index)?;
            }
            Change::ListDelete { column, index } => {
                let cells = lists.cells(*column, &row.cells);
                if cells.is_empty() {
                    bail!("Attempted to delete an element from a list which is null");
                }
                let path = path_at(cells, *index)?;
                row.cells.push(stamp.cell(*column, path, None));
            }
            Change::ListDiscard { column, values } => {
                // Those that follow on the same list take out what they name at once.
                let mut discarded: HashSet<&Bytes> = values.iter().collect();
                while let Some(Change::ListDiscard { values, .. }) = changes
                    .next_if(|next| matches!(next, Change::ListDiscard { column: c, .. } if c == column))
                {
                    discarded.extend(values);
                }
                let cells = lists.cells(*column, &row.cells).iter();
                let found = cells.filter(|cell| discarded.contains(&cell.value));
                let paths: Vec<Bytes> = found.map(|cell| cell.path.clone()).collect();
                row.cells.extend(paths.into_iter().map(|path| stamp.cell(*column, path, None)));
            }
            Change::Increment { column, delta } => {
                let value = Bytes::copy_from_slice(&delta.to_be_bytes());
                add_increment(row, Cell::live(*column, stamp.timestamp, value));
            }
        }
    }
    sort(table, row);
    Ok(())
}

/// Adds what `next` changes of the same row to `row`, which has to be brought into order ([`sort`])
/// afterwards.
pub(crate) fn join(table: &TableSchema, row: &mut Row, next: Row) {
    row.complex_deletions.extend(next.complex_deletions);
    for cell in next.cells {
        match table.is_counter && !cell.is_tombstone() {
            true => add_increment(row, cell),
            false => row.cells.push(cell),
        }
    }
}

/// Several increments of one counter add up.
fn add_increment(row: &mut Row, mut cell: Cell) {
    let Some(earlier) = row.cells.iter_mut().find(|earlier| earlier.column == cell.column) else {
        row.cells.push(cell);
        return;
    };
    if let (Some(sum), Some(delta)) = (earlier.value.as_array::<8>(), cell.value.as_array::<8>()) {
        let sum = i64::from_be_bytes(*sum).wrapping_add(i64::from_be_bytes(*delta));
        cell.value = Bytes::copy_from_slice(&sum.to_be_bytes());
    }
    *earlier = cell;
}

/// The lists of a row that changes depend on: as they were read, with what the statement did to them so far.
/// Each is put together once, however many of its elements change.
struct Lists<'r, 'b> {
    table: &'r TableSchema,
    before: &'r Option<ResultRow<'b>>,
    known: BTreeMap<ColumnId, KnownList>,
}

/// The live elements of a list, in order.
#[derive(Default)]
struct KnownList {
    cells: Vec<Cell>,
    /// How many cells of the changed row it has taken in.
    seen: usize,
}

impl Lists<'_, '_> {
    /// The live elements of a list, in order, given the cells that the statement has made.
    fn cells(&mut self, column: ColumnId, changed: &[Cell]) -> &[Cell] {
        let (table, before) = (self.table, self.before);
        let list = self.known.entry(column).or_insert_with(|| {
            let is_static = table.cell_column(column).is_some_and(|c| c.kind == ColumnKind::Static);
            let cells = before
                .as_ref()
                .map_or_else(Vec::new, |row| row.live_cells(column, is_static).cloned().collect());
            KnownList { cells, seen: 0 }
        });
        for cell in changed.get(list.seen..).unwrap_or_default().iter().filter(|cell| cell.column == column) {
            list.take_in(table, cell);
        }
        list.seen = changed.len();
        &list.cells
    }
}

impl KnownList {
    fn take_in(&mut self, table: &TableSchema, cell: &Cell) {
        let position = |known: &Cell| model::reconcile::compare_cell_positions(table, known, cell);
        match self.cells.binary_search_by(position) {
            Ok(at) => match self.cells.get_mut(at) {
                Some(known) if model::reconcile::compare_cells(known, cell) != Ordering::Less => {}
                Some(_) if cell.is_tombstone() => {
                    self.cells.remove(at);
                }
                Some(known) => *known = cell.clone(),
                None => {}
            },
            Err(at) if !cell.is_tombstone() => self.cells.insert(at, cell.clone()),
            Err(_) => {}
        }
    }
}

fn path_at(cells: &[Cell], index: i32) -> Result<Bytes> {
    match usize::try_from(index).ok().and_then(|i| cells.get(i)) {
        Some(cell) => Ok(cell.path.clone()),
        None => bail!("List index {index} out of bound, list has size {}", cells.len()),
    }
}

/// Brings cells and deletions into the order of a row. Of two cells in one place, the one that wins stays.
pub(crate) fn sort(table: &TableSchema, row: &mut Row) {
    let position = |a: &Cell, b: &Cell| model::reconcile::compare_cell_positions(table, a, b);
    row.cells.sort_by(|a, b| position(a, b).then_with(|| model::reconcile::compare_cells(b, a)));
    row.cells.dedup_by(|a, b| position(a, b) == Ordering::Equal);
    row.complex_deletions.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.timestamp.cmp(&a.1.timestamp)));
    row.complex_deletions.dedup_by_key(|(column, _)| *column);
}
