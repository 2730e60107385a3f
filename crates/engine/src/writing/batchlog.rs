//! The batch log in memory: `system.batches` has no SSTables.
//!
//! Cassandra orders this one table by time uuids instead of tokens and refuses files in another order.
//! Batches live for moments, so a flush has next to nothing to write: what is complete is forgotten, and a
//! batch that is under way is written again, into the commit log and the memtable that took the place of the
//! flushed one. At a drain none may be under way; then the drain fails and the commit log stays.

use crate::error::EngineError;
use crate::system::SYSTEM;
use crate::table::TableStore;
use crate::writing::Writing;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::{Deletion, Mutation, PartitionUpdate};
use partition::{Event, Fragment, PartitionStream, ReadContext};
use std::sync::Arc;

const BATCHES: &str = "batches";

impl TableStore {
    /// Whether the table is flushed as the top of the module says. One that has SSTables all the same goes on
    /// with them.
    pub(crate) fn is_batch_log(&self) -> bool {
        let schema = self.schema();
        schema.keyspace == SYSTEM && schema.name == BATCHES && self.view().sstables.is_empty()
    }
}

impl Writing {
    /// Writes the unfinished batches again, before the oldest memtable goes. What a newer memtable says of a
    /// batch counts: it may be complete since. Needs the flush turn of the table.
    pub(crate) fn carry_batches(&self, table: &TableStore) -> Result<(), EngineError> {
        let schema = table.schema();
        let everything = ReadCommand {
            table: Arc::clone(&schema),
            partitions: PartitionSelection::Range(KeyRange::FULL),
            clusterings: ClusteringFilter::all(),
            columns: ColumnSelection::all(&schema),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: self.catalog.now_s(),
        };
        let mut stream = table.read(&everything, &ReadContext::default())?;
        let mut fragment = Fragment::default();
        let mut unfinished = Vec::new();
        let mut complete = Deletion::NONE;
        loop {
            match stream.next(&mut fragment)? {
                // A memtable yields rows beside the deletion that came after them.
                Event::PartitionStart => complete = fragment.deletion,
                Event::Row if !complete.deletes(fragment.row.liveness.timestamp) => {
                    let mut update = PartitionUpdate::new(Arc::clone(&schema), fragment.key.clone());
                    update.add_row(fragment.row.clone());
                    unfinished.push(Mutation::of(update));
                }
                Event::End => break,
                _ => {}
            }
        }
        self.apply_durably(&unfinished)
    }
}
