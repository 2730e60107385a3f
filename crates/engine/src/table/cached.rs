//! Reading a partition through the row cache ([`crate::cache::RowCache`]).
//!
//! 1. The partition's head is looked up; if it is not there, the SSTables are read for it, as far as a head
//!    goes, with all columns. A head that holds only some of the rows is made only by reads that begin where
//!    the partition does.
//! 2. The read is a merge of the head and the memtables, like that of an SSTable and the memtables.
//! 3. What lies behind the head is read from the SSTables, when the read comes there ([`HeadThenRest`]): a
//!    LIMIT mostly ends it before. A read of which nothing lies within the head goes its usual way.
//!
//! A read that may not wait makes no head: it is told to come back where it may.

use super::read::{Candidates, Sources, candidates, memtables, open_memtable, open_partition};
use super::{TableStore, TableView};
use crate::cache::{CachedRows, PartitionHead};
use crate::memtable::FrozenPartition;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::{BoundKind, Clustering, ClusteringBound, DecoratedKey, Deletion, Slice, TableSchema};
use partition::codec::Others;
use partition::{
    AtSource, BoxedStream, Event, Fragment, PartitionStream, RangeChange, ReadContext, ReadError, SourceKind,
    Verdict, merge,
};
use std::mem;
use std::sync::Arc;

/// Fragments between two looks at the deadline while a head is made.
const FRAGMENTS_PER_LOOK: usize = 256;

/// The partition as a command wants it; `None` when the cache can do nothing for the read.
pub(super) fn read_partition(
    rows: &CachedRows,
    view: &Arc<TableView>,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<Option<BoxedStream>, ReadError> {
    if !ctx.fill_cache || !rows.keeps(&command.table) {
        return Ok(None);
    }
    let Ok(found) = rows.head(key, view.sstable_set, command.now_s) else { return Ok(None) };
    let (at, is_hit) = (at_cache(ctx), found.is_some());
    let head = match found {
        Some(head) => Some(head),
        None => make_head(rows, view, command, key, ctx)?,
    };
    let reach = head.as_ref().map_or(Reach::Nothing, |head| Reach::of(command, head));
    if is_hit && !matches!(reach, Reach::Nothing) {
        at.judge(Verdict::Candidate);
        at.context().cost.row_cache_hits.add(1);
    } else {
        at.judge(if is_hit { Verdict::Clustering } else { Verdict::Absent });
        at.context().cost.row_cache_misses.add(1);
        rows.count_miss();
    }
    let Some(head) = head else { return Ok(None) };
    let open = |filter: &ClusteringFilter| {
        at.open(|ctx| Ok(Some(Box::new(head.partition.read(&command.table, key, filter, ctx)))))
    };
    let cached = match reach {
        Reach::Nothing => return Ok(None),
        Reach::All => open(&command.clusterings)?,
        Reach::Some { within, behind, end } => open(&within)?.map(|stream| {
            let rest = Rest {
                view: Arc::clone(view),
                command: ReadCommand { clusterings: behind, ..command.clone() },
                key: key.clone(),
                ctx: ctx.clone(),
            };
            let at = Part::Head { stream, open: Deletion::NONE };
            Box::new(HeadThenRest { at, end, rest }) as BoxedStream
        }),
    };
    let mut sources = Sources::new();
    let settling = view.settling.iter().map(|memtable| (memtable, "flushed"));
    for (memtable, name) in memtables(view).chain(settling) {
        sources.extend(open_memtable(memtable, name, command, key, ctx)?);
    }
    sources.extend(cached);
    Ok(Some(merge(&command.table, sources, command.is_reversed())))
}

/// Judges the cache as a read would: whether it has what is asked for, as far as it reaches.
pub(super) fn consider(
    view: &TableView,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> bool {
    let Some(rows) = view.cached_rows.as_ref().filter(|rows| ctx.fill_cache && rows.keeps(&command.table))
    else {
        return false;
    };
    let head = rows.head(key, view.sstable_set, command.now_s).ok().flatten();
    let reach = head.as_ref().map(|head| Reach::of(command, head));
    at_cache(ctx).judge(match &reach {
        None => Verdict::Absent,
        Some(Reach::Nothing) => Verdict::Clustering,
        Some(_) => Verdict::Candidate,
    });
    matches!(reach, Some(Reach::All))
}

fn at_cache(ctx: &ReadContext) -> AtSource<'_> {
    ctx.at_source(SourceKind::RowCache, || "heads".to_owned())
}

/// What a head has of that which a command selects.
enum Reach {
    All,
    /// The slices up to the head's end, those behind, and where that is.
    Some {
        within: ClusteringFilter,
        behind: ClusteringFilter,
        end: ClusteringBound,
    },
    Nothing,
}

impl Reach {
    fn of(command: &ReadCommand, head: &PartitionHead) -> Reach {
        let Some(end) = &head.end else { return Reach::All };
        let comparator = command.table.comparator();
        let end = ClusteringBound::end_at(end.clone());
        let order = |bound: &ClusteringBound| comparator.compare_positions(bound.position(), end.position());
        let slices = command.clusterings.to_slices();
        if slices.last().is_none_or(|last| order(&last.end).is_le()) {
            return Reach::All;
        }
        let begins_within = slices.first().is_some_and(|first| order(&first.start).is_lt());
        let is_forward_slice =
            matches!(command.clusterings, ClusteringFilter::Slices { reversed: false, .. });
        if !begins_within || !is_forward_slice {
            return Reach::Nothing;
        }
        let (mut within, mut behind) = (Vec::new(), Vec::new());
        for slice in slices {
            match (order(&slice.start).is_lt(), order(&slice.end).is_le()) {
                (_, true) => within.push(slice),
                (false, false) => behind.push(slice),
                (true, false) => {
                    let from = ClusteringBound::new(BoundKind::ExclStart, end.prefix.clone());
                    behind.push(Slice { start: from, end: slice.end });
                    within.push(Slice { start: slice.start, end: end.clone() });
                }
            }
        }
        let filter = |slices| ClusteringFilter::Slices { slices, reversed: false };
        Reach::Some { within: filter(within), behind: filter(behind), end }
    }
}

/// Reads the head of a partition from the SSTables and puts it into the cache; `None` when this read should
/// not, when another one does, or when no SSTable has anything of the partition.
fn make_head(
    rows: &CachedRows,
    view: &TableView,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<Option<Arc<PartitionHead>>, ReadError> {
    if !rows.is_whole() && !begins_at_the_start(command) || !has_candidates(view, key) {
        return Ok(None);
    }
    if !ctx.may_block {
        return Err(ReadError::WouldBlock);
    }
    // Others who want the partition meanwhile read what they want of it; one head is enough.
    let Some(_making) = rows.make(key) else { return Ok(None) };
    let ctx = &ReadContext { rows_wanted: rows.rows(), ..ctx.clone() };
    let table = &command.table;
    let whole = ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key.clone()]),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: command.now_s,
    };
    let found = candidates(view, &whole, key, ctx);
    let made = read_sstables(&found, &whole, key, ctx).and_then(|stream| {
        let filling = Filling::new(table, rows.head_bytes_max(), rows.rows());
        filling.fill(stream, &whole, ctx)
    });
    match made {
        Ok(None) => Ok(None),
        Ok(Some((partition, end))) => {
            let head = Arc::new(PartitionHead { partition, end, sstable_set: view.sstable_set });
            rows.keep(key, &head);
            Ok(Some(head))
        }
        Err(error @ (ReadError::WouldBlock | ReadError::Unproven(_) | ReadError::TimedOut)) => Err(error),
        // What is damaged need not be what was asked for.
        Err(_) => Ok(None),
    }
}

