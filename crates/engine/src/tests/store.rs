//! Writes, flushes, reads, truncation, memory.

use super::*;
use crate::{EngineError, WriteError};
use env::clock::Clock;
use env::fs::memory::MemoryFileSystem;
use partition::Verdict;

pub fn open(fs: &MemoryFileSystem) -> Arc<Engine> {
    Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap()
}

pub fn rows(range: std::ops::Range<i32>) -> BTreeMap<(i32, i32), String> {
    range.map(|n| ((n % 7, n), format!("v{n}"))).collect()
}

pub fn fill(engine: &Engine, table: &Arc<TableSchema>, range: std::ops::Range<i32>) {
    for n in range {
        write(engine, &insert(table, n % 7, n, &format!("v{n}"), 1)).unwrap();
    }
}

#[test]
fn what_was_written_is_there_after_flushes_and_restarts() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let engine = open(&fs);
    create(&engine, &[&table]);
    fill(&engine, &table, 0..50);
    engine.flush("ks", Some("t")).unwrap();
    fill(&engine, &table, 50..80);
    assert_eq!(contents(&engine, &table), rows(0..80));
    let stats = engine.table(table.id).unwrap().stats();
    assert_eq!((stats.sstables, stats.memtable_partitions), (1, 7));
    engine.close();

    let engine = open(&fs);
    assert_eq!(contents(&engine, &table), rows(0..80));
    let stats = engine.table(table.id).unwrap().stats();
    assert_eq!(stats.memtable_operations, 30, "only what was not flushed is replayed");
    engine.flush_all().unwrap();
    engine.close();
    let engine = open(&fs);
    assert_eq!(engine.table(table.id).unwrap().stats().memtable_operations, 0);
    assert_eq!(contents(&engine, &table), rows(0..80));
}

#[test]
fn a_drained_engine_leaves_no_commit_log_and_takes_no_writes() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let engine = open(&fs);
    create(&engine, &[&table]);
    fill(&engine, &table, 0..20);
    engine.drain().unwrap();
    assert!(matches!(write(&engine, &insert(&table, 1, 1, "x", 2)), Err(WriteError::Drained)));
    assert_eq!(contents(&engine, &table), rows(0..20), "reads go on");
    engine.close();
    let left = fs.read_dir("/node/commitlog".as_ref()).unwrap();
    let left: Vec<_> = left.iter().filter(|e| e.name.to_string_lossy().ends_with(".log")).collect();
    assert_eq!(left.len(), 0, "{left:?}");
    assert_eq!(contents(&open(&fs), &table), rows(0..20));
}

#[test]
fn segments_are_removed_once_nothing_in_them_is_needed() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let engine = open(&fs);
    create(&engine, &[&table]);
    let long = "x".repeat(4_000);
    for n in 0..100 {
        write(&engine, &insert(&table, n, n, &long, 1)).unwrap();
    }
    assert!(engine.stats().commitlog.segments > 5);
    engine.flush_all().unwrap();
    assert_eq!(engine.stats().commitlog.segments, 1);
}

#[test]
fn a_long_commit_log_makes_tables_flush() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let options = crate::EngineOptions { commitlog_total_bytes: 256 << 10, ..options() };
    let engine = Engine::open(options, env_on(Arc::new(fs), 1)).unwrap();
    create(&engine, &[&table]);
    let long = "x".repeat(4_000);
    for n in 0..2_000 {
        write(&engine, &insert(&table, n, n, &long, 1)).unwrap();
        if engine.stats().flushes > 2 {
            return;
        }
        engine.writing.workers.nudge();
    }
    panic!("no flush happened: {:?}", engine.stats());
}

