//! Files of another program whose large partitions are described here: the same answers with Blocks.db and
//! without, at the cost of Ilion's own files, and never a wrong row where it is damaged.

use super::fixtures::check_fixture;
use super::reading::{cost_of, names, numbered};
use super::recorded::{Fixture, sets, tables_of};
use super::round_trip::{check_reads, random_compression};
use super::support::*;
use crate::compression::CompressionParams;
use crate::{Adoption, Component, Descriptor, NewProof, Proved, SsTable, Version, verify};
use env::fs::FileSystem;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::KeyRange;
use model::{Cell, Clustering, CqlType, Deletion, Row, TableSchema};
use partition::ReadContext;
use proptest::prelude::{ProptestConfig, any, prop_assert, proptest};
use std::sync::Arc;

const VERSIONS: [Version; 3] = [Version::NB, Version::OA, Version::DA];
/// Describes whatever has two rows.
const SMALL: Adoption = Adoption { partition_bytes_min: 0, block_bytes: 30, bytes_for_one: 0 };
const KIB: u64 = 1 << 10;

fn of_version(version: Version) -> Descriptor {
    Descriptor { version, ..descriptor(1) }
}

fn open_behind(fs: &Arc<dyn FileSystem>, version: Version, kept: &Arc<Kept>) -> Arc<SsTable> {
    Arc::new(SsTable::open(fs.as_ref(), &of_version(version), 1, Arc::clone(kept) as Arc<_>).unwrap())
}

/// Compares an SSTable and describes it; what is to be kept of that.
fn described(fs: &Arc<dyn FileSystem>, sstable: &SsTable, adoption: Adoption) -> NewProof {
    match sstable.prove(fs, Some(adoption), &mut |_| true).unwrap() {
        Proved::Sound(proof) | Proved::Adopted(proof) => proof,
        other => panic!("{other:?}"),
    }
}

pub(super) fn adopt(fs: &Arc<dyn FileSystem>, sstable: &SsTable, adoption: Adoption) -> u64 {
    let proof = described(fs, sstable, adoption);
    assert_eq!(proof.adoption_failure(), None);
    sstable.keep_proof(fs.as_ref(), &proof).unwrap();
    proof.adopted_partitions().unwrap()
}

#[test]
fn every_fixture_answers_as_before() {
    let mut partitions = 0;
    for set in sets() {
        for name in tables_of(&set) {
            let fixture = Fixture::load(&set, &name);
            let fs = shared(&fixture.fs);
            let sstables = fixture.open().unwrap();
            if !sstables[0].descriptor().version.has_metadata_checksums() {
                assert!(!sstables[0].wants_adoption());
                continue;
            }
            partitions += sstables.iter().map(|sstable| adopt(&fs, sstable, SMALL)).sum::<u64>();
            check_fixture(&fixture, &sstables);
            let again = fixture.open().unwrap();
            for (sstable, again) in sstables.iter().zip(&again) {
                assert_eq!(sstable.adopted().unwrap(), again.adopted().unwrap(), "{set} {name}");
                assert_eq!(verify(&fixture.fs, again.descriptor(), &|_| {}).unwrap().findings, [], "{set}");
            }
            check_fixture(&fixture, &again);
        }
    }
    assert!(partitions > 100, "{partitions}");
}

type Foreign = (Arc<dyn FileSystem>, Arc<TableSchema>, Vec<Partition>, Version);

