//! Threads of a node. Outside of a simulation a task is a thread of its own; in one ([`crate::sim`]) tasks
//! take turns.
//!
//! The one place besides [`crate::sim`] that may start a thread.
#![allow(clippy::disallowed_methods)]

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle};

use crate::sim::{self, Scheduler, TaskId};
use crate::sync::{Condvar, Mutex};

/// Starts tasks. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    pub(crate) scheduler: Option<Arc<Scheduler>>,
}

/// A task that was started.
#[derive(Debug)]
pub struct TaskHandle(Started);

#[derive(Debug)]
enum Started {
    Thread(JoinHandle<()>),
    Simulated(Arc<Scheduler>, TaskId),
}

impl Tasks {
    /// Those of the machine, for what has to do with its sockets and signals.
    pub fn of_machine() -> Tasks {
        Tasks::default()
    }

    /// Starts a task.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(
        &self,
        name: impl Into<String>,
        work: impl FnOnce() + Send + 'static,
    ) -> io::Result<TaskHandle> {
        let name = name.into();
        let started = match &self.scheduler {
            None => Started::Thread(thread::Builder::new().name(name).spawn(work)?),
            Some(scheduler) => Started::Simulated(Arc::clone(scheduler), scheduler.spawn(None, name, work)?),
        };
        Ok(TaskHandle(started))
    }

    /// For how many tasks there are processors.
    pub fn parallelism(&self) -> usize {
        match self.scheduler {
            None => thread::available_parallelism().map_or(1, usize::from),
            Some(_) => 1,
        }
    }

    /// Does `work` `tasks` times, at the same time where there are processors for it; the calling thread
    /// takes part. What each returned. A panic goes on here.
    pub fn in_parallel<T: Send>(&self, tasks: usize, work: impl Fn() -> T + Sync) -> Vec<T> {
        if self.scheduler.is_some() {
            return (0..tasks.max(1)).map(|_| work()).collect();
        }
        thread::scope(|scope| {
            let others: Vec<_> = (1..tasks).map(|_| scope.spawn(&work)).collect();
            let mut all = vec![work()];
            for other in others {
                match other.join() {
                    Ok(done) => all.push(done),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            all
        })
    }
}

impl TaskHandle {
    pub(crate) fn simulated(scheduler: Arc<Scheduler>, id: TaskId) -> TaskHandle {
        TaskHandle(Started::Simulated(scheduler, id))
    }

    /// Waits until the task has ended; a task that waits for itself does not.
    pub fn join(self) {
        match self.0 {
            Started::Thread(handle) if handle.thread().id() == thread::current().id() => {}
            // A panic was told by the hook.
            Started::Thread(handle) => drop(handle.join()),
            Started::Simulated(scheduler, id) => scheduler.join(id),
        }
    }
}

/// Offers the processor to others.
pub fn yield_now() {
    match sim::here() {
        Some(task) => task.yield_now(),
        None => thread::yield_now(),
    }
}

/// A point at which a simulation may give the turn to another task, as a call of the file system is. Nothing
/// outside of one.
pub fn step() {
    if let Some(task) = sim::here() {
        task.step(sim::CALLS_PER_TURN);
    }
}

/// Whether the calling thread is a task of a simulation, where processor time means nothing.
pub fn is_simulated() -> bool {
    sim::here().is_some()
}

/// Waits for a future on the calling thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut is_woken = woken.is_woken.lock();
        while !std::mem::take(&mut *is_woken) {
            woken.changed.wait(&mut is_woken);
        }
    }
}

#[derive(Default)]
struct Woken {
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        *self.is_woken.lock() = true;
        self.changed.notify_one();
    }
}
