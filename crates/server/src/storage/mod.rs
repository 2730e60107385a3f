//! The engine as operators see it: what nodetool, the admin API, /metrics and `system_views` say of tables,
//! reads, flushes, compactions, snapshots and caches, in the plain data of `tools::api`. The one place that
//! asks the engine for any of it.

mod bulk;
mod compactions;
mod histograms;
mod history;
mod places;
mod reads;
mod tables;

pub use bulk::{bulk, set_bulk_throughput};
pub use compactions::{
    adoption, autocompaction, collect_garbage, compact, compactions, force_compact, scrub,
    set_autocompaction, set_compactors, set_thresholds, stop_tasks, thresholds, upgrade, verify,
};
pub use histograms::{all as table_histograms, percentiles};
pub use history::compaction_history;
pub use places::{directories, parse_key, show_key, sstables_of, token_sample};
pub use reads::reads_by_table;
pub use tables::{tables, tables_with_times};

use engine::{Engine, EngineError, ImportOptions, SnapshotOptions};
use model::TableSchema;
use tools::api::{
    CacheKind, CacheReport, ClearSnapshots, ImportSstables, ImportedDirectory, QualifiedTable, Selection,
    SnapshotEntry, TakeSnapshot, ttl_seconds,
};

/// Flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushStats {
    /// How many came to their end.
    pub completed: u64,
    /// How many failed and are tried again.
    pub failed: u64,
    /// How many wait.
    pub pending: u64,
}

