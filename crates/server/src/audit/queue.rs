//! A bounded queue in front of the files of a log, and the thread that empties it.
//!
//! ```text
//! requests ── push ──> queue (max_queue_weight) ──> writer thread ── encode, append ──> files
//!              │ full                                  │ refused by the file system: tried again
//!              └> dropped and counted                  └> the queue fills up
//! ```
//! 1. With `block`, a request waits for room before it is carried out ([`BinLog::room`]), for at most
//!    [`WAIT_MAX`]. Where one has waited in vain no other waits, until something is written again: a
//!    directory that is stuck delays each client once.
//! 2. What was let in before pushes without waiting, so the queue may have as much again. Beyond that,
//!    and without `block` beyond `max_queue_weight`, entries are dropped, counted and told of.
//! 3. A write that fails is tried again each [`RETRY_INTERVAL`]; its entries stay in the queue.
//! 4. Entries are encoded by the writer: who pushes pays for a lock and a move.
//! 5. A stop writes what is there, and waits for that for at most [`STOP_MAX`].

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::Env;
use env::sync::{Condvar, Mutex};
use tokio::sync::Notify;

use super::files::{Naming, RolledFiles};
use super::roll::RollCycle;
use crate::metrics::Counter;

/// How long a request waits for room.
pub const WAIT_MAX: Duration = Duration::from_secs(1);
/// How long a stop waits for what is in the queue.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How long after a failed write the next one is tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Weight of what is written at once, at most, and no more than an eighth of what all files may have.
const CHUNK_BYTES: u64 = 1 << 20;
/// How often the node's log tells of losses.
const TELL_INTERVAL_NANOS: u64 = 10_000_000_000;

/// What a log of requests is given, under the names of cassandra.yaml.
#[derive(Clone, Debug, PartialEq)]
pub struct LogOptions {
    /// How long one file is written.
    pub roll_cycle: RollCycle,
    /// Whether requests wait while the queue is full, rather than losing their entries at once.
    pub block: bool,
    /// Bytes of entries that wait to be written.
    pub max_queue_weight: u64,
    /// Bytes of all files.
    pub max_log_size: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            roll_cycle: RollCycle::default(),
            block: true,
            max_queue_weight: 256 << 20,
            max_log_size: 16 << 30,
        }
    }
}

/// What is counted of a log, whether or not it is on.
#[derive(Debug, Default)]
pub struct LogCounts {
    /// Entries that are in files.
    pub written: Counter,
    /// Entries that were dropped because the queue was full or the log ended.
    pub dropped: Counter,
    /// Writes that failed, and were tried again.
    pub failures: Counter,
    /// Requests that waited for room.
    pub waits: Counter,
    told_nanos: AtomicU64,
}

/// Appends the bytes of an entry.
type Encode<R> = dyn Fn(&R, &mut Vec<u8>) + Send + Sync;

/// How a log is written.
pub(super) struct Form<R> {
    /// What the node's log calls it.
    pub(super) what: &'static str,
    /// How its files are called.
    pub(super) naming: Naming,
    /// Written before each file.
    pub(super) head: &'static [u8],
    /// How an entry becomes bytes.
    pub(super) encode: Box<Encode<R>>,
}

/// A log that is on.
pub(super) struct BinLog<R> {
    shared: Arc<Shared<R>>,
}

struct Shared<R> {
    env: Env,
    what: &'static str,
    options: LogOptions,
    counts: Arc<LogCounts>,
    queue: Mutex<Queue<R>>,
    /// Entries came, or the log ends.
    came: Condvar,
    /// The writer has ended.
    ended: Condvar,
    /// Weight of the queue, for a look.
    weight: AtomicU64,
    room: Notify,
    /// Whether a request has waited in vain since something was written.
    is_stuck: AtomicBool,
}

struct Queue<R> {
    records: VecDeque<(u64, R)>,
    /// Of them, and of those that are being written.
    weight: u64,
    is_stopping: bool,
    has_ended: bool,
}

