//! Reads that wait for SSTables to be compared with their digests.

use super::proving::{begin_and_stop, foreign, foreign_of, names, read_all, swap, table};
use super::*;
use crate::{Compared, ProofDemand};
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::MemoryFileSystem;
use env::sync::Mutex;
use partition::ReadError;
use sstable::{Component, Descriptor};
use std::sync::mpsc::{Receiver, channel};

fn open_awaiting(fs: &MemoryFileSystem) -> Arc<Engine> {
    let options = EngineOptions {
        commitlog_segment_bytes: 1 << 20,
        compaction_bytes_per_s: 0,
        proving_bytes_per_s: 1,
        awaits_proofs: true,
        adopts_sstables: false,
        ..options()
    };
    Engine::open(options, env_on(Arc::new(fs.clone()), 3)).unwrap()
}

/// At full pace, on a file system whose calls can fail.
fn open_faulty(fs: &MemoryFileSystem) -> (FaultyFileSystem, Arc<Engine>) {
    let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
    let options = EngineOptions { awaits_proofs: true, ..options() };
    let engine = Engine::open(options, env_on(Arc::new(faulty.clone()), 3)).unwrap();
    (faulty, engine)
}

/// The SSTable that a read has to wait for.
fn awaited(outcome: Result<usize, ReadError>) -> Arc<str> {
    match outcome {
        Err(ReadError::Unproven(name)) => name,
        other => panic!("{other:?}"),
    }
}

fn demand(engine: &Engine, name: &Arc<str>) -> (ProofDemand, Receiver<Compared>) {
    let (tell, told) = channel();
    (engine.demand_proof(name, Box::new(move |news| drop(tell.send(news)))), told)
}

/// As a session reads.
fn read_waiting(engine: &Engine) -> Result<usize, ReadError> {
    loop {
        match read_all(engine) {
            Err(ReadError::Unproven(name)) => match demand(engine, &name).1.recv().unwrap() {
                Compared::Known => {}
                Compared::Failed(error) => return Err(error),
                Compared::Ended => return Err(ReadError::TimedOut),
            },
            other => return other,
        }
    }
}

/// An engine whose comparisons stand still, and the demand of a read that waits for one.
fn standing_still(fs: &MemoryFileSystem) -> (Arc<Engine>, Arc<str>, ProofDemand, Receiver<Compared>) {
    let engine = open_awaiting(fs);
    engine.set_compactions_paused(true);
    engine.start_proving().unwrap();
    let name = awaited(read_all(&engine));
    let (demand, told) = demand(&engine, &name);
    wait_until(|| !engine.proving().is_empty());
    (engine, name, demand, told)
}

fn data_name(descriptor: &Descriptor) -> Arc<str> {
    descriptor.path(Component::Data).to_string_lossy().into()
}

#[test]
fn a_read_waits_and_is_answered_or_fails_but_never_wrongly() {
    for damaged in [false, true] {
        let (fs, found, expected) = foreign(2);
        if damaged {
            swap(&fs, &found[0]);
        }
        let (engine, name, _demand, told) = standing_still(&fs);
        assert!(told.try_recv().is_err(), "it stands still");
        assert_eq!(awaited(read_all(&engine)), name);
        engine.set_compactions_paused(false);
        // At a byte a second it would take a day.
        assert!(matches!(told.recv().unwrap(), Compared::Known));
        match read_waiting(&engine) {
            Ok(rows) => {
                assert!(!damaged);
                assert_eq!(rows, 2);
                assert_eq!(contents(&engine, &table()), expected);
            }
            Err(error) => {
                assert!(damaged && error.to_string().contains("Digest.crc32"), "{error}");
                assert_eq!(engine.proving_stats().condemned, 1);
            }
        }
        engine.close();
    }
}

