//! What stays in the page cache: hot pages, whatever else is read. Everything is counted, nothing timed.

use super::*;
use crate::{SsTableFormat, StorageCompatibility};
use env::fs::memory::MemoryFileSystem;
use partition::CostSnapshot;

/// Bytes of the page cache in these tests.
const CACHE_BYTES: u64 = 4 << 20;
/// Partitions that are read again and again: with their index pages less than half of the cache.
const HOT: std::ops::Range<i32> = 0..1_000;
/// Partitions of the table that is many times the cache.
const COLD: std::ops::Range<i32> = 0..24_000;

/// Text that does not compress much, about `len` bytes.
fn noise(random: &Random, len: usize) -> String {
    (0..len).map(|_| char::from(b'!' + random.below(90) as u8)).collect()
}

/// An engine with a small hot table and one of `COLD` partitions, all in SSTables.
fn engine() -> (Arc<Engine>, Arc<TableSchema>, Arc<TableSchema>) {
    let options =
        EngineOptions { page_cache_bytes: CACHE_BYTES, commitlog_segment_bytes: 32 << 20, ..options() };
    let engine = Engine::open(options, env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
    let (hot, cold) = (simple_table("hot"), simple_table("cold"));
    create(&engine, &[&hot, &cold]);
    let random = Random::from_seed(7);
    for k in HOT {
        write(&engine, &insert(&hot, k, 0, &noise(&random, 1_000), 1)).unwrap();
    }
    for k in COLD {
        write(&engine, &insert(&cold, k, 0, &noise(&random, 1_000), 1)).unwrap();
    }
    engine.flush_all().unwrap();
    (engine, hot, cold)
}

fn all_of(table: &Arc<TableSchema>, partitions: PartitionSelection) -> ReadCommand {
    ReadCommand {
        table: Arc::clone(table),
        partitions,
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
    }
}

/// Rows that a command finds, and what they cost.
fn run(engine: &Engine, command: &ReadCommand, context: ReadContext) -> (usize, CostSnapshot) {
    let mut stream = engine.read(command, &context).unwrap();
    let mut fragment = Fragment::default();
    let mut rows = 0;
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::End => break,
            Event::Row => rows += 1,
            _ => {}
        }
    }
    drop(stream);
    (rows, context.cost.snapshot())
}

pub fn read_one(engine: &Engine, table: &Arc<TableSchema>, k: i32) -> CostSnapshot {
    let command = all_of(table, PartitionSelection::Keys(vec![key(k)]));
    let (rows, cost) = run(engine, &command, ReadContext::default());
    assert_eq!(rows, 1);
    cost
}

/// Reads each hot partition; how many pages were not in the cache.
fn hot_misses(engine: &Engine, hot: &Arc<TableSchema>) -> u64 {
    HOT.map(|k| misses(&read_one(engine, hot, k))).sum()
}

fn misses(cost: &CostSnapshot) -> u64 {
    cost.chunk_misses + cost.index_page_misses
}

/// Reads the hot partitions until they are known as such; how many pages they have.
fn warm_up(engine: &Engine, hot: &Arc<TableSchema>) -> u64 {
    let pages = hot_misses(engine, hot);
    hot_misses(engine, hot);
    assert_eq!(hot_misses(engine, hot), 0);
    pages
}

/// Runs the cold reads, each with a hot one behind it; the pages that the hot ones missed.
fn flood(engine: &Engine, hot: &Arc<TableSchema>, cold: impl Iterator<Item = CostSnapshot>) -> u64 {
    let (mut missed, mut loaded) = (0, 0);
    for (cost, k) in cold.zip(HOT.cycle()) {
        loaded += misses(&cost);
        missed += misses(&read_one(engine, hot, k));
    }
    assert!(loaded > 20 * CACHE_BYTES / (16 << 10), "{loaded} pages are no flood");
    missed
}

