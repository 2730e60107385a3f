//! Conditional writes that several replicas decide.

use super::levels::{is_met, subsets, two_datacenters};
use super::*;
use std::task::Poll;

fn ballot(micros: i64) -> Ballot {
    let ticks = uuid::Timestamp::from_unix(
        uuid::NoContext,
        micros.div_euclid(1_000_000) as u64,
        micros.rem_euclid(1_000_000) as u32 * 1_000,
    );
    Ballot(Uuid::new_v1(ticks, &[1, 2, 3, 4, 5, 6]))
}

/// Raises the register of partition 1.
fn raise(case: &Case, serial_consistency: Consistency) -> Result<(), CoordinatorError> {
    let request = CasRequest { serial_consistency, ..case.conditional() };
    let next = |found: Vec<Option<i32>>, ballot: i64| {
        Ok::<_, CoordinatorError>(Some(vec![case.put(1, found[0].unwrap_or(0) + 1, ballot)]))
    };
    run(case.coordinator.cas(request, value, next, &mut ()))
}

fn proposal(case: &Case, micros: i64, v: i32) -> Proposal {
    let update = case.put(1, v, micros).updates.remove(0);
    Proposal { ballot: ballot(micros), update: Arc::new(update) }
}

fn empty(case: &Case, micros: i64) -> Proposal {
    Proposal::empty(ballot(micros), &case.table("t"), &key(1))
}

#[test]
fn ballots_are_as_late_as_their_uuids() {
    assert_eq!(ballot(1_234_567_890).micros(), 1_234_567_890);
    assert!(ballot(5).is_after(ballot(4)) && !ballot(5).is_after(ballot(5)));
    assert!(ballot(5).is_after(Ballot::NONE));
}

#[test]
fn a_quorum_of_those_that_are_alive_decides_or_the_write_is_unavailable() {
    for alive in subsets() {
        for level in [Consistency::Serial, Consistency::LocalSerial] {
            let case = two_datacenters(&[]);
            for (at, node) in case.nodes.iter().enumerate() {
                node.set_alive(alive.contains(&at));
            }
            // Each in turn decides what the one before has written.
            for count in 1..=2 {
                match raise(&case, level) {
                    Ok(()) => assert!(is_met(level, &alive), "{level:?} {alive:?}"),
                    Err(CoordinatorError::Unavailable { .. }) => assert!(!is_met(level, &alive)),
                    Err(other) => panic!("{level:?} {alive:?}: {other:?}"),
                }
                if is_met(level, &alive) {
                    assert_eq!(case.read(1, level).unwrap(), Some(count), "{level:?} {alive:?}");
                }
            }
        }
    }
}

#[test]
fn what_some_have_accepted_is_finished_before_anything_else() {
    let now = ManualClock::START_MICROS;
    for accepted_by in [vec![1], vec![2], vec![1, 2]] {
        let case = case(3, 3);
        for node in [1, 2] {
            assert!(run(case.nodes[node].replica.prepare(empty(&case, now - 5), None)).unwrap().is_promised);
        }
        for node in &accepted_by {
            assert!(run(case.nodes[*node].replica.propose(proposal(&case, now - 5, 41), None)).unwrap());
        }
        raise(&case, Consistency::Serial).unwrap();
        assert_eq!(case.read(1, Consistency::Serial).unwrap(), Some(42), "{accepted_by:?}");
    }
}

#[test]
fn the_only_replica_decides_alone_only_where_nobody_else_coordinates() {
    let now = ManualClock::START_MICROS;
    let case = Case::beside(schema(1), &["dc1"], 0, true);
    let replica = &case.nodes[0].replica;
    // Another coordinator has accepted something, and was not seen again.
    assert!(run(replica.prepare(empty(&case, now - 5), None)).unwrap().is_promised);
    assert!(run(replica.propose(proposal(&case, now - 5, 41), None)).unwrap());
    assert_eq!(case.read(1, Consistency::Serial).unwrap(), Some(41), "it is decided");
    raise(&case, Consistency::Serial).unwrap();
    assert_eq!(case.read(1, Consistency::LocalSerial).unwrap(), Some(42));
    // A third one has read, and comes too late with what it makes of that.
    case.clock.advance(std::time::Duration::from_micros(100));
    let promise = run(replica.prepare(empty(&case, now + 50), None)).unwrap();
    assert!(promise.is_promised);
    raise(&case, Consistency::Serial).unwrap();
    assert!(!run(replica.propose(proposal(&case, now + 50, 43), None)).unwrap());
    assert_eq!(case.read(1, Consistency::Serial).unwrap(), Some(43));

    // Where there is nobody else, no rounds are needed.
    let case = Case::beside(schema(1), &["dc1"], 0, false);
    raise(&case, Consistency::Serial).unwrap();
    let replica = &case.nodes[0].replica;
    assert_eq!(run(replica.prepare(empty(&case, now + 50), None)).unwrap().committed.ballot, Ballot::NONE);
}

