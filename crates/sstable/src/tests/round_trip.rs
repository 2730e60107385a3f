//! What is written is read again: random tables, both directions, slices, names and ranges.

use super::support::*;
use crate::compression::{CompressionParams, Compressor};
use crate::statistics::{self, Statistics};
use crate::{Component, Descriptor, SsTable, Uncached, Version, WriterOptions};
use env::fs::FileSystem;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::{KeyBound, KeyRange};
use model::types::UserType;
use model::{Clustering, CqlType, Slice, TableSchema};
use partition::{Event, Fragment, PartitionStream, ReadError};
use proptest::prelude::{ProptestConfig, TestCaseError, any, prop_assert, prop_assert_eq, proptest};
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) fn random_compression(rng: &mut Rng) -> Option<CompressionParams> {
    let compressor = match rng.below(6) {
        0 => return None,
        1 => Compressor::Snappy,
        2 => Compressor::Deflate,
        3 => Compressor::Zstd { level: 3 },
        4 => Compressor::Noop,
        _ => Compressor::Lz4,
    };
    let chunk_len = 1 << (9 + rng.below(4));
    let max_compressed_len =
        if rng.chance(50) { i32::MAX as u32 } else { (chunk_len as f64 / 1.1).ceil() as u32 };
    Some(CompressionParams { compressor, chunk_len, max_compressed_len, options: Default::default() })
}

pub(super) fn random_filter(rng: &mut Rng, table: &TableSchema) -> ClusteringFilter {
    let reversed = rng.chance(50);
    let comparator = table.comparator();
    let count = table.clustering_columns().len();
    if rng.chance(30) || count == 0 {
        let mut names: Vec<Clustering> =
            (0..rng.below(5)).map(|_| random_clustering(rng, table, count)).collect();
        names.sort_by(|a, b| comparator.compare(a, b));
        names.dedup();
        return ClusteringFilter::Names { names, reversed };
    }
    let mut slices: Vec<Slice> = (0..1 + rng.below(4)).map(|_| random_slice(rng, table)).collect();
    slices.sort_by(|a, b| comparator.compare_positions(a.start.position(), b.start.position()));
    let mut out: Vec<Slice> = Vec::new();
    for slice in slices {
        let overlaps = out.last().is_some_and(|last| {
            comparator.compare_positions(last.end.position(), slice.start.position()) == Ordering::Greater
        });
        if !overlaps {
            out.push(slice);
        }
    }
    ClusteringFilter::Slices { slices: out, reversed }
}

/// As [`options`], where blocks may have become longer.
fn random_options(
    rng: &mut Rng,
    partitions: &[Partition],
    compression: Option<CompressionParams>,
    block: u64,
) -> WriterOptions {
    let blocks_max = [2, 5, 20, usize::MAX][rng.below(4) as usize];
    WriterOptions { blocks_max, ..options(partitions, compression, block) }
}

