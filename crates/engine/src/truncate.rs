//! TRUNCATE, and the end of a node's writes.

use crate::engine::{Engine, Gate};
use crate::error::EngineError;
use crate::local::Truncation;
use crate::system::SYSTEM;
use crate::table::TableStore;
use bytes::Bytes;
use std::sync::Arc;
use uuid::Uuid;

impl Engine {
    /// Removes everything that was written to a table before this call; writes that run meanwhile may stay or
    /// go.
    ///
    /// 1. The memtable is switched; with `auto_snapshot` it is flushed and a snapshot is taken.
    /// 2. The position in the commit log is recorded in `system.local`, so that replay brings nothing back.
    ///    This table is flushed at once: a Cassandra that takes over after a crash looks there before it
    ///    replays the log.
    /// 3. The memtables and SSTables of before go.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`], or what failed: then the table may still hold what it held.
    pub fn truncate(&self, keyspace: &str, table: &str) -> Result<(), EngineError> {
        let table = self.table_named(keyspace, table)?;
        let _turn = table.flush_turn.lock();
        table.check_settled()?;
        let schema = table.schema();
        let millis = self.env.clock.now_millis();
        let had_writes = self.switch_memtable(&table);
        if self.snapshots_automatically(&schema) {
            if had_writes {
                self.write_flushing(&table)?;
            }
            if !table.view().sstables.is_empty() {
                self.snapshot_table(&table, &format!("truncated-{millis}-{}", schema.name))?;
            }
        }
        let view = table.view();
        let end = view.memtable.start();
        let path = Bytes::copy_from_slice(schema.id.as_bytes());
        self.write_local(&[("truncated_at", path, Truncation { position: end, millis }.encode())])?;
        self.flush(SYSTEM, Some("local"))?;
        let forgotten = self.forget_before_truncation(&table);
        self.release_demands();
        forgotten?;
        self.log.discard(schema.id, end);
        Ok(())
    }

    /// When a table was last truncated, in milliseconds since the epoch; `None` if never.
    ///
    /// # Errors
    /// When `system.local` cannot be read.
    pub fn truncated_millis(&self, table: Uuid) -> Result<Option<i64>, EngineError> {
        Ok(self.read_local()?.truncated_at.get(&table).map(|truncation| truncation.millis))
    }

    /// Drops the flushing memtables and all SSTables. Needs the flush turn.
    fn forget_before_truncation(&self, table: &Arc<TableStore>) -> Result<(), EngineError> {
        let mut gone = Vec::new();
        let result = table.remove_sstables(&self.files, |view| {
            gone.extend(view.flushing.drain(..).map(|f| f.memtable));
        });
        self.memory.release(gone.iter().map(|m| m.bytes()).sum());
        self.workers.free_later(gone);
        result
    }

    /// Refuses writes from now on, flushes every table and removes the commit log: a start after this replays
    /// nothing, and another program may take over the directory.
    ///
    /// # Errors
    /// When a flush failed: the commit log keeps what is not on disk, and writes are taken again, so that
    /// what stands in the way of another attempt can be finished.
    pub fn drain(&self) -> Result<(), EngineError> {
        let before = std::mem::replace(&mut *self.barrier.write(), Gate::Drained);
        self.prover.settle();
        if let Err(error) = self.flush_all() {
            *self.barrier.write() = before;
            return Err(error);
        }
        self.log.sync();
        self.log.discard_all();
        Ok(())
    }
}
