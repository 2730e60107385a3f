//! Whole mutations, as the commit log and messages of versions 12 and 13 hold them
//! (docs/formats/commit-log.md).
//!
//! ```text
//! mutation := uvint count, count * update
//! update   := 16 bytes table id | vbytes key | u8 flags
//!             | stats | [static column names] | column names      names: uvint n, n * vbytes
//!             | [deletion] | [static row] | [uvint number of rows] | unfiltered* | 0x01
//! ```
//! Nothing follows the flags of an empty update.

use super::clustering::read_clustering;
use super::columns::ColumnSet;
use super::decode::UnfilteredHead;
use super::encode::{EncodeError, RowSizes, write_end};
use super::header::write_text;
use super::input::{DecodeError, Input, SliceInput};
use super::layout::{Layout, LayoutError, Wanted};
use super::ranges::{changes_of_tombstones, tombstones_of_changes};
use super::stats::{DeletionTimes, Deltas, EncodingStats, StatsCollector};
use crate::RangeChange;
use bytes::Bytes;
use model::clustering::Position;
use model::{
    ClusteringBound, ColumnDef, DecoratedKey, Deletion, Mutation, PartitionKey, PartitionUpdate, Row,
    TableSchema, vint,
};
use std::cmp::Ordering;
use std::sync::Arc;
use uuid::Uuid;

pub(crate) mod flag {
    pub const EMPTY: u8 = 0x01;
    pub const REVERSED: u8 = 0x02;
    pub const DELETION: u8 = 0x04;
    pub const STATIC_ROW: u8 = 0x08;
    pub const ROW_ESTIMATE: u8 = 0x10;
    pub const ALL: u8 = 0x1f;
}

/// Why a mutation cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MutationError {
    /// The bytes are no mutation.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// A table that does not exist (any more). The rest of the mutation cannot be decoded without its schema.
    #[error("the mutation is of the unknown table {0}")]
    UnknownTable(Uuid),
    /// A column that the table never had.
    #[error(transparent)]
    UnknownColumn(#[from] LayoutError),
}

/// Appends a mutation. Local deletion times are signed in messages of version 12, unsigned in those of 13.
///
/// # Errors
/// When a value does not have the length of its type; `out` is of no use then.
pub fn encode_mutation(
    mutation: &Mutation,
    times: DeletionTimes,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    vint::write_unsigned(out, mutation.updates.len() as u64);
    for update in &mutation.updates {
        encode_update(update, times, out)?;
    }
    Ok(())
}

/// Decodes a mutation. `times` says its version, as in [`encode_mutation`]. `lookup` finds tables by id.
///
/// # Errors
/// [`MutationError::UnknownTable`] when `lookup` does not find a table: the caller may skip the mutation.
pub fn decode_mutation(
    bytes: &[u8],
    times: DeletionTimes,
    lookup: &dyn Fn(Uuid) -> Option<Arc<TableSchema>>,
) -> Result<Mutation, MutationError> {
    let mut input = SliceInput::new(Bytes::copy_from_slice(bytes));
    let mutation = read_mutation(&mut input, times, lookup)?;
    match input.remaining() {
        0 => Ok(mutation),
        rest => Err(input.malformed(format!("{rest} bytes after the mutation")).into()),
    }
}

/// Reads a mutation that others may follow.
///
/// # Errors
/// As [`decode_mutation`].
pub fn read_mutation(
    input: &mut SliceInput,
    times: DeletionTimes,
    lookup: &dyn Fn(Uuid) -> Option<Arc<TableSchema>>,
) -> Result<Mutation, MutationError> {
    let count = input.uvint()?;
    let mut updates = Vec::new();
    for _ in 0..count {
        updates.push(decode_update(input, times, lookup)?);
    }
    Ok(Mutation { updates })
}

/// Columns of `defs` for which any of `rows` has a cell or a deletion.
fn used<'t>(defs: &'t [Arc<ColumnDef>], rows: &[&Row]) -> Vec<&'t Arc<ColumnDef>> {
    let is_used = |def: &&Arc<ColumnDef>| {
        rows.iter()
            .any(|r| !r.cells_of(def.id).is_empty() || r.complex_deletions.iter().any(|(c, _)| *c == def.id))
    };
    defs.iter().filter(is_used).collect()
}

fn write_names(out: &mut Vec<u8>, columns: &[&Arc<ColumnDef>]) {
    vint::write_unsigned(out, columns.len() as u64);
    for column in columns {
        write_text(out, &column.name);
    }
}

/// Appends one update of a mutation.
///
/// # Errors
/// As [`encode_mutation`].
pub fn encode_update(
    update: &PartitionUpdate,
    times: DeletionTimes,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let table = &update.table;
    out.extend_from_slice(table.id.as_bytes());
    vint::write_unsigned(out, update.key.key.0.len() as u64);
    out.extend_from_slice(&update.key.key.0);
    if update.is_empty() {
        out.push(flag::EMPTY);
        return Ok(());
    }
    let static_row = update.static_row.as_ref().filter(|row| !row.is_empty());
    let mut bits = flag::ROW_ESTIMATE;
    if !update.deletion.is_none() {
        bits |= flag::DELETION;
    }
    if static_row.is_some() {
        bits |= flag::STATIC_ROW;
    }
    out.push(bits);
    let mut stats = StatsCollector::default();
    stats.add_deletion(&update.deletion);
    static_row.into_iter().chain(&update.rows).for_each(|row| stats.add_row(row));
    update.range_tombstones.iter().for_each(|t| stats.add_deletion(&t.deletion));
    let stats = stats.stats().held_as(times);
    stats.encode(out);
    let statics = used(table.static_columns(), &static_row.into_iter().collect::<Vec<_>>());
    let regulars = used(table.regular_columns(), &update.rows.iter().collect::<Vec<_>>());
    if static_row.is_some() {
        write_names(out, &statics);
    }
    write_names(out, &regulars);
    let layout = Layout::of_message(stats, times, table, statics, regulars);
    if !update.deletion.is_none() {
        Deltas { stats, times }.write_deletion(out, &update.deletion);
    }
    let mut sizes = RowSizes::default();
    if let Some(row) = static_row {
        layout.write_row(out, row, true, &mut sizes)?;
    }
    vint::write_unsigned(out, update.rows.len() as u64);
    encode_unfiltereds(update, &layout, &mut sizes, out)?;
    write_end(out);
    Ok(())
}

