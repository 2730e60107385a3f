//! Responses: one file for each. Bodies are appended to a buffer in the version of the connection.
//!
//! A result of rows has no type of its own here: [`rows::RowsWriter`] writes it straight into the
//! connection's buffer, or into [`blocks::Blocks`] where the connection is not at hand.

pub mod auth;
pub mod blocks;
pub mod error;
pub mod event;
pub mod prepared;
pub mod result;
pub mod rows;
pub mod schema_change;
pub mod supported;

use bytes::BytesMut;

use crate::envelope::Opcode;
#[cfg(any(test, feature = "client"))]
use crate::envelope::{Envelope, flags};
#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::version::ProtocolVersion;

pub use auth::{AuthChallenge, AuthSuccess, Authenticate, PASSWORD_AUTHENTICATOR};
pub use error::ErrorResponse;
pub use event::Event;
pub use result::ResultBody;
pub use supported::Supported;

/// A response of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Response {
    /// An error.
    Error(ErrorResponse),
    /// The session has begun, or events are registered; an empty body.
    Ready,
    /// Authentication is needed.
    Authenticate(Authenticate),
    /// The answer to OPTIONS.
    Supported(Supported),
    /// The result of a statement.
    Result(ResultBody),
    /// An event.
    Event(Event),
    /// The next step of authentication.
    AuthChallenge(AuthChallenge),
    /// Authenticated.
    AuthSuccess(AuthSuccess),
}

impl Response {
    /// The opcode of the response's envelope.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Error(_) => Opcode::Error,
            Self::Ready => Opcode::Ready,
            Self::Authenticate(_) => Opcode::Authenticate,
            Self::Supported(_) => Opcode::Supported,
            Self::Result(_) => Opcode::Result,
            Self::Event(_) => Opcode::Event,
            Self::AuthChallenge(_) => Opcode::AuthChallenge,
            Self::AuthSuccess(_) => Opcode::AuthSuccess,
        }
    }

    /// Appends the body.
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        match self {
            Self::Error(response) => response.encode(version, out),
            Self::Ready => {}
            Self::Authenticate(response) => response.encode(out),
            Self::Supported(response) => response.encode(out),
            Self::Result(response) => response.encode(version, out),
            Self::Event(response) => response.encode(version, out),
            Self::AuthChallenge(response) => response.encode(out),
            Self::AuthSuccess(response) => response.encode(out),
        }
    }
}

/// A response and what leads its body.
#[cfg(any(test, feature = "client"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Tracing id, warnings, custom payload.
    pub extras: crate::encoder::Extras,
    /// The response.
    pub response: Response,
}

#[cfg(any(test, feature = "client"))]
impl Message {
    /// Decodes the body of a response's envelope.
    pub fn decode(envelope: Envelope) -> Result<Self, BodyError> {
        let mut extras = crate::encoder::Extras::default();
        let version = envelope.version;
        let has = |flag| envelope.flags & flag != 0;
        let mut reader = Reader::new(envelope.body.clone());
        if has(flags::TRACING) {
            extras.tracing_id = Some(reader.uuid("a tracing id")?);
        }
        if has(flags::WARNING) {
            extras.warnings = reader.string_list()?;
        }
        if has(flags::CUSTOM_PAYLOAD) {
            extras.payload = reader.bytes_map()?;
        }
        let response = match envelope.opcode {
            Opcode::Error => Response::Error(ErrorResponse::decode(version, &mut reader)?),
            Opcode::Ready => Response::Ready,
            Opcode::Authenticate => Response::Authenticate(Authenticate::decode(&mut reader)?),
            Opcode::Supported => Response::Supported(Supported::decode(&mut reader)?),
            Opcode::Result => Response::Result(ResultBody::decode(version, &mut reader)?),
            Opcode::Event => Response::Event(Event::decode(&mut reader)?),
            Opcode::AuthChallenge => Response::AuthChallenge(AuthChallenge::decode(&mut reader)?),
            Opcode::AuthSuccess => Response::AuthSuccess(AuthSuccess::decode(&mut reader)?),
            other => return Err(BodyError::Tag { what: "response opcode", tag: other.name().to_owned() }),
        };
        Ok(Self { extras, response })
    }
}

/// Decodes arbitrary bytes as the body of every response: an entry point for fuzzing. `settings` picks
/// version and opcode, `bits` the flags of the envelope.
#[cfg(any(test, feature = "client"))]
pub fn fuzz_response(settings: u8, bits: u8, bytes: &[u8]) {
    let all = ProtocolVersion::ALL;
    let version = all.get(usize::from(settings >> 6)).copied().unwrap_or(ProtocolVersion::V5);
    let Some(opcode) = Opcode::from_code(settings & 0x1F).filter(|opcode| !opcode.is_request()) else {
        return;
    };
    let body = bytes::Bytes::copy_from_slice(bytes);
    drop(Message::decode(Envelope { version, flags: bits, stream: 0, opcode, body }));
}

#[cfg(test)]
mod tests;
