//! Timeouts of requests, which operators change while the node runs. A start has those of the settings again.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::{Millis, Settings};

/// What a timeout is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// A read of partitions by key.
    Read,
    /// A read of a range of partitions.
    Range,
    /// A write.
    Write,
    /// An update of a counter.
    CounterWrite,
    /// The wait of a conditional write for others of its partition.
    CasContention,
    /// TRUNCATE.
    Truncate,
    /// Everything else.
    Misc,
}

impl TimeoutKind {
    /// All, in the order in which nodetool names them.
    pub const ALL: [TimeoutKind; 7] = [
        TimeoutKind::Read,
        TimeoutKind::Range,
        TimeoutKind::Write,
        TimeoutKind::CounterWrite,
        TimeoutKind::CasContention,
        TimeoutKind::Truncate,
        TimeoutKind::Misc,
    ];

    /// nodetool's word for it.
    pub fn name(self) -> &'static str {
        match self {
            TimeoutKind::Read => "read",
            TimeoutKind::Range => "range",
            TimeoutKind::Write => "write",
            TimeoutKind::CounterWrite => "counterwrite",
            TimeoutKind::CasContention => "cascontention",
            TimeoutKind::Truncate => "truncate",
            TimeoutKind::Misc => "misc",
        }
    }

    /// Its key in cassandra.yaml.
    fn of(self, settings: &mut Settings) -> &mut Millis {
        match self {
            TimeoutKind::Read => &mut settings.read_request_timeout,
            TimeoutKind::Range => &mut settings.range_request_timeout,
            TimeoutKind::Write => &mut settings.write_request_timeout,
            TimeoutKind::CounterWrite => &mut settings.counter_write_request_timeout,
            TimeoutKind::CasContention => &mut settings.cas_contention_timeout,
            TimeoutKind::Truncate => &mut settings.truncate_request_timeout,
            TimeoutKind::Misc => &mut settings.request_timeout,
        }
    }
}

/// The timeouts in force.
#[derive(Debug)]
pub struct Timeouts([AtomicU64; TimeoutKind::ALL.len()]);

impl Timeouts {
    /// Those of the settings.
    pub fn new(settings: &Settings) -> Timeouts {
        let mut settings = settings.clone();
        Timeouts(TimeoutKind::ALL.map(|kind| AtomicU64::new(kind.of(&mut settings).0)))
    }

    /// One of them.
    #[inline]
    pub fn get(&self, kind: TimeoutKind) -> Millis {
        Millis(self.0[kind as usize].load(Ordering::Relaxed))
    }

    /// Changes one of them, for requests that come from now on.
    pub fn set(&self, kind: TimeoutKind, timeout: Millis) {
        self.0[kind as usize].store(timeout.0, Ordering::Relaxed);
    }

    /// The settings as they would be with the timeouts in force.
    pub fn put_into(&self, settings: &mut Settings) {
        for kind in TimeoutKind::ALL {
            *kind.of(settings) = self.get(kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_that_is_changed_stands_under_its_own_key() {
        let settings = Settings::default();
        let timeouts = Timeouts::new(&settings);
        for (number, kind) in (1_000..).zip(TimeoutKind::ALL) {
            timeouts.set(kind, Millis(number));
        }
        assert_eq!(timeouts.get(TimeoutKind::Write), Millis(1_002));
        let mut shown = settings.clone();
        timeouts.put_into(&mut shown);
        assert_eq!(shown.read_request_timeout, Millis(1_000));
        assert_eq!(shown.cas_contention_timeout, Millis(1_004));
        assert_eq!(shown.request_timeout, Millis(1_006));
        assert_eq!(Timeouts::new(&settings).get(TimeoutKind::Range), settings.range_request_timeout);
    }
}
