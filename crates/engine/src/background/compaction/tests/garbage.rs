//! What other SSTables shadow goes, and nothing that anybody could see.

use super::*;
use crate::background::compaction::CompactionRequest;
use crate::tests::history::with_tries;
use crate::{SsTableFormat, WriteOptions};
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use partition::{Garbage, ReadContext};
use std::cell::Cell as Counted;
use testkit::source::NOW_S;
use testkit::source::grammar;
use testkit::source::history::History;
use testkit::{SourceReader, check_source};

const LEVELS: [Garbage; 2] = [Garbage::Rows, Garbage::Cells];

fn collect(engine: &Engine, table: &TableSchema, garbage: Garbage) {
    engine.compact_as(&table.keyspace, Some(&table.name), &CompactionRequest::Garbage(garbage)).unwrap();
}

/// A table that is compacted only when a test asks for it, and forgets tombstones after so many seconds.
fn still(table: &TableSchema, gc_grace_s: i32) -> Arc<TableSchema> {
    let mut options = table.options.clone();
    options.gc_grace_seconds = gc_grace_s;
    options.compaction.options.insert("enabled".to_owned(), "false".to_owned());
    Arc::new(table.to_builder().options(options).build())
}

fn apply(engine: &Engine, update: &PartitionUpdate) {
    engine.apply(&Mutation::of(update.clone()), WriteOptions::default()).unwrap().wait().unwrap();
}

fn data_bytes(engine: &Engine, table: &TableSchema) -> u64 {
    store(engine, table).view().sstables.iter().map(|t| t.data_bytes()).sum()
}

/// While no tombstone is old enough to go, a table says the same of every position, deletions included.
#[test]
fn a_table_without_its_garbage_is_the_same_source() {
    for options in [options(), with_tries()] {
        let (histories, dropped) = (Counted::new(0), Counted::new(0));
        check_source(|table, updates| {
            let random = Random::from_seed(histories.replace(histories.get() + 1));
            let engine = Engine::open(options.clone(), env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
            create(&engine, &[still(table, i32::MAX)]);
            for update in updates {
                apply(&engine, update);
                if random.below(4) == 0 {
                    engine.flush(&table.keyspace, None).unwrap();
                }
                if random.below(10) == 0 {
                    collect(&engine, table, LEVELS[random.below(2) as usize]);
                }
            }
            engine.flush(&table.keyspace, None).unwrap();
            let before = data_bytes(&engine, table);
            collect(&engine, table, LEVELS[random.below(2) as usize]);
            dropped.set(dropped.get() + before - data_bytes(&engine, table));
            let reader: SourceReader =
                Box::new(move |command| engine.read(command, &ReadContext::default()).unwrap());
            reader
        });
        assert!(dropped.get() > 1_000, "there was no garbage: {} bytes", dropped.get());
    }
}

/// What a client sees: the static row and the rows of each partition that live, with their live cells.
fn seen(engine: &Engine, table: &Arc<TableSchema>, now_s: u32) -> Vec<String> {
    let command = ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Range(KeyRange::FULL),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s,
    };
    let stream = engine.read(&command, &ReadContext::default()).unwrap();
    let mut out = Vec::new();
    for partition in grammar::collect(&command, stream, "seen") {
        let rows = partition.rows.into_iter().map(|(row, _)| row);
        for row in partition.static_row.into_iter().chain(rows) {
            let cells: Vec<_> = row.cells.iter().filter(|cell| cell.is_live(now_s)).collect();
            let lives = row.liveness.is_live(now_s);
            if lives || !cells.is_empty() {
                out.push(format!("{:?} {:?} {lives} {cells:?}", partition.key, row.clustering));
            }
        }
    }
    out
}

/// Tombstones that are old enough go as soon as nothing is left for them to shadow.
#[test]
fn tombstones_go_and_bring_nothing_back() {
    let mut fewer = 0;
    for seed in 0..120 {
        let mut history = History::new(seed);
        let random = Random::from_seed(seed);
        let table = still(&history.table(), 0);
        let now_s = NOW_S + random.below(5) as u32 - 2;
        let clock = Arc::new(ManualClock::at_micros(i64::from(now_s) * 1_000_000));
        let files = Arc::new(MemoryFileSystem::new());
        let env = env::Env::new(clock, Arc::new(Random::from_seed(seed)), files);
        let format = [SsTableFormat::Big, SsTableFormat::Bti][random.below(2) as usize];
        let options = EngineOptions { sstable_format: format, ..with_tries() };
        let engine = Engine::open(quiet(options), env).unwrap();
        create(&engine, std::slice::from_ref(&table));
        for update in history.updates() {
            let update = PartitionUpdate { table: Arc::clone(&table), ..update };
            apply(&engine, &update);
            match random.below(6) {
                0 | 1 => engine.flush(&table.keyspace, None).unwrap(),
                2 => {
                    let (before, bytes) = (seen(&engine, &table, now_s), data_bytes(&engine, &table));
                    match random.below(3) {
                        0 => {
                            let keys = (0..3).map(key).collect();
                            let request = CompactionRequest::Keys(keys);
                            engine.compact_as(&table.keyspace, Some(&table.name), &request).unwrap();
                        }
                        level => collect(&engine, &table, LEVELS[level as usize - 1]),
                    }
                    assert_eq!(seen(&engine, &table, now_s), before, "seed {seed}");
                    fewer += usize::from(data_bytes(&engine, &table) < bytes);
                }
                _ => {}
            }
        }
        engine.close();
    }
    assert!(fewer > 50, "{fewer}");
}

