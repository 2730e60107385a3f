//! The large partitions that a writer tells of.

use super::support::*;
use crate::{LargeFrom, Version};
use model::{CqlType, Deletion, Row, TableSchema};
use std::sync::Arc;
use uuid::Uuid;

#[test]
fn a_writer_tells_of_partitions_from_a_size_on() {
    for version in [Version::NB, Version::OA, Version::DA] {
        let rng = &mut Rng::new(3);
        let table = random_table(rng);
        let partitions = random_partitions(rng, &table, 300, 30);
        let written = |partitions: &[Partition], large_from: LargeFrom| {
            let options = crate::WriterOptions { large_from, ..options(partitions, None, 4 << 10) };
            write_version(&memory(), &table, partitions, options, version)
        };
        // Lengths are relative to minima, which all of them share here.
        let all = written(&partitions, LargeFrom { bytes: 0, ..LargeFrom::NEVER }).unwrap().large;
        let there: Vec<_> = partitions.iter().filter(|p| !p.is_empty()).collect();
        assert_eq!(all.first.len() as u64 + all.others, there.len() as u64);
        assert!(all.first.iter().zip(&there).all(|(told, partition)| told.key == partition.key));
        let mut sizes: Vec<u64> = all.first.iter().map(|told| told.bytes).collect();
        sizes.sort_unstable();
        let middle = sizes[sizes.len() / 2];
        let some = written(&partitions, LargeFrom { bytes: middle, ..LargeFrom::NEVER }).unwrap().large;
        let expected: Vec<_> = all.first.iter().filter(|told| told.bytes >= middle).cloned().collect();
        assert!(some.first.starts_with(&expected) && !expected.is_empty());
        assert_eq!(written(&partitions, LargeFrom::NEVER).unwrap().large.first, []);
    }
}

#[test]
fn tombstones_are_counted_for_each_partition() {
    let table: Arc<TableSchema> = Arc::new(
        TableSchema::builder("ks", "t", Uuid::from_u128(1))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, false)
            .regular("v", CqlType::Int)
            .build(),
    );
    let value = table.column("v").unwrap().id;
    let row = |c: i32, change: &dyn Fn(&mut Row)| {
        let mut row = Row::new(model::Clustering::from_values([&c.to_be_bytes()[..]]));
        change(&mut row);
        Item::Row(row)
    };
    let deletion = Deletion::new(7, 7);
    let mut partitions: Vec<Partition> = (0..2)
        .map(|k| Partition {
            key: key(k),
            deletion: if k == 0 { deletion } else { Deletion::NONE },
            static_row: None,
            items: vec![
                row(1, &|row| row.deletion = deletion),
                row(2, &|row| row.cells.push(model::Cell::tombstone(value, 8, 8))),
                row(3, &|row| row.cells.push(model::Cell::live(value, 8, b"\0\0\0\x01".to_vec().into()))),
            ],
        })
        .collect();
    partitions.sort_by(|a, b| a.key.cmp(&b.key));
    let options = crate::WriterOptions {
        large_from: LargeFrom { bytes: u64::MAX, tombstones: 2 },
        ..options(&partitions, None, 4 << 10)
    };
    let large = write(&memory(), &table, &partitions, options).unwrap().large.first;
    let counted = |k: u32| large.iter().find(|told| told.key == key(k)).unwrap().tombstones;
    assert_eq!((counted(0), counted(1)), (3, 2));
}
