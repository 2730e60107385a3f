//! The two messages that open a connection between nodes.
//!
//! ```text
//! initiate := u32 CA552DFA | u32 flags | address | u32 CRC32 of all before        from who connects
//!             flags: bits 0-1    kind of connection: 1 urgent, 2 small, 3 large, 0 before 4.0
//!                    bit 2       low bit of the framing: 0 unprotected, 1 LZ4, 2 CRC
//!                    bit 3       a connection for streaming
//!                    bit 4       high bit of the framing
//!                    bits 8-15   a version, below 12 from nodes before 4.0, which send no address
//!                    bits 16-23  the least version
//!                    bits 24-31  the greatest version
//! accept   := u32 greatest version | u32 version to use | u32 CRC32 of those 8 bytes
//! ```
//! All of it is big-endian; the address is that of [`Endpoint`], and names where answers are to go.
//!
//! 1. Who accepts chooses the greatest version that both know, or the nearest of its own.
//! 2. Who connects closes if that version is none of its own.
//! 3. Framed messages follow, from who connected to who accepted. Nothing goes the other way any more.
//!
//! Source: `HandshakeProtocol` of Cassandra 4.0.

use super::frame::Framing;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use model::checksum::crc32;
use partition::codec::{Input, SliceInput};
use std::fmt;

const MAGIC: u32 = 0xCA55_2DFA;
const FLAGS_END: usize = 8;
const STREAMING: u32 = 1 << 3;
const CRC_BYTES: usize = 4;

/// Messaging version of Cassandra 4.0 and 4.1, and of 5.0 as it is set by default.
pub const VERSION_40: u32 = 12;
/// Messaging version of Cassandra 5.0 where `storage_compatibility_mode` is not `CASSANDRA_4`.
pub const VERSION_50: u32 = 13;
/// Bytes of the longest Initiate.
pub const INITIATE_BYTES_MAX: usize = FLAGS_END + 19 + CRC_BYTES;
/// Bytes of an Accept.
pub const ACCEPT_BYTES: usize = 12;

/// What a connection is for. A node has one of each kind to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionKind {
    /// Urgent verbs: gossip, failures, truncation.
    Urgent = 1,
    /// What is neither urgent nor large.
    Small = 2,
    /// Messages over 64 KiB.
    Large = 3,
}

impl ConnectionKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [ConnectionKind; 3] =
        [ConnectionKind::Urgent, ConnectionKind::Small, ConnectionKind::Large];

    /// The kind of that number.
    pub fn from_number(number: u8) -> Option<ConnectionKind> {
        ConnectionKind::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

impl fmt::Display for ConnectionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ConnectionKind::Urgent => "urgent",
            ConnectionKind::Small => "small",
            ConnectionKind::Large => "large",
        })
    }
}

/// The messaging versions that a node speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The least.
    pub min: u32,
    /// The greatest.
    pub max: u32,
}

impl Versions {
    /// Cassandra 4.0, 4.1, and 5.0 by default.
    pub const CASSANDRA_4: Versions = Versions { min: VERSION_40, max: VERSION_40 };
    /// Cassandra 5.0 in the modes `UPGRADING` and `NONE`.
    pub const CASSANDRA_5: Versions = Versions { min: VERSION_40, max: VERSION_50 };

    /// Whether a version is one of them.
    pub fn contains(self, version: u32) -> bool {
        (self.min..=self.max).contains(&version)
    }

    /// The version to use with a peer that speaks no greater one than `theirs`.
    pub fn choose(self, theirs: u32) -> u32 {
        self.min.max(self.max.min(theirs))
    }
}

