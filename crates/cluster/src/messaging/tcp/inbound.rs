//! One connection from a peer.
//!
//! 1. The handshake has to come in time. It names the peer, and the version and the framing of what follows.
//! 2. Frames are read and messages made of them. A message counts against the limits of
//!    [`super::super::limits`] until its payload is dropped. Where there is no room, nothing is read.
//! 3. Small messages are read, and what they ask for is done, on the threads that serve clients
//!    ([`super::TcpTransport::read_on`]). So an answer wakes no second thread, and what a message is answered
//!    is written with what clients ask of other nodes ([`super::shortcut`]).
//! 4. A frame that fails its checksum is left out where that harms no other. A message that makes no sense in
//!    a frame that does is left out too. Anything else ends the connection.

use super::super::frame::{Decoded, FrameError, Framing};
use super::super::handshake::{ConnectionKind, HandshakeError, INITIATE_BYTES_MAX, Initiate};
use super::super::limits::{Allowance, Room};
use super::super::message::{Message, Parsed};
use super::super::unpack::{UnpackError, Unpacker};
use super::Shared;
use super::peer::Peer;
use super::shortcut::write_gathered;
use super::stream::Link;
use crate::endpoint::Endpoint;
use bytes::{Bytes, BytesMut};
use partition::codec::SliceInput;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

/// Room for one read of the socket, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Why a connection came to its end.
#[derive(Debug, thiserror::Error)]
enum InboundError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    #[error("no handshake in time")]
    TimedOut,
    #[error("too many nodes are known to take messages of another one")]
    TooManyPeers,
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("the checksum of a large message's frame is {read:#010x}, of its bytes {computed:#010x}")]
    Corrupt { read: u32, computed: u32 },
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    #[error("the peer closed inside of a frame")]
    CutOff,
    #[error("this node takes no more messages")]
    Stopped,
}

/// Serves a connection to its end.
pub(super) async fn serve(tcp: TcpStream, socket: SocketAddr, shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    tokio::select! {
        biased;
        _ = stop.wait_for(|is_stopped| *is_stopped) => {}
        ended = run(tcp, &shared) => match ended {
            Ok(()) => tracing::debug!(peer = %socket, "a connection between nodes was closed"),
            Err(error @ InboundError::Io(_)) => {
                tracing::debug!(peer = %socket, %error, "a connection between nodes was lost");
            }
            Err(error) => tracing::info!(peer = %socket, %error, "a connection between nodes is refused"),
        },
    }
}

async fn run(tcp: TcpStream, shared: &Arc<Shared>) -> Result<(), InboundError> {
    tcp.set_nodelay(true)?;
    super::keep_alive(&tcp, &shared.options);
    let opened = shared.env.tasks.timeout(shared.options.handshake_timeout, shake_hands(tcp, shared)).await;
    let Opened { stream, input, initiate, version } = opened.map_err(|_| InboundError::TimedOut)??;
    let connected = shared.peers.connect(initiate.from).ok_or(InboundError::TooManyPeers)?;
    let peer = Arc::clone(&connected.peer);
    peer.learn(version);
    tracing::debug!(from = %initiate.from, kind = %initiate.kind, version, "a node connected");
    let allowance = shared.peers.receive_allowance(&peer);
    let reader = Reader {
        shared: Arc::clone(shared),
        peer,
        from: initiate.from,
        version,
        allowance,
        unpacker: Unpacker::new(shared.options.message_bytes_max),
        large_room: None,
    };
    match (stream, shared.next_reader()) {
        (Link::Plain(tcp), Some(runtime)) if initiate.kind == ConnectionKind::Small => {
            read_on(runtime, tcp, reader, input, initiate.framing).await
        }
        (stream, _) => reader.run(stream, input, initiate.framing).await,
    }
}

/// Reads on another event loop, for as long as this is waited for.
async fn read_on(
    runtime: &Handle,
    tcp: TcpStream,
    reader: Reader,
    input: BytesMut,
    framing: Framing,
) -> Result<(), InboundError> {
    let tcp = tcp.into_std()?;
    // What is in it ends with it.
    let mut task = JoinSet::new();
    task.spawn_on(
        async move {
            let stream = Link::Plain(TcpStream::from_std(tcp)?);
            let mut reading = pin!(reader.run(stream, input, framing));
            poll_fn(|cx| {
                let polled = reading.as_mut().poll(cx);
                // Answers do not wait for what else the thread has to do.
                write_gathered();
                polled
            })
            .await
        },
        runtime,
    );
    match task.join_next().await {
        Some(Ok(ended)) => ended,
        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The threads are gone.
        Some(Err(_)) | None => Err(InboundError::Stopped),
    }
}

/// A connection behind its handshake, and what was read besides.
struct Opened {
    stream: Link,
    input: BytesMut,
    initiate: Initiate,
    version: u32,
}

