//! What a read cost: one value, filled by every layer that the read passes.

use crate::deadline::Deadline;
use crate::error::ReadError;
use crate::recorder::Recorder;
use model::key::KeyRange;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! cost {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counters of one read, shared by everything that works for it. Sources add to them in batches, not
        /// for each row.
        #[derive(Debug, Default)]
        pub struct ReadCost { $($(#[$doc])* pub $name: Counter),* }

        /// The counters of a [`ReadCost`] at one moment.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CostSnapshot { $($(#[$doc])* pub $name: u64),* }

        impl ReadCost {
            /// The counters as they stand.
            pub fn snapshot(&self) -> CostSnapshot {
                CostSnapshot { $($name: self.$name.get()),* }
            }
        }

        impl CostSnapshot {
            /// Adds another read's counters, or those of a part of this one.
            pub fn add(&mut self, other: &CostSnapshot) {
                $(self.$name = self.$name.saturating_add(other.$name);)*
            }

            /// Names and values in a fixed order, for tracing and logs.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }
        }
    };
}

/// A counter that only grows. Any thread may look at it; one at a time works for a read and adds, which so
/// needs no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

cost! {
    /// Memtables read.
    memtables,
    /// Partitions that the row cache had, as far as they were read.
    row_cache_hits,
    /// Partitions that were looked for in the row cache in vain.
    row_cache_misses,
    /// SSTables that were considered.
    sstables_considered,
    /// SSTables left out because their token range does not meet the command's.
    skipped_by_range,
    /// SSTables left out because their clusterings cannot match.
    skipped_by_clustering,
    /// SSTables left out by their bloom filter.
    skipped_by_bloom,
    /// SSTables left out because newer data had answered all.
    skipped_by_timestamp,
    /// SSTables that were read.
    sstables_read,
    /// SSTables whose bloom filter let a key pass that is not there.
    bloom_false_positives,
    /// Searches for a key in the index of an SSTable.
    index_lookups,
    /// Index pages found in the page cache.
    index_page_hits,
    /// Index pages read from the file.
    index_page_misses,
    /// Data chunks found in the page cache.
    chunk_hits,
    /// Data chunks read from the file.
    chunk_misses,
    /// Read calls to the file system.
    ios,
    /// Those of them that went around the system's cache.
    direct_ios,
    /// Those that were answered from a mapping of the file.
    mapped_ios,
    /// Bytes read from files.
    disk_bytes,
    /// Bytes that decompression made.
    decompressed_bytes,
    /// Rows that sources went over, live or not, before they are merged.
    rows_scanned,
    /// Cells in those rows.
    cells_scanned,
    /// Tombstones of all kinds that sources went over.
    tombstones_scanned,
    /// Rows that were live after the merge.
    rows_live,
    /// Live rows that the statement's filter refused.
    rows_filtered,
    /// Tombstones that were left after the merge.
    tombstones_left,
    /// Rows of the answer.
    rows_returned,
    /// Bytes of the answer's rows, as clients get them.
    returned_bytes,
}

/// What accompanies a read through the layers.
#[derive(Clone, Debug)]
pub struct ReadContext {
    /// Where the cost is counted.
    pub cost: Arc<ReadCost>,
    /// Whether the read may wait for the disk; otherwise the first page that is not resident ends it with
    /// [`crate::ReadError::WouldBlock`].
    pub may_block: bool,
    /// Bytes that a read may load and decompress although it may not block, from files that the system has in
    /// memory. More bytes than these, and pages that only the device has, end the read.
    pub at_once_bytes_max: u64,
    /// Rows of the longest answer of a read that may not block. Where more are expected, it ends with
    /// [`crate::ReadError::WouldBlock`] before it reads any.
    pub rows_max: u64,
    /// Bytes of that answer.
    pub bytes_max: u64,
    /// Whether pages that the read loads stay in the page cache, and the row cache takes part (compaction and
    /// bulk scans: no).
    pub fill_cache: bool,
    /// Whether index pages do so, too (tables that are cached with `keys: NONE`: no).
    pub fill_index_cache: bool,
    /// Whether all cells of columns that were not asked for come along, without their values. Otherwise those
    /// are left out that cannot matter here; where nodes compare their answers, they do.
    pub keeps_others: bool,
    /// Whether data is read that was found to be damaged in some places, for what is sound beside them.
    pub salvages: bool,
    /// The range of partitions that a read of a single partition belongs to. Such a read takes the rest of
    /// the partition in which the page before ended. `None` where there is no such range, or where not all
    /// rows of it are asked for.
    pub scan: Option<Arc<KeyRange>>,
    /// About how many rows will be taken from the stream. A source reads ahead for so many. [`u64::MAX`] for
    /// all.
    pub rows_wanted: u64,
    /// Who wants to know what each source did.
    pub recorder: Option<Arc<Recorder>>,
    /// When the read has to end. It is looked at before a page is loaded and between rows, but not at each of
    /// them.
    pub deadline: Option<Deadline>,
}

impl ReadContext {
    /// Whether the read may load any pages.
    #[inline]
    pub fn may_load(&self) -> bool {
        self.may_block || self.at_once_bytes_max > 0
    }

    /// Whether the read may load so many bytes more, if that need not wait for the device.
    pub fn may_load_at_once(&self, bytes: u64) -> bool {
        let so_far = self.cost.disk_bytes.get().saturating_add(self.cost.decompressed_bytes.get());
        so_far.saturating_add(bytes) <= self.at_once_bytes_max
    }

    /// Ends a read that has taken too long.
    ///
    /// # Errors
    /// [`ReadError::TimedOut`] when the deadline is over.
    #[inline]
    pub fn check_deadline(&self) -> Result<(), ReadError> {
        match &self.deadline {
            Some(deadline) if deadline.is_over() => Err(ReadError::TimedOut),
            _ => Ok(()),
        }
    }
}

impl Default for ReadContext {
    fn default() -> Self {
        ReadContext {
            cost: Arc::default(),
            may_block: true,
            at_once_bytes_max: 0,
            rows_max: u64::MAX,
            bytes_max: u64::MAX,
            fill_cache: true,
            fill_index_cache: true,
            keeps_others: false,
            salvages: false,
            scan: None,
            rows_wanted: u64::MAX,
            recorder: None,
            deadline: None,
        }
    }
}
