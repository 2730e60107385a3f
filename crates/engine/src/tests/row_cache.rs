//! What the row cache keeps, and that it never says anything but what is stored.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

use super::store::{fill, rows};
use super::*;
use crate::ImportOptions;
use env::fs::memory::MemoryFileSystem;
use model::schema::RowsPerPartition::{self, All, Some as First};
use model::{BoundKind, ClusteringBound, Deletion, RangeTombstone, Slice};
use partition::{CostSnapshot, ReadError};
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::{SourceReader, check_source};

/// Bytes of the cache in these tests, unless it is to be too small.
const CACHE_BYTES: u64 = 4 << 20;

fn engine(fs: &MemoryFileSystem, row_cache_bytes: u64) -> Arc<Engine> {
    let options = EngineOptions { row_cache_bytes, ..options() };
    Engine::open(options, env_on(Arc::new(fs.clone()), 1)).unwrap()
}

fn with_cached(table: &TableSchema, rows_per_partition: RowsPerPartition) -> Arc<TableSchema> {
    let mut options = table.options.clone();
    options.caching.rows_per_partition = rows_per_partition;
    Arc::new(table.to_builder().options(options).build())
}

/// An engine with `simple_table`, of whose partitions so much is cached, and its definition.
fn cached(rows: RowsPerPartition) -> (Arc<Engine>, Arc<TableSchema>) {
    let engine = engine(&MemoryFileSystem::new(), CACHE_BYTES);
    let table = with_cached(&simple_table("t"), rows);
    create(&engine, &[&table]);
    (engine, table)
}

/// Fills partition `k` with rows `c` and flushes them.
fn store(engine: &Engine, table: &Arc<TableSchema>, k: i32, rows: std::ops::Range<i32>) {
    for c in rows {
        write(engine, &insert(table, k, c, &format!("{c}"), 1)).unwrap();
    }
    engine.flush("ks", Some(&table.name)).unwrap();
}

fn command(table: &Arc<TableSchema>, k: i32, clusterings: ClusteringFilter) -> ReadCommand {
    ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key(k)]),
        clusterings,
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 1_000,
    }
}

/// The first rows of a partition, `limit` at most, and what finding them cost.
fn first(engine: &Engine, command: &ReadCommand, limit: usize) -> (Vec<(i32, String)>, CostSnapshot) {
    let ctx = ReadContext::default();
    let found = first_with(engine, command, limit, &ctx).unwrap();
    (found, ctx.cost.snapshot())
}

fn first_with(
    engine: &Engine,
    command: &ReadCommand,
    limit: usize,
    ctx: &ReadContext,
) -> Result<Vec<(i32, String)>, ReadError> {
    let mut stream = engine.read(command, ctx)?;
    let (mut fragment, mut found) = (Fragment::default(), Vec::new());
    while found.len() < limit {
        match stream.next(&mut fragment)? {
            Event::End => break,
            Event::Row if fragment.row.is_live(command.now_s) => {
                let row = &fragment.row;
                let c = i32::from_be_bytes(row.clustering.value(0).unwrap().try_into().unwrap());
                let value = row
                    .cells
                    .first()
                    .map_or_else(String::new, |cell| String::from_utf8(cell.value.to_vec()).unwrap());
                found.push((c, value));
            }
            _ => {}
        }
    }
    Ok(found)
}

fn all(engine: &Engine, table: &Arc<TableSchema>, k: i32) -> (Vec<(i32, String)>, CostSnapshot) {
    first(engine, &command(table, k, ClusteringFilter::all()), usize::MAX)
}

fn is_hit(cost: &CostSnapshot) -> bool {
    assert_eq!(cost.row_cache_hits + cost.row_cache_misses, 1, "{cost:?}");
    cost.row_cache_hits == 1
}

fn numbers(range: std::ops::Range<i32>) -> Vec<(i32, String)> {
    range.map(|c| (c, format!("{c}"))).collect()
}

