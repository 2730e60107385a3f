//! Outline.db: the same answers with it and without, at the cost of the values that are asked for.

use super::support::*;
use crate::compression::CompressionParams;
use crate::{Component, Descriptor, FilePart, SsTable, Version};
use bytes::Bytes;
use env::fs::FileSystem;
use model::command::{ClusteringFilter, ColumnSelection};
use model::elements::{ElementSelection, PathRange};
use model::key::KeyRange;
use model::{Cell, CqlType, Deletion, Row, Slice, TableSchema};
use partition::codec::{LONG_VALUE_BYTES, Others};
use partition::{CostSnapshot, ReadContext};
use std::sync::Arc;
use uuid::Uuid;

const VERSIONS: [Version; 3] = [Version::NB, Version::OA, Version::DA];
const VALUE_BYTES: usize = 100 << 10;

fn path(version: Version, component: Component) -> std::path::PathBuf {
    Descriptor { version, ..descriptor(1) }.path(component)
}

fn open_with(fs: &Arc<dyn FileSystem>, version: Version, pages: Arc<Kept>) -> Arc<SsTable> {
    let descriptor = Descriptor { version, ..descriptor(1) };
    Arc::new(SsTable::open(fs.as_ref(), &descriptor, 1, pages).unwrap())
}

fn one_column(table: &TableSchema, column: usize) -> ColumnSelection {
    ColumnSelection::of(vec![table.regular_columns()[column].id])
}

/// A table with a map, and a partition with two rows that each have so many elements.
fn map_rows(elements: i32) -> (Arc<TableSchema>, Partition) {
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Blob, true))
        .build();
    let (mut rng, id) = (Rng::new(11), table.column("m").unwrap().id);
    let mut row = |c: i32| {
        let mut row = Row::new(at(c));
        let cell = |n: i32| {
            let path = Bytes::copy_from_slice(&n.to_be_bytes());
            Cell::live(id, 7, noise(&mut rng, VALUE_BYTES)).with_path(path)
        };
        row.cells = (0..elements).map(cell).collect();
        Item::Row(row)
    };
    let items = (0..2).map(&mut row).collect();
    let partition = Partition { key: key(1), deletion: Deletion::NONE, static_row: None, items };
    (Arc::new(table), partition)
}

#[test]
fn an_element_of_many_costs_its_own_chunks_at_one_call() {
    let (table, partition) = map_rows(50);
    let column = &table.regular_columns()[0];
    for compression in compressions() {
        for version in VERSIONS {
            let fs = written(&table, std::slice::from_ref(&partition), compression.clone(), version);
            for others in [Others::Stay, Others::One] {
                for element in [0, 25, 49i32] {
                    let what = format!("{version} {compression:?} {others:?} element {element}");
                    let path = Bytes::copy_from_slice(&element.to_be_bytes());
                    let paths = vec![PathRange::of(path.clone())];
                    let elements = ElementSelection::new(column.id, CqlType::Int, paths);
                    let mut columns = ColumnSelection::all(&table);
                    (columns.all, columns.elements) = (false, Some(Arc::new(vec![elements])));
                    let sstable = open_with(&fs, version, Arc::new(Kept::default()));
                    let (filter, context) = (ClusteringFilter::all(), ReadContext::default());
                    let stream = sstable.read(&partition.key, &filter, &columns, &table, &context);
                    let mut stream = stream.unwrap().unwrap();
                    stream.set_others(others);
                    let found = collect(&mut stream, &table, false).unwrap();
                    for (found, written) in found[0].items.iter().zip(&partition.items) {
                        let (Item::Row(found), Item::Row(written)) = (found, written) else {
                            panic!("{what}")
                        };
                        let expected = written.cells.iter().map(|cell| match cell.path == path {
                            true => cell.clone(),
                            false => Cell { value: Bytes::new(), ..cell.clone() },
                        });
                        // One that nobody asked for may say that the row is there.
                        let stays = |cell: &Cell| others == Others::Stay || !cell.value.is_empty();
                        let is_first = |at: usize| others == Others::One && at == 0;
                        let expected = expected.enumerate().filter(|(at, cell)| stays(cell) || is_first(*at));
                        assert_eq!(found.cells, expected.map(|(_, cell)| cell).collect::<Vec<_>>(), "{what}");
                    }
                    assert_eq!(found[0].items.len(), 2);
                    drop(stream);
                    let cost = context.cost.snapshot();
                    let ratio = cost.disk_bytes as f64 / (2.0 * VALUE_BYTES as f64);
                    assert!(
                        ratio <= BAR && cost.ios <= cost.index_page_misses + 2,
                        "{what}: {ratio} {cost:?}"
                    );
                }
            }
        }
    }
}

