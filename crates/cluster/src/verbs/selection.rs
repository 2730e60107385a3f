//! The parts of a read that say what it selects.
//!
//! ```text
//! columns   := u8 flags (1 all regular ones, 2 some are wanted, 4 elements, 8 all static ones)
//!              | [static names, regular names: fetched] | [static names, regular names: wanted] | [elements]
//! elements  := uvint n, n * (short column | u8 0 slice, from, to | u8 1 element, path)   paths are vbytes
//! rows      := u8 0 slices | u8 reversed | uvint n, n * (bound, bound)
//!            | u8 1 names  | u8 reversed | uvint n, n * clustering
//! limits    := u8 kind | uvint rows | uvint rows of a partition | u8 distinct
//!              | kind 1, a page: vbytes last key | uvint rows left in its partition
//!            | u8 4, 5 | uvint groups | uvint groups of a partition | uvint rows | grouping | u8 0
//!              | or u8 1, vbytes key of the last row | u8 0, or u8 1 and its clustering
//!              | kind 5, a page: vbytes last key | uvint groups left in its partition
//! grouping  := u8 0 all rows | u8 1 | uvint keys of the clustering | u8 2 | uvint as before | selector
//! selector  := u8 0 a column: vbytes name, i32 | u8 1 a value: short type, vbytes
//!            | u8 9 a function: short keyspace, short name, uvint n, n * short type
//!              | u8 0, or u8 1, uvint which arguments are given, vbytes of each | uvint n, n * selector
//! range     := u8 flags (1 tokens, 2 start included, 4 end included) | position, position
//! position  := u8 0 | short key     a key
//!            | u8 1 or 2 | i32 8 | i64 token      before or after all keys of a token
//! ```
//! Groups by the values of functions (kind 2 of groupings) are taken as the larger groups of what precedes
//! the function: who asks gets more rows than it needs, never fewer.

use super::{PayloadError, UnsentError, write_short, write_vbytes};
use bytes::Bytes;
use model::clustering::Slice;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, FetchedColumns, ReadCommand};
use model::elements::{ElementSelection, PathRange};
use model::key::{KeyBound, KeyRange, Token};
use model::{
    Clustering, ClusteringBound, ColumnDef, ColumnId, CqlType, DecoratedKey, PartitionKey, TableSchema, vint,
};
use partition::GroupLimits;
use partition::codec::{
    Input, SliceInput, ValueLen, read_bound, read_clustering, write_bound, write_clustering,
};
use std::sync::Arc;

mod column {
    pub const ALL_REGULARS: u8 = 1;
    pub const WANTED: u8 = 2;
    pub const ELEMENTS: u8 = 4;
    pub const ALL_STATICS: u8 = 8;
    pub const ALL: u8 = 15;
}

/// Cassandra's "no limit".
const NO_LIMIT: u64 = i32::MAX as u64;

const SLICES: u8 = 0;
const NAMES: u8 = 1;

const TOKENS: u8 = 1;
const START_INCLUDED: u8 = 2;
const END_INCLUDED: u8 = 4;

/// Functions of functions in what makes a group.
const SELECTOR_DEPTH_MAX: usize = 32;

const KEY: u8 = 0;
const BEFORE_TOKEN: u8 = 1;
const AFTER_TOKEN: u8 = 2;

/// The types of the clustering values of a table.
pub(super) fn clustering_types(table: &TableSchema) -> Vec<ValueLen> {
    table.clustering_columns().iter().map(|column| ValueLen::of(&column.ty)).collect()
}

/// Appends the columns of a read. All regular ones are fetched: any of their cells keeps a row alive.
pub(super) fn write_columns(out: &mut Vec<u8>, command: &ReadCommand) {
    let (table, columns) = (&command.table, &command.columns);
    let fetches_all = table.static_columns().iter().all(|c| command.fetches_static(c.id));
    let mut flags = column::ALL_REGULARS;
    if fetches_all {
        flags |= column::ALL_STATICS;
    }
    if !columns.all {
        flags |= column::WANTED;
    }
    out.push(flags);
    write_names(out, table.static_columns(), |c| command.fetches_static(c));
    write_names(out, table.regular_columns(), |_| true);
    if !columns.all {
        write_names(out, table.static_columns(), |c| columns.contains(c));
        write_names(out, table.regular_columns(), |c| columns.contains(c));
    }
}

