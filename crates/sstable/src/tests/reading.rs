//! What reads of a large partition touch: index pages, chunks, calls to the disk and bytes.

use super::support::*;
use crate::compression::CompressionParams;
use crate::{Descriptor, FilePart, PageSource, SsTable, Version};
use bytes::Bytes;
use env::fs::FileSystem;
use env::fs::faulty::FaultyFileSystem;
use model::command::ClusteringFilter;
use model::schema::{CompressionOptions, TableOptions};
use model::{Cell, Clustering, ClusteringBound, CqlType, Deletion, Liveness, Row, Slice, TableSchema};
use partition::{CostSnapshot, Event, Fragment, PartitionStream, ReadContext, ReadError};
use std::sync::Arc;

/// A partition of rows `0..rows`, their values of so many bytes that nothing compresses.
pub(super) fn numbered(rows: u64, value_bytes: usize) -> (Arc<TableSchema>, Vec<Partition>) {
    let table = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::BigInt, false)
        .regular("v", CqlType::Blob)
        .build();
    let value = table.column("v").unwrap().id;
    let mut rng = Rng::new(1);
    let items = (0..rows).map(|i| {
        let mut row = Row::new(number(i));
        row.liveness = Liveness::new(5);
        let noise: Bytes = (0..value_bytes).map(|_| rng.next() as u8).collect();
        row.cells.push(Cell::live(value, 5, noise));
        Item::Row(row)
    });
    let items = items.collect();
    let partition = Partition { key: key(1), deletion: Deletion::NONE, static_row: None, items };
    (Arc::new(table), vec![partition])
}

pub(super) fn number(i: u64) -> Clustering {
    Clustering::from_values([&i.to_be_bytes()[..]])
}

pub(super) fn names(numbers: impl IntoIterator<Item = u64>, reversed: bool) -> ClusteringFilter {
    ClusteringFilter::Names { names: numbers.into_iter().map(number).collect(), reversed }
}

/// Opens what was written with an empty cache before it.
pub(super) fn open_with(fs: &Arc<dyn FileSystem>, version: Version) -> (Arc<SsTable>, Arc<Kept>) {
    let descriptor = Descriptor { version, ..descriptor(1) };
    let kept = Arc::new(Kept::default());
    let pages: Arc<dyn PageSource> = kept.clone();
    (Arc::new(SsTable::open(fs.as_ref(), &descriptor, 1, pages).unwrap()), kept)
}

/// Rows from `start` on, or those before it.
pub(super) fn from(start: u64, reversed: bool) -> ClusteringFilter {
    let slice = match reversed {
        false => Slice { start: ClusteringBound::start_at(number(start)), end: ClusteringBound::TOP },
        true => Slice { start: ClusteringBound::BOTTOM, end: ClusteringBound::end_at(number(start)) },
    };
    ClusteringFilter::Slices { slices: vec![slice], reversed }
}

/// What the first `rows` rows cost.
pub(super) fn cost_of_first(
    sstable: &Arc<SsTable>,
    table: &Arc<TableSchema>,
    filter: &ClusteringFilter,
    rows: u64,
) -> CostSnapshot {
    let context = ReadContext { rows_wanted: rows, ..context() };
    let mut stream = sstable.read(&key(1), filter, &all(table), table, &context).unwrap().unwrap();
    let (mut fragment, mut found) = (Fragment::default(), 0);
    while found < rows {
        let event = stream.next(&mut fragment).unwrap();
        assert_ne!(event, Event::End);
        found += u64::from(event == Event::Row);
    }
    drop(stream);
    context.cost.snapshot()
}

/// Every version that is written, compressed and not.
fn forms() -> impl Iterator<Item = (Version, Option<CompressionParams>)> {
    let versions = [Version::NB, Version::OA, Version::DA];
    versions.into_iter().flat_map(|v| [(v, None), (v, Some(CompressionParams::lz4()))])
}

/// Reads the partition and says what that cost; as many rows are found as the filter names.
pub(super) fn cost_of(
    sstable: &Arc<SsTable>,
    table: &Arc<TableSchema>,
    filter: &ClusteringFilter,
    rows: usize,
) -> CostSnapshot {
    let context = context();
    let mut stream = sstable.read(&key(1), filter, &all(table), table, &context).unwrap().unwrap();
    let found = collect(&mut stream, table, filter.is_reversed()).unwrap();
    assert_eq!(found[0].items.len(), rows);
    drop(stream);
    context.cost.snapshot()
}

