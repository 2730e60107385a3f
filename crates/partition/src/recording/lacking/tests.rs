use super::super::tests::*;
use super::*;
use crate::testing::*;
use crate::{PageLimits, ReadContext, without_purgeable};
use model::command::DataLimits;
use proptest::prelude::*;

/// An update as streams: all of it but its ranges, and each range.
fn streams(update: &PartitionUpdate, reversed: bool) -> Vec<BoxedStream> {
    let k = i32::from_be_bytes(update.key.key.0.as_ref().try_into().unwrap());
    let mut rows = update.rows.clone();
    if reversed {
        rows.reverse();
    }
    let mut content = vec![Step::Start(k, update.deletion)];
    content.extend(update.static_row.clone().map(Step::Static));
    content.extend(rows.into_iter().map(Step::Row));
    content.push(Step::End);
    let mut all = vec![content];
    for RangeTombstone { slice, deletion } in &update.range_tombstones {
        let (start, end) = (slice.start.clone(), slice.end.clone());
        let (from, to) = if reversed { (end, start) } else { (start, end) };
        let changes = [RangeChange::at(from, *deletion), RangeChange::at(to, Deletion::NONE)];
        let [open, close] = changes.map(Step::Change);
        all.push(vec![Step::Start(k, Deletion::NONE), open, close, Step::End]);
    }
    all.into_iter().map(|steps| Box::new(Script::new(steps)) as BoxedStream).collect()
}

/// What a replica answers after such updates.
fn repaired(replica: &Replica, updates: &[PartitionUpdate], reversed: bool) -> BoxedStream {
    let own: BoxedStream = Box::new(Script::new(steps(replica, None, reversed)));
    let updates = updates.iter().flat_map(|update| streams(update, reversed));
    let merged = merge(&table(), std::iter::once(own).chain(updates), reversed);
    without_purgeable(merged, &command(DataLimits::NONE, reversed))
}

fn record(stream: BoxedStream, command: &Arc<ReadCommand>, page: PageLimits) -> Recording {
    Recording::of(stream, command, ReadContext::default(), page).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn with_what_they_lack_all_replicas_have_the_same(replicas in replicas(), reversed in any::<bool>()) {
        let command = command(DataLimits::NONE, reversed);
        let all = || replicas.iter().map(|replica| repaired(replica, &[], reversed));
        let recordings: Vec<Recording> = all().map(|s| record(s, &command, PageLimits::NONE)).collect();
        let merged = play(merge(&table(), all(), reversed));
        let digest = record(merge(&table(), all(), reversed), &command, PageLimits::NONE).digest(&command);
        let lacking = lacking(&recordings, &command).unwrap();
        for ((replica, updates), recording) in replicas.iter().zip(&lacking).zip(&recordings) {
            let is_behind = play(repaired(replica, &[], reversed)) != merged;
            prop_assert_eq!(!updates.is_empty(), is_behind);
            prop_assert_eq!(recording.digest(&command) != digest, is_behind);
            prop_assert_eq!(&play(repaired(replica, updates, reversed)), &merged);
            let now = record(repaired(replica, updates, reversed), &command, PageLimits::NONE);
            prop_assert_eq!(now.digest(&command), digest);
        }
    }

    #[test]
    fn what_replicas_that_stopped_lack_is_what_all_know(
        replicas in replicas(),
        rows in 1u64..5,
        of_partition in prop_oneof![2 => Just(u64::MAX), 1 => 1u64..3],
        reversed in any::<bool>(),
    ) {
        let limits = DataLimits { rows_per_partition: of_partition, ..DataLimits::NONE };
        let command = command(limits, reversed);
        let page = PageLimits { rows, ..PageLimits::NONE };
        let all = || replicas.iter().map(|replica| repaired(replica, &[], reversed));
        let recordings: Vec<Recording> = all().map(|stream| record(stream, &command, page)).collect();
        let merged = play(merge(&table(), all(), reversed));
        let lacking = lacking(&recordings, &command).unwrap();
        let (cut, mut rows) = (Cut::default(), Vec::new());
        let known = play(known(&table(), recordings, &command, false, &cut));
        for step in &known {
            match step {
                Step::Start(k, _) => rows.push((*k, Vec::new())),
                Step::Row(row) => rows.last_mut().unwrap().1.push(row.clone()),
                _ => {}
            }
        }
        for (replica, updates) in replicas.iter().zip(&lacking) {
            let with_all = updates.iter().flat_map(|update| streams(update, reversed)).chain(all());
            prop_assert_eq!(&play(merge(&table(), with_all, reversed)), &merged, "nothing is made up");
            // As far as all have told, the replica has it now.
            let now = play(repaired(replica, updates, reversed));
            let mut rows_now: BTreeMap<i32, Vec<Row>> = BTreeMap::new();
            let mut key = 0;
            for step in now {
                match step {
                    Step::Start(k, _) => key = k,
                    Step::Row(row) => rows_now.entry(key).or_default().push(row),
                    _ => {}
                }
            }
            for (k, rows) in &rows {
                let now = rows_now.get(k).cloned().unwrap_or_default();
                prop_assert_eq!(now.get(..rows.len()).unwrap_or_default(), rows.as_slice());
            }
        }
    }
}

#[test]
fn values_that_nobody_asked_for_are_not_sent() {
    let v = table().column("v").unwrap().id;
    let command = ReadCommand {
        columns: model::command::ColumnSelection::of(vec![v]),
        ..ReadCommand::clone(&command(DataLimits::NONE, false))
    };
    let command = Arc::new(command);
    let known =
        vec![Step::Start(1, Deletion::NONE), Step::Row(inserted(1, 5, &[("v", 5), ("w", 5)])), Step::End];
    let recordings =
        [known, Vec::new()].map(|steps| record(Box::new(Script::new(steps)), &command, PageLimits::NONE));
    let lacking = lacking(&recordings, &command).unwrap();
    assert!(lacking[0].is_empty());
    assert_eq!(lacking[1][0].rows, [inserted(1, 5, &[("v", 5)])]);
}

#[test]
fn deletions_of_columns_are_sent_where_they_were_asked_for() {
    let set = model::CqlType::set(model::CqlType::Int, true);
    let table = model::TableSchema::builder("ks", "sets", uuid::Uuid::nil())
        .partition_key("k", model::CqlType::Int)
        .clustering("c", model::CqlType::Int, false)
        .regular("m", set.clone())
        .regular("n", set);
    let table = Arc::new(table.build());
    let [m, n] = ["m", "n"].map(|name| table.column(name).unwrap().id);
    let columns = model::command::ColumnSelection::of(vec![m]);
    let all = command(DataLimits::NONE, false);
    let command = Arc::new(ReadCommand { columns, table, ..ReadCommand::clone(&all) });
    let with = |at: i64| {
        let mut row = inserted(1, 5, &[]);
        row.complex_deletions = vec![(m, deletion(at)), (n, deletion(at))];
        vec![Step::Start(1, Deletion::NONE), Step::Row(row), Step::End]
    };
    let recordings =
        [with(4), with(3)].map(|steps| record(Box::new(Script::new(steps)), &command, PageLimits::NONE));
    let lacking = lacking(&recordings, &command).unwrap();
    assert!(lacking[0].is_empty());
    let row = &lacking[1][0].rows[0];
    assert_eq!(row.complex_deletions, [(m, deletion(4))]);
    assert!(row.liveness.is_none());
}
