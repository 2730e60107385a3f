//! One connection to a peer, which is opened when there is something to send.
//!
//! 1. Messages wait in a [`Queue`]. The first one starts a task, which stays with the peer. While the task
//!    has nothing to do, threads that send may write small messages themselves ([`super::shortcut`]).
//! 2. The task connects and shakes hands. Where that fails it waits, each time longer, and tries again as
//!    long as messages wait. Every attempt is as the configuration says, but for the one after an attempt
//!    whose failure lets it do without encryption ([`super::stream::Links::falls_back`]).
//! 3. It writes what waits, as many messages at a time as make a good piece. Small ones share frames, a large
//!    one is framed piece by piece.
//! 4. A peer that is to be reached at another address ([`Outbound::reach_at`]) gets a new connection, after
//!    what the old one has begun.
//! 5. A message is written once. If the connection breaks meanwhile, what became of the message is not known.
//! 6. Nothing comes back. A peer that sends something, or closes, ends the connection, also while nothing is
//!    to be sent.

use super::super::counters::{Outbound as OutboundCounts, OutboundCounters, Sum};
use super::super::frame::{Framing, LargeFrames, Packer, SMALL_MESSAGE_BYTES_MAX};
use super::super::handshake::{ACCEPT_BYTES, Accept, ConnectionKind, HandshakeError, Initiate};
use super::super::limits::Allowance;
use super::super::message::Message;
use super::super::transport::{Loss, SendError};
use super::Shared;
use super::queue::{Entry, Queue};
use super::shortcut::{Shortcut, gather};
use super::stream::{Attempt, Link};
use crate::endpoint::Endpoint;
use env::sync::Mutex;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::sync::Notify;

/// Bytes of messages that are written at a time.
const BATCH_BYTES: usize = 128 << 10;
/// A buffer that held more than this for one batch is not kept.
const KEPT_BYTES_MAX: usize = 512 << 10;

/// Why a connection came to its end.
#[derive(Debug, thiserror::Error)]
enum OutboundError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("no encryption: {0}")]
    NotWrapped(io::Error),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("no connection in time")]
    TimedOut,
    #[error("nothing was written in time")]
    WriteTimedOut,
    #[error("the peer closed")]
    Closed,
    #[error("the peer sends where nothing is to come")]
    Talks,
    #[error("the peer is reached at another address")]
    Moved,
}

#[derive(Debug)]
struct State {
    queue: Queue,
    life: Life,
    /// Where the peer is reached.
    at: SocketAddr,
    /// The way past the task, while it waits for messages.
    shortcut: Option<Shortcut>,
}

/// Of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    NotStarted,
    Running,
    Stopped,
}

/// A connection, or the wish for one.
#[derive(Debug)]
pub(super) struct Outbound {
    to: Endpoint,
    kind: ConnectionKind,
    /// The peer's version, told to whoever encodes for it.
    version: Arc<AtomicU32>,
    allowance: Arc<Allowance>,
    state: Mutex<State>,
    /// Something is in the queue, or the life is over.
    queued: Notify,
    /// The connection is to be given up.
    interrupted: Notify,
    is_connected: AtomicBool,
    counters: OutboundCounters,
}

impl Outbound {
    pub(super) fn new(
        to: Endpoint,
        kind: ConnectionKind,
        version: Arc<AtomicU32>,
        allowance: Arc<Allowance>,
    ) -> Outbound {
        let queue = Queue::new(Arc::clone(&allowance));
        Outbound {
            to,
            kind,
            version,
            allowance,
            state: Mutex::new(State { queue, life: Life::NotStarted, at: to.socket(), shortcut: None }),
            queued: Notify::new(),
            interrupted: Notify::new(),
            is_connected: AtomicBool::new(false),
            counters: OutboundCounters::default(),
        }
    }

