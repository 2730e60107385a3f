//! SSTables of which nobody knows yet whether Data.db is the file that was written, read once.
//!
//! What Cassandra writes has no Proof.db: the places of its chunks are not known, and only Digest.crc32 tells
//! when two changed places (docs/formats/proof.md).
//!
//! 1. The thread looks for such SSTables when the node starts, when SSTables were loaded, and now and then
//!    besides.
//! 2. One at a time is read ([`SsTable::prove`]), around all caches, in short turns and at a pace of its own;
//!    with compactions it pauses. Before anybody is served it reads as fast as it can, and they wait for it a
//!    little.
//! 3. Of a sound one Proof.db is written, under the lock of the table's view and only while it is part of the
//!    table: who records what goes with an SSTable finds either all files or those of before.
//! 4. A damaged one is told as a failure of the disk. Reads of it fail from then on, what was cached of it is
//!    forgotten, and compactions leave it alone. A mark is left in the place of Proof.db: after a restart
//!    reads go on to fail until it was compared again, and such SSTables come first.
//!
//! Reads may have to wait for the comparison, which then comes before all others
//! ([`crate::background::demands`]). What the node itself reads of its own tables is compared when they are
//! opened ([`Background::prove_own`]), and its Proof.db is written when the thread looks first.
//!
//! In the same pass it describes the rows of large partitions as in files of the node's own, for reads of
//! them to cost the same (adoption, [`sstable::Adoption`]). While anybody waits it only compares; what is
//! still to be described is read once more when nobody does.
//!
//! A compaction proves its inputs before it reads them: what it writes has a proof of its own, which must not
//! be one of damage. What comes into a table while the node runs ([`Background::prove_newcomer`]) is proven
//! before anybody can read it, and refused if it is damaged.

mod figures;
mod newcomers;

pub use figures::{ProvingStats, TableAdoption};
pub(crate) use newcomers::Newcomer;

use crate::background::Background;
use crate::background::compaction::{CompactionInfo, CompactionKind, Throttle};
use crate::background::demands::{Compared, Demands};
use crate::table::TableStore;
use crate::turns::{give_way, in_turns};
use env::background::BackgroundLoop;
use env::background::looks;
use env::clock::Clock;
use env::sync::{Condvar, Mutex};
use model::TableSchema;
use partition::ReadError;
use sstable::{Adoption, Descriptor, NewProof, Proved, SsTable};
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// How often the thread looks when nobody nudges it.
const TICK: Duration = Duration::from_secs(60);
/// Time between two lines in the log that say how far it has come.
const PROGRESS_NANOS: u64 = 30_000_000_000;

/// The thread, what it reads, and what it found.
pub(crate) struct Prover {
    background: Arc<BackgroundLoop>,
    throttle: Throttle,
    clock: Arc<dyn Clock>,
    /// Bytes a second while nobody waits.
    rate: u64,
    /// Held while the throttle learns whether anybody waits: how many do so at the start.
    hurried: Mutex<u64>,
    pub(crate) demands: Demands,
    state: Mutex<State>,
    /// The first look is over.
    looked: Condvar,
    /// Held while Proof.db is written.
    writing: Mutex<()>,
    proven: AtomicU64,
    adopted: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Default)]
struct State {
    /// The thread's own, and newcomers.
    running: Vec<Arc<Reading>>,
    /// What was proven before anything could be written.
    unwritten: Vec<(Arc<TableStore>, Arc<SsTable>, NewProof)>,
    /// How far the look has come.
    progress: Progress,
    /// SSTables that cannot be proven: without Digest.crc32, or not readable.
    given_up: HashSet<Descriptor>,
    /// Tables of which it was said that some have no Digest.crc32.
    told: HashSet<Uuid>,
    /// Whether an operator wants no more of it.
    is_stopped: bool,
    /// Whether all that was there at the start was read, as far as it will be.
    has_looked: bool,
}

