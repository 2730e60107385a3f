//! Transactions: what a crash at any moment leaves, and what recovery makes of it.

use super::support::*;
use crate::descriptor::list;
use crate::txn_log::{Operation, RecordKind, RecoverError, TxnLog, parse, recover};
use crate::{Component, SsTableId, SsTableWriter};
use env::fs::FileSystem;
use env::fs::faulty::FaultyFileSystem;
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
                let mut log =
                    TxnLog::create(world.fs.clone(), directory, Operation::Compaction, Uuid::from_u128(7))?;
                log.add(&descriptor(2))?;
                if stop == 0 {
                    return Ok(false);
                }
                world.write(2);
                log.remove(&descriptor(1))?;
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

#[test]
fn an_abort_removes_what_was_added() {
    let world = world();
    world.write(1);
    let mut log =
        TxnLog::create(world.fs.clone(), Path::new(DIR), Operation::Flush, Uuid::from_u128(8)).unwrap();
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
    let mut log = TxnLog::create(fs, Path::new(DIR), Operation::Flush, Uuid::from_u128(8)).unwrap();
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
    let mut log =
        TxnLog::create(world.fs.clone(), Path::new(DIR), Operation::Compaction, Uuid::from_u128(9)).unwrap();
    log.remove(&descriptor(1)).unwrap();
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
