//! The bulk reads of a node: how fast they may go, which are under way, what they came to.
//!
//! Every table that is scanned for somebody outside goes through [`Work::watch`]. Scans then share one limit
//! of bytes a second, and are seen while they run.

use crate::{BATCH_BYTES_MAX, Batches, BulkError, Cancel, Loss, Pace, ScanCounts, ScanRequest, Split, Table};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use engine::Throttle;
use engine::turns::rest;
use env::Env;
use env::sync::Mutex;
use model::TableSchema;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that a scan goes over within a batch until it asks how fast it may go. A scan that finds its rows
/// has a batch before, and pays once for it: who waits twice has its first rows late.
const PACE_BYTES: u64 = BATCH_BYTES_MAX;

/// What all bulk reads of a node share.
pub struct Work {
    env: Env,
    throttle: Throttle,
    next: AtomicU64,
    running: Mutex<BTreeMap<u64, Arc<Running>>>,
    scans: AtomicU64,
    failures: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
}

/// One scan of one split.
#[derive(Debug)]
struct Running {
    keyspace: String,
    table: String,
    asked_by: String,
    split: Split,
    started_nanos: u64,
    rows: AtomicU64,
    bytes: AtomicU64,
}

/// A scan that is under way.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningScan {
    /// Its number; later ones have greater numbers.
    pub id: u64,
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// By which way it was asked for.
    pub asked_by: String,
    /// Its split.
    pub split: Split,
    /// Seconds since it began.
    pub seconds: f64,
    /// Rows so far.
    pub rows: u64,
    /// About how many bytes of SSTables it has gone over so far, before compression.
    pub bytes: u64,
}