/// What a read of one column cost; of one row, or of all rows of the partition.
fn cost(
    sstable: &Arc<SsTable>,
    table: &Arc<TableSchema>,
    partition: &Partition,
    row: Option<i32>,
    column: usize,
) -> CostSnapshot {
    let filter = match row {
        Some(c) => ClusteringFilter::Slices { slices: vec![Slice::of_prefix(at(c))], reversed: false },
        None => ClusteringFilter::all(),
    };
    let context = ReadContext::default();
    let columns = one_column(table, column);
    let mut stream = sstable.read(&partition.key, &filter, &columns, table, &context).unwrap().unwrap();
    let found = collect(&mut stream, table, false).unwrap();
    let id = table.regular_columns()[column].id;
    let values = |items: &[Item]| -> Vec<Bytes> {
        let rows = items.iter().filter_map(|item| if let Item::Row(row) = item { Some(row) } else { None });
        rows.filter(|r| row.is_none_or(|c| r.clustering == at(c)))
            .map(|row| row.cells_of(id)[0].value.clone())
            .collect()
    };
    assert_eq!(values(&found[0].items), values(&partition.items));
    drop(stream);
    context.cost.snapshot()
}

fn compressions() -> [Option<CompressionParams>; 3] {
    let lz4 = CompressionParams::lz4();
    [None, Some(lz4.clone()), Some(CompressionParams { chunk_len: 64 << 10, ..lz4 })]
}

fn written(
    table: &Arc<TableSchema>,
    partitions: &[Partition],
    compression: Option<CompressionParams>,
    version: Version,
) -> Arc<dyn FileSystem> {
    let fs = memory();
    write_version(&fs, table, partitions, options(partitions, compression, 64 << 10), version).unwrap();
    fs
}

/// The most bytes read over bytes answered, with nothing in memory.
const BAR: f64 = 1.3;

