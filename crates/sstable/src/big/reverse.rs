//! The rows and markers of a partition from last to first: block by block through the promoted index, each block
//! read forward and kept. A partition without promoted index is one block.

use super::forward::{Head, check_end};
use super::index::PromotedIndex;
use crate::pages::Cursor;
use model::clustering::Position;
use model::{ClusteringBound, ClusteringComparator, Deletion, Row, Slice};
use partition::ReadError;
use partition::codec::{ColumnSet, Input, Layout, Marker, UnfilteredHead, Wanted};
use std::cmp::Ordering;

#[derive(Debug)]
enum Item {
    /// Index into the rows of the block. Of a row outside of all slices only the clustering was read.
    Row(usize),
    Marker(ClusteringBound, Marker),
}

/// Reads a partition backward.
#[derive(Debug)]
pub(crate) struct Reverse {
    /// What is left of the loaded block; the last is the head.
    items: Vec<Item>,
    /// Rows of the loaded block. Longer than it needs, so that rows are used again.
    rows: Vec<Row>,
    rows_used: usize,
    /// The range deletion that holds behind the head, where the walk comes from.
    open: Deletion,
    /// Blocks that are not loaded yet are those before this one.
    loaded: u64,
    present: ColumnSet,
    partition_start: u64,
    first_at: u64,
    promoted: Option<PromotedIndex>,
}

impl Default for Reverse {
    fn default() -> Self {
        Reverse {
            items: Vec::new(),
            rows: Vec::new(),
            rows_used: 0,
            open: Deletion::NONE,
            loaded: 0,
            present: ColumnSet::default(),
            partition_start: 0,
            first_at: 0,
            promoted: None,
        }
    }
}

/// What decides which rows of a block are kept: slices, last to first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keep<'a> {
    pub slices: &'a [Slice],
    pub comparator: &'a ClusteringComparator,
    pub wanted: &'a Wanted,
}

impl Keep<'_> {
    fn keeps(&self, position: Position<'_>) -> bool {
        let behind =
            |s: &Slice| self.comparator.compare_positions(s.start.position(), position) == Ordering::Greater;
        let at = self.slices.partition_point(behind);
        self.slices.get(at).is_some_and(|s| s.contains(self.comparator, position))
    }
}

impl Reverse {
    /// Starts a partition whose first row or marker is at `first_at` in the data.
    pub fn begin(&mut self, partition_start: u64, first_at: u64, promoted: Option<PromotedIndex>) {
        self.items.clear();
        self.open = Deletion::NONE;
        self.loaded = promoted.as_ref().map_or(1, |p| p.count);
        self.partition_start = partition_start;
        self.first_at = first_at;
        self.promoted = promoted;
    }

    /// The range deletion that holds behind the head.
    pub fn open(&self) -> Deletion {
        self.open
    }

    /// The position of the row or marker at the head.
    pub fn position(&self) -> Option<Position<'_>> {
        match self.items.last()? {
            Item::Row(at) => self.rows.get(*at).map(|row| Position::row(&row.clustering)),
            Item::Marker(bound, _) => Some(bound.position()),
        }
    }

    /// Loads the next block, unless there is something left of the last one.
    pub fn peek(
        &mut self,
        data: &mut Cursor,
        index: &mut Cursor,
        layout: &Layout,
        keep: Keep<'_>,
    ) -> Result<Head, ReadError> {
        while self.items.is_empty() {
            if self.loaded == 0 {
                return Ok(Head::End);
            }
            self.loaded -= 1;
            self.load(data, index, layout, keep)?;
        }
        Ok(match self.items.last() {
            Some(Item::Row(_)) => Head::Row,
            Some(Item::Marker(..)) => Head::Marker,
            None => Head::End,
        })
    }

    fn load(
        &mut self,
        data: &mut Cursor,
        index: &mut Cursor,
        layout: &Layout,
        keep: Keep<'_>,
    ) -> Result<(), ReadError> {
        let (start, end) = match &mut self.promoted {
            Some(promoted) => {
                let block = promoted.block(index, layout, self.loaded)?;
                let start = self.partition_start.saturating_add(block.offset);
                (start, start.saturating_add(block.width))
            }
            None => (self.first_at, u64::MAX),
        };
        data.seek(start);
        self.rows_used = 0;
        while data.position() < end {
            match layout.read_head(data)? {
                UnfilteredHead::End => break,
                UnfilteredHead::Marker => {
                    let mut bound = ClusteringBound::BOTTOM;
                    layout.read_bound(data, &mut bound)?;
                    let marker_end = layout.read_end(data)?;
                    let marker = layout.read_marker(data, &bound)?;
                    check_end(data, marker_end)?;
                    self.items.push(Item::Marker(bound, marker));
                }
                UnfilteredHead::Row(flags) => {
                    if self.rows_used == self.rows.len() {
                        self.rows.push(Row::default());
                    }
                    let Some(row) = self.rows.get_mut(self.rows_used) else { break };
                    layout.read_clustering(data, &mut row.clustering)?;
                    let row_end = layout.read_end(data)?;
                    if flags.is_static {
                        return Err(data.malformed("a static row among rows".to_owned()));
                    }
                    let keeps = keep.keeps(Position::row(&row.clustering));
                    if keeps {
                        layout.read_row_body(data, flags, keep.wanted, &mut self.present, row)?;
                        check_end(data, row_end)?;
                    } else {
                        data.skip(row_end.checked_sub(data.position()).unwrap_or(u64::MAX))?;
                    }
                    // The first row of a block stays even when no slice wants it: where the block starts tells
                    // whether the slice goes on in the one before.
                    if keeps || self.items.is_empty() {
                        self.items.push(Item::Row(self.rows_used));
                        self.rows_used += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Moves the row at the head into `row`.
    pub fn take_row(&mut self, row: &mut Row) {
        if let Some(Item::Row(at)) = self.items.pop()
            && let Some(found) = self.rows.get_mut(at)
        {
            std::mem::swap(row, found);
        }
    }

    /// Moves the bound of the marker at the head into `bound`.
    pub fn take_marker(&mut self, bound: &mut ClusteringBound) {
        if let Some(Item::Marker(found, marker)) = self.items.pop() {
            *bound = found;
            self.open = marker.close;
        }
    }

    /// Leaves the row or marker at the head.
    pub fn skip(&mut self) {
        if let Some(Item::Marker(_, marker)) = self.items.pop() {
            self.open = marker.close;
        }
    }

    /// Jumps to the last block that starts at or before `bound`, if that is ahead.
    pub fn seek(
        &mut self,
        index: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
    ) -> Result<(), ReadError> {
        let Some(promoted) = &mut self.promoted else { return Ok(()) };
        let behind = promoted.first_behind(index, layout, comparator, bound)?;
        if behind > self.loaded {
            return Ok(());
        }
        // The loaded block, or what was not loaded yet, starts behind the bound.
        if behind < self.loaded || !self.items.is_empty() {
            self.items.clear();
            self.loaded = behind;
            self.open = match behind.checked_sub(1) {
                Some(last) => promoted.block(index, layout, last)?.open_at_end,
                None => Deletion::NONE,
            };
        }
        Ok(())
    }
}
