//! What is read while a compaction runs and when it ends, and from where.

use super::*;
use crate::background::compaction::run::Outcome;
use crate::{EngineError, SsTableFormat};
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use partition::{CostSnapshot, Event, Fragment, PartitionStream, ReadContext};

pub fn uncompressed(name: &str) -> Arc<TableSchema> {
    let plain = off(name, 0);
    let mut options = plain.options.clone();
    options.compression.class = None;
    Arc::new(plain.to_builder().options(options).build())
}

/// Runs a compaction so slowly that `look` sees it at every few kilobytes.
fn compact_step_by_step(engine: &Engine, task: &Task, look: impl FnMut()) {
    try_step_by_step(engine, task, look).unwrap();
}

pub fn try_step_by_step(
    engine: &Engine,
    task: &Task,
    mut look: impl FnMut(),
) -> Result<Outcome, EngineError> {
    let clock = Arc::new(ManualClock::at_micros(0));
    let throttle = Throttle::new(Arc::clone(&clock) as Arc<dyn env::clock::Clock>, 50_000);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| engine.background.run_compaction(task, &throttle));
        while !run.is_finished() {
            look();
            clock.advance(Duration::from_millis(200));
            throttle.set_paused(false);
        }
        run.join().unwrap()
    })
}

/// `count` partitions in two SSTables, in which each row has one column's newer version.
pub fn two_sstables(engine: &Engine, table: &Arc<TableSchema>, count: i32) {
    for round in 0..2 {
        for k in 0..count {
            let value = format!("{round}{}", "x".repeat(400));
            write(engine, &insert(table, k, round, &value, i64::from(round + 1))).unwrap();
            write(engine, &insert(table, k, 7, &value, i64::from(round + 1))).unwrap();
        }
        engine.flush("ks", None).unwrap();
    }
}

pub fn early_engine(
    fs: &MemoryFileSystem,
    early_open_bytes: u64,
    mode: StorageCompatibility,
    format: SsTableFormat,
) -> Arc<Engine> {
    early_engine_on(Arc::new(fs.clone()), early_open_bytes, mode, format)
}

pub fn early_engine_on(
    fs: Arc<dyn FileSystem>,
    early_open_bytes: u64,
    mode: StorageCompatibility,
    format: SsTableFormat,
) -> Arc<Engine> {
    let options = EngineOptions {
        early_open_bytes,
        storage_compatibility: mode,
        sstable_format: format,
        page_cache_bytes: 8 << 20,
        ..quiet(options())
    };
    Engine::open(options, env_on(fs, 5)).unwrap()
}

pub fn read_key(engine: &Engine, table: &Arc<TableSchema>, k: i32) -> (Vec<String>, CostSnapshot) {
    let command = ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key(k)]),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
    };
    let ctx = ReadContext::default();
    let mut stream = engine.read(&command, &ctx).unwrap();
    let (mut fragment, mut values) = (Fragment::default(), Vec::new());
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::End => return (values, ctx.cost.snapshot()),
            Event::Row => {
                let row = &fragment.row;
                values.push(format!("{:?} {}", row.clustering, String::from_utf8_lossy(&row.cells[0].value)));
            }
            _ => {}
        }
    }
}

#[test]
fn what_a_compaction_has_written_is_read_before_it_ends_and_nothing_goes_cold() {
    let formats = [
        (StorageCompatibility::Cassandra4, SsTableFormat::Big),
        (StorageCompatibility::None, SsTableFormat::Big),
        (StorageCompatibility::None, SsTableFormat::Bti),
    ];
    for (mode, format) in formats {
        for output in [Output::ONE, Output { level: 1, sstable_bytes: 60_000, shards: 1, halves: false }] {
            let (fs, table) = (MemoryFileSystem::new(), uncompressed("t"));
            let engine = early_engine(&fs, 20_000, mode, format);
            create(&engine, std::slice::from_ref(&table));
            const COUNT: i32 = 400;
            two_sstables(&engine, &table, COUNT);
            // Half of the partitions are hot.
            let mut keys: Vec<i32> = (0..COUNT).collect();
            keys.sort_by_key(|k| key(*k));
            let hot = &keys[..COUNT as usize / 2];
            let expected: BTreeMap<i32, _> =
                hot.iter().map(|k| (*k, read_key(&engine, &table, *k).0)).collect();
            let mut early = 0;
            let task = task(&engine, &table, all(&engine, &table), output);
            compact_step_by_step(&engine, &task, || {
                let view = store(&engine, &table).view();
                early += usize::from(!view.early.is_empty());
                for k in &keys {
                    assert_eq!(read_key(&engine, &table, *k).0.len(), 3);
                }
                for k in hot {
                    assert_eq!(read_key(&engine, &table, *k).0, expected[k]);
                }
            });
            assert!(early > 0, "it was never open");
            let view = store(&engine, &table).view();
            assert!(view.early.is_empty());
            for k in hot {
                let (rows, cost) = read_key(&engine, &table, *k);
                assert_eq!(rows, expected[k]);
                assert_eq!(cost.chunk_misses, 0, "a hot partition went cold");
            }
            engine.close();
        }
    }
}

