//! The engine: the rooms of one node's tables, and what others ask of them.

use crate::background::Background;
use crate::background::compaction::{CompactionInfo, CompactionRequest, Thresholds};
use crate::background::demands::{ProofDemand, TellCompared};
use crate::background::prover::{ProvingStats, TableAdoption};
use crate::background::verifying::{DamagedSsTable, VerifyOptions};
use crate::catalog::Catalog;
use crate::commitlog::{FailureHook, SyncTicket};
use crate::disk_failure::DiskFailureHook;
use crate::error::{EngineError, WriteError};
use crate::intake::Intake;
use crate::intake::import::{ImportOptions, ImportedDirectory};
use crate::intake::schema_exchange::{MergedSchema, SchemaChangeHook};
use crate::intake::snapshot::{SchemaText, SnapshotInfo, SnapshotOptions};
use crate::options::EngineOptions;
use crate::table::TableStore;
use crate::writing::Writing;
use crate::writing::write::WriteOptions;
use env::Env;
use env::fs::FileLock;
use env::sync::Mutex;
use model::command::ReadCommand;
use model::schema::Release;
use model::{Mutation, Schema, TableSchema};
use partition::{BoxedStream, ReadContext, ReadError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use uuid::Uuid;

/// One node's tables. See the top of the crate for what it promises.
///
/// Each room uses those before it: the catalog of tables, which is all that a read needs; writing; the work
/// in the background; and what changes tables from outside.
pub struct Engine {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) writing: Arc<Writing>,
    pub(crate) background: Arc<Background>,
    pub(crate) intake: Intake,
    /// Let go when the engine closes.
    pub(crate) locks: Mutex<Vec<FileLock>>,
}

impl Engine {
    /// The id of this node, as `system.local` holds it.
    pub fn host_id(&self) -> Uuid {
        self.catalog.host_id()
    }

    /// The settings it was opened with.
    pub fn options(&self) -> &EngineOptions {
        &self.catalog.options
    }

    /// Clock, randomness, files and tasks.
    pub fn env(&self) -> &Env {
        &self.catalog.env
    }

    /// The version that new SSTables are of.
    pub fn sstable_version(&self) -> sstable::Version {
        self.catalog.files.version
    }

    /// The schema as it is now.
    pub fn schema(&self) -> Arc<Schema> {
        self.catalog.schema()
    }

    /// A table by id; `None` when it does not exist or is virtual.
    pub fn table(&self, id: Uuid) -> Option<Arc<TableStore>> {
        self.catalog.table(id)
    }

    /// The release of Cassandra in whose form the directory is.
    pub fn release(&self) -> Release {
        self.catalog.release()
    }

    /// A table of keyspace `system` as this directory has it.
    pub fn system_table(&self, name: &str) -> Arc<TableSchema> {
        self.catalog.system_table(name)
    }

    /// Every table.
    pub fn tables(&self) -> Vec<Arc<TableStore>> {
        self.catalog.tables()
    }

    /// A table by name.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`].
    pub fn table_named(&self, keyspace: &str, table: &str) -> Result<Arc<TableStore>, EngineError> {
        self.catalog.table_named(keyspace, table)
    }

    /// What the command selects, merged from memtables and SSTables: partitions, rows and deletions as
    /// [`partition`]'s grammar says. Row filters and limits are the caller's. A table that was dropped
    /// meanwhile yields nothing.
    ///
    /// # Errors
    /// When a source cannot be read, or would block and the context forbids it; the stream may yield the
    /// same.
    pub fn read(&self, command: &ReadCommand, ctx: &ReadContext) -> Result<BoxedStream, ReadError> {
        self.catalog.read(command, ctx)
    }

    /// Sets who is told of commit log failures that the policy wants the server to act on (`stop`, `die`);
    /// the first call counts. It runs on a writer's or the log's own thread and must hand over: closing the
    /// engine from there would wait for itself.
    pub fn on_commit_failure(&self, hook: FailureHook) {
        self.writing.log.on_failure(hook);
    }

    /// Applies a mutation: when this returns, readers see it, each partition update whole. It is acknowledged
    /// only when the ticket says so.
    ///
    /// # Errors
    /// Nothing was written, in memory or in the log, except that bytes of a failed append may be found by a
    /// replay.
    pub fn apply(&self, mutation: &Mutation, options: WriteOptions) -> Result<SyncTicket, WriteError> {
        self.writing.apply(mutation, options)
    }

