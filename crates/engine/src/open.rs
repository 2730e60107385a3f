//! Opening an engine.
//!
//! 1. Directories are made and locked.
//! 2. The tables of `system` and `system_schema` are opened; their definitions are built in.
//! 3. The commit log is replayed for those two keyspaces, so that the schema is known as of the last write.
//! 4. The schema is loaded and every other table is opened.
//! 5. The commit log is replayed for the rest. Segments stay until the memtables that took their writes are flushed;
//!    if one of them is torn that is at once, for the fences of this run would make the tear look like damage.
//! 6. What the built-in keyspaces lack on disk is written, and the node gets its host id if it has none.

use crate::cache::PageCache;
use crate::commitlog::replay::{self, ReplayReport, SegmentFile};
use crate::commitlog::{CommitLog, CommitLogOptions, IntervalSet, LogPosition};
use crate::compaction::Compactions;
use crate::engine::{Engine, Gate, Tables};
use crate::error::EngineError;
use crate::local::LocalState;
use crate::memory::MemoryBudget;
use crate::memtable::Memtable;
use crate::options::EngineOptions;
use crate::system::{self, SYSTEM, SYSTEM_SCHEMA};
use crate::table::{FileContext, TableStore};
use arc_swap::ArcSwap;
use env::Env;
use env::fs::FileLock;
use model::{Schema, TableSchema};
use parking_lot::{Mutex, RwLock};
use partition::codec::mutation::{MutationError, decode_mutation};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

const LOCK_FILE: &str = ".ilion.lock";
/// Segments of earlier runs that may stay after a start. More are flushed away behind it: a node that is killed again
/// and again would otherwise take longer to start each time.
const OLD_SEGMENTS_MAX: u64 = 1;

impl Engine {
    /// Opens the tables under the given directories, or makes them.
    ///
    /// # Errors
    /// When a setting cannot be, another process uses the directories, or what is there is damaged.
    pub fn open(options: EngineOptions, env: Env) -> Result<Arc<Engine>, EngineError> {
        options.validate().map_err(EngineError::Options)?;
        let mut locks = Vec::new();
        for dir in options.data_dirs.iter().chain([&options.commitlog_dir]) {
            env.fs.create_dir_all_durable(dir)?;
            locks.push(lock(&env, dir)?);
        }
        let segments = replay::list(&env, &options.commitlog_dir)?;
        let last_id = segments.last().map_or(0, |s| s.id);
        let log_options = CommitLogOptions {
            dir: options.commitlog_dir.clone(),
            sync: options.commitlog_sync,
            segment_bytes: options.commitlog_segment_bytes,
            policy: options.commit_failure_policy,
        };
        let cache = Arc::new(PageCache::new(options.page_cache_bytes));
        let files = FileContext {
            env: env.clone(),
            pages: cache.clone(),
            next_number: AtomicU64::new(1),
            uuid_ids: options.uuid_sstable_identifiers,
        };
        let rate = options.compaction_bytes_per_s;
        let compactions = Arc::new(Compactions::new(Arc::clone(&env.clock), rate));
        let mut engine = Engine {
            memory: MemoryBudget::new(options.memtable_bytes_max, options.write_wait_timeout_ms),
            log: Arc::new(CommitLog::new(env.clone(), log_options, last_id)),
            options,
            env,
            host_id: Uuid::nil(),
            schema: ArcSwap::from_pointee(system::schema().clone()),
            schema_turn: Mutex::new(()),
            schema_micros: AtomicI64::new(0),
            tables: ArcSwap::from_pointee(Tables::new()),
            barrier: RwLock::new(Gate::Open),
            workers: Arc::default(),
            compactions,
            cache,
            files,
            flushes: AtomicU64::new(0),
            flush_failures: AtomicU64::new(0),
            log_failures_seen: AtomicU64::new(0),
            schema_text: OnceLock::new(),
            locks: Mutex::new(locks),
        };
        engine.recover(&segments)?;
        let engine = Arc::new(engine);
        engine.log.start()?;
        if engine.log.stats().segments > OLD_SEGMENTS_MAX {
            let written = engine.tables().into_iter().filter(|table| !table.view().memtable.is_empty());
            written.for_each(|table| engine.workers.enqueue(&table));
        }
        engine.workers.start(&engine)?;
        engine.compactions.start(&engine, engine.options.concurrent_compactors)?;
        engine.complete_system_keyspaces()?;
        Ok(engine)
    }

