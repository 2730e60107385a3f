use super::*;
use crate::counter::{Shard, ShardKind};
use crate::types::CqlType;
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::LazyLock;

static TABLE: LazyLock<TableSchema> = LazyLock::new(|| {
    TableSchema::builder("ks", "t", uuid::Uuid::nil())
        .partition_key("k", CqlType::Int)
        .clustering("c", CqlType::Int, false)
        .regular("a", CqlType::Text)
        .regular("b", CqlType::Text)
        .regular("m", CqlType::map(CqlType::Int, CqlType::Text, true))
        .regular("s", CqlType::set(CqlType::Text, true))
        .build()
});

/// The same table without its map.
static ALTERED: LazyLock<TableSchema> = LazyLock::new(|| TABLE.to_builder().drop_column("m", 1).build());

static COUNTERS: LazyLock<TableSchema> = LazyLock::new(|| {
    TableSchema::builder("ks", "c", uuid::Uuid::nil())
        .partition_key("k", CqlType::Int)
        .regular("n", CqlType::Counter)
        .build()
});

fn id(name: &str) -> ColumnId {
    TABLE.column(name).map(|c| c.id).unwrap()
}

/// Few different numbers, so that ties are the rule.
fn deletion() -> impl Strategy<Value = Deletion> {
    prop_oneof![
        3 => Just(Deletion::NONE),
        1 => (1i64..5, 1u32..4).prop_map(|(timestamp, ldt)| Deletion::new(timestamp, ldt)),
    ]
}

fn liveness() -> impl Strategy<Value = Liveness> {
    prop_oneof![
        Just(Liveness::NONE),
        (1i64..6).prop_map(Liveness::new),
        (1i64..6, 1i32..3, 1u32..3).prop_map(|(timestamp, ttl, at)| Liveness::expiring(timestamp, ttl, at)),
    ]
}

fn cell(column: ColumnId, path: Bytes) -> impl Strategy<Value = Cell> {
    let value = prop::sample::select(vec!["", "x", "y"]).prop_map(Bytes::from);
    (1i64..6, 1i32..3, 1u32..4, value, 0..3).prop_map(move |(timestamp, ttl, ldt, value, kind)| {
        let cell = match kind {
            0 => Cell::live(column, timestamp, value),
            1 => Cell::tombstone(column, timestamp, ldt),
            _ => Cell::expiring(column, timestamp, ttl, ldt, value),
        };
        cell.with_path(path.clone())
    })
}

/// The paths of the map are such that their order is not that of their bytes.
fn row() -> impl Strategy<Value = Row> {
    let int = |v: i32| Bytes::copy_from_slice(&v.to_be_bytes());
    let places = [
        (id("a"), Bytes::new()),
        (id("b"), Bytes::new()),
        (id("m"), int(-1)),
        (id("m"), int(1)),
        (id("s"), Bytes::from("p")),
        (id("s"), Bytes::from("q")),
    ];
    let cells: Vec<_> =
        places.into_iter().map(|(column, path)| prop::option::of(cell(column, path))).collect();
    (liveness(), deletion(), deletion(), deletion(), cells).prop_map(
        |(liveness, deletion, of_m, of_s, cells)| {
            let complex = [(id("m"), of_m), (id("s"), of_s)];
            let raw = Row {
                liveness,
                deletion,
                complex_deletions: complex.into_iter().filter(|(_, d)| !d.is_none()).collect(),
                cells: cells.into_iter().flatten().collect(),
                ..Row::default()
            };
            // What a row's own deletions shadow is never in a row.
            merged(&TABLE, &Row::default(), &raw)
        },
    )
}

fn counter_cell() -> impl Strategy<Value = Row> {
    let shard = (0u8..3, 0i64..3, 0i64..3, any::<bool>()).prop_map(|(id, clock, count, global)| Shard {
        id: [id; 16],
        clock,
        count,
        kind: if global { ShardKind::Global } else { ShardKind::Remote },
    });
    let context = prop::collection::vec(shard, 1..4).prop_map(|mut shards| {
        shards.sort_by_key(|s| s.id);
        shards.dedup_by_key(|s| s.id);
        counter::encode(&shards)
    });
    let column = COUNTERS.column("n").map(|c| c.id).unwrap();
    let cell = prop_oneof![
        4 => (1i64..5, context).prop_map(move |(timestamp, value)| Cell::live(column, timestamp, value)),
        1 => (1i64..5, 1u32..3).prop_map(move |(timestamp, ldt)| Cell::tombstone(column, timestamp, ldt)),
    ];
    cell.prop_map(|cell| Row { cells: vec![cell], ..Row::default() })
}

