//! The trie index, on files of Cassandra 5.0.5 and on our own.

use super::golden::{open_all, read_all, table_of, testdata};
use super::support::*;
use crate::compression::CompressionParams;
use crate::{Component, Descriptor, SsTable, SsTableWriter, Version, WriterOptions};
use env::fs::FileSystem;
use env::fs::disk::DiskFileSystem;
use model::command::ClusteringFilter;
use model::key::{KeyBound, KeyRange};
use model::{BoundKind, Clustering, ClusteringBound, DecoratedKey, Slice, TableSchema, Token};
use std::path::PathBuf;
use std::sync::Arc;

/// The first components of a clustering.
fn cut(clustering: &Clustering, len: usize) -> Clustering {
    let mut out = Clustering::empty();
    clustering.iter().take(len).for_each(|component| out.push(component));
    out
}

/// A slice between two positions of a partition, cut to prefixes.
fn slice_of(rng: &mut Rng, table: &TableSchema, partition: &Partition) -> Slice {
    let columns = table.clustering_columns().len() as u64;
    let mut edge = || {
        let item = &partition.items[rng.below(partition.items.len() as u64) as usize];
        let prefix = cut(item.position().prefix, rng.below(columns + 1) as usize);
        (prefix, rng.chance(50))
    };
    for _ in 0..100 {
        let ((a, a_incl), (b, b_incl)) = (edge(), edge());
        let start = match (a.is_empty(), a_incl) {
            (true, _) => ClusteringBound::BOTTOM,
            (_, true) => ClusteringBound::new(BoundKind::InclStart, a),
            (_, false) => ClusteringBound::new(BoundKind::ExclStart, a),
        };
        let end = match (b.is_empty(), b_incl) {
            (true, _) => ClusteringBound::TOP,
            (_, true) => ClusteringBound::new(BoundKind::InclEnd, b),
            (_, false) => ClusteringBound::new(BoundKind::ExclEnd, b),
        };
        let slice = Slice { start, end };
        if !slice.is_empty(table.comparator()) {
            return slice;
        }
    }
    Slice::ALL
}

/// Reads an SSTable in every way and compares with what a scan of all of it yields.
fn explore(sstable: &Arc<SsTable>, table: &Arc<TableSchema>, seed: u64, rounds: usize) {
    let mut rng = Rng::new(seed);
    let forward = read_all(sstable, table, &ClusteringFilter::all());
    let backward = ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed: true };
    let reversed = read_all(sstable, table, &backward);
    assert_eq!(forward.len(), reversed.len());
    for (expected, found) in forward.iter().zip(&reversed) {
        check(table, expected, &backward, found, &mut rng);
    }
    let read = |key: &DecoratedKey, filter: &ClusteringFilter| {
        let stream = sstable.read(key, filter, &all(table), table, &context()).unwrap();
        stream.map(|mut stream| collect(&mut stream, table, filter.is_reversed()).unwrap().remove(0))
    };
    for partition in forward.iter().step_by((forward.len() / 40).max(1)) {
        assert!(sstable.may_contain(&partition.key));
        assert_eq!(read(&partition.key, &ClusteringFilter::all()).as_ref(), Some(partition));
        if partition.items.is_empty() || table.clustering_columns().is_empty() {
            continue;
        }
        for _ in 0..rounds {
            let slices = vec![slice_of(&mut rng, table, partition)];
            let filter = ClusteringFilter::Slices { slices, reversed: rng.chance(50) };
            let found = read(&partition.key, &filter).unwrap();
            check(table, partition, &filter, &found, &mut rng);
        }
    }
    let slice = |key: &DecoratedKey, inclusive| KeyBound::Key { key: key.clone(), inclusive };
    for _ in 0..rounds {
        let at = rng.below(forward.len() as u64) as usize;
        let other = rng.below(forward.len() as u64) as usize;
        let filter = ClusteringFilter::Slices {
            slices: match forward[at].items.is_empty() || table.clustering_columns().is_empty() {
                true => vec![Slice::ALL],
                false => vec![slice_of(&mut rng, table, &forward[at])],
            },
            reversed: rng.chance(30),
        };
        let range = match rng.below(3) {
            0 => KeyRange {
                start: slice(&forward[at].key, rng.chance(50)),
                end: slice(&forward[other].key, rng.chance(50)),
            },
            1 => KeyRange {
                start: KeyBound::Token { token: forward[at].key.token, inclusive: rng.chance(50) },
                end: KeyBound::Unbounded,
            },
            _ => KeyRange {
                start: KeyBound::Token { token: Token(rng.next() as i64), inclusive: true },
                end: KeyBound::Token { token: Token(rng.next() as i64), inclusive: true },
            },
        };
        let mut scan = sstable.scan(&range, &filter, &all(table), table, &context()).unwrap();
        let found = collect(&mut scan, table, filter.is_reversed()).unwrap();
        let inside = |p: &&Partition| !range.is_before_start(&p.key) && !range.is_after_end(&p.key);
        let expected: Vec<&Partition> = forward.iter().filter(inside).collect();
        assert_eq!(found.len(), expected.len(), "{range:?}");
        for (expected, found) in expected.iter().zip(&found) {
            check(table, expected, &filter, found, &mut rng);
        }
    }
    for i in 0..rounds as u32 {
        let key = key(i * 7919 + 1);
        let known = forward.iter().any(|p| p.key == key);
        assert_eq!(read(&key, &ClusteringFilter::all()).is_some(), known);
        assert!(sstable.may_contain(&key) || !known);
    }
    sstable.check_filter(&context()).unwrap();
}

