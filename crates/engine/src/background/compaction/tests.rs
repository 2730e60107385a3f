//! Whole compactions on the in-memory file system.

mod early;
mod garbage;
mod gone;
mod history;
mod requested;
mod room;
mod warmth;

use crate::background::compaction::strategy::Output;
use crate::background::compaction::task::{CompactionKind, Leaving, Task};
use crate::background::compaction::throttle::Throttle;
use crate::table::TableStore;
use crate::tests::{contents, create, env_on, insert, key, options, simple_table, wait_until, write};
use crate::{Engine, EngineOptions, StorageCompatibility};
use bytes::Bytes;
use env::clock::ManualClock;
use env::fs::FileSystem;
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::MemoryFileSystem;
use model::schema::CompactionOptions;
use model::{Cell, Clustering, Deletion, Mutation, PartitionUpdate, Row, TableSchema};
use sstable::{Component, Descriptor, SsTableId, descriptor};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use uuid::Uuid;

/// The table's own compactions are off, so that a test says what is compacted.
fn quiet(mut options: EngineOptions) -> EngineOptions {
    options.compaction_bytes_per_s = 0;
    options
}

fn table_with(name: &str, class: &str, pairs: &[(&str, &str)], gc_grace: i32) -> Arc<TableSchema> {
    let plain = simple_table(name);
    let mut options = plain.options.clone();
    options.gc_grace_seconds = gc_grace;
    options.compaction = CompactionOptions {
        class: CompactionOptions::full_class(class),
        options: pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
    };
    Arc::new(plain.to_builder().options(options).build())
}

fn off(name: &str, gc_grace: i32) -> Arc<TableSchema> {
    table_with(name, "SizeTieredCompactionStrategy", &[("enabled", "false")], gc_grace)
}

fn open(fs: &MemoryFileSystem, table: &Arc<TableSchema>) -> Arc<Engine> {
    let engine = Engine::open(quiet(options()), env_on(Arc::new(fs.clone()), 5)).unwrap();
    if engine.schema().table("ks", &table.name).is_none() {
        create(&engine, std::slice::from_ref(table));
    }
    engine
}

fn store(engine: &Engine, table: &TableSchema) -> Arc<TableStore> {
    engine.table(table.id).unwrap()
}

fn sstables(engine: &Engine, table: &TableSchema) -> usize {
    store(engine, table).view().sstables.len()
}

fn files(fs: &MemoryFileSystem, engine: &Engine, table: &TableSchema) -> usize {
    fs.read_dir(&store(engine, table).dirs()[0]).unwrap().len()
}

/// Writes and flushes `rounds` SSTables whose rows overlap.
fn rounds(engine: &Engine, table: &Arc<TableSchema>, rounds: i32) {
    for round in 0..rounds {
        for c in round..round + 20 {
            write(engine, &insert(table, c % 3, c, &format!("round {round}"), i64::from(round + 1))).unwrap();
        }
        engine.flush("ks", Some(&table.name)).unwrap();
    }
}

fn delete_row(table: &Arc<TableSchema>, k: i32, c: i32, timestamp: i64, at_s: u32) -> Mutation {
    let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
    row.deletion = Deletion::new(timestamp, at_s);
    let mut update = PartitionUpdate::new(Arc::clone(table), key(k));
    update.add_row(row);
    Mutation::of(update)
}

#[test]
fn a_major_compaction_leaves_one_sstable_with_the_same_rows_and_no_old_files() {
    let fs = MemoryFileSystem::new();
    let table = off("t", 0);
    let engine = open(&fs, &table);
    rounds(&engine, &table, 5);
    let before = contents(&engine, &table);
    assert_eq!(sstables(&engine, &table), 5);
    let old_files = files(&fs, &engine, &table);
    engine.compact("ks", Some("t")).unwrap();
    assert_eq!(sstables(&engine, &table), 1);
    assert_eq!(contents(&engine, &table), before);
    assert_eq!(files(&fs, &engine, &table), old_files / 5);
    assert_eq!(engine.compaction_counts(), (1, 0));
    engine.close();
    drop(engine);
    let engine = open(&fs, &table);
    assert_eq!((sstables(&engine, &table), contents(&engine, &table)), (1, before));
}

