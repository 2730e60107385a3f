//! Reading a table: from a command to one merged stream.
//!
//! 1. The view is taken once; it stays the same for the whole read.
//! 2. A command by keys is a chain of single partitions, each opened when the one before it is over; a
//!    command by range is one merge of scans.
//! 3. Sources that cannot matter are left out before anything is opened; named rows are read newest first, so
//!    that older SSTables need not be read at all ([`super::newest_first`]).

use super::newest_first::NewestFirst;
use super::{TableStore, TableView, cached};
use crate::memtable::Memtable;
use crate::turns::note_read;
use model::DecoratedKey;
use model::command::{PartitionSelection, ReadCommand};
use model::key::KeyRange;
use partition::codec::Others;
use partition::{
    AtSource, BoxedStream, Event, Fragment, PartitionStream, PlainHead, ReadContext, ReadError, SourceKind,
    TakePlain, Verdict, concat, merge,
};
use smallvec::SmallVec;
use sstable::{SsTable, SsTableStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A read of a range that wants fewer rows is no bulk read, however large the table is.
const BULK_ROWS_MIN: u64 = 5_000;

/// Whether a range has more than `bytes_max` in SSTables and not only a few rows of it are wanted.
fn is_large(view: &TableView, command: &ReadCommand, range: &KeyRange, bytes_max: u64) -> bool {
    let bytes = |sstable: &Arc<SsTable>| if sstable.overlaps(range) { sstable.data_bytes() } else { 0 };
    command.limits.rows >= BULK_ROWS_MIN && view.sstables.iter().map(bytes).sum::<u64>() > bytes_max
}

/// What a read of one partition merges; mostly one.
pub(super) type Sources = SmallVec<[BoxedStream; 2]>;

/// SSTables that may have something of a partition; mostly few.
pub(super) type Candidates<'v> = SmallVec<[&'v Arc<SsTable>; 4]>;

impl TableStore {
    /// The partitions and rows that the command selects, merged from all sources; limits and row filters are
    /// the caller's.
    ///
    /// # Errors
    /// When a source cannot be opened.
    pub fn read(&self, command: &ReadCommand, ctx: &ReadContext) -> Result<BoxedStream, ReadError> {
        note_read();
        self.read_view(&self.view.load(), command, ctx)
    }

    /// [`TableStore::read`], of a view.
    pub(super) fn read_view(
        &self,
        view: &Arc<TableView>,
        command: &ReadCommand,
        ctx: &ReadContext,
    ) -> Result<BoxedStream, ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if let Some(damage) = &view.damage {
            return Err(damage.clone());
        }
        let mut kept = None;
        let ctx = match command.table.options.caching.keys {
            true => ctx,
            false => kept.insert(ReadContext { fill_index_cache: false, ..ctx.clone() }),
        };
        match &command.partitions {
            PartitionSelection::Keys(keys) => match keys.as_slice() {
                [key] => match &ctx.scan {
                    Some(range) if is_large(view, command, range, self.scan_bytes_max) => {
                        read_partition(view, command, key, &ReadContext { fill_cache: false, ..ctx.clone() })
                    }
                    _ => read_partition(view, command, key, ctx),
                },
                _ => {
                    let (view, mut keys) = (Arc::clone(view), keys.clone().into_iter());
                    let (command, ctx) = (command.clone(), ctx.clone());
                    Ok(Box::new(concat(move || {
                        keys.next().map(|key| read_partition(&view, &command, &key, &ctx)).transpose()
                    })))
                }
            },
            PartitionSelection::Range(range) if self.is_bulk(view, command, range) => {
                read_range(view, command, range, &ReadContext { fill_cache: false, ..ctx.clone() })
            }
            PartitionSelection::Range(range) => read_range(view, command, range, ctx),
        }
    }

    /// Whether the pages of a read have no place in the page cache: it reads all rows of many partitions. The
    /// size of a slice read is not known in advance.
    pub fn reads_around_cache(&self, command: &ReadCommand) -> bool {
        match &command.partitions {
            PartitionSelection::Keys(_) => false,
            PartitionSelection::Range(range) => self.is_bulk(&self.view(), command, range),
        }
    }

    fn is_bulk(&self, view: &TableView, command: &ReadCommand, range: &KeyRange) -> bool {
        command.clusterings.is_all() && is_large(view, command, range, self.scan_bytes_max)
    }

    /// Judges every source as a read of the command would, with what is in memory, and reads nothing. What it
    /// finds is in the recorder and the cost of `ctx`.
    pub fn consider(&self, command: &ReadCommand, ctx: &ReadContext) {
        let view = self.view();
        for (memtable, name) in memtables(&view) {
            match &command.partitions {
                PartitionSelection::Keys(keys) => {
                    for key in keys {
                        let has_any = memtable.contains(key);
                        let verdict = if has_any { Verdict::Candidate } else { Verdict::Absent };
                        at_memtable(name, ctx).judge(verdict);
                    }
                }
                PartitionSelection::Range(_) if memtable.is_empty() => {}
                PartitionSelection::Range(_) => at_memtable(name, ctx).judge(Verdict::Candidate),
            }
        }
        match &command.partitions {
            PartitionSelection::Keys(keys) => {
                for key in keys {
                    if !cached::consider(&view, command, key, ctx) {
                        candidates(&view, command, key, ctx);
                    }
                }
            }
            PartitionSelection::Range(range) => {
                for sstable in view.sstables.iter() {
                    ctx.cost.sstables_considered.add(1);
                    at_sstable(sstable, ctx).judge(judge_range(sstable, command, range));
                }
            }
        }
    }
}

