//! Every consistency level over two data centers, with nodes that are dead, slow, broken or behind.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

use super::*;
use std::collections::BTreeSet;

/// The levels of reads and writes without conditions.
pub(super) fn levels() -> impl Iterator<Item = Consistency> {
    Consistency::ALL_LEVELS.into_iter().filter(|level| !level.is_serial())
}

/// Three nodes in each of two data centers, the coordinator's being `dc1`.
pub(super) fn two_datacenters(pending: &[&str]) -> Case {
    let mut schema = schema(3);
    let mut keyspace = (**schema.keyspaces.get("ks").unwrap()).clone();
    let options = ["dc1", "dc2"].map(|name| (name.to_owned(), "3".to_owned()));
    let class = "org.apache.cassandra.locator.NetworkTopologyStrategy".to_owned();
    keyspace.replication = Replication { class, options: BTreeMap::from(options) };
    schema = schema.with_keyspace(keyspace);
    let datacenters = [&["dc1", "dc1", "dc1", "dc2", "dc2", "dc2"], pending].concat();
    Case::of(schema, &datacenters, pending.len())
}

/// Whether a level is met by these nodes, by the words of Cassandra's documentation.
pub(super) fn is_met(level: Consistency, able: &BTreeSet<usize>) -> bool {
    let (near, far) = (able.range(..3).count(), able.range(3..).count());
    match level {
        Consistency::Any | Consistency::One | Consistency::NodeLocal => near + far >= 1,
        Consistency::Two => near + far >= 2,
        Consistency::Three => near + far >= 3,
        Consistency::Quorum | Consistency::Serial => near + far >= 4,
        Consistency::All => near + far >= 6,
        Consistency::LocalOne => near >= 1,
        Consistency::LocalQuorum | Consistency::LocalSerial => near >= 2,
        Consistency::EachQuorum => near >= 2 && far >= 2,
    }
}

pub(super) fn subsets() -> impl Iterator<Item = BTreeSet<usize>> {
    (0..64u32).map(|bits| (0..6).filter(|at| bits & 1 << at != 0).collect())
}

/// A write that ends by itself.
pub(super) fn write(case: &Case, level: Consistency, v: i32) -> Result<(), CoordinatorError> {
    run(case.coordinator.write(vec![case.put(1, v, v.into())], level, WriteType::Simple, None))
}

fn holds(case: &Case, node: usize) -> bool {
    !case.replicas[node].rows.lock().unwrap().is_empty()
}

#[test]
fn where_each_data_center_has_to_have_enough_the_one_that_lacks_some_is_named() {
    let case = two_datacenters(&[]);
    // Of the six, three are in each data center.
    for node in &case.nodes[4..] {
        node.set_alive(false);
    }
    let far = case.nodes[4].datacenter.to_string();
    let error = write(&case, Consistency::EachQuorum, 5).unwrap_err();
    assert_eq!(error.to_string(), format!("Cannot achieve consistency level EACH_QUORUM in DC {far}"));
    assert!(matches!(error, CoordinatorError::Unavailable { required: 2, alive: 0, .. }), "{error:?}");
    let error = write(&case, Consistency::All, 5).unwrap_err();
    assert_eq!(error.to_string(), "Cannot achieve consistency level ALL");
    let error = run(case.coordinator.truncate(case.table("t"))).unwrap_err();
    assert_eq!(error.to_string(), "Error during truncate: Cannot achieve consistency level ALL");
}

#[test]
fn a_truncation_waits_for_nobody_before_it_asks_all() {
    let case = case(3, 3);
    case.replicas[1].stuck_at.lock().unwrap().push(Verb::Truncate);
    let mut truncation = std::pin::pin!(case.coordinator.truncate(case.table("t")));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(truncation.as_mut().poll(&mut context).is_pending());
    for replica in &case.replicas[1..] {
        assert_eq!(*replica.verbs.lock().unwrap(), [Verb::Truncate]);
    }
}

