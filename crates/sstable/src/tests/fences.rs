//! Fences between blocks of large partitions: where rows lie unevenly a search is as short as where they lie
//! evenly, and what fences say hides no row.

use super::reading::{cost_of, names, number, numbered, open_with};
use super::support::{
    Item, Kept, Partition, Rng, all, collect, context, descriptor, key, memory, options, write_version,
};
use crate::big::fences::Fences;
use crate::proof::Proof;
use crate::{Component, SsTable, Version};
use env::fs::FileSystem;
use model::clustering::Position;
use model::command::ClusteringFilter;
use model::types::collection::encode_tuple;
use model::{Cell, Clustering, CqlType, Deletion, Row, TableSchema};
use std::sync::Arc;

const ROWS: u64 = 30_000;
const KIB: u64 = 1 << 10;
const BETWEEN: u32 = 64;

/// How far a row lies behind the one before it, of its number and a random one.
type Apart = fn(u64, u64) -> u64;

const SHAPES: [(&str, Apart); 4] = [
    ("ever farther apart", |i, _| 1 + i / 10),
    ("close, then apart", |i, _| if i < ROWS / 3 { 10 } else { 1_000 }),
    ("in bursts", |i, random| if i % 1_000 == 0 { 10_000_000 } else { 1 + random % 20 }),
    ("anywhere", |_, random| 1 << (random % 30)),
];

struct Uneven {
    fs: Arc<dyn FileSystem>,
    table: Arc<TableSchema>,
    partition: Partition,
    places: Vec<u64>,
}

/// A partition whose rows lie so far apart, in an SSTable of that version.
fn written(apart: Apart, version: Version) -> Uneven {
    let (table, mut partitions) = numbered(ROWS, 25);
    let (mut rng, mut place, mut places) = (Rng::new(1), 0, Vec::new());
    for (i, item) in partitions[0].items.iter_mut().enumerate() {
        let Item::Row(row) = item else { panic!("no row") };
        place += apart(i as u64, rng.below(u64::MAX));
        row.clustering = number(place);
        places.push(place);
    }
    let fs = memory();
    write_version(&fs, &table, &partitions, options(&partitions, None, 128), version).unwrap();
    Uneven { fs, table, partition: partitions.remove(0), places }
}

fn rows_at(sstable: &Arc<SsTable>, uneven: &Uneven, filter: &ClusteringFilter) -> usize {
    let (key, table) = (&uneven.partition.key, &uneven.table);
    let Some(mut found) = sstable.read(key, filter, &all(table), table, &context()).unwrap() else {
        return 0;
    };
    collect(&mut found, table, filter.is_reversed())
        .unwrap()
        .first()
        .map_or(0, |partition| partition.items.len())
}

/// Looks for rows that are there and for some that are not, in either direction.
fn check(uneven: &Uneven, step: usize) {
    let (sstable, _): (_, Arc<Kept>) = open_with(&uneven.fs, Version::NB);
    let is_there = |place: u64| uneven.places.binary_search(&place).is_ok();
    for place in uneven.places.iter().step_by(step) {
        for reversed in [false, true] {
            assert_eq!(rows_at(&sstable, uneven, &names([*place], reversed)), 1, "{place}");
            let beside = place + 1;
            let found = rows_at(&sstable, uneven, &names([beside], reversed));
            assert_eq!(found, usize::from(is_there(beside)), "{beside}");
        }
    }
}

#[test]
fn one_row_is_within_the_bar_however_rows_lie() {
    for (shape, apart) in SHAPES {
        for version in [Version::NB, Version::OA] {
            let uneven = written(apart, version);
            let (sstable, kept) = open_with(&uneven.fs, version);
            for place in uneven.places.iter().step_by(97) {
                kept.forget(|_, _| true);
                let cost = cost_of(&sstable, &uneven.table, &names([*place], false), 1);
                assert!(cost.ios <= 4 && cost.disk_bytes <= 64 * KIB, "{shape}, {version}: {cost:?}");
            }
        }
    }
}

#[test]
fn rows_are_found_with_fences_and_with_wrong_ones() {
    let uneven = written(SHAPES[2].1, Version::NB);
    check(&uneven, 7);
    let path = descriptor(1).path(Component::Proof);
    let sound = Proof::decode(uneven.fs.read(&path).unwrap().into()).unwrap().proof().unwrap();
    let entry_end = uneven.fs.read(&descriptor(1).path(Component::Index)).unwrap().len() as u64;
    let comparator = uneven.table.comparator();
    let of_place = |place: u64| {
        let mut out = Vec::new();
        model::byte_comparable::encode_position(comparator, Position::row(&number(place)), &mut out);
        out
    };
    let count = uneven.places.len() / BETWEEN as usize / 3;
    let at = |n: usize| uneven.places[n * uneven.places.len() / count];
    for wrong in [
        vec![vec![]; count],
        vec![vec![0xff]; count],
        (0..count).map(|n| of_place(at(n).saturating_sub(5_000_000))).collect(),
        (0..count).map(|n| of_place(at(n) + 5_000_000)).collect(),
        (0..count).rev().map(|n| of_place(at(n))).collect(),
        (0..10 * count).map(|n| of_place(at(n % count))).collect::<Vec<_>>(),
        vec![of_place(at(count / 2))],
    ] {
        let mut proof = sound.clone();
        let fences = &mut proof.index.as_mut().unwrap().fences;
        assert_ne!(fences.memory_bytes(), 0);
        *fences = Fences::default();
        fences.add(entry_end, BETWEEN, &wrong);
        uneven.fs.write(&path, &proof.encode()).unwrap();
        check(&uneven, 501);
    }
}