/// The memtables of a view, newest first, each with the name that records know it by.
pub(super) fn memtables(view: &TableView) -> impl Iterator<Item = (&Arc<Memtable>, &'static str)> {
    let flushing = view.flushing.iter().rev().map(|f| (&f.memtable, "flushing"));
    [(&view.memtable, "active")].into_iter().chain(flushing)
}

/// Turns to a memtable.
fn at_memtable<'c>(name: &'static str, ctx: &'c ReadContext) -> AtSource<'c> {
    ctx.at_source(SourceKind::Memtable, || name.to_owned())
}

/// Turns to an SSTable.
fn at_sstable<'c>(sstable: &SsTable, ctx: &'c ReadContext) -> AtSource<'c> {
    ctx.at_source(SourceKind::SsTable, || sstable.descriptor().name())
}

/// Whether an SSTable's rows, static rows and deletions all lie outside of what the command selects.
fn is_beside(table: &SsTable, command: &ReadCommand) -> bool {
    let schema = command.table.as_ref();
    !schema.clustering_columns().is_empty()
        && !table.has_statics()
        && !table.may_delete_partitions()
        && !table.overlaps_clusterings(&command.clusterings, schema)
}

/// What may become of a row in the sources of a read, as far as they say without being read.
#[derive(Clone, Debug, Default)]
struct SourceTraits {
    sources: usize,
    may_delete: bool,
    may_expire: bool,
    keeps_others: bool,
}

impl SourceTraits {
    /// Those of no sources, in a read.
    fn of(ctx: &ReadContext) -> SourceTraits {
        SourceTraits { keeps_others: ctx.keeps_others, ..SourceTraits::default() }
    }

    /// A memtable whose partition was opened: what is written to it later does not count any more.
    fn add_memtable(&mut self, memtable: &Memtable) {
        let minima = memtable.minima();
        self.sources += 1;
        self.may_delete |= minima.local_deletion_time.is_some();
        self.may_expire |= minima.ttl.is_some();
    }

    fn add_sstable(&mut self, sstable: &SsTable) {
        self.sources += 1;
        self.may_delete |= sstable.may_have_tombstones();
        self.may_expire |= sstable.may_expire();
    }

    /// What can become of cells that nobody asked for.
    fn others(&self) -> Others {
        match (self.may_delete, self.may_expire) {
            _ if self.keeps_others => Others::Stay,
            (false, false) => Others::One,
            (_, may_expire) if self.sources == 1 || !may_expire => Others::NotOfInserted,
            _ => Others::Stay,
        }
    }
}