/// Why no connection came about.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// Something else than a node speaks.
    #[error("{found:#010x} is not how a connection between nodes begins")]
    Magic {
        /// The first four bytes.
        found: u32,
    },
    /// A node before 4.0.
    #[error("the peer speaks messaging version {version}, which nodes before 4.0 speak")]
    Legacy {
        /// The version it wants.
        version: u32,
    },
    /// A connection for streaming.
    #[error("the peer wants to stream, which is not supported")]
    Streaming,
    /// Messages of a connection without a kind, as nodes before 4.0 have it.
    #[error("the connection has no kind, as connections before 4.0")]
    WithoutKind,
    /// The framing has no meaning.
    #[error("3 is no framing")]
    Framing,
    /// No address.
    #[error("an address of {bytes} bytes")]
    Address {
        /// Its length.
        bytes: u8,
    },
    /// The checksum differs.
    #[error("the checksum of the handshake is {read:#010x}, of its bytes {computed:#010x}")]
    Checksum {
        /// As sent.
        read: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// Nothing that both speak.
    #[error("the peer speaks up to version {theirs}, this node {} to {}", ours.min, ours.max)]
    Versions {
        /// What the peer says of itself.
        theirs: u32,
        /// Those of this node.
        ours: Versions,
    },
}

/// Opens a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Initiate {
    /// What the connection is for.
    pub kind: ConnectionKind,
    /// How its messages are framed.
    pub framing: Framing,
    /// What the sender speaks.
    pub versions: Versions,
    /// Where answers are to go.
    pub from: Endpoint,
}

impl Initiate {
    /// Appends it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        let framing = self.framing as u32;
        let requested = self.versions.min.max(VERSION_40);
        let flags = self.kind as u32
            | (framing & 1) << 2
            | (framing & 2) << 3
            | (requested & 0xff) << 8
            | (self.versions.min & 0xff) << 16
            | (self.versions.max & 0xff) << 24;
        out.extend_from_slice(&MAGIC.to_be_bytes());
        out.extend_from_slice(&flags.to_be_bytes());
        self.from.encode(out);
        let crc = crc32(out.get(start..).unwrap_or_default());
        out.extend_from_slice(&crc.to_be_bytes());
    }

    /// Reads it from the front of `bytes`, with its length; `None` until all of it is there.
    ///
    /// # Errors
    /// As soon as the bytes can be no Initiate that is answered.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Initiate, usize)>, HandshakeError> {
        let Some((magic, rest)) = take_u32(bytes) else { return Ok(None) };
        if magic != MAGIC {
            return Err(HandshakeError::Magic { found: magic });
        }
        let Some((flags, rest)) = take_u32(rest) else { return Ok(None) };
        let bits = |from: u32, count: u32| flags >> from & ((1 << count) - 1);
        let (requested, min, max) = (bits(8, 8), bits(16, 8), bits(24, 8));
        if requested < VERSION_40 || max < VERSION_40 {
            return Err(HandshakeError::Legacy { version: requested.max(max) });
        }
        if flags & STREAMING != 0 {
            return Err(HandshakeError::Streaming);
        }
        let kind = ConnectionKind::from_number(bits(0, 2) as u8).ok_or(HandshakeError::WithoutKind)?;
        let framing = Framing::from_number((bits(2, 1) | bits(4, 1) << 1) as u8);
        let framing = framing.ok_or(HandshakeError::Framing)?;
        let Some(size) = rest.first() else { return Ok(None) };
        if !matches!(size, 6 | 18) {
            return Err(HandshakeError::Address { bytes: *size });
        }
        let end = FLAGS_END + 1 + usize::from(*size);
        let (Some(signed), Some(crc)) = (bytes.get(..end), bytes.get(end..end + CRC_BYTES)) else {
            return Ok(None);
        };
        let Some((read, _)) = take_u32(crc) else { return Ok(None) };
        let computed = crc32(signed);
        if read != computed {
            return Err(HandshakeError::Checksum { read, computed });
        }
        let mut address = SliceInput::new(Bytes::copy_from_slice(signed));
        // The size was checked above, so both are there.
        let from = address.skip(FLAGS_END as u64).and_then(|()| Endpoint::decode(&mut address));
        let Ok(from) = from else { return Err(HandshakeError::Address { bytes: *size }) };
        let versions = Versions { min, max };
        Ok(Some((Initiate { kind, framing, versions, from }, end + CRC_BYTES)))
    }

    /// The answer of a node that speaks `ours`.
    pub fn answer(&self, ours: Versions) -> Accept {
        Accept { max: ours.max, version: ours.choose(self.versions.max) }
    }
}

