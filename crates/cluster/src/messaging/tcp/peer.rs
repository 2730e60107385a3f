//! What is known of the nodes that this one exchanges messages with. Their number is bounded: anybody who
//! connects names an address.

use super::super::counters::{Inbound, InboundCounters, Outbound as OutboundCounts};
use super::super::handshake::ConnectionKind;
use super::super::limits::{Allowance, Freed, Reserve};
use super::TcpOptions;
use super::outbound::Outbound;
use crate::endpoint::Endpoint;
use env::sync::RwLock;
use foldhash::{HashMap, HashMapExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A node.
#[derive(Debug)]
pub(super) struct Peer {
    /// Connections to it, by [`ConnectionKind`].
    outbound: [Arc<Outbound>; 3],
    /// The version of connections, or 0.
    version: Arc<AtomicU32>,
    send_reserve: Arc<Reserve>,
    receive_reserve: Arc<Reserve>,
    /// Counts what comes from it.
    pub inbound: InboundCounters,
    inbound_connections: AtomicU64,
}

/// The nodes.
#[derive(Debug)]
pub(super) struct Peers {
    peers: RwLock<HashMap<Endpoint, Arc<Peer>>>,
    options: Arc<TcpOptions>,
    send_reserve: Arc<Reserve>,
    receive_reserve: Arc<Reserve>,
    /// Nobody waits for room to send.
    sent: Arc<Freed>,
    received: Arc<Freed>,
}

impl Peers {
    pub(super) fn new(options: Arc<TcpOptions>) -> Peers {
        Peers {
            peers: RwLock::new(HashMap::new()),
            send_reserve: Reserve::new(options.send_bytes.node_reserve_max),
            receive_reserve: Reserve::new(options.receive_bytes.node_reserve_max),
            sent: Arc::default(),
            received: Arc::default(),
            options,
        }
    }

    /// What is known of a node.
    pub(super) fn get(&self, of: Endpoint) -> Option<Arc<Peer>> {
        self.peers.read().get(&of).cloned()
    }

    /// As [`Peers::get`]; a node that is not known becomes known, unless too many are.
    pub(super) fn enter(&self, of: Endpoint) -> Option<Arc<Peer>> {
        self.enter_as(of, Arc::clone)
    }

    /// As [`Peers::enter`], for a connection from the node. One that was never sent anything is forgotten
    /// with its last connection: anybody can name any address.
    pub(super) fn connect(self: &Arc<Self>, from: Endpoint) -> Option<Connected> {
        let peer = self.enter_as(from, |peer| {
            peer.inbound_connections.fetch_add(1, Ordering::SeqCst);
            Arc::clone(peer)
        })?;
        Some(Connected { peers: Arc::clone(self), from, peer })
    }

    /// What `take` makes of a node while nobody forgets it.
    fn enter_as<T>(&self, of: Endpoint, take: impl Fn(&Arc<Peer>) -> T) -> Option<T> {
        if let Some(peer) = self.peers.read().get(&of) {
            return Some(take(peer));
        }
        let mut peers = self.peers.write();
        if !peers.contains_key(&of) && peers.len() >= self.options.peers_max {
            return None;
        }
        Some(take(peers.entry(of).or_insert_with(|| Arc::new(self.new_peer(of)))))
    }

    /// Forgets a node.
    pub(super) fn remove(&self, of: Endpoint) -> Option<Arc<Peer>> {
        self.peers.write().remove(&of)
    }

    /// Every node, by address.
    pub(super) fn all(&self) -> Vec<(Endpoint, Arc<Peer>)> {
        let mut all: Vec<_> = self.peers.read().iter().map(|(of, peer)| (*of, Arc::clone(peer))).collect();
        all.sort_unstable_by_key(|(of, _)| *of);
        all
    }

    /// What a connection from `peer` may hold.
    pub(super) fn receive_allowance(&self, peer: &Peer) -> Arc<Allowance> {
        Allowance::new(
            self.options.receive_bytes.own_max,
            Arc::clone(&peer.receive_reserve),
            Arc::clone(&self.receive_reserve),
            Arc::clone(&self.received),
        )
    }

    fn new_peer(&self, of: Endpoint) -> Peer {
        let version = Arc::new(AtomicU32::new(0));
        let send_reserve = Reserve::new(self.options.send_bytes.peer_reserve_max);
        let outbound = ConnectionKind::ALL.map(|kind| {
            let allowance = Allowance::new(
                self.options.send_bytes.own_max,
                Arc::clone(&send_reserve),
                Arc::clone(&self.send_reserve),
                Arc::clone(&self.sent),
            );
            Arc::new(Outbound::new(of, kind, Arc::clone(&version), allowance))
        });
        Peer {
            outbound,
            version,
            send_reserve,
            receive_reserve: Reserve::new(self.options.receive_bytes.peer_reserve_max),
            inbound: InboundCounters::default(),
            inbound_connections: AtomicU64::new(0),
        }
    }
}

impl Peer {
    /// The connection of that kind to it.
    pub(super) fn to(&self, kind: ConnectionKind) -> &Arc<Outbound> {
        let [urgent, small, large] = &self.outbound;
        match kind {
            ConnectionKind::Urgent => urgent,
            ConnectionKind::Small => small,
            ConnectionKind::Large => large,
        }
    }

    fn was_sent_something(&self) -> bool {
        self.outbound.iter().any(|outbound| outbound.is_started())
    }

    /// All connections to it.
    pub(super) fn outbound(&self) -> &[Arc<Outbound>; 3] {
        &self.outbound
    }

    /// The version of connections to it and from it; `None` before the first one.
    pub(super) fn version(&self) -> Option<u32> {
        Some(self.version.load(Ordering::Relaxed)).filter(|version| *version != 0)
    }

    /// A handshake told the version.
    pub(super) fn learn(&self, version: u32) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// What was counted of messages to it, by [`ConnectionKind`].
    pub(super) fn outbound_counts(&self) -> [OutboundCounts; 3] {
        self.outbound.each_ref().map(|outbound| {
            let mut counts = outbound.counts();
            counts.using_reserve_bytes = self.send_reserve.used();
            counts
        })
    }

    /// What was counted of messages from it.
    pub(super) fn inbound_counts(&self) -> Inbound {
        let mut counts = Inbound {
            active_connections: self.inbound_connections.load(Ordering::SeqCst),
            using_reserve_bytes: self.receive_reserve.used(),
            ..Inbound::default()
        };
        counts.add(&self.inbound);
        counts
    }
}

/// A connection from a node, which counts until this is dropped.
#[derive(Debug)]
pub(super) struct Connected {
    peers: Arc<Peers>,
    from: Endpoint,
    /// The node.
    pub peer: Arc<Peer>,
}

impl Drop for Connected {
    fn drop(&mut self) {
        if self.peer.inbound_connections.fetch_sub(1, Ordering::SeqCst) > 1 || self.peer.was_sent_something()
        {
            return;
        }
        let mut peers = self.peers.peers.write();
        let is_this = peers.get(&self.from).is_some_and(|peer| Arc::ptr_eq(peer, &self.peer));
        let is_unused = self.peer.inbound_connections.load(Ordering::SeqCst) == 0;
        if is_this && is_unused && !self.peer.was_sent_something() {
            peers.remove(&self.from);
        }
    }
}
