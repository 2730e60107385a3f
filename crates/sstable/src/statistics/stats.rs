//! The STATS component (docs/formats/sstable-nb.md, formats `na` and `nb`).
//!
//! ```text
//! histogram partition sizes | histogram cells of partitions | i64,i32 commit log upper bound
//! | i64 min, max timestamp | i32 min, max local deletion time | i32 min, max ttl | f64 compression ratio
//! | tombstone histogram | i32 level | i64 repaired at | i32 n, n * sbytes min clustering | the same for max
//! | bool legacy counters | i64 columns set | i64 rows | i64,i32 commit log lower bound
//! | i32 n, n * { i64,i32 start, i64,i32 end } commit log intervals
//! | u8 [uuid] pending repair | bool transient | u8 [uuid] host id (not in `na`)
//! ```

use super::{EstimatedHistogram, TombstoneHistogram};
use crate::descriptor::Version;
use bytes::Bytes;
use model::{Clustering, ClusteringBound, ClusteringComparator, Component, NO_DELETION_TIME, Slice};
use partition::codec::{DecodeError, Input, SliceInput};
use std::cmp::Ordering;
use uuid::Uuid;

/// A place in the commit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitLogPosition {
    /// Id of the segment.
    pub segment: i64,
    /// Bytes from the segment's start.
    pub offset: i32,
}

impl CommitLogPosition {
    /// Before everything: the SSTable did not come from the commit log.
    pub const NONE: CommitLogPosition = CommitLogPosition { segment: -1, offset: 0 };

    fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.segment.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
    }

    fn decode(input: &mut SliceInput) -> Result<Self, DecodeError> {
        Ok(CommitLogPosition { segment: input.i64()?, offset: input.i32()? })
    }
}

/// What is known about the rows of an SSTable.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Bytes of partitions before compression.
    pub partition_sizes: EstimatedHistogram,
    /// Cells of partitions.
    pub cells_per_partition: EstimatedHistogram,
    /// Parts of the commit log that the SSTable holds, so that they need not be replayed for its table.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    /// Smallest timestamp, microseconds.
    pub min_timestamp: i64,
    /// Largest timestamp, microseconds.
    pub max_timestamp: i64,
    /// Smallest local deletion time, seconds; none when nothing is deleted or expires.
    pub min_local_deletion_time: u32,
    /// Largest local deletion time, seconds; none when anything neither is deleted nor expires.
    pub max_local_deletion_time: u32,
    /// Smallest TTL, seconds.
    pub min_ttl: i32,
    /// Largest TTL, seconds.
    pub max_ttl: i32,
    /// Compressed by uncompressed length; -1 when not compressed.
    pub compression_ratio: f64,
    /// When what is deleted may be dropped.
    pub tombstones: TombstoneHistogram,
    /// Level in leveled compaction.
    pub level: i32,
    /// Milliseconds at which the data was repaired; 0 when it was not.
    pub repaired_at_ms: i64,
    /// No clustering sorts before these first values.
    pub min_clustering: Vec<Bytes>,
    /// No clustering sorts after these first values.
    pub max_clustering: Vec<Bytes>,
    /// Whether counters have shards of old releases.
    pub has_legacy_counter_shards: bool,
    /// Number of columns that rows have, summed over rows.
    pub total_columns_set: i64,
    /// Number of rows.
    pub total_rows: i64,
    /// The repair session that the SSTable takes part in.
    pub pending_repair: Option<Uuid>,
    /// Whether the data is of a transient replica.
    pub is_transient: bool,
    /// The node that wrote the SSTable: `commit_log_intervals` speak of its commit log.
    pub host_id: Option<Uuid>,
}

impl Stats {
    /// Whether there may be any tombstone or anything that expires.
    pub fn may_have_tombstones(&self) -> bool {
        self.min_local_deletion_time != NO_DELETION_TIME
    }