/// Reads everything, and what random filters select, by ranges and by keys.
pub(super) fn check_reads(
    sstable: &Arc<SsTable>,
    table: &Arc<TableSchema>,
    partitions: &[Partition],
    rng: &mut Rng,
) -> Result<(), TestCaseError> {
    let expected: Vec<&Partition> = partitions.iter().filter(|p| !p.is_empty()).collect();
    let everything = ClusteringFilter::all();
    let mut scan = sstable.scan(&KeyRange::FULL, &everything, &all(table), table, &context()).unwrap();
    let found = collect(&mut scan, table, false).unwrap();
    prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.clone());

    let filters: Vec<ClusteringFilter> = (0..6)
        .map(|_| random_filter(rng, table))
        .chain([
            ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed: true },
            ClusteringFilter::all(),
        ])
        .collect();
    for filter in &filters {
        let mut scan = sstable.scan(&KeyRange::FULL, filter, &all(table), table, &context()).unwrap();
        let found = collect(&mut scan, table, filter.is_reversed()).unwrap();
        prop_assert_eq!(found.len(), expected.len());
        for (expected, found) in expected.iter().zip(&found) {
            check(table, expected, filter, found, rng);
            prop_assert!(sstable.may_contain(&expected.key));
            let stream = sstable.read(&expected.key, filter, &all(table), table, &context()).unwrap();
            let single = collect(&mut stream.unwrap(), table, filter.is_reversed()).unwrap();
            prop_assert_eq!(&single[..], std::slice::from_ref(found));
        }
    }
    for i in 0..40 {
        let key = key(i * 3 + 1);
        prop_assert!(sstable.read(&key, &everything, &all(table), table, &context()).unwrap().is_none());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_is_written_is_read(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let table = random_table(rng);
        let rows = [3, 30, 200][rng.below(3) as usize];
        let count = 1 + rng.below(12);
        let partitions = random_partitions(rng, &table, count, rows);
        let fs = memory();
        let block = [1, 50, 400, 64 << 10][rng.below(4) as usize];
        let compression = random_compression(rng);
        let options = random_options(rng, &partitions, compression, block);
        let version = random_version(rng);
        let Some(meta) = write_version(&fs, &table, &partitions, options, version) else { return Ok(()) };
        if rng.chance(20) {
            let dispensable = if version.is_bti() { Component::Filter } else { Component::Summary };
            fs.remove_file(&meta.descriptor.path(dispensable)).unwrap();
        }
        let sstable = open_version(&fs, version).unwrap();
        let expected: Vec<&Partition> = partitions.iter().filter(|p| !p.is_empty()).collect();
        prop_assert_eq!(meta.partitions, expected.len() as u64);
        prop_assert_eq!(sstable.first_key(), &expected[0].key);
        prop_assert_eq!(sstable.last_key(), &expected[expected.len() - 1].key);
        prop_assert_eq!(&meta.stats, sstable.stats());

        check_reads(&sstable, &table, &partitions, rng)?;
    }

    #[test]
    fn ranges_of_keys_are_read(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let table = random_table(rng);
        let partitions = random_partitions(rng, &table, 40, 3);
        let fs = memory();
        let version = random_version(rng);
        if write_version(&fs, &table, &partitions, random_options(rng, &partitions, None, 100), version).is_none() {
            return Ok(());
        }
        let sstable = open_version(&fs, version).unwrap();
        for _ in 0..10 {
            let bound = |rng: &mut Rng| {
                let (key, inclusive) = (key(rng.below(120) as u32), rng.chance(50));
                match rng.below(3) {
                    0 => KeyBound::Unbounded,
                    1 => KeyBound::Key { key, inclusive },
                    _ => KeyBound::Token { token: key.token, inclusive },
                }
            };
            let range = KeyRange { start: bound(rng), end: bound(rng) };
            let expected: Vec<&Partition> =
                partitions.iter().filter(|p| !p.is_empty() && range.contains(&p.key)).collect();
            prop_assert!(expected.is_empty() || sstable.overlaps(&range));
            let filter = ClusteringFilter::all();
            let mut scan = sstable.scan(&range, &filter, &all(&table), &table, &context()).unwrap();
            let found = collect(&mut scan, &table, false).unwrap();
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn skipping_partitions_leads_to_the_next(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let table = random_table(rng);
        let partitions = random_partitions(rng, &table, 10, 20);
        let fs = memory();
        let version = random_version(rng);
        if write_version(&fs, &table, &partitions, random_options(rng, &partitions, None, 100), version).is_none() {
            return Ok(());
        }
        let sstable = open_version(&fs, version).unwrap();
        let filter = if rng.chance(50) { ClusteringFilter::all() } else { random_filter(rng, &table) };
        let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
        let mut fragment = Fragment::default();
        for partition in partitions.iter().filter(|p| !p.is_empty()) {
            prop_assert_eq!(scan.next(&mut fragment).unwrap(), Event::PartitionStart);
            prop_assert_eq!(&fragment.key, &partition.key);
            let mut ended = false;
            for _ in 0..rng.below(5) {
                if scan.next(&mut fragment).unwrap() == Event::PartitionEnd {
                    ended = true;
                    break;
                }
            }
            if !ended {
                scan.skip_partition().unwrap();
            }
        }
        prop_assert_eq!(scan.next(&mut fragment).unwrap(), Event::End);
    }

    #[test]
    fn values_that_are_not_wanted_are_left_out(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let table = random_table(rng);
        let partitions = random_partitions(rng, &table, 4, 20);
        let fs = memory();
        let version = random_version(rng);
        if write_version(&fs, &table, &partitions, random_options(rng, &partitions, None, 100), version).is_none() {
            return Ok(());
        }
        let sstable = open_version(&fs, version).unwrap();
        let ids = table.static_columns().iter().chain(table.regular_columns()).map(|c| c.id);
        let columns = ColumnSelection::of(ids.filter(|_| rng.chance(50)).collect());
        let filter = ClusteringFilter::all();
        let mut scan = sstable.scan(&KeyRange::FULL, &filter, &columns, &table, &context()).unwrap();
        let found = collect(&mut scan, &table, false).unwrap();
        let strip = |row: &mut model::Row| {
            for cell in &mut row.cells {
                if !columns.contains(cell.column) {
                    *cell = without_value(cell);
                }
            }
        };
        let mut expected: Vec<Partition> = partitions.into_iter().filter(|p| !p.is_empty()).collect();
        for partition in &mut expected {
            partition.static_row.iter_mut().for_each(strip);
            for item in &mut partition.items {
                if let Item::Row(row) = item {
                    strip(row);
                }
            }
        }
        prop_assert_eq!(found, expected);
    }
}

/// A table with a wide partition of rows that each hold a value of several chunks.
fn blobs(rows: i32) -> (Arc<TableSchema>, Vec<Partition>) {
    use model::{Cell, CqlType, Liveness, Row};
    let table = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("big", CqlType::Blob)
        .regular("small", CqlType::Int)
        .build();
    let (big, small) = (table.column("big").unwrap().id, table.column("small").unwrap().id);
    let items = (0..rows).map(|i| {
        let mut row = Row::new(Clustering::from_values([&i.to_be_bytes()[..]]));
        row.liveness = Liveness::new(5);
        let noise: Vec<u8> = (0..40_000u32).map(|n| (n.wrapping_mul(i as u32 + 7) >> 5) as u8).collect();
        row.cells.push(Cell::live(big, 5, noise.into()));
        row.cells.push(Cell::live(small, 5, bytes::Bytes::copy_from_slice(&i.to_be_bytes())));
        Item::Row(row)
    });
    let partition =
        Partition { key: key(1), deletion: model::Deletion::NONE, static_row: None, items: items.collect() };
    (Arc::new(table), vec![partition])
}

#[test]
fn chunks_inside_of_skipped_values_are_not_read() {
    let (table, partitions) = blobs(10);
    let params = CompressionParams { chunk_len: 4096, ..CompressionParams::lz4() };
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, Some(params), 64 << 10)).unwrap();
    let sstable = open(&fs).unwrap();
    let misses = |columns: &ColumnSelection| {
        let context = context();
        let mut scan =
            sstable.scan(&KeyRange::FULL, &ClusteringFilter::all(), columns, &table, &context).unwrap();
        collect(&mut scan, &table, false).unwrap();
        context.cost.snapshot().chunk_misses
    };
    let every = misses(&all(&table));
    let few = misses(&ColumnSelection::of(vec![table.column("small").unwrap().id]));
    assert_eq!(every, sstable.data_bytes().div_ceil(4096));
    assert!(few <= 25, "{few} of {every} chunks for one small value in each of 10 rows");
}