#[test]
fn a_flood_of_cold_point_reads_leaves_the_hot_pages() {
    let (engine, hot, cold) = engine();
    let pages = warm_up(&engine, &hot);
    let random = Random::from_seed(11);
    let reads = (0..12_000).map(|_| read_one(&engine, &cold, random.below(COLD.end as u64) as i32));
    let missed = flood(&engine, &hot, reads);
    assert!(missed <= pages / 10, "{missed} of {pages} pages, {:?}", engine.stats().page_cache);
}

#[test]
fn point_reads_that_walk_through_a_large_table_leave_the_hot_pages() {
    let (engine, hot, cold) = engine();
    let pages = warm_up(&engine, &hot);
    // In the order of their tokens, as the rows lie: each chunk and index page is looked at many times in a
    // row.
    let mut keys: Vec<(DecoratedKey, i32)> = COLD.map(|k| (key(k), k)).collect();
    keys.sort();
    for (_, k) in keys {
        read_one(&engine, &cold, k);
    }
    let missed = hot_misses(&engine, &hot);
    assert!(missed <= pages / 10, "{missed} of {pages} pages, {:?}", engine.stats().page_cache);
}

#[test]
fn a_flood_of_cold_index_pages_leaves_the_hot_pages() {
    let (engine, hot, _) = engine();
    let wide = TableSchema::builder("wide", "t", Uuid::from_u128(5))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Text, false)
        .regular("v", CqlType::Int)
        .build();
    let wide = Arc::new(wide);
    create(&engine, &[&wide]);
    // Clusterings of a kilobyte: each block of four rows has two of them in the index.
    let name = |k: i32, c: u64| format!("{c:05}{}", noise(&Random::from_seed(c * 1_000 + k as u64), 1_000));
    let column = wide.column("v").unwrap().id;
    for (k, c) in (0..16).flat_map(|k| (0..1_000).map(move |c| (k, c))) {
        let mut update = PartitionUpdate::new(Arc::clone(&wide), key(k));
        let mut row = Row::new(Clustering::from_values([name(k, c).as_bytes()]));
        row.cells.push(Cell::live(column, 1, Bytes::copy_from_slice(&k.to_be_bytes())));
        update.add_row(row);
        write(&engine, &Mutation::of(update)).unwrap();
    }
    engine.flush_all().unwrap();
    let pages = warm_up(&engine, &hot);
    let (index_pages, chunks) = (std::cell::Cell::<u64>::default(), std::cell::Cell::<u64>::default());
    let random = Random::from_seed(5);
    let reads = (0..6_000).map(|_| {
        let (k, c) = (random.below(16) as i32, random.below(1_000));
        let names = vec![Clustering::from_values([name(k, c).as_bytes()])];
        let command = ReadCommand {
            clusterings: ClusteringFilter::Names { names, reversed: false },
            ..all_of(&wide, PartitionSelection::Keys(vec![key(k)]))
        };
        let (rows, cost) = run(&engine, &command, ReadContext::default());
        assert_eq!(rows, 1);
        index_pages.set(index_pages.get() + cost.index_page_misses);
        chunks.set(chunks.get() + cost.chunk_misses);
        cost
    });
    let missed = flood(&engine, &hot, reads);
    let (index_pages, chunks) = (index_pages.get(), chunks.get());
    assert!(index_pages > chunks, "{index_pages} pages of the index, {chunks} chunks");
    assert!(missed <= pages / 10, "{missed} of {pages} pages, {:?}", engine.stats().page_cache);
}

#[test]
fn a_scan_of_a_large_table_uses_what_is_resident_and_leaves_nothing() {
    let (engine, hot, cold) = engine();
    let pages = warm_up(&engine, &hot);
    let some = (0..100).map(|k| misses(&read_one(&engine, &cold, k))).sum::<u64>();
    let before = engine.stats().page_cache;
    let command = all_of(&cold, PartitionSelection::Range(KeyRange::FULL));
    let (rows, cost) = run(&engine, &command, ReadContext::default());
    assert_eq!(rows, COLD.len());
    let after = engine.stats().page_cache;
    assert_eq!((after.insertions, after.entries, after.evictions), (before.insertions, before.entries, 0));
    assert!(cost.chunk_hits > 90 && cost.chunk_hits <= some, "{cost:?}, {some} pages were resident");
    assert_eq!(hot_misses(&engine, &hot), 0, "of {pages}");
}

