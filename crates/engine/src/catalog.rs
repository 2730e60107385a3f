//! The tables of the node, and what all rooms of the engine need to work on them: settings, clock and files,
//! who the node is, the schema in force, the caches. Reads need nothing else.

pub(crate) mod backup;
pub(crate) mod local;

use crate::cache::{PageCache, RowCache};
use crate::commitlog::LogPosition;
use crate::disk_failure::{DiskFailure, DiskFailureHook};
use crate::error::EngineError;
use crate::memtable::Memtable;
use crate::options::EngineOptions;
use crate::system;
use crate::table::{FileContext, TableStore};
use arc_swap::ArcSwap;
use env::Env;
use model::command::ReadCommand;
use model::schema::Release;
use model::{Schema, TableSchema};
use partition::{BoxedStream, ReadContext, ReadError};
use sstable::SsTable;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// Tables by id.
pub(crate) type Tables = std::collections::HashMap<Uuid, Arc<TableStore>, foldhash::fast::FixedState>;

/// Who the node is, as its directory says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Identity {
    pub(crate) host_id: Uuid,
    /// In whose form the directory is.
    pub(crate) release: Release,
}

/// The tables of the node.
pub(crate) struct Catalog {
    pub(crate) options: EngineOptions,
    pub(crate) env: Env,
    pub(crate) identity: ArcSwap<Identity>,
    pub(crate) schema: ArcSwap<Schema>,
    pub(crate) tables: ArcSwap<Tables>,
    pub(crate) cache: Arc<PageCache>,
    pub(crate) row_cache: Arc<RowCache>,
    pub(crate) files: FileContext,
    pub(crate) disk_hook: OnceLock<DiskFailureHook>,
    pub(crate) incremental_backups: AtomicBool,
}

impl Catalog {
    pub(crate) fn host_id(&self) -> Uuid {
        self.identity.load().host_id
    }

    pub(crate) fn release(&self) -> Release {
        self.identity.load().release
    }

    pub(crate) fn schema(&self) -> Arc<Schema> {
        self.schema.load_full()
    }

    pub(crate) fn table(&self, id: Uuid) -> Option<Arc<TableStore>> {
        self.tables.load().get(&id).cloned()
    }

    pub(crate) fn tables(&self) -> Vec<Arc<TableStore>> {
        self.tables.load().values().cloned().collect()
    }

    pub(crate) fn table_named(&self, keyspace: &str, table: &str) -> Result<Arc<TableStore>, EngineError> {
        let id = self.schema.load().table(keyspace, table).map(|t| t.id);
        id.and_then(|id| self.table(id)).ok_or_else(|| EngineError::UnknownTable {
            keyspace: keyspace.to_owned(),
            table: table.to_owned(),
        })
    }

    /// A table of keyspace `system` as this directory has it.
    pub(crate) fn system_table(&self, name: &str) -> Arc<TableSchema> {
        system::table(self.release(), system::SYSTEM, name)
    }

    /// [`crate::Engine::read`].
    pub(crate) fn read(&self, command: &ReadCommand, ctx: &ReadContext) -> Result<BoxedStream, ReadError> {
        match self.tables.load().get(&command.table.id) {
            Some(table) => table.read(command, ctx),
            None => Ok(partition::merge(&command.table, [], false)),
        }
    }

    /// Where SSTables of a table may be. Those of the node itself are written to the first of them only, as
    /// Cassandra has it; the others may hold some of a time when that was different.
    pub(crate) fn table_dirs(&self, table: &TableSchema) -> Vec<PathBuf> {
        let own = self.options.local_system_dir.iter().filter(|_| system::has_one_home(table));
        let dirs = own.chain(&self.options.data_dirs);
        dirs.map(|d| d.join(&table.keyspace).join(table.directory_name())).collect()
    }

    /// Adds a table to those of the node.
    pub(crate) fn add_table(
        &self,
        table: &Arc<TableSchema>,
        durable_writes: bool,
        start: LogPosition,
        sstables: (Vec<Arc<SsTable>>, u64),
    ) -> Arc<TableStore> {
        let memtable = Memtable::new(start, self.env.clock.monotonic_nanos());
        let dirs = self.table_dirs(table);
        let (table_now, scan_bytes_max) = (Arc::clone(table), self.cache.scan_bytes_max());
        let rows = Arc::clone(&self.row_cache);
        let store =
            TableStore::new(table_now, durable_writes, dirs, memtable, sstables, scan_bytes_max, rows);
        let store = Arc::new(store);
        self.tables.rcu(|tables| {
            let mut tables = Tables::clone(tables);
            tables.insert(table.id, Arc::clone(&store));
            tables
        });
        store
    }

    /// A table of a keyspace, or all of them.
    pub(crate) fn tables_of(
        &self,
        keyspace: &str,
        table: Option<&str>,
    ) -> Result<Vec<Arc<TableStore>>, EngineError> {
        if let Some(table) = table {
            return Ok(vec![self.table_named(keyspace, table)?]);
        }
        let schema = self.schema();
        let keyspace =
            schema.keyspace(keyspace).ok_or_else(|| EngineError::UnknownKeyspace(keyspace.to_owned()))?;
        Ok(keyspace.stores().filter_map(|t| self.table(t.id)).collect())
    }

    /// [`crate::Engine::on_disk_failure`].
    pub(crate) fn on_disk_failure(&self, hook: DiskFailureHook) {
        let _ = self.disk_hook.set(hook);
    }

    /// [`crate::Engine::report_read_failure`].
    pub(crate) fn report_read_failure(&self, error: &ReadError) {
        self.tell(DiskFailure::of_read(error));
    }

    /// [`crate::Engine::given_up_directories`].
    pub(crate) fn given_up_directories(&self) -> Vec<PathBuf> {
        self.files.homes.given_up()
    }

    /// Tells of a flush or a compaction that failed.
    pub(crate) fn report_failure(&self, error: &EngineError) {
        self.tell(DiskFailure::of(error));
    }

    fn tell(&self, failure: Option<DiskFailure>) {
        if let (Some(hook), Some(failure)) = (self.disk_hook.get(), failure) {
            hook(&failure);
        }
    }
}
