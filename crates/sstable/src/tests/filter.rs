//! What a bloom filter says is believed only as far as it is proven.

use super::support::*;
use crate::bloom::BloomFilter;
use crate::statistics::Statistics;
use crate::{Component, SsTable, Version};
use env::fs::FileSystem;
use model::command::ClusteringFilter;
use model::{CqlType, DecoratedKey, Deletion, TableSchema};
use std::sync::Arc;
use uuid::Uuid;

/// Enough for an index that is not walked on opening.
const KEYS: u32 = 10_000;

fn table() -> Arc<TableSchema> {
    let builder = TableSchema::builder("ks", "t", Uuid::from_u128(1)).partition_key("k", CqlType::Int);
    Arc::new(builder.regular("v", CqlType::Int).build())
}

fn keys(range: std::ops::Range<u32>) -> Vec<DecoratedKey> {
    let mut keys: Vec<DecoratedKey> = range.map(key).collect();
    keys.sort();
    keys
}

/// An SSTable of deleted partitions.
fn written(count: u32) -> (Arc<dyn FileSystem>, Arc<TableSchema>) {
    let (fs, table) = (memory(), table());
    let deletion = Deletion::new(1, 2);
    let of = |key| Partition { key, deletion, static_row: None, items: Vec::new() };
    let partitions: Vec<Partition> = keys(0..count).into_iter().map(of).collect();
    let mut options = options(&partitions, None, 4096);
    options.min_index_interval = 128;
    write(&fs, &table, &partitions, options).unwrap();
    (fs, table)
}

fn change(fs: &Arc<dyn FileSystem>, component: Component, change: impl FnOnce(Vec<u8>) -> Vec<u8>) {
    let path = descriptor(1).path(component);
    let bytes = fs.read(&path).unwrap();
    fs.write(&path, &change(bytes)).unwrap();
}

/// Takes away what a foreign writer would not have put there.
fn forget_checksum(fs: &Arc<dyn FileSystem>) {
    change(fs, Component::Statistics, |bytes| {
        let mut statistics = Statistics::decode(bytes.into(), Version::NB).unwrap();
        assert!(statistics.filter_crc.take().is_some());
        statistics.encode(Version::NB).unwrap()
    });
}

/// Makes the filter lack a key.
fn lose(fs: &Arc<dyn FileSystem>, key: &DecoratedKey) {
    change(fs, Component::Filter, |bytes| {
        let lost = (64..bytes.len() * 8).find_map(|bit| {
            let mut bytes = bytes.clone();
            bytes[bit / 8] &= !(1 << (bit % 8));
            let filter = BloomFilter::decode(bytes.clone().into(), Version::NB).unwrap();
            (!filter.may_contain(key)).then_some(bytes)
        });
        lost.unwrap()
    });
}

fn is_found(sstable: &Arc<SsTable>, table: &Arc<TableSchema>, key: &DecoratedKey) -> bool {
    sstable.may_contain(key)
        && sstable.read(key, &ClusteringFilter::all(), &all(table), table, &context()).unwrap().is_some()
}

fn turned_away(sstable: &SsTable) -> usize {
    keys(KEYS..KEYS * 2).iter().filter(|key| sstable.covers(key) && !sstable.may_contain(key)).count()
}

#[test]
fn a_filter_with_its_checksum_is_believed_at_once() {
    let (fs, table) = written(KEYS);
    let sstable = open(&fs).unwrap();
    assert!(turned_away(&sstable) > KEYS as usize * 9 / 10);
    assert!(keys(0..KEYS).iter().all(|key| is_found(&sstable, &table, key)));
}

#[test]
fn a_filter_without_checksum_is_believed_where_it_was_proven() {
    let (fs, table) = written(KEYS);
    forget_checksum(&fs);
    let sstable = open(&fs).unwrap();
    assert_eq!(turned_away(&sstable), 0);
    let absent: Vec<DecoratedKey> =
        keys(KEYS..KEYS * 2).into_iter().filter(|key| sstable.covers(key)).collect();
    assert!(!is_found(&sstable, &table, &absent[0]));
    let after_one = turned_away(&sstable);
    assert!((1..1_000).contains(&after_one), "{after_one}");
    assert!(absent.iter().all(|key| !is_found(&sstable, &table, key)));
    assert!(turned_away(&sstable) > KEYS as usize * 9 / 10);
    let sstable = open(&fs).unwrap();
    sstable.check_filter(&context()).unwrap();
    assert!(turned_away(&sstable) > KEYS as usize * 9 / 10);
}

#[test]
fn a_key_that_the_filter_lost_is_found() {
    for has_checksum in [true, false] {
        let (fs, table) = written(KEYS);
        if !has_checksum {
            forget_checksum(&fs);
        }
        let lost = key(77);
        lose(&fs, &lost);
        let sstable = open(&fs).unwrap();
        assert!(is_found(&sstable, &table, &lost));
        let there = keys(0..KEYS);
        for key in keys(0..KEYS * 2).iter().step_by(5) {
            assert_eq!(is_found(&sstable, &table, key), there.binary_search(key).is_ok(), "{key:?}");
        }
        assert!(is_found(&sstable, &table, &lost));
        let error = open(&fs).unwrap().check_filter(&context()).unwrap_err();
        assert!(error.to_string().contains("Filter.db"), "{error}");
    }
}

#[test]
fn the_filter_of_a_small_table_is_proven_on_opening() {
    let (fs, table) = written(1_000);
    forget_checksum(&fs);
    assert!(turned_away(&open(&fs).unwrap()) > KEYS as usize * 9 / 10);
    lose(&fs, &key(77));
    let sstable = open(&fs).unwrap();
    assert!(is_found(&sstable, &table, &key(77)));
    assert_eq!(turned_away(&sstable), 0);
}

#[test]
fn a_missing_filter_is_made_again() {
    let (fs, table) = written(KEYS);
    fs.remove_file(&descriptor(1).path(Component::Filter)).unwrap();
    let sstable = open(&fs).unwrap();
    assert!(sstable.filter_bytes() > KEYS as usize);
    assert!(turned_away(&sstable) > KEYS as usize * 9 / 10);
    assert!(keys(0..KEYS).iter().all(|key| is_found(&sstable, &table, key)));
}

#[test]
fn a_table_that_asks_for_no_filter_gets_none() {
    let (fs, table) = (memory(), table());
    let of = |key| Partition { key, deletion: Deletion::new(1, 2), static_row: None, items: Vec::new() };
    let partitions: Vec<Partition> = keys(0..10).into_iter().map(of).collect();
    let options = crate::WriterOptions { bloom_fp_chance: 1.0, ..options(&partitions, None, 4096) };
    write(&fs, &table, &partitions, options).unwrap();
    assert_eq!(open(&fs).unwrap().filter_bytes(), 0);
}
