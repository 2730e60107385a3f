//! Losing power at every call, full disks, failing devices.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

use super::*;
use crate::commitlog::format;
use crate::{FailurePolicy, WriteError};
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::{Crash, MemoryFileSystem};
use partition::codec::mutation::encode_mutation;
use std::path::PathBuf;

/// What a run knew to be kept, and what it only tried.
#[derive(Default)]
struct Run {
    acknowledged: BTreeMap<(i32, i32), String>,
    tried: BTreeMap<(i32, i32), String>,
    finished: bool,
}

/// Writes, flushes, a schema change and a restart, until the file system fails.
fn history(fs: Arc<dyn FileSystem>) -> Run {
    let mut run = Run::default();
    let table = simple_table("t");
    let _ = (|| -> Result<(), crate::EngineError> {
        for part in 0..2 {
            let engine = Engine::open(options(), env_on(Arc::clone(&fs), 1))?;
            if part == 0 {
                let mut keyspace = KeyspaceSchema::new("ks", Replication::simple(1));
                keyspace.tables.insert("t".to_owned(), Arc::clone(&table));
                engine.install_schema(engine.schema().with_keyspace(keyspace))?;
            }
            for n in part * 12..part * 12 + 12 {
                let value = format!("{n}{}", "x".repeat(2_000));
                run.tried.insert((n % 3, n), value.clone());
                match write(&engine, &insert(&table, n % 3, n, &value, 1)) {
                    Ok(()) => run.acknowledged.insert((n % 3, n), value),
                    Err(error) => {
                        engine.close();
                        return Err(error.into());
                    }
                };
                if n % 5 == 4 && engine.flush("ks", None).is_err() {
                    engine.close();
                    return Ok(());
                }
            }
            engine.close();
        }
        run.finished = true;
        Ok(())
    })();
    run
}

fn check_survivor(run: &Run, survivor: MemoryFileSystem, context: &str) {
    let table = simple_table("t");
    let engine = Engine::open(options(), env_on(Arc::new(survivor), 2))
        .unwrap_or_else(|e| panic!("{context}: does not open: {e}"));
    let found =
        if engine.schema().table("ks", "t").is_some() { contents(&engine, &table) } else { BTreeMap::new() };
    for (at, value) in &run.acknowledged {
        assert_eq!(found.get(at), Some(value), "{context}: an acknowledged write is gone");
    }
    for (at, value) in &found {
        assert_eq!(run.tried.get(at), Some(value), "{context}: something nobody wrote");
    }
    engine.close();
}

#[test]
fn acknowledged_writes_survive_a_loss_of_power_at_any_call() {
    let mut nth = 1;
    loop {
        let fs = MemoryFileSystem::new();
        let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
        // From the nth change on nothing reaches the file system any more: the machine has stopped.
        faulty.add(Fault::on_any_change().after(nth - 1));
        let run = history(Arc::new(faulty));
        for crash in [Crash::LoseUnsynced, Crash::TornPrefix(nth), Crash::ScatteredPages(nth)] {
            check_survivor(&run, fs.crash(crash), &format!("call {nth}, {crash:?}"));
        }
        if run.finished {
            return;
        }
        nth += 1 + nth / 12;
    }
}

#[test]
fn a_failing_call_costs_no_acknowledged_write() {
    let mut nth = 1;
    loop {
        let fs = MemoryFileSystem::new();
        let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
        let fault = faulty.add(Fault::on_any_change().nth(nth));
        let run = history(Arc::new(faulty.clone()));
        check_survivor(&run, fs.crash(Crash::LoseUnsynced), &format!("call {nth} failed"));
        if faulty.struck(fault) == 0 {
            return;
        }
        nth += 1 + nth / 10;
    }
}

