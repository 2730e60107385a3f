//! The partitions of an SSTable as a stream (the grammar is at the top of crate `partition`).
//!
//! A walker yields rows and markers of a partition in the direction of the read; the stream clips them to the
//! slices asked for. For each slice, in stream order:
//! 1. Jump to its first edge if the promoted index allows, and leave what lies before it.
//! 2. At the edge report the deletion that is open there.
//! 3. Yield what lies inside.
//! 4. Behind it close what is open.

mod counted;
pub(crate) mod forward;
mod leave;
mod places;
mod plain;
mod reverse;
mod skip;
mod start;
mod walker;

pub(crate) use skip::skip_partition;

use crate::index::{Entry, RowIndex, Walk};
use crate::pages::Cursor;
use crate::table::SsTable;
use bytes::Bytes;
use counted::Counted;
use forward::UnfilteredKind;
use model::clustering::Position;
use model::key::KeyRange;
use model::{ClusteringBound, DecoratedKey, Deletion, PartitionKey, Row, Slice, TableSchema};
use partition::codec::{ColumnSet, Input, Layout, Others, UnfilteredHead, Wanted};
use partition::{Event, Fragment, PartitionStream, PlainHead, RangeChange, ReadError, TakePlain};
use plain::Plain;
use std::cmp::Ordering;
use std::sync::Arc;
pub(crate) use walker::Walker;

/// Rows that are stepped over on the way to the next slice before the index is asked.
const NEAR_ROWS: u64 = 8;

/// Which partitions a stream yields.
#[derive(Debug)]
pub(crate) enum Partitions {
    /// None at all.
    None,
    /// One, whose entry in the index was found.
    One { key: DecoratedKey, entry: Entry },
    /// The partitions of a range. `next` is where the next one starts in the data. The index is read only
    /// when there is need.
    Range { range: KeyRange, next: u64, walk: Walk },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a partition.
    Start,
    /// After the start of a partition.
    Static,
    /// Among rows.
    Rows,
    /// At the end.
    Done,
}

/// What only some streams need: those of a range, and those that are asked for plain rows.
#[derive(Debug, Default)]
struct Aside {
    /// The key of the partition that comes next, when the index was asked for it.
    next_key: Option<Bytes>,
    /// The key of the partition that was yielded last.
    last_key: Option<DecoratedKey>,
    /// Bytes from its start to the byte that ends it, when its index said that.
    partition_end: Option<u64>,
    plain: Plain,
}

/// A stream of partitions of one SSTable.
#[derive(Debug)]
pub struct SsTableStream {
    sstable: Arc<SsTable>,
    /// Whether what the index says is believed ([`SsTable::believes`]).
    is_proven: bool,
    table: Arc<TableSchema>,
    layout: Arc<Layout>,
    wanted: Wanted,
    /// In stream order.
    slices: Box<[Slice]>,
    /// Whether every row is asked for.
    whole: bool,
    walker: Walker,
    data: Cursor,
    partitions: Partitions,
    state: State,
    partition_start: u64,
    /// What only some streams need; short, as long as nothing does.
    aside: Option<Box<Aside>>,
    /// The index of its rows, when that was needed to begin.
    rows: Option<RowIndex>,
    /// Where its rows start in the data, once that was reached.
    rows_start: u64,
    /// Where the row or marker starts that was taken last, read forward.
    taken_start: u64,
    /// The slice that is being read, and how far.
    slice: usize,
    sought: bool,
    entered: bool,
    /// The range deletion that the consumer knows of.
    open: Deletion,
    present: ColumnSet,
    counted: Counted,
    /// Whether markers that change nothing are reported, too.
    every_marker: bool,
}

/// What is larger takes the allocator's longer way, at each read.
const _: () = assert!(size_of::<SsTableStream>() <= 1024);

