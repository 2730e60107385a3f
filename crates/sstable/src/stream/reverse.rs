//! The rows and markers of a partition from last to first, block by block through the index of its rows. A
//! partition without such an index is one block.
//!
//! 1. A block is walked once from its start, from size to size. The starts of its rows are noted, and its
//!    markers are read. Each row and marker has to lead back to the one before.
//! 2. Of the block that a slice begins in, what lies behind the slice is left by halving.
//! 3. From the last one on, a row's clustering is read when it becomes the head, its cells when it is taken.

use super::forward::{UnfilteredKind, WRONG_OPEN, check_before, check_end, read_body, row_flags};
use super::places::Places;
use super::skip::HeadAt;
use crate::index::{Block, Hints, RowIndex};
use crate::pages::Cursor;
use model::clustering::Position;
use model::{Clustering, ClusteringBound, ClusteringComparator, Deletion, Row};
use partition::ReadError;
use partition::codec::{ColumnSet, Input, Layout, Marker, RowFlags, UnfilteredHead, Wanted};
use std::cmp::Ordering;

#[derive(Debug)]
enum Item {
    /// Where in the data a row starts.
    Row(u64),
    Marker(ClusteringBound, Marker),
}

/// A row at the head, read up to its cells.
#[derive(Debug)]
struct RowHead {
    flags: RowFlags,
    /// Where its cells start in the data, and where they end.
    body: u64,
    end: u64,
}

/// Reads a partition backward.
#[derive(Debug)]
pub(crate) struct Reverse {
    /// What is left of the loaded block; the last is the head.
    items: Vec<Item>,
    /// The last item, if that is a row which was read already, and its clustering.
    head: Option<RowHead>,
    clustering: Clustering,
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
    places: Places,
    /// Whether the file may have range deletions at all.
    may_delete: bool,
    /// Whether pages are where they belong, and the index of rows is right.
    is_proven: bool,
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
            head: None,
            clustering: Clustering::empty(),
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
            places: Places::default(),
            may_delete: true,
            is_proven: false,
            before_block: 0,
        }
    }
}