#[test]
fn a_table_that_is_being_flushed_is_not_queued_again() {
    let fs = MemoryFileSystem::new();
    let (busy, quiet) = (simple_table("busy"), simple_table("quiet"));
    let options = crate::EngineOptions { memtable_bytes_max: 256 << 10, ..options() };
    let engine = Engine::open(options, env_on(Arc::new(fs), 1)).unwrap();
    create(&engine, &[&busy, &quiet]);
    engine.flush_all().unwrap();
    write(&engine, &insert(&quiet, 1, 1, "small", 1)).unwrap();
    write(&engine, &insert(&busy, 0, 0, "first", 1)).unwrap();
    let store = engine.table(busy.id).unwrap();
    let turn = store.flush_turn.lock();
    engine.writing.switch_memtable(&store);
    assert!(!store.view().flushing.is_empty());
    let long = "x".repeat(4_000);
    (1..40).for_each(|n| write(&engine, &insert(&busy, n, n, &long, 1)).unwrap());
    assert!(engine.writing.memory.used() > engine.writing.cleanup_bytes());
    // From here on nobody takes from the queue.
    engine.writing.workers.stop();
    engine.writing.keep();
    assert_eq!(
        engine.writing.workers.queue_len(),
        0,
        "neither the busy table nor one that has next to nothing in memory"
    );
    engine.writing.write_flushing(&store).unwrap();
    drop(turn);
    engine.writing.keep();
    assert_eq!(engine.writing.workers.queue_len(), 1);
    assert!(store.flush_queued.load(std::sync::atomic::Ordering::SeqCst));
    engine.close();
}

#[test]
fn a_flushed_memtable_is_freed_when_nobody_reads_it_any_more() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let engine = open(&fs);
    create(&engine, &[&table]);
    fill(&engine, &table, 0..70);
    let memtable = Arc::downgrade(&engine.table(table.id).unwrap().view().memtable);
    let reader = memtable.upgrade();
    engine.flush("ks", Some("t")).unwrap();
    assert_eq!(reader.as_ref().unwrap().partition_count(), 7, "not under the reader");
    drop(reader);
    wait_until(|| memtable.strong_count() == 0);
    assert_eq!(contents(&engine, &table), rows(0..70));
    engine.close();
}

#[test]
fn the_memtable_of_a_truncated_or_dropped_table_is_not_freed_by_its_last_reader() {
    let table = simple_table("t");
    for drops in [false, true] {
        let engine = open(&MemoryFileSystem::new());
        create(&engine, &[&table]);
        fill(&engine, &table, 0..70);
        let store = engine.table(table.id).unwrap();
        let reader = Arc::clone(&store.view().memtable);
        match drops {
            // A keyspace without it.
            true => create(&engine, &[&simple_table("other")]),
            false => engine.truncate("ks", "t").unwrap(),
        }
        let shared = Arc::strong_count(&reader);
        assert_eq!((reader.partition_count(), shared), (7, 2), "the reader's and one to free it");
        let memtable = Arc::downgrade(&reader);
        drop(reader);
        wait_until(|| memtable.strong_count() == 0);
        engine.close();
    }
}

#[test]
fn a_table_whose_flush_fails_keeps_no_other_from_being_flushed() {
    use env::fs::faulty::{Fault, FaultyFileSystem, Op};
    let faulty = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
    let (broken, sound) = (simple_table("broken"), simple_table("sound"));
    let options = crate::EngineOptions { memtable_bytes_max: 256 << 10, flush_writers: 1, ..options() };
    let engine = Engine::open(options, env_on(Arc::new(faulty.clone()), 1)).unwrap();
    create(&engine, &[&broken, &sound]);
    engine.flush_all().unwrap();
    let fault = faulty.add(Fault::on(Op::Create).path("ks/broken-"));
    let long = "x".repeat(4_000);
    // As much as calls for a flush of the table, which fails, and goes on failing.
    (0..25).for_each(|n| write(&engine, &insert(&broken, n, n, &long, 1)).unwrap());
    wait_for(|| faulty.struck(fault) > 0);
    let sstables = || engine.table(sound.id).unwrap().view().sstables.len();
    for n in 0..100 {
        write(&engine, &insert(&sound, n, n, &long, 1)).unwrap();
    }
    wait_for(|| sstables() > 0);
    assert_eq!(contents(&engine, &broken).len(), 25);
    faulty.heal();
    let store = engine.table(broken.id).unwrap();
    wait_for(|| store.view().flushing.is_empty() && !store.view().sstables.is_empty());
    assert_eq!(contents(&engine, &broken).len(), 25);
    engine.close();
}

