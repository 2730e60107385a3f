//! Opening an engine.
//!
//! Everything is understood before anything is touched ([`Opening::examine`]):
//! 1. Directories that are there are locked, which leaves no trace.
//! 2. `system.local` is opened, which says whose directory it is; then the other tables of `system` and
//!    `system_schema`, whose definitions are built in for each release. What transactions that a crash left
//!    will remove is left out.
//! 3. The commit log is read for those two keyspaces, so that the schema is known as of the last write.
//! 4. The schema is loaded and every SSTable of every other table is opened.
//! 5. The commit log is read for the rest, to its last mutation. What does not fit into memory is decoded now
//!    and applied later.
//!
//! Then the directories are this engine's ([`Opening::take_over`]):
//! 6. Missing directories are made, transactions finished, temporary files removed.
//! 7. What did not fit into memory is replayed and flushed. Segments stay until the memtables that took their
//!    writes are flushed; if one of them is torn that is at once, for the fences of this run would make the
//!    tear look like damage, and if a killed Cassandra left entries behind its last marker, for it would not
//!    find them again.
//! 8. What the built-in keyspaces lack on disk is written, and the node gets its host id if it has none.

use crate::cache::{PageCache, RowCache};
use crate::commitlog::replay::Segments;
use crate::commitlog::{CommitLog, CommitLogOptions, LogPosition};
use crate::compaction::Compactions;
use crate::engine::{Engine, Gate, Tables};
use crate::error::EngineError;
use crate::local::LocalState;
use crate::memory::MemoryBudget;
use crate::memtable::Memtable;
use crate::options::EngineOptions;
use crate::prover::Prover;
use crate::recovery::{Pass, Replay};
use crate::schema_flush::SchemaFlush;
use crate::snapshot::NextExpiry;
use crate::system::{self, SYSTEM};
use crate::table::homes::Homes;
use crate::table::{FileContext, TableFiles, TableStore};
use arc_swap::ArcSwap;
use env::Env;
use env::fs::{EntryKind, FileLock};
use env::sync::{Mutex, RwLock};
use model::command::ReadCommand;
use model::schema::Release;
use model::{Schema, TableSchema};
use partition::{BoxedStream, ReadContext, ReadError};
use sstable::{OpenError, SsTable};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

/// Segments of earlier runs that may stay after a start. More are flushed away behind it: a node that is
/// killed again and again would otherwise take longer to start each time.
const OLD_SEGMENTS_MAX: u64 = 1;
/// Part of the memory for memtables in which the commit log's bytes wait between two passes over it.
const KEPT_LOG_SHARE: u64 = 4;

/// Directories that were understood and are as they were found. Dropped, it leaves them so.
pub struct Opening {
    engine: Engine,
    segments: Segments,
    replay: Replay,
    files: Vec<TableFiles>,
}

impl std::fmt::Debug for Opening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opening").field("host_id", &self.engine.host_id).finish_non_exhaustive()
    }
}

impl Engine {
    /// Opens the tables under the given directories, or makes them.
    ///
    /// # Errors
    /// When a setting cannot be, another process uses the directories, or what is there is damaged: then
    /// nothing was changed.
    pub fn open(options: EngineOptions, env: Env) -> Result<Arc<Engine>, EngineError> {
        Opening::examine(options, env)?.take_over()
    }
}