#[test]
fn who_waits_while_another_node_joins_does_not_decide_alone() {
    let case = Case::beside(schema(1), &["dc1"], 0, false);
    let coordinator = &case.coordinator;
    let next =
        |_: Vec<Option<i32>>, ballot: i64| Ok::<_, CoordinatorError>(Some(vec![case.put(1, 42, ballot)]));
    run(async {
        let held = coordinator.cas_locks.lock_until(&coordinator.env.tasks, None, [&key(1)]).await;
        let mut observer = ();
        let mut cas = Box::pin(coordinator.cas(case.conditional(), value, next, &mut observer));
        let waits = std::future::poll_fn(|context| Poll::Ready(cas.as_mut().poll(context).is_pending()));
        assert!(waits.await);
        case.has_others.store(true, Ordering::SeqCst);
        drop(held);
        cas.await.unwrap();
    });
    let later = empty(&case, ManualClock::START_MICROS + 50);
    assert_ne!(run(case.nodes[0].replica.prepare(later, None)).unwrap().committed.ballot, Ballot::NONE);
    assert_eq!(case.read(1, Consistency::Serial).unwrap(), Some(42));
}

#[test]
fn what_is_decided_behind_something_finished_has_a_ballot_of_its_own() {
    let now = ManualClock::START_MICROS;
    let case = case(3, 3);
    for node in [1, 2] {
        assert!(run(case.nodes[node].replica.prepare(empty(&case, now - 5), None)).unwrap().is_promised);
        assert!(run(case.nodes[node].replica.propose(proposal(&case, now - 5, 41), None)).unwrap());
    }
    let request = CasRequest { serial_consistency: Consistency::Serial, ..case.conditional() };
    // Of two that were written at the same time the larger would win.
    let lower = |found: Vec<Option<i32>>, ballot: i64| {
        Ok::<_, CoordinatorError>(Some(vec![case.put(1, found[0].unwrap() - 1, ballot)]))
    };
    run(case.coordinator.cas(request, value, lower, &mut ())).unwrap();
    assert_eq!(case.read(1, Consistency::Serial).unwrap(), Some(40));
}

#[test]
fn the_verbs_of_a_partition_come_one_after_the_other() {
    let case = case(1, 1);
    case.replicas[0].cold.store(true, Ordering::SeqCst);
    let local = case.coordinator.local();
    let (first, second) = run(async {
        let first = tokio::spawn(local.prepare(empty(&case, 10), None));
        let second = tokio::spawn(local.prepare(empty(&case, 9), None));
        (first.await.unwrap().unwrap(), second.await.unwrap().unwrap())
    });
    assert!(first.is_promised && !second.is_promised);
    // How the threads that read meet is not known.
    for at in (20..400).step_by(10) {
        assert!(run(local.prepare(empty(&case, at), None)).unwrap().is_promised);
        let (promise, is_accepted) = run(async {
            let promise = tokio::spawn(local.prepare(empty(&case, at + 1), None));
            let is_accepted = tokio::spawn(local.propose(proposal(&case, at, 1), None));
            (promise.await.unwrap().unwrap(), is_accepted.await.unwrap().unwrap())
        });
        assert!(promise.is_promised && !is_accepted);
    }
}

#[test]
fn a_decision_that_few_have_kept_is_known_to_the_next() {
    let case = case(3, 3);
    for node in [1, 2] {
        *case.replicas[node].fails_at.lock().unwrap() = vec![Verb::Commit];
    }
    let request = CasRequest {
        serial_consistency: Consistency::Serial,
        consistency: Consistency::Quorum,
        ..case.conditional()
    };
    let five = |_, ballot| Ok::<_, CoordinatorError>(Some(vec![case.put(1, 5, ballot)]));
    let error = run(case.coordinator.cas(request, value, five, &mut ())).unwrap_err();
    let stands = matches!(error, CoordinatorError::WriteFailure { write_type: WriteType::Simple, .. });
    assert!(stands, "{error:?}");
    case.replicas.iter().for_each(|fake| fake.fails_at.lock().unwrap().clear());
    case.kill(1);
    assert_eq!(case.read(1, Consistency::Serial).unwrap(), Some(5), "those without it finish it");
    assert_eq!(*case.hints.failed.lock().unwrap(), [8, 9]);
}