#[test]
fn with_some_nodes_dead_a_level_is_met_or_unavailable_and_writes_reach_all_others() {
    for alive in subsets() {
        for level in levels() {
            let case = two_datacenters(&[]);
            for (at, node) in case.nodes.iter().enumerate() {
                node.set_alive(alive.contains(&at));
            }
            let written = write(&case, level, 5);
            if !is_met(level, &alive) {
                assert!(matches!(written, Err(CoordinatorError::Unavailable { .. })), "{level:?} {alive:?}");
                assert!((0..6).all(|at| !holds(&case, at)), "{level:?} {alive:?}: nothing is written");
                continue;
            }
            written.unwrap();
            for at in 0..6 {
                assert_eq!(holds(&case, at), alive.contains(&at), "{level:?} {alive:?}: also far from here");
            }
            let missed: BTreeSet<usize> =
                case.hints.missed.lock().unwrap().iter().map(|id| (*id - 7) as usize).collect();
            assert!((0..6).all(|at| missed.contains(&at) != alive.contains(&at)), "hints for the dead ones");
            if level != Consistency::Any {
                assert_eq!(case.read(1, level).unwrap(), Some(5), "{level:?} {alive:?}");
            }
        }
    }
}

#[test]
fn reads_need_as_many_that_do_not_fail() {
    for sound in subsets() {
        for level in levels().filter(|level| *level != Consistency::Any) {
            let case = two_datacenters(&[]);
            write(&case, Consistency::All, 5).unwrap();
            for (at, replica) in case.replicas.iter().enumerate() {
                replica.broken.store(!sound.contains(&at), Ordering::SeqCst);
            }
            let read = case.read(1, level);
            // The closest alone is asked by levels of one, and it is this node, which has nobody beside it.
            let is_one = matches!(level, Consistency::One | Consistency::LocalOne | Consistency::NodeLocal);
            if is_one && sound.contains(&0) || !is_one && is_met(level, &sound) {
                assert_eq!(read.unwrap(), Some(5), "{level:?} {sound:?}");
            } else {
                assert!(
                    matches!(read, Err(CoordinatorError::ReadFailure { .. })),
                    "{level:?} {sound:?}: {read:?}"
                );
            }
        }
    }
}

#[test]
fn writes_fail_when_too_many_of_those_that_count_do() {
    for sound in subsets() {
        for level in levels() {
            let case = two_datacenters(&[]);
            for (at, replica) in case.replicas.iter().enumerate() {
                replica.broken.store(!sound.contains(&at), Ordering::SeqCst);
            }
            match write(&case, level, 5) {
                Ok(()) => assert!(is_met(level, &sound), "{level:?} {sound:?}"),
                Err(CoordinatorError::WriteFailure { received, block_for, failures, .. }) => {
                    assert!(!is_met(level, &sound), "{level:?} {sound:?}");
                    assert!(
                        received < block_for && failures > 0,
                        "{received} of {block_for}, {failures} failed"
                    );
                }
                Err(other) => panic!("{level:?} {sound:?}: {other:?}"),
            }
            assert!((0..6).all(|at| holds(&case, at) == sound.contains(&at)));
            let failed = case.hints.failed.lock().unwrap();
            assert!((0..6).all(|at| failed.contains(&(at as u128 + 7)) != sound.contains(&at)));
        }
    }
}

#[test]
fn slow_nodes_are_not_waited_for_where_others_suffice_and_are_handed_over() {
    let case = two_datacenters(&[]);
    for far in &case.replicas[3..] {
        far.stuck.store(true, Ordering::SeqCst);
    }
    write(&case, Consistency::LocalQuorum, 5).unwrap();
    assert_eq!(*case.hints.late.lock().unwrap(), [10, 11, 12], "late answers have somewhere to go");
    assert_eq!(case.read(1, Consistency::LocalQuorum).unwrap(), Some(5));
    case.replicas[1].stuck.store(true, Ordering::SeqCst);
    let waits = async {
        let put = vec![case.put(1, 6, 6)];
        let writing = case.coordinator.write(put, Consistency::EachQuorum, WriteType::Simple, None);
        tokio::time::timeout(std::time::Duration::from_millis(5), writing).await
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    assert!(runtime.block_on(waits).is_err(), "two of the other data center are missing");
}

#[test]
fn nodes_that_take_their_part_over_are_written_to_waited_for_and_not_read() {
    let case = two_datacenters(&["dc1"]);
    for level in [Consistency::One, Consistency::Quorum, Consistency::LocalQuorum, Consistency::EachQuorum] {
        write(&case, level, 5).unwrap();
        assert!(holds(&case, 6));
    }
    case.replicas[6].broken.store(true, Ordering::SeqCst);
    let level = Consistency::All;
    let error = write(&case, level, 6).unwrap_err();
    assert!(matches!(error, CoordinatorError::WriteFailure { received: 6, block_for: 7, .. }), "{error:?}");
    assert_eq!(case.read(1, level).unwrap(), Some(6));
    write(&case, Consistency::LocalQuorum, 7).unwrap();
    case.nodes[1].set_alive(false);
    case.nodes[2].set_alive(false);
    let error = write(&case, Consistency::LocalQuorum, 8).unwrap_err();
    assert!(matches!(error, CoordinatorError::Unavailable { required: 3, alive: 2, .. }), "{error:?}");
}

#[test]
fn what_a_quorum_wrote_a_quorum_reads_though_others_are_behind() {
    for behind in subsets().filter(|behind| behind.len() <= 2) {
        let case = two_datacenters(&[]);
        write(&case, Consistency::All, 1).unwrap();
        case.nodes.iter().enumerate().for_each(|(at, node)| node.set_alive(!behind.contains(&at)));
        write(&case, Consistency::Quorum, 2).unwrap();
        case.nodes.iter().for_each(|node| node.set_alive(true));
        assert_eq!(case.read(1, Consistency::Quorum).unwrap(), Some(2), "{behind:?}");
    }
}

#[test]
fn a_read_of_this_node_waits_for_a_thread_and_for_a_proof_without_telling_why() {
    let case = case(1, 1);
    write(&case, Consistency::One, 5).unwrap();
    case.replicas[0].cold.store(true, Ordering::SeqCst);
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(5));
    *case.replicas[0].unproven.lock().unwrap() = Some("nb-1-big-Data.db".into());
    assert_eq!(case.read(1, Consistency::One).unwrap(), Some(5));
    assert!(case.replicas[0].unproven.lock().unwrap().is_none(), "it was waited for");
}

