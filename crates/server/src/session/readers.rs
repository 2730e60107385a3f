//! The threads that may wait for the disk: `concurrent_reads` of them, with a bounded queue.
//!
//! Threads are started as they are needed and stay. A job that panics costs its own answer, not the thread. A request that
//! runs a job there is told how long it waited for the thread ([`Exchange::run_on_reader`]).

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use parking_lot::{Condvar, Mutex};
use partition::Deadline;
use tokio::sync::oneshot;

use super::Exchange;
use crate::metrics::Metrics;
use crate::node::ask_for_short_slices;

/// The name of the threads.
const THREAD: &str = "ilion-read";

/// Jobs that may wait for each thread.
const QUEUE_PER_THREAD: usize = 128;

type Job = Box<dyn FnOnce() + Send>;

/// Why a job was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReaderError {
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
pub(super) struct Readers {
    shared: Arc<Shared>,
    threads_max: usize,
    metrics: Arc<Metrics>,
}

impl Readers {
    pub(super) fn new(threads_max: usize, metrics: Arc<Metrics>) -> Readers {
        let shared = Arc::new(Shared { state: Mutex::default(), work: Condvar::new() });
        Readers { shared, threads_max, metrics }
    }

    /// Runs `job` on a thread of the pool, with the nanoseconds of the deadline's clock at which it begins. Who waits is
    /// answered at the deadline at the latest, even when a device holds the thread for longer.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        deadline: &Deadline,
        job: impl FnOnce(u64) -> T + Send + 'static,
    ) -> Result<T, ReaderError> {
        let (tell, told) = oneshot::channel();
        let metrics = Arc::clone(&self.metrics);
        metrics.reader_tasks.add(1);
        let counted = Counted(metrics);
        let until = deadline.clone();
        self.enqueue(Box::new(move || {
            let _counted = counted;
            let outcome = until.now().map(job).ok_or(ReaderError::TimedOut);
            // Nobody listens when the client is gone.
            let _ = tell.send(outcome);
        }))?;
        match tokio::time::timeout(deadline.left(), told).await {
            Ok(told) => told.map_err(|_| ReaderError::Abandoned)?,
            Err(_) => Err(ReaderError::TimedOut),
        }
    }

    fn enqueue(&self, job: Job) -> Result<(), ReaderError> {
        let mut state = self.shared.state.lock();
        if state.queue.len() >= self.threads_max.saturating_mul(QUEUE_PER_THREAD) {
            return Err(ReaderError::Overloaded);
        }
        state.queue.push_back(job);
        if state.idle < state.queue.len() && state.threads < self.threads_max {
            state.threads += 1;
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
                ask_for_short_slices();
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

impl Exchange {
    /// [`Readers::run`]. The time until the job begins is counted with the request's waits, and noted for the trace as
    /// of the moment at which it begins.
    pub(super) async fn run_on_reader<T: Send + 'static>(
        &mut self,
        deadline: &Deadline,
        job: impl FnOnce(u64) -> T + Send + 'static,
    ) -> Result<T, ReaderError> {
        let sessions = Arc::clone(&self.sessions);
        let env = &sessions.node.env;
        // Who is answered at the deadline wants to know, too, whether it had begun.
        let begun = Arc::new(OnceLock::new());
        let (tell, traced) = (Arc::clone(&begun), self.trace.is_some().then(|| env.clone()));
        let asked = env.clock.monotonic_nanos();
        let begin = move |now| {
            let _ = tell.set((now, traced.map(|env| env.time_uuid())));
            job(now)
        };
        let done = sessions.readers.run(deadline, begin).await;
        if let Some((at, event)) = begun.get() {
            let nanos = at.saturating_sub(asked);
            self.waits.reader_nanos += nanos;
            if let (Some(trace), Some(event)) = (&mut self.trace, event) {
                let activity = format!("Waited {} us for a reader thread", nanos / 1_000);
                trace.note_as(*event, activity, *at, THREAD);
            }
        } else if matches!(done, Err(ReaderError::TimedOut)) {
            let nanos = env.clock.monotonic_nanos().saturating_sub(asked);
            self.waits.reader_nanos += nanos;
            self.note(|| format!("Waited {} us for a reader thread in vain", nanos / 1_000));
        }
        done
    }
}

/// A job that waits or runs.
struct Counted(Arc<Metrics>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.reader_tasks.add(-1);
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
mod tests {
    use super::*;
    use partition::NanoClock;
    use std::sync::mpsc;

    /// A minute from now, of a clock that stands still.
    fn later() -> Deadline {
        Deadline::new(&(Arc::new(|| 0_u64) as NanoClock), 60_000_000_000)
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn jobs_run_and_a_panic_costs_one_answer() {
        let readers = Readers::new(1, Arc::default());
        block_on(async {
            assert_eq!(
                readers.run(&later(), |_| -> () { panic!("on purpose") }).await,
                Err(ReaderError::Abandoned)
            );
            assert_eq!(readers.run(&later(), |_| 7).await, Ok(7));
        });
    }

    #[test]
    fn the_queue_is_bounded() {
        let readers = Readers::new(1, Arc::default());
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
        assert_eq!(block_on(readers.run(&later(), |_| ())), Err(ReaderError::Overloaded));
        go.send(()).unwrap();
        while !readers.shared.state.lock().queue.is_empty() {
            std::thread::yield_now();
        }
        assert_eq!(block_on(readers.run(&later(), |_| 1)), Ok(1));
    }

    #[test]
    fn a_job_whose_deadline_is_over_is_not_run() {
        let readers = Readers::new(1, Arc::default());
        let over = Deadline::new(&(Arc::new(|| 7_u64) as NanoClock), 7);
        assert_eq!(block_on(readers.run(&over, |_| -> () { panic!("is run") })), Err(ReaderError::TimedOut));
        assert_eq!(block_on(readers.run(&later(), |_| 1)), Ok(1));
    }

    #[test]
    fn who_waits_behind_a_stuck_job_is_answered_at_the_deadline() {
        let readers = Readers::new(1, Arc::default());
        let (go, wait) = mpsc::channel::<()>();
        readers.enqueue(Box::new(move || wait.recv().unwrap())).unwrap();
        let soon = Deadline::new(&(Arc::new(|| 0_u64) as NanoClock), 1_000_000);
        assert_eq!(block_on(readers.run(&soon, |_| ())), Err(ReaderError::TimedOut));
        go.send(()).unwrap();
    }
}