fn write_names(out: &mut Vec<u8>, columns: &[Arc<ColumnDef>], is_listed: impl Fn(ColumnId) -> bool) {
    let listed = || columns.iter().filter(|column| is_listed(column.id));
    vint::write_unsigned(out, listed().count() as u64);
    for column in listed() {
        write_vbytes(out, column.name.as_bytes());
    }
}

/// Reads the columns of a read.
pub(super) fn read_columns(
    input: &mut SliceInput,
    table: &TableSchema,
) -> Result<ColumnSelection, PayloadError> {
    let flags = input.u8()?;
    if flags & !column::ALL != 0 {
        return Err(input.malformed(format!("flags {flags:#04x} of a selection of columns")).into());
    }
    let is_told = flags & column::ALL_REGULARS != 0;
    let fetched = if is_told { Some(read_names(input, table)?) } else { None };
    let wanted = if flags & column::WANTED != 0 { Some(read_names(input, table)?) } else { None };
    // Who says nothing of what is fetched fetches what is wanted.
    let Some(told) = fetched.or_else(|| wanted.clone()) else {
        return Err(input.malformed("no columns are selected".to_owned()).into());
    };
    let mut selection = match wanted {
        Some(wanted) => ColumnSelection::of(wanted),
        None => ColumnSelection::all(table),
    };
    selection.fetched = Some(Arc::new(of_kinds(told, table)));
    if flags & column::ELEMENTS != 0 {
        selection.elements = read_elements(input, table)?;
    }
    Ok(selection)
}

/// Static and regular columns apart.
fn of_kinds(mut ids: Vec<ColumnId>, table: &TableSchema) -> FetchedColumns {
    ids.sort_unstable();
    let is_static = |id: &ColumnId| table.static_columns().iter().any(|column| column.id == *id);
    let (statics, regulars) = ids.into_iter().partition(is_static);
    FetchedColumns { statics, regulars }
}

/// Static, then regular columns.
fn read_names(input: &mut SliceInput, table: &TableSchema) -> Result<Vec<ColumnId>, PayloadError> {
    let mut found = Vec::new();
    for _ in 0..2 {
        for _ in 0..count(input)? {
            let name = input.vtext()?;
            match table.column(&name) {
                Some(column) => found.push(column.id),
                // What a column held that was dropped here is not asked for.
                None if table.dropped_column(&name).is_some() => {}
                None => return Err(unknown_column(&name, table)),
            }
        }
    }
    Ok(found)
}

pub(super) fn unknown_column(name: &str, table: &TableSchema) -> PayloadError {
    PayloadError::Schema(format!("table {}.{} has no column {name}", table.keyspace, table.name))
}

/// A number of things, each of which takes a byte at least.
pub(super) fn count(input: &mut SliceInput) -> Result<u64, PayloadError> {
    let count = input.uvint()?;
    match count > input.remaining() as u64 {
        true => Err(input.malformed(format!("{count} of what takes a byte each")).into()),
        false => Ok(count),
    }
}

/// Bytes with their length as two bytes before them.
pub(super) fn read_short(input: &mut SliceInput) -> Result<Bytes, PayloadError> {
    let len = input.u16()?;
    Ok(input.bytes(u64::from(len))?)
}

