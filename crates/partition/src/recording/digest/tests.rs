use super::super::tests::command;
use super::*;
use crate::testing::*;
use crate::{PageLimits, ReadContext};
use model::command::{ClusteringFilter, ColumnSelection, DataLimits};
use model::{Liveness, counter};
use std::sync::Arc;

fn digest(steps: Vec<crate::testing::Step>, command: &Arc<ReadCommand>) -> Digest {
    let stream = Box::new(Script::new(steps));
    Recording::of(stream, command, ReadContext::default(), PageLimits::NONE).unwrap().digest(command)
}

fn md5(parts: &[&[u8]]) -> Digest {
    Digest(Md5::digest(parts.concat()).into())
}

const MIN: [u8; 8] = i64::MIN.to_be_bytes();

/// What an empty static row counts as.
fn no_statics() -> Vec<u8> {
    [&[0, 3][..], &MIN, &[1], &MIN].concat()
}

#[test]
fn the_digest_of_nothing_is_that_of_no_bytes() {
    let nothing = digest(Vec::new(), &command(DataLimits::NONE, false));
    assert_eq!(nothing.0[..4], [0xd4, 0x1d, 0x8c, 0xd9]);
}

#[test]
fn rows_and_statics_count_as_in_cassandra() {
    use crate::testing::Step;
    let statics = Row { clustering: Clustering::empty(), ..row(0, &[("s", 7)]) };
    let mut expiring = inserted(1, 5, &[]);
    expiring.liveness = Liveness::expiring(5, 60, 2_000);
    let v = cell("v", 0).column;
    expiring.cells = vec![Cell::expiring(v, 6, 60, 2_000, bytes::Bytes::from_static(b"x"))];
    let gone = Row { deletion: deletion(9), cells: vec![Cell::tombstone(v, 10, 3)], ..row(2, &[]) };
    let steps = vec![
        Step::Start(1, deletion(3)),
        Step::Static(statics),
        Step::Row(expiring),
        Step::Row(gone),
        Step::End,
    ];
    let n = |n: i64| n.to_be_bytes();
    let i = |i: i32| i.to_be_bytes();
    let expected = md5(&[
        &[&i(1)[..], &n(3), b"vw", b"s", &[1]].concat(),
        &[&[0, 3][..], &MIN, &[1], &MIN, &i(7), &n(7), &i(0), &[1]].concat(),
        &[&[0][..], &i(1), &[4], &MIN, &[1], &n(5), &i(2_000), &i(60)].concat(),
        &[b"x", &n(6)[..], &i(60), &[1]].concat(),
        &[&[0][..], &i(2), &[4], &n(9), &[1], &MIN, &n(10), &i(0), &[1]].concat(),
    ]);
    assert_eq!(digest(steps, &command(DataLimits::NONE, false)), expected);
}

#[test]
fn range_deletions_count_as_bounds_and_boundaries_in_storage_order() {
    use crate::testing::Step;
    let (i, n) = (|i: i32| i.to_be_bytes(), |n: i64| n.to_be_bytes());
    let head = |forward: u8| [&i(1)[..], &MIN, b"vw", &[forward], &no_statics()].concat();
    let none = Deletion::NONE;
    let steps =
        vec![Step::Start(1, none), before(1, deletion(3)), after(2, deletion(8)), after(4, none), Step::End];
    let markers = [
        [&i(1)[..], &[1], &n(3)].concat(),
        [&i(2)[..], &[5], &n(3), &n(8)].concat(),
        [&i(4)[..], &[6], &n(8)].concat(),
    ];
    let expected = md5(&[&head(1), &markers.concat()]);
    assert_eq!(digest(steps, &command(DataLimits::NONE, false)), expected);
    let steps =
        vec![Step::Start(1, none), after(4, deletion(8)), after(2, deletion(3)), before(1, none), Step::End];
    let [first, second, third] = markers;
    let expected = md5(&[&head(0), &third, &second, &first]);
    assert_eq!(digest(steps, &command(DataLimits::NONE, true)), expected);
}

