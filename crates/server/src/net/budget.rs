//! Bytes of requests and answers in memory, counted against limits.
//!
//! There are three kinds of them, and for each a budget of the node and one of each address:
//!
//! | bytes | taken | given back |
//! |---|---|---|
//! | requests in flight | when a whole request is admitted ([`super::Connection`]) | with its answer |
//! | requests that have not come whole | between two reads of the socket ([`super::incoming`]) | when the last byte came |
//! | answers | before and while they are made ([`super::answers`]) | when the socket took them |

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, Semaphore};

use super::NetOptions;

/// A limit of bytes and how many of them are in use.
#[derive(Debug)]
pub(super) struct Budget {
    used: AtomicU64,
    bytes_max: u64,
    /// Whether somebody may be waiting: who gives bytes back tells nobody where nobody waits.
    is_awaited: AtomicBool,
    freed: Notify,
    /// Those who said that they are held up.
    held_up: AtomicUsize,
}

/// Somebody who is held up for as long as this lives.
#[derive(Debug)]
pub(super) struct HeldUp<'a>(&'a Budget);

impl Drop for HeldUp<'_> {
    fn drop(&mut self) {
        self.0.held_up.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Budget {
    pub(super) fn new(bytes_max: u64) -> Self {
        Self {
            used: AtomicU64::new(0),
            bytes_max,
            is_awaited: AtomicBool::new(false),
            freed: Notify::new(),
            held_up: AtomicUsize::new(0),
        }
    }

    /// Takes `bytes` if they fit. Whatever its size, a request fits when there is no other.
    pub(super) fn try_take(&self, bytes: u64) -> bool {
        self.try_take_more(0, bytes)
    }

    /// As [`Self::try_take`], for who has `own` bytes already: they fit, too, when nobody else has any.
    pub(super) fn try_take_more(&self, own: u64, bytes: u64) -> bool {
        let fits = |used: u64| {
            let after = used.saturating_add(bytes);
            (used <= own || after <= self.bytes_max).then_some(after)
        };
        self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits).is_ok()
    }

    /// Takes `bytes` that are in memory already, whether they fit or not.
    pub(super) fn take(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::SeqCst);
    }

    /// Whether `bytes` would fit now.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        let used = self.used.load(Ordering::SeqCst);
        used == 0 || used.saturating_add(bytes) <= self.bytes_max
    }

    /// Tells [`Self::holds_somebody_up`] for as long as the outcome lives.
    pub(super) fn hold_up(&self) -> HeldUp<'_> {
        self.held_up.fetch_add(1, Ordering::Relaxed);
        HeldUp(self)
    }

    /// Whether somebody has waited for a while and still does.
    pub(super) fn holds_somebody_up(&self) -> bool {
        self.held_up.load(Ordering::Relaxed) > 0
    }

    /// Gives `bytes` back that were taken, and tells those who wait.
    pub(super) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        // Either this sees that somebody waits, or the try after `freed` sees what was given back.
        if self.is_awaited.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst) {
            self.freed.notify_waiters();
        }
    }

    /// Takes back what was taken for a request that another limit then refused. Nobody is told: whoever was
    /// turned away meanwhile waits for that other limit too.
    pub(super) fn undo(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
    }

    /// Resolves when bytes are given back after this call. Who calls it tries once more before it waits.
    pub(super) fn freed(&self) -> Notified<'_> {
        let freed = self.freed.notified();
        self.is_awaited.store(true, Ordering::SeqCst);
        freed
    }

    #[cfg(test)]
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }
}

/// The budgets of the node, or of an address.
#[derive(Debug)]
pub(super) struct Budgets {
    /// Requests in flight.
    pub(super) requests: Budget,
    /// Requests that have not come whole.
    pub(super) incoming: Budget,
    /// Answers.
    pub(super) answers: Budget,
}

impl Budgets {
    /// Requests that have not come whole may take half of what those in flight may, so that however many
    /// there are, whole ones are admitted.
    fn new(requests_bytes_max: u64, answers_bytes_max: u64) -> Self {
        Self {
            requests: Budget::new(requests_bytes_max),
            incoming: Budget::new(requests_bytes_max / 2),
            answers: Budget::new(answers_bytes_max),
        }
    }
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct NodeBudgets {
    pub(super) budgets: Budgets,
    /// Who has it reads a request on for which there is no room.
    pub(super) incoming_pass: Arc<Semaphore>,
    /// Who has it makes and sends an answer for which there is no room.
    pub(super) answers_pass: Arc<Semaphore>,
}

impl NodeBudgets {
    pub(super) fn new(options: &NetOptions) -> Self {
        Self {
            budgets: Budgets::new(options.in_flight_bytes_max, options.answers_bytes_max),
            incoming_pass: Arc::new(Semaphore::new(1)),
            answers_pass: Arc::new(Semaphore::new(1)),
        }
    }
}

/// What all connections from one address share.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) budgets: Budgets,
    connections: AtomicUsize,
}