/// Why an operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// There is no such keyspace.
    #[error("Keyspace [{0}] does not exist.")]
    UnknownKeyspace(String),
    /// There is no such table.
    #[error("Unknown keyspace/cf pair ({keyspace}.{table})")]
    UnknownTable {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// There is no such table, in the words of verbs that want one.
    #[error("Unknown table {keyspace}.{table}")]
    NoTable {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// There is no such table, in the words of verbs about its thresholds.
    #[error("ColumnFamilyStore for {keyspace}/{table} not found.")]
    NoStore {
        /// Keyspace.
        keyspace: String,
        /// Table.
        table: String,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The engine could not.
    #[error("{0}")]
    Engine(#[from] EngineError),
}

/// The names of the tables that an operator named, checked.
///
/// # Errors
/// The first name that does not exist.
pub fn resolve(engine: &Engine, selection: &Selection) -> Result<Vec<(String, String)>, StorageError> {
    let schema = engine.schema();
    let real = || schema.keyspaces.values().filter(|k| !k.is_virtual);
    let Some(keyspace) = &selection.keyspace else {
        return Ok(real().flat_map(|k| k.stores()).map(|t| names(t)).collect());
    };
    let found = real()
        .find(|k| k.name == *keyspace)
        .ok_or_else(|| StorageError::UnknownKeyspace(keyspace.clone()))?;
    if selection.tables.is_empty() {
        return Ok(found.stores().map(|t| names(t)).collect());
    }
    let known = |table: &String| match found.store(table) {
        Some(table) => Ok(names(table)),
        None => Err(StorageError::UnknownTable { keyspace: keyspace.clone(), table: table.clone() }),
    };
    selection.tables.iter().map(known).collect()
}

fn names(table: &model::TableSchema) -> (String, String) {
    (table.keyspace.clone(), table.name.clone())
}

/// Every snapshot.
///
/// # Errors
/// When a directory cannot be listed.
pub fn snapshots(engine: &Engine) -> Result<Vec<SnapshotEntry>, StorageError> {
    let found = engine.list_snapshots()?;
    Ok(found
        .into_iter()
        .map(|info| SnapshotEntry {
            name: info.tag,
            keyspace: info.keyspace,
            table: info.table,
            true_bytes: info.true_size_bytes,
            disk_bytes: info.size_bytes,
            created_at: info.created_at,
            expires_at: info.expires_at,
        })
        .collect())
}

/// Flushes.
pub fn flushes(engine: &Engine) -> FlushStats {
    let stats = engine.stats();
    FlushStats { completed: stats.flushes, failed: stats.flush_failures, pending: stats.flushes_pending }
}

/// The page cache.
pub fn page_cache(engine: &Engine) -> CacheReport {
    cache_report(engine.stats().page_cache)
}

/// The row cache.
pub fn row_cache(engine: &Engine) -> CacheReport {
    cache_report(engine.stats().row_cache)
}

fn cache_report(stats: engine::CacheStats) -> CacheReport {
    CacheReport {
        capacity_bytes: stats.capacity_bytes,
        used_bytes: stats.bytes,
        entries: stats.entries,
        hits: stats.hits,
        misses: stats.misses,
        insertions: stats.insertions,
        evictions: stats.evictions,
    }
}

/// Drops what is cached. It comes back as it is read.
pub fn invalidate_cache(engine: &Engine, cache: CacheKind) {
    match cache {
        CacheKind::Keys => engine.page_cache().clear_index(),
        CacheKind::Pages => engine.page_cache().clear(),
        CacheKind::Rows => engine.row_cache().clear(),
        // The engine has no roles: whoever knows them forgets them.
        CacheKind::Roles | CacheKind::Credentials | CacheKind::Cidrs => {}
    }
}

/// Writes the memtables of tables to SSTables.
///
/// # Errors
/// An unknown name, or what a flush failed with.
pub fn flush(engine: &Engine, selection: &Selection) -> Result<(), StorageError> {
    for (keyspace, table) in resolve(engine, selection)? {
        engine.flush(&keyspace, Some(&table))?;
    }
    Ok(())
}

/// Empties a table.
///
/// # Errors
/// What the engine failed with.
pub fn truncate(engine: &Engine, table: &TableSchema) -> Result<(), EngineError> {
    engine.truncate(&table.keyspace, &table.name)
}

/// Takes no more writes, and leaves nothing in memory.
///
/// # Errors
/// What a flush failed with.
pub fn drain(engine: &Engine) -> Result<(), EngineError> {
    engine.drain()
}

/// Takes a snapshot.
///
/// # Errors
/// A name that is taken, unknown or none, a TTL that is none, or what failed.
pub fn take_snapshot(engine: &Engine, wanted: &TakeSnapshot) -> Result<(), StorageError> {
    let ttl_s = wanted.ttl.as_deref().map(ttl_seconds).transpose().map_err(StorageError::Invalid)?;
    let options = SnapshotOptions { skip_flush: wanted.skip_flush, ttl_s };
    let names: Vec<String> = wanted.tables.iter().map(|t| t.keyspace.clone()).collect();
    for keyspace in wanted.keyspaces.iter().chain(&names) {
        resolve(engine, &Selection { keyspace: Some(keyspace.clone()), tables: Vec::new() })?;
    }
    if wanted.tables.is_empty() {
        return Ok(engine.snapshot(&wanted.name, &wanted.keyspaces, None, options)?);
    }
    for QualifiedTable { keyspace, table } in &wanted.tables {
        let keyspace = std::slice::from_ref(keyspace);
        engine.snapshot(&wanted.name, keyspace, Some(table), options)?;
    }
    Ok(())
}

/// Imports SSTables from directories, each as a whole or not at all.
///
/// # Errors
/// An unknown table or a directory that is not there.
pub fn import(engine: &Engine, wanted: &ImportSstables) -> Result<Vec<ImportedDirectory>, StorageError> {
    if let Some(relative) = wanted.directories.iter().find(|directory| !directory.is_absolute()) {
        return Err(StorageError::Invalid(format!("{} is no absolute path", relative.display())));
    }
    let options = ImportOptions {
        verify: !wanted.no_verify,
        copy: wanted.copy_data,
        keep_level: wanted.keep_level,
        keep_repaired: wanted.keep_repaired,
    };
    let done = engine.import(&wanted.keyspace, &wanted.table, &wanted.directories, &options)?;
    let answer = |done: engine::ImportedDirectory| {
        let engine::ImportedDirectory { directory, sstables, failure } = done;
        ImportedDirectory { directory, sstables, failure }
    };
    Ok(done.into_iter().map(answer).collect())
}

/// Opens SSTables that were put into a table's directory; their names.
///
/// # Errors
/// An unknown table, or an SSTable that is damaged or not one of the table.
pub fn refresh(engine: &Engine, table: &QualifiedTable) -> Result<Vec<String>, StorageError> {
    let QualifiedTable { keyspace, table } = table;
    engine.load_new_sstables(keyspace, table).map_err(|error| match error {
        EngineError::UnknownTable { keyspace, table } => StorageError::UnknownTable { keyspace, table },
        other => other.into(),
    })
}

/// Removes snapshots.
///
/// # Errors
/// What failed.
pub fn clear_snapshots(engine: &Engine, wanted: &ClearSnapshots) -> Result<(), StorageError> {
    Ok(engine.clear_snapshot(wanted.name.as_deref(), &wanted.keyspaces)?)
}
