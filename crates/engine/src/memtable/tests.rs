use super::*;
use crate::commitlog::LogPosition;
use ::partition::{BoxedStream, Event, Fragment, PartitionStream, concat, merge};
use bytes::Bytes;
use model::command::{ClusteringFilter, PartitionSelection, ReadCommand};
use model::{Clustering, CqlType, PartitionKey};
use std::sync::atomic::AtomicBool;
use testkit::{SourceReader, check_source};
use uuid::Uuid;

fn read(memtable: &Arc<Memtable>, command: &ReadCommand) -> BoxedStream {
    let ctx = ReadContext::default();
    let (table, filter) = (&command.table, &command.clusterings);
    match &command.partitions {
        PartitionSelection::Range(range) => Box::new(memtable.scan(table, range.clone(), filter, &ctx)),
        PartitionSelection::Keys(keys) => {
            let streams: Vec<_> = keys.iter().filter_map(|k| memtable.read(table, k, filter, &ctx)).collect();
            let mut streams = streams.into_iter();
            Box::new(concat(move || Ok(streams.next().map(|s| Box::new(s) as BoxedStream))))
        }
    }
}

fn memtable_of(updates: &[PartitionUpdate]) -> Arc<Memtable> {
    let memtable = Memtable::new(LogPosition::NONE, 0);
    for update in updates {
        memtable.apply(update);
    }
    Arc::new(memtable)
}

#[test]
fn a_memtable_is_a_source() {
    check_source(|_, updates| {
        let memtable = memtable_of(updates);
        let reader: SourceReader = Box::new(move |command| read(&memtable, command));
        reader
    });
}

#[test]
fn a_merge_of_memtables_is_a_source() {
    check_source(|_, updates| {
        let parts: Vec<_> = updates.chunks(updates.len().div_ceil(3)).map(memtable_of).collect();
        let reader: SourceReader = Box::new(move |command| {
            let keys = match &command.partitions {
                PartitionSelection::Keys(keys) => keys.clone(),
                PartitionSelection::Range(_) => {
                    let sources = parts.iter().map(|m| read(m, command));
                    return merge(&command.table, sources, command.is_reversed());
                }
            };
            let (parts, command) = (parts.clone(), command.clone());
            let mut keys = keys.into_iter();
            Box::new(concat(move || {
                Ok(keys.next().map(|key| {
                    let command =
                        ReadCommand { partitions: PartitionSelection::Keys(vec![key]), ..command.clone() };
                    let sources = parts.iter().map(|m| read(m, &command));
                    merge(&command.table, sources, command.is_reversed())
                }))
            }))
        });
        reader
    });
}

fn wide_table() -> Arc<TableSchema> {
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("v", CqlType::BigInt)
        .build();
    Arc::new(table)
}

fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

/// An update of several rows of one partition, all with the same value.
fn same_everywhere(table: &Arc<TableSchema>, rows: i32, value: i64) -> PartitionUpdate {
    let mut update = PartitionUpdate::new(Arc::clone(table), key(1));
    let column = table.column("v").unwrap().id;
    for c in 0..rows {
        let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
        row.cells.push(Cell::live(column, value, Bytes::copy_from_slice(&value.to_be_bytes())));
        update.add_row(row);
    }
    update
}

fn values(memtable: &Arc<Memtable>, table: &Arc<TableSchema>) -> Vec<i64> {
    let filter = ClusteringFilter::all();
    let mut stream = memtable.read(table, &key(1), &filter, &ReadContext::default()).unwrap();
    let mut fragment = Fragment::default();
    let mut out = Vec::new();
    while stream.next(&mut fragment).unwrap() != Event::PartitionEnd {
        out.extend(fragment.row.cells.iter().map(|c| i64::from_be_bytes(c.value[..].try_into().unwrap())));
        fragment.row.clear();
    }
    out
}

