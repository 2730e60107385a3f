//! TLS over a connection's socket: plain bytes on one side, records on the other.
//!
//! ```text
//! socket ─read─> scratch ─read_tls─> rustls ─plain─> the decoder's buffer
//! socket <─writev─ records <─encrypt─ rustls <─ the encoder's bytes
//! ```
//!
//! 1. Nothing here waits or has a task of its own. The connection's task polls the reader and tries to write,
//!    as with a plain socket; both ends share the session, under a lock that is never contended.
//! 2. The handshake goes on inside of reads. Each of its steps is up to a millisecond of arithmetic, so a
//!    thread makes one in each round of its tasks ([`Turns`]): whoever has a request waits for one step, and
//!    not for all clients that come back after a restart.
//! 3. A write is taken when its records are in the socket, not before. Until then the same bytes come again,
//!    and stay counted where all bytes are that a client does not take. At most [`WRITE_BYTES`] of them exist
//!    twice.
//! 4. When the handshake is done, the acceptor looks at who came, before the first request is handed on.

use std::future::Future;
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use parking_lot::Mutex;
use rustls::ServerConnection;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Connection, Registry};
use crate::tls::{Acceptor, Tls};

/// Bytes that are read at once: two records of the largest size.
const READ_BYTES: usize = 32 << 10;
/// Bytes that are encrypted at once: four records of the largest size.
const WRITE_BYTES: usize = 64 << 10;

thread_local! {
    /// What a read of this thread goes through.
    static SCRATCH: std::cell::RefCell<Vec<u8>> = std::cell::RefCell::new(vec![0; READ_BYTES]);
    /// The turns of handshakes on this thread.
    static TURNS: Turns = Turns(Arc::new(Semaphore::new(1)));
}

/// Who may make a step of a handshake. A turn ends when all tasks that were ready had theirs, and what has
/// come meanwhile is known.
struct Turns(Arc<Semaphore>);

type Turn = Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send>>;

impl Turns {
    fn next() -> Turn {
        let turns = TURNS.with(|turns| Arc::clone(&turns.0));
        Box::pin(async move { turns.acquire_owned().await.ok() })
    }

    /// Gives a turn back behind everybody who is ready now, and when the thread has looked at its sockets.
    fn end(turn: Option<OwnedSemaphorePermit>) {
        drop(tokio::spawn(async move {
            tokio::task::yield_now().await;
            drop(turn);
        }));
    }
}

/// The state of a connection's TLS.
pub(super) struct Session {
    tls: ServerConnection,
    acceptor: Arc<Acceptor>,
    settings: Arc<Tls>,
    connection: Arc<Connection>,
    registry: Arc<Registry>,
    /// Bytes of the write that is not taken yet, whose records are made.
    owed: usize,
    /// Waits for a turn of the handshake.
    turn: Option<Turn>,
    is_established: bool,
    has_begun: bool,
    /// The client has said that it will send no more.
    has_ended: bool,
}

/// A session and the socket that it uses.
pub(super) struct SecureStream {
    stream: TcpStream,
    session: Mutex<Box<Session>>,
}

/// A socket that does not wait.
struct Socket<'a>(&'a TcpStream);

impl Read for Socket<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(bytes)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Session {
    /// The session of a client that has just come.
    ///
    /// # Errors
    /// rustls's.
    pub(super) fn open(
        settings: &Arc<Tls>,
        connection: &Arc<Connection>,
        registry: &Arc<Registry>,
    ) -> io::Result<Box<Session>> {
        let acceptor = settings.acceptor();
        let mut tls = acceptor.open().map_err(io::Error::other)?;
        tls.set_buffer_limit(None);
        connection.is_shaking_hands.store(true, Ordering::Relaxed);
        Ok(Box::new(Session {
            tls,
            acceptor,
            settings: Arc::clone(settings),
            connection: Arc::clone(connection),
            registry: Arc::clone(registry),
            owed: 0,
            turn: None,
            is_established: false,
            has_begun: false,
            has_ended: false,
        }))
    }

    /// Whether all records are in the socket.
    fn flush(&mut self, stream: &TcpStream) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(stream)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Decrypts what has come, and adds it to `bytes`. How much that was; none where more has to come, and 0
    /// where the client has said that nothing will.
    fn take(&mut self, mut came: &[u8], bytes: &mut BytesMut) -> io::Result<Option<usize>> {
        let before = bytes.len();
        self.has_begun = true;
        while !came.is_empty() {
            if self.tls.read_tls(&mut came)? == 0 {
                break;
            }
            let state = self.tls.process_new_packets().map_err(|error| self.failed(&error.to_string()))?;
            if !self.is_established && !self.tls.is_handshaking() {
                self.establish()?;
            }
            let mut left = state.plaintext_bytes_to_read();
            while left > 0 {
                let mut reader = self.tls.reader();
                let plain = reader.fill_buf()?;
                let count = plain.len();
                bytes.extend_from_slice(plain);
                reader.consume(count);
                left = left.saturating_sub(count.max(1));
            }
            if state.peer_has_closed() {
                self.has_ended = true;
                return Ok(Some(bytes.len() - before));
            }
        }
        let count = bytes.len() - before;
        Ok((count > 0).then_some(count))
    }