fn read_elements(
    input: &mut SliceInput,
    table: &TableSchema,
) -> Result<Option<Arc<Vec<ElementSelection>>>, PayloadError> {
    let mut ranges: Vec<(ColumnId, CqlType, Vec<PathRange>)> = Vec::new();
    for _ in 0..count(input)? {
        let name = read_short(input)?;
        let column = std::str::from_utf8(&name).ok().and_then(|name| table.column(name));
        let column = column.ok_or_else(|| unknown_column(&String::from_utf8_lossy(&name), table))?;
        let range = match input.u8()? {
            0 => {
                let open = |path: Bytes| if path.is_empty() { None } else { Some(path) };
                PathRange { from: open(input.vbytes()?), to: open(input.vbytes()?) }
            }
            1 => PathRange::of(input.vbytes()?),
            kind => return Err(input.malformed(format!("{kind} is no selection of elements")).into()),
        };
        let Some(path_type) = column.ty.path_type() else { continue };
        match ranges.iter_mut().find(|(id, ..)| *id == column.id) {
            Some((.., ranges)) => ranges.push(range),
            None => ranges.push((column.id, path_type, vec![range])),
        }
    }
    let selections = ranges.into_iter().map(|(id, ty, ranges)| ElementSelection::new(id, ty, ranges));
    let selections: Vec<ElementSelection> = selections.collect();
    Ok((!selections.is_empty()).then(|| Arc::new(selections)))
}

/// Appends the rows of a read.
pub(super) fn write_rows(
    out: &mut Vec<u8>,
    rows: &ClusteringFilter,
    types: &[ValueLen],
) -> Result<(), UnsentError> {
    match rows {
        ClusteringFilter::Slices { slices, reversed } => {
            out.extend_from_slice(&[SLICES, u8::from(*reversed)]);
            vint::write_unsigned(out, slices.len() as u64);
            for slice in slices {
                write_bound(out, types, slice.start.kind, &slice.start.prefix)?;
                write_bound(out, types, slice.end.kind, &slice.end.prefix)?;
            }
        }
        ClusteringFilter::Names { names, reversed } => {
            out.extend_from_slice(&[NAMES, u8::from(*reversed)]);
            vint::write_unsigned(out, names.len() as u64);
            for name in names {
                write_clustering(out, types, name)?;
            }
        }
    }
    Ok(())
}

/// Reads the rows of a read.
pub(super) fn read_rows(
    input: &mut SliceInput,
    table: &TableSchema,
    types: &[ValueLen],
) -> Result<ClusteringFilter, PayloadError> {
    let kind = input.u8()?;
    let reversed = input.u8()? != 0;
    let comparator = table.comparator();
    match kind {
        SLICES => {
            let mut slices: Vec<Slice> = Vec::new();
            for _ in 0..count(input)? {
                let mut slice = Slice::ALL;
                read_bound(input, types, &mut slice.start)?;
                read_bound(input, types, &mut slice.end)?;
                let is_slice = slice.start.kind.is_start() && !slice.end.kind.is_start();
                let follows = slices.last().is_none_or(|before: &Slice| {
                    comparator.compare_positions(before.end.position(), slice.start.position()).is_le()
                });
                if !is_slice || slice.start.kind.is_boundary() || slice.end.kind.is_boundary() || !follows {
                    return Err(input.malformed("slices are not those of rows".to_owned()).into());
                }
                if !slice.is_empty(comparator) {
                    slices.push(slice);
                }
            }
            Ok(ClusteringFilter::Slices { slices, reversed })
        }
        NAMES => {
            let mut names: Vec<Clustering> = Vec::new();
            for _ in 0..count_of_names(input, types)? {
                let mut name = Clustering::empty();
                read_clustering(input, types, &mut name)?;
                if names.last().is_some_and(|before| comparator.compare(before, &name).is_ge()) {
                    return Err(input.malformed("names of rows are out of order".to_owned()).into());
                }
                names.push(name);
            }
            Ok(ClusteringFilter::Names { names, reversed })
        }
        kind => Err(input.malformed(format!("{kind} is no kind of filter of rows")).into()),
    }
}

/// A table without clustering columns has one row, whose name takes no byte.
fn count_of_names(input: &mut SliceInput, types: &[ValueLen]) -> Result<u64, PayloadError> {
    if !types.is_empty() {
        return count(input);
    }
    match input.uvint()? {
        count @ 0..=1 => Ok(count),
        count => Err(input.malformed(format!("{count} names of one row")).into()),
    }
}

