//! Full disks and failing devices, as clients meet them.

use super::*;
use crate::node::batches;
use engine::{FailurePolicy, SyncMode};
use env::clock::ManualClock;
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::{Crash, MemoryFileSystem};
use env::random::Random;
use model::WriteType;
use std::path::Path;

fn env_on(fs: Arc<dyn env::fs::FileSystem>) -> Env {
    Env::new(Arc::new(ManualClock::default()), Arc::new(Random::from_seed(1)), fs)
}

async fn open(fs: Arc<dyn env::fs::FileSystem>, policy: FailurePolicy) -> Db {
    Db::open_with(&env_on(fs), |config| {
        config.engine.commitlog_sync = SyncMode::Batch;
        config.engine.commitlog_segment_bytes = 64 << 10;
        config.engine.commit_failure_policy = policy;
    })
    .await
}

async fn make_table(client: &mut Client) {
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    cql(client, &format!("CREATE KEYSPACE ks WITH replication = {replication}")).await;
    cql(client, "CREATE TABLE ks.t (k int PRIMARY KEY, v text)").await;
}

/// The name of the segment that the commit log appends to. A fault on all of them would also meet the one
/// that the log makes ahead, whenever it comes to that.
fn segment_in_use(fs: &dyn env::fs::FileSystem) -> String {
    let entries = fs.read_dir(Path::new("/ilion/commitlog")).unwrap();
    let mut names: Vec<_> = entries.into_iter().map(|entry| entry.name.into_string().unwrap()).collect();
    names.sort_by_key(|name| (name.len(), name.clone()));
    assert!((1..=2).contains(&names.len()), "one in use, and perhaps the next: {names:?}");
    names.swap_remove(0)
}

/// Inserts a row of 2000 bytes.
async fn insert(client: &mut Client, k: i32) -> Response {
    let text = format!("INSERT INTO ks.t (k, v) VALUES ({k}, '{}')", "x".repeat(2_000));
    client.call(query(&text, params())).await
}

async fn keys(client: &mut Client) -> Vec<i32> {
    let mut keys = ints(&select(client, "SELECT k FROM ks.t").await, 0);
    keys.sort_unstable();
    keys
}

#[test]
fn a_full_disk_fails_writes_until_there_is_space() {
    run(async {
        let memory = MemoryFileSystem::new();
        let faulty = FaultyFileSystem::new(Arc::new(memory.clone()));
        let db = open(Arc::new(faulty.clone()), FailurePolicy::Stop).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        make_table(&mut client).await;
        faulty.set_free_bytes(Some(200_000));
        let mut next = 0;
        let kind = loop {
            match insert(&mut client, next).await {
                Response::Error(error) => break error.kind,
                _ => next += 1,
            }
            assert!(next < 1_000);
        };
        assert!(matches!(kind, ErrorKind::WriteFailure { .. }), "{kind:?}");
        assert_eq!(keys(&mut client).await, (0..next).collect::<Vec<_>>(), "reads go on");
        faulty.heal();
        result(insert(&mut client, next).await);
        let survivor = memory.crash(Crash::LoseUnsynced);
        db.stop().await;

        let db = open(Arc::new(survivor), FailurePolicy::Stop).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        assert_eq!(keys(&mut client).await, (0..=next).collect::<Vec<_>>());
        db.stop().await;
    });
}

#[test]
fn a_failed_sync_is_a_write_failure_and_the_policy_decides_what_follows() {
    for policy in [FailurePolicy::StopCommit, FailurePolicy::Ignore] {
        run(async {
            let memory = MemoryFileSystem::new();
            let faulty = FaultyFileSystem::new(Arc::new(memory.clone()));
            let db = open(Arc::new(faulty.clone()), policy).await;
            let mut client = db.client(ProtocolVersion::V5).await;
            make_table(&mut client).await;
            result(insert(&mut client, 1).await);
            faulty.add(Fault::on(Op::Sync).path(&segment_in_use(&memory)).times(1));
            let (kind, _) = error(insert(&mut client, 2).await);
            assert!(matches!(kind, ErrorKind::WriteFailure { .. }), "{kind:?}");
            match insert(&mut client, 3).await {
                Response::Error(error) => {
                    assert_eq!(policy, FailurePolicy::StopCommit);
                    assert!(matches!(error.kind, ErrorKind::WriteFailure { .. }), "{:?}", error.kind);
                }
                _ => assert_eq!(policy, FailurePolicy::Ignore),
            }
            assert!(keys(&mut client).await.contains(&1), "reads go on");
            let survivor = memory.crash(Crash::LoseUnsynced);
            db.stop().await;

            let db = open(Arc::new(survivor), policy).await;
            let mut client = db.client(ProtocolVersion::V5).await;
            let found = keys(&mut client).await;
            assert!(found.contains(&1));
            assert_eq!(found.contains(&3), policy == FailurePolicy::Ignore);
            result(insert(&mut client, 4).await);
            db.stop().await;
        });
    }
}