    fn establish(&mut self) -> io::Result<()> {
        self.is_established = true;
        let connection = &self.connection;
        let now_s = self.settings.now_s();
        let session = match self.acceptor.admit(&self.tls, connection.peer.ip(), now_s) {
            Ok(session) => session,
            Err(reason) => return Err(self.failed(&reason)),
        };
        connection.is_shaking_hands.store(false, Ordering::Relaxed);
        let traffic = &self.registry.traffic;
        traffic.tls_handshakes.add(1);
        if session.is_resumed {
            traffic.tls_resumed.add(1);
        }
        connection.set_tls(session);
        Ok(())
    }

    /// Counts a failure, and makes an error of it.
    fn failed(&self, reason: &str) -> io::Error {
        if self.connection.tls().is_none() {
            self.registry.note_tls_failure(self.connection.peer, reason, self.settings.now_s());
        }
        io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {reason}"))
    }
}

impl SecureStream {
    pub(super) fn new(stream: TcpStream, session: Box<Session>) -> SecureStream {
        SecureStream { stream, session: Mutex::new(session) }
    }

    /// Both, to be put together again on another thread.
    pub(super) fn into_parts(self) -> (TcpStream, Box<Session>) {
        let mut session = self.session.into_inner();
        // It waits among those of this thread.
        session.turn = None;
        (self.stream, session)
    }

    /// Reads what has come, as plain bytes. 0 is the end.
    pub(super) fn poll_read(
        &self,
        context: &mut Context<'_>,
        bytes: &mut BytesMut,
    ) -> Poll<io::Result<usize>> {
        let mut session = self.session.lock();
        let session = &mut **session;
        if session.has_ended {
            return Poll::Ready(Ok(0));
        }
        loop {
            // Answers of the handshake, tickets, keys that change: whatever rustls has to say itself.
            while !session.flush(&self.stream)? {
                match self.stream.poll_write_ready(context) {
                    Poll::Ready(ready) => ready?,
                    Poll::Pending => break,
                }
            }
            if session.turn.is_none() {
                ready!(self.stream.poll_read_ready(context))?;
            }
            let mut turn = None;
            if !session.is_established {
                turn = ready!(session.turn.get_or_insert_with(Turns::next).as_mut().poll(context));
                session.turn = None;
            }
            let read = SCRATCH.with_borrow_mut(|scratch| {
                let count = match Socket(&self.stream).read(scratch) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Came::Nothing),
                    read => read?,
                };
                let came = scratch.get(..count).unwrap_or_default();
                if came.is_empty() { Ok(Came::End) } else { session.take(came, bytes).map(Came::Taken) }
            });
            if turn.is_some() {
                Turns::end(turn);
            }
            match read {
                Ok(Came::Nothing | Came::Taken(None)) => {}
                Ok(Came::Taken(Some(count))) => {
                    // What the handshake ends with goes out before the first answer.
                    session.flush(&self.stream)?;
                    return Poll::Ready(Ok(count));
                }
                Ok(Came::End) => {
                    if session.has_begun && !session.is_established {
                        return Poll::Ready(Err(session.failed("the client left")));
                    }
                    return Poll::Ready(Ok(0));
                }
                Err(error) => {
                    // An alert, which says why. Whether the client takes it is its business.
                    let _ = session.flush(&self.stream);
                    return Poll::Ready(Err(error));
                }
            }
        }
    }

    /// Writes as many of the bytes as are taken at once. When none is, the next call has the same bytes
    /// again.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut session = self.session.lock();
        let session = &mut **session;
        if session.owed == 0 {
            let some = bytes.get(..WRITE_BYTES).unwrap_or(bytes);
            session.owed = session.tls.writer().write(some)?;
        }
        if session.flush(&self.stream)? {
            Ok(std::mem::take(&mut session.owed))
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    /// Whether bytes may be taken again.
    pub(super) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.poll_write_ready(context)
    }

    /// Tells the client that nothing more will come, if the socket takes that.
    pub(super) fn close(&self) {
        let mut session = self.session.lock();
        let session = &mut **session;
        if session.is_established {
            session.tls.send_close_notify();
            let _ = session.flush(&self.stream);
        }
    }
}

/// What a read of the socket came to.
enum Came {
    /// Nothing is there.
    Nothing,
    /// The client has closed.
    End,
    /// What [`Session::take`] made of it.
    Taken(Option<usize>),
}