/// Random partitions as another program wrote them; `None` where there is nothing to write.
fn foreign(rng: &mut Rng, rows: u64) -> Option<Foreign> {
    let table = random_table(rng);
    let count = 1 + rng.below(12);
    let partitions = random_partitions(rng, &table, count, rows);
    let (fs, version) = (memory(), random_version(rng));
    let options = options(&partitions, random_compression(rng), 64 * KIB);
    write_version(&fs, &table, &partitions, options, version)?;
    forget_proof(fs.as_ref(), version);
    Some((fs, table, partitions, version))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_is_described_is_read(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let rows = [3, 30, 200][rng.below(3) as usize];
        let Some((fs, table, partitions, version)) = foreign(rng, rows) else { return Ok(()) };
        let sstable = open_version(&fs, version).unwrap();
        let block_bytes = [1, 50, 400, 4 * KIB][rng.below(4) as usize];
        let adoption = Adoption { block_bytes, ..SMALL };
        let described = adopt(&fs, &sstable, adoption);
        let rows_of = |p: &&Partition| p.items.len() > 1 && !p.is_empty();
        prop_assert!(described <= partitions.iter().filter(rows_of).count() as u64);
        check_reads(&sstable, &table, &partitions, rng)?;
        check_reads(&open_version(&fs, version).unwrap(), &table, &partitions, rng)?;
        // With a chance of unnoticed damage everything is compared.
        sstable.check_by_chance(Arc::new(env::random::Random::from_seed(1)));
        let mut asks = (*table).clone();
        asks.options.crc_check_chance = 0.5;
        let asks = Arc::new(asks);
        sstable.check_schema(&asks).unwrap();
        check_reads(&sstable, &asks, &partitions, rng)?;
    }

    #[test]
    fn damage_to_what_was_described_hides_no_row(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let Some((fs, table, partitions, version)) = foreign(rng, 60) else { return Ok(()) };
        if adopt(&fs, &open_version(&fs, version).unwrap(), SMALL) == 0 {
            return Ok(());
        }
        let component = [Component::Blocks, Component::Proof][rng.below(2) as usize];
        let path = of_version(version).path(component);
        let mut bytes = fs.read(&path).unwrap();
        match rng.below(4) {
            0 => bytes.truncate(rng.below(bytes.len() as u64) as usize),
            _ => {
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << rng.below(8);
            }
        }
        fs.write(&path, &bytes).unwrap();
        let sstable = open_version(&fs, version).unwrap();
        for _ in 0..3 {
            // An error tells of the damage, once. Then all is read by the index.
            for partition in partitions.iter().filter(|p| !p.is_empty()) {
                let all = (ClusteringFilter::all(), ColumnSelection::all(&table), context());
                let slices = super::round_trip::random_filter(rng, &table);
                for filter in [&all.0, &slices] {
                    let read = sstable.read(&partition.key, filter, &all.1, &table, &all.2);
                    let read = read.and_then(|stream| {
                        collect(&mut stream.expect("it is there"), &table, filter.is_reversed())
                    });
                    match read {
                        Ok(found) => check(&table, partition, filter, &found[0], rng),
                        Err(error) => prop_assert!(error.to_string().contains("Blocks.db"), "{error}"),
                    }
                }
            }
        }
        check_reads(&sstable, &table, &partitions, rng)?;
    }
}

/// A table of one large partition as another program wrote it.
fn large(
    version: Version,
    compression: Option<CompressionParams>,
) -> (Arc<dyn FileSystem>, Arc<TableSchema>) {
    let (table, partitions) = numbered(2_000, 500);
    let fs = memory();
    write_version(&fs, &table, &partitions, options(&partitions, compression, 64 * KIB), version).unwrap();
    forget_proof(fs.as_ref(), version);
    (fs, table)
}

#[test]
fn a_row_of_a_large_partition_costs_what_it_costs_in_an_own_file() {
    for version in VERSIONS {
        for compression in [None, Some(CompressionParams::lz4())] {
            let (fs, table) = large(version, compression.clone());
            let what = format!("{version} {compression:?}");
            let kept = Arc::new(Kept::default());
            let sstable = open_behind(&fs, version, &kept);
            assert!(sstable.wants_adoption(), "{what}");
            assert_eq!(adopt(&fs, &sstable, Adoption::default()), 1, "{what}");
            assert!(!sstable.wants_adoption(), "{what}");
            let (partitions, bytes) = sstable.adopted().unwrap();
            assert_eq!(partitions, 1);
            assert!(bytes * 100 <= sstable.data_bytes(), "{what}: {bytes} of {}", sstable.data_bytes());
            for row in (0..2_000).step_by(37) {
                kept.forget(|_, _| true);
                let cost = cost_of(&sstable, &table, &names([row], false), 1);
                assert!(cost.ios <= 4 && cost.disk_bytes <= 64 * KIB, "{what} {row}: {cost:?}");
                // A row may lie across two chunks.
                assert!(cost.chunk_misses <= 2, "{what} {row}: {cost:?}");
            }
        }
    }
}