/// Appends the limits of a read.
pub(super) fn write_limits(out: &mut Vec<u8>, limits: &DataLimits) {
    let limit = |limit: u64| limit.min(NO_LIMIT);
    out.push(0);
    vint::write_unsigned(out, limit(limits.rows));
    vint::write_unsigned(out, limit(limits.rows_per_partition));
    out.push(u8::from(limits.distinct));
}

/// The limits of a read that another node asks for.
pub(super) struct Limits {
    pub rows: DataLimits,
    /// A partition of which rows were returned, and how many are left.
    pub begun: Option<(Bytes, u64)>,
    pub groups: Option<GroupLimits>,
}

/// Reads the limits of a read.
pub(super) fn read_limits(input: &mut SliceInput, types: &[ValueLen]) -> Result<Limits, PayloadError> {
    let limit = |limit: u64| if limit >= NO_LIMIT { u64::MAX } else { limit };
    let kind = input.u8()?;
    match kind {
        0 | 1 => {
            let (rows, of_partition) = (limit(input.uvint()?), limit(input.uvint()?));
            let distinct = input.u8()? != 0;
            let begun = if kind == 1 { Some((input.vbytes()?, limit(input.uvint()?))) } else { None };
            let rows = DataLimits { rows, rows_per_partition: of_partition, distinct };
            Ok(Limits { rows, begun, groups: None })
        }
        4 | 5 => {
            let [groups, per_partition, rows] = [input.uvint()?, input.uvint()?, input.uvint()?].map(limit);
            let prefix = read_grouping(input)?;
            let (mut last_key, mut last_row) = (None, None);
            if input.u8()? != 0 {
                last_key = Some(input.vbytes()?);
                if input.u8()? != 0 {
                    let mut row = Clustering::empty();
                    read_clustering(input, types, &mut row)?;
                    last_row = Some(row);
                }
            }
            let begun = if kind == 5 { Some((input.vbytes()?, limit(input.uvint()?))) } else { None };
            let is_open = last_row.is_some();
            let groups = GroupLimits { groups, per_partition, prefix, last_key, last_row, is_open, begun };
            Ok(Limits { rows: DataLimits { rows, ..DataLimits::NONE }, begun: None, groups: Some(groups) })
        }
        kind => Err(input.malformed(format!("{kind} is no kind of limits")).into()),
    }
}

/// How many clustering values rows of a group have in common; `None` where all rows are one.
fn read_grouping(input: &mut SliceInput) -> Result<Option<usize>, PayloadError> {
    let kind = input.u8()?;
    if kind == 0 {
        return Ok(None);
    }
    let prefix = usize::try_from(input.uvint()?).unwrap_or(usize::MAX);
    match kind {
        1 => Ok(Some(prefix)),
        2 => {
            skip_selector(input, SELECTOR_DEPTH_MAX)?;
            Ok(Some(prefix.saturating_sub(1)))
        }
        kind => Err(input.malformed(format!("{kind} is no kind of groups")).into()),
    }
}

/// Steps over a column, a value, or a function of such.
fn skip_selector(input: &mut SliceInput, depth: usize) -> Result<(), PayloadError> {
    match input.u8()? {
        0 => {
            input.vbytes()?;
            input.i32()?;
        }
        1 => {
            read_short(input)?;
            input.vbytes()?;
        }
        9 if depth > 0 => {
            read_short(input)?;
            read_short(input)?;
            let arguments = count(input)?;
            for _ in 0..arguments {
                read_short(input)?;
            }
            if input.u8()? != 0 {
                let given = input.uvint()?;
                for _ in (0..arguments.min(64)).filter(|i| given >> i & 1 == 1) {
                    input.vbytes()?;
                }
            }
            for _ in 0..count(input)? {
                skip_selector(input, depth - 1)?;
            }
        }
        kind => return Err(PayloadError::Unsupported(format!("groups by a selector of kind {kind}"))),
    }
    Ok(())
}

