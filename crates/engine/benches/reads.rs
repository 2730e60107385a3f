//! What the parts of a read cost, each alone: rows that are decoded in either direction, rows that nobody
//! asked for, one column of many, the search for a row in a large partition, the merge of several sources,
//! a page that the cache has.
//!
//! `cargo bench -p engine`

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput};
use engine::PageCache;
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use model::command::{ClusteringFilter, ColumnSelection};
use model::{
    Cell, Clustering, ClusteringBound, CqlType, DecoratedKey, Liveness, PartitionKey, Row, Slice, TableSchema,
};
use partition::codec::Others;
use partition::{BoxedStream, Event, Fragment, PartitionStream, ReadContext, merge};
use sstable::{
    Descriptor, FileId, FilePart, PageSource, SsTable, SsTableId, SsTableWriter, Version, WriterOptions,
};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

const DIRECTORY: &str = "/data/ks/t-1";
/// Rows of the partition; its index has more than a thousand blocks.
const ROWS: u64 = 100_000;
const SLICE_ROWS: u64 = 1_000;
/// With its head and its clustering a row of them takes 50 bytes or so.
const VALUE_BYTES: usize = 25;
/// Rows before the one that is asked for.
const STEPS: u64 = 10_000;
/// Columns of a wide table, and rows of its partition.
const COLUMNS: usize = 100;
const WIDE_ROWS: u64 = 1_000;

/// An open SSTable with one large partition.
struct Fixture {
    table: Arc<TableSchema>,
    sstable: Arc<SsTable>,
    key: DecoratedKey,
}

impl Fixture {
    fn new(version: Version) -> Fixture {
        Fixture::of(version, 1, ROWS, engine::COLUMN_INDEX_BYTES)
    }

    fn of(version: Version, columns: usize, rows: u64, block_bytes: u64) -> Fixture {
        let mut table = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::BigInt, false);
        for number in 0..columns {
            table = table.regular(&format!("v{number:02}"), CqlType::Blob);
        }
        let table = Arc::new(table.build());
        let key = DecoratedKey::new(PartitionKey(Bytes::from_static(&[0, 0, 0, 1])));
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
        fs.create_dir_all(Path::new(DIRECTORY)).expect("memory has room");
        let descriptor = Descriptor::new(DIRECTORY, SsTableId::Sequence(1), version);
        let options = WriterOptions {
            column_index_bytes: block_bytes,
            row_index_bytes: block_bytes,
            ..WriterOptions::default()
        };
        let writer = SsTableWriter::new(Arc::clone(&fs), descriptor.clone(), Arc::clone(&table), options);
        let mut writer = writer.expect("an SSTable can be begun");
        let mut fragment = Fragment { key: key.clone(), ..Fragment::default() };
        let mut append = |event, fragment: &Fragment| {
            writer.append(event, fragment).expect("rows are in order");
        };
        append(Event::PartitionStart, &fragment);
        for number in 0..rows {
            fragment.row = Row::new(clustering(number));
            fragment.row.liveness = Liveness::new(1);
            let value = Bytes::from(vec![number as u8; VALUE_BYTES]);
            let cells = table.regular_columns().iter().map(|column| Cell::live(column.id, 1, value.clone()));
            fragment.row.cells.extend(cells);
            append(Event::Row, &fragment);
        }
        append(Event::PartitionEnd, &fragment);
        writer.finish().expect("memory has room");
        let pages = Arc::new(PageCache::new(256 << 20));
        let sstable = SsTable::open(fs.as_ref(), &descriptor, 1, pages).expect("it was just written");
        Fixture { table, sstable: Arc::new(sstable), key }
    }

    fn read(&self, filter: &ClusteringFilter) -> BoxedStream {
        self.read_columns(filter, &ColumnSelection::all(&self.table), Others::Stay)
    }

    fn read_columns(
        &self,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        others: Others,
    ) -> BoxedStream {
        let context = ReadContext::default();
        let stream = self.sstable.read(&self.key, filter, columns, &self.table, &context);
        let mut stream = stream.expect("it is sound").expect("the partition is there");
        stream.set_others(others);
        stream
    }
}

fn clustering(number: u64) -> Clustering {
    Clustering::from_values([&number.to_be_bytes()[..]])
}

/// Rows from the middle on.
fn slice(reversed: bool) -> ClusteringFilter {
    let start = ClusteringBound::start_at(clustering(ROWS / 2));
    let end = ClusteringBound::end_at(clustering(ROWS / 2 + SLICE_ROWS - 1));
    ClusteringFilter::Slices { slices: vec![Slice { start, end }], reversed }
}

