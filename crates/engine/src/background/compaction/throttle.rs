//! The pace of compactions: a common rate limit, a pause and a stop.
//!
//! A compaction calls [`Throttle::spend`] for the bytes that it wrote. Bytes are earned over time, and hardly
//! any ahead: a compaction that begins, or that waited, keeps the pace from the start. Cassandra's limiter
//! lets a second's worth through at once, and whoever reads beside it waits for as long.

use env::clock::Clock;
use env::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// How long a waiting compaction goes without looking whether it should stop.
const WAIT_MAX: Duration = Duration::from_millis(200);
/// Seconds of the rate that may be spent without waiting: what is written between two looks, and what a wait
/// was too long.
const AHEAD_S: f64 = 0.05;

/// The pace of all compactions of a node.
#[derive(Debug)]
pub struct Throttle {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Bytes a second; 0 for no limit.
    rate: u64,
    paused: bool,
    stopped: bool,
    /// Bytes that may be spent now; negative while they are still to be earned.
    balance: f64,
    earned_until_nanos: u64,
}

/// A compaction was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl Throttle {
    /// A throttle of `rate` bytes a second, 0 for no limit.
    pub fn new(clock: Arc<dyn Clock>, rate: u64) -> Throttle {
        let earned_until_nanos = clock.monotonic_nanos();
        let state =
            State { rate, paused: false, stopped: false, balance: rate as f64 * AHEAD_S, earned_until_nanos };
        Throttle { clock, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Bytes a second, 0 for no limit.
    pub fn rate(&self) -> u64 {
        self.state.lock().rate
    }

    /// Sets the bytes a second, 0 for no limit; compactions that wait notice.
    pub fn set_rate(&self, rate: u64) {
        self.change(|state| {
            state.rate = rate;
            state.balance = state.balance.min(rate as f64 * AHEAD_S);
        });
    }

    /// Whether compactions stand still.
    pub fn is_paused(&self) -> bool {
        self.state.lock().paused
    }

    /// Makes compactions stand still where they are, or go on.
    pub fn set_paused(&self, paused: bool) {
        self.change(|state| state.paused = paused);
    }

    /// Makes every compaction end, now and for ever.
    pub fn stop(&self) {
        self.change(|state| state.stopped = true);
    }

    /// Has those that wait ask at once whether they are cancelled.
    pub fn look(&self) {
        self.change(|_| ());
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
        self.changed.notify_all();
    }

    /// Spends `bytes`: waits until they are earned and no pause is on. `is_cancelled` is asked now and then,
    /// and when [`Throttle::look`] is called.
    ///
    /// # Errors
    /// [`Stopped`] when the throttle was stopped or the compaction cancelled.
    pub fn spend(&self, bytes: u64, is_cancelled: impl Fn() -> bool) -> Result<(), Stopped> {
        let mut state = self.state.lock();
        let mut spent = false;
        loop {
            if state.stopped || is_cancelled() {
                return Err(Stopped);
            }
            self.earn(&mut state);
            if !spent {
                if state.rate > 0 {
                    state.balance -= bytes as f64;
                }
                spent = true;
            }
            if state.paused {
                self.changed.wait_for(&mut state, WAIT_MAX);
            } else if state.rate == 0 || state.balance >= 0.0 {
                return Ok(());
            } else {
                let missing_s = -state.balance / state.rate as f64;
                self.changed.wait_for(&mut state, Duration::from_secs_f64(missing_s).min(WAIT_MAX));
            }
        }
    }

    fn earn(&self, state: &mut State) {
        let now = self.clock.monotonic_nanos();
        let seconds = now.saturating_sub(state.earned_until_nanos) as f64 / 1e9;
        state.earned_until_nanos = now;
        // Without a limit nothing is owed, whatever was spent.
        state.balance = if state.rate == 0 {
            0.0
        } else {
            (state.balance + seconds * state.rate as f64).min(state.rate as f64 * AHEAD_S)
        };
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "threads and waits of a test")]
mod tests {
    use super::*;
    use env::clock::ManualClock;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn throttle(rate: u64) -> (Arc<ManualClock>, Arc<Throttle>) {
        let clock = Arc::new(ManualClock::at_micros(0));
        (Arc::clone(&clock), Arc::new(Throttle::new(clock, rate)))
    }

    #[test]
    fn bytes_within_the_rate_pass_and_more_wait_until_earned() {
        let (clock, throttle) = throttle(1000);
        assert_eq!(throttle.spend(50, || false), Ok(()));
        let passed = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (throttle, passed) = (Arc::clone(&throttle), Arc::clone(&passed));
            std::thread::spawn(move || {
                let result = throttle.spend(500, || false);
                passed.store(true, Ordering::SeqCst);
                result
            })
        };
        while throttle.state.lock().balance >= 0.0 {
            std::thread::yield_now();
        }
        assert!(!passed.load(Ordering::SeqCst));
        clock.advance(Duration::from_secs(1));
        assert_eq!(waiter.join().unwrap(), Ok(()));
        // The half of a second that was left is not saved up, but for a little.
        assert!(throttle.state.lock().balance <= 50.0);
    }

    #[test]
    fn a_pause_holds_and_a_stop_or_a_cancel_ends() {
        let (_, throttle) = throttle(0);
        throttle.set_paused(true);
        let waiter = {
            let throttle = Arc::clone(&throttle);
            std::thread::spawn(move || throttle.spend(1, || false))
        };
        throttle.set_paused(false);
        assert_eq!(waiter.join().unwrap(), Ok(()));
        assert_eq!(throttle.spend(1, || true), Err(Stopped));
        throttle.set_paused(true);
        throttle.stop();
        assert_eq!(throttle.spend(1, || false), Err(Stopped));
    }

    #[test]
    fn no_limit_owes_nothing() {
        let (_, throttle) = throttle(0);
        for _ in 0..10 {
            assert_eq!(throttle.spend(u64::MAX / 2, || false), Ok(()));
        }
        throttle.set_rate(10);
        assert_eq!(throttle.rate(), 10);
        assert_eq!(throttle.spend(0, || false), Ok(()));
    }
}
