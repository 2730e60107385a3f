//! Writes, as a node sends them to another.
//!
//! ```text
//! mutation     := uvint n, n * update                                  (docs/formats/commit-log.md)
//! hint         := host id of whom it is for | uvint size | i64 milliseconds | uvint gc grace | mutation
//! batch        := time uuid | i64 microseconds | uvint n, n * (uvint size | mutation)
//! counter      := mutation, each difference in a context | short name of the consistency level
//! truncation   := short keyspace | short table
//! truncated    := short keyspace | short table | u8 whether it was
//! ```

use super::selection::{count, read_short};
use super::{Lookup, PayloadError, UnsentError, deletion_times, write_short, write_vbytes};
use bytes::Bytes;
use coordinator::{Hint, LoggedBatch};
use model::{Consistency, Mutation, counter, vint};
use partition::codec::mutation::{decode_mutation as decode, encode_mutation as encode, read_mutation};
use partition::codec::{Input, SliceInput};
use std::sync::Arc;
use uuid::Uuid;

/// Appends a mutation.
///
/// # Errors
/// When a value is not one of its type.
pub fn encode_mutation(mutation: &Mutation, version: u32, out: &mut Vec<u8>) -> Result<(), UnsentError> {
    Ok(encode(mutation, deletion_times(version), out)?)
}

/// Decodes a mutation.
///
/// # Errors
/// [`PayloadError::Schema`] for an unknown table or column.
pub fn decode_mutation(bytes: &[u8], version: u32, lookup: Lookup<'_>) -> Result<Mutation, PayloadError> {
    Ok(decode(bytes, deletion_times(version), lookup)?)
}

/// Appends a hint for the node `target`.
///
/// # Errors
/// When a value is not one of its type.
pub fn encode_hint(target: Uuid, hint: &Hint, version: u32, out: &mut Vec<u8>) -> Result<(), UnsentError> {
    let mut body = Vec::new();
    body.extend_from_slice(&hint.written_millis.to_be_bytes());
    vint::write_unsigned(&mut body, u64::from(hint.gc_grace_s));
    encode_mutation(&hint.mutation, version, &mut body)?;
    out.extend_from_slice(target.as_bytes());
    write_vbytes(out, &body);
    Ok(())
}

/// Decodes a hint, and for whom it is.
///
/// # Errors
/// [`PayloadError::Schema`] for an unknown table or column.
pub fn decode_hint(bytes: Bytes, version: u32, lookup: Lookup<'_>) -> Result<(Uuid, Hint), PayloadError> {
    let input = &mut SliceInput::new(bytes);
    let target = Uuid::from_bytes(input.array()?);
    let body = &mut SliceInput::new(input.vbytes()?);
    let written_millis = body.i64()?;
    let gc_grace_s = u32::try_from(body.uvint()?).unwrap_or(u32::MAX);
    let mutation = decode_mutation(&body.bytes(body.remaining() as u64)?, version, lookup)?;
    Ok((target, Hint { mutation: Arc::new(mutation), written_millis, gc_grace_s }))
}

/// Appends a batch.
///
/// # Errors
/// When a value is not one of its type.
pub fn encode_batch(batch: &LoggedBatch, version: u32, out: &mut Vec<u8>) -> Result<(), UnsentError> {
    out.extend_from_slice(batch.id.as_bytes());
    out.extend_from_slice(&batch.written_micros.to_be_bytes());
    vint::write_unsigned(out, batch.mutations.len() as u64);
    for mutation in &batch.mutations {
        let mut encoded = Vec::new();
        encode_mutation(mutation, version, &mut encoded)?;
        write_vbytes(out, &encoded);
    }
    Ok(())
}

/// Decodes a batch.
///
/// # Errors
/// [`PayloadError::Schema`] for an unknown table or column.
pub fn decode_batch(bytes: Bytes, version: u32, lookup: Lookup<'_>) -> Result<LoggedBatch, PayloadError> {
    let input = &mut SliceInput::new(bytes);
    let (id, written_micros) = (Uuid::from_bytes(input.array()?), input.i64()?);
    let mut mutations = Vec::new();
    for _ in 0..count(input)? {
        mutations.push(decode_mutation(&input.vbytes()?, version, lookup)?);
    }
    Ok(LoggedBatch { id, written_micros, mutations })
}

/// Appends increments of counters, which their first replica carries out.
///
/// # Errors
/// When a value is not one of its type.
pub fn encode_counters(
    mutation: &Mutation,
    consistency: Consistency,
    version: u32,
    out: &mut Vec<u8>,
) -> Result<(), UnsentError> {
    encode_mutation(&with_counters(mutation.clone(), increment), version, out)?;
    write_short(out, consistency.name().as_bytes())
}

