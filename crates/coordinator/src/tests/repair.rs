//! Reads of replicas that do not know the same: digests, merges, repairs, and one more that is asked.

use super::levels::{is_met, levels, subsets, two_datacenters, write};
use super::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// Writes straight into a replica.
fn put_into(case: &Case, node: usize, mutation: Mutation) {
    run(case.replicas[node].mutate(Arc::new(mutation), None)).unwrap();
}

/// The value of partition 1 that a replica has.
fn value_of(case: &Case, node: usize) -> Option<i32> {
    let rows = case.replicas[node].rows.lock().unwrap();
    let cell = &rows.get(&(case.table("t").id, key(1)))?.rows[0].cells[0];
    Some(i32::from_be_bytes(cell.value.as_ref().try_into().unwrap()))
}

fn verbs(case: &Case, node: usize) -> Vec<Verb> {
    std::mem::take(&mut *case.replicas[node].verbs.lock().unwrap())
}

/// Three replicas of tables with these options.
fn with_options(set: impl Fn(&mut model::schema::TableOptions)) -> Case {
    with_options_of(schema(3), &["dc1"; 3], set)
}

fn with_options_of(
    schema: Schema,
    datacenters: &[&str],
    set: impl Fn(&mut model::schema::TableOptions),
) -> Case {
    let mut keyspace = (**schema.keyspaces.get("ks").unwrap()).clone();
    for table in keyspace.tables.values_mut() {
        set(&mut Arc::make_mut(table).options);
    }
    Case::of(schema.with_keyspace(keyspace), datacenters, 0)
}

/// What comes of a read in so much time.
fn read_within(case: &Case, level: Consistency, millis: u64) -> Option<Option<i32>> {
    let command = Arc::new(case.command("t", PartitionSelection::Keys(vec![key(1)])));
    let request = ReadRequest::all(command, level, ReadContext::default());
    let reading = async {
        let mut nobody = ();
        let reading = case.coordinator.collect(&request, value, None, &mut nobody);
        env::tasks::Tasks::of_machine().timeout(Duration::from_millis(millis), reading).await
    };
    run(reading).ok().map(Result::unwrap)
}

#[test]
fn the_closest_is_asked_for_data_and_the_others_for_digests_of_them() {
    let case = case(3, 3);
    write(&case, Consistency::All, 5).unwrap();
    (1..3).for_each(|node| drop(verbs(&case, node)));
    assert_eq!(case.read(1, Consistency::All).unwrap(), Some(5));
    assert_eq!((verbs(&case, 1), verbs(&case, 2)), (vec![Verb::Digest], vec![Verb::Digest]));
    assert_eq!(case.read(1, Consistency::Quorum).unwrap(), Some(5));
    assert_eq!((verbs(&case, 1), verbs(&case, 2)), (vec![Verb::Digest], vec![]));
    case.kill(1);
    assert_eq!(case.read(1, Consistency::Quorum).unwrap(), Some(5));
    assert_eq!((verbs(&case, 1), verbs(&case, 2)), (vec![Verb::Data], vec![Verb::Digest]));
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(5));
    assert_eq!((verbs(&case, 1), verbs(&case, 2)), (vec![Verb::Data], vec![]));
}

#[test]
fn this_node_gives_a_digest_of_what_it_would_answer() {
    let case = case(1, 1);
    for k in 0..5 {
        put_into(&case, 0, case.put(k, k, 1));
    }
    let command = Arc::new(case.command("t", PartitionSelection::Keys((0..5).map(key).collect())));
    let request =
        DataRequest { command: Arc::clone(&command), page: PageLimits::NONE, groups: None, deadline: None };
    let local = case.coordinator.local();
    for is_cold in [false, true] {
        case.replicas[0].cold.store(is_cold, Ordering::SeqCst);
        let data = run(local.read_data(&request)).unwrap();
        assert_eq!(data.live_rows(), 5);
        assert_eq!(run(local.read_digest(&request)).unwrap(), data.digest(&command));
    }
}

