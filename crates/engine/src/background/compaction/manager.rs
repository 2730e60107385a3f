//! The manager of compactions: threads that look for picks, and what operators see and steer.

use super::control::Thresholds;
use super::run::Outcome;
use super::strategy::{self, Candidate, Output, Pick};
use super::task::{CompactionInfo, CompactionKind, Group, Leaving, Task, candidate};
use super::throttle::Throttle;
use crate::background::Background;
use crate::error::EngineError;
use crate::table::TableStore;
use crate::turns::in_turns;
use env::background::BackgroundLoop;
use env::background::looks;
use env::clock::Clock;
use env::sync::{Condvar, Mutex};
use sstable::SsTable;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// How often threads look for picks when nobody nudges them: windows close and tombstones age by themselves.
pub(super) const TICK: Duration = Duration::from_secs(30);
/// How long a table rests after a compaction of it failed.
const FAILURE_REST_NANOS: u64 = 30_000_000_000;

/// All compactions of an engine.
pub(crate) struct Compactions {
    throttle: Throttle,
    pub(super) state: Mutex<State>,
    /// Signalled when a task ends, and when all have to.
    pub(super) ended: Condvar,
    background: Arc<BackgroundLoop>,
    completed: AtomicU64,
    failed: AtomicU64,
    /// How many of the threads may work at once, and how many there are.
    pub(super) concurrent: AtomicUsize,
    pub(super) threads: Mutex<usize>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) running: Vec<Arc<Task>>,
    /// Whether tables compact by themselves, where an operator said so: that counts more than options.
    pub(super) switched: BTreeMap<Uuid, bool>,
    /// What operators set in the place of a table's `min_threshold` and `max_threshold`.
    pub(super) thresholds: BTreeMap<Uuid, Thresholds>,
    /// Tables whose last compaction failed, and until when (monotonic nanoseconds) they rest.
    resting: BTreeMap<Uuid, u64>,
}

impl State {
    pub(super) fn is_busy(&self, table: &Arc<SsTable>) -> bool {
        self.running.iter().any(|task| task.all().any(|t| Arc::ptr_eq(t, table)))
    }

    pub(super) fn runs_on(&self, table: Uuid) -> bool {
        self.running.iter().any(|task| task.table.schema().id == table)
    }
}

impl Compactions {
    /// `rate` in bytes a second, 0 for no limit.
    pub(crate) fn new(clock: Arc<dyn Clock>, rate: u64) -> Compactions {
        Compactions {
            throttle: Throttle::new(clock, rate),
            state: Mutex::default(),
            ended: Condvar::new(),
            background: Arc::default(),
            completed: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            concurrent: AtomicUsize::new(0),
            threads: Mutex::new(0),
        }
    }

    /// Lets so many threads work at once, and starts those that are missing. They hold the engine only while
    /// they work.
    pub(crate) fn start(self: &Arc<Self>, background: &Arc<Background>, threads: usize) -> io::Result<()> {
        let mut started = self.threads.lock();
        let names = (*started..threads).map(|n| format!("compaction-{n}"));
        self.concurrent.store(threads, Ordering::SeqCst);
        *started = threads.max(*started);
        let this = Arc::clone(self);
        let look = looks(background, move |background| {
            while !this.is_stopping() {
                let Some(task) = this.next_task(background) else { break };
                this.run(background, &task);
            }
        });
        self.background.start(&background.catalog.env.tasks, names, TICK, look)
    }

    /// Makes the threads look for picks.
    pub(crate) fn nudge(&self) {
        self.background.nudge();
    }

    /// Ends what runs, and the threads.
    pub(crate) fn stop(&self) {
        self.throttle.stop();
        self.background.stop();
        drop(self.state.lock());
        self.ended.notify_all();
    }

    /// Spends bytes of other work at the pace of compactions; whether it may go on.
    pub(crate) fn spend(&self, bytes: u64, is_cancelled: impl Fn() -> bool) -> bool {
        self.throttle.spend(bytes, is_cancelled).is_ok()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.background.is_stopping()
    }