#[test]
fn nothing_is_written_and_the_order_is_kept_where_a_condition_does_not_hold() {
    let case = case(3, 3);
    let request = CasRequest { serial_consistency: Consistency::Serial, ..case.conditional() };
    let nothing = |_, _| Ok::<_, CoordinatorError>(None);
    run(case.coordinator.cas(request, value, nothing, &mut ())).unwrap();
    let verbs = case.replicas[1].verbs.lock().unwrap().clone();
    assert!(verbs.contains(&Verb::Propose) && !verbs.contains(&Verb::Commit), "{verbs:?}");
    assert!(case.replicas[1].rows.lock().unwrap().keys().all(|(id, _)| *id != case.table("t").id));
}

#[test]
fn a_proposal_that_may_be_decided_is_not_proposed_anew() {
    let case = case(3, 3);
    for node in [1, 2] {
        *case.replicas[node].fails_at.lock().unwrap() = vec![Verb::Propose];
    }
    let error = raise(&case, Consistency::Serial).unwrap_err();
    let in_doubt = matches!(
        error,
        CoordinatorError::WriteTimeout { write_type: WriteType::Cas, received: 1, block_for: 2, .. }
    );
    assert!(in_doubt, "{error:?}");
}

#[test]
fn a_read_that_cannot_settle_what_was_accepted_has_timed_out() {
    for verb in [Verb::Prepare, Verb::Propose] {
        let case = case(3, 3);
        for node in [1, 2] {
            *case.replicas[node].fails_at.lock().unwrap() = vec![verb];
        }
        let error = case.read(1, Consistency::Serial).unwrap_err();
        let quorum = Consistency::Quorum;
        let is_timeout = matches!(
            error,
            CoordinatorError::ReadTimeout { consistency, received: 0, block_for: 2 } if consistency == quorum
        );
        assert!(is_timeout, "{error:?}");
    }
}

#[test]
fn who_is_overtaken_does_not_wait_for_the_slow_and_tries_a_later_ballot() {
    let case = case(3, 3);
    let future = ManualClock::START_MICROS + 1_000_000;
    for node in 0..2 {
        assert!(run(case.nodes[node].replica.prepare(empty(&case, future), None)).unwrap().is_promised);
    }
    *case.replicas[2].stuck_at.lock().unwrap() = vec![Verb::Prepare, Verb::Propose];
    raise(&case, Consistency::Serial).unwrap();
    assert_eq!(case.read(1, Consistency::Serial).unwrap(), Some(1));
}

#[test]
fn a_decision_is_told_to_those_of_the_quorum_that_lack_it() {
    let case = case(3, 3);
    for node in [0, 1] {
        run(case.nodes[node].replica.commit(proposal(&case, 5, 41), None)).unwrap();
    }
    case.kill(1);
    let nothing = |found: Vec<Option<i32>>, _| {
        assert_eq!(found, [Some(41)]);
        Ok::<_, CoordinatorError>(None)
    };
    let request = CasRequest { serial_consistency: Consistency::Serial, ..case.conditional() };
    run(case.coordinator.cas(request, value, nothing, &mut ())).unwrap();
    let verbs = case.replicas[2].verbs.lock().unwrap().clone();
    assert_eq!(verbs[..2], [Verb::Prepare, Verb::Commit], "before it is read: {verbs:?}");
}