#[test]
fn flushes_and_compactions_write_the_version_of_the_mode() {
    let fs = MemoryFileSystem::new();
    let table = off("t", 0);
    let expected = |rounds: i32| -> BTreeMap<(i32, i32), String> {
        (0..rounds).flat_map(|r| (r..r + 20).map(move |c| ((c % 3, c), format!("round {r}")))).collect()
    };
    let modes = [
        (StorageCompatibility::Cassandra4, "nb"),
        (StorageCompatibility::None, "oa"),
        (StorageCompatibility::Upgrading, "oa"),
        (StorageCompatibility::Cassandra4, "nb"),
    ];
    for (storage_compatibility, version) in modes {
        let options = EngineOptions { storage_compatibility, ..quiet(options()) };
        let engine = Engine::open(options, env_on(Arc::new(fs.clone()), 5)).unwrap();
        if engine.schema().table("ks", &table.name).is_none() {
            create(&engine, std::slice::from_ref(&table));
        }
        let versions = || -> Vec<String> {
            let view = store(&engine, &table).view();
            view.sstables.iter().map(|t| t.descriptor().version.to_string()).collect()
        };
        let before = versions();
        rounds(&engine, &table, 2);
        let after = versions();
        let count = |of: &[String]| of.iter().filter(|v| *v == version).count();
        assert_eq!((after.len(), count(&after)), (before.len() + 2, count(&before) + 2), "{after:?}");
        assert_eq!(contents(&engine, &table), expected(2));
        run(&engine, &table, all(&engine, &table));
        assert_eq!(versions(), [version]);
        assert_eq!(contents(&engine, &table), expected(2));
        engine.drain().unwrap();
        engine.close();
    }
}

#[test]
fn a_full_bucket_is_compacted_without_being_asked() {
    let fs = MemoryFileSystem::new();
    let table = table_with("t", "SizeTieredCompactionStrategy", &[], 0);
    let engine = open(&fs, &table);
    rounds(&engine, &table, 4);
    let before = contents(&engine, &table);
    wait_until(|| sstables(&engine, &table) == 1);
    assert_eq!(contents(&engine, &table), before);
    assert!(engine.pending_compactions().iter().all(|(t, _)| t.schema().id != table.id));
}

#[test]
fn disabled_and_paused_tables_wait_until_they_may() {
    let fs = MemoryFileSystem::new();
    let table = table_with("t", "SizeTieredCompactionStrategy", &[], 0);
    let engine = open(&fs, &table);
    engine.set_auto_compaction("ks", Some("t"), false).unwrap();
    rounds(&engine, &table, 4);
    assert_eq!(engine.pending_compactions().iter().filter(|(t, _)| t.schema().id == table.id).count(), 1);
    assert_eq!(sstables(&engine, &table), 4);
    engine.set_compactions_paused(true);
    engine.set_auto_compaction("ks", Some("t"), true).unwrap();
    assert_eq!(sstables(&engine, &table), 4);
    engine.set_compactions_paused(false);
    wait_until(|| sstables(&engine, &table) == 1);
}

#[test]
fn tombstones_older_than_gc_grace_go_with_what_they_shadow() {
    let fs = MemoryFileSystem::new();
    let clock = Arc::new(ManualClock::at_micros(2_000_000_000));
    let table = off("t", 100);
    let env = env::Env::new(
        Arc::clone(&clock) as Arc<dyn env::clock::Clock>,
        Arc::new(env::random::Random::from_seed(1)),
        Arc::new(fs.clone()),
    );
    let engine = Engine::open(quiet(options()), env).unwrap();
    create(&engine, std::slice::from_ref(&table));
    write(&engine, &insert(&table, 1, 1, "old", 1)).unwrap();
    write(&engine, &insert(&table, 1, 2, "kept", 1)).unwrap();
    engine.flush("ks", None).unwrap();
    write(&engine, &delete_row(&table, 1, 1, 2, 2000)).unwrap();
    engine.compact("ks", Some("t")).unwrap();
    let rows = |engine: &Engine| store(engine, &table).view().sstables[0].stats().total_rows;
    assert_eq!(rows(&engine), 2, "the tombstone is younger than gc_grace");
    clock.advance(Duration::from_secs(200));
    engine.compact("ks", Some("t")).unwrap();
    assert_eq!(rows(&engine), 1);
    assert_eq!(contents(&engine, &table), BTreeMap::from([((1, 2), "kept".to_owned())]));
}

