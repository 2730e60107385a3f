//! Envelopes: the unit of request and response (v3 and v4 call them frames).
//!
//! ```text
//! u8   version      low 7 bits the version; 80 set in responses and events
//! u8   flags        01 compressed (v3, v4), 02 tracing, 04 custom payload, 08 warnings, 10 beta
//! i16  stream       the client's number for the request; -1 in events
//! u8   opcode
//! u32  body length
//!      body
//! ```
//!
//! The body of a response starts with what its flags announce, in this order: uuid tracing id (02), string
//! list of warnings (08), bytes map custom payload (04). The body of a request starts with the bytes map
//! (04).

use bytes::Bytes;

use crate::version::ProtocolVersion;

/// The length of a header in bytes.
pub const HEADER: usize = 9;
/// The bit of the first byte that marks a response.
pub const RESPONSE_BIT: u8 = 0x80;
/// The stream of events.
pub const EVENT_STREAM: i16 = -1;

/// The bits of a header's second byte.
pub mod flags {
    /// The body is compressed; never in v5.
    pub const COMPRESSED: u8 = 0x01;
    /// Request: trace this. Response: a tracing id leads the body.
    pub const TRACING: u8 = 0x02;
    /// A custom payload leads the body; v4 and later.
    pub const CUSTOM_PAYLOAD: u8 = 0x04;
    /// Warnings lead the body of a response; v4 and later.
    pub const WARNING: u8 = 0x08;
    /// The client accepts a version that is still a draft.
    pub const USE_BETA: u8 = 0x10;
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    /// Response: an error.
    Error = 0x00,
    /// Request: begin the session.
    Startup = 0x01,
    /// Response: the session has begun, or events are registered.
    Ready = 0x02,
    /// Response: authentication is needed.
    Authenticate = 0x03,
    /// Request: what does the server support?
    Options = 0x05,
    /// Response to OPTIONS.
    Supported = 0x06,
    /// Request: run a statement.
    Query = 0x07,
    /// Response: the result of a statement.
    Result = 0x08,
    /// Request: prepare a statement.
    Prepare = 0x09,
    /// Request: run a prepared statement.
    Execute = 0x0A,
    /// Request: send events.
    Register = 0x0B,
    /// Response: an event.
    Event = 0x0C,
    /// Request: run several statements as one.
    Batch = 0x0D,
    /// Response: the next step of authentication.
    AuthChallenge = 0x0E,
    /// Request: the answer to AUTHENTICATE or AUTH_CHALLENGE.
    AuthResponse = 0x0F,
    /// Response: authenticated.
    AuthSuccess = 0x10,
}

impl Opcode {
    /// The opcode of a code.
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::Error,
            0x01 => Self::Startup,
            0x02 => Self::Ready,
            0x03 => Self::Authenticate,
            0x05 => Self::Options,
            0x06 => Self::Supported,
            0x07 => Self::Query,
            0x08 => Self::Result,
            0x09 => Self::Prepare,
            0x0A => Self::Execute,
            0x0B => Self::Register,
            0x0C => Self::Event,
            0x0D => Self::Batch,
            0x0E => Self::AuthChallenge,
            0x0F => Self::AuthResponse,
            0x10 => Self::AuthSuccess,
            _ => return None,
        })
    }

    /// The code in headers.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// True for what clients send.
    pub const fn is_request(self) -> bool {
        matches!(
            self,
            Self::Startup
                | Self::Options
                | Self::Query
                | Self::Prepare
                | Self::Execute
                | Self::Register
                | Self::Batch
                | Self::AuthResponse
        )
    }

    /// The name in Cassandra's messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Startup => "STARTUP",
            Self::Ready => "READY",
            Self::Authenticate => "AUTHENTICATE",
            Self::Options => "OPTIONS",
            Self::Supported => "SUPPORTED",
            Self::Query => "QUERY",
            Self::Result => "RESULT",
            Self::Prepare => "PREPARE",
            Self::Execute => "EXECUTE",
            Self::Register => "REGISTER",
            Self::Event => "EVENT",
            Self::Batch => "BATCH",
            Self::AuthChallenge => "AUTH_CHALLENGE",
            Self::AuthResponse => "AUTH_RESPONSE",
            Self::AuthSuccess => "AUTH_SUCCESS",
        }
    }
}

/// One whole envelope, its body decompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The version in the header.
    pub version: ProtocolVersion,
    /// The bits of [`flags`].
    pub flags: u8,
    /// The request's number.
    pub stream: i16,
    /// What the body is.
    pub opcode: Opcode,
    /// The body, a slice of the bytes read from the connection where nothing had to be decompressed.
    pub body: Bytes,
}

impl Envelope {
    /// True if the request asks for tracing, or the response carries a tracing id.
    pub const fn has_tracing(&self) -> bool {
        self.flags & flags::TRACING != 0
    }

    /// Header and body in bytes: what the request weighs against limits of bytes in flight.
    pub fn length(&self) -> usize {
        HEADER + self.body.len()
    }
}

/// The fields of a header, not judged yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawHeader {
    pub(crate) first: u8,
    pub(crate) flags: u8,
    pub(crate) stream: i16,
    pub(crate) opcode: u8,
    pub(crate) body_length: u32,
}

impl RawHeader {
    /// The header at the front of `bytes`, if all of it is there.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let &[first, flags, s1, s0, opcode, l3, l2, l1, l0] = bytes.first_chunk::<HEADER>()?;
        Some(Self {
            first,
            flags,
            stream: i16::from_be_bytes([s1, s0]),
            opcode,
            body_length: u32::from_be_bytes([l3, l2, l1, l0]),
        })
    }

    /// The header's bytes.
    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let [s1, s0] = self.stream.to_be_bytes();
        let [l3, l2, l1, l0] = self.body_length.to_be_bytes();
        [self.first, self.flags, s1, s0, self.opcode, l3, l2, l1, l0]
    }

    /// The version number, without the direction.
    pub(crate) const fn version_number(self) -> u8 {
        self.first & !RESPONSE_BIT
    }

    /// Header and body in bytes.
    pub(crate) const fn total(self) -> u64 {
        HEADER as u64 + self.body_length as u64
    }
}
