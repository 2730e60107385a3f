//! The ring as operators see it: what `nodetool`, `system_views` and `/metrics` ask for.

use crate::state::NodeState;
use cluster::endpoint::Endpoint;
use cluster::gossip::AppState;
use cluster::gossip::shown::ShownEndpoint;
use cluster::hints::{Dispatcher, HintStore, HintsCounts};
use cluster::member::Member;
use cluster::messaging::counters::{Inbound, Outbound, VerbCounts};
use cluster::messaging::tcp::TcpTransport;
use cluster::messaging::{ConnectionKind, Verb};
use cluster::ring::{Member as RingMember, Phase, ownership};
use coordinator::Strategy;
use model::KeyspaceSchema;
use model::key::Token;
use model::schema::is_system_keyspace;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tools::api::{
    ClusterNode, Gossip, GossipNode, GossipState, Handoff, MessageCounts, NodeStatus, PendingHints,
    RangeEndpoint, RingRange, RingRanges, SetHandoff, VerbMessages,
};
use uuid::Uuid;

/// What stands for the data center and the rack of a node that is not in the ring, as Cassandra's snitches
/// have it.
const UNKNOWN_PLACE: (&str, &str) = ("UNKNOWN_DC", "UNKNOWN_RACK");
/// What is said of a node that hints wait for and that nobody knows.
const UNKNOWN: &str = "Unknown";

/// The parts of a member that are looked at and switched.
pub(crate) struct RingView {
    pub(super) member: Arc<Member>,
    pub(super) transport: Arc<TcpTransport>,
    pub(super) store: Arc<HintStore>,
    pub(super) dispatcher: Arc<Dispatcher>,
}

/// Messages of one kind of connection to a node.
pub(crate) type OfPeer<T> = (Endpoint, T);

/// Two letters: up or down, and what a node does in the ring.
fn state_of(member: &RingMember) -> String {
    let up = if member.node.is_alive() { 'U' } else { 'D' };
    let phase = match member.phase {
        Phase::Normal => 'N',
        Phase::Joining | Phase::Replacing(_) => 'J',
        Phase::Leaving => 'L',
        Phase::Moving(_) => 'M',
    };
    format!("{up}{phase}")
}

impl RingView {
    /// The least of the messaging versions that the nodes of the ring speak.
    pub(crate) fn messaging_version_min(&self) -> u32 {
        self.member.messaging_version_min()
    }

    /// The nodes as `nodetool status` shows them; what they own of `keyspace`, or of the first that users
    /// made, or of the traces. `own_bytes` are those of this node.
    pub(crate) fn status(
        &self,
        state: &NodeState,
        keyspace: Option<&str>,
        own_bytes: u64,
    ) -> Vec<NodeStatus> {
        let schema = state.engine.schema();
        let is_of_users = |k: &&Arc<KeyspaceSchema>| !k.is_virtual && !is_system_keyspace(&k.name);
        let of_users = || schema.keyspaces.values().find(is_of_users);
        let of_traces = || schema.keyspace("system_traces");
        let found = keyspace.and_then(|name| schema.keyspace(name)).or_else(of_users).or_else(of_traces);
        let strategy = match found.map(|keyspace| Strategy::of(&keyspace.replication)) {
            None | Some(Strategy::Local) => Strategy::Simple(1),
            Some(strategy) => strategy,
        };
        let members = self.member.topology().members();
        let owned = ownership(&members, &strategy);
        let this = self.member.node().id;
        let nodes = members.iter().zip(owned).map(|(member, owns)| {
            let load = match member.node.id == this {
                true => Some(own_bytes),
                false => self.member.with_gossip(|gossiper| {
                    let text = gossiper.state(&member.endpoint)?.text(AppState::LOAD)?.to_owned();
                    text.parse::<f64>().ok().map(|bytes| bytes as u64)
                }),
            };
            NodeStatus {
                state: state_of(member),
                address: member.endpoint.ip.to_string(),
                data_center: member.node.datacenter.to_string(),
                rack: member.node.rack.to_string(),
                load_bytes: load.unwrap_or(0),
                load_is_unknown: load.is_none(),
                owns,
                host_id: member.node.id.to_string(),
                tokens: member.tokens.iter().map(|token| token.0.to_string()).collect(),
            }
        });
        nodes.collect()
    }

    /// The nodes as `nodetool describecluster` counts them, by address. Each is asked for its schema.
    pub(crate) async fn cluster(&self) -> Vec<ClusterNode> {
        let versions: BTreeMap<Endpoint, Option<Uuid>> =
            self.member.schema_versions().await.into_iter().collect();
        let members = self.member.topology().members();
        let mut nodes: Vec<(Endpoint, ClusterNode)> = members
            .iter()
            .map(|member| {
                let release = self.member.with_gossip(|gossiper| {
                    Some(gossiper.state(&member.endpoint)?.text(AppState::RELEASE_VERSION)?.to_owned())
                });
                let version = versions.get(&member.endpoint).copied().flatten();
                let node = ClusterNode {
                    state: state_of(member),
                    address: member.endpoint.ip.to_string(),
                    port: member.endpoint.port,
                    data_center: member.node.datacenter.to_string(),
                    schema_version: version.map(|version| version.to_string()),
                    release_version: release,
                };
                (member.endpoint, node)
            })
            .collect();
        nodes.sort_by_key(|(endpoint, _)| *endpoint);
        nodes.into_iter().map(|(_, node)| node).collect()
    }