fn name(number: u64) -> ClusteringFilter {
    ClusteringFilter::Names { names: vec![clustering(number)], reversed: false }
}

/// The number of rows.
fn drain(stream: &mut dyn PartitionStream) -> u64 {
    let mut fragment = Fragment::default();
    let mut rows = 0;
    loop {
        match stream.next(&mut fragment).expect("it is sound") {
            Event::Row => rows += 1,
            Event::End => return rows,
            _ => {}
        }
    }
}

fn rows(criterion: &mut Criterion) {
    let fixture = Fixture::new(Version::NB);
    let mut group = criterion.benchmark_group("rows");
    group.throughput(Throughput::Elements(SLICE_ROWS));
    for (direction, reversed) in [("forward", false), ("reverse", true)] {
        let filter = slice(reversed);
        assert_eq!(drain(&mut fixture.read(&filter)), SLICE_ROWS);
        group.bench_function(direction, |b| b.iter(|| drain(&mut fixture.read(&filter))));
    }
    group.finish();
}

/// The last row of a block as long as the partition: each row before it is left as a whole.
fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rows stepped over");
    group.throughput(Throughput::Elements(STEPS));
    for (format, version) in [("nb", Version::NB), ("da", Version::DA)] {
        let fixture = Fixture::of(version, 1, STEPS + 1, u64::MAX);
        let filter = name(STEPS);
        assert_eq!(drain(&mut fixture.read(&filter)), 1);
        group.bench_function(format, |b| b.iter(|| drain(&mut fixture.read(&filter))));
    }
    group.finish();
}

/// One small column of rows of many, by what the others may be to the row.
fn columns(criterion: &mut Criterion) {
    let fixture = Fixture::of(Version::NB, COLUMNS, WIDE_ROWS, engine::COLUMN_INDEX_BYTES);
    let mut group = criterion.benchmark_group("one column of many");
    group.throughput(Throughput::Elements(WIDE_ROWS));
    for (place, number) in [("first", 0), ("last", COLUMNS - 1)] {
        let column = ColumnSelection::of(vec![fixture.table.regular_columns()[number].id]);
        for others in [Others::Stay, Others::NotOfInserted, Others::One] {
            let read = || fixture.read_columns(&ClusteringFilter::all(), &column, others);
            assert_eq!(drain(&mut read()), WIDE_ROWS);
            group.bench_function(format!("{place}, others: {others:?}"), |b| b.iter(|| drain(&mut read())));
        }
    }
    group.finish();
}

fn index_search(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("index search");
    for (format, version) in [("big", Version::NB), ("bti", Version::DA)] {
        let fixture = Fixture::new(version);
        let mut number = 0;
        group.bench_function(format, |b| {
            b.iter(|| {
                number = (number + 7_919) % ROWS;
                assert_eq!(drain(&mut fixture.read(&name(number))), 1);
            });
        });
    }
    group.finish();
}

fn merging(criterion: &mut Criterion) {
    let fixture = Fixture::new(Version::NB);
    let filter = slice(false);
    let mut group = criterion.benchmark_group("merge");
    group.throughput(Throughput::Elements(SLICE_ROWS));
    for count in [1, 2, 4] {
        let sources = || (0..count).map(|_| fixture.read(&filter)).collect::<Vec<_>>();
        group.bench_function(format!("{count} sources"), |b| {
            b.iter_batched(
                sources,
                |sources| drain(&mut merge(&fixture.table, sources, false)),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

fn page_cache(criterion: &mut Criterion) {
    let cache = PageCache::new(64 << 20);
    let context = ReadContext::default();
    let file = FileId { sstable: 1, part: FilePart::Data };
    let pages = 1_000;
    let get = |page| {
        let load = &mut || Ok(Bytes::from(vec![0; 4096]));
        cache.page(file, page, &context, load).expect("it loads")
    };
    (0..pages).for_each(|page| drop(get(page)));
    let mut page = 0;
    criterion.bench_function("page cache hit", |b| {
        b.iter(|| {
            page = (page + 617) % pages;
            black_box(get(page))
        });
    });
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    rows(&mut criterion);
    steps(&mut criterion);
    columns(&mut criterion);
    index_search(&mut criterion);
    merging(&mut criterion);
    page_cache(&mut criterion);
    criterion.final_summary();
}
