//! What a scan does between rows besides reading: it learns that nobody waits for its rows any more, and it
//! keeps to its pace.
//!
//! Whoever asked for the rows keeps one clone of a [`Cancel`], the scan has the other. The scan looks at it
//! between rows. Where it waits for something else, it is woken.

use env::sync::Mutex;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Called once, by who cancels.
type Waker = Box<dyn FnOnce() + Send>;

/// Whether a scan is still wanted. Clones are the same.
#[derive(Clone, Default)]
pub struct Cancel(Arc<State>);

#[derive(Default)]
struct State {
    is_cancelled: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

impl Cancel {
    /// Nobody wants the rows any more, now and for ever.
    pub fn cancel(&self) {
        let wakers = {
            let mut wakers = self.0.wakers.lock();
            self.0.is_cancelled.store(true, Ordering::Release);
            std::mem::take(&mut *wakers)
        };
        wakers.into_iter().for_each(|wake| wake());
    }

    /// Whether nobody wants them.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Acquire)
    }

    /// Has `wake` called when it is cancelled; at once if it is.
    pub fn on_cancel(&self, wake: impl FnOnce() + Send + 'static) {
        let mut wakers = self.0.wakers.lock();
        if self.is_cancelled() {
            drop(wakers);
            return wake();
        }
        wakers.push(Box::new(wake));
    }

    /// The same when it is dropped.
    #[cfg(feature = "query")]
    pub(crate) fn when_dropped(&self) -> CancelsWhenDropped {
        CancelsWhenDropped(self.clone())
    }
}

/// Who is told on the way how many bytes a scan has gone over. May wait, and says whether the scan goes on.
#[derive(Clone)]
pub struct Pace(Arc<dyn Fn(u64) -> bool + Send + Sync>);

impl Pace {
    /// Calls this between rows, now and then.
    pub fn new(tell: impl Fn(u64) -> bool + Send + Sync + 'static) -> Pace {
        Pace(Arc::new(tell))
    }

    /// Tells it the bytes so far, before compression.
    pub(crate) fn goes_on(&self, bytes: u64) -> bool {
        (self.0)(bytes)
    }
}

impl fmt::Debug for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pace")
    }
}

/// Cancels when it is dropped.
#[cfg(feature = "query")]
pub(crate) struct CancelsWhenDropped(Cancel);

#[cfg(feature = "query")]
impl Drop for CancelsWhenDropped {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn wakers_are_called_once_whenever_they_come() {
        let cancel = Cancel::default();
        let called = Arc::new(AtomicU32::new(0));
        let add = |by| {
            let called = Arc::clone(&called);
            move || {
                called.fetch_add(by, Ordering::Relaxed);
            }
        };
        cancel.on_cancel(add(1));
        assert!(!cancel.is_cancelled() && called.load(Ordering::Relaxed) == 0);
        cancel.clone().cancel();
        cancel.cancel();
        assert!(cancel.is_cancelled() && called.load(Ordering::Relaxed) == 1);
        cancel.on_cancel(add(10));
        assert_eq!(called.load(Ordering::Relaxed), 11);
    }
}