impl SsTableStream {
    /// In its box from the start: it is long, and moved by nobody.
    #[allow(clippy::too_many_arguments)]
    #[inline]
    pub(crate) fn new(
        sstable: Arc<SsTable>,
        table: Arc<TableSchema>,
        layout: Arc<Layout>,
        wanted: Wanted,
        slices: Box<[Slice]>,
        whole: bool,
        reversed: bool,
        data: Cursor,
        partitions: Partitions,
    ) -> Box<SsTableStream> {
        Box::new(SsTableStream {
            is_proven: sstable.believes(&partitions),
            sstable,
            table,
            layout,
            wanted,
            slices,
            whole,
            walker: Walker::new(reversed),
            data,
            partitions,
            state: State::Start,
            partition_start: 0,
            aside: None,
            rows: None,
            rows_start: 0,
            taken_start: 0,
            slice: 0,
            sought: false,
            entered: false,
            open: Deletion::NONE,
            present: ColumnSet::default(),
            counted: Counted::default(),
            every_marker: false,
        })
    }

    /// What it yields, and where it reads that.
    pub(crate) fn parts(&mut self) -> (&Partitions, &mut Cursor) {
        (&self.partitions, &mut self.data)
    }

    /// Also reports markers that change nothing, for tools that show what a file holds. The grammar of
    /// streams has no use for these markers.
    pub fn with_every_marker(mut self) -> SsTableStream {
        self.every_marker = true;
        self
    }

    /// Says what becomes of cells that were not asked for. They stay, unless what is merged with the stream
    /// allows for more.
    pub fn set_others(&mut self, others: Others) {
        self.wanted.set_others(others);
    }

    /// Where the last fragment of a stream that reads forward lies in the uncompressed Data.db. It is the
    /// start of a partition, of a row or marker, or of the partition's end marker. For a static row it is the
    /// end.
    pub fn position(&self) -> u64 {
        match (self.state, &self.walker) {
            (State::Static, _) => self.partition_start,
            // The walker may have looked at what follows.
            (State::Rows, Walker::Forward(_)) => self.taken_start,
            (_, Walker::Forward(walker)) => walker.head_start().unwrap_or(self.data.position()),
            _ => self.data.position(),
        }
    }

    /// Where in the uncompressed Data.db the row or marker ends that a stream yielded last that reads
    /// forward.
    pub fn end(&self) -> u64 {
        match &self.walker {
            Walker::Forward(walker) => walker.next_start(&self.data),
            Walker::Reverse(_) => self.data.position(),
        }
    }

    fn last_key(&self) -> Option<&DecoratedKey> {
        self.aside.as_ref()?.last_key.as_ref()
    }

    fn report_cost(&mut self) {
        self.counted.report(&self.data.context().cost);
    }

    fn start_partition(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        self.partition_start = match &self.partitions {
            Partitions::None => self.sstable.data.len,
            Partitions::One { entry, .. } => entry.position(),
            Partitions::Range { next, .. } => *next,
        };
        if self.partition_start >= self.sstable.data.len {
            self.state = State::Done;
            return match &self.partitions {
                Partitions::None => Ok(Event::End),
                Partitions::Range { range, .. } => {
                    let last = self.sstable.last_key();
                    match range.is_after_end(last) || self.last_key() == Some(last) {
                        true => Ok(Event::End),
                        false => Err(self.data.malformed("the data ends before the last key".to_owned())),
                    }
                }
                Partitions::One { .. } => {
                    Err(self.data.malformed("the index points behind the end".to_owned()))
                }
            };
        }
        if self.start_by_index(out)? {
            self.counted.tombstones += !out.deletion.is_none() as u64;
            self.state = State::Static;
            return Ok(Event::PartitionStart);
        }
        self.data.seek(self.partition_start);
        let len = self.data.u16()? as u64;
        match &self.partitions {
            Partitions::One { key, .. } => {
                if !self.data.with_slice(len, |found| found == key.key.0)? {
                    return Err(self
                        .data
                        .malformed("the partition key is not the one of the index".to_owned()));
                }
                out.key = key.clone();
            }
            Partitions::None => return Ok(Event::End),
            Partitions::Range { range, .. } => {
                out.key = DecoratedKey::new(PartitionKey(self.data.bytes(len)?));
                let aside = self.aside.get_or_insert_default();
                if aside.next_key.take().is_some_and(|key| key != out.key.key.0) {
                    return Err(self
                        .data
                        .malformed("the partition is another than the index has".to_owned()));
                }
                if range.is_after_end(&out.key) {
                    self.state = State::Done;
                    return Ok(Event::End);
                }
                // Checksums say nothing of where in the file a chunk belongs.
                if aside.last_key.as_ref().is_some_and(|last| *last >= out.key) {
                    return Err(self.data.malformed("partitions are out of order".to_owned()));
                }
                aside.last_key = Some(out.key.clone());
            }
        }
        out.deletion = self.layout.deletion_times().read(&mut self.data)?;
        self.counted.tombstones += !out.deletion.is_none() as u64;
        self.state = State::Static;
        Ok(Event::PartitionStart)
    }

