//! The node itself: who it is, how it is, and whether clients are let in.

use super::{CacheReport, ClusterNode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A node as `status` shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Two letters: up or down, and what it does in the ring.
    pub state: String,
    /// Address that others are told.
    pub address: String,
    /// Data center.
    pub data_center: String,
    /// Rack.
    pub rack: String,
    /// Bytes of its SSTables.
    pub load_bytes: u64,
    /// Whether that is not known: the node was never heard since the start of this one.
    #[serde(default)]
    pub load_is_unknown: bool,
    /// Part of the data that it holds, 0 to 1.
    pub owns: f64,
    /// Id.
    pub host_id: String,
    /// Tokens.
    pub tokens: Vec<String>,
}

/// Answer of `/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The nodes of the ring.
    pub nodes: Vec<NodeStatus>,
    /// Why nobody can say who owns how much, in Cassandra's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Answer of `/info`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// Id.
    pub host_id: String,
    /// Whether it gossips.
    #[serde(default)]
    pub gossip_active: bool,
    /// Whether clients are let in.
    pub native_transport_active: bool,
    /// Bytes of SSTables.
    pub load_bytes: u64,
    /// Number of this start.
    pub generation: i32,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Bytes of memory that the process uses.
    pub resident_bytes: u64,
    /// Bytes of memtables.
    pub memtable_bytes: u64,
    /// Bytes allowed for memtables.
    pub memtable_bytes_max: u64,
    /// Data center.
    pub data_center: String,
    /// Rack.
    pub rack: String,
    /// Panics.
    pub exceptions: u64,
    /// The page cache.
    pub page_cache: CacheReport,
    /// The row cache.
    pub row_cache: CacheReport,
    /// Tokens.
    pub tokens: Vec<String>,
    /// Whether the node was drained.
    pub drained: bool,
    /// Data directories that take no new SSTables, because a write failed there (`disk_failure_policy:
    /// best_effort`).
    #[serde(default)]
    pub given_up_directories: Vec<PathBuf>,
}

/// Answer of `/version`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Version {
    /// The Cassandra whose behaviour this is.
    pub release_version: String,
    /// Ilion's own version.
    pub ilion_version: String,
}

/// A keyspace of `/cluster`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeyspaceReplication {
    /// Name.
    pub keyspace: String,
    /// Strategy without its package.
    pub class: String,
    /// `replication_factor`, or data centers.
    pub options: BTreeMap<String, String>,
}

/// Answer of `/cluster`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cluster {
    /// Name of the cluster.
    pub name: String,
    /// Class of the snitch.
    pub snitch: String,
    /// Class of the partitioner.
    pub partitioner: String,
    /// Version of the schema.
    pub schema_version: String,
    /// The node's address.
    pub address: String,
    /// The node's port for others.
    pub storage_port: u16,
    /// Its port for clients.
    #[serde(default)]
    pub native_port: Option<u16>,
    /// Data center.
    pub data_center: String,
    /// The node's version.
    pub release_version: String,
    /// Keyspaces.
    pub keyspaces: Vec<KeyspaceReplication>,
    /// The nodes of the ring, this one among them; none where there is no ring.
    #[serde(default)]
    pub nodes: Vec<ClusterNode>,
    /// Why nobody can say who owns how much, in Cassandra's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Answer of `GET /native_transport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NativeTransport {
    /// Whether clients are let in.
    pub running: bool,
}

/// Question to `PUT /native_transport`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetNativeTransport {
    /// Whether clients are to be let in.
    pub enabled: bool,
    /// Whether requests under way are cut off when they are not.
    #[serde(default)]
    pub force: bool,
}

/// Answer of `/health`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// `up`, or `drained`.
    pub status: String,
}
