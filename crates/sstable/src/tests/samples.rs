//! Places of Index.db that Proof.db names: what they are, and that none of them hides or invents a key.

use super::support::*;
use crate::big::samples::Sample;
use crate::proof::Proof;
use crate::{Component, PageSource, SsTable, Uncached, Version};
use env::fs::FileSystem;
use model::command::ClusteringFilter;
use model::key::{PartitionKey, Token};
use model::{DecoratedKey, TableSchema};
use std::sync::Arc;

const KEYS: u32 = 300;
const PAGE: u64 = 4096;

/// Every third partition has an entry of more than a page, and of the others every second one of some bytes;
/// of three intervals of the summary.
fn written() -> (Arc<dyn FileSystem>, Arc<TableSchema>, Vec<DecoratedKey>) {
    let (table, numbered) = super::reading::numbered(600, 25);
    let mut keys: Vec<_> = (0..KEYS).map(|i| key(2 * i)).collect();
    keys.sort();
    let of = |(n, key): (usize, &DecoratedKey)| {
        let rows = if n % 3 == 1 { 600 } else { 1 + n % 2 * 30 };
        Partition { key: key.clone(), items: numbered[0].items[..rows].to_vec(), ..numbered[0].clone() }
    };
    let partitions: Vec<Partition> = keys.iter().enumerate().map(of).collect();
    let fs = memory();
    let mut options = options(&partitions, None, 64);
    options.min_index_interval = 128;
    write(&fs, &table, &partitions, options).unwrap();
    (fs, table, keys)
}

fn proof(fs: &Arc<dyn FileSystem>) -> Proof {
    let bytes = fs.read(&descriptor(1).path(Component::Proof)).unwrap();
    Proof::decode(bytes.into()).unwrap().proof().unwrap()
}

/// Reads every key and as many that are not there.
fn check(fs: &Arc<dyn FileSystem>, table: &Arc<TableSchema>, keys: &[DecoratedKey]) {
    let sources: [Arc<dyn PageSource>; 2] = [Arc::new(Uncached), Arc::new(Kept::default())];
    for pages in sources {
        let sstable = Arc::new(SsTable::open(fs.as_ref(), &descriptor(1), 1, pages).unwrap());
        let name = super::reading::names([0], false);
        let is_there = |key: &DecoratedKey| {
            let found = sstable.read(key, &name, &all(table), table, &context()).unwrap();
            found.is_some_and(|mut found| collect(&mut found, table, false).unwrap()[0].items.len() == 1)
        };
        assert!(keys.iter().all(is_there));
        assert!(!(0..KEYS).any(|i| is_there(&key(2 * i + 1))));
        let scan = sstable.scan(
            &model::key::KeyRange::FULL,
            &ClusteringFilter::all(),
            &all(table),
            table,
            &context(),
        );
        assert_eq!(collect(&mut scan.unwrap(), table, false).unwrap().len(), KEYS as usize);
    }
}

#[test]
fn samples_are_entries_of_the_index() {
    let (fs, table, keys) = written();
    let samples = proof(&fs).index.unwrap().samples;
    let index = fs.read(&descriptor(1).path(Component::Index)).unwrap();
    for sample in &samples {
        let entry = &index[sample.position as usize..];
        let len = usize::from(u16::from_be_bytes([entry[0], entry[1]]));
        let key = DecoratedKey::new(PartitionKey(entry[2..2 + len].to_vec().into()));
        assert_eq!(key.token, sample.token);
        assert!(keys.binary_search(&key).is_ok());
    }
    assert!(samples.is_sorted_by(|a, b| a.position < b.position && a.token < b.token));
    // A hundred are long, and at most three of these are in the summary.
    assert!(samples.len() >= 97, "{}", samples.len());
    check(&fs, &table, &keys);
}

#[test]
fn entries_of_partitions_without_rows_to_look_up_have_none() {
    let (table, numbered) = super::reading::numbered(1, 25);
    let mut keys: Vec<_> = (0..1_000).map(key).collect();
    keys.sort();
    let of = |key: &DecoratedKey| Partition { key: key.clone(), ..numbered[0].clone() };
    let partitions: Vec<Partition> = keys.iter().map(of).collect();
    let fs = memory();
    let mut options = options(&partitions, None, 4096);
    options.min_index_interval = 128;
    write(&fs, &table, &partitions, options).unwrap();
    assert!(fs.file_len(&descriptor(1).path(Component::Index)).unwrap() > 2 * PAGE);
    assert_eq!(proof(&fs).index.unwrap().samples, []);
}

#[test]
fn keys_are_found_without_samples() {
    let (fs, table, keys) = written();
    let mut without = proof(&fs);
    without.index.as_mut().unwrap().samples.clear();
    fs.write(&descriptor(1).path(Component::Proof), &without.encode()).unwrap();
    check(&fs, &table, &keys);
    forget_proof(fs.as_ref(), Version::NB);
    check(&fs, &table, &keys);
}

/// Two keys may have one token, and then a sample lies behind the key that is looked for.
#[test]
fn samples_of_other_tokens_hide_no_key() {
    let (fs, table, keys) = written();
    let sound = proof(&fs);
    let samples = sound.index.clone().unwrap().samples;
    let with = |tokens: &dyn Fn(usize) -> Token| -> Vec<Sample> {
        samples.iter().enumerate().map(|(n, sample)| Sample { token: tokens(n), ..*sample }).collect()
    };
    let last = samples.len() - 1;
    for samples in [
        with(&|_| Token::MIN),
        with(&|_| Token(i64::MAX)),
        with(&|n| samples[last - n].token),
        with(&|n| samples[n.saturating_sub(1)].token),
        with(&|n| samples[(n + 1).min(last)].token),
        with(&|n| Token(samples[n].token.0.wrapping_mul(n as i64))),
        samples.iter().map(|sample| Sample { position: u64::MAX, ..*sample }).collect(),
    ] {
        let mut proof = sound.clone();
        proof.index.as_mut().unwrap().samples = samples;
        fs.write(&descriptor(1).path(Component::Proof), &proof.encode()).unwrap();
        check(&fs, &table, &keys);
    }
}
