//! What is in the page cache when a compaction ends: what was hot, and little else.

use super::early::{early_engine, uncompressed};
use super::*;
use crate::SsTableFormat;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::{CqlType, Slice};
use partition::{CostSnapshot, Event, Fragment, PartitionStream, ReadContext};

pub const MODES: [(StorageCompatibility, SsTableFormat); 3] = [
    (StorageCompatibility::Cassandra4, SsTableFormat::Big),
    (StorageCompatibility::None, SsTableFormat::Big),
    (StorageCompatibility::None, SsTableFormat::Bti),
];

/// Pages that are not in the cache: of the data and of the index.
type Misses = (u64, u64);

/// What a read of the first rows of a partition that the filter selects misses; it leaves nothing unless it
/// `fills` the cache.
fn misses(
    engine: &Engine,
    table: &Arc<TableSchema>,
    k: i32,
    clusterings: &ClusteringFilter,
    rows: usize,
    fills: bool,
) -> Misses {
    misses_of(engine, table, &ColumnSelection::all(table), k, clusterings, rows, fills)
}

/// As [`misses`], of some columns.
fn misses_of(
    engine: &Engine,
    table: &Arc<TableSchema>,
    columns: &ColumnSelection,
    k: i32,
    clusterings: &ClusteringFilter,
    rows: usize,
    fills: bool,
) -> Misses {
    let command = ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key(k)]),
        clusterings: clusterings.clone(),
        columns: columns.clone(),
        row_filter: Vec::new(),
        limits: DataLimits { rows: rows as u64, ..DataLimits::NONE },
        now_s: 0,
    };
    let ctx = ReadContext { fill_cache: fills, rows_wanted: rows as u64, ..ReadContext::default() };
    let mut stream = engine.read(&command, &ctx).unwrap();
    let (mut fragment, mut found) = (Fragment::default(), 0);
    while found < rows {
        match stream.next(&mut fragment).unwrap() {
            Event::End => panic!("{found} of {rows} rows"),
            event => found += usize::from(event == Event::Row),
        }
    }
    drop(stream);
    let CostSnapshot { chunk_misses, index_page_misses, .. } = ctx.cost.snapshot();
    (chunk_misses, index_page_misses)
}

fn sum(misses: impl Iterator<Item = Misses>) -> Misses {
    misses.fold((0, 0), |sum, misses| (sum.0 + misses.0, sum.1 + misses.1))
}

/// Keys in the order of their tokens.
fn keys(count: i32) -> Vec<i32> {
    let mut keys: Vec<i32> = (0..count).collect();
    keys.sort_by_cached_key(|k| key(*k));
    keys
}

fn compact(engine: &Engine, table: &Arc<TableSchema>) {
    run(engine, table, all(engine, table));
    assert_eq!(sstables(engine, table), 1);
}

/// How many pages of the only SSTable are in the cache, which has no others any more. The index leaves it for
/// that.
fn resident(engine: &Engine, table: &Arc<TableSchema>) -> (u64, u64) {
    let entries = || engine.stats().page_cache.entries;
    let all = entries();
    engine.page_cache().clear_index();
    let view = store(engine, table).view();
    let pages = 0..=view.sstables[0].page_of(view.sstables[0].data_bytes());
    let warm = pages.filter(|page| view.sstables[0].has_page(*page)).count() as u64;
    assert_eq!(entries(), warm, "pages of replaced SSTables are in the cache");
    (warm, all - warm)
}