#[test]
fn a_compaction_warms_nothing_that_was_cold() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 0));
    let engine = early_engine(&fs, u64::MAX, StorageCompatibility::Cassandra4, SsTableFormat::Big);
    create(&engine, std::slice::from_ref(&table));
    two_sstables(&engine, &table, 400);
    let mut keys: Vec<i32> = (0..400).collect();
    keys.sort_by_key(|k| key(*k));
    let hot = keys.split_off(300);
    hot.iter().for_each(|k| drop(read_key(&engine, &table, *k)));
    run(&engine, &table, all(&engine, &table));
    assert_eq!(sstables(&engine, &table), 1);
    // One chunk has both kinds.
    let misses =
        |keys: &[i32]| keys.iter().map(|k| read_key(&engine, &table, *k).1.chunk_misses).sum::<u64>();
    assert_eq!(misses(&hot[40..]), 0);
    assert!(misses(&keys[..260]) > 10);
    engine.close();
}

#[test]
fn keys_that_were_hot_here_and_there_are_so_after_a_compaction() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 0));
    let engine = early_engine(&fs, u64::MAX, StorageCompatibility::Cassandra4, SsTableFormat::Big);
    create(&engine, std::slice::from_ref(&table));
    two_sstables(&engine, &table, 1_000);
    run(&engine, &table, all(&engine, &table));
    let mut keys: Vec<i32> = (0..1_000).collect();
    keys.sort_by_key(|k| key(*k));
    let misses = |keys: &mut dyn Iterator<Item = &i32>| -> u64 {
        keys.map(|k| read_key(&engine, &table, *k).1.chunk_misses).sum()
    };
    let hot = || keys.iter().skip(60).step_by(125);
    assert!(misses(&mut hot()) > 4);
    run(&engine, &table, all(&engine, &table));
    assert_eq!(misses(&mut hot()), 0);
    assert!(misses(&mut keys.iter()) > 4);
    engine.close();
}

#[test]
fn the_index_of_what_was_hot_is_warm_after_a_compaction_and_no_other() {
    for (early_open_bytes, format) in [
        (u64::MAX, SsTableFormat::Big),
        (20_000, SsTableFormat::Big),
        (u64::MAX, SsTableFormat::Bti),
        (20_000, SsTableFormat::Bti),
    ] {
        let (fs, table) = (MemoryFileSystem::new(), uncompressed("t"));
        let engine = early_engine(&fs, early_open_bytes, StorageCompatibility::None, format);
        create(&engine, std::slice::from_ref(&table));
        two_sstables(&engine, &table, 1_000);
        let mut keys: Vec<i32> = (0..1_000).collect();
        keys.sort_by_key(|k| key(*k));
        let hot = keys.split_off(500);
        hot.iter().for_each(|k| drop(read_key(&engine, &table, *k)));
        run(&engine, &table, all(&engine, &table));
        assert_eq!(sstables(&engine, &table), 1);
        // Keys on the border share pages.
        let misses = |keys: &[i32]| {
            keys.iter().map(|k| read_key(&engine, &table, *k).1.index_page_misses).sum::<u64>()
        };
        assert_eq!(misses(&hot[150..]), 0, "{format:?} {early_open_bytes}");
        // A trie of so few keys has next to no pages that are one half's only.
        assert!(format == SsTableFormat::Bti || misses(&keys[..350]) > 0, "{early_open_bytes}");
        engine.close();
    }
}

#[test]
fn what_is_truncated_or_given_up_is_not_read_from_what_a_compaction_wrote() {
    let (fs, table) = (MemoryFileSystem::new(), uncompressed("t"));
    let engine = early_engine(&fs, 1, StorageCompatibility::Cassandra4, SsTableFormat::Big);
    create(&engine, std::slice::from_ref(&table));
    two_sstables(&engine, &table, 400);
    let before = contents(&engine, &table);
    let is_open = || !store(&engine, &table).view().early.is_empty();
    let given_up = task(&engine, &table, all(&engine, &table), Output::ONE);
    let mut was_open = false;
    compact_step_by_step(&engine, &given_up, || {
        was_open |= is_open();
        given_up.cancelled.store(was_open, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(was_open && !is_open());
    assert_eq!((contents(&engine, &table), sstables(&engine, &table)), (before, 2));

    let truncated_task = task(&engine, &table, all(&engine, &table), Output::ONE);
    let mut truncated = false;
    compact_step_by_step(&engine, &truncated_task, || {
        if !truncated && is_open() {
            engine.truncate("ks", "t").unwrap();
            truncated = true;
        }
        if truncated {
            assert_eq!(read_key(&engine, &table, 1).0.len(), 0);
        }
    });
    assert!(truncated && !is_open());
    assert_eq!((contents(&engine, &table).len(), sstables(&engine, &table)), (0, 0));
    engine.close();
}
