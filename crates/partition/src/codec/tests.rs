use super::mutation::{MutationError, decode_mutation, encode_mutation};
use super::stats::DeletionTimes;
use super::*;
use crate::RangeChange;
use bytes::Bytes;
use model::clustering::Position;
use model::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnDef, CqlType, DecoratedKey, Deletion, Liveness,
    Mutation, PartitionKey, PartitionUpdate, RangeTombstone, Row, Slice, TableSchema,
};
use proptest::prelude::*;
use std::sync::Arc;
use uuid::Uuid;

fn table(regulars: usize) -> Arc<TableSchema> {
    let mut builder = TableSchema::builder("ks", "t", Uuid::from_u128(7))
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .clustering("d", CqlType::Text, true)
        .static_column("s", CqlType::Text)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Int, true));
    for i in 0..regulars {
        builder = builder.regular(&format!("r{i:03}"), if i % 2 == 0 { CqlType::Int } else { CqlType::Text });
    }
    Arc::new(builder.build())
}

fn clustering(c: i32, d: &str) -> Clustering {
    Clustering::from_values([&c.to_be_bytes()[..], d.as_bytes()])
}

fn id(table: &TableSchema, name: &str) -> model::ColumnId {
    table.column(name).map(|c: &Arc<ColumnDef>| c.id).unwrap()
}

fn round_trip(update: PartitionUpdate) -> PartitionUpdate {
    let table = Arc::clone(&update.table);
    let mut out = Vec::new();
    encode_mutation(&Mutation::of(update), DeletionTimes::Signed, &mut out).unwrap();
    for cut in 0..out.len() {
        assert!(
            decode_mutation(&out[..cut], DeletionTimes::Signed, &|_| Some(table.clone())).is_err(),
            "cut at {cut}"
        );
    }
    decode_mutation(&out, DeletionTimes::Signed, &|_| Some(table.clone())).unwrap().updates.remove(0)
}

fn key() -> DecoratedKey {
    DecoratedKey::new(PartitionKey(Bytes::from_static(&[0, 0, 0, 1])))
}

