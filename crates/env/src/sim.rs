//! A world in which the tasks of a node take turns, chosen by a seed.
//!
//! Each task has a thread, but only one runs at a time: it holds the turn. It hands the turn over when it has
//! to wait (for a lock, a condition, another task's end or a time), when it offers the processor to others,
//! and at some of the calls of the file system. So the same seed gives the same
//! order of everything, as long as nothing else enters: [`Simulation::env`] gives a node its clock,
//! randomness, files and tasks.
//!
//! 1. Who has the next turn is drawn from all tasks that can go on. A task that waits for a lock can go on
//!    when any other did since it last tried.
//! 2. Time moves by a microsecond a turn. When nobody can go on it jumps to the next moment that somebody
//!    waits for.
//! 3. Tasks belong to a group, which is that of the task that started them: the tasks of one node. A group
//!    that is paused ([`Simulation::pause`]) gets no turns.
//! 4. When nobody waits for a moment either, the tasks wait for each other: [`Simulation::run`] panics and
//!    names them. It does the same when a task panics, and when one is left at the end.
//!
//! The idea is that of AWS's shuttle (<https://github.com/awslabs/shuttle>), with time and files.
#![allow(clippy::disallowed_types)]

mod executor;

pub use executor::Executor;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::Env;
use crate::clock::{Clock, ManualClock};
use crate::fs::FileSystem;
use crate::fs::faulty::FaultyFileSystem;
use crate::random::Random;
use crate::sync::Waited;
use crate::tasks::{TaskHandle, Tasks};
use crate::thread::on_one_core;

/// A turn takes so long.
const TURN: Duration = Duration::from_micros(1);
/// One of so many calls of the file system hands the turn over.
pub(crate) const CALLS_PER_TURN: u64 = 8;
/// One of so many locks hands the turn over.
#[cfg(feature = "steps")]
pub(crate) const LOCKS_PER_TURN: u64 = 64;
/// A simulation that takes more turns does not end by itself.
const TURNS_MAX: u64 = 20_000_000;

/// As many turns are enough for what was started to end.
const LAST_TURNS_MAX: u64 = 100_000;

/// Number of a task, in the order in which they were started.
pub(crate) type TaskId = usize;

/// Number of a group of tasks. The first task is of group 0.
pub type Group = u32;

const ROOT: TaskId = 0;

/// Threads that have run a world.
static PLACES: AtomicUsize = AtomicUsize::new(0);

/// A seed's world.
#[derive(Debug)]
pub struct Simulation {
    seed: u64,
    clock: Arc<ManualClock>,
    scheduler: Arc<Scheduler>,
}

impl Simulation {
    /// Runs `root` as the first task of a new world; what it started must have ended when it returns.
    ///
    /// # Panics
    /// When a task panicked, when all wait for each other, or when a task is left.
    pub fn run<T>(seed: u64, root: impl FnOnce(&Simulation) -> T) -> T {
        let clock = Arc::new(ManualClock::default());
        let scheduler = Arc::new(Scheduler::new(seed, Arc::clone(&clock)));
        let simulation = Simulation { seed, clock, scheduler: Arc::clone(&scheduler) };
        let root_task = scheduler.state.lock().add("root".to_owned(), 0);
        // As only one thread runs at a time, a core is enough for all of them. That takes half of the time.
        on_one_core(PLACE.get(), || {
            let _here = Entered::new(Here { scheduler: Arc::clone(&scheduler), id: root_task });
            let out = root(&simulation);
            scheduler.finish(root_task);
            out
        })
    }

    /// The world as a node sees it. Its files are those of an earlier life or a new
    /// [`MemoryFileSystem`](crate::fs::memory::MemoryFileSystem); calls of them are steps.
    pub fn env(&self, files: &FaultyFileSystem) -> Env {
        self.env_of(0, Arc::clone(&self.clock) as Arc<dyn Clock>, Arc::new(files.clone()))
    }

    /// The world as one of several nodes sees it: by a clock and files of its own, with random numbers that
    /// are drawn from the seed and from `number`.
    pub fn env_of(&self, number: u64, clock: Arc<dyn Clock>, files: Arc<dyn FileSystem>) -> Env {
        // Another stream of numbers than that which the turns are drawn from.
        let seed = self.seed ^ number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Env::new(clock, Arc::new(Random::from_seed(seed)), files).with_tasks(self.tasks())
    }

    /// Starts a task of a group.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn_in(
        &self,
        group: Group,
        name: impl Into<String>,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<TaskHandle> {
        let id = self.scheduler.spawn(Some(group), name.into(), work)?;
        Ok(TaskHandle::simulated(Arc::clone(&self.scheduler), id))
    }

