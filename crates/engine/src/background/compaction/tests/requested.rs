//! Compactions that operators ask for, and what they set.

use super::*;
use crate::background::compaction::{CompactionRequest, Thresholds};
use model::Token;
use model::key::{KeyBound, KeyRange};
use sstable::SsTable;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

fn sstables(engine: &Engine, table: &TableSchema) -> Vec<Arc<SsTable>> {
    store(engine, table).view().sstables.to_vec()
}

fn files(sstables: &[Arc<SsTable>]) -> Vec<PathBuf> {
    sstables.iter().map(|t| t.descriptor().path(Component::Data)).collect()
}

fn rewrite(all: bool, older_than_ms: Option<i64>) -> CompactionRequest {
    CompactionRequest::Rewrite { all, older_than_ms, kind: CompactionKind::Upgrade }
}

/// One SSTable for each of these partitions.
fn one_each(engine: &Engine, table: &Arc<TableSchema>, keys: std::ops::Range<i32>) {
    for k in keys {
        write(engine, &insert(table, k, 0, "value", 1)).unwrap();
        engine.flush("ks", None).unwrap();
    }
}

fn from(token: i64) -> KeyRange {
    let start = KeyBound::Token { token: Token(token), inclusive: true };
    KeyRange { start, end: KeyBound::Unbounded }
}

#[test]
fn a_range_compacts_the_sstables_that_reach_into_it() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 864_000));
    let engine = open(&fs, &table);
    one_each(&engine, &table, 0..6);
    let before = contents(&engine, &table);
    let mut tokens: Vec<i64> = (0..6).map(|k| key(k).token.0).collect();
    tokens.sort_unstable();
    let request = CompactionRequest::Ranges(vec![from(tokens[2])]);
    engine.compact_as("ks", Some("t"), &request).unwrap();
    let left = sstables(&engine, &table);
    assert_eq!(left.len(), 3, "two were left alone, and four became one");
    assert_eq!(left.iter().map(|t| t.estimated_partitions()).max(), Some(4));
    assert_eq!(contents(&engine, &table), before);
}

#[test]
fn named_files_are_compacted_and_no_others() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 864_000));
    let engine = open(&fs, &table);
    one_each(&engine, &table, 0..4);
    let (before, all) = (contents(&engine, &table), files(&sstables(&engine, &table)));
    assert!(engine.table_of_file(&all[0]).is_some_and(|t| t.schema().name == "t"));
    assert!(engine.table_of_file(&all[0].with_extension("x")).is_none());
    let request = CompactionRequest::Files(all[1..3].to_vec());
    engine.compact_as("ks", Some("t"), &request).unwrap();
    let left = files(&sstables(&engine, &table));
    assert!(left.len() == 3 && left.contains(&all[0]) && left.contains(&all[3]), "{left:?}");
    assert_eq!(contents(&engine, &table), before);
}

#[test]
fn some_of_a_table_with_levels_go_to_the_lowest_and_one_stays_in_its_own() {
    let fs = MemoryFileSystem::new();
    let pairs = [("sstable_size_in_mb", "1"), ("enabled", "false")];
    let table = table_with("t", "LeveledCompactionStrategy", &pairs, 864_000);
    let engine = open(&fs, &table);
    one_each(&engine, &table, 0..3);
    engine.compact("ks", Some("t")).unwrap();
    one_each(&engine, &table, 3..6);
    let levels = |engine: &Engine| -> Vec<i32> {
        let mut levels: Vec<i32> = sstables(engine, &table).iter().map(|t| t.stats().level).collect();
        levels.sort_unstable();
        levels
    };
    assert_eq!(levels(&engine), [0, 0, 0, 1]);
    let all = files(&sstables(&engine, &table));
    engine.compact_as("ks", Some("t"), &rewrite(true, None)).unwrap();
    assert_eq!(levels(&engine), [0, 0, 0, 1]);
    assert!(files(&sstables(&engine, &table)).iter().all(|file| !all.contains(file)));
    let before = contents(&engine, &table);
    engine.compact_as("ks", Some("t"), &CompactionRequest::Ranges(vec![KeyRange::FULL])).unwrap();
    assert_eq!((levels(&engine), contents(&engine, &table)), (vec![0], before));
}

#[test]
fn sstables_of_the_newest_version_are_written_anew_when_all_are_to_be() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 864_000));
    let engine = open(&fs, &table);
    one_each(&engine, &table, 0..3);
    let (before, all) = (contents(&engine, &table), files(&sstables(&engine, &table)));
    for (all_of_them, older_than_ms, stay) in [(false, None, 3), (true, Some(i64::MIN), 3), (true, None, 0)] {
        let request = rewrite(all_of_them, older_than_ms);
        engine.compact_as("ks", Some("t"), &request).unwrap();
        let now = files(&sstables(&engine, &table));
        assert_eq!((now.len(), now.iter().filter(|file| all.contains(file)).count()), (3, stay));
    }
    assert_eq!(contents(&engine, &table), before);
}

