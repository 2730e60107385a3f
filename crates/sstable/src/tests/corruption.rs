//! A flipped bit in any component of an SSTable is found, or does not matter.

use super::support::*;
use crate::big::fences::Fences;
use crate::compression::CompressionParams;
use crate::proof::{Content, Proof};
use crate::{Component, Descriptor, SsTable, Uncached, Version, fuzz};
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use model::command::ClusteringFilter;
use model::key::KeyBound;
use model::key::KeyRange;
use model::{Slice, TableSchema};
use partition::{Event, Fragment, PartitionStream, ReadError};
use proptest::prelude::{ProptestConfig, any, proptest};
use std::path::Path;
use std::sync::Arc;

/// What reads of single partitions yield, and scans; or that one of them failed.
fn read(
    fs: &MemoryFileSystem,
    table: &Arc<TableSchema>,
    keys: &[model::DecoratedKey],
    filters: &[ClusteringFilter],
    version: Version,
) -> Result<Vec<String>, ()> {
    let sstable = SsTable::open(fs, &of_version(version), 1, Arc::new(Uncached)).map_err(drop)?;
    let sstable = Arc::new(sstable);
    let mut out = Vec::new();
    let mut note = |stream: &mut dyn PartitionStream| -> Result<(), ReadError> {
        let mut fragment = Fragment::default();
        loop {
            match stream.next(&mut fragment)? {
                Event::End => return Ok(()),
                Event::PartitionStart => out.push(format!("{:?} {:?}", fragment.key, fragment.deletion)),
                Event::PartitionEnd => out.push("end".to_owned()),
                Event::RangeChange => out.push(format!("{:?}", fragment.change)),
                Event::Row | Event::StaticRow => out.push(format!("{:?}", fragment.row)),
            }
        }
    };
    for filter in filters {
        let mut scan = sstable.scan(&KeyRange::FULL, filter, &all(table), table, &context()).map_err(drop)?;
        note(&mut scan).map_err(drop)?;
        for key in keys {
            if !sstable.may_contain(key) {
                continue;
            }
            let found = sstable.read(key, filter, &all(table), table, &context()).map_err(drop)?;
            if let Some(mut stream) = found {
                note(&mut stream).map_err(drop)?;
            }
        }
    }
    let start = KeyBound::Key { key: keys[keys.len() / 2].clone(), inclusive: false };
    let range = KeyRange { start, end: KeyBound::Unbounded };
    let mut scan =
        sstable.scan(&range, &ClusteringFilter::all(), &all(table), table, &context()).map_err(drop)?;
    note(&mut scan).map_err(drop)?;
    Ok(out)
}

fn of_version(version: Version) -> Descriptor {
    Descriptor { version, ..descriptor(1) }
}

/// Every way to read that follows the index of rows.
fn filters(rng: &mut Rng, table: &TableSchema) -> Vec<ClusteringFilter> {
    let mut out =
        vec![ClusteringFilter::all(), ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed: true }];
    for reversed in [false, true] {
        for _ in 0..2 {
            out.push(ClusteringFilter::Slices { slices: vec![random_slice(rng, table)], reversed });
        }
    }
    out
}

/// Files have a proof or not by turns.
fn flip_bits(compression: Option<CompressionParams>, version: Version, seed: u64) {
    let mut rng = Rng::new(seed);
    let (table, partitions) = loop {
        let table = random_table(&mut rng);
        let partitions = random_partitions(&mut rng, &table, 12, 6);
        if table.clustering_columns().len() > 1 && partitions.iter().filter(|p| !p.is_empty()).count() > 6 {
            break (table, partitions);
        }
    };
    let memory = MemoryFileSystem::new();
    let fs: Arc<dyn FileSystem> = Arc::new(memory.clone());
    write_version(&fs, &table, &partitions, options(&partitions, compression, 60), version).unwrap();
    if seed.is_multiple_of(2) {
        forget_proof(&memory, version);
    }
    // Some that are there, and some that are not.
    let keys: Vec<_> =
        partitions.iter().map(|p| p.key.clone()).chain((0..12).map(|i| key(i * 3 + 1))).collect();
    let all_filters = filters(&mut rng, &table);
    let sound = |filters: &[ClusteringFilter]| read(&memory, &table, &keys, filters, version).unwrap();
    let (sound, sound_of_all) = (sound(&all_filters), sound(&all_filters[..1]));
    for component in Component::ALL {
        let path = of_version(version).path(*component);
        let Ok(bytes) = fs.read(&path) else { continue };
        let (filters, sound) = match *component == Component::Data {
            true => (&all_filters[..1], sound_of_all.clone()),
            false => (&all_filters[..], sound.clone()),
        };
        let bits = bytes.len() as u64 * 8;
        for i in 0..bits.min(250) {
            let bit = if bits <= 250 { i } else { rng.below(bits) };
            let mut damaged = bytes.clone();
            damaged[bit as usize / 8] ^= 1 << (bit % 8);
            fs.write(&path, &damaged).unwrap();
            if let Ok(found) = read(&memory, &table, &keys, filters, version) {
                assert_eq!(found, sound, "bit {bit} of {component}");
            }
        }
        for cut in [0, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            fs.write(&path, &bytes[..cut]).unwrap();
            if let Ok(found) = read(&memory, &table, &keys, filters, version) {
                assert_eq!(found, sound, "{component} cut at {cut}");
            }
        }
        fs.write(&path, &bytes).unwrap();
    }
    assert_eq!(read(&memory, &table, &keys, &all_filters, version).unwrap(), sound);
}

