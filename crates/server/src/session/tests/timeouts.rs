//! Requests that take longer than they may, as clients meet them.

use super::*;
use crate::config::Millis;
use crate::timeouts::TimeoutKind;
use engine::SyncMode;
use env::clock::ManualClock;
use env::fs::faulty::{FaultyFileSystem, Op};
use env::fs::memory::MemoryFileSystem;
use env::random::Random;
use model::WriteType;
use protocol::response::error::Progress;

fn late(consistency: Consistency) -> Progress {
    Progress { consistency, received: 0, block_for: 1 }
}

const WORDS: &str = "Operation timed out - received only 0 responses.";

async fn make_tables(client: &mut Client) {
    let replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}";
    cql(client, &format!("CREATE KEYSPACE ks WITH replication = {replication}")).await;
    cql(client, "CREATE TABLE ks.t (k int, c int, v text, l list<int>, PRIMARY KEY (k, c))").await;
    cql(client, "CREATE TABLE ks.n (k int PRIMARY KEY, n counter)").await;
}

async fn refused(client: &mut Client, statement: &str, consistency: Consistency) -> (ErrorKind, String) {
    let params = QueryParams { consistency, ..params() };
    error(client.call(query(statement, params)).await)
}

fn env_of(clock: Arc<dyn env::clock::Clock>, fs: &FaultyFileSystem) -> Env {
    Env::new(clock, Arc::new(Random::from_seed(1)), Arc::new(fs.clone()))
}

fn file_system() -> FaultyFileSystem {
    FaultyFileSystem::new(Arc::new(MemoryFileSystem::new()))
}

/// A clock that jumps ahead whenever it is asked for the monotonic time.
#[derive(Debug, Default)]
struct LeapingClock {
    asked: std::sync::atomic::AtomicU64,
    leap_nanos: std::sync::atomic::AtomicU64,
}

impl env::clock::Clock for LeapingClock {
    fn now_micros(&self) -> i64 {
        ManualClock::START_MICROS
    }

    fn monotonic_nanos(&self) -> u64 {
        use std::sync::atomic::Ordering::SeqCst;
        self.asked.fetch_add(self.leap_nanos.load(SeqCst), SeqCst)
    }
}

#[test]
fn reads_that_take_too_long_are_answered_as_late() {
    run(async {
        let leaping = Arc::new(LeapingClock::default());
        let (clock, fs) = (leaping.clone(), file_system());
        let db = Db::open_with(&env_of(clock, &fs), |config| {
            config.settings.read_request_timeout = Millis(4_000);
            config.settings.range_request_timeout = Millis(100_000);
        })
        .await;
        for version in [ProtocolVersion::V3, ProtocolVersion::V4, ProtocolVersion::V5] {
            let mut client = db.client(version).await;
            if version == ProtocolVersion::V3 {
                make_tables(&mut client).await;
                for c in 0..300 {
                    cql(&mut client, &format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, 'x')")).await;
                }
            }
            let leap = |nanos| leaping.leap_nanos.store(nanos, std::sync::atomic::Ordering::SeqCst);
            let one = "SELECT * FROM ks.t WHERE k = 1";
            leap(5_000_000_000);
            for (asked, told) in [
                (Consistency::One, Consistency::One),
                (Consistency::Quorum, Consistency::Quorum),
                (Consistency::Serial, Consistency::Quorum),
                (Consistency::LocalSerial, Consistency::LocalQuorum),
            ] {
                let expected = ErrorKind::ReadTimeout { progress: late(told), data_present: false };
                assert_eq!(refused(&mut client, one, asked).await, (expected, WORDS.to_owned()), "{asked:?}");
            }
            let expected = ErrorKind::ReadTimeout { progress: late(Consistency::One), data_present: false };
            let explain = format!("EXPLAIN ANALYZE {one}");
            assert_eq!(refused(&mut client, &explain, Consistency::One).await.0, expected);
            // A range has a longer time, and a read in the same node goes well.
            assert_eq!(select(&mut client, "SELECT c FROM ks.t").await.rows.len(), 300);
            leap(50_000_000_000);
            assert_eq!(refused(&mut client, "SELECT c FROM ks.t", Consistency::One).await.0, expected);
            leap(0);
            assert_eq!(select(&mut client, one).await.rows.len(), 300, "the next read has its own time");
        }
        // Who watches sees them, too.
        let kept = db.node.state.metrics.reads.heat.samples(&Default::default());
        let late = kept.iter().filter(|read| read.failure.as_deref() == Some(WORDS));
        let late: Vec<_> = late.map(|read| (&*read.statement, read.restriction.as_str())).collect();
        assert!(late.contains(&("SELECT * FROM ks.t WHERE k = 1", "k = 1")), "{late:?}");
        assert!(kept.iter().any(|read| read.failure.is_none()));
        db.stop().await;
    });
}