#[test]
fn who_was_promised_something_later_is_refused() {
    let case = case(1, 1);
    let local = case.coordinator.local();
    let prepare = |micros| run(local.prepare(empty(&case, micros), None)).unwrap();
    let propose = |micros, v| run(local.propose(proposal(&case, micros, v), None)).unwrap();
    let promise = prepare(10);
    assert!(promise.is_promised);
    assert_eq!((promise.in_progress.ballot, promise.committed.ballot), (Ballot::NONE, Ballot::NONE));
    for micros in [9, 10] {
        let refusal = prepare(micros);
        assert!(!refusal.is_promised);
        assert_eq!(refusal.in_progress.ballot, ballot(10), "what it was overtaken by");
    }
    assert!(!propose(9, 1));
    assert!(propose(10, 2));
    let promise = prepare(11);
    assert!(promise.is_promised);
    assert_eq!(promise.in_progress.ballot, ballot(10));
    assert_eq!(promise.in_progress.update.rows, proposal(&case, 10, 2).update.rows);
    assert!(!propose(10, 2), "it was promised to another since");
    // Who accepts promises, too.
    assert!(propose(20, 3));
    assert!(!prepare(15).is_promised);
    run(local.commit(proposal(&case, 20, 3), None)).unwrap();
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(3));
    assert!(!prepare(20).is_promised);
    let promise = prepare(21);
    assert!(promise.in_progress.update.is_empty(), "it is decided");
    assert_eq!(promise.committed.ballot, ballot(20));
    // What is decided elsewhere is a promise, too, and an older decision hides no newer one.
    run(local.commit(proposal(&case, 30, 4), None)).unwrap();
    run(local.commit(proposal(&case, 25, 5), None)).unwrap();
    assert!(!prepare(29).is_promised);
    assert_eq!(prepare(31).committed.ballot, ballot(30));
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(4));
    assert!(propose(31, 6));
    run(local.commit(proposal(&case, 30, 4), None)).unwrap();
    assert_eq!(prepare(32).in_progress.ballot, ballot(31), "it is not decided yet");
}

#[test]
fn states_are_kept_until_all_have_forgotten_them() {
    for (grace_s, ttl) in [(864_000, 864_000), (60, 3 * 60 * 60)] {
        let case = case(1, 1);
        let mut proposal = proposal(&case, 10, 1);
        Arc::make_mut(&mut Arc::make_mut(&mut proposal.update).table).options.gc_grace_seconds = grace_s;
        assert!(run(case.coordinator.local().propose(proposal, None)).unwrap());
        let rows = case.replicas[0].rows.lock().unwrap();
        let ((id, key_of_state), state) = rows.iter().next().unwrap();
        assert_eq!((*id, key_of_state), (Uuid::from_u128(5), &key(1)));
        let now_s = (ManualClock::START_MICROS / 1_000_000) as u32;
        assert!(state.rows[0].cells.iter().all(|cell| cell.ttl == ttl && cell.timestamp == 10));
        assert!(state.rows[0].cells.iter().all(|c| c.local_deletion_time == now_s + ttl as u32));
    }
}

#[test]
fn writes_after_a_decision_are_later_though_it_was_made_in_the_future() {
    let case = case(3, 3);
    let future = ManualClock::START_MICROS + 1_000_000;
    for node in 0..3 {
        assert!(run(case.nodes[node].replica.prepare(empty(&case, future), None)).unwrap().is_promised);
    }
    raise(&case, Consistency::Serial).unwrap();
    let written =
        case.replicas[1].rows.lock().unwrap()[&(case.table("t").id, key(1))].rows[0].cells[0].timestamp;
    assert!(written > future);
    assert!(case.coordinator.next_timestamp() > written);
}

#[test]
fn a_decision_from_before_a_truncation_is_known_and_not_written() {
    let case = case(1, 1);
    let local = case.coordinator.local();
    let truncate = |millis| case.replicas[0].truncated.lock().unwrap().insert(case.table("t").id, millis);
    truncate(5);
    run(local.commit(proposal(&case, 5_999, 1), None)).unwrap();
    assert_eq!(case.read(1, Consistency::One).unwrap(), None);
    assert_eq!(run(local.prepare(empty(&case, 7_000), None)).unwrap().committed.ballot, ballot(5_999));
    run(local.commit(proposal(&case, 6_000, 1), None)).unwrap();
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(1));
}

#[test]
fn what_is_finished_for_others_is_of_the_time_at_which_it_is() {
    let case = case(1, 1);
    let mut update = PartitionUpdate::clone(&proposal(&case, 10, 1).update);
    update.rows[0].deletion = model::Deletion::new(9, 1);
    update.deletion = model::Deletion::new(9, 1);
    let later = Proposal { ballot: ballot(10), update: Arc::new(update) }.at(ballot(50));
    let row = &later.update.rows[0];
    assert_eq!((later.ballot, row.liveness.timestamp, row.cells[0].timestamp), (ballot(50), 50, 50));
    assert_eq!((later.update.deletion.timestamp, row.deletion.timestamp), (49, 49));
    assert!(later.update.static_row.is_none());
}