    /// Steps 2 to 5.
    fn recover(&mut self, segments: &[SegmentFile]) -> Result<(), EngineError> {
        // A memtable that takes replayed writes says, once flushed, that nothing before its end need be replayed: its
        // start is the start of the log.
        let start = LogPosition { segment: segments.first().map_or(0, |s| s.id), offset: 0 };
        let local = |name: &&String| system::is_local(name);
        let builtin = system::schema();
        for keyspace in builtin.keyspaces.keys().filter(local) {
            for table in builtin.keyspaces.get(keyspace).into_iter().flat_map(|k| k.tables.values()) {
                self.open_table(table, true, start)?;
            }
        }
        let stored_id = self.read_local()?.host_id;
        let mut replay = Replay { trusted: stored_id, ..Replay::default() };
        self.replay(segments, true, &mut replay)?;

        let state = self.read_local()?;
        self.host_id = state.host_id.unwrap_or_else(|| self.env.random_uuid());
        let schema = self.load_schema()?;
        for keyspace in schema.keyspaces.values().filter(|k| !system::is_local(&k.name)) {
            for table in keyspace.tables.values() {
                self.open_table(table, keyspace.durable_writes, start)?;
            }
        }
        self.schema.store(Arc::new(schema));

        replay.truncated = state.truncated_at;
        let report = self.replay(segments, false, &mut replay)?;
        if let Some(last) = segments.last().filter(|_| report.torn + report.ignored > 0) {
            self.flush_replayed(LogPosition { segment: last.id, offset: u32::MAX }, &mut replay)?;
        }
        for segment in segments {
            let dirty = replay.dirty.remove(&segment.id).unwrap_or_default();
            let bytes = self.env.fs.file_len(&segment.path)?;
            self.log.adopt(segment.id, segment.path.clone(), bytes, dirty)?;
        }
        // Removes the segments that turned out to hold nothing that is needed.
        self.log.discard(Uuid::nil(), LogPosition::NONE);
        Ok(())
    }

    pub(crate) fn table_dirs(&self, table: &TableSchema) -> Vec<PathBuf> {
        let dirs = self.options.data_dirs.iter();
        dirs.map(|d| d.join(&table.keyspace).join(table.directory_name())).collect()
    }

    /// Opens a table's files and adds it to the tables.
    pub(crate) fn open_table(
        &self,
        table: &Arc<TableSchema>,
        durable_writes: bool,
        start: LogPosition,
    ) -> Result<(), EngineError> {
        let dirs = self.table_dirs(table);
        let memtable = Memtable::new(start, self.env.clock.monotonic_nanos());
        let sstables = self.files.open_all(&dirs)?;
        let store = TableStore::new(Arc::clone(table), durable_writes, dirs, memtable, sstables);
        let store = Arc::new(store);
        self.tables.rcu(|tables| {
            let mut tables = Tables::clone(tables);
            tables.insert(table.id, Arc::clone(&store));
            tables
        });
        Ok(())
    }