    /// Gives the tasks of a group no turns for so long, as of a process that is stopped. Its calling task
    /// must be of another group.
    pub fn pause(&self, group: Group, duration: Duration) {
        let until = self.scheduler.now_nanos().saturating_add(duration.as_nanos() as u64);
        self.scheduler.state.lock().paused.insert(group, until);
    }

    /// Its tasks and timers.
    pub fn tasks(&self) -> Tasks {
        Tasks { scheduler: Some(Arc::clone(&self.scheduler)) }
    }

    /// The clock, which may be set.
    pub fn clock(&self) -> &Arc<ManualClock> {
        &self.clock
    }

    /// Number of turns so far.
    pub fn turns(&self) -> u64 {
        self.scheduler.state.lock().turns
    }

    /// A number that stands for all turns so far: who had them, in which order.
    pub fn fingerprint(&self) -> u64 {
        self.scheduler.state.lock().fingerprint
    }
}

/// Who has the turn, and who waits for what.
#[derive(Debug)]
pub(crate) struct Scheduler {
    clock: Arc<ManualClock>,
    random: Random,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tasks: Vec<Task>,
    /// Those that have not ended, in the order in which they were started.
    living: Vec<TaskId>,
    /// Until when groups have no turns (monotonic nanoseconds).
    paused: BTreeMap<Group, u64>,
    /// Grows with each turn of a task that got what it wanted.
    progress: u64,
    turns: u64,
    fingerprint: u64,
    /// Who is woken at a moment (monotonic nanoseconds), in the order in which they asked.
    timers: BTreeMap<(u64, u64), Waker>,
    timers_set: u64,
    /// What ends the simulation.
    failure: Option<String>,
}

#[derive(Debug)]
struct Task {
    name: String,
    group: Group,
    status: Status,
    /// How its last wait ended.
    waited: Waited,
    baton: Arc<Baton>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Ready,
    /// For a lock that was not free when there was so much progress.
    Contending(u64),
    Waiting {
        on: On,
        until_nanos: Option<u64>,
    },
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    /// The condition at that address.
    Condition(usize),
    End(TaskId),
}

/// What a thread waits for until it is its task's turn.
#[derive(Debug, Default)]
struct Baton {
    is_here: Mutex<bool>,
    given: Condvar,
}

impl Baton {
    fn give(&self) {
        *self.is_here.lock() = true;
        self.given.notify_one();
    }

    fn take(&self) {
        let mut is_here = self.is_here.lock();
        while !std::mem::take(&mut *is_here) {
            self.given.wait(&mut is_here);
        }
    }
}

enum Next {
    Task(TaskId),
    /// Time went on; these are woken before anybody has a turn.
    Wake(Vec<Waker>),
    Nobody,
}

impl State {
    fn add(&mut self, name: String, group: Group) -> TaskId {
        self.living.push(self.tasks.len());
        self.tasks.push(Task {
            name,
            group,
            status: Status::Ready,
            waited: Waited::Notified,
            baton: Arc::default(),
        });
        self.tasks.len() - 1
    }

    fn set(&mut self, id: TaskId, status: Status) {
        self.tasks[id].status = status;
        if status == Status::Ended {
            self.living.retain(|living| *living != id);
        }
    }

    /// The tasks that have not ended.
    fn living(&self) -> impl Iterator<Item = (TaskId, &Task)> {
        self.living.iter().map(|id| (*id, &self.tasks[*id]))
    }

    /// When the pause of a task's group ends, while it lasts.
    fn paused_until(&self, task: &Task, now: u64) -> Option<u64> {
        self.paused.get(&task.group).copied().filter(|until| *until > now)
    }

    fn wake(&mut self, id: TaskId, waited: Waited) {
        self.tasks[id].waited = waited;
        self.set(id, Status::Ready);
    }

    /// Tasks that wait for that.
    fn waiting(&self, on: On) -> Vec<TaskId> {
        let waits = |task: &Task| matches!(task.status, Status::Waiting { on: other, .. } if other == on);
        self.living().filter(|(_, task)| waits(task)).map(|(id, _)| id).collect()
    }

