//! Where the next page of a result starts (docs/formats/paging-state.md): stateless, so that a page may be
//! asked for after a restart, or from another coordinator.
//!
//! ```text
//! v4, v5: vbytes partition key | vbytes row mark | uvint remaining | uvint remaining in partition
//! v3:     sbytes partition key | sbytes row mark | i32 remaining   | i32 remaining in partition
//! row mark: uvint (2 bits for each of up to 32 components: 1 empty, 2 null), then vbytes of each other component
//! v3:       the name of a cell, as before 3.0: (sbytes component | 0)*, the last component that of the column
//! ```
//! The key is empty when the read is of one partition. Without a row mark, a read of several partitions by
//! their keys goes on at the start of the key's, a scan behind it. Without a limit 2^31-1 rows remain, and
//! 2^31-2 in a partition of which something was returned: its static row alone is no row of the result then.

use bytes::Bytes;
use model::clustering::Position;
use model::command::{ClusteringFilter, PartitionSelection, ReadCommand};
use model::key::{KeyBound, KeyRange};
use model::{
    BoundKind, Clustering, ClusteringBound, Component, DecoratedKey, PartitionKey, TableSchema, vint,
};
use partition::PageMark;
use std::cmp::Ordering;

/// "No limit" in a paging state.
const UNLIMITED: u64 = i32::MAX as u64;
/// The same for a partition of which something was returned.
const UNLIMITED_SINCE: u64 = UNLIMITED - 1;
/// What the names of static cells begin with.
const STATIC_NAME: [u8; 2] = [0xff, 0xff];
/// Most components that the mark of a row can have.
const COMPONENTS_MAX: usize = 32;

/// The form of a paging state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PagingVersion {
    /// Protocol v3.
    V3,
    /// Protocol v4 and later.
    V4,
}

/// A decoded paging state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagingState {
    /// Bytes of the partition key; empty for a read of one partition.
    pub key: Bytes,
    /// The last row read. Without it nothing of the partition was read, where keys are listed, or nothing
    /// more is wanted of it.
    pub row: Option<RowMark>,
    /// Rows that the query may still return; `u64::MAX` without a limit.
    pub remaining: u64,
    /// Rows that it may still return of the partition.
    pub remaining_in_partition: u64,
}

/// The last row of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowMark {
    /// By its clustering.
    Clustering {
        /// That of the row.
        clustering: Clustering,
        /// Whether v3 writes its only component as it is: that of a table WITH COMPACT STORAGE.
        is_bare: bool,
    },
    /// By the name of one of its cells, as v3 has it. The table knows what of it is clustering.
    CellName(Bytes),
}

impl RowMark {
    /// The mark of a row of the table.
    pub fn of(clustering: Clustering, table: &TableSchema) -> RowMark {
        RowMark::Clustering { clustering, is_bare: is_bare(table) }
    }

    /// The row's clustering, none for a static row; `None` for a name that is none of a table's cells.
    fn clustering(&self, table: &TableSchema) -> Option<Option<Clustering>> {
        match self {
            RowMark::Clustering { clustering, .. } => Some(Some(clustering.clone())),
            RowMark::CellName(name) => clustering_of(name, table),
        }
    }

    fn encode(&self, version: PagingVersion) -> Vec<u8> {
        match (self, version) {
            (RowMark::CellName(name), _) => name.to_vec(),
            (RowMark::Clustering { clustering, .. }, PagingVersion::V4) => encode_row_mark(clustering),
            (RowMark::Clustering { clustering, is_bare: true }, PagingVersion::V3) => {
                clustering.value(0).unwrap_or_default().to_vec()
            }
            (RowMark::Clustering { clustering, is_bare: false }, PagingVersion::V3) => cell_name(clustering),
        }
    }
}

/// Whether the names of the table's cells are a clustering and nothing else
/// (`PagingState.RowMark.encodeCellName`).
fn is_bare(table: &TableSchema) -> bool {
    table.compact.is_some() && table.clustering_columns().len() == 1
}

