//! What the admin API says and takes, beside the plain data of [`crate::storage`]. nodetool reads the same types.

use serde::{Deserialize, Serialize};
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
}

/// Answer of `/info`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// Id.
    pub host_id: String,
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
    pub page_cache: crate::storage::CacheStats,
    /// The row cache.
    pub row_cache: crate::storage::CacheStats,
    /// Tokens.
    pub tokens: Vec<String>,
    /// Whether the node was drained.
    pub drained: bool,
    /// Data directories that take no new SSTables, because a write failed there (`disk_failure_policy: best_effort`).
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
    pub options: std::collections::BTreeMap<String, String>,
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
    /// Data center.
    pub data_center: String,
    /// The node's version.
    pub release_version: String,
    /// Keyspaces.
    pub keyspaces: Vec<KeyspaceReplication>,
}

/// Question to `/compactions/auto`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Autocompaction {
    /// The tables.
    #[serde(flatten)]
    pub selection: crate::storage::Selection,
    /// On or off.
    pub enabled: bool,
}

/// `/compactions/throughput`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// MiB for each second, 0 for no limit.
    pub mebibytes_per_second: u64,
}

/// A table of a keyspace, as `keyspace.table`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QualifiedTable {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
}

/// Question to `POST /caches/invalidate`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InvalidateCache {
    /// What is dropped.
    pub cache: crate::storage::CacheKind,
}

/// Question to `PUT /caches/capacity`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheCapacity {
    /// MiB of the row cache; 0 turns it off.
    pub rows_mebibytes: u64,
}

/// Question to `POST /snapshots`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TakeSnapshot {
    /// Name of the snapshot.
    pub name: String,
    /// Keyspaces, or all.
    #[serde(default)]
    pub keyspaces: Vec<String>,
    /// Tables instead of whole keyspaces.
    #[serde(default)]
    pub tables: Vec<QualifiedTable>,
    /// Whether what is in memory is left out.
    #[serde(default)]
    pub skip_flush: bool,
}

/// Question to `DELETE /snapshots`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClearSnapshots {
    /// Name; all snapshots without one.
    #[serde(default)]
    pub name: Option<String>,
    /// Keyspaces, or all.
    #[serde(default)]
    pub keyspaces: Vec<String>,
}

/// What to import, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportSstables {
    /// Keyspace of the table.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// Directories on the node's machine, with absolute paths.
    pub directories: Vec<PathBuf>,
    /// Leave out the verification of every component.
    #[serde(default)]
    pub no_verify: bool,
    /// Copy the files instead of moving them.
    #[serde(default)]
    pub copy_data: bool,
    /// Keep the SSTables' levels.
    #[serde(default)]
    pub keep_level: bool,
    /// Keep what the SSTables say about repairs.
    #[serde(default)]
    pub keep_repaired: bool,
}

/// What became of a directory to import.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ImportedDirectory {
    /// The directory.
    pub directory: PathBuf,
    /// Names of the SSTables in the table.
    pub sstables: Vec<String>,
    /// Why nothing of the directory was imported.
    pub failure: Option<String>,
}

/// SSTables that were found in a table's directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refreshed {
    /// Their names.
    pub sstables: Vec<String>,
}

/// Answer of `/health`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Health {
    /// `up`, or `drained`.
    pub status: String,
}

/// Every error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// What kind: `invalid`, `not_found`, `conflict`, `failed`.
    pub error: String,
    /// What went wrong.
    pub message: String,
}
