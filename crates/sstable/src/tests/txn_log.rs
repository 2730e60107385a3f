//! Transactions: what a crash at any moment leaves, and what recovery makes of it.

use super::support::*;
use crate::descriptor::list;
use crate::txn_log::{
    CommitError, Leftover, Operation, Record, RecordKind, RecoverError, TxnLog, parse, understand,
};
use crate::{Component, SsTableId, SsTableWriter, Version};
use env::fs::FileSystem;
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::{Crash, MemoryFileSystem};
use model::TableSchema;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

const DIR: &str = DIRECTORY;

struct World {
    memory: MemoryFileSystem,
    fs: Arc<dyn FileSystem>,
    table: Arc<TableSchema>,
    partitions: Vec<Partition>,
}

fn world() -> World {
    let mut rng = Rng::new(11);
    let table = random_table(&mut rng);
    let mut partitions = random_partitions(&mut rng, &table, 5, 5);
    partitions.retain(|p| !p.is_empty());
    let memory = MemoryFileSystem::new();
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    fs.create_dir_all_durable(Path::new(DIR)).unwrap();
    World { memory, fs, table, partitions }
}

impl World {
    fn write(&self, id: u64) {
        let options = options(&self.partitions, None, 100);
        let mut writer =
            SsTableWriter::new(self.fs.clone(), descriptor(id), self.table.clone(), options).unwrap();
        self.partitions.iter().for_each(|p| p.append_to(&mut writer));
        writer.finish().unwrap();
    }
}