#[test]
fn a_tombstone_stays_while_an_sstable_outside_may_hold_what_it_shadows() {
    let fs = MemoryFileSystem::new();
    let table = off("t", 0);
    let engine = open(&fs, &table);
    let clockless = 1;
    write(&engine, &insert(&table, 1, 1, "shadowed", 1)).unwrap();
    engine.flush("ks", None).unwrap();
    for c in [1, 2] {
        write(&engine, &delete_row(&table, 1, c, 5, clockless)).unwrap();
        engine.flush("ks", None).unwrap();
    }
    // Newest first: the two SSTables of tombstones, without the one of data.
    let inputs: Vec<_> = store(&engine, &table)
        .view()
        .sstables
        .iter()
        .filter(|t| t.stats().min_timestamp == 5)
        .cloned()
        .collect();
    assert_eq!(inputs.len(), 2);
    run(&engine, &table, inputs);
    assert_eq!(sstables(&engine, &table), 2);
    assert_eq!(contents(&engine, &table), BTreeMap::new());
}

/// A task of `inputs` that no manager knows of.
fn task(engine: &Engine, table: &TableSchema, inputs: Vec<Arc<sstable::SsTable>>, output: Output) -> Task {
    Task {
        leaving: Leaving::NothingElse,
        kind: CompactionKind::Minor,
        id: Uuid::nil(),
        table: store(engine, table),
        inputs,
        expired: Vec::new(),
        output,
        completed_bytes: AtomicU64::new(0),
        cancelled: AtomicBool::new(false),
    }
}

fn all(engine: &Engine, table: &TableSchema) -> Vec<Arc<sstable::SsTable>> {
    store(engine, table).view().sstables.iter().cloned().collect()
}

fn run(engine: &Engine, table: &TableSchema, inputs: Vec<Arc<sstable::SsTable>>) {
    let task = task(engine, table, inputs, Output::ONE);
    let throttle = Throttle::new(Arc::clone(&engine.env().clock), 0);
    engine.background.run_compaction(&task, &throttle).unwrap();
}

#[test]
fn what_was_truncated_during_a_compaction_does_not_come_back() {
    let fs = MemoryFileSystem::new();
    let table = off("t", 0);
    let engine = open(&fs, &table);
    rounds(&engine, &table, 3);
    let inputs = all(&engine, &table);
    engine.truncate("ks", "t").unwrap();
    run(&engine, &table, inputs);
    assert_eq!((sstables(&engine, &table), contents(&engine, &table).len()), (0, 0));
    engine.close();
    drop(engine);
    assert_eq!(contents(&open(&fs, &table), &table).len(), 0);
}

#[test]
fn a_cancelled_compaction_changes_nothing() {
    let fs = MemoryFileSystem::new();
    let table = off("t", 0);
    let engine = open(&fs, &table);
    rounds(&engine, &table, 2);
    let before = (files(&fs, &engine, &table), contents(&engine, &table));
    let task = task(&engine, &table, all(&engine, &table), Output::ONE);
    let throttle = Throttle::new(Arc::clone(&engine.env().clock), 0);
    throttle.stop();
    engine.background.run_compaction(&task, &throttle).unwrap();
    assert_eq!((files(&fs, &engine, &table), contents(&engine, &table)), before);
}

#[test]
fn outputs_are_cut_at_the_borders_of_shards_and_at_their_size() {
    let fs = MemoryFileSystem::new();
    let table = off("t", 0);
    let engine = open(&fs, &table);
    for k in 0..200 {
        write(&engine, &insert(&table, k, 0, &"x".repeat(500), 1)).unwrap();
    }
    engine.flush("ks", None).unwrap();
    let before = contents(&engine, &table);
    for (output, expected) in [
        (Output { level: 0, sstable_bytes: u64::MAX, shards: 4, halves: false }, 4..=4),
        (Output { level: 2, sstable_bytes: 1, shards: 1, halves: false }, 2..=200),
    ] {
        let task = task(&engine, &table, all(&engine, &table), output.clone());
        engine.background.run_compaction(&task, &Throttle::new(Arc::clone(&engine.env().clock), 0)).unwrap();
        assert!(expected.contains(&sstables(&engine, &table)), "{}", sstables(&engine, &table));
        assert_eq!(contents(&engine, &table), before);
        let view = store(&engine, &table).view();
        assert!(view.sstables.iter().all(|t| t.stats().level == output.level as i32));
    }
}