/// Appends a range of partitions.
pub(super) fn write_range(out: &mut Vec<u8>, range: &KeyRange) -> Result<(), UnsentError> {
    let start_included = matches!(range.start, KeyBound::Key { inclusive: true, .. });
    // Where a range ends before or after all keys of a token, it makes no difference.
    let end_included = !matches!(range.end, KeyBound::Key { inclusive: false, .. });
    let flag = |flag: u8, is_set: bool| if is_set { flag } else { 0 };
    out.push(flag(START_INCLUDED, start_included) | flag(END_INCLUDED, end_included));
    let token = |out: &mut Vec<u8>, kind: u8, token: Token| {
        out.push(kind);
        out.extend_from_slice(&8i32.to_be_bytes());
        out.extend_from_slice(&token.0.to_be_bytes());
    };
    for (bound, is_start) in [(&range.start, true), (&range.end, false)] {
        match bound {
            KeyBound::Unbounded => token(out, BEFORE_TOKEN, Token::MIN),
            KeyBound::Token { token: at, inclusive } => {
                token(out, if *inclusive == is_start { BEFORE_TOKEN } else { AFTER_TOKEN }, *at);
            }
            KeyBound::Key { key, .. } => {
                out.push(KEY);
                write_short(out, &key.key.0)?;
            }
        }
    }
    Ok(())
}

/// Reads a range of partitions.
pub(super) fn read_range(input: &mut SliceInput) -> Result<KeyRange, PayloadError> {
    let flags = input.u8()?;
    if flags & TOKENS != 0 {
        return Err(PayloadError::Unsupported("ranges of tokens alone".to_owned()));
    }
    let start = read_position(input, flags & START_INCLUDED != 0, true)?;
    let end = read_position(input, flags & END_INCLUDED != 0, false)?;
    Ok(KeyRange { start, end })
}

fn read_position(input: &mut SliceInput, inclusive: bool, is_start: bool) -> Result<KeyBound, PayloadError> {
    match input.u8()? {
        KEY => {
            let key = DecoratedKey::new(PartitionKey(read_short(input)?));
            Ok(KeyBound::Key { key, inclusive })
        }
        kind @ (BEFORE_TOKEN | AFTER_TOKEN) => {
            let len = input.i32()?;
            if len != 8 {
                return Err(input.malformed(format!("a token of {len} bytes")).into());
            }
            let token = Token(input.i64()?);
            // Nothing lies before the smallest token, so it also stands for the end of the ring.
            if token == Token::MIN {
                return Ok(KeyBound::Unbounded);
            }
            Ok(KeyBound::Token { token, inclusive: (kind == BEFORE_TOKEN) == is_start })
        }
        kind => Err(input.malformed(format!("{kind} is no kind of position")).into()),
    }
}

/// What of `rows` comes behind a row in the order of the read, that row included or not.
pub(super) fn rest_of(
    rows: &ClusteringFilter,
    table: &TableSchema,
    last: &Clustering,
    includes_last: bool,
) -> ClusteringFilter {
    use model::BoundKind::{ExclEnd, ExclStart, InclEnd, InclStart};
    let comparator = table.comparator();
    match rows {
        ClusteringFilter::Names { names, reversed } => {
            let is_left = |name: &&Clustering| {
                let order = comparator.compare(name, last);
                let order = if *reversed { order.reverse() } else { order };
                order.is_gt() || includes_last && order.is_eq()
            };
            ClusteringFilter::Names {
                names: names.iter().filter(is_left).cloned().collect(),
                reversed: *reversed,
            }
        }
        ClusteringFilter::Slices { slices, reversed } => {
            let mut left = slices.clone();
            for slice in &mut left {
                let kind = match (*reversed, includes_last) {
                    (false, true) => InclStart,
                    (false, false) => ExclStart,
                    (true, true) => InclEnd,
                    (true, false) => ExclEnd,
                };
                let bound = ClusteringBound { kind, prefix: last.clone() };
                let edge = if *reversed { &mut slice.end } else { &mut slice.start };
                let order = comparator.compare_positions(edge.position(), bound.position());
                if if *reversed { order.is_gt() } else { order.is_lt() } {
                    *edge = bound;
                }
            }
            left.retain(|slice| !slice.is_empty(comparator));
            ClusteringFilter::Slices { slices: left, reversed: *reversed }
        }
    }
}

#[cfg(test)]
mod tests;