#[test]
fn a_full_disk_refuses_writes_and_service_resumes_with_space() {
    let fs = MemoryFileSystem::new();
    let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
    let engine = Engine::open(options(), env_on(Arc::new(faulty.clone()), 1)).unwrap();
    let table = simple_table("t");
    create(&engine, &[&table]);
    faulty.set_free_bytes(Some(100_000));
    let long = "x".repeat(3_000);
    let mut n = 0;
    let refused = loop {
        match write(&engine, &insert(&table, n, n, &long, 1)) {
            Ok(()) => n += 1,
            Err(error) => break error,
        }
        assert!(n < 1_000);
    };
    assert!(matches!(&refused, WriteError::CommitLog(e) if env::fs::is_out_of_space(e)), "{refused}");
    faulty.set_free_bytes(Some(0));
    assert!(engine.flush("ks", None).is_err(), "there is no room for an SSTable either");
    assert_eq!(contents(&engine, &table).len() as i32, n);
    faulty.heal();
    write(&engine, &insert(&table, n, n, &long, 1)).unwrap();
    engine.flush("ks", None).unwrap();
    engine.close();
    let engine = Engine::open(options(), env_on(Arc::new(fs.crash(Crash::LoseUnsynced)), 1)).unwrap();
    assert_eq!(contents(&engine, &table).len() as i32, n + 1);
}

#[test]
fn a_failed_sync_fails_its_writers_and_stops_the_log_unless_told_to_ignore_it() {
    for policy in [FailurePolicy::StopCommit, FailurePolicy::Ignore] {
        let fs = MemoryFileSystem::new();
        let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
        let options = EngineOptions { commit_failure_policy: policy, ..options() };
        let engine = Engine::open(options, env_on(Arc::new(faulty.clone()), 1)).unwrap();
        let table = simple_table("t");
        create(&engine, &[&table]);
        write(&engine, &insert(&table, 1, 1, "kept", 1)).unwrap();
        faulty.add(Fault::on(Op::Sync).path(&segment_in_use(&fs)).times(1));
        let failed = write(&engine, &insert(&table, 2, 2, "in doubt", 1));
        assert!(matches!(failed, Err(WriteError::CommitLog(_))), "{failed:?}");
        let next = write(&engine, &insert(&table, 3, 3, "next", 1));
        match policy {
            FailurePolicy::Ignore => next.unwrap(),
            _ => assert!(matches!(next, Err(WriteError::CommitLogStopped(_))), "{next:?}"),
        }
        engine.close();
        let survivor = Arc::new(fs.crash(Crash::LoseUnsynced));
        let engine = Engine::open(super::options(), env_on(survivor, 1)).unwrap();
        let found = contents(&engine, &table);
        assert_eq!(found.get(&(1, 1)).map(String::as_str), Some("kept"));
        assert_eq!(found.contains_key(&(3, 3)), policy == FailurePolicy::Ignore);
    }
}