fn between(start: i32, end: i32, reversed: bool) -> ClusteringFilter {
    let at = |c: i32| Clustering::from_values([&c.to_be_bytes()[..]]);
    let slice = Slice { start: ClusteringBound::start_at(at(start)), end: ClusteringBound::end_at(at(end)) };
    ClusteringFilter::Slices { slices: vec![slice], reversed }
}

/// Random histories, in whose middle everything is read, with flushes, compactions and restarts in between.
fn check_histories(rows: RowsPerPartition, row_cache_bytes: u64) {
    let (histories, hits) = (AtomicU64::new(0), Arc::new(AtomicU64::new(0)));
    check_source(|plain, updates| {
        let random = Random::from_seed(histories.fetch_add(1, Ordering::SeqCst));
        let fs = MemoryFileSystem::new();
        let mut engine = engine(&fs, row_cache_bytes);
        create(&engine, &[&with_cached(plain, rows)]);
        let of = |engine: &Engine| Arc::clone(engine.schema().table("check", &plain.name).unwrap());
        for update in updates {
            let ticket = engine.apply(&Mutation::of(update.clone()), WriteOptions::default()).unwrap();
            ticket.wait().unwrap();
            match random.below(12) {
                0..3 => engine.flush("check", Some(&plain.name)).unwrap(),
                3 => engine.compact("check", Some(&plain.name)).unwrap(),
                4 if random.below(4) == 0 => {
                    engine.close();
                    engine = self::engine(&fs, row_cache_bytes);
                }
                5 if random.below(4) == 0 => engine.row_cache().clear(),
                _ => {}
            }
            let keys = vec![updates[random.below(updates.len() as u64) as usize].key.clone()];
            let partitions = PartitionSelection::Keys(keys);
            let command = command(&of(&engine), 0, ClusteringFilter::all());
            drain(&engine, &ReadCommand { partitions, ..command });
        }
        let (table, hits) = (of(&engine), Arc::clone(&hits));
        let reader: SourceReader = Box::new(move |command| {
            let command = ReadCommand { table: Arc::clone(&table), ..command.clone() };
            // The first one may fill the cache, the second one finds what it left.
            drain(&engine, &command);
            let ctx = ReadContext::default();
            let stream = engine.read(&command, &ctx).unwrap();
            hits.fetch_add(ctx.cost.snapshot().row_cache_hits, Ordering::SeqCst);
            stream
        });
        reader
    });
    assert!(hits.load(Ordering::SeqCst) > 300, "{} hits", hits.load(Ordering::SeqCst));
}

fn drain(engine: &Engine, command: &ReadCommand) {
    let mut stream = engine.read(command, &ReadContext::default()).unwrap();
    let mut fragment = Fragment::default();
    while stream.next(&mut fragment).unwrap() != Event::End {}
}

#[test]
fn an_engine_that_caches_whole_partitions_is_a_source() {
    check_histories(All, CACHE_BYTES);
}

#[test]
fn an_engine_that_caches_heads_of_one_row_is_a_source() {
    check_histories(First(1), CACHE_BYTES);
}

#[test]
fn an_engine_that_caches_heads_of_three_rows_is_a_source() {
    check_histories(First(3), CACHE_BYTES);
}

#[test]
fn an_engine_whose_row_cache_is_always_full_is_a_source() {
    check_histories(All, 8 << 10);
}

#[test]
fn a_read_that_was_answered_once_touches_no_sstable() {
    let (engine, table) = cached(All);
    store(&engine, &table, 1, 0..20);
    let (found, cost) = all(&engine, &table, 1);
    assert_eq!(found, numbers(0..20));
    assert!(!is_hit(&cost) && cost.sstables_read == 1, "{cost:?}");
    for filter in [ClusteringFilter::all(), between(5, 9, false), between(5, 9, true)] {
        let (_, cost) = first(&engine, &command(&table, 1, filter), usize::MAX);
        assert!(is_hit(&cost), "{cost:?}");
        assert_eq!((cost.sstables_considered, cost.chunk_hits + cost.chunk_misses, cost.ios), (0, 0, 0));
    }
    assert_eq!(all(&engine, &table, 1).0, numbers(0..20));
    let stats = engine.stats().row_cache;
    assert_eq!((stats.entries, stats.hits, stats.misses, stats.insertions), (1, 4, 1, 1));
    assert!(stats.bytes > 20 * 100 && stats.bytes < 20 * 500, "{stats:?}");
}