    /// Whose turn it is.
    fn next(&mut self, clock: &ManualClock, random: &Random) -> Next {
        if let Some(wakers) = self.woken_by_time(clock.monotonic_nanos()) {
            return Next::Wake(wakers);
        }
        let can_go_on = |task: &Task| match task.status {
            Status::Ready => true,
            Status::Contending(tried) => tried != self.progress,
            Status::Waiting { .. } | Status::Ended => false,
        };
        let now = clock.monotonic_nanos();
        let mut resumed = None;
        let mut able = Vec::new();
        for (id, task) in self.living().filter(|(_, task)| can_go_on(task)) {
            match self.paused_until(task, now) {
                None => able.push(id),
                Some(until) => resumed = Some(resumed.map_or(until, |first: u64| first.min(until))),
            }
        }
        if able.is_empty() {
            let Some(moment) = self.next_moment().into_iter().chain(resumed).min() else {
                return Next::Nobody;
            };
            let nanos = moment.saturating_sub(now);
            clock.advance(Duration::from_nanos(nanos));
            self.progress += 1;
            return Next::Wake(Vec::new());
        }
        let id = able[random.below(able.len() as u64) as usize];
        if self.tasks[id].status == Status::Ready {
            self.progress += 1;
        }
        self.turns += 1;
        self.fingerprint = self.fingerprint.rotate_left(5).wrapping_mul(0x100_0000_01B3) ^ id as u64;
        clock.advance(TURN);
        Next::Task(id)
    }

    /// The first moment that somebody waits for.
    fn next_moment(&self) -> Option<u64> {
        let moments = self.living().filter_map(|(_, task)| match task.status {
            Status::Waiting { until_nanos, .. } => until_nanos,
            _ => None,
        });
        moments.chain(self.timers.keys().next().map(|(nanos, _)| *nanos)).min()
    }

    /// Ends the waits whose moment has come; who is to be woken besides, if there is anybody.
    fn woken_by_time(&mut self, now: u64) -> Option<Vec<Waker>> {
        let is_over = |task: &Task| matches!(task.status, Status::Waiting { until_nanos: Some(until), .. } if until <= now);
        let over: Vec<TaskId> = self.living().filter(|(_, task)| is_over(task)).map(|(id, _)| id).collect();
        over.into_iter().for_each(|id| self.wake(id, Waited::TimedOut));
        self.timers.keys().next().filter(|(nanos, _)| *nanos <= now)?;
        let later = self.timers.split_off(&(now + 1, 0));
        Some(std::mem::replace(&mut self.timers, later).into_values().collect())
    }

    /// The tasks that have not ended, and what they wait for.
    fn describe(&self) -> String {
        let mut out = String::new();
        for (_, task) in self.living() {
            let _ = write!(out, "\n  {}: {:?}", task.name, task.status);
        }
        out
    }
}

impl Scheduler {
    fn new(seed: u64, clock: Arc<ManualClock>) -> Scheduler {
        Scheduler { clock, random: Random::from_seed(seed), state: Mutex::default() }
    }

    pub(crate) fn now_nanos(&self) -> u64 {
        self.clock.monotonic_nanos()
    }

    pub(crate) fn wake_at(&self, nanos: u64, waker: Waker) {
        let mut state = self.state.lock();
        state.timers_set += 1;
        let key = (nanos, state.timers_set);
        state.timers.insert(key, waker);
    }

