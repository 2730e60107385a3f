//! What is saved of damaged SSTables.

use super::support::*;
use crate::compression::CompressionParams;
use crate::statistics::Statistics;
use crate::{Component, Descriptor, Salvaged, SsTable, SsTableId, Uncached, Version, salvage, verify};
use env::fs::FileSystem;
use model::TableSchema;
use model::command::ClusteringFilter;
use model::key::KeyRange;
use std::sync::Arc;

fn chunked() -> Option<CompressionParams> {
    Some(CompressionParams { chunk_len: 512, ..CompressionParams::lz4() })
}

fn run(fs: &Arc<dyn FileSystem>) -> Salvaged {
    run_of(fs, Version::NB)
}

fn run_of(fs: &Arc<dyn FileSystem>, version: Version) -> Salvaged {
    let mut id = 100;
    let mut next = || {
        id += 1;
        Ok(Descriptor::new(&descriptor(1).directory, SsTableId::Sequence(id), version))
    };
    salvage(fs, &Descriptor { version, ..descriptor(1) }, &mut next, &|_| {}).unwrap()
}

/// The partitions of each new SSTable. All SSTables have to be sound.
fn saved(fs: &Arc<dyn FileSystem>, table: &Arc<TableSchema>, salvaged: &Salvaged) -> Vec<Vec<Partition>> {
    let read = |meta: &crate::SsTableMeta| {
        let found = verify(fs.as_ref(), &meta.descriptor, &|_| {}).unwrap().findings;
        let found: Vec<_> = found.into_iter().filter(|f| !f.expected.contains("in column")).collect();
        assert_eq!(found, []);
        let sstable = Arc::new(SsTable::open(fs.as_ref(), &meta.descriptor, 7, Arc::new(Uncached)).unwrap());
        let filter = ClusteringFilter::all();
        let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(table), table, &context()).unwrap();
        collect(&mut scan, table, false).unwrap()
    };
    salvaged.written.iter().map(read).collect()
}

/// A table with clusterings and its partitions in an SSTable.
fn sample(
    seed: u64,
    compression: Option<CompressionParams>,
) -> (Arc<dyn FileSystem>, Arc<TableSchema>, Vec<Partition>) {
    sample_of(seed, compression, Version::NB)
}

fn sample_of(
    seed: u64,
    compression: Option<CompressionParams>,
    version: Version,
) -> (Arc<dyn FileSystem>, Arc<TableSchema>, Vec<Partition>) {
    let mut rng = Rng::new(seed);
    let table = loop {
        let table = random_table(&mut rng);
        if !table.clustering_columns().is_empty() {
            break table;
        }
    };
    let partitions = random_partitions(&mut rng, &table, 12, 30);
    let fs = memory();
    write_version(&fs, &table, &partitions, options(&partitions, compression, 60), version).unwrap();
    (fs, table, partitions.into_iter().filter(|p| !p.is_empty()).collect())
}

#[test]
fn of_a_sound_sstable_everything_is_saved() {
    for seed in 0..10 {
        let (fs, table, _) = sample(seed, if seed % 2 == 0 { chunked() } else { None });
        let sstable = open(&fs).unwrap();
        let filter = ClusteringFilter::all();
        let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
        let whole = collect(&mut scan, &table, false).unwrap();
        let salvaged = run(&fs);
        assert_eq!((salvaged.loss_count, salvaged.stray_partitions, salvaged.stray_rows), (0, 0, 0));
        assert_eq!(saved(&fs, &table, &salvaged), [whole], "seed {seed}");
    }
}

#[test]
fn of_a_damaged_one_what_is_saved_was_there_and_losses_are_told() {
    let mut with_losses = 0;
    for seed in 0..40 {
        let version = if seed % 3 == 0 { Version::DA } else { Version::NB };
        let compression = if seed % 2 == 0 { chunked() } else { None };
        let (fs, table, partitions) = sample_of(seed % 8, compression, version);
        let mut rng = Rng::new(1000 + seed);
        let path = Descriptor { version, ..descriptor(1) }.path(Component::Data);
        let mut bytes = fs.read(&path).unwrap();
        for _ in 0..1 + rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        fs.write(&path, &bytes).unwrap();
        let salvaged = run_of(&fs, version);
        with_losses += u64::from(salvaged.loss_count > 0);
        let mut rows = 0;
        for partition in saved(&fs, &table, &salvaged).concat() {
            let original = partitions.iter().find(|p| p.key == partition.key).expect("a key that was there");
            assert_eq!(partition.deletion, original.deletion, "seed {seed}");
            for item in &partition.items {
                match item {
                    Item::Row(row) => {
                        assert!(original.items.contains(&Item::Row(row.clone())), "seed {seed}: {row:?}");
                        rows += 1;
                    }
                    // A deletion may end earlier than it did, but holds nowhere that it did not hold.
                    Item::Change(change) if !change.deletion.is_none() => {
                        let deletions = original.items.iter().filter_map(|i| match i {
                            Item::Change(c) => Some(c.deletion),
                            Item::Row(_) => None,
                        });
                        assert!(deletions.into_iter().any(|d| d == change.deletion), "seed {seed}");
                    }
                    Item::Change(_) => {}
                }
            }
        }
        let there: usize =
            partitions.iter().map(|p| p.items.iter().filter(|i| matches!(i, Item::Row(_))).count()).sum();
        assert!(rows == there || salvaged.loss_count > 0, "seed {seed}: {rows} of {there} rows and no loss");
    }
    assert!(with_losses > 20, "{with_losses}");
}