#[test]
fn a_head_answers_what_lies_in_it_and_what_goes_on_behind_it_comes_from_the_sstables() {
    let (engine, table) = cached(First(10));
    store(&engine, &table, 1, 0..100);
    let whole = command(&table, 1, ClusteringFilter::all());
    let by_limit = |limit| first(&engine, &whole, limit);
    assert!(!is_hit(&by_limit(3).1), "the first one fills it, with ten rows");
    for limit in [1, 3, 10] {
        let (found, cost) = by_limit(limit);
        assert_eq!(found, numbers(0..limit as i32));
        assert!(is_hit(&cost) && cost.sstables_considered == 0, "{cost:?}");
    }
    let (found, cost) = by_limit(usize::MAX);
    assert_eq!(found, numbers(0..100));
    assert!(is_hit(&cost) && cost.sstables_read == 1, "{cost:?}");

    let ask = |filter| first(&engine, &command(&table, 1, filter), usize::MAX);
    for reversed in [false, true] {
        let (mut found, cost) = ask(between(2, 5, reversed));
        found.sort();
        assert_eq!(found, numbers(2..6));
        assert!(is_hit(&cost) && cost.sstables_considered == 0, "{cost:?}");
        let (mut found, cost) = ask(between(5, 12, reversed));
        found.sort();
        assert_eq!(found, numbers(5..13));
        assert_eq!(is_hit(&cost), !reversed);
        let (found, cost) = ask(between(20, 22, reversed));
        assert_eq!(found.len(), 3);
        assert!(!is_hit(&cost), "it lies behind the head");
    }
}

#[test]
fn a_head_is_made_by_reads_that_begin_at_the_start() {
    let (engine, table) = cached(First(10));
    store(&engine, &table, 1, 0..100);
    for filter in [between(20, 22, false), between(0, 3, true)] {
        first(&engine, &command(&table, 1, filter), usize::MAX);
        assert_eq!(engine.stats().row_cache.entries, 0);
    }
    all(&engine, &table, 1);
    assert_eq!(engine.stats().row_cache.entries, 1);
}

#[test]
fn rows_of_a_head_that_were_deleted_since_make_room_for_those_behind_it() {
    let (engine, table) = cached(First(3));
    store(&engine, &table, 1, 0..10);
    let whole = command(&table, 1, ClusteringFilter::all());
    first(&engine, &whole, 3);
    let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
    let at = |c: i32| Clustering::from_values([&c.to_be_bytes()[..]]);
    let slice = Slice {
        start: ClusteringBound::start_at(at(1)),
        end: ClusteringBound::new(BoundKind::ExclEnd, at(6)),
    };
    update.range_tombstones.push(RangeTombstone { slice, deletion: Deletion::new(2, 900) });
    write(&engine, &Mutation::of(update)).unwrap();
    let (found, cost) = first(&engine, &whole, 3);
    assert_eq!(found, [(0, "0".to_owned()), (6, "6".to_owned()), (7, "7".to_owned())]);
    assert!(is_hit(&cost) && cost.sstables_read == 1, "{cost:?}");
    engine.flush("ks", Some("t")).unwrap();
    assert_eq!(first(&engine, &whole, 3).0, found);
}

