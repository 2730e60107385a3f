//! Connections of clients: sockets on one side, requests and replies on the other.
//!
//! ```text
//! socket ─read─> Decoder ─envelope─> handshake (OPTIONS, STARTUP, REGISTER)
//!                                  └> admission ─> Service::handle(message, Reply)
//! socket <─write─ Encoder <──────────────────────────── Reply
//! ```
//!
//! 1. [`Server`] accepts. A connection over the limits (in all, or of its address) is closed at once, as
//!    Cassandra does. What its task reads and writes is a [`wire`], with TLS behind it ([`secure`]) or none.
//! 2. Each connection is one task ([`task`]) on one of a few threads ([`threads`]). It reads, decodes and
//!    writes; everything that one read brought is decoded before anything is written, and everything that was
//!    answered meanwhile goes out in one write.
//! 3. A request is carried out in place, on the task, as far as it goes without waiting. One that has to wait
//!    goes on as a task of its own, so answers come in any order.
//! 4. Everything is bounded: the size of an envelope by the decoder, and before the session has begun by much
//!    less; requests in flight by number for each connection and by bytes for the connection, its address and
//!    the node ([`budget`]). What does not fit is refused as overloaded if the client asked for that
//!    (THROW_ON_OVERLOAD), else the connection is not read until there is room. What has come of requests
//!    that are not whole has bounds of its own ([`incoming`]). A connection whose client does not read its
//!    answers is not read either; large reads wait for [`Connection::room`], and for room in memory
//!    ([`answers`]). A client that is too slow with what it has begun is disconnected ([`pace`]).
//! 5. The node takes so many requests a second, if it is told to ([`rate`]). The one too many is refused, or
//!    the last that its connection is read for until its moment has come.
//! 6. On shutdown nothing more is read; what is in flight is answered within a bound, then all is closed.
//!
//! A [`Reply`] that is dropped without an answer (its request panicked) answers with a server error, so a
//! client never waits for a request that is gone.

mod answers;
mod arrival;
mod budget;
mod connection;
mod handshake;
mod incoming;
mod pace;
mod rate;
mod registry;
mod secure;
mod server;
mod task;
mod threads;
mod wire;

#[cfg(test)]
pub(crate) mod tests;

pub use answers::{AnswerRoom, NoRoom};
pub use arrival::Arrival;
pub use connection::{ClientInfo, Connection, Reply};
pub use registry::{Registry, Traffic};
pub use server::{Door, Server};
pub use threads::Threads;

use crate::tls::Tls;
use bytes::Bytes;
use protocol::request::Message;
use protocol::response::error::ErrorResponse;
use protocol::response::{AuthSuccess, Response};
use protocol::{Decoder, Extras};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What clients of a port speak below the protocol.
#[derive(Clone, Debug, Default)]
pub enum Security {
    /// Nothing.
    #[default]
    Plain,
    /// TLS or nothing, as their first byte says.
    Optional(Arc<Tls>),
    /// TLS.
    Encrypted(Arc<Tls>),
}

/// The name of a client that nobody asked who it is.
pub const ANONYMOUS: &str = "anonymous";

