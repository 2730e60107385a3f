//! The threads that may wait for the disk: `concurrent_reads` of them, with a bounded queue.
//!
//! Threads are started as they are needed and stay. A job that panics costs its own answer, not the thread. A
//! request that runs a job there is told how long it waited for the thread.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use env::Env;
use env::clock::Clock;
use env::sync::{Condvar, Mutex};
use env::tasks::Tasks;
use partition::Deadline;
use tokio::sync::oneshot;

use super::{ReadObserver, ReaderWait};

/// The name of the threads.
pub const READER_THREAD: &str = "ilion-read";

/// Jobs that may wait for each thread.
const QUEUE_PER_THREAD: usize = 128;

type Job = Box<dyn FnOnce() + Send>;

/// Why a job was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReaderError {
    /// The queue is full.
    #[error(
        "Too many reads are waiting for the disk. Server is currently in an overloaded state and cannot \
             accept more requests."
    )]
    Overloaded,
    /// The job panicked, or the node ends.
    #[error("the read was abandoned")]
    Abandoned,
    /// The deadline came before the job was done. One that had not begun is dropped.
    #[error("the read took longer than it may")]
    TimedOut,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

/// A pool of threads for reads.
pub struct Readers {
    shared: Arc<Shared>,
    threads_max: usize,
    env: Env,
    hooks: ReaderHooks,
}

/// What the node does around the threads.
#[derive(Clone)]
pub struct ReaderHooks {
    /// Runs on each thread when it starts.
    pub thread_started: fn(),
    /// Counts the jobs that wait or run: one more, one less.
    pub count_jobs: Arc<dyn Fn(i64) + Send + Sync>,
}

impl ReaderHooks {
    /// Nothing is done.
    pub fn none() -> ReaderHooks {
        ReaderHooks { thread_started: || (), count_jobs: Arc::new(|_| ()) }
    }
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").field("threads_max", &self.threads_max).finish_non_exhaustive()
    }
}

impl Readers {
    /// A pool of at most `threads_max` threads.
    pub fn new(env: Env, threads_max: usize, hooks: ReaderHooks) -> Readers {
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new() });
        Readers { shared, threads_max: threads_max.max(1), env, hooks }
    }

    /// The timers of its waits.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.env.tasks
    }

    /// The clock of its waits.
    pub fn clock(&self) -> &dyn Clock {
        self.env.clock.as_ref()
    }

    /// Runs `job` on a thread of the pool, with the nanoseconds of the clock at which it begins. Who waits is
    /// answered at the deadline at the latest, even when a device holds the thread for longer.
    ///
    /// # Errors
    /// When the job was not carried out, or not in time.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Option<&Deadline>,
        job: impl FnOnce(u64) -> T + Send + 'static,
    ) -> Result<T, ReaderError> {
        let (tell, told) = oneshot::channel();
        let counted = Counted::new(&self.hooks);
        let (until, clock) = (deadline.cloned(), Arc::clone(&self.env.clock));
        self.enqueue(Box::new(move || {
            let _counted = counted;
            let now = match &until {
                Some(until) => until.now(),
                None => Some(clock.monotonic_nanos()),
            };
            // Nobody listens when the client is gone.
            let _ = tell.send(now.map(job).ok_or(ReaderError::TimedOut));
        }))?;
        let told = match deadline {
            Some(deadline) => match self.env.tasks.timeout(deadline.left(), told).await {
                Ok(told) => told,
                Err(_) => return Err(ReaderError::TimedOut),
            },
            None => told.await,
        };
        told.map_err(|_| ReaderError::Abandoned)?
    }

    /// As [`Readers::run`]; `observer` is told of the time until the job began.
    ///
    /// # Errors
    /// Those of [`Readers::run`].
    pub async fn run_observed<T: Send + 'static>(
        &self,
        deadline: Option<&Deadline>,
        observer: &mut dyn ReadObserver,
        job: impl FnOnce(u64) -> T + Send + 'static,
    ) -> Result<T, ReaderError> {
        // Who is answered at the deadline wants to know, too, whether it had begun.
        let begun = Arc::new(OnceLock::new());
        let (tell, traced) = (Arc::clone(&begun), observer.is_traced().then(|| self.env.clone()));
        let asked = self.env.clock.monotonic_nanos();
        let begin = move |now| {
            let _ = tell.set((now, traced.map(|env| env.time_uuid())));
            job(now)
        };
        let done = self.run(deadline, begin).await;
        if let Some((at_nanos, event)) = begun.get() {
            let nanos = at_nanos.saturating_sub(asked);
            observer.waited_for_reader(nanos, ReaderWait::Began { at_nanos: *at_nanos, event: *event });
        } else if matches!(done, Err(ReaderError::TimedOut)) {
            let nanos = self.env.clock.monotonic_nanos().saturating_sub(asked);
            observer.waited_for_reader(nanos, ReaderWait::InVain);
        }
        done
    }

    fn enqueue(&self, job: Job) -> Result<(), ReaderError> {
        let mut state = self.shared.state.lock();
        if state.queue.len() >= self.threads_max.saturating_mul(QUEUE_PER_THREAD) {
            return Err(ReaderError::Overloaded);
        }
        state.queue.push_back(job);
        if state.idle < state.queue.len() && state.threads < self.threads_max {
            state.threads += 1;
            let (shared, started) = (Arc::clone(&self.shared), self.hooks.thread_started);
            let spawned = self.env.tasks.spawn(READER_THREAD, move || {
                started();
                work(&shared);
            });
            if let Err(error) = spawned {
                state.threads -= 1;
                tracing::error!(%error, "cannot start a reader thread");
                if state.threads == 0 {
                    state.queue.clear();
                    return Err(ReaderError::Overloaded);
                }
            }
        }
        drop(state);
        self.shared.work.notify_one();
        Ok(())
    }
}

