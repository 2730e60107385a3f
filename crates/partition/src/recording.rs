//! An answer of a replica: the fragments of a stream as far as a page of them goes, in memory.
//!
//! A replica stops where it has found as many live rows as were asked for. What other replicas know may
//! delete some of them, so the rows of several replicas are believed only up to the first place at which one
//! of them stopped:
//!
//! ```text
//! replica A   row 1, row 2, row 3 | stopped
//! replica B   row 1, row 2 deleted, row 4, row 5 | stopped
//! known       row 1, row 3        | cut: row 4 may be deleted by what A has not told
//! ```
//! A replica may stop in the middle of each partition (`PER PARTITION LIMIT`) and in the middle of the whole.

mod digest;
mod encoding;
mod groups;
mod lacking;
mod passing;
mod silent;
mod told;

pub use digest::Digest;
pub use encoding::decode_answer;
pub use groups::GroupLimits;
pub use lacking::lacking;
pub use silent::{Silent, silent};

use crate::cost::ReadContext;
use crate::error::ReadError;
use crate::live::{LiveRows, PageLimits};
use crate::merge::merge;
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream, RangeChange};
use bytes::Bytes;
use groups::{Counted, InGroups};
use model::clustering::Position;
use model::command::ReadCommand;
use model::{BoundKind, Clustering, ClusteringBound, DecoratedKey, Deletion, Row, TableSchema};
use passing::Passing;
use std::cmp::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// One fragment.
#[derive(Clone, Debug)]
enum Step {
    PartitionStart(DecoratedKey, Deletion),
    StaticRow(Row),
    Row(Row),
    RangeChange(RangeChange),
    PartitionEnd,
    /// The rest of the partition was not asked for.
    Left,
}

/// What a replica answers to a read.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    steps: Vec<Step>,
    is_whole: bool,
    /// The row behind which it stopped in the middle of its last partition.
    stop: Option<Clustering>,
    live_rows: u64,
    bytes: u64,
    /// Partitions that are told of, though nothing of them may be here.
    told_anyway: Vec<Bytes>,
    /// The groups that may come behind it.
    groups_left: Option<Arc<GroupLimits>>,
}

impl Recording {
    /// Reads a stream, the answer to `command`, until a page of it is full.
    ///
    /// # Errors
    /// When the stream fails, or the deadline is over.
    pub fn of(
        stream: BoxedStream,
        command: &Arc<ReadCommand>,
        context: ReadContext,
        page: PageLimits,
    ) -> Result<Recording, ReadError> {
        let taken = Arc::new(Mutex::new(Recording::default()));
        let recorder = Recorder { stream, taken: Arc::clone(&taken), passing: Passing::of(command) };
        let mut rows = LiveRows::new(Box::new(recorder), Arc::clone(command), context, page);
        rows.read_to_the_end();
        let (mut live_rows, mut bytes) = (0, 0);
        while let Some(row) = rows.next_row()? {
            live_rows += 1;
            bytes += row.row.map_or(0, |row| row.data_size() as u64);
        }
        let mark = rows.mark();
        drop(rows);
        let mut recording = std::mem::take(&mut *taken.lock().unwrap_or_else(PoisonError::into_inner));
        if !recording.is_whole && !matches!(recording.steps.last(), Some(Step::PartitionEnd) | None) {
            recording.stop = mark.and_then(|mark| mark.clustering).or_else(|| recording.last_row());
        }
        Ok(Recording { live_rows, bytes, ..recording })
    }

    /// As [`Recording::of`], for a node that makes groups of the rows: it ends with the last group, too.
    ///
    /// # Errors
    /// As [`Recording::of`].
    pub fn of_groups(
        stream: BoxedStream,
        command: &Arc<ReadCommand>,
        groups: &GroupLimits,
        context: ReadContext,
        page: PageLimits,
    ) -> Result<Recording, ReadError> {
        let counted = Arc::new(Mutex::new(Counted::new(groups.clone())));
        let stream = Box::new(InGroups::new(stream, command, &counted));
        let recording = Recording::of(stream, command, context, page)?;
        let mut counted = counted.lock().unwrap_or_else(PoisonError::into_inner);
        let told_anyway = std::mem::take(&mut counted.told);
        Ok(Recording { told_anyway, groups_left: counted.left().map(Arc::new), ..recording })
    }

    /// The groups that may come behind it, where groups were asked for and there are not enough.
    pub fn groups_left(&self) -> Option<&Arc<GroupLimits>> {
        self.groups_left.as_ref()
    }

    /// The last row of its last partition.
    fn last_row(&self) -> Option<Clustering> {
        let of_partition = self.steps.iter().rev().take_while(|s| !matches!(s, Step::PartitionStart(..)));
        let mut rows = of_partition.filter_map(|step| match step {
            Step::Row(row) => Some(row.clustering.clone()),
            _ => None,
        });
        rows.next()
    }