/// Limits and timeouts of connections. The comments name the keys of cassandra.yaml.
#[derive(Clone, Debug)]
pub struct NetOptions {
    /// `native_transport_max_frame_size`: bytes of an envelope of v3 or v4.
    pub frame_bytes_max: usize,
    /// `native_transport_max_message_size`: bytes of a message that spans several segments of v5.
    pub message_bytes_max: usize,
    /// `native_transport_max_concurrent_connections`; 0: no limit.
    pub connections_max: usize,
    /// `native_transport_max_concurrent_connections_per_ip`; 0: no limit.
    pub connections_per_ip_max: usize,
    /// Requests that one connection may have in flight; more are not read.
    pub requests_per_connection_max: usize,
    /// `native_transport_max_requests_per_second`, of all clients together; 0: no limit.
    pub requests_per_second_max: u32,
    /// Bytes of requests that one connection may have in flight.
    pub in_flight_per_connection_bytes_max: u64,
    /// `native_transport_max_request_data_in_flight_per_ip`.
    pub in_flight_per_ip_bytes_max: u64,
    /// `native_transport_max_request_data_in_flight`.
    pub in_flight_bytes_max: u64,
    /// Bytes of answers that are made for one connection, or that it has not read.
    pub answers_per_connection_bytes_max: u64,
    /// `native_transport_max_response_data_in_flight_per_ip`.
    pub answers_per_ip_bytes_max: u64,
    /// `native_transport_max_response_data_in_flight`.
    pub answers_bytes_max: u64,
    /// Bytes of answers that wait for a client to read them; above, the connection is not read and reads
    /// wait.
    pub outgoing_bytes_high: usize,
    /// `native_transport_idle_timeout` in seconds; 0: none.
    pub idle_timeout_s: u32,
    /// `native_transport_startup_timeout` in seconds, in which a connection must have begun its session; 0:
    /// any time.
    pub startup_timeout_s: u32,
    /// `native_transport_receive_timeout` in seconds, in which a request that has begun must have come; 0:
    /// any time.
    pub receive_timeout_s: u32,
    /// `native_transport_tls_handshake_timeout` in seconds, in which a TLS handshake must be done; 0: any
    /// time.
    pub tls_handshake_timeout_s: u32,
    /// Seconds after which a connection is closed whose client has taken none of its waiting answers.
    pub stalled_write_timeout_s: u32,
}

impl Default for NetOptions {
    fn default() -> Self {
        Self {
            frame_bytes_max: protocol::decoder::DEFAULT_ENVELOPE_BYTES_MAX,
            message_bytes_max: protocol::decoder::DEFAULT_ENVELOPE_BYTES_MAX,
            connections_max: 0,
            connections_per_ip_max: 0,
            requests_per_connection_max: 2_048,
            requests_per_second_max: 0,
            in_flight_per_connection_bytes_max: 32 << 20,
            in_flight_per_ip_bytes_max: 64 << 20,
            in_flight_bytes_max: 256 << 20,
            answers_per_connection_bytes_max: 32 << 20,
            answers_per_ip_bytes_max: 64 << 20,
            answers_bytes_max: 256 << 20,
            outgoing_bytes_high: 4 << 20,
            idle_timeout_s: 0,
            startup_timeout_s: 60,
            receive_timeout_s: 30,
            tls_handshake_timeout_s: 10,
            stalled_write_timeout_s: 300,
        }
    }
}

impl NetOptions {
    /// What a client that was let in may send is as long as the settings say.
    fn let_in(&self, decoder: &mut Decoder) {
        decoder.set_bytes_max(self.frame_bytes_max, self.message_bytes_max);
    }
}

/// What is left of a request that has to wait.
pub type Handling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How the client of a connection gets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// Nobody asks who it is.
    Open,
    /// It has to answer this class of authenticator before anything else.
    Asked(&'static str),
    /// Its certificate is judged before STARTUP is answered.
    Certificate,
}

/// Carries out requests of sessions that have begun.
pub trait Service: Send + Sync + 'static {
    /// How the client of a connection gets in.
    fn entrance(&self, _: &Connection) -> Entrance {
        Entrance::Open
    }

    /// Judges the certificate of a client, and lets it in or not. What waits comes back.
    fn log_in_early(self: Arc<Self>, arrival: Arrival) -> Handling {
        arrival.refuse(ErrorResponse::server("no certificates are judged here"));
        Box::pin(std::future::ready(()))
    }

    /// Judges who a client says that it is, and answers. What waits comes back.
    fn log_in(self: Arc<Self>, _: Option<Bytes>, reply: Reply) -> Handling {
        reply.send(&Response::AuthSuccess(AuthSuccess { token: None }), &Extras::default());
        Box::pin(std::future::ready(()))
    }

    /// Carries a request out as far as it goes without waiting, which holds up the other requests of its
    /// connection. What is left comes back, is polled where it was made first, and maybe elsewhere later.
    fn handle(self: Arc<Self>, message: Message, reply: Reply) -> Option<Handling>;
}
