//! The bytes below handshakes and frames: TCP as it is, or what is wrapped around it.

use super::super::frame::Framing;
use crate::endpoint::Endpoint;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes in both directions.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection between two nodes.
pub enum Link {
    /// TCP as it is.
    Plain(TcpStream),
    /// What is wrapped around it.
    Wrapped(Box<dyn Stream>),
}

impl Link {
    fn stream(self: Pin<&mut Self>) -> Pin<&mut dyn Stream> {
        match self.get_mut() {
            Link::Plain(tcp) => Pin::new(tcp),
            Link::Wrapped(stream) => Pin::new(stream),
        }
    }
}

impl AsyncRead for Link {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, out)
    }
}

impl AsyncWrite for Link {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

/// A connection to come.
pub type Wrapping<'a> = Pin<Box<dyn Future<Output = io::Result<Link>> + Send + 'a>>;

/// How a connection is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// As the configuration says.
    Configured,
    /// Without encryption, although the configuration asks for it ([`Links::falls_back`]).
    Unencrypted,
}

/// What is decided for each connection: its encryption, and the framing of its messages.
pub trait Links: Send + Sync {
    /// Wraps a connection that this node opened.
    fn connected(&self, tcp: TcpStream, to: Endpoint, attempt: Attempt) -> Wrapping<'_>;

    /// Whether the attempt after a [`Attempt::Configured`] one that ended with `error` is
    /// [`Attempt::Unencrypted`].
    fn falls_back(&self, to: Endpoint, error: &io::Error) -> bool;

    /// Wraps a connection that another node opened. Who it is, is not known yet.
    fn accepted(&self, tcp: TcpStream) -> Wrapping<'_>;

    /// How messages to a node are framed (`internode_compression`).
    fn framing(&self, to: Endpoint) -> Framing;
}