    fn replay(
        &self,
        segments: &[SegmentFile],
        local: bool,
        replay: &mut Replay,
    ) -> Result<ReplayReport, EngineError> {
        let tables = self.tables.load();
        let ignore = self.options.commitlog_ignore_replay_errors;
        let lookup = |id: Uuid| tables.get(&id).map(|t| t.schema());
        let mut skipped = 0u64;
        let report = replay::replay(&self.env, segments, ignore, |position, bytes| {
            let is_local = first_table(bytes)
                .and_then(lookup)
                .is_some_and(|t| t.keyspace == SYSTEM || t.keyspace == SYSTEM_SCHEMA);
            if is_local != local {
                return Ok(());
            }
            let mutation = match decode_mutation(bytes, &lookup) {
                Ok(mutation) => mutation,
                // A table that was dropped since.
                Err(MutationError::UnknownTable(_)) => return Ok(()),
                Err(error) if ignore => {
                    tracing::error!(?position, %error, "ignoring a mutation in the commit log");
                    return Ok(());
                }
                Err(error) => {
                    let found = segments.iter().find(|s| s.id == position.segment);
                    return Err(EngineError::CommitLog {
                        path: found.map(|s| s.path.clone()).unwrap_or_default(),
                        offset: u64::from(position.offset),
                        detail: format!("the mutation that ends here cannot be decoded: {error}"),
                    });
                }
            };
            for update in &mutation.updates {
                let id = update.table.id;
                let Some(table) = tables.get(&id) else { continue };
                if replay.is_kept_elsewhere(table, position) {
                    skipped += 1;
                    continue;
                }
                let grown = table.with_memtable(|memtable| memtable.apply(update));
                self.memory.add(grown);
                replay.dirty.entry(position.segment).or_default().insert(id, position.offset);
            }
            if self.memory.used() > self.cleanup_bytes() {
                self.flush_replayed(position, replay)?;
            }
            Ok(())
        })?;
        tracing::info!(?report, skipped, local, "commit log replayed");
        Ok(report)
    }
}

impl Engine {
    /// What was replayed up to `position` goes to SSTables that say so.
    fn flush_replayed(&self, position: LogPosition, replay: &mut Replay) -> Result<(), EngineError> {
        for table in self.tables() {
            let _turn = table.flush_turn.lock();
            self.switch_memtable_at(&table, position);
            self.write_flushing(&table)?;
        }
        replay.dirty.clear();
        Ok(())
    }
}

/// What a replay knows and finds.
#[derive(Default)]
struct Replay {
    /// The host id whose SSTables' intervals count.
    trusted: Option<Uuid>,
    truncated: HashMap<Uuid, LogPosition>,
    /// Positions that SSTables cover, by table; filled when a table is first met.
    covered: HashMap<Uuid, IntervalSet>,
    /// By segment, the last position of each table that went into a memtable.
    dirty: HashMap<i64, HashMap<Uuid, u32>>,
}

impl Replay {
    /// Whether the write is in an SSTable, or was truncated.
    fn is_kept_elsewhere(&mut self, table: &TableStore, position: LogPosition) -> bool {
        let id = table.schema().id;
        if self.truncated.get(&id).is_some_and(|until| position <= *until) {
            return true;
        }
        let trusted = self.trusted;
        self.covered.entry(id).or_insert_with(|| table.covered_log(trusted)).contains(position)
    }
}

/// The table of a serialized mutation's first update.
fn first_table(mutation: &[u8]) -> Option<Uuid> {
    let (_, len) = model::vint::read_unsigned(mutation)?;
    Uuid::from_slice(mutation.get(len..len + 16)?).ok()
}

fn lock(env: &Env, dir: &Path) -> Result<FileLock, EngineError> {
    let path = dir.join(LOCK_FILE);
    env.fs.lock_exclusive(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => EngineError::Locked { path },
        _ => error.into(),
    })
}

/// The stored schema, completed by what every node has.
pub(crate) fn with_system_keyspaces(mut stored: Schema) -> Schema {
    for (name, builtin) in &system::schema().keyspaces {
        let keyspace = match stored.keyspaces.get(name) {
            // Replication of the replicated ones is the operator's to change.
            Some(old) if !system::is_local(name) => {
                let mut keyspace = old.as_ref().clone();
                keyspace.tables.extend(builtin.tables.iter().map(|(n, t)| (n.clone(), Arc::clone(t))));
                keyspace
            }
            _ => builtin.as_ref().clone(),
        };
        stored.keyspaces.insert(name.clone(), Arc::new(keyspace));
    }
    stored
}

impl LocalState {
    /// Reads a value of `system.local.truncated_at`.
    pub(crate) fn truncation(value: &[u8]) -> Option<LogPosition> {
        let segment = i64::from_be_bytes(value.get(..8)?.try_into().ok()?);
        let offset = u32::from_be_bytes(value.get(8..12)?.try_into().ok()?);
        Some(LogPosition { segment, offset })
    }
}
