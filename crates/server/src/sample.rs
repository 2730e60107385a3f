//! Sample data: `sample.events`, a table of wide partitions, written the way that clients' writes are.
//!
//! A year of events of three devices: one each minute of `pump-7`, one each quarter of an hour of the others,
//! each with a payload that most reads do not want. The README shows the three reads that [`reads_to_try`]
//! prints.

use crate::node::{Node, StartError};
use bytes::Bytes;
use model::schema::Replication;
use model::{
    Cell, Clustering, Consistency, CqlType, DecoratedKey, KeyspaceSchema, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, TableSchema, WriteType,
};
use std::f64::consts::TAU;
use std::net::IpAddr;
use std::sync::Arc;

const KEYSPACE: &str = "sample";
const TABLE: &str = "events";
/// 2025-07-01 00:00:00 UTC.
const START_MINUTE: i64 = 1_751_328_000 / 60;
const MINUTES: i64 = 365 * 24 * 60;
/// Devices and the minutes between two of their events.
const DEVICES: [(&str, i64); 3] = [("pump-7", 1), ("valve-2", 15), ("fan-3", 15)];
/// Rows of one mutation: enough to be fast, few enough for any size of commit log segment.
const ROWS_PER_WRITE: usize = 500;
/// Writes in flight.
const WRITERS: usize = 4;

/// Makes and fills the table, unless it is there already. Returns whether it is there afterwards: a node that
/// holds other data is left alone.
///
/// # Errors
/// When the table cannot be made or written.
pub async fn fill(node: &Arc<Node>) -> Result<bool, StartError> {
    let schema = node.state.schema();
    if schema.table(KEYSPACE, TABLE).is_some() {
        return Ok(true);
    }
    let is_users = |k: &KeyspaceSchema| !k.is_virtual && !is_system(&k.name);
    if schema.keyspaces.values().any(|k| is_users(k)) {
        tracing::warn!("--sample: the node holds data already and gets no sample");
        return Ok(false);
    }
    let table = Arc::new(define(node.state.env.time_uuid()));
    let mut keyspace = KeyspaceSchema::new(KEYSPACE, Replication::simple(1));
    keyspace.tables.insert(TABLE.to_owned(), Arc::clone(&table));
    node.state.engine.install_schema(schema.with_keyspace(keyspace))?;
    if let Some(membership) = &node.membership {
        // Nodes that do not know the table yet would refuse its rows.
        membership.agree().await;
    }

    let micros = node.state.env.now_micros();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let (node, table) = (Arc::clone(node), Arc::clone(&table));
        writers.spawn(async move {
            for update in updates(&table, micros).skip(writer).step_by(WRITERS) {
                let write = node.coordinator.write(
                    vec![Mutation::of(update)],
                    Consistency::One,
                    WriteType::Simple,
                    None,
                );
                write.await?;
            }
            Ok::<(), coordinator::CoordinatorError>(())
        });
    }
    while let Some(ended) = writers.join_next().await {
        let failed = |cause: String| StartError::Prepare { what: "the sample data cannot be written", cause };
        ended.map_err(|e| failed(e.to_string()))?.map_err(|e| failed(e.to_string()))?;
    }
    Ok(true)
}

fn is_system(keyspace: &str) -> bool {
    use model::schema::{LOCAL_SYSTEM_KEYSPACES, REPLICATED_SYSTEM_KEYSPACES};
    LOCAL_SYSTEM_KEYSPACES.contains(&keyspace) || REPLICATED_SYSTEM_KEYSPACES.contains(&keyspace)
}

fn define(id: uuid::Uuid) -> TableSchema {
    let mut builder = TableSchema::builder(KEYSPACE, TABLE, id)
        .partition_key("device", CqlType::Text)
        .clustering("at", CqlType::Timestamp, true)
        .regular("kind", CqlType::Text)
        .regular("payload", CqlType::Blob)
        .regular("value", CqlType::Double);
    builder.options.comment = "events of devices, newest first".to_owned();
    builder.build()
}

/// Everything that is written, in pieces.
fn updates(table: &Arc<TableSchema>, micros: i64) -> impl Iterator<Item = PartitionUpdate> {
    let pieces = DEVICES.iter().flat_map(|(device, every)| {
        let step = *every * ROWS_PER_WRITE as i64;
        (0..MINUTES).step_by(step as usize).map(move |first| (*device, *every, first))
    });
    let table = Arc::clone(table);
    pieces.map(move |(device, every, first)| {
        let key = DecoratedKey::new(PartitionKey::from_components(&[device.as_bytes()]));
        let mut update = PartitionUpdate::new(Arc::clone(&table), key);
        let last = (first + every * ROWS_PER_WRITE as i64).min(MINUTES);
        let minutes = (first..last).step_by(every as usize);
        update.rows = minutes.map(|minute| event(&table, device, minute, micros)).collect();
        // Newest first, as the table is ordered.
        update.rows.reverse();
        update
    })
}

