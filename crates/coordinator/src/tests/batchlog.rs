//! Logged batches that fail half-way, and what becomes of them.

use super::*;
use crate::batchlog::{LateReplay, Pending};
use std::future::ready;
use std::time::Duration;

const TIMEOUT_MS: u64 = 4_000;
const LATE: LateReplay = LateReplay { timeout_ms: TIMEOUT_MS, bytes_per_second: 0 };

impl Case {
    fn breaks(&self, table: Option<&str>) {
        *self.replicas[0].refuses.lock().unwrap() = table.map(|name| self.table(name).id);
    }

    /// A row of the other table.
    fn other(&self, k: i32) -> Mutation {
        let mut update = PartitionUpdate::new(self.table("counters"), key(k));
        let mut row = Row::new(Clustering::from_values([&1i32.to_be_bytes()[..]]));
        row.liveness = Liveness::new(1);
        update.rows.push(row);
        Mutation::of(update)
    }

    /// A batch of a row in each of the two tables.
    fn batch(&self, k: i32) -> Result<(), CoordinatorError> {
        let batch = vec![self.put(k, k, 1), self.other(k)];
        run(self.coordinator.write_logged_batch(batch, Consistency::One, None))
    }

    fn has(&self, table: &str, k: i32) -> bool {
        self.replicas[0].rows.lock().unwrap().contains_key(&(self.table(table).id, key(k)))
    }

    fn pending(&self) -> usize {
        let batches = self.schema.table("system", "batches").unwrap().id;
        self.replicas[0].rows.lock().unwrap().keys().filter(|(table, _)| *table == batches).count()
    }

    fn replay_late(&self) -> Result<usize, CoordinatorError> {
        run(self.coordinator.replay_late_batches(LATE, &|| true))
    }

    fn wait(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
    }
}

#[test]
fn a_batch_that_failed_half_way_is_completed_by_replay() {
    let case = case(1, 1);
    case.breaks(Some("counters"));
    let error = case.batch(2).unwrap_err();
    assert!(
        matches!(error, CoordinatorError::WriteFailure { write_type: WriteType::Batch, .. }),
        "{error:?}"
    );
    assert!(case.has("t", 2) && !case.has("counters", 2));
    case.breaks(None);
    assert_eq!(run(case.coordinator.replay_batches()).unwrap(), 1);
    assert!(case.has("counters", 2));
    assert_eq!(run(case.coordinator.replay_batches()).unwrap(), 0);
}

#[test]
fn a_late_batch_is_completed_once_its_time_is_over_and_the_write_goes_well() {
    let case = case(1, 1);
    case.breaks(Some("counters"));
    case.batch(2).unwrap_err();
    case.wait(TIMEOUT_MS);
    case.breaks(None);
    assert_eq!(case.replay_late().unwrap(), 0, "it may still be on its way");
    case.wait(1);
    case.breaks(Some("counters"));
    case.replay_late().unwrap_err();
    assert_eq!((case.has("counters", 2), case.pending()), (false, 1));
    case.breaks(None);
    assert_eq!(case.replay_late().unwrap(), 1);
    assert_eq!((case.has("counters", 2), case.pending()), (true, 0));
    assert_eq!(case.replay_late().unwrap(), 0);
}

#[test]
fn batches_of_the_last_run_are_completed_once_somebody_expects_them() {
    let case = case(1, 1);
    case.breaks(Some("counters"));
    case.batch(2).unwrap_err();
    case.breaks(None);
    case.wait(TIMEOUT_MS + 1);
    // A run that starts knows of no batch.
    case.coordinator.batches_left_behind.store(false, Ordering::SeqCst);
    assert_eq!(case.replay_late().unwrap(), 0);
    case.coordinator.expect_late_batches();
    assert_eq!(case.replay_late().unwrap(), 1);
    assert!(case.has("counters", 2));
}

