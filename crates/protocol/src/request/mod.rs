//! Requests: one file for each, decoded from a body whose version the envelope tells.
//!
//! What follows the last field of a body is ignored, as Cassandra ignores it.

pub mod auth_response;
pub mod batch;
pub mod execute;
pub mod options;
pub mod params;
pub mod prepare;
pub mod query;
pub mod register;
pub mod startup;

#[cfg(any(test, feature = "client"))]
use bytes::BytesMut;

use crate::envelope::{Envelope, Opcode, flags};
use crate::error::BodyError;
use crate::primitives::{CustomPayload, Reader};
use crate::version::ProtocolVersion;

pub use auth_response::AuthResponse;
pub use batch::{Batch, BatchKind, BatchStatement, StatementText};
pub use execute::Execute;
pub use options::Options;
pub use params::QueryParams;
pub use prepare::Prepare;
pub use query::Query;
pub use register::Register;
pub use startup::Startup;

/// A request of any kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// What does the server support?
    Options(Options),
    /// Begin the session.
    Startup(Startup),
    /// Run a statement.
    Query(Query),
    /// Prepare a statement.
    Prepare(Prepare),
    /// Run a prepared statement.
    Execute(Execute),
    /// Run several statements as one.
    Batch(Batch),
    /// Send events.
    Register(Register),
    /// A step of authentication.
    AuthResponse(AuthResponse),
}

/// A request and what its envelope says about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The client asks for a trace.
    pub tracing: bool,
    /// The custom payload, which only plug-ins understand; `None` if the flag is not set.
    pub payload: Option<CustomPayload>,
    /// The request.
    pub request: Request,
}

impl Message {
    /// Decodes the body of a request's envelope.
    pub fn decode(envelope: Envelope) -> Result<Self, BodyError> {
        let tracing = envelope.has_tracing();
        let mut reader = Reader::new(envelope.body);
        let payload = if envelope.flags & flags::CUSTOM_PAYLOAD == 0 {
            None
        } else if envelope.version < ProtocolVersion::V4 {
            return Err(BodyError::PayloadBeforeV4);
        } else {
            Some(reader.bytes_map()?)
        };
        let request = Request::decode(envelope.opcode, envelope.version, &mut reader)?;
        Ok(Self { tracing, payload, request })
    }
}

impl Request {
    /// Decodes a body without the custom payload.
    pub fn decode(opcode: Opcode, version: ProtocolVersion, reader: &mut Reader) -> Result<Self, BodyError> {
        Ok(match opcode {
            Opcode::Options => Self::Options(Options),
            Opcode::Startup => Self::Startup(Startup::decode(reader)?),
            Opcode::Query => Self::Query(Query::decode(version, reader)?),
            Opcode::Prepare => Self::Prepare(Prepare::decode(version, reader)?),
            Opcode::Execute => Self::Execute(Execute::decode(version, reader)?),
            Opcode::Batch => Self::Batch(Batch::decode(version, reader)?),
            Opcode::Register => Self::Register(Register::decode(reader)?),
            Opcode::AuthResponse => Self::AuthResponse(AuthResponse::decode(reader)?),
            other => return Err(BodyError::Tag { what: "request opcode", tag: other.name().to_owned() }),
        })
    }

    /// The opcode of the request's envelope.
    pub const fn opcode(&self) -> Opcode {
        match self {
            Self::Options(_) => Opcode::Options,
            Self::Startup(_) => Opcode::Startup,
            Self::Query(_) => Opcode::Query,
            Self::Prepare(_) => Opcode::Prepare,
            Self::Execute(_) => Opcode::Execute,
            Self::Batch(_) => Opcode::Batch,
            Self::Register(_) => Opcode::Register,
            Self::AuthResponse(_) => Opcode::AuthResponse,
        }
    }

    /// Appends the body.
    #[cfg(any(test, feature = "client"))]
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        match self {
            Self::Options(_) => {}
            Self::Startup(request) => request.encode(out),
            Self::Query(request) => request.encode(version, out),
            Self::Prepare(request) => request.encode(version, out),
            Self::Execute(request) => request.encode(version, out),
            Self::Batch(request) => request.encode(version, out),
            Self::Register(request) => request.encode(out),
            Self::AuthResponse(request) => request.encode(out),
        }
    }
}

/// Decodes arbitrary bytes as the body of every request: an entry point for fuzzing. `settings` picks version
/// and opcode.
pub fn fuzz_request(settings: u8, bytes: &[u8]) {
    let all = ProtocolVersion::ALL;
    let version = all.get(usize::from(settings >> 6)).copied().unwrap_or(ProtocolVersion::V5);
    let Some(opcode) = Opcode::from_code(settings & 0x1F).filter(|opcode| opcode.is_request()) else {
        return;
    };
    let mut reader = Reader::new(bytes::Bytes::copy_from_slice(bytes));
    drop(Request::decode(opcode, version, &mut reader));
}

#[cfg(test)]
mod tests;
