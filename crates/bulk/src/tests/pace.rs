//! Scans that find nothing, and keep to the limit all the same.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

use super::running::engine_on;
use crate::work::Work;
use crate::{BulkError, ScanOptions, ScanRequest, Source, Split};
use bytes::Bytes;
use engine::{Engine, WriteOptions};
use env::Env;
use env::clock::ManualClock;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::command::{FilterExpression, Operator};
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Liveness, Mutation, PartitionKey, PartitionUpdate, Row,
    TableSchema,
};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use uuid::Uuid;

const ROWS: i32 = 8_192;
const VALUE_BYTES: usize = 4 << 10;

fn table() -> Arc<TableSchema> {
    let table = TableSchema::builder("ks", "blobs", Uuid::from_u128(21))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("n", CqlType::Int)
        .regular("v", CqlType::Blob);
    Arc::new(table.build())
}

fn write(engine: &Engine, table: &Arc<TableSchema>, k: i32, c: i32) {
    let key = DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]));
    let mut update = PartitionUpdate::new(Arc::clone(table), key);
    let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
    row.liveness = Liveness::new(1);
    for (name, value) in [("n", c.to_be_bytes().to_vec()), ("v", vec![7; VALUE_BYTES])] {
        row.cells.push(Cell::live(table.column(name).unwrap().id, 1, Bytes::from(value)));
    }
    update.add_row(row);
    let _ = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
}

#[test]
fn a_scan_whose_filter_finds_nothing_keeps_to_the_limit() {
    // A partition for each row, and one of all rows.
    for rows_of_a_partition in [1, ROWS] {
        let table = table();
        let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
        (0..ROWS).for_each(|i| write(&engine, &table, i / rows_of_a_partition, i));
        engine.flush("ks", None).unwrap();
        let source = Source::of_node(engine.table(table.id).unwrap().hold());
        let all = ScanRequest::of_table(&table, None, 1, ScanOptions::default()).unwrap();
        let mut command = all.command.as_ref().clone();
        let values = vec![Bytes::copy_from_slice(&(-1i32).to_be_bytes())];
        let column = table.column("n").unwrap().id;
        command.row_filter = vec![FilterExpression { column, operator: Operator::Eq, map_key: None, values }];
        let request = ScanRequest::of_command(command, None, ScanOptions::default()).unwrap();
        let whole = source.data_bytes();
        assert!(whole > u64::from(ROWS.unsigned_abs()) * VALUE_BYTES as u64);

        // A byte a second, by a clock that stands still: what has been spent is never earned.
        let fs = Arc::new(MemoryFileSystem::new());
        let env = Env::new(Arc::new(ManualClock::default()), Arc::new(Random::from_seed(1)), fs);
        let work = Arc::new(Work::new(env, 1));
        let watched = work.watch(Arc::new(source), "test");
        let mut scan = watched.scan(&request, &Split::FULL).unwrap();
        let reader = thread::spawn(move || scan.next());
        while work.running().iter().all(|scan| scan.bytes == 0) {
            thread::sleep(Duration::from_millis(1));
        }
        // It has asked for its first bytes and waits for them.
        thread::sleep(Duration::from_millis(50));
        let bytes = work.running().first().map(|scan| scan.bytes).unwrap();
        assert!(bytes < whole / 2 && !reader.is_finished(), "{bytes} of {whole}");
        request.cancel.cancel();
        assert!(matches!(reader.join().unwrap(), Some(Err(BulkError::Cancelled))));
        assert!(work.running().is_empty() && work.stats().failures == 0);

        // Without a limit it goes on to its end, and the work that is done ends it no sooner.
        let request = ScanRequest { cancel: crate::Cancel::default(), ..request };
        work.set_bytes_per_s(0);
        assert!(watched.scan(&request, &Split::FULL).unwrap().next().is_none());
        assert!(work.stats().bytes >= whole, "{:?} of {whole}", work.stats());
    }
}

#[test]
fn a_node_that_stops_ends_a_scan_whose_filter_finds_nothing() {
    let table = table();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    (0..ROWS).for_each(|i| write(&engine, &table, i, 0));
    engine.flush("ks", None).unwrap();
    let source = Source::of_node(engine.table(table.id).unwrap().hold());
    let request = ScanRequest::of_table(&table, None, 1, ScanOptions::default()).unwrap();
    let work = Arc::new(Work::new(Env::for_test(1), 0));
    let mut scan = work.watch(Arc::new(source), "test").scan(&request, &Split::FULL).unwrap();
    work.stop();
    assert!(matches!(scan.next(), Some(Err(BulkError::ShutDown))));
}
