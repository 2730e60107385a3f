//! Tables of a running engine: random histories, and writers that do not stop.

use super::values::{Shown, show_bytes};
use super::{rows_of, rows_of_batch};
use crate::{ScanOptions, ScanRequest, Source, Split};
use bytes::Bytes;
use engine::{Engine, EngineOptions, SyncMode, WriteOptions};
use env::Env;
use env::clock::ManualClock;
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::command::{
    ClusteringFilter, ColumnSelection, DataLimits, FilterExpression, Operator, PartitionSelection,
    ReadCommand,
};
use model::key::KeyRange;
use model::multi_cell::assemble;
use model::row::ResultRow;
use model::schema::Replication;
use model::{
    Cell, Clustering, ColumnKind, CqlType, DecoratedKey, KeyspaceSchema, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, TableSchema,
};
use partition::{LiveRows, PageLimits, ReadContext};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use testkit::source::NOW_S;
use testkit::source::history::History;
use uuid::Uuid;

pub(super) fn engine_on(fs: Arc<dyn FileSystem>, table: &Arc<TableSchema>) -> Arc<Engine> {
    let env = Env::new(Arc::new(ManualClock::default()), Arc::new(Random::from_seed(3)), fs);
    let options = EngineOptions {
        commitlog_sync: SyncMode::Batch,
        page_cache_bytes: 1 << 20,
        compaction_bytes_per_s: 0,
        proves_sstables: false,
        auto_snapshot: false,
        ..EngineOptions::under(Path::new("/node"))
    };
    let engine = Engine::open(options, env).unwrap();
    let mut schema = engine.schema().as_ref().clone();
    let mut keyspace = KeyspaceSchema::new(&table.keyspace, Replication::simple(1));
    keyspace.tables.insert(table.name.clone(), Arc::clone(table));
    schema.keyspaces.insert(table.keyspace.clone(), Arc::new(keyspace));
    engine.install_schema(schema).unwrap();
    engine
}

/// The rows that CQL would answer a command with.
fn answer(engine: &Engine, request: &ScanRequest) -> Vec<Vec<Shown>> {
    let command = &request.command;
    let stream = engine.read(command, &ReadContext::default()).unwrap();
    let mut rows = LiveRows::new(stream, Arc::clone(command), ReadContext::default(), PageLimits::NONE);
    let mut out = Vec::new();
    while let Some(row) = rows.next_row().unwrap() {
        out.push(request.columns.iter().map(|column| shown(&row, column, command)).collect());
    }
    out
}

fn shown(row: &ResultRow<'_>, column: &model::ColumnDef, command: &ReadCommand) -> Shown {
    let count = command.table.partition_key().len();
    let source = if column.kind == ColumnKind::Static { row.static_row } else { row.row };
    let value = match column.kind {
        ColumnKind::PartitionKey => row.key.key.component(count, column.position).map(Bytes::copy_from_slice),
        ColumnKind::Clustering => {
            row.row.and_then(|row| row.clustering.value(column.position)).map(Bytes::copy_from_slice)
        }
        _ if column.is_multi_cell() => {
            source.and_then(|row| assemble(&column.ty, row.cells_of(column.id), command.now_s))
        }
        kind => row.live_cell(column.id, kind == ColumnKind::Static).map(|cell| cell.value.clone()),
    };
    show_bytes(&column.ty, value.as_deref())
}

fn all_of(table: &Arc<TableSchema>, now_s: u32) -> ScanRequest {
    ScanRequest::of_table(table, None, now_s, ScanOptions::default()).unwrap()
}

