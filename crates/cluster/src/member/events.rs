//! What gossip tells, as nodes of the ring.
//!
//! A status says where a node is in its life. A node that stopped in good order, or has not said a status
//! since its restart, is where it was before. One that is remembered, and not heard of, holds its part.

use super::{Member, PeerRecord, RingEvent};
use crate::endpoint::Endpoint;
use crate::gossip::{AppState, EndpointState, Event, Gossiper, Now, Status, StatusKind};
use crate::messaging::Messenger;
use crate::remote::{RemoteReplica, RemoteTimeouts};
use crate::ring::{Member as RingMember, Members, Phase};
use coordinator::{DiskUsage, Node};
use model::key::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use uuid::Uuid;

/// What is known of the nodes besides what they gossip.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Nodes as they were last seen, by address.
    nodes: BTreeMap<Endpoint, KnownNode>,
    /// As the coordinator asks them.
    asked: BTreeMap<Uuid, (Endpoint, Arc<Node>)>,
}

#[derive(Clone, Debug)]
struct KnownNode {
    record: PeerRecord,
    phase: Phase,
    /// What it said last of where it is; `None` of one that is only remembered.
    status: Option<StatusKind>,
    /// Whether clients were told that it is up.
    is_told: bool,
    /// Whether clients have not heard of it yet.
    is_new: bool,
}

impl Known {
    pub(super) fn new(saved: Vec<PeerRecord>) -> Known {
        let known = saved.into_iter().map(|record| {
            let (endpoint, phase) = (record.endpoint, Phase::Normal);
            (endpoint, KnownNode { record, phase, status: None, is_told: false, is_new: false })
        });
        Known { nodes: known.collect(), asked: BTreeMap::new() }
    }

    pub(super) fn saved_endpoints(&self) -> BTreeSet<Endpoint> {
        self.nodes.keys().copied().collect()
    }

    /// The node as it is asked; the same as before while it stays where it is.
    fn asked(
        &mut self,
        record: &PeerRecord,
        messenger: &Arc<Messenger>,
        timeouts: RemoteTimeouts,
    ) -> Arc<Node> {
        if let Some((endpoint, node)) = self.asked.get(&record.host_id)
            && *endpoint == record.endpoint
            && *node.datacenter == record.datacenter
            && *node.rack == record.rack
        {
            return Arc::clone(node);
        }
        let replica = RemoteReplica::new(Arc::clone(messenger), record.endpoint, record.host_id, timeouts);
        let node = Node::new(record.host_id, &record.datacenter, &record.rack, Arc::new(replica));
        node.set_alive(false);
        let node = Arc::new(node);
        self.asked.insert(record.host_id, (record.endpoint, Arc::clone(&node)));
        node
    }

    /// Takes note of what a node says of itself. `None` for one that is no member, or not known enough.
    /// Nodes of the data center `near` are reached at the address that they have there.
    fn hear(
        &mut self,
        endpoint: Endpoint,
        state: &EndpointState,
        gossiper: &Gossiper,
        near: Option<&str>,
    ) -> Option<KnownNode> {
        let before = self.nodes.get(&endpoint);
        let text = |key: AppState| state.text(key).map(str::to_owned);
        let or = |new: Option<String>, old: fn(&PeerRecord) -> &String| {
            new.or_else(|| before.map(|known| old(&known.record).clone()))
        };
        let phase = phase_of(state, gossiper).or_else(|| before.map(|known| known.phase.clone()))?;
        let datacenter = or(text(AppState::DC), |record| &record.datacenter)?;
        let internal = near.filter(|near| *near == datacenter).and_then(|_| internal_of(endpoint, state));
        let record = PeerRecord {
            endpoint,
            host_id: state.host_id().or_else(|| before.map(|known| known.record.host_id))?,
            datacenter,
            rack: or(text(AppState::RACK), |record| &record.rack)?,
            release_version: text(AppState::RELEASE_VERSION)
                .or_else(|| before.and_then(|known| known.record.release_version.clone())),
            native: native_of(endpoint, state).or_else(|| before.and_then(|known| known.record.native)),
            preferred: internal.or_else(|| before.and_then(|known| known.record.preferred)),
            schema: state.schema().or_else(|| before.and_then(|known| known.record.schema)),
            tokens: state.tokens().or_else(|| before.map(|known| known.record.tokens.clone()))?,
        };
        let (is_told, is_new) = before.map_or((false, true), |known| (known.is_told, known.is_new));
        let status = Some(state.status_kind());
        if before.and_then(|known| known.status) != status {
            tell_what_is_not_done(endpoint, state.status_kind());
        }
        let known = KnownNode { record, phase, status, is_told, is_new };
        self.nodes.insert(endpoint, known.clone());
        Some(known)
    }
}