impl<R: Send + 'static> BinLog<R> {
    /// Opens the files and starts the writer.
    ///
    /// # Errors
    /// When the directory cannot be used.
    pub(super) fn open(
        env: &Env,
        directory: PathBuf,
        options: &LogOptions,
        form: Form<R>,
        counts: &Arc<LogCounts>,
    ) -> io::Result<BinLog<R>> {
        let Form { what, naming, head, encode } = form;
        let place = (directory, naming);
        let files = RolledFiles::open(env, place, options.roll_cycle, options.max_log_size, head)?;
        let shared = Arc::new(Shared {
            env: env.clone(),
            what,
            options: options.clone(),
            counts: Arc::clone(counts),
            queue: Mutex::new(Queue {
                records: VecDeque::new(),
                weight: 0,
                is_stopping: false,
                has_ended: false,
            }),
            came: Condvar::new(),
            ended: Condvar::new(),
            weight: AtomicU64::new(0),
            room: Notify::new(),
            is_stuck: AtomicBool::new(false),
        });
        let writer = Arc::clone(&shared);
        env.tasks.spawn(format!("ilion-{}", naming.prefix), move || writer.write(files, &*encode))?;
        Ok(BinLog { shared })
    }

    /// Whether a request has to wait for room.
    pub(super) fn is_full(&self) -> bool {
        let shared = &self.shared;
        shared.options.block
            && shared.weight.load(Ordering::Acquire) >= shared.options.max_queue_weight
            && !shared.is_stuck.load(Ordering::Acquire)
    }

    /// Waits for room, for at most [`WAIT_MAX`].
    pub(super) async fn room(&self) {
        let shared = &self.shared;
        shared.counts.waits.add(1);
        let freed = async {
            loop {
                let freed = shared.room.notified();
                if !self.is_full() {
                    return;
                }
                freed.await;
            }
        };
        if shared.env.tasks.timeout(WAIT_MAX, freed).await.is_err()
            && !shared.is_stuck.swap(true, Ordering::AcqRel)
        {
            tracing::error!(log = shared.what, "a log is not written; requests go on without it");
            shared.room.notify_waiters();
        }
    }

    /// Has an entry written. One for which there is no room is dropped and counted.
    pub(super) fn push(&self, record: R, weight: u64) {
        let shared = &self.shared;
        let mut queue = shared.queue.lock();
        let weight_max = match shared.options.block {
            true => shared.options.max_queue_weight.saturating_mul(2),
            false => shared.options.max_queue_weight,
        };
        if queue.is_stopping || queue.weight.saturating_add(weight) > weight_max {
            drop(queue);
            return shared.drop_entries(1);
        }
        queue.weight += weight;
        shared.weight.store(queue.weight, Ordering::Release);
        queue.records.push_back((weight, record));
        drop(queue);
        shared.came.notify_one();
    }

    /// Counts an entry that cannot be written.
    pub(super) fn drop_one(&self) {
        self.shared.drop_entries(1);
    }

    /// Ends the log: what is in the queue is written, if that is possible in time. May block.
    pub(super) fn stop(&self) {
        let shared = &self.shared;
        let mut queue = shared.queue.lock();
        queue.is_stopping = true;
        shared.came.notify_all();
        if !shared.ended.wait_while_for(&mut queue, |queue| !queue.has_ended, STOP_MAX) {
            let left = queue.records.len() as u64;
            queue.records.clear();
            drop(queue);
            tracing::error!(
                log = shared.what,
                left,
                "a log is not written, and ends without its last entries"
            );
            shared.drop_entries(left);
        }
    }
}

impl<R> Drop for BinLog<R> {
    fn drop(&mut self) {
        self.shared.queue.lock().is_stopping = true;
        self.shared.came.notify_all();
    }
}

impl<R> Shared<R> {
    /// The writer's life.
    fn write(&self, mut files: RolledFiles, encode: &dyn Fn(&R, &mut Vec<u8>)) {
        let mut bytes = Vec::new();
        while let Some((records, weight)) = self.next() {
            bytes.clear();
            records.iter().for_each(|record| encode(record, &mut bytes));
            let count = records.len() as u64;
            drop(records);
            match self.append(&mut files, &bytes) {
                true => self.counts.written.add(count),
                false => self.drop_entries(count),
            }
            // Memory of one large entry is not kept.
            bytes.shrink_to(2 * CHUNK_BYTES as usize);
            let mut queue = self.queue.lock();
            queue.weight = queue.weight.saturating_sub(weight);
            self.weight.store(queue.weight, Ordering::Release);
            drop(queue);
            self.is_stuck.store(false, Ordering::Release);
            self.room.notify_waiters();
        }
        files.end();
        self.queue.lock().has_ended = true;
        self.ended.notify_all();
    }

    /// Waits for entries and takes some, with their weight; `None` at the end.
    fn next(&self) -> Option<(Vec<R>, u64)> {
        let mut queue = self.queue.lock();
        while queue.records.is_empty() {
            if queue.is_stopping {
                return None;
            }
            self.came.wait(&mut queue);
        }
        let chunk_bytes = CHUNK_BYTES.min(self.options.max_log_size / 8).max(1);
        let (mut records, mut taken) = (Vec::new(), 0);
        while taken < chunk_bytes
            && let Some((weight, record)) = queue.records.pop_front()
        {
            records.push(record);
            taken += weight;
        }
        Some((records, taken))
    }