#[test]
fn random_tables_are_scanned_as_cql_answers() {
    for seed in 0..60 {
        let mut history = History::new(seed);
        let table = history.table();
        let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
        let store = engine.table(table.id).unwrap();
        let random = Random::from_seed(seed);
        for update in history.updates() {
            let _ = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
            match random.below(8) {
                0 => engine.flush(&table.keyspace, None).unwrap(),
                1 => engine.compact(&table.keyspace, None).unwrap(),
                _ => {}
            }
        }
        let source = Source::of_node(store.hold());
        let request = all_of(source.table(), NOW_S);
        let expected = answer(&engine, &request);
        let splits = source.splits(&request, 3).unwrap();
        assert_eq!(rows_of(&source, &request, &splits), expected, "seed {seed}");
        assert!(source.known_rows().is_none_or(|rows| rows == expected.len() as u64), "seed {seed}");
        for (partitions, clusterings) in history.commands() {
            if clusterings.is_reversed() {
                continue;
            }
            let command = ReadCommand {
                table: Arc::clone(source.table()),
                partitions,
                clusterings,
                columns: ColumnSelection::all(&table),
                row_filter: Vec::new(),
                limits: DataLimits { rows: 1 + random.below(20), ..DataLimits::NONE },
                now_s: NOW_S,
            };
            let request = ScanRequest::of_command(command, None, ScanOptions::default()).unwrap();
            let expected = answer(&engine, &request);
            let found = rows_of(&source, &request, &[Split::FULL]);
            // Keys that are asked for in another order come in that order, too.
            assert_eq!(found, expected, "seed {seed}, {:?}", request.command);
        }
    }
}

fn numbers() -> Arc<TableSchema> {
    let builder = TableSchema::builder("ks", "numbers", Uuid::from_u128(7));
    let builder = builder.partition_key("k", CqlType::Int).clustering("c", CqlType::Int, false);
    Arc::new(builder.regular("v", CqlType::Int).regular("w", CqlType::Text).build())
}

fn write(engine: &Engine, table: &Arc<TableSchema>, k: i32, c: i32, v: i32, timestamp: i64) {
    let key = DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]));
    let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
    row.liveness = Liveness::new(timestamp);
    let id = table.column("v").unwrap().id;
    row.cells.push(Cell::live(id, timestamp, Bytes::copy_from_slice(&v.to_be_bytes())));
    let mut update = PartitionUpdate::new(Arc::clone(table), key);
    update.rows.push(row);
    let _ = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
}

#[test]
fn rows_are_known_without_a_scan_while_nothing_can_make_them_fewer() {
    let table = numbers();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    let store = engine.table(table.id).unwrap();
    let known = || Source::of_node(store.hold()).known_rows();
    assert_eq!(known(), Some(0));
    (0..10).for_each(|i| write(&engine, &table, i % 3, i, i, 1));
    assert_eq!(known(), None, "in memory");
    engine.flush("ks", None).unwrap();
    assert_eq!(known(), Some(10));
    write(&engine, &table, 0, 0, 7, 2);
    write(&engine, &table, 1, 99, 7, 2);
    engine.flush("ks", None).unwrap();
    assert_eq!(known(), None, "one row is in both SSTables");
    engine.compact("ks", None).unwrap();
    assert_eq!(known(), Some(11));
    let key = DecoratedKey::new(PartitionKey::from_components(&[&2i32.to_be_bytes()]));
    let mut update = PartitionUpdate::new(Arc::clone(&table), key);
    update.deletion = model::Deletion::new(3, NOW_S);
    let _ = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
    engine.flush("ks", None).unwrap();
    engine.compact("ks", None).unwrap();
    assert_eq!(known(), None, "a deletion stays in the SSTable");
}

#[test]
fn a_scan_loses_and_doubles_nothing_while_rows_are_written_flushed_and_compacted() {
    let table = numbers();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    let store = engine.table(table.id).unwrap();
    let (keys, rows) = (40, 30);
    for k in 0..keys {
        for c in 0..rows {
            write(&engine, &table, k, c, k * 1000 + c, 1);
        }
        if k % 9 == 0 {
            engine.flush("ks", None).unwrap();
        }
    }
    let is_over = Arc::new(AtomicBool::new(false));
    let (writer, flag, schema) = (Arc::clone(&engine), Arc::clone(&is_over), Arc::clone(&table));
    let task = env::tasks::Tasks::of_machine().spawn("writer", move || {
        let mut round = 0;
        while !flag.load(Ordering::Relaxed) {
            for k in 0..keys {
                // New rows beside the old ones, and the old values once more.
                write(&writer, &schema, k, 1000 + round, 0, 2);
                write(&writer, &schema, k, round % rows, k * 1000 + round % rows, 3);
            }
            writer.flush("ks", None).unwrap();
            if round % 3 == 0 {
                writer.compact("ks", None).unwrap();
            }
            round += 1;
        }
    });
    let task = task.unwrap();
    for parts in 1..25 {
        let source = Source::of_node(store.hold());
        let request = all_of(source.table(), NOW_S);
        let splits = source.splits(&request, parts).unwrap();
        let mut found = Vec::new();
        for split in &splits {
            for batch in source.scan(&request, split) {
                rows_of_batch(&request, &batch.unwrap(), &mut found);
            }
        }
        let number = |shown: &Shown| shown.as_ref().unwrap().parse::<i32>().unwrap();
        let mut old: Vec<(i32, i32, i32)> = found
            .iter()
            .map(|row| (number(&row[0]), number(&row[1]), number(&row[2])))
            .filter(|(_, c, _)| *c < 1000)
            .collect();
        old.sort_unstable();
        let expected: Vec<_> = (0..keys).flat_map(|k| (0..rows).map(move |c| (k, c, k * 1000 + c))).collect();
        assert_eq!(old, expected, "{parts} parts");
        let mut all: Vec<_> = found.iter().map(|row| (row[0].clone(), row[1].clone())).collect();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "a row came twice");
    }
    is_over.store(true, Ordering::Relaxed);
    task.join();
}

