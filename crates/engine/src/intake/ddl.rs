//! Changing the schema.
//!
//! 1. What would be stored is loaded and compared with the new schema ([`crate::schema::verify`]).
//! 2. The rows of `system_schema` that lead from the current schema to the new one are written, synced and
//!    flushed ([`crate::writing::schema_flush`]).
//! 3. Tables appear, change and disappear on the node.
//! 4. The version is computed from the rows and the new schema is published.

use crate::catalog::Tables;
use crate::commitlog::LogPosition;
use crate::error::EngineError;
use crate::intake::Intake;
use crate::memtable::Memtable;
use crate::schema::diff::{self, Moment};
use crate::schema::load::{self, SchemaRows};
use crate::schema::of_directory::schema_row;
use crate::schema::verify;
use crate::schema::version::VersionDigest;
use crate::system::{self, SYSTEM_SCHEMA};
use crate::table::TableStore;
use crate::table::homes::homes_among;
use bytes::Bytes;
use model::{KeyspaceSchema, Schema, TableSchema};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uuid::Uuid;

impl Intake {
    /// [`crate::Engine::install_schema`], [`crate::Engine::change_schema`].
    pub(crate) fn install_schema(
        &self,
        new: Schema,
        made_of: Option<&Arc<Schema>>,
    ) -> Result<Arc<Schema>, EngineError> {
        let _turn = self.schema_turn.lock();
        let old = self.catalog.schema();
        if made_of.is_some_and(|base| !Arc::ptr_eq(base, &old)) {
            return Err(EngineError::SchemaMoved);
        }
        let new = system::completed(new, self.catalog.release());
        check_column_ids(&old, &new)?;
        verify::verify(&old, &new)?;
        let mutations = diff::mutations(&old, &new, self.schema_moment());
        self.writing.apply_durably(&mutations)?;
        let awaits_flush = self.writing.flush_change(&mutations);
        let published = self.publish(&old, new, awaits_flush)?;
        if let Some(tell) = self.schema_changed.get().filter(|_| !mutations.is_empty()) {
            tell(&mutations, &published);
        }
        Ok(published)
    }

    /// Timestamps of schema changes only go up, whatever the clock does.
    fn schema_moment(&self) -> Moment {
        let last = self.schema_micros.load(Ordering::SeqCst);
        let micros = self.catalog.env.now_micros().max(last + 1);
        self.schema_micros.store(micros, Ordering::SeqCst);
        Moment { micros, seconds: self.catalog.now_s() }
    }

    /// Puts a schema in force that the log has. If it awaits its flush, the tables that it defines or changes
    /// do.
    pub(crate) fn publish(
        &self,
        old: &Schema,
        mut new: Schema,
        awaits_flush: bool,
    ) -> Result<Arc<Schema>, EngineError> {
        let start = self.writing.log.position();
        let mut alive = BTreeSet::new();
        let mut narrowed = Vec::new();
        for keyspace in new.keyspaces.values().filter(|k| !k.is_virtual) {
            for table in keyspace.stores() {
                alive.insert(table.id);
                let store = match self.catalog.table(table.id) {
                    Some(store) => store,
                    None => self.open_table(table, keyspace.durable_writes, start)?,
                };
                if awaits_flush && old.table_by_id(table.id) != Some(table) {
                    store.set_awaits_schema(true);
                }
                store.set_schema(Arc::clone(table), keyspace.durable_writes);
                if old.table_by_id(table.id).is_some_and(|old| loses_columns(old, table)) {
                    narrowed.push(store);
                }
            }
        }
        let gone: Vec<_> =
            self.catalog.tables().into_iter().filter(|t| !alive.contains(&t.schema().id)).collect();
        new.version = self.schema_version()?;
        let new = Arc::new(new);
        self.catalog.schema.store(Arc::clone(&new));
        self.writing.forget_derived(old, &new)?;
        for table in narrowed {
            self.forget_dropped_columns(&table);
        }
        for table in gone {
            self.drop_table(&table);
        }
        if new.version != old.version {
            let version = Bytes::copy_from_slice(new.version.as_bytes());
            self.writing.write_local(&[("schema_version", Bytes::new(), version)])?;
        }
        Ok(new)
    }

    /// Writes the memtable of a table out that lost columns: SSTables are read without them, while in memory
    /// a row of nothing else would still be a row.
    fn forget_dropped_columns(&self, table: &TableStore) {
        if let Err(error) = self.writing.flush_table(table) {
            let schema = table.schema();
            tracing::warn!(
                keyspace = schema.keyspace, table = schema.name, %error,
                "rows of a dropped column stay until the next flush"
            );
        }
    }

