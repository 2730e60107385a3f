//! Keeping hints.
//!
//! 1. A write that a node missed is encoded where it is told of, and put into memory. Who writes never waits:
//!    where memory is full, or there are reasons not to keep it, it is not kept, and counted.
//! 2. Every [`HintsOptions::flush_period`], and when half of the memory is full, hints are appended to the
//!    files and synced. Until then a node that stops without warning loses them, as Cassandra's does: a read
//!    or a repair brings what they held.
//! 3. What cannot be written stays in memory, and is tried again with the next file.
//!
//! Files are touched by one thread, which also carries out what tasks ask for ([`HintStore::on_disk`]). The
//! lock of the files comes before that of the ledger, which is never held while something is read or written.

use super::counters::{Counted, HintsCounters, HintsCounts};
use super::files::{HintFiles, OnDisk};
use super::format::{HintsError, append_entry, encode_hint};
use super::late::{Late, LateWrites};
use super::ledger::{Ledger, Now, Refused};
use super::page::{HintPage, Reached, read_page};
use super::settings::{HintsOptions, HintsSettings};
use crate::messaging::nanos;
use crate::serve::Spawn;
use arc_swap::ArcSwap;
use coordinator::{Answer, Hint, Hints, Node, ReplicaError};
use env::Env;
use env::background::BackgroundLoop;
use env::sync::Mutex;
use model::schema::{LOCAL_SYSTEM_KEYSPACES, VIRTUAL_KEYSPACES};
use model::{Mutation, Schema};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::unconstrained;
use uuid::Uuid;

/// How often it is looked whether late writes were acknowledged.
const LATE_PERIOD: Duration = Duration::from_millis(20);

/// Something that the thread of the files does.
type Job = Box<dyn FnOnce(&HintStore) + Send>;

/// Keeps what other nodes missed.
pub struct HintStore {
    this: Weak<HintStore>,
    pub(super) env: Env,
    pub(super) options: HintsOptions,
    settings: ArcSwap<HintsSettings>,
    schema: Box<dyn Fn() -> Arc<Schema> + Send + Sync>,
    spawn: Spawn,
    files: Mutex<HintFiles>,
    ledger: Mutex<Ledger>,
    pub(super) counters: HintsCounters,
    late: LateWrites,
    /// What the thread is asked for; nothing once it has ended.
    jobs: Mutex<Option<VecDeque<Job>>>,
    pub(super) background: Arc<BackgroundLoop>,
}

impl fmt::Debug for HintStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HintStore").field("directory", &self.options.directory).finish_non_exhaustive()
    }
}

