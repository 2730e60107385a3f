//! Going on behind damage.
//!
//! 1. [`Noted`] notes which partition a stream is in.
//! 2. An error that names a data file ends the stream. Inside a partition, the rest of that partition is left
//!    out. Between partitions, it is those that come next in the damaged SSTable and whose heads cannot be
//!    read.
//! 3. The scan goes on with other streams. Between two partitions of the damaged SSTable the others are read
//!    without it. A partition beside damage is read by its key: a range cannot begin there, because a scan
//!    compares what the index says with the data on both sides. The last stream is the range that is left.
//!
//! What other SSTables and memtables have of a damaged partition is left out, too: in what cannot be read
//! there may be a deletion of it, or a newer value. So every row that comes is a true one. Where only damaged
//! data has the keys that are lost (the `bti` layout), everything between the partitions around them is left
//! out.

use super::Step;
use env::sync::Mutex;
use model::command::PartitionSelection;
use model::key::{KeyBound, KeyRange};
use model::{DecoratedKey, TableSchema};
use partition::{
    BoxedStream, Event, Fragment, PartitionStream, PlainHead, ReadContext, ReadError, TakePlain,
};
use serde::{Deserialize, Serialize};
use sstable::SsTable;
use std::fmt;
use std::sync::Arc;

/// Bytes of a partition's conditions that are kept: keys may have 64 KiB, and there may be many losses.
const PARTITION_BYTES_MAX: usize = 1 << 10;

/// Data that a scan left out because a file is damaged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The damaged file.
    pub file: String,
    /// Where in it the damage was met, as the error says it.
    pub offset: u64,
    /// What was met there.
    pub detail: String,
    /// The partition whose rest is left out, as conditions of CQL. Those of long keys are cut short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Where the partition is not known: tokens greater than the first and not greater than the second are
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<(i64, i64)>,
    /// Bytes of the file, before compression, in the partitions that are left out or cut short, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is corrupt at offset {}: {}; left out: ", self.file, self.offset, self.detail)?;
        match (&self.partition, self.tokens) {
            (Some(partition), _) => write!(f, "the rest of partition {partition}")?,
            (None, Some((after, through))) => {
                write!(f, "partitions with tokens above {after} and up to {through}")?;
            }
            (None, None) => f.write_str("the rest")?,
        }
        match self.bytes {
            Some(bytes) => write!(f, ", {bytes} bytes of the file"),
            None => Ok(()),
        }
    }
}

/// Where a stream is.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The partition that was begun last.
    key: Option<DecoratedKey>,
    is_inside: bool,
}

impl Place {
    /// What is read next is of the same partition.
    pub fn stay_inside(&mut self) {
        self.is_inside = self.key.is_some();
    }
}

/// A stream that notes where it is, and leaves out partitions.
pub(super) struct Noted {
    stream: BoxedStream,
    place: Arc<Mutex<Place>>,
    except: Arc<[DecoratedKey]>,
}

impl Noted {
    /// Starts at no place.
    pub fn new(stream: BoxedStream, place: &Arc<Mutex<Place>>, except: &Arc<[DecoratedKey]>) -> Noted {
        Noted { stream, place: Arc::clone(place), except: Arc::clone(except) }
    }
}

impl PartitionStream for Noted {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        loop {
            let event = self.stream.next(out)?;
            match event {
                Event::PartitionStart => {
                    *self.place.lock() = Place { key: Some(out.key.clone()), is_inside: true };
                    if self.except.contains(&out.key) {
                        self.skip_partition()?;
                        continue;
                    }
                }
                Event::PartitionEnd => self.place.lock().is_inside = false,
                _ => {}
            }
            return Ok(event);
        }
    }

    fn plain_rows(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        self.stream.plain_rows(take)
    }

    fn peek_plain(&mut self, out: &mut PlainHead) -> Result<bool, ReadError> {
        self.stream.peek_plain(out)
    }

    fn leave_plain(&mut self) {
        self.stream.leave_plain();
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.stream.skip_partition()?;
        self.place.lock().is_inside = false;
        Ok(())
    }
}

