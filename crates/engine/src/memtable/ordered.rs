//! Elements of the persistent sets: rows and range deletions that carry the order of their table, and
//! positions to look them up by.

use equivalent::{Comparable, Equivalent};
use model::clustering::Position;
use model::{ClusteringComparator, Deletion, Row, Slice};
use std::cmp::Ordering;
use std::sync::Arc;

/// A row in a persistent set. Replaced as a whole when it changes.
#[derive(Clone, Debug)]
pub(super) struct RowEntry(Arc<(ClusteringComparator, Row)>);

impl RowEntry {
    pub(super) fn new(comparator: &ClusteringComparator, row: Row) -> RowEntry {
        RowEntry(Arc::new((comparator.clone(), row)))
    }

    pub(super) fn row(&self) -> &Row {
        &self.0.1
    }
}

/// A range deletion in a persistent set, which is ordered by where they start.
#[derive(Clone, Debug)]
pub(super) struct RangeEntry(Arc<(ClusteringComparator, Slice, Deletion)>);

impl RangeEntry {
    pub(super) fn new(comparator: &ClusteringComparator, slice: Slice, deletion: Deletion) -> RangeEntry {
        RangeEntry(Arc::new((comparator.clone(), slice, deletion)))
    }

    pub(super) fn slice(&self) -> &Slice {
        &self.0.1
    }

    pub(super) fn deletion(&self) -> Deletion {
        self.0.2
    }
}

/// What has a place in the order of clusterings.
pub(super) trait Placed {
    /// The order.
    fn comparator(&self) -> &ClusteringComparator;
    /// The place.
    fn position(&self) -> Position<'_>;
}

impl Placed for RowEntry {
    fn comparator(&self) -> &ClusteringComparator {
        &self.0.0
    }

    fn position(&self) -> Position<'_> {
        Position::row(&self.0.1.clustering)
    }
}

impl Placed for RangeEntry {
    fn comparator(&self) -> &ClusteringComparator {
        &self.0.0
    }

    fn position(&self) -> Position<'_> {
        self.0.1.start.position()
    }
}

macro_rules! ordered {
    ($entry:ty) => {
        impl Ord for $entry {
            fn cmp(&self, other: &Self) -> Ordering {
                self.comparator().compare_positions(self.position(), other.position())
            }
        }

        impl PartialOrd for $entry {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $entry {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other) == Ordering::Equal
            }
        }

        impl Eq for $entry {}
    };
}

ordered!(RowEntry);
ordered!(RangeEntry);

/// A place to look entries up by.
#[derive(Clone, Copy)]
pub(super) struct At<'a>(pub(super) Position<'a>);

impl<E: Placed> Equivalent<E> for At<'_> {
    fn equivalent(&self, key: &E) -> bool {
        self.compare(key) == Ordering::Equal
    }
}

impl<E: Placed> Comparable<E> for At<'_> {
    fn compare(&self, key: &E) -> Ordering {
        key.comparator().compare_positions(self.0, key.position())
    }
}