impl Opening {
    /// Steps 1 to 5.
    ///
    /// # Errors
    /// As [`Engine::open`].
    pub fn examine(options: EngineOptions, env: Env) -> Result<Opening, EngineError> {
        options.validate().map_err(EngineError::Options)?;
        let mut locks = Vec::new();
        for dir in options.table_roots().chain([&options.commitlog_dir]) {
            if env.fs.exists(dir)? {
                locks.push(lock(&env, dir)?);
            }
        }
        let kept_bytes_max = options.memtable_bytes_max / KEPT_LOG_SHARE;
        let segments = Segments::list(&env, &options.commitlog_dir, kept_bytes_max)?
            .with_segment_bytes(options.commitlog_segment_bytes);
        let last_id = segments.files().last().map_or(0, |s| s.id);
        let log_options = CommitLogOptions {
            dir: options.commitlog_dir.clone(),
            sync: options.commitlog_sync,
            segment_bytes: options.commitlog_segment_bytes,
            policy: options.commit_failure_policy,
            version: options.commitlog_version(),
        };
        let cache = Arc::new(PageCache::of(&options));
        let row_cache = Arc::new(RowCache::new(options.row_cache_bytes));
        let files = FileContext {
            env: env.clone(),
            pages: cache.clone(),
            next_number: AtomicU64::new(1),
            told_of_access: AtomicBool::new(false),
            uuid_ids: options.uuid_sstable_identifiers,
            column_index_bytes: options.column_index_bytes,
            version: options.sstable_version(),
            homes: Homes::new(options.gives_up_directories),
        };
        let rate = options.compaction_bytes_per_s;
        let compactions = Arc::new(Compactions::new(Arc::clone(&env.clock), rate));
        let prover = Arc::new(Prover::new(Arc::clone(&env.clock), options.proving_bytes_per_s));
        let engine = Engine {
            memory: Arc::new(MemoryBudget::new(options.memtable_bytes_max, options.write_wait_timeout_ms)),
            log: Arc::new(CommitLog::new(env.clone(), log_options, last_id)),
            options,
            env,
            host_id: Uuid::nil(),
            release: Release::default(),
            schema: ArcSwap::from_pointee(Schema::default()),
            schema_turn: Mutex::new(()),
            schema_micros: AtomicI64::new(0),
            schema_flush: SchemaFlush::default(),
            tables: ArcSwap::from_pointee(Tables::default()),
            barrier: RwLock::new(Gate::Open),
            workers: Arc::default(),
            compactions,
            filters: Arc::default(),
            prover,
            cache,
            row_cache,
            files,
            flushes: AtomicU64::new(0),
            flush_failures: AtomicU64::new(0),
            log_failures_seen: AtomicU64::new(0),
            schema_text: OnceLock::new(),
            next_expiry: NextExpiry::default(),
            disk_hook: OnceLock::new(),
            locks: Mutex::new(locks),
        };
        let mut opening = Opening { engine, segments, replay: Replay::default(), files: Vec::new() };
        opening.recover()?;
        Ok(opening)
    }

    /// Steps 2 to 5.
    fn recover(&mut self) -> Result<(), EngineError> {
        // A memtable that takes replayed writes says, once flushed, that nothing before its end need be
        // replayed: its start is the start of the log.
        let start = LogPosition { segment: self.segments.files().first().map_or(0, |s| s.id), offset: 0 };
        let local = system::table(self.engine.release, SYSTEM, "local");
        let is_local = |t: &TableSchema| t.id == local.id;
        self.open_tables(system::schema(self.engine.release), is_local, start)?;
        let LocalState { host_id, release_version, .. } = self.engine.read_local()?;
        if let Some(version) = release_version {
            self.engine.release = Release::of_version(&version).ok_or(EngineError::Release(version))?;
        }
        let is_other = |t: &TableSchema| system::is_local(&t.keyspace) && t.id != local.id;
        self.open_tables(system::schema(self.engine.release), is_other, start)?;
        self.replay.trusted = host_id;
        self.engine.replay(&mut self.segments, Pass::Local, &mut self.replay)?;

        let state = self.engine.read_local()?;
        self.engine.host_id = state.host_id.unwrap_or_else(|| self.engine.env.random_uuid());
        let schema = self.engine.load_schema()?;
        self.open_tables(&schema, |t| !system::is_local(&t.keyspace), start)?;
        self.engine.schema.store(Arc::new(schema));
        self.engine.warn_of_strangers();

        self.replay.truncated = state.truncated_at.iter().map(|(id, at)| (*id, at.position)).collect();
        self.engine.replay(&mut self.segments, Pass::Rest, &mut self.replay)?;
        self.replay.warn_of_unknown_tables();
        self.engine.check_replayed_views()
    }