#[test]
fn a_table_that_is_dropped_ends_its_scan_with_words() {
    let table = numbers();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    write(&engine, &table, 1, 1, 1, 1);
    let source = Source::of_node(engine.table(table.id).unwrap().hold());
    let mut schema = engine.schema().as_ref().clone();
    schema.keyspaces.remove("ks");
    engine.install_schema(schema).unwrap();
    let mut scan = source.scan(&all_of(source.table(), NOW_S), &Split::FULL);
    let error = scan.next().unwrap().unwrap_err().to_string();
    assert_eq!(error, "table ks.numbers was dropped while it was read");
    assert!(scan.next().is_none());
}

#[test]
fn filters_limits_and_keys_read_little() {
    let table = numbers();
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), &table);
    for k in 0..400 {
        for c in 0..40 {
            write(&engine, &table, k, c, c, 1);
        }
    }
    engine.flush("ks", None).unwrap();
    let source = Source::of_node(engine.table(table.id).unwrap().hold());
    let run = |request: &ScanRequest| {
        let mut scan = source.scan(request, &Split::FULL);
        let rows: usize = scan.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
        (rows as u64, scan.cost())
    };
    let all = all_of(source.table(), NOW_S);
    let (rows, whole) = run(&all);
    assert_eq!(rows, 16_000);
    let command = |change: &dyn Fn(&mut ReadCommand)| {
        let mut command = all.command.as_ref().clone();
        change(&mut command);
        ScanRequest::of_command(command, None, ScanOptions::default()).unwrap()
    };
    let (rows, cost) = run(&command(&|command| command.limits.rows = 5));
    assert!(rows == 5 && cost.chunk_misses * 10 < whole.chunk_misses, "{cost:?} of {whole:?}");
    let key = DecoratedKey::new(PartitionKey::from_components(&[&7i32.to_be_bytes()]));
    let (rows, cost) = run(&command(&|command| {
        command.partitions = PartitionSelection::Keys(vec![key.clone()]);
    }));
    assert!(rows == 40 && cost.rows_scanned <= 41, "{cost:?}");
    let third = Clustering::from_values([&3i32.to_be_bytes()[..]]);
    let (rows, cost) = run(&command(&|command| {
        command.clusterings = ClusteringFilter::Names { names: vec![third.clone()], reversed: false };
    }));
    assert_eq!(rows, 400, "{cost:?}");
    let value = table.column("v").unwrap().id;
    let (rows, _) = run(&command(&|command| {
        let values = vec![Bytes::copy_from_slice(&5i32.to_be_bytes())];
        command.row_filter =
            vec![FilterExpression { column: value, operator: Operator::Lt, map_key: None, values }];
    }));
    assert_eq!(rows, 2000);
    let (rows, cost) = run(&all.clone().within(0, i64::MAX));
    let (others, _) = run(&all.clone().within(i64::MIN, 0));
    assert!(rows + others == 16_000 && cost.rows_scanned < 16_000, "{rows} {others} {cost:?}");
    assert_eq!(KeyRange::FULL, Split::FULL.range());
}
