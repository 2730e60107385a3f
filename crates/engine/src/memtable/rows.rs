//! The rows of a partition: a persistent set, or a lone row.
//!
//! Most partitions of a table with narrow ones hold a single row, and a node of the set takes half a kilobyte
//! however few elements are in it. So the first row stands alone, and a second one makes it a set.

use super::ordered::{At, Placed, RowEntry};
use super::partitions::FREED_ROWS;
use imbl::OrdSet;
use std::cmp::Ordering;
use std::mem;
use std::ops::Bound;

/// Memory of a set that begins: its first node, which has room for 64 rows.
pub(super) const SET_BYTES: u64 = 600;

/// Rows in the order of their clusterings. Cloning it is O(1).
#[derive(Clone, Debug, Default)]
pub(super) enum Rows {
    /// None yet.
    #[default]
    None,
    /// One.
    One(RowEntry),
    /// More than one.
    Many(OrdSet<RowEntry>),
}

impl Rows {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Rows::None)
    }

    /// Frees them, and calls `pause` after each [`FREED_ROWS`]; returns how many were freed behind the last
    /// call.
    pub(super) fn free(self, mut pause: impl FnMut()) -> usize {
        let mut rows = match self {
            Rows::None => return 0,
            Rows::One(_) => return 1,
            Rows::Many(rows) => rows,
        };
        while rows.len() > FREED_ROWS {
            (0..FREED_ROWS).for_each(|_| drop(rows.remove_max()));
            pause();
        }
        rows.len()
    }

    /// The row at a position.
    pub(super) fn get(&self, at: &At<'_>) -> Option<&RowEntry> {
        match self {
            Rows::None => None,
            Rows::One(row) => is_at(at, row).then_some(row),
            Rows::Many(rows) => rows.get(at),
        }
    }

    /// Adds a row, or replaces the one at its position. Returns the memory that this took besides the row's
    /// own.
    pub(super) fn insert(&mut self, row: RowEntry) -> u64 {
        match self {
            Rows::Many(rows) => drop(rows.insert(row)),
            Rows::One(old) if *old != row => {
                if let Rows::One(old) = mem::take(self) {
                    *self = Rows::Many(OrdSet::from_iter([old, row]));
                }
                return SET_BYTES;
            }
            Rows::None | Rows::One(_) => *self = Rows::One(row),
        }
        0
    }

    /// Appends up to `count` rows between two positions to `out`, from the end if `reversed`; returns whether
    /// these were all.
    pub(super) fn take_range(
        &self,
        start: Bound<At<'_>>,
        end: Bound<At<'_>>,
        reversed: bool,
        count: usize,
        out: &mut Vec<RowEntry>,
    ) -> bool {
        let before = out.len();
        match self {
            Rows::None => {}
            Rows::One(row) => {
                let starts = match start {
                    Bound::Included(at) => order(&at, row).is_le(),
                    Bound::Excluded(at) => order(&at, row).is_lt(),
                    Bound::Unbounded => true,
                };
                let ends = match end {
                    Bound::Included(at) => order(&at, row).is_ge(),
                    Bound::Excluded(at) => order(&at, row).is_gt(),
                    Bound::Unbounded => true,
                };
                if starts && ends && count > 0 {
                    out.push(row.clone());
                }
                return count > 0;
            }
            Rows::Many(rows) => {
                let range = rows.range::<_, At<'_>>((start, end));
                if reversed {
                    out.extend(range.rev().take(count).cloned());
                } else {
                    out.extend(range.take(count).cloned());
                }
            }
        }
        out.len() - before < count
    }
}

/// How a position lies to a row's.
fn order(at: &At<'_>, row: &RowEntry) -> Ordering {
    row.comparator().compare_positions(at.0, row.position())
}

fn is_at(at: &At<'_>, row: &RowEntry) -> bool {
    order(at, row) == Ordering::Equal
}