fn begins_at_the_start(command: &ReadCommand) -> bool {
    match &command.clusterings {
        ClusteringFilter::Slices { slices, reversed: false } => {
            slices.first().is_some_and(|first| first.start.prefix.is_empty())
        }
        _ => false,
    }
}

/// Whether any SSTable may have something of the partition; nothing is counted.
fn has_candidates(view: &TableView, key: &DecoratedKey) -> bool {
    view.sstables_for(key).any(|sstable| sstable.covers(key) && sstable.may_contain(key))
}

fn read_sstables(
    sstables: &Candidates<'_>,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<BoxedStream, ReadError> {
    let mut sources = Sources::new();
    for sstable in sstables {
        sources.extend(open_partition(sstable, Others::Stay, command, key, ctx)?);
    }
    Ok(merge(&command.table, sources, command.is_reversed()))
}

/// A head that is being made.
struct Filling<'t> {
    table: &'t TableSchema,
    partition: FrozenPartition,
    bytes_max: u64,
    /// Live rows that are still to come.
    rows_left: u64,
    last: Option<Clustering>,
    /// The range deletion that holds, and from where on.
    open: Option<(ClusteringBound, Deletion)>,
}

impl Filling<'_> {
    fn new(table: &TableSchema, bytes_max: u64, rows: u64) -> Filling<'_> {
        let partition = FrozenPartition::default();
        Filling { table, partition, bytes_max, rows_left: rows, last: None, open: None }
    }

    /// Takes what belongs to the head out of `stream`: it, and where it ends. `None` when the first row is
    /// too large.
    fn fill(
        mut self,
        mut stream: BoxedStream,
        command: &ReadCommand,
        ctx: &ReadContext,
    ) -> Result<Option<(FrozenPartition, Option<Clustering>)>, ReadError> {
        let mut fragment = Fragment::default();
        for n in 1.. {
            if n % FRAGMENTS_PER_LOOK == 0 {
                ctx.check_deadline()?;
            }
            match stream.next(&mut fragment)? {
                Event::PartitionStart => self.partition.set_deletion(fragment.deletion),
                Event::StaticRow => self.partition.set_static(self.table, &fragment.row),
                Event::RangeChange => self.change(&fragment.change),
                Event::Row => {
                    let row = &fragment.row;
                    if !self.partition.has_room(row, self.bytes_max) {
                        break;
                    }
                    self.partition.add_row(self.table, row);
                    self.last.get_or_insert_default().assign(&row.clustering);
                    self.rows_left -= u64::from(row.is_live(command.now_s));
                    // A shorter clustering, of a compact table, has no bound that leaves out longer ones.
                    if self.rows_left == 0 && row.clustering.len() == self.table.comparator().len() {
                        break;
                    }
                    self.rows_left = self.rows_left.max(1);
                }
                Event::PartitionEnd | Event::End => {
                    let fits = self.partition.bytes() <= self.bytes_max;
                    return Ok(fits.then_some((self.partition, None)));
                }
            }
        }
        let Some(last) = self.last.take() else { return Ok(None) };
        self.close(ClusteringBound::end_at(last.clone()));
        let fits = self.partition.bytes() <= self.bytes_max;
        Ok(fits.then_some((self.partition, Some(last))))
    }

    fn change(&mut self, change: &RangeChange) {
        let ClusteringBound { kind, prefix } = &change.position;
        self.close(ClusteringBound::new(kind.complement(), prefix.clone()));
        self.open = (!change.deletion.is_none()).then(|| (change.position.clone(), change.deletion));
    }

    fn close(&mut self, end: ClusteringBound) {
        if let Some((start, deletion)) = self.open.take() {
            self.partition.add_range(self.table, &Slice { start, end }, deletion);
        }
    }
}