#[test]
fn what_is_demanded_comes_before_what_is_larger_and_read_already() {
    let (fs, found, _) = foreign_of(&[320, 1, 64]);
    let engine = open_awaiting(&fs);
    engine.set_compactions_paused(true);
    let order: Arc<Mutex<Vec<usize>>> = Arc::default();
    let note = |n: usize| {
        let order = Arc::clone(&order);
        engine.demand_proof(&data_name(&found[n]), Box::new(move |_| order.lock().push(n)))
    };
    let _large = note(0);
    engine.start_proving().unwrap();
    wait_until(|| engine.proving().len() == 1);
    let (_small, _middle) = (note(1), note(2));
    // It turns to the smallest of them in the middle of the large one.
    wait_until(|| engine.proving().len() == 2);
    let sizes: Vec<u64> = engine.proving().iter().map(|info| info.total_bytes).collect();
    let len = |n: usize| fs.file_len(&found[n].path(Component::Data)).unwrap();
    assert_eq!(sizes, [len(0), len(1)]);
    engine.set_compactions_paused(false);
    wait_until(|| order.lock().len() == 3);
    assert_eq!(*order.lock(), [1, 2, 0]);
    wait_until(|| engine.proving().is_empty());
    let stats = engine.proving_stats();
    assert_eq!((stats.proven, stats.unproven), (3, 0));
    assert_eq!(stats.bytes, len(0) + len(1) + len(2), "nothing was read twice");
    engine.close();
}

#[test]
fn truncate_drop_drain_and_close_end_the_waiting() {
    type Leave = fn(&Engine);
    let leave: [(Leave, bool); 4] = [
        (|engine| engine.truncate("ks", "t").unwrap(), true),
        (
            |engine| {
                let mut keyspace = KeyspaceSchema::new("ks", Replication::simple(1));
                let other = simple_table("u");
                keyspace.tables.insert(other.name.clone(), other);
                engine.install_schema(engine.schema().with_keyspace(keyspace)).unwrap();
            },
            true,
        ),
        (|engine| engine.drain().unwrap(), false),
        (|engine| engine.close(), false),
    ];
    for (leave, is_known) in leave {
        let (fs, found, _) = foreign(1);
        let (engine, _, _demand, told) = standing_still(&fs);
        leave(&engine);
        let news = told.recv().unwrap();
        match is_known {
            true => {
                assert!(matches!(news, Compared::Known), "{news:?}");
                assert_eq!(read_all(&engine).unwrap(), 0);
            }
            false => {
                assert!(matches!(news, Compared::Ended), "{news:?}");
                let (_demand, told) = demand(&engine, &awaited(read_all(&engine)));
                assert!(matches!(told.recv().unwrap(), Compared::Ended));
            }
        }
        engine.set_compactions_paused(false);
        engine.close();
        assert!(!fs.exists(&found[0].path(Component::Proof)).unwrap());
    }
}

#[test]
fn who_waits_no_longer_is_not_told_and_what_was_demanded_stays_first() {
    let (fs, found, _) = foreign_of(&[1, 4]);
    let engine = open_awaiting(&fs);
    engine.set_compactions_paused(true);
    let (waiting, told) = demand(&engine, &data_name(&found[1]));
    drop(waiting);
    assert!(told.recv().is_err());
    engine.start_proving().unwrap();
    wait_until(|| !engine.proving().is_empty());
    let len = fs.file_len(&found[1].path(Component::Data)).unwrap();
    assert_eq!(engine.proving()[0].total_bytes, len);
    engine.close();
}

#[test]
fn an_operator_who_stops_it_does_not_stop_what_reads_wait_for() {
    let (fs, _, expected) = foreign(1);
    let engine = open_awaiting(&fs);
    begin_and_stop(&engine);
    let name = awaited(read_all(&engine));
    assert_eq!(read_waiting(&engine).unwrap(), 1, "{name}");
    assert_eq!(contents(&engine, &table()), expected);
    engine.close();
}

#[test]
fn a_file_that_cannot_be_read_fails_the_read_and_is_tried_again() {
    let (fs, found, expected) = foreign(1);
    let (faulty, engine) = open_faulty(&fs);
    let digest = found[0].path(Component::Digest);
    let fault = faulty.add(Fault::on(Op::Read).path(&digest.to_string_lossy()));
    engine.start_proving().unwrap();
    let error = read_waiting(&engine).unwrap_err();
    assert!(matches!(error, ReadError::Io(_)), "{error}");
    faulty.remove(fault);
    assert_eq!(read_waiting(&engine).unwrap(), 1);
    assert_eq!(contents(&engine, &table()), expected);
    engine.close();
}

/// The background may have met it just before it was mended.
#[test]
fn who_comes_while_a_reading_fails_waits_for_the_next_one() {
    let (fs, found, expected) = foreign(1);
    let (faulty, engine) = open_faulty(&fs);
    let digest = found[0].path(Component::Digest);
    let fault = faulty.add(Fault::on(Op::Read).path(&digest.to_string_lossy()).times(1));
    faulty.hold(Op::Read, &digest.to_string_lossy());
    engine.start_proving().unwrap();
    wait_until(|| faulty.waiting() == 1);
    let (_demand, told) = demand(&engine, &data_name(&found[0]));
    faulty.release();
    let news = told.recv().unwrap();
    assert!(matches!(news, Compared::Known), "{news:?}");
    assert_eq!(faulty.struck(fault), 1);
    assert_eq!(contents(&engine, &table()), expected);
    engine.close();
}

