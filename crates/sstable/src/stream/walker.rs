//! The two ways through the rows and markers of a partition, behind one face.

use super::forward::{Forward, UnfilteredKind};
use super::reverse::Reverse;
use crate::index::{Hints, RowIndex};
use crate::pages::Cursor;
use model::clustering::Position;
use model::{ClusteringBound, ClusteringComparator, Deletion, Row, Slice};
use partition::ReadError;
use partition::codec::{Layout, Wanted};

/// Direction and place inside a partition. Most reads go forwards, and a box would be one more allocation for
/// each.
#[allow(clippy::large_enum_variant)]
#[derive(Debug)]
pub(crate) enum Walker {
    Forward(Forward),
    Reverse(Box<Reverse>),
}

impl Walker {
    #[inline]
    pub fn new(reversed: bool) -> Walker {
        match reversed {
            true => Walker::Reverse(Box::default()),
            false => Walker::Forward(Forward::default()),
        }
    }

    /// Starts a partition whose first row or marker is at `first_at` in the data, where a walk forward
    /// stands. `is_proven` says that pages are where they belong and the index of rows is right.
    pub fn begin(
        &mut self,
        data: &Cursor,
        partition_start: u64,
        first_at: u64,
        rows: Option<RowIndex>,
        may_delete: bool,
        is_proven: bool,
    ) {
        match self {
            Walker::Forward(walker) => walker.begin(data, partition_start, rows, may_delete, is_proven),
            Walker::Reverse(walker) => {
                walker.begin(data, partition_start, first_at, rows, may_delete, is_proven);
            }
        }
    }

    /// Whether what comes next is in memory.
    pub fn is_at_hand(&self, data: &Cursor) -> bool {
        match self {
            Walker::Forward(walker) => walker.has_head() || data.is_in_page(),
            Walker::Reverse(walker) => walker.is_loaded(),
        }
    }

    /// Loads the page in which the next row or marker begins, if it is to be read from the file.
    pub fn turn_page(&self, data: &mut Cursor) -> Result<(), ReadError> {
        match self {
            Walker::Forward(walker) if !walker.has_head() => data.page().map(|_| ()),
            _ => Ok(()),
        }
    }

    /// Reads the head, unless that was done.
    #[inline]
    pub fn peek(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
    ) -> Result<UnfilteredKind, ReadError> {
        match self {
            Walker::Forward(walker) => walker.peek_in_place(data, layout, comparator),
            Walker::Reverse(walker) => walker.peek(data, layout, comparator),
        }
    }

    /// Leaves the row or marker at the head.
    pub fn skip(&mut self, data: &mut Cursor) -> Result<(), ReadError> {
        match self {
            Walker::Forward(walker) => walker.skip(data),
            Walker::Reverse(walker) => {
                walker.skip();
                Ok(())
            }
        }
    }

    /// The position of the row or marker at the head.
    #[inline]
    pub fn position(&self) -> Option<Position<'_>> {
        match self {
            Walker::Forward(walker) => Some(walker.position()),
            Walker::Reverse(walker) => walker.position(),
        }
    }

    /// The range deletion that holds where the walk comes from.
    pub fn open(&self) -> Deletion {
        match self {
            Walker::Forward(walker) => walker.open(),
            Walker::Reverse(walker) => walker.open(),
        }
    }

    /// Moves the row at the head into `row`.
    #[inline]
    pub fn take_row(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        wanted: &Wanted,
        row: &mut Row,
    ) -> Result<(), ReadError> {
        match self {
            Walker::Forward(walker) => walker.take_row_in_place(data, layout, comparator, wanted, row),
            Walker::Reverse(walker) => walker.take_row(data, layout, wanted, row),
        }
    }

    /// Moves the bound of the marker at the head into `bound`.
    pub fn take_marker(&mut self, bound: &mut ClusteringBound) {
        match self {
            Walker::Forward(walker) => walker.take_marker(bound),
            Walker::Reverse(walker) => walker.take_marker(bound),
        }
    }

    /// Jumps to the block that the slice's first edge in the direction of the walk lies in, if that is ahead.
    /// `hints` as for [`RowIndex::reaching`].
    pub fn seek(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        slice: &Slice,
        hints: Hints<'_>,
    ) -> Result<(), ReadError> {
        match self {
            Walker::Forward(walker) => walker.seek(data, layout, comparator, &slice.start, hints),
            Walker::Reverse(walker) => walker.seek(layout, comparator, &slice.end, hints),
        }
    }
}
