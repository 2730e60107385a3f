//! The STATS component (docs/formats/sstable-big.md).
//!
//! ```text
//! histogram partition sizes | histogram cells of partitions | i64,i32 commit log upper bound
//! | i64 min, max timestamp | 32 bits min, max local deletion time | i32 min, max ttl | f64 compression ratio
//! | tombstone histogram | i32 level | i64 repaired at | covered clusterings
//! | bool legacy counters | i64 columns set | i64 rows
//! | i64,i32 commit log lower bound                    from `mb` on
//! | i32 n, n * { i64,i32 start, i64,i32 end } commit log intervals            from `mc` on
//! | u8 [uuid] pending repair, bool transient          from `na` on
//! | u8 [uuid] host id                                 `me`, and from `nb` on
//! | bool partition deletions | vbytes first key, last key | f64 token space coverage         from `oa` on
//!
//! covered clusterings := i32 n, n * sbytes min values | the same for max                     before `oa`
//!                      | uvint n, n * vbytes type | bound start, end                         from `oa` on
//! ```

use super::{EstimatedHistogram, TombstoneHistogram};
use crate::descriptor::Version;
use bytes::Bytes;
use model::clustering::Position;
use model::command::ClusteringFilter;
use model::{
    BoundKind, Clustering, ClusteringBound, ClusteringComparator, Component, CqlType, NO_DELETION_TIME,
    Slice, vint,
};
use partition::codec::{
    DecodeError, DeletionTimes, EncodeError, Input, SerializationHeader, SliceInput, ValueLen, read_bound,
    write_bound,
};
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
    /// Where rows and range tombstones lie; everywhere when the file cannot be relied on for that.
    pub covered_clusterings: Slice,
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
    /// Whether partitions are deleted; `None` when the file does not say.
    pub has_partition_deletions: Option<bool>,
    /// The first and the last partition key, when the file names them.
    pub key_range: Option<(Bytes, Bytes)>,
    /// The part of the node's ring that the SSTable covers, when that is known.
    pub token_space_coverage: Option<f64>,
}

impl Stats {
    /// Bytes of a row and of a partition, on the average, in so many bytes of data.
    pub fn mean_bytes(&self, data_len: u64) -> (u64, u64) {
        let mean = |count: i64| data_len.div_ceil(count.max(1) as u64);
        (mean(self.total_rows), mean(self.partition_sizes.count()))
    }

    /// Whether there may be any tombstone or anything that expires.
    pub fn may_have_tombstones(&self) -> bool {
        self.min_local_deletion_time != NO_DELETION_TIME
    }

    /// Whether there may be deletions of partitions.
    pub fn may_have_partition_deletions(&self) -> bool {
        self.has_partition_deletions.unwrap_or(self.may_have_tombstones())
    }

    /// Whether rows or range tombstones can lie where the filter selects. Partition deletions and static rows
    /// are outside of clusterings: see [`Stats::may_have_partition_deletions`].
    pub fn overlaps_clusterings(
        &self,
        selected: &ClusteringFilter,
        comparator: &ClusteringComparator,
    ) -> bool {
        let covered = &self.covered_clusterings;
        let meets = |start: Position<'_>, end: Position<'_>| {
            comparator.compare_positions(start, covered.end.position()) == Ordering::Less
                && comparator.compare_positions(covered.start.position(), end) == Ordering::Less
        };
        match selected {
            ClusteringFilter::Slices { slices, .. } => {
                slices.iter().any(|s| meets(s.start.position(), s.end.position()))
            }
            ClusteringFilter::Names { names, .. } => {
                names.iter().any(|name| meets(Position::row(name), Position::row(name)))
            }
        }
    }