/// Each fence parts what lies before a block from the block.
#[test]
fn a_place_lies_between_the_fences_around_it() {
    let texts: Vec<Vec<u8>> = (1..40).map(|n| vec![0x40, 4 * n]).collect();
    let (table, _) = numbered(1, 1);
    let mut fences = Fences::default();
    fences.add(100, BETWEEN, &texts);
    fences.add(300, BETWEEN, &texts[..1]);
    let mut key = Vec::new();
    let mut around = |entry_end, place, guess| {
        let position = number(place);
        let found = fences.around(entry_end, table.comparator(), Position::row(&position), guess, &mut key);
        let before = texts.iter().filter(|text| **text <= key).count() as u64;
        (found, before)
    };
    let between = u64::from(BETWEEN);
    for place in (0..64).map(|bit| 1 << bit).chain([0, u64::MAX]) {
        for guess in [0, 5 * between, 38 * between, u64::MAX] {
            let (found, before) = around(100, place, guess);
            let end = if before == 39 { u64::MAX } else { (before + 1) * between };
            assert_eq!(found, Some(before * between..end), "{place:x}");
            assert_eq!(around(200, place, guess).0, None);
        }
    }
}

/// Values that an index of encodings cannot tell apart: every NaN, nulls and empty values in tuples.
#[test]
fn rows_are_found_whose_clusterings_have_strange_encodings() {
    let number = |n: u64| (n as f64).to_be_bytes().to_vec();
    let nan = [f64::NAN, -f64::NAN].map(|nan| nan.to_be_bytes().to_vec());
    let pair = CqlType::Tuple(Arc::from([CqlType::Int, CqlType::Int]));
    let field = |n: u64| (n as i32).to_be_bytes();
    let tuple = |first: Option<&[u8]>, n: u64| encode_tuple([first, Some(&field(n))]).to_vec();
    let nulls = (0..400).map(|n| tuple(None, n)).chain((0..800).map(|n| tuple(Some(b""), n)));
    let tuples = nulls.chain((0..400).map(|n| tuple(Some(&field(n)), n)));
    let shapes: [(CqlType, bool, Vec<Vec<u8>>); 4] = [
        (CqlType::Double, false, (0..1_000).map(number).chain([nan[0].clone()]).collect()),
        (CqlType::Double, false, (0..1_000).map(number).chain([nan[1].clone()]).collect()),
        (CqlType::Double, true, [nan[1].clone()].into_iter().chain((0..1_000).rev().map(number)).collect()),
        (pair, false, tuples.collect()),
    ];
    for (ty, descending, values) in shapes {
        let table = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
            .partition_key("k", CqlType::Int)
            .clustering("c", ty, descending)
            .regular("v", CqlType::Blob)
            .build();
        let table = Arc::new(table);
        let value = table.column("v").unwrap().id;
        let names: Vec<_> = values.iter().map(|v| Clustering::from_values([v.as_slice()])).collect();
        let items = names.iter().map(|name| {
            let mut row = Row::new(name.clone());
            row.cells.push(Cell::live(value, 5, vec![7; 25].into()));
            Item::Row(row)
        });
        let items = items.collect();
        let partition = Partition { key: key(1), deletion: Deletion::NONE, static_row: None, items };
        for version in [Version::NB, Version::DA] {
            let fs = memory();
            let partitions = std::slice::from_ref(&partition);
            write_version(&fs, &table, partitions, options(partitions, None, 128), version).unwrap();
            let (sstable, _): (_, Arc<Kept>) = open_with(&fs, version);
            for reversed in [false, true] {
                for name in &names {
                    let names = [name.clone()].into_iter().collect();
                    let filter = ClusteringFilter::Names { names, reversed };
                    let mut found = sstable
                        .read(&partition.key, &filter, &all(&table), &table, &context())
                        .unwrap()
                        .unwrap();
                    let found = collect(&mut found, &table, reversed).unwrap();
                    assert_eq!(found[0].items.len(), 1, "{version} {name:?} {reversed}");
                }
            }
        }
    }
}

/// Where clusterings are long few blocks are described in a page, and as few lie between two fences.
#[test]
fn nearly_every_row_is_within_the_bar_where_clusterings_are_long() {
    let table = TableSchema::builder("ks", "t", uuid::Uuid::from_u128(1))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Text, false)
        .regular("v", CqlType::Blob)
        .build();
    let (_, mut partitions) = numbered(12_000, 100);
    let value = table.column("v").unwrap().id;
    let mut clusterings = Vec::new();
    for (i, item) in partitions[0].items.iter_mut().enumerate() {
        let Item::Row(row) = item else { panic!("no row") };
        let text = format!("{:012}{}", i * i, "y".repeat(300));
        row.clustering = Clustering::from_values([text.as_bytes()]);
        row.cells.iter_mut().for_each(|cell| cell.column = value);
        clusterings.push(row.clustering.clone());
    }
    let table = Arc::new(table);
    let fs = memory();
    write_version(&fs, &table, &partitions, options(&partitions, None, 4 * KIB), Version::NB).unwrap();
    let (sstable, kept) = open_with(&fs, Version::NB);
    let costs = clusterings.iter().step_by(37).map(|clustering| {
        kept.forget(|_, _| true);
        let filter = ClusteringFilter::Names { names: vec![clustering.clone()], reversed: false };
        cost_of(&sstable, &table, &filter, 1)
    });
    let (within, beyond): (Vec<_>, Vec<_>) =
        costs.partition(|cost| cost.ios <= 4 && cost.disk_bytes <= 64 * KIB);
    // Where the first guess lies between the right fences, and the next look in another page of descriptions.
    assert!(beyond.len() <= within.len() / 20, "{beyond:?}");
    assert!(beyond.iter().all(|cost| cost.ios == 5 && cost.disk_bytes <= 64 * KIB), "{beyond:?}");
}
