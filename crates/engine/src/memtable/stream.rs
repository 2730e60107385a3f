//! Streams over a memtable: one partition, or those of a range of keys.
//!
//! Inside a partition two sequences are merged by position, slice after slice: the rows, and the changes that
//! the range deletions make, clipped to the slice. A change waits (`pending`) until something comes after it,
//! so that two changes at one position become one, and one that changes nothing is left out.

use super::Memtable;
use super::ordered::{At, Placed, RangeEntry, RowEntry};
use super::partition::PartitionState;
use model::command::ClusteringFilter;
use model::key::{KeyBound, KeyRange};
use model::{
    ClusteringBound, ClusteringComparator, DecoratedKey, Deletion, PartitionKey, Row, Slice, TableSchema,
    Token,
};
use partition::{Event, Fragment, PartitionStream, RangeChange, ReadContext, ReadCost, ReadError};
use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

/// Rows taken from the tree at first, and at most: few for a point read, many for a scan.
const BATCH_MIN: usize = 4;
const BATCH_MAX: usize = 128;

/// A stream over a memtable; keeps the grammar of [`partition`].
pub struct MemtableStream {
    table: Arc<TableSchema>,
    slices: Arc<[Slice]>,
    reversed: bool,
    source: Source,
    current: Option<PartitionCursor>,
    step: Step,
    tally: Tally,
}

enum Source {
    /// The partition is in `current` from the start.
    One,
    Range {
        memtable: Arc<Memtable>,
        range: KeyRange,
        last: Option<DecoratedKey>,
    },
}

/// Where in `partition := PartitionStart StaticRow? ... PartitionEnd` the stream stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Start,
    Static,
    Body,
    Over,
}

/// Counts that go to the cost when the stream ends.
struct Tally {
    cost: Arc<ReadCost>,
    rows: u64,
    cells: u64,
    tombstones: u64,
}

impl Tally {
    fn row(&mut self, row: &Row) {
        self.rows += 1;
        self.cells += row.cells.len() as u64;
        self.tombstones += row.tombstones_at_source();
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.cost.rows_scanned.add(self.rows);
        self.cost.cells_scanned.add(self.cells);
        self.cost.tombstones_scanned.add(self.tombstones);
    }
}

impl MemtableStream {
    pub(super) fn of_partition(
        table: &Arc<TableSchema>,
        key: DecoratedKey,
        state: PartitionState,
        filter: &ClusteringFilter,
        ctx: &ReadContext,
    ) -> MemtableStream {
        let mut stream = Self::new(table, Source::One, filter, ctx);
        stream.current = Some(PartitionCursor::new(key, state, &stream.slices, stream.reversed));
        stream
    }

    pub(super) fn of_range(
        table: &Arc<TableSchema>,
        memtable: Arc<Memtable>,
        range: KeyRange,
        filter: &ClusteringFilter,
        ctx: &ReadContext,
    ) -> MemtableStream {
        Self::new(table, Source::Range { memtable, range, last: None }, filter, ctx)
    }

    fn new(
        table: &Arc<TableSchema>,
        source: Source,
        filter: &ClusteringFilter,
        ctx: &ReadContext,
    ) -> MemtableStream {
        MemtableStream {
            table: Arc::clone(table),
            slices: filter.to_slices().into(),
            reversed: filter.is_reversed(),
            source,
            current: None,
            step: Step::Start,
            tally: Tally { cost: Arc::clone(&ctx.cost), rows: 0, cells: 0, tombstones: 0 },
        }
    }

    /// Loads the next partition into `current`; false when there is none.
    fn advance(&mut self) -> bool {
        let Source::Range { memtable, range, last } = &mut self.source else {
            return false;
        };
        let found = match last {
            Some(key) => memtable.partitions.first_from(Bound::Excluded(key)),
            None => first_of(range).and_then(|start| memtable.partitions.first_from(start.as_ref())),
        };
        let Some((key, partition)) = found.filter(|(key, _)| !range.is_after_end(key)) else {
            return false;
        };
        *last = Some(key.clone());
        self.current = Some(PartitionCursor::new(key, partition.snapshot(), &self.slices, self.reversed));
        self.step = Step::Start;
        true
    }
}