    /// Puts a message of that length into the queue.
    pub(super) fn send(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        message: Message,
        len: usize,
    ) -> Result<(), SendError> {
        let now_nanos = shared.env.clock.monotonic_nanos();
        let left = message.left(shared.env.clock.now_millis()).as_nanos();
        let expires_at_nanos = now_nanos.saturating_add(u64::try_from(left).unwrap_or(u64::MAX));
        let mut expired = Vec::new();
        let outcome = {
            let mut state = self.state.lock();
            if state.life == Life::Stopped {
                Err(SendError::Stopped)
            } else if !state.queue.push(message, len, expires_at_nanos, now_nanos, &mut expired) {
                Err(SendError::Full)
            } else {
                if state.life == Life::NotStarted {
                    state.life = Life::Running;
                    shared.runtime.spawn(Arc::clone(self).run(Arc::clone(shared)));
                }
                Ok(())
            }
        };
        self.tell_lost(shared, expired, Loss::Expired);
        match outcome {
            Ok(()) if gather(self, shared, now_nanos) => {}
            Ok(()) => self.queued.notify_one(),
            Err(SendError::Full) => self.counters.overload.add(len),
            Err(_) => {}
        }
        outcome
    }

    /// Writes small messages that wait, if the task does not: what it left, the task does.
    pub(super) fn write_waiting(&self, shared: &Shared) {
        let now_nanos = shared.env.clock.monotonic_nanos();
        let mut expired = Vec::new();
        let is_done = {
            let state = &mut *self.state.lock();
            state.shortcut.as_mut().is_some_and(|shortcut| {
                let version = shortcut.version;
                let fits =
                    |entry: &Entry| entry.len <= SMALL_MESSAGE_BYTES_MAX && entry.message.suits(version);
                while let Some(entry) = state.queue.pop_if(fits) {
                    if entry.expires_at_nanos <= now_nanos {
                        expired.push(entry);
                    } else {
                        self.counters.sent.add(entry.len);
                        shortcut.push(entry);
                    }
                }
                shortcut.write() && state.queue.is_empty()
            })
        };
        if !is_done {
            self.queued.notify_one();
        }
        self.tell_lost(shared, expired, Loss::Expired);
    }

    /// From now on the peer is reached there.
    pub(super) fn reach_at(&self, at: SocketAddr) {
        let mut state = self.state.lock();
        if state.at != at {
            state.at = at;
            self.queued.notify_one();
        }
    }

    /// Gives up the connection, and what waits for it.
    pub(super) fn interrupt(&self, shared: &Shared) {
        let lost = self.state.lock().queue.drain();
        self.interrupted.notify_one();
        self.tell_lost(shared, lost, Loss::Interrupted);
    }

    /// As [`Outbound::interrupt`], for good.
    pub(super) fn stop(&self, shared: &Shared) {
        self.state.lock().life = Life::Stopped;
        self.interrupt(shared);
        self.queued.notify_one();
    }

    /// What was counted.
    pub(super) fn counts(&self) -> OutboundCounts {
        let (count, bytes) = self.state.lock().queue.pending();
        let mut counts = OutboundCounts {
            pending: Sum { count: count as u64, bytes: bytes as u64 },
            active_connections: u64::from(self.is_connected.load(Ordering::Relaxed)),
            ..OutboundCounts::default()
        };
        counts.add(&self.counters);
        counts
    }

    /// Whether it was ever sent something.
    pub(super) fn is_started(&self) -> bool {
        self.state.lock().life != Life::NotStarted
    }

    /// Bytes that wait, or are being written.
    pub(super) fn used_bytes(&self) -> u64 {
        self.allowance.used()
    }

    async fn run(self: Arc<Self>, shared: Arc<Shared>) {
        let mut retry = Retry::new(&shared);
        let mut attempt = Attempt::Configured;
        while self.has_messages().await {
            let broken = tokio::select! {
                biased;
                () = self.interrupted.notified() => None,
                error = self.live(&shared, &mut retry, attempt) => Some(error),
            };
            attempt = match (attempt, &broken) {
                (Attempt::Configured, Some(OutboundError::NotWrapped(error)))
                    if shared.links.falls_back(self.to, error) =>
                {
                    Attempt::Unencrypted
                }
                _ => Attempt::Configured,
            };
            self.state.lock().shortcut = None;
            self.is_connected.store(false, Ordering::Relaxed);
            let Some(error) = broken.filter(|error| !matches!(error, OutboundError::Moved)) else { continue };
            let pause = retry.next();
            tracing::debug!(to = %self.to, kind = %self.kind, %error, ?pause, "no connection");
            tokio::select! {
                biased;
                () = self.interrupted.notified() => {}
                () = shared.env.tasks.sleep(pause) => {}
            }
            let mut expired = Vec::new();
            self.state.lock().queue.prune(shared.env.clock.monotonic_nanos(), &mut expired);
            self.tell_lost(&shared, expired, Loss::Expired);
        }
    }