    /// Who holds the parts of a keyspace.
    pub(crate) fn ranges(&self, schema_version: Uuid, strategy: &Strategy) -> RingRanges {
        let members = self.member.topology().members();
        let ranges = members.ranges(strategy).into_iter().map(|(start, end, replicas)| RingRange {
            start_token: start.0.to_string(),
            end_token: end.0.to_string(),
            endpoints: replicas.into_iter().map(|member| self.range_endpoint(member)).collect(),
        });
        RingRanges { schema_version: schema_version.to_string(), ranges: ranges.collect() }
    }

    fn range_endpoint(&self, member: &RingMember) -> RangeEndpoint {
        let address = member.endpoint.ip.to_string();
        let rpc_address = self.member.with_gossip(|gossiper| {
            let text = gossiper.state(&member.endpoint)?.text(AppState::NATIVE_ADDRESS_AND_PORT)?;
            text.parse::<std::net::SocketAddr>().ok().map(|native| native.ip().to_string())
        });
        RangeEndpoint {
            rpc_address: rpc_address.unwrap_or_else(|| address.clone()),
            address,
            data_center: member.node.datacenter.to_string(),
            rack: member.node.rack.to_string(),
        }
    }

    /// The addresses of those who hold a token, in the order of the ring.
    pub(crate) fn replicas(&self, strategy: &Strategy, token: Token) -> Vec<String> {
        let members = self.member.topology().members();
        members.replicas(strategy, token).into_iter().map(|member| member.endpoint.ip.to_string()).collect()
    }

    /// What is known of each node, by address.
    pub(crate) fn shown(&self) -> Vec<ShownEndpoint> {
        self.member.with_gossip(|gossiper| gossiper.shown())
    }

    /// What `nodetool gossipinfo`, `failuredetector` and `getseeds` ask for.
    pub(crate) fn gossip(&self) -> Gossip {
        let (shown, phis, seeds) = self.member.with_gossip(|gossiper| {
            let phis: BTreeMap<Endpoint, f64> = gossiper.phis().collect();
            (gossiper.shown(), phis, gossiper.seeds().clone())
        });
        let nodes = shown.into_iter().map(|node| GossipNode {
            address: node.endpoint.ip.to_string(),
            port: node.endpoint.port,
            is_alive: node.is_alive,
            generation: node.generation,
            heartbeat: node.heartbeat,
            phi: phis.get(&node.endpoint).copied(),
            states: node
                .values
                .iter()
                .map(|(key, version, value)| GossipState {
                    name: key.name().to_owned(),
                    version: *version,
                    value: (*key != AppState::TOKENS).then(|| value.as_str().to_owned()),
                })
                .collect(),
        });
        Gossip {
            running: self.member.gossips(),
            nodes: nodes.collect(),
            seeds: seeds.iter().map(ToString::to_string).collect(),
        }
    }

    /// Whether the node gossips.
    pub(crate) fn gossips(&self) -> bool {
        self.member.gossips()
    }

    /// Whether the node has said farewell to the others.
    pub(crate) fn has_left(&self) -> bool {
        self.member.has_left()
    }

    /// Stops to gossip. Whether it did.
    pub(crate) fn stop_gossip(&self) -> bool {
        self.member.stop_gossip()
    }

    /// Messages to each node, by [`ConnectionKind`].
    pub(crate) fn outbound(&self) -> Vec<OfPeer<[Outbound; 3]>> {
        self.transport.outbound()
    }

    /// Messages from each node.
    pub(crate) fn inbound(&self) -> Vec<OfPeer<Inbound>> {
        self.transport.inbound()
    }

    /// The data center and the rack of a node.
    pub(crate) fn place_of(&self, endpoint: Endpoint) -> (Arc<str>, Arc<str>) {
        let members = self.member.topology().members();
        match members.by_endpoint(&endpoint) {
            Some(member) => (Arc::clone(&member.node.datacenter), Arc::clone(&member.node.rack)),
            None => (UNKNOWN_PLACE.0.into(), UNKNOWN_PLACE.1.into()),
        }
    }

    /// Messages of large, small and urgent connections.
    pub(crate) fn message_counts(&self) -> [MessageCounts; 3] {
        let mut counts = [MessageCounts::default(); 3];
        for (_, by_kind) in self.transport.outbound() {
            for (kind, outbound) in ConnectionKind::ALL.into_iter().zip(by_kind) {
                let [large, small, urgent] = &mut counts;
                let of = match kind {
                    ConnectionKind::Large => large,
                    ConnectionKind::Small => small,
                    ConnectionKind::Urgent => urgent,
                };
                of.pending += outbound.pending.count;
                of.completed += outbound.sent.count;
                of.dropped += outbound.overload.count + outbound.expired.count;
            }
        }
        counts
    }

