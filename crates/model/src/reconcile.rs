//! The one place that decides which of two writes wins.
//!
//! For cells these win, in this order (Cassandra's `Cells.reconcile`; docs/formats/commit-log.md): the larger
//! timestamp; at a tie a tombstone or an expiring cell over a plain one; a tombstone over an expiring cell;
//! the larger local deletion time; the smaller TTL; the larger value. Counters do not compete but add up, and
//! any tombstone beats them (CASSANDRA-7346). All of it is commutative, associative and idempotent.

use crate::cell::{Cell, ColumnId};
use crate::counter;
use crate::deletion::Deletion;
use crate::row::Row;
use crate::schema::TableSchema;
use crate::{Liveness, NO_DELETION_TIME};
use std::cmp::Ordering;

/// Which of two cells of the same column and path wins. Not for counters.
#[inline]
pub fn compare_cells(a: &Cell, b: &Cell) -> Ordering {
    let ends = |c: &Cell| c.local_deletion_time != NO_DELETION_TIME;
    a.timestamp
        .cmp(&b.timestamp)
        .then_with(|| ends(a).cmp(&ends(b)))
        .then_with(|| a.is_tombstone().cmp(&b.is_tombstone()))
        .then_with(|| a.local_deletion_time.cmp(&b.local_deletion_time))
        .then_with(|| b.ttl.cmp(&a.ttl))
        .then_with(|| a.value.cmp(&b.value))
}

/// Merges two cells of the same counter column.
pub fn merge_counter_cells(a: &Cell, b: &Cell) -> Cell {
    match (a.is_tombstone(), b.is_tombstone()) {
        (true, true) => {
            if compare_cells(a, b) == Ordering::Less {
                b.clone()
            } else {
                a.clone()
            }
        }
        (true, false) => a.clone(),
        (false, true) => b.clone(),
        (false, false) => Cell {
            timestamp: a.timestamp.max(b.timestamp),
            value: counter::merge(&a.value, &b.value),
            ..a.clone()
        },
    }
}

/// Order of cells inside a row.
#[inline]
pub fn compare_cell_positions(table: &TableSchema, a: &Cell, b: &Cell) -> Ordering {
    a.column.cmp(&b.column).then_with(|| compare_paths(table, a.column, &a.path, &b.path))
}

#[inline]
fn compare_paths(table: &TableSchema, column: ColumnId, a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() && b.is_empty() {
        return Ordering::Equal;
    }
    match table.cell_column(column) {
        Some(def) => def.ty.compare_paths(a, b),
        // A column dropped since: any total order will do, the cells are not read again.
        None => a.cmp(b),
    }
}

/// Merges what `other` knows about the row into `into`; both have the same clustering. What a deletion of
/// either shadows is gone from the result. More than two that may have shadowable deletions
/// ([`Row::is_shadowable`]) cannot be merged pair by pair.
pub fn merge_row_into(table: &TableSchema, into: &mut Row, other: &Row) {
    if other.liveness.supersedes(&into.liveness) {
        into.liveness = other.liveness;
    }
    if other.deletion.supersedes(&into.deletion) {
        into.set_deletion(other.deletion, other.is_shadowable);
    }
    into.drop_outlived_deletion();
    merge_complex_deletions(into, other);
    merge_cells(table, into, other);
    drop_shadowed(into);
}

fn merge_complex_deletions(into: &mut Row, other: &Row) {
    for (column, deletion) in &other.complex_deletions {
        match into.complex_deletions.binary_search_by_key(column, |(c, _)| *c) {
            Ok(at) => {
                if let Some((_, mine)) = into.complex_deletions.get_mut(at) {
                    *mine = mine.max(*deletion);
                }
            }
            Err(at) => into.complex_deletions.insert(at, (*column, *deletion)),
        }
    }
}

fn merge_cells(table: &TableSchema, into: &mut Row, other: &Row) {
    if other.cells.is_empty() {
        return;
    }
    if into.cells.is_empty() {
        into.cells.extend_from_slice(&other.cells);
        return;
    }
    let mine = std::mem::take(&mut into.cells);
    into.cells.reserve(mine.len().max(other.cells.len()));
    let mut left = mine.into_iter().peekable();
    let mut right = other.cells.iter().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(a), Some(b)) => compare_cell_positions(table, a, b),
        };
        match order {
            Ordering::Less => into.cells.extend(left.next()),
            Ordering::Greater => into.cells.extend(right.next().cloned()),
            Ordering::Equal => {
                if let (Some(a), Some(b)) = (left.next(), right.next()) {
                    into.cells.push(merge_cell(table, a, b));
                }
            }
        }
    }
}

fn merge_cell(table: &TableSchema, a: Cell, b: &Cell) -> Cell {
    if table.is_counter_column(a.column) {
        return merge_counter_cells(&a, b);
    }
    if compare_cells(&a, b) == Ordering::Less { b.clone() } else { a }
}

/// Drops what the row's own deletions shadow.
fn drop_shadowed(row: &mut Row) {
    let deletion = row.deletion;
    if !deletion.is_none() {
        if deletion.deletes(row.liveness.timestamp) {
            row.liveness = Liveness::NONE;
        }
        row.complex_deletions.retain(|(_, d)| d.supersedes(&deletion));
    }
    if deletion.is_none() && row.complex_deletions.is_empty() {
        return;
    }
    let complex = &row.complex_deletions;
    row.cells.retain(|cell| {
        if deletion.deletes(cell.timestamp) {
            return false;
        }
        match complex.binary_search_by_key(&cell.column, |(c, _)| *c) {
            Ok(at) => !complex.get(at).is_some_and(|(_, d)| d.deletes(cell.timestamp)),
            Err(_) => true,
        }
    });
}

/// Drops what a deletion of the partition or of a range around the row shadows. The row's own deletion goes
/// too when the outer one is at least as new: it says nothing any more.
pub fn apply_deletion(row: &mut Row, outer: &Deletion) {
    if outer.is_none() {
        return;
    }
    if !row.deletion.supersedes(outer) {
        row.set_deletion(Deletion::NONE, false);
    }
    if outer.deletes(row.liveness.timestamp) {
        row.liveness = Liveness::NONE;
    }
    row.complex_deletions.retain(|(_, d)| d.supersedes(outer));
    row.cells.retain(|cell| !outer.deletes(cell.timestamp));
}

#[cfg(test)]
mod tests;