    #[allow(clippy::disallowed_methods, reason = "the thread of a task")]
    pub(crate) fn spawn(
        self: &Arc<Self>,
        group: Option<Group>,
        name: String,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<TaskId> {
        let (id, baton) = {
            let mut state = self.state.lock();
            let group = group.or_else(|| here().map(|here| state.tasks[here.id].group));
            let id = state.add(name.clone(), group.unwrap_or(0));
            (id, Arc::clone(&state.tasks[id].baton))
        };
        let here = Here { scheduler: Arc::clone(self), id };
        let spawned = thread::Builder::new().name(name).spawn(move || {
            baton.take();
            let _here = Entered::new(here.clone());
            let outcome = catch_unwind(AssertUnwindSafe(work));
            here.scheduler.end(here.id, outcome.is_err());
        });
        if spawned.is_err() {
            self.state.lock().set(id, Status::Ended);
        }
        spawned.map(|_| id)
    }

    fn end(&self, id: TaskId, has_panicked: bool) {
        {
            let mut state = self.state.lock();
            if has_panicked {
                let name = state.tasks[id].name.clone();
                state.failure.get_or_insert(format!("{name} panicked"));
            }
            state.set(id, Status::Ended);
            for other in state.waiting(On::End(id)) {
                state.wake(other, Waited::Notified);
            }
        }
        self.pass(id);
    }

    /// The root is done: lets the others end, and makes sure that they do.
    fn finish(&self, root: TaskId) {
        let turns_max = self.state.lock().turns + LAST_TURNS_MAX;
        loop {
            {
                let mut state = self.state.lock();
                if state.living.iter().all(|id| *id == root) {
                    return;
                }
                if state.turns > turns_max {
                    state.failure = Some(format!("tasks are left:{}", state.describe()));
                }
                let tried = state.progress;
                state.set(root, Status::Contending(tried));
            }
            self.pass(root);
        }
    }

    pub(crate) fn join(&self, id: TaskId) {
        let Some(here) = here() else { return };
        if here.id == id {
            return;
        }
        loop {
            {
                let mut state = self.state.lock();
                if state.tasks[id].status == Status::Ended {
                    return;
                }
                state.set(here.id, Status::Waiting { on: On::End(id), until_nanos: None });
            }
            self.pass(here.id);
        }
    }

    /// Hands the turn to the next, and returns when it is `me` again. A task that has ended returns at once.
    fn pass(&self, me: TaskId) {
        let next = loop {
            let mut state = self.state.lock();
            if state.turns > TURNS_MAX && state.failure.is_none() {
                state.failure = Some(format!("it does not end after {TURNS_MAX} turns:{}", state.describe()));
            }
            match state.next(&self.clock, &self.random) {
                _ if state.failure.is_some() => break ROOT,
                Next::Task(id) => break id,
                Next::Wake(wakers) => {
                    drop(state);
                    // Who wakes others here waits itself: it has no turn to hand over.
                    IS_WAKING.set(true);
                    wakers.into_iter().for_each(Waker::wake);
                    IS_WAKING.set(false);
                }
                Next::Nobody => {
                    state.failure = Some(format!("all tasks wait for each other:{}", state.describe()));
                }
            }
        };
        let (has_ended, mine, theirs) = {
            let state = self.state.lock();
            let baton = |id: TaskId| Arc::clone(&state.tasks[id].baton);
            (state.tasks[me].status == Status::Ended, baton(me), baton(next))
        };
        if next != me {
            theirs.give();
            if has_ended {
                return;
            }
            mine.take();
        }
        // Told by the root alone: the threads of the others stay where they are, for ever.
        let failure = self.state.lock().failure.clone();
        if let Some(failure) = failure.filter(|_| me == ROOT) {
            panic!("the simulation failed: {failure}");
        }
    }
}

/// The task that the calling thread is.
#[derive(Clone, Debug)]
pub(crate) struct Here {
    scheduler: Arc<Scheduler>,
    id: TaskId,
}

thread_local! {
    /// Number of the core for the worlds that the thread runs: those of another thread have another one.
    static PLACE: Cell<usize> = Cell::new(PLACES.fetch_add(1, Ordering::Relaxed));
    static HERE: RefCell<Option<Here>> = const { RefCell::new(None) };
    static IS_WAKING: Cell<bool> = const { Cell::new(false) };
}

/// The task that the calling thread is, in a simulation.
pub(crate) fn here() -> Option<Here> {
    HERE.try_with(|here| here.borrow().clone()).ok().flatten()
}

struct Entered(());

impl Entered {
    fn new(here: Here) -> Entered {
        HERE.set(Some(here));
        Entered(())
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        HERE.set(None);
    }
}

impl Here {
    pub(crate) fn now_nanos(&self) -> u64 {
        self.scheduler.now_nanos()
    }

    /// Tries until it gets something, after turns of others.
    pub(crate) fn contend<T>(&self, mut attempt: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(got) = attempt() {
                let mut state = self.scheduler.state.lock();
                state.set(self.id, Status::Ready);
                state.progress += 1;
                return got;
            }
            {
                let mut state = self.scheduler.state.lock();
                let tried = state.progress;
                state.set(self.id, Status::Contending(tried));
            }
            self.scheduler.pass(self.id);
        }
    }

    /// Waits for a condition.
    pub(crate) fn wait(&self, address: usize, timeout: Option<Duration>) -> Waited {
        let until_nanos = timeout.map(|timeout| self.now_nanos().saturating_add(timeout.as_nanos() as u64));
        let on = On::Condition(address);
        self.scheduler.state.lock().set(self.id, Status::Waiting { on, until_nanos });
        self.scheduler.pass(self.id);
        self.scheduler.state.lock().tasks[self.id].waited
    }

    pub(crate) fn notify_one(&self, address: usize) {
        let mut state = self.scheduler.state.lock();
        let waiting = state.waiting(On::Condition(address));
        if !waiting.is_empty() {
            let id = waiting[self.scheduler.random.below(waiting.len() as u64) as usize];
            state.wake(id, Waited::Notified);
        }
    }

    pub(crate) fn notify_all(&self, address: usize) {
        let mut state = self.scheduler.state.lock();
        for id in state.waiting(On::Condition(address)) {
            state.wake(id, Waited::Notified);
        }
    }

    pub(crate) fn yield_now(&self) {
        self.scheduler.pass(self.id);
    }

    /// Hands the turn over, once in so many times.
    pub(crate) fn step(&self, one_in: u64) {
        if !IS_WAKING.get() && self.scheduler.random.below(one_in) == 0 {
            self.yield_now();
        }
    }
}

#[cfg(test)]
mod tests;
