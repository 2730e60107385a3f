//! Locks and conditions of a node. Outside of a simulation they are those of `parking_lot`; a task of a
//! simulation ([`crate::sim`]) that has to wait hands the turn to another one.
//!
//! A lock that is free costs the same as one of `parking_lot`: only who has to wait asks where it is. With
//! the feature `steps`, which tests have, every lock may hand the turn over before it is taken.
#![allow(clippy::disallowed_types)]

use std::ops::DerefMut;
use std::ptr;
use std::time::Duration;

pub use parking_lot::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use crate::sim;

/// A lock for one at a time.
#[derive(Debug, Default)]
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(parking_lot::Mutex::new(value))
    }

    /// What it holds.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until it is free.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        step();
        match self.0.try_lock() {
            Some(guard) => guard,
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> MutexGuard<'_, T> {
        match sim::here() {
            Some(task) => task.contend(|| self.0.try_lock()),
            None => self.0.lock(),
        }
    }

    /// The lock, if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }

    /// What it holds, for its only owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

/// A lock for many readers or one writer.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

impl<T> RwLock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(parking_lot::RwLock::new(value))
    }

    /// What it holds.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        step();
        match self.0.try_read() {
            Some(guard) => guard,
            None => self.wait_to_read(),
        }
    }

    /// Waits until nobody reads or writes.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        step();
        match self.0.try_write() {
            Some(guard) => guard,
            None => self.wait_to_write(),
        }
    }

    /// The lock for reading, if nobody writes.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.0.try_read()
    }

    /// The lock for writing, if it is free.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write()
    }

    /// What it holds, for its only owner.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    #[cold]
    fn wait_to_read(&self) -> RwLockReadGuard<'_, T> {
        match sim::here() {
            Some(task) => task.contend(|| self.0.try_read()),
            None => self.0.read(),
        }
    }

    #[cold]
    fn wait_to_write(&self) -> RwLockWriteGuard<'_, T> {
        match sim::here() {
            Some(task) => task.contend(|| self.0.try_write()),
            None => self.0.write(),
        }
    }
}

/// Something that others wait for with a lock in hand.
#[derive(Debug, Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// One that nobody waits for.
    pub const fn new() -> Condvar {
        Condvar(parking_lot::Condvar::new())
    }

    /// Lets the lock go until somebody notifies.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        match sim::here() {
            Some(task) => {
                release(guard, &task, || task.wait(self.address(), None));
            }
            None => self.0.wait(guard),
        }
    }

    /// As [`Condvar::wait`], for at most `timeout`.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> Waited {
        match sim::here() {
            Some(task) => release(guard, &task, || task.wait(self.address(), Some(timeout))),
            None if self.0.wait_for(guard, timeout).timed_out() => Waited::TimedOut,
            None => Waited::Notified,
        }
    }

    /// As [`Condvar::wait_for`], until the condition does not hold any more. Whether that is so.
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        timeout: Duration,
    ) -> bool {
        match sim::here() {
            Some(task) => {
                let until = task.now_nanos().saturating_add(timeout.as_nanos() as u64);
                while condition(guard.deref_mut()) {
                    let left = until.saturating_sub(task.now_nanos());
                    if left == 0 {
                        return false;
                    }
                    let left = Some(Duration::from_nanos(left));
                    release(guard, &task, || task.wait(self.address(), left));
                }
                true
            }
            None => !self.0.wait_while_for(guard, condition, timeout).timed_out(),
        }
    }

    /// Wakes one of those who wait.
    pub fn notify_one(&self) {
        match sim::here() {
            Some(task) => task.notify_one(self.address()),
            None => {
                self.0.notify_one();
            }
        }
    }

    /// Wakes all who wait.
    pub fn notify_all(&self) {
        match sim::here() {
            Some(task) => task.notify_all(self.address()),
            None => {
                self.0.notify_all();
            }
        }
    }

    fn address(&self) -> usize {
        ptr::from_ref(self).addr()
    }
}

/// A point before a lock.
#[inline]
fn step() {
    #[cfg(feature = "steps")]
    if let Some(task) = sim::here() {
        task.step(sim::LOCKS_PER_TURN);
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Somebody notified.
    Notified,
    /// The time was over.
    TimedOut,
}

impl Waited {
    /// Whether the time was over.
    pub fn timed_out(self) -> bool {
        self == Waited::TimedOut
    }
}

/// Waits without the lock, and has it again afterwards. When `unlocked` takes it back it is free: nobody else
/// had a turn since.
fn release<T: ?Sized>(
    guard: &mut MutexGuard<'_, T>,
    task: &sim::Here,
    wait: impl FnOnce() -> Waited,
) -> Waited {
    let mutex = MutexGuard::mutex(guard);
    MutexGuard::unlocked(guard, || {
        let waited = wait();
        drop(task.contend(|| mutex.try_lock()));
        waited
    })
}
