//! The directories of Index.db's intervals: found through them, and found without them.

use super::support::*;
use crate::{Component, FilePart, SsTable};
use env::fs::FileSystem;
use model::command::ClusteringFilter;
use model::{CqlType, DecoratedKey, Deletion, TableSchema};
use partition::ReadContext;
use std::sync::Arc;
use uuid::Uuid;

const KEYS: u32 = 1_000;

fn directories(kept: &Kept) -> usize {
    kept.pages().filter(|(file, _)| file.part == FilePart::IndexDirectory).count()
}

fn table() -> Arc<TableSchema> {
    let builder = TableSchema::builder("ks", "t", Uuid::from_u128(1)).partition_key("k", CqlType::Int);
    Arc::new(builder.regular("v", CqlType::Int).build())
}

/// An SSTable of deleted partitions, a summary of eight intervals.
fn written() -> (Arc<dyn FileSystem>, Arc<TableSchema>) {
    let (fs, table) = (memory(), table());
    let mut keys: Vec<DecoratedKey> = (0..KEYS).map(key).collect();
    keys.sort();
    let of = |key| Partition { key, deletion: Deletion::new(1, 2), static_row: None, items: Vec::new() };
    let partitions: Vec<Partition> = keys.into_iter().map(of).collect();
    let mut options = options(&partitions, None, 4096);
    options.min_index_interval = 128;
    write(&fs, &table, &partitions, options).unwrap();
    (fs, table)
}

fn open_kept(fs: &Arc<dyn FileSystem>) -> (Arc<SsTable>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let sstable = SsTable::open(fs.as_ref(), &descriptor(1), 1, Arc::clone(&kept) as _).unwrap();
    (Arc::new(sstable), kept)
}

fn read(sstable: &Arc<SsTable>, table: &Arc<TableSchema>, key: &DecoratedKey, context: &ReadContext) -> bool {
    sstable.read(key, &ClusteringFilter::all(), &all(table), table, context).unwrap().is_some()
}

#[test]
fn every_key_is_found_and_no_other() {
    let (fs, table) = written();
    let (sstable, kept) = open_kept(&fs);
    for i in 0..KEYS * 2 {
        assert_eq!(read(&sstable, &table, &key(i), &context()), i < KEYS, "{i}");
    }
    assert_eq!(directories(&kept), 8);
}

#[test]
fn a_key_in_a_known_interval_costs_its_directory_and_no_page_of_the_index() {
    let (fs, table) = written();
    let (sstable, _) = open_kept(&fs);
    assert!((0..KEYS).all(|i| read(&sstable, &table, &key(i), &context())));
    let pages: Vec<u64> = (0..KEYS)
        .map(|i| {
            let context = context();
            assert!(read(&sstable, &table, &key(i), &context));
            let cost = context.cost.snapshot();
            assert_eq!(cost.index_page_misses, 0);
            cost.index_page_hits
        })
        .collect();
    assert!(pages.iter().all(|pages| *pages == 1), "{pages:?}");
}

#[test]
fn damage_behind_a_key_does_not_hide_it() {
    let (fs, table) = written();
    let path = descriptor(1).path(Component::Index);
    let mut bytes = fs.read(&path).unwrap();
    // The first interval's second entry claims a promoted index as long as the file.
    let entry = 2 + 4 + 1 + 1;
    bytes[entry + 6 + 1] = 0xc0 | 0x0f;
    fs.write(&path, &bytes).unwrap();
    let (sstable, _) = open_kept(&fs);
    let first = sstable.first_key().clone();
    assert!(read(&sstable, &table, &first, &context()));
}
