//! What reads of a large partition touch: index pages, chunks, calls to the disk and bytes.

use super::support::*;
use crate::{SsTable, Version};
use bytes::Bytes;
use model::command::ClusteringFilter;
use model::{Cell, Clustering, CqlType, Deletion, Liveness, Row, TableSchema};
use partition::CostSnapshot;
use std::sync::Arc;

/// A partition of rows `0..rows`, their values of so many bytes that nothing compresses.
fn numbered(rows: u64, value_bytes: usize) -> (Arc<TableSchema>, Vec<Partition>) {
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

fn number(i: u64) -> Clustering {
    Clustering::from_values([&i.to_be_bytes()[..]])
}

fn names(numbers: impl IntoIterator<Item = u64>, reversed: bool) -> ClusteringFilter {
    ClusteringFilter::Names { names: numbers.into_iter().map(number).collect(), reversed }
}

/// Reads the partition and says what that cost; as many rows are found as the filter names.
fn cost_of(
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