impl PagingState {
    /// The state that goes on at `mark` of `command`; `None` where nothing of it is left.
    pub fn of(command: &ReadCommand, mark: &PageMark) -> Option<PagingState> {
        let state = |key: &DecoratedKey, row, remaining_in_partition| PagingState {
            key: key.key.0.clone(),
            row,
            remaining: mark.remaining,
            remaining_in_partition,
        };
        let row = mark.clustering.clone().map(|clustering| RowMark::of(clustering, &command.table));
        match &command.partitions {
            PartitionSelection::Range(_) => {
                let of_partition = if row.is_some() { mark.remaining_in_partition } else { 0 };
                Some(state(&mark.key, row, of_partition))
            }
            PartitionSelection::Keys(keys) => {
                // The row of a table without clustering columns is the only one of its partition.
                let has_more = mark.remaining_in_partition > 0;
                let is_within = has_more && row.is_some() && !command.table.clustering_columns().is_empty();
                if keys.len() == 1 {
                    let state = state(&mark.key, row, mark.remaining_in_partition);
                    return is_within.then_some(PagingState { key: Bytes::new(), ..state });
                }
                if is_within {
                    return Some(state(&mark.key, row, mark.remaining_in_partition));
                }
                let limits = &command.limits;
                let of_each = if limits.distinct { 1 } else { limits.rows_per_partition };
                Some(state(keys.get(first_behind(keys, mark))?, None, of_each))
            }
        }
    }

    /// Encodes the state.
    pub fn encode(&self, version: PagingVersion) -> Bytes {
        let row = self.row.as_ref().map(|row| row.encode(version)).unwrap_or_default();
        let mut out = Vec::with_capacity(self.key.len() + row.len() + 16);
        let in_partition = match self.remaining_in_partition {
            UNLIMITED | u64::MAX => UNLIMITED,
            limited => limited.min(UNLIMITED_SINCE),
        };
        let limits = [self.remaining.min(UNLIMITED), in_partition];
        match version {
            PagingVersion::V4 => {
                for field in [self.key.as_ref(), &row] {
                    vint::write_unsigned(&mut out, field.len() as u64);
                    out.extend_from_slice(field);
                }
                limits.iter().for_each(|n| vint::write_unsigned(&mut out, *n));
            }
            PagingVersion::V3 => {
                for field in [self.key.as_ref(), &row] {
                    out.extend_from_slice(&(field.len() as u16).to_be_bytes());
                    out.extend_from_slice(field);
                }
                limits.iter().for_each(|n| out.extend_from_slice(&(*n as i32).to_be_bytes()));
            }
        }
        out.into()
    }

    /// Decodes a state of either form: drivers may mix protocol versions. `None` for bytes that are neither.
    pub fn decode(bytes: &Bytes, preferred: PagingVersion) -> Option<PagingState> {
        let other = match preferred {
            PagingVersion::V3 => PagingVersion::V4,
            PagingVersion::V4 => PagingVersion::V3,
        };
        decode_as(bytes, preferred).or_else(|| decode_as(bytes, other))
    }

    /// The mark of this state in the result of `command`; `None` when it cannot be one of its: clients may
    /// send what they like, and a state only ever says where the rows that the command asks for go on.
    pub fn mark(&self, command: &ReadCommand) -> Option<PageMark> {
        let (key, is_listed) = match &command.partitions {
            PartitionSelection::Keys(keys) if keys.len() == 1 => (keys.first()?.clone(), true),
            PartitionSelection::Keys(keys) => (keys.iter().find(|k| k.key.0 == self.key)?.clone(), true),
            PartitionSelection::Range(range) => {
                let key = DecoratedKey::new(PartitionKey(self.key.clone()));
                if !range.contains(&key) || !is_key_of(&key.key, command) {
                    return None;
                }
                (key, false)
            }
        };
        let columns = command.table.clustering_columns().len();
        // A table without clustering columns has one row for each partition: behind it the partition is done
        // with.
        let is_within = columns > 0 && self.remaining_in_partition > 0;
        let row = match &self.row {
            Some(row) => row.clustering(&command.table)?,
            None => None,
        };
        let is_before = is_listed && row.is_none() && self.remaining_in_partition > 0;
        let clustering = row.filter(|_| is_within);
        if clustering.as_ref().is_some_and(|c| c.len() != columns || !is_row_of(c, command)) {
            return None;
        }
        let (rows, in_partition) = (command.limits.rows, command.limits.rows_per_partition);
        let remaining_in_partition = match self.is_limited_in_partition() {
            true if in_partition != u64::MAX => self.remaining_in_partition.min(in_partition),
            // Those of a Cassandra count down from "no limit", too.
            true => u64::MAX - 1,
            false if self.remaining_in_partition >= UNLIMITED => in_partition,
            false => in_partition.min(u64::MAX - 1),
        };
        Some(PageMark {
            key,
            is_before,
            clustering,
            remaining: if rows == u64::MAX { u64::MAX } else { self.remaining.min(rows) },
            remaining_in_partition,
        })
    }

