//! Pages of several replicas that know different things, against a merge of all that they know.

use super::{Cut, LiveRows, Recording, Silent, decode_answer, known, silent};
use crate::codec::DeletionTimes;
use crate::testing::*;
use crate::{BoxedStream, PageLimits, PageMark, ReadContext, concat, merge};
use bytes::Bytes;
use model::Slice;
use model::command::{
    ClusteringFilter, ColumnSelection, DataLimits, FilterExpression, Operator, PartitionSelection,
    ReadCommand,
};
use model::key::KeyRange;
use model::{BoundKind, Clustering, ClusteringBound, Deletion, Row};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) const PARTITIONS: i32 = 3;
const ROWS: i32 = 7;

/// What a replica knows of a partition. Times are small, so that they meet.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    deleted: Option<i64>,
    statics: Option<i64>,
    /// Written at this time, or deleted.
    rows: BTreeMap<i32, Result<i64, i64>>,
    /// Rows of the first to the second are deleted.
    range: Option<(i32, i32, i64)>,
}

pub(super) type Replica = BTreeMap<i32, Known>;

/// Where a page ended.
pub(super) type After = Option<(i32, Option<i32>)>;

fn partition() -> impl Strategy<Value = Known> {
    let row = (0..ROWS, prop_oneof![3 => (1i64..9).prop_map(Ok), 1 => (1i64..9).prop_map(Err)]);
    let range = (0..ROWS, 0..ROWS, 1i64..9).prop_map(|(a, b, time)| (a.min(b), a.max(b), time));
    (
        proptest::option::weighted(0.1, 1i64..9),
        proptest::option::weighted(0.3, 1i64..9),
        proptest::collection::btree_map(row.0, row.1, 0..6),
        proptest::option::weighted(0.4, range),
    )
        .prop_map(|(deleted, statics, rows, range)| Known { deleted, statics, rows, range })
}

pub(super) fn replicas() -> impl Strategy<Value = Vec<Replica>> {
    proptest::collection::vec(proptest::collection::btree_map(0..PARTITIONS, partition(), 0..4), 1..4)
}

/// What a replica has behind a place, in the order of the stream.
pub(super) fn steps(replica: &Replica, after: After, reversed: bool) -> Vec<Step> {
    let mut out = Vec::new();
    let order = ring_order(PARTITIONS);
    let at = |k: i32| order.iter().position(|other| *other == k);
    for k in &order {
        let Some(known) = replica.get(k) else { continue };
        let behind = match after {
            Some((left, None)) if at(*k) <= at(left) => continue,
            Some((left, Some(_))) if at(*k) < at(left) => continue,
            Some((left, Some(c))) if left == *k => Some(c),
            _ => None,
        };
        out.push(Step::Start(*k, known.deleted.map_or(Deletion::NONE, deletion)));
        if let Some(time) = known.statics {
            let mut statics = row(0, &[("s", time)]);
            statics.clustering = Clustering::empty();
            out.push(Step::Static(statics));
        }
        // Positions times two: rows are odd, changes before and after them even.
        let mut fragments: BTreeMap<i32, Step> = BTreeMap::new();
        for (c, what) in &known.rows {
            let row = match what {
                Ok(time) => inserted(*c, *time, &[("v", *time)]),
                Err(time) => Row { deletion: deletion(*time), ..row(*c, &[]) },
            };
            fragments.insert(4 * c + 2, Step::Row(row));
        }
        if let Some((from, to, time)) = known.range {
            let (open, close) = (deletion(time), Deletion::NONE);
            let (first, second) = if reversed { (close, open) } else { (open, close) };
            fragments.insert(4 * from + 1, before(from, first));
            fragments.insert(4 * to + 3, crate::testing::after(to, second));
        }
        let mut fragments: Vec<(i32, Step)> = fragments.into_iter().collect();
        if reversed {
            fragments.reverse();
        }
        let mut open = Deletion::NONE;
        let mut is_behind = behind.is_none();
        for (position, step) in fragments {
            let passed = |c: i32| if reversed { position < 4 * c + 2 } else { position > 4 * c + 2 };
            if let (false, Some(c)) = (is_behind, behind) {
                if !passed(c) {
                    if let Step::Change(change) = &step {
                        open = change.deletion;
                    }
                    continue;
                }
                is_behind = true;
                // A change right at the place is the one that opens.
                let at_place = if reversed { position == 4 * c + 1 } else { position == 4 * c + 3 };
                if !open.is_none() && !at_place {
                    out.push(if reversed { before(c, open) } else { crate::testing::after(c, open) });
                }
            }
            out.push(step);
        }
        if let (false, Some(c)) = (is_behind, behind)
            && !open.is_none()
        {
            unreachable!("a deletion is open at the end of partition {k} behind {c}");
        }
        out.push(Step::End);
    }
    // A change to none where none is open says nothing.
    let mut kept: Vec<Step> = Vec::new();
    let mut open = Deletion::NONE;
    for step in out {
        match &step {
            Step::Start(..) => open = Deletion::NONE,
            Step::Change(change) if change.deletion == open => continue,
            Step::Change(change) => open = change.deletion,
            _ => {}
        }
        kept.push(step);
    }
    kept
}

