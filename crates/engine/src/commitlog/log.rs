//! The writer of the commit log.
//!
//! One lock orders the appends. A background loop syncs: it writes a fence, syncs closed segments and then
//! the current one, and settles everything appended before; it also makes the next segment ahead of time.
//!
//! A failed write of a section leaves nothing behind: its bytes are overwritten with zeroes before anything
//! else is appended, for replay must not meet half a section in front of data that was kept.

use super::format::{self, HEADER_BYTES, MARKER_BYTES};
use super::position::LogPosition;
use super::ticket::{Durability, SyncTicket};
use crate::error::WriteError;
use crate::options::{FailurePolicy, SyncMode};
use env::Env;
use env::background::{BackgroundLoop, Look};
use env::fs::{SyncFile, WriteFile};
use env::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use uuid::Uuid;

/// How often the sync thread looks around when nobody wakes it.
const IDLE_TICK_MS: u64 = 1_000;
/// How long the log waits to make a spare segment again when it could not.
const SPARE_REST_NANOS: u64 = 1_000_000_000;

/// Told of a failure after which the policy wants the server to act (`stop`, `die`).
pub type FailureHook = Box<dyn Fn(FailurePolicy, &io::Error) + Send + Sync>;

/// Settings of the log; see `EngineOptions` for their meaning.
#[derive(Clone, Debug)]
pub struct CommitLogOptions {
    /// Where the segments lie.
    pub dir: PathBuf,
    /// When a write counts as kept.
    pub sync: SyncMode,
    /// Bytes of a segment.
    pub segment_bytes: u64,
    /// What follows a failure.
    pub policy: FailurePolicy,
    /// Version of the segments.
    pub version: i32,
}

/// Numbers for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitLogStats {
    /// Segments on disk.
    pub segments: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// Mutations appended.
    pub appends: u64,
    /// Syncs that succeeded.
    pub syncs: u64,
    /// Syncs and writes that failed.
    pub failures: u64,
}

/// The commit log.
pub struct CommitLog {
    env: Env,
    options: CommitLogOptions,
    active: Mutex<Active>,
    durability: Arc<Durability>,
    /// Syncs, and makes segments ahead.
    syncing: Arc<BackgroundLoop>,
    /// Serializes syncs: the sync thread's and those of callers.
    sync_turn: Mutex<()>,
    stopped: OnceLock<Arc<io::Error>>,
    hook: OnceLock<FailureHook>,
    /// Monotonic time of the start of the last good sync.
    synced_nanos: AtomicU64,
    syncs: AtomicU64,
    failures: AtomicU64,
}

struct Active {
    current: Option<OpenSegment>,
    spare: Option<OpenSegment>,
    /// Until when (monotonic nanoseconds) no spare is tried after one could not be made.
    spare_rests_until: Option<u64>,
    /// Closed since the last good sync.
    unsynced: Vec<(i64, Arc<dyn SyncFile>)>,
    /// Every segment with its tables' last positions; the spare is not among them.
    segments: BTreeMap<i64, SegmentState>,
    /// Where the log ended when there is no current segment.
    end: LogPosition,
    appended: u64,
    /// Whether anything was appended after the last fence.
    after_fence: bool,
    next_id: i64,
}

struct OpenSegment {
    id: i64,
    file: Box<dyn WriteFile>,
    offset: u64,
    /// Bytes behind `offset` that a failed write may have touched and that must be zeroed first.
    spoilt: u64,
}

struct SegmentState {
    path: PathBuf,
    bytes: u64,
    dirty: BTreeMap<Uuid, u32>,
}