/// Waits for something that the engine's threads do.
fn wait_for(condition: impl Fn() -> bool) {
    let (turn, nobody) = (env::sync::Mutex::new(()), env::sync::Condvar::new());
    for _ in 0..6_000 {
        if condition() {
            return;
        }
        nobody.wait_for(&mut turn.lock(), std::time::Duration::from_millis(10));
    }
    panic!("it did not happen");
}

#[test]
fn flushed_sstables_are_kept_for_incremental_backups() {
    let fs = MemoryFileSystem::new();
    let (kept, left) = (simple_table("kept"), simple_table("left"));
    let mut without = (*left).clone();
    without.options.incremental_backups = Some(false);
    let left = Arc::new(without);
    let options = crate::EngineOptions { incremental_backups: true, ..options() };
    let engine = Engine::open(options, env_on(Arc::new(fs), 1)).unwrap();
    create(&engine, &[&kept, &left]);
    for round in 0..2 {
        for table in [&kept, &left] {
            write(&engine, &insert(table, round, 0, "v", 1)).unwrap();
            engine.flush("ks", Some(&table.name)).unwrap();
        }
    }
    let names = |dir: &std::path::Path| {
        let entries = engine.env().fs.read_dir(dir).unwrap_or_default();
        let mut names: Vec<String> = entries
            .into_iter()
            .filter_map(|entry| entry.name.into_string().ok())
            .filter(|name| name.contains("-big-"))
            .collect();
        names.sort();
        names
    };
    let dirs = |table: &Arc<model::TableSchema>| engine.table(table.id).unwrap().dirs()[0].clone();
    let dir = dirs(&kept);
    let flushed = names(&dir);
    assert_eq!(flushed.iter().filter(|name| name.ends_with("Data.db")).count(), 2);
    assert_eq!(names(&dir.join("backups")), flushed);
    assert_eq!(names(&dirs(&left).join("backups")), Vec::<String>::new());
    // A compaction takes the SSTables away, not the links.
    engine.compact("ks", Some("kept")).unwrap();
    assert_ne!(names(&dir), flushed);
    assert_eq!(names(&dir.join("backups")), flushed);
    engine.close();
}

#[test]
fn truncation_survives_a_restart() {
    for auto_snapshot in [false, true] {
        let fs = MemoryFileSystem::new();
        let table = simple_table("t");
        let open = || {
            let options = crate::EngineOptions { auto_snapshot, ..options() };
            Engine::open(options, env_on(Arc::new(fs.clone()), 1)).unwrap()
        };
        let engine = open();
        create(&engine, &[&table]);
        fill(&engine, &table, 0..20);
        engine.flush("ks", Some("t")).unwrap();
        fill(&engine, &table, 20..40);
        engine.truncate("ks", "t").unwrap();
        assert_eq!(contents(&engine, &table), rows(0..0));
        fill(&engine, &table, 40..45);
        assert_eq!(engine.list_snapshots().unwrap().len(), usize::from(auto_snapshot));
        engine.close();
        assert_eq!(contents(&open(), &table), rows(40..45));
    }
}

#[test]
fn a_truncation_behind_a_restart_covers_what_lies_before_it_in_the_log() {
    for truncates_before in [false, true] {
        let fs = MemoryFileSystem::new();
        let (table, other) = (simple_table("t"), simple_table("other"));
        let engine = open(&fs);
        create(&engine, &[&table, &other]);
        fill(&engine, &table, 0..20);
        // Keeps the log.
        fill(&engine, &other, 0..1);
        match truncates_before {
            true => engine.truncate("ks", "t").unwrap(),
            false => engine.flush("ks", Some("t")).unwrap(),
        }
        engine.close();
        let engine = open(&fs);
        assert_eq!(engine.table(table.id).unwrap().stats().memtable_operations, 0);
        engine.truncate("ks", "t").unwrap();
        engine.close();
        assert_eq!(contents(&open(&fs), &table), rows(0..0), "truncates before: {truncates_before}");
    }
}

