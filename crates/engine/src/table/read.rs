//! Reading a table: from a command to one merged stream.
//!
//! 1. The view is taken once; it stays the same for the whole read.
//! 2. A command by keys is a chain of single partitions, each opened when the one before it is over; a command by
//!    range is one merge of scans.
//! 3. Sources that cannot matter are left out before anything is opened; named rows are read newest first, so that
//!    older SSTables need not be read at all ([`super::newest_first`]).

use super::newest_first::NewestFirst;
use super::{TableStore, TableView};
use crate::memtable::{Memtable, MemtableStream};
use model::command::{PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::{DecoratedKey, Slice};
use partition::{BoxedStream, ReadContext, ReadError, concat, merge};
use sstable::SsTable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl TableStore {
    /// The partitions and rows that the command selects, merged from all sources; limits and row filters are the
    /// caller's.
    ///
    /// # Errors
    /// When a source cannot be opened.
    pub fn read(&self, command: &ReadCommand, ctx: &ReadContext) -> Result<BoxedStream, ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let view = self.view();
        match &command.partitions {
            PartitionSelection::Keys(keys) => match keys.as_slice() {
                [key] => read_partition(&view, command, key, ctx),
                _ => {
                    let mut keys = keys.clone().into_iter();
                    let (command, ctx) = (command.clone(), ctx.clone());
                    Ok(Box::new(concat(move || {
                        keys.next().map(|key| read_partition(&view, &command, &key, &ctx)).transpose()
                    })))
                }
            },
            PartitionSelection::Range(range) => read_range(&view, command, range, ctx),
        }
    }
}

/// The memtables of a view, newest first.
fn memtables(view: &TableView) -> impl Iterator<Item = &Arc<Memtable>> {
    [&view.memtable].into_iter().chain(view.flushing.iter().rev().map(|f| &f.memtable))
}

/// Whether an SSTable's rows, static rows and deletions all lie outside of what the command selects.
fn is_beside(table: &SsTable, command: &ReadCommand, slices: &[Slice]) -> bool {
    let schema = command.table.as_ref();
    !schema.clustering_columns().is_empty()
        && !table.has_statics()
        && !table.stats().may_have_tombstones()
        && !table.overlaps_clusterings(slices, schema)
}

fn read_partition(
    view: &TableView,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<BoxedStream, ReadError> {
    let ReadCommand { table, clusterings, columns, .. } = command;
    let memtables = memtables(view).filter_map(|m| m.read(table, key, clusterings, ctx));
    let memtables: Vec<MemtableStream> = memtables.collect();
    let candidates = candidates(view, command, key, ctx);
    if memtables.len() + candidates.len() > 1
        && !candidates.is_empty()
        && let Some(newest) = NewestFirst::of(command)
    {
        return read_newest_first(newest, memtables, &candidates, command, key, ctx);
    }
    let mut sources: Vec<BoxedStream> = memtables.into_iter().map(|m| Box::new(m) as BoxedStream).collect();
    for sstable in candidates {
        if let Some(stream) = sstable.read(key, clusterings, columns, table, ctx)? {
            ctx.cost.sstables_read.add(1);
            sources.push(Box::new(stream));
        }
    }
    Ok(merge(Arc::clone(table), sources, command.is_reversed()))
}

/// The SSTables that may have something of the partition, newest first.
fn candidates<'v>(
    view: &'v TableView,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Vec<&'v Arc<SsTable>> {
    let cost = &ctx.cost;
    cost.sstables_considered.add(view.sstables.len() as u64);
    let mut out = Vec::new();
    let mut slices = None;
    for sstable in view.sstables.iter() {
        if !sstable.covers(key) {
            cost.skipped_by_range.add(1);
        } else if is_beside(sstable, command, slices.get_or_insert_with(|| command.clusterings.to_slices())) {
            cost.skipped_by_clustering.add(1);
        } else if !sstable.may_contain(key) {
            cost.skipped_by_bloom.add(1);
        } else {
            out.push(sstable);
        }
    }
    out
}

fn read_newest_first(
    mut newest: NewestFirst,
    memtables: Vec<MemtableStream>,
    sstables: &[&Arc<SsTable>],
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<BoxedStream, ReadError> {
    let ReadCommand { table, clusterings, columns, .. } = command;
    for memtable in memtables {
        newest.take(command, memtable)?;
    }
    for (at, sstable) in sstables.iter().enumerate() {
        if newest.is_settled(sstable.stats().max_timestamp) {
            ctx.cost.skipped_by_timestamp.add((sstables.len() - at) as u64);
            break;
        }
        if let Some(stream) = sstable.read(key, clusterings, columns, table, ctx)? {
            ctx.cost.sstables_read.add(1);
            newest.take(command, stream)?;
        }
    }
    Ok(merge(Arc::clone(table), newest.into_sources(), command.is_reversed()))
}

fn read_range(
    view: &TableView,
    command: &ReadCommand,
    range: &KeyRange,
    ctx: &ReadContext,
) -> Result<BoxedStream, ReadError> {
    let ReadCommand { table, clusterings, columns, .. } = command;
    let mut sources: Vec<BoxedStream> = Vec::new();
    for memtable in memtables(view).filter(|m| !m.is_empty()) {
        sources.push(Box::new(memtable.scan(table, range.clone(), clusterings, ctx)));
    }
    let slices = command.clusterings.to_slices();
    for sstable in view.sstables.iter() {
        ctx.cost.sstables_considered.add(1);
        if !sstable.overlaps(range) {
            ctx.cost.skipped_by_range.add(1);
        } else if is_beside(sstable, command, &slices) {
            ctx.cost.skipped_by_clustering.add(1);
        } else {
            ctx.cost.sstables_read.add(1);
            sources.push(Box::new(sstable.scan(range, clusterings, columns, table, ctx)?));
        }
    }
    Ok(merge(Arc::clone(table), sources, command.is_reversed()))
}