    /// Messages of each verb that there were any of.
    pub(crate) fn verbs(&self) -> Vec<(Verb, VerbCounts)> {
        let messenger = self.member.messenger();
        let counted = Verb::ALL.iter().map(|verb| (*verb, messenger.counts(*verb)));
        counted.filter(|(_, counts)| *counts != VerbCounts::default()).collect()
    }

    /// The same for the admin API.
    pub(crate) fn verb_messages(&self) -> Vec<VerbMessages> {
        let of = |(verb, counts): (Verb, VerbCounts)| VerbMessages {
            verb: verb.name().to_owned(),
            sent: counts.sent,
            received: counts.received,
            dropped: counts.dropped,
        };
        self.verbs().into_iter().map(of).collect()
    }

    /// Calls that wait for an answer.
    pub(crate) fn calls_waiting(&self) -> usize {
        self.member.messenger().calls_waiting()
    }

    /// How many nodes are alive, this one among them, and how many are not.
    pub(crate) fn live_and_lost(&self) -> (usize, usize) {
        self.member.with_gossip(|gossiper| (gossiper.live().len() + 1, gossiper.unreachable().len()))
    }

    /// How hints are kept and sent.
    pub(crate) fn handoff(&self) -> Handoff {
        let settings = self.store.settings();
        Handoff {
            running: settings.is_enabled,
            paused: self.dispatcher.is_paused(),
            disabled_data_centers: settings.disabled_datacenters.iter().cloned().collect(),
            window_millis: u64::try_from(settings.window.as_millis()).unwrap_or(u64::MAX),
            throttle_bytes: settings.throttle_bytes,
        }
    }

    /// Changes how hints are kept and sent, until the next start.
    pub(crate) fn set_handoff(&self, wanted: &SetHandoff) {
        self.store.change(|settings| {
            if let Some(running) = wanted.running {
                settings.is_enabled = running;
            }
            if let Some(name) = &wanted.disable_data_center {
                settings.disabled_datacenters.insert(name.clone());
            }
            if let Some(name) = &wanted.enable_data_center {
                settings.disabled_datacenters.remove(name);
            }
            if let Some(millis) = wanted.window_millis {
                settings.window = Duration::from_millis(millis);
            }
            if let Some(bytes) = wanted.throttle_bytes {
                settings.throttle_bytes = bytes;
            }
        });
        match wanted.paused {
            Some(true) => self.dispatcher.pause(),
            Some(false) => self.dispatcher.resume(),
            None => {}
        }
    }

    /// Whether nodes of a data center are in the ring.
    pub(crate) fn has_data_center(&self, name: &str) -> bool {
        self.member.topology().members().iter().any(|member| &*member.node.datacenter == name)
    }

    /// What waits for which node.
    pub(crate) fn pending_hints(&self) -> Vec<PendingHints> {
        let pending = self.dispatcher.pending().into_iter().filter(|found| found.files > 0);
        let of = |found: cluster::hints::PendingHints| {
            let node = found.node.as_ref();
            let status = |is_alive: bool| if is_alive { "UP" } else { "DOWN" };
            PendingHints {
                host_id: found.host_id.to_string(),
                address: node.map(|node| node.endpoint.ip.to_string()),
                port: node.map(|node| node.endpoint.port),
                rack: node.map_or(UNKNOWN, |node| &node.rack).to_owned(),
                data_center: node.map_or(UNKNOWN, |node| &node.datacenter).to_owned(),
                status: node.map_or(UNKNOWN, |node| status(node.is_alive)).to_owned(),
                files: found.files as u64,
                bytes: found.bytes,
                buffered_bytes: found.buffered_bytes,
                newest_millis: found.newest_millis.unwrap_or(0),
                oldest_millis: found.oldest_millis.unwrap_or(0),
            }
        };
        pending.map(of).collect()
    }

    /// Bytes of hints on the disk and in memory.
    pub(crate) fn hint_bytes(&self) -> (u64, u64) {
        let pending = self.dispatcher.pending();
        let sum = |of: fn(&cluster::hints::PendingHints) -> u64| pending.iter().map(of).sum();
        (sum(|found| found.bytes), sum(|found| found.buffered_bytes))
    }

    /// Numbers of hints since the start.
    pub(crate) fn hint_counts(&self) -> HintsCounts {
        self.store.counts()
    }

    /// The id of the node at an address.
    pub(crate) fn host_id_at(&self, address: IpAddr) -> Option<Uuid> {
        let members = self.member.topology().members();
        members.iter().find(|member| member.endpoint.ip == address).map(|member| member.node.id)
    }

    /// Drops the hints of a node, or of all. It waits for the disk.
    pub(crate) fn truncate_hints(&self, host_id: Option<Uuid>) {
        self.dispatcher.truncate(host_id);
    }
}
