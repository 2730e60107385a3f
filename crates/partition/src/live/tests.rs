//! Behaviour of result rows and pages.

use super::*;
use crate::testing::*;
use model::command::{
    ClusteringFilter, ColumnSelection, DataLimits, FilterExpression, Operator, PartitionSelection,
};
use model::key::KeyRange;
use model::{Deletion, Slice};

const NONE: Deletion = Deletion::NONE;

fn command() -> ReadCommand {
    ReadCommand {
        columns: ColumnSelection::all(&table()),
        table: table(),
        partitions: PartitionSelection::Range(KeyRange::FULL),
        clusterings: ClusteringFilter::all(),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s: 1000,
    }
}

fn statics(timestamp: i64) -> Step {
    let mut row = row(0, &[("s", timestamp)]);
    row.clustering = Clustering::empty();
    Step::Static(row)
}

fn tombstone_row(c: i32) -> Step {
    let mut row = row(c, &[]);
    row.deletion = deletion(1);
    Step::Row(row)
}

type Seen = (i32, Option<i32>);

fn int(bytes: &[u8]) -> i32 {
    i32::from_be_bytes(bytes.try_into().unwrap())
}

fn page(rows: &mut LiveRows) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some(row) = rows.next_row().unwrap() {
        let c = row.row.map(|r| int(r.clustering.value(0).unwrap()));
        seen.push((int(&row.key.key.0), c));
    }
    seen
}

fn rows_of(steps: Vec<Step>, command: ReadCommand, limits: PageLimits) -> Box<LiveRows> {
    LiveRows::new(Box::new(Script::new(steps)), Arc::new(command), ReadContext::default(), limits)
}

fn all(steps: Vec<Step>, command: ReadCommand) -> Vec<Seen> {
    page(&mut rows_of(steps, command, PageLimits::NONE))
}

#[test]
fn static_content_alone_is_one_row_unless_the_query_is_about_rows() {
    let steps = vec![Step::Start(1, NONE), statics(7), Step::End];
    assert_eq!(all(steps.clone(), command()), [(1, None)]);
    let mut restricted = command();
    restricted.clusterings =
        ClusteringFilter::Slices { slices: vec![Slice::of_prefix(clustering(1))], reversed: false };
    assert_eq!(all(steps.clone(), restricted), []);
    let mut filtered = command();
    filtered.row_filter = vec![FilterExpression {
        column: table().column("v").unwrap().id,
        operator: Operator::Eq,
        map_key: None,
        values: vec![bytes::Bytes::from_static(b"1")],
    }];
    assert_eq!(all(steps, filtered), []);
}

#[test]
fn dead_rows_and_dead_statics_are_not_rows() {
    let steps = vec![Step::Start(1, NONE), tombstone_row(1), Step::Row(inserted(2, 1, &[])), Step::End];
    assert_eq!(all(steps, command()), [(1, Some(2))]);
    let mut dead = row(0, &[("s", 1)]);
    dead.clustering = Clustering::empty();
    dead.cells[0].local_deletion_time = 10;
    let steps = vec![Step::Start(1, NONE), Step::Static(dead), Step::End];
    assert_eq!(all(steps, command()), []);
}

#[test]
fn limits_hold_for_the_result_and_for_each_partition() {
    let order = ring_order(2);
    let steps: Vec<Step> = order
        .iter()
        .flat_map(|k| {
            let mut partition = vec![Step::Start(*k, NONE)];
            partition.extend((0..4).map(|c| Step::Row(row(c, &[("v", 1)]))));
            partition.push(Step::End);
            partition
        })
        .collect();
    let mut limited = command();
    limited.limits = DataLimits { rows: 3, rows_per_partition: 2, distinct: false };
    assert_eq!(all(steps.clone(), limited), [(order[0], Some(0)), (order[0], Some(1)), (order[1], Some(0))]);
    let mut distinct = command();
    distinct.limits.distinct = true;
    assert_eq!(all(steps, distinct), [(order[0], Some(0)), (order[1], Some(0))]);
}

#[test]
fn a_page_ends_at_its_rows_and_its_mark_goes_on_there() {
    let mut steps = vec![Step::Start(1, NONE), statics(7)];
    steps.extend((0..5).map(|c| Step::Row(row(c, &[("v", 1)]))));
    steps.push(Step::End);
    let mut limited = command();
    limited.limits.rows_per_partition = 4;
    let limits = PageLimits { rows: 3, ..PageLimits::NONE };
    let mut first = rows_of(steps.clone(), limited.clone(), limits);
    assert_eq!(page(&mut first), [(1, Some(0)), (1, Some(1)), (1, Some(2))]);
    let mark = first.mark().unwrap();
    assert_eq!(mark.clustering, Some(clustering(2)));
    assert_eq!(mark.remaining_in_partition, 1);
    let rest = vec![
        Step::Start(1, NONE),
        statics(7),
        Step::Row(row(3, &[("v", 1)])),
        Step::Row(row(4, &[("v", 1)])),
        Step::End,
    ];
    let mut second = rows_of(rest, limited.clone(), limits).resume(&mark);
    assert_eq!(page(&mut second), [(1, Some(3))]);
    assert_eq!(second.mark(), None);
    // Nothing but the static row is left: the partition has had its rows.
    let none = vec![Step::Start(1, NONE), statics(7), Step::End];
    assert_eq!(page(&mut rows_of(none, limited, limits).resume(&mark)), []);
}

