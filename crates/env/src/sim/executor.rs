//! Asynchronous work of a simulated node: futures that one task polls, in an order that the seed draws.
//!
//! 1. A future that can go on is drawn from all that can, and polled once. Then others may have the turn.
//! 2. [`Executor::stop`] drops what is left; it ends the task.
//!
//! It stands for the network threads of a node, which a simulation has just one of.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use parking_lot::Mutex;

use super::{Here, here};
use crate::sync::Waited;
use crate::tasks::{TaskHandle, Tasks};

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Polls futures. Clones are the same.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

/// Its lock is never held over a turn.
#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    next: u64,
    is_stopped: bool,
    /// Those that are not being polled.
    waiting: BTreeMap<u64, Work>,
    /// Numbers of those that can go on, each once.
    ready: Vec<u64>,
}

struct Woken {
    shared: Arc<Shared>,
    number: u64,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.shared.make_ready(self.number);
    }
}

impl Shared {
    fn address(&self) -> usize {
        std::ptr::from_ref(self) as usize
    }

    fn make_ready(&self, number: u64) {
        {
            let mut queue = self.queue.lock();
            if !queue.ready.contains(&number) {
                queue.ready.push(number);
            }
        }
        self.notify();
    }

    fn notify(&self) {
        if let Some(here) = here() {
            here.notify_all(self.address());
        }
    }

    fn run(self: &Arc<Self>, here: &Here) {
        loop {
            let drawn = {
                let mut queue = self.queue.lock();
                if queue.is_stopped {
                    break;
                }
                match queue.ready.len() as u64 {
                    0 => None,
                    ready => {
                        let at = here.scheduler.random.below(ready) as usize;
                        let number = queue.ready.remove(at);
                        Some((number, queue.waiting.remove(&number)))
                    }
                }
            };
            match drawn {
                // Nobody has a turn between the look at the queue and this wait.
                None => drop::<Waited>(here.wait(self.address(), None)),
                // It has ended, and was woken all the same.
                Some((_, None)) => {}
                Some((number, Some(mut work))) => {
                    let waker = Waker::from(Arc::new(Woken { shared: Arc::clone(self), number }));
                    if work.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
                        let mut queue = self.queue.lock();
                        queue.waiting.insert(number, work);
                    }
                    here.yield_now();
                }
            }
        }
        let left = std::mem::take(&mut self.queue.lock().waiting);
        drop(left);
    }
}

impl Executor {
    /// Starts one, as a task of the calling task's group.
    ///
    /// # Errors
    /// When the system gives no thread, and outside of a simulation.
    pub fn start(tasks: &Tasks, name: impl Into<String>) -> io::Result<(Executor, TaskHandle)> {
        let shared = Arc::new(Shared::default());
        let runs = Arc::clone(&shared);
        let handle = tasks.spawn(name, move || {
            if let Some(here) = here() {
                runs.run(&here);
            }
        })?;
        Ok((Executor { shared }, handle))
    }

    /// Has a future polled to its end. It is dropped where the executor is stopped.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let number = {
            let mut queue = self.shared.queue.lock();
            if queue.is_stopped {
                return;
            }
            queue.next += 1;
            let number = queue.next;
            queue.waiting.insert(number, Box::pin(work));
            number
        };
        self.shared.make_ready(number);
    }

    /// Polls nothing any more: what is left is dropped.
    pub fn stop(&self) {
        self.shared.queue.lock().is_stopped = true;
        self.shared.notify();
    }
}
