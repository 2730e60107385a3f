//! What bytes go over between the node and a client.
//!
//! The task of a connection knows these operations and no socket: bytes come, it may write, it leaves for
//! another thread. Whether there is TLS in between ([`super::secure`]) it does not see. Where a client may
//! speak either, its first byte tells ([`Wire::poll_first`]): a record of TLS that begins a handshake
//! has 22 there, and no frame of any version of the protocol does.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::secure::{SecureStream, Session};
use super::{Connection, Registry, Security};
use crate::tls::Tls;

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 22;

/// What is between the socket and the protocol.
enum Kind<P, S> {
    /// Nothing.
    Plain(P),
    /// What the first byte says.
    Unknown(P, Arc<Tls>),
    /// TLS.
    Secure(S),
}

/// A wire that no thread waits for.
pub(super) struct RestingWire(Kind<std::net::TcpStream, (std::net::TcpStream, Box<Session>)>);

/// A wire that the thread at hand waits for.
pub(super) struct Wire(Kind<TcpStream, SecureStream>);

/// The end that bytes come from.
pub(super) struct WireReader<'a>(Reader<'a>);

enum Reader<'a> {
    Plain(ReadHalf<'a>),
    Secure(&'a SecureStream),
}

/// The end that bytes go to.
pub(super) struct WireWriter<'a>(Writer<'a>);

enum Writer<'a> {
    Plain(WriteHalf<'a>),
    Secure(&'a SecureStream),
}

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
        Ok(RestingWire(Kind::Plain(stream)))
    }

    /// The same wire with what its port asks for.
    ///
    /// # Errors
    /// A session of TLS cannot be made.
    pub fn secured(
        self,
        security: &Security,
        connection: &Arc<Connection>,
        registry: &Arc<Registry>,
    ) -> io::Result<RestingWire> {
        Ok(RestingWire(match (self.0, security) {
            (Kind::Plain(stream), Security::Optional(tls)) => Kind::Unknown(stream, Arc::clone(tls)),
            (Kind::Plain(stream), Security::Encrypted(tls)) => {
                Kind::Secure((stream, Session::open(tls, connection, registry)?))
            }
            (kind, _) => kind,
        }))
    }

    /// Has the thread at hand wait for it.
    ///
    /// # Errors
    /// The system's.
    pub fn wake(self) -> io::Result<Wire> {
        Ok(Wire(match self.0 {
            Kind::Plain(stream) => Kind::Plain(TcpStream::from_std(stream)?),
            Kind::Unknown(stream, tls) => Kind::Unknown(TcpStream::from_std(stream)?, tls),
            Kind::Secure((stream, session)) => {
                Kind::Secure(SecureStream::new(TcpStream::from_std(stream)?, session))
            }
        }))
    }
}

impl Wire {
    /// Leaves the thread at hand.
    ///
    /// # Errors
    /// The system's.
    pub fn rest(self) -> io::Result<RestingWire> {
        Ok(RestingWire(match self.0 {
            Kind::Plain(stream) => Kind::Plain(stream.into_std()?),
            Kind::Unknown(stream, tls) => Kind::Unknown(stream.into_std()?, tls),
            Kind::Secure(secure) => {
                let (stream, session) = secure.into_parts();
                Kind::Secure((stream.into_std()?, session))
            }
        }))
    }

    /// Whether it is not known yet what the client speaks.
    pub fn is_unknown(&self) -> bool {
        matches!(self.0, Kind::Unknown(..))
    }

    /// Waits for the first byte of a client that may speak TLS or not, and says whether it does. Nothing is
    /// taken from the socket.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn poll_first(&self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let Kind::Unknown(stream, _) = &self.0 else { return Poll::Ready(Ok(false)) };
        let mut first = [0];
        let count = ready!(stream.poll_peek(context, &mut ReadBuf::new(&mut first)))?;
        Poll::Ready(Ok(count == 1 && first == [HANDSHAKE]))
    }

    /// The same wire, of which is known now what the client speaks.
    ///
    /// # Errors
    /// A session of TLS cannot be made.
    pub fn told(
        self,
        is_tls: bool,
        connection: &Arc<Connection>,
        registry: &Arc<Registry>,
    ) -> io::Result<Wire> {
        Ok(Wire(match self.0 {
            Kind::Unknown(stream, tls) if is_tls => {
                Kind::Secure(SecureStream::new(stream, Session::open(&tls, connection, registry)?))
            }
            Kind::Unknown(stream, _) => Kind::Plain(stream),
            kind => kind,
        }))
    }

    /// Tells a client that nothing more will come, where the protocol in between has words for that.
    pub fn close(&self) {
        if let Kind::Secure(secure) = &self.0 {
            secure.close();
        }
    }

    /// Both ends.
    pub fn split(&mut self) -> (WireReader<'_>, WireWriter<'_>) {
        match &mut self.0 {
            Kind::Plain(stream) | Kind::Unknown(stream, _) => {
                let (reader, writer) = stream.split();
                (WireReader(Reader::Plain(reader)), WireWriter(Writer::Plain(writer)))
            }
            Kind::Secure(secure) => (WireReader(Reader::Secure(secure)), WireWriter(Writer::Secure(secure))),
        }
    }
}

impl WireReader<'_> {
    /// Waits for bytes, and adds what has come to `bytes`. None is the end: the client will send no more.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn read(&mut self, bytes: &mut BytesMut) -> io::Result<usize> {
        match &mut self.0 {
            Reader::Plain(reader) => reader.read_buf(bytes).await,
            Reader::Secure(secure) => std::future::poll_fn(|context| secure.poll_read(context, bytes)).await,
        }
    }
}

impl WireWriter<'_> {
    /// Writes as many of the bytes as are taken at once. When none is, the next call has to begin with the
    /// same bytes.
    ///
    /// # Errors
    /// `WouldBlock` when none is; others when the connection is lost.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Writer::Plain(writer) => writer.try_write(bytes),
            Writer::Secure(secure) => secure.try_write(bytes),
        }
    }

    /// Whether bytes may be taken again.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &self.0 {
            Writer::Plain(writer) => writer.as_ref().poll_write_ready(context),
            Writer::Secure(secure) => secure.poll_ready(context),
        }
    }
}
