//! The rows and markers of a partition from first to last.

use super::index::PromotedIndex;
use crate::pages::Cursor;
use model::clustering::Position;
use model::{BoundKind, Clustering, ClusteringBound, ClusteringComparator, Deletion, Row};
use partition::ReadError;
use partition::codec::{ColumnSet, Input, Layout, Marker, RowFlags, UnfilteredHead, Wanted};

/// What a walker found next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    Row,
    Marker,
    End,
}

/// Reads a partition forward. A row is decoded only when it is taken; one that is skipped costs its clustering.
#[derive(Debug)]
pub(crate) struct Forward {
    head: Option<Head>,
    flags: Option<RowFlags>,
    head_start: u64,
    /// Where the row or marker at the head ends.
    head_end: u64,
    clustering: Clustering,
    bound: ClusteringBound,
    marker: Marker,
    /// The range deletion that holds before the head.
    open: Deletion,
    present: ColumnSet,
    partition_start: u64,
    promoted: Option<PromotedIndex>,
}

impl Default for Forward {
    fn default() -> Self {
        Forward {
            head: None,
            flags: None,
            head_start: 0,
            head_end: 0,
            clustering: Clustering::empty(),
            bound: ClusteringBound::BOTTOM,
            marker: Marker { close: Deletion::NONE, open: Deletion::NONE },
            open: Deletion::NONE,
            present: ColumnSet::default(),
            partition_start: 0,
            promoted: None,
        }
    }
}

impl Forward {
    /// Starts a partition whose first row or marker is at the cursor.
    pub fn begin(&mut self, partition_start: u64, promoted: Option<PromotedIndex>) {
        self.head = None;
        self.open = Deletion::NONE;
        self.partition_start = partition_start;
        self.promoted = promoted;
    }

    /// The range deletion that holds before the head.
    pub fn open(&self) -> Deletion {
        self.open
    }

    /// The position of the row or marker at the head.
    pub fn position(&self) -> Position<'_> {
        match self.head {
            Some(Head::Marker) => self.bound.position(),
            _ => Position { kind: BoundKind::Row, prefix: &self.clustering },
        }
    }

    /// Reads the head, unless that was done.
    pub fn peek(&mut self, data: &mut Cursor, layout: &Layout) -> Result<Head, ReadError> {
        if let Some(head) = self.head {
            return Ok(head);
        }
        self.head_start = data.position();
        let head = match layout.read_head(data)? {
            UnfilteredHead::End => Head::End,
            UnfilteredHead::Marker => {
                layout.read_bound(data, &mut self.bound)?;
                self.head_end = layout.read_end(data)?;
                self.marker = layout.read_marker(data, &self.bound)?;
                check_end(data, self.head_end)?;
                Head::Marker
            }
            UnfilteredHead::Row(flags) => {
                if flags.is_static {
                    return Err(data.malformed("a static row among rows".to_owned()));
                }
                layout.read_clustering(data, &mut self.clustering)?;
                self.head_end = layout.read_end(data)?;
                self.flags = Some(flags);
                Head::Row
            }
        };
        self.head = Some(head);
        Ok(head)
    }

    /// Moves the row at the head into `row`.
    pub fn take_row(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        wanted: &Wanted,
        row: &mut Row,
    ) -> Result<(), ReadError> {
        let Some(flags) = self.flags else { return Err(data.malformed("no row here".to_owned())) };
        std::mem::swap(&mut row.clustering, &mut self.clustering);
        layout.read_row_body(data, flags, wanted, &mut self.present, row)?;
        self.head = None;
        check_end(data, self.head_end)
    }

    /// Moves the bound of the marker at the head into `bound`.
    pub fn take_marker(&mut self, bound: &mut ClusteringBound) {
        std::mem::swap(bound, &mut self.bound);
        self.open = self.marker.open;
        self.head = None;
    }

    /// Leaves the row or marker at the head.
    pub fn skip(&mut self, data: &mut Cursor) -> Result<(), ReadError> {
        if self.head == Some(Head::Marker) {
            self.open = self.marker.open;
        } else {
            let rest = self.head_end.checked_sub(data.position());
            data.skip(rest.unwrap_or(u64::MAX))?;
        }
        self.head = None;
        Ok(())
    }

    /// Jumps to the block that `bound` lies in, if that is ahead.
    pub fn seek(
        &mut self,
        data: &mut Cursor,
        index: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
    ) -> Result<(), ReadError> {
        let Some(promoted) = &mut self.promoted else { return Ok(()) };
        let target = promoted.first_reaching(index, layout, comparator, bound)?;
        if target == promoted.count {
            self.head = Some(Head::End);
            self.open = Deletion::NONE;
            return Ok(());
        }
        let Some(before) = target.checked_sub(1) else { return Ok(()) };
        let block = promoted.block(index, layout, target)?;
        let here = if self.head.is_some() { self.head_start } else { data.position() };
        let there = self.partition_start.saturating_add(block.offset);
        if there > here {
            self.open = promoted.block(index, layout, before)?.open_at_end;
            self.head = None;
            data.seek(there);
        }
        Ok(())
    }
}

/// A row or marker must end where its size says.
pub(super) fn check_end(data: &Cursor, end: u64) -> Result<(), ReadError> {
    match data.position() == end {
        true => Ok(()),
        false => Err(data.malformed(format!("a row or marker that should end at {end}"))),
    }
}
