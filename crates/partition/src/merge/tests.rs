//! Behaviour of the merge, one rule a test.

use super::*;
use crate::testing::*;

fn merged(sources: Vec<Vec<Step>>) -> Vec<Step> {
    let streams: Vec<_> = sources.into_iter().map(|s| Box::new(Script::new(s)) as BoxedStream).collect();
    play(merge(&table(), streams, false))
}

const NONE: Deletion = Deletion::NONE;

#[test]
fn partitions_come_in_ring_order_and_once() {
    let order = ring_order(3);
    let partition = |k: i32, ts: i64| vec![Step::Start(k, NONE), Step::Row(row(1, &[("v", ts)])), Step::End];
    let left: Vec<Step> = [order[0], order[2]].iter().flat_map(|k| partition(*k, 1)).collect();
    let right: Vec<Step> = [order[1], order[2]].iter().flat_map(|k| partition(*k, 2)).collect();
    let expected: Vec<Step> =
        [(order[0], 1), (order[1], 2), (order[2], 2)].iter().flat_map(|(k, t)| partition(*k, *t)).collect();
    assert_eq!(merged(vec![left.clone(), right.clone()]), expected);
    assert_eq!(merged(vec![right, left]), expected);
}

#[test]
fn rows_of_one_clustering_become_one() {
    let left = vec![Step::Start(1, NONE), Step::Row(row(1, &[("v", 5), ("w", 1)])), Step::End];
    let right = vec![
        Step::Start(1, NONE),
        Step::Row(row(0, &[("v", 1)])),
        Step::Row(row(1, &[("v", 3), ("w", 2)])),
        Step::End,
    ];
    assert_eq!(
        merged(vec![left, right]),
        [
            Step::Start(1, NONE),
            Step::Row(row(0, &[("v", 1)])),
            Step::Row(row(1, &[("v", 5), ("w", 2)])),
            Step::End
        ]
    );
}

#[test]
fn an_open_range_shadows_older_cells_of_other_sources_only_inside() {
    let ranges = vec![
        Step::Start(1, NONE),
        before(2, deletion(10)),
        after(3, NONE),
        Step::Row(row(9, &[("v", 1)])),
        Step::End,
    ];
    let rows = vec![
        Step::Start(1, NONE),
        Step::Row(row(1, &[("v", 5)])),
        Step::Row(row(2, &[("v", 5)])),
        Step::Row(row(3, &[("v", 5), ("w", 11)])),
        Step::Row(row(4, &[("v", 5)])),
        Step::End,
    ];
    assert_eq!(
        merged(vec![ranges, rows]),
        [
            Step::Start(1, NONE),
            Step::Row(row(1, &[("v", 5)])),
            before(2, deletion(10)),
            Step::Row(row(3, &[("w", 11)])),
            after(3, NONE),
            Step::Row(row(4, &[("v", 5)])),
            Step::Row(row(9, &[("v", 1)])),
            Step::End
        ]
    );
}

#[test]
fn overlapping_ranges_yield_the_newest_and_no_change_twice() {
    let old = vec![Step::Start(1, NONE), before(0, deletion(5)), after(9, NONE), Step::End];
    let new = vec![Step::Start(1, NONE), before(2, deletion(7)), after(3, NONE), Step::End];
    let older = vec![Step::Start(1, NONE), before(1, deletion(1)), after(5, NONE), Step::End];
    assert_eq!(
        merged(vec![old, new, older]),
        [
            Step::Start(1, NONE),
            before(0, deletion(5)),
            before(2, deletion(7)),
            after(3, deletion(5)),
            after(9, NONE),
            Step::End
        ]
    );
}

#[test]
fn a_partition_deletion_hides_older_ranges_rows_and_statics() {
    let mut statics = row(0, &[("s", 3)]);
    statics.clustering = model::Clustering::empty();
    let deleted = vec![Step::Start(1, deletion(8)), Step::Row(row(1, &[("v", 9)])), Step::End];
    let old = vec![
        Step::Start(1, NONE),
        Step::Static(statics),
        before(0, deletion(5)),
        Step::Row(row(1, &[("v", 2), ("w", 2)])),
        Step::Row(row(2, &[("v", 2)])),
        after(9, NONE),
        Step::End,
    ];
    assert_eq!(
        merged(vec![deleted, old]),
        [Step::Start(1, deletion(8)), Step::Row(row(1, &[("v", 9)])), Step::End]
    );
}