impl CommitLog {
    /// A log that continues behind the segments that are there, whose ids are at most `last_id`. Nothing is
    /// written before the first append; [`CommitLog::start`] starts the thread.
    pub fn new(env: Env, options: CommitLogOptions, last_id: i64) -> CommitLog {
        let next_id = env.clock.now_millis().max(last_id.saturating_add(1));
        let active = Active {
            current: None,
            spare: None,
            spare_rests_until: None,
            unsynced: Vec::new(),
            segments: BTreeMap::new(),
            end: LogPosition { segment: next_id - 1, offset: u32::MAX },
            appended: 0,
            after_fence: false,
            next_id,
        };
        CommitLog {
            synced_nanos: AtomicU64::new(env.clock.monotonic_nanos()),
            env,
            options,
            active: Mutex::new(active),
            durability: Arc::default(),
            syncing: Arc::default(),
            sync_turn: Mutex::new(()),
            stopped: OnceLock::new(),
            hook: OnceLock::new(),
            syncs: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// Starts the sync thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(self: &Arc<Self>) -> io::Result<()> {
        let tick = Duration::from_millis(match self.options.sync {
            SyncMode::Periodic { period_ms } => period_ms,
            SyncMode::Group { window_ms } => window_ms,
            SyncMode::Batch => IDLE_TICK_MS,
        });
        // It ends when the log is closed, which its last owner does.
        let log = Arc::downgrade(self);
        self.syncing.start(&self.env.tasks, ["commitlog-sync".to_owned()], tick, move || {
            let Some(log) = log.upgrade() else { return Look::End };
            log.sync();
            log.make_spare();
            Look::Again
        })
    }

    /// Sets who is told of failures that the policy wants the server to act on; the first call counts.
    pub fn on_failure(&self, hook: FailureHook) {
        let _ = self.hook.set(hook);
    }

    /// Takes over a segment of an earlier run, with the last position of each table whose writes it keeps.
    /// The next sync covers it, too: the earlier run may have been killed before it could, and the fences of
    /// this one speak for everything before them.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn adopt(&self, id: i64, path: PathBuf, bytes: u64, dirty: BTreeMap<Uuid, u32>) -> io::Result<()> {
        let file = self.env.fs.open_rw(&path)?.syncer();
        let mut active = self.active.lock();
        active.unsynced.push((id, file));
        active.segments.insert(id, SegmentState { path, bytes, dirty });
        Ok(())
    }

    /// Appends a section made by [`format::section`] that holds writes of `tables`; returns the position
    /// behind it and its number. It outlives the process from now on; [`CommitLog::ticket`] says when it is
    /// kept.
    ///
    /// # Errors
    /// When nothing was appended: the log is stopped, or the file system failed.
    pub fn append(
        &self,
        section: &mut [u8],
        tables: impl Iterator<Item = Uuid>,
    ) -> Result<(LogPosition, u64), WriteError> {
        let mut active = self.active.lock();
        if let Some(error) = self.stopped.get() {
            return Err(WriteError::CommitLogStopped(Arc::clone(error)));
        }
        let written = self
            .make_room(&mut active, section.len() as u64)
            .and_then(|()| write_section(&mut active, section));
        let position = match written {
            Ok(position) => position,
            Err(error) => {
                drop(active);
                return Err(WriteError::CommitLog(self.failed(error)));
            }
        };
        active.appended += 1;
        active.after_fence = true;
        let number = active.appended;
        if let Some(state) = active.segments.get_mut(&position.segment) {
            for table in tables {
                state.dirty.insert(table, position.offset);
            }
        }
        Ok((position, number))
    }

    /// When the append of that number counts as kept.
    pub fn ticket(&self, number: u64) -> SyncTicket {
        match self.options.sync {
            SyncMode::Periodic { period_ms } => {
                let since = self
                    .env
                    .clock
                    .monotonic_nanos()
                    .saturating_sub(self.synced_nanos.load(Ordering::Relaxed));
                if since <= period_ms.saturating_mul(1_500_000) {
                    return SyncTicket::ready();
                }
                // A sync that is under way may have begun before this append; the next is a period away.
                self.syncing.nudge_one();
            }
            SyncMode::Batch => self.syncing.nudge_one(),
            SyncMode::Group { .. } => {}
        }
        SyncTicket::waits(number, Arc::clone(&self.durability))
    }

    /// Where the log ends now: every append so far lies at or before it.
    pub fn position(&self) -> LogPosition {
        let active = self.active.lock();
        active.current.as_ref().map_or(active.end, OpenSegment::position)
    }

    /// Forgets that `table` has writes at or before `end`, and removes segments that nobody needs any more.
    pub fn discard(&self, table: Uuid, end: LogPosition) {
        self.forget(|id, dirty| {
            if dirty.get(&table).is_some_and(|last| LogPosition { segment: id, offset: *last } <= end) {
                dirty.remove(&table);
            }
        });
    }

    /// Forgets all writes of `table`.
    pub fn discard_table(&self, table: Uuid) {
        self.forget(|_, dirty| {
            dirty.remove(&table);
        });
    }

    fn forget(&self, mut change: impl FnMut(i64, &mut BTreeMap<Uuid, u32>)) {
        let mut active = self.active.lock();
        let Active { segments, current, .. } = &mut *active;
        for (id, state) in segments.iter_mut() {
            change(*id, &mut state.dirty);
        }
        let current = current.as_ref().map(|s| s.id);
        let mut gone = Vec::new();
        segments.retain(|id, state| {
            let keep = Some(*id) == current || !state.dirty.is_empty();
            if !keep {
                gone.push(std::mem::take(&mut state.path));
            }
            keep
        });
        // The next sync covers them all the same: until the removal is durable they may come back, and the
        // fences behind them say that they are whole.
        drop(active);
        self.remove(gone);
    }