#[test]
fn a_slice_of_a_wide_partition_reads_its_blocks_only() {
    let (table, partitions) = blobs(200);
    let params = CompressionParams { chunk_len: 4096, ..CompressionParams::lz4() };
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, Some(params), 64 << 10)).unwrap();
    let sstable = open(&fs).unwrap();
    for reversed in [false, true] {
        let context = context();
        let names = vec![Clustering::from_values([&150i32.to_be_bytes()[..]])];
        let filter = ClusteringFilter::Names { names, reversed };
        let mut stream = sstable.read(&key(1), &filter, &all(&table), &table, &context).unwrap().unwrap();
        let found = collect(&mut stream, &table, reversed).unwrap();
        assert_eq!(found[0].items.len(), 1);
        let cost = context.cost.snapshot();
        assert!(
            cost.chunk_misses < 40,
            "reversed {reversed}, {} blocks: {cost:?}",
            sstable.data_bytes() / 80_000
        );
        assert!(cost.rows_scanned < 5, "{cost:?}");
    }
}

/// The second slice ends between the loaded block and the one behind it, where a search finds the latter.
#[test]
fn a_reversed_slice_that_ends_in_front_of_a_block_goes_on_in_the_one_before() {
    let (table, mut partitions) = blobs(6);
    let mut number = 0;
    partitions[0].items.retain(|_| {
        number += 1;
        number % 2 == 1
    });
    let at = |v: i32| Clustering::from_values([&v.to_be_bytes()[..]]);
    let slice = |a, b| Slice {
        start: model::ClusteringBound::start_at(at(a)),
        end: model::ClusteringBound::end_at(at(b)),
    };
    let mut rng = Rng::new(1);
    for version in [Version::NB, Version::OA, Version::DA] {
        let fs = memory();
        write_version(&fs, &table, &partitions, options(&partitions, None, 1), version).unwrap();
        let sstable = open_version(&fs, version).unwrap();
        let filter = ClusteringFilter::Slices { slices: vec![slice(0, 3), slice(4, 4)], reversed: true };
        let stream = sstable.read(&key(1), &filter, &all(&table), &table, &context()).unwrap();
        let found = collect(&mut stream.unwrap(), &table, true).unwrap();
        check(&table, &partitions[0], &filter, &found[0], &mut rng);
    }
}