/// Says in the log what other nodes of the ring do for one that joins or leaves, and this one does not.
fn tell_what_is_not_done(endpoint: Endpoint, status: StatusKind) {
    match status {
        StatusKind::Boot | StatusKind::BootReplace => tracing::warn!(
            "Node /{endpoint} joins the ring. It gets what is written from now on, and no data from this node"
        ),
        StatusKind::Moving => tracing::warn!(
            "Node /{endpoint} moves in the ring. It gets what is written from now on, and no data from this \
             node, which takes over no data of it"
        ),
        StatusKind::Leaving => tracing::warn!(
            "Node /{endpoint} leaves the ring. This node gets what is written from now on, and takes over no \
             data of it"
        ),
        StatusKind::Removing => tracing::warn!(
            "Node /{endpoint} is removed from the ring. This node gets what is written from now on, and takes \
             over no data of it: `nodetool removenode force`, where the removal was begun, ends it"
        ),
        _ => {}
    }
}

/// Where a node is reached by those of its network.
fn internal_of(endpoint: Endpoint, state: &EndpointState) -> Option<Endpoint> {
    let with_port = state.text(AppState::INTERNAL_ADDRESS_AND_PORT).and_then(|text| text.parse().ok());
    let without = || Some(Endpoint::new(state.text(AppState::INTERNAL_IP)?.parse().ok()?, endpoint.port));
    let found = with_port.map(|socket: std::net::SocketAddr| Endpoint::from(socket)).or_else(without)?;
    Some(found).filter(|found| !found.ip.is_unspecified())
}

/// Where clients find a node.
fn native_of(endpoint: Endpoint, state: &EndpointState) -> Option<Endpoint> {
    let with_port = state.text(AppState::NATIVE_ADDRESS_AND_PORT).and_then(|text| text.parse().ok());
    let without = || {
        let ip = state.text(AppState::RPC_ADDRESS)?.parse().ok()?;
        Some(Endpoint::new(ip, 9_042))
    };
    let found = with_port.map(|socket: std::net::SocketAddr| Endpoint::from(socket)).or_else(without)?;
    // Who listens everywhere is found under the address that other nodes know.
    Some(if found.ip.is_unspecified() { Endpoint::new(endpoint.ip, found.port) } else { found })
}

/// Where a node says that it is; `None` where it has not said it, and `Some` of no phase never for one that
/// left.
fn phase_of(state: &EndpointState, gossiper: &Gossiper) -> Option<Phase> {
    match (state.status_kind(), state.status()) {
        (StatusKind::Normal | StatusKind::Shutdown, _) => Some(Phase::Normal),
        (StatusKind::Leaving | StatusKind::Removing, _) => Some(Phase::Leaving),
        (StatusKind::Boot, _) => Some(Phase::Joining),
        (_, Some(Status::Moving { token })) => Some(Phase::Moving(vec![Token(token)])),
        (_, Some(Status::BootReplace { ip, .. })) => {
            let replaced = gossiper.states().find(|(endpoint, _)| endpoint.ip == ip);
            Some(Phase::Replacing(replaced?.1.host_id()?))
        }
        _ => None,
    }
}

