//! Numbers of hints (`HintsService` and `HintedHandOffManager` of Cassandra's metrics).

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts hints since the start of the node.
#[derive(Debug, Default)]
pub struct HintsCounters {
    created: AtomicU64,
    not_stored: AtomicU64,
    dispatched: AtomicU64,
    timed_out: AtomicU64,
    failed: AtomicU64,
    expired: AtomicU64,
    unreadable: AtomicU64,
}

/// The counts at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintsCounts {
    /// Kept for a node.
    pub created: u64,
    /// Not kept: the node was down for too long, or there was no room.
    pub not_stored: u64,
    /// Acknowledged by their node.
    pub dispatched: u64,
    /// Not acknowledged in time; they are sent again.
    pub timed_out: u64,
    /// Refused by their node, and sent again; or of a kind that cannot be sent at all.
    pub failed: u64,
    /// Left out because they were older than `gc_grace_seconds`.
    pub expired: u64,
    /// Left out because they are damaged, or of tables that are gone.
    pub unreadable: u64,
}

/// What became of a hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Created,
    NotStored,
    Dispatched,
    TimedOut,
    Failed,
    Expired,
    Unreadable,
}

impl HintsCounters {
    fn of(&self, what: Counted) -> &AtomicU64 {
        match what {
            Counted::Created => &self.created,
            Counted::NotStored => &self.not_stored,
            Counted::Dispatched => &self.dispatched,
            Counted::TimedOut => &self.timed_out,
            Counted::Failed => &self.failed,
            Counted::Expired => &self.expired,
            Counted::Unreadable => &self.unreadable,
        }
    }

    pub(super) fn count(&self, what: Counted) {
        self.of(what).fetch_add(1, Ordering::Relaxed);
    }

    /// The counts now.
    pub fn counts(&self) -> HintsCounts {
        let of = |what| self.of(what).load(Ordering::Relaxed);
        HintsCounts {
            created: of(Counted::Created),
            not_stored: of(Counted::NotStored),
            dispatched: of(Counted::Dispatched),
            timed_out: of(Counted::TimedOut),
            failed: of(Counted::Failed),
            expired: of(Counted::Expired),
            unreadable: of(Counted::Unreadable),
        }
    }
}