    /// Waits until messages are there; whether the life goes on.
    async fn has_messages(&self) -> bool {
        loop {
            {
                let state = self.state.lock();
                if state.life == Life::Stopped {
                    return false;
                }
                if !state.queue.is_empty() {
                    return true;
                }
            }
            self.queued.notified().await;
        }
    }

    /// A connection from its beginning to its end.
    async fn live(&self, shared: &Arc<Shared>, retry: &mut Retry, attempt: Attempt) -> OutboundError {
        self.counters.connection_attempts.add(1);
        let framing = shared.links.framing(self.to);
        let at = self.state.lock().at;
        let opened = self.open(shared, at, framing, attempt);
        let (stream, version) = match shared.env.tasks.timeout(shared.options.connect_timeout, opened).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => return error,
            Err(_) => return OutboundError::TimedOut,
        };
        self.counters.successful_connection_attempts.add(1);
        self.is_connected.store(true, Ordering::Relaxed);
        tracing::debug!(to = %self.to, %at, kind = %self.kind, version, ?framing, "connected");
        let shortcut = Shortcut::of(&stream, framing, version);
        let packer = Packer::new(framing);
        let mut writer = Writer { stream, at, framing, packer, out: Vec::new(), shortcut };
        let mut batch = Vec::new();
        loop {
            if let Err(error) = self.write_next(shared, version, &mut writer, &mut batch).await {
                batch.iter().for_each(|entry: &Entry| self.counters.error.add(entry.len));
                return error;
            }
            batch.iter().for_each(|entry| self.counters.sent.add(entry.len));
            batch.clear();
            retry.reset();
        }
    }

    /// Waits for messages and writes some of them, which `batch` holds then.
    async fn write_next(
        &self,
        shared: &Arc<Shared>,
        version: u32,
        writer: &mut Writer,
        batch: &mut Vec<Entry>,
    ) -> Result<(), OutboundError> {
        let mut unsent = Vec::new();
        loop {
            let mut expired = Vec::new();
            let now_nanos = shared.env.clock.monotonic_nanos();
            {
                let mut state = self.state.lock();
                if let Some(mut shortcut) = state.shortcut.take() {
                    unsent = shortcut.take_unsent(&mut writer.out);
                    writer.shortcut = Some(shortcut);
                }
                match (state.at == writer.at, writer.out.is_empty()) {
                    (true, _) => state.queue.pop(BATCH_BYTES, now_nanos, batch, &mut expired),
                    (false, true) => return Err(OutboundError::Moved),
                    // What was begun is written first.
                    (false, false) => {}
                }
                if batch.is_empty() && writer.out.is_empty() {
                    state.shortcut = writer.shortcut.take();
                }
            }
            self.tell_lost(shared, expired, Loss::Expired);
            let others: Vec<Entry> = batch.extract_if(.., |entry| !entry.message.suits(version)).collect();
            self.tell_lost(shared, others, Loss::Version);
            if !batch.is_empty() || !writer.out.is_empty() {
                break;
            }
            tokio::select! {
                () = self.queued.notified() => {}
                error = writer.ended() => return Err(error),
            }
        }
        for entry in batch.iter() {
            writer.write(shared, entry).await?;
        }
        let flushed = writer.flush(shared).await;
        drop(unsent);
        flushed
    }

    /// Connects and shakes hands: the stream, and the version of its messages.
    async fn open(
        &self,
        shared: &Shared,
        at: SocketAddr,
        framing: Framing,
        attempt: Attempt,
    ) -> Result<(Link, u32), OutboundError> {
        let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(source) = shared.options.connect_from {
            socket.bind((source, 0).into())?;
        }
        let tcp = socket.connect(at).await?;
        tcp.set_nodelay(true)?;
        super::keep_alive(&tcp, &shared.options);
        let wrapped = shared.links.connected(tcp, self.to, attempt).await;
        let mut stream = wrapped.map_err(OutboundError::NotWrapped)?;
        let versions = shared.options.versions;
        let mut initiate = Vec::new();
        Initiate { kind: self.kind, framing, versions, from: shared.options.me }.encode(&mut initiate);
        stream.write_all(&initiate).await?;
        stream.flush().await?;
        let mut answer = [0; ACCEPT_BYTES];
        let mut len = 0;
        let accept = loop {
            if let Some(accept) = Accept::decode(answer.get(..len).unwrap_or_default())? {
                break accept;
            }
            match stream.read(answer.get_mut(len..).unwrap_or_default()).await? {
                0 => return Err(OutboundError::Closed),
                more => len += more,
            }
        };
        let version = accept.check(versions)?;
        self.version.store(version, Ordering::Relaxed);
        Ok((stream, version))
    }

    fn tell_lost(&self, shared: &Shared, lost: impl IntoIterator<Item = Entry>, loss: Loss) {
        for entry in lost {
            match loss {
                Loss::Expired => self.counters.expired.add(entry.len),
                Loss::Version | Loss::Interrupted => self.counters.error.add(entry.len),
            }
            if let Some(inbox) = shared.inbox() {
                inbox.lost(self.to, entry.message.verb, entry.message.id, loss);
            }
        }
    }
}