/// Where the keys of a range begin; `None` for a range after the last token.
fn first_of(range: &KeyRange) -> Option<Bound<DecoratedKey>> {
    let before_token = |token| DecoratedKey { token, key: PartitionKey(bytes::Bytes::new()) };
    Some(match &range.start {
        KeyBound::Unbounded => Bound::Unbounded,
        KeyBound::Token { token, inclusive: true } => Bound::Included(before_token(*token)),
        KeyBound::Token { token, inclusive: false } => {
            Bound::Included(before_token(Token(token.0.checked_add(1)?)))
        }
        KeyBound::Key { key, inclusive: true } => Bound::Included(key.clone()),
        KeyBound::Key { key, inclusive: false } => Bound::Excluded(key.clone()),
    })
}

impl PartitionStream for MemtableStream {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        if self.current.is_none() && !self.advance() {
            return Ok(Event::End);
        }
        let Some(cursor) = &mut self.current else { return Ok(Event::End) };
        if self.step == Step::Start {
            out.key = cursor.key.clone();
            out.deletion = cursor.state.deletion;
            self.tally.tombstones += u64::from(!out.deletion.is_none());
            self.step = Step::Static;
            return Ok(Event::PartitionStart);
        }
        if self.step == Step::Static {
            self.step = Step::Body;
            if let Some(row) = &cursor.state.static_row {
                out.row.assign(row);
                self.tally.row(row);
                return Ok(Event::StaticRow);
            }
        }
        if self.step == Step::Body {
            match cursor.next(self.table.comparator(), out) {
                Some(Event::Row) => {
                    self.tally.row(&out.row);
                    return Ok(Event::Row);
                }
                Some(event) => {
                    self.tally.tombstones += 1;
                    return Ok(event);
                }
                None => self.step = Step::Over,
            }
        }
        self.current = None;
        Ok(Event::PartitionEnd)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.current = None;
        Ok(())
    }
}

/// A position inside a partition's snapshot.
struct PartitionCursor {
    key: DecoratedKey,
    state: PartitionState,
    slices: Arc<[Slice]>,
    reversed: bool,
    /// Slices left to enter.
    slices_left: usize,
    slice: Option<usize>,
    /// Rows taken from the tree, the next one last.
    rows: Vec<RowEntry>,
    rows_over: bool,
    batch: usize,
    last_row: Option<RowEntry>,
    range: Option<NextRange>,
    /// The change that `range` makes next.
    upcoming: Option<RangeChange>,
    pending: Option<RangeChange>,
    open: Deletion,
}

/// The range deletion that makes the next change of the current slice: it opens there, or closes if `inside`.
struct NextRange {
    entry: RangeEntry,
    inside: bool,
}

impl PartitionCursor {
    fn new(
        key: DecoratedKey,
        state: PartitionState,
        slices: &Arc<[Slice]>,
        reversed: bool,
    ) -> PartitionCursor {
        PartitionCursor {
            key,
            state,
            slices: Arc::clone(slices),
            reversed,
            slices_left: slices.len(),
            slice: None,
            rows: Vec::new(),
            rows_over: true,
            batch: BATCH_MIN,
            last_row: None,
            range: None,
            upcoming: None,
            pending: None,
            open: Deletion::NONE,
        }
    }

