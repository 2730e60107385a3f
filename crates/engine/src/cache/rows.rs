//! The row cache: the first rows of partitions, as the SSTables of a table hold them together.
//!
//! ```text
//! CachedRows  of a table, while its schema is what it is, as a view of the table holds it
//!   id ──────────┐
//! RowCache   (id, key) -> PartitionHead { static row, deletions, the first rows; end; number of the view }
//! ```
//!
//! What is in memtables is merged with a [`PartitionHead`] at each read. So a write leaves a cached partition
//! as it is, and invalidates nothing before it is acknowledged. What has to be watched is the set of
//! SSTables:
//!
//! 1. **Flush.** The memtable leaves the view in two steps. First its SSTable is added, while reads that use
//!    the cache go on merging the memtable (`TableView::settling`); then the heads of its partitions are
//!    taken out; then it goes. A reader takes its view before it looks a head up, so it either merges the
//!    memtable or finds no head from before.
//! 2. **Insertion.** A head is put in only if the set of SSTables is still the one that it was read from,
//!    which is looked at under the lock that taking it out needs. So a head that was read before a flush and
//!    comes after it stays out.
//! 3. **Compaction** changes the files and not what they say, but that it drops what need not be remembered
//!    any more. A head that holds such a thing counts only while the set of SSTables is the one that it was
//!    read from.
//! 4. **Everything else** (a truncation, an import, a change of the table's definition, its end) gives the
//!    view another [`CachedRows`], whose id no head has.
//!
//! A head that is newer than a reader's view is not used: the reader could see a part of an update.

use super::CacheStats;
use super::tiny_lfu::{TinyLfu, Usage};
use crate::memtable::FrozenPartition;
use arc_swap::ArcSwapOption;
use env::sync::Mutex;
use foldhash::fast::FixedState;
use model::schema::RowsPerPartition;
use model::{Clustering, DecoratedKey, PartitionKey, TableSchema};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size of a small head, from which the largest number of heads is estimated.
const HEAD_BYTES_MIN: u64 = 1 << 10;
/// Bytes that a head costs besides its content: key, queue entry, the head itself.
const HEAD_OVERHEAD_BYTES: u64 = 320;

/// Which partition of which table, at which time.
type HeadKey = (u64, DecoratedKey);
type Heads = TinyLfu<HeadKey, Arc<PartitionHead>, FixedState>;

/// The beginning of a partition, merged from SSTables.
#[derive(Debug)]
pub(crate) struct PartitionHead {
    /// What it holds.
    pub partition: FrozenPartition,
    /// The last row; `None` when the partition is whole.
    pub end: Option<Clustering>,
    /// Number of the set of SSTables that it was read from.
    pub sstable_set: u64,
}

/// One cache for the tables that ask for it. Without a capacity it keeps nothing and costs nothing.
pub struct RowCache {
    heads: ArcSwapOption<Heads>,
    misses: AtomicU64,
    /// Heads that are being made.
    making: Mutex<HashSet<HeadKey>>,
    /// Counters of the time before the capacity changed.
    before: Mutex<Usage>,
    last_id: AtomicU64,
}

impl RowCache {
    /// A cache of at most `capacity_bytes`.
    pub fn new(capacity_bytes: u64) -> RowCache {
        RowCache {
            heads: ArcSwapOption::new(heads_of(capacity_bytes)),
            misses: AtomicU64::new(0),
            making: Mutex::default(),
            before: Mutex::default(),
            last_id: AtomicU64::new(0),
        }
    }

    /// Gives it another capacity. It goes on with what it holds, as far as there is room; without a capacity
    /// nothing is kept.
    pub fn set_capacity(&self, capacity_bytes: u64) {
        let mut before = self.before.lock();
        if let Some(heads) = self.heads.load().as_ref().filter(|_| capacity_bytes > 0) {
            heads.set_capacity(capacity_bytes);
            return;
        }
        if let Some(old) = self.heads.swap(heads_of(capacity_bytes)) {
            let usage = old.usage();
            before.hits += usage.hits;
            before.insertions += usage.insertions;
            before.evictions += usage.evictions;
        }
    }

    /// Empties the cache.
    pub fn clear(&self) {
        if let Some(heads) = &*self.heads.load() {
            heads.clear();
        }
    }

    /// Numbers for metrics.
    pub fn stats(&self) -> CacheStats {
        let before = *self.before.lock();
        let now = self.heads.load().as_ref().map_or_else(Usage::default, |heads| heads.usage());
        let usage = Usage {
            hits: before.hits + now.hits,
            insertions: before.insertions + now.insertions,
            evictions: before.evictions + now.evictions,
            ..now
        };
        CacheStats::new(&usage, self.misses.load(Ordering::Relaxed))
    }

    /// The place of a table's heads, all of them still to come; `None` when it wants none.
    pub(crate) fn of_table(self: &Arc<Self>, table: &Arc<TableSchema>) -> Option<Arc<CachedRows>> {
        let rows = match table.options.caching.rows_per_partition {
            RowsPerPartition::None | RowsPerPartition::Some(0) => return None,
            RowsPerPartition::Some(rows) if !table.clustering_columns().is_empty() => u64::from(rows),
            RowsPerPartition::Some(_) | RowsPerPartition::All => u64::MAX,
        };
        Some(Arc::new(CachedRows {
            cache: Arc::clone(self),
            id: self.last_id.fetch_add(1, Ordering::Relaxed),
            table: Arc::clone(table),
            rows,
            sstable_set: AtomicU64::new(0),
        }))
    }
}

