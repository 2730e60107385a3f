//! Where data lies: nodes, directories, SSTables, tokens.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Answer of `/partition`: where a partition lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionPlace {
    /// Addresses of the nodes that have it.
    pub endpoints: Vec<String>,
    /// The Data.db of each SSTable of this node that has it.
    pub sstables: Vec<PathBuf>,
    /// The level of each of them, of a table that has levels; none otherwise.
    #[serde(default)]
    pub levels: Vec<i32>,
}

/// The directories of a table: an item of `/directories`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableDirectories {
    /// Keyspace.
    pub keyspace: String,
    /// Table.
    pub table: String,
    /// Its directories.
    pub directories: Vec<PathBuf>,
}

/// Answer of `/ring/sample`: tokens of partitions that are there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenSample {
    /// Tokens, as decimal numbers.
    pub tokens: Vec<String>,
}