    /// The schema as the tables of `system_schema` hold it, completed by the built-in keyspaces.
    pub(crate) fn load_schema(&self) -> Result<Schema, EngineError> {
        let mut schema = system::completed(self.stored_schema()?, self.catalog.release());
        schema.version = self.schema_version()?;
        Ok(schema)
    }

    fn stored_schema(&self) -> Result<Schema, EngineError> {
        let mut stored = load::load(&self.stored_rows()?)?;
        stored.release = self.catalog.release();
        Ok(stored)
    }

    fn stored_rows(&self) -> Result<SchemaRows, EngineError> {
        let now_s = self.catalog.now_s();
        let mut rows = SchemaRows::new();
        let mut newest = system::GENERATION_MICROS_MAX;
        for name in system::schema_tables(self.catalog.release()) {
            let table = system::table(self.catalog.release(), SYSTEM_SCHEMA, name);
            let out = rows.entry(name).or_default();
            self.catalog.scan_table(&table, |key, row| {
                let Some(row) = row else { return };
                let timestamps = row.cells.iter().map(|c| c.timestamp).chain([row.liveness.timestamp]);
                newest = timestamps.chain([newest]).max().unwrap_or(newest);
                out.extend(schema_row(&table, key, row, now_s));
            })?;
        }
        self.schema_micros.fetch_max(newest, Ordering::SeqCst);
        Ok(rows)
    }

    fn schema_version(&self) -> Result<Uuid, EngineError> {
        let now_s = self.catalog.now_s();
        let mut digest = VersionDigest::default();
        for name in system::schema_tables(self.catalog.release()) {
            let table = system::table(self.catalog.release(), SYSTEM_SCHEMA, name);
            self.catalog.scan_table(&table, |key, row| match row {
                None => digest.start_partition(&key.key.0),
                Some(row) => digest.add_row(&table, row, now_s),
            })?;
        }
        Ok(digest.finish())
    }

    /// Writes the built-in keyspaces that are not stored, and the host id. Those that are stored stay as they
    /// are: the rows of `system` and `system_schema` are what a Cassandra wrote about its own, and it writes
    /// them at each start. An Ilion of before wrote them without the index of `system.paxos`, which is added.
    pub(crate) fn complete_system_keyspaces(&self) -> Result<(), EngineError> {
        self.writing.settle_replayed()?;
        let _turn = self.schema_turn.lock();
        let rows = self.stored_rows()?;
        let stored = load::load(&rows)?;
        let complete = self.catalog.schema().as_ref().clone();
        let (mut there, mut wanted) = (stored.clone(), complete.clone());
        for keyspace in stored.keyspaces.values().filter(|k| system::is_local(&k.name)) {
            match complete.keyspace(&keyspace.name) {
                Some(built_in) => {
                    let lacking = without_unstored_indexes(built_in, &rows);
                    there.keyspaces.insert(keyspace.name.clone(), Arc::new(lacking));
                }
                None => {
                    wanted.keyspaces.insert(keyspace.name.clone(), Arc::clone(keyspace));
                }
            }
        }
        let mutations = diff::mutations(&there, &wanted, self.schema_moment());
        if !mutations.is_empty() {
            self.writing.apply_durably(&mutations)?;
            self.publish(&stored, complete, false)?;
        }
        if self.catalog.read_local()?.host_id.is_none() {
            let id = Bytes::copy_from_slice(self.catalog.host_id().as_bytes());
            self.writing.write_local(&[("host_id", Bytes::new(), id)])?;
            // Intervals in SSTables count only under a host id that is itself in an SSTable.
            self.writing.flush("system", Some("local"))?;
        }
        Ok(())
    }

    /// Opens the files of a table that is new to the schema, makes its directories and adds it to the tables.
    fn open_table(
        &self,
        table: &Arc<TableSchema>,
        durable_writes: bool,
        start: LogPosition,
    ) -> Result<Arc<TableStore>, EngineError> {
        let dirs = self.catalog.table_dirs(table);
        self.catalog.files.make_homes(homes_among(&dirs, table));
        let files = self.catalog.files.survey(&dirs)?;
        let wanted: Vec<_> = files.sstables.iter().map(|d| (d, table)).collect();
        let sstables = self.catalog.files.open_many(&wanted)?;
        files.tidy_up(self.catalog.env.fs.as_ref())?;
        let compared = sstables.into_iter().map(|sstable| self.background.prove_newcomer(table, sstable));
        let newcomers = compared.collect::<Result<Vec<_>, _>>()?;
        let sstables = newcomers.iter().map(|new| Arc::clone(&new.sstable)).collect();
        let store = self.catalog.add_table(table, durable_writes, start, (sstables, files.last_sequence));
        self.background.welcome(&store, &newcomers);
        Ok(store)
    }