    fn remove(&self, paths: Vec<PathBuf>) {
        if paths.is_empty() {
            return;
        }
        let remove = || {
            paths.iter().try_for_each(|path| self.env.fs.remove_file(path))?;
            self.env.fs.sync_dir(&self.options.dir)
        };
        if let Err(error) = remove() {
            // What stays is replayed once more, and the intervals in the SSTables leave it out.
            tracing::warn!(%error, "a commit log segment could not be removed");
        }
    }

    /// Tables that have writes in the oldest segment, when all segments take more than `bytes_max`.
    pub fn tables_to_flush(&self, bytes_max: u64) -> Vec<Uuid> {
        let active = self.active.lock();
        let total: u64 = active.segments.values().map(|s| s.bytes).sum();
        if total <= bytes_max {
            return Vec::new();
        }
        active.segments.values().next().map_or_else(Vec::new, |s| s.dirty.keys().copied().collect())
    }

    /// Numbers for metrics.
    pub fn stats(&self) -> CommitLogStats {
        let active = self.active.lock();
        CommitLogStats {
            segments: active.segments.len() as u64,
            bytes: active.segments.values().map(|s| s.bytes).sum(),
            appends: active.appended,
            syncs: self.syncs.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// Ends the current segment and removes every segment: all memtables are on disk and no write will come.
    pub fn discard_all(&self) {
        let mut active = self.active.lock();
        if let Some(current) = active.current.take() {
            active.end = current.position();
        }
        let spare = active.spare.take().map(|s| s.file.path().to_owned());
        active.unsynced.clear();
        let segments = std::mem::take(&mut active.segments);
        drop(active);
        self.remove(segments.into_values().map(|s| s.path).chain(spare).collect());
    }

    /// Syncs what is there, ends the thread, and fails whoever still waits.
    pub fn close(&self) {
        self.syncing.stop();
        self.sync();
        let appended = self.active.lock().appended;
        self.durability.settle(appended, Err(Arc::new(io::Error::other("the commit log is closed"))));
    }

    /// Counts a failure and acts on the policy; returns the error to hand to writers.
    fn failed(&self, error: io::Error) -> Arc<io::Error> {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::error!(%error, "the commit log failed");
        let error = Arc::new(error);
        // A full disk heals by itself; nothing that was acknowledged is in doubt.
        if !env::fs::is_out_of_space(&error) && self.options.policy != FailurePolicy::Ignore {
            let _ = self.stopped.set(Arc::clone(&error));
            if let Some(hook) = self.hook.get() {
                hook(self.options.policy, &error);
            }
        }
        error
    }

    /// Makes the current segment one that has room for `bytes` more.
    fn make_room(&self, active: &mut Active, bytes: u64) -> io::Result<()> {
        if let Some(current) = &mut active.current {
            current.repair()?;
            if current.offset + bytes <= self.options.segment_bytes {
                return Ok(());
            }
        }
        let next = match active.spare.take() {
            Some(spare) => spare,
            None => {
                let id = active.next_id;
                let segment = self.create(id)?;
                active.next_id = id + 1;
                segment
            }
        };
        close_current(active);
        let state = SegmentState {
            path: next.file.path().to_owned(),
            bytes: self.options.segment_bytes,
            dirty: BTreeMap::new(),
        };
        active.segments.insert(next.id, state);
        active.current = Some(next);
        self.syncing.nudge_one();
        Ok(())
    }

    /// Makes a segment whose header, size and name are durable.
    fn create(&self, id: i64) -> io::Result<OpenSegment> {
        let path = self.options.dir.join(format::file_name(self.options.version, id));
        let make = || {
            let mut file = self.env.fs.create(&path)?;
            file.allocate(self.options.segment_bytes)?;
            file.write_at(0, &format::header(self.options.version, id))?;
            file.sync_data()?;
            self.env.fs.sync_dir(&self.options.dir)?;
            Ok(OpenSegment { id, file, offset: HEADER_BYTES as u64, spoilt: 0 })
        };
        make().inspect_err(|_: &io::Error| {
            // Half a segment is of no use; a later one of this name would replace it anyway.
            let _ = self.env.fs.remove_file(&path);
        })
    }

    /// Makes the next segment if there is none yet. After a failure it rests: the disk may be full for long,
    /// and every sync comes by here; writers in need make one themselves.
    fn make_spare(&self) {
        let now = self.env.clock.monotonic_nanos();
        let id = {
            let mut active = self.active.lock();
            if active.spare.is_some() || active.current.is_none() || self.stopped.get().is_some() {
                return;
            }
            if active.spare_rests_until.is_some_and(|until| now < until) {
                return;
            }
            let id = active.next_id;
            active.next_id += 1;
            id
        };
        match self.create(id) {
            Ok(segment) => {
                let mut active = self.active.lock();
                active.spare_rests_until = None;
                // A writer in need may have made a later one meanwhile; ids must not go back.
                let late = active.current.as_ref().is_none_or(|c| c.id > id) || active.spare.is_some();
                if late {
                    let path = segment.file.path().to_owned();
                    drop(active);
                    self.remove(vec![path]);
                } else {
                    active.spare = Some(segment);
                }
            }
            Err(error) => {
                if self.active.lock().spare_rests_until.replace(now + SPARE_REST_NANOS).is_none() {
                    tracing::warn!(%error, "no commit log segment could be made ahead, which is tried again until there is one");
                }
            }
        }
    }

    /// Whether the next segment is there already.
    #[cfg(test)]
    pub(super) fn has_spare(&self) -> bool {
        self.active.lock().spare.is_some()
    }

    /// Syncs everything appended so far and settles who waits for it.
    pub fn sync(&self) {
        let _turn = self.sync_turn.lock();
        let started = self.env.clock.monotonic_nanos();
        let (number, fenced, unsynced, current) = {
            let mut active = self.active.lock();
            if !active.after_fence && active.unsynced.is_empty() {
                self.synced_nanos.store(started, Ordering::Relaxed);
                return;
            }
            let fenced = write_fence(&mut active, self.options.segment_bytes);
            let current = active.current.as_ref().map(|s| (s.id, s.file.syncer()));
            (active.appended, fenced, active.unsynced.clone(), current)
        };
        let synced = fenced.and_then(|()| {
            unsynced.iter().chain(current.as_ref()).try_for_each(|(_, file)| file.sync_data())
        });
        match synced {
            Ok(()) => {
                let mut active = self.active.lock();
                active.unsynced.retain(|(id, _)| !unsynced.iter().any(|(done, _)| done == id));
                // With nothing behind the first fence the second can follow at once.
                if active.appended == number
                    && let Err(error) = write_fence(&mut active, self.options.segment_bytes)
                {
                    tracing::warn!(%error, "a commit log fence could not be written");
                }
                drop(active);
                self.syncs.fetch_add(1, Ordering::Relaxed);
                self.synced_nanos.store(started, Ordering::Relaxed);
                self.durability.settle(number, Ok(()));
            }
            Err(error) => {
                {
                    // What this segment holds may be lost even if a later sync succeeds, so nothing is added
                    // to it, and what is already there is not synced again.
                    let mut active = self.active.lock();
                    if active.current.as_ref().map(|s| s.id) == current.as_ref().map(|(id, _)| *id) {
                        close_current(&mut active);
                    }
                    active.unsynced.clear();
                    active.after_fence = false;
                }
                let error = self.failed(error);
                self.durability.settle(number, Err(error));
            }
        }
    }
}

impl OpenSegment {
    fn position(&self) -> LogPosition {
        LogPosition { segment: self.id, offset: self.offset as u32 }
    }

    /// Overwrites what a failed write left.
    fn repair(&mut self) -> io::Result<()> {
        if self.spoilt > 0 {
            self.file.write_at(self.offset, &vec![0; self.spoilt as usize])?;
            self.spoilt = 0;
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(self.offset, bytes).inspect_err(|_| self.spoilt = bytes.len() as u64)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

fn close_current(active: &mut Active) {
    if let Some(old) = active.current.take() {
        active.end = old.position();
        active.unsynced.push((old.id, old.file.syncer()));
    }
}

fn write_section(active: &mut Active, section: &mut [u8]) -> io::Result<LogPosition> {
    let current = active.current.as_mut().ok_or_else(|| io::Error::other("no current segment"))?;
    format::place_section(section, current.id, current.offset as u32);
    current.write(section)?;
    Ok(current.position())
}

/// Writes a fence where there is room for one.
fn write_fence(active: &mut Active, segment_bytes: u64) -> io::Result<()> {
    active.after_fence = false;
    let Some(current) = &mut active.current else { return Ok(()) };
    current.repair()?;
    let end = current.offset + MARKER_BYTES as u64;
    if end > segment_bytes {
        return Ok(());
    }
    let fence = format::marker(current.id, current.offset as u32, end as u32);
    current.write(&fence)
}
