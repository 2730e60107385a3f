//! What can go wrong, in two families.
//!
//! [`FrameError`] and [`BodyError`] say what was wrong with the bytes of a client. A frame error names the
//! stream to answer on and whether the connection can go on; a body error concerns one request only.
//! Both turn into an [`ErrorResponse`] in Cassandra's words.
//!
//! The one awkward thing: some faults of the client have code 0000, a fault of the server, because Cassandra
//! did not expect the exception. The code is the same here, the text says what is wrong.

use std::fmt::Write as _;

use thiserror::Error;

use crate::compression::Compression;
use crate::response::error::ErrorResponse;
use crate::segment::SegmentError;
use crate::version::{ProtocolVersion, unsupported_version_message};

/// A body, or an argument in it, that cannot be decoded. The connection itself is intact.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BodyError {
    /// The body ends inside a field.
    #[error("Not enough bytes to read {what}: {needed} needed, {remaining} left")]
    Truncated {
        /// The field.
        what: &'static str,
        /// Its size in bytes.
        needed: usize,
        /// What the body still held.
        remaining: usize,
    },
    /// A string runs over the end of the body.
    #[error("Not enough bytes to read an UTF8 serialized string preceded by its 2 bytes length")]
    ShortString,
    /// A long string runs over the end of the body.
    #[error("Not enough bytes to read an UTF8 serialized string preceded by its 4 bytes length")]
    LongString,
    /// Short bytes run over the end of the body.
    #[error("Not enough bytes to read a byte array preceded by its 2 bytes length")]
    ShortBytes,
    /// Text is not UTF-8; holds (the beginning of) the bytes in hexadecimal.
    #[error("Cannot decode string as UTF8: '{hex}'")]
    Utf8 {
        /// The first bytes of the text.
        hex: String,
    },
    /// A value's length is below the ones that mean null and unset.
    #[error("Invalid ByteBuf length {length}")]
    ValueLength {
        /// The length sent.
        length: i32,
    },
    /// An address of neither 4 nor 16 bytes.
    #[error("Invalid size {size} of an internet address, must be 4 or 16")]
    AddressSize {
        /// The size sent.
        size: u8,
    },
    /// A port outside 0..=65535.
    #[error("Invalid port {port}")]
    Port {
        /// The port sent.
        port: i32,
    },
    /// No consistency level has this code.
    #[error("Unknown code {code} for a consistency level")]
    Consistency {
        /// The code sent.
        code: u16,
    },
    /// The default timestamp is the one value that no cell may have.
    #[error("Out of bound timestamp, must be in [{}, {}] (got {})", i64::MIN + 1, i64::MAX, i64::MIN)]
    Timestamp,
    /// A page of no rows.
    #[error("The page size cannot be 0")]
    PageSizeZero,
    /// A batch type other than 0, 1, 2.
    #[error("Invalid BATCH message type {code}")]
    BatchType {
        /// The type, as Java shows a byte.
        code: i8,
    },
    /// A statement in a batch that is neither a query nor a prepared id.
    #[error("Invalid query kind in BATCH messages. Must be 0 or 1 but got {code}")]
    BatchKind {
        /// The kind, as Java shows a byte.
        code: i8,
    },
    /// REGISTER for an event nobody knows.
    #[error("Invalid value '{name}' for Type")]
    EventType {
        /// The event's name.
        name: String,
    },
    /// The custom payload came with v4.
    #[error("Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4")]
    PayloadBeforeV4,
    /// A tag of a response that is not defined.
    #[error("Invalid {what}: {tag}")]
    Tag {
        /// What the tag selects.
        what: &'static str,
        /// The number or word sent.
        tag: String,
    },
}

impl BodyError {
    /// The error for text that is not UTF-8, showing at most 64 of its bytes.
    pub(crate) fn utf8(bytes: &[u8]) -> Self {
        let mut hex = String::new();
        for byte in bytes.iter().take(64) {
            let _ = write!(hex, "{byte:02x}");
        }
        Self::Utf8 { hex }
    }
}

