//! Reads that wait for a thread of the pool of readers, as who watches them is told.

use super::*;
use crate::config::Millis;
use crate::metrics::RequestKind;
use crate::reads::{ReadRecord, Waits};
use env::clock::ManualClock;
use env::fs::faulty::{Fault, FaultyFileSystem, Op};
use env::fs::memory::MemoryFileSystem;
use env::random::Random;

const SECOND: u64 = 1_000_000_000;

/// A node with one reader thread and a table that is on disk, on a device that can be held.
pub(super) async fn open(timeout: Millis) -> (Db, Arc<ManualClock>, FaultyFileSystem) {
    open_with_readers(1, timeout).await
}

async fn open_with_readers(readers: u32, timeout: Millis) -> (Db, Arc<ManualClock>, FaultyFileSystem) {
    let (clock, fs) =
        (Arc::new(ManualClock::default()), FaultyFileSystem::new(Arc::new(MemoryFileSystem::new())));
    clock.advance(Duration::from_secs(1));
    let env = Env::new(clock.clone(), Arc::new(Random::from_seed(1)), Arc::new(fs.clone()));
    let db = Db::open_with(&env, |config| {
        config.settings.concurrent_reads = readers;
        config.settings.read_request_timeout = timeout;
        config.settings.range_request_timeout = timeout;
        config.settings.slow_query_log_timeout = Millis(100);
    })
    .await;
    let client = &mut db.client(ProtocolVersion::V5).await;
    create(client).await;
    for k in 0..10 {
        cql(client, &format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, 'x')")).await;
    }
    let engine = Arc::clone(&db.node.state.engine);
    tokio::task::spawn_blocking(move || engine.flush("ks", Some("t"))).await.unwrap().unwrap();
    (db, clock, fs)
}

/// Returns when the thread is held by the device.
pub(super) async fn stuck(fs: &FaultyFileSystem) {
    while fs.waiting() == 0 {
        tokio::task::yield_now().await;
    }
}

/// Asks a traced read.
async fn ask(mut client: Client, statement: String) -> (Response, uuid::Uuid) {
    let message = Message { tracing: true, payload: None, request: query(&statement, params()) };
    let answer = client.exchange(message).await;
    (answer.response, answer.extras.tracing_id.expect("a tracing id"))
}

/// The same for a request that gets stuck; returns when it waits for a thread or has one, and is listed so.
/// The number of jobs would not do: that of a question before may go down only now.
pub(super) async fn begin(db: &Db, statement: &str) -> tokio::task::JoinHandle<(Response, uuid::Uuid)> {
    let listed = || db.node.state.running.list().into_iter().map(|(number, _)| number);
    let before: Vec<u64> = listed().collect();
    let answer = tokio::spawn(ask(db.client(ProtocolVersion::V5).await, statement.to_owned()));
    while listed().all(|number| before.contains(&number)) {
        tokio::task::yield_now().await;
    }
    answer
}

/// The slow read; it is kept after it was answered.
async fn kept(db: &Db, restriction: &str) -> Arc<ReadRecord> {
    let of = |read: &ReadRecord| {
        read.restriction == restriction && read.table.as_deref().is_some_and(|table| table.keyspace == "ks")
    };
    loop {
        let kept = db.node.state.metrics.reads.slow.kept();
        if let Some((_, read)) = kept.into_iter().find(|(_, read)| of(read)) {
            return read;
        }
        tokio::task::yield_now().await;
    }
}

/// The duration, and what happened with the microseconds since the start.
async fn trace(client: &mut Client, id: uuid::Uuid) -> (i32, Vec<(String, i32)>) {
    let session = format!("SELECT duration FROM system_traces.sessions WHERE session_id = {id}");
    let duration = loop {
        let found = select(client, &session).await;
        if !found.rows.is_empty() {
            break ints(&found, 0)[0];
        }
        tokio::task::yield_now().await;
    };
    let events = format!("SELECT activity, source_elapsed FROM system_traces.events WHERE session_id = {id}");
    let found = select(client, &events).await;
    let elapsed = ints(&found, 1);
    let activity = found.rows.iter().map(|row| String::from_utf8(row[0].clone().unwrap().to_vec()).unwrap());
    (duration, activity.zip(elapsed).collect())
}