#[test]
fn a_row_of_each_partition_of_a_scan_costs_what_it_costs_in_an_own_file() {
    for (version, reversed) in VERSIONS.into_iter().flat_map(|version| [(version, false), (version, true)]) {
        let (table, numbered) = numbered(2_000, 500);
        let mut partitions: Vec<Partition> =
            (1..4).map(|i| Partition { key: key(i), ..numbered[0].clone() }).collect();
        partitions.sort_by(|a, b| a.key.cmp(&b.key));
        let fs = memory();
        let options = options(&partitions, Some(CompressionParams::lz4()), 64 * KIB);
        write_version(&fs, &table, &partitions, options, version).unwrap();
        forget_proof(fs.as_ref(), version);
        let sstable = open_behind(&fs, version, &Arc::new(Kept::default()));
        let chunks = || {
            let (filter, context) = (names([1_234], reversed), ReadContext::default());
            let scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context);
            let found = collect(scan.unwrap().as_mut(), &table, reversed).unwrap();
            let rows: usize = found.iter().map(|partition| partition.items.len()).sum();
            assert_eq!((found.len(), rows), (3, 3));
            let cost = context.cost.snapshot();
            cost.chunk_hits + cost.chunk_misses
        };
        let by_index = chunks();
        assert_eq!(adopt(&fs, &sstable, Adoption::default()), 3);
        let by_blocks = chunks();
        // The partition's head, the row in at most two chunks, and the partition's end.
        assert!(by_blocks <= 3 * 4 && by_blocks < by_index, "{version}: {by_blocks} of {by_index}");
    }
}

#[test]
fn a_column_between_long_values_costs_its_own_chunks() {
    for version in VERSIONS {
        let table = wide_table(30);
        let partitions = wide_partitions(&table, 2, 3, 100 << 10);
        let fs = memory();
        let options = options(&partitions, Some(CompressionParams::lz4()), 64 * KIB);
        write_version(&fs, &table, &partitions, options, version).unwrap();
        fs.remove_file(&of_version(version).path(Component::Outline)).unwrap();
        forget_proof(fs.as_ref(), version);
        let sstable = open_behind(&fs, version, &Arc::new(Kept::default()));
        adopt(&fs, &sstable, Adoption::default());
        assert_eq!(verify(fs.as_ref(), &of_version(version), &|_| {}).unwrap().findings, []);
        let sstables = [sstable, open_behind(&fs, version, &Arc::new(Kept::default()))];
        for sstable in &sstables {
            for column in [0, 15, 29] {
                let id = table.regular_columns()[column].id;
                let columns = ColumnSelection::of(vec![id]);
                let context = ReadContext::default();
                let filter = ClusteringFilter::Names { names: vec![at(1)], reversed: false };
                let key = &partitions[0].key;
                let stream = sstable.read(key, &filter, &columns, &table, &context).unwrap();
                let found = collect(&mut stream.unwrap(), &table, false).unwrap();
                let Item::Row(row) = &found[0].items[0] else { panic!("a row expected") };
                let value = &row.cells_of(id)[0].value;
                assert_eq!(value.len(), 100 << 10);
                let cost = context.cost.snapshot();
                let most = (100 << 10) * 13 / 10 + 8 * KIB;
                assert!(cost.disk_bytes <= most, "{version} column {column}: {cost:?}");
            }
        }
    }
}

#[test]
fn rows_with_long_clusterings_are_described() {
    let builder = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1));
    let builder = builder.partition_key("k", CqlType::Int).clustering("c", CqlType::Blob, false);
    let table = Arc::new(builder.clustering("d", CqlType::Int, true).regular("v", CqlType::Blob).build());
    let v = table.column("v").unwrap().id;
    let mut rng = Rng::new(5);
    for version in VERSIONS {
        let mut row = |n: i32| {
            // Short ones and long ones, also longer than what stays behind a cursor.
            let mut c = n.to_be_bytes().to_vec();
            c.extend_from_slice(&noise(&mut rng, [3, 9_000, 30_000, 60_000][n as usize % 4]));
            let mut row = Row::new(Clustering::from_values([&c[..], &n.to_be_bytes()]));
            row.cells.push(Cell::live(v, 5, noise(&mut rng, [10, 20_000, 8_192][n as usize % 3])));
            Item::Row(row)
        };
        let items = (0..60).map(&mut row).collect();
        let partition = Partition { key: key(3), deletion: Deletion::NONE, static_row: None, items };
        let partitions = [partition];
        let fs = memory();
        let options = options(&partitions, Some(CompressionParams::lz4()), 64 * KIB);
        write_version(&fs, &table, &partitions, options, version).unwrap();
        fs.remove_file(&of_version(version).path(Component::Outline)).unwrap();
        forget_proof(fs.as_ref(), version);
        let sstable = open_version(&fs, version).unwrap();
        assert_eq!(adopt(&fs, &sstable, SMALL), 1, "{version}");
        check_reads(&sstable, &table, &partitions, &mut Rng::new(9)).unwrap();
        assert_eq!(verify(fs.as_ref(), &of_version(version), &|_| {}).unwrap().findings, []);
    }
}