/// The id of the shard that an increment is sent as (`CounterContext.UPDATE_CLOCK_ID`).
const INCREMENT_ID: [u8; 16] = 0xC000_0000_0000_0000_u128.to_be_bytes();

/// A difference of 8 bytes as Cassandra sends it: a context with one local shard, whose clock is 1
/// (`CounterContext.createUpdate`).
fn increment(difference: &[u8]) -> Bytes {
    let mut context = vec![0, 1, 0, 0];
    context.extend_from_slice(&INCREMENT_ID);
    context.extend_from_slice(&1i64.to_be_bytes());
    context.extend_from_slice(difference);
    context.into()
}

/// The difference of 8 bytes that a context stands for.
fn difference(context: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&counter::total(context).to_be_bytes())
}

/// The mutation with other values of its counters.
fn with_counters(mut mutation: Mutation, value_of: fn(&[u8]) -> Bytes) -> Mutation {
    for update in &mut mutation.updates {
        let table = Arc::clone(&update.table);
        for row in update.rows.iter_mut().chain(&mut update.static_row) {
            let counters =
                row.cells.iter_mut().filter(|c| !c.is_tombstone() && table.is_counter_column(c.column));
            counters.for_each(|cell| cell.value = value_of(&cell.value));
        }
    }
    mutation
}

/// Decodes increments of counters, and when they count as written.
///
/// # Errors
/// [`PayloadError::Schema`] for an unknown table or column.
pub fn decode_counters(
    bytes: &[u8],
    version: u32,
    lookup: Lookup<'_>,
) -> Result<(Mutation, Consistency), PayloadError> {
    let input = &mut SliceInput::new(Bytes::copy_from_slice(bytes));
    let mutation = read_mutation(input, deletion_times(version), lookup)?;
    let name = read_short(input)?;
    let level = Consistency::ALL_LEVELS.iter().find(|level| level.name().as_bytes() == name);
    let level = level.ok_or_else(|| input.malformed("no consistency level".to_owned()))?;
    Ok((with_counters(mutation, difference), *level))
}

/// Decodes the id of a batch.
///
/// # Errors
/// When the bytes are none.
pub fn decode_batch_id(bytes: Bytes) -> Result<Uuid, PayloadError> {
    Ok(Uuid::from_bytes(SliceInput::new(bytes).array()?))
}

/// Appends the names of a table, and whether it was emptied.
///
/// # Errors
/// When they are too long.
pub fn encode_truncated(
    keyspace: &str,
    table: &str,
    is_done: bool,
    out: &mut Vec<u8>,
) -> Result<(), UnsentError> {
    encode_truncation(keyspace, table, out)?;
    out.push(u8::from(is_done));
    Ok(())
}

/// Appends the names of a table.
///
/// # Errors
/// When they are too long.
pub fn encode_truncation(keyspace: &str, table: &str, out: &mut Vec<u8>) -> Result<(), UnsentError> {
    write_short(out, keyspace.as_bytes())?;
    write_short(out, table.as_bytes())
}

/// Decodes the names of a table that is emptied.
///
/// # Errors
/// When the bytes are none.
pub fn decode_truncation(bytes: Bytes) -> Result<(String, String), PayloadError> {
    let input = &mut SliceInput::new(bytes);
    let (keyspace, table) = (read_short(input)?, read_short(input)?);
    let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
    Ok((text(keyspace), text(table)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Cell, Clustering, CqlType, DecoratedKey, PartitionKey, PartitionUpdate, Row, TableSchema};

    #[test]
    fn increments_travel_as_contexts_and_arrive_as_differences() {
        let table = TableSchema::builder("ks", "n", Uuid::from_u128(5))
            .partition_key("k", CqlType::Int)
            .regular("n", CqlType::Counter);
        let table = Arc::new(table.build());
        let key = DecoratedKey::new(PartitionKey::from_components(&[1i32.to_be_bytes()]));
        let mut update = PartitionUpdate::new(Arc::clone(&table), key);
        let mut row = Row::new(Clustering::empty());
        let n = table.column("n").unwrap().id;
        row.cells.push(Cell::live(n, 7, Bytes::copy_from_slice(&(-5i64).to_be_bytes())));
        update.rows.push(row);
        let mutation = Mutation::of(update);
        let mut bytes = Vec::new();
        encode_counters(&mutation, Consistency::Quorum, 12, &mut bytes).unwrap();
        let context =
            [&[0, 1, 0, 0][..], &INCREMENT_ID, &1i64.to_be_bytes(), &(-5i64).to_be_bytes()].concat();
        assert!(bytes.windows(context.len()).any(|window| window == context), "{bytes:?}");
        let (arrived, level) = decode_counters(&bytes, 12, &|_| Some(Arc::clone(&table))).unwrap();
        assert_eq!(level, Consistency::Quorum);
        assert_eq!(arrived.updates[0].rows, mutation.updates[0].rows);
    }
}