/// Merges rows and markers in storage order.
fn encode_unfiltereds(
    update: &PartitionUpdate,
    layout: &Layout,
    sizes: &mut RowSizes,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    let comparator = update.table.comparator();
    let changes = changes_of_tombstones(&update.range_tombstones, comparator);
    let mut open = Deletion::NONE;
    let mut changes = changes.iter().peekable();
    for row in &update.rows {
        let here = Position::row(&row.clustering);
        while let Some(change) =
            changes.next_if(|c| comparator.compare_positions(c.position.position(), here) == Ordering::Less)
        {
            layout.write_marker(out, &change.position, &open, &change.deletion, sizes)?;
            open = change.deletion;
        }
        layout.write_row(out, row, false, sizes)?;
    }
    for change in changes {
        layout.write_marker(out, &change.position, &open, &change.deletion, sizes)?;
        open = change.deletion;
    }
    Ok(())
}

fn names(input: &mut SliceInput) -> Result<Vec<String>, DecodeError> {
    let count = input.uvint()?;
    if count > input.remaining() as u64 {
        return Err(input.malformed(format!("{count} columns")));
    }
    (0..count).map(|_| input.vtext()).collect()
}

/// Decodes one update of a mutation.
///
/// # Errors
/// As [`decode_mutation`].
pub fn decode_update(
    input: &mut SliceInput,
    times: DeletionTimes,
    lookup: &dyn Fn(Uuid) -> Option<Arc<TableSchema>>,
) -> Result<PartitionUpdate, MutationError> {
    let id = Uuid::from_bytes(input.array()?);
    let table = lookup(id).ok_or(MutationError::UnknownTable(id))?;
    let key = DecoratedKey::new(PartitionKey(input.vbytes()?));
    let bits = input.u8()?;
    let mut update = PartitionUpdate::new(Arc::clone(&table), key);
    if bits & !flag::ALL != 0 || bits & flag::REVERSED != 0 {
        return Err(input.malformed(format!("flags {bits:#04x} of an update")).into());
    }
    if bits & flag::EMPTY != 0 {
        return Ok(update);
    }
    let stats = EncodingStats::decode(input)?;
    let statics = if bits & flag::STATIC_ROW != 0 { names(input)? } else { Vec::new() };
    let regulars = names(input)?;
    let layout = Layout::of_names(stats, times, &table, &statics, &regulars)?;
    let wanted = layout.everything();
    if bits & flag::DELETION != 0 {
        update.deletion = layout.deltas.read_deletion(input)?;
    }
    let mut present = ColumnSet::default();
    if bits & flag::STATIC_ROW != 0 {
        let mut row = Row::default();
        match layout.read_head(input)? {
            UnfilteredHead::Row(flags) if flags.is_static => {
                layout.read_row_body(input, flags, None, &wanted, &mut present, &mut row)?;
            }
            _ => return Err(input.malformed("a static row expected".to_owned()).into()),
        }
        update.static_row = Some(row).filter(|row| !row.is_empty());
    }
    if bits & flag::ROW_ESTIMATE != 0 {
        input.uvint()?;
    }
    decode_unfiltereds(input, &layout, &wanted, &mut update)?;
    Ok(update)
}

fn decode_unfiltereds(
    input: &mut SliceInput,
    layout: &Layout,
    wanted: &Wanted,
    update: &mut PartitionUpdate,
) -> Result<(), MutationError> {
    let table = Arc::clone(&update.table);
    let comparator = table.comparator();
    let mut present = ColumnSet::default();
    let mut changes = Vec::new();
    loop {
        match layout.read_head(input)? {
            UnfilteredHead::End => break,
            UnfilteredHead::Marker => {
                let mut bound = ClusteringBound::BOTTOM;
                layout.read_bound(input, &mut bound)?;
                let marker = layout.read_marker(input, &bound)?;
                changes.push(RangeChange::at(bound, marker.open));
            }
            UnfilteredHead::Row(flags) if flags.is_static => {
                return Err(input.malformed("a static row among rows".to_owned()).into());
            }
            UnfilteredHead::Row(flags) => {
                let mut row = Row::default();
                read_clustering(input, &layout.clustering, &mut row.clustering)?;
                layout.read_row_body(input, flags, None, wanted, &mut present, &mut row)?;
                if let Some(last) = update.rows.last()
                    && comparator.compare(&last.clustering, &row.clustering) != Ordering::Less
                {
                    return Err(input.malformed("rows are out of order".to_owned()).into());
                }
                // What is left of a row of dropped columns says nothing.
                if !row.is_empty() {
                    update.rows.push(row);
                }
            }
        }
    }
    update.range_tombstones = tombstones_of_changes(changes);
    Ok(())
}