    /// Reads the static row, if the file has them, and gets ready for rows. Returns whether there is one to
    /// yield.
    fn read_static(&mut self, row: &mut Row) -> Result<bool, ReadError> {
        let mut found = false;
        if self.layout.has_statics() {
            let UnfilteredHead::Row(flags) = self.layout.read_head(&mut self.data)? else {
                return Err(self.data.malformed("a static row expected".to_owned()));
            };
            if !flags.is_static {
                return Err(self.data.malformed("a static row expected".to_owned()));
            }
            let end = self.layout.read_end(&mut self.data)?;
            row.clustering.clear();
            self.layout.read_row_body(
                &mut self.data,
                flags,
                Some(end),
                &self.wanted,
                &mut self.present,
                row,
            )?;
            forward::check_end(&self.data, end)?;
            found = !row.is_empty();
        }
        self.begin_rows()?;
        Ok(found)
    }

    fn peek(&mut self) -> Result<UnfilteredKind, ReadError> {
        self.walker.peek(&mut self.data, &self.layout, self.table.comparator())
    }

    fn skip(&mut self) -> Result<(), ReadError> {
        self.counted.rows += 1;
        self.walker.skip(&mut self.data)
    }

    /// Notes where what is taken from the head starts.
    #[inline]
    fn note_start(&mut self) {
        if let Walker::Forward(walker) = &self.walker {
            self.taken_start = walker.head_start().unwrap_or(self.taken_start);
        }
    }

    /// Takes the next row, forwards, if that goes quickly and the row lies inside the slice; where every row
    /// is asked for there is none. `is_there` says that it does not lie before it.
    #[inline]
    fn take_in_page(&mut self, slice: Option<usize>, is_there: bool, row: &mut Row) -> bool {
        let Walker::Forward(walker) = &mut self.walker else { return false };
        let comparator = self.table.comparator();
        let slice = slice.and_then(|slice| self.slices.get(slice));
        let taken = walker.take_in_page(&mut self.data, &self.layout, &self.wanted, row, |clustering| {
            let compare = |edge: &ClusteringBound| {
                comparator.compare_positions(Position::row(clustering), edge.position())
            };
            slice.is_none_or(|slice| {
                (is_there || compare(&slice.start).is_gt()) && compare(&slice.end).is_lt()
            })
        });
        if taken {
            self.entered = true;
            self.taken_start = walker.head_start().unwrap_or(self.taken_start);
            self.counted.row(row);
        }
        taken
    }

    /// Takes the row at the head; `None` when nothing is left of it.
    fn take_row(&mut self, out: &mut Fragment) -> Result<Option<Event>, ReadError> {
        self.note_start();
        let comparator = self.table.comparator();
        self.walker.take_row(&mut self.data, &self.layout, comparator, &self.wanted, &mut out.row)?;
        self.counted.row(&out.row);
        Ok((!out.row.is_empty()).then_some(Event::Row))
    }

