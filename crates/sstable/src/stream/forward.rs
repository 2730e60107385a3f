//! The rows and markers of a partition from first to last.

use super::places::Places;
use super::skip;
use crate::index::{Hints, RowIndex};
use crate::pages::{Cursor, InPage, NotInPage};
use model::clustering::Position;
use model::{BoundKind, Clustering, ClusteringBound, ClusteringComparator, Deletion, Row};
use partition::ReadError;
use partition::codec::{ColumnSet, Input, Layout, Marker, RowFlags, UnfilteredHead, Wanted};

/// Bytes of a page within which a row's clustering and sizes mostly lie.
const AT_HAND_BYTES: usize = 256;

/// A deletion that the index of rows has open where the data has another one.
pub(super) const WRONG_OPEN: &str = "the index has another range deletion open here than the data";

/// What stands next in a partition: an unfiltered (a row or the marker of a range deletion), or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnfilteredKind {
    Row,
    Marker,
    End,
}

/// Reads a partition forward. A row is decoded only when it is taken; one that is skipped costs its
/// clustering.
#[derive(Debug)]
pub(crate) struct Forward {
    pub(super) head: Option<UnfilteredKind>,
    flags: Option<RowFlags>,
    /// Where the last head starts; `None` before the first one of a partition.
    pub(super) head_start: Option<u64>,
    /// Where the last row or marker before the next head starts; before the first one, where the partition
    /// does. `None` when it is not known.
    pub(super) before: Option<u64>,
    /// Where the row or marker at the head ends.
    pub(super) head_end: u64,
    clustering: Clustering,
    bound: ClusteringBound,
    marker: Marker,
    /// The range deletion that holds before the head.
    open: Deletion,
    pub(super) present: ColumnSet,
    partition_start: u64,
    rows: Option<RowIndex>,
    pub(super) places: Places,
    /// Whether the file may have range deletions at all.
    may_delete: bool,
    /// Whether pages are where they belong, and the index of rows is right.
    is_proven: bool,
}

impl Default for Forward {
    fn default() -> Self {
        Forward {
            head: None,
            flags: None,
            head_start: None,
            before: None,
            head_end: 0,
            clustering: Clustering::empty(),
            bound: ClusteringBound::BOTTOM,
            marker: Marker { close: Deletion::NONE, open: Deletion::NONE },
            open: Deletion::NONE,
            present: ColumnSet::default(),
            partition_start: 0,
            rows: None,
            places: Places::default(),
            may_delete: true,
            is_proven: false,
        }
    }
}

impl Forward {
    /// Starts a partition whose first row or marker is at the cursor.
    pub fn begin(
        &mut self,
        data: &Cursor,
        partition_start: u64,
        rows: Option<RowIndex>,
        may_delete: bool,
        is_proven: bool,
    ) {
        self.places.begin(data, partition_start, is_proven);
        self.is_proven = is_proven;
        self.head = None;
        self.head_start = None;
        self.open = Deletion::NONE;
        self.before = Some(partition_start);
        self.may_delete = may_delete;
        self.partition_start = partition_start;
        self.rows = rows;
    }

    /// The range deletion that holds before the head.
    pub fn open(&self) -> Deletion {
        self.open
    }

    /// Whether the head was read.
    pub fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Where in the data the last head starts; `None` before the first one of a partition.
    pub fn head_start(&self) -> Option<u64> {
        self.head_start
    }

    /// Where what comes next starts: the head, if it was read, or what `data` stands at.
    pub fn next_start(&self, data: &Cursor) -> u64 {
        self.head_start.filter(|_| self.head.is_some()).unwrap_or(data.position())
    }

    /// Says which range deletion holds where a walk begins in the middle of a partition. What lies before is
    /// not known.
    pub fn set_open(&mut self, open: Deletion) {
        self.open = open;
        self.before = None;
    }

