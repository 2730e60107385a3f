//! When changes of the schema go to SSTables.
//!
//! A Cassandra that takes over the directory after a crash looks for its schema in SSTables before it replays
//! the log, and passes over writes to tables that it does not find. Ilion itself needs the log only. So:
//! 1. A change is in SSTables before it is acknowledged, unless one was less than a second ago.
//! 2. What comes within that second goes there at its end, all together: a migration of many steps, each of
//!    which would make a dozen files for each of the tables of `system_schema` that it touches, and soon a
//!    compaction of those, makes them once.
//! 3. The deletion of what no SSTable holds makes none: DROP KEYSPACE would write one for each table of
//!    `system_schema`.
//! 4. Nothing of a table whose definition waits so is on disk before it: a write to the table, a flush or a
//!    compaction of it brings the schema there first. If that fails it is tried again, and stands in nobody's
//!    way meanwhile.

use crate::error::WriteError;
use crate::table::TableStore;
use crate::writing::Writing;
use crate::writing::write::WriteOptions;
use env::sync::Mutex;
use model::{Mutation, PartitionUpdate};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use uuid::Uuid;

/// Nanoseconds from one flush of the schema to the next, if nobody needs it before.
const PAUSE_NANOS: u64 = 1_000_000_000;

/// Which changes of the schema are in no SSTable yet.
#[derive(Debug, Default)]
pub(crate) struct SchemaFlush {
    /// Whether there is one.
    waits: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The tables of `system_schema` that have it in memory.
    tables: BTreeSet<Uuid>,
    /// When the schema was last flushed.
    flushed_nanos: Option<u64>,
}

impl State {
    fn is_due(&self, now_nanos: u64) -> bool {
        self.flushed_nanos.is_none_or(|flushed| now_nanos.saturating_sub(flushed) >= PAUSE_NANOS)
    }
}

impl Writing {
    /// Flushes the tables of `mutations`, which changed the schema, or leaves that for later; whether the
    /// tables that they define have to wait for it ([`TableStore::set_awaits_schema`]).
    pub(crate) fn flush_change(&self, mutations: &[Mutation]) -> bool {
        let flush = &self.schema_flush;
        let mut state = flush.state.lock();
        let updates = mutations.iter().flat_map(|m| &m.updates);
        state.tables.extend(updates.filter(|u| self.tells_sstables(u)).map(|update| update.table.id));
        flush.waits.store(true, Ordering::Release);
        if state.is_due(self.catalog.env.clock.monotonic_nanos()) {
            self.flush_changes(&mut state);
        }
        !state.tables.is_empty()
    }

    /// Whether SSTables would say something else with this update than without. To delete a partition that
    /// none of them holds changes nothing there: the log has it, and it goes with the next flush. A dropped
    /// keyspace deletes its partition in every table of `system_schema`, and has rows in few of them.
    fn tells_sstables(&self, update: &PartitionUpdate) -> bool {
        let only_deletes = update.rows.is_empty() && update.static_row.is_none();
        let Some(table) = self.catalog.table(update.table.id).filter(|_| only_deletes) else { return true };
        // What is being flushed is in no SSTable of the view yet.
        let view = table.view();
        !view.flushing.is_empty() || view.sstables.iter().any(|sstable| sstable.may_contain(&update.key))
    }

    /// Flushes changes of the schema that have waited long enough.
    pub(crate) fn flush_due_changes(&self) {
        let flush = &self.schema_flush;
        if flush.waits.load(Ordering::Acquire) {
            let mut state = flush.state.lock();
            if state.is_due(self.catalog.env.clock.monotonic_nanos()) {
                self.flush_changes(&mut state);
            }
        }
    }

    /// Brings the definition of a table to SSTables, if it waits. Whoever writes something of the table takes
    /// its schema before.
    pub(crate) fn flush_definition(&self, table: &TableStore) {
        if table.awaits_schema() {
            self.flush_changes(&mut self.schema_flush.state.lock());
        }
    }

    /// The same for the tables of a mutation.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`].
    pub(crate) fn flush_definitions(
        &self,
        mutation: &Mutation,
        options: WriteOptions,
    ) -> Result<(), WriteError> {
        if !self.schema_flush.waits.load(Ordering::Acquire) {
            return Ok(());
        }
        for update in &mutation.updates {
            match self.catalog.table(update.table.id) {
                Some(table) if table.awaits_schema() && !options.may_block => {
                    return Err(WriteError::WouldBlock);
                }
                Some(table) => self.flush_definition(&table),
                None => {}
            }
        }
        Ok(())
    }

    /// A flush that fails is reported and tried again; nobody waits for that. Whoever waited for the state
    /// may find that another has flushed everything: that is no flush, and does not put off the next one.
    fn flush_changes(&self, state: &mut State) {
        if !self.schema_flush.waits.load(Ordering::Acquire) {
            return;
        }
        for table in std::mem::take(&mut state.tables).into_iter().filter_map(|id| self.catalog.table(id)) {
            self.try_flush(&table);
        }
        state.flushed_nanos = Some(self.catalog.env.clock.monotonic_nanos());
        self.schema_flush.waits.store(false, Ordering::Release);
        self.catalog.tables().iter().for_each(|table| table.set_awaits_schema(false));
    }
}
