//! The transport over TCP.
//!
//! ```text
//! send -> peer -> outbound (urgent, small, large) -> connection     a task for each, started by a message
//! listener -> inbound -> Inbox                                       a task for each connection
//! ```
//! - `peer`: what is known of a node; `outbound`, `queue`: connections to it; `inbound`: connections from it;
//! - [`shortcut`]: past the task of a connection that has nothing to do;
//! - [`stream`]: where encryption goes in between.
//!
//! Everything that anybody can cause is bounded: connections, nodes, the time of a handshake, the length of a
//! frame and of a message, and the bytes that wait.

mod inbound;
mod outbound;
mod peer;
mod queue;
pub mod shortcut;
pub mod stream;

use super::counters::{Inbound, Outbound};
use super::handshake::{ConnectionKind, Versions};
use super::limits::QueueBytes;
use super::message::Message;
use super::transport::{Inbox, SendError, Transport};
use crate::endpoint::Endpoint;
use env::Env;
use peer::Peers;
use rustix::net::sockopt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use stream::Links;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long nothing is accepted after the system refused to.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often a flush looks.
const FLUSH_PAUSE: Duration = Duration::from_millis(5);
/// The longest head of a message: the first frame of a large one has to tell its length.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What the transport is told.
#[derive(Clone, Debug)]
pub struct TcpOptions {
    /// This node, as it is named in handshakes: `broadcast_address` and `storage_port`. Answers go there.
    pub me: Endpoint,
    /// Where it listens: `listen_address` and `storage_port`, and `broadcast_address` if that is wanted, too.
    pub listen: Vec<SocketAddr>,
    /// The address that its connections come from; `None` leaves that to the system.
    pub connect_from: Option<IpAddr>,
    /// What it speaks.
    pub versions: Versions,
    /// Bytes that wait to be sent (`internode_application_send_queue_*`).
    pub send_bytes: QueueBytes,
    /// Bytes that were received and are not done with (`internode_application_receive_queue_*`).
    pub receive_bytes: QueueBytes,
    /// The longest message (`internode_max_message_size`).
    pub message_bytes_max: usize,
    /// How long connecting may take, with the handshake (`internode_tcp_connect_timeout`).
    pub connect_timeout: Duration,
    /// How long another node may take for its handshake.
    pub handshake_timeout: Duration,
    /// How long a piece of at most some 200 KiB may take to be written.
    pub write_timeout: Duration,
    /// How long sent bytes may go without being acknowledged (`internode_tcp_user_timeout`).
    pub user_timeout: Duration,
    /// The pause after the first connection that fails.
    pub retry_min: Duration,
    /// The longest pause, after many, as in Cassandra (`OutboundConnection`): a node that starts waits for
    /// answers.
    pub retry_max: Duration,
    /// Number of connections from other nodes.
    pub inbound_connections_max: usize,
    /// Number of other nodes.
    pub peers_max: usize,
}

impl TcpOptions {
    /// Cassandra's defaults, for a node at `me` that listens there.
    pub fn new(me: Endpoint) -> TcpOptions {
        TcpOptions {
            me,
            listen: vec![me.socket()],
            connect_from: None,
            versions: Versions::CASSANDRA_4,
            send_bytes: QueueBytes::default(),
            receive_bytes: QueueBytes::default(),
            message_bytes_max: 128 << 20,
            connect_timeout: Duration::from_secs(2),
            handshake_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(30),
            user_timeout: Duration::from_secs(30),
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(1),
            inbound_connections_max: 8192,
            peers_max: 2048,
        }
    }
}

/// Connections to other nodes, and from them.
pub struct TcpTransport {
    shared: Arc<Shared>,
}

/// What the tasks of all connections share.
struct Shared {
    env: Env,
    options: Arc<TcpOptions>,
    links: Arc<dyn Links>,
    runtime: Handle,
    /// Where small messages are read, in turns; nothing means `runtime`.
    readers: OnceLock<Vec<Handle>>,
    next_reader: AtomicUsize,
    peers: Arc<Peers>,
    inbox: OnceLock<Weak<dyn Inbox>>,
    stop: watch::Sender<bool>,
}