/// Answers an [`Initiate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// The greatest version that the sender speaks.
    pub max: u32,
    /// The version of the messages on this connection.
    pub version: u32,
}

impl Accept {
    /// Its bytes.
    pub fn encode(&self) -> [u8; ACCEPT_BYTES] {
        let mut out = [0; ACCEPT_BYTES];
        if let Some((versions, crc)) = out.split_first_chunk_mut::<8>() {
            *versions = (u64::from(self.max) << 32 | u64::from(self.version)).to_be_bytes();
            crc.copy_from_slice(&crc32(versions).to_be_bytes());
        }
        out
    }

    /// Reads it from the front of `bytes`; `None` until all of it is there.
    ///
    /// # Errors
    /// A node before 4.0, which sends its version alone, or bytes that fail their checksum.
    pub fn decode(bytes: &[u8]) -> Result<Option<Accept>, HandshakeError> {
        let Some((max, rest)) = take_u32(bytes) else { return Ok(None) };
        if max < VERSION_40 {
            return Err(HandshakeError::Legacy { version: max });
        }
        let (Some((version, rest)), Some(signed)) = (take_u32(rest), bytes.get(..8)) else { return Ok(None) };
        let Some((read, _)) = take_u32(rest) else { return Ok(None) };
        let computed = crc32(signed);
        if read != computed {
            return Err(HandshakeError::Checksum { read, computed });
        }
        Ok(Some(Accept { max, version }))
    }

    /// The version to use, if it is one of `ours`.
    ///
    /// # Errors
    /// When the peer chose another one.
    pub fn check(&self, ours: Versions) -> Result<u32, HandshakeError> {
        match ours.contains(self.version) {
            true => Ok(self.version),
            false => Err(HandshakeError::Versions { theirs: self.max, ours }),
        }
    }
}

