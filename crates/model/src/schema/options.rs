//! Table options of Cassandra 5.0, with its defaults.
//!
//! Options are kept as they were given (validated by the statement that gave them), so DESCRIBE and
//! system_schema show them again; accessors derive what the engine acts on.

use std::collections::BTreeMap;

const COMPACTION_PACKAGE: &str = "org.apache.cassandra.db.compaction.";
const COMPRESS_PACKAGE: &str = "org.apache.cassandra.io.compress.";

/// `caching`: `rows_per_partition`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsPerPartition {
    /// No row cache.
    None,
    /// The first rows of each partition.
    Some(u32),
    /// Whole partitions.
    All,
}

/// `caching`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachingOptions {
    /// Whether partition positions are cached.
    pub keys: bool,
    /// What the row cache keeps.
    pub rows_per_partition: RowsPerPartition,
}

impl CachingOptions {
    /// The option as a map, as system_schema holds it.
    pub fn to_map(self) -> BTreeMap<String, String> {
        let rows = match self.rows_per_partition {
            RowsPerPartition::None => "NONE".to_owned(),
            RowsPerPartition::All => "ALL".to_owned(),
            RowsPerPartition::Some(n) => n.to_string(),
        };
        let keys = if self.keys { "ALL" } else { "NONE" };
        BTreeMap::from([("keys".to_owned(), keys.to_owned()), ("rows_per_partition".to_owned(), rows)])
    }
}

/// `compaction`: the strategy's class (full Java name) and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Full class name.
    pub class: String,
    /// Everything but `class`.
    pub options: BTreeMap<String, String>,
}

impl CompactionOptions {
    /// The option as a map with `class`, as system_schema holds it.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let mut map = self.options.clone();
        map.insert("class".to_owned(), self.class.clone());
        map
    }

    /// Class name without Cassandra's package.
    pub fn short_class(&self) -> &str {
        self.class.strip_prefix(COMPACTION_PACKAGE).unwrap_or(&self.class)
    }

    /// Full class name of a short one.
    pub fn full_class(name: &str) -> String {
        if name.contains('.') { name.to_owned() } else { format!("{COMPACTION_PACKAGE}{name}") }
    }
}

/// `compression`: the compressor's class and options, or none.
#[derive(Clone, Debug, PartialEq)]
pub struct CompressionOptions {
    /// Full class name; `None` when SSTables are not compressed.
    pub class: Option<String>,
    /// KiB of data in each chunk, a power of two.
    pub chunk_length_kb: u32,
    /// A chunk that does not shrink by this factor is stored raw; 0 stores all chunks compressed.
    pub min_compress_ratio: f64,
    /// Options of the compressor (`compression_level`, ...).
    pub options: BTreeMap<String, String>,
}

impl CompressionOptions {
    /// The option as a map, as system_schema holds it.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let Some(class) = &self.class else {
            return BTreeMap::from([("enabled".to_owned(), "false".to_owned())]);
        };
        let mut map = self.options.clone();
        map.insert("class".to_owned(), class.clone());
        map.insert("chunk_length_in_kb".to_owned(), self.chunk_length_kb.to_string());
        if self.min_compress_ratio > 0.0 {
            map.insert("min_compress_ratio".to_owned(), format!("{:?}", self.min_compress_ratio));
        }
        map
    }

    /// Class name without Cassandra's package.
    pub fn short_class(&self) -> Option<&str> {
        self.class.as_deref().map(|c| c.strip_prefix(COMPRESS_PACKAGE).unwrap_or(c))
    }

    /// Full class name of a short one.
    pub fn full_class(name: &str) -> String {
        if name.contains('.') { name.to_owned() } else { format!("{COMPRESS_PACKAGE}{name}") }
    }
}

/// Options of a table.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct TableOptions {
    pub additional_write_policy: String,
    /// `None` where system_schema holds null (tables made before 5.0 and by default).
    pub allow_auto_snapshot: Option<bool>,
    pub bloom_filter_fp_chance: f64,
    pub caching: CachingOptions,
    /// `None` where system_schema holds null and nobody asked since.
    pub cdc: Option<bool>,
    pub comment: String,
    pub compaction: CompactionOptions,
    pub compression: CompressionOptions,
    /// Name of the memtable configuration; `None` for the default.
    pub memtable: Option<String>,
    pub crc_check_chance: f64,
    pub default_time_to_live: i32,
    pub extensions: BTreeMap<String, Vec<u8>>,
    pub gc_grace_seconds: i32,
    /// `None` where system_schema holds null.
    pub incremental_backups: Option<bool>,
    pub max_index_interval: i32,
    pub memtable_flush_period_in_ms: i32,
    pub min_index_interval: i32,
    /// `BLOCKING` or `NONE`.
    pub read_repair: String,
    pub speculative_retry: String,
}

impl Eq for TableOptions {}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            additional_write_policy: "99p".to_owned(),
            allow_auto_snapshot: None,
            bloom_filter_fp_chance: 0.01,
            caching: CachingOptions { keys: true, rows_per_partition: RowsPerPartition::None },
            cdc: None,
            comment: String::new(),
            compaction: CompactionOptions {
                class: CompactionOptions::full_class("SizeTieredCompactionStrategy"),
                options: BTreeMap::from([
                    ("max_threshold".to_owned(), "32".to_owned()),
                    ("min_threshold".to_owned(), "4".to_owned()),
                ]),
            },
            compression: CompressionOptions {
                class: Some(CompressionOptions::full_class("LZ4Compressor")),
                chunk_length_kb: 16,
                min_compress_ratio: 0.0,
                options: BTreeMap::new(),
            },
            memtable: None,
            crc_check_chance: 1.0,
            default_time_to_live: 0,
            extensions: BTreeMap::new(),
            gc_grace_seconds: 864_000,
            incremental_backups: None,
            max_index_interval: 2048,
            memtable_flush_period_in_ms: 0,
            min_index_interval: 128,
            read_repair: "BLOCKING".to_owned(),
            speculative_retry: "99p".to_owned(),
        }
    }
}
