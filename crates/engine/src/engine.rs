//! The engine: the tables of one node, their commit log, and the threads that flush.

use crate::cache::{PageCache, RowCache};
use crate::commitlog::{CommitLog, FailureHook};
use crate::compaction::Compactions;
use crate::disk_failure::DiskFailureHook;
use crate::error::EngineError;
use crate::filters::FilterChecks;
use crate::flush::Workers;
use crate::memory::MemoryBudget;
use crate::options::EngineOptions;
use crate::prover::Prover;
use crate::schema_flush::SchemaFlush;
use crate::snapshot::{NextExpiry, SchemaText};
use crate::system;
use crate::table::{FileContext, TableStore};
use arc_swap::ArcSwap;
use env::Env;
use env::background::Look;
use env::fs::FileLock;
use env::sync::{Mutex, RwLock};
use model::Schema;
use model::TableSchema;
use model::command::ReadCommand;
use model::schema::Release;
use partition::{BoxedStream, ReadContext, ReadError};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// Tables by id.
pub(crate) type Tables = std::collections::HashMap<Uuid, Arc<TableStore>, foldhash::fast::FixedState>;

/// One node's tables. See the top of the crate for what it promises.
pub struct Engine {
    pub(crate) options: EngineOptions,
    pub(crate) env: Env,
    pub(crate) host_id: Uuid,
    /// In whose form the directory is.
    pub(crate) release: Release,
    pub(crate) schema: ArcSwap<Schema>,
    /// Held while the schema changes.
    pub(crate) schema_turn: Mutex<()>,
    /// Timestamp of the last change of the schema.
    pub(crate) schema_micros: AtomicI64,
    pub(crate) schema_flush: SchemaFlush,
    pub(crate) tables: ArcSwap<Tables>,
    pub(crate) log: Arc<CommitLog>,
    /// Shared by writers from before their append until their memtables have the write; taken alone for the
    /// instant in which a memtable is switched. So what a memtable holds is exactly what was appended before
    /// the switch.
    pub(crate) barrier: RwLock<Gate>,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) compactions: Arc<Compactions>,
    pub(crate) filters: Arc<FilterChecks>,
    pub(crate) prover: Arc<Prover>,
    pub(crate) cache: Arc<PageCache>,
    pub(crate) row_cache: Arc<RowCache>,
    pub(crate) files: FileContext,
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_failures: AtomicU64,
    /// Failures of the commit log that the keeper has acted on.
    pub(crate) log_failures_seen: AtomicU64,
    pub(crate) schema_text: OnceLock<SchemaText>,
    pub(crate) next_expiry: NextExpiry,
    pub(crate) disk_hook: OnceLock<DiskFailureHook>,
    /// Let go when the engine closes.
    pub(crate) locks: Mutex<Vec<FileLock>>,
}

/// A look of a background loop at the engine, which it holds only meanwhile: who drops the engine ends the
/// loop.
pub(crate) fn looks<F: Fn(&Engine) + Send + Sync>(
    engine: &Arc<Engine>,
    look: F,
) -> impl Fn() -> Look + Send + Sync + use<F> {
    let engine = Arc::downgrade(engine);
    move || match engine.upgrade() {
        Some(engine) => {
            look(&engine);
            Look::Again
        }
        None => Look::End,
    }
}

/// Whether writes are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    Drained,
}

impl Engine {
    /// The id of this node, as `system.local` holds it.
    pub fn host_id(&self) -> Uuid {
        self.host_id
    }

    /// The settings it was opened with.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Clock, randomness and files.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The schema as it is now.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.load_full()
    }

    /// A table by id; `None` when it does not exist or is virtual.
    pub fn table(&self, id: Uuid) -> Option<Arc<TableStore>> {
        self.tables.load().get(&id).cloned()
    }

    /// The release of Cassandra in whose form the directory is.
    pub fn release(&self) -> Release {
        self.release
    }

    /// A table of keyspace `system` as this directory has it.
    pub fn system_table(&self, name: &str) -> Arc<TableSchema> {
        system::table(self.release, system::SYSTEM, name)
    }

    /// Every table.
    pub fn tables(&self) -> Vec<Arc<TableStore>> {
        self.tables.load().values().cloned().collect()
    }

    /// A table by name.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`].
    pub fn table_named(&self, keyspace: &str, table: &str) -> Result<Arc<TableStore>, EngineError> {
        let id = self.schema.load().table(keyspace, table).map(|t| t.id);
        id.and_then(|id| self.table(id)).ok_or_else(|| EngineError::UnknownTable {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
        })
    }

    /// What the command selects, merged from memtables and SSTables: partitions, rows and deletions as
    /// [`partition`]'s grammar says. Row filters and limits are the caller's. A table that was dropped
    /// meanwhile yields nothing.
    ///
    /// # Errors
    /// When a source cannot be read, or would block and the context forbids it; the stream may yield the
    /// same.
    pub fn read(&self, command: &ReadCommand, ctx: &ReadContext) -> Result<BoxedStream, ReadError> {
        match self.tables.load().get(&command.table.id) {
            Some(table) => table.read(command, ctx),
            None => Ok(partition::merge(&command.table, [], false)),
        }
    }

    /// Sets who is told of commit log failures that the policy wants the server to act on (`stop`, `die`);
    /// the first call counts. It runs on a writer's or the log's own thread and must hand over: closing the
    /// engine from there would wait for itself.
    pub fn on_commit_failure(&self, hook: FailureHook) {
        self.log.on_failure(hook);
    }

    /// Refuses writes from now on, waits for flushes that run, syncs the log and ends all threads. Reads
    /// still work. Memtables are not flushed: the commit log has their writes ([`Engine::drain`] flushes).
    /// The directories are free for another engine afterwards; dropping the last handle closes, too, but
    /// perhaps later, because a thread of the engine may still hold one.
    pub fn close(&self) {
        *self.barrier.write() = Gate::Drained;
        self.compactions.stop();
        self.filters.stop();
        self.prover.stop();
        self.workers.stop();
        self.log.close();
        self.locks.lock().clear();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
        tracing::debug!(flushes = self.flushes.load(Ordering::Relaxed), "engine closed");
    }
}