    /// Takes the marker at the head; `None` when it changes nothing.
    fn take_marker(&mut self, out: &mut Fragment) -> Option<Event> {
        self.note_start();
        let mut bound = std::mem::replace(&mut out.change.position, ClusteringBound::BOTTOM);
        self.walker.take_marker(&mut bound);
        let now = self.walker.open();
        self.counted.tombstones += 1;
        out.change = RangeChange::at(bound, now);
        if now == self.open && !self.every_marker {
            return None;
        }
        self.open = now;
        Some(Event::RangeChange)
    }

    fn change_at(&mut self, bound: ClusteringBound, deletion: Deletion, out: &mut Fragment) -> Event {
        self.open = deletion;
        out.change = RangeChange::at(bound, deletion);
        Event::RangeChange
    }

    fn is_reversed(&self) -> bool {
        matches!(self.walker, Walker::Reverse(_))
    }

    /// The edges of a slice in stream order.
    fn edges<'s>(&self, slice: &'s Slice) -> (&'s ClusteringBound, &'s ClusteringBound) {
        if self.is_reversed() { (&slice.end, &slice.start) } else { (&slice.start, &slice.end) }
    }

    fn compare(&self, a: Position<'_>, b: Position<'_>) -> Ordering {
        let order = self.table.comparator().compare_positions(a, b);
        if self.is_reversed() { order.reverse() } else { order }
    }

    /// How the head lies to the current slice: before its first edge, inside, or behind its last edge.
    fn place(&self) -> Ordering {
        let Some(slice) = self.slices.get(self.slice) else { return Ordering::Greater };
        let Some(position) = self.walker.position() else { return Ordering::Greater };
        let (first, last) = self.edges(slice);
        // What was entered is not left towards its start.
        if !self.entered && self.compare(position, first.position()) != Ordering::Greater {
            Ordering::Less
        } else if self.compare(position, last.position()) == Ordering::Less {
            Ordering::Equal
        } else {
            Ordering::Greater
        }
    }

    /// Goes to the slice over rows that are at hand, if it begins near enough. Rows that are asked for by
    /// name often lie together, and a search costs more than a few rows.
    fn walk_to_slice(&mut self) -> Result<bool, ReadError> {
        if self.slice == 0 {
            return Ok(false);
        }
        let mut left = NEAR_ROWS;
        loop {
            left -= self.skip_before_slice(left).0;
            if left == 0 || !self.walker.is_at_hand(&self.data) {
                return Ok(false);
            }
            if self.peek()? == UnfilteredKind::End || self.place() != Ordering::Less {
                self.sought = true;
                return Ok(true);
            }
            self.skip()?;
            left -= 1;
        }
    }

    fn seek_slice(&mut self) -> Result<(), ReadError> {
        self.sought = true;
        let Some(slice) = self.slices.get(self.slice) else { return Ok(()) };
        let comparator = self.table.comparator();
        self.walker.seek(&mut self.data, &self.layout, comparator, slice, self.sstable.hints())
    }

    /// Leaves rows before the slice, `rows_max` at most, forwards, as far as that goes quickly. Returns how
    /// many, and whether the next thing was seen to be a row that does not lie before the slice.
    fn skip_before_slice(&mut self, rows_max: u64) -> (u64, bool) {
        let (Walker::Forward(walker), Some(slice)) = (&mut self.walker, self.slices.get(self.slice)) else {
            return (0, false);
        };
        let comparator = self.table.comparator();
        let left = walker.skip_before(&mut self.data, &self.layout, comparator, &slice.start, rows_max);
        self.counted.rows += left.0;
        left
    }

    fn next_slice(&mut self) {
        self.slice += 1;
        self.sought = false;
        self.entered = false;
    }

    /// Whether the next slice starts exactly where the current one ends.
    fn next_slice_adjoins(&self) -> bool {
        let Some([here, next]) = self.slices.get(self.slice..self.slice + 2) else { return false };
        let ((_, end), (start, _)) = (self.edges(here), self.edges(next));
        self.compare(end.position(), start.position()) == Ordering::Equal
    }

    /// An edge of the current slice, for a change to be reported there.
    fn edge(&self, first: bool) -> ClusteringBound {
        let Some(slice) = self.slices.get(self.slice) else { return ClusteringBound::TOP };
        let (start, end) = self.edges(slice);
        if first { start.clone() } else { end.clone() }
    }

    fn next_of_slices(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        loop {
            if self.slice >= self.slices.len() {
                return self.end_partition();
            }
            if !self.sought && !self.walk_to_slice()? {
                self.seek_slice()?;
            }
            let mut is_there = self.entered;
            if !self.entered {
                self.walker.turn_page(&mut self.data)?;
                (_, is_there) = self.skip_before_slice(u64::MAX);
            }
            // Where a slice is entered its reader may have to be told of a deletion first.
            let may_take = self.entered || self.walker.open() == self.open;
            if may_take && self.take_in_page(Some(self.slice), is_there, &mut out.row) {
                if out.row.is_empty() {
                    continue;
                }
                return Ok(Event::Row);
            }
            let head = self.peek()?;
            if head == UnfilteredKind::End {
                self.check_closed()?;
                if !self.open.is_none() {
                    return Ok(self.change_at(self.edge(true), Deletion::NONE, out));
                }
                return self.end_partition();
            }
            let place = self.place();
            if place == Ordering::Less {
                self.skip()?;
                continue;
            }
            if !self.entered {
                self.entered = true;
                let holds = self.walker.open();
                if holds != self.open {
                    return Ok(self.change_at(self.edge(true), holds, out));
                }
            }
            if place == Ordering::Greater {
                let closes = !self.open.is_none() && !self.next_slice_adjoins();
                let change = closes.then(|| self.change_at(self.edge(false), Deletion::NONE, out));
                self.next_slice();
                if let Some(event) = change {
                    return Ok(event);
                }
                continue;
            }
            let event = match head {
                UnfilteredKind::Row => self.take_row(out)?,
                _ => self.take_marker(out),
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }

    fn next_of_all(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        loop {
            if self.take_in_page(None, true, &mut out.row) {
                if out.row.is_empty() {
                    continue;
                }
                return Ok(Event::Row);
            }
            let event = match self.peek()? {
                UnfilteredKind::Row => self.take_row(out)?,
                UnfilteredKind::Marker => self.take_marker(out),
                UnfilteredKind::End => {
                    self.check_closed()?;
                    return self.end_partition();
                }
            };
            if let Some(event) = event {
                return Ok(event);
            }
        }
    }
}

impl PartitionStream for SsTableStream {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        match self.state {
            State::Start => self.start_partition(out),
            State::Static => {
                if self.read_static(&mut out.row)? {
                    self.counted.row(&out.row);
                    return Ok(Event::StaticRow);
                }
                self.next(out)
            }
            State::Rows if self.whole => self.next_of_all(out),
            State::Rows => self.next_of_slices(out),
            State::Done => Ok(Event::End),
        }
    }

    fn plain_rows(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        self.take_plain(take)
    }

    fn peek_plain(&mut self, out: &mut PlainHead) -> Result<bool, ReadError> {
        self.find_plain(out)
    }

    fn leave_plain(&mut self) {
        self.leave_peeked();
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        match self.state {
            State::Start | State::Done => return Ok(()),
            // The index stands at this partition already when it was needed for its rows.
            State::Static => self.sync_index()?,
            State::Rows if self.whole && !self.is_reversed() => self.sync_index()?,
            State::Rows => {}
        }
        self.report_cost();
        self.leave_partition(false)
    }
}

impl Drop for SsTableStream {
    fn drop(&mut self) {
        self.report_cost();
    }
}