#[test]
fn a_scan_of_a_small_table_and_one_of_few_rows_fill_the_cache() {
    let (engine, hot, cold) = engine();
    let small = simple_table("small");
    create(&engine, &[&hot, &cold, &small]);
    (0..50).for_each(|k| write(&engine, &insert(&small, k, 0, "v", 1)).unwrap());
    engine.flush("ks", Some("small")).unwrap();
    let limits = DataLimits { rows: 10, ..DataLimits::NONE };
    let few = ReadCommand { limits, ..all_of(&cold, PartitionSelection::Range(KeyRange::FULL)) };
    let all = all_of(&small, PartitionSelection::Range(KeyRange::FULL));
    for command in [few, all] {
        let first = || {
            let context = ReadContext::default();
            engine.read(&command, &context).unwrap().next(&mut Fragment::default()).unwrap();
            misses(&context.cost.snapshot())
        };
        assert!(first() > 0);
        assert_eq!(first(), 0);
    }
}

#[test]
fn the_rest_of_a_partition_in_a_scan_of_a_large_table_leaves_nothing() {
    let (engine, _, cold) = engine();
    let again = |command: &ReadCommand, scan: &Option<Arc<KeyRange>>| {
        let first =
            || misses(&run(&engine, command, ReadContext { scan: scan.clone(), ..ReadContext::default() }).1);
        assert!(first() > 0);
        first()
    };
    let scan = Some(Arc::new(KeyRange::FULL));
    let one = |k: i32, limits: DataLimits| ReadCommand {
        limits,
        ..all_of(&cold, PartitionSelection::Keys(vec![key(k)]))
    };
    assert!(again(&one(1, DataLimits::NONE), &scan) > 0);
    assert_eq!(again(&one(1, DataLimits::NONE), &None), 0);
    let few = DataLimits { rows: 10, ..DataLimits::NONE };
    assert_eq!(again(&one(12_000, few), &scan), 0);
}

#[test]
fn a_slice_of_each_partition_of_a_large_table_fills_the_cache() {
    let (engine, _, cold) = engine();
    let names = vec![Clustering::from_values([&0i32.to_be_bytes()[..]])];
    let sliced = ReadCommand {
        clusterings: ClusteringFilter::Names { names, reversed: false },
        ..all_of(&cold, PartitionSelection::Range(KeyRange::FULL))
    };
    let first = |command: &ReadCommand| {
        let context = ReadContext::default();
        engine.read(command, &context).unwrap().next(&mut Fragment::default()).unwrap();
        misses(&context.cost.snapshot())
    };
    assert!(first(&sliced) > 0);
    assert_eq!(first(&sliced), 0);
}

#[test]
fn a_compaction_reads_around_the_cache() {
    let (engine, hot, cold) = engine();
    warm_up(&engine, &hot);
    for k in COLD.take(100) {
        write(&engine, &insert(&cold, k, 1, "more", 2)).unwrap();
    }
    engine.flush_all().unwrap();
    let before = engine.stats().page_cache;
    engine.compact("ks", Some("cold")).unwrap();
    let after = engine.stats().page_cache;
    assert_eq!((after.insertions, after.evictions), (before.insertions, before.evictions));
    assert_eq!(hot_misses(&engine, &hot), 0);
}

