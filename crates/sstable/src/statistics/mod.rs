//! Statistics.db: what is known about an SSTable without reading its rows (docs/formats/sstable-big.md).
//!
//! ```text
//! i32 n | crc | n * { i32 type, i32 offset } | crc | component, crc | component, crc | ...
//! ```
//! The checksums are there from version `na` on. The first two run on: over the count, then over the count
//! and the table of contents. A component may be followed by zeroes that its checksum covers. The components
//! are 0 validation, 1 compaction, 2 stats, 3 header. Component 1 is an estimate of the number of keys. It is
//! carried along, and compared with the keys of the index. In SSTables that were written here component 0
//! goes on after what Cassandra reads of it:
//!
//! ```text
//! validation: utf partitioner | f64 chance of false positives | [ "filter=" | u32 CRC32 of Filter.db ]
//! ```
//! Filter.db has no checksum of its own. Cassandra passes over the addition, and drops it when it writes
//! Statistics.db anew. When it writes Filter.db anew (for another chance), the checksum does not fit any
//! more. That proves no damage.

mod cardinality;
mod clusterings;
mod collector;
mod histogram;
mod stats;
mod tombstones;

pub(crate) use cardinality::Cardinality;
pub(crate) use collector::Collector;
pub use histogram::EstimatedHistogram;
pub use stats::{CommitLogPosition, Stats};
pub use tombstones::TombstoneHistogram;

use crate::descriptor::{Component, Descriptor, Version};
use crate::error::{OpenError, corrupt, read_component};
use bytes::Bytes;
use crc32fast::Hasher;
use env::fs::FileSystem;
use model::{CqlType, DecoratedKey};
use partition::ReadError;
use partition::codec::{DecodeError, EncodeError, HeaderColumn, Input, SerializationHeader, SliceInput};
use std::ops::Range;

const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
const VALIDATION: i32 = 0;
const COMPACTION: i32 = 1;
const STATS: i32 = 2;
const HEADER: i32 = 3;
const FILTER_MARK: &[u8; 7] = b"filter=";
/// There are four types of components; a file that claims many more is damaged.
const COMPONENTS_MAX: i32 = 64;
/// Where Statistics.db does not tell: Cassandra's default.
const FP_CHANCE_UNKNOWN: f64 = 0.01;

/// A Statistics.db.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// The chance of false positives that the bloom filter was built for.
    pub bloom_fp_chance: f64,
    /// CRC32 of Filter.db.
    pub filter_crc: Option<u32>,
    /// The estimate of the number of keys, as the file holds it.
    pub cardinality: Option<Bytes>,
    /// What is known about the rows.
    pub stats: Stats,
    /// How the rows are encoded.
    pub header: SerializationHeader,
}

impl Statistics {
    /// The file's bytes, for an SSTable of a version.
    ///
    /// # Errors
    /// When a clustering value does not have the length of its type.
    pub fn encode(&self, version: Version) -> Result<Vec<u8>, EncodeError> {
        let mut validation = Vec::new();
        validation.extend_from_slice(&(PARTITIONER.len() as u16).to_be_bytes());
        validation.extend_from_slice(PARTITIONER.as_bytes());
        validation.extend_from_slice(&self.bloom_fp_chance.to_be_bytes());
        if let Some(crc) = self.filter_crc {
            validation.extend_from_slice(FILTER_MARK);
            validation.extend_from_slice(&crc.to_be_bytes());
        }
        let mut header = Vec::new();
        self.header.encode(&mut header);
        let cardinality = self.cardinality.iter().map(|bytes| (COMPACTION, bytes.to_vec()));
        let mut parts = vec![(VALIDATION, validation)];
        parts.extend(cardinality);
        parts.extend([(STATS, self.stats.encode(version, &self.header)?), (HEADER, header)]);

        let is_checked = version.has_metadata_checksums();
        let sum_len = if is_checked { 4 } else { 0 };
        let mut crc = Hasher::new();
        let mut out = Vec::new();
        let put = |out: &mut Vec<u8>, bytes: &[u8], sum: &dyn Fn() -> u32| {
            out.extend_from_slice(bytes);
            if is_checked {
                out.extend_from_slice(&sum().to_be_bytes());
            }
        };
        let count = (parts.len() as i32).to_be_bytes();
        crc.update(&count);
        put(&mut out, &count, &|| crc.clone().finalize());
        let mut offset = 4 + 8 * parts.len() + 2 * sum_len;
        let mut contents = Vec::new();
        for (kind, bytes) in &parts {
            contents.extend_from_slice(&kind.to_be_bytes());
            contents.extend_from_slice(&(offset as i32).to_be_bytes());
            offset += bytes.len() + sum_len;
        }
        crc.update(&contents);
        put(&mut out, &contents, &|| crc.clone().finalize());
        for (_, bytes) in &parts {
            put(&mut out, bytes, &|| crc32fast::hash(bytes));
        }
        Ok(out)
    }