#[test]
fn keys_that_are_hot_here_and_there_stay_so_and_their_neighbours_cold() {
    // About 15 rows to a page, and every twentieth page of the output has a hot one.
    const COUNT: i32 = 9_000;
    let whole = ClusteringFilter::all();
    for inputs in [1, 2, 4] {
        for (mode, format) in MODES {
            let (fs, table) = (MemoryFileSystem::new(), off("t", 0));
            let engine = early_engine(&fs, u64::MAX, mode, format);
            create(&engine, std::slice::from_ref(&table));
            for input in 0..inputs {
                for k in (0..COUNT).filter(|k| k % inputs == input) {
                    write(&engine, &insert(&table, k, 0, &"x".repeat(1_000), 1)).unwrap();
                }
                engine.flush("ks", None).unwrap();
            }
            engine.page_cache().clear();
            let keys = keys(COUNT);
            let hot: Vec<i32> = keys.iter().copied().skip(150).step_by(300).collect();
            let read =
                |keys: &[i32], fills| sum(keys.iter().map(|k| misses(&engine, &table, *k, &whole, 1, fills)));
            let (pages, index_pages) = read(&hot, true);
            assert!(pages >= hot.len() as u64);
            assert_eq!(read(&hot, true), (0, 0));
            compact(&engine, &table);
            let what =
                format!("{inputs} inputs, {mode:?} {format:?}, {pages} pages, {index_pages} of the index");
            let (missed, index_missed) = read(&hot, false);
            assert_eq!((missed, index_missed), (0, 0), "{what}");
            let cold: Vec<i32> = keys.iter().copied().step_by(300).collect();
            assert!(read(&cold, false).0 >= cold.len() as u64, "{what}");
            let (warmed, index_warmed) = resident(&engine, &table);
            // The rows of a page go to as many as there are inputs, and one more where they do not begin one.
            assert!(warmed <= pages * (inputs as u64 + 1), "{what}: {warmed} were warmed");
            assert!(index_warmed <= 2 * index_pages, "{what}: {index_warmed} of the index were warmed");
            engine.close();
        }
    }
}

#[test]
fn slices_of_a_large_partition_stay_hot_with_their_index() {
    const ROWS: i32 = 12_000;
    let plain = uncompressed("t");
    let table = TableSchema::builder("ks", "t", plain.id)
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Text, false)
        .regular("v", CqlType::Text)
        .options(plain.options.clone())
        .build();
    let v = table.column("v").unwrap().id;
    let table = Arc::new(table);
    // So long that the index of the rows has many pages.
    let row = |c: i32| Clustering::from_values([format!("{c:05}{}", "y".repeat(300)).as_bytes()]);
    let insert = |c: i32| {
        let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
        let mut row = Row::new(row(c));
        row.cells.push(Cell::live(v, 1, Bytes::from_static(&[b'x'; 100])));
        update.add_row(row);
        Mutation::of(update)
    };
    for inputs in [1, 2, 4] {
        for (mode, format) in MODES {
            for reversed in [false, true] {
                let fs = MemoryFileSystem::new();
                let engine = early_engine(&fs, u64::MAX, mode, format);
                create(&engine, std::slice::from_ref(&table));
                for input in 0..inputs {
                    for c in (0..ROWS).filter(|c| c % inputs == input) {
                        write(&engine, &insert(c)).unwrap();
                    }
                    engine.flush("ks", None).unwrap();
                }
                engine.page_cache().clear();
                let slice = |c: i32| {
                    let mut slice = Slice::ALL;
                    let edge = if reversed { &mut slice.end } else { &mut slice.start };
                    edge.prefix = row(c);
                    ClusteringFilter::Slices { slices: vec![slice], reversed }
                };
                let read = |from: i32, fills| {
                    let starts = (from..ROWS - 100).step_by(800);
                    sum(starts.map(|c| misses(&engine, &table, 1, &slice(c), 20, fills)))
                };
                let (pages, index_pages) = read(500, true);
                assert!(pages > 14 && index_pages > 0, "{pages}, {index_pages}");
                assert_eq!(read(500, true), (0, 0));
                compact(&engine, &table);
                let what = format!(
                    "{inputs} inputs, {mode:?} {format:?}, {reversed}, {pages} pages, {index_pages} of the index"
                );
                let (missed, index_missed) = read(500, false);
                assert_eq!((missed, index_missed), (0, 0), "{what}");
                assert!(read(100, false).0 >= 14, "{what}");
                let (warmed, index_warmed) = resident(&engine, &table);
                // Each input has the rows of a slice side by side.
                assert!(warmed <= pages + pages / 4, "{what}: {warmed} were warmed");
                // A page in the middle of a slice is looked up, too.
                let index_max = index_pages + pages / 2;
                assert!(index_warmed <= index_max, "{what}: {index_warmed} of the index were warmed");
                engine.close();
            }
        }
    }
}