impl Shared {
    fn inbox(&self) -> Option<Arc<dyn Inbox>> {
        self.inbox.get().and_then(Weak::upgrade)
    }

    fn next_reader(&self) -> Option<&Handle> {
        let readers = self.readers.get()?;
        readers.get(self.next_reader.fetch_add(1, Ordering::Relaxed).checked_rem(readers.len())?)
    }
}

impl TcpTransport {
    /// A transport whose tasks run on `runtime`. It takes connections once it listens
    /// ([`TcpTransport::listen`]). No message is longer than what has room in its queues.
    pub fn new(env: Env, mut options: TcpOptions, links: Arc<dyn Links>, runtime: Handle) -> TcpTransport {
        let fitting = options.send_bytes.message_bytes_max().min(options.receive_bytes.message_bytes_max());
        options.message_bytes_max =
            options.message_bytes_max.min(usize::try_from(fitting).unwrap_or(usize::MAX));
        let options = Arc::new(options);
        let shared = Shared {
            env,
            peers: Arc::new(Peers::new(Arc::clone(&options))),
            options,
            links,
            runtime,
            readers: OnceLock::new(),
            next_reader: AtomicUsize::new(0),
            inbox: OnceLock::new(),
            stop: watch::Sender::new(false),
        };
        TcpTransport { shared: Arc::new(shared) }
    }

    /// Has small messages read, and handed to their handlers, on event loops that gather what they send
    /// ([`shortcut::gather_here`]), each connection on one of them. Those of encrypted connections are not.
    /// It is said once, before [`TcpTransport::listen`].
    pub fn read_on(&self, readers: Vec<Handle>) {
        let is_first = self.shared.readers.set(readers).is_ok();
        debug_assert!(is_first, "that is said once");
    }

    /// Listens, and takes connections until [`TcpTransport::stop`]. Where it listens.
    ///
    /// # Errors
    /// When an address is not to be had: that address, and why. It listens nowhere then.
    pub fn listen(&self) -> Result<Vec<SocketAddr>, (SocketAddr, io::Error)> {
        let _runtime = self.shared.runtime.enter();
        let addresses = self.shared.options.listen.iter();
        let listeners: Vec<(TcpListener, SocketAddr)> =
            addresses.map(|at| listener(*at).map_err(|error| (*at, error))).collect::<Result<_, _>>()?;
        let seats = Arc::new(Semaphore::new(self.shared.options.inbound_connections_max));
        let listens = listeners.into_iter().map(|(listener, at)| {
            self.shared.runtime.spawn(accept(listener, Arc::clone(&seats), Arc::clone(&self.shared)));
            at
        });
        Ok(listens.collect())
    }

    /// Waits until what was sent so far is written, for at most so long. Whether it is.
    pub async fn flush(&self, timeout: Duration) -> bool {
        let tasks = &self.shared.env.tasks;
        let is_written = || {
            let peers = self.shared.peers.all();
            peers.iter().flat_map(|(_, peer)| peer.outbound()).all(|outbound| outbound.used_bytes() == 0)
        };
        let written = async {
            while !is_written() {
                tasks.sleep(FLUSH_PAUSE).await;
            }
        };
        tasks.timeout(timeout, written).await.is_ok()
    }

    /// Closes all connections, and takes and sends nothing any more.
    pub fn stop(&self) {
        self.shared.stop.send_replace(true);
        for (_, peer) in self.shared.peers.all() {
            peer.outbound().iter().for_each(|outbound| outbound.stop(&self.shared));
        }
    }

    /// What was counted of messages to each node, by [`ConnectionKind`].
    pub fn outbound(&self) -> Vec<(Endpoint, [Outbound; 3])> {
        let peers = self.shared.peers.all();
        peers.into_iter().map(|(of, peer)| (of, peer.outbound_counts())).collect()
    }