/// A job that waits or runs.
struct Counted(Arc<dyn Fn(i64) + Send + Sync>);

impl Counted {
    fn new(hooks: &ReaderHooks) -> Counted {
        (hooks.count_jobs)(1);
        Counted(Arc::clone(&hooks.count_jobs))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.0)(-1);
    }
}

fn work(shared: &Shared) {
    let mut state = shared.state.lock();
    loop {
        if let Some(job) = state.queue.pop_front() {
            drop(state);
            // The panic was logged by the hook; the job's channel tells who waits.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = shared.state.lock();
            continue;
        }
        if state.is_closed {
            return;
        }
        state.idle += 1;
        shared.work.wait(&mut state);
        state.idle -= 1;
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.is_closed = true;
        state.queue.clear();
        drop(state);
        self.shared.work.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "threads and waits of a test")]
mod tests {
    use super::*;
    use partition::NanoClock;
    use std::sync::mpsc;

    /// A minute from now, of a clock that stands still.
    fn later() -> Deadline {
        Deadline::new(&(Arc::new(|| 0_u64) as NanoClock), 60_000_000_000)
    }

    fn pool() -> Readers {
        Readers::new(Env::for_test(1), 1, ReaderHooks::none())
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn jobs_run_and_a_panic_costs_one_answer() {
        let readers = pool();
        block_on(async {
            assert_eq!(
                readers.run(Some(&later()), |_| -> () { panic!("on purpose") }).await,
                Err(ReaderError::Abandoned)
            );
            assert_eq!(readers.run(Some(&later()), |_| 7).await, Ok(7));
        });
    }

    #[test]
    fn the_queue_is_bounded() {
        let readers = pool();
        let (go, wait) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        readers
            .enqueue(Box::new(move || {
                started.send(()).unwrap();
                wait.recv().unwrap();
            }))
            .unwrap();
        has_started.recv().unwrap();
        for _ in 0..QUEUE_PER_THREAD {
            readers.enqueue(Box::new(|| {})).unwrap();
        }
        assert_eq!(block_on(readers.run(Some(&later()), |_| ())), Err(ReaderError::Overloaded));
        go.send(()).unwrap();
        while !readers.shared.state.lock().queue.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(block_on(readers.run(Some(&later()), |_| 1)), Ok(1));
    }

    #[test]
    fn a_job_whose_deadline_is_over_is_not_run() {
        let readers = pool();
        let over = Deadline::new(&(Arc::new(|| 7_u64) as NanoClock), 7);
        assert_eq!(
            block_on(readers.run(Some(&over), |_| -> () { panic!("is run") })),
            Err(ReaderError::TimedOut)
        );
        assert_eq!(block_on(readers.run(Some(&later()), |_| 1)), Ok(1));
    }

    #[test]
    fn who_waits_behind_a_stuck_job_is_answered_at_the_deadline() {
        let readers = pool();
        let (go, wait) = mpsc::channel::<()>();
        readers.enqueue(Box::new(move || wait.recv().unwrap())).unwrap();
        let soon = Deadline::new(&(Arc::new(|| 0_u64) as NanoClock), 1_000_000);
        assert_eq!(block_on(readers.run(Some(&soon), |_| ())), Err(ReaderError::TimedOut));
        go.send(()).unwrap();
    }
}