    /// Runs a task that is in the list of running ones, and takes it off.
    pub(super) fn run(&self, background: &Background, task: &Arc<Task>) -> Option<EngineError> {
        let schema = task.table.schema();
        let result = in_turns(|| background.run_compaction(task, &self.throttle));
        let mut state = self.state.lock();
        state.running.retain(|t| !Arc::ptr_eq(t, task));
        let failure = match result {
            Ok(outcome) => {
                if outcome == Outcome::Done {
                    self.completed.fetch_add(1, Ordering::Relaxed);
                }
                None
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!(keyspace = schema.keyspace, table = schema.name, %error, "a compaction failed");
                background.catalog.report_failure(&error);
                let until = background.catalog.env.clock.monotonic_nanos() + FAILURE_REST_NANOS;
                state.resting.insert(schema.id, until);
                Some(error)
            }
        };
        drop(state);
        self.ended.notify_all();
        self.nudge();
        failure
    }

    /// Finds the next pick of any table and marks its SSTables busy.
    pub(super) fn next_task(&self, background: &Background) -> Option<Arc<Task>> {
        let now_nanos = background.catalog.env.clock.monotonic_nanos();
        let mut state = self.state.lock();
        state.resting.retain(|_, until| *until > now_nanos);
        let own = state.running.iter().filter(|task| task.kind == CompactionKind::Minor).count();
        if self.throttle.is_paused() || own >= self.concurrent.load(Ordering::SeqCst) {
            return None;
        }
        for table in background.catalog.tables() {
            let schema = table.schema();
            let switched = state.switched.get(&schema.id).copied();
            let is_off = !switched.unwrap_or_else(|| strategy::is_enabled(&schema.options.compaction))
                || state.resting.contains_key(&schema.id)
                || table.is_dropped()
                || table.damage().is_some()
                || table.check_settled().is_err();
            if is_off {
                continue;
            }
            let strategy = state.strategy(&schema);
            if strategy.runs_alone() && state.runs_on(schema.id) {
                continue;
            }
            for group in Grouped::of(background, &table, |t| state.is_busy(t)) {
                let expired = group.expired(&table);
                let pick = match expired.is_empty() {
                    false => Some((Vec::new(), expired, Output::ONE)),
                    true => {
                        strategy.pick(&group.candidates).map(|p| (group.inputs(&p), Vec::new(), p.output))
                    }
                };
                let Some((inputs, expired, output)) = pick else { continue };
                match background.with_room(&schema, inputs, !strategy.runs_alone(), &state.running) {
                    Ok(inputs) => {
                        return Some(enlist(
                            &mut state,
                            background,
                            &table,
                            (CompactionKind::Minor, Leaving::NothingElse, output),
                            inputs,
                            expired,
                        ));
                    }
                    Err(error) => {
                        self.failed.fetch_add(1, Ordering::Relaxed);
                        tracing::warn!(%error, "a compaction does not begin");
                        background.catalog.report_failure(&error);
                        state.resting.insert(schema.id, now_nanos + FAILURE_REST_NANOS);
                        break;
                    }
                }
            }
        }
        None
    }
}

pub(super) fn enlist(
    state: &mut State,
    background: &Background,
    table: &Arc<TableStore>,
    (kind, leaving, output): (CompactionKind, Leaving, Output),
    inputs: Vec<Arc<SsTable>>,
    expired: Vec<Arc<SsTable>>,
) -> Arc<Task> {
    let task = Arc::new(Task {
        id: background.catalog.env.time_uuid(),
        kind,
        leaving,
        table: Arc::clone(table),
        inputs,
        expired,
        output,
        completed_bytes: AtomicU64::new(0),
        cancelled: AtomicBool::new(false),
    });
    state.running.push(Arc::clone(&task));
    task
}

/// The SSTables of a table that may be compacted together, as candidates named by their index.
pub(super) struct Grouped {
    tables: Vec<Arc<SsTable>>,
    pub(super) candidates: Vec<Candidate>,
    /// What else the table holds: busy SSTables, other groups, damaged ones, and directories that were given
    /// up.
    others: Vec<Candidate>,
    gc_before_s: u32,
}