fn take_u32(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = bytes.split_first_chunk()?;
    Some((u32::from_be_bytes(*head), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// From 127.0.0.99:7000, as a Cassandra 4.0 takes it.
    const EXAMPLE: [u8; 19] = [
        0xca, 0x55, 0x2d, 0xfa, 0x0c, 0x0c, 0x0c, 0x12, 0x06, 0x7f, 0x00, 0x00, 0x63, 0x1b, 0x58, 0x1e, 0xaa,
        0x49, 0x5f,
    ];

    fn example() -> Initiate {
        Initiate {
            kind: ConnectionKind::Small,
            framing: Framing::Crc,
            versions: Versions::CASSANDRA_4,
            from: Endpoint::new([127, 0, 0, 99].into(), 7000),
        }
    }

    /// As `EXAMPLE`, with other flags and the checksum that belongs to them.
    fn with_flags(flags: [u8; 4]) -> Vec<u8> {
        let mut bytes = EXAMPLE[..15].to_vec();
        bytes[4..8].copy_from_slice(&flags);
        bytes.extend_from_slice(&crc32(&bytes).to_be_bytes());
        bytes
    }

    #[test]
    fn the_bytes_are_cassandras() {
        let mut bytes = Vec::new();
        example().encode(&mut bytes);
        assert_eq!(bytes, EXAMPLE);
        assert_eq!(Initiate::decode(&bytes), Ok(Some((example(), bytes.len()))));
    }

    #[test]
    fn a_handshake_that_is_cut_off_waits_for_more() {
        for len in 0..EXAMPLE.len() {
            assert_eq!(Initiate::decode(&EXAMPLE[..len]), Ok(None), "{len} bytes");
        }
        let accept = Accept { max: 13, version: 12 };
        let bytes = accept.encode();
        for len in 0..bytes.len() {
            assert_eq!(Accept::decode(&bytes[..len]), Ok(None), "{len} bytes");
        }
        assert_eq!(Accept::decode(&bytes), Ok(Some(accept)));
    }

    #[test]
    fn a_flipped_bit_is_noticed() {
        for bit in 0..8 * EXAMPLE.len() {
            let mut bytes = EXAMPLE;
            bytes[bit / 8] ^= 1 << (bit % 8);
            // Another size of the address waits for its bytes, or is none.
            let decoded = Initiate::decode(&[&bytes[..], &[0; 12]].concat());
            assert!(decoded.is_err(), "bit {bit}: {decoded:?}");
        }
        let accept = Accept { max: 13, version: 12 }.encode();
        for bit in 0..8 * accept.len() {
            let mut bytes = accept;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Accept::decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn what_is_not_served_is_refused_by_name() {
        let refused = |flags| Initiate::decode(&with_flags(flags)).unwrap_err();
        assert_eq!(refused([0, 0, 11, 0]), HandshakeError::Legacy { version: 11 });
        assert_eq!(refused([11, 10, 10, 1]), HandshakeError::Legacy { version: 11 });
        assert_eq!(refused([12, 12, 12, 0x18]), HandshakeError::Streaming);
        assert_eq!(refused([12, 12, 12, 0x10]), HandshakeError::WithoutKind);
        assert_eq!(refused([12, 12, 12, 0x16]), HandshakeError::Framing);
        let http = u32::from_be_bytes(*b"GET ");
        assert_eq!(Initiate::decode(b"GET / HTTP"), Err(HandshakeError::Magic { found: http }));
        assert_eq!(Accept::decode(&11_u32.to_be_bytes()), Err(HandshakeError::Legacy { version: 11 }));
    }

    #[test]
    fn a_node_of_4_0_that_still_speaks_older_versions_is_served() {
        let decoded = Initiate::decode(&with_flags([12, 10, 12, 0x12])).unwrap().unwrap().0;
        assert_eq!(decoded.versions, Versions { min: 10, max: 12 });
    }

    #[test]
    fn both_use_the_greatest_version_that_both_speak() {
        let of = |versions| Initiate { versions, ..example() };
        let (four, five) = (Versions::CASSANDRA_4, Versions::CASSANDRA_5);
        assert_eq!(of(four).answer(five), Accept { max: 13, version: 12 });
        assert_eq!(of(five).answer(four), Accept { max: 12, version: 12 });
        assert_eq!(of(five).answer(five).check(five), Ok(13));
        let later = Versions { min: 14, max: 15 };
        let refused = of(later).answer(five).check(later);
        assert_eq!(refused, Err(HandshakeError::Versions { theirs: 13, ours: later }));
    }

    proptest! {
        #[test]
        fn a_handshake_comes_back(
            kind in 0..3_usize, framing in 0..3_u8, (min, more) in (12..200_u32, 0..50_u32),
            v6: bool, ip: [u8; 16], port: u16,
        ) {
            let v4 = [ip[0], ip[1], ip[2], ip[3]];
            let ip = if v6 { ip.into() } else { v4.into() };
            let initiate = Initiate {
                kind: ConnectionKind::ALL[kind],
                framing: Framing::from_number(framing).unwrap(),
                versions: Versions { min, max: min + more },
                from: Endpoint::new(ip, port),
            };
            let mut bytes = Vec::new();
            initiate.encode(&mut bytes);
            prop_assert!(bytes.len() <= INITIATE_BYTES_MAX);
            prop_assert_eq!(Initiate::decode(&bytes), Ok(Some((initiate, bytes.len()))));
        }
    }
}