#[test]
fn a_truncation_counts_although_the_clock_was_set_back() {
    let fs = MemoryFileSystem::new();
    let clock = Arc::new(ManualClock::default());
    let open = || {
        let random = Arc::new(Random::from_seed(1));
        Engine::open(options(), Env::new(clock.clone(), random, Arc::new(fs.clone()))).unwrap()
    };
    let (table, other) = (simple_table("t"), simple_table("other"));
    let engine = open();
    create(&engine, &[&table, &other]);
    fill(&engine, &other, 0..1);
    engine.truncate("ks", "t").unwrap();
    fill(&engine, &table, 0..20);
    clock.set_micros(clock.now_micros() - 3_000_000);
    engine.truncate("ks", "t").unwrap();
    assert_eq!(engine.truncated_millis(table.id).unwrap(), Some(clock.now_millis()));
    engine.close();
    assert_eq!(contents(&open(), &table), rows(0..0));
}

#[test]
fn a_reader_keeps_its_view_while_the_table_is_truncated() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let engine = open(&fs);
    create(&engine, &[&table]);
    fill(&engine, &table, 0..200);
    engine.flush_all().unwrap();
    let command = ReadCommand {
        table: table.clone(),
        partitions: PartitionSelection::Range(KeyRange::FULL),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(&table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
    };
    let mut stream = engine.read(&command, &ReadContext::default()).unwrap();
    engine.page_cache().clear();
    engine.truncate("ks", "t").unwrap();
    let mut fragment = Fragment::default();
    let mut seen = 0;
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::End => break,
            Event::Row => seen += 1,
            _ => {}
        }
    }
    assert_eq!(seen, 200);
    assert_eq!(contents(&engine, &table).len(), 0);
}

#[test]
fn a_mutation_of_more_than_half_a_segment_is_refused() {
    let table = simple_table("t");
    let engine = open(&MemoryFileSystem::new());
    create(&engine, &[&table]);
    let error = write(&engine, &insert(&table, 1, 1, &"x".repeat(33 << 10), 1)).unwrap_err();
    assert!(error.to_string().starts_with("Rejected an oversized mutation ("), "{error}");
    assert!(error.to_string().contains("/32768) for keyspace: ks"), "{error}");
    assert_eq!(contents(&engine, &table).len(), 0);

    let options = crate::EngineOptions { max_mutation_bytes: Some(16 << 10), ..options() };
    let engine = Engine::open(options, env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
    create(&engine, &[&table]);
    write(&engine, &insert(&table, 1, 1, &"x".repeat(15 << 10), 1)).unwrap();
    let error = write(&engine, &insert(&table, 1, 2, &"x".repeat(16 << 10), 1)).unwrap_err();
    assert!(error.to_string().contains("/16384) for keyspace: ks"), "{error}");
}

#[test]
fn a_second_engine_on_the_directory_is_refused() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let second = Engine::open(options(), env_on(Arc::new(fs.clone()), 1));
    assert!(matches!(second, Err(EngineError::Locked { .. })));
    engine.close();
    open(&fs);
}