#[test]
fn the_wait_for_a_thread_is_told_and_belongs_to_no_sstable() {
    run(async {
        let (db, clock, fs) = open(Millis(30_000)).await;
        fs.hold(Op::Read, "-Data.db");
        let first = begin(&db, "SELECT v FROM ks.t WHERE k = 1").await;
        stuck(&fs).await;
        let second = begin(&db, "SELECT v FROM ks.t WHERE k = 2").await;
        let range = begin(&db, "SELECT v FROM ks.t WHERE token(k) > -5").await;
        clock.advance(Duration::from_secs(3));
        fs.release();
        let client = &mut db.client(ProtocolVersion::V5).await;
        for (read, restriction, waited) in
            [(first, "k = 1", 0), (second, "k = 2", 3 * SECOND), (range, "token(k) > -5", 3 * SECOND)]
        {
            let (response, id) = read.await.unwrap();
            assert!(!rows(response).rows.is_empty());
            let record = kept(&db, restriction).await;
            assert_eq!(record.nanos, 3 * SECOND, "{restriction}");
            assert_eq!(record.waits, Waits { reader_nanos: waited, proof_nanos: 0 }, "{restriction}");
            let (duration, events) = trace(client, id).await;
            assert_eq!(duration, 3_000_000);
            let waited_micros = (waited / 1_000) as i32;
            let wait = (format!("Waited {waited_micros} us for a reader thread"), waited_micros);
            assert!(events.contains(&wait), "{restriction}: {events:?}");
            let (source, _) =
                events.iter().find(|(activity, _)| activity.starts_with("SSTable nb-1-big: read")).unwrap();
            assert_eq!(source.contains(" micros=3000000"), waited == 0, "{source}");
        }
        let view = "SELECT restriction, reader_wait_micros, number FROM system_views.slow_queries WHERE keyspace_name = 'ks'";
        let slow = select(client, view).await;
        let bigint =
            |value: &Option<Bytes>| i64::from_be_bytes(value.as_deref().unwrap().try_into().unwrap());
        let waits: Vec<(&[u8], i64)> =
            slow.rows.iter().map(|row| (row[0].as_deref().unwrap(), bigint(&row[1]))).collect();
        assert_eq!(waits.iter().filter(|(_, micros)| *micros == 3_000_000).count(), 2, "{waits:?}");
        assert!(waits.contains(&(b"k = 1", 0)), "{waits:?}");
        let numbers: Vec<i64> = slow.rows.iter().map(|row| bigint(&row[2])).collect();
        assert!(numbers.len() >= 3 && numbers.is_sorted_by(|a, b| a > b), "newest first: {numbers:?}");
        db.stop().await;
    });
}

