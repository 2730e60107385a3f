//! A Statistics.db that is whole, but belongs to another SSTable of the table. Its minima would date rows
//! wrongly.

use super::recorded::{Fixture, sets, tables_of};
use super::support::*;
use crate::compression::CompressionParams;
use crate::statistics::Statistics;
use crate::{Component, Descriptor, OpenError, Version};
use env::fs::FileSystem;
use model::command::ClusteringFilter;
use model::key::KeyRange;
use std::sync::Arc;

fn statistics(version: Version) -> std::path::PathBuf {
    Descriptor { version, ..descriptor(1) }.path(Component::Statistics)
}

/// An SSTable of one row in each partition of `keys`, whose values have so many bytes.
fn written(
    version: Version,
    keys: std::ops::Range<u32>,
    value_bytes: usize,
    compression: Option<CompressionParams>,
) -> Arc<dyn FileSystem> {
    let table = wide_table(10);
    let mut partitions = wide_partitions(&table, keys.len() as u32, 1, value_bytes);
    for (partition, i) in partitions.iter_mut().zip(keys) {
        partition.key = key(i);
    }
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    let fs = memory();
    write_version(&fs, &table, &partitions, options(&partitions, compression, 4096), version).unwrap();
    fs
}

/// Why `fs` is not opened with the Statistics.db of `other`.
fn refused(fs: &Arc<dyn FileSystem>, other: &Arc<dyn FileSystem>, version: Version) -> String {
    let path = statistics(version);
    let own = fs.read(&path).unwrap();
    fs.write(&path, &other.read(&path).unwrap()).unwrap();
    let error = open_version(fs, version).map(|_| ()).unwrap_err();
    assert!(matches!(error, OpenError::Read(_)), "{error}");
    fs.write(&path, &own).unwrap();
    open_version(fs, version).unwrap();
    let said = error.to_string();
    assert!(said.contains(&*path.file_name().unwrap().to_string_lossy()), "{said}");
    said
}

#[test]
fn the_statistics_of_an_sstable_with_other_keys_are_refused() {
    for compression in [None, Some(CompressionParams::lz4())] {
        let one = written(Version::NB, 0..40, 20, compression.clone());
        let other = written(Version::NB, 40..80, 20, compression.clone());
        for (fs, other) in [(&one, &other), (&other, &one)] {
            let said = refused(fs, other, Version::NB);
            assert!(said.contains("partition keys of the index are not counted here"), "{said}");
        }
    }
}

#[test]
fn the_statistics_of_an_sstable_with_many_other_keys_are_refused() {
    let one = written(Version::NB, 0..7_000, 0, None);
    let other = written(Version::NB, 7_000..14_000, 0, None);
    let said = refused(&one, &other, Version::NB);
    assert!(said.contains("partition keys of the index are not counted here"), "{said}");
}

#[test]
fn the_statistics_of_an_sstable_of_another_size_are_refused() {
    for compression in [None, Some(CompressionParams::lz4())] {
        for version in [Version::NB, Version::OA, Version::DA] {
            let small = written(version, 0..5, 20, compression.clone());
            let large = written(version, 0..5, 40, compression.clone());
            for (fs, other) in [(&small, &large), (&large, &small)] {
                let said = refused(fs, other, version);
                assert!(said.contains("5 partitions, as large as they are here, have not"), "{said}");
            }
        }
    }
}

/// Each key is counted in the estimates of every Cassandra that wrote one.
#[test]
fn all_keys_of_the_fixtures_are_counted() {
    let (mut counted, mut denied) = (0, 0);
    for set in sets() {
        for name in tables_of(&set) {
            let fixture = Fixture::load(&set, &name);
            let sstables = fixture.open().unwrap();
            let table = fixture.table(&sstables);
            for sstable in &sstables {
                let filter = ClusteringFilter::all();
                let mut stream =
                    sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
                let partitions = collect(&mut stream, &table, false).unwrap();
                let statistics = Statistics::read(&fixture.fs, sstable.descriptor()).unwrap();
                assert!(statistics.cardinality.is_some(), "{}", fixture.name);
                let keys = partitions.iter().map(|partition| &partition.key);
                assert!(!statistics.denies(keys), "{}", fixture.name);
                assert!(statistics.denies([&key(0x7fff_0001)].into_iter()), "{}", fixture.name);
                counted += partitions.len();
                denied += 1;
            }
        }
    }
    assert!(counted > 500 && denied > 100, "{counted} keys of {denied}");
}
