//! What the admin API says and takes, beside the plain data of [`crate::storage`]. nodetool reads the same
//! types.

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
    /// How long it is to live, as [`ttl_seconds`] reads it; for ever without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
}

/// Seconds of the shortest TTL of a snapshot.
const TTL_SECONDS_MIN: u64 = 60;

/// The seconds of a snapshot's TTL: `90s`, `10m`, `5h`, `7d`.
///
/// # Errors
/// What is wrong with it, in Cassandra's words.
pub fn ttl_seconds(text: &str) -> Result<u32, String> {
    let end = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        _ if number.is_empty() => None,
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        "d" => Some(86_400),
        "ms" | "us" | "µs" | "ns" => {
            return Err(format!("Invalid duration: {text} Accepted units:[SECONDS, MINUTES, HOURS, DAYS]"));
        }
        _ => None,
    };
    let Some(seconds) = seconds else {
        return Err(format!(
            "Invalid duration: {text} Accepted units:[NANOSECONDS, MICROSECONDS, MILLISECONDS, SECONDS, MINUTES, HOURS, \
             DAYS] where case matters and only non-negative values."
        ));
    };
    let total = number.parse::<u64>().ok().and_then(|number| number.checked_mul(seconds));
    match total {
        Some(total) if total < TTL_SECONDS_MIN => {
            Err(format!("ttl for snapshot must be at least {TTL_SECONDS_MIN} seconds"))
        }
        Some(total) if total < i32::MAX as u64 => Ok(total as u32),
        _ => Err(format!("Invalid duration: {text}. It shouldn't be more than {} in seconds", i32::MAX - 1)),
    }
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
    /// What kind: `invalid`, `not_found`, `conflict`, `forbidden`, `refused`, `failed`.
    pub error: String,
    /// What went wrong.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::ttl_seconds;

    #[test]
    fn ttls_are_read_and_refused_in_cassandras_way() {
        let read = ["60s", "1m", "5h", "7d"].map(|text| ttl_seconds(text).unwrap());
        assert_eq!(read, [60, 60, 18_000, 604_800]);
        for text in ["abc", "5", "-5h", "1d12h", "", "h", "5H", " 5h"] {
            let said = ttl_seconds(text).unwrap_err();
            assert!(said.ends_with("where case matters and only non-negative values."), "{said}");
        }
        assert_eq!(ttl_seconds("30s").unwrap_err(), "ttl for snapshot must be at least 60 seconds");
        let said = ttl_seconds("60000ms").unwrap_err();
        assert_eq!(said, "Invalid duration: 60000ms Accepted units:[SECONDS, MINUTES, HOURS, DAYS]");
        for text in ["2147483647s", "99999999999999999999d", "18446744073709551615d"] {
            assert!(ttl_seconds(text).unwrap_err().contains("shouldn't be more than 2147483646"), "{text}");
        }
    }
}