#[test]
fn own_shards_of_counters_are_read_from_this_node_whoever_else_is_asked_for() {
    let case = two_datacenters(&[]);
    let table = case.table("counters");
    let add = || {
        let mut update = PartitionUpdate::new(Arc::clone(&table), key(1));
        let mut row = Row::new(Clustering::from_values([&1i32.to_be_bytes()[..]]));
        let value = Bytes::copy_from_slice(&3_i64.to_be_bytes());
        row.cells.push(Cell::live(table.column("n").unwrap().id, 1, value));
        update.rows.push(row);
        vec![Mutation::of(update)]
    };
    for _ in 0..4 {
        run(case.coordinator.write_counters(add(), Consistency::Quorum, None, &mut ())).unwrap();
    }
    assert!(case.replicas[1..].iter().all(|other| other.asked.lock().unwrap().is_empty()));
    let rows = case.replicas[5].rows.lock().unwrap();
    assert_eq!(model::counter::total(&rows[&(table.id, key(1))].rows[0].cells[0].value), 12);
}

#[test]
fn another_data_center_gets_a_write_once_and_its_live_nodes_all_keep_it() {
    let case = two_datacenters(&[]);
    let passed_on = |at: usize| case.replicas[at].passed_on.lock().unwrap().clone();
    let all = || (0..6).flat_map(passed_on).collect::<Vec<usize>>();
    for v in 1..=60 {
        write(&case, Consistency::EachQuorum, v).unwrap();
    }
    assert_eq!(all(), [2; 60], "one node for each write, which passes it on to two");
    assert!((0..3).all(|near| passed_on(near).is_empty()), "here every node is asked by itself");
    assert!((3..6).all(|far| !passed_on(far).is_empty()), "the node is drawn");
    assert!((1..6).all(|at| case.replicas[at].mutations.lock().unwrap().len() == 60));

    case.nodes[4].set_alive(false);
    write(&case, Consistency::All, 61).unwrap_err();
    write(&case, Consistency::EachQuorum, 61).unwrap();
    assert_eq!(all().iter().filter(|others| **others == 1).count(), 1, "not to the dead");
    assert_eq!(*case.hints.missed.lock().unwrap(), [11], "for whom a hint is kept");

    // Answers are those of each node: one that fails is no reason to fail the others.
    case.nodes[4].set_alive(true);
    case.replicas[5].broken.store(true, Ordering::SeqCst);
    write(&case, Consistency::EachQuorum, 62).unwrap();
    let failed = case.hints.failed.lock().unwrap().clone();
    assert!(failed.iter().all(|id| *id == 12), "{failed:?}");
    case.replicas[4].broken.store(true, Ordering::SeqCst);
    let error = write(&case, Consistency::EachQuorum, 63).unwrap_err();
    assert!(matches!(error, CoordinatorError::WriteFailure { failures: 2, .. }), "{error:?}");
}