    /// Live rows in it, as far as its replica knows.
    pub fn live_rows(&self) -> u64 {
        self.live_rows
    }

    /// Bytes of their values.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it holds all that was asked for, to the end.
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What is behind it as well, where it is whole.
    pub fn followed_by(mut self, next: Recording) -> Recording {
        self.steps.extend(next.steps);
        self.told_anyway.extend(next.told_anyway);
        let (live_rows, bytes) = (self.live_rows + next.live_rows, self.bytes + next.bytes);
        let (steps, told_anyway) = (self.steps, self.told_anyway);
        Recording { steps, told_anyway, live_rows, bytes, ..next }
    }

    /// Whether it holds nothing at all.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// Where it stopped in the middle of partitions, and where it ended.
    fn horizon(&self) -> Horizon {
        let mut horizon = Horizon::default();
        let (mut key, mut row) = (None, None);
        for step in &self.steps {
            match step {
                Step::PartitionStart(start, _) => (key, row) = (Some(start), None),
                Step::Row(last) => row = Some(&last.clustering),
                Step::Left => {
                    if let (Some(key), Some(row)) = (key, row) {
                        horizon.stops.push((key.clone(), row.clone()));
                    }
                }
                Step::StaticRow(_) | Step::RangeChange(_) | Step::PartitionEnd => {}
            }
        }
        if !self.is_whole
            && let Some(key) = key
        {
            horizon.stops.extend(self.stop.clone().map(|row| (key.clone(), row)));
            horizon.end = Some(key.clone());
        }
        horizon
    }

    fn play(self, reversed: bool) -> Playing {
        let steps = self.steps.into_iter();
        Playing {
            steps,
            reversed,
            in_partition: false,
            is_deleted: false,
            last: Clustering::default(),
            stop: self.stop,
        }
    }
}

/// Where a recording stops.
#[derive(Clone, Debug, Default)]
struct Horizon {
    /// Partitions that were cut, each with the last row that is there.
    stops: Vec<(DecoratedKey, Clustering)>,
    /// The last partition in the recording, if others may follow.
    end: Option<DecoratedKey>,
}

impl Horizon {
    /// What is known of both.
    fn meet(&mut self, other: Horizon, command: &ReadCommand) {
        for (key, row) in other.stops {
            match self.stops.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) if is_before(command, &row, known) => *known = row,
                Some(_) => {}
                None => self.stops.push((key, row)),
            }
        }
        self.end = match (self.end.take(), other.end) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Whether a row comes earlier in the stream.
fn is_before(command: &ReadCommand, a: &Clustering, b: &Clustering) -> bool {
    order(command, Position::row(a), Position::row(b)).is_lt()
}

/// The order of positions in the stream.
fn order(command: &ReadCommand, a: Position<'_>, b: Position<'_>) -> Ordering {
    let order = command.table.comparator().compare_positions(a, b);
    if command.is_reversed() { order.reverse() } else { order }
}

/// Where a merge of recordings was cut off, once it was: behind this row, or behind a whole partition.
pub type Cut = Arc<OnceLock<Option<Clustering>>>;

/// What several replicas know of a selection, as one stream. It ends where the first of them stopped, or,
/// with `has_more`, where other selections follow that were not asked yet; `cut` then says so.
pub fn known(
    table: &Arc<TableSchema>,
    recordings: Vec<Recording>,
    command: &Arc<ReadCommand>,
    has_more: bool,
    cut: &Cut,
) -> BoxedStream {
    let mut horizon = Horizon::default();
    for recording in &recordings {
        horizon.meet(recording.horizon(), command);
    }
    let mut streams: smallvec::SmallVec<[BoxedStream; 1]> = recordings
        .into_iter()
        .map(|recording| Box::new(recording.play(command.is_reversed())) as BoxedStream)
        .collect();
    let merged = match streams.len() {
        1 => streams.remove(0),
        _ => merge(table, streams, command.is_reversed()),
    };
    let (command, cut) = (Arc::clone(command), Arc::clone(cut));
    Box::new(Known { merged, horizon, has_more, command, stop: None, is_over: false, cut })
}

/// A merge as far as all of its sources go.
struct Known {
    merged: BoxedStream,
    horizon: Horizon,
    has_more: bool,
    command: Arc<ReadCommand>,
    /// The last row that is known of the current partition, if others may follow.
    stop: Option<Clustering>,
    is_over: bool,
    cut: Cut,
}

impl Known {
    fn cut(&mut self, behind: Option<Clustering>) -> Event {
        self.is_over = true;
        // It is cut once.
        let _ = self.cut.set(behind);
        Event::End
    }
}