#[test]
fn a_flipped_bit_in_a_compressed_table_is_found_or_harmless() {
    for seed in 0..2 {
        flip_bits(Some(CompressionParams { chunk_len: 512, ..CompressionParams::lz4() }), Version::NB, seed);
    }
}

#[test]
fn a_flipped_bit_in_an_uncompressed_table_is_found_or_harmless() {
    for seed in 3..5 {
        flip_bits(None, Version::NB, seed);
    }
}

#[test]
fn a_flipped_bit_in_a_table_with_tries_is_found_or_harmless() {
    for seed in 0..2 {
        let compression = CompressionParams { chunk_len: 512, ..CompressionParams::lz4() };
        flip_bits((seed % 2 == 0).then_some(compression), Version::DA, seed);
    }
}

#[test]
fn errors_name_file_and_place() {
    let mut rng = Rng::new(4);
    let table = random_table(&mut rng);
    let partitions = random_partitions(&mut rng, &table, 12, 6);
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, None, 60)).unwrap();
    let path = descriptor(1).path(Component::Data);
    let mut bytes = fs.read(&path).unwrap();
    bytes[30] ^= 1;
    fs.write(&path, &bytes).unwrap();
    let sstable = open(&fs).unwrap();
    let filter = ClusteringFilter::all();
    let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
    let error = collect(&mut scan, &table, false).unwrap_err();
    assert!(
        matches!(&error, ReadError::Corrupt { file, offset: 0, .. } if **file == *path.to_string_lossy()),
        "{error}"
    );
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn missing_components_are_named_or_made_up_for() {
    let mut rng = Rng::new(4);
    let table = random_table(&mut rng);
    let partitions = random_partitions(&mut rng, &table, 12, 6);
    let compressors = [None, Some(CompressionParams::lz4())];
    let cases = compressors.iter().flat_map(|by| Component::ALL.iter().map(move |component| (by, component)));
    for (compression, component) in cases {
        let fs = memory();
        write(&fs, &table, &partitions, options(&partitions, compression.clone(), 60)).unwrap();
        if fs.remove_file(&descriptor(1).path(*component)).is_err() {
            continue;
        }
        // Compressed chunks must not be read as rows.
        let needed = matches!(
            component,
            Component::Data | Component::Index | Component::Statistics | Component::CompressionInfo
        );
        match open(&fs) {
            Ok(_) => assert!(!needed, "{component}"),
            Err(crate::OpenError::MissingComponent { component: missing, .. }) => {
                assert!(needed && missing == *component);
            }
            Err(e) => panic!("{e}"),
        }
    }
    let other = crate::Descriptor::parse(Path::new(DIRECTORY), "db-3-bti-Data.db").unwrap().0;
    let error = SsTable::open(memory().as_ref(), &other, 1, Arc::new(Uncached)).unwrap_err();
    assert!(error.to_string().contains("db-3-bti"), "{error}");
}

#[test]
fn checksums_are_checked_as_often_as_the_table_asks() {
    let builder = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1));
    let builder = builder.partition_key("k", model::CqlType::Int).regular("v", model::CqlType::Blob);
    let table = Arc::new(builder.build());
    let blob = table.column("v").unwrap().id;
    let mut row = model::Row::new(model::Clustering::empty());
    row.cells.push(model::Cell::live(blob, 5, vec![7; 100].into()));
    let partition = Partition {
        key: key(1),
        deletion: model::Deletion::NONE,
        static_row: None,
        items: vec![Item::Row(row)],
    };
    let fs = memory();
    write(&fs, &table, std::slice::from_ref(&partition), options(std::slice::from_ref(&partition), None, 60))
        .unwrap();
    let path = descriptor(1).path(Component::Data);
    let mut bytes = fs.read(&path).unwrap();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    fs.write(&path, &bytes).unwrap();
    let sstable = open(&fs).unwrap();
    let failures = |chance: f64| {
        let mut asks = (*table).clone();
        asks.options.crc_check_chance = chance;
        let table = Arc::new(asks);
        let fails = |_: &u32| {
            let filter = ClusteringFilter::all();
            let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
            collect(&mut scan, &table, false).is_err()
        };
        (0..200).filter(fails).count()
    };
    assert_eq!(failures(0.0), 200, "without random numbers all are checked");
    sstable.check_by_chance(Arc::new(env::random::Random::from_seed(1)));
    assert_eq!(failures(1.0), 200);
    assert_eq!(failures(0.0), 0);
    assert!((50..150).contains(&failures(0.5)));
}