#[test]
fn expired_sstables_are_dropped_unread() {
    let fs = MemoryFileSystem::new();
    let clock = Arc::new(ManualClock::at_micros(1_000_000_000));
    let table = table_with("t", "TimeWindowCompactionStrategy", &[], 0);
    let env = env::Env::new(
        Arc::clone(&clock) as Arc<dyn env::clock::Clock>,
        Arc::new(env::random::Random::from_seed(1)),
        Arc::new(fs.clone()),
    );
    let engine = Engine::open(quiet(options()), env).unwrap();
    create(&engine, std::slice::from_ref(&table));
    let mut row = Row::new(Clustering::from_values([&1i32.to_be_bytes()[..]]));
    let column = table.column("v").unwrap().id;
    row.cells.push(Cell::expiring(column, 1, 10, 1010, Bytes::from_static(b"gone soon")));
    let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
    update.add_row(row);
    write(&engine, &Mutation::of(update)).unwrap();
    engine.flush("ks", None).unwrap();
    assert_eq!(sstables(&engine, &table), 1);
    clock.advance(Duration::from_secs(60));
    engine.background.compactions.nudge();
    wait_until(|| sstables(&engine, &table) == 0);
    wait_until(|| files(&fs, &engine, &table) == 0);
}

#[test]
fn a_crash_at_any_change_of_a_file_leaves_the_old_or_the_new_sstables() {
    use env::fs::memory::Crash;
    let table = off("t", 0);
    let mut completed = false;
    for nth in 0..400 {
        let memory = MemoryFileSystem::new();
        let faulty = FaultyFileSystem::new(Arc::new(memory.clone()));
        let env = env_on(Arc::new(faulty.clone()), 5);
        let engine = Engine::open(quiet(options()), env).unwrap();
        create(&engine, std::slice::from_ref(&table));
        rounds(&engine, &table, 3);
        let before = contents(&engine, &table);
        let fault = faulty.add(Fault::on_any_change().path("/ks/").after(nth));
        let result = engine.compact("ks", Some("t"));
        let struck = faulty.struck(fault) > 0;
        engine.close();
        drop(engine);
        let crashed = memory.crash(Crash::LoseUnsynced);
        let engine = Engine::open(quiet(options()), env_on(Arc::new(crashed), 6)).unwrap();
        assert_eq!(contents(&engine, &table), before, "after failure {nth}");
        let left = sstables(&engine, &table);
        assert!(left == 3 || left == 1, "{left} SSTables after failure {nth}");
        if !struck {
            assert!(result.is_ok());
            completed = true;
            break;
        }
    }
    assert!(completed, "the compaction never got through");
}

#[test]
fn a_commit_in_doubt_leaves_the_old_sstables_until_the_next_start() {
    use crate::EngineError;
    use env::fs::memory::Crash;
    let table = off("t", 0);
    for crash in [None, Some(Crash::LoseUnsynced), Some(Crash::TornPrefix(3)), Some(Crash::ScatteredPages(5))]
    {
        for in_doubt in [false, true] {
            let memory = MemoryFileSystem::new();
            let faulty = FaultyFileSystem::new(Arc::new(memory.clone()));
            let engine = Engine::open(quiet(options()), env_on(Arc::new(faulty.clone()), 5)).unwrap();
            create(&engine, std::slice::from_ref(&table));
            rounds(&engine, &table, 3);
            let before = contents(&engine, &table);
            // Behind the line of the new SSTable, and those of the three old ones, which are synced together.
            let fault = faulty.add(Fault::on(Op::Sync).path("_txn_compaction").nth(3));
            if in_doubt {
                faulty.add(Fault::on(Op::Remove).path("_txn_compaction"));
            }
            engine.compact("ks", Some("t")).unwrap_err();
            assert_eq!(faulty.struck(fault), 1);
            assert_eq!((sstables(&engine, &table), contents(&engine, &table)), (3, before.clone()));
            faulty.heal();
            if in_doubt {
                let refused = |result| matches!(result, Err(EngineError::InDoubt { .. }));
                assert!(refused(engine.compact("ks", Some("t"))));
                assert!(refused(engine.truncate("ks", "t")));
                assert!(refused(engine.load_new_sstables("ks", "t").map(drop)));
                assert_eq!((sstables(&engine, &table), contents(&engine, &table)), (3, before.clone()));
            }
            engine.close();
            drop(engine);
            let fs = crash.map_or_else(|| memory.clone(), |crash| memory.crash(crash));
            let engine = open(&fs, &table);
            assert_eq!(contents(&engine, &table), before, "{crash:?}");
            engine.compact("ks", Some("t")).unwrap();
            assert_eq!((sstables(&engine, &table), contents(&engine, &table)), (1, before), "{crash:?}");
            engine.truncate("ks", "t").unwrap();
            assert!(contents(&engine, &table).is_empty());
        }
    }
}