#[test]
fn a_read_that_may_not_block_says_so() {
    let (table, partitions) = blobs(2);
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, None, 64 << 10)).unwrap();
    let sstable = open(&fs).unwrap();
    let context = partition::ReadContext { may_block: false, ..context() };
    let error = sstable.read(&key(1), &ClusteringFilter::all(), &all(&table), &table, &context).unwrap_err();
    assert!(matches!(error, ReadError::WouldBlock));
    assert_eq!(context.cost.snapshot().ios, 0);
}

#[test]
fn clusterings_outside_of_the_covered_ones_are_told_apart() {
    let (table, partitions) = blobs(5);
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, None, 64 << 10)).unwrap();
    let sstable = open(&fs).unwrap();
    for (v, overlaps) in [(0i32, true), (4, true), (5, false), (-1, false)] {
        let name = Clustering::from_values([&v.to_be_bytes()[..]]);
        let slices = vec![Slice::of_prefix(name.clone())];
        let slices = ClusteringFilter::Slices { slices, reversed: false };
        let names = ClusteringFilter::Names { names: vec![name], reversed: false };
        assert_eq!(sstable.overlaps_clusterings(&slices, &table), overlaps, "{v}");
        assert_eq!(sstable.overlaps_clusterings(&names, &table), overlaps, "{v}");
    }
    assert!(!sstable.stats().may_have_tombstones());
}

#[test]
fn the_level_of_an_sstable_can_be_changed() {
    let (table, partitions) = blobs(2);
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, None, 64 << 10)).unwrap();
    let before = open(&fs).unwrap().stats().clone();
    statistics::rewrite(fs.as_ref(), &descriptor(1), |stats| stats.level = 3).unwrap();
    let after = open(&fs).unwrap().stats().clone();
    assert_eq!(after, crate::statistics::Stats { level: 3, ..before });
}