#[test]
fn writes_that_are_not_synced_in_time_are_answered_as_late_and_kept() {
    run(async {
        let (clock, fs) = (Arc::new(ManualClock::default()), file_system());
        let db = Db::open_with(&env_of(clock, &fs), |config| {
            config.engine.commitlog_sync = SyncMode::Batch;
            config.settings.write_request_timeout = Millis(200);
            config.settings.counter_write_request_timeout = Millis(200);
        })
        .await;
        let mut client = db.client(ProtocolVersion::V5).await;
        make_tables(&mut client).await;
        fs.hold(Op::Sync, "CommitLog-");
        let late_as = |write_type, consistency| ErrorKind::WriteTimeout {
            progress: late(consistency),
            write_type,
            contentions: 0,
        };
        for (statement, write_type) in [
            ("INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'a')", WriteType::Simple),
            (
                "BEGIN UNLOGGED BATCH INSERT INTO ks.t (k, c) VALUES (2, 2); INSERT INTO ks.t (k, c) VALUES (3, 3); \
                 APPLY BATCH",
                WriteType::UnloggedBatch,
            ),
            (
                "BEGIN BATCH INSERT INTO ks.t (k, c) VALUES (4, 4); INSERT INTO ks.t (k, c) VALUES (5, 5); APPLY BATCH",
                WriteType::BatchLog,
            ),
            ("UPDATE ks.n SET n = n + 1 WHERE k = 1", WriteType::Counter),
            // What was decided stands: Cassandra names the commit of a condition so.
            ("INSERT INTO ks.t (k, c) VALUES (6, 6) IF NOT EXISTS", WriteType::Simple),
        ] {
            let consistency = match write_type {
                WriteType::BatchLog => Consistency::One,
                _ => Consistency::Quorum,
            };
            let answer = refused(&mut client, statement, Consistency::Quorum).await;
            assert_eq!(answer, (late_as(write_type, consistency), WORDS.to_owned()), "{statement}");
        }
        let mut found = ints(&select(&mut client, "SELECT k FROM ks.t").await, 0);
        found.sort_unstable();
        assert_eq!(found, [1, 2, 3, 6], "a batch whose log is late is not carried out");
        fs.release();
        result(client.call(query("INSERT INTO ks.t (k, c) VALUES (7, 7)", params())).await);
        db.stop().await;
    });
}

#[test]
fn a_conditional_write_waits_for_others_of_its_partition_only_so_long() {
    run(async {
        let (clock, fs) = (Arc::new(ManualClock::default()), file_system());
        let db = Db::open_with(&env_of(clock, &fs), |config| {
            config.engine.commitlog_sync = SyncMode::Batch;
            config.settings.write_request_timeout = Millis(50_000);
            config.settings.cas_contention_timeout = Millis(200);
        })
        .await;
        let mut first = db.client(ProtocolVersion::V5).await;
        make_tables(&mut first).await;
        fs.hold(Op::Sync, "CommitLog-");
        let insert = "INSERT INTO ks.t (k, c) VALUES (1, 1) IF NOT EXISTS";
        first.send(&[(1, query(insert, params()))]).await;
        let mut seen = db.client(ProtocolVersion::V5).await;
        while select(&mut seen, "SELECT k FROM ks.t").await.rows.is_empty() {
            tokio::task::yield_now().await;
        }
        for (version, words) in [
            (
                ProtocolVersion::V5,
                "CAS operation timed out: received 0 of 1 required responses after 0 contention retries",
            ),
            (ProtocolVersion::V4, WORDS),
        ] {
            let mut second = db.client(version).await;
            let expected = ErrorKind::WriteTimeout {
                progress: late(Consistency::Serial),
                write_type: WriteType::Cas,
                contentions: 0,
            };
            let answer = refused(&mut second, insert, Consistency::One).await;
            assert_eq!(answer, (expected, words.to_owned()), "{version:?}");
        }
        fs.release();
        drop(first);
        db.stop().await;
    });
}

#[test]
fn a_read_on_a_device_that_hangs_is_answered_in_time() {
    run(async {
        let (clock, fs) = (Arc::new(ManualClock::default()), file_system());
        let db = Db::open_with(&env_of(clock, &fs), |config| {
            config.settings.concurrent_reads = 1;
            config.settings.read_request_timeout = Millis(200);
        })
        .await;
        let mut client = db.client(ProtocolVersion::V5).await;
        make_tables(&mut client).await;
        cql(&mut client, "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'x')").await;
        let engine = Arc::clone(&db.node.state.engine);
        tokio::task::spawn_blocking(move || engine.flush("ks", Some("t"))).await.unwrap().unwrap();
        fs.hold(Op::Read, "-Data.db");
        let one = "SELECT * FROM ks.t WHERE k = 1";
        let expected = ErrorKind::ReadTimeout { progress: late(Consistency::One), data_present: false };
        // The second waits for the thread that the first one holds.
        for _ in 0..2 {
            assert_eq!(refused(&mut client, one, Consistency::One).await.0, expected);
        }
        fs.release();
        assert_eq!(select(&mut client, one).await.rows.len(), 1);
        db.stop().await;
    });
}

#[test]
fn a_timeout_that_is_changed_holds_for_the_next_request() {
    run(async {
        let leaping = Arc::new(LeapingClock::default());
        let (clock, fs) = (leaping.clone(), file_system());
        let db = Db::open_with(&env_of(clock, &fs), |_| ()).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        make_tables(&mut client).await;
        for c in 0..300 {
            cql(&mut client, &format!("INSERT INTO ks.t (k, c, v) VALUES (1, {c}, 'x')")).await;
        }
        let one = "SELECT * FROM ks.t WHERE k = 1";
        leaping.leap_nanos.store(2_000_000_000, std::sync::atomic::Ordering::SeqCst);
        db.node.state.timeouts.set(TimeoutKind::Read, Millis(1_000));
        let expected = ErrorKind::ReadTimeout { progress: late(Consistency::One), data_present: false };
        assert_eq!(refused(&mut client, one, Consistency::One).await.0, expected);
        let shown = "SELECT value FROM system_views.settings WHERE name = 'read_request_timeout_in_ms'";
        db.node.state.timeouts.set(TimeoutKind::Read, Millis(100_000));
        assert_eq!(select(&mut client, one).await.rows.len(), 300);
        assert_eq!(select(&mut client, shown).await.rows[0][0].as_deref(), Some(b"100000".as_slice()));
        db.stop().await;
    });
}
