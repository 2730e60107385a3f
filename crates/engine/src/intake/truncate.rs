//! TRUNCATE, and the end of a node's writes.

use crate::catalog::local::Truncation;
use crate::error::EngineError;
use crate::intake::Intake;
use crate::system::SYSTEM;
use crate::table::TableStore;
use crate::writing::Gate;
use bytes::Bytes;
use std::sync::Arc;
use uuid::Uuid;

impl Intake {
    /// [`crate::Engine::truncate`].
    pub(crate) fn truncate(&self, keyspace: &str, table: &str) -> Result<(), EngineError> {
        let table = self.catalog.table_named(keyspace, table)?;
        let _turn = table.flush_turn.lock();
        table.check_settled()?;
        let schema = table.schema();
        let millis = self.catalog.env.clock.now_millis();
        // Where nothing is in memory, SSTables and earlier truncations cover what the log has up to here.
        let end = self.writing.switch_memtable(&table);
        let had_writes = !table.view().flushing.is_empty();
        if self.snapshots_automatically(&schema) {
            if had_writes {
                self.writing.write_flushing(&table)?;
            }
            if !table.view().sstables.is_empty() {
                self.snapshot_automatically(&table, &format!("truncated-{millis}-{}", schema.name))?;
            }
        }
        let path = Bytes::copy_from_slice(schema.id.as_bytes());
        self.writing.write_local(&[("truncated_at", path, Truncation { position: end, millis }.encode())])?;
        self.writing.flush(SYSTEM, Some("local"))?;
        let forgotten = self.forget_before_truncation(&table);
        self.background.release_demands();
        forgotten?;
        self.writing.log.discard(schema.id, end);
        Ok(())
    }

    /// [`crate::Engine::truncated_millis`].
    pub(crate) fn truncated_millis(&self, table: Uuid) -> Result<Option<i64>, EngineError> {
        Ok(self.catalog.read_local()?.truncated_at.get(&table).map(|truncation| truncation.millis))
    }

    /// Drops the flushing memtables and all SSTables. Needs the flush turn.
    fn forget_before_truncation(&self, table: &Arc<TableStore>) -> Result<(), EngineError> {
        let mut gone = Vec::new();
        let result = table.remove_sstables(&self.catalog.files, |view| {
            gone.extend(view.flushing.drain(..).map(|f| f.memtable));
        });
        self.writing.memory.release(gone.iter().map(|m| m.bytes()).sum());
        self.writing.workers.free_later(gone);
        result
    }

    /// [`crate::Engine::drain`].
    pub(crate) fn drain(&self) -> Result<(), EngineError> {
        let before = std::mem::replace(&mut *self.writing.barrier.write(), Gate::Drained);
        self.background.prover.settle();
        if let Err(error) = self.writing.flush_all() {
            *self.writing.barrier.write() = before;
            return Err(error);
        }
        self.writing.log.sync();
        self.writing.log.discard_all();
        Ok(())
    }
}