#[test]
fn names_that_lie_together_are_searched_for_once() {
    let (table, partitions) = numbered(20_000, 4);
    for version in [Version::NB, Version::OA, Version::DA] {
        let fs = memory();
        write_version(&fs, &table, &partitions, options(&partitions, None, 64), version).unwrap();
        let sstable = open_version(&fs, version).unwrap();
        for reversed in [false, true] {
            let one = cost_of(&sstable, &table, &names([9_000], reversed), 1);
            let together = cost_of(&sstable, &table, &names(9_000..9_100, reversed), 100);
            // The rows may reach into a second chunk, and are looked for there once more.
            assert!(together.index_page_misses <= 3 * one.index_page_misses, "{one:?} {together:?}");
            let apart = names((0..100).map(|i| i * 190), reversed);
            let apart = cost_of(&sstable, &table, &apart, 100);
            assert!(apart.index_page_misses > 3 * together.index_page_misses, "{apart:?}");
        }
    }
}

const KIB: u64 = 1 << 10;

#[test]
fn a_read_that_may_not_block_loads_what_the_system_has_in_memory_within_bounds() {
    let (table, partitions) = numbered(1_000, 1_000);
    for (version, compression) in forms() {
        let faulty = FaultyFileSystem::new(memory());
        let fs: Arc<dyn FileSystem> = Arc::new(faulty.clone());
        write_version(&fs, &table, &partitions, options(&partitions, compression, 4 << 10), version).unwrap();
        let (sstable, kept) = open_with(&fs, version);
        let attempt = |filter: &ClusteringFilter, at_once_bytes_max| {
            kept.forget(|_, _| true);
            let context = ReadContext { may_block: false, at_once_bytes_max, ..context() };
            let stream = sstable.read(&key(1), filter, &all(&table), &table, &context)?;
            collect(&mut stream.unwrap(), &table, false)
                .map(|found| (found[0].items.len(), context.cost.snapshot()))
        };
        for (filter, rows) in
            [(names([500], false), 1), (names([0, 700], false), 2), (names(300..340, false), 40)]
        {
            kept.forget(|_, _| true);
            let cold = cost_of(&sstable, &table, &filter, rows);
            faulty.set_in_memory(true);
            assert_eq!(attempt(&filter, 1 << 20).unwrap(), (rows, cold), "{version:?}");
            let bytes = cold.disk_bytes + cold.decompressed_bytes;
            assert!(matches!(attempt(&filter, bytes / 2), Err(ReadError::WouldBlock)));
            assert!(matches!(attempt(&filter, 0), Err(ReadError::WouldBlock)));
            faulty.set_in_memory(false);
            assert!(
                matches!(attempt(&filter, 1 << 20), Err(ReadError::WouldBlock)),
                "the device would be waited for"
            );
        }
    }
}

/// What one row costs with an index in memory, read by a thread that may not wait, where the system has the
/// file in memory.
fn cost_at_once(
    version: Version,
    compression: Option<CompressionParams>,
    value_bytes: usize,
    row: u64,
) -> CostSnapshot {
    let (table, partitions) = numbered(row + 50, value_bytes);
    let faulty = FaultyFileSystem::new(memory());
    let fs: Arc<dyn FileSystem> = Arc::new(faulty.clone());
    write_version(&fs, &table, &partitions, options(&partitions, compression, 4 << 10), version).unwrap();
    let (sstable, kept) = open_with(&fs, version);
    faulty.set_in_memory(true);
    cost_of(&sstable, &table, &names([row], false), 1);
    kept.forget(|part, page| part == FilePart::Data && page > 0);
    let context = ReadContext { may_block: false, at_once_bytes_max: 1 << 20, ..context() };
    let stream = sstable.read(&key(1), &names([row], false), &all(&table), &table, &context).unwrap();
    assert_eq!(collect(&mut stream.unwrap(), &table, false).unwrap()[0].items.len(), 1);
    let cost = context.cost.snapshot();
    assert_eq!(cost.index_page_misses, 0, "{version:?}: {cost:?}");
    cost
}

