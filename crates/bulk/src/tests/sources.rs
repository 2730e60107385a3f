//! What scans read, held to the rules of everything that yields partitions.

use super::running::engine_on;
use crate::Source;
use engine::{Engine, WriteOptions};
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::{Mutation, PartitionUpdate, TableSchema};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::{SourceReader, check_source};

/// An engine with a history, some of it flushed and compacted.
fn lived(table: &Arc<TableSchema>, updates: &[PartitionUpdate], random: &Random) -> Arc<Engine> {
    let engine = engine_on(Arc::new(MemoryFileSystem::new()), table);
    for update in updates {
        let _ = engine.apply(&Mutation::of(update.clone()), WriteOptions::default()).unwrap();
        match random.below(10) {
            0 | 1 => engine.flush(&table.keyspace, None).unwrap(),
            2 => engine.compact(&table.keyspace, None).unwrap(),
            _ => {}
        }
    }
    engine
}

#[test]
fn a_held_table_is_a_source_whatever_becomes_of_it() {
    let histories = AtomicU64::new(0);
    check_source(|table, updates| {
        let random = Random::from_seed(histories.fetch_add(1, Ordering::SeqCst));
        let engine = lived(table, updates, &random);
        let source = Source::of_node(engine.table(table.id).unwrap().hold());
        // What is held stays, though it is written elsewhere, and though it goes.
        match random.below(3) {
            0 => engine.flush(&table.keyspace, None).unwrap(),
            1 => {
                engine.flush(&table.keyspace, None).unwrap();
                engine.compact(&table.keyspace, None).unwrap();
            }
            _ => {
                let mut schema = engine.schema().as_ref().clone();
                schema.keyspaces.remove(&table.keyspace);
                engine.install_schema(schema).unwrap();
            }
        }
        let reader: SourceReader = Box::new(move |command| {
            let _ = &engine;
            source.partitions(command, false)
        });
        reader
    });
}

#[test]
fn sstables_that_no_node_has_open_are_a_source_also_where_damage_is_left_out() {
    for salvages in [false, true] {
        let histories = AtomicU64::new(0);
        check_source(|table, updates| {
            let random = Random::from_seed(histories.fetch_add(1, Ordering::SeqCst));
            let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
            let engine = engine_on(Arc::clone(&fs), table);
            for update in updates {
                let _ = engine.apply(&Mutation::of(update.clone()), WriteOptions::default()).unwrap();
                if random.below(6) == 0 {
                    engine.flush(&table.keyspace, None).unwrap();
                }
            }
            engine.flush(&table.keyspace, None).unwrap();
            // Compactions go on until then.
            engine.close();
            let store = engine.table(table.id).unwrap();
            let found: Vec<_> =
                store.view().sstables.iter().map(|sstable| sstable.descriptor().clone()).collect();
            let source = Source::of_sstables(&fs, &found, table).unwrap();
            let reader: SourceReader = Box::new(move |command| source.partitions(command, salvages));
            reader
        });
    }
}
