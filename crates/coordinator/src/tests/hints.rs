//! What a replica missed: it is told once to who keeps hints, and brought to the replica later.

use super::levels::{subsets, two_datacenters, write};
use super::*;

/// A hint of a mutation that was written so long ago.
fn hint(case: &Case, mutation: Mutation, age_s: i64) -> Result<(), ReplicaError> {
    let written_millis = case.clock_millis() - 1_000 * age_s;
    let hint = Hint { mutation: Arc::new(mutation), written_millis, gc_grace_s: 100 };
    run(case.coordinator.local().hint(hint, None))
}

impl Case {
    fn clock_millis(&self) -> i64 {
        use env::clock::Clock as _;
        self.clock.now_millis()
    }
}

#[test]
fn a_hint_is_kept_with_the_timestamps_of_its_time() {
    let case = case(1, 1);
    case.clock.set_micros(1_000_000_000_000);
    write(&case, Consistency::One, 5).unwrap();
    hint(&case, case.put(1, 4, 4), 50).unwrap();
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(5), "it is older");
    hint(&case, case.put(1, 6, 6), 50).unwrap();
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(6));
    case.replicas[0].full.store(true, Ordering::SeqCst);
    assert!(matches!(hint(&case, case.put(1, 7, 7), 50), Err(ReplicaError::Overloaded(_))));
}

#[test]
fn a_hint_for_a_table_that_was_emptied_since_is_dropped_for_that_table() {
    let case = case(1, 1);
    case.clock.set_micros(1_000_000_000_000);
    let truncated = |age_s: i64| {
        let millis = case.clock_millis() - 1_000 * age_s;
        case.replicas[0].truncated.lock().unwrap().insert(case.table("t").id, millis);
    };
    let other = PartitionUpdate {
        rows: vec![Row {
            liveness: Liveness::new(1),
            ..Row::new(Clustering::from_values([&1i32.to_be_bytes()[..]]))
        }],
        ..PartitionUpdate::new(case.table("rows"), key(1))
    };
    for (age_s, is_kept) in [(49, false), (50, false), (51, true)] {
        truncated(age_s);
        let mut mutation = case.put(1, 6, 6);
        mutation.updates.push(other.clone());
        hint(&case, mutation, 50).unwrap();
        let rows = std::mem::take(&mut *case.replicas[0].rows.lock().unwrap());
        assert_eq!(rows.contains_key(&(case.table("t").id, key(1))), is_kept, "{age_s}");
        assert!(rows.contains_key(&(other.table.id, key(1))));
    }
    truncated(10);
    case.replicas[0].broken.store(true, Ordering::SeqCst);
    hint(&case, case.put(1, 6, 6), 50).expect("nothing is left to be kept");
}

#[test]
fn a_hint_that_is_older_than_its_grace_is_dropped() {
    let case = case(1, 1);
    case.clock.set_micros(1_000_000_000_000);
    for (age_s, is_kept) in [(100, false), (99, true)] {
        hint(&case, case.put(1, 6, 6), age_s).unwrap();
        let kept = !std::mem::take(&mut *case.replicas[0].rows.lock().unwrap()).is_empty();
        assert_eq!(kept, is_kept, "{age_s}");
    }
    let mut short = case.put(1, 6, 6);
    Arc::make_mut(&mut short.updates[0].table).options.gc_grace_seconds = 10;
    hint(&case, short, 10).unwrap();
    assert!(case.replicas[0].rows.lock().unwrap().is_empty(), "the table's grace is shorter today");
}

/// How often each node was told of.
fn told(case: &Case) -> Vec<usize> {
    let Noted { missed, late, failed, .. } = &*case.hints;
    let all: Vec<u128> = [missed, late, failed].iter().flat_map(|m| m.lock().unwrap().clone()).collect();
    (0..case.nodes.len() as u128).map(|node| all.iter().filter(|id| **id == node + 7).count()).collect()
}