#[test]
fn long_rows_stay_hot_whole() {
    let whole = ClusteringFilter::all();
    for inputs in [1, 2, 4] {
        let (fs, table) = (MemoryFileSystem::new(), off("t", 0));
        let engine = early_engine(&fs, u64::MAX, StorageCompatibility::None, SsTableFormat::Big);
        create(&engine, std::slice::from_ref(&table));
        for input in 0..inputs {
            for k in (0..80).filter(|k| k % inputs == input) {
                write(&engine, &insert(&table, k, 0, &"x".repeat(30_000), 1)).unwrap();
            }
            engine.flush("ks", None).unwrap();
        }
        engine.page_cache().clear();
        let keys = keys(80);
        let hot: Vec<i32> = keys.iter().copied().skip(4).step_by(8).collect();
        let read =
            |keys: &[i32], fills| sum(keys.iter().map(|k| misses(&engine, &table, *k, &whole, 1, fills))).0;
        let pages = read(&hot, true);
        compact(&engine, &table);
        assert_eq!(read(&hot, false), 0, "{inputs} inputs");
        let cold: Vec<i32> = keys.iter().copied().step_by(8).collect();
        assert!(read(&cold, false) >= cold.len() as u64, "{inputs} inputs");
        let (warmed, _) = resident(&engine, &table);
        // Those between two hot ones of an input, and rows that begin elsewhere in a page.
        assert!(warmed <= pages + 2 * hot.len() as u64, "{inputs} inputs: {warmed} for {pages}");
        engine.close();
    }
}

#[test]
fn a_column_of_long_rows_stays_hot_and_the_others_cold() {
    const COLUMNS: usize = 12;
    const ROWS: i32 = 30;
    let plain = uncompressed("t");
    let mut builder = TableSchema::builder("ks", "t", plain.id).partition_key("k", CqlType::Int);
    builder = builder.clustering("c", CqlType::Int, false);
    for number in 0..COLUMNS {
        builder = builder.regular(&format!("v{number:02}"), CqlType::Blob);
    }
    let table = Arc::new(builder.options(plain.options.clone()).build());
    let at = |c: i32| Clustering::from_values([&c.to_be_bytes()[..]]);
    // Rows whole, or each in as many parts as there are inputs.
    for (inputs, is_whole) in [(1, true), (2, true), (2, false), (4, false)] {
        for (mode, format) in MODES {
            let fs = MemoryFileSystem::new();
            let engine = early_engine(&fs, u64::MAX, mode, format);
            create(&engine, std::slice::from_ref(&table));
            for input in 0..inputs {
                for c in (0..ROWS).filter(|c| !is_whole || *c as usize % inputs == input) {
                    for (number, column) in table.regular_columns().iter().enumerate() {
                        if is_whole || number % inputs == input {
                            let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
                            let mut row = Row::new(at(c));
                            let value = vec![number as u8; 25_000 + 100 * c as usize];
                            row.cells.push(Cell::live(column.id, 1, value.into()));
                            update.add_row(row);
                            write(&engine, &Mutation::of(update)).unwrap();
                        }
                    }
                }
                engine.flush("ks", None).unwrap();
            }
            engine.page_cache().clear();
            let read = |column: usize, rows: i32, fills| {
                let columns = ColumnSelection::of(vec![table.regular_columns()[column].id]);
                let rows = (rows..ROWS).step_by(3);
                let read = |c| {
                    let names = ClusteringFilter::Names { names: vec![at(c)], reversed: false };
                    misses_of(&engine, &table, &columns, 1, &names, 1, fills)
                };
                sum(rows.map(read))
            };
            let (pages, index_pages) = read(7, 1, true);
            assert!(pages >= 7 * 10, "{pages}");
            assert_eq!(read(7, 1, true), (0, 0));
            compact(&engine, &table);
            let what = format!("{inputs} inputs, {is_whole}, {mode:?} {format:?}");
            assert_eq!(read(7, 1, false), (0, 0), "{what}: {pages} pages, {index_pages} of the index");
            for (column, rows) in [(7, 0), (2, 1), (11, 1)] {
                assert!(read(column, rows, false).0 >= pages / 2, "{what}: column {column}, rows {rows}");
            }
            let (warmed, _) = resident(&engine, &table);
            assert!(warmed <= pages + 2 * 10, "{what}: {warmed} were warmed for {pages}");
            engine.close();
        }
    }
}