/// The system's memory is read without a wait, so nothing is read that the row may not lie in.
#[test]
fn one_row_that_the_system_has_in_memory_is_read_without_the_chunk_beside_it() {
    for (version, compression) in forms() {
        let (mut chunks, mut rows) = (0, 0);
        for row in (50..400).step_by(7) {
            let cost = cost_at_once(version, compression.clone(), 1_000, row);
            assert_eq!(cost.ios, cost.chunk_misses, "{version:?}: {cost:?}");
            assert!(cost.disk_bytes <= cost.chunk_misses * (16 * KIB + 4), "{version:?}: {cost:?}");
            (chunks, rows) = (chunks + cost.chunk_misses, rows + 1);
        }
        // A row in sixteen lies across two.
        assert!(chunks * 100 <= rows * 110, "{version:?}: {chunks} chunks for {rows} rows");
    }
}

#[test]
fn a_long_value_that_the_system_has_in_memory_is_read_at_once() {
    for (version, compression) in forms() {
        let cost = cost_at_once(version, compression, 60_000, 5);
        assert!(cost.chunk_misses >= 4 && cost.ios <= 2, "{version:?}: {cost:?}");
    }
}

#[test]
fn chunks_that_hardly_compress_are_stored_as_they_are() {
    let (table, mut partitions) = numbered(400, 1_000);
    let of = CompressionOptions { min_compress_ratio: 0.0, ..TableOptions::default().compression };
    for (is_noise, ratio) in [(true, 0.0), (false, 0.0), (true, 1.0), (false, 1e6)] {
        if !is_noise {
            for item in &mut partitions[0].items {
                let Item::Row(row) = item else { panic!("no row") };
                row.cells[0].value = vec![7; 1_000].into();
            }
        }
        let params = CompressionOptions { min_compress_ratio: ratio, ..of.clone() };
        let params = CompressionParams::of_options(&params).unwrap();
        let fs = memory();
        write_version(&fs, &table, &partitions, options(&partitions, params, 4 << 10), Version::NB).unwrap();
        let (sstable, _) = open_with(&fs, Version::NB);
        let cost = cost_of(&sstable, &table, &ClusteringFilter::all(), 400);
        match (is_noise, ratio) {
            // The last chunk is short enough.
            (true, 0.0) => assert!(cost.decompressed_bytes < 16 * KIB, "{cost:?}"),
            // The keys of the rows compress.
            (true, _) | (false, 0.0) => assert!(cost.decompressed_bytes > 390 * KIB, "{ratio}: {cost:?}"),
            _ => assert_eq!(cost.decompressed_bytes, 0, "{cost:?}"),
        }
    }
}

#[test]
fn what_will_not_fit_is_not_begun_by_a_read_that_may_not_block() {
    let (table, partitions) = numbered(1_000, 1_000);
    let fs = memory();
    write_version(&fs, &table, &partitions, options(&partitions, None, 4 << 10), Version::OA).unwrap();
    let (sstable, _) = open_with(&fs, Version::OA);
    let warm = context();
    cost_of(&sstable, &table, &ClusteringFilter::all(), 1_000);
    let opens = |filter: &ClusteringFilter, rows_wanted, rows_max, bytes_max| {
        let ctx = ReadContext { may_block: false, rows_wanted, rows_max, bytes_max, ..warm.clone() };
        match sstable.read(&key(1), filter, &all(&table), &table, &ctx) {
            Ok(stream) => stream.is_some(),
            Err(ReadError::WouldBlock) => false,
            Err(error) => panic!("{error}"),
        }
    };
    for reversed in [false, true] {
        let slice = from(500, reversed);
        assert!(opens(&slice, 100, 256, 128 << 10));
        assert!(!opens(&slice, 200, 256, 128 << 10), "200 KiB");
        assert!(!opens(&slice, 200, 199, u64::MAX), "200 rows");
        assert!(opens(&names(0..100, reversed), u64::MAX, 256, 128 << 10));
        assert!(!opens(&names(0..200, reversed), u64::MAX, 256, 128 << 10));
    }
    let ClusteringFilter::Slices { slices, .. } = from(500, false) else { unreachable!() };
    let slice = Slice { end: ClusteringBound::end_at(number(600)), ..slices[0].clone() };
    let ends = ClusteringFilter::Slices { slices: vec![slice], reversed: false };
    assert!(opens(&ends, u64::MAX, 256, 128 << 10), "nobody knows how much lies in it");
    assert!(opens(&ClusteringFilter::all(), u64::MAX, 1_000, u64::MAX), "there are no more");
}