    /// About how many partition keys there are, if the file says.
    pub fn estimated_keys(&self) -> Option<u64> {
        cardinality::estimate(self.cardinality.as_ref()?)
    }

    /// Lets go what only an opening asks for, and the file itself, of which the rest are parts.
    pub fn shrink(&mut self) {
        self.cardinality = None;
        if let Some((first, last)) = &mut self.stats.key_range {
            (*first, *last) = (Bytes::copy_from_slice(first), Bytes::copy_from_slice(last));
        }
    }

    /// Whether the estimate was certainly made without one of `keys`.
    pub(crate) fn denies<'a>(&self, keys: impl Iterator<Item = &'a DecoratedKey>) -> bool {
        let keys = keys.map(|key| &key.key.0[..]);
        self.cardinality.as_ref().is_some_and(|component| cardinality::denies(component, keys))
    }

    /// Reads the Statistics.db of an SSTable.
    ///
    /// # Errors
    /// When it is missing or damaged, or of a version that is not supported.
    pub fn read(fs: &dyn FileSystem, descriptor: &Descriptor) -> Result<Statistics, OpenError> {
        if !descriptor.version.is_supported() {
            return Err(OpenError::UnsupportedVersion(descriptor.to_string()));
        }
        let bytes = read_component(fs, descriptor, Component::Statistics)?;
        let path = descriptor.path(Component::Statistics);
        Statistics::decode(bytes, descriptor.version).map_err(|e| corrupt(&path, e).into())
    }

    /// As much as can be had of a damaged Statistics.db: the header, if its own checksum is right, and stats
    /// that say nothing. Without the header no row can be dated, for timestamps are differences to its
    /// minima.
    ///
    /// # Errors
    /// When the header is damaged, too, or no checksum vouches for it.
    pub(crate) fn of_header(fs: &dyn FileSystem, descriptor: &Descriptor) -> Result<Statistics, OpenError> {
        let bytes = read_component(fs, descriptor, Component::Statistics)?;
        let path = descriptor.path(Component::Statistics);
        let failed = |e: DecodeError| {
            let detail = format!("{}; without the minima in its header no row can be dated", e.detail);
            corrupt(&path, DecodeError { detail, ..e })
        };
        let version = descriptor.version;
        let unchecked = || SliceInput::new(bytes.clone()).malformed("no checksum".to_owned());
        if !version.has_metadata_checksums() {
            return Err(failed(unchecked()).into());
        }
        let (toc, _) = read_contents(&bytes, version).map_err(failed)?;
        for (kind, range) in toc {
            if kind == HEADER {
                let mut part = checked_part(&bytes, range.clone(), version).map_err(failed)?;
                let header = SerializationHeader::decode(&mut part, version.deletion_times());
                return Ok(Statistics {
                    bloom_fp_chance: FP_CHANCE_UNKNOWN,
                    filter_crc: None,
                    cardinality: None,
                    stats: Collector::new(version).finish(),
                    header: header.map_err(|e| failed(at(e, range.start)))?,
                });
            }
        }
        Err(failed(SliceInput::new(bytes).malformed("a component is missing".to_owned())).into())
    }

    /// Reads bytes as each of the components, without container and checksums: for fuzzing.
    pub(crate) fn decode_parts_unchecked(bytes: &[u8]) {
        let input = || SliceInput::new(Bytes::copy_from_slice(bytes));
        let _ = decode_validation(&mut input());
        for version in [Version::MA, Version::MB, Version::MC, Version::ME, Version::NB, Version::OA] {
            let _ = Stats::decode(&mut input(), version);
            let _ = SerializationHeader::decode(&mut input(), version.deletion_times());
        }
    }

    /// Reads the file of an SSTable of a version and checks all its checksums.
    pub fn decode(bytes: Bytes, version: Version) -> Result<Statistics, DecodeError> {
        let (toc, input) = read_contents(&bytes, version)?;
        let (mut validation, mut cardinality, mut stats, mut header) = (None, None, None, None);
        for (kind, range) in toc {
            let start = range.start;
            let mut part = checked_part(&bytes, range.clone(), version)?;
            let failed = |e| at(e, start);
            match kind {
                VALIDATION => validation = Some(decode_validation(&mut part).map_err(failed)?),
                COMPACTION => cardinality = Some(bytes.slice(range)),
                STATS => stats = Some(Stats::decode(&mut part, version).map_err(failed)?),
                HEADER => {
                    let times = version.deletion_times();
                    let decoded = SerializationHeader::decode(&mut part, times).map_err(failed)?;
                    let columns = [&decoded.static_columns, &decoded.regular_columns];
                    let is_checked = version.has_metadata_checksums();
                    if !is_checked && !columns.into_iter().all(|columns| in_order(columns)) {
                        return Err(failed(part.malformed("columns that are not in order".to_owned())));
                    }
                    header = Some(decoded);
                }
                _ => {}
            }
        }
        match (validation, stats, header) {
            (Some((bloom_fp_chance, filter_crc)), Some(stats), Some(header)) => {
                Ok(Statistics { bloom_fp_chance, filter_crc, cardinality, stats, header })
            }
            _ => Err(input.malformed("a component is missing".to_owned())),
        }
    }
}