impl Reverse {
    /// Starts a partition whose first row or marker is at `first_at` in the data.
    pub fn begin(
        &mut self,
        data: &Cursor,
        partition_start: u64,
        first_at: u64,
        rows_index: Option<RowIndex>,
        may_delete: bool,
        is_proven: bool,
    ) {
        self.leave_block();
        self.places.begin(data, partition_start, is_proven);
        self.is_proven = is_proven;
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
            Item::Row(_) => Some(Position::row(&self.clustering)),
            Item::Marker(bound, _) => Some(bound.position()),
        }
    }

    /// Reads the head, of the next block when nothing is left of the last one.
    pub fn peek(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
    ) -> Result<UnfilteredKind, ReadError> {
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
                    true => Ok(UnfilteredKind::End),
                    false => {
                        Err(data.malformed("no block before this one, which is not the first".to_owned()))
                    }
                };
            };
            let follows = matches!(self.next, Next::Before(_));
            if follows && block.end != self.loaded_from {
                return Err(data.malformed(format!("a block ends at {} before this one", block.end)));
            }
            if self.rows_index.is_some() {
                let start = self.partition_start;
                let place = start.saturating_add(block.start)..start.saturating_add(block.end);
                data.look_ahead(|ahead| match follows {
                    true => ahead.set_rows(place),
                    false => ahead.set_block(place, false),
                });
            }
            let bound = self.sought.take();
            let before_next = follows.then_some(self.before_block);
            self.next = Next::Before(block);
            self.loaded_from = block.start;
            let loaded = self.load(data, layout, comparator, &block)?;
            match (loaded, before_next) {
                (Some(loaded), Some(before)) if loaded.last == before => {}
                (Some(_), Some(before)) => {
                    data.seek(before);
                    return Err(data.malformed("no row or marker here, the next block says".to_owned()));
                }
                (Some(loaded), None) => {
                    if !self.is_proven {
                        self.check_end_of_jump(data, layout, comparator, &block, bound.as_ref(), &loaded)?;
                    }
                    if let Some(bound) = &bound {
                        self.leave_behind(data, layout, comparator, bound)?;
                    }
                }
                (None, _) if self.rows_index.is_none() => {}
                (None, _) => {
                    data.seek(self.partition_start.saturating_add(block.start));
                    return Err(data.malformed("a block without rows and markers".to_owned()));
                }
            }
        }
        match self.items.last() {
            Some(Item::Row(start)) if self.head.is_none() => {
                let head = read_row_head(data, layout, *start, &mut self.clustering)?;
                self.head = Some(head);
                Ok(UnfilteredKind::Row)
            }
            Some(Item::Row(_)) => Ok(UnfilteredKind::Row),
            Some(Item::Marker(..)) => Ok(UnfilteredKind::Marker),
            None => Ok(UnfilteredKind::End),
        }
    }

    /// Leaves what lies behind `bound` of a block that was just loaded.
    fn leave_behind(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
    ) -> Result<(), ReadError> {
        let (mut low, mut high) = (0, self.items.len());
        while let Some(middle) = Some(low + (high - low) / 2).filter(|_| low < high) {
            let order = match self.items.get(middle) {
                Some(Item::Row(start)) => {
                    read_row_head(data, layout, *start, &mut self.clustering)?;
                    comparator.compare_positions(Position::row(&self.clustering), bound.position())
                }
                Some(Item::Marker(at, _)) => comparator.compare_positions(at.position(), bound.position()),
                None => Ordering::Greater,
            };
            if order == Ordering::Greater { high = middle } else { low = middle + 1 }
        }
        for item in self.items.drain(low..).rev() {
            if let Item::Marker(_, marker) = item {
                self.open = marker.close;
            }
        }
        Ok(())
    }

    fn leave_block(&mut self) {
        self.items.clear();
        self.head = None;
    }

    fn next_is_none(&self) -> bool {
        matches!(self.next, Next::None)
    }

    /// Makes sure that the first loaded block is a block, and that nothing that was asked for lies behind it.
    fn check_end_of_jump(
        &self,
        data: &mut Cursor,
        layout: &Layout,
        comparator: &ClusteringComparator,
        block: &Block,
        bound: Option<&ClusteringBound>,
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
        comparator: &ClusteringComparator,
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
        self.leave_block();
        self.is_at_end = false;
        if self.rows_index.is_some() {
            self.places.forget();
            self.places.enter(*block);
        }
        while data.position() < end {
            let here = data.position();
            if !self.places.is_new(here)
                && let Some((row_end, before)) = data.decode_in_page(|page| {
                    row_flags(page, layout)?;
                    layout.skip_clustering(page)?;
                    layout.read_sizes(page)
                })
            {
                self.link(&mut loaded, data, here, before)?;
                data.skip(row_end.checked_sub(data.position()).unwrap_or(u64::MAX))?;
                self.items.push(Item::Row(here));
                continue;
            }
            let (unfiltered_end, item) = match layout.read_head(data)? {
                UnfilteredHead::End => {
                    self.is_at_end = true;
                    break;
                }
                UnfilteredHead::Marker => {
                    let mut bound = ClusteringBound::BOTTOM;
                    layout.read_bound(data, &mut bound)?;
                    let (marker_end, before) = layout.read_sizes(data)?;
                    self.link(&mut loaded, data, here, before)?;
                    let marker = layout.read_marker(data, &bound)?;
                    check_end(data, marker_end)?;
                    if self.places.is_new(here) {
                        let rows = self.rows_index.as_mut();
                        self.places.check(data, layout, comparator, rows, here, bound.position())?;
                    }
                    if marker.close != open {
                        return Err(data.malformed(WRONG_OPEN.to_owned()));
                    }
                    open = marker.open;
                    (marker_end, Item::Marker(bound, marker))
                }
                UnfilteredHead::Row(flags) => {
                    if self.places.is_new(here) {
                        layout.read_clustering(data, &mut self.clustering)?;
                        let position = Position::row(&self.clustering);
                        self.places.check(
                            data,
                            layout,
                            comparator,
                            self.rows_index.as_mut(),
                            here,
                            position,
                        )?;
                    } else {
                        layout.skip_clustering(data)?;
                    }
                    let (row_end, before) = layout.read_sizes(data)?;
                    self.link(&mut loaded, data, here, before)?;
                    if flags.is_static {
                        return Err(data.malformed("a static row among rows".to_owned()));
                    }
                    (row_end, Item::Row(here))
                }
            };
            data.skip(unfiltered_end.checked_sub(data.position()).unwrap_or(u64::MAX))?;
            self.items.push(item);
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

    /// Takes the row or marker at `here`, which says how many bytes before it the one before starts.
    #[inline]
    fn link(
        &mut self,
        loaded: &mut Option<Loaded>,
        data: &Cursor,
        here: u64,
        says: u64,
    ) -> Result<(), ReadError> {
        if let Some(Loaded { last, .. }) = loaded {
            check_before(data, here, says, *last)?;
            *last = here;
            return Ok(());
        }
        *loaded = Some(Loaded { first: here, last: here });
        match here.checked_sub(says) {
            Some(before) => {
                self.before_block = before;
                Ok(())
            }
            None => Err(data.malformed(format!("nothing starts {says} bytes before {here}"))),
        }
    }

    /// Moves the row at the head into `row`.
    pub fn take_row(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        wanted: &Wanted,
        row: &mut Row,
    ) -> Result<(), ReadError> {
        let Some(RowHead { flags, body, end }) = self.head.take() else {
            return Err(data.malformed("no row here".to_owned()));
        };
        self.items.pop();
        std::mem::swap(&mut row.clustering, &mut self.clustering);
        data.seek(body);
        read_body(data, layout, flags, end, wanted, &mut self.present, row)
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
        self.head = None;
        if let Some(Item::Marker(_, marker)) = self.items.pop() {
            self.open = marker.close;
        }
    }

    /// Jumps to the last block that starts at or before `bound`, if that is ahead. `hints` as for
    /// [`RowIndex::reaching`].
    pub fn seek(
        &mut self,
        layout: &Layout,
        comparator: &ClusteringComparator,
        bound: &ClusteringBound,
        hints: Hints<'_>,
    ) -> Result<(), ReadError> {
        let Some(rows) = &mut self.rows_index else { return Ok(()) };
        match rows.starting_by(layout, comparator, bound, hints)? {
            // The block is loaded already, or lies behind.
            Some(block) if block.start >= self.loaded_from => {}
            None if self.loaded_from == self.rows_from => {}
            Some(block) => {
                self.leave_block();
                self.next = Next::This(block);
                self.sought = Some(bound.clone());
                self.knows_open = false;
            }
            None => {
                // To be sure of that the first block is read.
                let first = rows.first(layout)?;
                self.leave_block();
                self.next = Next::This(first);
                self.sought = Some(bound.clone());
                self.knows_open = false;
            }
        }
        Ok(())
    }
}

/// Reads the row that starts at `start` up to its cells.
fn read_row_head(
    data: &mut Cursor,
    layout: &Layout,
    start: u64,
    clustering: &mut Clustering,
) -> Result<RowHead, ReadError> {
    data.seek(start);
    let in_page = data.decode_in_page(|page| {
        let flags = row_flags(page, layout)?;
        layout.read_clustering(page, clustering)?;
        let end = layout.read_end(page)?;
        Ok(RowHead { flags, body: page.position(), end })
    });
    if let Some(head) = in_page {
        return Ok(head);
    }
    let UnfilteredHead::Row(flags) = layout.read_head(data)? else {
        return Err(data.malformed("no row here".to_owned()));
    };
    layout.read_clustering(data, clustering)?;
    let end = layout.read_end(data)?;
    Ok(RowHead { flags, body: data.position(), end })
}