/// What is left of a step behind damage that its stream met at `place`, and what is left out. `None` if the
/// damage is of another kind: the error stands.
pub(super) fn behind(
    step: &Step,
    place: &Place,
    error: &ReadError,
    context: &ReadContext,
) -> Option<(Vec<Step>, Vec<Loss>)> {
    let ReadError::Corrupt { file, offset, detail } = error else { return None };
    let sstable = step.held.sstables().iter().find(|sstable| sstable.data_name() == file)?;
    let table = &step.command.table;
    let loss = Loss {
        file: file.to_string(),
        offset: *offset,
        detail: detail.clone(),
        partition: None,
        tokens: None,
        bytes: None,
    };
    let of_key = |key: &DecoratedKey| Loss {
        partition: Some(show(table, key)),
        bytes: bytes_of(sstable, key, table, context),
        ..loss.clone()
    };
    let inside = place.key.as_ref().filter(|_| place.is_inside);
    let range = match &step.command.partitions {
        PartitionSelection::Keys(keys) => {
            let at = place.key.as_ref().and_then(|key| keys.iter().position(|k| k == key));
            let damaged = at.map_or(0, |at| if place.is_inside { at } else { at + 1 });
            let lost = keys.get(damaged)?;
            let left = keys.get(damaged + 1..).unwrap_or_default().to_vec();
            let left = (!left.is_empty()).then(|| step.of(PartitionSelection::Keys(left)));
            return Some((left.into_iter().collect(), vec![of_key(lost)]));
        }
        PartitionSelection::Range(range) => range,
    };
    let start = match &place.key {
        Some(key) => KeyBound::Key { key: key.clone(), inclusive: false },
        None => range.start.clone(),
    };
    let mut losses: Vec<Loss> = inside.map(of_key).into_iter().collect();
    let can_begin = |start: &KeyBound| {
        let from = KeyRange { start: start.clone(), end: KeyBound::Unbounded };
        sstable.position_of(&from, table, context).is_ok()
    };
    if inside.is_some() && can_begin(&start) {
        return Some((vec![step.of_range(start, range.end.clone())], losses));
    }
    let from = KeyRange { start: start.clone(), end: range.end.clone() };
    let mut gap = Gap { step, sstable, start, lost: Vec::new(), lost_at: None };
    let mut heads = sstable.heads_from(&gap.start, table, context).ok()?;
    let mut steps = Vec::new();
    loop {
        let head = heads.next_head().ok()?;
        let known = head.as_ref().and_then(|head| head.key.as_ref());
        if known.is_some_and(|key| from.is_before_start(key)) {
            continue;
        }
        match (head.as_ref(), known) {
            (Some(head), Some(key)) if head.is_sound && !from.is_after_end(key) => {
                let end = KeyBound::Key { key: key.clone(), inclusive: false };
                gap.close(end, Some(head.position), &loss, &mut steps, &mut losses);
                steps.push(step.of(PartitionSelection::Keys(vec![key.clone()])));
                gap.start = KeyBound::Key { key: key.clone(), inclusive: false };
                if can_begin(&gap.start) {
                    steps.push(step.of_range(gap.start, range.end.clone()));
                    return Some((steps, losses));
                }
            }
            (Some(head), None) => gap.lose(head.position, None),
            (Some(head), Some(key)) if !from.is_after_end(key) => gap.lose(head.position, Some(key)),
            // Behind what is asked for, or at the end of the SSTable.
            (head, _) => {
                let position = head.map_or(sstable.data_bytes(), |head| head.position);
                gap.close(range.end.clone(), Some(position), &loss, &mut steps, &mut losses);
                return Some((steps, losses));
            }
        }
    }
}

/// What lies between two partitions of the damaged SSTable that are sound, or before the first or behind the
/// last of them.
struct Gap<'a> {
    step: &'a Step,
    sstable: &'a Arc<SsTable>,
    start: KeyBound,
    /// Partitions of the SSTable in it, which are lost.
    lost: Vec<Option<DecoratedKey>>,
    /// Where the first of them is.
    lost_at: Option<u64>,
}

impl Gap<'_> {
    fn lose(&mut self, position: u64, key: Option<&DecoratedKey>) {
        self.lost.push(key.cloned());
        self.lost_at.get_or_insert(position);
    }

    /// Adds what can be read of the gap, and what is lost.
    fn close(
        &mut self,
        end: KeyBound,
        position: Option<u64>,
        loss: &Loss,
        steps: &mut Vec<Step>,
        losses: &mut Vec<Loss>,
    ) {
        let Step { held, command, except, .. } = self.step;
        let lost = std::mem::take(&mut self.lost);
        let lost_at = self.lost_at.take();
        let known: Option<Vec<DecoratedKey>> = lost.iter().cloned().collect();
        if !lost.is_empty() {
            let (first, last) =
                (token_of(&self.start).unwrap_or(i64::MIN), token_of(&end).unwrap_or(i64::MAX));
            let (partition, tokens) = match known.as_deref() {
                Some([only]) => (Some(show(&command.table, only)), None),
                Some([one, .., other]) => (None, Some((one.token.0.saturating_sub(1), other.token.0))),
                _ => (None, Some((first, last))),
            };
            let bytes = position.zip(lost_at).and_then(|(to, from)| to.checked_sub(from));
            losses.push(Loss { partition, tokens, bytes, ..loss.clone() });
        }
        let Some(known) = known else { return };
        let except = except.iter().cloned().chain(known).collect();
        let held = held.without(self.sstable);
        steps.push(Step { held, except, ..self.step.of_range(self.start.clone(), end) });
    }
}

/// Bytes of a partition in an SSTable.
fn bytes_of(
    sstable: &Arc<SsTable>,
    key: &DecoratedKey,
    table: &Arc<TableSchema>,
    context: &ReadContext,
) -> Option<u64> {
    let start = KeyBound::Key { key: key.clone(), inclusive: true };
    let mut heads = sstable.heads_from(&start, table, context).ok()?;
    loop {
        let head = heads.next_head().ok()??;
        if head.key.as_ref() == Some(key) {
            let end = heads.next_head().ok()?.map_or(sstable.data_bytes(), |next| next.position);
            return end.checked_sub(head.position);
        }
        if head.key.is_some_and(|other| other > *key) {
            return None;
        }
    }
}

/// A partition as conditions of CQL.
fn show(table: &TableSchema, key: &DecoratedKey) -> String {
    let columns = table.partition_key();
    let of = |(i, column): (usize, &Arc<model::ColumnDef>)| {
        format!("{} = {}", column.name, column.ty.to_literal(key.key.component(columns.len(), i)))
    };
    shortened(columns.iter().enumerate().map(of).collect::<Vec<_>>().join(" AND "))
}

/// The text, or as much of it as is kept of each loss.
fn shortened(mut text: String) -> String {
    if text.len() > PARTITION_BYTES_MAX {
        text.truncate(text.floor_char_boundary(PARTITION_BYTES_MAX));
        text.push_str("...");
    }
    text
}

fn token_of(bound: &KeyBound) -> Option<i64> {
    match bound {
        KeyBound::Unbounded => None,
        KeyBound::Token { token, .. } => Some(token.0),
        KeyBound::Key { key, .. } => Some(key.token.0),
    }
}