#[test]
fn a_range_deletion_is_closed_where_the_answer_stops() {
    use crate::testing::Step;
    let limits = DataLimits { rows: 1, ..DataLimits::NONE };
    let (i, n) = (|i: i32| i.to_be_bytes(), |n: i64| n.to_be_bytes());
    let steps = vec![
        Step::Start(1, Deletion::NONE),
        before(1, deletion(3)),
        Step::Row(inserted(2, 4, &[])),
        Step::Row(inserted(3, 4, &[])),
        after(4, Deletion::NONE),
        Step::End,
    ];
    let expected = md5(&[
        &[&i(1)[..], &MIN, b"vw", &[1], &no_statics()].concat(),
        &[&i(1)[..], &[1], &n(3)].concat(),
        &[&[0][..], &i(2), &[4], &MIN, &[1], &n(4)].concat(),
        &[&i(2)[..], &[6], &n(3)].concat(),
    ]);
    assert_eq!(digest(steps, &command(limits, false)), expected);
}

#[test]
fn of_what_was_not_asked_for_only_the_existence_counts() {
    use crate::testing::Step;
    let all = command(DataLimits::NONE, false);
    let columns = ColumnSelection::of(vec![cell("v", 0).column]);
    let some = Arc::new(ReadCommand { columns, clusterings: of_a_row(), ..ReadCommand::clone(&all) });
    let steps = |skips: bool, w: i64| {
        let mut row = inserted(1, 5, &[("v", 5), ("w", w)]);
        if skips {
            row.cells[1].value = bytes::Bytes::new();
        }
        let statics = Row { clustering: Clustering::empty(), ..row_of_statics() };
        vec![Step::Start(1, Deletion::NONE), Step::Static(statics), Step::Row(row), Step::End]
    };
    assert_eq!(digest(steps(true, 5), &some), digest(steps(false, 5), &some));
    assert_ne!(digest(steps(false, 5), &some), digest(steps(false, 6), &some));
    assert_ne!(digest(steps(true, 5), &all), digest(steps(false, 5), &all));
    let mut without = steps(true, 5);
    without.remove(1);
    assert_eq!(digest(without.clone(), &some), digest(steps(true, 5), &some), "statics that nobody wants");
    assert_ne!(digest(without, &all), digest(steps(true, 5), &all));
}

/// One row: a partition without it is no row of the result, so static columns are told of on demand.
fn of_a_row() -> ClusteringFilter {
    ClusteringFilter::Names { names: vec![clustering(1)], reversed: false }
}

fn row_of_statics() -> Row {
    row(0, &[("s", 7)])
}

#[test]
fn counters_count_without_what_precedes_their_shards() {
    use crate::testing::Step;
    let table = model::TableSchema::builder("ks", "counters", uuid::Uuid::nil())
        .partition_key("k", model::CqlType::Int)
        .regular("n", model::CqlType::Counter)
        .build();
    let n = table.column("n").unwrap().id;
    let mut of_counters = ReadCommand::clone(&command(DataLimits::NONE, false));
    (of_counters.columns, of_counters.table) = (ColumnSelection::all(&table), Arc::new(table));
    let value = counter::global([9; 16], 2, 3);
    let row = Row { cells: vec![Cell::live(n, 5, value.clone())], ..Row::default() };
    let steps = vec![Step::Start(1, Deletion::NONE), Step::Row(row), Step::End];
    let expected = md5(&[
        &[&1i32.to_be_bytes()[..], &MIN, b"n", &[1], &no_statics()].concat(),
        &[&[0, 4][..], &MIN, &[1], &MIN, &value[4..], &5i64.to_be_bytes(), &[0; 4], &[0]].concat(),
    ]);
    assert_eq!(digest(steps, &Arc::new(of_counters)), expected);
}

/// `k int PRIMARY KEY, s int static, t int static, m set<int>`, clustered by `c int`.
fn table_of_sets() -> Arc<model::TableSchema> {
    let int = model::CqlType::Int;
    let table = model::TableSchema::builder("ks", "sets", uuid::Uuid::nil())
        .partition_key("k", int.clone())
        .clustering("c", int.clone(), false)
        .static_column("s", int.clone())
        .static_column("t", int.clone())
        .regular("m", model::CqlType::set(int, true));
    Arc::new(table.build())
}

#[test]
fn elements_count_with_their_paths_behind_the_deletion_of_their_column() {
    use crate::testing::Step;
    let table = table_of_sets();
    let m = table.column("m").unwrap().id;
    let mut of_sets = ReadCommand::clone(&command(DataLimits::NONE, false));
    (of_sets.columns, of_sets.table) = (ColumnSelection::all(&table), Arc::clone(&table));
    let mut row = row(1, &[]);
    row.complex_deletions = vec![(m, deletion(4))];
    let path = bytes::Bytes::copy_from_slice(&9i32.to_be_bytes());
    row.cells = vec![Cell::live(m, 5, bytes::Bytes::new()).with_path(path)];
    let steps = vec![Step::Start(1, Deletion::NONE), Step::Row(row), Step::End];
    let expected = md5(&[
        &[&1i32.to_be_bytes()[..], &MIN, b"m", &[1], &no_statics()].concat(),
        &[&[0][..], &1i32.to_be_bytes(), &[4], &MIN, &[1], &MIN, &4i64.to_be_bytes()].concat(),
        &[&5i64.to_be_bytes()[..], &[0; 4], &[1], &9i32.to_be_bytes()].concat(),
    ]);
    assert_eq!(digest(steps, &Arc::new(of_sets)), expected);
}