/// Frames messages and writes them.
struct Writer {
    stream: Link,
    /// Where it goes.
    at: SocketAddr,
    framing: Framing,
    packer: Packer,
    out: Vec<u8>,
    /// While no sender may take it.
    shortcut: Option<Shortcut>,
}

impl Writer {
    async fn write(&mut self, shared: &Shared, entry: &Entry) -> Result<(), OutboundError> {
        let message = &entry.message;
        if entry.len <= SMALL_MESSAGE_BYTES_MAX {
            self.packer.push(entry.len, |payload| message.encode(payload), &mut self.out);
            return Ok(());
        }
        self.flush(shared).await?;
        let mut head = Vec::new();
        message.encode_head(&mut head);
        let mut frames = LargeFrames::new(self.framing, &head, &message.payload);
        while frames.next(&mut self.out) {
            self.flush(shared).await?;
        }
        Ok(())
    }

    /// Writes what is framed, and what waits to be.
    async fn flush(&mut self, shared: &Shared) -> Result<(), OutboundError> {
        self.packer.finish(&mut self.out);
        let stream = &mut self.stream;
        let out = &self.out;
        let written = async move {
            stream.write_all(out).await?;
            stream.flush().await
        };
        match shared.env.tasks.timeout(shared.options.write_timeout, written).await {
            Ok(written) => written?,
            Err(_) => return Err(OutboundError::WriteTimedOut),
        }
        self.out.clear();
        self.out.shrink_to(KEPT_BYTES_MAX);
        Ok(())
    }

    /// Waits for the peer to end the connection.
    async fn ended(&mut self) -> OutboundError {
        match self.stream.read(&mut [0]).await {
            Ok(0) => OutboundError::Closed,
            Ok(_) => OutboundError::Talks,
            Err(error) => error.into(),
        }
    }
}

/// How long to wait before the next try.
struct Retry {
    min: Duration,
    max: Duration,
    next: Duration,
}

impl Retry {
    fn new(shared: &Shared) -> Retry {
        let (min, max) = (shared.options.retry_min, shared.options.retry_max);
        Retry { min, max, next: min }
    }

    fn reset(&mut self) {
        self.next = self.min;
    }

    fn next(&mut self) -> Duration {
        let next = self.next;
        self.next = (2 * next).min(self.max);
        next
    }
}