    pub(super) fn encode(
        &self,
        version: Version,
        header: &SerializationHeader,
    ) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::with_capacity(5 << 10);
        let times = version.deletion_times();
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
        out.extend_from_slice(&times.to_bits(self.min_local_deletion_time).to_be_bytes());
        out.extend_from_slice(&times.to_bits(self.max_local_deletion_time).to_be_bytes());
        out.extend_from_slice(&self.min_ttl.to_be_bytes());
        out.extend_from_slice(&self.max_ttl.to_be_bytes());
        out.extend_from_slice(&self.compression_ratio.to_be_bytes());
        self.tombstones.encode(&mut out, times);
        out.extend_from_slice(&self.level.to_be_bytes());
        out.extend_from_slice(&self.repaired_at_ms.to_be_bytes());
        if version.has_covered_slice() {
            encode_covered(&mut out, &self.covered_clusterings, header)?;
        } else {
            encode_values(&mut out, &self.covered_clusterings.start.prefix);
            encode_values(&mut out, &self.covered_clusterings.end.prefix);
        }
        out.push(self.has_legacy_counter_shards as u8);
        out.extend_from_slice(&self.total_columns_set.to_be_bytes());
        out.extend_from_slice(&self.total_rows.to_be_bytes());
        if version.has_commit_log_lower_bound() {
            lower.encode(&mut out);
        }
        if version.has_commit_log_intervals() {
            out.extend_from_slice(&(self.commit_log_intervals.len() as i32).to_be_bytes());
            for (start, end) in &self.commit_log_intervals {
                start.encode(&mut out);
                end.encode(&mut out);
            }
        }
        if version.has_pending_repair() {
            encode_uuid(&mut out, self.pending_repair);
            out.push(self.is_transient as u8);
        }
        if version.has_host_id() {
            encode_uuid(&mut out, self.host_id);
        }
        if version.has_partition_deletions_flag() {
            out.push(self.may_have_partition_deletions() as u8);
        }
        if version.has_key_range() {
            let (first, last) = self.key_range.as_ref().map_or((&[][..], &[][..]), |(f, l)| (f, l));
            for key in [first, last] {
                vint::write_unsigned(&mut out, key.len() as u64);
                out.extend_from_slice(key);
            }
        }
        if version.has_token_space_coverage() {
            out.extend_from_slice(&self.token_space_coverage.unwrap_or(f64::NAN).to_be_bytes());
        }
        Ok(out)
    }

    pub(super) fn decode(input: &mut SliceInput, version: Version) -> Result<Stats, DecodeError> {
        let partition_sizes = EstimatedHistogram::decode(input)?;
        let cells_per_partition = EstimatedHistogram::decode(input)?;
        let upper = CommitLogPosition::decode(input)?;
        let (min_timestamp, max_timestamp) = (input.i64()?, input.i64()?);
        let times = version.deletion_times();
        let (min_local, max_local) = (decode_time(input, times)?, decode_time(input, times)?);
        let (min_ttl, max_ttl) = (input.i32()?, input.i32()?);
        let compression_ratio = input.f64()?;
        let tombstones = TombstoneHistogram::decode(input, times)?;
        let level = input.i32()?;
        let repaired_at_ms = input.i64()?;
        let covered_clusterings = match version.has_covered_slice() {
            true => decode_covered(input)?,
            false => {
                let start = ClusteringBound::start_at(decode_values(input)?);
                let end = ClusteringBound::end_at(decode_values(input)?);
                if version.has_accurate_clusterings() { Slice { start, end } } else { Slice::ALL }
            }
        };
        let has_legacy_counter_shards = input.u8()? != 0;
        let (total_columns_set, total_rows) = (input.i64()?, input.i64()?);
        let lower = match version.has_commit_log_lower_bound() {
            true => CommitLogPosition::decode(input)?,
            false => CommitLogPosition::NONE,
        };
        let commit_log_intervals = match version.has_commit_log_intervals() {
            true => decode_intervals(input)?,
            false => vec![(lower, upper)],
        };
        let (pending_repair, is_transient) = match version.has_pending_repair() {
            true => (decode_uuid(input)?, input.u8()? != 0),
            false => (None, false),
        };
        let host_id = if version.has_host_id() { decode_uuid(input)? } else { None };
        let has_partition_deletions = match version.has_partition_deletions_flag() {
            true => Some(input.u8()? != 0),
            false => None,
        };
        let key_range = match version.has_key_range() {
            true => Some((input.vbytes()?, input.vbytes()?)).filter(|(first, _)| !first.is_empty()),
            false => None,
        };
        let token_space_coverage = match version.has_token_space_coverage() {
            true => Some(input.f64()?).filter(|part| !part.is_nan()),
            false => None,
        };
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
            covered_clusterings,
            has_legacy_counter_shards,
            total_columns_set,
            total_rows,
            pending_repair,
            is_transient,
            host_id,
            has_partition_deletions,
            key_range,
            token_space_coverage,
        })
    }
}