#[test]
fn a_column_of_many_costs_its_own_chunks_at_one_call_each() {
    const ROWS: i32 = 4;
    let (few, many) = (wide_table(10), wide_table(100));
    let tables = [&few, &many].map(|table| (table, wide_partitions(table, 2, ROWS, VALUE_BYTES)));
    for compression in compressions() {
        for version in VERSIONS {
            for (table, partitions) in &tables {
                let fs = written(table, partitions, compression.clone(), version);
                let count = table.regular_columns().len();
                for column in [0, count / 2, count - 1] {
                    let what = format!("{version} {compression:?} column {column} of {count}");
                    let pages = Arc::new(Kept::default());
                    let sstable = open_with(&fs, version, Arc::clone(&pages));
                    let all = cost(&sstable, table, &partitions[1], None, column);
                    let ratio = all.disk_bytes as f64 / (ROWS as f64 * VALUE_BYTES as f64);
                    assert!(ratio <= BAR, "{what}: {ratio}");
                    assert!(all.ios <= all.index_page_misses + ROWS as u64, "{what}: {all:?}");
                    assert!(all.index_page_misses <= 4, "{what}: {all:?}");
                    for row in 0..ROWS {
                        pages.0.lock().unwrap().clear();
                        let one = cost(&sstable, table, &partitions[1], Some(row), column);
                        let ratio = one.disk_bytes as f64 / VALUE_BYTES as f64;

                        assert!(ratio <= BAR, "{what} row {row}: {ratio}, {one:?}");
                        assert!(one.ios <= 1 + one.index_page_misses, "{what} {row}: {one:?}");
                        assert!(one.chunk_misses <= 14 && one.chunk_hits == 0, "{what} {row}: {one:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_column_of_all_rows_costs_backwards_what_it_does_forwards() {
    const ROWS: i32 = 30;
    let table = wide_table(20);
    let partitions = wide_partitions(&table, 1, ROWS, 30_000);
    for compression in compressions() {
        for version in VERSIONS {
            let fs = written(&table, &partitions, compression.clone(), version);
            for column in [0, 10, 19] {
                let what = format!("{version} {compression:?} column {column}");
                let read = |reversed: bool| {
                    let sstable = open_with(&fs, version, Arc::default());
                    let filter = ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed };
                    let (context, columns) = (ReadContext::default(), one_column(&table, column));
                    let key = &partitions[0].key;
                    let mut stream = sstable.read(key, &filter, &columns, &table, &context).unwrap().unwrap();
                    let found = collect(&mut stream, &table, reversed).unwrap();
                    assert_eq!(found[0].items.len(), ROWS as usize, "{what}");
                    context.cost.snapshot()
                };
                let (forwards, backwards) = (read(false), read(true));
                assert!(
                    backwards.disk_bytes * 10 <= forwards.disk_bytes * 13,
                    "{what}: {backwards:?}, {forwards:?}"
                );
                assert!(backwards.ios <= forwards.ios + 4, "{what}: {backwards:?}, {forwards:?}");
            }
        }
    }
}

/// Long values make chunks short only where they are read for nothing else, and where compression does not
/// make up for it.
#[test]
fn chunks_are_as_short_as_long_values_need_them() {
    let table = wide_table(3);
    let chunk_len = |value_bytes: usize, is_even: bool, compression: Option<CompressionParams>| {
        let mut partitions = wide_partitions(&table, 1, 30, value_bytes);
        if is_even {
            for item in &mut partitions[0].items {
                let Item::Row(row) = item else { continue };
                row.cells.iter_mut().for_each(|cell| cell.value = Bytes::from(vec![7; value_bytes]));
            }
        }
        let fs = written(&table, &partitions, compression, Version::NB);
        let pages: Arc<Kept> = Arc::default();
        let sstable = open_with(&fs, Version::NB, Arc::clone(&pages));
        cost(&sstable, &table, &partitions[0], None, 1);
        let pages = pages.0.lock().unwrap();
        let longest = pages.iter().filter(|((file, _), _)| file.part == FilePart::Data);
        longest.map(|(_, content)| content.len()).max().unwrap()
    };
    let [none, lz4, long] = compressions();
    assert_eq!([&none, &lz4, &long].map(|c| chunk_len(VALUE_BYTES, false, c.clone())), [8 << 10; 3]);
    assert_eq!(
        [&none, &lz4, &long].map(|c| chunk_len(1 << 20, false, c.clone())),
        [16 << 10, 16 << 10, 64 << 10]
    );
    assert_eq!(
        [&none, &lz4, &long].map(|c| chunk_len(VALUE_BYTES, true, c.clone())),
        [8 << 10, 16 << 10, 64 << 10]
    );
    assert_eq!(
        [&none, &lz4, &long].map(|c| chunk_len(1 << 10, false, c.clone())),
        [16 << 10, 16 << 10, 64 << 10]
    );
    assert_eq!(chunk_len(10 << 10, false, lz4), 4 << 10);
}

#[test]
fn keys_of_rows_with_long_values_are_read_without_them() {
    let table = wide_table(10);
    let partitions = wide_partitions(&table, 3, 5, VALUE_BYTES);
    for version in VERSIONS {
        let fs = written(&table, &partitions, None, version);
        let sstable = open_with(&fs, version, Arc::default());
        for reversed in [false, true] {
            let context = ReadContext::default();
            let filter = ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed };
            let none = ColumnSelection::of(Vec::new());
            let mut scan = sstable.scan(&KeyRange::FULL, &filter, &none, &table, &context).unwrap();
            let found = collect(&mut scan, &table, reversed).unwrap();
            assert_eq!(found.iter().map(|p| p.items.len()).sum::<usize>(), 15);
            let cost = context.cost.snapshot();
            // What ends the file is the last run.
            assert_eq!((cost.chunk_misses, cost.chunk_hits), (0, 0), "{version} {reversed}");
        }
    }
}

#[test]
fn without_its_outline_a_table_reads_as_before() {
    let table = wide_table(10);
    let partitions = wide_partitions(&table, 2, 2, VALUE_BYTES);
    for version in VERSIONS {
        let fs = written(&table, &partitions, Some(CompressionParams::lz4()), version);
        fs.remove_file(&path(version, Component::Outline)).unwrap();
        let sstable = open_with(&fs, version, Arc::default());
        let cost = cost(&sstable, &table, &partitions[0], None, 9);
        assert!(cost.chunk_misses >= 2 * (9 + 7), "{cost:?}");
    }
}

fn short_rows(table: &TableSchema, seed: u8) -> Vec<Partition> {
    let mut partitions = wide_partitions(table, 2, 3, 9 << 10);
    for partition in &mut partitions {
        for item in &mut partition.items {
            if let Item::Row(row) = item {
                row.cells[0].value = Bytes::from(vec![seed; 10]);
            }
        }
    }
    partitions
}

#[test]
fn the_outline_of_another_file_is_not_used() {
    let table = wide_table(3);
    let other = written(&table, &short_rows(&table, 1), None, Version::NB);
    let partitions = short_rows(&table, 2);
    let fs = written(&table, &partitions, None, Version::NB);
    let outline = path(Version::NB, Component::Outline);
    fs.write(&outline, &other.read(&outline).unwrap()).unwrap();
    let sstable = open(&fs).unwrap();
    for (column, partition) in [(0, &partitions[0]), (2, &partitions[1])] {
        let cost = cost(&sstable, &table, partition, None, column);
        assert!(cost.chunk_misses > 0);
    }
    assert!(sstable.outline.get().is_none());
    let found = crate::verify(fs.as_ref(), &descriptor(1), &|_| {}).unwrap().findings;
    assert_eq!(found.iter().map(|f| f.component).collect::<Vec<_>>(), [Component::Outline]);
    fs.remove_file(&descriptor(1).path(Component::Digest)).unwrap();
    assert!(open(&fs).unwrap().outline.get().is_none());
}

/// Checksums that fit do not make what is wrong right: the value's own chunk tells, and the check of the
/// whole.
#[test]
fn a_value_is_only_read_behind_the_bytes_that_the_outline_has() {
    let table = wide_table(3);
    let partitions = short_rows(&table, 1);
    let fs = written(&table, &partitions, None, Version::NB);
    assert_eq!(crate::verify(fs.as_ref(), &descriptor(1), &|_| {}).unwrap().findings, []);
    let outline = path(Version::NB, Component::Outline);
    let mut bytes = fs.read(&outline).unwrap();
    // The length of the first value that is long, one more.
    let value = vint_of(9 << 10);
    let found = bytes.windows(value.len()).position(|w| w == value).unwrap();
    bytes[found + value.len() - 1] += 1;
    let mut page = bytes[..4092].to_vec();
    crate::checksum::seal_page(&mut page, 0);
    bytes[..4096].copy_from_slice(&page);
    fs.write(&outline, &bytes).unwrap();
    let sstable = open(&fs).unwrap();
    let read = || {
        let columns = one_column(&table, 1);
        let filter = ClusteringFilter::all();
        let mut scan = sstable.scan(&KeyRange::FULL, &filter, &columns, &table, &context())?;
        let mut fragment = partition::Fragment::default();
        while partition::PartitionStream::next(&mut scan, &mut fragment)? != partition::Event::End {}
        Ok::<_, partition::ReadError>(())
    };
    let error = read().unwrap_err().to_string();
    assert!(error.contains("outline") && error.contains("Data.db"), "{error}");
    let found = crate::verify(fs.as_ref(), &descriptor(1), &|_| {}).unwrap().findings;
    assert_eq!(found.iter().map(|f| f.component).collect::<Vec<_>>(), [Component::Outline]);
}

fn vint_of(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    model::vint::write_unsigned(&mut out, value);
    out
}

/// So many long values that the root has directories below it.
#[test]
fn a_long_outline_is_searched_through_its_directories() {
    const ROWS: i32 = 5_000;
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("a", CqlType::Blob)
        .regular("b", CqlType::Blob)
        .regular("z", CqlType::Blob);
    let table = Arc::new(table.build());
    let id = |name: &str| table.column(name).unwrap().id;
    let row = |c: i32| {
        let mut row = Row::new(at(c));
        row.cells.push(Cell::live(id("a"), 1, Bytes::from(vec![c as u8; 400])));
        row.cells.push(Cell::live(id("b"), 2, Bytes::from(vec![c as u8; LONG_VALUE_BYTES])));
        row.cells.push(Cell::live(id("z"), 3, Bytes::copy_from_slice(&c.to_be_bytes())));
        Item::Row(row)
    };
    let items = (0..ROWS).map(row).collect();
    let partitions = [Partition { key: key(1), deletion: Deletion::NONE, static_row: None, items }];
    let fs = written(&table, &partitions, Some(CompressionParams::lz4()), Version::NB);
    let pages = fs.file_len(&path(Version::NB, Component::Outline)).unwrap() / 4096;
    assert!(pages > 500 + 3, "{pages}");
    let sstable = open_with(&fs, Version::NB, Arc::default());
    for c in (0..ROWS).step_by(97).chain([0, 1, ROWS - 1]) {
        let cost = cost(&sstable, &table, &partitions[0], Some(c), 2);
        assert_eq!(cost.chunk_misses + cost.chunk_hits, 0, "{c} {cost:?}");
    }
    cost(&sstable, &table, &partitions[0], None, 2);
    assert_eq!(crate::verify(fs.as_ref(), &descriptor(1), &|_| {}).unwrap().findings, []);
}

#[test]
fn tables_without_long_values_have_no_outline() {
    let table = wide_table(3);
    let partitions = wide_partitions(&table, 2, 5, LONG_VALUE_BYTES - 1);
    let fs = written(&table, &partitions, None, Version::NB);
    assert!(!fs.exists(&path(Version::NB, Component::Outline)).unwrap());
}

/// Makes some values long.
fn stretch(rng: &mut Rng, row: &mut Row, table: &TableSchema) {
    for cell in &mut row.cells {
        let ty = &table.column_by_id(cell.column).unwrap().ty;
        let is_sized = matches!(ty, CqlType::Blob | CqlType::Text | CqlType::Map { .. });
        if is_sized && !cell.is_tombstone() && rng.chance(50) {
            let len = LONG_VALUE_BYTES - 2 + rng.below(30_000) as usize;
            cell.value = noise(rng, len);
        }
    }
}

#[test]
fn answers_are_the_same_with_an_outline_and_without() {
    let mut outlined = 0;
    for seed in 0..80 {
        let mut rng = Rng::new(seed);
        let table = random_table(&mut rng);
        let mut partitions = random_partitions(&mut rng, &table, 6, 12);
        for partition in &mut partitions {
            partition.static_row.iter_mut().for_each(|row| stretch(&mut rng, row, &table));
            for item in &mut partition.items {
                if let Item::Row(row) = item {
                    stretch(&mut rng, row, &table);
                }
            }
        }
        let version = random_version(&mut rng);
        let compression = compressions()[rng.below(2) as usize].clone();
        let block = 1 << (6 + rng.below(12));
        let fs = memory();
        if write_version(&fs, &table, &partitions, options(&partitions, compression, block), version)
            .is_none()
        {
            continue;
        }
        let with = open_version(&fs, version).unwrap();
        if !with.components().contains(&Component::Outline) {
            continue;
        }
        outlined += 1;
        fs.remove_file(&path(version, Component::Outline)).unwrap();
        let without = open_version(&fs, version).unwrap();
        for _ in 0..20 {
            let mut columns = ColumnSelection::all(&table).columns.to_vec();
            columns.retain(|_| rng.chance(40));
            let columns = ColumnSelection::of(columns);
            let reversed = rng.chance(40);
            let slices = match rng.chance(40) || table.clustering_columns().is_empty() {
                true => vec![Slice::ALL],
                false => vec![random_slice(&mut rng, &table)],
            };
            let filter = ClusteringFilter::Slices { slices, reversed };
            let ask = |sstable: &Arc<SsTable>| {
                let mut scan = sstable.scan(&KeyRange::FULL, &filter, &columns, &table, &context()).unwrap();
                let mut out = collect(&mut scan, &table, reversed).unwrap();
                for partition in &partitions {
                    let found = sstable.read(&partition.key, &filter, &columns, &table, &context()).unwrap();
                    out.extend(
                        found.map(|mut s| collect(&mut s, &table, reversed).unwrap()).unwrap_or_default(),
                    );
                }
                out
            };
            assert_eq!(ask(&with), ask(&without), "seed {seed} {version} {filter:?} {columns:?}");
        }
    }
    assert!(outlined > 20, "{outlined}");
}
