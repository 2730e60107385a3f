//! Results of replayed queries, as lines of JSON: what `fqltool compare` compares.
//!
//! ```text
//! {"query":0,"columns":[["k","int"],["v","text"]]}     or "failed":"why", or no columns where there are none
//! {"row":["00000007","6f6e65"]}                        values in hexadecimal; null for none
//! {"broken":"why"}                                     the answer ended there
//! {"query":1}
//! ```
//! The lines of a query stand in the order of its answer. `query` counts the queries that were replayed.

use serde::{Deserialize, Serialize};

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Line {
    /// What a query begins with.
    Query {
        query: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        columns: Option<Vec<(String, String)>>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failed: Option<String>,
    },
    /// A row of it.
    Row { row: Vec<Option<String>> },
    /// Why there are no more rows of it.
    Broken { broken: String },
}

/// Bytes as a line has them.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String does not fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}
