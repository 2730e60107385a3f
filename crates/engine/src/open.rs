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

mod strangers;

use crate::background::Background;
use crate::cache::{PageCache, RowCache};
use crate::catalog::local::LocalState;
use crate::catalog::{Catalog, Identity, Tables};
use crate::commitlog::replay::Segments;
use crate::commitlog::{CommitLog, CommitLogOptions, LogPosition};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::intake::Intake;
use crate::options::EngineOptions;
use crate::system;
use crate::table::homes::Homes;
use crate::table::{FileContext, TableFiles};
use crate::writing::recovery::{Pass, Replay};
use crate::writing::{FlushObserver, Writing};
use arc_swap::ArcSwap;
use env::Env;
use env::fs::FileLock;
use env::sync::Mutex;
use model::command::ReadCommand;
use model::schema::Release;
use model::{Schema, TableSchema};
use partition::{BoxedStream, ReadContext, ReadError};
use sstable::OpenError;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use strangers::Strangers;
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
        f.debug_struct("Opening").field("host_id", &self.engine.host_id()).finish_non_exhaustive()
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
            partition_limits: options.partition_limits,
            homes: Homes::new(options.gives_up_directories),
        };
        let log = CommitLog::new(env.clone(), log_options, last_id);
        let catalog = Arc::new(Catalog {
            incremental_backups: AtomicBool::new(options.incremental_backups),
            options,
            env,
            identity: ArcSwap::from_pointee(Identity::default()),
            schema: ArcSwap::from_pointee(Schema::default()),
            tables: ArcSwap::from_pointee(Tables::default()),
            cache,
            row_cache,
            files,
            disk_hook: OnceLock::new(),
        });
        let writing = Arc::new(Writing::new(Arc::clone(&catalog), log));
        let background = Arc::new(Background::new(Arc::clone(&catalog), Arc::clone(&writing)));
        writing.observe_flushes(Arc::clone(&background.compactions) as Arc<dyn FlushObserver>);
        let intake = Intake::new(Arc::clone(&catalog), Arc::clone(&writing), Arc::clone(&background));
        let engine = Engine { catalog, writing, background, intake, locks: Mutex::new(locks) };
        let mut opening = Opening { engine, segments, replay: Replay::default(), files: Vec::new() };
        opening.recover()?;
        Ok(opening)
    }

    /// Steps 2 to 5.
    fn recover(&mut self) -> Result<(), EngineError> {
        // A memtable that takes replayed writes says, once flushed, that nothing before its end need be
        // replayed: its start is the start of the log.
        let catalog = Arc::clone(&self.engine.catalog);
        let start = LogPosition { segment: self.segments.files().first().map_or(0, |s| s.id), offset: 0 };
        let local = catalog.system_table("local");
        let is_local = |t: &TableSchema| t.id == local.id;
        self.open_tables(system::schema(catalog.release()), is_local, start)?;
        let LocalState { host_id, release_version, .. } = catalog.read_local()?;
        if let Some(version) = release_version {
            let release = Release::of_version(&version).ok_or(EngineError::Release(version))?;
            catalog.identity.store(Arc::new(Identity { release, ..Identity::default() }));
        }
        let is_other = |t: &TableSchema| system::is_local(&t.keyspace) && t.id != local.id;
        self.open_tables(system::schema(catalog.release()), is_other, start)?;
        self.replay.trusted = host_id;
        self.engine.writing.replay(&mut self.segments, Pass::Local, &mut self.replay)?;

        let state = catalog.read_local()?;
        let host_id = state.host_id.unwrap_or_else(|| catalog.env.random_uuid());
        catalog.identity.store(Arc::new(Identity { host_id, release: catalog.release() }));
        let schema = self.engine.intake.load_schema()?;
        self.open_tables(&schema, |t| !system::is_local(&t.keyspace), start)?;
        catalog.schema.store(Arc::new(schema));
        let known: HashSet<PathBuf> = catalog.tables().iter().flat_map(|t| t.dirs().to_vec()).collect();
        Strangers::find(catalog.env.fs.as_ref(), catalog.options.table_roots(), &known).tell();

        self.replay.truncated = state.truncated_at.iter().map(|(id, at)| (*id, at.position)).collect();
        self.engine.writing.replay(&mut self.segments, Pass::Rest, &mut self.replay)?;
        self.replay.warn_of_unknown_tables();
        self.engine.writing.check_replayed_views()
    }

    fn open_tables(
        &mut self,
        schema: &Schema,
        wanted: impl Fn(&TableSchema) -> bool,
        start: LogPosition,
    ) -> Result<(), EngineError> {
        let engine = &self.engine;
        let catalog = &engine.catalog;
        let all = schema.keyspaces.values().flat_map(|k| k.stores().map(|t| (t, k.durable_writes)));
        let tables: Vec<_> = all.filter(|(table, _)| wanted(table)).collect();
        let found = tables
            .iter()
            .map(|(table, _)| catalog.files.survey(&catalog.table_dirs(table)))
            .collect::<Result<Vec<_>, _>>()?;
        let descriptors = tables.iter().zip(&found);
        let wanted = descriptors.flat_map(|((table, _), f)| f.sstables.iter().map(move |d| (d, *table)));
        let wanted: Vec<_> = wanted.collect();
        let tolerates = |table: &TableSchema| {
            catalog.options.tolerates_damaged_sstables && !system::is_local(&table.keyspace)
        };
        let goes_on = wanted.iter().any(|(_, table)| tolerates(table));
        let mut opened = catalog.files.try_open_many(&wanted, goes_on).into_iter();
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
            let store = catalog.add_table(table, *durable_writes, start, (mine, files.last_sequence));
            if let Some(cause) = damage {
                store.set_damaged(cause);
            }
            if catalog.options.proves_sstables && catalog.options.awaits_proofs {
                store.view().sstables.iter().for_each(|sstable| sstable.await_proof(true));
                if system::is_read_by_node(table) {
                    engine.background.prove_own(&store)?;
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
        let (env, options) = (&engine.catalog.env, &engine.catalog.options);
        for dir in options.table_roots().chain([&options.commitlog_dir]) {
            if !env.fs.exists(dir)? {
                env.fs.create_dir_all_durable(dir)?;
                engine.locks.lock().push(lock(env, dir)?);
            }
        }
        self.files.iter().try_for_each(|files| files.tidy_up(env.fs.as_ref()))?;
        let tables = engine.tables();
        engine.catalog.files.make_homes(tables.iter().flat_map(|table| table.homes()));
        engine.writing.finish_replay(&mut self.segments, &mut self.replay)?;
        for segment in self.segments.files() {
            let dirty = self.replay.dirty.remove(&segment.id).unwrap_or_default();
            let bytes = env.fs.file_len(&segment.path)?;
            engine.writing.log.adopt(segment.id, segment.path.clone(), bytes, dirty)?;
        }
        // Removes the segments that turned out to hold nothing that is needed.
        engine.writing.log.discard(Uuid::nil(), LogPosition::NONE);

        let engine = Arc::new(self.engine);
        engine.writing.log.start()?;
        if engine.writing.log.stats().segments > OLD_SEGMENTS_MAX {
            let written = engine.tables().into_iter().filter(|table| !table.view().memtable.is_empty());
            written.for_each(|table| engine.writing.workers.enqueue(&table));
        }
        engine.writing.workers.start(&engine.writing)?;
        engine
            .background
            .compactions
            .start(&engine.background, engine.catalog.options.concurrent_compactors)?;
        engine.background.filters.start(&engine.background)?;
        engine.intake.complete_system_keyspaces()?;
        Ok(engine)
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
