//! Tables held for reading in parts.

use super::history::with_tries;
use super::*;
use crate::table::HeldTable;
use env::fs::memory::MemoryFileSystem;
use model::key::KeyBound;
use std::collections::BTreeSet;

const PARTITIONS: i32 = 400;

/// The keys of a range, as often as they come.
fn keys_in(held: &HeldTable, table: &Arc<TableSchema>, range: &KeyRange) -> Vec<i32> {
    let command = ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Range(range.clone()),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
    };
    let mut stream = held.read(&command, &ReadContext::default()).unwrap();
    let (mut fragment, mut out) = (Fragment::default(), Vec::new());
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::End => return out,
            Event::Row => out.push(i32::from_be_bytes(fragment.key.key.0.as_ref().try_into().unwrap())),
            _ => {}
        }
    }
}

/// A table of 400 partitions in four SSTables and a memtable; partition `large` has a hundred times as much.
fn filled(options: crate::EngineOptions, large: Option<i32>) -> (Arc<Engine>, Arc<TableSchema>) {
    let engine = Engine::open(options, env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
    let table = simple_table("t");
    create(&engine, &[&table]);
    for k in 0..PARTITIONS {
        let value = "x".repeat(if Some(k) == large { 20_000 } else { 200 });
        write(&engine, &insert(&table, k, 0, &value, 1)).unwrap();
        if k % 90 == 89 {
            engine.flush("ks", Some("t")).unwrap();
        }
    }
    (engine, table)
}

#[test]
fn the_parts_of_a_held_table_have_each_row_once_whatever_happens_to_it() {
    for options in [options(), with_tries()] {
        let (engine, table) = filled(options, None);
        let held = engine.table(table.id).unwrap().hold();
        let parts = held.splits(&KeyRange::FULL, 16, &ReadContext::default()).unwrap();
        assert_eq!(parts.len(), 16);
        engine.flush("ks", Some("t")).unwrap();
        engine.compact("ks", Some("t")).unwrap();
        engine.truncate("ks", "t").unwrap();
        write(&engine, &insert(&table, 7_777, 0, "later", 9)).unwrap();
        let found: Vec<Vec<i32>> = parts.iter().map(|range| keys_in(&held, &table, range)).collect();
        for (part, keys) in found.iter().enumerate() {
            // The last forty are in the memtable, which has no part in the sizes.
            assert!((12..50).contains(&keys.len()), "part {part} has {} partitions", keys.len());
        }
        let mut all: Vec<i32> = found.concat();
        all.sort_unstable();
        assert_eq!(all, (0..PARTITIONS).collect::<Vec<_>>());
        engine.close();
    }
}

#[test]
fn parts_are_parts_of_what_was_asked_for() {
    let (engine, table) = filled(options(), None);
    let held = engine.table(table.id).unwrap().hold();
    let whole = KeyRange {
        start: KeyBound::Token { token: model::Token(-(1 << 62)), inclusive: false },
        end: KeyBound::Key { key: key(17), inclusive: true },
    };
    let parts = held.splits(&whole, 5, &ReadContext::default()).unwrap();
    assert_eq!((&parts[0].start, &parts[parts.len() - 1].end), (&whole.start, &whole.end));
    let of_parts: Vec<i32> = parts.iter().flat_map(|part| keys_in(&held, &table, part)).collect();
    assert_eq!(of_parts, keys_in(&held, &table, &whole));
    assert!(of_parts.len() > 20, "{} partitions", of_parts.len());
    engine.close();
}

#[test]
fn a_partition_that_holds_nearly_everything_is_one_part() {
    let (engine, table) = filled(options(), Some(11));
    let held = engine.table(table.id).unwrap().hold();
    let parts = held.splits(&KeyRange::FULL, 64, &ReadContext::default()).unwrap();
    let of: Vec<BTreeSet<i32>> =
        parts.iter().map(|part| keys_in(&held, &table, part).into_iter().collect()).collect();
    assert_eq!(of.iter().map(BTreeSet::len).sum::<usize>(), PARTITIONS as usize);
    let with_large = of.iter().find(|keys| keys.contains(&11)).unwrap();
    assert!(with_large.len() < 20, "{} partitions beside the large one", with_large.len());
    engine.close();
}

#[test]
fn a_table_without_sstables_is_one_part() {
    let engine = Engine::open(options(), env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
    let table = simple_table("t");
    create(&engine, &[&table]);
    write(&engine, &insert(&table, 1, 1, "one", 1)).unwrap();
    let held = engine.table(table.id).unwrap().hold();
    let parts = held.splits(&KeyRange::FULL, 8, &ReadContext::default()).unwrap();
    assert_eq!(parts, [KeyRange::FULL]);
    assert_eq!(keys_in(&held, &table, &parts[0]), [1]);
    engine.close();
}