#[test]
fn a_batch_that_nobody_waits_for_any_more_is_completed() {
    let case = case(1, 1);
    case.replicas[0].stuck.store(true, Ordering::SeqCst);
    let batch = vec![case.put(1, 1, 1), case.other(1)];
    let abandoned = case.coordinator.write_logged_batch(batch, Consistency::One, None);
    run(async {
        tokio::select! { biased; _ = abandoned => panic!("it is stuck"), () = ready(()) => {} }
    });
    assert_eq!((case.has("t", 1), case.pending()), (false, 1));
    case.replicas[0].stuck.store(false, Ordering::SeqCst);
    case.wait(TIMEOUT_MS + 1);
    assert_eq!(case.replay_late().unwrap(), 1);
    assert!(case.has("t", 1) && case.has("counters", 1));
}

#[test]
fn a_batch_that_still_fails_holds_up_no_other() {
    let case = case(1, 1);
    case.breaks(Some("t"));
    for k in 1..=3 {
        case.batch(k).unwrap_err();
    }
    case.breaks(Some("counters"));
    case.batch(4).unwrap_err();
    let batch = vec![case.put(5, 5, 1), case.put(6, 6, 1)];
    case.breaks(Some("t"));
    run(case.coordinator.write_logged_batch(batch, Consistency::One, None)).unwrap_err();
    case.wait(TIMEOUT_MS + 1);
    // What touches only the other table goes well.
    case.breaks(Some("counters"));
    case.replay_late().unwrap_err();
    assert_eq!((case.has("t", 5), case.has("t", 6), case.pending()), (true, true, 4));
    case.breaks(None);
    assert_eq!(case.replay_late().unwrap(), 4);
    assert_eq!(case.pending(), 0);
}

#[test]
fn a_long_log_is_read_in_pages() {
    let case = case(1, 1);
    case.breaks(Some("counters"));
    (1..=300).for_each(|k| assert!(case.batch(k).is_err()));
    case.breaks(Some("t"));
    let batch = vec![case.put(301, 1, 1), case.put(302, 2, 1)];
    run(case.coordinator.write_logged_batch(batch, Consistency::One, None)).unwrap_err();
    case.wait(TIMEOUT_MS + 1);
    // What touches only the other table goes well, whatever stands before it.
    case.breaks(Some("counters"));
    case.replay_late().unwrap_err();
    assert_eq!((case.has("t", 302), case.pending()), (true, 300));
    case.breaks(None);
    assert_eq!(case.replay_late().unwrap(), 300);
    assert!((1..=300).all(|k| case.has("counters", k)));
    assert_eq!(case.pending(), 0);
}

#[test]
fn a_replay_is_throttled_and_ends_when_it_is_told_to() {
    let case = case(1, 1);
    case.breaks(Some("counters"));
    (1..=3).for_each(|k| assert!(case.batch(k).is_err()));
    case.breaks(None);
    case.wait(TIMEOUT_MS + 1);
    let bytes = run(case.coordinator.pending_batches(case.schema.table("system", "batches").unwrap(), None));
    let bytes: u64 = bytes.unwrap().0.iter().map(Pending::bytes).sum();
    // Each waits for a twelfth of a second. Before that, behind it, and before the batch somebody asks
    // whether to go on.
    let throttled = LateReplay { bytes_per_second: bytes * 4, ..LATE };
    let looks = AtomicUsize::new(0);
    let goes_on = || looks.fetch_add(1, Ordering::SeqCst) < 4;
    assert_eq!(run(case.coordinator.replay_late_batches(throttled, &goes_on)).unwrap(), 1);
    assert_eq!(case.pending(), 2);
    assert_eq!(run(case.coordinator.replay_late_batches(throttled, &|| true)).unwrap(), 2);
}

#[test]
fn a_batch_older_than_the_grace_of_its_tables_is_given_up() {
    let case = case(1, 1);
    case.breaks(Some("counters"));
    case.batch(1).unwrap_err();
    case.breaks(None);
    case.wait(864_000_000);
    assert_eq!(case.replay_late().unwrap(), 0);
    assert_eq!((case.has("counters", 1), case.pending()), (false, 0));
}

#[test]
fn what_was_truncated_since_stays_away() {
    for late in [true, false] {
        let case = case(1, 1);
        case.breaks(Some("counters"));
        case.batch(1).unwrap_err();
        case.breaks(None);
        let now_ms = ManualClock::START_MICROS / 1_000;
        let t = case.table("t");
        case.replicas[0].truncated.lock().unwrap().insert(t.id, now_ms);
        run(case.coordinator.truncate(t)).unwrap();
        case.wait(TIMEOUT_MS + 1);
        let replayed = if late { case.replay_late() } else { run(case.coordinator.replay_batches()) };
        assert_eq!(replayed.unwrap(), 1);
        assert_eq!((case.has("t", 1), case.has("counters", 1), case.pending()), (false, true, 0));
    }
}