pub(super) fn command(limits: DataLimits, reversed: bool) -> Arc<ReadCommand> {
    let slices = vec![Slice::ALL];
    Arc::new(ReadCommand {
        columns: ColumnSelection::all(&table()),
        table: table(),
        partitions: PartitionSelection::Range(KeyRange::FULL),
        clusterings: ClusteringFilter::Slices { slices, reversed },
        row_filter: Vec::new(),
        limits,
        now_s: 1000,
    })
}

/// `v = number`.
pub(super) fn is_value(number: i32) -> FilterExpression {
    FilterExpression {
        column: table().column("v").unwrap().id,
        operator: Operator::Eq,
        map_key: None,
        values: vec![Bytes::copy_from_slice(&number.to_be_bytes())],
    }
}

/// The rows behind one, in the direction of the command.
fn behind(command: &ReadCommand, c: i32) -> ReadCommand {
    let reversed = command.is_reversed();
    let slice = match reversed {
        false => Slice { start: ClusteringBound::new(BoundKind::ExclStart, clustering(c)), ..Slice::ALL },
        true => Slice { end: ClusteringBound::new(BoundKind::ExclEnd, clustering(c)), ..Slice::ALL },
    };
    let clusterings = ClusteringFilter::Slices { slices: vec![slice], reversed };
    ReadCommand { clusterings, ..command.clone() }
}

fn rows_of(rows: &mut LiveRows) -> Vec<(i32, Option<i32>, Option<i64>)> {
    let int = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().unwrap());
    let mut seen = Vec::new();
    while let Some(result) = rows.next_row().unwrap() {
        let c = result.row.map(|row| int(row.clustering.value(0).unwrap()));
        let v = result.row.and_then(|row| row.cells.iter().find(|cell| cell.is_live(1000)));
        seen.push((int(&result.key.key.0), c, v.map(|cell| cell.timestamp)));
    }
    seen
}

/// What arrives of the answer of a replica elsewhere.
fn sent(recording: &Recording, command: &Arc<ReadCommand>, page: PageLimits) -> Recording {
    let mut bytes = Vec::new();
    recording.encode(command, DeletionTimes::Signed, &mut bytes).unwrap();
    let stream = decode_answer(bytes.into(), command, DeletionTimes::Signed, &"a replica".into());
    Recording::of(stream, command, ReadContext::default(), page).unwrap()
}

/// Answers with the rows of which their replicas are silent, which these are asked for.
fn completed(
    replicas: &[Replica],
    recordings: Vec<Recording>,
    command: &Arc<ReadCommand>,
    after: After,
) -> Vec<Recording> {
    if command.row_filter.is_empty() {
        return recordings;
    }
    let reversed = command.is_reversed();
    let all = Arc::new(ReadCommand {
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        ..ReadCommand::clone(command)
    });
    let silent = silent(&recordings, command);
    let complete = |((recording, replica), silent): ((Recording, &Replica), Vec<Silent>)| {
        let ask = |Silent { key, rows }: Silent| {
            let k = i32::from_be_bytes(key.key.0.as_ref().try_into().unwrap());
            let mut only = replica.clone();
            only.retain(|other, _| *other == k);
            let mut steps = steps(&only, after, reversed);
            steps.retain(|step| !matches!(step, Step::Row(row) if !rows.contains(&row.clustering)));
            let stream = merge(&table(), [Box::new(Script::new(steps)) as BoxedStream], reversed);
            Recording::of(stream, &all, ReadContext::default(), PageLimits::NONE).unwrap()
        };
        let besides = silent.into_iter().map(ask).reduce(Recording::followed_by).unwrap_or_default();
        recording.completed_by(besides, command).unwrap()
    };
    recordings.into_iter().zip(replicas).zip(silent).map(complete).collect()
}