#[test]
fn a_field_of_tombstones_ends_the_page_at_the_last_position_scanned() {
    let mut steps = vec![Step::Start(1, NONE)];
    steps.extend((0..10).map(tombstone_row));
    steps.push(Step::Row(row(10, &[("v", 1)])));
    steps.push(Step::End);
    let mut short = rows_of(steps, command(), PageLimits { tombstones: 4, ..PageLimits::NONE });
    assert_eq!(page(&mut short), []);
    let mark = short.mark().unwrap();
    assert_eq!(mark.clustering, Some(clustering(3)));
}

#[test]
fn bytes_end_a_page_after_the_row_that_exceeds_them() {
    let mut steps = vec![Step::Start(1, NONE)];
    steps.extend((0..4).map(|c| Step::Row(row(c, &[("v", 1)]))));
    steps.push(Step::End);
    let mut rows = rows_of(steps, command(), PageLimits { bytes: 13, ..PageLimits::NONE });
    assert_eq!(page(&mut rows), [(1, Some(0)), (1, Some(1))]);
}

#[test]
fn a_field_of_range_deletions_ends_the_page_too() {
    let mut steps = vec![Step::Start(1, NONE)];
    for c in 0..10 {
        steps.extend([before(c, deletion(1)), after(c, NONE)]);
    }
    steps.push(Step::End);
    let mut short = rows_of(steps, command(), PageLimits { tombstones: 5, ..PageLimits::NONE });
    assert_eq!(page(&mut short), []);
    assert_eq!(short.mark().unwrap().clustering, Some(clustering(1)));
}

#[test]
fn live_and_refused_rows_are_counted() {
    let steps = vec![
        Step::Start(1, NONE),
        tombstone_row(1),
        Step::Row(inserted(2, 1, &[("v", 1)])),
        Step::Row(inserted(3, 1, &[("v", 2)])),
        Step::End,
    ];
    let mut filtered = command();
    filtered.row_filter = vec![FilterExpression {
        column: table().column("c").unwrap().id,
        operator: Operator::Eq,
        map_key: None,
        values: vec![bytes::Bytes::copy_from_slice(&3i32.to_be_bytes())],
    }];
    let context = ReadContext::default();
    let stream = Box::new(Script::new(steps));
    let mut rows = LiveRows::new(stream, Arc::new(filtered), context.clone(), PageLimits::NONE);
    assert_eq!(page(&mut rows), [(1, Some(3))]);
    drop(rows);
    let cost = context.total_cost();
    assert_eq!((cost.rows_live, cost.rows_filtered), (2, 1));
}

#[test]
fn tombstones_are_counted_as_cassandra_does() {
    let v = table().column("v").unwrap().id;
    let with = |mut row: Row, deletion: Deletion| {
        row.set_deletion(deletion, false);
        row
    };
    let mut written_whole = inserted(4, 2, &[("v", 1)]);
    written_whole.complex_deletions.push((v, deletion(1)));
    let mut emptied = row(5, &[]);
    emptied.complex_deletions.push((v, deletion(1)));
    for (met, steps) in [
        (0, vec![Step::Row(inserted(1, 1, &[("v", 1)]))]),
        (1, vec![tombstone_row(2)]),
        // What was written after the deletion lives.
        (0, vec![Step::Row(with(inserted(3, 2, &[("v", 1)]), deletion(1)))]),
        (0, vec![Step::Row(written_whole)]),
        (1, vec![Step::Row(emptied)]),
        (2, vec![before(6, deletion(1)), after(6, NONE)]),
    ] {
        let context = ReadContext::default();
        let script = [vec![Step::Start(1, NONE)], steps, vec![Step::End]].concat();
        let stream = Box::new(Script::new(script));
        let mut rows = LiveRows::new(stream, Arc::new(command()), context.clone(), PageLimits::NONE);
        page(&mut rows);
        assert_eq!(rows.tombstones(), met);
        drop(rows);
        assert_eq!(context.total_cost().tombstones_left, met);
    }
}