#[test]
fn one_row_in_the_middle_costs_its_block_and_little_of_the_index() {
    const ROWS: u64 = 3_000;
    let (table, partitions) = numbered(ROWS, 1 << 10);
    for (version, compression) in forms() {
        let fs = memory();
        write_version(&fs, &table, &partitions, options(&partitions, compression, 4 << 10), version).unwrap();
        let (sstable, kept) = open_with(&fs, version);
        let (mut ios, mut bytes, mut reads) = (0, 0, 0);
        for row in (0..ROWS).step_by(37) {
            kept.forget(|_, _| true);
            let cold = cost_of(&sstable, &table, &names([row], false), 1);
            assert!(cold.ios <= 7 && cold.disk_bytes <= 64 * KIB, "{version:?}, row {row}: {cold:?}");
            // The first chunk says whose partition it is, and what deletes it: every read of the partition
            // touches it.
            kept.forget(|part, page| part == FilePart::Data && page > 0);
            let warm = cost_of(&sstable, &table, &names([row], false), 1);
            assert_eq!(warm.index_page_misses, 0);
            assert!(warm.chunk_misses <= 2 && warm.rows_scanned <= 8, "{version:?}, row {row}: {warm:?}");
            (ios, bytes, reads) = (ios + cold.ios, bytes + cold.disk_bytes, reads + 1);
        }
        assert!(
            ios <= 6 * reads && bytes <= 50 * KIB * reads,
            "{version:?}: {ios}, {bytes} of {reads} reads"
        );
    }
}

#[test]
fn a_slice_costs_the_same_wherever_it_begins_and_however_large_the_partition() {
    let small = numbered(100, 25);
    let large = numbered(60_000, 25);
    for (version, compression) in forms() {
        let write = |(table, partitions): &(Arc<TableSchema>, Vec<Partition>)| {
            let fs = memory();
            // Blocks of three rows: as many as there are of 4 KiB in millions of rows.
            write_version(&fs, table, partitions, options(partitions, compression.clone(), 128), version)
                .unwrap();
            open_with(&fs, version).0
        };
        let (alone, among) = (write(&small), write(&large));
        let least = cost_of_first(&alone, &small.0, &from(0, false), 100);
        assert!(least.chunk_misses == 1 && least.ios <= 3, "{version:?}: {least:?}");
        for (start, reversed) in
            [(0, false), (3, false), (30_000, false), (59_900, false), (59_999, true), (30_000, true)]
        {
            let cost = cost_of_first(&among, &large.0, &from(start, reversed), 100);
            let pages = cost.index_page_hits + cost.index_page_misses;
            let chunks = cost.chunk_hits + cost.chunk_misses;
            assert!(cost.rows_scanned <= 110, "{version:?}, {start}, reversed {reversed}: {cost:?}");
            assert!(chunks <= 12 && pages <= 100, "{version:?}, {start}, reversed {reversed}: {cost:?}");
        }
    }
}

#[test]
fn a_long_slice_reads_little_more_than_it_returns() {
    let (table, partitions) = numbered(6_000, 1 << 10);
    for version in [Version::NB, Version::OA, Version::DA] {
        let fs = memory();
        write_version(&fs, &table, &partitions, options(&partitions, None, 4 << 10), version).unwrap();
        for (start, reversed) in [(0, false), (1_000, false), (5_096, true)] {
            let (sstable, _) = open_with(&fs, version);
            let cost = cost_of_first(&sstable, &table, &from(start, reversed), 4_096);
            let returned = 4_096 * KIB;
            assert!(
                cost.disk_bytes * 5 <= returned * 6,
                "{version:?}, {start}, reversed {reversed}: {cost:?}"
            );
        }
    }
}
