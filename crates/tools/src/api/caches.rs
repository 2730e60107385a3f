//! The page cache and the row cache.

use serde::{Deserialize, Serialize};

/// The page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheStats {
    /// Bytes that it may hold.
    pub capacity_bytes: u64,
    /// Bytes that it holds.
    pub used_bytes: u64,
    /// Pages that it holds.
    pub entries: u64,
    /// Pages found.
    pub hits: u64,
    /// Pages read from disk.
    pub misses: u64,
    /// Pages put in.
    pub insertions: u64,
    /// Pages that made room for others.
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
}

/// Question to `POST /caches/invalidate`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct InvalidateCache {
    /// What is dropped.
    pub cache: CacheKind,
}

/// Question to `PUT /caches/capacity`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheCapacity {
    /// MiB of the row cache; 0 turns it off.
    pub rows_mebibytes: u64,
}