/// An SSTable's part of a read of a range. Partitions of a memtable are opened when the merge comes to them:
/// anything may be written there until then. When the merge asks for more than the start of a partition, all
/// that have it are open.
struct Scan {
    stream: Box<SsTableStream>,
    memtables: Arc<[Arc<Memtable>]>,
    /// Without the memtables.
    traits: SourceTraits,
    is_at_start: bool,
}

impl PartitionStream for Scan {
    #[inline]
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        if std::mem::take(&mut self.is_at_start) {
            let mut traits = self.traits.clone();
            self.memtables.iter().for_each(|memtable| traits.add_memtable(memtable));
            self.stream.set_others(traits.others());
        }
        let event = self.stream.next(out)?;
        self.is_at_start = event == Event::PartitionStart;
        Ok(event)
    }

    fn plain_rows(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        // What becomes of cells that nobody asked for is no matter for a plain row.
        self.stream.plain_rows(take)
    }

    fn peek_plain(&mut self, out: &mut PlainHead) -> Result<bool, ReadError> {
        self.stream.peek_plain(out)
    }

    fn leave_plain(&mut self) {
        self.stream.leave_plain();
    }

    fn skip_partition(&mut self) -> Result<(), ReadError> {
        self.stream.skip_partition()
    }
}

fn read_partition(
    view: &Arc<TableView>,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<BoxedStream, ReadError> {
    if let Some(rows) = &view.cached_rows
        && let Some(stream) = cached::read_partition(rows, view, command, key, ctx)?
    {
        return Ok(stream);
    }
    let table = &command.table;
    let mut sources = Sources::new();
    let mut traits = SourceTraits::of(ctx);
    for (memtable, name) in memtables(view) {
        if let Some(stream) = open_memtable(memtable, name, command, key, ctx)? {
            sources.push(stream);
            traits.add_memtable(memtable);
        }
    }
    let candidates = candidates(view, command, key, ctx);
    candidates.iter().for_each(|sstable| traits.add_sstable(sstable));
    let others = traits.others();
    if sources.len() + candidates.len() > 1
        && !candidates.is_empty()
        && let Some(newest) = NewestFirst::of(command)
    {
        return read_newest_first(newest, sources, &candidates, others, command, key, ctx);
    }
    for sstable in candidates {
        sources.extend(open_partition(sstable, others, command, key, ctx)?);
    }
    Ok(merge(table, sources, command.is_reversed()))
}

/// Opens a partition of a memtable; `None` when it is not there.
pub(super) fn open_memtable(
    memtable: &Arc<Memtable>,
    name: &'static str,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<Option<BoxedStream>, ReadError> {
    let at = at_memtable(name, ctx);
    let ReadCommand { table, clusterings, .. } = command;
    let stream = at.open(|ctx| Ok(memtable.read(table, key, clusterings, ctx).map(Box::new)))?;
    at.judge(if stream.is_some() { Verdict::Candidate } else { Verdict::Absent });
    Ok(stream)
}

/// Opens a partition of an SSTable; `None` when it is not there.
pub(super) fn open_partition(
    sstable: &Arc<SsTable>,
    others: Others,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<Option<BoxedStream>, ReadError> {
    let ReadCommand { table, clusterings, columns, .. } = command;
    let at = at_sstable(sstable, ctx);
    at.context().cost.index_lookups.add(1);
    let stream = at.open(|ctx| {
        let mut stream = sstable.read(key, clusterings, columns, table, ctx)?;
        stream.iter_mut().for_each(|stream| stream.set_others(others));
        Ok(stream)
    })?;
    match stream {
        Some(_) => ctx.cost.sstables_read.add(1),
        None => at.judge(Verdict::Absent),
    }
    Ok(stream)
}

/// What an SSTable is to a read of one partition, as far as can be said without reading.
fn judge(sstable: &SsTable, command: &ReadCommand, key: &DecoratedKey) -> Verdict {
    if !sstable.covers(key) {
        Verdict::Range
    } else if is_beside(sstable, command) {
        Verdict::Clustering
    } else if !sstable.may_contain(key) {
        Verdict::Bloom
    } else {
        Verdict::Candidate
    }
}

/// The SSTables that may have something of the partition, newest first.
pub(super) fn candidates<'v>(
    view: &'v TableView,
    command: &ReadCommand,
    key: &'v DecoratedKey,
    ctx: &ReadContext,
) -> Candidates<'v> {
    let may_matter = |sstable: &&Arc<SsTable>| {
        ctx.cost.sstables_considered.add(1);
        let verdict = judge(sstable, command, key);
        at_sstable(sstable, ctx).judge(verdict);
        verdict == Verdict::Candidate
    };
    let mut found: Candidates<'_> = view.sstables_for(key).filter(may_matter).collect();
    if !view.early.is_empty() {
        found.sort_by_key(|sstable| std::cmp::Reverse(sstable.newest_timestamp()));
    }
    found
}

