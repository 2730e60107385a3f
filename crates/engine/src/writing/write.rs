//! The write path: commit log, then memtable, then the wait for durability.

use crate::catalog::local::local_mutation;
use crate::commitlog::{SyncTicket, format};
use crate::error::{EngineError, WriteError};
use crate::system::is_local;
use crate::table::TableStore;
use crate::writing::Gate;
use crate::writing::Writing;
use crate::writing::memory::Reservation;
use bytes::Bytes;
use model::Mutation;
use partition::codec::mutation::encode_mutation;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// How a write may be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether it may wait for memtable memory. If not, [`WriteError::WouldBlock`] asks the caller to try
    /// again where it may.
    pub may_block: bool,
    /// Milliseconds that it waits at most, if fewer than the engine's own limit.
    pub wait_ms_max: u64,
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions { may_block: true, wait_ms_max: u64::MAX }
    }
}

impl Writing {
    /// [`crate::Engine::apply`].
    pub(crate) fn apply(&self, mutation: &Mutation, options: WriteOptions) -> Result<SyncTicket, WriteError> {
        self.flush_definitions(mutation, options)?;
        self.leave_indexes_to_cassandra(mutation, options)?;
        let section = self.encode(mutation)?;
        let admitted = self.memory.admit(section.len() as u64, options);
        let memory = admitted.inspect_err(|_| self.workers.nudge())?;
        self.append_and_apply(mutation, section, memory)
    }

    /// As [`crate::Engine::apply`], also when memory is short: for the engine's own small writes.
    pub(crate) fn apply_at_once(&self, mutation: &Mutation) -> Result<SyncTicket, WriteError> {
        let section = self.encode(mutation)?;
        let memory = self.memory.reserve(section.len() as u64);
        self.append_and_apply(mutation, section, memory)
    }

    /// The section of the commit log that holds the mutation.
    fn encode(&self, mutation: &Mutation) -> Result<Vec<u8>, WriteError> {
        let times = format::deletion_times(self.catalog.options.commitlog_version());
        let mut encoded = Ok(());
        let section = format::section(|out| encoded = encode_mutation(mutation, times, out));
        encoded?;
        let bytes = (section.len() - format::MARKER_BYTES) as u64;
        let options = &self.catalog.options;
        let limit_bytes = options.mutation_bytes_max();
        if bytes > limit_bytes {
            let keyspace = mutation.updates.first().map(|u| u.table.keyspace.clone()).unwrap_or_default();
            // What the node writes about itself has a place, however little clients may write.
            let is_own = is_local(&keyspace) && bytes <= options.segment_mutation_bytes_max();
            if !is_own {
                return Err(WriteError::MutationTooLarge { bytes, limit_bytes, keyspace });
            }
        }
        Ok(section)
    }

    fn append_and_apply(
        &self,
        mutation: &Mutation,
        mut section: Vec<u8>,
        memory: Reservation<'_>,
    ) -> Result<SyncTicket, WriteError> {
        let gate = self.barrier.read();
        if *gate == Gate::Drained {
            return Err(WriteError::Drained);
        }
        let tables = self.catalog.tables.load();
        let find = |id: Uuid| tables.get(&id).ok_or(WriteError::UnknownTable(id));
        let mut durable = false;
        for update in &mutation.updates {
            durable |= find(update.table.id)?.durable_writes();
        }
        let ticket = if durable {
            let ids = mutation.updates.iter().map(|u| u.table.id);
            let (_, number) = self.log.append(&mut section, ids)?;
            Some(number)
        } else {
            None
        };
        let mut grown = 0;
        for update in &mutation.updates {
            let table: &Arc<TableStore> = find(update.table.id)?;
            grown += table.with_memtable(|memtable| memtable.apply(update));
            table.writes.fetch_add(1, Ordering::Relaxed);
        }
        drop(gate);
        memory.spend(grown);
        if self.memory.used() > self.cleanup_bytes() {
            self.workers.nudge();
        }
        Ok(ticket.map_or_else(SyncTicket::ready, |number| self.log.ticket(number)))
    }

    /// Bytes of memtables above which the largest one is flushed.
    pub(crate) fn cleanup_bytes(&self) -> u64 {
        (self.catalog.options.memtable_bytes_max as f64 * self.catalog.options.memtable_cleanup_threshold)
            as u64
    }

    /// Writes cells of `system.local`: column, path (empty for a simple column), value. They are newer than
    /// all that is there, whatever the clock says.
    pub(crate) fn write_local(&self, cells: &[(&str, Bytes, Bytes)]) -> Result<(), EngineError> {
        let after =
            self.catalog.read_local()?.newest_micros.map_or(i64::MIN, |newest| newest.saturating_add(1));
        let (release, micros) = (self.catalog.release(), self.catalog.env.now_micros().max(after));
        self.apply_durably(&[local_mutation(release, micros, cells)])
    }

    /// Applies the engine's own writes and waits until they are on the device, whatever the sync mode.
    pub(crate) fn apply_durably(&self, mutations: &[Mutation]) -> Result<(), EngineError> {
        let tickets: Vec<_> = mutations.iter().map(|m| self.apply_at_once(m)).collect::<Result<_, _>>()?;
        self.log.sync();
        for ticket in tickets {
            ticket.wait()?;
        }
        Ok(())
    }
}
