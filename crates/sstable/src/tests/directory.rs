//! The directories of Index.db's intervals: found through them, and found without them.

use super::support::*;
use crate::{Component, FilePart, SsTable, Version};
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
fn a_key_in_a_known_interval_costs_one_page() {
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

/// Their entries in the index are longer than two pages: each is a sample, of the summary or of the proof.
#[test]
fn large_partitions_are_found_without_the_entries_before_them() {
    const PARTITIONS: u32 = 100;
    let (table, partitions) = super::reading::numbered(800, 25);
    let mut keys: Vec<DecoratedKey> = (0..PARTITIONS).map(key).collect();
    keys.sort();
    let partitions: Vec<Partition> =
        keys.iter().map(|key| Partition { key: key.clone(), ..partitions[0].clone() }).collect();
    let fs = memory();
    let mut options = options(&partitions, None, 64);
    options.min_index_interval = 128;
    write(&fs, &table, &partitions, options).unwrap();
    assert!(fs.file_len(&descriptor(1).path(Component::Index)).unwrap() > u64::from(PARTITIONS) * (8 << 10));
    let (sstable, kept) = open_kept(&fs);
    for (n, key) in keys.iter().enumerate() {
        let context = context();
        let name = super::reading::names([n as u64 * 3], false);
        let mut found = sstable.read(key, &name, &all(&table), &table, &context).unwrap().unwrap();
        assert_eq!(collect(&mut found, &table, false).unwrap()[0].items.len(), 1);
        let cost = context.cost.snapshot();
        let pages = cost.index_page_hits + cost.index_page_misses;
        assert!(pages <= 6, "{n}: {cost:?}");
    }
    assert_eq!(directories(&kept), 0);
}

#[test]
fn damage_behind_a_key_does_not_hide_it() {
    let (fs, table) = written();
    forget_proof(fs.as_ref(), Version::NB);
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
