//! Stepping over rows and partitions by what the data itself says.

use super::forward::{WRONG_OPEN, check_before};
use super::places::Places;
use crate::index::{Block, RowIndex};
use crate::pages::Cursor;
use model::clustering::Position;
use model::{BoundKind, Clustering, ClusteringBound, ClusteringComparator, Deletion};
use partition::ReadError;
use partition::codec::{Input, Layout, Marker, UnfilteredHead};
use std::cmp::Ordering;

fn skip_to(data: &mut Cursor, end: u64) -> Result<(), ReadError> {
    let rest = end.checked_sub(data.position());
    data.skip(rest.unwrap_or(u64::MAX))
}

/// Steps over the partition that starts at the cursor; yields where it ends.
pub(crate) fn skip_partition(data: &mut Cursor, layout: &Layout) -> Result<u64, ReadError> {
    let len = data.u16()? as u64;
    data.skip(len)?;
    layout.deletion_times().read(data)?;
    if layout.has_statics() {
        let head = layout.read_head(data)?;
        if !matches!(head, UnfilteredHead::Row(flags) if flags.is_static) {
            return Err(data.malformed("a static row expected".to_owned()));
        }
        let end = layout.read_end(data)?;
        skip_to(data, end)?;
    }
    skip_rows(data, layout)
}

/// Steps over the rows and markers from the cursor on; yields where their partition ends.
pub(crate) fn skip_rows(data: &mut Cursor, layout: &Layout) -> Result<u64, ReadError> {
    let mut clustering = Clustering::empty();
    let mut bound = ClusteringBound::BOTTOM;
    loop {
        match layout.read_head(data)? {
            UnfilteredHead::End => return Ok(data.position()),
            UnfilteredHead::Marker => layout.read_bound(data, &mut bound)?,
            UnfilteredHead::Row(flags) if !flags.is_static => {
                layout.read_clustering(data, &mut clustering)?
            }
            UnfilteredHead::Row(_) => return Err(data.malformed("a static row among rows".to_owned())),
        }
        let end = layout.read_end(data)?;
        skip_to(data, end)?;
    }
}

const END_IN_BLOCK: &str = "a partition ends inside a block of its rows";

/// The head of a row or marker.
pub(super) struct HeadAt {
    clustering: Clustering,
    bound: Option<ClusteringBound>,
    /// What a marker closes and opens.
    marker: Option<Marker>,
    pub end: u64,
    /// How many bytes before it the one before starts.
    pub before: u64,
}

impl HeadAt {
    /// Reads the head at the cursor; `None` for the end of a partition.
    pub fn read(data: &mut Cursor, layout: &Layout) -> Result<Option<HeadAt>, ReadError> {
        let (mut clustering, mut bound) = (Clustering::empty(), None);
        match layout.read_head(data)? {
            UnfilteredHead::End => return Ok(None),
            UnfilteredHead::Marker => {
                layout.read_bound(data, bound.insert(ClusteringBound::BOTTOM))?;
            }
            UnfilteredHead::Row(flags) if flags.is_static => {
                return Err(data.malformed("a static row among rows".to_owned()));
            }
            UnfilteredHead::Row(_) => layout.read_clustering(data, &mut clustering)?,
        }
        let (end, before) = layout.read_sizes(data)?;
        let marker = match &bound {
            Some(bound) => Some(layout.read_marker(data, bound)?),
            None => None,
        };
        Ok(Some(HeadAt { clustering, bound, marker, end, before }))
    }

    /// The head before this one, and where it starts. This one is at `there`. `None` when the one before does
    /// not end there, or does not lie before it.
    pub fn before_it(
        &self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        there: u64,
    ) -> Result<Option<(u64, HeadAt)>, ReadError> {
        let Some(start) = there.checked_sub(self.before) else {
            return Err(data.malformed(format!("nothing starts {} bytes before {there}", self.before)));
        };
        data.seek(start);
        Ok(HeadAt::read(data, layout)?.map(|before| (start, before)).filter(|(_, before)| {
            let order = comparator.compare_positions(before.position(), self.position());
            before.end == there && order == Ordering::Less
        }))
    }

    pub fn position(&self) -> Position<'_> {
        match &self.bound {
            Some(bound) => bound.position(),
            None => Position { kind: BoundKind::Row, prefix: &self.clustering },
        }
    }
}

/// A reader who wants everything from `bound` on, and is to begin at `block`.
pub(super) struct Jump<'a> {
    pub partition_start: u64,
    pub block: &'a Block,
    pub bound: &'a ClusteringBound,
    /// Whether the file may have range deletions at all.
    pub may_delete: bool,
}

impl Jump<'_> {
    /// Makes sure that the reader misses nothing and knows what is deleted. Yields where the row or marker
    /// before the block starts.
    ///
    /// 1. A row or marker starts at the block. The one before it, to which its own size leads, ends there.
    ///    The one behind it leads back to it.
    /// 2. The one before lies before the bound.
    /// 3. The deletion that the index has open there is confirmed by the marker just before, which opened it,
    ///    or by the next marker, which closes it. If the block has no marker, the index has to have the same
    ///    deletion open at the block's end, which stands at another place in the index. A file without
    ///    tombstones has none.
    /// 4. The page lies behind those that were read, and the block is the one that the index has there.
    pub fn check(
        &self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        places: &mut Places,
        rows: &mut RowIndex,
    ) -> Result<u64, ReadError> {
        let there = self.partition_start.saturating_add(self.block.start);
        data.seek(there);
        let Some(head) = HeadAt::read(data, layout)? else {
            return Err(data.malformed(END_IN_BLOCK.to_owned()));
        };
        places.check(data, layout, comparator, Some(rows), there, head.position())?;
        let before = head.before_it(data, layout, comparator, there)?;
        let Some((start, before)) = before.filter(|(_, before)| {
            comparator.compare_positions(before.position(), self.bound.position()) == Ordering::Less
        }) else {
            data.seek(there);
            return Err(data.malformed("the index leads behind what was looked for".to_owned()));
        };
        let known = match before.marker {
            Some(marker) => Some(marker.open),
            None if self.may_delete => None,
            None => Some(Deletion::NONE),
        };
        if self.open_at(data, layout, there, head, known)? != self.block.open {
            data.seek(there);
            return Err(data.malformed(WRONG_OPEN.to_owned()));
        }
        Ok(start)
    }

    /// The deletion that holds before `head`, which starts at `there`: looked for from there on unless it is
    /// known. At least one row or marker behind is read, and led back from.
    fn open_at(
        &self,
        data: &mut Cursor,
        layout: &Layout,
        mut there: u64,
        mut head: HeadAt,
        mut known: Option<Deletion>,
    ) -> Result<Deletion, ReadError> {
        let end = self.partition_start.saturating_add(self.block.end);
        loop {
            known = known.or(head.marker.map(|marker| marker.close));
            data.seek(head.end);
            let Some(next) = HeadAt::read(data, layout)? else {
                return match head.end.saturating_add(1) < end {
                    true => Err(data.malformed(END_IN_BLOCK.to_owned())),
                    false => Ok(known.unwrap_or(Deletion::NONE)),
                };
            };
            check_before(data, head.end, next.before, there)?;
            known = known.or(next.marker.map(|marker| marker.close));
            if head.end == end {
                known = known.or(self.block.open_at_end);
            } else if there < end && head.end > end {
                return Err(
                    data.malformed(format!("a row or marker reaches across {end}, where a block ends"))
                );
            }
            if let Some(known) = known {
                return Ok(known);
            }
            (there, head) = (head.end, next);
        }
    }
}