    /// The position of the row or marker at the head.
    pub fn position(&self) -> Position<'_> {
        match self.head {
            Some(UnfilteredKind::Marker) => self.bound.position(),
            _ => Position { kind: BoundKind::Row, prefix: &self.clustering },
        }
    }

    /// Reads the head, unless that was done.
    pub fn peek(&mut self, data: &mut Cursor, layout: &Layout) -> Result<UnfilteredKind, ReadError> {
        if let Some(head) = self.head {
            return Ok(head);
        }
        let start = data.position();
        self.head_start = Some(start);
        let clustering = &mut self.clustering;
        let row = data.decode_in_page(|page| {
            let flags = row_flags(page, layout)?;
            layout.read_clustering(page, clustering)?;
            let (end, before) = layout.read_sizes(page)?;
            Ok((flags, end, before))
        });
        if let Some((flags, end, before)) = row {
            self.note_sizes(data, start, end, before)?;
            self.flags = Some(flags);
            self.head = Some(UnfilteredKind::Row);
            return Ok(UnfilteredKind::Row);
        }
        let head = match layout.read_head(data)? {
            UnfilteredHead::End => UnfilteredKind::End,
            UnfilteredHead::Marker => {
                layout.read_bound(data, &mut self.bound)?;
                self.read_sizes(data, layout, start)?;
                self.marker = layout.read_marker(data, &self.bound)?;
                check_end(data, self.head_end)?;
                UnfilteredKind::Marker
            }
            UnfilteredHead::Row(flags) => {
                if flags.is_static {
                    return Err(data.malformed("a static row among rows".to_owned()));
                }
                layout.read_clustering(data, &mut self.clustering)?;
                self.read_sizes(data, layout, start)?;
                self.flags = Some(flags);
                UnfilteredKind::Row
            }
        };
        self.head = Some(head);
        Ok(head)
    }

    /// As [`Forward::peek`]; makes sure that the page is where it belongs.
    #[inline]
    pub fn peek_in_place(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
    ) -> Result<UnfilteredKind, ReadError> {
        if let Some(head) = self.head {
            return Ok(head);
        }
        let start = data.position();
        let head = self.peek(data, layout)?;
        if self.places.is_new(start) && head != UnfilteredKind::End {
            let position = match head {
                UnfilteredKind::Marker => self.bound.position(),
                _ => Position::row(&self.clustering),
            };
            self.places.check(data, layout, comparator, self.rows.as_mut(), start, position)?;
        }
        Ok(head)
    }

    /// Leaves the rows at hand that lie before `bound`, `rows_max` at most. Only their clusterings are looked
    /// at, in place. Returns how many rows were left, and whether the next thing was seen to be a row that
    /// does not lie before `bound`.
    pub fn skip_before(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        rows_max: u64,
    ) -> (u64, bool) {
        let (mut skipped, mut is_there) = (0, false);
        if self.head.is_some() {
            return (skipped, is_there);
        }
        let (before, head_start, head_end) = (&mut self.before, &mut self.head_start, &mut self.head_end);
        let places = &self.places;
        let _ = data.decode_in_page(|page| {
            // What fails is left to be read as a head, which tells what is wrong.
            let mut leave = |page: &mut InPage<'_>| {
                let start = page.position();
                if places.is_new(start) {
                    return Err(NotInPage);
                }
                row_flags(page, layout)?;
                is_there = layout.compare_clustering(page, comparator, bound.position())?.is_ge();
                if is_there {
                    return Err(NotInPage);
                }
                let (end, says) = layout.read_sizes(page)?;
                if before.is_some_and(|before| start.checked_sub(says) != Some(before)) {
                    return Err(NotInPage);
                }
                page.go_on_to(end)?;
                (*before, *head_start, *head_end) = (Some(start), Some(start), end);
                Ok(())
            };
            while skipped < rows_max {
                let mut next = page.clone();
                if leave(&mut next).is_err() {
                    break;
                }
                *page = next;
                skipped += 1;
            }
            Ok(())
        });
        (skipped, is_there)
    }

    /// Leaves the rest of a row.
    fn skip_rest(&self, data: &mut Cursor) -> Result<(), ReadError> {
        let rest = self.head_end.checked_sub(data.position());
        data.skip(rest.unwrap_or(u64::MAX))
    }

    #[inline]
    fn read_sizes(&mut self, data: &mut Cursor, layout: &Layout, start: u64) -> Result<(), ReadError> {
        let (end, before) = layout.read_sizes(data)?;
        self.note_sizes(data, start, end, before)
    }

    /// Takes the sizes of what starts at `start`.
    #[inline]
    fn note_sizes(&mut self, data: &Cursor, start: u64, end: u64, before: u64) -> Result<(), ReadError> {
        if let Some(expected) = self.before.replace(start) {
            check_before(data, start, before, expected)?;
        }
        self.head_end = end;
        Ok(())
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
        self.head = None;
        read_body(data, layout, flags, self.head_end, wanted, &mut self.present, row)
    }

    /// Moves the next row into `row` if that needs no look elsewhere. Then the row lies in the page at hand,
    /// the page is known to be where it belongs, and the clustering is `wanted_here`. Otherwise only `row`
    /// has changed, and what comes next is to be read as a head.
    #[inline]
    pub fn take_in_page(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        wanted: &Wanted,
        row: &mut Row,
        wanted_here: impl FnOnce(&Clustering) -> bool,
    ) -> bool {
        if self.head.is_some() {
            return false;
        }
        let (places, before, present) = (&self.places, self.before, &mut self.present);
        let taken = data.decode_in_page(|page| {
            let start = page.position();
            let flags = row_flags(page, layout)?;
            layout.read_clustering(page, &mut row.clustering)?;
            let (end, says) = layout.read_sizes(page)?;
            let follows = before.is_none_or(|before| start.checked_sub(says) == Some(before));
            if !follows || places.is_new(start) || places.is_new_behind(end) || !wanted_here(&row.clustering)
            {
                return Err(NotInPage);
            }
            layout.read_row_body(page, flags, Some(end), wanted, present, row)?;
            if page.position() == end { Ok((start, end)) } else { Err(NotInPage) }
        });
        let Some((start, end)) = taken else { return false };
        (self.before, self.head_start, self.head_end) = (Some(start), Some(start), end);
        true
    }

    /// As [`Forward::take_row`]. The end of a row that reaches into a page belongs to it if what follows in
    /// the page does.
    #[inline]
    pub fn take_row_in_place(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        wanted: &Wanted,
        row: &mut Row,
    ) -> Result<(), ReadError> {
        self.take_row(data, layout, wanted, row)?;
        if self.places.is_new_behind(self.head_end) && data.in_page() >= AT_HAND_BYTES {
            self.peek_in_place(data, layout, comparator)?;
        }
        Ok(())
    }

    /// Moves the bound of the marker at the head into `bound`.
    pub fn take_marker(&mut self, bound: &mut ClusteringBound) {
        std::mem::swap(bound, &mut self.bound);
        self.open = self.marker.open;
        self.head = None;
    }

    /// Leaves the row or marker at the head.
    pub fn skip(&mut self, data: &mut Cursor) -> Result<(), ReadError> {
        if self.head == Some(UnfilteredKind::Marker) {
            self.open = self.marker.open;
        } else {
            self.skip_rest(data)?;
        }
        self.head = None;
        Ok(())
    }

    /// Jumps to the block that `bound` lies in, if that is ahead. `hints` as for [`RowIndex::reaching`].
    pub fn seek(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        hints: Hints<'_>,
    ) -> Result<(), ReadError> {
        let here = self.next_start(data);
        let Some(rows) = &mut self.rows else { return Ok(()) };
        let block = match rows.reaching(layout, comparator, bound, hints)? {
            Some(block) => block,
            // To be sure that nothing reaches the bound the last block is read.
            None => rows.last(layout)?,
        };
        self.places.enter(block);
        let there = self.partition_start.saturating_add(block.start);
        let end = self.partition_start.saturating_add(block.end);
        let looks_before = !self.is_proven;
        data.look_ahead(|ahead| ahead.set_block(there.max(here)..end, looks_before));
        if there > here && self.is_proven {
            self.set_open(block.open);
            self.head = None;
            data.seek(there);
        } else if there > here {
            let jump = skip::Jump {
                partition_start: self.partition_start,
                block: &block,
                bound,
                may_delete: self.may_delete,
            };
            self.before = Some(jump.check(data, layout, comparator, &mut self.places, rows)?);
            self.open = block.open;
            self.head = None;
            data.seek(there);
        }
        Ok(())
    }
}

