//! Reads, as a node asks another for them (verbs READ and RANGE).
//!
//! ```text
//! command := u8 kind (0 a partition, 1 a range) | u8 flags (1 digest, 4 index, 8 transient, 16 reconciled)
//!            | [uvint version of the digest] | table id | u32 now | columns | filter | limits
//!            | [id of the index] | kind 0: key, rows
//!                                | kind 1: range, rows, u8 paging | [last clustering, u8 included]
//! filter  := u8 0 | uvint n | n * (u8 kind (0 a value, 1 an entry of a map) | short column | i32 operator
//!                                 | [short key of the entry] | short value)
//! key     := raw where the key is of a type of fixed length, else vbytes
//! ```
//! 1. What selects rows stands in [`super::selection`].
//! 2. With a filter the answer has the rows that pass it. `IN` has its values as a list.
//! 3. A range that goes on in the middle of its first partition is two reads here.

use super::selection::{
    Limits, clustering_types, count, read_columns, read_limits, read_range, read_rows, read_short, rest_of,
    unknown_column, write_columns, write_limits, write_range, write_rows,
};
use super::{Lookup, PayloadError, UnsentError, deletion_times, write_short, write_vbytes};
use bytes::Bytes;
use model::command::{DataLimits, FilterExpression, Operator, PartitionSelection, ReadCommand};
use model::key::{KeyBound, KeyRange};
use model::types::collection;
use model::{Clustering, ColumnId, CqlType, DecoratedKey, PartitionKey, TableSchema, vint};
use partition::GroupLimits;
use partition::codec::{DeletionTimes, Input, SliceInput, read_clustering};
use std::sync::Arc;
use uuid::Uuid;

const SINGLE: u8 = 0;
const RANGE: u8 = 1;

mod flag {
    pub const DIGEST: u8 = 0x01;
    pub const INDEX: u8 = 0x04;
    /// With those of who takes answers of transient replicas, and of who reconciles what it filters.
    pub const ALL: u8 = 0x1d;
}