fn merged(table: &TableSchema, a: &Row, b: &Row) -> Row {
    let mut out = a.clone();
    merge_row_into(table, &mut out, b);
    out
}

fn deleted(row: &Row, outer: &Deletion) -> Row {
    let mut out = row.clone();
    apply_deletion(&mut out, outer);
    out
}

fn assert_lattice(table: &TableSchema, a: &Row, b: &Row, c: &Row) -> Result<(), TestCaseError> {
    prop_assert_eq!(&merged(table, a, a), a, "idempotent");
    let ab = merged(table, a, b);
    prop_assert_eq!(&merged(table, b, a), &ab, "commutative");
    prop_assert_eq!(&merged(table, &ab, b), &ab, "absorbing");
    let bc = merged(table, b, c);
    prop_assert_eq!(merged(table, &ab, c), merged(table, a, &bc), "associative");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn rows_merge_in_any_order(a in row(), b in row(), c in row()) {
        assert_lattice(&TABLE, &a, &b, &c)?;
        let ab = merged(&TABLE, &a, &b);
        let in_order = |x: &Cell, y: &Cell| compare_cell_positions(&TABLE, x, y).is_lt();
        prop_assert!(ab.cells.is_sorted_by(in_order), "{:?}", ab);
        prop_assert!(ab.complex_deletions.is_sorted_by_key(|(column, _)| *column));
    }

    #[test]
    fn counters_merge_in_any_order(a in counter_cell(), b in counter_cell(), c in counter_cell()) {
        assert_lattice(&COUNTERS, &a, &b, &c)?;
    }

    #[test]
    fn a_deletion_may_come_before_or_after_the_merge(a in row(), b in row(), outer in deletion()) {
        let after = deleted(&merged(&TABLE, &a, &b), &outer);
        let before = merged(&TABLE, &deleted(&a, &outer), &deleted(&b, &outer));
        prop_assert_eq!(&after, &before);
        prop_assert_eq!(deleted(&after, &outer), after);
    }

    #[test]
    fn deletions_add_up(a in row(), first in deletion(), second in deletion()) {
        let both = deleted(&a, &first.max(second));
        prop_assert_eq!(deleted(&deleted(&a, &first), &second), both);
    }

    #[test]
    fn a_dropped_column_does_not_disturb_the_others(a in row(), b in row()) {
        let without_map = |mut row: Row| {
            row.cells.retain(|c| c.column != id("m"));
            row.complex_deletions.retain(|(column, _)| *column != id("m"));
            row
        };
        let before = without_map(merged(&TABLE, &a, &b));
        prop_assert_eq!(without_map(merged(&ALTERED, &a, &b)), before);
    }
}

/// Each pair is written to a real node in both orders, and it answers with the second.
#[test]
fn ties_are_broken_as_on_a_real_node() {
    let column = id("a");
    let live = |value: &'static str| Cell::live(column, 1000, value.into());
    let expiring = |value: &'static str, ttl, at| Cell::expiring(column, 1000, ttl, at, value.into());
    let tombstone = |at| Cell::tombstone(column, 1000, at);
    for (loser, winner) in [
        (live("a"), live("b")),
        (live("b"), tombstone(5)),
        (live("z"), expiring("a", 1000, 1005)),
        (live("z"), expiring("a", 1, 6)),
        (expiring("z", 1000, 1005), tombstone(5)),
        (expiring("z", 1000, 1005), expiring("a", 2000, 2005)),
        (expiring("a", 1000, 1005), expiring("b", 1000, 1005)),
        (expiring("b", 1000, 1005), expiring("a", 999, 1005)),
    ] {
        assert_eq!(compare_cells(&loser, &winner), Ordering::Less, "{loser:?} {winner:?}");
        assert_eq!(compare_cells(&winner, &loser), Ordering::Greater, "{loser:?} {winner:?}");
    }
}

#[test]
fn a_deletion_wins_over_a_write_of_its_own_time() {
    let column = id("a");
    let write = Row {
        liveness: Liveness::new(1000),
        cells: vec![Cell::live(column, 1000, "x".into())],
        ..Row::default()
    };
    let row_deletion = Row { deletion: Deletion::new(1000, 5), ..Row::default() };
    assert_eq!(merged(&TABLE, &write, &row_deletion), row_deletion);
    assert!(deleted(&write, &Deletion::new(1000, 5)).is_empty());
    assert_eq!(deleted(&write, &Deletion::new(999, 5)), write);
}