#[test]
fn this_node_answers_others_without_what_is_old_enough_to_be_forgotten() {
    let case = case(1, 1);
    let mut gone = case.put(1, 5, 5);
    gone.updates[0].rows[0] = Row { deletion: model::Deletion::new(6, 7), ..Row::new(Clustering::empty()) };
    put_into(&case, 0, gone);
    let keys = PartitionSelection::Keys(vec![key(1)]);
    let grace_s = case.table("t").options.gc_grace_seconds as u32;
    for (now_s, is_forgotten) in [(7 + grace_s, false), (8 + grace_s, true)] {
        let command = Arc::new(ReadCommand { now_s, ..case.command("t", keys.clone()) });
        let request = DataRequest {
            command: Arc::clone(&command),
            page: PageLimits::NONE,
            groups: None,
            deadline: None,
        };
        let data = run(case.coordinator.local().read_data(&request)).unwrap();
        assert_eq!(data.is_empty(), is_forgotten);
    }
}

#[test]
fn who_is_late_with_a_digest_can_be_asked_for_data() {
    let case = with_options_of(schema(4), &["dc1"; 4], |options| options.speculative_retry = "1ms".into());
    write(&case, Consistency::All, 5).unwrap();
    *case.replicas[1].stuck_at.lock().unwrap() = vec![Verb::Digest];
    case.replicas[2].lies.store(true, Ordering::SeqCst);
    *case.replicas[2].fails_at.lock().unwrap() = vec![Verb::Data];
    assert_eq!(read_within(&case, Consistency::Quorum, 1_000), Some(Some(5)));
    assert_eq!(verbs(&case, 1), [Verb::Mutate, Verb::Digest, Verb::Data]);
}

#[test]
fn whoever_is_behind_a_read_at_any_level_has_what_it_answered() {
    for ahead in subsets() {
        for level in levels().filter(|level| *level != Consistency::Any) {
            let case = two_datacenters(&[]);
            for node in 0..6 {
                put_into(&case, node, case.put(1, 1, 1));
            }
            ahead.iter().for_each(|node| put_into(&case, *node, case.put(1, 2, 2)));
            let answer = case.read(1, level).unwrap().unwrap();
            let has: BTreeSet<usize> =
                (0..6).filter(|node| value_of(&case, *node).unwrap() >= answer).collect();
            assert!(is_met(level, &has), "{level:?} of {ahead:?}: {answer} is at {has:?}");
            let overlaps = !matches!(
                level,
                Consistency::One
                    | Consistency::LocalOne
                    | Consistency::NodeLocal
                    | Consistency::Two
                    | Consistency::Three
            );
            assert!(!(overlaps && is_met(level, &ahead)) || answer == 2, "{level:?} of {ahead:?}");
            for node in 1..6 {
                let was_behind = !ahead.contains(&node) && value_of(&case, node) == Some(2);
                assert_eq!(verbs(&case, node).contains(&Verb::Repair), was_behind, "{level:?} of {ahead:?}");
            }
        }
    }
}

#[test]
fn a_replica_gets_what_it_lacks_and_nothing_else() {
    let case = case(3, 3);
    let table = case.table("rows");
    let row = |c: i32, timestamp| {
        let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
        row.liveness = Liveness::new(timestamp);
        row
    };
    let put = |rows: Vec<Row>| {
        Mutation::of(PartitionUpdate { rows, ..PartitionUpdate::new(Arc::clone(&table), key(1)) })
    };
    put_into(&case, 0, put(vec![row(1, 1), row(2, 1)]));
    put_into(&case, 1, put(vec![row(2, 1), row(3, 5)]));
    let command = case.command("rows", PartitionSelection::Keys(vec![key(1)]));
    let request = ReadRequest::all(Arc::new(command), Consistency::Quorum, ReadContext::default());
    let count = |page: &mut Page| {
        let mut count = 0;
        while page.next_row()?.is_some() {
            count += 1;
        }
        Ok(count)
    };
    let calls = |case: &Case| case.replicas[0].mutations.lock().unwrap().len();
    let before = calls(&case);
    assert_eq!(run(case.coordinator.collect(&request, count, None, &mut ())).unwrap(), 3);
    assert_eq!(verbs(&case, 1), [Verb::Digest, Verb::Data, Verb::Repair]);
    assert_eq!((verbs(&case, 2), calls(&case)), (vec![], before + 1));
    for (node, lacked) in [(0, row(3, 5)), (1, row(1, 1))] {
        let mutations = case.replicas[node].mutations.lock().unwrap();
        let last = &mutations.last().unwrap().updates[0];
        assert_eq!(last.rows, [lacked]);
    }
    assert_eq!(run(case.coordinator.collect(&request, count, None, &mut ())).unwrap(), 3);
    assert_eq!(verbs(&case, 1), [Verb::Digest], "now they agree");
}

