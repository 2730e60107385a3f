//! The page cache and the row cache.

use serde::{Deserialize, Serialize};

/// The numbers of a cache. Its entries are pages (page cache), or heads of partitions (row cache).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheReport {
    /// Bytes that it may hold.
    pub capacity_bytes: u64,
    /// Bytes that it holds.
    pub used_bytes: u64,
    /// Entries that it holds.
    pub entries: u64,
    /// Entries found.
    pub hits: u64,
    /// Entries not found.
    pub misses: u64,
    /// Entries put in.
    pub insertions: u64,
    /// Entries that made room for others.
    pub evictions: u64,
}

/// What can be dropped from memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Pages of indexes: what stands for Cassandra's key cache.
    Keys,
    /// The whole page cache, index and data.
    Pages,
    /// The row cache.
    Rows,
    /// What roles may do, with what they inherit.
    Roles,
    /// Hashes of passwords.
    Credentials,
    /// The networks from which roles may come.
    Cidrs,
}

/// Question to `POST /caches/invalidate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InvalidateCache {
    /// What is dropped.
    pub cache: CacheKind,
    /// Of these roles alone, where it is about credentials; of all where there is none.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// Question to `PUT /caches/capacity`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheCapacity {
    /// MiB of the row cache; 0 turns it off.
    pub rows_mebibytes: u64,
}