#[test]
fn a_static_row_without_what_was_asked_for_is_none() {
    use crate::testing::Step;
    let table = table_of_sets();
    let [s, t] = ["s", "t"].map(|name| table.column(name).unwrap().id);
    let mut of_one = ReadCommand::clone(&command(DataLimits::NONE, false));
    (of_one.columns, of_one.table) = (ColumnSelection::of(vec![t]), Arc::clone(&table));
    of_one.clusterings = of_a_row();
    let of_one = Arc::new(of_one);
    let with = |column| {
        let cells = vec![Cell::live(column, 5, bytes::Bytes::from_static(b"x"))];
        let statics = Row { cells, ..Row::default() };
        vec![Step::Start(1, Deletion::NONE), Step::Static(statics), Step::Row(inserted(1, 5, &[])), Step::End]
    };
    let mut without = with(s);
    without.remove(1);
    assert_eq!(digest(with(s), &of_one), digest(without.clone(), &of_one));
    assert_ne!(digest(with(t), &of_one), digest(without, &of_one));
}

#[test]
fn a_range_deletion_is_closed_where_a_partition_was_left() {
    use crate::testing::Step;
    let limits = DataLimits { rows_per_partition: 1, ..DataLimits::NONE };
    let order = ring_order(2);
    let of = |k: i32, rows: i32| {
        let mut steps = vec![Step::Start(k, Deletion::NONE), before(1, deletion(3))];
        steps.extend((2..2 + rows).map(|c| Step::Row(inserted(c, 4, &[]))));
        steps
    };
    let whole = [of(order[0], 2), vec![after(5, Deletion::NONE), Step::End]].concat();
    let closed = [of(order[0], 1), vec![after(2, Deletion::NONE), Step::End]].concat();
    let next = vec![Step::Start(order[1], Deletion::NONE), Step::Row(inserted(1, 4, &[])), Step::End];
    let limited = digest([whole, next.clone()].concat(), &command(limits, false));
    assert_eq!(limited, digest([closed, next].concat(), &command(DataLimits::NONE, false)));
}

#[test]
fn a_partition_or_row_without_what_was_asked_for_is_not_there() {
    use crate::testing::Step;
    use model::command::FetchedColumns;
    let table = table_of_sets();
    let [s, t, m] = ["s", "t", "m"].map(|name| table.column(name).unwrap().id);
    let of = |fetched: FetchedColumns| {
        let mut command = ReadCommand::clone(&command(DataLimits::NONE, false));
        (command.columns, command.table) = (ColumnSelection::of(vec![t]), Arc::clone(&table));
        command.columns.fetched = Some(Arc::new(fetched));
        Arc::new(command)
    };
    let four = bytes::Bytes::from_static(&[0; 4]);
    let element = Cell { path: four.clone(), ..Cell::live(m, 5, bytes::Bytes::new()) };
    let statics = Step::Static(Row { cells: vec![Cell::live(s, 5, four)], ..Row::default() });
    let row = Step::Row(Row { clustering: clustering(1), cells: vec![element], ..Row::default() });
    let steps = vec![Step::Start(1, Deletion::NONE), statics, row, Step::End];
    let answer = |command: &Arc<ReadCommand>| {
        let mut out = Vec::new();
        let recording = Recording::of(
            Box::new(Script::new(steps.clone())),
            command,
            ReadContext::default(),
            PageLimits::NONE,
        )
        .unwrap();
        recording.encode(command, crate::codec::DeletionTimes::Signed, &mut out).unwrap();
        (recording.digest(command), out)
    };
    let nothing = (md5(&[]), vec![0, 0]);
    assert_eq!(answer(&of(FetchedColumns { statics: vec![t], regulars: Vec::new() })), nothing);
    assert_ne!(answer(&of(FetchedColumns { statics: vec![s], regulars: Vec::new() })), nothing);
    assert_ne!(answer(&of(FetchedColumns { statics: vec![t], regulars: vec![m] })), nothing);
}
