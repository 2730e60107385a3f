//! Random histories with flushes and restarts, against the naive model.

use super::{create, env_on, key, options};
use crate::{Engine, EngineOptions, SsTableFormat, StorageCompatibility, WriteOptions};
use bytes::Bytes;
use env::Env;
use env::clock::ManualClock;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::{
    Cell, Clustering, CqlType, Deletion, Liveness, Mutation, PartitionUpdate, RangeTombstone, Row, Slice,
    TableSchema,
};
use partition::{Event, Fragment, PartitionStream, ReadContext};
use sstable::Component;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use testkit::{SourceReader, check_source};
use uuid::Uuid;

/// Options of a node that writes SSTables of version `da`.
pub fn with_tries() -> EngineOptions {
    EngineOptions {
        storage_compatibility: StorageCompatibility::None,
        sstable_format: SsTableFormat::Bti,
        ..options()
    }
}

const COMPRESSORS: [Option<&str>; 5] = [None, Some("LZ4"), Some("Snappy"), Some("Deflate"), Some("Zstd")];

#[test]
fn an_engine_is_a_source_whatever_is_flushed_and_restarted() {
    let histories = AtomicU64::new(0);
    check_source(|table, updates| {
        let random = Random::from_seed(histories.fetch_add(1, Ordering::SeqCst));
        let fs = Arc::new(MemoryFileSystem::new());
        let env = env_on(fs, 1);
        let mut engine = Engine::open(options(), env.clone()).unwrap();
        let formats = [options(), with_tries()];
        create(&engine, &[table]);
        for update in updates {
            let ticket = engine.apply(&Mutation::of(update.clone()), WriteOptions::default()).unwrap();
            ticket.wait().unwrap();
            match random.below(12) {
                0 | 1 => engine.flush("check", Some(&table.name)).unwrap(),
                2 => {
                    // What the files are written in may change between two starts.
                    engine.close();
                    let options = formats[random.below(2) as usize].clone();
                    engine = Engine::open(options, env.clone()).unwrap();
                }
                _ => {}
            }
        }
        let reader: SourceReader =
            Box::new(move |command| engine.read(command, &ReadContext::default()).unwrap());
        reader
    });
}

/// With each compressor in turn, and none, in short chunks.
fn check_one_sstable(options: &EngineOptions) {
    let histories = AtomicUsize::new(0);
    check_source(|table, updates| {
        let engine = Engine::open(options.clone(), env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
        let compressor = COMPRESSORS[histories.fetch_add(1, Ordering::SeqCst) % COMPRESSORS.len()];
        let mut compressed = TableSchema::clone(table);
        compressed.options.compression.class =
            compressor.map(|name| format!("org.apache.cassandra.io.compress.{name}Compressor"));
        if compressor.is_some() {
            compressed.options.compression.chunk_length_kb = 4;
        }
        create(&engine, &[&Arc::new(compressed)]);
        for update in updates {
            engine.apply(&Mutation::of(update.clone()), WriteOptions::default()).unwrap().wait().unwrap();
        }
        engine.flush("check", Some(&table.name)).unwrap();
        let view = engine.table(table.id).unwrap().view();
        assert!(view.memtable.is_empty());
        assert!(view.sstables.iter().all(|t| t.descriptor().version == options.sstable_version()));
        let is_compressed = |t: &Arc<sstable::SsTable>| t.components().contains(&Component::CompressionInfo);
        assert!(view.sstables.iter().all(|t| is_compressed(t) == compressor.is_some()));
        let reader: SourceReader =
            Box::new(move |command| engine.read(command, &ReadContext::default()).unwrap());
        reader
    });
}

#[test]
fn one_sstable_is_a_source() {
    check_one_sstable(&options());
}

#[test]
fn one_sstable_with_tries_is_a_source() {
    check_one_sstable(&with_tries());
}

#[test]
fn one_sstable_of_version_oa_is_a_source() {
    let storage_compatibility = StorageCompatibility::None;
    check_one_sstable(&EngineOptions { storage_compatibility, ..options() });
}

/// What a client would see of row `c` of partition `k`: the values of `v` and `w`; `None` when there is no
/// row.
fn seen(
    engine: &Engine,
    table: &Arc<TableSchema>,
    k: i32,
    filter: ClusteringFilter,
    c: i32,
) -> Option<Vec<Bytes>> {
    let command = ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key(k)]),
        clusterings: filter,
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 1_000,
    };
    let mut stream = engine.read(&command, &ReadContext::default()).unwrap();
    let mut fragment = Fragment::default();
    let mut out = None;
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::End => return out,
            Event::Row if fragment.row.clustering.value(0) == Some(&c.to_be_bytes()[..]) => {
                let row = &fragment.row;
                let values =
                    row.cells.iter().filter(|cell| cell.is_live(1_000)).map(|cell| cell.value.clone());
                out = row.is_live(1_000).then(|| values.collect());
            }
            _ => {}
        }
    }
}

