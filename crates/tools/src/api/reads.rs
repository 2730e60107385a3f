//! Reads: sums by table, the heat map of their latencies, and single ones.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Seconds that are remembered.
pub const HEAT_SECONDS: usize = 300;

/// How many bands of latency there are.
pub const BANDS: usize = 19;

/// A band of latencies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Band {
    /// Microseconds from which on.
    pub from_micros: u64,
    /// Microseconds below which; none for the last band.
    pub to_micros: Option<u64>,
}

/// Counts of a span of seconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatColumns {
    /// The bands, fastest first.
    pub bands: Vec<Band>,
    /// The second of the last column, since the epoch.
    pub last_second: u64,
    /// For each second, oldest first, the reads of each band.
    pub counts: Vec<Vec<u32>>,
}

/// Which of the reads that are kept somebody wants to see; every bound counts as inside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SampleQuery {
    /// The fastest band; the first if it is not said.
    pub from_band: Option<usize>,
    /// The slowest band; the last if it is not said.
    pub to_band: Option<usize>,
    /// The first second since the epoch.
    pub from_second: Option<u64>,
    /// The last second since the epoch.
    pub to_second: Option<u64>,
    /// Reads of tables of this keyspace only.
    pub keyspace: Option<String>,
    /// Reads of tables of this name only.
    pub table: Option<String>,
    /// How many reads at most.
    pub limit: Option<usize>,
}

/// A [`ReadRecord`] as the admin API tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadSample {
    /// When it was answered, in milliseconds since the epoch.
    pub at_millis: i64,
    /// The second of the heat map in which it is counted, since the epoch.
    pub second: u64,
    /// How long it took.
    pub micros: u64,
    /// How much of that it waited for a reader thread.
    #[serde(default)]
    pub reader_wait_micros: u64,
    /// How much of it for SSTables to be compared with their digests.
    #[serde(default)]
    pub proof_wait_micros: u64,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// The statement's text, or its beginning.
    pub statement: String,
    /// What it asked for, as CQL with the values that were bound, in part if it is long.
    #[serde(default)]
    pub restriction: String,
    /// Who asked.
    pub client: String,
    /// What was counted; what is not there is 0.
    pub cost: BTreeMap<String, u64>,
    /// Why it came to no answer, as the client was told.
    pub failure: Option<String>,
}

/// The reads of one table since the start of the node, scans included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableReads {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Requests that read.
    pub reads: u64,
    /// Live rows.
    pub rows: u64,
    /// Tombstones that were left after the merge.
    pub tombstones: u64,
    /// SSTables that were opened.
    pub sstables: u64,
    /// Calls to the disk.
    pub ios: u64,
    /// Bytes from the disk.
    pub disk_bytes: u64,
    /// Bytes that were answered.
    pub returned_bytes: u64,
    /// Pages of index and data that were found in memory.
    pub page_hits: u64,
    /// Pages that were loaded.
    pub page_misses: u64,
    /// Requests by latency: microseconds that a bucket does not exceed, and how many it holds.
    pub request_buckets: Vec<(u64, u64)>,
}

/// The reads of every table that was read since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadsByTable {
    /// Milliseconds since the start.
    pub uptime_millis: u64,
    /// The tables by name.
    pub tables: Vec<TableReads>,
}
