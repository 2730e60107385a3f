//! Why a node could not do what it was asked: the payload of [`super::Verb::FailureRsp`], one uvint.
//!
//! Source: `RequestFailureReason` of Cassandra 4.0 to 5.0.

use bytes::Bytes;
use model::vint;
use std::fmt;

/// Why a request failed on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// Anything else, and what later versions say.
    Unknown = 0,
    /// A read met more tombstones than `tombstone_failure_threshold`.
    TooManyTombstones = 1,
    /// The node did not finish in time.
    Timeout = 2,
    /// A table or a column is not known there.
    IncompatibleSchema = 3,
    /// A read came to more bytes than allowed.
    ReadSize = 4,
    /// The node is not there.
    NodeDown = 5,
    /// An index is not built there.
    IndexNotAvailable = 6,
    /// A read uses more SSTable indexes than allowed.
    TooManyIndexes = 7,
}

impl FailureReason {
    const ALL: [FailureReason; 8] = [
        FailureReason::Unknown,
        FailureReason::TooManyTombstones,
        FailureReason::Timeout,
        FailureReason::IncompatibleSchema,
        FailureReason::ReadSize,
        FailureReason::NodeDown,
        FailureReason::IndexNotAvailable,
        FailureReason::TooManyIndexes,
    ];

    /// Cassandra's name.
    pub fn name(self) -> &'static str {
        match self {
            FailureReason::Unknown => "UNKNOWN",
            FailureReason::TooManyTombstones => "READ_TOO_MANY_TOMBSTONES",
            FailureReason::Timeout => "TIMEOUT",
            FailureReason::IncompatibleSchema => "INCOMPATIBLE_SCHEMA",
            FailureReason::ReadSize => "READ_SIZE",
            FailureReason::NodeDown => "NODE_DOWN",
            FailureReason::IndexNotAvailable => "INDEX_NOT_AVAILABLE",
            FailureReason::TooManyIndexes => "READ_TOO_MANY_INDEXES",
        }
    }

    /// Its number, which the native protocol gives to clients too.
    pub fn number(self) -> u16 {
        self as u16
    }

    /// The payload that says so.
    pub fn encode(self) -> Bytes {
        let mut out = Vec::new();
        vint::write_unsigned(&mut out, u64::from(self.number()));
        Bytes::from(out)
    }

    /// What a payload says. Numbers of later versions, and what is no number, are [`FailureReason::Unknown`]:
    /// the request failed all the same.
    pub fn decode(payload: &[u8]) -> FailureReason {
        let number = vint::read_unsigned(payload).map_or(0, |(number, _)| number);
        let known = FailureReason::ALL.into_iter().find(|reason| u64::from(reason.number()) == number);
        known.unwrap_or(FailureReason::Unknown)
    }
}

impl fmt::Display for FailureReason {
    /// Cassandra's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_come_back_and_later_ones_are_unknown() {
        for reason in FailureReason::ALL {
            assert_eq!(FailureReason::decode(&reason.encode()), reason);
        }
        assert_eq!(FailureReason::decode(&[3]), FailureReason::IncompatibleSchema);
        for bytes in [&[][..], &[8], &[0x80], &[0xff; 9]] {
            assert_eq!(FailureReason::decode(bytes), FailureReason::Unknown);
        }
    }
}