#[test]
fn reading_by_name_and_stopping_early_shows_what_a_full_read_shows() {
    let mut found_rows = false;
    for seed in 0..25 {
        let random = Random::from_seed(seed);
        let below = |n: u64| random.below(n) as i64;
        // The node's clock is that of the reads: later, a compaction between two of them forgets what
        // expires.
        let clock = Arc::new(ManualClock::at_micros(1_000_000_000));
        let env = Env::new(clock, Arc::new(Random::from_seed(1)), Arc::new(MemoryFileSystem::new()));
        let engine = Engine::open(options(), env).unwrap();
        let table = Arc::new(
            TableSchema::builder("ks", "t", Uuid::from_u128(5))
                .partition_key("k", CqlType::Int)
                .clustering("c", CqlType::Int, seed % 2 == 1)
                .regular("v", CqlType::Text)
                .regular("w", CqlType::Text)
                .build(),
        );
        create(&engine, &[&table]);
        for n in 0..40 {
            // Mostly newer and newer, as time goes, with stragglers.
            let timestamp = if below(5) == 0 { 1 + below(40) } else { n };
            let mut update = PartitionUpdate::new(Arc::clone(&table), key(below(2) as i32));
            let mut row = Row::new(Clustering::from_values([&(below(3) as i32).to_be_bytes()[..]]));
            if below(2) == 0 {
                row.liveness = match below(4) {
                    0 => Liveness::expiring(timestamp, 10, 990 + below(20) as u32),
                    _ => Liveness::new(timestamp),
                };
            }
            for name in ["v", "w"] {
                let column = table.column(name).unwrap().id;
                let value = Bytes::from(format!("{name}{timestamp}"));
                match below(5) {
                    0 => row.cells.push(Cell::tombstone(column, timestamp, 500)),
                    1 => row.cells.push(Cell::expiring(column, timestamp, 10, 990 + below(20) as u32, value)),
                    2 => {}
                    _ => row.cells.push(Cell::live(column, timestamp, value)),
                }
            }
            match below(12) {
                0 => update.deletion = Deletion::new(timestamp, 500),
                1 => row.deletion = Deletion::new(timestamp, 500),
                2 => update
                    .range_tombstones
                    .push(RangeTombstone { slice: Slice::ALL, deletion: Deletion::new(timestamp, 500) }),
                _ => {}
            }
            update.add_row(row);
            engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap().wait().unwrap();
            if below(4) == 0 {
                engine.flush("ks", Some("t")).unwrap();
            }
        }
        for (k, c) in (0..2).flat_map(|k| (0..3i32).map(move |c| (k, c))) {
            let name = Clustering::from_values([&c.to_be_bytes()[..]]);
            let by_name = ClusteringFilter::Names { names: vec![name], reversed: false };
            let all = seen(&engine, &table, k, ClusteringFilter::all(), c);
            assert_eq!(seen(&engine, &table, k, by_name, c), all, "seed {seed}, row {k} {c}");
            found_rows |= all.is_some();
        }
        engine.close();
    }
    assert!(found_rows, "the histories hold rows");
}