#[test]
fn sstables_of_another_version_are_written_anew() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 864_000));
    let engine = open(&fs, &table);
    one_each(&engine, &table, 0..2);
    let before = contents(&engine, &table);
    engine.drain().unwrap();
    engine.close();
    let newer = EngineOptions { storage_compatibility: StorageCompatibility::None, ..quiet(options()) };
    let engine = Engine::open(newer, env_on(Arc::new(fs.clone()), 6)).unwrap();
    let versions = |engine: &Engine| -> Vec<bool> {
        let is_newest = |t: &Arc<SsTable>| t.descriptor().version == engine.sstable_version();
        sstables(engine, &table).iter().map(is_newest).collect()
    };
    assert_eq!(versions(&engine), [false, false]);
    let request = rewrite(false, None);
    engine.compact_as("ks", Some("t"), &request).unwrap();
    assert_eq!(versions(&engine), [true, true]);
    assert_eq!(contents(&engine, &table), before);
}

#[test]
fn thresholds_that_are_set_decide_what_is_picked() {
    let fs = MemoryFileSystem::new();
    let table = table_with("t", "SizeTieredCompactionStrategy", &[("min_threshold", "6")], 864_000);
    let engine = open(&fs, &table);
    let of = |engine: &Engine| engine.compaction_thresholds("ks", "t").unwrap();
    assert_eq!(of(&engine), Thresholds { min: 6, max: 32 });
    one_each(&engine, &table, 0..3);
    assert!(engine.pending_compactions().iter().all(|(t, _)| t.schema().name != "t"));
    let set = Thresholds { min: 3, max: 8 };
    engine.set_compaction_thresholds("ks", "t", set).unwrap();
    assert_eq!(of(&engine), set);
    wait_until(|| sstables(&engine, &table).len() == 1);
    assert!(engine.set_compaction_thresholds("ks", "nope", set).is_err());
    engine.close();
    assert_eq!(of(&open(&fs, &table)), Thresholds { min: 6, max: 32 });
}

#[test]
fn compactors_are_as_many_as_they_are_set_to() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 864_000));
    let engine = open(&fs, &table);
    assert_eq!(engine.concurrent_compactors(), 2);
    engine.set_concurrent_compactors(5).unwrap();
    assert_eq!(*engine.background.compactions.threads.lock(), 5);
    engine.set_concurrent_compactors(1).unwrap();
    assert_eq!(engine.concurrent_compactors(), 1);
    assert_eq!(*engine.background.compactions.threads.lock(), 5);
    assert!(engine.auto_compaction("system", "local").unwrap());
    assert!(!engine.auto_compaction("ks", "t").unwrap(), "its options say so");
    engine.set_auto_compaction("system", Some("local"), false).unwrap();
    assert!(!engine.auto_compaction("system", "local").unwrap());
}

#[test]
fn who_switches_compaction_on_counts_more_than_the_options() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", 864_000));
    let engine = open(&fs, &table);
    one_each(&engine, &table, 0..4);
    assert_eq!(sstables(&engine, &table).len(), 4);
    engine.set_auto_compaction("ks", Some("t"), true).unwrap();
    assert!(engine.auto_compaction("ks", "t").unwrap());
    wait_until(|| sstables(&engine, &table).len() == 1);
    assert_eq!(contents(&engine, &table).len(), 4);
    engine.set_auto_compaction("ks", Some("t"), false).unwrap();
    assert!(!engine.auto_compaction("ks", "t").unwrap());
}

#[test]
fn halves_end_where_they_are_small() {
    let output = Output { sstable_bytes: 400 << 20, halves: true, ..Output::ONE };
    assert_eq!(
        [0, 1, 2, 3, 70].map(|n| output.bytes_of(n)),
        [200 << 20, 100 << 20, 50 << 20, u64::MAX, u64::MAX]
    );
    assert_eq!(Output { sstable_bytes: 7, ..Output::ONE }.bytes_of(3), 7);
}

#[test]
fn no_more_compactions_begin_than_may_run_at_once() {
    let fs = MemoryFileSystem::new();
    let tables = ["t", "u", "w"].map(|name| table_with(name, "SizeTieredCompactionStrategy", &[], 864_000));
    let engine = Engine::open(quiet(options()), env_on(Arc::new(fs), 5)).unwrap();
    create(&engine, &tables);
    let compactions = &engine.background.compactions;
    // The threads of the engine find nothing that they may do.
    compactions.concurrent.store(0, Ordering::SeqCst);
    for table in &tables {
        one_each(&engine, table, 0..4);
    }
    for (concurrent, begins) in [(0, false), (1, true), (1, false), (2, true), (2, false)] {
        compactions.concurrent.store(concurrent, Ordering::SeqCst);
        let task = compactions.next_task(&engine.background);
        compactions.concurrent.store(0, Ordering::SeqCst);
        assert_eq!(task.is_some(), begins, "{concurrent}");
    }
}