#[test]
fn a_digest_that_differs_though_the_data_do_not_costs_a_round_and_repairs_nothing() {
    let case = case(3, 3);
    write(&case, Consistency::All, 5).unwrap();
    verbs(&case, 1);
    case.replicas[1].lies.store(true, Ordering::SeqCst);
    let before = case.replicas[0].mutations.lock().unwrap().len();
    assert_eq!(case.read(1, Consistency::Quorum).unwrap(), Some(5));
    assert_eq!(verbs(&case, 1), [Verb::Digest, Verb::Data]);
    assert_eq!(case.replicas[0].mutations.lock().unwrap().len(), before);
}

#[test]
fn a_read_fails_or_waits_when_what_it_found_cannot_be_kept_by_enough() {
    let case = case(3, 3);
    put_into(&case, 0, case.put(1, 2, 2));
    case.replicas[1].is_beyond_repair.store(true, Ordering::SeqCst);
    let error = case.read(1, Consistency::Quorum).unwrap_err();
    let is_failure =
        matches!(error, CoordinatorError::ReadFailure { received: 1, block_for: 2, failures: 1, .. });
    assert!(is_failure, "{error:?}");
    // Replicas that have it count, whoever is beyond repair.
    put_into(&case, 1, case.put(1, 2, 2));
    assert_eq!(case.read(1, Consistency::Quorum).unwrap(), Some(2));
    assert_eq!(case.read(1, Consistency::All).unwrap(), Some(2));
    put_into(&case, 0, case.put(1, 3, 3));
    case.replicas[1].is_beyond_repair.store(false, Ordering::SeqCst);
    case.replicas[1].keeps_writes_waiting.store(true, Ordering::SeqCst);
    assert_eq!(read_within(&case, Consistency::Quorum, 5), None, "an acknowledgement is missing");
}

#[test]
fn a_table_without_read_repair_is_merged_and_left_alone() {
    let case = with_options(|options| options.read_repair = "NONE".into());
    put_into(&case, 1, case.put(1, 2, 2));
    assert_eq!(case.read(1, Consistency::Quorum).unwrap(), Some(2));
    assert_eq!(verbs(&case, 1), [Verb::Digest, Verb::Data]);
    assert_eq!(value_of(&case, 0), None);
    let counted = case.coordinator.read_repairs();
    assert_eq!((counted.attempted(), counted.blocking()), (1, 0));
}

#[test]
fn reads_whose_replicas_do_not_agree_are_counted() {
    let case = case(3, 3);
    write(&case, Consistency::All, 1).unwrap();
    let counted =
        || (case.coordinator.read_repairs().attempted(), case.coordinator.read_repairs().blocking());
    assert_eq!((case.read(1, Consistency::Quorum).unwrap(), counted()), (Some(1), (0, 0)));
    put_into(&case, 1, case.put(1, 2, i64::MAX / 2));
    assert_eq!((case.read(1, Consistency::Quorum).unwrap(), counted()), (Some(2), (1, 1)));
    assert_eq!((case.read(1, Consistency::Quorum).unwrap(), counted()), (Some(2), (1, 1)));
}