/// The types of the components and where each lies, without its checksum; and the input behind their table.
type Contents = (Vec<(i32, Range<usize>)>, SliceInput);

fn read_contents(bytes: &Bytes, version: Version) -> Result<Contents, DecodeError> {
    let is_checked = version.has_metadata_checksums();
    let sum_len = if is_checked { 4 } else { 0 };
    let mut input = SliceInput::new(bytes.clone());
    let count = input.i32()?;
    if !(1..=COMPONENTS_MAX).contains(&count) {
        return Err(input.malformed(format!("{count} components")));
    }
    let mut crc = Hasher::new();
    crc.update(&count.to_be_bytes());
    if is_checked {
        check(&mut input, crc.clone().finalize())?;
    }
    let mut toc = Vec::new();
    for _ in 0..count {
        let entry = (input.i32()?, input.i32()?);
        crc.update(&entry.0.to_be_bytes());
        crc.update(&entry.1.to_be_bytes());
        toc.push(entry);
    }
    if is_checked {
        check(&mut input, crc.finalize())?;
    }
    let ends = toc.iter().skip(1).map(|(_, offset)| *offset as usize).chain([bytes.len()]);
    let mut out = Vec::new();
    for ((kind, offset), end) in toc.iter().zip(ends) {
        let start = *offset as usize;
        if *offset < 0 || end > bytes.len() || start + sum_len > end {
            return Err(input.malformed(format!("component {kind} from {start} to {end}")));
        }
        out.push((*kind, start..end - sum_len));
    }
    Ok((out, input))
}

/// A component, whose checksum is compared.
fn checked_part(bytes: &Bytes, range: Range<usize>, version: Version) -> Result<SliceInput, DecodeError> {
    let end = range.end;
    let part = bytes.slice(range);
    if version.has_metadata_checksums() {
        let mut sum = SliceInput::new(bytes.slice(end..end + 4));
        check(&mut sum, crc32fast::hash(&part)).map_err(|e| at(e, end))?;
    }
    Ok(SliceInput::new(part))
}

/// Changes what is known about an SSTable that exists (its level, its repair), atomically. Open ones go on
/// with what they read before.
///
/// # Errors
/// When Statistics.db is missing or damaged, or cannot be written.
pub fn rewrite(
    fs: &dyn FileSystem,
    descriptor: &Descriptor,
    change: impl FnOnce(&mut Stats),
) -> Result<(), OpenError> {
    let path = descriptor.path(Component::Statistics);
    let bytes = read_component(fs, descriptor, Component::Statistics)?;
    let mut statistics = Statistics::decode(bytes, descriptor.version).map_err(|e| corrupt(&path, e))?;
    change(&mut statistics.stats);
    let bytes = statistics
        .encode(descriptor.version)
        .map_err(|e| ReadError::corrupt(&crate::error::file_name(&path), 0, e.to_string()))?;
    fs.write_atomic(&path, &bytes).map_err(|e| ReadError::from(e).into())
}

/// Whether columns stand as every writer puts them: single-cell before multi-cell ones, each by their names.
/// The user types of Cassandra 3.0 are of single cells, which their names do not say (CASSANDRA-15035).
fn in_order(columns: &[HeaderColumn]) -> bool {
    let sorted = |is_multi_cell: fn(&CqlType) -> bool| {
        columns.is_sorted_by(|a, b| (is_multi_cell(&a.ty), &a.name) < (is_multi_cell(&b.ty), &b.name))
    };
    sorted(CqlType::is_multi_cell) || sorted(|ty| ty.is_multi_cell() && ty.is_collection())
}

fn at(error: DecodeError, start: usize) -> DecodeError {
    DecodeError { offset: error.offset + start as u64, ..error }
}

fn check(input: &mut SliceInput, expected: u32) -> Result<(), DecodeError> {
    let found = u32::from_be_bytes(input.array()?);
    if found == expected {
        return Ok(());
    }
    Err(input.malformed(format!("checksum {found:#010x} where {expected:#010x} is expected")))
}

fn decode_validation(input: &mut SliceInput) -> Result<(f64, Option<u32>), DecodeError> {
    let len = input.u16()?;
    let class = input.bytes(len as u64)?;
    if class != PARTITIONER.as_bytes() {
        let class = String::from_utf8_lossy(&class);
        return Err(input.malformed(format!("partitioner {class} where {PARTITIONER} is expected")));
    }
    let fp_chance = input.f64()?;
    if input.remaining() != FILTER_MARK.len() + 4 || input.array()? != *FILTER_MARK {
        return Ok((fp_chance, None));
    }
    Ok((fp_chance, Some(u32::from_be_bytes(input.array()?))))
}