    /// Whether it says how many rows of the partition remain.
    pub fn is_limited_in_partition(&self) -> bool {
        self.remaining_in_partition < UNLIMITED_SINCE
    }
}

/// Whether there can be such a key. Values of another node's may be none of their types, and their rows are
/// read all the same.
fn is_key_of(key: &PartitionKey, command: &ReadCommand) -> bool {
    let count = command.table.partition_key().len();
    !key.0.is_empty() && (0..count).all(|index| key.component(count, index).is_some())
}

/// Whether there can be such a row: files have no place for values of another length. Rows of dense tables
/// lack some.
fn is_row_of(clustering: &Clustering, command: &ReadCommand) -> bool {
    let columns = command.table.clustering_columns().iter();
    clustering.iter().zip(columns).all(|(component, column)| match (component, column.ty.fixed_len()) {
        (Component::Value(value), Some(len)) => value.is_empty() || value.len() == len,
        _ => true,
    })
}

/// The name that a cell of the row would have, of a column without a name.
fn cell_name(clustering: &Clustering) -> Vec<u8> {
    let mut out = Vec::new();
    for component in clustering.iter() {
        // Nothing comes behind what a dense table's row lacks.
        let Component::Value(value) = component else { return out };
        out.extend_from_slice(&(value.len() as u16).to_be_bytes());
        out.extend_from_slice(value);
        out.push(0);
    }
    out.extend_from_slice(&[0, 0, 0]);
    out
}

/// The clustering in the name of a cell (`PagingState.RowMark.decodeClustering`), as
/// [`RowMark::clustering`] has it.
fn clustering_of(name: &[u8], table: &TableSchema) -> Option<Option<Clustering>> {
    if is_bare(table) {
        return Some(Some(Clustering::from_values([name])));
    }
    if name.starts_with(&STATIC_NAME) {
        return Some(None);
    }
    let (mut out, mut rest) = (Clustering::empty(), name);
    for _ in table.clustering_columns() {
        if rest.is_empty() && table.compact.is_some() {
            out.push(Component::Null);
            continue;
        }
        let (len, behind) = rest.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes(*len));
        out.push(Component::Value(behind.get(..len)?));
        rest = behind.get(len + 1..)?;
    }
    Some(Some(out))
}

fn encode_row_mark(clustering: &Clustering) -> Vec<u8> {
    let mut header = 0u64;
    for (i, component) in clustering.iter().enumerate().take(COMPONENTS_MAX) {
        header |= match component {
            Component::Null => 2 << (2 * i),
            Component::Value([]) => 1 << (2 * i),
            Component::Value(_) => 0,
        };
    }
    let mut out = Vec::new();
    vint::write_unsigned(&mut out, header);
    for component in clustering.iter() {
        if let Component::Value(value) = component
            && !value.is_empty()
        {
            vint::write_unsigned(&mut out, value.len() as u64);
            out.extend_from_slice(value);
        }
    }
    out
}

/// The number of components is not written: it ends with the bytes. Trailing empty or null ones are told by
/// the header's bits.
fn decode_row_mark(bytes: &[u8]) -> Option<Clustering> {
    let (mut header, used) = vint::read_unsigned(bytes)?;
    let mut rest = bytes.get(used..)?;
    let mut out = Clustering::empty();
    while !rest.is_empty() || header != 0 {
        if out.len() == COMPONENTS_MAX {
            return None;
        }
        match header & 3 {
            0 => {
                let (len, used) = vint::read_unsigned(rest)?;
                let end = used.checked_add(usize::try_from(len).ok()?)?;
                out.push(Component::Value(rest.get(used..end)?));
                rest = rest.get(end..)?;
            }
            1 => out.push(Component::Value(&[])),
            2 => out.push(Component::Null),
            _ => return None,
        }
        header >>= 2;
    }
    Some(out)
}

