//! The memory of all memtables: one budget, for which writers wait.

use crate::error::WriteError;
use parking_lot::{Condvar, Mutex};
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

    pub(crate) fn add(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        drop(self.turn.lock());
        self.freed.notify_all();
    }

    /// Returns when a write may use memory. A write may then go over the limit by its own size: what bounds memory
    /// is that the next one waits.
    ///
    /// # Errors
    /// [`WriteError::WouldBlock`] when it would have to wait and must not, [`WriteError::Overloaded`] when no memory
    /// was freed in time.
    pub(crate) fn admit(&self, may_block: bool) -> Result<(), WriteError> {
        if self.used() < self.limit_bytes {
            return Ok(());
        }
        if !may_block {
            return Err(WriteError::WouldBlock);
        }
        let mut turn = self.turn.lock();
        let mut left = Duration::from_millis(self.wait_ms);
        const STEP: Duration = Duration::from_millis(50);
        while self.used() >= self.limit_bytes {
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
        Ok(())
    }
}