fn read_newest_first(
    mut newest: NewestFirst,
    memtables: Sources,
    sstables: &[&Arc<SsTable>],
    others: Others,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<BoxedStream, ReadError> {
    for memtable in memtables {
        newest.take(command, memtable)?;
    }
    let mut left = sstables.iter();
    for sstable in left.by_ref() {
        if newest.is_settled(sstable.newest_timestamp()) {
            at_sstable(sstable, ctx).judge(Verdict::Timestamp);
            break;
        }
        if let Some(stream) = open_partition(sstable, others, command, key, ctx)? {
            newest.take(command, stream)?;
        }
    }
    left.for_each(|sstable| at_sstable(sstable, ctx).judge(Verdict::Timestamp));
    Ok(merge(&command.table, newest.into_sources(), command.is_reversed()))
}

/// What an SSTable is to a read of a range.
fn judge_range(sstable: &SsTable, command: &ReadCommand, range: &KeyRange) -> Verdict {
    if !sstable.overlaps(range) {
        Verdict::Range
    } else if is_beside(sstable, command) {
        Verdict::Clustering
    } else {
        Verdict::Candidate
    }
}

fn read_range(
    view: &TableView,
    command: &ReadCommand,
    range: &KeyRange,
    ctx: &ReadContext,
) -> Result<BoxedStream, ReadError> {
    let ReadCommand { table, clusterings, columns, .. } = command;
    let mut sources: Vec<BoxedStream> = Vec::new();
    let mut traits = SourceTraits::of(ctx);
    let mut written = SmallVec::<[Arc<Memtable>; 2]>::new();
    for (memtable, name) in memtables(view).filter(|(m, _)| !m.is_empty()) {
        let at = at_memtable(name, ctx);
        at.judge(Verdict::Candidate);
        sources.extend(
            at.open(|ctx| Ok(Some(Box::new(memtable.scan(table, range.clone(), clusterings, ctx)))))?,
        );
        written.push(Arc::clone(memtable));
    }
    let mut candidates = Candidates::new();
    for sstable in view.sstables.iter() {
        ctx.cost.sstables_considered.add(1);
        let verdict = judge_range(sstable, command, range);
        at_sstable(sstable, ctx).judge(verdict);
        if verdict == Verdict::Candidate {
            ctx.cost.sstables_read.add(1);
            traits.add_sstable(sstable);
            candidates.push(sstable);
        }
    }
    let memtables: Arc<[_]> = written.into_iter().collect();
    for sstable in candidates {
        sources.extend(at_sstable(sstable, ctx).open(|ctx| {
            let stream = sstable.scan(range, clusterings, columns, table, ctx)?;
            let (memtables, traits) = (Arc::clone(&memtables), traits.clone());
            Ok(Some(Box::new(Scan { stream, memtables, traits, is_at_start: false })))
        })?);
    }
    Ok(merge(table, sources, command.is_reversed()))
}