#[test]
fn a_write_is_told_once_of_each_node_that_may_not_have_it() {
    for without in subsets() {
        for level in
            [Consistency::One, Consistency::LocalQuorum, Consistency::Quorum, Consistency::EachQuorum]
        {
            let case = two_datacenters(&[]);
            for node in &without {
                match node % 3 {
                    0 => case.nodes[*node].set_alive(false),
                    1 => case.replicas[*node].broken.store(true, Ordering::SeqCst),
                    _ => case.replicas[*node].stuck.store(true, Ordering::SeqCst),
                }
            }
            let put = vec![case.put(1, 5, 5)];
            let writing = async {
                let writing = case.coordinator.write(put, level, WriteType::Simple, None);
                env::tasks::Tasks::of_machine().timeout(std::time::Duration::from_millis(1), writing).await
            };
            let outcome = run(writing);
            let is_refused = matches!(outcome, Ok(Err(CoordinatorError::Unavailable { .. })));
            for (node, times) in told(&case).into_iter().enumerate() {
                let expected = usize::from(without.contains(&node) && !is_refused);
                assert_eq!(times, expected, "{node} of {without:?} at {level:?}: {outcome:?}");
            }
        }
    }
}

#[test]
fn writes_behind_one_that_failed_are_told_of_too() {
    let case = case(3, 3);
    case.replicas[0].refuses.lock().unwrap().replace(case.table("t").id);
    case.replicas[1].refuses.lock().unwrap().replace(case.table("t").id);
    case.replicas[2].stuck.store(true, Ordering::SeqCst);
    let mut other = case.put(1, 5, 5);
    other.updates[0] = PartitionUpdate {
        rows: other.updates[0].rows.clone(),
        ..PartitionUpdate::new(case.table("rows"), key(1))
    };
    let both = vec![case.put(1, 5, 5), other];
    let written = run(case.coordinator.write(both, Consistency::Quorum, WriteType::UnloggedBatch, None));
    assert!(matches!(written, Err(CoordinatorError::WriteFailure { .. })), "{written:?}");
    assert_eq!(told(&case), [1, 1, 2], "of one mutation, of one, and of both");
}

#[test]
fn a_lone_replica_elsewhere_is_told_of_like_others() {
    let case = Case::of(schema(1), &["dc1"; 2], 0);
    let (schema, elsewhere) = (Arc::clone(&case.schema), Arc::clone(&case.nodes[1]));
    let has_others = Arc::new(AtomicBool::new(true));
    let ring = Ring { schema, nodes: vec![elsewhere], pending: Vec::new(), has_others };
    let (env, local) = (case.coordinator.env.clone(), Arc::clone(case.coordinator.local()));
    let hints = Arc::clone(&case.hints) as Arc<dyn Hints>;
    let coordinator = Coordinator::new(env, Arc::new(ring), Arc::clone(&case.nodes[0]), local, hints);
    case.replicas[1].broken.store(true, Ordering::SeqCst);
    let put = vec![case.put(1, 5, 5)];
    run(coordinator.write(put, Consistency::One, WriteType::Simple, None)).unwrap_err();
    assert_eq!(told(&case), [0, 1]);
}

#[test]
fn a_hint_that_is_kept_is_enough_for_any() {
    let wrote = |case: &Case, level| {
        run(case.coordinator.write(vec![case.put(1, 5, 5)], level, WriteType::Simple, None))
    };
    for keeps in [true, false] {
        let dead = case(3, 3);
        dead.hints.keeps.store(keeps, Ordering::SeqCst);
        dead.nodes.iter().for_each(|node| node.set_alive(false));
        let outcome = wrote(&dead, Consistency::Any);
        match keeps {
            true => outcome.unwrap(),
            false => assert!(
                matches!(outcome, Err(CoordinatorError::Unavailable { required: 1, alive: 0, .. })),
                "{outcome:?}"
            ),
        }
        assert_eq!(told(&dead), [1, 1, 1]);
        let one = wrote(&dead, Consistency::One);
        assert!(matches!(one, Err(CoordinatorError::Unavailable { .. })), "{one:?}");

        let broken = case(3, 3);
        broken.hints.keeps.store(keeps, Ordering::SeqCst);
        broken.replicas.iter().for_each(|replica| replica.broken.store(true, Ordering::SeqCst));
        let outcome = wrote(&broken, Consistency::Any);
        assert_eq!(outcome.is_ok(), keeps, "{outcome:?}");
        assert_eq!(told(&broken), [1, 1, 1]);
        assert!(matches!(wrote(&broken, Consistency::One), Err(CoordinatorError::WriteFailure { .. })));

        // What one has failed to keep another may keep.
        let one_is_broken = case(3, 3);
        one_is_broken.replicas[0].broken.store(true, Ordering::SeqCst);
        wrote(&one_is_broken, Consistency::Any).unwrap();
    }
}