#[test]
fn fragments_out_of_order_are_refused() {
    let (table, partitions) = blobs(1);
    let fs = memory();
    fs.create_dir_all(std::path::Path::new(DIRECTORY)).unwrap();
    let options = options(&partitions, None, 100);
    let mut writer = crate::SsTableWriter::new(fs.clone(), descriptor(1), table, options).unwrap();
    let fragment = Fragment { key: key(1), ..Fragment::default() };
    assert!(writer.append(Event::Row, &fragment).is_err());
    writer.append(Event::PartitionStart, &fragment).unwrap();
    assert!(writer.append(Event::PartitionStart, &fragment).is_err());
    writer.abort().unwrap();
    assert!(fs.read_dir(std::path::Path::new(DIRECTORY)).unwrap().is_empty());
}

#[test]
fn version_na_is_read_and_has_no_host_id() {
    let mut rng = Rng::new(4);
    let table = random_table(&mut rng);
    let partitions = random_partitions(&mut rng, &table, 12, 6);
    let fs = memory();
    let host = uuid::Uuid::from_u128(9);
    let options = WriterOptions { host_id: Some(host), ..options(&partitions, None, 60) };
    write(&fs, &table, &partitions, options).unwrap();
    assert_eq!(open(&fs).unwrap().stats().host_id, Some(host));
    let na = Descriptor { version: Version::NA, ..descriptor(2) };
    for component in Component::ALL {
        let Ok(bytes) = fs.read(&descriptor(1).path(*component)) else { continue };
        let bytes = match component {
            Component::Statistics => {
                let statistics = Statistics::decode(bytes.into(), Version::NB).unwrap();
                statistics.encode(Version::NA).unwrap()
            }
            _ => bytes,
        };
        fs.write(&na.path(*component), &bytes).unwrap();
    }
    statistics::rewrite(fs.as_ref(), &na, |stats| stats.level = 3).unwrap();
    let sstable = Arc::new(SsTable::open(fs.as_ref(), &na, 2, Arc::new(Uncached)).unwrap());
    assert_eq!((sstable.stats().host_id, sstable.stats().level), (None, 3));
    let filter = ClusteringFilter::all();
    let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
    let found = collect(&mut scan, &table, false).unwrap();
    assert_eq!(found, partitions.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>());
}

/// As Cassandra 3.0 tells of them (CASSANDRA-15035).
#[test]
fn user_types_are_frozen_where_the_table_says_so_and_the_header_does_not() {
    let fields = vec![("a".to_owned(), CqlType::Int), ("b".to_owned(), CqlType::Text)];
    let definition = Arc::new(UserType { keyspace: "ks".to_owned(), name: "u".to_owned(), fields });
    let udt = |multi_cell| CqlType::Udt { definition: Arc::clone(&definition), multi_cell };
    let builder = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1)).partition_key("k", CqlType::Int);
    let builder = builder.clustering("c", CqlType::Int, false).static_column("s", udt(false));
    let builder = builder.regular("band", CqlType::Text).regular("info", udt(false));
    let table = Arc::new(builder.regular("tags", CqlType::Text).regular("a", udt(false)).build());
    let mut rng = Rng::new(15_035);
    let partitions = random_partitions(&mut rng, &table, 12, 6);
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, None, 60)).unwrap();
    let rows = |table| crate::verify_as(fs.as_ref(), &descriptor(1), table, &|_| {}).unwrap().rows;
    let written = rows(None);
    let path = descriptor(1).path(Component::Statistics);
    let mut statistics = Statistics::decode(fs.read(&path).unwrap().into(), Version::NB).unwrap();
    let header = &mut statistics.header;
    for column in header.static_columns.iter_mut().chain(&mut header.regular_columns) {
        if column.ty == udt(false) {
            column.ty = udt(true);
        }
    }
    fs.write(&path, &statistics.encode(Version::NB).unwrap()).unwrap();
    // Without a checksum the order of columns is checked.
    let unchecked = statistics.encode(Version::ME).unwrap();
    assert_eq!(Statistics::decode(unchecked.into(), Version::ME).unwrap().header, statistics.header);

    let whole = partitions.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>();
    let known = SsTable::open_as(fs.as_ref(), &descriptor(1), 1, Arc::new(Uncached), Some(&table));
    for sstable in [open(&fs).unwrap(), Arc::new(known.unwrap())] {
        let filter = ClusteringFilter::all();
        let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
        assert_eq!(collect(&mut scan, &table, false).unwrap(), whole);
    }
    assert_eq!(rows(Some(&table)), written);
    assert!(rows(None) < written, "from 4.0 on a header is believed");

    // Of 3.x the rows tell, also where there is no table.
    let old = Descriptor { version: Version::ME, ..descriptor(1) };
    copy_as_3_x(&fs, &old, &statistics);
    let found = crate::table_with_frozen_types(fs.as_ref(), &old).unwrap();
    assert_eq!(found.column("info").unwrap().ty, udt(false));
    let verified = crate::verify(fs.as_ref(), &old, &|_| {}).unwrap();
    assert_eq!(verified.rows, written, "{:?}", verified.findings);
    let salvaged = crate::salvage(&fs, &old, &mut || Ok(descriptor(9)), &|_| {}).unwrap();
    assert_eq!(salvaged.loss_count, 0);
    let saved = SsTable::open(fs.as_ref(), &descriptor(9), 1, Arc::new(Uncached)).unwrap();
    assert_eq!(saved.header().regular_columns[0].ty, udt(false));
    // What really has cells of its own stays as it is.
    let builder = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1)).partition_key("k", CqlType::Int);
    let table = Arc::new(builder.regular("band", CqlType::Text).regular("info", udt(true)).build());
    let partitions = random_partitions(&mut rng, &table, 12, 6);
    let fs = memory();
    write(&fs, &table, &partitions, options(&partitions, None, 60)).unwrap();
    let statistics = Statistics::decode(fs.read(&path).unwrap().into(), Version::NB).unwrap();
    copy_as_3_x(&fs, &old, &statistics);
    assert_eq!(crate::table_with_frozen_types(fs.as_ref(), &old), None);
}

