//! The pages of SSTables that are gone, and of those that were given up before they were there, are not in
//! the page cache.

use super::early::{early_engine, early_engine_on, read_key, try_step_by_step, two_sstables, uncompressed};
use super::warmth::MODES;
use super::*;
use crate::SsTableFormat;
use crate::background::compaction::run::Outcome;
use sstable::{FileId, FilePart, PageSource, SsTable};

const COUNT: i32 = 400;

/// How many pages of these SSTables are in the cache.
fn cached(engine: &Engine, sstables: &[Arc<SsTable>]) -> usize {
    let pages = sstables.iter().flat_map(|sstable| sstable.pages());
    pages.filter(|(file, page)| engine.page_cache().has(*file, *page)).count()
}

/// How many pages of data are in the cache under this number, however many there are of it.
fn cached_data(engine: &Engine, number: u64) -> usize {
    let file = FileId { sstable: number, part: FilePart::Data };
    (0..10_000).filter(|page| engine.page_cache().has(file, *page)).count()
}

/// Puts so much else into the cache that pages are found by their keys and not by going over everything.
fn crowd(engine: &Engine) {
    let file = FileId { sstable: u64::MAX, part: FilePart::Data };
    (0..5_000).for_each(|page| engine.page_cache().keep(file, page, b"", 1));
}

fn read_all(engine: &Engine, table: &Arc<TableSchema>) {
    (0..COUNT).for_each(|k| drop(read_key(engine, table, k)));
}

fn drop_table(engine: &Engine, table: &Arc<TableSchema>) {
    let mut keyspace = engine.schema().keyspace("ks").unwrap().as_ref().clone();
    keyspace.tables.retain(|name, _| *name != table.name);
    engine.install_schema(engine.schema().with_keyspace(keyspace)).unwrap();
}

#[test]
fn what_is_compacted_truncated_or_dropped_leaves_the_cache() {
    let ends: [fn(&Engine, &Arc<TableSchema>); 3] = [
        |engine, table| run(engine, table, all(engine, table)),
        |engine, table| engine.truncate("ks", &table.name).unwrap(),
        drop_table,
    ];
    for (mode, format) in MODES {
        for (nth, end) in ends.iter().enumerate() {
            let (fs, table, other) = (MemoryFileSystem::new(), uncompressed("t"), uncompressed("other"));
            let engine = early_engine(&fs, u64::MAX, mode, format);
            create(&engine, &[&table, &other]);
            two_sstables(&engine, &table, COUNT);
            two_sstables(&engine, &other, COUNT);
            read_all(&engine, &table);
            read_all(&engine, &other);
            crowd(&engine);
            let (gone, others) = (all(&engine, &table), all(&engine, &other));
            let before = cached(&engine, &others);
            let what = format!("{mode:?} {format:?} {nth}");
            for part in [FilePart::Data, FilePart::Index] {
                let pages = gone.iter().flat_map(|t| t.pages()).filter(|(file, _)| file.part == part);
                let mut here = pages.filter(|(file, page)| engine.page_cache().has(*file, *page));
                // A trie of so few keys is one page, which is kept elsewhere.
                let is_small = part == FilePart::Index && format == SsTableFormat::Bti;
                assert!(is_small || here.next().is_some(), "{what}: no page of {part:?}");
            }
            end(&engine, &table);
            assert_eq!((cached(&engine, &gone), cached(&engine, &others)), (0, before), "{what}");
            assert!(before > 10, "{what}: {before}");
            engine.close();
        }
    }
}

/// Compacts a table all of whose pages are in the cache; `end` is called once when pages of the output are
/// there, too. With what became of it, what it opened last.
fn interrupted(
    engine: &Engine,
    table: &Arc<TableSchema>,
    end: impl FnOnce(&Task),
) -> (Result<Outcome, crate::EngineError>, Arc<SsTable>) {
    let task = task(engine, table, all(engine, table), Output::ONE);
    let (mut end, mut opened) = (Some(end), None);
    let result = try_step_by_step(engine, &task, || {
        let early = engine.table(table.id).and_then(|store| store.view().early.first().cloned());
        if let Some(latest) = early.and_then(|early| early.outputs.last().cloned()) {
            // Afterwards nobody reads, who might bring a page back that has just left.
            if end.is_some() {
                read_all(engine, table);
            }
            if cached(engine, std::slice::from_ref(&latest)) > 2
                && let Some(end) = end.take()
            {
                end(&task);
            }
            opened = Some(latest);
        }
    });
    assert!(end.is_none(), "nothing of the output was read");
    (result, opened.unwrap())
}

#[test]
fn what_a_compaction_wrote_leaves_the_cache_when_that_is_given_up() {
    for (mode, format) in MODES {
        for nth in 0..5 {
            let faulty = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
            let engine = early_engine_on(Arc::new(faulty.clone()), 20_000, mode, format);
            let table = uncompressed("t");
            create(&engine, std::slice::from_ref(&table));
            two_sstables(&engine, &table, COUNT);
            read_all(&engine, &table);
            crowd(&engine);
            let inputs = all(&engine, &table);
            let before = cached(&engine, &inputs);
            let (result, opened) = interrupted(&engine, &table, |task| match nth {
                0 => task.cancelled.store(true, std::sync::atomic::Ordering::Relaxed),
                1 => drop(faulty.add(Fault::on_any_change().path("/ks/"))),
                // When it has written everything.
                2 => drop(faulty.add(Fault::on(Op::Sync).path("_txn_compaction"))),
                3 => engine.truncate("ks", "t").unwrap(),
                _ => drop_table(&engine, &table),
            });
            let what = format!("{mode:?} {format:?} {nth}, {result:?}");
            assert_eq!(result.is_err(), (1..=2).contains(&nth), "{what}");
            assert!(result.is_err() || matches!(result, Ok(Outcome::Abandoned)), "{what}");
            let of_output =
                cached(&engine, std::slice::from_ref(&opened)) + cached_data(&engine, opened.number());
            assert_eq!(of_output, 0, "{what}");
            assert_eq!(cached(&engine, &inputs), if nth < 3 { before } else { 0 }, "{what}");
            engine.close();
        }
    }
}

#[test]
fn a_flush_that_fails_leaves_nothing_in_the_cache() {
    for format in [SsTableFormat::Big, SsTableFormat::Bti] {
        let faulty = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
        let fs = Arc::new(faulty.clone());
        let engine = early_engine_on(fs, u64::MAX, StorageCompatibility::None, format);
        let table = uncompressed("t");
        create(&engine, std::slice::from_ref(&table));
        for k in 0..COUNT {
            write(&engine, &insert(&table, k, 0, &"x".repeat(400), 1)).unwrap();
        }
        crowd(&engine);
        let (mut warmed, mut calls, mut last_fault) = (0, 0, None);
        loop {
            // The engine's own threads try again meanwhile, and fail as well.
            let fault = faulty.add(Fault::on_any_change().path("/ks/").after(calls));
            last_fault.replace(fault).into_iter().for_each(|fault| faulty.remove(fault));
            read_key(&engine, &table, 1);
            let before = engine.stats().page_cache;
            if engine.flush("ks", None).is_ok() {
                break;
            }
            let after = engine.stats().page_cache;
            assert_eq!(after.entries, before.entries, "{format:?}, after {calls} calls");
            warmed += after.insertions - before.insertions;
            calls += 3;
        }
        assert!(warmed > 0, "{format:?}: nothing was warmed before a failure");
        engine.close();
    }
}
