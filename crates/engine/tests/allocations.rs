//! How many blocks of memory a warm read takes from the allocator. The test has a process, and so an
//! allocator, of its own, which counts for each thread, so that those of the engine do not meddle.

use bytes::Bytes;
use engine::{Engine, EngineOptions, SsTableFormat, StorageCompatibility, WriteOptions};
use env::Env;
use env::clock::ManualClock;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::schema::{KeyspaceSchema, Replication};
use model::{
    Cell, Clustering, ClusteringBound, CqlType, DecoratedKey, Mutation, PartitionKey, PartitionUpdate, Row,
    Slice, TableSchema,
};
use partition::{Event, Fragment, PartitionStream, ReadContext};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell as Counter;
use std::path::Path;
use std::sync::Arc;
use uuid::Uuid;

thread_local! {
    static TAKEN: Counter<u64> = const { Counter::new(0) };
}

/// The system's allocator, which counts.
struct Counting;

impl Counting {
    fn count() {
        TAKEN.set(TAKEN.get() + 1);
    }
}

// SAFETY: every call goes to the system's allocator as it is. The count is a number of the thread without a
// destructor: neither does looking at it allocate nor can it be gone.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::count();
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Counting::count();
        // SAFETY: as the caller's.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: as the caller's.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Counting::count();
        // SAFETY: as the caller's.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Rows of each partition, and partitions.
const ROWS: u64 = 2_000;
const PARTITIONS: u32 = 4;

fn key(k: u32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

fn clustering(c: u64) -> Clustering {
    Clustering::from_values([&c.to_be_bytes()[..]])
}

/// An engine whose table has three columns and rows that lie by turns in so many SSTables, or in a memtable
/// if there are none.
fn engine(format: SsTableFormat, sstables: u64) -> (Arc<Engine>, Arc<TableSchema>) {
    let options = EngineOptions {
        commitlog_segment_bytes: 1 << 20,
        page_cache_bytes: 64 << 20,
        storage_compatibility: StorageCompatibility::None,
        sstable_format: format,
        ..EngineOptions::under(Path::new("/node"))
    };
    let fs = Arc::new(MemoryFileSystem::new());
    let env = Env::new(Arc::new(ManualClock::default()), Arc::new(Random::from_seed(1)), fs);
    let engine = Engine::open(options, env).unwrap();
    let mut table = TableSchema::builder("ks", "t", Uuid::from_u128(7))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::BigInt, false);
    for name in ["a", "b", "v"] {
        table = table.regular(name, CqlType::Blob);
    }
    let table = Arc::new(table.build());
    let mut keyspace = KeyspaceSchema::new("ks", Replication::simple(1));
    keyspace.tables.insert(table.name.clone(), Arc::clone(&table));
    engine.install_schema(engine.schema().with_keyspace(keyspace)).unwrap();
    let rounds = sstables.max(1);
    for round in 0..rounds {
        for k in 0..PARTITIONS {
            let mut update = PartitionUpdate::new(Arc::clone(&table), key(k));
            for c in (0..ROWS).filter(|c| c % rounds == round) {
                let mut row = Row::new(clustering(c));
                for column in table.regular_columns() {
                    let value = Bytes::from(vec![c as u8; 40]);
                    row.cells.push(Cell::live(column.id, 1, value));
                }
                update.add_row(row);
            }
            let written = engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap();
            written.wait().unwrap();
        }
        if sstables > 0 {
            engine.flush("ks", None).unwrap();
        }
    }
    (engine, table)
}

/// So many rows from one on.
fn slice(from: u64, rows: u64) -> ClusteringFilter {
    let start = ClusteringBound::start_at(clustering(from));
    let end = ClusteringBound::end_at(clustering(from + rows - 1));
    ClusteringFilter::Slices { slices: vec![Slice { start, end }], reversed: false }
}

/// Reads that yield so many rows; how many blocks a warm one takes.
fn blocks(engine: &Engine, table: &Arc<TableSchema>, clusterings: ClusteringFilter, rows: u64) -> u64 {
    let command = ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key(2)]),
        clusterings,
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 0,
    };
    let mut fragment = Fragment::default();
    let mut read = || {
        let context = ReadContext::default();
        let before = TAKEN.get();
        let mut stream = engine.read(&command, &context).unwrap();
        let mut found = 0;
        loop {
            match stream.next(&mut fragment).unwrap() {
                Event::End => break,
                event => found += u64::from(event == Event::Row),
            }
        }
        drop(stream);
        let taken = TAKEN.get() - before;
        assert_eq!(found, rows);
        (taken, context.cost.snapshot())
    };
    // The first one loads pages, and makes room for a row.
    read();
    let (taken, cost) = read();
    assert_eq!((cost.chunk_misses, cost.index_page_misses), (0, 0));
    assert_eq!(read().0, taken);
    taken
}

#[test]
fn a_warm_read_takes_few_blocks_and_none_for_each_row() {
    // For one row by its name, and for a slice of a hundred.
    let cases = [
        (SsTableFormat::Big, 0, 7, 19),
        (SsTableFormat::Big, 1, 8, 8),
        (SsTableFormat::Big, 2, 28, 19),
        (SsTableFormat::Bti, 1, 13, 13),
        (SsTableFormat::Bti, 2, 38, 29),
    ];
    for (format, sstables, point_max, slice_max) in cases {
        let (engine, table) = engine(format, sstables);
        let name = ClusteringFilter::Names { names: vec![clustering(700)], reversed: false };
        let point = blocks(&engine, &table, name, 1);
        let of_slice = |rows| blocks(&engine, &table, slice(700, rows), rows);
        let (short, twice, long) = (of_slice(100), of_slice(200), of_slice(1_200));
        let what = format!("{format:?}, {sstables} SSTables: {point}; {short}, {twice}, {long}");
        assert!(point <= point_max && short <= slice_max, "{what}");
        // A row that lies across two pages is put together, and a memtable is gone through in steps.
        assert!(twice <= short + 100 / 30 && long <= short + 1_100 / 50, "{what}");
        engine.close();
    }
}