    /// Flushes a table, or all tables of a keyspace; returns when they are on disk.
    ///
    /// # Errors
    /// [`EngineError::UnknownKeyspace`], [`EngineError::UnknownTable`], or what a flush failed with: its
    /// memtable stays readable and is flushed again later.
    pub fn flush(&self, keyspace: &str, table: Option<&str>) -> Result<(), EngineError> {
        self.writing.flush(keyspace, table)
    }

    /// Flushes every table.
    ///
    /// # Errors
    /// As [`Engine::flush`]; the other tables are flushed all the same.
    pub fn flush_all(&self) -> Result<(), EngineError> {
        self.writing.flush_all()
    }

    /// Sets who is told of damaged files and failing disks; the first call counts.
    pub fn on_disk_failure(&self, hook: DiskFailureHook) {
        self.catalog.on_disk_failure(hook)
    }

    /// Tells of a read that failed. The engine itself does not see failures of streams that it handed out.
    pub fn report_read_failure(&self, error: &ReadError) {
        self.catalog.report_read_failure(error)
    }

    /// The data directories that take no new SSTables any more, because a write failed in them.
    pub fn given_up_directories(&self) -> Vec<PathBuf> {
        self.catalog.given_up_directories()
    }

    /// Compacts everything of a table, or of all tables of a keyspace; returns when it is done.
    ///
    /// # Errors
    /// [`EngineError::UnknownKeyspace`], [`EngineError::UnknownTable`], or what a compaction failed with.
    pub fn compact(&self, keyspace: &str, table: Option<&str>) -> Result<(), EngineError> {
        self.compact_as(keyspace, table, &CompactionRequest::Whole { split: false })
    }

    /// Compacts what an operator asks for of a table, or of all tables of a keyspace; returns when it is
    /// done.
    ///
    /// # Errors
    /// As [`Engine::compact`].
    pub fn compact_as(
        &self,
        keyspace: &str,
        table: Option<&str>,
        request: &CompactionRequest,
    ) -> Result<(), EngineError> {
        self.background.compact(keyspace, table, request)
    }

    /// Reads every component of a table's SSTables from the files; what is wrong with them.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`], and files that cannot be read at all.
    pub fn verify(
        &self,
        keyspace: &str,
        table: &str,
        options: VerifyOptions,
    ) -> Result<Vec<DamagedSsTable>, EngineError> {
        self.background.verify(keyspace, table, options)
    }

    /// The table whose SSTable has this Data.db.
    pub fn table_of_file(&self, file: &Path) -> Option<Arc<TableStore>> {
        self.background.table_of_file(file)
    }

    /// The compactions that run.
    pub fn compactions(&self) -> Vec<CompactionInfo> {
        self.background.compactions()
    }

    /// Estimated number of compactions that wait, by table; tables without any are left out.
    pub fn pending_compactions(&self) -> Vec<(Arc<TableStore>, usize)> {
        self.background.pending_compactions()
    }

    /// Numbers of compactions done and failed since the start.
    pub fn compaction_counts(&self) -> (u64, u64) {
        self.background.compaction_counts()
    }

    /// Bytes that compactions write a second, 0 for no limit.
    pub fn compaction_throughput(&self) -> u64 {
        self.background.compaction_throughput()
    }

    /// Sets the bytes that compactions write a second, 0 for no limit.
    pub fn set_compaction_throughput(&self, bytes_per_s: u64) {
        self.background.set_compaction_throughput(bytes_per_s)
    }

    /// Makes compactions stand still, or go on.
    pub fn set_compactions_paused(&self, paused: bool) {
        self.background.set_compactions_paused(paused)
    }

    /// Ends the compactions that run, or the one named; returns how many. What they did is undone.
    pub fn stop_compactions(&self, id: Option<Uuid>) -> usize {
        self.background.stop_compactions(id)
    }

    /// Lets the tables compact by themselves, or not, until the next start.
    ///
    /// # Errors
    /// [`EngineError::UnknownKeyspace`], [`EngineError::UnknownTable`].
    pub fn set_auto_compaction(
        &self,
        keyspace: &str,
        table: Option<&str>,
        enabled: bool,
    ) -> Result<(), EngineError> {
        self.background.set_auto_compaction(keyspace, table, enabled)
    }

    /// Whether a table compacts by itself.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`].
    pub fn auto_compaction(&self, keyspace: &str, table: &str) -> Result<bool, EngineError> {
        self.background.auto_compaction(keyspace, table)
    }

