//! Memtables: the newest writes of one table, in memory, in the order of the disk.
//!
//! ```text
//! Memtable   Partitions: DecoratedKey -> MemPartition, B-trees of parts of the ring
//! partition  Mutex { deletion, static row, rows (a persistent set, or one), persistent set of range deletions }
//! ```
//!
//! 1. [`Memtable::apply`] changes one partition under its lock; a reader takes the whole state in O(1) under
//!    the same lock, so it sees an update whole or not at all, and works on that snapshot without holding
//!    anything.
//! 2. Values are copied into buffers of the memtable's own: a row never pins the network frame it came in.
//! 3. Range deletions are kept resolved: they do not overlap, and at each position the newest stands
//!    ([`ranges`]).
//! 4. Writers of a memtable that is about to be flushed finish before it is read: the engine's barrier sees
//!    to that. Nothing changes a memtable afterwards.

mod frozen;
mod ordered;
mod partition;
mod partitions;
mod ranges;
mod rows;
mod stream;
#[cfg(test)]
mod tests;

pub(crate) use frozen::FrozenPartition;
pub use stream::MemtableStream;

use crate::commitlog::LogPosition;
use ::partition::ReadContext;
use model::command::ClusteringFilter;
use model::key::KeyRange;
use model::{
    Cell, DecoratedKey, Deletion, Liveness, NO_DELETION_TIME, NO_TIMESTAMP, PartitionUpdate, Row, TableSchema,
};
use partition::Growth;
use partitions::Partitions;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Memory of a partition besides its content: its place among the others, the locks, the roots of the trees.
const PARTITION_OVERHEAD_BYTES: u64 = 320;

/// Bytes that the times of a partition count for in the data of a memtable.
const PARTITION_TIMES_BYTES: u64 = 24;

/// The newest writes of one table. See the top of the module.
#[derive(Debug)]
pub struct Memtable {
    partitions: Partitions,
    /// Everything up to here was written before the memtable existed.
    start: LogPosition,
    bytes: AtomicU64,
    data_bytes: AtomicU64,
    operations: AtomicU64,
    created_nanos: u64,
    min_timestamp: AtomicI64,
    max_timestamp: AtomicI64,
    min_local_deletion_time: AtomicU32,
    min_ttl: AtomicI32,
}

/// The smallest values of everything a memtable holds: the base of an SSTable's delta encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Minima {
    /// Microseconds; `None` when nothing has a timestamp.
    pub timestamp: Option<i64>,
    /// Seconds; `None` when nothing is deleted or expires.
    pub local_deletion_time: Option<u32>,
    /// Seconds; `None` when nothing expires.
    pub ttl: Option<i32>,
}

impl Memtable {
    /// An empty memtable for writes after `start`; `now_nanos` is monotonic time.
    pub fn new(start: LogPosition, now_nanos: u64) -> Memtable {
        Memtable {
            partitions: Partitions::new(),
            start,
            bytes: AtomicU64::new(0),
            data_bytes: AtomicU64::new(0),
            operations: AtomicU64::new(0),
            created_nanos: now_nanos,
            min_timestamp: AtomicI64::new(i64::MAX),
            max_timestamp: AtomicI64::new(i64::MIN),
            min_local_deletion_time: AtomicU32::new(NO_DELETION_TIME),
            min_ttl: AtomicI32::new(i32::MAX),
        }
    }

    /// Applies an update, whole, and returns by how many bytes the memtable grew.
    pub fn apply(&self, update: &PartitionUpdate) -> u64 {
        self.observe(update);
        let (partition, is_new) = self.partitions.get_or_add(&update.key);
        let mut grown = partition.apply(update);
        if is_new {
            let key_bytes = update.key.key.0.len() as u64;
            grown += Growth {
                memory_bytes: PARTITION_OVERHEAD_BYTES + key_bytes,
                data_bytes: PARTITION_TIMES_BYTES + key_bytes,
            };
        }
        self.bytes.fetch_add(grown.memory_bytes, Ordering::Relaxed);
        self.data_bytes.fetch_add(grown.data_bytes, Ordering::Relaxed);
        self.operations.fetch_add(operations(update), Ordering::Relaxed);
        grown.memory_bytes
    }

    fn observe(&self, update: &PartitionUpdate) {
        let mut seen = Extremes::default();
        seen.deletion(&update.deletion);
        for row in update.static_row.iter().chain(&update.rows) {
            seen.row(row);
        }
        for range in &update.range_tombstones {
            seen.deletion(&range.deletion);
        }
        self.min_timestamp.fetch_min(seen.min_timestamp, Ordering::Relaxed);
        self.max_timestamp.fetch_max(seen.max_timestamp, Ordering::Relaxed);
        self.min_local_deletion_time.fetch_min(seen.min_local_deletion_time, Ordering::Relaxed);
        self.min_ttl.fetch_min(seen.min_ttl, Ordering::Relaxed);
    }