    /// Whether rows or range tombstones can lie inside one of `slices`. Partition deletions and static rows are
    /// outside of clusterings: see [`Stats::may_have_tombstones`].
    pub fn overlaps_clusterings(&self, slices: &[Slice], comparator: &ClusteringComparator) -> bool {
        let prefix = |values: &[Bytes]| Clustering::from_values(values.iter().map(|v| v.as_ref()));
        let covered = Slice {
            start: ClusteringBound::start_at(prefix(&self.min_clustering)),
            end: ClusteringBound::end_at(prefix(&self.max_clustering)),
        };
        let before = |a: &ClusteringBound, b: &ClusteringBound| {
            comparator.compare_positions(a.position(), b.position()) == Ordering::Less
        };
        slices.iter().any(|s| before(&s.start, &covered.end) && before(&covered.start, &s.end))
    }

    pub(super) fn encode(&self, version: Version) -> Vec<u8> {
        let mut out = Vec::with_capacity(5 << 10);
        let bounds = |pick: fn(&(CommitLogPosition, CommitLogPosition)) -> CommitLogPosition| {
            self.commit_log_intervals.iter().map(pick)
        };
        let upper = bounds(|i| i.1).max().unwrap_or(CommitLogPosition::NONE);
        let lower = bounds(|i| i.0).min().unwrap_or(CommitLogPosition::NONE);
        self.partition_sizes.encode(&mut out);
        self.cells_per_partition.encode(&mut out);
        upper.encode(&mut out);
        out.extend_from_slice(&self.min_timestamp.to_be_bytes());
        out.extend_from_slice(&self.max_timestamp.to_be_bytes());
        out.extend_from_slice(&to_disk(self.min_local_deletion_time).to_be_bytes());
        out.extend_from_slice(&to_disk(self.max_local_deletion_time).to_be_bytes());
        out.extend_from_slice(&self.min_ttl.to_be_bytes());
        out.extend_from_slice(&self.max_ttl.to_be_bytes());
        out.extend_from_slice(&self.compression_ratio.to_be_bytes());
        self.tombstones.encode(&mut out);
        out.extend_from_slice(&self.level.to_be_bytes());
        out.extend_from_slice(&self.repaired_at_ms.to_be_bytes());
        encode_values(&mut out, &self.min_clustering);
        encode_values(&mut out, &self.max_clustering);
        out.push(self.has_legacy_counter_shards as u8);
        out.extend_from_slice(&self.total_columns_set.to_be_bytes());
        out.extend_from_slice(&self.total_rows.to_be_bytes());
        lower.encode(&mut out);
        out.extend_from_slice(&(self.commit_log_intervals.len() as i32).to_be_bytes());
        for (start, end) in &self.commit_log_intervals {
            start.encode(&mut out);
            end.encode(&mut out);
        }
        encode_uuid(&mut out, self.pending_repair);
        out.push(self.is_transient as u8);
        if version.has_host_id() {
            encode_uuid(&mut out, self.host_id);
        }
        out
    }

    pub(super) fn decode(input: &mut SliceInput, version: Version) -> Result<Stats, DecodeError> {
        let partition_sizes = EstimatedHistogram::decode(input)?;
        let cells_per_partition = EstimatedHistogram::decode(input)?;
        CommitLogPosition::decode(input)?;
        let (min_timestamp, max_timestamp) = (input.i64()?, input.i64()?);
        let (min_local, max_local) = (from_disk(input.i32()?), from_disk(input.i32()?));
        let (min_ttl, max_ttl) = (input.i32()?, input.i32()?);
        let compression_ratio = input.f64()?;
        let tombstones = TombstoneHistogram::decode(input)?;
        let level = input.i32()?;
        let repaired_at_ms = input.i64()?;
        let (min_clustering, max_clustering) = (decode_values(input)?, decode_values(input)?);
        let has_legacy_counter_shards = input.u8()? != 0;
        let (total_columns_set, total_rows) = (input.i64()?, input.i64()?);
        CommitLogPosition::decode(input)?;
        let count = input.i32()?;
        if count < 0 || count as usize * 24 > input.remaining() {
            return Err(input.malformed(format!("{count} commit log intervals")));
        }
        let mut commit_log_intervals = Vec::new();
        for _ in 0..count {
            commit_log_intervals.push((CommitLogPosition::decode(input)?, CommitLogPosition::decode(input)?));
        }
        let pending_repair = decode_uuid(input)?;
        let is_transient = input.u8()? != 0;
        Ok(Stats {
            partition_sizes,
            cells_per_partition,
            commit_log_intervals,
            min_timestamp,
            max_timestamp,
            min_local_deletion_time: min_local,
            max_local_deletion_time: max_local,
            min_ttl,
            max_ttl,
            compression_ratio,
            tombstones,
            level,
            repaired_at_ms,
            min_clustering,
            max_clustering,
            has_legacy_counter_shards,
            total_columns_set,
            total_rows,
            pending_repair,
            is_transient,
            host_id: if version.has_host_id() { decode_uuid(input)? } else { None },
        })
    }
}