#[test]
fn a_single_source_loses_what_its_own_deletions_shadow() {
    let source = vec![
        Step::Start(1, deletion(3)),
        before(0, deletion(2)),
        Step::Row(row(1, &[("v", 3)])),
        before(2, deletion(6)),
        Step::Row(row(2, &[("v", 6), ("w", 7)])),
        after(2, NONE),
        Step::End,
    ];
    assert_eq!(
        merged(vec![source]),
        [
            Step::Start(1, deletion(3)),
            before(2, deletion(6)),
            Step::Row(row(2, &[("w", 7)])),
            after(2, NONE),
            Step::End
        ]
    );
}

#[test]
fn a_reversed_merge_meets_the_end_of_a_range_first() {
    let ranges = vec![Step::Start(1, NONE), after(3, deletion(10)), before(2, NONE), Step::End];
    let rows = vec![
        Step::Start(1, NONE),
        Step::Row(row(4, &[("v", 5)])),
        Step::Row(row(3, &[("v", 5)])),
        Step::Row(row(1, &[("v", 5)])),
        Step::End,
    ];
    let streams = [ranges, rows].map(|s| Box::new(Script::new(s)) as BoxedStream);
    assert_eq!(
        play(merge(&table(), streams, true)),
        [
            Step::Start(1, NONE),
            Step::Row(row(4, &[("v", 5)])),
            after(3, deletion(10)),
            before(2, NONE),
            Step::Row(row(1, &[("v", 5)])),
            Step::End
        ]
    );
}

#[test]
fn skipping_a_partition_stands_before_the_next_in_every_source() {
    let order = ring_order(2);
    let partition = |k: i32| {
        vec![Step::Start(k, NONE), Step::Row(row(1, &[("v", 1)])), Step::Row(row(2, &[("v", 1)])), Step::End]
    };
    let left: Vec<Step> = order.iter().flat_map(|k| partition(*k)).collect();
    let right = vec![Step::Start(order[0], NONE), Step::Row(row(3, &[("v", 1)])), Step::End];
    for steps in 1..4 {
        let streams = [left.clone(), right.clone()].map(|s| Box::new(Script::new(s)) as BoxedStream);
        let mut stream = merge(&table(), streams, false);
        let mut fragment = Fragment::default();
        for _ in 0..steps {
            stream.next(&mut fragment).unwrap();
        }
        stream.skip_partition().unwrap();
        assert_eq!(stream.next(&mut fragment).unwrap(), Event::PartitionStart);
        assert_eq!(fragment.key, key(order[1]));
    }
}

/// A row with a deletion that a newer liveness takes back.
fn shadowable(timestamp: i64, row: Row) -> Row {
    Row { deletion: deletion(timestamp), is_shadowable: true, ..row }
}

/// What is left of the rows in any order of the sources.
fn merged_rows<const N: usize>(rows: [Row; N]) -> Vec<Step> {
    let source = |row: &Row| vec![Step::Start(1, NONE), Step::Row(row.clone()), Step::End];
    let forwards = merged(rows.iter().map(source).collect());
    let backwards = merged(rows.iter().rev().map(source).collect());
    assert_eq!(forwards, backwards);
    forwards
}

#[test]
fn a_newer_liveness_takes_a_shadowable_deletion_back() {
    let (old, new) = (inserted(1, 5, &[("v", 5)]), inserted(1, 12, &[("w", 12)]));
    // Of a pair alone the deletion would have taken the cell.
    assert_eq!(
        merged_rows([old.clone(), shadowable(10, row(1, &[])), new.clone()]),
        [Step::Start(1, NONE), Step::Row(inserted(1, 12, &[("v", 5), ("w", 12)])), Step::End]
    );
    // It takes what is older as long as there is no such liveness, a newer cell or not.
    assert_eq!(
        merged_rows([old.clone(), shadowable(10, row(1, &[])), row(1, &[("w", 12)])]),
        [Step::Start(1, NONE), Step::Row(shadowable(10, row(1, &[("w", 12)]))), Step::End]
    );
    // Only the newest deletion counts, whichever kind it is.
    let plain = |timestamp| Row { deletion: deletion(timestamp), ..row(1, &[]) };
    assert_eq!(
        merged_rows([old.clone(), plain(8), shadowable(10, row(1, &[])), new.clone()]),
        [Step::Start(1, NONE), Step::Row(inserted(1, 12, &[("v", 5), ("w", 12)])), Step::End]
    );
    assert_eq!(
        merged_rows([old, plain(11), shadowable(10, row(1, &[])), new]),
        [
            Step::Start(1, NONE),
            Step::Row(Row { deletion: deletion(11), ..inserted(1, 12, &[("w", 12)]) }),
            Step::End
        ]
    );
}