/// What a command reads, where it is sent in parts.
#[derive(Clone, Copy, Debug)]
pub enum Partitions<'a> {
    /// One partition.
    Key(&'a DecoratedKey),
    /// A range.
    Range(&'a KeyRange),
}

/// Appends the request for a part of `command`. `rows_max` are rows that the answer may have at the most.
///
/// # Errors
/// When it holds what the format cannot.
pub fn encode_command(
    command: &ReadCommand,
    part: Partitions<'_>,
    rows_max: u64,
    is_digest: bool,
    version: u32,
    out: &mut Vec<u8>,
) -> Result<(), UnsentError> {
    let table = &command.table;
    let types = clustering_types(table);
    out.push(if matches!(part, Partitions::Key(_)) { SINGLE } else { RANGE });
    out.push(if is_digest { flag::DIGEST } else { 0 });
    if is_digest {
        vint::write_unsigned(out, u64::from(version));
    }
    out.extend_from_slice(table.id.as_bytes());
    let now = match deletion_times(version) {
        DeletionTimes::Signed => command.now_s.min(i32::MAX as u32),
        DeletionTimes::Unsigned => command.now_s,
    };
    out.extend_from_slice(&now.to_be_bytes());
    write_columns(out, command);
    write_filter(out, command)?;
    write_limits(out, &DataLimits { rows: command.limits.rows.min(rows_max), ..command.limits });
    match part {
        Partitions::Key(key) => {
            let bytes = &key.key.0;
            match fixed_key_len(table) {
                Some(len) if len == bytes.len() => out.extend_from_slice(bytes),
                _ => write_vbytes(out, bytes),
            }
            write_rows(out, &command.clusterings, &types)?;
        }
        Partitions::Range(range) => {
            write_range(out, range)?;
            write_rows(out, &command.clusterings, &types)?;
            out.push(0);
        }
    }
    Ok(())
}

/// The length of all keys of a table; `None` where they differ.
fn fixed_key_len(table: &TableSchema) -> Option<usize> {
    match table.partition_key() {
        [only] => CqlType::fixed_len(&only.ty),
        _ => None,
    }
}

/// A read that another node asks for.
#[derive(Clone, Debug)]
pub struct AskedFor {
    /// What is read, one after the other; together they are one answer.
    pub commands: Vec<Arc<ReadCommand>>,
    /// The groups of rows after which the answer ends.
    pub groups: Option<Arc<GroupLimits>>,
    /// Whether just the digest is wanted.
    pub is_digest: bool,
}

/// Decodes a request.
///
/// # Errors
/// [`PayloadError::Schema`] for an unknown table or column.
pub fn decode_command(bytes: Bytes, lookup: Lookup<'_>) -> Result<AskedFor, PayloadError> {
    let input = &mut SliceInput::new(bytes);
    let (kind, flags) = (input.u8()?, input.u8()?);
    if kind > RANGE || flags & !flag::ALL != 0 {
        return Err(input.malformed(format!("a read of kind {kind} with flags {flags:#04x}")).into());
    }
    let is_digest = flags & flag::DIGEST != 0;
    if is_digest {
        input.uvint()?;
    }
    let id = Uuid::from_bytes(input.array()?);
    let table = lookup(id).ok_or_else(|| PayloadError::Schema(format!("there is no table {id}")))?;
    let now_s = u32::from_be_bytes(input.array()?);
    let types = clustering_types(&table);
    let columns = read_columns(input, &table)?;
    let row_filter = read_filter(input, &table)?;
    let Limits { rows: limits, begun, groups } = read_limits(input, &types)?;
    if flags & flag::INDEX != 0 {
        input.array::<16>()?;
    }
    let (partitions, clusterings, last) = match kind {
        SINGLE => {
            let key = match fixed_key_len(&table) {
                Some(len) => input.bytes(len as u64)?,
                None => input.vbytes()?,
            };
            let keys = vec![DecoratedKey::new(PartitionKey(key))];
            (PartitionSelection::Keys(keys), read_rows(input, &table, &types)?, None)
        }
        _ => {
            let range = read_range(input)?;
            let rows = read_rows(input, &table, &types)?;
            let mut last = None;
            if input.u8()? != 0 {
                let mut row = Clustering::empty();
                read_clustering(input, &types, &mut row)?;
                last = Some((row, input.u8()? != 0));
            }
            (PartitionSelection::Range(range), rows, last)
        }
    };
    if input.remaining() > 0 {
        return Err(input.malformed(format!("{} bytes after the read", input.remaining())).into());
    }
    let whole = ReadCommand { table, partitions, clusterings, columns, row_filter, limits, now_s };
    let commands = in_parts(whole, last, begun.as_ref()).into_iter().map(Arc::new).collect();
    Ok(AskedFor { commands, groups: groups.map(Arc::new), is_digest })
}

/// The rest of the partition in which a page ended, and what is behind it. Of a partition that was begun only
/// some rows are left.
fn in_parts(
    mut whole: ReadCommand,
    last: Option<(Clustering, bool)>,
    begun: Option<&(Bytes, u64)>,
) -> Vec<ReadCommand> {
    let left_of = |key: &DecoratedKey| begun.filter(|(begun, _)| *begun == key.key.0).map(|(_, left)| *left);
    if let PartitionSelection::Keys(keys) = &whole.partitions
        && let Some(left) = keys.first().and_then(left_of)
    {
        whole.limits.rows_per_partition = left;
    }
    let Some((row, includes_it)) = last else { return vec![whole] };
    let PartitionSelection::Range(range) = &whole.partitions else { return vec![whole] };
    let KeyBound::Key { key, inclusive: true } = &range.start else { return vec![whole] };
    let rows_per_partition = left_of(key).unwrap_or(whole.limits.rows_per_partition);
    let start = KeyBound::Key { key: key.clone(), inclusive: false };
    let behind = PartitionSelection::Range(KeyRange { start, end: range.end.clone() });
    let rest = ReadCommand {
        partitions: PartitionSelection::Keys(vec![key.clone()]),
        clusterings: rest_of(&whole.clusterings, &whole.table, &row, includes_it),
        limits: DataLimits { rows_per_partition, ..whole.limits },
        ..whole.clone()
    };
    vec![rest, ReadCommand { partitions: behind, ..whole }]
}

/// Appends a filter.
fn write_filter(out: &mut Vec<u8>, command: &ReadCommand) -> Result<(), UnsentError> {
    out.push(0);
    let conditions = command.row_filter.iter().filter_map(|condition| {
        let column = command.table.column_by_id(condition.column)?;
        Some((condition, column))
    });
    vint::write_unsigned(out, conditions.clone().count() as u64);
    for (FilterExpression { operator, map_key, values, .. }, column) in conditions {
        out.push(u8::from(map_key.is_some()));
        write_short(out, column.name.as_bytes())?;
        out.extend_from_slice(&number_of(*operator).to_be_bytes());
        if let Some(key) = map_key {
            write_short(out, key)?;
        }
        match operator {
            Operator::In => write_short(out, &collection::encode_list(values))?,
            _ => write_short(out, values.first().map_or(&[], |value| value))?,
        }
    }
    Ok(())
}

/// Reads a filter.
fn read_filter(input: &mut SliceInput, table: &TableSchema) -> Result<Vec<FilterExpression>, PayloadError> {
    input.u8()?;
    let mut conditions = Vec::new();
    for _ in 0..count(input)? {
        let is_of_entry = match input.u8()? {
            0 => false,
            1 => true,
            _ => return Err(PayloadError::Unsupported("conditions of custom indexes".to_owned())),
        };
        let column = column_of(&read_short(input)?, table)?;
        let operator = read_operator(input)?;
        let map_key = if is_of_entry { Some(read_short(input)?) } else { None };
        let value = read_short(input)?;
        let values = match operator {
            Operator::In => collection::elements(&value).flatten().map(Bytes::copy_from_slice).collect(),
            _ => vec![value],
        };
        conditions.push(FilterExpression { column, operator, map_key, values });
    }
    Ok(conditions)
}

fn column_of(name: &[u8], table: &TableSchema) -> Result<ColumnId, PayloadError> {
    let column = std::str::from_utf8(name).ok().and_then(|name| table.column(name));
    column.map(|column| column.id).ok_or_else(|| unknown_column(&String::from_utf8_lossy(name), table))
}

fn read_operator(input: &mut SliceInput) -> Result<Operator, PayloadError> {
    Ok(match input.i32()? {
        0 => Operator::Eq,
        1 => Operator::GtEq,
        2 => Operator::Gt,
        3 => Operator::LtEq,
        4 => Operator::Lt,
        5 => Operator::Contains,
        6 => Operator::ContainsKey,
        7 => Operator::In,
        8 => Operator::NotEq,
        other => return Err(PayloadError::Unsupported(format!("operator {other} of a condition"))),
    })
}

/// What [`read_operator`] reads.
fn number_of(operator: Operator) -> i32 {
    match operator {
        Operator::Eq => 0,
        Operator::GtEq => 1,
        Operator::Gt => 2,
        Operator::LtEq => 3,
        Operator::Lt => 4,
        Operator::Contains => 5,
        Operator::ContainsKey => 6,
        Operator::In => 7,
        Operator::NotEq => 8,
    }
}

#[cfg(test)]
mod tests;