#[test]
fn ranges_are_data_of_all_and_repaired_too() {
    let case = case(3, 3);
    put_into(&case, 0, case.put(1, 2, 2));
    let read = |command: ReadCommand| {
        let request = ReadRequest::all(Arc::new(command), Consistency::Quorum, ReadContext::default());
        run(case.coordinator.collect(&request, value, None, &mut ())).unwrap()
    };
    let range = || case.command("t", PartitionSelection::Range(KeyRange::FULL));
    assert_eq!(read(range()), Some(2));
    assert_eq!((verbs(&case, 1), value_of(&case, 1)), (vec![Verb::Data, Verb::Repair], Some(2)));
    assert_eq!(read(range()), Some(2));
    assert_eq!(verbs(&case, 1), [Verb::Data]);
    let keys = PartitionSelection::Keys(vec![key(1)]);
    let filter = is_value(&case.table("t"), 2);
    assert_eq!(read(ReadCommand { row_filter: vec![filter], ..case.command("t", keys) }), Some(2));
    assert_eq!(verbs(&case, 1), [Verb::Digest], "of the rows that pass");
}

/// That `v` is a number.
fn is_value(table: &TableSchema, number: i32) -> model::command::FilterExpression {
    model::command::FilterExpression {
        column: table.column("v").unwrap().id,
        operator: model::command::Operator::Eq,
        map_key: None,
        values: vec![Bytes::copy_from_slice(&number.to_be_bytes())],
    }
}

/// Writes a row of partition 1 into a replica; without a value it is deleted.
fn put_row(case: &Case, node: usize, c: i32, v: Option<i32>, timestamp: i64) {
    let table = case.table("rows");
    let mut row = Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
    match v {
        Some(v) => {
            let column = table.column("v").unwrap().id;
            row.liveness = Liveness::new(timestamp);
            row.cells.push(Cell::live(column, timestamp, Bytes::copy_from_slice(&v.to_be_bytes())));
        }
        None => row.deletion = model::Deletion::new(timestamp, 1),
    }
    let mut update = PartitionUpdate::new(table, key(1));
    update.rows.push(row);
    put_into(case, node, Mutation::of(update));
}

/// The rows of partition 1 whose value is 7.
fn rows_of_seven(case: &Case, partitions: PartitionSelection, limit: u64, level: Consistency) -> Vec<i32> {
    let row_filter = vec![is_value(&case.table("rows"), 7)];
    let limits = DataLimits { rows: limit, ..DataLimits::NONE };
    let command = Arc::new(ReadCommand { row_filter, limits, ..case.command("rows", partitions) });
    let take = |page: &mut Page| {
        let mut seen = Vec::new();
        while let Some(row) = page.next_row()? {
            let c = row.row.and_then(|row| row.clustering.value(0)).unwrap();
            seen.push(i32::from_be_bytes(c.try_into().unwrap()));
        }
        Ok(seen)
    };
    let request = ReadRequest::all(command, level, ReadContext::default());
    run(case.coordinator.collect(&request, take, None, &mut ())).unwrap()
}

#[test]
fn a_replica_that_leaves_a_row_out_is_asked_for_it() {
    let of_range = || PartitionSelection::Range(KeyRange::FULL);
    for partitions in [PartitionSelection::Keys(vec![key(1)]), of_range()] {
        let case = case(3, 3);
        for node in 0..3 {
            (1..6).for_each(|c| put_row(&case, node, c, Some(7), 1));
        }
        put_row(&case, 0, 6, Some(7), 1);
        put_row(&case, 1, 2, Some(8), 2);
        put_row(&case, 1, 3, None, 2);
        put_row(&case, 1, 9, Some(7), 1);
        let read = |limit, level| rows_of_seven(&case, partitions.clone(), limit, level);
        assert_eq!(read(u64::MAX, Consistency::One), [1, 2, 3, 4, 5, 6], "what this node knows");
        assert_eq!(read(2, Consistency::Quorum), [1, 4]);
        assert_eq!(read(u64::MAX, Consistency::Quorum), [1, 4, 5, 6, 9]);
        (1..3).for_each(|node| drop(verbs(&case, node)));
        assert_eq!(read(u64::MAX, Consistency::Quorum), [1, 4, 5, 6, 9]);
        let asked = if matches!(partitions, PartitionSelection::Keys(_)) { Verb::Digest } else { Verb::Data };
        assert_eq!(verbs(&case, 1), [asked], "both know the same by now");
        assert_eq!(read(u64::MAX, Consistency::One), [1, 4, 5, 6, 9]);
    }
}