/// What a read needs to go on behind the head.
struct Rest {
    view: Arc<TableView>,
    command: ReadCommand,
    key: DecoratedKey,
    ctx: ReadContext,
}

impl Rest {
    /// The SSTables' rows behind the head; what they say of the partition as a whole has been said.
    fn open(&self) -> Result<BoxedStream, ReadError> {
        let found = candidates(&self.view, &self.command, &self.key, &self.ctx);
        read_sstables(&found, &self.command, &self.key, &self.ctx)
    }
}

/// The head of a partition, and behind it what the SSTables hold. The head closes at its end the range
/// deletion that holds there; whether it ends there only the SSTables know, so they are asked before the
/// change is handed on.
struct HeadThenRest {
    at: Part,
    /// Behind the last row of the head.
    end: ClusteringBound,
    rest: Rest,
}

enum Part {
    Head {
        stream: BoxedStream,
        /// The range deletion that holds.
        open: Deletion,
    },
    Rest {
        stream: BoxedStream,
        /// What was read of it and not handed on.
        first: Option<Box<(Event, Fragment)>>,
    },
    Over,
}

impl HeadThenRest {
    /// Goes on to the SSTables. `closed` is a deletion that the head's last change, which is in `out`, ended.
    fn go_on(&mut self, closed: Option<Deletion>, out: &mut Fragment) -> Result<Event, ReadError> {
        let mut stream = self.rest.open()?;
        let mut fragment = Fragment::default();
        let event = loop {
            match stream.next(&mut fragment)? {
                Event::PartitionStart | Event::StaticRow => {}
                Event::End => break Event::PartitionEnd,
                event => break event,
            }
        };
        let first = match closed {
            Some(closed) if event == Event::RangeChange && self.is_end(&fragment.change) => {
                (fragment.change.deletion != closed).then(|| Box::new((event, fragment)))
            }
            Some(_) => {
                self.at = Part::Rest { stream, first: Some(Box::new((event, fragment))) };
                return Ok(Event::RangeChange);
            }
            None => Some(Box::new((event, fragment))),
        };
        self.at = Part::Rest { stream, first };
        self.next(out)
    }

    fn is_end(&self, change: &RangeChange) -> bool {
        let comparator = self.rest.command.table.comparator();
        comparator.compare_positions(change.position.position(), self.end.position()).is_eq()
    }
}

impl PartitionStream for HeadThenRest {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        match &mut self.at {
            Part::Head { stream, open } => match stream.next(out)? {
                Event::RangeChange => {
                    let before = mem::replace(open, out.change.deletion);
                    if self.is_end(&out.change) {
                        return self.go_on(Some(before), out);
                    }
                    Ok(Event::RangeChange)
                }
                Event::PartitionEnd | Event::End => self.go_on(None, out),
                event => Ok(event),
            },
            Part::Rest { stream, first } => {
                let event = match first.take() {
                    Some(first) => {
                        *out = first.1;
                        first.0
                    }
                    None => stream.next(out)?,
                };
                if event == Event::PartitionEnd {
                    self.at = Part::Over;
                }
                Ok(event)
            }
            Part::Over => Ok(Event::End),
        }
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.at = Part::Over;
        Ok(())
    }
}

impl TableStore {
    /// The end of a flush: heads that were read before it go, and then the memtable that reads merged with
    /// them. Needs the flush turn.
    pub(crate) fn settle(&self) {
        let view = self.view();
        if let (Some(rows), Some(memtable)) = (&view.cached_rows, &view.settling) {
            rows.forget(memtable.keys());
            self.change_view(|view| view.settling = None);
        }
    }
}
