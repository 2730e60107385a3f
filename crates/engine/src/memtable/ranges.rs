//! The range deletions of a partition, resolved: a persistent set of ranges that do not overlap.
//!
//! A new range meets the ones it overlaps. Where it does, the newer deletion stands; what of the old ones
//! lies outside stays; gaps between them belong to the new one. Neighbours that touch and say the same become
//! one.
//!
//! ```text
//! old       [--- 5 ---)      [- 9 -)
//! new            [------- 7 ----------]
//! result    [ 5 )[ 7        )[- 9 -)[7]
//! ```

use super::ordered::{At, RangeEntry};
use imbl::OrdSet;
use model::clustering::Position;
use model::{ClusteringBound, ClusteringComparator, Deletion, Slice};
use std::cmp::Ordering;
use std::ops::Bound;

/// Ranges that do not overlap, by where they start.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet {
    set: OrdSet<RangeEntry>,
}

impl RangeSet {
    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The first range, in storage order, that starts after `position`.
    pub(super) fn first_after(&self, position: Position<'_>) -> Option<&RangeEntry> {
        self.set.range::<_, At<'_>>((Bound::Excluded(At(position)), Bound::Unbounded)).next()
    }

    /// The last range, in storage order, that starts at or before `position`.
    pub(super) fn last_at(&self, position: Position<'_>) -> Option<&RangeEntry> {
        self.set.get_prev(&At(position))
    }

    /// The last range, in storage order, that starts before `position`.
    pub(super) fn last_before(&self, position: Position<'_>) -> Option<&RangeEntry> {
        self.set.range::<_, At<'_>>((Bound::Unbounded, Bound::Excluded(At(position)))).next_back()
    }

    /// Adds a range and returns by how many the set grew (0 when it shrank).
    pub(super) fn insert(
        &mut self,
        comparator: &ClusteringComparator,
        slice: &Slice,
        deletion: Deletion,
    ) -> usize {
        if slice.is_empty(comparator) || deletion.is_none() {
            return 0;
        }
        let before = self.set.len();
        let order = |a: &ClusteringBound, b: &ClusteringBound| {
            comparator.compare_positions(a.position(), b.position())
        };
        let mut pieces = Pieces { comparator, list: Vec::new() };
        let mut cursor = slice.start.clone();
        for old in self.touching(comparator, slice) {
            self.set.remove(&At(old.slice().start.position()));
            let (start, end) = (&old.slice().start, &old.slice().end);
            if order(start, &slice.start) == Ordering::Less {
                pieces.push(start.clone(), slice.start.clone(), old.deletion());
            }
            pieces.push(cursor.clone(), start.clone(), deletion);
            let from = if order(start, &cursor) == Ordering::Greater { start } else { &cursor };
            let to = if order(end, &slice.end) == Ordering::Less { end } else { &slice.end };
            let winner = if deletion.supersedes(&old.deletion()) { deletion } else { old.deletion() };
            pieces.push(from.clone(), to.clone(), winner);
            if order(&slice.end, end) == Ordering::Less {
                pieces.push(slice.end.clone(), end.clone(), old.deletion());
            }
            if order(end, &cursor) == Ordering::Greater {
                cursor = end.clone();
            }
        }
        pieces.push(cursor, slice.end.clone(), deletion);
        for (slice, deletion) in pieces.list {
            self.set.insert(RangeEntry::new(comparator, slice, deletion));
        }
        self.set.len().saturating_sub(before)
    }

    /// The ranges that overlap `slice` or touch it, in order.
    fn touching(&self, comparator: &ClusteringComparator, slice: &Slice) -> Vec<RangeEntry> {
        let before = |a: Position<'_>, b: Position<'_>| comparator.compare_positions(a, b) == Ordering::Less;
        let mut out = Vec::new();
        let mut next = self
            .last_at(slice.start.position())
            .filter(|first| !before(first.slice().end.position(), slice.start.position()))
            .or_else(|| self.first_after(slice.start.position()));
        while let Some(entry) = next {
            if before(slice.end.position(), entry.slice().start.position()) {
                break;
            }
            out.push(entry.clone());
            next = self.first_after(entry.slice().start.position());
        }
        out
    }
}

/// Collects ranges in order, leaving out empty ones and joining equal neighbours.
struct Pieces<'a> {
    comparator: &'a ClusteringComparator,
    list: Vec<(Slice, Deletion)>,
}

impl Pieces<'_> {
    /// The bounds may be of any kind: only their sides count.
    fn push(&mut self, start: ClusteringBound, end: ClusteringBound, deletion: Deletion) {
        let start = if start.kind.is_end() {
            ClusteringBound::new(start.kind.complement(), start.prefix)
        } else {
            start
        };
        let end =
            if end.kind.is_start() { ClusteringBound::new(end.kind.complement(), end.prefix) } else { end };
        let slice = Slice { start, end };
        if slice.is_empty(self.comparator) {
            return;
        }
        if let Some((last, same)) = self.list.last_mut() {
            let touches = self.comparator.compare_positions(last.end.position(), slice.start.position());
            if *same == deletion && touches == Ordering::Equal {
                last.end = slice.end;
                return;
            }
        }
        self.list.push((slice, deletion));
    }
}