#[test]
fn without_a_digest_reads_wait_until_that_is_known() {
    let (fs, found, expected) = foreign(1);
    fs.remove_file(&found[0].path(Component::Digest)).unwrap();
    let engine = open_awaiting(&fs);
    engine.start_proving().unwrap();
    assert_eq!(read_waiting(&engine).unwrap(), 1);
    assert_eq!(contents(&engine, &table()), expected);
    assert_eq!(engine.proving_stats().unproven, 1);
    engine.close();
}

#[test]
fn nobody_waits_where_nothing_is_compared() {
    let (fs, _, expected) = foreign(1);
    let options = EngineOptions { awaits_proofs: true, proves_sstables: false, ..options() };
    let engine = Engine::open(options, env_on(Arc::new(fs.clone()), 3)).unwrap();
    assert_eq!(contents(&engine, &table()), expected);
    engine.close();
}

/// Also the row cache, which has nothing of them before.
#[test]
fn reads_of_a_partition_wait_like_those_of_a_range() {
    let (fs, _, _) = foreign(1);
    let engine = open_awaiting(&fs);
    let table = table();
    let read = |clusterings| {
        let command = ReadCommand {
            partitions: PartitionSelection::Keys(vec![key(0)]),
            clusterings,
            columns: ColumnSelection::all(&table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: 0,
            table: Arc::clone(&table),
        };
        engine.read(&command, &ReadContext::default()).map(drop)
    };
    for reversed in [false, true] {
        let whole = ClusteringFilter::Slices { slices: vec![model::Slice::ALL], reversed };
        assert!(matches!(read(whole), Err(ReadError::Unproven(_))));
    }
    let named = ClusteringFilter::Names {
        names: vec![Clustering::from_values([&0_i32.to_be_bytes()[..]])],
        reversed: false,
    };
    assert!(matches!(read(named), Err(ReadError::Unproven(_))));
    engine.close();
}

/// The schema is read from them before anything else is.
#[test]
fn tables_of_the_node_itself_are_compared_when_they_are_opened() {
    let (fs, found, _) = foreign(1);
    let system = found[0].directory.parent().and_then(Path::parent).unwrap().to_owned();
    let strip = |keyspace: &str| {
        let mut stripped = Vec::new();
        for table in names(&fs, &system.join(keyspace)) {
            let dir = system.join(keyspace).join(table);
            for name in names(&fs, &dir).iter().filter(|name| name.ends_with("-Proof.db")) {
                fs.remove_file(&dir.join(name)).unwrap();
                stripped.push(dir.join(name));
            }
        }
        stripped
    };
    let stripped = [strip("system"), strip("system_schema")].concat();
    assert!(!stripped.is_empty());
    let before = names(&fs, &system.join("system_schema"));
    let engine = open_awaiting(&fs);
    assert!(engine.schema().table("ks", "t").is_some());
    assert!(engine.proving_stats().proven > 0);
    assert!(stripped.iter().all(|path| !fs.exists(path).unwrap()), "nothing is written before it serves");
    assert_eq!(names(&fs, &system.join("system_schema")), before);
    engine.start_proving().unwrap();
    wait_until(|| engine.wait_for_proofs(std::time::Duration::from_millis(10)));
    let own = stripped.iter().filter(|path| path.to_string_lossy().contains("system_schema"));
    wait_until(|| own.clone().any(|path| fs.exists(path).unwrap()));
    engine.close();
    drop(engine);

    // One of another digest stops the start, and nothing is changed.
    let proof =
        stripped.iter().find(|path| path.to_string_lossy().contains("system_schema/tables-")).unwrap();
    fs.remove_file(proof).unwrap();
    let digest = proof.to_string_lossy().replace("Proof.db", "Digest.crc32");
    fs.write(Path::new(&digest), b"17").unwrap();
    let options = EngineOptions { awaits_proofs: true, ..options() };
    let refused = Engine::open(options, env_on(Arc::new(fs.clone()), 3)).map(drop).unwrap_err().to_string();
    assert!(refused.contains("Digest.crc32 has 17"), "{refused}");
    assert!(!fs.exists(proof).unwrap());
}