    /// Frees what it holds, and calls `pause` after each piece of that work: all at once it is tens of
    /// milliseconds of computing for each 100,000 rows.
    pub fn free(mut self, pause: impl FnMut()) {
        self.partitions.free(pause);
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.partitions.len() == 0
    }

    /// Number of partitions.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }

    /// Estimated memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of keys, clusterings, values and times, without what holds them.
    pub fn data_bytes(&self) -> u64 {
        self.data_bytes.load(Ordering::Relaxed)
    }

    /// Number of rows written and of partitions and ranges deleted: what Cassandra calls its cell count.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// The commit log position after which its writes begin.
    pub fn start(&self) -> LogPosition {
        self.start
    }

    /// Monotonic time at which it was made, in nanoseconds.
    pub fn created_nanos(&self) -> u64 {
        self.created_nanos
    }

    /// Newest timestamp of anything in it, in microseconds; `NO_TIMESTAMP` when empty.
    pub fn max_timestamp(&self) -> i64 {
        self.max_timestamp.load(Ordering::Relaxed)
    }

    /// The base for delta encoding.
    pub fn minima(&self) -> Minima {
        let timestamp = self.min_timestamp.load(Ordering::Relaxed);
        let ldt = self.min_local_deletion_time.load(Ordering::Relaxed);
        let ttl = self.min_ttl.load(Ordering::Relaxed);
        Minima {
            timestamp: (timestamp != i64::MAX).then_some(timestamp),
            local_deletion_time: (ldt != NO_DELETION_TIME).then_some(ldt),
            ttl: (ttl != i32::MAX).then_some(ttl),
        }
    }

    /// Whether it has something of a partition.
    pub fn contains(&self, key: &DecoratedKey) -> bool {
        self.partitions.get(key).is_some()
    }

    /// The keys of its partitions.
    pub fn keys(&self) -> impl Iterator<Item = DecoratedKey> {
        let next = |key: &DecoratedKey| self.partitions.first_from(Bound::Excluded(key));
        let first = self.partitions.first_from(Bound::Unbounded);
        std::iter::successors(first, move |(key, _)| next(key)).map(|(key, _)| key)
    }

    /// A stream of one partition; `None` when the memtable has nothing of it.
    pub fn read(
        self: &Arc<Self>,
        table: &Arc<TableSchema>,
        key: &DecoratedKey,
        filter: &ClusteringFilter,
        ctx: &ReadContext,
    ) -> Option<MemtableStream> {
        let partition = self.partitions.get(key)?;
        ctx.cost.memtables.add(1);
        Some(MemtableStream::of_partition(table, key.clone(), partition.snapshot(), filter, ctx))
    }

    /// A stream of the partitions of `range`.
    pub fn scan(
        self: &Arc<Self>,
        table: &Arc<TableSchema>,
        range: KeyRange,
        filter: &ClusteringFilter,
        ctx: &ReadContext,
    ) -> MemtableStream {
        ctx.cost.memtables.add(1);
        MemtableStream::of_range(table, Arc::clone(self), range, filter, ctx)
    }
}

/// As `PartitionUpdate.operationCount` in Cassandra.
fn operations(update: &PartitionUpdate) -> u64 {
    let deletes = usize::from(!update.deletion.is_none()) + update.range_tombstones.len();
    (deletes + usize::from(update.static_row.is_some()) + update.rows.len()) as u64
}

/// Smallest and largest values of an update.
#[derive(Debug)]
struct Extremes {
    min_timestamp: i64,
    max_timestamp: i64,
    min_local_deletion_time: u32,
    min_ttl: i32,
}

impl Default for Extremes {
    fn default() -> Self {
        Extremes {
            min_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
            min_local_deletion_time: NO_DELETION_TIME,
            min_ttl: i32::MAX,
        }
    }
}

impl Extremes {
    fn timestamp(&mut self, timestamp: i64) {
        if timestamp != NO_TIMESTAMP {
            self.min_timestamp = self.min_timestamp.min(timestamp);
            self.max_timestamp = self.max_timestamp.max(timestamp);
        }
    }

    fn expiry(&mut self, ttl: i32, local_deletion_time: u32) {
        self.min_local_deletion_time = self.min_local_deletion_time.min(local_deletion_time);
        if ttl != model::NO_TTL {
            self.min_ttl = self.min_ttl.min(ttl);
        }
    }

    fn deletion(&mut self, deletion: &Deletion) {
        if !deletion.is_none() {
            self.timestamp(deletion.timestamp);
            self.expiry(model::NO_TTL, deletion.local_deletion_time);
        }
    }

    fn row(&mut self, row: &Row) {
        let Liveness { timestamp, ttl, local_expiration_time } = row.liveness;
        self.timestamp(timestamp);
        self.expiry(ttl, local_expiration_time);
        self.deletion(&row.deletion);
        for (_, deletion) in &row.complex_deletions {
            self.deletion(deletion);
        }
        for Cell { timestamp, ttl, local_deletion_time, .. } in &row.cells {
            self.timestamp(*timestamp);
            self.expiry(*ttl, *local_deletion_time);
        }
    }
}