impl Grouped {
    pub(super) fn of(
        background: &Background,
        table: &TableStore,
        is_busy: impl Fn(&Arc<SsTable>) -> bool,
    ) -> Vec<Grouped> {
        let micros = background.catalog.env.now_micros();
        let gc_grace = table.schema().options.gc_grace_seconds.max(0);
        let gc_before_s = (micros / 1_000_000 - i64::from(gc_grace)).clamp(0, i64::from(u32::MAX)) as u32;
        let view = table.view();
        let describe = |id: usize, t: &SsTable| {
            candidate(background.catalog.env.fs.as_ref(), id as u64, t, micros / 1000, gc_before_s)
        };
        let mut groups: BTreeMap<Group, Vec<Arc<SsTable>>> = BTreeMap::new();
        let is_left = |t: &Arc<SsTable>| {
            t.refusal().is_some() || background.catalog.files.homes.is_given_up(&t.descriptor().directory)
        };
        for sstable in view.sstables.iter().filter(|t| !is_busy(t) && !is_left(t)) {
            groups.entry(Group::of(sstable)).or_default().push(Arc::clone(sstable));
        }
        groups
            .into_values()
            .map(|tables| {
                let outside = view.sstables.iter().filter(|t| !tables.iter().any(|m| Arc::ptr_eq(m, t)));
                Grouped {
                    candidates: tables.iter().enumerate().map(|(i, t)| describe(i, t)).collect(),
                    others: outside.map(|t| describe(usize::MAX, t)).collect(),
                    gc_before_s,
                    tables,
                }
            })
            .collect()
    }

    /// The SSTable of a candidate.
    pub(super) fn sstable(&self, candidate: &Candidate) -> Option<&Arc<SsTable>> {
        self.tables.get(candidate.id as usize)
    }

    pub(super) fn inputs(&self, pick: &Pick) -> Vec<Arc<SsTable>> {
        pick.inputs.iter().filter_map(|id| self.tables.get(*id as usize).cloned()).collect()
    }

    fn expired(&self, table: &TableStore) -> Vec<Arc<SsTable>> {
        let view = table.view();
        let memtables = view.flushing.iter().map(|f| &f.memtable).chain([&view.memtable]);
        let oldest = memtables.filter_map(|m| m.minima().timestamp).min().unwrap_or(i64::MAX);
        strategy::fully_expired(&self.candidates, &self.others, oldest, self.gc_before_s)
            .iter()
            .filter_map(|c| self.tables.get(c.id as usize).cloned())
            .collect()
    }
}

impl Background {
    /// [`crate::Engine::compactions`].
    pub(crate) fn compactions(&self) -> Vec<CompactionInfo> {
        self.compactions.state.lock().running.iter().map(|t| t.info()).collect()
    }

    /// [`crate::Engine::pending_compactions`].
    pub(crate) fn pending_compactions(&self) -> Vec<(Arc<TableStore>, usize)> {
        let mut out = Vec::new();
        for table in self.catalog.tables() {
            let strategy = self.compactions.state.lock().strategy(&table.schema());
            let groups = Grouped::of(self, &table, |t| self.compactions.state.lock().is_busy(t));
            let pending: usize = groups.iter().map(|g| strategy.pending(&g.candidates)).sum();
            if pending > 0 {
                out.push((table, pending));
            }
        }
        out
    }

    /// [`crate::Engine::compaction_counts`].
    pub(crate) fn compaction_counts(&self) -> (u64, u64) {
        let counts = &self.compactions;
        (counts.completed.load(Ordering::Relaxed), counts.failed.load(Ordering::Relaxed))
    }

    /// [`crate::Engine::compaction_throughput`].
    pub(crate) fn compaction_throughput(&self) -> u64 {
        self.compactions.throttle.rate()
    }

    /// [`crate::Engine::set_compaction_throughput`].
    pub(crate) fn set_compaction_throughput(&self, bytes_per_s: u64) {
        self.compactions.throttle.set_rate(bytes_per_s);
    }

    /// [`crate::Engine::set_compactions_paused`].
    pub(crate) fn set_compactions_paused(&self, paused: bool) {
        self.compactions.throttle.set_paused(paused);
        self.prover.set_paused(paused);
        self.compactions.nudge();
    }

    /// [`crate::Engine::stop_compactions`].
    pub(crate) fn stop_compactions(&self, id: Option<Uuid>) -> usize {
        let state = self.compactions.state.lock();
        let chosen = state.running.iter().filter(|t| id.is_none_or(|id| id == t.id));
        chosen.map(|t| t.cancelled.store(true, Ordering::Relaxed)).count()
    }
}
