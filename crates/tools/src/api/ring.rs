//! The node among others: the ring, gossip, messages, hints.

use serde::{Deserialize, Serialize};

/// A node of `/cluster`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterNode {
    /// Two letters: up or down, and what it does in the ring.
    pub state: String,
    /// Address that others are told.
    pub address: String,
    /// Its port for other nodes.
    pub port: u16,
    /// Data center.
    pub data_center: String,
    /// Its version of the schema; none for a node that does not answer.
    pub schema_version: Option<String>,
    /// Its release, as far as it is known.
    pub release_version: Option<String>,
}

/// Answer of `/ring/ranges`: who holds the parts of a keyspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingRanges {
    /// Version of the schema.
    pub schema_version: String,
    /// The ranges, in the order of the ring. The first one goes around its end.
    pub ranges: Vec<RingRange>,
}

/// A range between two tokens that follow each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingRange {
    /// The token before the range.
    pub start_token: String,
    /// Its last token.
    pub end_token: String,
    /// The nodes that hold it, in the order of the ring.
    pub endpoints: Vec<RangeEndpoint>,
}

/// A node that holds a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeEndpoint {
    /// Address that other nodes are told.
    pub address: String,
    /// Address that clients are told.
    pub rpc_address: String,
    /// Data center.
    pub data_center: String,
    /// Rack.
    pub rack: String,
}

/// Answer of `GET /gossip`: what is known of each node. There are no nodes where there is no ring.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gossip {
    /// Whether this node gossips.
    pub running: bool,
    /// The nodes, this one among them, by address.
    pub nodes: Vec<GossipNode>,
    /// The seeds that are used, with their ports, but for this node.
    #[serde(default)]
    pub seeds: Vec<String>,
}

/// A node as gossip tells of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GossipNode {
    /// Address that others are told.
    pub address: String,
    /// Its port for other nodes.
    pub port: u16,
    /// Whether it is thought alive.
    pub is_alive: bool,
    /// Which start of it.
    pub generation: i32,
    /// The version of its last heartbeat.
    pub heartbeat: i32,
    /// How sure the failure detector was that it is dead, when it last looked.
    pub phi: Option<f64>,
    /// What it says of itself, in the order of Cassandra's numbers.
    pub states: Vec<GossipState>,
}

/// What a node says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GossipState {
    /// Cassandra's name for it.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The text; none for tokens.
    pub value: Option<String>,
}

/// `/batchlog/throttle`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchlogThrottle {
    /// KiB of late logged batches that are replayed in a second, shared by the nodes; 0 for no limit.
    pub kibibytes_per_second: u64,
}

/// Question to `PUT /gossip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetGossip {
    /// Whether the node is to gossip.
    pub running: bool,
}

/// Answer of `/messages`: what became of messages between nodes since the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// What the node does: `NORMAL`, `DRAINED` and so on, in Cassandra's words.
    pub mode: String,
    /// Messages over 64 KiB.
    pub large: MessageCounts,
    /// Other messages.
    pub small: MessageCounts,
    /// Gossip, and other messages that go first.
    pub gossip: MessageCounts,
    /// Messages by verb.
    pub verbs: Vec<VerbMessages>,
    /// Reads whose replicas did not agree.
    pub read_repairs: ReadRepairs,
}

/// Messages of a kind of connection to all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageCounts {
    /// Not written yet.
    pub pending: u64,
    /// Written.
    pub completed: u64,
    /// Left out: too late, or refused for want of room.
    pub dropped: u64,
}

/// Messages of a verb.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerbMessages {
    /// Cassandra's name for it.
    pub verb: String,
    /// Sent.
    pub sent: u64,
    /// Arrived.
    pub received: u64,
    /// Arrived too late.
    pub dropped: u64,
}

/// Reads whose replicas did not agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadRepairs {
    /// Reads that asked all replicas for their data because digests differed.
    pub attempted: u64,
    /// Those that waited until replicas that were behind had what they lacked.
    pub blocking: u64,
    /// Those that did not wait.
    pub background: u64,
}

/// Answer of `GET /hints`: how writes are kept for nodes that miss them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handoff {
    /// Whether they are kept.
    pub running: bool,
    /// Whether none are sent for now.
    pub paused: bool,
    /// Data centers whose nodes get none.
    pub disabled_data_centers: Vec<String>,
    /// For how long a node may be down, in milliseconds.
    pub window_millis: u64,
    /// Bytes a second that are sent; 0 for no bound.
    pub throttle_bytes: u64,
}

/// Question to `PUT /hints`: what is to change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetHandoff {
    /// Whether hints are to be kept.
    #[serde(default)]
    pub running: Option<bool>,
    /// Whether none are to be sent for now.
    #[serde(default)]
    pub paused: Option<bool>,
    /// A data center whose nodes are to get none.
    #[serde(default)]
    pub disable_data_center: Option<String>,
    /// A data center whose nodes are to get some again.
    #[serde(default)]
    pub enable_data_center: Option<String>,
    /// For how long a node may be down, in milliseconds.
    #[serde(default)]
    pub window_millis: Option<u64>,
    /// Bytes a second that are to be sent; 0 for no bound.
    #[serde(default)]
    pub throttle_bytes: Option<u64>,
}

/// Hints that wait for a node: an item of `/hints/pending`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingHints {
    /// Id of the node.
    pub host_id: String,
    /// Its address; none for a node that is not in the ring.
    pub address: Option<String>,
    /// Its port for other nodes.
    pub port: Option<u16>,
    /// Its rack, or `Unknown`.
    pub rack: String,
    /// Its data center, or `Unknown`.
    pub data_center: String,
    /// `UP`, `DOWN`, or `Unknown`.
    pub status: String,
    /// Number of files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that are still in memory.
    pub buffered_bytes: u64,
    /// When the newest file was begun, in milliseconds since 1970.
    pub newest_millis: i64,
    /// When the oldest was.
    pub oldest_millis: i64,
}

/// Question to `DELETE /hints`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TruncateHints {
    /// The address of the node whose hints are dropped; of all where there is none.
    #[serde(default)]
    pub address: Option<String>,
}