impl From<&BodyError> for ErrorResponse {
    fn from(error: &BodyError) -> Self {
        match error {
            BodyError::Truncated { .. } => ErrorResponse::server(error.to_string()),
            _ => ErrorResponse::protocol(error.to_string()),
        }
    }
}

/// Bytes that are not a well-formed envelope, and how to answer them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct FrameError {
    /// What was wrong.
    pub kind: FrameErrorKind,
    /// The stream of the answer: the request's where it was known and Cassandra uses it, else 0.
    pub stream: i16,
    /// The version number in the header of the answer; 1 and 2 select the short header of those versions.
    pub version_number: u8,
    /// The stream of bytes is out of step: answer, then close the connection.
    pub fatal: bool,
}

/// The ways in which an envelope can be wrong. The texts are Cassandra's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FrameErrorKind {
    /// A version that is not served.
    #[error("{}", unsupported_version_message(*.number))]
    UnsupportedVersion {
        /// The number in the envelope.
        number: u8,
    },
    /// Version 6 without the flag that admits to its being a draft.
    #[error("Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset")]
    BetaVersion,
    /// The version changed after STARTUP.
    #[error(
        "Invalid message version. Got {got} but previous messages on this connection had version {expected}"
    )]
    VersionChanged {
        /// The envelope's version.
        got: ProtocolVersion,
        /// The connection's.
        expected: ProtocolVersion,
    },
    /// An opcode that is not defined.
    #[error("Unknown opcode {code}")]
    UnknownOpcode {
        /// The opcode.
        code: u8,
    },
    /// CREDENTIALS, which only v1 had.
    #[error("Unsupported message")]
    Credentials,
    /// A response sent to a server.
    #[error("Wrong protocol direction (expected {expected}, got {got}) for opcode {code} ({name})")]
    Direction {
        /// The direction that the opcode belongs to.
        expected: &'static str,
        /// The direction that the header names.
        got: &'static str,
        /// The opcode.
        code: u8,
        /// The opcode's name.
        name: &'static str,
    },
    /// An envelope over the limit; its bytes have been skipped.
    #[error("Request is too big: length {length} exceeds maximum allowed length {max}.")]
    TooBig {
        /// Length with the header.
        length: u64,
        /// The limit.
        max: usize,
    },
    /// A message over the limit that came in several segments; its bytes are being skipped.
    #[error("CQL Message of size {length} bytes exceeds allowed maximum of {max} bytes")]
    MessageTooBig {
        /// Length without the header, unlike that of a lone envelope.
        length: u64,
        /// The limit.
        max: usize,
    },
    /// A body of negative length inside a segment.
    #[error("Invalid value for envelope header body length field: {length}")]
    NegativeLength {
        /// The length sent.
        length: i32,
    },
    /// A segment that fails its checksum or does not decompress.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A self-contained segment that ends inside an envelope.
    #[error("Self-contained segment ends inside an envelope: {needed} bytes needed, {remaining} left")]
    EnvelopeOverrun {
        /// Length of the envelope, or of a header.
        needed: u64,
        /// What the segment still held.
        remaining: usize,
    },
    /// Segments of a large message that go on after its end.
    #[error("A multi-segment message is followed by {extra} more bytes in its last segment")]
    TrailingBytes {
        /// The number of bytes too many.
        extra: usize,
    },
    /// A compressed body that cannot be decompressed.
    #[error("Cannot decompress the body: {reason}")]
    Decompression {
        /// The algorithm.
        algorithm: Compression,
        /// The codec's words.
        reason: String,
    },
}

impl From<&FrameError> for ErrorResponse {
    fn from(error: &FrameError) -> Self {
        match error.kind {
            FrameErrorKind::TooBig { .. } | FrameErrorKind::MessageTooBig { .. } => {
                ErrorResponse::invalid(error.to_string())
            }
            FrameErrorKind::EnvelopeOverrun { .. }
            | FrameErrorKind::Decompression { algorithm: Compression::Lz4, .. } => {
                ErrorResponse::server(error.to_string())
            }
            _ => ErrorResponse::protocol(error.to_string()),
        }
    }
}
