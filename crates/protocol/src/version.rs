//! The native protocol versions that we serve, and the words in which an unknown one is refused.

use std::fmt;

/// A version of the native protocol that this crate encodes and decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolVersion {
    /// Cassandra 2.1 and later.
    V3,
    /// Cassandra 2.2 and later: unset values, custom payloads, warnings.
    V4,
    /// Cassandra 4.0 and later: checksummed segments, result metadata ids, keyspace and "now" per query.
    V5,
}

impl ProtocolVersion {
    /// Every version, lowest first.
    pub const ALL: [Self; 3] = [Self::V3, Self::V4, Self::V5];
    /// The version in whose shape a client is answered that asked for one nobody knows.
    pub const HIGHEST: Self = Self::V5;

    /// The number in the low seven bits of an envelope's first byte.
    pub const fn number(self) -> u8 {
        match self {
            Self::V3 => 3,
            Self::V4 => 4,
            Self::V5 => 5,
        }
    }

    /// The version of that number, if it is served.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            3 => Some(Self::V3),
            4 => Some(Self::V4),
            5 => Some(Self::V5),
            _ => None,
        }
    }
}

/// Cassandra's spelling: `4/v4`.
impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{0}/v{0}", self.number())
    }
}

/// The message of the ERROR that answers a version outside [`ProtocolVersion::ALL`].
///
/// Drivers search it for `unsupported protocol version`, so it is Cassandra 5.0's text to the letter, its
/// beta version included.
pub fn unsupported_version_message(number: u8) -> String {
    format!(
        "Invalid or unsupported protocol version ({number}); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)"
    )
}