    /// Takes a dropped table off the node: after the last write its data goes, a snapshot stays if the
    /// options ask for one. What fails here leaves files that no schema names any more.
    fn drop_table(&self, table: &Arc<TableStore>) {
        let schema = table.schema();
        {
            let _gate = self.writing.barrier.write();
            self.catalog.tables.rcu(|tables| {
                let mut tables = Tables::clone(tables);
                tables.remove(&schema.id);
                tables
            });
        }
        self.background.release_demands();
        let report = |what: &str, error: EngineError| {
            tracing::warn!(keyspace = schema.keyspace, table = schema.name, %error, what);
        };
        if self.snapshots_automatically(&schema) {
            let tag = format!("dropped-{}-{}", self.catalog.env.clock.now_millis(), schema.name);
            let kept =
                self.writing.flush_table(table).and_then(|()| self.snapshot_automatically(table, &tag));
            if let Err(error) = kept {
                // The data stays where it is rather than going without its snapshot.
                return report("no snapshot could be taken of a dropped table; its files stay", error);
            }
        }
        let _turn = table.flush_turn.lock();
        table.set_dropped();
        let fresh =
            Arc::new(Memtable::new(self.writing.log.position(), self.catalog.env.clock.monotonic_nanos()));
        let mut gone = Vec::new();
        table.change_view(|view| {
            gone.extend(view.flushing.drain(..).map(|f| f.memtable));
            gone.push(std::mem::replace(&mut view.memtable, fresh));
        });
        self.writing.memory.release(gone.iter().map(|m| m.bytes()).sum());
        self.writing.workers.free_later(gone);
        self.writing.log.discard_table(schema.id);
        if let Err(error) = table.remove_sstables(&self.catalog.files, |_| {}) {
            report("files of a dropped table could not be removed", error);
        }
        for dir in table.dirs() {
            let left = self.catalog.env.fs.read_dir(dir).unwrap_or_default();
            // Cassandra's indexes have their tables in directories of their own beside the SSTables.
            if left.iter().all(|entry| {
                schema.indexes.iter().any(|i| entry.name.as_os_str() == format!(".{}", i.name).as_str())
            }) && let Err(error) = self.catalog.env.fs.remove_dir_all(dir)
                && error.kind() != io::ErrorKind::NotFound
            {
                report("the directory of a dropped table could not be removed", error.into());
            }
        }
    }
}

/// A built-in keyspace as one who lacks the rows of some indexes has it.
fn without_unstored_indexes(built_in: &KeyspaceSchema, rows: &SchemaRows) -> KeyspaceSchema {
    let stored = rows.get("indexes").map(Vec::as_slice).unwrap_or_default();
    let is_stored = |table: &str, index: &str| {
        let names = [table.as_bytes(), index.as_bytes()];
        stored.iter().any(|row| row.keyspace == built_in.name && row.clustering.iter().eq(names))
    };
    let mut keyspace = built_in.clone();
    for table in keyspace.tables.values_mut().filter(|table| !table.indexes.is_empty()) {
        let mut builder = table.to_builder();
        builder.indexes.retain(|index| is_stored(&table.name, &index.name));
        *table = Arc::new(builder.build());
    }
    keyspace
}

/// Whether `new` lacks a column that `old` has cells of.
fn loses_columns(old: &TableSchema, new: &TableSchema) -> bool {
    let columns = old.regular_columns().iter().chain(old.static_columns());
    columns.into_iter().any(|column| new.column_by_id(column.id).is_none())
}

/// Rows in memory hold column ids: a new definition must not give them another meaning.
fn check_column_ids(old: &Schema, new: &Schema) -> Result<(), EngineError> {
    let tables = |schema: &Schema| -> Vec<Arc<TableSchema>> {
        schema.keyspaces.values().flat_map(|k| k.stores().cloned()).collect()
    };
    for table in tables(new) {
        let Some(before) = old.table_by_id(table.id) else { continue };
        for column in before.static_columns().iter().chain(before.regular_columns()) {
            let now = table.column_by_id(column.id).map(|c| c.name.as_str());
            if now.is_some_and(|name| name != column.name) {
                let what =
                    format!("{}.{} reuses the id of column {}", table.keyspace, table.name, column.name);
                return Err(EngineError::Schema(what));
            }
        }
    }
    Ok(())
}