#[test]
fn a_full_memtable_refuses_writes_until_a_flush_succeeds() {
    use env::fs::faulty::{Fault, FaultyFileSystem, Op};
    let faulty = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
    let options = crate::EngineOptions {
        memtable_bytes_max: 256 << 10,
        write_wait_timeout_ms: 100,
        commitlog_segment_bytes: 1 << 20,
        ..options()
    };
    let engine = Engine::open(options, env_on(Arc::new(faulty.clone()), 1)).unwrap();
    let table = simple_table("t");
    create(&engine, &[&table]);
    let fault = faulty.add(Fault::on(Op::Create).path("Data.db"));
    let long = "x".repeat(1_000);
    let mut kept = 0;
    let refused = loop {
        match write(&engine, &insert(&table, kept, kept, &long, 1)) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 10_000);
    };
    assert!(matches!(refused, WriteError::Overloaded { .. }), "{refused}");
    let now = engine
        .apply(&insert(&table, 0, 0, "y", 1), WriteOptions { may_block: false, ..WriteOptions::default() });
    assert!(matches!(now, Err(WriteError::WouldBlock)));
    assert_eq!(contents(&engine, &table).len() as i32, kept, "what was acknowledged is readable");
    assert!(faulty.struck(fault) > 0);
    faulty.heal();
    let mut tries = 0;
    while write(&engine, &insert(&table, kept, kept, &long, 1)).is_err() {
        tries += 1;
        assert!(tries < 200, "service resumes");
    }
    assert_eq!(contents(&engine, &table).len() as i32, kept + 1);
}