    fn open_tables(
        &mut self,
        schema: &Schema,
        wanted: impl Fn(&TableSchema) -> bool,
        start: LogPosition,
    ) -> Result<(), EngineError> {
        let engine = &self.engine;
        let all = schema.keyspaces.values().flat_map(|k| k.stores().map(|t| (t, k.durable_writes)));
        let tables: Vec<_> = all.filter(|(table, _)| wanted(table)).collect();
        let found = tables
            .iter()
            .map(|(table, _)| engine.files.survey(&engine.table_dirs(table)))
            .collect::<Result<Vec<_>, _>>()?;
        let descriptors = tables.iter().zip(&found);
        let wanted = descriptors.flat_map(|((table, _), f)| f.sstables.iter().map(move |d| (d, *table)));
        let wanted: Vec<_> = wanted.collect();
        let tolerates = |table: &TableSchema| {
            engine.options.tolerates_damaged_sstables && !system::is_local(&table.keyspace)
        };
        let goes_on = wanted.iter().any(|(_, table)| tolerates(table));
        let mut opened = engine.files.try_open_many(&wanted, goes_on).into_iter();
        for ((table, durable_writes), files) in tables.iter().zip(found) {
            let (mut mine, mut damage) = (Vec::new(), None);
            for result in opened.by_ref().take(files.sstables.len()) {
                match result {
                    Ok(sstable) => mine.push(sstable),
                    Err(error) => match damage_of(&error).filter(|_| tolerates(table)) {
                        Some(cause) => {
                            tracing::error!(keyspace = table.keyspace, table = table.name, %error, "the table is opened without a damaged SSTable and refuses reads");
                            damage = Some(cause);
                        }
                        None => return Err(error),
                    },
                }
            }
            let store = engine.add_table(table, *durable_writes, start, (mine, files.last_sequence));
            if let Some(cause) = damage {
                store.set_damaged(cause);
            }
            if engine.options.proves_sstables && engine.options.awaits_proofs {
                store.view().sstables.iter().for_each(|sstable| sstable.await_proof(true));
                if system::is_read_by_node(table) {
                    engine.prove_own(&store)?;
                }
            }
            self.files.push(files);
        }
        Ok(())
    }

    /// The definition of a table of `system`, in the form that the directory has.
    pub fn system_table(&self, name: &str) -> Arc<TableSchema> {
        self.engine.system_table(name)
    }

    /// What was stored, the commit log included; see [`Engine::read`].
    ///
    /// # Errors
    /// As [`Engine::read`].
    pub fn read(&self, command: &ReadCommand, ctx: &ReadContext) -> Result<BoxedStream, ReadError> {
        self.engine.read(command, ctx)
    }

    /// Steps 6 to 8: from here on the directories are the engine's.
    ///
    /// # Errors
    /// When the file system fails.
    pub fn take_over(mut self) -> Result<Arc<Engine>, EngineError> {
        let engine = &self.engine;
        let (env, options) = (&engine.env, &engine.options);
        for dir in options.table_roots().chain([&options.commitlog_dir]) {
            if !env.fs.exists(dir)? {
                env.fs.create_dir_all_durable(dir)?;
                engine.locks.lock().push(lock(env, dir)?);
            }
        }
        self.files.iter().try_for_each(|files| files.tidy_up(env.fs.as_ref()))?;
        engine.finish_replay(&mut self.segments, &mut self.replay)?;
        for segment in self.segments.files() {
            let dirty = self.replay.dirty.remove(&segment.id).unwrap_or_default();
            let bytes = env.fs.file_len(&segment.path)?;
            engine.log.adopt(segment.id, segment.path.clone(), bytes, dirty)?;
        }
        // Removes the segments that turned out to hold nothing that is needed.
        engine.log.discard(Uuid::nil(), LogPosition::NONE);

        let engine = Arc::new(self.engine);
        engine.log.start()?;
        if engine.log.stats().segments > OLD_SEGMENTS_MAX {
            let written = engine.tables().into_iter().filter(|table| !table.view().memtable.is_empty());
            written.for_each(|table| engine.workers.enqueue(&table));
        }
        engine.workers.start(&engine)?;
        engine.compactions.start(&engine, engine.options.concurrent_compactors)?;
        engine.filters.start(&engine)?;
        engine.complete_system_keyspaces()?;
        Ok(engine)
    }
}