const BATCH: &str = "BEGIN BATCH INSERT INTO ks.t (k, v) VALUES (1, 'a'); INSERT INTO ks.t (k, v) VALUES (2, 'b'); \
                     INSERT INTO ks.t (k, v) VALUES (3, 'c'); APPLY BATCH";

/// A node on whose disk a logged batch failed half-way: the log of batches and the first row are kept.
async fn with_half_a_batch() -> (Db, Client, Arc<ManualClock>, FaultyFileSystem, MemoryFileSystem) {
    let memory = MemoryFileSystem::new();
    let faulty = FaultyFileSystem::new(Arc::new(memory.clone()));
    let clock = Arc::new(ManualClock::default());
    let env = Env::new(clock.clone(), Arc::new(Random::from_seed(1)), Arc::new(faulty.clone()));
    let db = Db::open_with(&env, |config| {
        // Nothing but the batch writes to the log.
        config.engine.commitlog_sync = SyncMode::Periodic { period_ms: 3_600_000 };
        config.engine.commit_failure_policy = FailurePolicy::Ignore;
    })
    .await;
    let mut client = db.client(ProtocolVersion::V5).await;
    make_table(&mut client).await;
    faulty.add(Fault::on(Op::Write).path(&segment_in_use(&memory)).after(2));
    let (kind, _) = error(client.call(query(BATCH, params())).await);
    assert!(matches!(kind, ErrorKind::WriteFailure { write_type: WriteType::Batch, .. }), "{kind:?}");
    assert_eq!(keys(&mut client).await, [1]);
    assert_eq!(pending(&mut client).await, 1);
    (db, client, clock, faulty, memory)
}

async fn pending(client: &mut Client) -> usize {
    select(client, "SELECT id FROM system.batches").await.rows.len()
}

#[test]
fn a_failed_batch_is_completed_without_a_restart() {
    run(async {
        let (db, mut client, clock, faulty, memory) = with_half_a_batch().await;
        clock.advance(Duration::from_millis(4_001));
        batches::finish_late(&db.node).await;
        assert_eq!((keys(&mut client).await.len(), pending(&mut client).await), (1, 1), "it fails again");
        faulty.heal();
        batches::finish_late(&db.node).await;
        assert_eq!(keys(&mut client).await, [1, 2, 3]);
        assert_eq!(pending(&mut client).await, 0);
        db.node.drain().await.unwrap();
        let survivor = memory.crash(Crash::LoseUnsynced);
        db.stop().await;

        let db = open(Arc::new(survivor), FailurePolicy::Stop).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        assert_eq!((keys(&mut client).await, pending(&mut client).await), (vec![1, 2, 3], 0));
        db.stop().await;
    });
}

#[test]
fn a_drain_that_cannot_complete_a_batch_fails_and_works_when_it_can() {
    run(async {
        let (db, mut client, _, faulty, memory) = with_half_a_batch().await;
        db.node.drain().await.unwrap_err();
        assert!(!db.node.state.is_drained());
        faulty.heal();
        db.node.drain().await.unwrap();
        assert_eq!((keys(&mut client).await, pending(&mut client).await), (vec![1, 2, 3], 0));
        let survivor = memory.crash(Crash::LoseUnsynced);
        db.stop().await;
        let db = open(Arc::new(survivor), FailurePolicy::Stop).await;
        assert_eq!(keys(&mut db.client(ProtocolVersion::V5).await).await, [1, 2, 3]);
        db.stop().await;
    });
}

#[test]
fn what_a_failed_batch_wrote_to_a_truncated_table_stays_away() {
    run(async {
        let (db, mut client, clock, faulty, _) = with_half_a_batch().await;
        faulty.heal();
        cql(&mut client, "TRUNCATE ks.t").await;
        clock.advance(Duration::from_millis(4_001));
        batches::finish_late(&db.node).await;
        assert_eq!((keys(&mut client).await.len(), pending(&mut client).await), (0, 0));
        db.stop().await;
    });
}