fn decode_as(bytes: &Bytes, version: PagingVersion) -> Option<PagingState> {
    let mut at = 0usize;
    let mut field = || -> Option<Bytes> {
        let (len, used) = match version {
            PagingVersion::V4 => vint::read_unsigned(bytes.get(at..)?)?,
            PagingVersion::V3 => (u64::from(u16::from_be_bytes(*bytes.get(at..)?.first_chunk::<2>()?)), 2),
        };
        let start = at + used;
        let end = start.checked_add(usize::try_from(len).ok()?)?;
        bytes.get(start..end)?;
        at = end;
        Some(bytes.slice(start..end))
    };
    let (key, row) = (field()?, field()?);
    let mut number = || -> Option<u64> {
        let (value, used) = match version {
            PagingVersion::V4 => vint::read_unsigned(bytes.get(at..)?)?,
            PagingVersion::V3 => {
                (u64::try_from(i32::from_be_bytes(*bytes.get(at..)?.first_chunk::<4>()?)).ok()?, 4)
            }
        };
        at += used;
        (value <= UNLIMITED).then_some(value)
    };
    let (remaining, remaining_in_partition) = (number()?, number()?);
    if at != bytes.len() {
        return None;
    }
    let row = match version {
        _ if row.is_empty() => None,
        PagingVersion::V3 => Some(RowMark::CellName(row)),
        PagingVersion::V4 => Some(RowMark::Clustering { clustering: decode_row_mark(&row)?, is_bare: false }),
    };
    Some(PagingState { key, row, remaining, remaining_in_partition })
}

/// The first of the keys whose partition begins behind `mark`.
fn first_behind(keys: &[DecoratedKey], mark: &PageMark) -> usize {
    let at = keys.iter().position(|key| *key == mark.key);
    at.map_or(keys.len(), |at| if mark.is_before { at } else { at + 1 })
}

/// What is left of `command` behind `mark`: the rest of the mark's partition, and the partitions after it.
pub(crate) fn behind(command: &ReadCommand, mark: &PageMark) -> Vec<ReadCommand> {
    let mut legs = Vec::with_capacity(2);
    if let Some(clustering) = &mark.clustering
        && let Some(clusterings) = narrow(command, clustering)
    {
        legs.push(ReadCommand {
            partitions: PartitionSelection::Keys(vec![mark.key.clone()]),
            clusterings,
            ..command.clone()
        });
    }
    let rest = match &command.partitions {
        PartitionSelection::Keys(keys) => {
            let keys = keys.get(first_behind(keys, mark)..).unwrap_or_default();
            (!keys.is_empty()).then(|| PartitionSelection::Keys(keys.to_vec()))
        }
        PartitionSelection::Range(range) => Some(PartitionSelection::Range(KeyRange {
            start: KeyBound::Key { key: mark.key.clone(), inclusive: false },
            end: range.end.clone(),
        })),
    };
    legs.extend(rest.map(|partitions| ReadCommand { partitions, ..command.clone() }));
    legs
}

/// What is left of the range of partitions whose rows the command asks for, all of them, where `leg` is the
/// rest of the partition of the mark.
pub(crate) fn scan_of(command: &ReadCommand, mark: &PageMark, leg: &ReadCommand) -> Option<KeyRange> {
    match (&command.partitions, &leg.partitions) {
        (PartitionSelection::Range(range), PartitionSelection::Keys(_)) if command.clusterings.is_all() => {
            Some(KeyRange {
                start: KeyBound::Key { key: mark.key.clone(), inclusive: true },
                end: range.end.clone(),
            })
        }
        _ => None,
    }
}

/// The rows of the command's filter that come after `last`; `None` when there are none.
fn narrow(command: &ReadCommand, last: &Clustering) -> Option<ClusteringFilter> {
    let comparator = command.table.comparator();
    match &command.clusterings {
        ClusteringFilter::Names { names, reversed } => {
            let names: Vec<Clustering> = names
                .iter()
                .filter(|n| command.compare_rows(n, last) == Ordering::Greater)
                .cloned()
                .collect();
            (!names.is_empty()).then_some(ClusteringFilter::Names { names, reversed: *reversed })
        }
        ClusteringFilter::Slices { slices, reversed } => {
            let kind = if *reversed { BoundKind::ExclEnd } else { BoundKind::ExclStart };
            let bound = ClusteringBound::new(kind, last.clone());
            let compare = |a: Position<'_>| comparator.compare_positions(a, bound.position());
            let slices: Vec<_> = slices
                .iter()
                .cloned()
                .filter_map(|mut slice| {
                    if *reversed {
                        if compare(slice.end.position()) == Ordering::Greater {
                            slice.end = bound.clone();
                        }
                    } else if compare(slice.start.position()) == Ordering::Less {
                        slice.start = bound.clone();
                    }
                    (!slice.is_empty(comparator)).then_some(slice)
                })
                .collect();
            (!slices.is_empty()).then_some(ClusteringFilter::Slices { slices, reversed: *reversed })
        }
    }
}

#[cfg(test)]
mod tests;