    /// Appends bytes, as often as it takes; `false` if the log ends before that.
    fn append(&self, files: &mut RolledFiles, bytes: &[u8]) -> bool {
        let mut has_failed = false;
        loop {
            match files.append(bytes) {
                Ok(()) => {
                    if has_failed {
                        tracing::info!(log = self.what, "a log is written again");
                    }
                    return true;
                }
                Err(error) => {
                    self.counts.failures.add(1);
                    if !has_failed {
                        tracing::error!(log = self.what, %error, "a log cannot be written; it is tried again");
                    }
                    has_failed = true;
                }
            }
            let mut queue = self.queue.lock();
            if queue.is_stopping {
                return false;
            }
            self.came.wait_while_for(&mut queue, |queue| !queue.is_stopping, RETRY_INTERVAL);
        }
    }

    fn drop_entries(&self, count: u64) {
        if count == 0 {
            return;
        }
        self.counts.dropped.add(count);
        let now = self.env.clock.monotonic_nanos().max(1);
        let told = self.counts.told_nanos.load(Ordering::Relaxed);
        let is_due = told == 0 || now.saturating_sub(told) >= TELL_INTERVAL_NANOS;
        let told_here =
            self.counts.told_nanos.compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed);
        if is_due && told_here.is_ok() {
            tracing::error!(
                log = self.what,
                dropped = self.counts.dropped.get(),
                "entries of a log were dropped; this is their number since the start"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::files::{contents, world};
    use env::fs::faulty::{FaultyFileSystem, Op};

    const NAMING: Naming = Naming { prefix: "audit", extension: "log" };

    fn open(env: &Env, options: &LogOptions) -> (BinLog<String>, Arc<LogCounts>) {
        let counts = Arc::new(LogCounts::default());
        let encode = |text: &String, out: &mut Vec<u8>| out.extend_from_slice(text.as_bytes());
        let form = Form { what: "test", naming: NAMING, head: b"", encode: Box::new(encode) };
        (BinLog::open(env, "/log".into(), options, form, &counts).unwrap(), counts)
    }

    fn text(env: &Env) -> String {
        contents(env, "/log", NAMING).into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn entries_are_written_in_their_order_before_a_stop_returns() {
        let (env, _) = world();
        let (log, counts) = open(&env, &LogOptions::default());
        let entries: Vec<String> = (0..1_000).map(|at| format!("{at}\n")).collect();
        entries.iter().for_each(|entry| log.push(entry.clone(), 8));
        log.stop();
        assert_eq!(text(&env), entries.concat());
        assert_eq!((counts.written.get(), counts.dropped.get()), (1_000, 0));
        log.push("late".to_owned(), 8);
        assert_eq!(counts.dropped.get(), 1);
    }

    /// A world whose log cannot be written until it is released.
    fn stuck() -> (Env, Env, FaultyFileSystem) {
        let (plain, _) = world();
        let faulty = FaultyFileSystem::new(Arc::clone(&plain.fs));
        let env = plain.with_fs(Arc::new(faulty.clone()));
        (plain, env, faulty)
    }

    #[test]
    fn what_has_no_room_is_dropped_and_counted() {
        let (plain, env, faulty) = stuck();
        let options = LogOptions { block: false, max_queue_weight: 100, ..LogOptions::default() };
        let (log, counts) = open(&env, &options);
        faulty.hold(Op::Flush, "/log");
        (0..10).for_each(|at| log.push(format!("{at}"), 30));
        assert_eq!(counts.dropped.get(), 7);
        assert!(!log.is_full(), "nobody waits without block");
        faulty.release();
        log.stop();
        assert_eq!(text(&plain), "012");
    }

    #[test]
    fn a_request_waits_for_room_and_no_longer_than_its_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(async {
            let (_, env, faulty) = stuck();
            let options = LogOptions { max_queue_weight: 100, ..LogOptions::default() };
            let (log, counts) = open(&env, &options);
            faulty.hold(Op::Flush, "/log");
            (0..10).for_each(|at| log.push(format!("{at}"), 30));
            // As much again for what was let in before.
            assert_eq!(counts.dropped.get(), 4);
            assert!(log.is_full());
            log.room().await;
            assert!(!log.is_full(), "nobody else waits");
            faulty.release();
            log.stop();
            assert!(!log.is_full());
            assert_eq!(counts.waits.get(), 1);
        });
    }

    #[test]
    fn a_failed_write_is_tried_again() {
        let (plain, env, faulty) = stuck();
        let (log, counts) = open(&env, &LogOptions::default());
        faulty.add(env::fs::faulty::Fault::on(Op::Write).no_space().times(2));
        log.push("kept".to_owned(), 8);
        while counts.written.get() == 0 {
            env::tasks::yield_now();
        }
        log.stop();
        assert_eq!(text(&plain), "kept");
        assert_eq!((counts.failures.get(), counts.dropped.get()), (2, 0));
    }
}
