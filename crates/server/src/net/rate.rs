//! How many requests a second are taken of all clients together.
//!
//! Each request takes the next of the moments at which one may come, which lie evenly. Moments of the last
//! second that nobody took can still be taken: as many requests as a second may have pass at once after a
//! quiet one. As Cassandra's `NonBlockingRateLimiter` (CASSANDRA-16663).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::clock::{Clock, SystemClock};

const SECOND_NANOS: u64 = 1_000_000_000;

/// The requests of a second.
#[derive(Debug)]
pub(super) struct RequestRate {
    clock: SystemClock,
    /// The next moment that nobody has taken. It begins a second after the clock does, so that the first
    /// second has moments before it, too.
    next_nanos: AtomicU64,
    /// Nanoseconds between two moments; 0 without a limit.
    interval_nanos: u64,
}

impl RequestRate {
    /// So many a second; 0: any number.
    pub(super) fn new(per_second: u32) -> Self {
        let interval_nanos = SECOND_NANOS.checked_div(u64::from(per_second)).unwrap_or(0);
        Self { clock: SystemClock::new(), next_nanos: AtomicU64::new(SECOND_NANOS), interval_nanos }
    }

    pub(super) fn is_limited(&self) -> bool {
        self.interval_nanos > 0
    }

    /// Takes a moment that has come; `false` if there is none.
    pub(super) fn try_take(&self) -> bool {
        self.try_take_at(self.now())
    }

    /// Takes the next moment; how far away it is.
    pub(super) fn take(&self) -> Duration {
        self.take_at(self.now())
    }

    fn now(&self) -> u64 {
        self.clock.monotonic_nanos().saturating_add(SECOND_NANOS)
    }

    fn try_take_at(&self, now: u64) -> bool {
        let taken =
            |next| Some(self.first(next, now)).filter(|first| *first <= now).map(|first| self.behind(first));
        self.next_nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    fn take_at(&self, now: u64) -> Duration {
        let taken = |next| Some(self.behind(self.first(next, now)));
        let (Ok(next) | Err(next)) =
            self.next_nanos.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        Duration::from_nanos(self.first(next, now).saturating_sub(now))
    }

    /// The first moment that can be taken.
    fn first(&self, next: u64, now: u64) -> u64 {
        next.max(now.saturating_sub(SECOND_NANOS))
    }

    fn behind(&self, moment: u64) -> u64 {
        moment.saturating_add(self.interval_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 5 * SECOND_NANOS;
    const TENTH: u64 = SECOND_NANOS / 10;

    fn ten_a_second() -> RequestRate {
        let rate = RequestRate::new(10);
        rate.next_nanos.store(START, Ordering::Relaxed);
        rate
    }

    #[test]
    fn a_moment_is_taken_once() {
        let rate = ten_a_second();
        assert!(rate.try_take_at(START));
        assert!(!rate.try_take_at(START));
        assert!(!rate.try_take_at(START + TENTH - 1));
        assert!(rate.try_take_at(START + TENTH));
    }

    #[test]
    fn who_comes_early_is_told_how_long_to_wait() {
        let rate = ten_a_second();
        let waits: Vec<Duration> = (0..3).map(|_| rate.take_at(START)).collect();
        assert_eq!(waits, [0, 100, 200].map(Duration::from_millis));
        assert_eq!(rate.take_at(START + 4 * TENTH), Duration::ZERO);
    }

    #[test]
    fn a_quiet_second_is_made_up_for_and_no_more() {
        let rate = ten_a_second();
        let later = START + 60 * SECOND_NANOS;
        assert_eq!((0..30).filter(|_| rate.try_take_at(later)).count(), 11);
    }

    #[test]
    fn there_may_be_no_limit() {
        assert!(!RequestRate::new(0).is_limited() && RequestRate::new(1).is_limited());
    }
}