/// The index says where to go on: by the blocks of Index.db, and by the tries.
#[test]
fn a_large_partition_loses_only_blocks() {
    for version in [Version::NB, Version::DA] {
        // Blocks of 60 bytes and chunks of 512: a chunk in the middle takes a few rows with it.
        let (fs, _, partitions) = sample_of(3, chunked(), version);
        let rows = |p: &Partition| p.items.iter().filter(|i| matches!(i, Item::Row(_))).count() as u64;
        let all_rows: u64 = partitions.iter().map(|p| rows(p) + u64::from(p.static_row.is_some())).sum();
        let path = Descriptor { version, ..descriptor(1) }.path(Component::Data);
        let mut bytes = fs.read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs.write(&path, &bytes).unwrap();
        let salvaged = run_of(&fs, version);
        assert!(salvaged.loss_count > 0, "{version}");
        assert!(salvaged.rows * 10 > all_rows * 7, "{version}: {} of {all_rows} rows", salvaged.rows);
    }
}

#[test]
fn partitions_out_of_order_are_put_in_order() {
    let (fs, table, partitions) = sample(5, None);
    let sstable = open(&fs).unwrap();
    let filter = ClusteringFilter::all();
    let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
    let whole = collect(&mut scan, &table, false).unwrap();
    let places: Vec<u64> =
        whole.iter().map(|p| sstable.place_of(&p.key, &table, &context()).unwrap().unwrap()).collect();
    let data = fs.read(&descriptor(1).path(Component::Data)).unwrap();
    let ends = places[1..].iter().copied().chain([data.len() as u64]);
    let mut parts: Vec<&[u8]> =
        places.iter().zip(ends).map(|(from, to)| &data[*from as usize..to as usize]).collect();
    // The second half comes first, and one partition comes twice.
    let half = parts.len() / 2;
    parts.rotate_left(half);
    parts.push(parts[0]);
    fs.write(&descriptor(1).path(Component::Data), &parts.concat()).unwrap();
    for component in [Component::Crc, Component::Index, Component::Summary] {
        fs.remove_file(&descriptor(1).path(component)).unwrap();
    }
    let salvaged = run(&fs);
    assert_eq!((salvaged.loss_count, salvaged.stray_partitions), (0, half as u64 + 1));
    assert_eq!(partitions.len(), whole.len());
    let saved = saved(&fs, &table, &salvaged);
    assert_eq!(saved[0], whole[half..]);
    let mut late = saved[1..].concat();
    late.sort_by(|a, b| a.key.cmp(&b.key));
    let mut expected: Vec<Partition> = whole[..half].to_vec();
    expected.push(whole[half].clone());
    assert_eq!(late, expected);
}

#[test]
fn flipped_bits_and_cuts_in_other_components_never_panic() {
    let (fs, _, _) = sample(6, chunked());
    let mut rng = Rng::new(9);
    for component in Component::ALL {
        let path = descriptor(1).path(*component);
        let Ok(bytes) = fs.read(&path) else { continue };
        for _ in 0..25 {
            let mut damaged = bytes.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => damaged.truncate(at),
                _ => damaged[at] ^= 1 << rng.below(8),
            }
            fs.write(&path, &damaged).unwrap();
            let mut id = 100;
            let mut next = || {
                id += 1;
                Ok(Descriptor::new(&descriptor(1).directory, SsTableId::Sequence(id), Version::NB))
            };
            let _ = salvage(&fs, &descriptor(1), &mut next, &|_| {});
            for id in 101..110 {
                let _ = crate::remove_files(fs.as_ref(), &descriptor(id));
            }
        }
        fs.write(&path, &bytes).unwrap();
    }
}

/// The header in Statistics.db has a checksum of its own: damage to what lies beside it costs no row.
#[test]
fn a_damaged_statistics_costs_rows_only_where_it_says_how_they_are_encoded() {
    let (fs, table, _) = sample(7, chunked());
    let whole = saved(&fs, &table, &run(&fs));
    let path = descriptor(1).path(Component::Statistics);
    let bytes = fs.read(&path).unwrap();
    let header = Statistics::decode(bytes.clone().into(), Version::NB).unwrap().header;
    let mut encoded = Vec::new();
    header.encode(&mut encoded);
    let header_from = bytes.len() - 4 - encoded.len();
    for at in (44..bytes.len()).step_by(97).chain([bytes.len() - 5]) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        fs.write(&path, &damaged).unwrap();
        let mut id = 1_000 * at as u64;
        let mut next = || {
            id += 1;
            Ok(Descriptor::new(&descriptor(1).directory, SsTableId::Sequence(id), Version::NB))
        };
        match salvage(&fs, &descriptor(1), &mut next, &|_| {}) {
            Ok(salvaged) => {
                assert!(at < header_from, "{at}");
                assert_eq!((salvaged.loss_count, saved(&fs, &table, &salvaged)), (0, whole.clone()));
            }
            Err(error) => {
                assert!(at >= header_from, "{at}: {error}");
                assert!(error.to_string().contains("no row can be dated"), "{error}");
            }
        }
    }
}