    /// What was counted of messages from each node.
    pub fn inbound(&self) -> Vec<(Endpoint, Inbound)> {
        let peers = self.shared.peers.all();
        peers.into_iter().map(|(of, peer)| (of, peer.inbound_counts())).collect()
    }

    /// Bytes that wait for connections of that kind to a node, or are being written.
    pub fn queued_bytes(&self, to: Endpoint, kind: ConnectionKind) -> u64 {
        self.shared.peers.get(to).map_or(0, |peer| peer.to(kind).used_bytes())
    }
}

impl Drop for TcpTransport {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Transport for TcpTransport {
    fn attach(&self, inbox: Weak<dyn Inbox>) {
        let is_first = self.shared.inbox.set(inbox).is_ok();
        debug_assert!(is_first, "a transport has one inbox");
    }

    fn version(&self, to: Endpoint) -> Option<u32> {
        self.shared.peers.get(to)?.version()
    }

    fn reach_at(&self, to: Endpoint, at: SocketAddr) {
        if let Some(peer) = self.shared.peers.enter(to) {
            peer.outbound().iter().for_each(|outbound| outbound.reach_at(at));
        }
    }

    fn send(&self, to: Endpoint, message: Message) -> Result<(), SendError> {
        let len = message.encoded_len();
        let max = self.shared.options.message_bytes_max;
        if len > max || len - message.payload.len() > HEAD_BYTES_MAX {
            return Err(SendError::TooLarge { bytes: len, max });
        }
        if *self.shared.stop.borrow() {
            return Err(SendError::Stopped);
        }
        let peer = self.shared.peers.enter(to).ok_or(SendError::TooManyPeers)?;
        peer.to(message.connection_for(len)).send(&self.shared, message, len)
    }

    fn interrupt(&self, to: Endpoint) {
        if let Some(peer) = self.shared.peers.get(to) {
            peer.outbound().iter().for_each(|outbound| outbound.interrupt(&self.shared));
        }
    }

    fn forget(&self, to: Endpoint) {
        if let Some(peer) = self.shared.peers.remove(to) {
            peer.outbound().iter().for_each(|outbound| outbound.stop(&self.shared));
        }
    }
}

/// A listener, and where it listens.
fn listener(at: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = if at.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // What is left of connections of an earlier life does not keep the address.
    socket.set_reuseaddr(true)?;
    socket.bind(at)?;
    let listener = socket.listen(BACKLOG)?;
    let at = listener.local_addr()?;
    Ok((listener, at))
}

/// Takes connections, while there are seats for them.
async fn accept(listener: TcpListener, seats: Arc<Semaphore>, shared: Arc<Shared>) {
    let mut stop = shared.stop.subscribe();
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|is_stopped| *is_stopped) => return,
            accepted = listener.accept() => accepted,
        };
        let (tcp, socket) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "no connection between nodes can be accepted");
                shared.env.tasks.sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(seat) = Arc::clone(&seats).try_acquire_owned() else {
            tracing::warn!(peer = %socket, "too many connections between nodes");
            continue;
        };
        let shared_by_it = Arc::clone(&shared);
        shared.runtime.spawn(async move {
            inbound::serve(tcp, socket, shared_by_it).await;
            drop(seat);
        });
    }
}

/// Has the system notice a peer that is gone without a word. Where it cannot, timeouts do.
fn keep_alive(tcp: &TcpStream, options: &TcpOptions) {
    let millis = u32::try_from(options.user_timeout.as_millis()).unwrap_or(u32::MAX);
    let idle = options.user_timeout.max(Duration::from_secs(1));
    let set = sockopt::set_socket_keepalive(tcp, true)
        .and_then(|()| sockopt::set_tcp_keepidle(tcp, idle))
        .and_then(|()| sockopt::set_tcp_user_timeout(tcp, millis));
    if let Err(error) = set {
        tracing::debug!(%error, "a peer that is gone is not noticed by its connection");
    }
}

#[cfg(test)]
mod tests;
