//! The rows and markers of a partition from last to first: block by block through the index of its rows, each block
//! read forward and kept. A partition without such an index is one block.

use super::forward::{Head, WRONG_OPEN, check_before, check_end};
use super::skip::HeadAt;
use crate::index::{Block, RowIndex};
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
    next: Next,
    /// Where the loaded block starts in the partition; its end when nothing was loaded yet.
    loaded_from: u64,
    /// Whether [`Reverse::open`] is known before a block is loaded: not after a jump.
    knows_open: bool,
    /// Where a jump was to lead, until its block is loaded.
    sought: Option<ClusteringBound>,
    /// Whether the loaded block goes up to the partition's end.
    is_at_end: bool,
    /// Where the first block starts in the partition.
    rows_from: u64,
    present: ColumnSet,
    partition_start: u64,
    rows_index: Option<RowIndex>,
    /// Whether the file may have range deletions at all.
    may_delete: bool,
    /// Where the first row or marker of the loaded block has the one before it.
    before_block: u64,
}

/// The first and the last row or marker of a block that was loaded: where they start in the data.
struct Loaded {
    first: u64,
    last: u64,
}

/// The block to load when nothing is left of the one before.
#[derive(Clone, Copy, Debug)]
enum Next {
    Last,
    This(Block),
    Before(Block),
    None,
}

