//! Whether memtables take the memory that they say. The test has a process, and so an allocator, of its own.

use bytes::Bytes;
use engine::LogPosition;
use engine::memtable::Memtable;
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Liveness, PartitionKey, PartitionUpdate, Row, TableSchema,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use uuid::Uuid;

static HELD: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, which counts what is held, with the sixteen bytes that it keeps of each block.
struct Counting;

fn of(layout: Layout) -> i64 {
    (layout.size() + 8).next_multiple_of(16) as i64
}

// SAFETY: every call goes to the system's allocator as it is. The count is a number: it does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(of(layout), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        HELD.fetch_sub(of(layout), Ordering::Relaxed);
        // SAFETY: as the caller's.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn table() -> Arc<TableSchema> {
    let table = TableSchema::builder("ks", "t", Uuid::from_u128(1)).partition_key("k", CqlType::Int);
    Arc::new(table.clustering("c", CqlType::Int, false).regular("v", CqlType::Text).build())
}

fn write(memtable: &Memtable, table: &Arc<TableSchema>, k: u32, rows: std::ops::Range<u32>) {
    let mut update = PartitionUpdate::new(
        Arc::clone(table),
        DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()])),
    );
    let v = table.column("v").unwrap().id;
    for c in rows {
        let mut row = Row::new(Clustering::from_values([c.to_be_bytes().as_slice()]));
        row.liveness = Liveness::new(1);
        row.cells.push(Cell::live(v, 1, Bytes::from(format!("value {:06}", k + c))));
        update.add_row(row);
    }
    memtable.apply(&update);
}

#[test]
fn memory_is_what_the_allocator_says_and_data_is_what_cassandra_says() {
    let table = table();
    // The rows came one by one, and all of a partition together.
    for (partitions, rows, step) in [(10_000, 20, 1), (10_000, 20, 20), (100_000, 1, 1)] {
        let before = HELD.load(Ordering::Relaxed);
        let memtable = Memtable::new(LogPosition::NONE, 0);
        for first in (0..rows).step_by(step as usize) {
            (0..partitions).for_each(|k| write(&memtable, &table, k, first..first + step));
        }
        let held = (HELD.load(Ordering::Relaxed) - before) as f64;
        let said = memtable.bytes() as f64;
        assert!((0.9..1.25).contains(&(said / held)), "{partitions} of {rows}: {said} bytes of {held}");
        assert_eq!(memtable.operations(), u64::from(partitions * rows));
        // 5.0.5 showed 11,368,890 bytes for 200,000 rows that are half a byte shorter.
        let data_bytes = u64::from(partitions) * (28 + u64::from(rows) * 56);
        assert_eq!(memtable.data_bytes(), data_bytes);
    }
}
