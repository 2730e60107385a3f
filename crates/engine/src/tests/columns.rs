//! Reads of some columns: rows are there as if all columns had been asked for, whatever else is in them.

use super::{create, env_on, insert, key, options, simple_table, write};
use crate::{Engine, WriteOptions};
use bytes::Bytes;
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::elements::{ElementSelection, PathRange};
use model::key::KeyRange;
use model::{
    Cell, Clustering, ColumnId, CqlType, DecoratedKey, Deletion, Liveness, Mutation, NO_TTL, PartitionUpdate,
    Row, TableSchema,
};
use partition::{Event, Fragment, PartitionStream, ReadContext};
use std::sync::Arc;
use testkit::source::NOW_S;
use testkit::source::history::History;
use uuid::Uuid;

/// What a history may have.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Anything,
    NoTtls,
    NothingDies,
}

fn tame_row(row: &mut Row, kind: Kind) {
    if row.liveness.is_expiring() {
        row.liveness = Liveness::new(row.liveness.timestamp);
    }
    for cell in &mut row.cells {
        if cell.ttl != NO_TTL {
            *cell = Cell::live(cell.column, cell.timestamp, cell.value.clone()).with_path(cell.path.clone());
        }
    }
    if kind == Kind::NothingDies {
        row.deletion = Deletion::NONE;
        row.complex_deletions.clear();
        row.cells.retain(|cell| !cell.is_tombstone());
    }
}

/// The update without what its history may not have.
fn tame(update: &PartitionUpdate, kind: Kind) -> PartitionUpdate {
    let mut out = update.clone();
    if kind != Kind::Anything {
        out.rows.iter_mut().chain(&mut out.static_row).for_each(|row| tame_row(row, kind));
    }
    if kind == Kind::NothingDies {
        out.deletion = Deletion::NONE;
        out.range_tombstones.clear();
    }
    out
}

/// A row that a client would see: its partition, its clustering but for a static one, and what is in its
/// wanted columns.
type Seen = (DecoratedKey, Option<Clustering>, Vec<(ColumnId, Bytes, Bytes)>);

fn seen(engine: &Engine, command: &ReadCommand, wanted: &ColumnSelection) -> (Vec<Seen>, u64) {
    let context = ReadContext::default();
    let mut stream = engine.read(command, &context).unwrap();
    let mut fragment = Fragment::default();
    let (mut key, mut out) = (fragment.key.clone(), Vec::new());
    loop {
        let event = stream.next(&mut fragment).unwrap();
        let row = &fragment.row;
        let clustering = match event {
            Event::End => break,
            Event::PartitionStart => {
                key = fragment.key.clone();
                continue;
            }
            Event::Row => Some(row.clustering.clone()),
            Event::StaticRow => None,
            _ => continue,
        };
        let live = row.cells.iter().filter(|cell| cell.is_live(command.now_s));
        if row.is_live(command.now_s) {
            let is_wanted = |cell: &&Cell| {
                let elements = wanted.elements_of(cell.column);
                wanted.contains(cell.column) && elements.is_none_or(|elements| elements.contains(&cell.path))
            };
            let values = live.filter(is_wanted);
            let values = values.map(|cell| (cell.column, cell.path.clone(), cell.value.clone()));
            out.push((key.clone(), clustering, values.collect()));
        }
    }
    drop(stream);
    (out, context.cost.snapshot().cells_scanned)
}

/// Some elements of some of the columns.
fn some_elements(random: &Random, table: &TableSchema, wanted: &mut ColumnSelection) {
    let mut elements = Vec::new();
    for id in wanted.columns.iter() {
        let path = match &table.cell_column(*id).unwrap().ty {
            CqlType::Map { key, multi_cell: true, .. } => key,
            CqlType::Set { element, multi_cell: true } => element,
            _ => continue,
        };
        let some = |_| match **path {
            CqlType::Text => Bytes::from(vec![b'a' + random.below(4) as u8; 1 + random.below(2) as usize]),
            _ => Bytes::copy_from_slice(&(random.below(8) as i32).to_be_bytes()),
        };
        let range = |number| match random.below(3) {
            0 => PathRange { from: Some(some(number)), to: None },
            1 => PathRange { from: None, to: Some(some(number)) },
            _ => PathRange::of(some(number)),
        };
        if random.below(3) > 0 {
            let ranges = (0..random.below(3)).map(range).collect();
            elements.push(ElementSelection::new(*id, CqlType::clone(path), ranges));
        }
    }
    wanted.elements = (!elements.is_empty()).then(|| Arc::new(elements));
}