impl Member {
    /// What happened, one after the other.
    pub(super) fn take_note(&self, events: Vec<Event>) {
        let mut changed = BTreeSet::new();
        let mut told = Vec::new();
        for event in events {
            match &event {
                Event::Changed { endpoint, key, .. } => {
                    tracing::trace!(%event, key = %key, "gossip");
                    changed.insert(*endpoint);
                    continue;
                }
                Event::Alive(endpoint) | Event::Joined(endpoint) | Event::Restarted(endpoint) => {
                    changed.insert(*endpoint);
                }
                Event::Dead(endpoint) => {
                    self.messenger.transport().interrupt(*endpoint);
                    self.tell_why_dead(*endpoint, &event);
                    continue;
                }
                Event::Left(endpoint) | Event::Removed(endpoint) => {
                    if let Some(native) = self.forget(*endpoint) {
                        told.push(RingEvent::Left(native));
                    }
                }
                Event::Refused { .. } => {
                    tracing::warn!("{event}");
                    continue;
                }
                Event::ShadowRoundEnded(_) => {}
            }
            tracing::info!("{event}");
        }
        told.extend(self.refresh(changed));
        told.extend(self.forget_superseded());
        told.into_iter().for_each(|event| self.host.tell(event));
        self.pull_if_behind();
    }

    /// Says in the log why a node is thought dead.
    fn tell_why_dead(&self, endpoint: Endpoint, event: &Event) {
        let now = Now::of(&self.env);
        let (suspicion, status) = self.with_gossip(|gossiper| {
            let status = gossiper.state(&endpoint).map(EndpointState::status_kind);
            (gossiper.suspicion(&endpoint, now), status)
        });
        match (status, suspicion) {
            (Some(StatusKind::Shutdown), _) => tracing::info!(reason = "it said that it stops", "{event}"),
            (_, Some(found)) => {
                let reason =
                    if found.phi > found.threshold { "it is silent" } else { "it starts anew or leaves" };
                let (silent_ms, mean_ms) = (found.silent_nanos / 1_000_000, found.mean_nanos / 1e6);
                tracing::info!(
                    reason,
                    last_heard_ms = silent_ms,
                    mean_interval_ms = mean_ms.round(),
                    phi = (found.phi * 100.0).round() / 100.0,
                    threshold = found.threshold,
                    "{event}"
                );
            }
            (_, None) => tracing::info!("{event}"),
        }
    }

    /// A node left for good. Where clients found it, if they find no other node there.
    fn forget(&self, endpoint: Endpoint) -> Option<Endpoint> {
        let known = {
            let mut known = self.known.lock();
            let gone = known.nodes.remove(&endpoint);
            gone.map(|gone| {
                let id = gone.record.host_id;
                if known.asked.get(&id).is_some_and(|(asked, _)| *asked == endpoint) {
                    known.asked.remove(&id);
                }
                // It may be known under another address.
                let is_gone = known.nodes.values().all(|other| other.record.host_id != id);
                let is_its_own = |native: &Endpoint| {
                    known.nodes.values().all(|other| other.record.native.as_ref() != Some(native))
                };
                (gone.record.native.filter(is_its_own), is_gone.then_some(id))
            })
        };
        self.messenger.transport().forget(endpoint);
        self.host.forget_peer(endpoint, known.and_then(|(_, host_id)| host_id));
        known.and_then(|(native, _)| native)
    }