#[test]
fn a_replica_that_answers_alone_filters_all() {
    let case = case(3, 3);
    for c in 0..2000 {
        put_row(&case, 1, c, Some(if c < 1990 { 8 } else { 7 }), 1);
    }
    case.kill(1);
    let keys = || PartitionSelection::Keys(vec![key(1)]);
    assert_eq!(rows_of_seven(&case, keys(), 3, Consistency::One), [1990, 1991, 1992]);
    assert_eq!(verbs(&case, 1), [Verb::Data], "it is asked once");
    assert_eq!(rows_of_seven(&case, keys(), u64::MAX, Consistency::One).len(), 10);
}

#[test]
fn a_limit_counts_the_rows_that_pass() {
    let case = case(3, 3);
    let table = case.table("rows");
    let row = |c: i32| Row {
        liveness: Liveness::new(1),
        ..Row::new(Clustering::from_values([&c.to_be_bytes()[..]]))
    };
    let wanted = (300..303).map(|c| {
        let cells =
            vec![Cell::live(table.column("v").unwrap().id, 1, Bytes::copy_from_slice(&7i32.to_be_bytes()))];
        Row { cells, ..row(c) }
    });
    let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
    update.rows = (0..300).map(row).chain(wanted).collect();
    for node in 0..3 {
        put_into(&case, node, Mutation::of(update.clone()));
    }
    let keys = PartitionSelection::Keys(vec![key(1)]);
    let limits = DataLimits { rows: 2, ..DataLimits::NONE };
    let row_filter = vec![is_value(&table, 7)];
    let command = Arc::new(ReadCommand { limits, row_filter, ..case.command("rows", keys) });
    let request = ReadRequest {
        page: PageLimits { rows: 5000, ..PageLimits::NONE },
        ..ReadRequest::all(command, Consistency::Quorum, ReadContext::default())
    };
    let take = |page: &mut Page| {
        let mut count = 0;
        while page.next_row()?.is_some() {
            count += 1;
        }
        Ok((count, page.mark().is_some()))
    };
    assert_eq!(run(case.coordinator.collect(&request, take, None, &mut ())).unwrap(), (2, false));
}

/// The rows of partition 1, in pages.
fn paged(case: &Case, limits: DataLimits, rows: u64) -> Vec<i32> {
    let keys = PartitionSelection::Keys(vec![key(1)]);
    let command = Arc::new(ReadCommand { limits, ..case.command("rows", keys) });
    let take = |page: &mut Page| {
        let mut seen = Vec::new();
        while let Some(row) = page.next_row()? {
            let c = row.row.and_then(|row| row.clustering.value(0)).unwrap();
            seen.push(i32::from_be_bytes(c.try_into().unwrap()));
        }
        Ok((seen, page.mark()))
    };
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = PageLimits { rows, ..PageLimits::NONE };
        let (command, context) = (Arc::clone(&command), ReadContext::default());
        let of_page = ReadRequest {
            command,
            consistency: Consistency::Quorum,
            page,
            after,
            context,
            scope: Scope::Ring,
        };
        let (seen, mark) = run(case.coordinator.collect(&of_page, take, None, &mut ())).unwrap();
        assert!(seen.len() as u64 <= rows);
        all.extend(seen);
        let Some(mark) = mark else { return all };
        after = PagingState::of(&of_page.command, &mark);
        if after.is_none() {
            return all;
        }
    }
}