#[test]
fn concurrent_writers_lose_nothing_to_flushes_and_a_crash() {
    let fs = MemoryFileSystem::new();
    let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap();
    let table = simple_table("t");
    create(&engine, &[&table]);
    const THREADS: i32 = 4;
    const WRITES: i32 = 300;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (engine, table) = (&engine, &table);
            scope.spawn(move || {
                for n in 0..WRITES {
                    write(engine, &insert(table, n % 10, thread * WRITES + n, "x", 1)).unwrap();
                    if n % 60 == thread * 10 {
                        engine.flush("ks", None).unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(contents(&engine, &table).len() as i32, THREADS * WRITES);
    let survivor = fs.crash(Crash::LoseUnsynced);
    engine.close();
    let engine = Engine::open(options(), env_on(Arc::new(survivor), 1)).unwrap();
    assert_eq!(contents(&engine, &table).len() as i32, THREADS * WRITES);
    engine.close();
}

#[test]
fn a_torn_tail_does_not_turn_into_damage_with_the_next_runs_fences() {
    for cut in [3, 40, 400] {
        let fs = MemoryFileSystem::new();
        let table = simple_table("t");
        let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap();
        create(&engine, &[&table]);
        (0..20).for_each(|n| write(&engine, &insert(&table, n, n, "kept", 1)).unwrap());
        let torn = fs.crash(Crash::LoseUnsynced);
        engine.close();
        let env = env_on(Arc::new(torn.clone()), 1);
        let segments = crate::commitlog::replay::Segments::list(&env, "/node/commitlog".as_ref(), 0).unwrap();
        let bytes_of = |path| torn.read(path).unwrap();
        let written = |path| bytes_of(path).iter().rposition(|b| *b != 0).filter(|last| *last > 100);
        let path = &segments.files().iter().rfind(|s| written(&s.path).is_some()).unwrap().path;
        let mut bytes = bytes_of(path);
        let end = written(path).unwrap() + 1;
        bytes[end - cut..end].fill(0xa5);
        torn.write(path, &bytes).unwrap();

        let engine = Engine::open(options(), env).unwrap();
        let left = contents(&engine, &table);
        assert!(left.len() > 10);
        write(&engine, &insert(&table, 100, 100, "next", 1)).unwrap();
        write(&engine, &insert(&table, 101, 101, "next", 1)).unwrap();
        let survivor = Arc::new(torn.crash(Crash::LoseUnsynced));
        engine.close();
        let engine =
            Engine::open(options(), env_on(survivor, 1)).unwrap_or_else(|e| panic!("cut {cut}: {e}"));
        assert_eq!(contents(&engine, &table).len(), left.len() + 2);
        engine.close();
    }
}

#[test]
fn what_cassandra_would_not_find_in_its_log_again_is_flushed_at_once() {
    let fs = MemoryFileSystem::new();
    let table = simple_table("t");
    let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap();
    create(&engine, &[&table]);
    engine.close();
    // A segment of a Cassandra that was killed before it wrote the first marker.
    let mut segment = format::header_with(7, i64::MAX / 2, "{}");
    let times = format::deletion_times(7);
    let written = format::section(|out| {
        encode_mutation(&insert(&table, 1, 2, "acknowledged", 1), times, out).unwrap();
    });
    segment.extend([0; format::MARKER_BYTES]);
    segment.extend(&written[format::MARKER_BYTES..]);
    segment.resize(4096, 0);
    let path = Path::new("/node/commitlog").join(format::file_name(7, i64::MAX / 2));
    fs.write(&path, &segment).unwrap();

    let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap();
    assert_eq!(contents(&engine, &table).get(&(1, 2)).map(String::as_str), Some("acknowledged"));
    assert_eq!(engine.table(table.id).unwrap().view().sstables.len(), 1);
    engine.close();
}

#[test]
fn a_node_that_crashes_again_and_again_does_not_pile_up_its_log() {
    let mut fs = MemoryFileSystem::new();
    let table = simple_table("t");
    for run in 0..6 {
        let engine = Engine::open(options(), env_on(Arc::new(fs.clone()), 1)).unwrap();
        if run == 0 {
            create(&engine, &[&table]);
        }
        assert_eq!(contents(&engine, &table).len(), run as usize);
        write(&engine, &insert(&table, run, run, "kept", 1)).unwrap();
        let few = || {
            std::thread::yield_now();
            engine.stats().commitlog.segments <= 2
        };
        assert!((0..1_000_000).any(|_| few()), "{:?}", engine.stats());
        fs = fs.crash(Crash::LoseUnsynced);
        engine.close();
    }
}

/// An engine with two data directories, the second of which is fuller, that gives up one in which a write
/// fails.
fn on_two_disks(fs: &FaultyFileSystem) -> Arc<Engine> {
    let data_dirs = vec![PathBuf::from("/node/one"), PathBuf::from("/node/two")];
    let options = EngineOptions { data_dirs, gives_up_directories: true, ..options() };
    Engine::open(options, env_on(Arc::new(fs.clone()), 1)).unwrap()
}

#[test]
fn compactions_leave_a_directory_alone_in_which_one_failed() {
    let fs = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
    let engine = on_two_disks(&fs);
    let table = simple_table("t");
    create(&engine, &[&table]);
    for n in 0..3 {
        write(&engine, &insert(&table, n, n, "kept", 1)).unwrap();
        engine.flush("ks", None).unwrap();
    }
    let before = contents(&engine, &table);
    fs.add(Fault::on(Op::Write).path("/one/ks/"));
    assert!(engine.compact("ks", Some("t")).is_err());
    assert_eq!(engine.given_up_directories(), [PathBuf::from("/node/one")]);
    let (_, failed) = engine.compaction_counts();
    engine.compact("ks", Some("t")).unwrap();
    assert_eq!(engine.compaction_counts().1, failed, "nothing is tried there again");
    assert_eq!(contents(&engine, &table), before);

    // What is written elsewhere is compacted there.
    for n in 3..6 {
        write(&engine, &insert(&table, n, n, "kept", 1)).unwrap();
        engine.flush("ks", None).unwrap();
    }
    engine.compact("ks", Some("t")).unwrap();
    let view = engine.table(table.id).unwrap().view();
    let elsewhere = view.sstables.iter().filter(|t| t.descriptor().directory.starts_with("/node/two"));
    assert_eq!((view.sstables.len(), elsewhere.count()), (4, 1));
    assert_eq!(contents(&engine, &table).len(), 6);
}

#[test]
fn an_import_that_cannot_be_written_goes_to_another_directory_at_the_next_try() {
    let fs = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
    let engine = on_two_disks(&fs);
    let (from, to) = (simple_table("t"), simple_table("u"));
    create(&engine, &[&from, &to]);
    write(&engine, &insert(&from, 1, 1, "kept", 1)).unwrap();
    engine.flush("ks", None).unwrap();
    let elsewhere = PathBuf::from("/elsewhere");
    fs.create_dir_all_durable(&elsewhere).unwrap();
    let source = &engine.catalog.table_dirs(&from)[0];
    for file in fs.read_dir(source).unwrap() {
        fs.hard_link(&source.join(&file.name), &elsewhere.join(&file.name)).unwrap();
    }
    let import = || {
        let options = crate::ImportOptions { copy: true, ..Default::default() };
        engine.import("ks", "u", std::slice::from_ref(&elsewhere), &options).unwrap().remove(0).failure
    };
    fs.add(Fault::on(Op::Write).path("/one/ks/"));
    assert!(import().is_some());
    assert_eq!(engine.given_up_directories(), [PathBuf::from("/node/one")]);
    assert_eq!(import(), None);
    assert_eq!(contents(&engine, &to), contents(&engine, &from));
}

#[test]
fn a_data_directory_that_cannot_be_written_is_given_up_while_there_is_another() {
    let under = |name: &str| Path::new("/node").join(name);
    for gives_up_directories in [true, false] {
        let fs = MemoryFileSystem::new();
        let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
        let data_dirs = vec![under("one"), under("two")];
        let options = EngineOptions { data_dirs, gives_up_directories, ..options() };
        let engine = Engine::open(options.clone(), env_on(Arc::new(faulty.clone()), 1)).unwrap();
        let table = simple_table("t");
        create(&engine, &[&table]);
        let add = |n| write(&engine, &insert(&table, n, n, "kept", 1)).unwrap();
        let directories = || {
            let view = engine.table(table.id).unwrap().view();
            view.sstables.iter().map(|t| t.descriptor().directory.clone()).collect::<Vec<_>>()
        };
        add(1);
        engine.flush("ks", None).unwrap();
        assert!(directories()[0].starts_with(under("one")), "equal room: the first");

        faulty.add(Fault::on(Op::Write).path("/one/ks/"));
        add(2);
        assert!(engine.flush("ks", None).is_err());
        if !gives_up_directories {
            assert!(engine.flush("ks", None).is_err());
            assert!(engine.given_up_directories().is_empty());
            continue;
        }
        assert_eq!(engine.given_up_directories(), [under("one")]);
        engine.flush("ks", None).unwrap();
        assert!(directories().iter().any(|dir| dir.starts_with(under("two"))));
        assert_eq!(contents(&engine, &table).len(), 2, "what it holds is read");

        // The last one is not given up.
        faulty.add(Fault::on(Op::Write).path("/two/ks/"));
        add(3);
        assert!(engine.flush("ks", None).is_err());
        assert_eq!(engine.given_up_directories(), [under("one")]);
        faulty.heal();
        engine.flush("ks", None).unwrap();
        assert_eq!(contents(&engine, &table).len(), 3);
        engine.close();
        let engine = Engine::open(options, env_on(Arc::new(faulty.clone()), 1)).unwrap();
        assert!(engine.given_up_directories().is_empty());
    }
}