#[test]
fn what_was_described_is_listed_and_found_by_the_next_opening() {
    for version in VERSIONS {
        let (fs, _) = large(version, Some(CompressionParams::lz4()));
        let sstable = open_version(&fs, version).unwrap();
        adopt(&fs, &sstable, Adoption::default());
        let toc = fs.read_to_string(&of_version(version).path(Component::Toc)).unwrap();
        for name in ["Blocks.db", "Proof.db"] {
            assert_eq!(toc.lines().filter(|line| *line == name).count(), 1, "{toc}");
        }
        assert!(sstable.components().contains(&Component::Blocks));
        assert!(open_version(&fs, version).unwrap().adopted().is_some());
        // It is made anew where it is missing.
        fs.remove_file(&of_version(version).path(Component::Blocks)).unwrap();
        let again = open_version(&fs, version).unwrap();
        assert!(again.adopted().is_none() && again.wants_adoption() && !again.is_unproven());
        assert_eq!(adopt(&fs, &again, Adoption::default()), 1);
        assert!(again.adopted().is_some());
        // What is given up leaves no file.
        fs.remove_file(&of_version(version).path(Component::Blocks)).unwrap();
        let third = open_version(&fs, version).unwrap();
        drop(described(&fs, &third, Adoption::default()));
        let left: Vec<_> = fs.read_dir(&of_version(version).directory).unwrap();
        assert!(left.iter().all(|entry| !entry.name.to_string_lossy().ends_with(".tmp")), "{left:?}");
    }
}

#[test]
fn what_ilion_wrote_needs_nothing() {
    let (table, partitions) = numbered(2_000, 500);
    for version in VERSIONS {
        let fs = memory();
        let options = options(&partitions, Some(CompressionParams::lz4()), 4 * KIB);
        write_version(&fs, &table, &partitions, options, version).unwrap();
        let sstable = open_version(&fs, version).unwrap();
        assert!(!sstable.wants_adoption());
        let proved = sstable.prove(&fs, Some(Adoption::default()), &mut |_| true).unwrap();
        assert!(matches!(proved, Proved::Known));
    }
}

/// An index that leads elsewhere is no reason to believe less of the data, and nothing is described by it.
#[test]
fn a_wrong_index_spoils_only_the_description() {
    let (table, partitions) = numbered(2_000, 500);
    let fs = memory();
    let compression = Some(CompressionParams::lz4());
    write(&fs, &table, &partitions, options(&partitions, compression, 64 * KIB)).unwrap();
    forget_proof(fs.as_ref(), Version::NB);
    let path = of_version(Version::NB).path(Component::Index);
    let mut index = fs.read(&path).unwrap();
    // The key's length and the key are before the position of the first partition.
    let key = &partitions[0].key.key.0;
    assert_eq!(index[2 + key.len()], 0);
    index[2 + key.len()] = 9;
    fs.write(&path, &index).unwrap();
    let sstable = open(&fs).unwrap();
    let proof = described(&fs, &sstable, Adoption::default());
    assert!(proof.adoption_failure().is_some() && proof.adopted_partitions().is_none());
    sstable.keep_proof(fs.as_ref(), &proof).unwrap();
    assert!(!sstable.wants_adoption() && !sstable.is_unproven());
    let mut scan =
        sstable.scan(&KeyRange::FULL, &ClusteringFilter::all(), &all(&table), &table, &context()).unwrap();
    assert_eq!(collect(&mut scan, &table, false).unwrap().len(), 1);
    assert!(!fs.exists(&of_version(Version::NB).path(Component::Blocks)).unwrap());
}

/// A Data.db that is not what was written is found out as without a description.
#[test]
fn damaged_data_is_not_described() {
    let (fs, _) = large(Version::OA, Some(CompressionParams::lz4()));
    let memory: &dyn FileSystem = fs.as_ref();
    let path = of_version(Version::OA).path(Component::Data);
    let mut bytes = memory.read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    memory.write(&path, &bytes).unwrap();
    let sstable = open_version(&fs, Version::OA).unwrap();
    sstable.prove(&fs, Some(Adoption::default()), &mut |_| true).unwrap_err();
    assert!(sstable.condemned().is_some() && !sstable.wants_adoption());
    assert!(!memory.exists(&of_version(Version::OA).path(Component::Blocks)).unwrap());
}