/// An engine with a table of a hundred partitions in an SSTable.
fn small(keeps_index: bool, caches_keys: bool) -> (Arc<Engine>, Arc<TableSchema>) {
    let options = EngineOptions { cache_index_pages: keeps_index, ..options() };
    let engine = Engine::open(options, env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
    let mut table = TableSchema::clone(&simple_table("t"));
    table.options.caching.keys = caches_keys;
    let table = Arc::new(table);
    create(&engine, &[&table]);
    (0..100).for_each(|k| write(&engine, &insert(&table, k, 0, "v", 1)).unwrap());
    engine.flush_all().unwrap();
    (engine, table)
}

#[test]
fn index_pages_are_kept_unless_the_node_or_the_table_says_no() {
    for (keeps_index, caches_keys) in [(true, true), (true, false), (false, true)] {
        let (engine, table) = small(keeps_index, caches_keys);
        let first = read_one(&engine, &table, 7);
        assert!(first.index_page_misses > 0 && first.chunk_misses > 0, "{first:?}");
        let second = read_one(&engine, &table, 7);
        assert_eq!(second.chunk_misses, 0);
        if keeps_index && caches_keys {
            assert_eq!(second.index_page_misses, 0);
        } else {
            assert!(second.index_page_misses > 0, "{second:?}");
        }
    }
}

#[test]
fn a_read_that_does_not_fill_the_cache_leaves_nothing_and_uses_what_is_there() {
    let (engine, table) = small(true, true);
    let around = || {
        let command = all_of(&table, PartitionSelection::Keys(vec![key(7)]));
        let context = ReadContext { fill_cache: false, ..ReadContext::default() };
        run(&engine, &command, context).1
    };
    let before = engine.stats().page_cache;
    assert!(misses(&around()) > 0 && misses(&around()) > 0);
    assert_eq!(engine.stats().page_cache.insertions, before.insertions);
    read_one(&engine, &table, 7);
    assert_eq!(misses(&around()), 0);
}

#[test]
fn index_pages_and_all_pages_are_dropped_on_demand() {
    let (engine, table) = small(true, true);
    read_one(&engine, &table, 7);
    engine.page_cache().clear_index();
    let again = read_one(&engine, &table, 7);
    assert!(again.index_page_misses > 0 && again.chunk_misses == 0, "{again:?}");
    engine.page_cache().clear();
    assert_eq!(engine.stats().page_cache.entries, 0);
    let again = read_one(&engine, &table, 7);
    assert!(again.index_page_misses > 0 && again.chunk_misses > 0, "{again:?}");
}

#[test]
fn a_flush_leaves_what_was_read_in_memory_and_no_hot_page_goes_for_it() {
    let formats = [SsTableFormat::Big, SsTableFormat::Bti];
    for sstable_format in formats {
        let options = EngineOptions {
            page_cache_bytes: CACHE_BYTES,
            commitlog_segment_bytes: 32 << 20,
            storage_compatibility: StorageCompatibility::None,
            sstable_format,
            ..options()
        };
        let engine = Engine::open(options, env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
        let (hot, new, unread) = (simple_table("hot"), simple_table("new"), simple_table("unread"));
        create(&engine, &[&hot, &new, &unread]);
        let random = Random::from_seed(7);
        let fill = |table, keys: std::ops::Range<i32>| {
            keys.for_each(|k| write(&engine, &insert(table, k, 0, &noise(&random, 1_000), 1)).unwrap());
        };
        let misses_of = |table, keys: std::ops::Range<i32>| {
            keys.map(|k| misses(&read_one(&engine, table, k))).sum::<u64>()
        };
        fill(&hot, HOT);
        engine.flush_all().unwrap();
        let pages = warm_up(&engine, &hot);

        fill(&new, 0..500);
        assert_eq!(misses_of(&new, 0..500), 0);
        fill(&unread, 0..500);
        engine.flush_all().unwrap();
        assert_eq!(misses_of(&new, 0..500), 0, "{sstable_format:?}");
        assert!(misses_of(&unread, 0..500) > 10, "{sstable_format:?}");

        // Five times the cache.
        for round in 0..20 {
            fill(&new, round * 1_000..(round + 1) * 1_000);
            read_one(&engine, &new, round * 1_000);
            engine.flush("ks", Some("new")).unwrap();
        }
        let missed = hot_misses(&engine, &hot);
        assert!(missed <= pages / 10, "{sstable_format:?}: {missed} of {pages} pages");
    }
}