impl HintStore {
    /// Finds the files of an earlier run, or of a Cassandra.
    ///
    /// # Errors
    /// When the directory cannot be made or listed. Files that cannot be read are no error.
    pub fn open(
        env: Env,
        options: HintsOptions,
        settings: HintsSettings,
        schema: impl Fn() -> Arc<Schema> + Send + Sync + 'static,
        spawn: Spawn,
    ) -> io::Result<Arc<HintStore>> {
        let files = HintFiles::open(&env, &options.directory, options.file_version)?;
        let mut ledger = Ledger::default();
        files.hosts().into_iter().for_each(|id| ledger.set_on_disk(id, files.on_disk(id)));
        Ok(Arc::new_cyclic(|this| HintStore {
            this: Weak::clone(this),
            env,
            options,
            settings: ArcSwap::from_pointee(settings),
            schema: Box::new(schema),
            spawn,
            files: Mutex::new(files),
            ledger: Mutex::new(ledger),
            counters: HintsCounters::default(),
            late: LateWrites::default(),
            jobs: Mutex::new(Some(VecDeque::new())),
            background: Arc::new(BackgroundLoop::default()),
        }))
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<HintsSettings> {
        self.settings.load_full()
    }

    /// Changes settings.
    pub fn change(&self, change: impl Fn(&mut HintsSettings)) {
        self.settings.rcu(|settings| {
            let mut changed = HintsSettings::clone(settings);
            change(&mut changed);
            changed
        });
    }

    /// Numbers of hints since the start.
    pub fn counts(&self) -> HintsCounts {
        self.counters.counts()
    }

    /// A node is down. Without being told the store takes its first missed write for the time of that.
    pub fn went_down(&self, host_id: Uuid) {
        self.ledger.lock().set_down(host_id, self.now());
    }

    pub(super) fn came_back(&self, host_id: Uuid) {
        self.ledger.lock().set_up(host_id);
    }

    /// The nodes for which there are hints.
    pub(super) fn waiting(&self) -> Vec<Uuid> {
        self.ledger.lock().waiting()
    }

    /// What is pending for each node: on disk, and bytes in memory.
    pub(super) fn pending(&self) -> Vec<(Uuid, OnDisk, u64)> {
        self.ledger.lock().pending()
    }

    fn now(&self) -> Now {
        Now { millis: self.env.clock.now_millis(), nanos: self.env.clock.monotonic_nanos() }
    }

    /// Keeps a write for a node, unless there are reasons not to. Whether it does.
    fn keep(&self, node: &Node, mutation: &Arc<Mutation>, written_millis: i64) -> bool {
        let settings = self.settings.load();
        let grace_s = mutation.updates.iter().map(|update| update.table.options.gc_grace_seconds).min();
        let gc_grace_s = u32::try_from(grace_s.unwrap_or(0)).unwrap_or(0);
        let is_wanted = settings.is_enabled
            && !settings.disabled_datacenters.contains(&*node.datacenter)
            && node.replica.as_local().is_none()
            && gc_grace_s > 0
            && mutation.updates.iter().all(|update| is_hinted(&update.table.keyspace));
        if !is_wanted {
            return false;
        }
        let now = self.now();
        let hint = Hint { mutation: Arc::clone(mutation), written_millis, gc_grace_s };
        match self.admit(node, &hint, now, &settings) {
            Ok(held_bytes) => {
                self.counters.count(Counted::Created);
                if held_bytes >= self.options.buffer_bytes_max / 2 {
                    self.background.nudge();
                }
                true
            }
            Err(why) => {
                self.counters.count(Counted::NotStored);
                tracing::debug!(host_id = %node.id, ?why, "a hint is not kept");
                false
            }
        }
    }

    /// Puts a hint into memory; how many bytes there are then.
    fn admit(&self, node: &Node, hint: &Hint, now: Now, settings: &HintsSettings) -> Result<usize, Refused> {
        {
            let mut ledger = self.ledger.lock();
            match node.is_alive() {
                true => ledger.set_up(node.id),
                false => ledger.set_down(node.id, now),
            }
            ledger.admit(node.id, now, settings)?;
        }
        let version = if self.options.file_version >= super::format::VERSION_50 { 13 } else { 12 };
        let mut entry = Vec::new();
        if let Err(error) = append_entry(&mut entry, |out| encode_hint(hint, version, out)) {
            tracing::error!(host_id = %node.id, %error, "a write cannot be kept as a hint");
            return Err(Refused::Unencodable);
        }
        let mut ledger = self.ledger.lock();
        ledger.push(node.id, &entry, now, self.options.buffer_bytes_max)?;
        Ok(ledger.held_bytes())
    }

    /// Whether half of the memory is full.
    pub(super) fn is_half_full(&self) -> bool {
        self.ledger.lock().held_bytes() >= self.options.buffer_bytes_max / 2
    }

    /// Writes what is in memory, and waits until it is on the device.
    ///
    /// # Errors
    /// The first one of the file system. What could not be written stays in memory.
    pub fn flush(&self) -> io::Result<()> {
        let mut files = self.files.lock();
        let (hosts, mut outcome) = (self.ledger.lock().hosts(), Ok(()));
        for host_id in hosts {
            // One node's hints do not wait for those of another.
            outcome = outcome.and(self.flush_host(&mut files, host_id));
        }
        outcome
    }

    fn flush_host(&self, files: &mut HintFiles, host_id: Uuid) -> io::Result<()> {
        let entries = self.ledger.lock().take(host_id);
        if entries.is_empty() {
            return Ok(());
        }
        let (mut left, file_bytes_max) = (entries.as_slice(), self.settings.load().file_bytes_max);
        let outcome = files.append(host_id, &mut left, file_bytes_max);
        if let Err(error) = &outcome {
            tracing::error!(%host_id, %error, "hints cannot be written; they stay in memory");
        }
        self.ledger.lock().written(host_id, entries.len(), left, files.on_disk(host_id));
        outcome
    }

    /// Writes what is in memory for a node and closes its file, so that all of it can be sent.
    pub(super) fn close(&self, host_id: Uuid) {
        let mut files = self.files.lock();
        let _ = self.flush_host(&mut files, host_id);
        files.close(host_id);
        self.ledger.lock().set_on_disk(host_id, files.on_disk(host_id));
    }

    /// The first hints for a node that were not sent yet, of those in files that are closed.
    pub(super) fn next_page(&self, host_id: Uuid) -> Option<HintPage> {
        let mut files = self.files.lock();
        let page = loop {
            let Some(file) = files.first(host_id) else { break None };
            let schema = (self.schema)();
            let lookup = |id: Uuid| schema.table_by_id(id).cloned();
            match read_page(&self.env, &files.path(file.id), &file, &lookup, &self.counters) {
                Ok(page) => break Some(page),
                Err(error @ HintsError::Damaged { .. }) => {
                    tracing::error!(%error, "a file of hints is set aside");
                    files.set_aside(file.id);
                }
                Err(error) => {
                    tracing::error!(%error, "a file of hints is left alone until the next start");
                    files.leave_alone(file.id);
                }
            }
        };
        self.ledger.lock().set_on_disk(host_id, files.on_disk(host_id));
        page
    }

    /// Takes note of how far a page was sent.
    pub(super) fn reached(&self, page: &HintPage, reached: Reached) {
        let mut files = self.files.lock();
        match reached {
            Reached::Position(position) => files.mark(page.file, position),
            Reached::End => files.remove(page.file),
            Reached::Lost => files.set_aside(page.file),
        }
        let host_id = page.file.host_id;
        self.ledger.lock().set_on_disk(host_id, files.on_disk(host_id));
    }

    /// Drops all hints for one node, or for all (`nodetool truncatehints`). It waits for the disk.
    pub fn truncate(&self, host_id: Option<Uuid>) {
        let mut files = self.files.lock();
        let hosts = match host_id {
            Some(host_id) => vec![host_id],
            None => [files.hosts(), self.ledger.lock().hosts()].concat(),
        };
        for host_id in hosts {
            files.remove_host(host_id);
            let mut ledger = self.ledger.lock();
            ledger.clear(host_id);
            ledger.set_on_disk(host_id, files.on_disk(host_id));
        }
    }

    /// A node was removed from the ring for good: its hints are dropped soon.
    pub fn excise(&self, host_id: Uuid) {
        self.submit(Box::new(move |store| {
            store.truncate(Some(host_id));
            store.ledger.lock().remove(host_id);
        }));
    }

    /// Has the thread of the files do something. Nothing comes of it when the thread ends before.
    pub(super) async fn on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&HintStore) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = oneshot::channel();
        self.submit(Box::new(move |store| drop(sender.send(work(store)))));
        receiver.await.ok()
    }

    fn submit(&self, job: Job) {
        if let Some(jobs) = self.jobs.lock().as_mut() {
            jobs.push_back(job);
        }
        self.background.nudge();
    }

    /// Does what the thread was asked for.
    pub(super) fn work(&self) {
        while let Some(job) = self.next_job() {
            job(self);
        }
    }

    fn next_job(&self) -> Option<Job> {
        self.jobs.lock().as_mut()?.pop_front()
    }

    /// Looks after the writes that are late, until there are none.
    fn look_after_late(&self) {
        let (weak, tasks) = (Weak::clone(&self.this), self.env.tasks.clone());
        // Thousands are looked at in one step, and none may seem to wait because the step has taken long.
        (self.spawn)(Box::pin(unconstrained(async move {
            loop {
                tasks.sleep(LATE_PERIOD).await;
                let Some(store) = weak.upgrade() else { return };
                let now_nanos = store.env.clock.monotonic_nanos();
                if store.late.sweep(now_nanos, |late, outcome| store.was_late(late, outcome)).is_break() {
                    return;
                }
            }
        })));
    }

    /// The end of a write that was late.
    fn was_late(&self, late: &Late, outcome: Result<(), ReplicaError>) {
        if outcome.is_err_and(|error| may_be_missing(&error)) {
            self.keep(&late.node, &late.mutation, late.written_millis);
        }
    }

    /// The thread has ended: writes and closes everything. What was not acknowledged until now is kept, as
    /// nobody will hear of it.
    pub(super) fn shut(&self) -> io::Result<()> {
        self.work();
        for mut late in self.late.close() {
            let outcome = late.outcome(u64::MAX).unwrap_or(Err(ReplicaError::TimedOut));
            self.was_late(&late, outcome);
        }
        drop(self.jobs.lock().take());
        let flushed = self.flush();
        let mut files = self.files.lock();
        for host_id in files.hosts() {
            files.close(host_id);
            self.ledger.lock().set_on_disk(host_id, files.on_disk(host_id));
        }
        flushed
    }
}