impl Default for Reverse {
    fn default() -> Self {
        Reverse {
            items: Vec::new(),
            rows: Vec::new(),
            rows_used: 0,
            open: Deletion::NONE,
            next: Next::None,
            loaded_from: u64::MAX,
            knows_open: true,
            sought: None,
            is_at_end: false,
            rows_from: 0,
            present: ColumnSet::default(),
            partition_start: 0,
            rows_index: None,
            may_delete: true,
            before_block: 0,
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
    pub fn begin(
        &mut self,
        partition_start: u64,
        first_at: u64,
        rows_index: Option<RowIndex>,
        may_delete: bool,
    ) {
        self.items.clear();
        self.open = Deletion::NONE;
        let whole = Block {
            number: 0,
            start: first_at - partition_start,
            end: u64::MAX,
            open: Deletion::NONE,
            open_at_end: Some(Deletion::NONE),
        };
        self.next = if rows_index.is_some() { Next::Last } else { Next::This(whole) };
        self.loaded_from = u64::MAX;
        self.knows_open = true;
        self.sought = None;
        self.rows_from = first_at - partition_start;
        self.partition_start = partition_start;
        self.rows_index = rows_index;
        self.may_delete = may_delete;
    }

    /// The range deletion that holds behind the head.
    pub fn open(&self) -> Deletion {
        self.open
    }

    /// Whether something is left of the loaded block.
    pub fn is_loaded(&self) -> bool {
        !self.items.is_empty()
    }

    /// The position of the row or marker at the head.
    pub fn position(&self) -> Option<Position<'_>> {
        match self.items.last()? {
            Item::Row(at) => self.rows.get(*at).map(|row| Position::row(&row.clustering)),
            Item::Marker(bound, _) => Some(bound.position()),
        }
    }

    /// Loads the next block, unless there is something left of the last one.
    pub fn peek(&mut self, data: &mut Cursor, layout: &Layout, keep: Keep<'_>) -> Result<Head, ReadError> {
        while self.items.is_empty() {
            let block = match (self.next, &mut self.rows_index) {
                (Next::This(block), _) => Some(block),
                (Next::Last, Some(rows)) => Some(rows.last(layout)?),
                (Next::Before(block), Some(rows)) => rows.before(layout, &block)?,
                _ => None,
            };
            let Some(block) = block else {
                let is_first = self.next_is_none() || self.loaded_from == self.rows_from;
                self.next = Next::None;
                return match is_first {
                    true => Ok(Head::End),
                    false => {
                        Err(data.malformed("no block before this one, which is not the first".to_owned()))
                    }
                };
            };
            let follows = matches!(self.next, Next::Before(_));
            if follows && block.end != self.loaded_from {
                return Err(data.malformed(format!("a block ends at {} before this one", block.end)));
            }
            let bound = self.sought.take();
            let before_next = follows.then_some(self.before_block);
            self.next = Next::Before(block);
            self.loaded_from = block.start;
            let loaded = self.load(data, layout, keep, &block)?;
            match (loaded, before_next) {
                (Some(loaded), Some(before)) if loaded.last == before => {}
                (Some(_), Some(before)) => {
                    data.seek(before);
                    return Err(data.malformed("no row or marker here, the next block says".to_owned()));
                }
                (Some(loaded), None) => {
                    self.check_end_of_jump(data, layout, keep.comparator, &block, bound, &loaded)?;
                }
                (None, _) if self.rows_index.is_none() => {}
                (None, _) => {
                    data.seek(self.partition_start.saturating_add(block.start));
                    return Err(data.malformed("a block without rows and markers".to_owned()));
                }
            }
        }
        Ok(match self.items.last() {
            Some(Item::Row(_)) => Head::Row,
            Some(Item::Marker(..)) => Head::Marker,
            None => Head::End,
        })
    }

    fn next_is_none(&self) -> bool {
        matches!(self.next, Next::None)
    }

    /// Makes sure that nothing that was asked for lies behind the first block that was loaded, and that it is one.
    fn check_end_of_jump(
        &self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        block: &Block,
        bound: Option<ClusteringBound>,
        loaded: &Loaded,
    ) -> Result<(), ReadError> {
        let end = self.partition_start.saturating_add(block.end);
        if !self.is_at_end {
            data.seek(end);
            if let Some(head) = HeadAt::read(data, layout)? {
                check_before(data, end, head.before, loaded.last)?;
                let is_behind = bound.is_some_and(|bound| {
                    comparator.compare_positions(head.position(), bound.position()) == Ordering::Greater
                });
                return match is_behind {
                    true => Ok(()),
                    false => {
                        data.seek(end);
                        Err(data.malformed("the index leads before what was looked for".to_owned()))
                    }
                };
            }
        }
        // Nothing behind leads back to a lone one.
        if self.rows_index.is_some() && loaded.first == loaded.last && block.start > self.rows_from {
            data.seek(loaded.first);
            let head = HeadAt::read(data, layout)?;
            let before = head.map(|head| head.before_it(data, layout, comparator, loaded.first));
            if before.transpose()?.flatten().is_none() {
                data.seek(loaded.first);
                return Err(data.malformed("the index leads to what is no row or marker".to_owned()));
            }
        }
        Ok(())
    }

    fn load(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        keep: Keep<'_>,
        block: &Block,
    ) -> Result<Option<Loaded>, ReadError> {
        let start = self.partition_start.saturating_add(block.start);
        let end = self.partition_start.saturating_add(block.end);
        let mut open = block.open;
        let mut loaded: Option<Loaded> = None;
        if !open.is_none() && (!self.may_delete || block.start == self.rows_from) {
            data.seek(start);
            return Err(data.malformed(WRONG_OPEN.to_owned()));
        }
        data.seek(start);
        self.rows_used = 0;
        self.is_at_end = false;
        while data.position() < end {
            let here = data.position();
            let mut link = |says: u64, data: &Cursor| match &mut loaded {
                Some(Loaded { last, .. }) => {
                    check_before(data, here, says, *last)?;
                    *last = here;
                    Ok(())
                }
                None => {
                    loaded = Some(Loaded { first: here, last: here });
                    let Some(before) = here.checked_sub(says) else {
                        return Err(data.malformed(format!("nothing starts {says} bytes before {here}")));
                    };
                    self.before_block = before;
                    Ok(())
                }
            };
            match layout.read_head(data)? {
                UnfilteredHead::End => {
                    self.is_at_end = true;
                    break;
                }
                UnfilteredHead::Marker => {
                    let mut bound = ClusteringBound::BOTTOM;
                    layout.read_bound(data, &mut bound)?;
                    let (marker_end, before) = layout.read_sizes(data)?;
                    link(before, data)?;
                    let marker = layout.read_marker(data, &bound)?;
                    check_end(data, marker_end)?;
                    if marker.close != open {
                        return Err(data.malformed(WRONG_OPEN.to_owned()));
                    }
                    open = marker.open;
                    self.items.push(Item::Marker(bound, marker));
                }
                UnfilteredHead::Row(flags) => {
                    if self.rows_used == self.rows.len() {
                        self.rows.push(Row::default());
                    }
                    let Some(row) = self.rows.get_mut(self.rows_used) else { break };
                    layout.read_clustering(data, &mut row.clustering)?;
                    let (row_end, before) = layout.read_sizes(data)?;
                    link(before, data)?;
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
        if (!self.is_at_end || self.rows_index.is_some()) && data.position() != end {
            return Err(data.malformed(format!("a row or marker reaches across {end}, where a block ends")));
        }
        let expected = if self.knows_open { Some(self.open) } else { block.open_at_end };
        if expected.is_some_and(|expected| expected != open) {
            return Err(data.malformed(WRONG_OPEN.to_owned()));
        }
        if block.start == self.rows_from && loaded.is_some() && self.before_block != self.partition_start {
            data.seek(start);
            return Err(data.malformed("the first row or marker has others before it".to_owned()));
        }
        self.knows_open = true;
        self.open = open;
        Ok(loaded)
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

    /// Jumps to the last block that starts at or before `bound`, if that is ahead. `covered` as for
    /// [`RowIndex::reaching`].
    pub fn seek(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        covered: &Slice,
    ) -> Result<(), ReadError> {
        let Some(rows) = &mut self.rows_index else { return Ok(()) };
        match rows.starting_by(layout, comparator, bound, covered)? {
            // The block is loaded already, or lies behind.
            Some(block) if block.start >= self.loaded_from => {}
            None if self.loaded_from == self.rows_from => {}
            Some(block) => {
                self.items.clear();
                self.next = Next::This(block);
                self.sought = Some(bound.clone());
                self.knows_open = false;
            }
            None => {
                // To be sure of that the first block is read.
                self.items.clear();
                self.next = Next::This(rows.first(layout)?);
                self.sought = Some(bound.clone());
                self.knows_open = false;
            }
        }
        Ok(())
    }
}
