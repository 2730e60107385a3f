//! Deletions and primary key liveness: when something was deleted, or was alive.

use crate::{NO_DELETION_TIME, NO_TIMESTAMP, NO_TTL};

/// A deletion of a partition, a range of rows, a row or a collection: what was written at or before
/// `timestamp` is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deletion {
    /// Microseconds; everything written at or before it is deleted.
    pub timestamp: i64,
    /// Seconds since the epoch at which the deletion happened; purgeable `gc_grace_seconds` later.
    pub local_deletion_time: u32,
}

impl Deletion {
    /// No deletion.
    pub const NONE: Deletion = Deletion { timestamp: NO_TIMESTAMP, local_deletion_time: NO_DELETION_TIME };

    /// A deletion at `timestamp` (microseconds), made at `local_deletion_time` (seconds).
    pub fn new(timestamp: i64, local_deletion_time: u32) -> Deletion {
        Deletion { timestamp, local_deletion_time }
    }

    /// Whether nothing is deleted. Versions of Cassandra disagree on the other field, so only the timestamp
    /// counts.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Whether something written at `timestamp` is deleted.
    #[inline]
    pub fn deletes(&self, timestamp: i64) -> bool {
        !self.is_none() && timestamp <= self.timestamp
    }

    /// Whether this deletion wins over `other`.
    #[inline]
    pub fn supersedes(&self, other: &Deletion) -> bool {
        self.timestamp > other.timestamp
            || (self.timestamp == other.timestamp
                && !self.is_none()
                && self.local_deletion_time > other.local_deletion_time)
    }

    /// The winner of two deletions.
    #[inline]
    pub fn max(self, other: Deletion) -> Deletion {
        if other.supersedes(&self) { other } else { self }
    }
}

/// Primary key liveness: the trace of an INSERT, which keeps a row alive without any cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Liveness {
    /// Microseconds; [`NO_TIMESTAMP`] when the row was never inserted.
    pub timestamp: i64,
    /// Seconds, or [`NO_TTL`].
    pub ttl: i32,
    /// Expiration in seconds since the epoch, or [`NO_DELETION_TIME`].
    pub local_expiration_time: u32,
}

impl Liveness {
    /// Never inserted.
    pub const NONE: Liveness =
        Liveness { timestamp: NO_TIMESTAMP, ttl: NO_TTL, local_expiration_time: NO_DELETION_TIME };

    /// Inserted at `timestamp`, for ever.
    pub fn new(timestamp: i64) -> Liveness {
        Liveness { timestamp, ..Liveness::NONE }
    }

    /// Inserted at `timestamp` with a TTL.
    pub fn expiring(timestamp: i64, ttl: i32, local_expiration_time: u32) -> Liveness {
        Liveness { timestamp, ttl, local_expiration_time }
    }

    /// Whether the row was never inserted.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.timestamp == NO_TIMESTAMP
    }

    /// Whether the liveness has a TTL.
    #[inline]
    pub fn is_expiring(&self) -> bool {
        self.ttl != NO_TTL
    }

    /// Whether it says that the row is not there any more, by a TTL that no client can give. Cassandra writes
    /// this TTL to rows of views.
    #[inline]
    pub fn is_expired_for_good(&self) -> bool {
        self.ttl == i32::MAX
    }

    /// Whether the row counts as inserted at `now_s` (seconds since the epoch).
    #[inline]
    pub fn is_live(&self, now_s: u32) -> bool {
        !self.is_none()
            && (!self.is_expiring() || (now_s < self.local_expiration_time && !self.is_expired_for_good()))
    }

    /// Whether this liveness wins over `other`. The larger timestamp wins. At a tie these win, in this order:
    /// one that is expired for good, an expiring one over one that does not expire, the later expiration, the
    /// smaller TTL.
    pub fn supersedes(&self, other: &Liveness) -> bool {
        if self.timestamp != other.timestamp {
            return self.timestamp > other.timestamp;
        }
        if self.is_expired_for_good() != other.is_expired_for_good() {
            return self.is_expired_for_good();
        }
        if self.is_expiring() != other.is_expiring() {
            return self.is_expiring();
        }
        if self.local_expiration_time != other.local_expiration_time {
            return self.local_expiration_time > other.local_expiration_time;
        }
        self.is_expiring() && self.ttl < other.ttl
    }
}