/// The flags of a row that is not static.
#[inline]
pub(super) fn row_flags(page: &mut InPage<'_>, layout: &Layout) -> Result<RowFlags, NotInPage> {
    match layout.read_head(page)? {
        UnfilteredHead::Row(flags) if !flags.is_static => Ok(flags),
        _ => Err(NotInPage),
    }
}

/// Reads the cells of a row, which ends at `end`.
#[inline]
pub(super) fn read_body(
    data: &mut Cursor,
    layout: &Layout,
    flags: RowFlags,
    end: u64,
    wanted: &Wanted,
    present: &mut ColumnSet,
    row: &mut Row,
) -> Result<(), ReadError> {
    let in_page = data.decode_in_page(|page| {
        layout.read_row_body(page, flags, Some(end), wanted, present, row)?;
        if page.position() == end { Ok(()) } else { Err(NotInPage) }
    });
    if in_page.is_some() {
        return Ok(());
    }
    layout.read_row_body(data, flags, Some(end), wanted, present, row)?;
    check_end(data, end)
}

/// The row or marker that starts at `start` must lie as many bytes behind the one before as it says.
#[inline]
pub(super) fn check_before(data: &Cursor, start: u64, says: u64, before: u64) -> Result<(), ReadError> {
    match start.checked_sub(says) == Some(before) {
        true => Ok(()),
        false => {
            Err(data
                .malformed(format!("what lies before {start} starts at {before}, not {says} bytes ahead")))
        }
    }
}

/// A row or marker must end where its size says.
pub(crate) fn check_end(data: &Cursor, end: u64) -> Result<(), ReadError> {
    match data.position() == end {
        true => Ok(()),
        false => Err(data.malformed(format!("a row or marker that should end at {end}"))),
    }
}