/// All pages of what the replicas answer, which are elsewhere or not.
fn paged(
    replicas: &[Replica],
    command: &Arc<ReadCommand>,
    page: PageLimits,
    is_elsewhere: bool,
) -> Vec<(i32, Option<i32>, Option<i64>)> {
    let reversed = command.is_reversed();
    let (mut seen, mut after, mut mark): (Vec<_>, After, Option<PageMark>) = (Vec::new(), None, None);
    for _ in 0..1_000 {
        // As the coordinator asks: the rest of the partition, then the partitions behind it.
        let record = |command: &Arc<ReadCommand>, after: After, of: Option<i32>| {
            let of_replica = |replica: &Replica| {
                let mut asked = replica.clone();
                asked.retain(|k, _| of.is_none_or(|only| only == *k));
                let stream: BoxedStream = Box::new(Script::new(steps(&asked, after, reversed)));
                let stream = merge(&table(), [stream], reversed);
                let recording = Recording::of(stream, command, ReadContext::default(), page).unwrap();
                let told = Arc::new(ReadCommand { row_filter: Vec::new(), ..ReadCommand::clone(command) });
                if is_elsewhere { sent(&recording, &told, page) } else { recording }
            };
            let recordings = replicas.iter().map(of_replica).collect::<Vec<_>>();
            completed(replicas, recordings, command, after)
        };
        let cut = Cut::default();
        let mut legs = Vec::new();
        if let Some((k, Some(c))) = after {
            let rest = Arc::new(behind(command, c));
            legs.push(known(&table(), record(&rest, after, Some(k)), &rest, false, &cut));
        }
        let later = after.map(|(k, _)| (k, None));
        legs.push(known(&table(), record(command, later, None), command, false, &cut));
        let (mut legs, of_legs) = (legs.into_iter(), Arc::clone(&cut));
        let stream = concat(move || Ok(if of_legs.get().is_none() { legs.next() } else { None }));
        let mut rows = LiveRows::new(Box::new(stream), Arc::clone(command), ReadContext::default(), page);
        if let Some(mark) = &mark {
            rows = rows.resume(mark);
        }
        let mut rows = rows.until_cut(cut);
        seen.extend(rows_of(&mut rows));
        let Some(next) = rows.mark() else { return seen };
        let int = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().unwrap());
        let c = next.clustering.as_ref().map(|c| int(c.value(0).unwrap()));
        let place = Some((int(&next.key.key.0), c));
        assert_ne!(place, after, "a page leads on");
        (after, mark) = (place, Some(next));
    }
    panic!("no end: {seen:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn pages_of_several_replicas_are_those_of_all_that_they_know(
        replicas in replicas(),
        rows in 1u64..5,
        tombstones in prop_oneof![Just(u64::MAX), 1u64..4],
        limit in prop_oneof![2 => Just(u64::MAX), 1 => 1u64..6],
        of_partition in prop_oneof![2 => Just(u64::MAX), 1 => 1u64..3],
        distinct in proptest::bool::weighted(0.15),
        reversed in any::<bool>(),
        is_elsewhere in any::<bool>(),
        wanted in proptest::option::weighted(0.4, 1i32..9),
    ) {
        // Nodes elsewhere are told of rows alone.
        let tombstones = if is_elsewhere { u64::MAX } else { tombstones };
        let mut limits = DataLimits { rows: limit, rows_per_partition: of_partition, distinct };
        if wanted.is_some() {
            // Replicas that filter are told of no other limit.
            limits = DataLimits { rows: limit, ..DataLimits::NONE };
        }
        let mut command = command(limits, reversed);
        Arc::make_mut(&mut command).row_filter.extend(wanted.map(is_value));
        let streams: Vec<BoxedStream> = replicas
            .iter()
            .map(|replica| Box::new(Script::new(steps(replica, None, reversed))) as BoxedStream)
            .collect();
        let merged = merge(&table(), streams, reversed);
        let mut whole =
            LiveRows::new(merged, Arc::clone(&command), ReadContext::default(), PageLimits::NONE);
        let expected = rows_of(&mut whole);
        let page = PageLimits { rows, bytes: u64::MAX, tombstones };
        prop_assert_eq!(paged(&replicas, &command, page, is_elsewhere), expected);
    }
}
