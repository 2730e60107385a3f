//! The one kind of background loop: tasks that look for work when they are nudged, and now and then besides.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::sync::{Condvar, Mutex};
use crate::tasks::{TaskHandle, Tasks};

/// What a look decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The next look is due at the next nudge, or after the loop's tick.
    Again,
    /// What the loop worked for is gone.
    End,
}

/// A loop on tasks of its own, or one that is not started yet.
///
/// A nudge that comes during a look leads to another look. Nudges and ticks of one loop may come together;
/// a look has to be cheap when there is nothing to do.
#[derive(Debug, Default)]
pub struct Background {
    /// Number of nudges so far.
    nudges: Mutex<u64>,
    changed: Condvar,
    is_stopping: AtomicBool,
    tasks: Mutex<Vec<TaskHandle>>,
}

impl Background {
    /// Starts a task for each name; each waits for its first nudge or tick.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        self: &Arc<Self>,
        tasks: &Tasks,
        names: impl IntoIterator<Item = String>,
        tick: Duration,
        look: impl Fn() -> Look + Send + Sync + 'static,
    ) -> io::Result<()> {
        let look = Arc::new(look);
        for name in names {
            let (this, look) = (Arc::clone(self), Arc::clone(&look));
            let task = tasks.spawn(name, move || this.work(tick, look.as_ref()))?;
            self.tasks.lock().push(task);
        }
        Ok(())
    }

    /// Whether it was started, and not stopped since.
    pub fn is_started(&self) -> bool {
        !self.tasks.lock().is_empty()
    }

    /// Makes one task look. Each of the others looks after its tick at the latest.
    pub fn nudge_one(&self) {
        *self.nudges.lock() += 1;
        self.changed.notify_one();
    }

    /// Makes every task look.
    pub fn nudge(&self) {
        *self.nudges.lock() += 1;
        self.changed.notify_all();
    }

    /// Whether the loop ends: looks that take long ask now and then.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    /// For looks: waits for so long, whoever nudges meanwhile; whether the loop goes on.
    pub fn rest(&self, duration: Duration) -> bool {
        let mut nudges = self.nudges.lock();
        let is_waiting = |_: &mut u64| !self.is_stopping();
        let has_stopped = self.changed.wait_while_for(&mut nudges, is_waiting, duration);
        !has_stopped
    }

    /// Ends the loop after the looks that run. A task of it may call this; it does not wait for itself.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.nudge();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        tasks.into_iter().for_each(TaskHandle::join);
    }

    fn work(&self, tick: Duration, look: &dyn Fn() -> Look) {
        let mut seen = 0;
        loop {
            {
                let mut nudges = self.nudges.lock();
                if *nudges == seen && !self.is_stopping() {
                    self.changed.wait_for(&mut nudges, tick);
                }
                seen = *nudges;
            }
            if self.is_stopping() || look() == Look::End {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::sim::Simulation;

    const TICK: Duration = Duration::from_secs(60);

    /// A loop that counts its looks, in a world of that seed.
    fn counted(seed: u64, then: impl FnOnce(&Arc<Background>, &AtomicU64, &Tasks)) {
        Simulation::run(seed, |simulation| {
            let tasks = simulation.tasks();
            let (background, looks) = (Arc::new(Background::default()), Arc::new(AtomicU64::new(0)));
            let counted = Arc::clone(&looks);
            let names = ["one".to_owned(), "two".to_owned()];
            background
                .start(&tasks, names, TICK, move || {
                    counted.fetch_add(1, Ordering::SeqCst);
                    Look::Again
                })
                .unwrap();
            then(&background, &looks, &tasks);
            background.stop();
        });
    }

    #[test]
    fn it_looks_when_nudged_and_after_its_tick() {
        for seed in 0..50 {
            counted(seed, |background, looks, tasks| {
                background.nudge();
                crate::tasks::block_on(tasks.sleep(TICK / 2));
                assert_eq!(looks.load(Ordering::SeqCst), 2, "each looked once");
                background.nudge_one();
                crate::tasks::block_on(tasks.sleep(TICK / 4));
                assert_eq!(looks.load(Ordering::SeqCst), 3, "one of them looked");
                crate::tasks::block_on(tasks.sleep(TICK));
                assert!(looks.load(Ordering::SeqCst) >= 5, "the tick of both is over");
            });
        }
    }

    #[test]
    fn a_rest_is_ended_by_a_stop_alone() {
        for seed in 0..50 {
            counted(seed, |background, _, tasks| {
                let (resting, told) = (Arc::clone(background), Arc::new(Mutex::new(Vec::new())));
                let tell = Arc::clone(&told);
                let task = tasks
                    .spawn("rests", move || {
                        for _ in 0..2 {
                            let goes_on = resting.rest(TICK);
                            tell.lock().push(goes_on);
                        }
                    })
                    .unwrap();
                crate::tasks::block_on(tasks.sleep(TICK / 2));
                background.nudge();
                crate::tasks::block_on(tasks.sleep(TICK));
                assert_eq!(*told.lock(), [true]);
                background.stop();
                task.join();
                assert_eq!(*told.lock(), [true, false]);
            });
        }
    }
}
