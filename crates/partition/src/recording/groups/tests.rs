//! Where answers end that are asked for in groups.

use super::super::Recording;
use super::super::tests::command;
use super::*;
use crate::testing::*;
use crate::{PageLimits, ReadContext, merge};
use model::command::DataLimits;

fn limits(groups: u64, per_partition: u64) -> GroupLimits {
    let (last_key, last_row) = (None, None);
    GroupLimits { groups, per_partition, prefix: Some(1), last_key, last_row, is_open: false, begun: None }
}

fn answer(steps: &[Step], groups: &GroupLimits, rows: u64) -> Recording {
    let command = command(DataLimits { rows, ..DataLimits::NONE }, false);
    let stream = merge(&table(), [Box::new(Script::new(steps.to_vec())) as BoxedStream], false);
    Recording::of_groups(stream, &command, groups, ReadContext::default(), PageLimits::NONE).unwrap()
}

fn told(steps: &[Step], groups: &GroupLimits) -> Vec<Step> {
    play(answer(steps, groups, u64::MAX).play(false))
}

fn live(c: i32) -> Step {
    Step::Row(inserted(c, 5, &[("v", 5)]))
}

fn dead(c: i32) -> Step {
    Step::Row(Row { deletion: deletion(9), ..row(c, &[]) })
}

fn start(k: i32) -> Step {
    Step::Start(k, Deletion::NONE)
}

/// Two partitions, in the order of the ring.
fn two() -> (i32, i32) {
    let order = ring_order(2);
    (order[0], order[1])
}

#[test]
fn the_row_that_begins_a_group_too_many_is_not_told() {
    let (k, l) = two();
    let steps = vec![start(k), live(1), live(2), live(3), Step::End, start(l), live(1), Step::End];
    assert_eq!(told(&steps, &limits(2, u64::MAX)), [start(k), live(1), live(2), Step::End]);
    assert_eq!(told(&steps, &limits(9, u64::MAX)), steps);
    let of_each = [start(k), live(1), Step::End, start(l), live(1), Step::End];
    assert_eq!(told(&steps, &limits(9, 1)), of_each);
}

#[test]
fn a_deleted_row_ends_a_group_and_is_none() {
    let (k, _) = two();
    let steps = vec![start(k), dead(0), live(1), dead(2), live(3), live(4), Step::End];
    assert_eq!(told(&steps, &limits(1, u64::MAX)), [start(k), dead(0), live(1), Step::End]);
    let of_two = [start(k), dead(0), live(1), dead(2), live(3), Step::End];
    assert_eq!(told(&steps, &limits(2, u64::MAX)), of_two);
}

#[test]
fn a_partition_that_begins_a_group_too_many_is_told_without_its_content() {
    let (k, l) = two();
    let mut statics = row(0, &[("s", 3)]);
    statics.clustering = Clustering::empty();
    let steps = vec![start(k), live(1), Step::End, start(l), Step::Static(statics), live(1), Step::End];
    let whole = answer(&steps, &limits(1, u64::MAX), u64::MAX);
    let command = command(DataLimits::NONE, false);
    assert_eq!(whole.told(&command).count(), 2);
    assert_eq!(whole.groups_left(), None);
    assert_eq!(play(whole.play(false)), [start(k), live(1), Step::End, start(l), Step::End]);
}

#[test]
fn a_partition_whose_first_row_begins_a_group_too_many_is_told_of() {
    let (k, _) = two();
    let (last_key, last_row) = (Some(key(k).key.0), Some(clustering(2)));
    let state = GroupLimits { last_key, last_row, is_open: true, ..limits(1, u64::MAX) };
    let answer = answer(&[start(k), live(3), Step::End], &state, u64::MAX);
    assert_eq!(answer.told(&command(DataLimits::NONE, false)).count(), 1);
    assert_eq!(play(answer.play(false)), [start(k), Step::End]);
}

#[test]
fn static_content_alone_is_a_group() {
    let (k, l) = two();
    let mut statics = row(0, &[("s", 3)]);
    statics.clustering = Clustering::empty();
    let steps = vec![start(k), Step::Static(statics), Step::End, start(l), live(1), Step::End];
    assert_eq!(told(&steps, &limits(1, u64::MAX)), steps[..3]);
    assert_eq!(told(&steps, &limits(2, u64::MAX)), steps);
}

#[test]
fn a_range_deletion_that_is_open_ends_behind_the_last_row() {
    let (k, _) = two();
    let none = Deletion::NONE;
    let steps = vec![start(k), before(0, deletion(1)), live(1), live(2), after(9, none), Step::End];
    let cut = [start(k), before(0, deletion(1)), live(1), after(1, none), Step::End];
    assert_eq!(told(&steps, &limits(1, u64::MAX)), cut);
}

#[test]
fn the_group_of_the_page_before_goes_on() {
    let (k, l) = two();
    let key = Some(key(k).key.0);
    let steps = vec![start(k), live(2), live(3), Step::End, start(l), live(1), Step::End];
    let last_row = Some(clustering(2));
    let state = |is_open| GroupLimits {
        last_key: key.clone(),
        last_row: last_row.clone(),
        is_open,
        ..limits(1, u64::MAX)
    };
    assert_eq!(told(&steps, &state(true)), [start(k), live(2), Step::End]);
    // Of the second of two groups of this partition nothing is left.
    let begun = Some((key.clone().unwrap(), 1));
    let left = GroupLimits { begun, groups: 9, per_partition: 2, ..state(true) };
    assert_eq!(told(&steps, &left), [start(k), live(2), Step::End, start(l), live(1), Step::End]);
}

#[test]
fn what_comes_behind_an_answer_goes_on_with_its_groups() {
    let (k, l) = two();
    let first = answer(&[start(k), live(1), live(2), Step::End], &limits(2, u64::MAX), u64::MAX);
    let left = first.groups_left().unwrap();
    assert_eq!((left.groups, left.is_open), (1, true));
    let rest = answer(&[start(l), live(1), Step::End], left, u64::MAX);
    assert_eq!(rest.groups_left(), None);
    assert_eq!(play(rest.play(false)), [start(l), Step::End]);
}

#[test]
fn all_rows_are_one_group_of_an_aggregate() {
    let (k, l) = two();
    let all = GroupLimits { prefix: None, ..limits(1, u64::MAX) };
    let steps = vec![start(k), live(1), live(2), Step::End, start(l), live(1), Step::End];
    assert_eq!(told(&steps, &all), steps);
    assert_eq!(answer(&steps, &all, 2).live_rows(), 2);
}