async fn shake_hands(tcp: TcpStream, shared: &Shared) -> Result<Opened, InboundError> {
    let mut stream = shared.links.accepted(tcp).await?;
    let mut input = BytesMut::with_capacity(INITIATE_BYTES_MAX);
    let (initiate, len) = loop {
        if let Some(initiate) = Initiate::decode(&input)? {
            break initiate;
        }
        if stream.read_buf(&mut input).await? == 0 {
            return Err(InboundError::CutOff);
        }
    };
    let _ = input.split_to(len);
    let accept = initiate.answer(shared.options.versions);
    stream.write_all(&accept.encode()).await?;
    stream.flush().await?;
    let version = accept.check(initiate.versions)?;
    Ok(Opened { stream, input, initiate, version })
}

/// A connection that is read.
struct Reader {
    shared: Arc<Shared>,
    peer: Arc<Peer>,
    from: Endpoint,
    version: u32,
    allowance: Arc<Allowance>,
    unpacker: Unpacker,
    /// That of the large message which is being collected.
    large_room: Option<Room>,
}

impl Reader {
    async fn run(
        mut self,
        mut stream: Link,
        mut input: BytesMut,
        framing: Framing,
    ) -> Result<(), InboundError> {
        let peer = Arc::clone(&self.peer);
        let counters = &peer.inbound;
        loop {
            match framing.decode(&mut input) {
                Ok(Decoded::Needs(bytes)) => {
                    input.reserve(bytes.max(READ_BYTES));
                    if stream.read_buf(&mut input).await? == 0 {
                        let is_between = input.is_empty() && self.unpacker.announced() == 0;
                        return if is_between { Ok(()) } else { Err(InboundError::CutOff) };
                    }
                }
                Ok(Decoded::Frame(frame)) => {
                    self.unpacker.push(frame)?;
                    self.take_messages().await?;
                }
                Ok(Decoded::Corrupt { is_self_contained: true, read, computed }) => {
                    counters.corrupt_frames_recovered.add(1);
                    tracing::warn!(from = %self.from, read, computed, "a frame fails its checksum");
                }
                Ok(Decoded::Corrupt { is_self_contained: false, read, computed }) => {
                    counters.corrupt_frames_unrecovered.add(1);
                    return Err(InboundError::Corrupt { read, computed });
                }
                Err(error) => {
                    counters.corrupt_frames_unrecovered.add(1);
                    return Err(error.into());
                }
            }
        }
    }

    /// Hands on the messages that are whole.
    async fn take_messages(&mut self) -> Result<(), InboundError> {
        let announced = self.unpacker.announced();
        if announced > 0 && self.large_room.is_none() {
            self.large_room = Some(self.room(announced).await);
        }
        while let Some(bytes) = self.unpacker.next_message()? {
            let room = match self.large_room.take() {
                Some(room) => room,
                None => self.room(bytes.len()).await,
            };
            self.hand_on(bytes, room)?;
        }
        Ok(())
    }

    /// Waits for room for a message of that length.
    async fn room(&self, len: usize) -> Room {
        if let Some(room) = self.allowance.take_message(len) {
            return room;
        }
        let clock = &self.shared.env.clock;
        let since = clock.monotonic_nanos();
        let room = self.allowance.wait_for_message(len).await;
        let counters = &self.peer.inbound;
        counters.throttled_count.add(1);
        counters.throttled_nanos.add(clock.monotonic_nanos().saturating_sub(since));
        room
    }

    fn hand_on(&self, bytes: Bytes, room: Room) -> Result<(), InboundError> {
        let counters = &self.peer.inbound;
        let len = bytes.len();
        counters.received.add(len);
        let inbox = self.shared.inbox().ok_or(InboundError::Stopped)?;
        let mut input = SliceInput::new(bytes);
        let now_millis = self.shared.env.clock.now_millis();
        match Message::decode(&mut input, now_millis) {
            Ok(Parsed::Message(mut message)) => {
                message.payload = Held::around(message.payload, room);
                let is_late = message.left(now_millis).is_zero();
                inbox.receive(self.from, self.version, message);
                if is_late { &counters.expired } else { &counters.processed }.add(len);
            }
            Ok(Parsed::UnknownVerb { number }) => {
                counters.error.add(len);
                tracing::debug!(from = %self.from, number, "a message of an unknown verb");
            }
            Err(error) => {
                counters.error.add(len);
                tracing::warn!(from = %self.from, %error, "a message makes no sense");
            }
        }
        Ok(())
    }
}

/// A payload with the room that it takes.
struct Held {
    payload: Bytes,
    _room: Room,
}

impl Held {
    fn around(payload: Bytes, room: Room) -> Bytes {
        if payload.is_empty() {
            return payload;
        }
        // A small message is copied: it would keep its whole frame in memory.
        let is_small = payload.len() <= super::super::frame::SMALL_MESSAGE_BYTES_MAX;
        let payload = if is_small { Bytes::copy_from_slice(&payload) } else { payload };
        Bytes::from_owner(Held { payload, _room: room })
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.payload
    }
}