fn heads_of(capacity_bytes: u64) -> Option<Arc<Heads>> {
    (capacity_bytes > 0)
        .then(|| Arc::new(TinyLfu::new(capacity_bytes, HEAD_BYTES_MIN, FixedState::default())))
}

impl fmt::Debug for RowCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RowCache").field("stats", &self.stats()).finish()
    }
}

/// Where the heads of one table are. Those of another one, or of the table before it changed, are out of
/// reach.
#[derive(Debug)]
pub(crate) struct CachedRows {
    cache: Arc<RowCache>,
    id: u64,
    /// The definition by which the heads were decoded.
    table: Arc<TableSchema>,
    /// Live rows of a head.
    rows: u64,
    /// Number of the newest set of SSTables.
    sstable_set: AtomicU64,
}

impl CachedRows {
    /// Whether heads of this definition are kept.
    pub fn keeps(&self, table: &Arc<TableSchema>) -> bool {
        Arc::ptr_eq(&self.table, table) && self.cache.heads.load().is_some()
    }

    /// Whether whole partitions are kept, as far as there is room.
    pub fn is_whole(&self) -> bool {
        self.rows == u64::MAX
    }

    /// Live rows of a head.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of a head, at most.
    pub fn head_bytes_max(&self) -> u64 {
        self.cache
            .heads
            .load()
            .as_ref()
            .map_or(0, |heads| heads.weight_max().saturating_sub(HEAD_OVERHEAD_BYTES))
    }

    /// The head of a partition that counts for a reader whose view has the given set of SSTables.
    ///
    /// # Errors
    /// There is one that is newer than the reader's view.
    pub fn head(
        &self,
        key: &DecoratedKey,
        sstable_set: u64,
        now_s: u32,
    ) -> Result<Option<Arc<PartitionHead>>, Newer> {
        let heads = self.cache.heads.load();
        let Some(head) = heads.as_ref().and_then(|heads| heads.get(&(self.id, key.clone()))) else {
            return Ok(None);
        };
        if head.sstable_set > sstable_set {
            return Err(Newer);
        }
        let grace_s = u32::try_from(self.table.options.gc_grace_seconds).unwrap_or(0);
        let may_be_forgotten = head.partition.min_local_deletion_time() < now_s.saturating_sub(grace_s);
        Ok((head.sstable_set == sstable_set || !may_be_forgotten).then_some(head))
    }

    /// Notes that a head was looked for in vain.
    pub fn count_miss(&self) {
        self.cache.misses.fetch_add(1, Ordering::Relaxed);
    }

    /// The right to make a partition's head, for one at a time; `None` while somebody else has it.
    pub fn make(&self, key: &DecoratedKey) -> Option<Making<'_>> {
        let key = (self.id, key.clone());
        self.cache.making.lock().insert(key.clone()).then(|| Making { cache: &self.cache, key })
    }

    /// Puts a head in, unless the SSTables are not those any more that it was read from.
    pub fn keep(&self, key: &DecoratedKey, head: &Arc<PartitionHead>) {
        if let Some(heads) = &*self.cache.heads.load() {
            // The key may be a part of a larger buffer.
            let bytes = bytes::Bytes::copy_from_slice(&key.key.0);
            let weight = head.partition.bytes() + bytes.len() as u64 + HEAD_OVERHEAD_BYTES;
            let key = DecoratedKey { token: key.token, key: PartitionKey(bytes) };
            let is_good = || self.sstable_set.load(Ordering::Acquire) == head.sstable_set;
            heads.insert_if((self.id, key), Arc::clone(head), weight, 1, is_good);
        }
    }

    /// The view has another set of SSTables from now on, or will have in a moment.
    pub fn set_sstable_set(&self, number: u64) {
        self.sstable_set.store(number, Ordering::Release);
    }

    /// Takes out the heads of these partitions.
    pub fn forget(&self, keys: impl Iterator<Item = DecoratedKey>) {
        if let Some(heads) = self.cache.heads.load().as_ref().filter(|heads| !heads.is_empty()) {
            keys.for_each(|key| heads.remove(&(self.id, key)));
        }
    }

    /// A place for heads of the same table that knows none of these.
    pub fn renewed(&self) -> Option<Arc<CachedRows>> {
        self.cache.of_table(&self.table)
    }
}

impl Drop for CachedRows {
    /// No view has it any more: its heads can never be found again.
    fn drop(&mut self) {
        if let Some(heads) = self.cache.heads.load().as_ref().filter(|heads| !heads.is_empty()) {
            heads.retain(|(id, _)| *id != self.id);
        }
    }
}

/// Somebody makes a head, as long as this is there.
#[derive(Debug)]
pub(crate) struct Making<'c> {
    cache: &'c RowCache,
    key: HeadKey,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.cache.making.lock().remove(&self.key);
    }
}

/// A head is newer than the view of who looked it up.
#[derive(Debug)]
pub(crate) struct Newer;