#[test]
fn rows_are_there_whichever_columns_and_elements_are_asked_for() {
    let kinds = [Kind::Anything, Kind::NoTtls, Kind::NothingDies];
    let mut cells = [[0; 2]; 3];
    for seed in 0..90 {
        let kind = seed as usize % 3;
        let random = Random::from_seed(seed);
        let mut history = History::new(seed / 3);
        let table = history.table();
        let engine = Engine::open(options(), env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
        create(&engine, &[&table]);
        // All in one SSTable, or in several and a memtable.
        let flushes = [0, 3, 8][random.below(3) as usize];
        for update in history.updates() {
            let update = tame(&update, kinds[kind]);
            engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap().wait().unwrap();
            if flushes > 0 && random.below(flushes) == 0 {
                engine.flush("check", Some(&table.name)).unwrap();
            }
        }
        if flushes == 0 {
            engine.flush("check", Some(&table.name)).unwrap();
        }
        let all = ColumnSelection::all(&table);
        for (partitions, clusterings) in history.commands() {
            let wanted = all.columns.iter().copied().filter(|_| random.below(3) == 0);
            let mut wanted = ColumnSelection::of(wanted.collect());
            some_elements(&random, &table, &mut wanted);
            let mut command = ReadCommand {
                table: Arc::clone(&table),
                partitions,
                clusterings,
                columns: all.clone(),
                row_filter: Vec::new(),
                limits: DataLimits::NONE,
                now_s: NOW_S + random.below(3) as u32,
            };
            let (expected, of_all) = seen(&engine, &command, &wanted);
            command.columns = wanted.clone();
            let (found, of_wanted) = seen(&engine, &command, &wanted);
            assert_eq!(
                found, expected,
                "seed {seed}, {:?}, {:?}, {wanted:?}",
                kinds[kind], command.clusterings
            );
            cells[kind][0] += of_all;
            cells[kind][1] += of_wanted;
        }
        engine.close();
    }
    let [_, [all, no_ttls], [every, nothing_dies]] = cells;
    assert!(no_ttls * 20 < all * 19 && nothing_dies * 10 < every * 6, "cells are left out: {cells:?}");
}

/// What is inserted with a TTL over what was inserted for good ends before the older row's cells do.
#[test]
fn a_cell_that_nobody_asked_for_keeps_a_row_whose_newer_insertion_is_over() {
    let table = Arc::new(
        TableSchema::builder("check", "t", Uuid::from_u128(9))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, false)
            .regular("a", CqlType::Int)
            .regular("b", CqlType::Int)
            .build(),
    );
    let engine = Engine::open(options(), env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
    create(&engine, &[&table]);
    let (a, b) = (table.column("a").unwrap().id, table.column("b").unwrap().id);
    let rows = [
        (Liveness::new(1), Cell::live(a, 1, Bytes::from_static(&[0, 0, 0, 1]))),
        (
            Liveness::expiring(2, 10, NOW_S),
            Cell::expiring(b, 2, 10, NOW_S, Bytes::from_static(&[0, 0, 0, 2])),
        ),
    ];
    for (liveness, cell) in rows {
        let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
        let mut row = Row::new(Clustering::from_values([&[0, 0, 0, 1][..]]));
        row.liveness = liveness;
        row.cells.push(cell);
        update.add_row(row);
        engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap().wait().unwrap();
        engine.flush("check", Some("t")).unwrap();
    }
    for partitions in [PartitionSelection::Keys(vec![key(1)]), PartitionSelection::Range(KeyRange::FULL)] {
        let wanted = ColumnSelection::of(vec![b]);
        let command = ReadCommand {
            table: Arc::clone(&table),
            partitions,
            clusterings: ClusteringFilter::all(),
            columns: wanted.clone(),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: NOW_S + 1,
        };
        assert_eq!(seen(&engine, &command, &wanted).0.len(), 1);
    }
    engine.close();
}

/// Partitions of a memtable are opened one by one: what is written before a read of a range comes to one
/// counts.
#[test]
fn a_cell_that_nobody_asked_for_is_left_out_beside_a_memtable_until_something_there_expires() {
    let table = Arc::new(
        TableSchema::builder("check", "t", Uuid::from_u128(9))
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, false)
            .regular("a", CqlType::Int)
            .regular("b", CqlType::Int)
            .build(),
    );
    let engine = Engine::open(options(), env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
    create(&engine, &[&table]);
    let (a, b) = (table.column("a").unwrap().id, table.column("b").unwrap().id);
    let write = |number, clustering: u8, liveness, cell| {
        let mut update = PartitionUpdate::new(Arc::clone(&table), key(number));
        let mut row = Row::new(Clustering::from_values([&[0, 0, 0, clustering][..]]));
        row.liveness = liveness;
        row.cells.push(cell);
        update.add_row(row);
        engine.apply(&Mutation::of(update), WriteOptions::default()).unwrap().wait().unwrap();
    };
    let value = Bytes::from_static(&[0, 0, 0, 1]);
    for number in 1..4 {
        write(number, 1, Liveness::new(1), Cell::live(a, 1, value.clone()));
    }
    engine.flush("check", Some("t")).unwrap();
    write(1, 2, Liveness::new(2), Cell::live(b, 2, value.clone()));
    let command = ReadCommand {
        table: Arc::clone(&table),
        partitions: PartitionSelection::Range(KeyRange::FULL),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::of(vec![b]),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: NOW_S + 1,
    };
    let (rows, cells) = seen(&engine, &command, &command.columns);
    assert_eq!((rows.len(), cells), (4, 1), "the cells of the file are left out");

    let context = ReadContext::default();
    let mut stream = engine.read(&command, &context).unwrap();
    let mut fragment = Fragment::default();
    assert_eq!(stream.next(&mut fragment).unwrap(), Event::PartitionStart);
    let first = fragment.key.clone();
    for number in (1..4).filter(|number| key(*number) != first) {
        let over = Cell::expiring(b, 3, 10, NOW_S, value.clone());
        write(number, 1, Liveness::expiring(3, 10, NOW_S), over);
    }
    let mut live = 0;
    loop {
        match stream.next(&mut fragment).unwrap() {
            Event::Row => live += u64::from(fragment.row.is_live(command.now_s)),
            Event::End => break,
            _ => {}
        }
    }
    assert_eq!(live, 4, "what expired leaves the older cells");
    drop(stream);
    engine.close();
}

#[test]
fn a_row_in_memory_of_nothing_but_a_dropped_column_is_none() {
    let engine = Engine::open(options(), env_on(Arc::new(MemoryFileSystem::new()), 1)).unwrap();
    let table = simple_table("t");
    create(&engine, &[&table]);
    // Without liveness, as UPDATE writes it.
    write(&engine, &insert(&table, 1, 1, "v", 10)).unwrap();
    let live = |table: &Arc<TableSchema>| {
        let command = ReadCommand {
            table: Arc::clone(table),
            partitions: PartitionSelection::Keys(vec![key(1)]),
            clusterings: ClusteringFilter::all(),
            columns: ColumnSelection::of(Vec::new()),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: NOW_S,
        };
        seen(&engine, &command, &command.columns).0.len()
    };
    assert_eq!(live(&table), 1);
    let narrow = Arc::new(table.to_builder().drop_column("v", 20).build());
    create(&engine, &[&narrow]);
    assert_eq!(live(&narrow), 0);
}