#[test]
fn a_truncation_whose_commit_fails_keeps_the_rows() {
    let table = off("t", 0);
    let memory = MemoryFileSystem::new();
    let faulty = FaultyFileSystem::new(Arc::new(memory.clone()));
    let engine = Engine::open(quiet(options()), env_on(Arc::new(faulty.clone()), 5)).unwrap();
    create(&engine, std::slice::from_ref(&table));
    rounds(&engine, &table, 2);
    let before = contents(&engine, &table);
    let fault = faulty.add(Fault::on(Op::Sync).path("_txn_compaction").nth(2));
    engine.truncate("ks", "t").unwrap_err();
    assert_eq!(faulty.struck(fault), 1);
    assert_eq!(contents(&engine, &table), before);
    engine.truncate("ks", "t").unwrap();
    assert!(contents(&engine, &table).is_empty());
    engine.close();
    drop(engine);
    assert!(contents(&open(&memory, &table), &table).is_empty());
}

/// An engine with three SSTables, on a disk that hangs when it is told to.
fn on_a_faulty_disk(table: &Arc<TableSchema>) -> (MemoryFileSystem, FaultyFileSystem, Arc<Engine>) {
    let memory = MemoryFileSystem::new();
    let faulty = FaultyFileSystem::new(Arc::new(memory.clone()));
    let engine = Engine::open(quiet(options()), env_on(Arc::new(faulty.clone()), 5)).unwrap();
    create(&engine, std::slice::from_ref(table));
    rounds(&engine, table, 3);
    (memory, faulty, engine)
}

/// What was looked through before the compaction began does not tell what is new behind its end.
#[test]
fn a_refresh_during_which_a_compaction_runs_loads_its_output_no_second_time() {
    let table = off("t", 0);
    let (fs, faulty, engine) = on_a_faulty_disk(&table);
    let before = contents(&engine, &table);
    let dir = store(&engine, &table).dirs()[0].clone();
    let listed = descriptor::list(&fs, &dir).unwrap().tables;
    let from = listed.keys().next().unwrap();
    let foreign = Descriptor { id: SsTableId::Sequence(50), ..from.clone() };
    for component in Component::ALL.iter().filter(|component| **component != Component::Proof) {
        if fs.exists(&from.path(*component)).unwrap() {
            fs.hard_link(&from.path(*component), &foreign.path(*component)).unwrap();
        }
    }
    // It has looked and opens what it found, which takes until it is released.
    let opened = faulty.add(Fault::on(Op::Open).path("nb-50-big-Data.db").never());
    faulty.hold(Op::Read, "nb-50-big-Data.db");
    let (compacted, refreshed) = std::thread::scope(|scope| {
        let refresh = scope.spawn(|| engine.load_new_sstables("ks", "t"));
        wait_until(|| faulty.seen(opened).calls > 0);
        let compacted =
            engine.compact("ks", Some("t")).map(|_| (sstables(&engine, &table), refresh.is_finished()));
        faulty.release();
        (compacted, refresh.join().unwrap())
    });
    assert_eq!(compacted.unwrap(), (1, false));
    assert_eq!(refreshed.unwrap(), [foreign.to_string()]);
    assert_eq!((sstables(&engine, &table), contents(&engine, &table)), (2, before));
    assert_eq!(engine.load_new_sstables("ks", "t").unwrap(), Vec::<String>::new());
    engine.close();
}

/// The files of its inputs are still there, and no part of the table any more.
#[test]
fn a_refresh_while_a_compaction_cleans_up_loads_nothing() {
    let table = off("t", 0);
    let (_, faulty, engine) = on_a_faulty_disk(&table);
    let before = contents(&engine, &table);
    faulty.hold(Op::Remove, "nb-1-big-");
    let (refreshed, compacted) = std::thread::scope(|scope| {
        let compaction = scope.spawn(|| engine.compact("ks", Some("t")));
        wait_until(|| sstables(&engine, &table) == 1);
        let refreshed = engine.load_new_sstables("ks", "t");
        faulty.release();
        (refreshed, compaction.join().unwrap())
    });
    let refusal = refreshed.unwrap_err().to_string();
    assert!(refusal.contains("has a transaction under way, try again later"), "{refusal}");
    compacted.unwrap();
    assert_eq!(engine.load_new_sstables("ks", "t").unwrap(), Vec::<String>::new());
    assert_eq!((sstables(&engine, &table), contents(&engine, &table)), (1, before));
    engine.close();
}
