//! The way of a write: commit log, memtable, flush.
//!
//! A write holds the barrier for reading from before its append until its memtables have it. Who switches a
//! memtable holds it for writing: what a memtable holds is exactly what was appended before the switch.

pub(crate) mod batchlog;
pub(crate) mod derived;
pub(crate) mod flush;
pub(crate) mod memory;
pub(crate) mod recovery;
pub(crate) mod schema_flush;
pub(crate) mod write;

use crate::catalog::Catalog;
use crate::commitlog::CommitLog;
use crate::table::TableStore;
use crate::writing::flush::Workers;
use crate::writing::memory::MemoryBudget;
use crate::writing::schema_flush::SchemaFlush;
use env::sync::RwLock;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

/// Whether writes are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    Open,
    Drained,
}

/// Who is told of SSTables that flushes write.
pub(crate) trait FlushObserver: Send + Sync {
    /// A memtable of the table went to disk.
    fn flushed(&self, table: &TableStore);
}

/// The room of writes.
pub(crate) struct Writing {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) log: Arc<CommitLog>,
    pub(crate) barrier: RwLock<Gate>,
    pub(crate) memory: Arc<MemoryBudget>,
    pub(crate) workers: Arc<Workers>,
    pub(crate) schema_flush: SchemaFlush,
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_failures: AtomicU64,
    /// Failures of the commit log that the keeper has acted on.
    pub(crate) log_failures_seen: AtomicU64,
    observer: OnceLock<Arc<dyn FlushObserver>>,
}

impl Writing {
    /// A room that takes writes; its loops do not run yet.
    pub(crate) fn new(catalog: Arc<Catalog>, log: CommitLog) -> Writing {
        let options = &catalog.options;
        Writing {
            memory: Arc::new(MemoryBudget::new(options.memtable_bytes_max, options.write_wait_timeout_ms)),
            catalog,
            log: Arc::new(log),
            barrier: RwLock::new(Gate::Open),
            workers: Arc::default(),
            schema_flush: SchemaFlush::default(),
            flushes: AtomicU64::new(0),
            flush_failures: AtomicU64::new(0),
            log_failures_seen: AtomicU64::new(0),
            observer: OnceLock::new(),
        }
    }

    /// Sets who is told of flushes; the first call counts.
    pub(crate) fn observe_flushes(&self, observer: Arc<dyn FlushObserver>) {
        let _ = self.observer.set(observer);
    }

    /// Tells of a flush.
    pub(crate) fn tell_flushed(&self, table: &TableStore) {
        if let Some(observer) = self.observer.get() {
            observer.flushed(table);
        }
    }

    /// Whether writes are refused because the directory may go to another program.
    pub(crate) fn is_drained(&self) -> bool {
        *self.barrier.read() == Gate::Drained
    }

    /// Refuses writes from now on.
    pub(crate) fn refuse(&self) {
        *self.barrier.write() = Gate::Drained;
    }

    /// Ends the loops after what they are doing, and the log after a last sync.
    pub(crate) fn stop(&self) {
        self.workers.stop();
        self.log.close();
    }
}