fn event(table: &TableSchema, device: &str, minute: i64, micros: i64) -> Row {
    let at = ((START_MINUTE + minute) * 60_000).to_be_bytes();
    let noise = mix(minute as u64 ^ (device.len() as u64) << 40);
    let day = minute as f64 / (24.0 * 60.0);
    let value =
        20.0 + 8.0 * (TAU * day).sin() + 4.0 * (TAU * day / 365.0).cos() + (noise % 1_000) as f64 / 500.0;
    let kind = if noise.is_multiple_of(997) { "alarm" } else { "reading" };
    let mut row = Row::new(Clustering::from_values([&at[..]]));
    row.liveness = Liveness::new(micros);
    for (name, bytes) in [
        ("kind", Bytes::from_static(kind.as_bytes())),
        ("payload", payload(noise)),
        ("value", Bytes::copy_from_slice(&((value * 100.0).round() / 100.0).to_be_bytes())),
    ] {
        if let Some(column) = table.column(name) {
            row.cells.push(Cell::live(column.id, micros, bytes));
        }
    }
    row.cells.sort_by_key(|cell| cell.column);
    row
}

/// 96 bytes that compress a little.
fn payload(noise: u64) -> Bytes {
    let mut out = Vec::with_capacity(96);
    for at in 0..6u64 {
        out.extend_from_slice(&mix(noise.wrapping_add(at)).to_be_bytes());
        out.extend_from_slice(b"........");
    }
    out.into()
}

/// Spreads a number over all bits (the finalizer of splitmix64).
fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Three reads of the sample, as commands.
pub fn reads_to_try(address: IpAddr, port: u16) -> String {
    let reads = [
        (
            "the newest ten, without their payloads",
            "SELECT at, kind, value FROM sample.events WHERE device = 'pump-7' LIMIT 10",
        ),
        (
            "ten minutes from the middle of the partition, oldest first",
            "SELECT at, value FROM sample.events WHERE device = 'pump-7' AND at >= '2026-03-01 12:00:00+0000' \
             AND at < '2026-03-01 12:10:00+0000' ORDER BY at ASC",
        ),
        (
            "a day in one line",
            "SELECT count(*), min(value), avg(value), max(value) FROM sample.events WHERE device = 'pump-7' \
             AND at >= '2026-03-01 00:00:00+0000' AND at < '2026-03-02 00:00:00+0000'",
        ),
    ];
    let mut out = String::from("three reads to try:\n");
    for (what, statement) in reads {
        out.push_str(&format!("  # {what}\n  cqlsh {address} {port} -e \"{statement}\"\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_covers_the_reads_of_the_readme() {
        let table = Arc::new(define(uuid::Uuid::nil()));
        let first_of_march = 1_772_323_200 / 60;
        let mut rows_of_the_day = 0;
        let mut total = 0;
        for update in updates(&table, 1) {
            let comparator = table.comparator();
            assert!(
                update.rows.is_sorted_by(|a, b| comparator.compare(&a.clustering, &b.clustering).is_lt())
            );
            total += update.rows.len();
            if update.key.key.0.as_ref() == b"pump-7" {
                let minute = |row: &Row| {
                    i64::from_be_bytes(row.clustering.value(0).unwrap().try_into().unwrap()) / 60_000
                };
                rows_of_the_day += update
                    .rows
                    .iter()
                    .filter(|r| (first_of_march..first_of_march + 1_440).contains(&minute(r)))
                    .count();
            }
        }
        assert_eq!(rows_of_the_day, 1_440);
        assert_eq!(total as i64, MINUTES + 2 * MINUTES / 15);
    }

    #[test]
    fn the_readme_shows_what_is_printed() {
        let readme = include_str!("../../../README.md");
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let readme = squeezed(readme);
        let printed = reads_to_try(IpAddr::from([127, 0, 0, 1]), 9042);
        let mut statements = printed.split("-e \"").skip(1).map(|rest| rest.split('"').next().unwrap());
        assert!(statements.all(|statement| readme.contains(&squeezed(statement))));
    }
}