#[test]
fn logged_batches_are_decoded_as_their_version_says() {
    use partition::codec::DeletionTimes;
    use partition::codec::mutation::encode_mutation;
    // Beyond 2038, which only version 13 can say.
    let late = 3_000_000_000;
    let last = i32::MAX as u32 - 1;
    for (version, times, expected) in [
        (Some(12), DeletionTimes::Signed, Some(last)),
        (Some(13), DeletionTimes::Unsigned, Some(late)),
        (Some(11), DeletionTimes::Signed, None),
        (Some(14), DeletionTimes::Unsigned, None),
        (None, DeletionTimes::Signed, None),
    ] {
        let case = case(1, 1);
        let (t, batches) = (case.table("t"), case.schema.table("system", "batches").unwrap().clone());
        let mut update = PartitionUpdate::new(t.clone(), key(1));
        let mut deleted = Row::new(Clustering::empty());
        deleted.cells.push(Cell::tombstone(t.column("v").unwrap().id, 7, late));
        update.rows.push(deleted);
        let mut bytes = Vec::new();
        encode_mutation(&Mutation::of(update), times, &mut bytes).unwrap();

        let id = DecoratedKey::new(model::PartitionKey(Bytes::from(Uuid::from_u128(99).as_bytes().to_vec())));
        let mut row = Row::new(Clustering::empty());
        row.liveness = Liveness::new(1);
        let column = |name| batches.column(name).unwrap().id;
        let path = Bytes::from(Uuid::from_u128(1).as_bytes().to_vec());
        row.cells.push(Cell::live(column("mutations"), 1, bytes.into()).with_path(path));
        if let Some(version) = version {
            let version = Bytes::from(i32::to_be_bytes(version).to_vec());
            row.cells.push(Cell::live(column("version"), 1, version));
        }
        row.cells.sort_by_key(|c| c.column);
        let mut entry = PartitionUpdate::new(batches, id);
        entry.rows.push(row);
        run(case.coordinator.write(vec![Mutation::of(entry)], Consistency::One, WriteType::Simple, None))
            .unwrap();

        let replayed = run(case.coordinator.replay_batches()).unwrap();
        assert_eq!(replayed, expected.is_some() as usize, "{version:?}");
        let rows = case.replicas[0].rows.lock().unwrap();
        let found = rows.get(&(t.id, key(1))).map(|u| u.rows[0].cells[0].local_deletion_time);
        assert_eq!(found, expected, "{version:?}");
    }
}

#[test]
fn a_batch_whose_log_failed_applies_nothing() {
    let case = case(1, 1);
    let batches = case.schema.table("system", "batches").unwrap().id;
    *case.replicas[0].refuses.lock().unwrap() = Some(batches);
    let batch = vec![case.put(1, 1, 1), case.put(2, 2, 1)];
    let error = run(case.coordinator.write_logged_batch(batch, Consistency::One, None)).unwrap_err();
    assert!(matches!(error, CoordinatorError::WriteFailure { write_type: WriteType::BatchLog, .. }));
    assert!(case.replicas[0].rows.lock().unwrap().is_empty());
}

#[test]
fn a_batch_whose_log_nobody_else_can_keep_is_refused() {
    let case = case(3, 3);
    let batch = || vec![case.put(1, 1, 1), case.put(2, 2, 1)];
    case.nodes[1..].iter().for_each(|node| node.set_alive(false));
    let error = run(case.coordinator.write_logged_batch(batch(), Consistency::One, None)).unwrap_err();
    assert!(matches!(error, CoordinatorError::NoBatchKeeper), "{error:?}");
    assert!(case.replicas[0].rows.lock().unwrap().is_empty());
    run(case.coordinator.write_logged_batch(batch(), Consistency::Any, None)).unwrap();
    assert_eq!(case.replicas[0].rows.lock().unwrap().len(), 2);
}
