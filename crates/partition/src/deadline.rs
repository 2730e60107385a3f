//! Until when a request may take: an instant of a clock that never goes back.

use crate::recorder::NanoClock;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// When a request has taken too long. Cheap to clone.
#[derive(Clone)]
pub struct Deadline {
    clock: NanoClock,
    at_nanos: u64,
}

impl Deadline {
    /// The instant `at_nanos` of `clock`.
    pub fn new(clock: &NanoClock, at_nanos: u64) -> Deadline {
        Deadline { clock: Arc::clone(clock), at_nanos }
    }

    /// Time that is left, nothing when it is over.
    pub fn left(&self) -> Duration {
        Duration::from_nanos(self.at_nanos.saturating_sub((self.clock)()))
    }

    /// Now, in nanoseconds of its clock; `None` when it is over.
    pub fn now(&self) -> Option<u64> {
        Some((self.clock)()).filter(|now| *now < self.at_nanos)
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        (self.clock)() >= self.at_nanos
    }
}

impl fmt::Debug for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deadline").field("at_nanos", &self.at_nanos).finish_non_exhaustive()
    }
}