#[test]
fn readers_see_an_update_whole_or_not_at_all() {
    const ROWS: i32 = 200;
    let table = wide_table();
    let memtable = memtable_of(&[same_everywhere(&table, ROWS, 0)]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (1..=2)
            .map(|writer| {
                let (memtable, table) = (&memtable, &table);
                scope.spawn(move || {
                    for n in 0..50 {
                        memtable.apply(&same_everywhere(table, ROWS, n * 2 + writer));
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let (memtable, table, done) = (&memtable, &table, &done);
            scope.spawn(move || {
                let mut newest = 0;
                while !done.load(Ordering::SeqCst) {
                    let seen = values(memtable, table);
                    assert_eq!(seen.len(), ROWS as usize);
                    assert!(seen.iter().all(|v| *v == seen[0]), "{seen:?}");
                    assert!(seen[0] >= newest, "what was seen does not go away");
                    newest = seen[0];
                }
            });
        }
        writers.into_iter().for_each(|w| w.join().unwrap());
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(values(&memtable, &table)[0], 100);
}

#[test]
fn a_stream_keeps_the_snapshot_it_started_with() {
    let table = wide_table();
    let memtable = memtable_of(&[same_everywhere(&table, 300, 1)]);
    let filter = ClusteringFilter::all();
    let mut stream = memtable.read(&table, &key(1), &filter, &ReadContext::default()).unwrap();
    let mut fragment = Fragment::default();
    stream.next(&mut fragment).unwrap();
    stream.next(&mut fragment).unwrap();
    memtable.apply(&same_everywhere(&table, 300, 2));
    let mut rows = 1;
    while stream.next(&mut fragment).unwrap() == Event::Row {
        assert_eq!(fragment.row.cells[0].timestamp, 1);
        rows += 1;
    }
    assert_eq!(rows, 300);
}

#[test]
fn values_do_not_pin_the_buffer_they_came_in() {
    let table = wide_table();
    let frame = Bytes::from(vec![7u8; 1 << 20]);
    let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
    let mut row = Row::new(Clustering::from_values([&1i32.to_be_bytes()[..]]));
    row.cells.push(Cell::live(table.column("v").unwrap().id, 1, frame.slice(100..108)));
    update.add_row(row);
    let memtable = memtable_of(&[update.clone()]);
    drop(update);
    assert!(frame.is_unique(), "the memtable holds no part of the frame");
    assert_eq!(values(&memtable, &table), [0x0707_0707_0707_0707]);
}

#[test]
fn a_late_write_to_a_dropped_column_that_came_back_is_none() {
    let table = Arc::new(
        wide_table()
            .to_builder()
            .drop_column("v", 1_000)
            .build()
            .to_builder()
            .regular("v", CqlType::BigInt)
            .build(),
    );
    let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
    for (clustering, timestamp) in [(1i32, 1_000i64), (2, 1_001)] {
        let mut row = Row::new(Clustering::from_values([&clustering.to_be_bytes()[..]]));
        let value = Bytes::copy_from_slice(&timestamp.to_be_bytes());
        row.cells.push(Cell::live(table.column("v").unwrap().id, timestamp, value));
        update.add_row(row);
    }
    assert_eq!(values(&memtable_of(&[update]), &table), [1_001]);
}

#[test]
fn growth_and_extremes_are_tracked() {
    let table = wide_table();
    let memtable = Memtable::new(LogPosition::NONE, 5);
    assert!(memtable.is_empty());
    assert_eq!(memtable.minima(), Minima { timestamp: None, local_deletion_time: None, ttl: None });
    let grown = memtable.apply(&same_everywhere(&table, 10, 40));
    assert_eq!(memtable.bytes(), grown);
    assert!(grown > 10 * 8);
    let mut deletion = PartitionUpdate::new(Arc::clone(&table), key(2));
    deletion.deletion = Deletion::new(7, 1_000);
    memtable.apply(&deletion);
    let minima = memtable.minima();
    assert_eq!((minima.timestamp, minima.local_deletion_time, minima.ttl), (Some(7), Some(1_000), None));
    assert_eq!((memtable.max_timestamp(), memtable.partition_count()), (40, 2));
}

#[test]
fn it_is_freed_in_pieces_and_not_under_a_reader() {
    let table = wide_table();
    let one_row = |k| {
        let mut update = same_everywhere(&table, 1, 1);
        update.key = key(k);
        update
    };
    let shared = memtable_of(&[same_everywhere(&table, 1_000, 1)]);
    for k in 2..302 {
        shared.apply(&one_row(k));
    }
    let everything = ClusteringFilter::all();
    let mut stream = shared.read(&table, &key(1), &everything, &ReadContext::default()).unwrap();
    let mut pieces = 0;
    Arc::into_inner(shared).unwrap().free(|| pieces += 1);
    assert!((18..=24).contains(&pieces), "1,300 rows in {pieces} pieces");
    let (mut fragment, mut rows) = (Fragment::default(), 0);
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::Row => rows += 1,
            Event::End => break,
            _ => {}
        }
    }
    assert_eq!(rows, 1_000);
}
