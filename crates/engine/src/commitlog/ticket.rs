//! Who waits for the log to reach the device.
//!
//! Every append has a number. A sync covers all numbers up to some point, and either keeps them or fails
//! them: the failed ones are remembered, because a writer may ask late.

use crate::error::WriteError;
use env::sync::{Condvar, Mutex};
use std::io;
use std::sync::Arc;

/// Called once with the fate of a write.
pub type SyncCallback = Box<dyn FnOnce(Result<(), WriteError>) + Send>;

/// What is known about durability, and who waits for more.
#[derive(Default)]
pub(super) struct Durability {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Every append up to this number has its fate.
    settled: u64,
    /// Numbers (first excluded, last included) whose sync failed. Neighbours are joined, so a disk that stays
    /// broken takes one entry.
    failed: Vec<(u64, u64, Arc<io::Error>)>,
    waiters: Vec<(u64, SyncCallback)>,
}

impl State {
    fn fate(&self, number: u64) -> Option<Result<(), WriteError>> {
        if number > self.settled {
            return None;
        }
        let failed = self.failed.iter().find(|(after, last, _)| *after < number && number <= *last);
        Some(match failed {
            Some((_, _, error)) => Err(WriteError::CommitLog(Arc::clone(error))),
            None => Ok(()),
        })
    }
}

impl Durability {
    /// Settles every append up to `number`.
    pub(super) fn settle(&self, number: u64, outcome: Result<(), Arc<io::Error>>) {
        let ready: Vec<_> = {
            let mut state = self.state.lock();
            let before = state.settled;
            if number > before {
                state.settled = number;
                if let Err(error) = outcome {
                    match state.failed.last_mut() {
                        Some((_, last, kept)) if *last == before => (*last, *kept) = (number, error),
                        _ => state.failed.push((before, number, error)),
                    }
                }
            }
            let (ready, waiting) =
                std::mem::take(&mut state.waiters).into_iter().partition(|(n, _)| *n <= state.settled);
            state.waiters = waiting;
            let ready: Vec<(u64, SyncCallback)> = ready;
            ready.into_iter().filter_map(|(n, call)| Some((state.fate(n)?, call))).collect()
        };
        self.changed.notify_all();
        for (fate, call) in ready {
            call(fate);
        }
    }
}

/// The second half of a write: whether it is durable in the sense of the sync mode.
#[must_use = "the write is acknowledged only when its ticket is"]
pub struct SyncTicket(Ticket);

enum Ticket {
    Ready,
    Waits { number: u64, durability: Arc<Durability> },
}

impl SyncTicket {
    /// A write that waits for nothing.
    pub fn ready() -> SyncTicket {
        SyncTicket(Ticket::Ready)
    }

    pub(super) fn waits(number: u64, durability: Arc<Durability>) -> SyncTicket {
        SyncTicket(Ticket::Waits { number, durability })
    }

    /// The fate of the write if it is known by now.
    pub fn poll(&self) -> Option<Result<(), WriteError>> {
        match &self.0 {
            Ticket::Ready => Some(Ok(())),
            Ticket::Waits { number, durability } => durability.state.lock().fate(*number),
        }
    }

    /// Blocks until the fate of the write is known.
    ///
    /// # Errors
    /// [`WriteError::CommitLog`] when the sync failed.
    pub fn wait(self) -> Result<(), WriteError> {
        let Ticket::Waits { number, durability } = self.0 else { return Ok(()) };
        let mut state = durability.state.lock();
        loop {
            if let Some(fate) = state.fate(number) {
                return fate;
            }
            durability.changed.wait(&mut state);
        }
    }

    /// Calls `callback` with the fate of the write: at once, on this thread, when it is known; else later on
    /// the thread that syncs, which the callback must not block.
    pub fn on_synced(self, callback: SyncCallback) {
        let Ticket::Waits { number, durability } = self.0 else { return callback(Ok(())) };
        let fate = {
            let mut state = durability.state.lock();
            match state.fate(number) {
                Some(fate) => fate,
                None => return state.waiters.push((number, callback)),
            }
        };
        callback(fate);
    }
}
