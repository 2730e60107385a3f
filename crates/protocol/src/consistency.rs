//! Consistency levels as they travel: a code in frames, a name in CQL text and logs.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// How many replicas must answer.
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

/// A name that is no consistency level; the text is Cassandra's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Invalid consistency level: {0}")]
pub struct UnknownConsistency(pub String);

impl Consistency {
    /// Every level in the order of its code.
    pub const ALL: [Self; 12] = [
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
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The name in upper case, as CQL and Cassandra's messages spell it.
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

impl FromStr for Consistency {
    type Err = UnknownConsistency;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|level| level.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownConsistency(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_round_trip() {
        for level in Consistency::ALL {
            assert_eq!(Consistency::from_code(level.code()), Some(level));
            assert_eq!(level.to_string().to_lowercase().parse(), Ok(level));
        }
        assert_eq!(Consistency::from_code(12), None);
        assert_eq!("SOME".parse::<Consistency>(), Err(UnknownConsistency("SOME".into())));
    }
}