/// What the bulk reads of a node came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkStats {
    /// Scans of splits that began, since the start of the node.
    pub scans: u64,
    /// Those that ended with an error.
    pub failures: u64,
    /// Rows.
    pub rows: u64,
    /// About how many bytes of SSTables were gone over, before compression.
    pub bytes: u64,
    /// Bytes a second that all of them may take; 0 for no limit.
    pub bytes_per_s: u64,
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Work {
    /// None so far. They may take so many bytes a second, 0 for no limit.
    pub fn new(env: Env, bytes_per_s: u64) -> Work {
        Work {
            throttle: Throttle::new(Arc::clone(&env.clock), bytes_per_s),
            env,
            next: AtomicU64::new(1),
            running: Mutex::new(BTreeMap::new()),
            scans: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Sets the bytes a second, 0 for no limit; scans under way keep to it from their next batch on.
    pub fn set_bytes_per_s(&self, bytes_per_s: u64) {
        self.throttle.set_rate(bytes_per_s);
    }

    /// Ends what is under way, and whatever begins later.
    pub fn stop(&self) {
        self.throttle.stop();
    }

    /// What they came to.
    pub fn stats(&self) -> WorkStats {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        WorkStats {
            scans: of(&self.scans),
            failures: of(&self.failures),
            rows: of(&self.rows),
            bytes: of(&self.bytes),
            bytes_per_s: self.throttle.rate(),
        }
    }

    /// The scans that are under way, oldest first.
    pub fn running(&self) -> Vec<RunningScan> {
        let now = self.env.clock.monotonic_nanos();
        let running = self.running.lock();
        let of = |(id, scan): (&u64, &Arc<Running>)| RunningScan {
            id: *id,
            keyspace: scan.keyspace.clone(),
            table: scan.table.clone(),
            asked_by: scan.asked_by.clone(),
            split: scan.split.clone(),
            seconds: now.saturating_sub(scan.started_nanos) as f64 / 1e9,
            rows: scan.rows.load(Ordering::Relaxed),
            bytes: scan.bytes.load(Ordering::Relaxed),
        };
        running.iter().map(of).collect()
    }

    /// The same table, whose scans are watched.
    pub fn watch(self: &Arc<Self>, table: Arc<dyn Table>, asked_by: &str) -> Arc<dyn Table> {
        Arc::new(WatchedTable { work: Arc::clone(self), table, asked_by: asked_by.to_owned() })
    }
}

#[derive(Debug)]
struct WatchedTable {
    work: Arc<Work>,
    table: Arc<dyn Table>,
    asked_by: String,
}

impl Table for WatchedTable {
    fn definition(&self) -> &Arc<TableSchema> {
        self.table.definition()
    }

    fn files(&self) -> Vec<(String, u64)> {
        self.table.files()
    }

    fn data_bytes(&self) -> Result<u64, BulkError> {
        self.table.data_bytes()
    }

    fn known_rows(&self) -> Result<Option<u64>, BulkError> {
        self.table.known_rows()
    }

    fn splits(&self, request: &ScanRequest, parts: u64) -> Result<Vec<Split>, BulkError> {
        self.table.splits(request, parts)
    }

    fn scan(&self, request: &ScanRequest, split: &Split) -> Result<Box<dyn Batches>, BulkError> {
        let definition = self.definition();
        let running = Arc::new(Running {
            keyspace: definition.keyspace.clone(),
            table: definition.name.clone(),
            asked_by: self.asked_by.clone(),
            split: split.clone(),
            started_nanos: self.work.env.clock.monotonic_nanos(),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
        let id = self.work.next.fetch_add(1, Ordering::Relaxed);
        self.work.running.lock().insert(id, Arc::clone(&running));
        self.work.scans.fetch_add(1, Ordering::Relaxed);
        let (cancel, work) = (request.cancel.clone(), Arc::downgrade(&self.work));
        cancel.on_cancel(move || {
            if let Some(work) = work.upgrade() {
                work.throttle.look();
            }
        });
        let watching = Arc::new(Watching { work: Arc::clone(&self.work), id, running, cancel });
        // What still reads ahead does not keep it among those that are under way.
        let weak = Arc::downgrade(&watching);
        let pace = Pace::new(move |bytes| weak.upgrade().is_none_or(|watching| watching.goes_on(bytes)));
        let request = ScanRequest { pace: Some(pace), ..request.clone() };
        let batches = self.table.scan(&request, split)?;
        Ok(Box::new(Watched { watching, batches }))
    }
}

/// A scan that keeps to the limit, and is counted, until this is dropped.
struct Watching {
    work: Arc<Work>,
    id: u64,
    running: Arc<Running>,
    cancel: Cancel,
}

impl Watching {
    /// On the way, between pages, where a scan rests while somebody reads by CQL. One whose filter finds
    /// nothing keeps to the limit, too.
    fn goes_on(&self, bytes: u64) -> bool {
        rest();
        let paid = self.running.bytes.load(Ordering::Relaxed);
        bytes < paid.saturating_add(PACE_BYTES) || self.pay(bytes)
    }

    /// Pays for the bytes so far, and waits until they are earned; false if the scan is to end.
    fn pay(&self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.running.bytes.fetch_max(bytes, Ordering::Relaxed));
        self.work.bytes.fetch_add(more, Ordering::Relaxed);
        self.work.throttle.spend(more, || self.cancel.is_cancelled()).is_ok()
    }
}

/// Its batches.
struct Watched {
    watching: Arc<Watching>,
    batches: Box<dyn Batches>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.work.running.lock().remove(&self.id);
    }
}

impl Batches for Watched {
    fn schema(&self) -> &SchemaRef {
        self.batches.schema()
    }

    fn counts(&self) -> ScanCounts {
        self.batches.counts()
    }

    fn bytes_done(&self) -> u64 {
        self.batches.bytes_done()
    }

    fn losses(&self) -> &[Loss] {
        self.batches.losses()
    }
}

impl Iterator for Watched {
    type Item = Result<RecordBatch, BulkError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.batches.next();
        let Watching { work, running, cancel, .. } = self.watching.as_ref();
        match &next {
            Some(Ok(batch)) => {
                running.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                work.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            }
            // That it is not wanted is no failure of it.
            Some(Err(BulkError::Cancelled)) => return next,
            Some(Err(_)) => {
                work.failures.fetch_add(1, Ordering::Relaxed);
            }
            None => {}
        }
        // What was read is paid for before it is handed on: the last batch of a split, too.
        if !self.watching.pay(self.batches.bytes_done()) {
            let is_cancelled = cancel.is_cancelled();
            return Some(Err(if is_cancelled { BulkError::Cancelled } else { BulkError::ShutDown }));
        }
        next
    }
}