impl Engine {
    /// Where SSTables of a table may be. Those of the node itself are written to the first of them only, as
    /// Cassandra has it; the others may hold some of a time when that was different.
    pub(crate) fn table_dirs(&self, table: &TableSchema) -> Vec<PathBuf> {
        let own = self.options.local_system_dir.iter().filter(|_| system::has_one_home(table));
        let dirs = own.chain(&self.options.data_dirs);
        dirs.map(|d| d.join(&table.keyspace).join(table.directory_name())).collect()
    }

    /// Opens the files of a table that is new to the schema and adds it to the tables.
    pub(crate) fn open_table(
        &self,
        table: &Arc<TableSchema>,
        durable_writes: bool,
        start: LogPosition,
    ) -> Result<Arc<TableStore>, EngineError> {
        let files = self.files.survey(&self.table_dirs(table))?;
        let wanted: Vec<_> = files.sstables.iter().map(|d| (d, table)).collect();
        let sstables = self.files.open_many(&wanted)?;
        files.tidy_up(self.env.fs.as_ref())?;
        let compared = sstables.into_iter().map(|sstable| self.prove_newcomer(table, sstable));
        let newcomers = compared.collect::<Result<Vec<_>, _>>()?;
        let sstables = newcomers.iter().map(|new| Arc::clone(&new.sstable)).collect();
        let store = self.add_table(table, durable_writes, start, (sstables, files.last_sequence));
        self.welcome(&store, &newcomers);
        Ok(store)
    }

    fn add_table(
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

    /// Directories that look like a table's and are of none: a dropped one, or one of an older schema. They
    /// stay.
    fn warn_of_strangers(&self) {
        let known: HashSet<PathBuf> = self.tables().iter().flat_map(|t| t.dirs().to_vec()).collect();
        let below = |dir: &Path| -> Vec<PathBuf> {
            let entries = self.env.fs.read_dir(dir).unwrap_or_default().into_iter();
            entries.filter(|e| e.kind == EntryKind::Dir).map(|e| dir.join(e.name)).collect()
        };
        for directory in self.options.table_roots().flat_map(|dir| below(dir)).flat_map(|k| below(&k)) {
            let name = directory.file_name().unwrap_or_default().to_string_lossy();
            let is_table = name.rsplit_once('-').is_some_and(|(_, id)| Uuid::try_parse(id).is_ok());
            if is_table && !known.contains(&directory) {
                tracing::warn!(directory = %directory.display(), "no table of the schema has this directory; it is left alone");
            }
        }
    }
}

/// Why a damaged SSTable cannot be opened; `None` for one that is whole and not understood.
fn damage_of(error: &EngineError) -> Option<ReadError> {
    match error {
        EngineError::Open(OpenError::Read(cause)) | EngineError::Read(cause) => Some(cause.clone()),
        EngineError::Open(OpenError::MissingComponent { table, .. }) => {
            Some(ReadError::corrupt(&table.as_str().into(), 0, error.to_string()))
        }
        _ => None,
    }
}

fn lock(env: &Env, dir: &Path) -> Result<FileLock, EngineError> {
    env.fs.lock_exclusive(dir).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => EngineError::Locked { path: dir.to_owned() },
        _ => error.into(),
    })
}

/// The stored schema, completed by what every node of the release has.
pub(crate) fn with_system_keyspaces(mut stored: Schema, release: Release) -> Schema {
    for (name, builtin) in &system::schema(release).keyspaces {
        // The replicated ones are the operator's to change, and what is stored of them is what their files
        // hold.
        if system::is_local(name) || !stored.keyspaces.contains_key(name) {
            stored.keyspaces.insert(name.clone(), Arc::clone(builtin));
        }
    }
    stored.release = release;
    stored
}