#[test]
fn named_rows_that_are_newer_in_all_that_was_asked_for_leave_older_sstables_unread() {
    let engine = open(&MemoryFileSystem::new());
    let table = simple_table("t");
    create(&engine, &[&table]);
    for timestamp in 1..=3 {
        let mut mutation = insert(&table, 1, 1, &format!("v{timestamp}"), timestamp);
        mutation.updates[0].rows[0].liveness = model::Liveness::new(timestamp);
        write(&engine, &mutation).unwrap();
        write(&engine, &insert(&table, 1, 2, &format!("w{timestamp}"), timestamp)).unwrap();
        let column = table.regular_columns()[0].id;
        let value = Bytes::from(format!("x{timestamp}"));
        for (c, cell) in [
            (3, Cell::expiring(column, timestamp, 10, 2_000_000_000, value)),
            (4, Cell::tombstone(column, timestamp, 2_000_000_000)),
        ] {
            let mut mutation = insert(&table, 1, c, "", timestamp);
            mutation.updates[0].rows[0].cells = vec![cell];
            write(&engine, &mutation).unwrap();
        }
        engine.flush("ks", Some("t")).unwrap();
    }
    let read = |c: i32, now_s: u32| {
        let command = ReadCommand {
            table: table.clone(),
            partitions: PartitionSelection::Keys(vec![key(1)]),
            clusterings: ClusteringFilter::Names {
                names: vec![Clustering::from_values([&c.to_be_bytes()[..]])],
                reversed: false,
            },
            columns: ColumnSelection::all(&table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s,
        };
        let ctx = ReadContext::default();
        let mut stream = engine.read(&command, &ctx).unwrap();
        let mut fragment = Fragment::default();
        let mut value = None;
        while stream.next(&mut fragment).unwrap() != Event::End {
            value =
                fragment.row.cells.first().map(|c| String::from_utf8(c.value.to_vec()).unwrap()).or(value);
        }
        let cost = ctx.cost.snapshot();
        (value, cost.sstables_read, cost.skipped_by_timestamp)
    };
    assert_eq!(read(1, 0), (Some("v3".to_owned()), 1, 2));
    assert_eq!(read(2, 0), (Some("w3".to_owned()), 1, 2), "a row without an insertion is there by its cell");
    assert_eq!(read(3, 1_999_999_999), (Some("x3".to_owned()), 1, 2), "as long as that lives");
    assert_eq!(
        read(3, 2_000_000_000),
        (Some("x3".to_owned()), 3, 0),
        "behind that it may be there by another one"
    );
    assert_eq!(read(4, 0), (Some(String::new()), 3, 0));
}

#[test]
fn a_recorded_read_says_what_became_of_each_source_and_costs_the_same() {
    for is_named in [true, false] {
        record_a_read(is_named);
    }
}

fn record_a_read(is_named: bool) {
    use Verdict::{Absent, Candidate, Range, Timestamp};
    let engine = open(&MemoryFileSystem::new());
    let table = simple_table("t");
    create(&engine, &[&table]);
    for (k, timestamp) in [(1, 1), (1, 2), (2, 3)] {
        let mut mutation = insert(&table, k, 1, "v", timestamp);
        mutation.updates[0].rows[0].liveness = model::Liveness::new(timestamp);
        write(&engine, &mutation).unwrap();
        engine.flush("ks", Some("t")).unwrap();
    }
    let named = ClusteringFilter::Names {
        names: vec![Clustering::from_values([&1i32.to_be_bytes()[..]])],
        reversed: false,
    };
    let command = ReadCommand {
        table: table.clone(),
        partitions: PartitionSelection::Keys(vec![key(1)]),
        clusterings: if is_named { named } else { ClusteringFilter::all() },
        columns: ColumnSelection::all(&table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
    };
    let run = |command: &ReadCommand, ctx: &ReadContext| {
        let mut stream = engine.read(command, ctx).unwrap();
        while stream.next(&mut Fragment::default()).unwrap() != Event::End {}
    };
    let recorder = || partition::Recorder::new(Arc::new(|| 7));
    let verdicts = |recorder: &partition::Recorder| {
        let mut out = Vec::new();
        for source in recorder.sources() {
            let of_source = Verdict::ALL.into_iter().filter(|v| source.verdicts(*v) > 0);
            let of_source = of_source.collect::<Vec<_>>();
            out.push((source.name.clone(), of_source, source.cost.rows_scanned));
        }
        out
    };
    let source = |name: &str, verdicts: &[Verdict], rows| (name.to_owned(), verdicts.to_vec(), rows);
    let (older, rows) = if is_named { (vec![Candidate, Timestamp], 0) } else { (vec![Candidate], 1) };
    // The first read fills the cache.
    let (cold, plain) = (ReadContext::default(), ReadContext::default());
    run(&command, &cold);
    run(&command, &plain);
    let recorded = ReadContext { recorder: Some(recorder()), ..ReadContext::default() };
    run(&command, &recorded);
    let expected = [
        source("active", &[Absent], 0),
        source("nb-3-big", &[Range], 0),
        source("nb-2-big", &[Candidate], 1),
        source("nb-1-big", &older, rows),
    ];
    assert_eq!(verdicts(recorded.recorder.as_ref().unwrap()), expected);
    let (first, second) = (plain.total_cost(), recorded.total_cost());
    assert!(cold.total_cost().ios > 0);
    assert_eq!(first, second);

    let planned = ReadContext { recorder: Some(recorder()), ..ReadContext::default() };
    engine.table(table.id).unwrap().consider(&command, &planned);
    let expected = [
        source("active", &[Absent], 0),
        source("nb-3-big", &[Range], 0),
        source("nb-2-big", &[Candidate], 0),
        source("nb-1-big", &[Candidate], 0),
    ];
    assert_eq!(verdicts(planned.recorder.as_ref().unwrap()), expected);
    let cost = planned.total_cost();
    assert_eq!(cost.index_page_hits + cost.chunk_hits + cost.index_lookups, 0, "nothing was read");
}

#[test]
fn sstables_put_into_a_directory_are_loaded() {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let (t, u) = (simple_table("t"), simple_table("u"));
    create(&engine, &[&t, &u]);
    fill(&engine, &t, 0..20);
    engine.flush("ks", Some("t")).unwrap();
    let (from, to) = (&engine.catalog.table_dirs(&t)[0], &engine.catalog.table_dirs(&u)[0]);
    fs.create_dir_all(to).unwrap();
    for file in fs.read_dir(from).unwrap() {
        let name = file.name.to_string_lossy().replace("nb-1-", "nb-9-");
        fs.hard_link(&from.join(&file.name), &to.join(name)).unwrap();
    }
    assert_eq!(engine.load_new_sstables("ks", "u").unwrap().len(), 1);
    assert_eq!(engine.load_new_sstables("ks", "u").unwrap().len(), 0);
    assert_eq!(contents(&engine, &u), rows(0..20));
    fill(&engine, &u, 20..30);
    engine.flush("ks", Some("u")).unwrap();
    assert!(fs.exists(&to.join("nb-10-big-Data.db")).unwrap(), "numbers go on behind those that were loaded");
}