    /// How many SSTables of a table are compacted together.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`].
    pub fn compaction_thresholds(&self, keyspace: &str, table: &str) -> Result<Thresholds, EngineError> {
        self.background.compaction_thresholds(keyspace, table)
    }

    /// Sets how many SSTables of a table are compacted together, until the next start.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`].
    pub fn set_compaction_thresholds(
        &self,
        keyspace: &str,
        table: &str,
        thresholds: Thresholds,
    ) -> Result<(), EngineError> {
        self.background.set_compaction_thresholds(keyspace, table, thresholds)
    }

    /// How many compactions that tables begin by themselves may run at once.
    pub fn concurrent_compactors(&self) -> usize {
        self.background.concurrent_compactors()
    }

    /// Sets how many, until the next start. Those that run come to their end.
    ///
    /// # Errors
    /// When there can be no more threads.
    pub fn set_concurrent_compactors(&self, count: usize) -> io::Result<()> {
        self.background.set_concurrent_compactors(count)
    }

    /// Begins to compare SSTables with their digests in the background, if the options say so.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start_proving(&self) -> io::Result<()> {
        self.background.start_proving()
    }

    /// Waits until the comparison that [`Engine::start_proving`] began is over, for at most `timeout`, and
    /// lets it read as fast as it can meanwhile. Returns whether it is over.
    pub fn wait_for_proofs(&self, timeout: Duration) -> bool {
        self.background.wait_for_proofs(timeout)
    }

    /// Ends the comparisons that run; no other begins before SSTables are loaded or the node starts again,
    /// but for what reads wait for. Whether any ran.
    pub fn stop_proving(&self) -> bool {
        self.background.stop_proving()
    }

    /// The comparisons that run.
    pub fn proving(&self) -> Vec<CompactionInfo> {
        self.background.proving()
    }

    /// Numbers of the prover.
    pub fn proving_stats(&self) -> ProvingStats {
        self.background.proving_stats()
    }

    /// Tables with SSTables of other programs that have large partitions, by name, and how many of these are
    /// described.
    pub fn adoption(&self) -> Vec<TableAdoption> {
        self.background.adoption()
    }

    /// Has the SSTable whose Data.db is `name`, as [`ReadError::Unproven`] has it, compared before those that
    /// nobody waits for. `tell` is called once, unless the demand is dropped before, and perhaps before this
    /// returns. Nothing is compared before [`Engine::start_proving`].
    pub fn demand_proof(&self, name: &Arc<str>, tell: TellCompared) -> ProofDemand {
        self.background.demand_proof(name, tell)
    }

    /// Makes `new` the schema: what it changes is durable before this returns. Its version is computed here,
    /// as Cassandra computes it. Virtual keyspaces are kept in the schema but have no tables here and are not
    /// stored.
    ///
    /// A table that is there already must keep the ids of its columns: derive it with
    /// `TableSchema::to_builder`.
    ///
    /// # Errors
    /// When it could not be stored, or would be another after a restart; the old schema stays.
    pub fn install_schema(&self, new: Schema) -> Result<Arc<Schema>, EngineError> {
        self.intake.install_schema(new, None)
    }

    /// [`Engine::install_schema`] of a schema that was made of `base`, if that is still in force.
    ///
    /// # Errors
    /// [`EngineError::SchemaMoved`] when it is not.
    pub fn change_schema(&self, base: &Arc<Schema>, new: Schema) -> Result<Arc<Schema>, EngineError> {
        self.intake.install_schema(new, Some(base))
    }

    /// The rows of `system_schema` of all keyspaces that nodes of a ring share, deletions included: one
    /// mutation a keyspace.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn schema_mutations(&self) -> Result<Vec<Mutation>, EngineError> {
        self.intake.schema_mutations()
    }

    /// Merges rows of `system_schema` of another node into this one's and puts what they come to in force.
    /// Anything else in `mutations` is left out.
    ///
    /// # Errors
    /// When they cannot be stored, or no start could load them; the old schema stays.
    pub fn merge_schema(&self, mutations: Vec<Mutation>) -> Result<MergedSchema, EngineError> {
        self.intake.merge_schema(mutations)
    }

    /// Who is told of each change that this node makes of its schema: the rows that were written, and the new
    /// schema. The first call counts.
    pub fn on_schema_change(&self, hook: SchemaChangeHook) {
        // There is one ring.
        let _ = self.intake.schema_changed.set(hook);
    }

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
        self.intake.truncate(keyspace, table)
    }

    /// When a table was last truncated, in milliseconds since the epoch; `None` if never.
    ///
    /// # Errors
    /// When `system.local` cannot be read.
    pub fn truncated_millis(&self, table: Uuid) -> Result<Option<i64>, EngineError> {
        self.intake.truncated_millis(table)
    }

    /// Refuses writes from now on, flushes every table and removes the commit log: a start after this replays
    /// nothing, and another program may take over the directory.
    ///
    /// # Errors
    /// When a flush failed: the commit log keeps what is not on disk, and writes are taken again, so that
    /// what stands in the way of another attempt can be finished.
    pub fn drain(&self) -> Result<(), EngineError> {
        self.intake.drain()
    }

    /// Opens SSTables that somebody put into a table's directory while the engine runs; their names.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`], [`EngineError::Drained`]; an SSTable that is damaged or not one of the
    /// table, and then none is added; a transaction that is under way.
    pub fn load_new_sstables(&self, keyspace: &str, table: &str) -> Result<Vec<String>, EngineError> {
        self.intake.load_new_sstables(keyspace, table)
    }

    /// Imports the SSTables of directories into a table.
    ///
    /// # Errors
    /// [`EngineError::UnknownTable`], [`EngineError::Drained`], and [`EngineError::NoDirectory`] before
    /// anything was done. What goes wrong with a directory is in its answer, and does not keep the others.
    pub fn import(
        &self,
        keyspace: &str,
        table: &str,
        directories: &[PathBuf],
        options: &ImportOptions,
    ) -> Result<Vec<ImportedDirectory>, EngineError> {
        self.intake.import(keyspace, table, directories, options)
    }

    /// Sets who writes the `schema.cql` of snapshots; the first call counts. Without one there is no such
    /// file.
    pub fn set_schema_text(&self, text: SchemaText) {
        self.intake.set_schema_text(text)
    }

    /// Whether new SSTables are linked into `backups/` of their tables, unless the table says no.
    pub fn incremental_backups(&self) -> bool {
        self.catalog.incremental_backups()
    }

    /// Sets whether they are, until the engine is opened again.
    pub fn set_incremental_backups(&self, enabled: bool) {
        self.catalog.set_incremental_backups(enabled);
    }

    /// Takes a snapshot of every table of `keyspaces` (of all keyspaces when there are none), or of one table
    /// of the one keyspace that is named. Memtables are flushed before, unless the options say no.
    ///
    /// # Errors
    /// [`EngineError::SnapshotExists`], [`EngineError::SnapshotName`], an unknown name, or what failed.
    pub fn snapshot(
        &self,
        tag: &str,
        keyspaces: &[String],
        table: Option<&str>,
        options: SnapshotOptions,
    ) -> Result<(), EngineError> {
        self.intake.snapshot(tag, keyspaces, table, options)
    }

    /// Every snapshot of every table.
    ///
    /// # Errors
    /// When a directory cannot be listed.
    pub fn list_snapshots(&self) -> Result<Vec<SnapshotInfo>, EngineError> {
        self.intake.list_snapshots()
    }

    /// Removes the snapshot `tag`, or all snapshots, of `keyspaces`, or of all keyspaces.
    ///
    /// # Errors
    /// [`EngineError::SnapshotName`], or a directory that cannot be listed or removed.
    pub fn clear_snapshot(&self, tag: Option<&str>, keyspaces: &[String]) -> Result<(), EngineError> {
        self.intake.clear_snapshot(tag, keyspaces)
    }

    /// Removes the snapshots whose time is over; how many, of one table each.
    ///
    /// # Errors
    /// A directory that cannot be listed or removed: it is tried again by the next call.
    pub fn remove_expired_snapshots(&self) -> Result<usize, EngineError> {
        self.intake.remove_expired_snapshots()
    }

    /// Refuses writes from now on, waits for flushes that run, syncs the log and ends all threads. Reads
    /// still work. Memtables are not flushed: the commit log has their writes ([`Engine::drain`] flushes).
    /// The directories are free for another engine afterwards; dropping the last handle closes, too.
    pub fn close(&self) {
        self.writing.refuse();
        self.background.stop();
        self.writing.stop();
        self.locks.lock().clear();
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.close();
        tracing::debug!(flushes = self.writing.flushes.load(Ordering::Relaxed), "engine closed");
    }
}
