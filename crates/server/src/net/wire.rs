//! What bytes go over between the node and a client.
//!
//! The task of a connection knows these operations and no socket: bytes come, it may write, it leaves for
//! another thread.

use std::io;
use std::task::{Context, Poll};

use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

/// A wire that no thread waits for.
#[derive(Debug)]
pub(super) struct RestingWire(std::net::TcpStream);

/// A wire that the thread at hand waits for.
#[derive(Debug)]
pub(super) struct Wire(TcpStream);

/// The end that bytes come from.
#[derive(Debug)]
pub(super) struct WireReader<'a>(ReadHalf<'a>);

/// The end that bytes go to.
#[derive(Debug)]
pub(super) struct WireWriter<'a>(WriteHalf<'a>);

impl RestingWire {
    /// The wire of a client that has just come. Answers are not held back for more (TCP_NODELAY).
    ///
    /// # Errors
    /// The system's, where the socket cannot be taken from the thread that accepted it.
    pub fn accepted(stream: TcpStream) -> io::Result<RestingWire> {
        let stream = stream.into_std()?;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        Ok(RestingWire(stream))
    }

    /// Has the thread at hand wait for it.
    ///
    /// # Errors
    /// The system's.
    pub fn wake(self) -> io::Result<Wire> {
        TcpStream::from_std(self.0).map(Wire)
    }
}

impl Wire {
    /// Leaves the thread at hand.
    ///
    /// # Errors
    /// The system's.
    pub fn rest(self) -> io::Result<RestingWire> {
        self.0.into_std().map(RestingWire)
    }

    /// Both ends.
    pub fn split(&mut self) -> (WireReader<'_>, WireWriter<'_>) {
        let (reader, writer) = self.0.split();
        (WireReader(reader), WireWriter(writer))
    }
}

impl WireReader<'_> {
    /// Waits for bytes, and adds what has come to `bytes`. None is the end: the client will send no more.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn read(&mut self, bytes: &mut BytesMut) -> io::Result<usize> {
        self.0.read_buf(bytes).await
    }
}

impl WireWriter<'_> {
    /// Writes as many of the bytes as are taken at once.
    ///
    /// # Errors
    /// `WouldBlock` when none is; others when the connection is lost.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    /// Whether bytes may be taken again.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.as_ref().poll_write_ready(context)
    }
}