    fn next(&mut self, comparator: &ClusteringComparator, out: &mut Fragment) -> Option<Event> {
        loop {
            self.fill_rows();
            let row_first = match (self.rows.last(), &self.upcoming) {
                (None, None) => {
                    if self.enter_slice(comparator) {
                        continue;
                    }
                    return self.flush_pending(None, out);
                }
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(row), Some(change)) => {
                    let order = comparator.compare_positions(row.position(), change.position.position());
                    self.directed(order) == Ordering::Less
                }
            };
            if row_first {
                if let Some(event) = self.flush_pending(None, out) {
                    return Some(event);
                }
                if let Some(row) = self.rows.pop() {
                    out.row.assign(row.row());
                    self.last_row = Some(row);
                    return Some(Event::Row);
                }
            } else if let Some(change) = self.upcoming.take() {
                self.step_range(comparator);
                match &mut self.pending {
                    Some(waiting)
                        if comparator
                            .compare_positions(waiting.position.position(), change.position.position())
                            == Ordering::Equal =>
                    {
                        waiting.deletion = change.deletion;
                    }
                    _ => {
                        if let Some(event) = self.flush_pending(Some(change), out) {
                            return Some(event);
                        }
                    }
                }
            }
        }
    }

    fn directed(&self, order: Ordering) -> Ordering {
        if self.reversed { order.reverse() } else { order }
    }

    /// Yields the waiting change, if it changes something, and puts `next` in its place.
    fn flush_pending(&mut self, next: Option<RangeChange>, out: &mut Fragment) -> Option<Event> {
        let change = std::mem::replace(&mut self.pending, next)?;
        if change.deletion == self.open {
            return None;
        }
        self.open = change.deletion;
        out.change = change;
        Some(Event::RangeChange)
    }

    fn enter_slice(&mut self, comparator: &ClusteringComparator) -> bool {
        let Some(left) = self.slices_left.checked_sub(1) else { return false };
        let index = if self.reversed { left } else { self.slices.len() - self.slices_left };
        self.slices_left = left;
        self.slice = Some(index);
        self.rows_over = self.state.rows.is_empty();
        self.last_row = None;
        self.range = self.first_range(comparator, index);
        self.upcoming = self.change_of_range(comparator);
        true
    }

    /// Takes the next rows of the slice from the tree when all of the last batch are gone.
    fn fill_rows(&mut self) {
        if !self.rows.is_empty() || self.rows_over {
            return;
        }
        let Some(slice) = self.slice.and_then(|i| self.slices.get(i)) else { return };
        let mut start = Bound::Included(At(slice.start.position()));
        let mut end = Bound::Included(At(slice.end.position()));
        if let Some(last) = &self.last_row {
            let after = Bound::Excluded(At(last.position()));
            if self.reversed { end = after } else { start = after }
        }
        self.rows_over = self.state.rows.take_range(start, end, self.reversed, self.batch, &mut self.rows);
        self.rows.reverse();
        self.batch = (self.batch * 2).min(BATCH_MAX);
    }

    /// The first range, in stream order, that overlaps the slice.
    fn first_range(&self, comparator: &ClusteringComparator, slice: usize) -> Option<NextRange> {
        let ranges = &self.state.ranges;
        let slice = self.slices.get(slice).filter(|_| !ranges.is_empty())?;
        let found = if self.reversed {
            ranges.last_before(slice.end.position())
        } else {
            let around = ranges.last_at(slice.start.position()).filter(|r| overlaps(comparator, r, slice));
            around.or_else(|| ranges.first_after(slice.start.position()))
        };
        let entry = found.filter(|r| overlaps(comparator, r, slice))?.clone();
        Some(NextRange { entry, inside: false })
    }

    /// The change that the current range makes next: at its own bound or at the slice's, whichever lies
    /// inside.
    fn change_of_range(&self, comparator: &ClusteringComparator) -> Option<RangeChange> {
        let NextRange { entry, inside } = self.range.as_ref()?;
        let slice = self.slices.get(self.slice?)?;
        let later = |a: &ClusteringBound, b: &ClusteringBound| {
            comparator.compare_positions(a.position(), b.position()) == Ordering::Greater
        };
        let at_start = *inside == self.reversed;
        let (own, limit) =
            if at_start { (&entry.slice().start, &slice.start) } else { (&entry.slice().end, &slice.end) };
        let bound = if later(own, limit) == at_start { own } else { limit };
        let deletion = if *inside { Deletion::NONE } else { entry.deletion() };
        Some(RangeChange::at(bound.clone(), deletion))
    }

    /// Moves behind the upcoming change.
    fn step_range(&mut self, comparator: &ClusteringComparator) {
        let Some(NextRange { entry, inside }) = &mut self.range else { return };
        if *inside {
            let start = entry.slice().start.position();
            let ranges = &self.state.ranges;
            let next = if self.reversed { ranges.last_before(start) } else { ranges.first_after(start) };
            let slice = self.slice.and_then(|i| self.slices.get(i));
            let next = next.filter(|n| slice.is_some_and(|s| overlaps(comparator, n, s))).cloned();
            self.range = next.map(|entry| NextRange { entry, inside: false });
        } else {
            *inside = true;
        }
        self.upcoming = self.change_of_range(comparator);
    }
}

fn overlaps(comparator: &ClusteringComparator, range: &RangeEntry, slice: &Slice) -> bool {
    let before = |a: &ClusteringBound, b: &ClusteringBound| {
        comparator.compare_positions(a.position(), b.position()).is_lt()
    };
    before(&range.slice().start, &slice.end) && before(&slice.start, &range.slice().end)
}
