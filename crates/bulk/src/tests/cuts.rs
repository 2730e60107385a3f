//! Partitions that are cut: each row once, whatever the splits.

use super::deletions::{World, together};
use super::rows_of;
use super::values::Shown;
use crate::ticket::{Asked, Ticket};
use crate::{BulkError, RowCut, ScanOptions, ScanRequest, Select, Source, Split};
use bytes::Bytes;
use env::fs::FileSystem;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::{
    BoundKind, Cell, Clustering, ClusteringBound, CqlType, DecoratedKey, Deletion, Liveness, PartitionKey,
    Row, TableSchema,
};
use partition::{Event, Fragment, RangeChange};
use sstable::{Descriptor, SsTableId, SsTableWriter, Version, WriterOptions, descriptor};
use std::path::Path;
use std::sync::Arc;
use testkit::source::NOW_S;
use uuid::Uuid;

/// All partitions; the first two are huge, and of the second nothing is left but its static row.
const KEYS: [i32; 5] = [1, 2, 3, 4, 5];

fn table() -> Arc<TableSchema> {
    let builder = TableSchema::builder("ks", "t", Uuid::from_u128(9)).partition_key("k", CqlType::Int);
    let builder = builder.clustering("c", CqlType::Int, true).clustering("d", CqlType::Text, false);
    let builder = builder.static_column("s", CqlType::Int).regular("v", CqlType::Blob);
    Arc::new(builder.regular("m", CqlType::map(CqlType::Text, CqlType::Int, true)).build())
}

fn key(k: i32) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[&k.to_be_bytes()]))
}

fn clustering(c: i32, d: &str) -> Clustering {
    Clustering::from_values([&c.to_be_bytes()[..], d.as_bytes()])
}

/// Writes one partition: rows, and ranges of deletions that go over many of them.
fn write(writer: &mut SsTableWriter, table: &TableSchema, k: i32, number: i64, random: &Random) {
    let mut fragment = Fragment { key: key(k), ..Fragment::default() };
    if k == 4 {
        fragment.deletion = Deletion::new(10 * number, NOW_S - 9);
    }
    let timestamp = 10 * number + 5;
    writer.append(Event::PartitionStart, &fragment).unwrap();
    let [s, v, m] = ["s", "v", "m"].map(|name| table.column(name).unwrap().id);
    fragment.row = Row::new(Clustering::empty());
    let cell = match k {
        3 => Cell::tombstone(s, timestamp, NOW_S - 9),
        _ => Cell::live(s, timestamp, Bytes::copy_from_slice(&k.to_be_bytes())),
    };
    fragment.row.cells.push(cell);
    writer.append(Event::StaticRow, &fragment).unwrap();
    let count = if k <= 2 { 400 } else { random.below(6) as i32 };
    let mut open = Deletion::NONE;
    // Descending.
    for c in (0..count).rev() {
        // Ranges begin and end in front of all rows of a `c`.
        let wanted = match random.below(40) {
            0 => Deletion::new(timestamp - 8, NOW_S - 9 - number as u32),
            1 => Deletion::NONE,
            _ => open,
        };
        if wanted != open {
            open = wanted;
            let prefix = Clustering::from_values([&c.to_be_bytes()[..]]);
            fragment.change = RangeChange::at(ClusteringBound::new(BoundKind::InclStart, prefix), open);
            writer.append(Event::RangeChange, &fragment).unwrap();
        }
        for d in ["a", "b"].iter().take(1 + random.below(2) as usize) {
            let mut row = Row::new(clustering(c, d));
            if k == 2 || random.below(9) == 0 {
                row.deletion = Deletion::new(timestamp + 20, NOW_S - 9);
            } else {
                row.liveness = Liveness::new(timestamp);
                let value: Vec<u8> = (0..90).map(|_| random.below(256) as u8).collect();
                row.cells.push(Cell::live(v, timestamp, Bytes::from(value)));
                let path = Bytes::from_static(b"x");
                let cell = Cell::live(m, timestamp, Bytes::copy_from_slice(&c.to_be_bytes()));
                row.cells.push(cell.with_path(path));
                row.cells.sort_by_key(|cell| cell.column);
            }
            fragment.row = row;
            writer.append(Event::Row, &fragment).unwrap();
        }
    }
    if !open.is_none() {
        fragment.change = RangeChange::at(ClusteringBound::TOP, Deletion::NONE);
        writer.append(Event::RangeChange, &fragment).unwrap();
    }
    writer.append(Event::PartitionEnd, &fragment).unwrap();
}

fn world(version: Version) -> Source {
    let (table, random) = (table(), Random::from_seed(8));
    let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
    let directory = Path::new("/data/ks/t");
    fs.create_dir_all(directory).unwrap();
    for number in 1..4 {
        let descriptor = Descriptor::new(directory, SsTableId::Sequence(number as u64), version);
        let options = WriterOptions {
            estimated_partitions: 5,
            column_index_bytes: 1024,
            row_index_bytes: 1024,
            ..WriterOptions::of_table(&table).unwrap()
        };
        let mut writer =
            SsTableWriter::new(Arc::clone(&fs), descriptor, Arc::clone(&table), options).unwrap();
        let mut keys = KEYS;
        keys.sort_by_key(|k| key(*k));
        for k in keys {
            // The newest one has a part of the large ones alone.
            if number < 3 || k <= 2 {
                write(&mut writer, &table, k, number, &random);
            }
        }
        writer.finish().unwrap();
    }
    let found = descriptor::live(fs.as_ref(), directory).unwrap();
    Source::of_sstables(&fs, &found, &table).unwrap()
}