fn recover(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<Leftover>, RecoverError> {
    let found = understand(fs, &[directory.to_owned()])?;
    found.iter().try_for_each(|leftover| leftover.finish(fs))?;
    Ok(found)
}

fn ids(fs: &dyn FileSystem) -> Vec<SsTableId> {
    list(fs, Path::new(DIR)).unwrap().tables.keys().map(|d| d.id).collect()
}

#[test]
fn the_checksum_of_a_commit_is_cassandras() {
    let records = parse(b"COMMIT:[,0,0][2613697770]\n").unwrap();
    assert_eq!(records[0].kind, RecordKind::Commit);
    assert_eq!(parse(b"COMMIT:[,0,0][2613697771]\nCOMMIT:[,0,0][2613697770]\n"), Err(1));
    assert_eq!(parse(b"COMMIT:[,0,0][2613697770]\nABORT:[,0"), Ok(records));
}

#[test]
fn a_crash_at_any_call_leaves_the_old_or_the_new() {
    for stop in 0..5 {
        for crash in [Crash::LoseUnsynced, Crash::TornPrefix(stop), Crash::ScatteredPages(stop + 9)] {
            let world = world();
            world.write(1);
            let directory = Path::new(DIR);
            let run = || -> std::io::Result<bool> {
                let mut log = TxnLog::create(
                    world.fs.clone(),
                    directory,
                    Version::NB,
                    Operation::Compaction,
                    Uuid::from_u128(7),
                )?;
                log.add(&descriptor(2))?;
                if stop == 0 {
                    return Ok(false);
                }
                world.write(2);
                log.remove([&descriptor(1)])?;
                if stop == 1 {
                    return Ok(false);
                }
                if stop == 2 {
                    // Half of the files are there only.
                    world.fs.remove_file(&descriptor(2).path(Component::Toc))?;
                    return Ok(false);
                }
                let committed = log.commit()?;
                if stop == 4 {
                    committed.clean_up()?;
                }
                Ok(true)
            };
            let committed = run().unwrap();
            let after = world.memory.crash(crash);
            recover(&after, directory).unwrap();
            let expected = if committed { SsTableId::Sequence(2) } else { SsTableId::Sequence(1) };
            assert_eq!(ids(&after), [expected], "stop {stop} {crash:?}");
            let listing = list(&after, directory).unwrap();
            assert!(listing.txn_logs.is_empty());
            assert_eq!(recover(&after, directory).unwrap(), []);
            let descriptor = listing.tables.keys().next().unwrap();
            crate::SsTable::open(&after, descriptor, 1, Arc::new(crate::Uncached)).unwrap();
        }
    }
}

/// A compaction of SSTable 1 to SSTable 2 whose commit cannot be synced.
fn failing_commit(world: &World, more: Option<Fault>) -> CommitError {
    world.write(1);
    let faulty = FaultyFileSystem::new(world.fs.clone());
    let fs: Arc<dyn FileSystem> = Arc::new(faulty.clone());
    let id = Uuid::from_u128(7);
    let mut log = TxnLog::create(fs, Path::new(DIR), Version::NB, Operation::Compaction, id).unwrap();
    log.add(&descriptor(2)).unwrap();
    world.write(2);
    log.remove([&descriptor(1)]).unwrap();
    faulty.add(Fault::on(Op::Sync).path("_txn_"));
    if let Some(fault) = more {
        faulty.add(fault);
    }
    log.commit().unwrap_err()
}

#[test]
fn a_commit_that_cannot_be_synced_is_taken_back() {
    for crash in [None, Some(Crash::LoseUnsynced), Some(Crash::TornPrefix(1)), Some(Crash::ScatteredPages(2))]
    {
        let world = world();
        let error = failing_commit(&world, None);
        assert!(!error.is_in_doubt(), "{error}");
        let after = crash.map_or_else(|| world.memory.clone(), |crash| world.memory.crash(crash));
        assert_eq!(recover(&after, Path::new(DIR)).unwrap(), [], "{crash:?}");
        assert_eq!(ids(&after), [SsTableId::Sequence(1)], "{crash:?}");
        crate::SsTable::open(&after, &descriptor(1), 1, Arc::new(crate::Uncached)).unwrap();
    }
}

#[test]
fn a_commit_in_doubt_touches_neither_set_until_the_next_start() {
    let faults = [
        Fault::on(Op::Remove).path("_txn_"),
        Fault::on(Op::SyncDir),
        Fault::on(Op::Remove).path("nb-2-big-Data.db"),
    ];
    for fault in faults {
        for crash in
            [None, Some(Crash::LoseUnsynced), Some(Crash::TornPrefix(1)), Some(Crash::ScatteredPages(2))]
        {
            let world = world();
            let error = failing_commit(&world, Some(fault.clone()));
            assert!(error.is_in_doubt(), "{error}");
            let after = crash.map_or_else(|| world.memory.clone(), |crash| world.memory.crash(crash));
            recover(&after, Path::new(DIR)).unwrap();
            let left: Vec<SsTableId> = list(&after, Path::new(DIR))
                .unwrap()
                .tables
                .iter()
                .filter(|(d, files)| files.contains(&d.path(Component::Data)))
                .map(|(d, _)| d.id)
                .collect();
            assert!(!left.is_empty(), "{fault:?} {crash:?}");
            for id in left {
                let SsTableId::Sequence(id) = id else { panic!("{id:?}") };
                crate::SsTable::open(&after, &descriptor(id), 1, Arc::new(crate::Uncached)).unwrap();
            }
        }
    }
}

#[test]
fn a_commit_that_is_only_in_memory_is_kept_before_an_old_file_goes() {
    let mut nth = 1;
    loop {
        let world = world();
        world.write(1);
        let (fs, id) = (world.fs.clone(), Uuid::from_u128(7));
        let mut log = TxnLog::create(fs, Path::new(DIR), Version::NB, Operation::Compaction, id).unwrap();
        log.add(&descriptor(2)).unwrap();
        world.write(2);
        log.remove([&descriptor(1)]).unwrap();
        drop(log);
        // The process starts again, the machine has not stopped: the commit can be read, it was never synced.
        let path = list(world.fs.as_ref(), Path::new(DIR)).unwrap().txn_logs.remove(0);
        let mut file = world.fs.open_append(&path).unwrap();
        file.write_all(b"COMMIT:[,0,0][2613697770]\n").unwrap();
        file.flush().unwrap();
        let faulty = FaultyFileSystem::new(world.fs.clone());
        let fault = faulty.add(Fault::on_any_change().after(nth - 1));
        let done = recover(&faulty, Path::new(DIR));
        assert!(done.is_ok() || faulty.struck(fault) > 0);
        let after = world.memory.crash(Crash::LoseUnsynced);
        recover(&after, Path::new(DIR)).unwrap();
        let found = ids(&after);
        assert_eq!(found.len(), 1, "call {nth}: {found:?}");
        let SsTableId::Sequence(id) = found[0] else { panic!("{found:?}") };
        crate::SsTable::open(&after, &descriptor(id), 1, Arc::new(crate::Uncached)).unwrap();
        if faulty.struck(fault) == 0 {
            assert_eq!(id, 2);
            return;
        }
        nth += 1;
    }
}

#[test]
fn an_abort_removes_what_was_added() {
    let world = world();
    world.write(1);
    let mut log =
        TxnLog::create(world.fs.clone(), Path::new(DIR), Version::NB, Operation::Flush, Uuid::from_u128(8))
            .unwrap();
    log.add(&descriptor(2)).unwrap();
    world.write(2);
    assert_eq!(list(world.fs.as_ref(), Path::new(DIR)).unwrap().txn_logs.len(), 1);
    log.abort().unwrap();
    assert_eq!(ids(world.fs.as_ref()), [SsTableId::Sequence(1)]);
    assert!(list(world.fs.as_ref(), Path::new(DIR)).unwrap().txn_logs.is_empty());
}

#[test]
fn an_abort_on_a_full_disk_gives_the_room_back() {
    let world = world();
    world.write(1);
    let faulty = FaultyFileSystem::new(world.fs.clone());
    let fs: Arc<dyn FileSystem> = Arc::new(faulty.clone());
    let mut log =
        TxnLog::create(fs, Path::new(DIR), Version::NB, Operation::Flush, Uuid::from_u128(8)).unwrap();
    log.add(&descriptor(2)).unwrap();
    world.write(2);
    faulty.set_free_bytes(Some(0));
    log.abort().unwrap();
    assert_eq!(ids(world.fs.as_ref()), [SsTableId::Sequence(1)]);
    assert!(list(world.fs.as_ref(), Path::new(DIR)).unwrap().txn_logs.is_empty());
}

#[test]
fn files_that_were_put_back_are_not_removed() {
    let world = world();
    world.write(1);
    let mut log = TxnLog::create(
        world.fs.clone(),
        Path::new(DIR),
        Version::NB,
        Operation::Compaction,
        Uuid::from_u128(9),
    )
    .unwrap();
    log.remove([&descriptor(1)]).unwrap();
    drop(log.commit().unwrap());
    let extra = Path::new(DIR).join("nb-1-big-SI_x.db");
    world.fs.write(&extra, b"x").unwrap();
    let error = recover(world.fs.as_ref(), Path::new(DIR)).unwrap_err();
    assert!(matches!(error, RecoverError::Mismatch { .. }), "{error}");
    assert_eq!(ids(world.fs.as_ref()), [SsTableId::Sequence(1)]);
    world.fs.remove_file(&extra).unwrap();
    recover(world.fs.as_ref(), Path::new(DIR)).unwrap();
    assert!(ids(world.fs.as_ref()).is_empty());
}

/// A log as Cassandra writes it, with a copy in each of two data directories.
fn spread(world: &World, lines: &[(&Path, &str)]) {
    for (directory, text) in lines {
        world.fs.create_dir_all_durable(directory).unwrap();
        world.fs.write(&directory.join("nb_txn_compaction_6b1f.log"), text.as_bytes()).unwrap();
    }
}

#[test]
fn a_transaction_over_several_directories_is_finished_in_all_of_them() {
    let (first, second) = (Path::new("/d1/ks/t-1"), Path::new("/d2/ks/t-1"));
    let line = |kind, prefix: String, files| Record { kind, prefix, modified_ms: 0, files }.line();
    let added = line(RecordKind::Add, "/d1/ks/t-1/nb-3-big-".to_owned(), 8);
    let removed: String = [(first, 1), (second, 2)]
        .map(|(d, id)| line(RecordKind::Remove, format!("{}/nb-{id}-big-", d.display()), 2))
        .concat();
    let commit = line(RecordKind::Commit, String::new(), 0);
    let both = [first.to_owned(), second.to_owned()];
    let world = world();
    let put = || {
        for (directory, id) in [(first, 1), (second, 2), (first, 3), (second, 1)] {
            for component in ["Data.db", "TOC.txt"] {
                world.fs.write(&directory.join(format!("nb-{id}-big-{component}")), b"").unwrap();
            }
        }
    };
    let left = |world: &World| {
        let ids =
            |d: &Path| list(world.fs.as_ref(), d).unwrap().tables.keys().map(|d| d.id).collect::<Vec<_>>();
        [ids(first), ids(second)]
    };
    let id = |n| SsTableId::Sequence(n);
    // One of the copies did not get the end: the transaction counts all the same.
    spread(&world, &[(first, &format!("{added}{removed}{commit}")), (second, &format!("{added}{removed}"))]);
    put();
    let found = understand(world.fs.as_ref(), &both).unwrap();
    assert_eq!((found.len(), found[0].logs.len(), found[0].committed), (1, 2, true));
    found[0].finish(world.fs.as_ref()).unwrap();
    assert_eq!(left(&world), [vec![id(3)], vec![id(1)]], "an id counts only in the directory of its record");
    assert_eq!(understand(world.fs.as_ref(), &both).unwrap(), []);

    spread(&world, &[(first, &format!("{added}{removed}")), (second, &added)]);
    put();
    understand(world.fs.as_ref(), &both).unwrap()[0].finish(world.fs.as_ref()).unwrap();
    assert_eq!(left(&world), [vec![id(1)], vec![id(1), id(2)]]);

    spread(&world, &[(first, &format!("{added}{commit}")), (second, &format!("{removed}{commit}"))]);
    let error = understand(world.fs.as_ref(), &both).unwrap_err();
    assert!(matches!(error, RecoverError::CopiesDiffer { line: 1, .. }), "{error}");
    assert_eq!(left(&world), [vec![id(1)], vec![id(1), id(2)]]);
}

#[test]
fn a_log_whose_end_is_torn_wants_the_old_files_whole() {
    let world = world();
    world.write(1);
    let mut log = TxnLog::create(
        world.fs.clone(),
        Path::new(DIR),
        Version::NB,
        Operation::Compaction,
        Uuid::from_u128(9),
    )
    .unwrap();
    log.remove([&descriptor(1)]).unwrap();
    drop(log);
    let path = list(world.fs.as_ref(), Path::new(DIR)).unwrap().txn_logs[0].clone();
    let mut bytes = world.fs.read(&path).unwrap();
    bytes.extend_from_slice(b"COMM");
    world.fs.write(&path, &bytes).unwrap();
    let directories = [Path::new(DIR).to_owned()];
    assert_eq!(
        understand(world.fs.as_ref(), &directories).unwrap()[0].gone,
        Vec::<std::path::PathBuf>::new()
    );
    world.fs.remove_file(&descriptor(1).path(Component::Toc)).unwrap();
    let error = understand(world.fs.as_ref(), &directories).unwrap_err();
    assert!(matches!(error, RecoverError::Mismatch { .. }), "{error}");
}

#[test]
fn a_set_of_tables_goes_with_a_constant_number_of_listings_and_few_syncs() {
    const TABLES: u64 = 300;
    let world = world();
    world.write(1);
    let directory = Path::new(DIR);
    let files: Vec<_> =
        Component::ALL.iter().filter(|c| world.fs.exists(&descriptor(1).path(**c)).unwrap()).collect();
    for id in 2..=TABLES {
        let link = |c: &Component| world.fs.hard_link(&descriptor(1).path(*c), &descriptor(id).path(*c));
        files.iter().try_for_each(|c| link(c)).unwrap();
    }
    let all: Vec<_> = (1..=TABLES).map(descriptor).collect();
    let faulty = FaultyFileSystem::new(world.fs.clone());
    let listings = faulty.add(Fault::on(Op::ReadDir).never());
    let syncs = faulty.add(Fault::on(Op::Sync).never());
    let fs: Arc<dyn FileSystem> = Arc::new(faulty.clone());
    let start =
        || TxnLog::create(fs.clone(), directory, Version::NB, Operation::Compaction, Uuid::from_u128(7));

    let mut log = start().unwrap();
    log.remove(&all).unwrap();
    let left = log.commit().unwrap();
    let path = list(fs.as_ref(), directory).unwrap().txn_logs.remove(0);
    let text = fs.read_to_string(&path).unwrap();
    assert_eq!(text.lines().count() as u64, TABLES + 1);
    // The lines of a page are synced together, and one that is in two pages by itself.
    assert!(faulty.seen(syncs).calls <= 2 * text.len().div_ceil(4096) as u64 + 1);
    // One for the lines; one is this test's.
    assert_eq!(faulty.seen(listings).calls, 2);

    // What a crash leaves: one listing for the logs, one for the files.
    assert_eq!(understand(fs.as_ref(), &[directory.to_owned()]).unwrap()[0].gone.len(), files.len() * 300);
    assert_eq!(faulty.seen(listings).calls, 4);
    left.clean_up().unwrap();
    assert_eq!(faulty.seen(listings).calls, 5);
    assert_eq!(ids(fs.as_ref()), []);
}

#[test]
fn a_machine_that_stops_while_many_removals_are_recorded_tears_the_last_line_only() {
    let world = world();
    world.write(1);
    let directory = Path::new(DIR);
    let all = vec![descriptor(1); 200];
    for nth in 1..6 {
        let faulty = FaultyFileSystem::new(world.fs.clone());
        faulty.add(Fault::on(Op::Sync).nth(nth));
        let fs: Arc<dyn FileSystem> = Arc::new(faulty);
        let id = Uuid::from_u128(u128::from(nth));
        let mut log = TxnLog::create(fs, directory, Version::NB, Operation::Compaction, id).unwrap();
        log.remove(&all).unwrap_err();
        for seed in 0..50 {
            let after = world.memory.crash(Crash::ScatteredPages(seed));
            let found = list(&after, directory).unwrap().txn_logs;
            for path in found {
                let parsed = parse(&after.read(&path).unwrap());
                assert!(parsed.is_ok(), "sync {nth}, seed {seed}: line {parsed:?}");
            }
        }
        drop(log);
    }
}