/// Row 1 in the first SSTable is deleted by the second, row 2 is overwritten there.
fn deleted_and_overwritten(engine: &Engine, table: &Arc<TableSchema>) {
    for c in 1..=3 {
        write(engine, &insert(table, 0, c, "first", 10)).unwrap();
    }
    engine.flush("ks", None).unwrap();
    write(engine, &delete_row(table, 0, 1, 20, 1)).unwrap();
    write(engine, &insert(table, 0, 2, "second", 20)).unwrap();
    engine.flush("ks", None).unwrap();
}

/// The rows in each SSTable, those that were written first first.
fn rows_each(engine: &Engine, table: &TableSchema) -> Vec<i64> {
    let view = store(engine, table).view();
    let mut found: Vec<_> =
        view.sstables.iter().map(|t| (t.stats().max_timestamp, t.stats().total_rows)).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, rows)| rows).collect()
}

#[test]
fn each_sstable_is_written_alone_without_what_newer_ones_shadow() {
    for (garbage, left) in [(Garbage::Rows, [2, 2]), (Garbage::Cells, [1, 2])] {
        let (fs, table) = (MemoryFileSystem::new(), off("t", 864_000));
        let engine = open(&fs, &table);
        deleted_and_overwritten(&engine, &table);
        let before = contents(&engine, &table);
        collect(&engine, &table, garbage);
        assert_eq!(rows_each(&engine, &table), left);
        assert_eq!(contents(&engine, &table), before);
        assert_eq!(engine.compaction_counts(), (2, 0));
    }
}

#[test]
fn with_only_purge_repaired_tombstones_what_was_not_repaired_stays() {
    let pairs = [("enabled", "false"), ("only_purge_repaired_tombstones", "true")];
    let (fs, table) = (MemoryFileSystem::new(), table_with("t", "SizeTieredCompactionStrategy", &pairs, 0));
    let engine = open(&fs, &table);
    deleted_and_overwritten(&engine, &table);
    collect(&engine, &table, Garbage::Cells);
    assert_eq!((rows_each(&engine, &table), engine.compaction_counts()), (vec![3, 2], (0, 0)));
}

#[test]
fn young_tombstones_of_named_partitions_go_and_others_stay() {
    let (fs, table) = (MemoryFileSystem::new(), off("t", i32::MAX));
    let engine = open(&fs, &table);
    let tombstones = |engine: &Engine| {
        let view = store(engine, &table).view();
        view.sstables.iter().map(|t| t.stats().tombstones.count_until(u32::MAX)).sum::<u64>()
    };
    for k in 0..3 {
        write(&engine, &delete_row(&table, k, 1, 20, 1)).unwrap();
    }
    engine.flush("ks", None).unwrap();
    let of = |k: i32| CompactionRequest::Keys(vec![key(k)]);
    engine.compact_as("ks", Some("t"), &of(7)).unwrap();
    assert_eq!((tombstones(&engine), engine.compaction_counts()), (3, (0, 0)), "nothing has that key");
    // What is in memory is not flushed, and may be older.
    write(&engine, &insert(&table, 1, 1, "older", 10)).unwrap();
    engine.compact_as("ks", Some("t"), &CompactionRequest::Keys(vec![key(0), key(1)])).unwrap();
    assert_eq!(tombstones(&engine), 3);
    engine.flush("ks", None).unwrap();
    engine.compact_as("ks", Some("t"), &of(1)).unwrap();
    assert_eq!((tombstones(&engine), contents(&engine, &table)), (2, BTreeMap::new()));
    engine.compact_as("ks", Some("t"), &CompactionRequest::Keys(vec![key(0), key(2)])).unwrap();
    assert_eq!((tombstones(&engine), sstables(&engine, &table)), (0, 0));
}