/// How much of a look is done.
#[derive(Clone, Copy, Default)]
struct Progress {
    read_bytes: u64,
    total_bytes: u64,
    told_nanos: u64,
}

/// An SSTable that is being read.
struct Reading {
    id: Uuid,
    keyspace: String,
    table: String,
    total_bytes: u64,
    completed_bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl Prover {
    /// `rate` in bytes a second, 0 for no limit.
    pub(crate) fn new(clock: Arc<dyn Clock>, rate: u64) -> Prover {
        Prover {
            background: Arc::default(),
            throttle: Throttle::new(Arc::clone(&clock), rate),
            clock,
            rate,
            hurried: Mutex::default(),
            demands: Demands::default(),
            state: Mutex::default(),
            looked: Condvar::new(),
            writing: Mutex::new(()),
            proven: AtomicU64::new(0),
            adopted: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Makes the thread look, though an operator had stopped it.
    pub(crate) fn nudge(&self) {
        self.state.lock().is_stopped = false;
        self.wake();
    }

    /// Makes the thread look.
    pub(crate) fn wake(&self) {
        self.background.nudge();
    }

    /// Lets the throttle know whether anybody waits.
    pub(crate) fn keep_pace(&self) {
        let hurried = self.hurried.lock();
        let is_urgent = *hurried > 0 || self.demands.has_waiting();
        self.throttle.set_rate(if is_urgent { 0 } else { self.rate });
    }

    /// Whether somebody waits for comparisons, so that nothing else is to be done.
    fn is_hurried(&self) -> bool {
        *self.hurried.lock() > 0 || self.demands.has_waiting()
    }

    fn hurry(&self, change: impl FnOnce(&mut u64)) {
        change(&mut self.hurried.lock());
        self.keep_pace();
    }

    /// Whether nothing is compared any more.
    pub(crate) fn has_ended(&self, background: &Background) -> bool {
        self.background.is_stopping() || background.writing.is_drained()
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        self.throttle.set_paused(paused);
    }

    /// Spends bytes at the pace of the prover; whether to go on.
    pub(crate) fn spend(&self, bytes: u64, is_over: impl Fn() -> bool) -> bool {
        self.throttle.spend(bytes, is_over).is_ok()
    }

    /// Waits until nothing is written that was begun before. Nobody waits for a comparison any more.
    pub(crate) fn settle(&self) {
        self.demands.end();
        self.keep_pace();
        drop(self.writing.lock());
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.demands.end();
        self.throttle.stop();
        self.background.stop();
        self.end_look();
        self.settle();
    }

    fn end_look(&self) {
        self.state.lock().has_looked = true;
        self.looked.notify_all();
    }

    fn look(&self, background: &Background) {
        for (table, sstable, proof) in std::mem::take(&mut self.state.lock().unwritten) {
            background.write_proof(&table, &sstable, Some(&proof));
        }
        if !self.meet_demands(background) {
            return;
        }
        self.list_proofs(background);
        let due = self.due(background);
        if due.is_empty() {
            return;
        }
        let bytes: u64 = due.iter().map(|(_, sstable)| sstable.data_file_bytes()).sum();
        tracing::info!(sstables = due.len(), bytes, "SSTables are compared with their digests");
        self.state.lock().progress =
            Progress { read_bytes: 0, total_bytes: bytes, told_nanos: self.clock.monotonic_nanos() };
        let (proven, read) = (self.proven.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        // Those that come meanwhile are found by the next look.
        for (table, sstable) in due {
            if !self.meet_demands(background) || !self.read(background, &table, &sstable, false) {
                break;
            }
        }
        self.state.lock().progress = Progress::default();
        let stats = background.proving_stats();
        let (proven, bytes) = (stats.proven - proven, stats.bytes - read);
        let (left, damaged) = (stats.unproven, stats.condemned);
        tracing::info!(proven, bytes, left, damaged, "SSTables were compared with their digests");
    }

    /// SSTables that are to be read: those first that were damaged before, for nobody can read them, then
    /// those that were not compared, of each the smallest, so that most are read soon.
    fn due(&self, background: &Background) -> Vec<(Arc<TableStore>, Arc<SsTable>)> {
        let state = self.state.lock();
        if state.is_stopped {
            return Vec::new();
        }
        let mut out = Vec::new();
        for table in background.catalog.tables() {
            for sstable in table.view().sstables.iter() {
                let is_due = sstable.is_unproven() || background.may_adopt() && sstable.wants_adoption();
                if is_due && !state.given_up.contains(sstable.descriptor()) {
                    out.push((Arc::clone(&table), Arc::clone(sstable)));
                }
            }
        }
        out.sort_by_key(|(_, sstable)| {
            (sstable.refusal().is_none(), !sstable.is_unproven(), sstable.data_file_bytes())
        });
        out
    }

    /// The node may have ended after it wrote a Proof.db and before TOC.txt named it.
    fn list_proofs(&self, background: &Background) {
        for table in background.catalog.tables() {
            for sstable in table.view().sstables.iter().filter(|sstable| sstable.may_lack_listing()) {
                if self.background.is_stopping() {
                    return;
                }
                background.write_proof(&table, sstable, None);
            }
        }
    }

    /// Reads one; whether to go on.
    pub(crate) fn read(
        &self,
        background: &Background,
        table: &TableStore,
        sstable: &Arc<SsTable>,
        is_demanded: bool,
    ) -> bool {
        let reading = Reading::of(background, &table.schema(), sstable);
        {
            let mut state = self.state.lock();
            if state.is_stopped && !is_demanded {
                return false;
            }
            state.running.push(Arc::clone(&reading));
        }
        let demanded_before = self.demands.begin(sstable.data_name());
        let is_over = || {
            self.has_ended(background)
                || reading.cancelled.load(Ordering::Relaxed)
                || table.is_dropped()
                || !table.view().sstables.iter().any(|t| Arc::ptr_eq(t, sstable))
        };
        let mut seen = 0;
        let adopts = background.may_adopt() && !is_demanded && !self.is_hurried();
        let adoption = adopts.then(Adoption::default);
        let result = in_turns(|| {
            background.prove(table, sstable, adoption, &mut |bytes| {
                let read = reading.completed_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
                self.tell_progress(bytes);
                let rest = reading.total_bytes.saturating_sub(read);
                let goes_on = || self.turn_to_demands(background, sstable, rest, &mut seen);
                self.spend_between(bytes, &is_over, goes_on)
            })
        });
        self.end(&reading);
        self.demands.finish();
        if let Err(error) = result
            && sstable.condemned().is_none()
            && !is_over()
        {
            tracing::error!(%error, "an SSTable could not be compared with its digest");
            background.catalog.report_read_failure(&error);
            self.state.lock().given_up.insert(sstable.descriptor().clone());
            self.demands.fail(sstable.data_name(), demanded_before, &error);
        }
        !self.has_ended(background)
    }

    fn tell_progress(&self, bytes: u64) {
        let now = self.clock.monotonic_nanos();
        let mut state = self.state.lock();
        let progress = &mut state.progress;
        progress.read_bytes += bytes;
        if progress.total_bytes == 0 || now.saturating_sub(progress.told_nanos) < PROGRESS_NANOS {
            return;
        }
        progress.told_nanos = now;
        let Progress { read_bytes, total_bytes, .. } = *progress;
        drop(state);
        let left_bytes = total_bytes.saturating_sub(read_bytes);
        let percent = (read_bytes.saturating_mul(100) / total_bytes).min(100);
        tracing::info!(percent, read_bytes, left_bytes, "SSTables are being compared with their digests");
    }

    fn end(&self, reading: &Arc<Reading>) {
        self.state.lock().running.retain(|other| !Arc::ptr_eq(other, reading));
    }

    /// Notes that an SSTable cannot be compared with anything.
    fn give_up(&self, schema: &TableSchema, sstable: &SsTable) {
        let mut state = self.state.lock();
        if state.told.insert(schema.id) {
            tracing::warn!(keyspace = schema.keyspace, table = schema.name, sstable = %sstable.descriptor(), "an SSTable has no Digest.crc32 to be compared with");
        }
        state.given_up.insert(sstable.descriptor().clone());
        sstable.await_proof(false);
    }
}

impl Reading {
    fn of(background: &Background, schema: &TableSchema, sstable: &SsTable) -> Arc<Reading> {
        Arc::new(Reading {
            id: background.catalog.env.time_uuid(),
            keyspace: schema.keyspace.clone(),
            table: schema.name.clone(),
            total_bytes: sstable.data_file_bytes(),
            completed_bytes: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
        })
    }
}

impl Background {
    /// [`crate::Engine::start_proving`].
    pub(crate) fn start_proving(self: &Arc<Self>) -> io::Result<()> {
        if !self.catalog.options.proves_sstables || self.prover.background.is_started() {
            return Ok(());
        }
        let prover = Arc::clone(&self.prover);
        let look = looks(self, move |background| {
            prover.look(background);
            prover.end_look();
        });
        self.prover.background.start(&self.catalog.env.tasks, ["prover".to_owned()], TICK, look)?;
        self.prover.wake();
        Ok(())
    }

    /// [`crate::Engine::wait_for_proofs`].
    pub(crate) fn wait_for_proofs(&self, timeout: Duration) -> bool {
        if !self.prover.background.is_started() {
            return true;
        }
        self.prover.hurry(|waiting| *waiting += 1);
        let mut state = self.prover.state.lock();
        if !state.has_looked {
            self.prover.looked.wait_while_for(&mut state, |state| !state.has_looked, timeout);
        }
        let has_looked = state.has_looked;
        drop(state);
        self.prover.hurry(|waiting| *waiting -= 1);
        // What was left for later can be done now.
        self.prover.wake();
        has_looked
    }

    /// [`crate::Engine::stop_proving`].
    pub(crate) fn stop_proving(&self) -> bool {
        self.prover.demands.forget_idle();
        let mut state = self.prover.state.lock();
        state.is_stopped = true;
        let mut any = false;
        for reading in &state.running {
            any |= !reading.cancelled.swap(true, Ordering::Relaxed);
        }
        any
    }

    /// [`crate::Engine::proving`].
    pub(crate) fn proving(&self) -> Vec<CompactionInfo> {
        let info = |reading: &Arc<Reading>| CompactionInfo {
            id: reading.id,
            kind: CompactionKind::Verification,
            keyspace: reading.keyspace.clone(),
            table: reading.table.clone(),
            inputs: 1,
            completed_bytes: reading.completed_bytes.load(Ordering::Relaxed).min(reading.total_bytes),
            total_bytes: reading.total_bytes,
        };
        self.prover.state.lock().running.iter().map(info).collect()
    }

    /// Compares SSTables of a table of the node's own that is being opened, if reads wait for comparisons.
    /// Nothing is written yet; reads of a damaged one fail.
    ///
    /// # Errors
    /// When one cannot be read.
    pub(crate) fn prove_own(&self, table: &Arc<TableStore>) -> Result<(), ReadError> {
        for sstable in table.view().sstables.iter().filter(|sstable| sstable.is_awaited()) {
            match sstable.prove(&self.catalog.env.fs, None, &mut |_| true) {
                Ok(Proved::Sound(proof) | Proved::Adopted(proof)) => {
                    self.prover.proven.fetch_add(1, Ordering::Relaxed);
                    let unwritten = (Arc::clone(table), Arc::clone(sstable), proof);
                    self.prover.state.lock().unwritten.push(unwritten);
                }
                Ok(Proved::NoDigest) => self.prover.give_up(&table.schema(), sstable),
                Ok(Proved::Known | Proved::Stopped) => {}
                Err(error) if sstable.condemned().is_some() => {
                    tracing::error!(%error, sstable = %sstable.descriptor(), "an SSTable is damaged; reads that need it fail");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Whether large partitions of what other programs wrote are described.
    fn may_adopt(&self) -> bool {
        self.catalog.options.adopts_sstables
    }

    /// Compares an SSTable with its digest, and does what follows of it. Whether it is known now that it is
    /// sound, or that nobody can know. With `adoption` its large partitions are described, too.
    ///
    /// # Errors
    /// When it is damaged, or cannot be read.
    pub(crate) fn prove(
        &self,
        table: &TableStore,
        sstable: &Arc<SsTable>,
        adoption: Option<Adoption>,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, ReadError> {
        let prover = &self.prover;
        let mut pace = |bytes| {
            prover.bytes.fetch_add(bytes, Ordering::Relaxed);
            give_way();
            pace(bytes)
        };
        let proved = sstable.prove(&self.catalog.env.fs, adoption, &mut pace);
        if matches!(proved, Ok(Proved::NoDigest)) {
            prover.give_up(&table.schema(), sstable);
        }
        if !sstable.is_awaited() {
            prover.demands.settle(sstable.data_name(), &Compared::Known);
        }
        match proved {
            Ok(Proved::Sound(proof)) => {
                prover.proven.fetch_add(1, Ordering::Relaxed);
                self.write_proof(table, sstable, Some(&proof));
                Ok(true)
            }
            Ok(Proved::Adopted(proof)) => {
                self.write_proof(table, sstable, Some(&proof));
                Ok(true)
            }
            Ok(Proved::Known | Proved::NoDigest) => Ok(true),
            Ok(Proved::Stopped) => Ok(false),
            Err(error) => {
                if sstable.condemned().is_some() {
                    tracing::error!(%error, sstable = %sstable.descriptor(), "an SSTable is damaged; reads that need it fail from now on");
                    table.change_view(|view| view.forget_cached_rows());
                    match sstable.mark_of_damage(self.catalog.env.fs.as_ref()) {
                        Ok(Some(mark)) => self.write_proof(table, sstable, Some(&mark)),
                        Ok(None) => {}
                        Err(error) => tracing::warn!(%error, "the next start does not know of the damage"),
                    }
                    self.catalog.report_read_failure(&error);
                }
                Err(error)
            }
        }
    }

    /// Writes a proof, or makes TOC.txt name the one that is there, if the SSTable is still part of the
    /// table.
    fn write_proof(&self, table: &TableStore, sstable: &Arc<SsTable>, proof: Option<&NewProof>) {
        let _writing = self.prover.writing.lock();
        if self.writing.is_drained() || self.catalog.files.homes.is_given_up(&sstable.descriptor().directory)
        {
            return;
        }
        let fs = self.catalog.env.fs.as_ref();
        let mut written = Ok(());
        table.change_view(|view| {
            let is_here = view.sstables.iter().any(|t| Arc::ptr_eq(t, sstable));
            if is_here && !table.is_dropped() && table.check_settled().is_ok() {
                written = match proof {
                    Some(proof) => sstable.keep_proof(fs, proof),
                    None => sstable.list_proof(fs),
                };
            }
        });
        if let Some(failure) = proof.and_then(NewProof::adoption_failure) {
            tracing::warn!(failure, sstable = %sstable.descriptor(), "large partitions of an SSTable are read by the index of its writer");
        }
        if written.is_ok() && proof.is_some_and(|proof| proof.adopted_partitions().is_some()) {
            self.prover.adopted.fetch_add(1, Ordering::Relaxed);
        }
        if let Err(error) = written {
            tracing::warn!(%error, sstable = %sstable.descriptor(), "what was proven of an SSTable is forgotten with the process");
        }
    }
}