#[test]
fn tries_of_cassandra_are_followed_and_written_as_they_were() {
    for (seed, name) in ["wide", "kinds", "counters", "deflated", "snappy"].into_iter().enumerate() {
        for sstable in open_all(&testdata().join("5.0.5-bti").join(name)) {
            let table = table_of(sstable.header());
            rewritten_index_is_the_same(&sstable, &table);
            explore(&sstable, &table, seed as u64, 20);
        }
    }
}

/// Explores the tables in the directories below `$SSTABLE_IN`.
#[test]
#[ignore = "takes files from outside"]
fn files_from_outside_are_read_in_every_way() {
    let root = PathBuf::from(std::env::var_os("SSTABLE_IN").unwrap());
    let listing = DiskFileSystem.read_dir(&root).unwrap();
    for entry in listing {
        for sstable in open_all(&root.join(&entry.name)) {
            println!("{}", sstable.descriptor());
            let table = table_of(sstable.header());
            rewritten_index_is_the_same(&sstable, &table);
            explore(&sstable, &table, 1, 60);
        }
    }
}

/// What we write from what was read has the same tries, to the byte, when the data is the same.
fn rewritten_index_is_the_same(sstable: &Arc<SsTable>, table: &Arc<TableSchema>) {
    let partitions = read_all(sstable, table, &ClusteringFilter::all());
    let (memory, disk) = (memory(), DiskFileSystem);
    let options = WriterOptions {
        encoding_stats: sstable.header().stats,
        row_index_bytes: 16 << 10,
        align_blocks: false,
        ..options(&partitions, None, 0)
    };
    write_version(&memory, table, &partitions, options, Version::DA).unwrap();
    for component in [Component::Partitions, Component::Rows] {
        let ours =
            memory.read(&Descriptor { version: Version::DA, ..descriptor(1) }.path(component)).unwrap();
        let theirs = disk.read(&sstable.descriptor().path(component)).unwrap();
        let differs = ours.iter().zip(&theirs).position(|(a, b)| a != b);
        assert!(
            ours == theirs,
            "{component} of {}: {differs:?}, {} {}",
            sstable.descriptor(),
            ours.len(),
            theirs.len()
        );
    }
}

/// Writes the tables in the directories below `$SSTABLE_IN` anew, below `$SSTABLE_OUT`, for Cassandra to
/// read.
#[test]
#[ignore = "makes files for people and for the conformance suite"]
fn files_from_outside_are_written_anew() {
    let root = PathBuf::from(std::env::var_os("SSTABLE_IN").unwrap());
    let out = PathBuf::from(std::env::var_os("SSTABLE_OUT").unwrap());
    let fs: Arc<dyn FileSystem> = Arc::new(DiskFileSystem);
    for (i, entry) in fs.read_dir(&root).unwrap().into_iter().enumerate() {
        for sstable in open_all(&root.join(&entry.name)) {
            let table = table_of(sstable.header());
            let partitions = read_all(&sstable, &table, &ClusteringFilter::all());
            let directory = out.join(&entry.name);
            fs.create_dir_all(&directory).unwrap();
            let id = sstable.descriptor().id;
            let descriptor = Descriptor::new(directory, id, Version::DA);
            let compression = (i % 3 != 0).then(CompressionParams::lz4);
            let options = WriterOptions {
                row_index_bytes: [16 << 10, 1 << 10][i % 2],
                ..options(&partitions, compression, 0)
            };
            let mut writer = SsTableWriter::new(fs.clone(), descriptor, table, options).unwrap();
            partitions.iter().for_each(|partition| partition.append_to(&mut writer));
            writer.finish().unwrap();
        }
    }
}
