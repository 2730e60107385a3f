//! What `ilion` says to itself over Flight, besides Flight SQL: a scan in words, and how far one is.

use crate::ticket::ScanCommand;
use crate::{Batches, ScanCounts};
use arrow_flight::sql::Any;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// The action that hands out the definitions of keyspaces, types and tables, as CQL.
pub const SCHEMA_ACTION: &str = "ilion.schema";
/// The type of the command that asks for a scan.
const SCAN_TYPE: &str = "ilion.scan";

impl ScanCommand {
    /// As the command of a descriptor.
    pub fn to_any(&self) -> Any {
        Any { type_url: SCAN_TYPE.to_owned(), value: self.to_json().into() }
    }

    /// The command in a descriptor, if it is such a one.
    pub(super) fn of_any(any: &Any) -> Option<serde_json::Result<ScanCommand>> {
        (any.type_url == SCAN_TYPE).then(|| ScanCommand::of_json(&any.value))
    }
}

/// What a node tells of a table with the splits of a scan, as JSON in `app_metadata`. Rows are told to who
/// asks for their count ([`crate::Select::is_count`]) alone: that is a read, and the log is told of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableFacts {
    /// [`crate::Table::known_rows`].
    pub known_rows: Option<u64>,
}

impl TableFacts {
    pub(super) fn to_bytes(self) -> Bytes {
        serde_json::to_vec(&self).unwrap_or_default().into()
    }

    /// Reads them; where nothing is told nothing is known.
    pub fn of_bytes(bytes: &[u8]) -> TableFacts {
        serde_json::from_slice(bytes).unwrap_or_default()
    }
}

/// How far a scan is: what goes along with each message of its batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Rows that were made, of which some may still be on the way.
    pub rows: u64,
    /// How many of them are deletions.
    #[serde(default)]
    pub deletions: u64,
    /// Empty values that became null.
    pub empty_values: u64,
    /// About how many bytes of SSTables were gone over, before compression.
    pub bytes_done: u64,
}

impl Progress {
    /// Where a scan is.
    pub(super) fn of(batches: &dyn Batches) -> Progress {
        let ScanCounts { rows, deletions, empty_values } = batches.counts();
        Progress { rows, deletions, empty_values, bytes_done: batches.bytes_done() }
    }

    pub(super) fn to_bytes(self) -> Bytes {
        serde_json::to_vec(&self).unwrap_or_default().into()
    }

    /// Reads it; `None` where a message has none.
    pub fn of_bytes(bytes: &[u8]) -> Option<Progress> {
        serde_json::from_slice(bytes).ok()
    }
}
