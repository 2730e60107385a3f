//! Answers that are sent, and what arrives of them.

use super::super::tests::{command, replicas, steps};
use super::super::{Digest, Recording, decode_answer};
use crate::codec::DeletionTimes;
use crate::testing::*;
use crate::{PageLimits, ReadContext, ReadError, merge};
use bytes::Bytes;
use model::command::{ColumnSelection, DataLimits, ReadCommand};
use model::{Clustering, Deletion, Row};
use proptest::prelude::*;
use std::sync::Arc;

fn recorded(steps: Vec<Step>, command: &Arc<ReadCommand>, page: PageLimits) -> Recording {
    let stream = merge(&table(), [Box::new(Script::new(steps)) as crate::BoxedStream], command.is_reversed());
    Recording::of(stream, command, ReadContext::default(), page).unwrap()
}

fn encoded(recording: &Recording, command: &ReadCommand) -> Bytes {
    let mut out = Vec::new();
    recording.encode(command, DeletionTimes::Signed, &mut out).unwrap();
    out.into()
}

fn arrived(bytes: &Bytes, command: &Arc<ReadCommand>) -> Result<Recording, ReadError> {
    let stream = decode_answer(bytes.clone(), command, DeletionTimes::Signed, &"a node".into());
    Recording::of(stream, command, ReadContext::default(), PageLimits::NONE)
}

#[test]
fn an_answer_without_partitions_is_two_zeroes() {
    let command = command(DataLimits::NONE, false);
    let bytes = encoded(&recorded(Vec::new(), &command, PageLimits::NONE), &command);
    assert_eq!(bytes.as_ref(), [0, 0]);
    assert!(arrived(&bytes, &command).unwrap().is_empty());
}

#[test]
fn a_partition_has_the_bytes_of_cassandra() {
    let command = command(DataLimits::NONE, false);
    let none = Deletion::NONE;
    let time = model_epoch() + 3;
    let steps = vec![Step::Start(1, none), Step::Row(inserted(2, time, &[("v", time)])), Step::End];
    let bytes = encoded(&recorded(steps, &command, PageLimits::NONE), &command);
    let value = &cell("v", time).value;
    // Differences to the smallest: of the timestamp 3, of deletion times and TTLs 0, which no cell has.
    let mut expected = vec![0, 1, 4, 0, 0, 0, 1, 0, 3, 0, 0, 0, 0x04, 0, 0, 0, 0, 2, 0, 2, 0x08];
    expected.extend_from_slice(value);
    expected.extend_from_slice(&[1, 0]);
    assert_eq!(bytes.as_ref(), expected);
}

#[test]
fn values_that_nobody_wants_are_not_sent() {
    let all = command(DataLimits::NONE, false);
    let columns = ColumnSelection::of(vec![cell("v", 0).column]);
    let some = Arc::new(ReadCommand { columns, ..ReadCommand::clone(&all) });
    let statics = Row { clustering: Clustering::empty(), ..row(0, &[("s", 3)]) };
    let of = |row: Row| {
        vec![Step::Start(1, Deletion::NONE), Step::Static(statics.clone()), Step::Row(row), Step::End]
    };
    let steps = of(inserted(2, 5, &[("v", 5), ("w", 5)]));
    let recording = recorded(steps, &some, PageLimits::NONE);
    let arrived = arrived(&encoded(&recording, &some), &some).unwrap();
    // Who gets it counts the values that are there.
    assert_eq!(arrived.digest(&all), recorded_digest_without_values(&recording, &all));
    assert_eq!(arrived.digest(&some), recording.digest(&some));
}

/// The digest of what a recording tells, of all columns, where only those of `v` have values.
fn recorded_digest_without_values(recording: &Recording, all: &Arc<ReadCommand>) -> Digest {
    let mut steps = play(recording.clone().play(false));
    for step in &mut steps {
        if let Step::Row(row) | Step::Static(row) = step {
            let v = cell("v", 0).column;
            row.cells.iter_mut().filter(|cell| cell.column != v).for_each(|cell| cell.value = Bytes::new());
        }
    }
    recorded(steps, all, PageLimits::NONE).digest(all)
}

fn model_epoch() -> i64 {
    crate::codec::TIMESTAMP_EPOCH_MICROS
}

/// Without the partitions in which there is nothing.
fn without_empty(steps: Vec<Step>) -> Vec<Step> {
    let is_start = |step: &Step| matches!(step, Step::Start(..));
    let is_empty = |partition: &&[Step]| matches!(partition, [Step::Start(_, Deletion::NONE), Step::End]);
    steps.chunk_by(|_, next| !is_start(next)).filter(|p| !is_empty(p)).flatten().cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_arrives_is_what_was_sent(
        replica in replicas().prop_map(|mut replicas| replicas.remove(0)),
        rows in prop_oneof![Just(u64::MAX), 1u64..5],
        reversed in any::<bool>(),
    ) {
        let command = command(DataLimits::NONE, reversed);
        let page = PageLimits { rows, ..PageLimits::NONE };
        let sent = recorded(steps(&replica, None, reversed), &command, page);
        let arrived = arrived(&encoded(&sent, &command), &command).unwrap();
        prop_assert_eq!(sent.digest(&command), arrived.digest(&command));
        prop_assert_eq!(sent.live_rows(), arrived.live_rows());
        prop_assert_eq!(without_empty(play(sent.play(reversed))), play(arrived.play(reversed)));
    }

    #[test]
    fn damaged_answers_are_errors_or_other_answers(
        replica in replicas().prop_map(|mut replicas| replicas.remove(0)),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let command = command(DataLimits::NONE, false);
        let bytes = encoded(&recorded(steps(&replica, None, false), &command, PageLimits::NONE), &command);
        let mut damaged = bytes.to_vec();
        damaged[at.index(bytes.len())] = byte;
        let _ = arrived(&damaged.into(), &command);
        let short = bytes.slice(..cut.index(bytes.len()));
        prop_assert!(arrived(&short, &command).is_err());
    }
}
