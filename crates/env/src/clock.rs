//! Wall time and monotonic time. Wall time may jump (it is what timestamps and expirations are made of);
//! monotonic time never goes back (it is what durations and timeouts are made of).
//!
//! The one place that may call `SystemTime::now` and `Instant::now`.
#![allow(clippy::disallowed_methods)]

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Wall time: microseconds since 1970.
    fn now_micros(&self) -> i64;

    /// Nanoseconds since some fixed instant of this process; never decreases.
    fn monotonic_nanos(&self) -> u64;

    /// Wall time: whole seconds since 1970, rounded down.
    fn now_seconds(&self) -> i64 {
        self.now_micros().div_euclid(1_000_000)
    }

    /// Wall time: whole milliseconds since 1970, rounded down.
    fn now_millis(&self) -> i64 {
        self.now_micros().div_euclid(1_000)
    }
}

/// The machine's clock.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time starts at zero now.
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now_micros(&self) -> i64 {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => since.as_micros() as i64,
            Err(before) => -(before.duration().as_micros() as i64),
        }
    }

    fn monotonic_nanos(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct ManualClock {
    micros: AtomicI64,
    monotonic_nanos: AtomicU64,
}

impl ManualClock {
    /// Where a default clock stands: 2020-01-01 00:00:00 UTC.
    pub const START_MICROS: i64 = 1_577_836_800_000_000;

    /// A clock that stands at `micros` since 1970.
    pub fn at_micros(micros: i64) -> Self {
        Self { micros: AtomicI64::new(micros), monotonic_nanos: AtomicU64::new(0) }
    }

    /// Moves both times forward.
    pub fn advance(&self, by: Duration) {
        self.micros.fetch_add(by.as_micros() as i64, Ordering::SeqCst);
        self.monotonic_nanos.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }

    /// Sets wall time, forward or back, as an operator or NTP would; monotonic time does not notice.
    pub fn set_micros(&self, micros: i64) {
        self.micros.store(micros, Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::at_micros(Self::START_MICROS)
    }
}

impl Clock for ManualClock {
    fn now_micros(&self) -> i64 {
        self.micros.load(Ordering::SeqCst)
    }

    fn monotonic_nanos(&self) -> u64 {
        self.monotonic_nanos.load(Ordering::SeqCst)
    }
}

/// A clock that shows another wall time than the one it follows; the same monotonic time.
#[derive(Debug)]
pub struct SkewedClock {
    of: Arc<dyn Clock>,
    ahead_micros: AtomicI64,
}

impl SkewedClock {
    /// A clock that is ahead of another by so much; behind where it is negative.
    pub fn new(of: Arc<dyn Clock>, ahead_micros: i64) -> Self {
        Self { of, ahead_micros: AtomicI64::new(ahead_micros) }
    }

    /// Sets by how much it is ahead.
    pub fn set_ahead_micros(&self, ahead_micros: i64) {
        self.ahead_micros.store(ahead_micros, Ordering::SeqCst);
    }
}

impl Clock for SkewedClock {
    fn now_micros(&self) -> i64 {
        self.of.now_micros().saturating_add(self.ahead_micros.load(Ordering::SeqCst))
    }

    fn monotonic_nanos(&self) -> u64 {
        self.of.monotonic_nanos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_moves_only_when_moved() {
        let clock = ManualClock::default();
        assert_eq!(clock.now_micros(), ManualClock::START_MICROS);
        clock.advance(Duration::from_millis(1_500));
        assert_eq!(clock.now_micros(), ManualClock::START_MICROS + 1_500_000);
        assert_eq!(clock.now_seconds(), ManualClock::START_MICROS / 1_000_000 + 1);
        assert_eq!(clock.monotonic_nanos(), 1_500_000_000);
    }

    #[test]
    fn setting_the_wall_clock_back_leaves_monotonic_time_alone() {
        let clock = ManualClock::default();
        clock.advance(Duration::from_secs(1));
        clock.set_micros(-1);
        assert_eq!((clock.now_seconds(), clock.now_millis()), (-1, -1), "rounded down, also before 1970");
        assert_eq!(clock.monotonic_nanos(), 1_000_000_000);
    }

    #[test]
    fn a_skewed_clock_differs_in_its_wall_time_alone() {
        let of = Arc::new(ManualClock::default());
        let skewed = SkewedClock::new(of.clone(), -2_000_000);
        of.advance(Duration::from_secs(1));
        assert_eq!(skewed.now_micros(), ManualClock::START_MICROS - 1_000_000);
        assert_eq!(skewed.monotonic_nanos(), 1_000_000_000);
        skewed.set_ahead_micros(5);
        assert_eq!(skewed.now_micros(), of.now_micros() + 5);
    }

    #[test]
    fn the_system_clock_is_past_the_year_2020_and_monotonic() {
        let clock = SystemClock::new();
        assert!(clock.now_micros() > ManualClock::START_MICROS);
        let first = clock.monotonic_nanos();
        assert!(clock.monotonic_nanos() >= first);
    }
}