#[test]
fn writes_are_seen_at_once_and_after_each_flush_and_leave_other_partitions_cached() {
    let (engine, table) = cached(All);
    store(&engine, &table, 1, 0..3);
    store(&engine, &table, 2, 0..3);
    for n in 2..6 {
        all(&engine, &table, 1);
        all(&engine, &table, 2);
        write(&engine, &insert(&table, 1, 0, &format!("new {n}"), n)).unwrap();
        let (found, cost) = all(&engine, &table, 1);
        assert_eq!(found[0].1, format!("new {n}"));
        assert!(is_hit(&cost), "what is in memory is merged with what is cached");
        engine.flush("ks", Some("t")).unwrap();
        let (found, cost) = all(&engine, &table, 1);
        assert_eq!(found[0].1, format!("new {n}"));
        assert!(!is_hit(&cost), "the flush changed what the SSTables hold of it");
        assert!(is_hit(&all(&engine, &table, 2).1));
    }
    engine.compact("ks", Some("t")).unwrap();
    assert!(is_hit(&all(&engine, &table, 1).1) && is_hit(&all(&engine, &table, 2).1));
}

#[test]
fn a_tombstone_that_may_be_forgotten_is_not_remembered_by_the_cache() {
    let (engine, table) = cached(All);
    let mut options = table.options.clone();
    options.gc_grace_seconds = 0;
    let table = Arc::new(table.to_builder().options(options).build());
    create(&engine, &[&table]);
    store(&engine, &table, 1, 0..1);
    let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
    update.deletion = Deletion::new(50, 1);
    write(&engine, &Mutation::of(update)).unwrap();
    engine.flush("ks", Some("t")).unwrap();
    assert_eq!(all(&engine, &table, 1).0, []);
    assert!(is_hit(&all(&engine, &table, 1).1));
    engine.compact("ks", Some("t")).unwrap();
    assert_eq!(engine.table(table.id).unwrap().view().sstables.len(), 0, "nothing is left");
    write(&engine, &insert(&table, 1, 0, "late", 20)).unwrap();
    assert_eq!(all(&engine, &table, 1).0, [(0, "late".to_owned())]);
}

#[test]
fn a_truncation_an_import_and_a_drop_leave_nothing_to_be_found() {
    let fs = MemoryFileSystem::new();
    let engine = engine(&fs, CACHE_BYTES);
    let (table, other) = (with_cached(&simple_table("t"), All), simple_table("u"));
    create(&engine, &[&table, &other]);
    store(&engine, &table, 1, 0..3);
    all(&engine, &table, 1);
    engine.truncate("ks", "t").unwrap();
    assert_eq!(all(&engine, &table, 1).0, []);
    assert_eq!(engine.stats().row_cache.entries, 0, "what cannot be found takes no memory");
    write(&engine, &insert(&table, 1, 1, "again", 9)).unwrap();
    assert_eq!(all(&engine, &table, 1).0, [(1, "again".to_owned())]);

    fill(&engine, &other, 0..20);
    engine.flush_all().unwrap();
    assert_eq!(all(&engine, &table, 1).0.len(), 1);
    let to = std::path::PathBuf::from("/elsewhere");
    fs.create_dir_all_durable(&to).unwrap();
    let from = &engine.catalog.table_dirs(&other)[0];
    for file in fs.read_dir(from).unwrap().iter().filter(|f| f.name.to_string_lossy().starts_with("nb-")) {
        fs.hard_link(&from.join(&file.name), &to.join(&file.name)).unwrap();
    }
    let before = contents(&engine, &table);
    let done = engine.import("ks", "t", std::slice::from_ref(&to), &ImportOptions::default()).unwrap();
    assert_eq!(done[0].failure, None);
    let mut expected = rows(0..20);
    expected.extend(before);
    let found = all(&engine, &table, 1).0;
    let of_1 = expected.into_iter().filter(|((k, _), _)| *k == 1).map(|((_, c), v)| (c, v));
    assert_eq!(found, of_1.collect::<Vec<_>>());
    assert!(found.len() > 1, "the import brought rows of the partition");

    let without = engine.schema().keyspace("ks").unwrap().as_ref().clone();
    let mut tables = without.clone();
    tables.tables.retain(|name, _| name != "t");
    engine.install_schema(engine.schema().with_keyspace(tables)).unwrap();
    assert_eq!(engine.stats().row_cache.entries, 0);
    engine.install_schema(engine.schema().with_keyspace(without)).unwrap();
    assert_eq!(all(&engine, &table, 1).0, []);
}

