//! Bulk reads: Flight, exports, SQL.

use serde::{Deserialize, Serialize};

/// The bulk reads of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BulkStats {
    /// Mebibytes a second that all of them may go over, before compression; 0 for no limit.
    pub mebibytes_per_second: u64,
    /// Scans of splits that began, since the start.
    pub scans: u64,
    /// Those that ended with an error.
    pub failures: u64,
    /// Rows that were made.
    pub rows: u64,
    /// About how many bytes of SSTables were gone over, before compression.
    pub bytes: u64,
    /// Those under way, oldest first.
    pub running: Vec<BulkScan>,
}

/// A scan of a split that is under way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BulkScan {
    /// Its number.
    pub id: u64,
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// `flight` or `admin`: where it was asked for.
    pub asked_by: String,
    /// Tokens of the split are greater; `None` where it begins with the ring.
    pub after: Option<i64>,
    /// Tokens of the split are not greater; `None` where it ends with the ring.
    pub through: Option<i64>,
    /// Seconds since it began.
    pub seconds: f64,
    /// Rows so far.
    pub rows: u64,
    /// About how many bytes it has gone over.
    pub bytes: u64,
    /// About how many there are.
    pub bytes_estimate: u64,
}