fn request(source: &Source, deletions: bool) -> ScanRequest {
    let options = ScanOptions { deletions, token: true, ..ScanOptions::default() };
    ScanRequest::of_table(source.table(), None, NOW_S, options).unwrap()
}

/// Ranges that a cut has made two of, as one.
fn whole(mut world: World) -> World {
    for part in world.values_mut() {
        let mut ranges: Vec<super::deletions::Range> = Vec::new();
        for range in std::mem::take(&mut part.ranges) {
            match ranges.last_mut().filter(|last| last.1 == range.0 && last.2 == range.2) {
                Some(last) => last.1 = range.1,
                None => ranges.push(range),
            }
        }
        part.ranges = ranges;
    }
    world
}

#[test]
fn a_huge_partition_is_cut_and_each_row_comes_once() {
    for version in [Version::NB, Version::OA, Version::DA] {
        let source = world(version);
        let (plain, all) = (request(&source, false), request(&source, true));
        let rows: Vec<Vec<Shown>> = rows_of(&source, &plain, &[Split::FULL]);
        let (everything, _) = together(&source, &all, &[Split::FULL]);
        // Of the partition whose rows are all deleted there is one row.
        let lone = rows.iter().filter(|row| row[0].as_deref() == Some("2")).count();
        assert!(rows.len() > 300 && lone == 1, "{} rows, {lone}", rows.len());
        for parts in [1, 2, 3, 5, 8, 13, 40, 200] {
            let what = format!("{version:?} in {parts}");
            let splits = source.splits(&plain, parts).unwrap();
            assert!(splits.len() as u64 <= parts, "{what}: {}", splits.len());
            // They go through a ticket unchanged.
            let sent: Vec<Split> = splits
                .iter()
                .map(|split| {
                    let asked = Asked::Scan(Select::of("ks", "t"));
                    let ticket = Ticket { asked, now_s: NOW_S, split: Some(split.clone()) };
                    Ticket::of_bytes(&ticket.to_bytes()).unwrap().split.unwrap()
                })
                .collect();
            assert_eq!(sent, splits, "{what}");
            if (8..=40).contains(&parts) {
                let largest = splits.iter().map(|split| split.bytes_estimate).max().unwrap();
                assert!(splits.len() as u64 * 2 > parts, "{what}: {} splits", splits.len());
                assert!(largest < 4 * source.data_bytes() / parts, "{what}: {largest}");
            }
            let sum: u64 = splits.iter().map(|split| split.bytes_estimate).sum();
            assert!(sum.abs_diff(source.data_bytes()) < 100, "{what}: {sum}");
            let found = rows_of(&source, &plain, &splits);
            assert!(found == rows, "{what}: {} rows instead of {}", found.len(), rows.len());
            let (found, _) = together(&source, &all, &splits);
            assert!(whole(found) == everything, "{what}, with deletions");
        }
    }
}

#[test]
fn conditions_and_limits_hold_in_splits_that_are_cut() {
    let source = world(Version::NB);
    let mut plain = request(&source, false);
    let splits = source.splits(&plain, 20).unwrap();
    Arc::make_mut(&mut plain.command).limits.rows = 7;
    for split in &splits {
        let found = rows_of(&source, &plain, std::slice::from_ref(split));
        let mut all = request(&source, false);
        Arc::make_mut(&mut all.command).limits.rows = u64::MAX;
        let mut expected = rows_of(&source, &all, std::slice::from_ref(split));
        expected.truncate(7);
        assert_eq!(found, expected, "{split:?}");
    }
    // Of what is about some rows alone no partition is cut.
    let slices = model::command::ClusteringFilter::Names { names: vec![clustering(3, "a")], reversed: false };
    Arc::make_mut(&mut plain.command).clusterings = slices;
    assert!(source.splits(&plain, 20).unwrap().iter().all(|split| split.from_row.is_none()));
    let cut = splits.iter().find(|split| split.from_row.is_some()).unwrap();
    let refused = source.scan(&plain, cut).next().unwrap().unwrap_err().to_string();
    assert!(refused.contains("cut at a row"), "{refused}");
}

#[test]
fn a_cut_that_no_table_can_have_is_refused() {
    let source = world(Version::NB);
    let plain = request(&source, false);
    let cut = |key: &str, before: &[&str]| {
        let before = before.iter().map(|text| (*text).to_owned()).collect();
        let row = RowCut { key: key.to_owned(), before };
        Split { from_row: Some(row), ..Split::FULL }
    };
    for split in [
        cut("0", &["00000001"]),
        cut("zz", &["00000001"]),
        cut("00000001", &[]),
        cut("00000001", &["0001"]),
        cut("00000001", &["00000001", "61", "61"]),
        cut("00000001", &["00000001", "ff"]),
    ] {
        let mut scan = source.scan(&plain, &split);
        assert!(matches!(scan.next(), Some(Err(BulkError::Request(_)))), "{split:?}");
        assert!(scan.next().is_none());
    }
}
