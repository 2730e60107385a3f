//! Behaviour of the merge, one rule a test.

use super::*;
use crate::testing::*;
use model::Clustering;

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

/// What a consumer sees of a row: where it lies, and what its cells are.
fn seen(row: &Row) -> String {
    let clustering = (0..row.clustering.len()).map(|i| row.clustering.value(i).map(<[u8]>::to_vec));
    let cells = row.cells.iter().map(|cell| (cell.column, cell.timestamp, cell.value.to_vec()));
    format!("{:?}", (clustering.collect::<Vec<_>>(), cells.collect::<Vec<_>>()))
}

/// Steps with what is seen of rows only, taken as plain ones where that goes, `at_once` at the most.
fn play_plain(mut stream: BoxedStream, at_once: usize) -> (Vec<String>, usize) {
    let (mut out, mut fragment, mut plain_rows, mut inside) = (Vec::new(), Fragment::default(), 0, false);
    loop {
        let mut left = at_once;
        if inside && at_once > 0 {
            let mut take = |row: crate::plain::PlainRow<'_>| {
                let clustering: Vec<_> =
                    (0..1).map(|i| row.clustering(i).map(|v| v.bytes().to_vec())).collect();
                let value = |place| row.value(place).bytes().to_vec();
                let cells = row.cells().iter().map(|cell| (cell.column, cell.timestamp, value(cell.value)));
                out.push(format!("{:?}", (clustering, cells.collect::<Vec<_>>())));
                plain_rows += 1;
                left -= 1;
                left > 0
            };
            stream.plain_rows(&mut take).unwrap();
        }
        let event = stream.next(&mut fragment).unwrap();
        inside = !matches!(event, Event::PartitionEnd | Event::End);
        out.push(match event {
            Event::PartitionStart => format!("{:?} {:?}", fragment.key, fragment.deletion),
            Event::Row => seen(&fragment.row),
            Event::StaticRow => format!("static {}", seen(&fragment.row)),
            Event::RangeChange => format!("{:?}", fragment.change),
            Event::PartitionEnd => "end".to_owned(),
            Event::End => return (out, plain_rows),
        });
    }
}

/// A partition that numbers make up: rows of all kinds, deletions, a static row.
fn made_up(k: i32, random: &mut impl FnMut(u64) -> u64) -> Vec<Step> {
    let is_deleted = random(8) == 0;
    let mut out = vec![Step::Start(k, if is_deleted { deletion(random(9) as i64) } else { NONE })];
    if random(4) == 0 {
        out.push(Step::Static(Row { clustering: Clustering::empty(), ..row(0, &[("s", random(9) as i64)]) }));
    }
    let mut is_open = false;
    for c in 0..8 {
        if random(10) == 0 || (is_open && random(2) == 0) {
            is_open = !is_open;
            out.push(before(c, if is_open { deletion(random(9) as i64) } else { NONE }));
        }
        let timestamp = random(9) as i64 + 1;
        match random(6) {
            0 | 1 => {}
            2 => out.push(Step::Row(row(c, &[("v", timestamp)]))),
            3 => out.push(Step::Row(Row { deletion: deletion(timestamp), ..row(c, &[]) })),
            4 => out.push(Step::Row(inserted(c, timestamp, &[]))),
            _ => out.push(Step::Row(inserted(c, timestamp, &[("v", timestamp), ("w", timestamp)]))),
        }
    }
    if is_open {
        out.push(after(9, NONE));
    }
    out.push(Step::End);
    out
}

#[test]
fn plain_rows_are_those_that_fragments_would_be() {
    let mut state = 1u64;
    let mut random = move |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut plain_rows = 0;
    for round in 0..3_000 {
        let sources: Vec<Vec<Step>> = (0..2 + random(3))
            .map(|_| {
                let keys: Vec<i32> = ring_order(3).into_iter().filter(|_| random(3) > 0).collect();
                keys.into_iter().flat_map(|k| made_up(k, &mut random)).collect()
            })
            .collect();
        // All of its plain rows at hand, none, or some.
        let at_hand = [u64::MAX, 0, 0x5a3c_96f0_1e87_d24b][round % 3];
        let streams = |at_hand: u64| -> Vec<BoxedStream> {
            let script = |steps: &Vec<Step>| Script::new(steps.clone()).with_plain_rows(at_hand);
            sources.iter().map(|steps| Box::new(script(steps)) as BoxedStream).collect()
        };
        let (expected, none) = play_plain(merge(&table(), streams(0), false), 0);
        assert_eq!(none, 0);
        let at_once = 1 + random(4) as usize;
        let (found, plain) = play_plain(merge(&table(), streams(at_hand), false), at_once);
        assert_eq!(found, expected, "{sources:?}");
        plain_rows += plain;
    }
    assert!(plain_rows > 3_000, "{plain_rows}");
}