/// The size of what follows an entry's position, cut to a byte: the header of its index of rows lies behind
/// its end.
#[test]
fn an_entry_that_ends_inside_of_its_header_is_malformed() {
    let mut seeds = fuzz::fuzz_seeds().into_iter().filter(|(component, _)| *component == Component::Index);
    let (_, mut bytes) = seeds.next().unwrap();
    let size = 2 + 4 + 1;
    assert_eq!(bytes[size - 1], 0, "the first partition is at 0");
    for first in [1, bytes[size]] {
        for second in 0..=u8::MAX {
            (bytes[size], bytes[size + 1]) = (first, second);
            fuzz::fuzz_index_entry(&bytes);
        }
    }
}

/// The proof of a seed is the one that is read, whichever sections it has.
#[test]
fn seeds_of_proofs_have_every_section_and_fit() {
    let table = fuzz::table();
    let version = Version::NB;
    let mut kinds = std::collections::BTreeSet::new();
    for (_, seed) in fuzz::fuzz_seeds().into_iter().filter(|(component, _)| *component == Component::Proof) {
        let fs = fuzz::with_proof(&seed, &table, None, version).unwrap();
        // A proof of another seed's index tells of damage to this one.
        let opened = SsTable::open(&fs, &fuzz::descriptor(version), 1, Arc::new(Uncached));
        let Ok(opened) = opened else { continue };
        if opened.unfit_proof().is_none() {
            let kind = match Proof::decode(seed.into()).unwrap() {
                Content::Proof(Proof { index: None, .. }) => "of data",
                Content::Proof(Proof { index: Some(index), .. }) if !index.samples.is_empty() => {
                    "with samples"
                }
                Content::Proof(Proof { index: Some(index), .. }) if index.fences != Fences::default() => {
                    "with fences"
                }
                Content::Proof(_) => "of data and index",
                Content::Damaged(_) => "a mark",
                Content::OtherLayout => "another layout",
            };
            kinds.insert((kind, opened.refusal().is_some()));
        }
    }
    let sound = ["of data", "of data and index", "with fences", "with samples"].map(|kind| (kind, false));
    assert_eq!(kinds, sound.into_iter().chain([("a mark", true)]).collect());
}

type Entry = fn(&[u8]);

const ENTRIES: [(Component, Entry); 14] = [
    (Component::Statistics, fuzz::fuzz_statistics),
    (Component::CompressionInfo, fuzz::fuzz_compression_info),
    (Component::Index, fuzz::fuzz_index_entry),
    (Component::Partitions, fuzz::fuzz_partitions),
    (Component::Rows, fuzz::fuzz_rows),
    (Component::Summary, fuzz::fuzz_summary),
    (Component::Filter, fuzz::fuzz_filter),
    (Component::Data, fuzz::fuzz_data_partition),
    (Component::Blocks, fuzz::fuzz_blocks),
    (Component::Outline, fuzz::fuzz_outline),
    (Component::Proof, fuzz::fuzz_proof),
    (Component::Crc, fuzz::fuzz_crc),
    (Component::Digest, fuzz::fuzz_digest),
    (Component::Toc, fuzz::fuzz_toc),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn damaged_components_never_panic(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        for (component, mut bytes) in fuzz::fuzz_seeds() {
            let Some((_, entry)) = ENTRIES.iter().find(|(c, _)| *c == component) else { continue };
            for _ in 0..rng.below(4) {
                if bytes.is_empty() {
                    break;
                }
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(4) {
                    0 => bytes.truncate(at),
                    1 => bytes[at] = 0xff,
                    2 => bytes.insert(at, rng.next() as u8),
                    _ => bytes[at] = rng.next() as u8,
                }
            }
            entry(&bytes);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for (_, entry) in ENTRIES {
            entry(&bytes);
        }
        fuzz::fuzz_compressed_chunk(&bytes);
        fuzz::fuzz_mutation(&bytes);
        fuzz::fuzz_txn_log(&bytes);
    }
}