#[test]
fn an_altered_table_starts_anew() {
    let (engine, table) = cached(All);
    store(&engine, &table, 1, 0..3);
    assert_eq!(all(&engine, &table, 1).0.len(), 3);
    let altered = Arc::new(table.to_builder().drop_column("v", 5).regular("w", CqlType::Text).build());
    create(&engine, &[&altered]);
    for _ in 0..2 {
        assert_eq!(all(&engine, &altered, 1).0.iter().filter(|(_, v)| !v.is_empty()).count(), 0);
    }
    // A statement that was prepared before goes around the cache: it knows other columns.
    let (_, cost) = all(&engine, &table, 1);
    assert_eq!((cost.row_cache_hits, cost.row_cache_misses), (0, 0));
    let without = with_cached(&altered, RowsPerPartition::None);
    create(&engine, &[&without]);
    assert_eq!(engine.stats().row_cache.entries, 0);
    assert_eq!(all(&engine, &without, 1).1.row_cache_misses, 0);
}

#[test]
fn reads_around_the_cache_neither_use_nor_fill_it() {
    let (engine, table) = cached(All);
    store(&engine, &table, 1, 0..3);
    let whole = command(&table, 1, ClusteringFilter::all());
    for entries in [0, 1] {
        let ctx = ReadContext { fill_cache: false, ..ReadContext::default() };
        assert_eq!(first_with(&engine, &whole, 9, &ctx).unwrap(), numbers(0..3));
        let cost = ctx.cost.snapshot();
        assert_eq!((cost.row_cache_hits, cost.row_cache_misses), (0, 0));
        assert_eq!(engine.stats().row_cache.entries, entries);
        all(&engine, &table, 1);
    }
}

#[test]
fn a_read_that_may_not_wait_uses_the_cache_and_leaves_filling_it_to_others() {
    let (engine, table) = cached(All);
    write(&engine, &insert(&table, 2, 0, "0", 1)).unwrap();
    store(&engine, &table, 1, 0..3);
    write(&engine, &insert(&table, 3, 0, "0", 1)).unwrap();
    let ask = |k| {
        let ctx = ReadContext { may_block: false, ..ReadContext::default() };
        first_with(&engine, &command(&table, k, ClusteringFilter::all()), 9, &ctx)
    };
    assert!(matches!(ask(1), Err(ReadError::WouldBlock)));
    assert_eq!(ask(3).unwrap().len(), 1, "no SSTable has it");
    all(&engine, &table, 1);
    assert_eq!(ask(1).unwrap(), numbers(0..3));
}

#[test]
fn a_partition_larger_than_a_head_may_be_is_kept_as_far_as_it_fits() {
    let engine = engine(&MemoryFileSystem::new(), 64 << 10);
    let table = with_cached(&simple_table("t"), All);
    create(&engine, &[&table]);
    store(&engine, &table, 1, 0..500);
    assert_eq!(all(&engine, &table, 1).0, numbers(0..500));
    let stats = engine.stats().row_cache;
    assert_eq!(stats.entries, 1);
    assert!(stats.bytes <= 32 << 10, "{stats:?}");
    let (found, cost) = first(&engine, &command(&table, 1, ClusteringFilter::all()), 20);
    assert_eq!(found, numbers(0..20));
    assert!(is_hit(&cost) && cost.sstables_considered == 0, "{cost:?}");
    assert_eq!(all(&engine, &table, 1).0, numbers(0..500));
}