fn row_strategy(table: Arc<TableSchema>) -> impl Strategy<Value = Row> {
    let count = table.regular_columns().len();
    let cells = proptest::collection::btree_map(0..count, (0u8..4, -5i64..5, any::<u16>()), 0..8);
    let text = "[a-c]{0,2}";
    let liveness = prop_oneof![
        Just(Liveness::NONE),
        (0i64..5).prop_map(Liveness::new),
        (0i64..5, 1i32..100).prop_map(|(t, ttl)| Liveness::expiring(t, ttl, 1_700_000_000))
    ];
    let deletion =
        prop_oneof![Just(Deletion::NONE), (-9i64..9).prop_map(|t| Deletion::new(t, 1_600_000_000))];
    (0i32..4, text, liveness, (deletion.clone(), any::<bool>()), deletion, cells).prop_map(
        move |(c, d, liveness, (deletion, is_shadowable), complex, cells)| {
            let mut row = Row::new(clustering(c, &d));
            row.liveness = liveness;
            row.set_deletion(deletion, is_shadowable && !deletion.is_none());
            row.drop_outlived_deletion();
            for (i, (kind, timestamp, value)) in cells {
                let def = &table.regular_columns()[i];
                let value = match def.ty {
                    CqlType::Text => Bytes::from(format!("{value}").repeat(value as usize % 3)),
                    _ => Bytes::copy_from_slice(&(value as i32).to_be_bytes()),
                };
                let mut cell = match kind {
                    0 => Cell::live(def.id, timestamp, value),
                    1 => Cell::tombstone(def.id, timestamp, 1_650_000_000),
                    2 => Cell::expiring(def.id, timestamp, 77, 1_650_000_000, value),
                    _ => Cell::expiring(def.id, timestamp, 60, 1_700_000_000, value),
                };
                if def.is_multi_cell() {
                    cell.path = Bytes::from_static(&[0, 0, 0, 9]);
                    if !complex.is_none() {
                        row.complex_deletions.push((def.id, complex));
                    }
                }
                row.cells.push(cell);
            }
            row.cells.sort_by_key(|c| c.column);
            row
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn mutations_come_back(
        wide in any::<bool>(),
        rows in (3usize..6).prop_flat_map(|n| proptest::collection::vec(row_strategy(table(n)), 0..5)),
        ranges in proptest::collection::vec((0i32..4, 0i32..4, 0i64..3), 0..5),
        partition_deletion in any::<bool>(),
    ) {
        // The wide table has the same first columns, but its subsets are written as lists.
        let table = table(if wide { 90 } else { 6 });
        let mut update = PartitionUpdate::new(table.clone(), key());
        for mut row in rows {
            row.cells.retain(|c| table.cell_column(c.column).is_some_and(|d| !d.is_multi_cell()));
            row.complex_deletions.clear();
            for cell in &mut row.cells {
                let def = table.cell_column(cell.column).unwrap();
                cell.path = Bytes::new();
                if !cell.is_tombstone() && def.ty == CqlType::Int && cell.value.len() != 4 {
                    cell.value = Bytes::new();
                }
            }
            if !row.is_empty() {
                update.add_row(row);
            }
        }
        for (from, to, timestamp) in ranges {
            let start = ClusteringBound::start_at(Clustering::from_values([&from.to_be_bytes()[..]]));
            let end = ClusteringBound::end_at(Clustering::from_values([&to.to_be_bytes()[..]]));
            let deletion = Deletion::new(timestamp, 1_650_000_000);
            update.range_tombstones.push(RangeTombstone { slice: Slice { start, end }, deletion });
        }
        if partition_deletion {
            update.deletion = Deletion::new(4, 1_650_000_000);
        }
        let back = round_trip(update.clone());
        prop_assert_eq!(&back.rows, &update.rows);
        prop_assert_eq!(back.deletion, update.deletion);
        let comparator = table.comparator();
        prop_assert_eq!(
            changes_of_tombstones(&back.range_tombstones, comparator),
            changes_of_tombstones(&update.range_tombstones, comparator)
        );
    }

    #[test]
    fn rows_with_collections_come_back(row in row_strategy(table(5))) {
        let table = table(5);
        let mut update = PartitionUpdate::new(table.clone(), key());
        if !row.is_empty() {
            update.rows.push(row);
        }
        let back = round_trip(update.clone());
        prop_assert_eq!(back.rows, update.rows);
    }

    #[test]
    fn hostile_bytes_are_refused_or_decoded(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let table = table(5);
        let _ = decode_mutation(&bytes, DeletionTimes::Signed, &|_| Some(table.clone()));
    }

    #[test]
    fn subsets_come_back(len in 1usize..200, bits in proptest::collection::vec(any::<bool>(), 200)) {
        let mut set = ColumnSet::default();
        set.reset(len);
        (0..len).filter(|i| bits[*i]).for_each(|i| set.insert(i));
        let mut out = Vec::new();
        set.encode(&mut out, len);
        let mut input = SliceInput::new(out.into());
        let mut back = ColumnSet::default();
        back.decode(&mut input, len).unwrap();
        prop_assert_eq!(back, set);
        prop_assert_eq!(input.remaining(), 0);
    }
}

#[test]
fn static_rows_come_back() {
    let table = table(2);
    let mut update = PartitionUpdate::new(table.clone(), key());
    let mut row = Row::default();
    row.cells.push(Cell::live(id(&table, "s"), 5, Bytes::from_static(b"static")));
    update.static_row = Some(row);
    assert_eq!(round_trip(update.clone()).static_row, update.static_row);
}

#[test]
fn overlapping_tombstones_become_changes_of_the_newest() {
    let table = table(1);
    let at = |v: i32| Clustering::from_values([&v.to_be_bytes()[..]]);
    let tombstone = |from: i32, to: i32, timestamp: i64| RangeTombstone {
        slice: Slice { start: ClusteringBound::start_at(at(from)), end: ClusteringBound::end_at(at(to)) },
        deletion: Deletion::new(timestamp, 9),
    };
    let changes = changes_of_tombstones(
        &[tombstone(3, 5, 20), tombstone(1, 9, 10), tombstone(1, 2, 5)],
        table.comparator(),
    );
    let found: Vec<i64> = changes.iter().map(|c| c.deletion.timestamp).collect();
    assert_eq!(found, [10, 20, 10, i64::MIN]);
    assert_eq!(changes[1].position.prefix, at(3));
    assert_eq!(changes[2].position, RangeChange::at(ClusteringBound::end_at(at(5)), Deletion::NONE).position);
}

#[test]
fn an_unknown_table_is_told_apart() {
    let update = PartitionUpdate::new(table(1), key());
    let mut out = Vec::new();
    encode_mutation(&Mutation::of(update), DeletionTimes::Signed, &mut out).unwrap();
    assert_eq!(
        decode_mutation(&out, DeletionTimes::Signed, &|_| None).unwrap_err(),
        MutationError::UnknownTable(Uuid::from_u128(7))
    );
}

#[test]
fn a_value_of_wrong_length_is_not_written() {
    let table = table(1);
    let mut update = PartitionUpdate::new(table.clone(), key());
    let mut row = Row::new(clustering(1, "x"));
    row.cells.push(Cell::live(id(&table, "r000"), 5, Bytes::from_static(b"123")));
    update.rows.push(row);
    let error = encode_mutation(&Mutation::of(update), DeletionTimes::Signed, &mut Vec::new()).unwrap_err();
    assert_eq!(error, EncodeError::ValueLength { expected: 4, found: 3 });
}

#[test]
fn cells_of_dropped_columns_are_left_out_up_to_the_drop() {
    let old = table(3);
    let mut update = PartitionUpdate::new(old.clone(), key());
    let mut row = Row::new(clustering(1, "x"));
    row.liveness = Liveness::new(1);
    for name in ["r000", "r001", "r002"] {
        let value = Bytes::from_static(if name == "r001" { b"t" } else { &[0, 0, 0, 1] });
        row.cells.push(Cell::live(id(&old, name), 5, value));
    }
    row.cells[2].timestamp = 50;
    update.rows.push(row);
    let mut out = Vec::new();
    encode_mutation(&Mutation::of(update), DeletionTimes::Signed, &mut out).unwrap();
    let dropped = old.to_builder().drop_column("r000", 10).drop_column("r001", 10).drop_column("r002", 10);
    let now = Arc::new(dropped.regular("r001", CqlType::Text).regular("r002", CqlType::Int).build());
    let back =
        decode_mutation(&out, DeletionTimes::Signed, &|_| Some(now.clone())).unwrap().updates.remove(0);
    let cells = &back.rows[0].cells;
    assert_eq!(cells.len(), 1);
    assert_eq!((cells[0].column, cells[0].timestamp), (id(&now, "r002"), 50));
    let other = Arc::new(TableSchema::builder("ks", "t", old.id).partition_key("k", CqlType::Int).build());
    assert!(matches!(
        decode_mutation(&out, DeletionTimes::Signed, &|_| Some(other.clone())).unwrap_err(),
        MutationError::UnknownColumn(LayoutError::UnknownColumn { .. })
    ));
}

/// docs/formats/sstable-big.md: a partition of a table without clustering columns.
#[test]
fn the_layout_is_that_of_a_real_file() {
    let table = TableSchema::builder("ks", "noclust", Uuid::nil())
        .partition_key("pk", CqlType::Int)
        .regular("v", CqlType::Int)
        .regular("w", CqlType::Text)
        .build();
    let stats = EncodingStats { min_timestamp: 999, ..EncodingStats::default() };
    let layout =
        Layout::of_sstable(&SerializationHeader::of_table(&table, stats, DeletionTimes::Signed), &table)
            .unwrap();
    let mut row = Row { liveness: Liveness::new(1000), ..Row::default() };
    row.cells.push(Cell::live(id(&table, "v"), 1000, Bytes::from_static(&[0, 0, 0, 1])));
    row.cells.push(Cell::live(id(&table, "w"), 1000, Bytes::from_static(b"w")));
    let mut out = Vec::new();
    let mut sizes = RowSizes::default();
    sizes.previous = 18;
    layout.write_row(&mut out, &row, false, &mut sizes).unwrap();
    assert_eq!(out, [0x24, 0x0a, 0x12, 0x01, 0x08, 0, 0, 0, 1, 0x08, 0x01, 0x77]);
    assert_eq!(sizes.previous, 12);

    let mut deletion = Vec::new();
    DeletionTimes::Signed.write(&mut deletion, &Deletion::new(2000, 0x6b01_06c0)).unwrap();
    DeletionTimes::Signed.write(&mut deletion, &Deletion::NONE).unwrap();
    assert_eq!(deletion[..12], [0x6b, 0x01, 0x06, 0xc0, 0, 0, 0, 0, 0, 0, 0x07, 0xd0]);
    assert_eq!(deletion[12..], [0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn a_header_comes_back() {
    let table = table(3);
    for times in [DeletionTimes::Signed, DeletionTimes::Unsigned] {
        let stats = EncodingStats { min_timestamp: -4, min_local_deletion_time: 5, min_ttl: 3 };
        let header = SerializationHeader::of_table(&table, stats, times);
        let mut out = Vec::new();
        header.encode(&mut out);
        assert_eq!(SerializationHeader::decode(&mut SliceInput::new(out.into()), times).unwrap(), header);
    }
}

/// Expirations that overflowed, of releases before CASSANDRA-14092.
#[test]
fn times_relative_to_a_negative_one_are_told() {
    let table = table(1);
    let mut header = SerializationHeader::of_table(&table, EncodingStats::default(), DeletionTimes::Signed);
    header.stats.min_local_deletion_time = (-5_i32).cast_unsigned();
    let mut out = Vec::new();
    header.encode(&mut out);
    let read = SerializationHeader::decode(&mut SliceInput::new(out.into()), header.times).unwrap();
    assert_eq!(read, header);
    let latest = model::NO_DELETION_TIME - 1;
    assert_eq!(read.min_local_deletion_time(), latest);

    let layout = Layout::of_sstable(&read, &table).unwrap();
    let mut out = Vec::new();
    for deletion in [Deletion::new(7, 100), Deletion::new(-7, 0)] {
        layout.write_deletion(&mut out, &deletion);
    }
    // The smallest time itself.
    out.extend_from_slice(&[0, 0]);
    let mut input = SliceInput::new(out.into());
    let mut next = || layout.read_deletion(&mut input).unwrap();
    assert_eq!([next(), next()], [Deletion::new(7, 100), Deletion::new(-7, 0)]);
    assert_eq!(next(), Deletion::new(read.stats.min_timestamp, latest));
}

#[test]
fn a_position_is_stepped_over_where_it_could_be_read() {
    let types = [ValueLen::of(&CqlType::Int), ValueLen::of(&CqlType::Text)];
    let full = clustering(7, "seven");
    let mut good = Vec::new();
    for (kind, prefix) in [(BoundKind::Row, full.clone()), (BoundKind::ExclEnd, full.prefix(1))] {
        write_prefix(&mut good, &types, Position { kind, prefix: &prefix }).unwrap();
    }
    // The second one begins behind kind, header, four bytes, a length and five bytes.
    for start in [0, 12] {
        for at in start..good.len() {
            for byte in [good[at], 0, 1, 5, 0x20, 0x40, 0xf8, 0xff] {
                let mut bytes = good.clone();
                bytes[at] = byte;
                let whole = SliceInput::new(Bytes::from(bytes).slice(start..));
                let (mut read, mut skipped) = (whole.clone(), whole);
                let was_read = read_prefix(&mut read, &types, &mut Clustering::empty()).map(|_| ());
                assert_eq!(skip_prefix(&mut skipped, &types), was_read, "{byte:#x} at {at}");
                assert_eq!(skipped.position(), read.position(), "{byte:#x} at {at}");
            }
        }
    }
}

#[test]
fn a_shadowable_deletion_that_the_liveness_outlives_is_none() {
    let table = table(3);
    for (liveness, is_outlived) in [(9, false), (10, false), (11, true)] {
        let mut row = Row::new(clustering(1, "a"));
        row.liveness = Liveness::new(liveness);
        row.cells.push(Cell::live(id(&table, "r000"), 5, Bytes::from_static(&[0, 0, 0, 1])));
        row.set_deletion(Deletion::new(10, 1), true);
        let mut update = PartitionUpdate::new(table.clone(), key());
        update.rows.push(row.clone());
        if is_outlived {
            row.set_deletion(Deletion::NONE, false);
        }
        assert_eq!(round_trip(update).rows, [row], "liveness {liveness}");
    }
}