impl PartitionStream for Known {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        if self.is_over {
            return Ok(Event::End);
        }
        let event = self.merged.next(out)?;
        match event {
            Event::PartitionStart => {
                if self.horizon.end.as_ref().is_some_and(|end| out.key > *end) {
                    return Ok(self.cut(None));
                }
                let stop = self.horizon.stops.iter().find(|(key, _)| *key == out.key);
                self.stop = stop.map(|(_, row)| row.clone());
            }
            Event::StaticRow => {}
            Event::Row | Event::RangeChange => {
                if let (Some(stop), Some(position)) = (&self.stop, out.position(event))
                    && order(&self.command, position, Position::row(stop)).is_gt()
                {
                    let stop = self.stop.take();
                    return Ok(self.cut(stop));
                }
            }
            Event::PartitionEnd => {
                if let Some(stop) = self.stop.take() {
                    return Ok(self.cut(Some(stop)));
                }
            }
            Event::End => {
                if self.horizon.end.is_some() || self.has_more {
                    return Ok(self.cut(None));
                }
            }
        }
        Ok(event)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.stop = None;
        self.merged.skip_partition()
    }
}

/// Copies what passes through.
struct Recorder {
    stream: BoxedStream,
    taken: Arc<Mutex<Recording>>,
    passing: Option<Passing>,
}

impl PartitionStream for Recorder {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        let event = self.stream.next(out)?;
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(passing) = &mut self.passing {
            // The last partition of a page stays in any case: it tells how far the page goes.
            let is_over = matches!(event, Event::PartitionStart | Event::End);
            if is_over && let Some(start) = passing.left_out() {
                taken.steps.truncate(start);
            }
            if !passing.keeps(event, out, taken.steps.len()) {
                return Ok(event);
            }
        }
        match event {
            Event::PartitionStart => taken.steps.push(Step::PartitionStart(out.key.clone(), out.deletion)),
            Event::StaticRow => taken.steps.push(Step::StaticRow(out.row.clone())),
            Event::Row => taken.steps.push(Step::Row(out.row.clone())),
            Event::RangeChange => taken.steps.push(Step::RangeChange(out.change.clone())),
            Event::PartitionEnd => taken.steps.push(Step::PartitionEnd),
            Event::End => taken.is_whole = true,
        }
        Ok(event)
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.steps.extend([Step::Left, Step::PartitionEnd]);
        drop(taken);
        self.stream.skip_partition()
    }
}

/// Plays a recording. Where it stopped in the middle of a partition, that is closed as the grammar of streams
/// has it.
struct Playing {
    steps: std::vec::IntoIter<Step>,
    reversed: bool,
    in_partition: bool,
    /// Whether a range deletion is open.
    is_deleted: bool,
    /// The last row of the partition.
    last: Clustering,
    /// Behind which row the last partition was left.
    stop: Option<Clustering>,
}

impl Playing {
    /// Ends an open range deletion behind a row. False if there is none.
    fn close(&mut self, behind: Clustering, out: &mut Fragment) -> bool {
        let kind = if self.reversed { BoundKind::InclStart } else { BoundKind::ExclStart };
        let was_deleted = std::mem::take(&mut self.is_deleted);
        if was_deleted {
            let position = ClusteringBound { kind, prefix: behind };
            out.change = RangeChange { position, deletion: Deletion::NONE };
        }
        was_deleted
    }
}

impl PartitionStream for Playing {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        loop {
            let event = match self.steps.next() {
                None if self.in_partition => {
                    let behind = self.stop.take().unwrap_or_else(|| self.last.clone());
                    if self.close(behind, out) {
                        return Ok(Event::RangeChange);
                    }
                    self.in_partition = false;
                    Event::PartitionEnd
                }
                None => Event::End,
                Some(Step::PartitionStart(key, deletion)) => {
                    (out.key, out.deletion) = (key, deletion);
                    self.in_partition = true;
                    Event::PartitionStart
                }
                Some(Step::StaticRow(row)) => {
                    out.row = row;
                    Event::StaticRow
                }
                Some(Step::Row(row)) => {
                    self.last = row.clustering.clone();
                    out.row = row;
                    Event::Row
                }
                Some(Step::RangeChange(change)) => {
                    self.is_deleted = !change.deletion.is_none();
                    out.change = change;
                    Event::RangeChange
                }
                Some(Step::PartitionEnd) => {
                    self.in_partition = false;
                    Event::PartitionEnd
                }
                Some(Step::Left) => {
                    if self.close(self.last.clone(), out) {
                        return Ok(Event::RangeChange);
                    }
                    continue;
                }
            };
            return Ok(event);
        }
    }
}

#[cfg(test)]
mod tests;