#[test]
fn rows_that_another_replica_has_deleted_are_made_up_for_by_later_ones() {
    for (limit, page) in [(2, u64::MAX), (2, 1), (u64::MAX, 1), (u64::MAX, 2), (5, 3), (u64::MAX, u64::MAX)] {
        for deleted_at in [0, 1] {
            let case = case(3, 3);
            let table = case.table("rows");
            let put = |rows: Vec<Row>| {
                Mutation::of(PartitionUpdate { rows, ..PartitionUpdate::new(Arc::clone(&table), key(1)) })
            };
            let row = |c: i32| Row::new(Clustering::from_values([&c.to_be_bytes()[..]]));
            let rows = (0..12).map(|c| Row { liveness: Liveness::new(1), ..row(c) }).collect();
            let deleted = (0..12).filter(|c| c % 4 != 3);
            let deleted = deleted.map(|c| Row { deletion: model::Deletion::new(2, 1), ..row(c) }).collect();
            put_into(&case, 1 - deleted_at, put(rows));
            put_into(&case, deleted_at, put(deleted));
            // 3, 7 and 11 are live, and one of the two asked has never heard of them.
            let limits = DataLimits { rows: limit, ..DataLimits::NONE };
            let expected: Vec<i32> = [3, 7, 11].into_iter().take(limit.min(3) as usize).collect();
            assert_eq!(paged(&case, limits, page), expected, "limit {limit}, pages of {page}, {deleted_at}");
        }
    }
}

#[test]
fn one_more_is_asked_when_one_is_slower_than_the_table_has_patience() {
    for (policy, helps) in [
        ("ALWAYS", true),
        ("5ms", true),
        ("MIN(99p,5ms)", false),
        ("NEVER", false),
        ("NONE", false),
        ("10000ms", false),
        // Nothing was read yet, and nothing says how long anybody waits.
        ("99p", false),
    ] {
        // The first is asked for the data, the second for their digest.
        for slow in [1, 2] {
            let case =
                with_options_of(schema(4), &["dc1"; 4], |options| options.speculative_retry = policy.into());
            write(&case, Consistency::All, 5).unwrap();
            (1..4).for_each(|node| drop(verbs(&case, node)));
            case.kill(1);
            case.replicas[slow].stuck.store(true, Ordering::SeqCst);
            let millis = if helps { 1_000 } else { 30 };
            let answer = read_within(&case, Consistency::Two, millis);
            assert_eq!(answer, helps.then_some(Some(5)), "{policy}, {slow} is slow");
            let asked = if helps { vec![Verb::Data] } else { vec![] };
            assert_eq!(verbs(&case, 3), asked, "{policy}, {slow} is slow");
        }
    }
}

#[test]
fn a_percentile_of_reads_before_is_patience_enough() {
    let case = case(3, 3);
    write(&case, Consistency::All, 5).unwrap();
    case.read(1, Consistency::Quorum).unwrap();
    case.replicas[1].stuck.store(true, Ordering::SeqCst);
    assert_eq!(read_within(&case, Consistency::Quorum, 1_000), Some(Some(5)));
}

#[test]
fn who_is_asked_besides_counts_for_the_level() {
    let base = two_datacenters(&[]);
    let datacenters = ["dc1", "dc1", "dc1", "dc2", "dc2", "dc2"];
    let slow_at = |slow: &[usize]| {
        let schema = Schema::clone(&base.schema);
        let case = with_options_of(schema, &datacenters, |options| options.speculative_retry = "1ms".into());
        write(&case, Consistency::All, 5).unwrap();
        slow.iter().for_each(|node| case.replicas[*node].stuck.store(true, Ordering::SeqCst));
        (1..6).for_each(|node| drop(verbs(&case, node)));
        case
    };
    let case = slow_at(&[1]);
    assert_eq!(read_within(&case, Consistency::LocalQuorum, 500), Some(Some(5)));
    assert_eq!(verbs(&case, 2), [Verb::Data]);
    let case = slow_at(&[1, 2]);
    assert_eq!(read_within(&case, Consistency::LocalQuorum, 30), None, "nobody far away counts");
    assert!((3..6).all(|node| verbs(&case, node).is_empty()));
    let case = slow_at(&[4]);
    assert_eq!(read_within(&case, Consistency::EachQuorum, 500), Some(Some(5)));
    assert_eq!((verbs(&case, 2), verbs(&case, 5)), (vec![], vec![Verb::Data]), "of the same data center");
}
