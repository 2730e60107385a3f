//! Locks of partitions, for requests that read before they write.
//!
//! Partitions share a fixed number of locks, so memory is bounded; two partitions may wait for each other
//! without need, never for long.

use env::tasks::Tasks;
use model::DecoratedKey;
use partition::Deadline;
use tokio::sync::{Mutex, MutexGuard};

const STRIPES: usize = 1024;

/// The locks.
pub struct KeyLocks {
    stripes: Vec<Mutex<()>>,
}

impl KeyLocks {
    pub fn new() -> KeyLocks {
        KeyLocks { stripes: (0..STRIPES).map(|_| Mutex::new(())).collect() }
    }

    /// Whether somebody has the lock of `key` right now.
    pub fn is_held(&self, key: &DecoratedKey) -> bool {
        self.stripes.get(stripe(key)).is_some_and(|stripe| stripe.try_lock().is_err())
    }

    /// As [`KeyLocks::lock`]; `None` when the deadline came first.
    pub async fn lock_until<'a>(
        &'a self,
        tasks: &Tasks,
        deadline: Option<&Deadline>,
        keys: impl IntoIterator<Item = &DecoratedKey>,
    ) -> Option<Vec<MutexGuard<'a, ()>>> {
        let locks = self.lock(keys);
        match deadline {
            None => Some(locks.await),
            Some(deadline) => tasks.timeout(deadline.left(), locks).await.ok(),
        }
    }

    /// Waits for the locks of `keys`, always in the same order.
    async fn lock<'a>(&'a self, keys: impl IntoIterator<Item = &DecoratedKey>) -> Vec<MutexGuard<'a, ()>> {
        let mut wanted: Vec<usize> = keys.into_iter().map(stripe).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut held = Vec::with_capacity(wanted.len());
        for stripe in wanted.into_iter().filter_map(|i| self.stripes.get(i)) {
            held.push(stripe.lock().await);
        }
        held
    }
}

/// The number of a key's lock.
fn stripe(key: &DecoratedKey) -> usize {
    (key.token.0 as u64 % STRIPES as u64) as usize
}
