//! The memory of all memtables: one budget, for which writers wait.
//!
//! A write reserves the bytes of its mutation before it is carried out, so that of all the writers that wait
//! for memory only as many go on as there is room for. It then gives the reservation back for the bytes that
//! a memtable really grew.

use crate::error::WriteError;
use crate::write::WriteOptions;
use env::sync::{Condvar, Mutex};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes in use by memtables, and their limit.
pub(crate) struct MemoryBudget {
    used: AtomicU64,
    limit_bytes: u64,
    wait_ms: u64,
    turn: Mutex<()>,
    freed: Condvar,
}

impl MemoryBudget {
    pub(crate) fn new(limit_bytes: u64, wait_ms: u64) -> MemoryBudget {
        MemoryBudget {
            used: AtomicU64::new(0),
            limit_bytes,
            wait_ms,
            turn: Mutex::new(()),
            freed: Condvar::new(),
        }
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether three quarters of it are in use: writers may have to wait soon.
    pub(crate) fn is_short(&self) -> bool {
        self.used() > self.limit_bytes / 4 * 3
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        drop(self.turn.lock());
        self.freed.notify_all();
    }

    /// Reserves `bytes` for a write when memory may be used. A write may then go over the limit by its own
    /// size: what bounds memory is that the next one waits.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] when it would have to wait and must not, [`WriteError::Overloaded`] when no
    /// memory was freed in time.
    pub(crate) fn admit(&self, bytes: u64, options: WriteOptions) -> Result<Reservation<'_>, WriteError> {
        if let Some(reservation) = self.try_reserve(bytes) {
            return Ok(reservation);
        }
        if !options.may_block {
            return Err(WriteError::WouldBlock);
        }
        let mut turn = self.turn.lock();
        let mut left = Duration::from_millis(self.wait_ms.min(options.wait_ms_max));
        const STEP: Duration = Duration::from_millis(50);
        loop {
            if let Some(reservation) = self.try_reserve(bytes) {
                return Ok(reservation);
            }
            if left.is_zero() {
                return Err(WriteError::Overloaded {
                    used_bytes: self.used(),
                    limit_bytes: self.limit_bytes,
                });
            }
            // In steps, so that a spurious or early wake-up does not end the wait.
            let step = left.min(STEP);
            if self.freed.wait_for(&mut turn, step).timed_out() {
                left -= step;
            }
        }
    }

    fn try_reserve(&self, bytes: u64) -> Option<Reservation<'_>> {
        let take = |used: u64| (used < self.limit_bytes).then(|| used.saturating_add(bytes));
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Reservation { budget: self, bytes })
    }

    /// A reservation that waits for nothing, for the engine's own small writes.
    pub(crate) fn reserve(&self, bytes: u64) -> Reservation<'_> {
        self.add(bytes);
        Reservation { budget: self, bytes }
    }
}

/// Memory for one write under way; given back when it is dropped.
pub(crate) struct Reservation<'a> {
    budget: &'a MemoryBudget,
    bytes: u64,
}

impl Reservation<'_> {
    /// The write is done: memtables grew by `grown_bytes`, which stay in use.
    pub(crate) fn spend(mut self, grown_bytes: u64) {
        if grown_bytes >= self.bytes {
            self.budget.add(grown_bytes - self.bytes);
            self.bytes = 0;
        } else {
            self.bytes -= grown_bytes;
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: WriteOptions = WriteOptions { may_block: false, wait_ms_max: 0 };

    #[test]
    fn it_is_short_when_three_quarters_are_in_use() {
        let budget = MemoryBudget::new(100, 0);
        budget.add(75);
        assert!(!budget.is_short());
        budget.add(1);
        assert!(budget.is_short());
        budget.release(1);
        assert!(!budget.is_short());
    }

    #[test]
    fn freed_memory_lets_only_as_many_writers_through_as_fit() {
        let budget = MemoryBudget::new(100, 60_000);
        budget.add(100);
        let (done, admitted) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (budget, done) = (&budget, done.clone());
                scope.spawn(move || {
                    let reservation = budget.admit(80, WriteOptions::default()).unwrap();
                    done.send(budget.used()).unwrap();
                    reservation.spend(80);
                });
            }
            for freed in [100, 160, 160, 160] {
                budget.release(freed);
                for _ in 0..2 {
                    let used = admitted.recv().unwrap();
                    assert!(used <= 160, "{used} bytes are in use");
                }
            }
        });
        assert_eq!(budget.used(), 160);
    }

    #[test]
    fn a_write_that_fails_gives_its_memory_back() {
        let budget = MemoryBudget::new(100, 0);
        drop(budget.admit(70, AT_ONCE).unwrap());
        assert_eq!(budget.used(), 0);
        budget.admit(70, AT_ONCE).unwrap().spend(20);
        assert_eq!(budget.used(), 20);
        budget.admit(80, AT_ONCE).unwrap().spend(120);
        assert_eq!(budget.used(), 140);
        assert!(matches!(budget.admit(1, AT_ONCE), Err(WriteError::WouldBlock)));
        assert!(matches!(
            budget.admit(1, WriteOptions::default()),
            Err(WriteError::Overloaded { used_bytes: 140, limit_bytes: 100 })
        ));
        drop(budget.reserve(5));
        assert_eq!(budget.used(), 140);
    }
}
