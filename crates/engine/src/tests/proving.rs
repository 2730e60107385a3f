//! SSTables without a proof, as Cassandra leaves them, and what becomes of them in the background.

use super::*;
use crate::{DiskFailure, EngineError};
use env::fs::faulty::{Fault, FaultyFileSystem};
use env::fs::memory::{Crash, MemoryFileSystem};
use env::sync::Mutex;
use partition::ReadError;
use sstable::{Component, Descriptor, verify};
use std::path::PathBuf;
use std::time::Duration;

const CHUNK: usize = 16 << 10;
const ROW_CHUNKS: usize = 16;

/// Whether a Proof.db is a mark of damage (docs/formats/proof.md).
fn is_mark(bytes: &[u8]) -> bool {
    bytes.get(12..16) == Some(b"DMGD")
}

fn open_on(fs: Arc<dyn FileSystem>) -> Arc<Engine> {
    let options = EngineOptions {
        commitlog_segment_bytes: 1 << 20,
        compaction_bytes_per_s: 0,
        proving_bytes_per_s: 0,
        ..options()
    };
    Engine::open(options, env_on(fs, 3)).unwrap()
}

fn open(fs: &MemoryFileSystem) -> Arc<Engine> {
    open_on(Arc::new(fs.clone()))
}

/// Text of so many chunks that does not compress.
fn long_of(chunks: usize, seed: u64) -> String {
    let random = Random::from_seed(seed);
    (0..CHUNK * chunks).map(|_| char::from(b'!' + (random.unit() * 90.0) as u8)).collect()
}

/// A table of which nothing is compacted unless a test asks for it.
pub(super) fn table() -> Arc<TableSchema> {
    let plain = simple_table("t");
    let mut options = plain.options.clone();
    options.compaction.options.insert("enabled".to_owned(), "false".to_owned());
    Arc::new(plain.to_builder().options(options).build())
}

pub(super) fn sstables(engine: &Engine) -> Vec<Descriptor> {
    let view = engine.table(table().id).unwrap().view();
    view.sstables.iter().map(|sstable| sstable.descriptor().clone()).collect()
}

/// What is left of a node: its disk, SSTables and rows.
pub(super) type Left = (MemoryFileSystem, Vec<Descriptor>, BTreeMap<(i32, i32), String>);

/// A node's disk with a table of `count` SSTables that have no proof.
pub(super) fn foreign(count: usize) -> Left {
    foreign_of(&vec![5; count])
}

/// As [`foreign`], of SSTables of about so many chunks each.
pub(super) fn foreign_of(chunks: &[usize]) -> Left {
    let fs = MemoryFileSystem::new();
    let engine = open(&fs);
    let table = table();
    create(&engine, &[&table]);
    for (n, chunks) in chunks.iter().enumerate() {
        for c in 0..chunks.div_ceil(ROW_CHUNKS) {
            let value = long_of(ROW_CHUNKS.min(chunks - c * ROW_CHUNKS), (n + 100 * c) as u64);
            write(&engine, &insert(&table, n as i32, c as i32, &value, 1)).unwrap();
        }
        engine.flush("ks", Some("t")).unwrap();
    }
    engine.flush_all().unwrap();
    let (found, expected) = (sstables(&engine), contents(&engine, &table));
    engine.close();
    drop(engine);
    for descriptor in &found {
        fs.remove_file(&descriptor.path(Component::Proof)).unwrap();
        let path = descriptor.path(Component::Toc);
        let toc = fs.read_to_string(&path).unwrap();
        fs.write_atomic(&path, toc.replace("Proof.db\n", "").as_bytes()).unwrap();
        fs.sync_dir(&descriptor.directory).unwrap();
    }
    (fs, found, expected)
}