/// The first SSTable again, as Cassandra 3.x has its files.
fn copy_as_3_x(fs: &Arc<dyn FileSystem>, to: &Descriptor, statistics: &Statistics) {
    for component in [Component::Data, Component::Crc, Component::Digest, Component::Index] {
        fs.write(&to.path(component), &fs.read(&descriptor(1).path(component)).unwrap()).unwrap();
    }
    fs.write(&to.path(Component::Statistics), &statistics.encode(to.version).unwrap()).unwrap();
}

/// No release that runs here writes `mc`: a file of `md` differs in the letters of its names, and in how far
/// its statistics can be relied on.
#[test]
fn the_clusterings_of_version_mc_are_not_relied_on() {
    let directory = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/3.11.10/wide");
    let md = Descriptor::new(&directory, crate::SsTableId::Sequence(1), Version::MD);
    let fs = memory();
    fs.create_dir_all(std::path::Path::new(DIRECTORY)).unwrap();
    let mc = Descriptor { version: Version::MC, ..descriptor(1) };
    for component in Component::ALL {
        let disk = env::fs::disk::DiskFileSystem;
        if let Ok(bytes) = env::fs::FileSystem::read(&disk, &md.path(*component)) {
            fs.write(&mc.path(*component), &bytes).unwrap();
        }
    }
    let open = |fs: &dyn env::fs::FileSystem, descriptor: &Descriptor| {
        Arc::new(SsTable::open(fs, descriptor, 1, Arc::new(Uncached)).unwrap())
    };
    let (md, mc) = (open(&env::fs::disk::DiskFileSystem, &md), open(fs.as_ref(), &mc));
    let table = Arc::new(crate::table_of_header(md.header()).unwrap());
    let all_of = |sstable: &Arc<SsTable>| {
        let filter = ClusteringFilter::all();
        let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
        collect(&mut scan, &table, false).unwrap()
    };
    assert_eq!(all_of(&mc), all_of(&md));
    let slices = vec![Slice::of_prefix(Clustering::from_values([&1_000_000i32.to_be_bytes()[..]]))];
    let beyond = ClusteringFilter::Slices { slices, reversed: false };
    assert!(!md.stats().overlaps_clusterings(&beyond, table.comparator()));
    // Nor is an SSTable of `md` left out, whose Statistics.db nothing vouches for.
    assert!(md.overlaps_clusterings(&beyond, &table));
    assert!(mc.overlaps_clusterings(&beyond, &table));
    assert_eq!((md.oldest_timestamp(), md.newest_timestamp()), (i64::MIN, i64::MAX));
    assert_eq!(md.last_local_deletion_time(), model::NO_DELETION_TIME);
    assert!(md.may_delete_partitions() && md.may_have_tombstones());
    assert!(md.stats().host_id.is_none_or(|host| md.commit_log_intervals(host).is_empty()));
}

