//! Numbers for metrics, `tablestats` and `info`.

use crate::background::prover::ProvingStats;
use crate::cache::CacheStats;
use crate::commitlog::CommitLogStats;
use crate::engine::Engine;
use crate::table::TableStore;
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// Numbers of one table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableStats {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Its id.
    pub id: Uuid,
    /// Reads since the start.
    pub reads: u64,
    /// Partition updates since the start.
    pub writes: u64,
    /// SSTables.
    pub sstables: u64,
    /// Bytes of all their files.
    pub disk_bytes: u64,
    /// Bytes of their rows before compression.
    pub data_bytes: u64,
    /// Partitions of all SSTables, estimated; one that is in several counts several times.
    pub partitions_estimated: u64,
    /// Bytes of their bloom filters in memory.
    pub filter_bytes: u64,
    /// Bytes of what open SSTables keep in memory, filters included.
    pub sstable_memory_bytes: u64,
    /// Bytes of the memtable that takes writes.
    pub memtable_bytes: u64,
    /// Bytes of what was written to it: [`crate::memtable::Memtable::data_bytes`].
    pub memtable_data_bytes: u64,
    /// Rows written to it, and partitions and ranges deleted.
    pub memtable_operations: u64,
    /// Memtables that were full, or whose time was over, since the start.
    pub memtable_switches: u64,
    /// Partitions in it.
    pub memtable_partitions: u64,
    /// Memtables that wait to be written.
    pub flushing_memtables: u64,
}

/// Numbers of the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Bytes of all memtables.
    pub memtable_bytes: u64,
    /// Bytes allowed for them.
    pub memtable_limit_bytes: u64,
    /// Flushes that succeeded.
    pub flushes: u64,
    /// Flushes that failed.
    pub flush_failures: u64,
    /// Tables that wait for a flush.
    pub flushes_pending: u64,
    /// The commit log.
    pub commitlog: CommitLogStats,
    /// Bloom filters checked against their index in the background.
    pub filters_checked: u64,
    /// Those of them that lacked a key and are not used.
    pub filters_damaged: u64,
    /// Those that are still to be checked.
    pub filters_unproven: u64,
    /// SSTables compared with their digests.
    pub proving: ProvingStats,
    /// The page cache.
    pub page_cache: CacheStats,
    /// The row cache.
    pub row_cache: CacheStats,
}

impl TableStore {
    /// Numbers of the table.
    pub fn stats(&self) -> TableStats {
        let schema = self.schema();
        let view = self.view();
        let sum = |of: &dyn Fn(&sstable::SsTable) -> u64| view.sstables.iter().map(|t| of(t)).sum();
        TableStats {
            keyspace: schema.keyspace.clone(),
            table: schema.name.clone(),
            id: schema.id,
            reads: self.reads.load(Ordering::Relaxed),
            writes: self.writes.load(Ordering::Relaxed),
            sstables: view.sstables.len() as u64,
            disk_bytes: sum(&|t| t.disk_bytes()),
            data_bytes: sum(&|t| t.data_bytes()),
            partitions_estimated: sum(&|t| t.estimated_partitions()),
            filter_bytes: sum(&|t| t.filter_bytes() as u64),
            sstable_memory_bytes: sum(&|t| t.memory_bytes() as u64),
            memtable_bytes: view.memtable.bytes(),
            memtable_data_bytes: view.memtable.data_bytes(),
            memtable_operations: view.memtable.operations(),
            memtable_switches: self.memtable_switches.load(Ordering::Relaxed),
            memtable_partitions: view.memtable.partition_count() as u64,
            flushing_memtables: view.flushing.len() as u64,
        }
    }
}

impl Engine {
    /// Numbers of every table, ordered by keyspace and name.
    pub fn table_stats(&self) -> Vec<TableStats> {
        let mut out: Vec<TableStats> = self.tables().iter().map(|t| t.stats()).collect();
        out.sort_by(|a, b| (&a.keyspace, &a.table).cmp(&(&b.keyspace, &b.table)));
        out
    }

    /// Numbers of the engine.
    pub fn stats(&self) -> EngineStats {
        EngineStats {
            memtable_bytes: self.writing.memory.used(),
            memtable_limit_bytes: self.catalog.options.memtable_bytes_max,
            flushes: self.writing.flushes.load(Ordering::Relaxed),
            flush_failures: self.writing.flush_failures.load(Ordering::Relaxed),
            flushes_pending: self.writing.workers.queue_len() as u64,
            commitlog: self.writing.log.stats(),
            filters_checked: self.background.filters.checked.load(Ordering::Relaxed),
            filters_damaged: self.background.filters.damaged.load(Ordering::Relaxed),
            filters_unproven: self.background.unproven_filters(),
            proving: self.proving_stats(),
            page_cache: self.catalog.cache.stats(),
            row_cache: self.catalog.row_cache.stats(),
        }
    }

    /// The page cache, for tools that empty it.
    pub fn page_cache(&self) -> &crate::cache::PageCache {
        &self.catalog.cache
    }

    /// The row cache, for tools that empty it or give it another capacity.
    pub fn row_cache(&self) -> &crate::cache::RowCache {
        &self.catalog.row_cache
    }
}