fn to_disk(seconds: u32) -> i32 {
    if seconds == NO_DELETION_TIME { i32::MAX } else { seconds.min(i32::MAX as u32 - 1) as i32 }
}

/// A negative time comes from an overflow in old releases; the latest time is the safe reading of a maximum and
/// "may have tombstones" that of a minimum.
fn from_disk(seconds: i32) -> u32 {
    match seconds {
        i32::MAX => NO_DELETION_TIME,
        0.. => seconds as u32,
        _ => i32::MAX as u32 - 1,
    }
}

fn encode_values(out: &mut Vec<u8>, values: &[Bytes]) {
    out.extend_from_slice(&(values.len() as i32).to_be_bytes());
    for value in values {
        out.extend_from_slice(&(value.len() as u16).to_be_bytes());
        out.extend_from_slice(value);
    }
}

fn decode_values(input: &mut SliceInput) -> Result<Vec<Bytes>, DecodeError> {
    let count = input.i32()?;
    if count < 0 || count as usize * 2 > input.remaining() {
        return Err(input.malformed(format!("{count} clustering values")));
    }
    let mut out = Vec::new();
    for _ in 0..count {
        let len = input.u16()?;
        out.push(input.bytes(len as u64)?);
    }
    Ok(out)
}

fn encode_uuid(out: &mut Vec<u8>, id: Option<Uuid>) {
    out.push(id.is_some() as u8);
    if let Some(id) = id {
        out.extend_from_slice(id.as_bytes());
    }
}

fn decode_uuid(input: &mut SliceInput) -> Result<Option<Uuid>, DecodeError> {
    Ok(match input.u8()? {
        0 => None,
        _ => Some(Uuid::from_bytes(input.array()?)),
    })
}

/// Smallest and largest value of each clustering column over all positions, cut to the columns that every position
/// has: right for readers that compare whole prefixes and for those that compare column by column.
#[derive(Debug, Default)]
pub(super) struct ClusteringRange {
    seen: bool,
    min: Vec<Vec<u8>>,
    max: Vec<Vec<u8>>,
}

impl ClusteringRange {
    pub fn add(&mut self, prefix: &Clustering, comparator: &ClusteringComparator) {
        let known =
            prefix.iter().take_while(|c| matches!(c, Component::Value(v) if v.len() <= u16::MAX as usize));
        let known = known.count();
        if !self.seen {
            self.seen = true;
            let values = || prefix.iter().take(known).filter_map(value).map(<[u8]>::to_vec);
            (self.min, self.max) = (values().collect(), values().collect());
            return;
        }
        self.min.truncate(known);
        self.max.truncate(known);
        for (i, (min, max)) in self.min.iter_mut().zip(&mut self.max).enumerate() {
            let here = prefix.get(i);
            let Component::Value(bytes) = here else { continue };
            if comparator.compare_component(i, here, Component::Value(min)) == Ordering::Less {
                min.clear();
                min.extend_from_slice(bytes);
            } else if comparator.compare_component(i, here, Component::Value(max)) == Ordering::Greater {
                max.clear();
                max.extend_from_slice(bytes);
            }
        }
    }

    pub fn finish(self) -> (Vec<Bytes>, Vec<Bytes>) {
        let bytes = |values: Vec<Vec<u8>>| values.into_iter().map(Bytes::from).collect();
        (bytes(self.min), bytes(self.max))
    }
}

fn value(component: Component<'_>) -> Option<&[u8]> {
    match component {
        Component::Value(value) => Some(value),
        Component::Null => None,
    }
}
