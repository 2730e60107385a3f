//! Tables: which are meant, what they count, and SSTables that come into them from outside.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Tables that an operator named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// One keyspace, or all.
    #[serde(default)]
    pub keyspace: Option<String>,
    /// Tables of the keyspace, or all.
    #[serde(default)]
    pub tables: Vec<String>,
}

/// A table of a keyspace, as `keyspace.table`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QualifiedTable {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
}

/// The numbers of one table, an answer of `/tables`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableReport {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Reads of the engine.
    pub reads: u64,
    /// Mean time of a read in milliseconds.
    pub read_millis: Option<f64>,
    /// Writes of the engine.
    pub writes: u64,
    /// Mean time of a write in milliseconds.
    pub write_millis: Option<f64>,
    /// SSTables.
    pub sstables: u64,
    /// Bytes of the largest SSTable.
    pub sstable_bytes_max: u64,
    /// Longest time between the oldest and the newest write of an SSTable.
    pub sstable_duration_millis_max: u64,
    /// Bytes of SSTables that are read.
    pub live_bytes: u64,
    /// Compressed by uncompressed bytes; none without compressed SSTables.
    pub compression_ratio: Option<f64>,
    /// Partitions, about.
    pub partitions: u64,
    /// Bytes of memtables.
    pub memtable_bytes: u64,
    /// Memtables that wait for it.
    pub pending_flushes: u64,
    /// Memory of bloom filters.
    pub bloom_bytes: u64,
    /// Memory of indexes.
    pub index_summary_bytes: u64,
    /// Bytes of the largest partition of an SSTable.
    pub partition_max_bytes: u64,
    /// Bytes of a partition, on average.
    pub partition_mean_bytes: u64,
    /// Those of them that are not of the version that new ones get.
    #[serde(default)]
    pub old_sstables: u64,
    /// SSTables of each level; none where there are no levels.
    #[serde(default)]
    pub levels: Vec<u64>,
    /// Bytes of each level.
    #[serde(default)]
    pub level_bytes: Vec<u64>,
    /// How long a time window is, `2 HOURS`; none where there are none.
    #[serde(default)]
    pub time_window: Option<String>,
    /// Bytes of what memtables were written, without what holds it.
    #[serde(default)]
    pub memtable_data_bytes: u64,
    /// Rows that were written to memtables, and deletions of partitions and ranges.
    #[serde(default)]
    pub memtable_operations: u64,
    /// Memtables that were full, since the start.
    #[serde(default)]
    pub memtable_switches: u64,
    /// Uncompressed bytes of SSTables that were repaired.
    #[serde(default)]
    pub repaired_bytes: u64,
    /// Those of SSTables that were not.
    #[serde(default)]
    pub unrepaired_bytes: u64,
    /// Those of SSTables in a repair that is not over.
    #[serde(default)]
    pub pending_repair_bytes: u64,
    /// SSTables that a bloom filter had reads look into in vain.
    #[serde(default)]
    pub bloom_false_positives: u64,
    /// Their part of the SSTables that bloom filters were asked about.
    #[serde(default)]
    pub bloom_false_ratio: f64,
    /// Memory of the offsets of compressed chunks.
    #[serde(default)]
    pub chunk_offsets_bytes: u64,
    /// Bytes of the smallest partition of an SSTable.
    #[serde(default)]
    pub partition_min_bytes: u64,
    /// Live rows of a read on average, in the last five minutes; none without reads.
    #[serde(default)]
    pub rows_per_read_mean: Option<f64>,
    /// The most.
    #[serde(default)]
    pub rows_per_read_max: u64,
    /// Tombstones of a read on average, in the last five minutes; none without reads.
    #[serde(default)]
    pub tombstones_per_read_mean: Option<f64>,
    /// The most.
    #[serde(default)]
    pub tombstones_per_read_max: u64,
    /// Tombstones that may be dropped, for each cell.
    #[serde(default)]
    pub droppable_tombstone_ratio: f64,
}

/// What a histogram comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Values.
    pub count: u64,
    /// Half of the values are at most this.
    pub p50: f64,
    /// Three quarters.
    pub p75: f64,
    /// 95 of 100.
    pub p95: f64,
    /// 98 of 100.
    pub p98: f64,
    /// 99 of 100.
    pub p99: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

/// The histograms of one table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TableHistograms {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Microseconds of reads of single partitions, in the node.
    pub read_micros: Percentiles,
    /// Microseconds of writes, in the node.
    pub write_micros: Percentiles,
    /// SSTables that a read opened.
    pub sstables_per_read: Percentiles,
    /// Bytes of the partitions of SSTables; none without SSTables.
    pub partition_bytes: Option<Percentiles>,
    /// Cells of the partitions of SSTables; none without SSTables.
    pub partition_cells: Option<Percentiles>,
    /// Calls to the disk of a read.
    pub ios_per_read: Percentiles,
    /// Bytes that a read took from the disk.
    pub disk_bytes_per_read: Percentiles,
    /// Bytes that a read answered.
    pub returned_bytes_per_read: Percentiles,
    /// Bytes that a read took from the disk for each byte that it answered.
    pub read_amplification: Percentiles,
    /// Live rows of a read.
    pub rows_per_read: Percentiles,
    /// Tombstones of a read.
    pub tombstones_per_read: Percentiles,
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