/// A negative time comes from an overflow in old releases; the latest time is the safe reading of a maximum
/// and "may have tombstones" that of a minimum.
fn decode_time(input: &mut SliceInput, times: DeletionTimes) -> Result<u32, DecodeError> {
    Ok(times.of_bits(u32::from_be_bytes(input.array()?)))
}

/// The values up to the first that is null.
fn encode_values(out: &mut Vec<u8>, prefix: &Clustering) {
    let values: Vec<&[u8]> = prefix.iter().map_while(value).collect();
    out.extend_from_slice(&(values.len() as i32).to_be_bytes());
    for value in values {
        out.extend_from_slice(&(value.len() as u16).to_be_bytes());
        out.extend_from_slice(value);
    }
}

fn decode_values(input: &mut SliceInput) -> Result<Clustering, DecodeError> {
    let count = input.i32()?;
    if count < 0 || count as usize * 2 > input.remaining() {
        return Err(input.malformed(format!("{count} clustering values")));
    }
    let mut out = Clustering::empty();
    for _ in 0..count {
        let len = input.u16()?;
        input.with_slice(len as u64, |value| out.push(Component::Value(value)))?;
    }
    Ok(out)
}

fn encode_covered(out: &mut Vec<u8>, slice: &Slice, header: &SerializationHeader) -> Result<(), EncodeError> {
    vint::write_unsigned(out, header.clustering.len() as u64);
    let mut types = Vec::new();
    for (ty, descending) in &header.clustering {
        let class = ty.clustering_class_name(*descending);
        vint::write_unsigned(out, class.len() as u64);
        out.extend_from_slice(class.as_bytes());
        types.push(ValueLen::of(ty));
    }
    write_bound(out, &types, slice.start.kind, &slice.start.prefix)?;
    write_bound(out, &types, slice.end.kind, &slice.end.prefix)
}

/// The parts of the commit log that the data comes from.
fn decode_intervals(
    input: &mut SliceInput,
) -> Result<Vec<(CommitLogPosition, CommitLogPosition)>, DecodeError> {
    let count = input.i32()?;
    if count < 0 || count as usize * 24 > input.remaining() {
        return Err(input.malformed(format!("{count} commit log intervals")));
    }
    let mut intervals = Vec::new();
    for _ in 0..count {
        intervals.push((CommitLogPosition::decode(input)?, CommitLogPosition::decode(input)?));
    }
    Ok(intervals)
}

fn decode_covered(input: &mut SliceInput) -> Result<Slice, DecodeError> {
    let count = input.uvint()?;
    if count > input.remaining() as u64 {
        return Err(input.malformed(format!("{count} clustering columns")));
    }
    let mut types = Vec::new();
    for _ in 0..count {
        let class = input.vtext()?;
        let parsed = CqlType::parse_class(&class).map_err(|e| input.malformed(e.to_string()))?;
        types.push(ValueLen::of(&parsed.ty));
    }
    let mut slice = Slice::ALL;
    read_bound(input, &types, &mut slice.start)?;
    read_bound(input, &types, &mut slice.end)?;
    // A file without rows says "from behind everything to before everything".
    let starts = |kind: BoundKind| matches!(kind, BoundKind::InclStart | BoundKind::ExclStart);
    let ends = |kind: BoundKind| matches!(kind, BoundKind::InclEnd | BoundKind::ExclEnd);
    if !starts(slice.start.kind) || !ends(slice.end.kind) {
        return Err(input.malformed(format!("a slice from {:?} to {:?}", slice.start.kind, slice.end.kind)));
    }
    Ok(slice)
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

fn value(component: Component<'_>) -> Option<&[u8]> {
    match component {
        Component::Value(value) => Some(value),
        Component::Null => None,
    }
}