/// The addresses that have connections.
#[derive(Debug)]
pub(super) struct Addresses {
    requests_bytes_max: u64,
    answers_bytes_max: u64,
    by_ip: Mutex<HashMap<IpAddr, Arc<Address>>>,
}

impl Addresses {
    pub(super) fn new(options: &NetOptions) -> Self {
        Self {
            requests_bytes_max: options.in_flight_per_ip_bytes_max,
            answers_bytes_max: options.answers_per_ip_bytes_max,
            by_ip: Mutex::default(),
        }
    }

    /// Counts a connection from `ip` unless it would be the one after `connections_max` (0: no limit).
    pub(super) fn enter(&self, ip: IpAddr, connections_max: usize) -> Option<Arc<Address>> {
        let mut by_ip = self.by_ip.lock();
        let address = by_ip.entry(ip).or_insert_with(|| {
            let budgets = Budgets::new(self.requests_bytes_max, self.answers_bytes_max);
            Arc::new(Address { budgets, connections: AtomicUsize::new(0) })
        });
        if connections_max > 0 && address.connections.load(Ordering::Relaxed) >= connections_max {
            return None;
        }
        address.connections.fetch_add(1, Ordering::Relaxed);
        Some(Arc::clone(address))
    }

    /// Forgets a connection from `ip`. Requests in flight keep their share of the address alive.
    pub(super) fn leave(&self, ip: IpAddr) {
        let mut by_ip = self.by_ip.lock();
        let Some(address) = by_ip.get(&ip) else { return };
        if address.connections.fetch_sub(1, Ordering::Relaxed) == 1 {
            by_ip.remove(&ip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    #[test]
    fn a_budget_is_not_exceeded_but_a_single_giant_passes() {
        let budget = Budget::new(100);
        assert!(budget.try_take(1_000), "nothing else is in flight");
        assert!(!budget.try_take(1));
        budget.give_back(1_000);
        assert!(budget.try_take(60) && budget.try_take(40));
        assert!(!budget.try_take(1));
        budget.give_back(40);
        assert!(budget.try_take(1));
    }

    #[test]
    fn who_is_alone_may_grow_and_what_is_there_is_counted() {
        let budget = Budget::new(100);
        assert!(budget.try_take(60));
        assert!(budget.try_take_more(60, 1_000), "the 60 are its own");
        assert!(!budget.try_take_more(60, 1));
        assert!(!budget.has_room(1));
        budget.give_back(1_000);
        budget.take(100);
        assert_eq!(budget.used(), 160);
        budget.give_back(160);
        assert!(budget.has_room(1_000), "as one that is alone");
    }

    #[test]
    fn everybody_who_waits_learns_of_bytes_given_back_after_he_began_to() {
        let budget = Budget::new(100);
        assert!(budget.try_take(100));
        budget.give_back(10);
        let mut context = Context::from_waker(Waker::noop());
        let (mut first, mut second) = (pin!(budget.freed()), pin!(budget.freed()));
        assert!(first.as_mut().poll(&mut context).is_pending(), "these were given back before");
        budget.give_back(10);
        assert!(first.as_mut().poll(&mut context).is_ready());
        assert!(second.as_mut().poll(&mut context).is_ready(), "though it was not polled before");
        let mut third = pin!(budget.freed());
        assert!(third.as_mut().poll(&mut context).is_pending());
        budget.give_back(10);
        assert!(third.as_mut().poll(&mut context).is_ready(), "as those who waited earlier");
    }

    #[test]
    fn an_address_is_forgotten_with_its_last_connection() {
        let addresses = Addresses::new(&NetOptions::default());
        let ip = IpAddr::from([127, 0, 0, 1]);
        assert!(addresses.enter(ip, 2).is_some() && addresses.enter(ip, 2).is_some());
        assert!(addresses.enter(ip, 2).is_none(), "the third is refused");
        assert!(addresses.enter(IpAddr::from([127, 0, 0, 2]), 2).is_some(), "another address is not");
        addresses.leave(ip);
        assert!(addresses.enter(ip, 2).is_some());
        addresses.leave(ip);
        addresses.leave(ip);
        assert!(!addresses.by_ip.lock().contains_key(&ip));
    }
}
