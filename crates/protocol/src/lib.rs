//! The native protocol, versions 3, 4 and 5: bytes to requests, responses to bytes.
//!
//! Nothing here reads a socket, a clock or a file. A connection owns a [`Decoder`] and an [`Encoder`]:
//!
//! 1. Bytes from the socket go into [`Decoder::buffer_mut`]; [`Decoder::next_envelope`] takes envelopes out.
//! 2. [`request::Message::decode`] makes a typed request of an envelope; its values are slices of the bytes
//!    read.
//! 3. Responses go into the encoder, rows through [`response::rows::RowsWriter`], and [`Encoder::unsent`]
//!    is what the socket is to send.
//! 4. When STARTUP is accepted, [`Decoder::negotiate`] and, once the answer is written,
//!    [`Encoder::negotiate`] switch to what it asked for.
//!
//! Bytes from outside never cause a panic, and never an allocation larger than a limit or a small multiple of
//! what was received. The feature `client` adds the other side: encoders of requests, decoders of responses.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]

pub mod compression;
pub mod decoder;
pub mod encoder;
pub mod envelope;
pub mod error;
pub mod ids;
pub mod primitives;
#[cfg(any(test, feature = "client"))]
pub mod query_log;
pub mod request;
pub mod response;
pub mod sasl;
pub mod segment;
pub mod types;
pub mod version;

#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod test_bytes;

pub use compression::Compression;
pub use decoder::Decoder;
pub use encoder::{Encoder, Extras};
pub use envelope::{Envelope, Opcode};
pub use error::{BodyError, FrameError, FrameErrorKind};
/// In requests and errors, both of which a client of this crate builds or reads.
pub use model::{Consistency, WriteType};
pub use request::Request;
pub use response::{ErrorResponse, Response};
pub use version::ProtocolVersion;
