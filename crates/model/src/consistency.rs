//! Consistency levels: a code in frames, a name in messages and logs.

use std::fmt;

/// How many replicas must take part in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Consistency {
    /// Any node at all, a hint included; writes only.
    Any = 0,
    /// One replica.
    One = 1,
    /// Two replicas.
    Two = 2,
    /// Three replicas.
    Three = 3,
    /// A majority of all replicas.
    Quorum = 4,
    /// Every replica.
    All = 5,
    /// A majority of the replicas in the coordinator's datacenter.
    LocalQuorum = 6,
    /// A majority in each datacenter.
    EachQuorum = 7,
    /// Linearizable across datacenters; only for the Paxos phase and its reads.
    Serial = 8,
    /// Linearizable in the coordinator's datacenter.
    LocalSerial = 9,
    /// One replica in the coordinator's datacenter.
    LocalOne = 10,
    /// The coordinator itself (Cassandra 4.1 and later, behind a system property there).
    NodeLocal = 11,
}

impl Consistency {
    /// Every level in the order of its code.
    pub const ALL_LEVELS: [Self; 12] = [
        Self::Any,
        Self::One,
        Self::Two,
        Self::Three,
        Self::Quorum,
        Self::All,
        Self::LocalQuorum,
        Self::EachQuorum,
        Self::Serial,
        Self::LocalSerial,
        Self::LocalOne,
        Self::NodeLocal,
    ];

    /// The code in frames.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The level of a code.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL_LEVELS.get(usize::from(code)).copied()
    }

    /// The name in upper case, as clients and Cassandra's messages spell it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "ANY",
            Self::One => "ONE",
            Self::Two => "TWO",
            Self::Three => "THREE",
            Self::Quorum => "QUORUM",
            Self::All => "ALL",
            Self::LocalQuorum => "LOCAL_QUORUM",
            Self::EachQuorum => "EACH_QUORUM",
            Self::Serial => "SERIAL",
            Self::LocalSerial => "LOCAL_SERIAL",
            Self::LocalOne => "LOCAL_ONE",
            Self::NodeLocal => "NODE_LOCAL",
        }
    }

    /// True for SERIAL and LOCAL_SERIAL.
    pub const fn is_serial(self) -> bool {
        matches!(self, Self::Serial | Self::LocalSerial)
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for level in Consistency::ALL_LEVELS {
            assert_eq!(Consistency::from_code(level.code()), Some(level));
        }
        assert_eq!(Consistency::from_code(12), None);
    }
}
