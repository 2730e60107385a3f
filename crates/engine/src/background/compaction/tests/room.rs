//! Disks with too little room for a compaction.

use super::{all, off, quiet, sstables, store, table_with, task};
use crate::background::compaction::strategy::Output;
use crate::tests::{contents, create, env_on, insert, options, wait_until, write};
use crate::{Engine, EngineError};
use env::fs::faulty::FaultyFileSystem;
use env::fs::memory::MemoryFileSystem;
use model::TableSchema;
use sstable::SsTable;
use std::sync::Arc;

/// An engine whose SSTables grow: the n-th has 50 n rows.
fn grown(table: &Arc<TableSchema>, n: i32) -> (FaultyFileSystem, Arc<Engine>) {
    let disk = FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()));
    let engine = Engine::open(quiet(options()), env_on(Arc::new(disk.clone()), 5)).unwrap();
    create(&engine, std::slice::from_ref(table));
    engine.set_auto_compaction("ks", Some("t"), false).unwrap();
    for n in 1..=n {
        for c in 0..50 * n {
            let value = format!("{}", i64::from(c).wrapping_mul(0x9e37_79b9_7f4a_7c15u64 as i64));
            write(&engine, &insert(table, c % 7, c, &value, i64::from(n))).unwrap();
        }
        engine.flush("ks", Some("t")).unwrap();
    }
    (disk, engine)
}

/// Sizes on disk, ascending.
fn sizes(engine: &Engine, table: &TableSchema) -> Vec<u64> {
    let mut sizes: Vec<u64> = store(engine, table).view().sstables.iter().map(|t| t.disk_bytes()).collect();
    sizes.sort_unstable();
    sizes
}

/// Leaves compactions room for `bytes`.
fn leave(disk: &FaultyFileSystem, bytes: u64) {
    let options = options();
    let free = (bytes as f64 / options.compaction_space_share).ceil() as u64;
    disk.set_free_bytes(Some(options.min_free_bytes + free + 1));
}

#[test]
fn the_largest_are_left_out_where_there_is_room_for_the_others() {
    let table = off("t", 0);
    let (disk, engine) = grown(&table, 4);
    let (before, by_size) = (contents(&engine, &table), sizes(&engine, &table));
    leave(&disk, by_size[0] + by_size[1]);
    engine.compact("ks", Some("t")).unwrap();
    let after = sizes(&engine, &table);
    assert_eq!((after.len(), &after[1..]), (3, &by_size[2..]), "the two smallest became one");
    assert_eq!(contents(&engine, &table), before);
    disk.set_free_bytes(None);
    engine.compact("ks", Some("t")).unwrap();
    assert_eq!((sstables(&engine, &table), contents(&engine, &table)), (1, before));
}

#[test]
fn without_room_a_compaction_does_not_begin() {
    for class in ["SizeTieredCompactionStrategy", "LeveledCompactionStrategy"] {
        let table = table_with("t", class, &[("enabled", "false")], 0);
        let (disk, engine) = grown(&table, 3);
        let by_size = sizes(&engine, &table);
        // Levels can't do without any of what was picked.
        let room =
            if class.starts_with("Level") { by_size.iter().sum::<u64>() } else { by_size[0] + by_size[1] };
        leave(&disk, room - 2);
        match engine.compact("ks", Some("t")) {
            Err(EngineError::NoRoom { sstables: 3, expected_bytes, room_bytes, .. }) => {
                assert!(expected_bytes == by_size.iter().sum::<u64>() && room_bytes < room, "{class}");
            }
            other => panic!("{class}: {other:?}"),
        }
        assert_eq!(sizes(&engine, &table), by_size);
        leave(&disk, by_size.iter().sum());
        engine.compact("ks", Some("t")).unwrap();
        assert_eq!(sstables(&engine, &table), 1, "{class}");
    }
}

#[test]
fn what_others_are_going_to_write_is_not_free() {
    let table = off("t", 0);
    let (disk, engine) = grown(&table, 4);
    let view = store(&engine, &table).view();
    let of = |from: usize, to: usize| -> Vec<Arc<SsTable>> {
        let mut tables: Vec<_> = view.sstables.iter().cloned().collect();
        tables.sort_by_key(|t| t.disk_bytes());
        tables[from..to].to_vec()
    };
    let bytes = |tables: &[Arc<SsTable>]| tables.iter().map(|t| t.disk_bytes()).sum::<u64>();
    let (mine, others) = (of(0, 2), of(2, 4));
    let running = [Arc::new(task(&engine, &table, others.clone(), Output::ONE))];
    let schema = store(&engine, &table).schema();
    let fits =
        |running: &[Arc<_>]| engine.background.with_room(&schema, mine.clone(), false, running).is_ok();
    leave(&disk, bytes(&mine) + bytes(&others) / 2);
    assert!(fits(&[]) && !fits(&running));
    let rows: u64 = others.iter().map(|t| t.data_bytes()).sum();
    running[0].completed_bytes.store(rows / 2 + rows / 10, std::sync::atomic::Ordering::Relaxed);
    assert!(fits(&running), "more than half of it is written");
    assert_eq!(all(&engine, &table).len(), 4);
}

#[test]
fn a_full_disk_is_left_to_flushes_and_the_log() {
    let table = table_with("t", "SizeTieredCompactionStrategy", &[("min_sstable_size", "1")], 0);
    let (disk, engine) = grown(&table, 4);
    let rows = contents(&engine, &table);
    leave(&disk, 100);
    engine.set_auto_compaction("ks", Some("t"), true).unwrap();
    wait_until(|| engine.compaction_counts().1 > 0);
    // The table rests: it is not tried again and again.
    engine.background.compactions.nudge();
    write(&engine, &insert(&table, 1, 1, "more", 9)).unwrap();
    engine.flush("ks", Some("t")).unwrap();
    assert_eq!((engine.compaction_counts().1, sstables(&engine, &table)), (1, 5));
    assert_eq!(contents(&engine, &table).len(), rows.len());
}