#[test]
fn a_read_whose_deadline_is_over_ends_between_its_rows() {
    let steps: Vec<Step> = std::iter::once(Step::Start(1, NONE))
        .chain((0..2_000).map(|c| Step::Row(inserted(c, 1, &[]))))
        .chain([Step::End])
        .collect();
    let now = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let clock: crate::NanoClock = {
        let now = Arc::clone(&now);
        Arc::new(move || now.load(std::sync::atomic::Ordering::SeqCst))
    };
    let context = ReadContext { deadline: Some(crate::Deadline::new(&clock, 5)), ..ReadContext::default() };
    let mut rows =
        LiveRows::new(Box::new(Script::new(steps)), Arc::new(command()), context, PageLimits::NONE);
    for _ in 0..10 {
        assert!(rows.next_row().unwrap().is_some());
    }
    now.store(5, std::sync::atomic::Ordering::SeqCst);
    let mut more = 0;
    let error = loop {
        match rows.next_row() {
            Ok(row) => more += u32::from(row.is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, crate::ReadError::TimedOut), "{error}");
    assert!(more <= 256, "{more} more rows");
}

fn by_name(names: &[i32]) -> Vec<Seen> {
    let rows = [1, 2, 5].map(|c| Step::Row(row(c, &[("v", 1)])));
    let steps = [Step::Start(1, NONE)].into_iter().chain(rows).chain([Step::End]).collect();
    let named = ReadCommand {
        partitions: PartitionSelection::Keys(vec![key(1)]),
        clusterings: ClusteringFilter::Names {
            names: names.iter().copied().map(clustering).collect(),
            reversed: false,
        },
        ..command()
    };
    let mut rows = rows_of(steps, named, PageLimits::NONE);
    let seen = page(&mut rows);
    assert_eq!(rows.mark(), None);
    seen
}

#[test]
fn behind_the_last_row_that_was_asked_for_nothing_is_looked_at() {
    // This stream leaves it to its consumer which rows are asked for.
    assert_eq!(by_name(&[1, 2]), [(1, Some(1)), (1, Some(2))]);
    assert_eq!(by_name(&[1, 2, 3]), [(1, Some(1)), (1, Some(2)), (1, Some(5))]);
}

#[test]
fn where_liveness_is_strict_cells_make_no_row() {
    let mut builder = table().to_builder();
    builder.has_strict_liveness = true;
    let strict = ReadCommand { table: Arc::new(builder.build()), ..command() };
    let mut moved = inserted(2, 5, &[("v", 9)]);
    moved.liveness = model::Liveness::expiring(9, i32::MAX, 900);
    let mut later = inserted(4, 5, &[("v", 9)]);
    // The clock of the node that wrote it was ahead.
    later.liveness = model::Liveness::expiring(9, i32::MAX, 1100);
    let steps = || {
        let rows = [row(1, &[("v", 5)]), moved.clone(), inserted(3, 5, &[("v", 4)]), later.clone()];
        let mut steps = vec![Step::Start(1, NONE)];
        steps.extend(rows.map(Step::Row));
        steps.push(Step::End);
        steps
    };
    assert_eq!(all(steps(), strict), [(1, Some(3))]);
    assert_eq!(all(steps(), command()), [(1, Some(1)), (1, Some(2)), (1, Some(3)), (1, Some(4))]);
}

#[test]
fn a_page_of_tombstones_does_not_swallow_the_static_row_of_its_partition() {
    let steps = [tombstone_row(1), tombstone_row(2), tombstone_row(3)];
    let limits = PageLimits { tombstones: 2, ..PageLimits::NONE };
    let start = || vec![Step::Start(1, NONE), statics(7)];
    let first = [start(), steps.to_vec(), vec![Step::End]].concat();
    let mut rows = rows_of(first, command(), limits);
    assert_eq!(page(&mut rows), []);
    let mark = rows.mark().unwrap();
    assert_eq!((&mark.clustering, mark.remaining_in_partition), (&Some(clustering(2)), u64::MAX));
    let rest = [start(), steps[2..].to_vec(), vec![Step::End]].concat();
    let mut rows = rows_of(rest.clone(), command(), limits).resume(&mark);
    assert_eq!(page(&mut rows), [(1, None)]);
    // One that had a row before has none of its static content alone.
    let begun =
        [start(), vec![Step::Row(inserted(1, 1, &[]))], steps[1..].to_vec(), vec![Step::End]].concat();
    let mut rows = rows_of(begun, command(), limits);
    assert_eq!(page(&mut rows), [(1, Some(1))]);
    let mark = rows.mark();
    let mark = mark.unwrap();
    assert!(mark.remaining_in_partition < u64::MAX);
    assert_eq!(page(&mut rows_of(rest, command(), limits).resume(&mark)), []);
}