#[test]
fn the_capacity_bounds_it_and_can_be_changed() {
    let (engine, table) = cached(All);
    let noise = "x".repeat(2_000);
    for k in 0..200 {
        write(&engine, &insert(&table, k, 0, &noise, 1)).unwrap();
    }
    engine.flush_all().unwrap();
    let read_all = || (0..200).for_each(|k| assert_eq!(all(&engine, &table, k).0.len(), 1));
    read_all();
    assert_eq!(engine.stats().row_cache.entries, 200);
    engine.row_cache().set_capacity(50_000);
    let stats = engine.stats().row_cache;
    assert!(stats.bytes <= 50_000 && stats.entries > 10, "what has room stays: {stats:?}");
    assert_eq!((stats.capacity_bytes, stats.evictions), (50_000, 200 - stats.entries));
    read_all();
    let stats = engine.stats().row_cache;
    assert!(stats.bytes <= 50_000 && stats.entries > 10, "{stats:?}");
    engine.row_cache().set_capacity(CACHE_BYTES);
    assert_eq!(engine.stats().row_cache.entries, stats.entries, "all stay");
    read_all();
    assert_eq!(engine.stats().row_cache.entries, 200);
    let stats = engine.stats().row_cache;
    engine.row_cache().set_capacity(0);
    read_all();
    let off = engine.stats().row_cache;
    assert_eq!((off.entries, off.capacity_bytes, off.misses), (0, 0, stats.misses));
    assert_eq!((off.hits, off.insertions), (stats.hits, stats.insertions), "what was counted stays counted");
}

#[test]
fn while_somebody_makes_a_head_others_read_and_make_none() {
    let (engine, table) = cached(All);
    store(&engine, &table, 1, 0..3);
    let view = engine.table(table.id).unwrap().view();
    let rows = view.cached_rows.as_ref().unwrap();
    let making = rows.make(&key(1)).unwrap();
    assert!(rows.make(&key(1)).is_none() && rows.make(&key(2)).is_some());
    for _ in 0..2 {
        let (found, cost) = all(&engine, &table, 1);
        assert_eq!(found, numbers(0..3));
        assert!(!is_hit(&cost) && engine.stats().row_cache.insertions == 0, "{cost:?}");
    }
    drop(making);
    assert!(!is_hit(&all(&engine, &table, 1).1));
    assert!(is_hit(&all(&engine, &table, 1).1));
}

/// A read of partitions 1 and 2 that has just gone over the first: it reads the second in the view of its
/// beginning.
fn half_way(engine: &Engine, table: &Arc<TableSchema>) -> partition::BoxedStream {
    let partitions = PartitionSelection::Keys(vec![key(1), key(2)]);
    let both = ReadCommand { partitions, ..command(table, 1, ClusteringFilter::all()) };
    let mut stream = engine.read(&both, &ReadContext::default()).unwrap();
    let mut fragment = Fragment::default();
    while stream.next(&mut fragment).unwrap() != Event::PartitionEnd {}
    stream
}

/// The values of what is left of a stream.
fn values(mut stream: partition::BoxedStream) -> Vec<String> {
    let (mut fragment, mut found) = (Fragment::default(), Vec::new());
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::End => return found,
            Event::Row => found.push(String::from_utf8(fragment.row.cells[0].value.to_vec()).unwrap()),
            _ => {}
        }
    }
}

/// Rows 0 and 1 of partition `k`, written at once.
fn pair(table: &Arc<TableSchema>, k: i32, value: &str, timestamp: i64) -> Mutation {
    let mut mutation = insert(table, k, 0, value, timestamp);
    for row in insert(table, k, 1, value, timestamp).updates.into_iter().flat_map(|u| u.rows) {
        mutation.updates[0].add_row(row);
    }
    mutation
}

/// A read that began before partition 2 was written anew and flushed.
fn overtaken(engine: &Engine, table: &Arc<TableSchema>) -> partition::BoxedStream {
    store(engine, table, 1, 0..2);
    store(engine, table, 2, 0..2);
    let stream = half_way(engine, table);
    // The next write goes to a memtable that the stream's view does not have.
    store(engine, table, 3, 0..1);
    write(engine, &pair(table, 2, "new", 5)).unwrap();
    engine.flush("ks", Some("t")).unwrap();
    stream
}

#[test]
fn a_read_that_began_before_a_flush_leaves_nothing_for_those_that_begin_after_it() {
    let (engine, table) = cached(All);
    let stream = overtaken(&engine, &table);
    assert_eq!(values(stream), ["0", "1"], "its view has neither the write nor the SSTable");
    assert_eq!(all(&engine, &table, 2).0, [(0, "new".to_owned()), (1, "new".to_owned())]);
}