    /// Forgets nodes whose place another one has taken. What clients are to be told.
    fn forget_superseded(&self) -> Vec<RingEvent> {
        let own = self.options.gossip.endpoint;
        let members = self.topology.members();
        let superseded = members.superseded(&own);
        if superseded.is_empty() {
            return Vec::new();
        }
        let mut told = Vec::new();
        for (old, new) in superseded {
            {
                let mut gossiper = self.gossiper.lock();
                // Another thread may have found it, too.
                if gossiper.state(&old.endpoint).is_none() {
                    continue;
                }
                // That it is down and removed is known by now.
                let _ = gossiper.replace(old.endpoint, Now::of(&self.env));
            }
            tracing::info!(
                "Node /{} takes the place of node /{}, which is forgotten",
                new.endpoint,
                old.endpoint
            );
            told.extend(self.forget(old.endpoint).map(RingEvent::Left));
        }
        told.extend(self.refresh(BTreeSet::new()));
        told
    }

    /// Takes note of who is in the ring.
    pub(super) fn refresh_members(&self) {
        let mut told = self.refresh(BTreeSet::new());
        told.extend(self.forget_superseded());
        told.into_iter().for_each(|event| self.host.tell(event));
    }

    /// Makes the ring of what is known now. `changed` have said something new. What clients are to be told.
    fn refresh(&self, changed: BTreeSet<Endpoint>) -> Vec<RingEvent> {
        let mut told = Vec::new();
        let (mut saved, mut back, mut reached) = (Vec::new(), Vec::new(), Vec::new());
        let near = self.options.prefers_local.then_some(&*self.topology.this().datacenter);
        {
            let gossiper = self.gossiper.lock();
            let mut known = self.known.lock();
            let own = self.options.gossip.endpoint;
            let mut members = Vec::new();
            if self.has_joined.load(Ordering::SeqCst) {
                members.push(RingMember {
                    endpoint: own,
                    node: Arc::clone(self.topology.this()),
                    tokens: self.tokens.lock().iter().map(|token| Token(*token)).collect(),
                    phase: Phase::Normal,
                    generation: gossiper.own().generation,
                });
            }
            for (endpoint, state) in gossiper.states().filter(|(endpoint, _)| *endpoint != own) {
                let Some(heard) = known.hear(endpoint, state, &gossiper, near) else { continue };
                if changed.contains(&endpoint) && !matches!(heard.phase, Phase::Joining | Phase::Replacing(_))
                {
                    saved.push(heard.record);
                }
            }
            let nodes: Vec<KnownNode> = known.nodes.values().cloned().collect();
            for KnownNode { record, phase, is_told, is_new, .. } in nodes {
                let node = known.asked(&record, &self.messenger, self.options.timeouts);
                let is_alive = gossiper.is_alive(&record.endpoint);
                if is_alive && !node.is_alive() {
                    back.push(Arc::clone(&node));
                }
                node.set_alive(is_alive);
                let state = gossiper.state(&record.endpoint);
                let disks = state.and_then(|state| state.text(AppState::DISK_USAGE));
                node.set_disk_usage(disks.map(DiskUsage::of_word).unwrap_or_default());
                let is_ready = state.is_some_and(EndpointState::is_rpc_ready);
                let is_up = is_alive && is_ready;
                if is_up != is_told
                    && let Some(native) = record.native
                {
                    if is_up && is_new {
                        told.push(RingEvent::Joined(native));
                    }
                    told.push(if is_up { RingEvent::Up(native) } else { RingEvent::Down(native) });
                    if let Some(known) = known.nodes.get_mut(&record.endpoint) {
                        known.is_told = is_up;
                        known.is_new &= !is_up;
                    }
                }
                let preferred = record.preferred.filter(|_| near.is_some());
                reached.extend(preferred.map(|at| (record.endpoint, at.socket())));
                let tokens = record.tokens.iter().map(|token| Token(*token)).collect();
                let generation = state.map_or(0, |state| state.generation);
                members.push(RingMember { endpoint: record.endpoint, node, tokens, phase, generation });
            }
            self.topology.set_members(Members::new(members));
        }
        reached.into_iter().for_each(|(endpoint, at)| self.messenger.transport().reach_at(endpoint, at));
        saved.iter().for_each(|record| self.host.save_peer(record));
        back.iter().for_each(|node| self.host.is_back(node));
        told
    }
}