/// Lets two chunks of a value change places.
pub(super) fn swap(fs: &MemoryFileSystem, descriptor: &Descriptor) {
    let info = fs.read(&descriptor.path(Component::CompressionInfo)).unwrap();
    let path = descriptor.path(Component::Data);
    let mut data = fs.read(&path).unwrap();
    // The file ends with the places of the chunks, and their number before.
    let tail = |chunks: usize| &info[info.len() - 8 * chunks - 4..];
    let counted = |chunks: &usize| tail(*chunks)[..4] == (*chunks as u32).to_be_bytes();
    let chunks = (1..100).find(counted).unwrap();
    let places = tail(chunks)[4..].chunks(8);
    let offsets: Vec<usize> = places.map(|at| u64::from_be_bytes(at.try_into().unwrap()) as usize).collect();
    let len = offsets[3] - offsets[2];
    assert_eq!((offsets[0], offsets[4] - offsets[3]), (0, len));
    let (first, second) = data.split_at_mut(offsets[3]);
    first[offsets[2]..].swap_with_slice(&mut second[..len]);
    fs.write(&path, &data).unwrap();
}

pub(super) fn read_all(engine: &Engine) -> Result<usize, ReadError> {
    let table = table();
    let command = ReadCommand {
        partitions: PartitionSelection::Range(KeyRange::FULL),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(&table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
        table,
    };
    let mut stream = engine.read(&command, &ReadContext::default())?;
    let mut fragment = Fragment::default();
    let mut rows = 0;
    loop {
        match stream.next(&mut fragment)? {
            Event::End => return Ok(rows),
            event => rows += usize::from(event == Event::Row),
        }
    }
}

pub(super) fn names(fs: &MemoryFileSystem, dir: &Path) -> Vec<String> {
    let entries = fs.read_dir(dir).unwrap_or_default();
    entries.into_iter().filter_map(|entry| entry.name.into_string().ok()).collect()
}

#[test]
fn foreign_sstables_are_proven_in_the_background_and_stay_so() {
    let (fs, found, expected) = foreign(3);
    let engine = open(&fs);
    assert_eq!(engine.proving_stats().unproven, 3);
    engine.start_proving().unwrap();
    wait_until(|| engine.proving_stats().unproven == 0);
    let stats = engine.proving_stats();
    assert_eq!((stats.proven, stats.condemned), (3, 0));
    let bytes: u64 = found.iter().map(|d| fs.file_len(&d.path(Component::Data)).unwrap()).sum();
    assert_eq!(stats.bytes, bytes);
    wait_until(|| engine.proving().is_empty());
    assert_eq!(contents(&engine, &table()), expected);
    engine
        .snapshot(
            "s",
            &["ks".to_owned()],
            Some("t"),
            crate::SnapshotOptions { skip_flush: true, ttl_s: None },
        )
        .unwrap();
    engine.close();
    drop(engine);
    for descriptor in &found {
        assert_eq!(verify(&fs, descriptor, &|_| {}).unwrap().findings, []);
        let linked = descriptor.directory.join("snapshots/s");
        let linked = Descriptor { directory: linked, ..descriptor.clone() };
        assert_eq!(verify(&fs, &linked, &|_| {}).unwrap().findings, []);
        assert!(fs.exists(&linked.path(Component::Proof)).unwrap());
    }
    let engine = open(&fs);
    assert_eq!(engine.proving_stats().unproven, 0);
    assert_eq!(contents(&engine, &table()), expected);
    engine.close();
}

#[test]
fn reads_of_an_sstable_whose_chunks_changed_places_fail_once_that_is_known() {
    let (fs, found, expected) = foreign(2);
    swap(&fs, &found[0]);
    let engine = open(&fs);
    assert_ne!(contents(&engine, &table()), expected, "nothing else tells");
    let told: Arc<Mutex<Vec<DiskFailure>>> = Arc::default();
    let hears = Arc::clone(&told);
    engine.on_disk_failure(Box::new(move |failure| hears.lock().push(failure.clone())));
    engine.start_proving().unwrap();
    wait_until(|| engine.proving_stats().condemned == 1 && !told.lock().is_empty());
    wait_until(|| engine.proving_stats().unproven == 0);
    let error = read_all(&engine).unwrap_err().to_string();
    assert!(error.contains("Data.db") && error.contains("Digest.crc32"), "{error}");
    assert!(matches!(&told.lock()[..], [DiskFailure::Corrupt(cause)] if *cause == error));
    // A compaction makes nothing sound of it: it stays, and so does the error.
    engine.compact("ks", Some("t")).unwrap();
    assert!(sstables(&engine).contains(&found[0]));
    assert!(read_all(&engine).is_err());
    assert!(is_mark(&fs.read(&found[0].path(Component::Proof)).unwrap()), "a mark, no proof");
    // What is written meanwhile is as ever.
    write(&engine, &insert(&table(), 9, 9, "x", 1)).unwrap();
    engine.flush("ks", Some("t")).unwrap();
    engine.truncate("ks", "t").unwrap();
    assert_eq!(read_all(&engine).unwrap(), 0);
    assert_eq!(engine.proving_stats().condemned, 0);
    engine.close();
}

#[test]
fn damage_is_remembered_over_a_restart_until_it_is_mended() {
    let (fs, found, expected) = foreign(3);
    let data = found[1].path(Component::Data);
    let sound = fs.read(&data).unwrap();
    swap(&fs, &found[1]);
    let damaged = fs.read(&data).unwrap();
    let engine = open(&fs);
    engine.start_proving().unwrap();
    wait_until(|| engine.proving_stats().unproven == 0);
    let fails = |engine: &Engine| match read_all(engine) {
        Ok(_) => false,
        Err(error) => error.to_string().contains("nb-2-big-Data.db"),
    };
    assert!(fails(&engine));
    engine.close();
    drop(engine);
    let proof = found[1].path(Component::Proof);
    assert!(is_mark(&fs.read(&proof).unwrap()));

    // Nobody has compared anything yet, and nobody ever will.
    let engine = open(&fs);
    assert_eq!((engine.proving_stats().unproven, engine.proving_stats().condemned), (1, 1));
    assert!(fails(&engine));
    engine.compact("ks", Some("t")).unwrap();
    assert!(sstables(&engine).contains(&found[1]));
    // It is compared again, and is as it was.
    engine.start_proving().unwrap();
    wait_until(|| engine.proving_stats().unproven == 0);
    assert!(fails(&engine) && fs.read(&data).unwrap() == damaged);
    engine.close();
    drop(engine);

    // What `verify` says of it, and that a mark says nothing where Digest.crc32 is another or is gone.
    let findings = verify(&fs, &found[1], &|_| {}).unwrap().findings;
    assert!(findings.iter().any(|f| f.component == Component::Digest), "{findings:?}");
    let digest = found[1].path(Component::Digest);
    let number = fs.read(&digest).unwrap();
    for other in [None, Some(b"17")] {
        fs.remove_file(&digest).unwrap();
        if let Some(other) = other {
            fs.write(&digest, other).unwrap();
        }
        let engine = open(&fs);
        assert_eq!(engine.proving_stats().condemned, 0);
        assert!(read_all(&engine).is_ok());
        engine.close();
        drop(engine);
        fs.write(&digest, &number).unwrap();
    }

    // With the right Data.db in its place it is sound at the first look.
    fs.write(&data, &sound).unwrap();
    let engine = open(&fs);
    assert!(fails(&engine), "not before it was looked at");
    engine.start_proving().unwrap();
    wait_until(|| engine.proving_stats().unproven == 0);
    assert_eq!(engine.proving_stats().condemned, 0);
    assert_eq!(contents(&engine, &table()), expected);
    wait_until(|| engine.proving().is_empty());
    engine.close();
    assert!(!is_mark(&fs.read(&proof).unwrap()));
    assert_eq!(verify(&fs, &found[1], &|_| {}).unwrap().findings, []);
}

/// Also before the node serves, when the prover has not begun.
#[test]
fn a_compaction_proves_what_it_reads() {
    for damaged in [false, true] {
        let (fs, found, expected) = foreign(2);
        if damaged {
            swap(&fs, &found[1]);
        }
        let engine = open(&fs);
        engine.compact("ks", Some("t")).unwrap();
        let left = sstables(&engine);
        match damaged {
            true => {
                assert!(left.contains(&found[0]) && left.contains(&found[1]), "{left:?}");
                assert!(read_all(&engine).is_err());
            }
            false => {
                assert_eq!(left.len(), 1);
                assert_eq!(contents(&engine, &table()), expected);
            }
        }
        let here = names(&fs, &found[0].directory);
        assert_eq!(here.iter().filter(|name| name.ends_with("-Data.db")).count(), left.len(), "{here:?}");
        engine.close();
    }
}

#[test]
fn truncate_drop_and_drain_end_a_comparison_and_leave_no_proof() {
    let leave: [fn(&Engine); 3] = [
        |engine| engine.truncate("ks", "t").unwrap(),
        |engine| {
            let mut keyspace = KeyspaceSchema::new("ks", Replication::simple(1));
            let other = simple_table("u");
            keyspace.tables.insert(other.name.clone(), other);
            engine.install_schema(engine.schema().with_keyspace(keyspace)).unwrap();
        },
        |engine| engine.drain().unwrap(),
    ];
    for leave in leave {
        let (fs, found, _) = foreign(1);
        let engine = open(&fs);
        engine.set_compactions_paused(true);
        engine.start_proving().unwrap();
        wait_until(|| !engine.proving().is_empty());
        let info = engine.proving().remove(0);
        assert_eq!((info.table.as_str(), info.inputs), ("t", 1));
        leave(&engine);
        engine.set_compactions_paused(false);
        wait_until(|| engine.proving().is_empty());
        engine.close();
        assert!(!fs.exists(&found[0].path(Component::Proof)).unwrap());
        let left = names(&fs, &found[0].directory);
        assert!(left.iter().all(|name| !name.contains("Proof")), "{left:?}");
    }
}

#[test]
fn whoever_wants_to_be_sure_waits_for_it() {
    let (fs, found, expected) = foreign(3);
    let engine = open(&fs);
    assert!(engine.wait_for_proofs(Duration::ZERO), "it was not begun");
    engine.set_compactions_paused(true);
    engine.start_proving().unwrap();
    assert!(!engine.wait_for_proofs(Duration::from_millis(1)));
    engine.set_compactions_paused(false);
    assert!(engine.wait_for_proofs(Duration::from_secs(60)));
    assert_eq!((engine.proving_stats().proven, engine.proving_stats().unproven), (3, 0));
    assert!(found.iter().all(|d| fs.exists(&d.path(Component::Proof)).unwrap()));
    assert_eq!(contents(&engine, &table()), expected);
    engine.close();
}

/// Links the files of an SSTable under another number, of which nobody knows yet.
fn link(fs: &MemoryFileSystem, from: &Descriptor, sequence: u64) -> Descriptor {
    let copy = Descriptor { id: sstable::SsTableId::Sequence(sequence), ..from.clone() };
    for component in Component::ALL.iter().filter(|c| fs.exists(&from.path(**c)).unwrap()) {
        fs.write(&copy.path(*component), &fs.read(&from.path(*component)).unwrap()).unwrap();
    }
    copy
}

/// Begins to compare, and ends it as an operator does.
pub(super) fn begin_and_stop(engine: &Arc<Engine>) {
    engine.set_compactions_paused(true);
    engine.start_proving().unwrap();
    wait_until(|| !engine.proving().is_empty());
    assert!(engine.stop_proving());
    wait_until(|| engine.proving().is_empty());
    engine.set_compactions_paused(false);
}

#[test]
fn an_operator_stops_it_and_new_files_begin_it_anew() {
    let (fs, found, _) = foreign(1);
    let engine = open(&fs);
    begin_and_stop(&engine);
    assert_eq!(engine.proving_stats().unproven, 1);
    link(&fs, &found[0], 77);
    assert_eq!(engine.load_new_sstables("ks", "t").unwrap().len(), 1);
    wait_until(|| engine.proving_stats().unproven == 0);
    assert_eq!(engine.proving_stats().proven, 2);
    engine.close();
}

/// Also where the prover does not run, or rests: nobody may read them before.
#[test]
fn what_comes_while_the_node_runs_is_compared_before_it_is_read() {
    let (fs, found, expected) = foreign(2);
    let elsewhere = PathBuf::from("/elsewhere");
    let aside = |descriptor: &Descriptor| {
        let to = Descriptor { directory: elsewhere.clone(), ..descriptor.clone() };
        fs.create_dir_all_durable(&elsewhere).unwrap();
        for component in Component::ALL.iter().filter(|c| fs.exists(&descriptor.path(**c)).unwrap()) {
            fs.rename(&descriptor.path(*component), &to.path(*component)).unwrap();
        }
        to
    };
    let all: Vec<Descriptor> = found.iter().map(aside).collect();
    let unverified = crate::ImportOptions { verify: false, copy: true, ..crate::ImportOptions::default() };
    let verified = crate::ImportOptions { verify: true, ..unverified };
    let sound = fs.read(&all[1].path(Component::Data)).unwrap();
    swap(&fs, &all[1]);

    let engine = open(&fs);
    engine.truncate("ks", "t").unwrap(); // What the commit log still has of them.
    let directory = engine.table(table().id).unwrap().dirs()[0].clone();
    let here = |descriptor: &Descriptor| Descriptor { directory: directory.clone(), ..descriptor.clone() };
    let put = |descriptor: &Descriptor| {
        for component in Component::ALL.iter().filter(|c| fs.exists(&descriptor.path(**c)).unwrap()) {
            let bytes = fs.read(&descriptor.path(*component)).unwrap();
            fs.write(&here(descriptor).path(*component), &bytes).unwrap();
        }
    };
    let empty = names(&fs, &directory);
    engine.set_compactions_paused(true);
    for options in [unverified, verified] {
        let done = engine.import("ks", "t", std::slice::from_ref(&elsewhere), &options).unwrap().remove(0);
        let failure = done.failure.unwrap();
        assert!(failure.contains(&all[1].to_string()) && failure.contains("Digest.crc32"), "{failure}");
        assert_eq!((sstables(&engine), names(&fs, &directory)), (Vec::new(), empty.clone()));
    }
    all.iter().for_each(put);
    let refused = engine.load_new_sstables("ks", "t").unwrap_err().to_string();
    assert!(refused.contains("nb-2-big-Data.db") && refused.contains("Digest.crc32"), "{refused}");
    assert_eq!((sstables(&engine), read_all(&engine).unwrap()), (Vec::new(), 0));
    assert!(all.iter().all(|d| fs.exists(&here(d).path(Component::Data)).unwrap()), "they stay");

    fs.write(&here(&all[1]).path(Component::Data), &sound).unwrap();
    assert_eq!(engine.load_new_sstables("ks", "t").unwrap().len(), 2);
    assert_eq!(engine.proving_stats().unproven, 0);
    assert_eq!(contents(&engine, &table()), expected);
    fs.write(&all[1].path(Component::Data), &sound).unwrap();
    for options in [unverified, verified] {
        let done = engine.import("ks", "t", std::slice::from_ref(&elsewhere), &options).unwrap().remove(0);
        assert_eq!((done.sstables.len(), done.failure), (2, None));
    }
    assert_eq!(engine.proving_stats().unproven, 0);
    assert_eq!(contents(&engine, &table()), expected);
    for descriptor in sstables(&engine) {
        assert!(fs.exists(&descriptor.path(Component::Proof)).unwrap());
        assert_eq!(verify(&fs, &descriptor, &|_| {}).unwrap().findings, []);
    }
    engine.close();
}

/// As after CREATE TABLE ... WITH id = that of one that was dropped, and whose files somebody brought back.
#[test]
fn files_that_a_new_table_finds_are_compared_before_it_is_there() {
    for damaged in [true, false] {
        let (fs, found, expected) = foreign(2);
        let engine = open(&fs);
        let bare = KeyspaceSchema::new("ks", Replication::simple(1));
        engine.install_schema(engine.schema().with_keyspace(bare.clone())).unwrap();
        assert!(found.iter().all(|d| !fs.exists(&d.path(Component::Data)).unwrap()), "they went with it");
        let (other, _, _) = foreign(2);
        for descriptor in &found {
            fs.create_dir_all_durable(&descriptor.directory).unwrap();
            for component in Component::ALL.iter().filter(|c| other.exists(&descriptor.path(**c)).unwrap()) {
                let path = descriptor.path(*component);
                fs.write(&path, &other.read(&path).unwrap()).unwrap();
            }
        }
        if damaged {
            swap(&fs, &found[0]);
        }
        let mut again = bare;
        again.tables.insert(table().name.clone(), table());
        let created = engine.install_schema(engine.schema().with_keyspace(again));
        match damaged {
            true => assert!(created.unwrap_err().to_string().contains("Digest.crc32")),
            false => {
                created.unwrap();
                assert_eq!(engine.proving_stats().unproven, 0);
                assert_eq!(contents(&engine, &table()), expected);
            }
        }
        engine.close();
    }
}

#[test]
fn without_a_digest_nothing_is_proven_and_all_is_read() {
    let (fs, found, expected) = foreign(1);
    fs.remove_file(&found[0].path(Component::Digest)).unwrap();
    let engine = open(&fs);
    engine.start_proving().unwrap();
    engine.compact("ks", Some("t")).unwrap();
    assert_eq!(engine.proving_stats().condemned, 0);
    assert_eq!(contents(&engine, &table()), expected);
    engine.close();
}

/// The machine stops at every call that changes something, while SSTables are proven and a compaction takes
/// them away.
#[test]
fn a_loss_of_power_at_any_call_loses_nothing_and_proves_nothing_wrong() {
    let (base, _, expected) = foreign(3);
    let base = base.crash(Crash::LoseUnsynced);
    let (mut nth, mut proofs) = (1, 0);
    loop {
        let fs = base.crash(Crash::LoseUnsynced);
        let faulty = FaultyFileSystem::new(Arc::new(fs.clone()));
        let engine = open_on(Arc::new(faulty.clone()));
        let fault = faulty.add(Fault::on_any_change().after(nth - 1));
        engine.start_proving().unwrap();
        if nth % 2 == 0 {
            wait_until(|| engine.proving_stats().unproven == 0);
        }
        let compacted: Result<(), EngineError> = engine.compact("ks", Some("t"));
        engine.close();
        drop(engine);
        let finished = compacted.is_ok() && faulty.struck(fault) == 0;
        for crash in [Crash::LoseUnsynced, Crash::TornPrefix(nth), Crash::ScatteredPages(nth)] {
            let survivor = fs.crash(crash);
            let engine = open(&survivor);
            let context = format!("call {nth}, {crash:?}");
            assert_eq!(contents(&engine, &table()), expected, "{context}");
            let found = sstables(&engine);
            let is_foreign = |d: &&Descriptor| base.exists(&d.path(Component::Data)).unwrap();
            let has_proof = |d: &&Descriptor| survivor.exists(&d.path(Component::Proof)).unwrap();
            proofs += found.iter().filter(is_foreign).filter(has_proof).count();
            engine.start_proving().unwrap();
            wait_until(|| engine.proving_stats().unproven == 0 && engine.proving().is_empty());
            assert_eq!(engine.proving_stats().condemned, 0, "{context}");
            let listed = |d: &Descriptor| {
                survivor.read_to_string(&d.path(Component::Toc)).unwrap().contains("Proof.db")
            };
            wait_until(|| found.iter().all(listed));
            assert_eq!(contents(&engine, &table()), expected, "{context}");
            engine.close();
            for descriptor in &found {
                assert_eq!(verify(&survivor, descriptor, &|_| {}).unwrap().findings, [], "{context}");
            }
            let stray: Vec<PathBuf> = sstable::descriptor::list(&survivor, &found[0].directory)
                .unwrap()
                .tables
                .into_iter()
                .filter(|(d, _)| !found.contains(d))
                .flat_map(|(_, files)| files)
                .collect();
            assert!(stray.is_empty(), "{context}: {stray:?}");
        }
        if finished {
            break;
        }
        nth += 1 + nth / 8;
    }
    assert!(proofs > 3, "{proofs} proofs were met");
}