#[test]
fn a_read_that_began_before_a_flush_sees_no_part_of_what_came_after() {
    let (engine, table) = cached(First(1));
    let stream = overtaken(&engine, &table);
    all(&engine, &table, 2);
    assert!(is_hit(&all(&engine, &table, 2).1));
    assert_eq!(values(stream), ["0", "1"]);
}

#[test]
fn between_the_steps_of_a_flush_nothing_is_missing() {
    let (engine, table) = cached(All);
    store(&engine, &table, 1, 0..2);
    all(&engine, &table, 1);
    write(&engine, &pair(&table, 1, "new", 5)).unwrap();
    let expected = [(0, "new".to_owned()), (1, "new".to_owned())];
    let store = engine.table(table.id).unwrap();
    let turn = store.flush_turn.lock();
    engine.writing.switch_memtable(&store);
    assert!(!store.view().flushing.is_empty());
    let flushing = store.view().flushing[0].clone();
    let (memtable, host_id) = (&flushing.memtable, engine.host_id());
    let written =
        store.write_memtable(&store.schema(), &engine.catalog.files, memtable, flushing.end, host_id);
    let written = written.unwrap();
    store.change_view(|view| view.end_flush(written));
    let (found, cost) = all(&engine, &table, 1);
    assert_eq!(found, expected);
    assert!(is_hit(&cost), "the head of before, with the memtable that is an SSTable now");
    store.settle();
    drop(turn);
    assert!(store.view().settling.is_none());
    assert_eq!(all(&engine, &table, 1).0, expected);
}

/// Writers count up in each of a few partitions, readers must never see less than what was acknowledged
/// before they began, and the two rows of an update only together; all the while the table is flushed and
/// compacted.
#[test]
fn nobody_reads_less_than_what_was_acknowledged() {
    const KEYS: usize = 4;
    const WRITES: u64 = 400;
    for rows in [All, First(1)] {
        let (engine, table) = cached(rows);
        let acknowledged: [AtomicU64; KEYS] = std::array::from_fn(|_| AtomicU64::new(0));
        let hits = AtomicU64::new(0);
        let rounds = || acknowledged[KEYS - 1].load(Ordering::SeqCst);
        std::thread::scope(|scope| {
            let write_all = || {
                for n in 1..=WRITES {
                    for (k, acknowledged) in acknowledged.iter().enumerate() {
                        write(&engine, &pair(&table, k as i32, &n.to_string(), n as i64)).unwrap();
                        acknowledged.store(n, Ordering::SeqCst);
                    }
                }
            };
            let flush_all = || {
                let mut flushed = 0;
                while rounds() < WRITES {
                    if rounds() >= flushed + 5 {
                        flushed = rounds();
                        engine.flush("ks", Some("t")).unwrap();
                        if engine.table(table.id).unwrap().view().sstables.len() > 3 {
                            engine.compact("ks", Some("t")).unwrap();
                        }
                    }
                    std::thread::yield_now();
                }
            };
            let read_all = || {
                while rounds() < WRITES {
                    for (k, acknowledged) in acknowledged.iter().enumerate() {
                        let least = acknowledged.load(Ordering::SeqCst);
                        let (found, cost) = all(&engine, &table, k as i32);
                        let seen: Vec<u64> = found.iter().map(|(_, value)| value.parse().unwrap()).collect();
                        hits.fetch_add(cost.row_cache_hits, Ordering::SeqCst);
                        match seen.as_slice() {
                            [] => assert_eq!(least, 0),
                            [a, b] => assert!(*a >= least && a == b, "{seen:?}, {least} was acknowledged"),
                            more => panic!("{more:?}"),
                        }
                    }
                }
            };
            scope.spawn(write_all);
            scope.spawn(flush_all);
            (0..2).for_each(|_| drop(scope.spawn(read_all)));
        });
        assert!(hits.load(Ordering::SeqCst) > 0);
        engine.close();
    }
}