#[test]
fn requests_are_traced_unasked_with_the_probability_that_was_set() {
    run(async {
        let (db, _, _) = open(Millis(30_000)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        let sessions = "SELECT request FROM system_traces.sessions";
        client.call(query("SELECT v FROM ks.t WHERE k = 1", params())).await;
        assert!(select(client, sessions).await.rows.is_empty());
        db.node.state.trace_probability.set(1.0);
        let request = query("SELECT v FROM ks.t WHERE k = 1", params());
        let answer = client.exchange(Message { tracing: false, payload: None, request }).await;
        assert_eq!(answer.extras.tracing_id, None, "the client did not ask");
        db.node.state.trace_probability.set(0.0);
        while select(client, sessions).await.rows.is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(select(client, sessions).await.rows.len(), 1);
        db.stop().await;
    });
}

/// What `system_views.queries` lists, but for the question itself: it waits for a reader thread, too.
async fn listed(client: &mut Client) -> Vec<(i64, String)> {
    let rows = select(client, "SELECT running_micros, task FROM system_views.queries").await.rows;
    let bytes = |value: &Option<Bytes>| value.as_deref().unwrap().to_vec();
    rows.iter()
        .map(|row| {
            (
                i64::from_be_bytes(bytes(&row[0]).try_into().unwrap()),
                String::from_utf8(bytes(&row[1])).unwrap(),
            )
        })
        .filter(|(_, task)| !task.contains("system_views"))
        .collect()
}

#[test]
fn who_waits_is_listed() {
    run(async {
        let (db, clock, fs) = open_with_readers(2, Millis(30_000)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        assert_eq!(listed(client).await, []);
        fs.hold(Op::Read, "-Data.db");
        let read = begin(&db, "SELECT v FROM ks.t WHERE k = 1").await;
        stuck(&fs).await;
        clock.advance(Duration::from_secs(3));
        assert_eq!(listed(client).await, [(3_000_000, "QUERY SELECT v FROM ks.t WHERE k = 1".to_owned())]);
        fs.release();
        read.await.unwrap();
        assert_eq!(listed(client).await, []);
        db.stop().await;
    });
}

/// Whether a trace has events that begin so, in this order.
fn tells_in_turn(events: &[(String, i32)], starts: [&str; 2]) -> bool {
    let at = |start: &str| events.iter().position(|(activity, _)| activity.starts_with(start));
    let told = starts.map(at);
    told.is_sorted() && told[0].is_some()
}

#[test]
fn a_read_that_gets_no_thread_in_time_has_waited_all_along() {
    run(async {
        let (db, clock, fs) = open(Millis(1_500)).await;
        fs.hold(Op::Read, "-Data.db");
        let begun = begin(&db, "SELECT v FROM ks.t WHERE k = 1").await;
        stuck(&fs).await;
        let waiting = begin(&db, "SELECT v FROM ks.t WHERE k = 2").await;
        clock.advance(Duration::from_millis(250));
        let ids = [begun.await.unwrap().1, waiting.await.unwrap().1];
        for (restriction, waited) in [("k = 1", 0), ("k = 2", SECOND / 4)] {
            let record = kept(&db, restriction).await;
            assert!(record.failure.is_some() && record.nanos == SECOND / 4, "{record:?}");
            assert_eq!(record.waits.reader_nanos, waited, "{restriction}");
            assert_eq!(
                record.cost.sstables_considered,
                u64::from(waited == 0),
                "what it had cost until then"
            );
        }
        fs.release();
        let client = &mut db.client(ProtocolVersion::V5).await;
        let (_, events) = trace(client, ids[1]).await;
        let wait = ("Waited 250000 us for a reader thread in vain".to_owned(), 250_000);
        assert!(events.contains(&wait), "{events:?}");
        let (_, events) = trace(client, ids[0]).await;
        assert!(
            tells_in_turn(&events, ["SSTable nb-1-big: ", "Cost: "]),
            "what it did until then: {events:?}"
        );
        db.stop().await;
    });
}

#[test]
fn a_read_that_fails_tells_its_trace_what_it_did() {
    run(async {
        let (db, _, fs) = open(Millis(30_000)).await;
        fs.add(Fault::on(Op::Read).path("-Data.db"));
        let client = db.client(ProtocolVersion::V5).await;
        let (response, id) = ask(client, "SELECT v FROM ks.t WHERE k = 1".to_owned()).await;
        assert!(matches!(error(response).0, ErrorKind::ReadFailure { .. }));
        fs.heal();
        let (_, events) = trace(&mut db.client(ProtocolVersion::V5).await, id).await;
        assert!(tells_in_turn(&events, ["SSTable nb-1-big: read ", "Cost: "]), "{events:?}");
        db.stop().await;
    });
}

#[test]
fn an_explained_read_tells_its_trace_what_it_did() {
    run(async {
        let (db, clock, fs) = open(Millis(30_000)).await;
        fs.hold(Op::Read, "-Data.db");
        let first = begin(&db, "SELECT v FROM ks.t WHERE k = 1").await;
        stuck(&fs).await;
        let explained = begin(&db, "EXPLAIN ANALYZE SELECT v FROM ks.t WHERE k = 2").await;
        clock.advance(Duration::from_secs(3));
        fs.release();
        first.await.unwrap();
        let (response, id) = explained.await.unwrap();
        let found = rows(response);
        let is_wait = |row: &&Vec<Option<Bytes>>| row[1].as_deref() == Some(b"wait");
        let wait: Vec<_> = found.rows.iter().filter(is_wait).collect();
        assert_eq!(wait.len(), 1);
        assert_eq!(wait[0][4].as_deref(), Some(&3_000_000_i64.to_be_bytes()[..]));
        let (_, events) = trace(&mut db.client(ProtocolVersion::V5).await, id).await;
        let at = |start: &str| events.iter().position(|(activity, _)| activity.starts_with(start));
        let told = ["Waited 3000000 us for a reader thread", "SSTable nb-1-big: read ", "Cost: "].map(at);
        assert!(told.is_sorted() && told[0].is_some(), "{events:?}");
        db.stop().await;
    });
}

#[test]
fn a_cold_counter_holds_up_nobody_else_of_its_thread() {
    run(async {
        let (db, _, fs) = open(Millis(30_000)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        cql(client, "CREATE TABLE ks.n (k int PRIMARY KEY, n counter)").await;
        cql(client, "UPDATE ks.n SET n = n + 1 WHERE k = 1").await;
        cql(client, "INSERT INTO ks.t (k, c, v) VALUES (50, 1, 'x')").await;
        let engine = Arc::clone(&db.node.state.engine);
        tokio::task::spawn_blocking(move || engine.flush("ks", Some("n"))).await.unwrap().unwrap();
        db.node.state.engine.page_cache().clear();
        fs.hold(Op::Read, "-Data.db");
        let statements = [
            "UPDATE ks.n SET n = n + 5 WHERE k = 1",
            "BEGIN COUNTER BATCH UPDATE ks.n SET n = n + 7 WHERE k = 1; APPLY BATCH",
            "UPDATE ks.t SET v = 'y' WHERE k = 1 AND c = 1 IF v = 'x'",
            "BEGIN BATCH UPDATE ks.t SET v = 'y' WHERE k = 2 AND c = 1 IF v = 'x'; \
             INSERT INTO ks.t (k, c, v) VALUES (2, 2, 'z'); APPLY BATCH",
        ];
        let mut writes = Vec::new();
        for statement in statements {
            // Each on a thread that others have connections on, too.
            let mut client = db.client(ProtocolVersion::V5).await;
            writes.push(tokio::spawn(async move { client.call(query(statement, params())).await }));
            stuck(&fs).await;
            for _ in 0..4 {
                let other = &mut db.client(ProtocolVersion::V5).await;
                let found = select(other, "SELECT c FROM ks.t WHERE k = 50").await;
                assert_eq!(ints(&found, 0), [1], "beside {statement}");
            }
        }
        fs.release();
        for write in writes {
            result(write.await.unwrap());
        }
        let total = select(client, "SELECT n FROM ks.n WHERE k = 1").await;
        assert_eq!(total.rows[0][0].as_deref(), Some(&13_i64.to_be_bytes()[..]));
        db.stop().await;
    });
}

#[test]
fn a_drop_that_waits_for_the_device_is_no_slow_query() {
    run(async {
        let (db, clock, fs) = open(Millis(60_000)).await;
        let metrics = &db.node.state.metrics;
        let mut client = db.client(ProtocolVersion::V5).await;
        let of_drops = |kept: Vec<(u64, Arc<ReadRecord>)>| {
            kept.iter().filter(|(_, read)| read.statement.starts_with("DROP")).count()
        };
        fs.hold(Op::Link, "snapshots");
        let dropping = tokio::spawn(async move {
            cql(&mut client, "DROP TABLE ks.t").await;
            // The next answer comes after the first request was concluded.
            cql(&mut client, "DROP KEYSPACE ks").await;
        });
        stuck(&fs).await;
        clock.advance(Duration::from_secs(1));
        let before = metrics.request(RequestKind::Query).nanos.count();
        fs.release();
        dropping.await.unwrap();
        while metrics.request(RequestKind::Query).nanos.count() < before + 2 {
            tokio::task::yield_now().await;
        }
        assert_eq!((of_drops(metrics.reads.slow.kept()), metrics.slow_queries.get()), (0, 0));
    });
}