/// Cassandra writes such a deletion as bytes that it cannot read.
#[test]
fn a_partition_deletion_before_1970_is_kept_in_every_version() {
    use model::{Cell, CqlType, Deletion, Row};
    let builder = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .static_column("s", CqlType::Int)
        .static_column("u", CqlType::Int)
        .static_column("l", CqlType::list(CqlType::Int, true))
        .regular("v", CqlType::Int);
    let table = Arc::new(builder.build());
    let id = |name: &str| table.column(name).unwrap().id;
    let value = || bytes::Bytes::from_static(&[0, 0, 0, 1]);
    let at = |c: i32| Clustering::from_values([&c.to_be_bytes()[..]]);
    let (floor, range) = (Deletion::new(-5, 1_700_000_000), Deletion::new(-3, 1_700_000_000));
    let change = |c: i32, deletion| {
        Item::Change(partition::RangeChange::at(model::ClusteringBound::start_at(at(c)), deletion))
    };
    let row = |c: i32| {
        let mut row = Row::new(at(c));
        row.cells.push(Cell::live(id("v"), 9, value()));
        Item::Row(row)
    };
    let mut statics = Row::default();
    statics.cells.push(Cell::live(id("s"), 7, value()));
    let mut items = vec![row(0), change(1, range)];
    items.extend((1..50).map(row));
    items.push(change(50, Deletion::NONE));
    let partitions = [
        Partition { key: key(1), deletion: floor, static_row: Some(statics), items },
        Partition { key: key(2), deletion: floor, static_row: None, items: Vec::new() },
    ];
    let mut partitions = partitions.to_vec();
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    for version in [Version::NB, Version::OA] {
        let fs = memory();
        write_version(&fs, &table, &partitions, options(&partitions, None, 1), version).unwrap();
        let sstable = open_version(&fs, version).unwrap();
        let scan = |reversed| {
            let filter = ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed };
            let mut scan = sstable.scan(&KeyRange::FULL, &filter, &all(&table), &table, &context()).unwrap();
            collect(&mut scan, &table, reversed).unwrap()
        };
        let (forward, backward) = (scan(false), scan(true));
        assert_eq!((forward.len(), backward.len()), (2, 2));
        let rows = |p: &Partition| p.items.iter().filter(|i| matches!(i, Item::Row(_))).count();
        for (i, expected) in partitions.iter().enumerate() {
            let found = &forward[i];
            assert_eq!((rows(found), rows(&backward[i])), (rows(expected), rows(expected)));
            for c in [-1, 0, 1, 30, 50, 60] {
                let clustering = at(c);
                let here = model::clustering::Position::row(&clustering);
                let holds = |p: &Partition| {
                    let open = p.deletion_at(&table, here);
                    if open.supersedes(&p.deletion) { open } else { p.deletion }
                };
                assert_eq!(holds(found), holds(expected), "{version} {c}");
            }
            if version == Version::OA {
                let statics = found.static_row.as_ref().unwrap();
                let alive = statics.cells_of(id("s"))[0].is_tombstone() != expected.static_row.is_some();
                assert!(alive && statics.cells_of(id("u")) == [Cell::tombstone(id("u"), -5, 1_700_000_000)]);
                assert_eq!(statics.complex_deletion(id("l")), floor);
            }
        }
    }
}