/// Whether writes to a keyspace are kept: those of the node alone are nobody else's.
fn is_hinted(keyspace: &str) -> bool {
    !LOCAL_SYSTEM_KEYSPACES.contains(&keyspace) && !VIRTUAL_KEYSPACES.contains(&keyspace)
}

/// Whether a write may be missing after this error, and would be taken later.
fn may_be_missing(error: &ReplicaError) -> bool {
    match error {
        ReplicaError::TimedOut | ReplicaError::Overloaded(_) | ReplicaError::Elsewhere { .. } => true,
        ReplicaError::TooLarge(_) | ReplicaError::Read(_) | ReplicaError::Write(_) => false,
    }
}

impl Hints for HintStore {
    fn missed(&self, node: &Arc<Node>, mutation: &Arc<Mutation>) -> bool {
        self.keep(node, mutation, self.env.clock.now_millis())
    }

    fn late(&self, node: &Arc<Node>, mutation: &Arc<Mutation>, answer: Answer<()>) {
        if node.replica.as_local().is_some() || !self.settings.load().is_enabled {
            return;
        }
        let now = self.now();
        let deadline_nanos = now.nanos.saturating_add(nanos(self.options.ack_timeout));
        let (node, mutation) = (Arc::clone(node), Arc::clone(mutation));
        let mut late = Late { node, mutation, written_millis: now.millis, answer, deadline_nanos };
        if let Some(outcome) = late.outcome(now.nanos) {
            return self.was_late(&late, outcome);
        }
        match self.late.push(late, self.options.late_max) {
            Ok(is_first) if is_first => self.look_after_late(),
            Ok(_) => {}
            Err(late) => {
                self.keep(&late.node, &late.mutation, late.written_millis);
            }
        }
    }

    fn failed(&self, node: &Arc<Node>, mutation: &Arc<Mutation>, error: &ReplicaError) -> bool {
        may_be_missing(error) && self.keep(node, mutation, self.env.clock.now_millis())
    }
}
