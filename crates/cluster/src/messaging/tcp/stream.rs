//! The bytes below handshakes and frames: TCP as it is, or what is wrapped around it.

use super::super::frame::Framing;
use crate::endpoint::Endpoint;
use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream to come.
pub type Wrapping<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>;

/// What is decided for each connection: its encryption, and the framing of its messages.
pub trait Links: Send + Sync {
    /// Wraps a connection that this node opened.
    fn connected(&self, tcp: TcpStream, to: Endpoint) -> Wrapping<'_>;

    /// Wraps a connection that another node opened. Who it is, is not known yet.
    fn accepted(&self, tcp: TcpStream) -> Wrapping<'_>;

    /// How messages to a node are framed (`internode_compression`).
    fn framing(&self, to: Endpoint) -> Framing;
}
