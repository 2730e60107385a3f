//! Reading a table: from a command to one merged stream.
//!
//! 1. The view is taken once; it stays the same for the whole read.
//! 2. A command by keys is a chain of single partitions, each opened when the one before it is over; a command by
//!    range is one merge of scans.
//! 3. Sources that cannot matter are left out before anything is opened.

use super::{TableStore, TableView};
use model::DecoratedKey;
use model::command::{PartitionSelection, ReadCommand};
use model::key::KeyRange;
use partition::{BoxedStream, ReadContext, ReadError, concat, merge};
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

fn read_partition(
    view: &TableView,
    command: &ReadCommand,
    key: &DecoratedKey,
    ctx: &ReadContext,
) -> Result<BoxedStream, ReadError> {
    let mut sources: Vec<BoxedStream> = Vec::new();
    let memtables = view.flushing.iter().map(|f| &f.memtable).chain([&view.memtable]);
    for memtable in memtables {
        if let Some(stream) = memtable.read(&command.table, key, &command.clusterings, ctx) {
            sources.push(Box::new(stream));
        }
    }
    Ok(merge(Arc::clone(&command.table), sources, command.is_reversed()))
}

fn read_range(
    view: &TableView,
    command: &ReadCommand,
    range: &KeyRange,
    ctx: &ReadContext,
) -> Result<BoxedStream, ReadError> {
    let mut sources: Vec<BoxedStream> = Vec::new();
    let memtables = view.flushing.iter().map(|f| &f.memtable).chain([&view.memtable]);
    for memtable in memtables.filter(|m| !m.is_empty()) {
        sources.push(Box::new(memtable.scan(&command.table, range.clone(), &command.clusterings, ctx)));
    }
    Ok(merge(Arc::clone(&command.table), sources, command.is_reversed()))
}
