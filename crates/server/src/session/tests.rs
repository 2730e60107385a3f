//! Whole requests against a node in memory, through a real socket.
#![allow(clippy::disallowed_methods, reason = "threads and waits of a test")]

mod audit;
mod estimates;
mod explain;
mod faults;
mod in_place;
mod long;
mod memory;
mod pages;
mod prepared;
mod query_log;
mod restarts;
mod rewriting;
mod roles;
mod secrets;
mod sizes;
mod tablestats;
mod timeouts;
mod waits;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use env::Env;
use model::Consistency;
use protocol::primitives::Value;
use protocol::request::{
    Batch, BatchKind, BatchStatement, Execute, Message, Prepare, Query, QueryParams, Register, Request,
    StatementText,
};
use protocol::response::error::ErrorKind;
use protocol::response::event::EventKind;
use protocol::response::prepared::Prepared;
use protocol::response::rows::Rows;
use protocol::response::schema_change::{ChangeKind, ChangeTarget};
use protocol::response::{self, Event, Response, ResultBody};
use protocol::{Compression, ProtocolVersion};
use tokio::net::TcpListener;

use super::Sessions;
use crate::cli::ServeArgs;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::net::tests::client::Client;
use crate::net::{NetOptions, Server};
use crate::node::Node;

/// A node that lives until [`Db::stop`]; its files stay in the environment.
struct Db {
    node: Arc<Node>,
    server: Server,
}

impl Db {
    async fn open(env: &Env) -> Db {
        Db::open_with(env, |_| {}).await
    }

    async fn open_with(env: &Env, change: impl FnOnce(&mut Config)) -> Db {
        let args = ServeArgs { data_dir: Some("/ilion".into()), ..ServeArgs::default() };
        let mut config = Config::load(env, &args, std::iter::empty()).expect("defaults are valid");
        change(&mut config);
        let env = env.clone();
        let node = tokio::task::spawn_blocking(move || Node::open(env, config, Arc::new(Metrics::default())))
            .await
            .unwrap()
            .expect("the node opens");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let registry = Arc::clone(&node.state.connections);
        let server = {
            let threads = crate::net::Threads::start(2, || ()).unwrap();
            Server::start(listener, NetOptions::default(), Sessions::new(&node), registry, threads).unwrap()
        };
        Db { node, server }
    }

    async fn client(&self, version: ProtocolVersion) -> Client {
        Client::start(self.server.local_addr(), version, None).await
    }

    /// Ends the node as a crash would: nothing is flushed.
    async fn stop(self) {
        self.server.shutdown(Duration::from_secs(5)).await;
        let node = self.node;
        tokio::task::spawn_blocking(move || node.state.engine.close()).await.unwrap();
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bound = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(bound, test).await.expect("the test hangs") });
}

fn params() -> QueryParams {
    QueryParams::new(Consistency::One)
}

fn query(statement: &str, params: QueryParams) -> Request {
    Request::Query(Query { statement: statement.to_owned(), params })
}

fn int(number: i32) -> Value {
    Value::Set(Bytes::copy_from_slice(&number.to_be_bytes()))
}

fn text(text: &str) -> Value {
    Value::Set(Bytes::copy_from_slice(text.as_bytes()))
}

fn with_values(values: Vec<Value>) -> QueryParams {
    QueryParams { values, ..params() }
}

/// Runs a statement that must succeed.
async fn cql(client: &mut Client, statement: &str) -> ResultBody {
    result(client.call(query(statement, params())).await)
}

fn result(response: Response) -> ResultBody {
    match response {
        Response::Result(body) => body,
        other => panic!("{other:?}"),
    }
}

fn rows(response: Response) -> Rows {
    match result(response) {
        ResultBody::Rows(rows) => rows,
        other => panic!("{other:?}"),
    }
}

async fn select(client: &mut Client, statement: &str) -> Rows {
    rows(client.call(query(statement, params())).await)
}

fn error(response: Response) -> (ErrorKind, String) {
    match response {
        Response::Error(error) => (error.kind, error.message),
        other => panic!("{other:?}"),
    }
}

fn ints(rows: &Rows, column: usize) -> Vec<i32> {
    let value = |row: &Vec<Option<Bytes>>| {
        let bytes = row[column].clone().expect("no null");
        i32::from_be_bytes(bytes.as_ref().try_into().expect("four bytes"))
    };
    rows.rows.iter().map(value).collect()
}

async fn prepare(client: &mut Client, statement: &str) -> Prepared {
    let request = Request::Prepare(Prepare { statement: statement.to_owned(), keyspace: None });
    match result(client.call(request).await) {
        ResultBody::Prepared(prepared) => prepared,
        other => panic!("{other:?}"),
    }
}

fn execute(prepared: &Prepared, params: QueryParams) -> Request {
    let result_metadata_id = Some(prepared.result_metadata_id[..].into());
    Request::Execute(Execute { id: prepared.id[..].into(), result_metadata_id, params })
}

const KEYSPACE: &str =
    "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const TABLE: &str = "CREATE TABLE ks.t (k int, c int, v text, PRIMARY KEY (k, c))";

async fn create(client: &mut Client) {
    cql(client, KEYSPACE).await;
    cql(client, TABLE).await;
}

#[test]
fn what_is_written_is_read_in_every_version() {
    run(async {
        let db = Db::open(&Env::for_test(1)).await;
        create(&mut db.client(ProtocolVersion::V5).await).await;
        for (key, version) in (0..).zip(ProtocolVersion::ALL) {
            let mut client = db.client(version).await;
            let insert = "INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)";
            let values = with_values(vec![int(key), int(1), text("one")]);
            assert_eq!(result(client.call(query(insert, values)).await), ResultBody::Void);
            let read = query("SELECT v FROM ks.t WHERE k = ?", with_values(vec![int(key)]));
            let rows = rows(client.call(read).await);
            assert_eq!(rows.rows, [[Some(Bytes::from("one"))]], "{version}");
            assert_eq!(rows.columns.expect("metadata")[0].name, "v");
        }
    });
}

#[test]
fn values_may_be_named_unset_or_null() {
    run(async {
        let db = Db::open(&Env::for_test(2)).await;
        let mut client = db.client(ProtocolVersion::V4).await;
        create(&mut client).await;
        let names = vec!["v".to_owned(), "c".to_owned(), "k".to_owned()];
        let named =
            QueryParams { names: Some(names), values: vec![text("named"), int(2), int(1)], ..params() };
        let insert = "INSERT INTO ks.t (k, c, v) VALUES (:k, :c, :v)";
        assert_eq!(result(client.call(query(insert, named.clone())).await), ResultBody::Void);
        // A value with another name is none for the marker.
        let names = Some(vec!["w".to_owned(), "c".to_owned(), "k".to_owned()]);
        let misnamed = QueryParams { names, ..named };
        let (kind, message) = error(client.call(query(insert, misnamed.clone())).await);
        assert_eq!((kind, &*message), (ErrorKind::Invalid, "Invalid amount of bind variables"));
        let id = prepare(&mut client, insert).await;
        let (kind, message) = error(client.call(execute(&id, misnamed)).await);
        let told = "there were 3 markers(?) in CQL but 2 bound variables";
        assert_eq!((kind, &*message), (ErrorKind::Invalid, told));
        let positional = "INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)";
        for value in [Value::Unset, Value::Null] {
            let before = select(&mut client, "SELECT v FROM ks.t WHERE k = 1").await;
            assert_eq!(before.rows, [[Some(Bytes::from("named"))]], "unset leaves what is there");
            let values = with_values(vec![int(1), int(2), value]);
            result(client.call(query(positional, values)).await);
        }
        assert_eq!(select(&mut client, "SELECT v FROM ks.t WHERE k = 1").await.rows, [[None]]);
        let (kind, _) = error(client.call(query(positional, with_values(vec![int(1)]))).await);
        assert_eq!(kind, ErrorKind::Invalid);
    });
}

#[test]
fn conditional_writes_ask_for_each_data_center_only_where_there_are_some() {
    run(async {
        let db = Db::open(&Env::for_test(3)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let each = QueryParams { consistency: Consistency::EachQuorum, ..params() };
        let insert = "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'x')";
        assert_eq!(result(client.call(query(insert, each.clone())).await), ResultBody::Void);
        let conditional = "UPDATE ks.t SET v = 'y' WHERE k = 1 AND c = 1 IF v = 'x'";
        let (kind, message) = error(client.call(query(conditional, each.clone())).await);
        let told = "consistency level EACH_QUORUM not compatible with replication strategy \
                    (org.apache.cassandra.locator.SimpleStrategy)";
        assert_eq!((kind, &*message), (ErrorKind::Invalid, told));
        let alter =
            "ALTER KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}";
        result(client.call(query(alter, params())).await);
        assert_eq!(
            rows(client.call(query(conditional, each)).await).rows,
            [[Some(Bytes::from_static(&[1]))]]
        );
    });
}

#[test]
fn timestamps_and_the_present_come_with_the_request() {
    run(async {
        let db = Db::open(&Env::for_test(3)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let stamped = QueryParams { timestamp_us: Some(77), ..params() };
        let insert = "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'x')";
        result(client.call(query(insert, stamped)).await);
        let found = select(&mut client, "SELECT writetime(v) FROM ks.t WHERE k = 1").await;
        assert_eq!(found.rows, [[Some(Bytes::copy_from_slice(&77i64.to_be_bytes()))]]);

        let at = |now| QueryParams { now_in_seconds: Some(now), ..params() };
        let expiring = "INSERT INTO ks.t (k, c, v) VALUES (2, 1, 'x') USING TTL 10";
        result(client.call(query(expiring, at(1_000))).await);
        for (now, count) in [(1_009, 1), (1_010, 0)] {
            let found = rows(client.call(query("SELECT v FROM ks.t WHERE k = 2", at(now))).await);
            assert_eq!(found.rows.len(), count, "at {now}");
        }
    });
}

#[test]
fn the_keyspace_is_the_requests_or_the_one_in_use() {
    run(async {
        let db = Db::open(&Env::for_test(4)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let (kind, message) = error(client.call(query("SELECT * FROM t", params())).await);
        assert_eq!(kind, ErrorKind::Invalid);
        assert!(message.starts_with("No keyspace has been specified"), "{message}");
        let with_keyspace = QueryParams { keyspace: Some("ks".to_owned()), ..params() };
        assert!(rows(client.call(query("SELECT * FROM t", with_keyspace)).await).rows.is_empty());
        assert_eq!(cql(&mut client, "USE ks").await, ResultBody::SetKeyspace("ks".to_owned()));
        assert!(select(&mut client, "SELECT * FROM t").await.rows.is_empty());
        let (kind, _) = error(client.call(query("USE nowhere", params())).await);
        assert_eq!(kind, ErrorKind::Invalid);
    });
}

#[test]
fn conditional_writes_answer_what_they_found() {
    run(async {
        let db = Db::open(&Env::for_test(15)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let insert = "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'a') IF NOT EXISTS";
        let applied = select(&mut client, insert).await;
        assert_eq!(applied.rows, [[Some(Bytes::from_static(&[1]))]]);
        let refused = select(&mut client, insert).await;
        let names: Vec<String> = refused.columns.expect("columns").into_iter().map(|c| c.name).collect();
        assert_eq!(names, ["[applied]", "k", "c", "v"]);
        assert_eq!(refused.rows[0][0], Some(Bytes::from_static(&[0])));
        assert_eq!(refused.rows[0][3], Some(Bytes::from("a")));
        let update = "UPDATE ks.t SET v = 'b' WHERE k = 1 AND c = 1 IF v = 'a'";
        assert_eq!(select(&mut client, update).await.rows, [[Some(Bytes::from_static(&[1]))]]);
        assert_eq!(select(&mut client, "SELECT v FROM ks.t").await.rows, [[Some(Bytes::from("b"))]]);
    });
}

#[test]
fn batches_mix_texts_and_prepared_statements() {
    run(async {
        let db = Db::open(&Env::for_test(16)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let insert = prepare(&mut client, "INSERT INTO ks.t (k, c, v) VALUES (?, ?, 'p')").await;
        let part = |text, values| BatchStatement { text, values };
        let batch = |kind, statements| Request::Batch(Batch { kind, statements, params: params() });
        let text_part = || StatementText::Query("INSERT INTO ks.t (k, c, v) VALUES (2, ?, 't')".to_owned());
        for (c, kind) in [(1, BatchKind::Logged), (2, BatchKind::Unlogged)] {
            let parts = vec![
                part(StatementText::Prepared(insert.id[..].into()), vec![int(1), int(c)]),
                part(text_part(), vec![int(c)]),
            ];
            assert_eq!(result(client.call(batch(kind, parts)).await), ResultBody::Void);
        }
        assert_eq!(ints(&select(&mut client, "SELECT c FROM ks.t WHERE k = 1").await, 0), [1, 2]);
        assert_eq!(ints(&select(&mut client, "SELECT c FROM ks.t WHERE k = 2").await, 0), [1, 2]);
        let (kind, message) =
            error(client.call(batch(BatchKind::Logged, vec![part(text_part(), vec![])])).await);
        assert_eq!(kind, ErrorKind::Invalid);
        assert_eq!(message, "There were 1 markers(?) in CQL but 0 bound variables");
        let read = StatementText::Query("SELECT * FROM ks.t".to_owned());
        let (kind, _) = error(client.call(batch(BatchKind::Logged, vec![part(read, vec![])])).await);
        assert_eq!(kind, ErrorKind::Invalid);
        let pending = select(&mut client, "SELECT id FROM system.batches").await;
        assert!(pending.rows.is_empty(), "a finished batch leaves nothing in the log");
    });
}

#[test]
fn large_batches_warn_and_the_largest_are_refused() {
    run(async {
        let db = Db::open(&Env::for_test(17)).await;
        let mut client = db.client(ProtocolVersion::V4).await;
        create(&mut client).await;
        let batch = |count: i32| {
            let text = |k| format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, '{}')", "x".repeat(1_000));
            let part = |k| BatchStatement { text: StatementText::Query(text(k)), values: Vec::new() };
            let statements = (0..count).map(part).collect();
            let request = Request::Batch(Batch { kind: BatchKind::Logged, statements, params: params() });
            Message { tracing: false, payload: None, request }
        };
        let answer: response::Message = client.exchange(batch(10)).await;
        assert!(answer.extras.warnings[0].starts_with("Batch for [ks.t] is of size"), "{answer:?}");
        let (kind, message) = error(client.exchange(batch(60)).await.response);
        assert_eq!((kind, message.as_str()), (ErrorKind::Invalid, "Batch too large"));
    });
}

#[test]
fn counters_count() {
    run(async {
        let db = Db::open(&Env::for_test(18)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        cql(&mut client, "CREATE TABLE ks.n (k int PRIMARY KEY, n counter)").await;
        for by in ["+ 5", "- 2"] {
            cql(&mut client, &format!("UPDATE ks.n SET n = n {by} WHERE k = 1")).await;
        }
        let found = select(&mut client, "SELECT n FROM ks.n WHERE k = 1").await;
        assert_eq!(found.rows, [[Some(Bytes::copy_from_slice(&3i64.to_be_bytes()))]]);
    });
}

#[test]
fn schema_changes_are_answered_and_told() {
    run(async {
        let db = Db::open(&Env::for_test(19)).await;
        let mut listener = db.client(ProtocolVersion::V5).await;
        let register = Request::Register(Register { kinds: vec![EventKind::SchemaChange] });
        assert_eq!(listener.call(register).await, Response::Ready);
        let mut client = db.client(ProtocolVersion::V5).await;
        for statement in
            [KEYSPACE, TABLE, "ALTER TABLE ks.t ADD w int", "DROP TABLE ks.t", "DROP KEYSPACE ks"]
        {
            let ResultBody::SchemaChange(change) = cql(&mut client, statement).await else { panic!() };
            assert_eq!(listener.receive().await, (-1, Response::Event(Event::Schema(change))));
        }
        let with_types = ["CREATE TYPE ks.y (a int)", "CREATE TABLE ks.t (k int PRIMARY KEY, y ks.y)"];
        for statement in
            [KEYSPACE, with_types[0], with_types[1], "ALTER TYPE ks.y ADD b int", "DROP KEYSPACE ks"]
        {
            cql(&mut client, statement).await;
        }
        let mut told = Vec::new();
        for _ in 0..8 {
            let (_, Response::Event(Event::Schema(change))) = listener.receive().await else { panic!() };
            told.push((change.kind, change.target));
        }
        let name = |name: &str| name.to_owned();
        let (t, y) = (ChangeTarget::Table { name: name("t") }, ChangeTarget::Type { name: name("y") });
        let more = [
            (ChangeKind::Updated, y.clone()),
            (ChangeKind::Updated, t.clone()),
            (ChangeKind::Dropped, t),
            (ChangeKind::Dropped, y),
            (ChangeKind::Dropped, ChangeTarget::Keyspace),
        ];
        assert_eq!(told[3..], more, "what a change brings along is told, too");
        cql(&mut client, KEYSPACE).await;
        let (kind, message) = error(client.call(query(KEYSPACE, params())).await);
        assert_eq!(kind, ErrorKind::AlreadyExists { keyspace: "ks".to_owned(), table: String::new() });
        assert_eq!(message, "Cannot add existing keyspace \"ks\"");
        let harmless = KEYSPACE.replace("KEYSPACE ks", "KEYSPACE IF NOT EXISTS ks");
        assert_eq!(cql(&mut client, &harmless).await, ResultBody::Void);
    });
}

#[test]
fn consistency_that_one_replica_cannot_meet_is_unavailable() {
    run(async {
        let db = Db::open(&Env::for_test(20)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let two = QueryParams::new(Consistency::Two);
        let (kind, message) = error(client.call(query("SELECT * FROM ks.t WHERE k = 1", two)).await);
        assert_eq!(kind, ErrorKind::Unavailable { consistency: Consistency::Two, required: 2, alive: 1 });
        assert_eq!(message, "Cannot achieve consistency level TWO");
    });
}

#[test]
fn a_traced_request_is_written_down() {
    run(async {
        let db = Db::open(&Env::for_test(21)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let request = query("SELECT * FROM ks.t WHERE k = 1", params());
        let answer = client.exchange(Message { tracing: true, payload: None, request }).await;
        let id = answer.extras.tracing_id.expect("a tracing id");
        let session = format!("SELECT duration, request FROM system_traces.sessions WHERE session_id = {id}");
        let found = loop {
            let found = select(&mut client, &session).await;
            if !found.rows.is_empty() {
                break found;
            }
            tokio::task::yield_now().await;
        };
        assert!(found.rows[0][0].is_some());
        assert_eq!(found.rows[0][1], Some(Bytes::from("Execute CQL3 query")));
        let events = format!("SELECT activity FROM system_traces.events WHERE session_id = {id}");
        let activities = select(&mut client, &events).await;
        assert!(
            activities
                .rows
                .iter()
                .any(|row| row[0].as_deref() == Some("Executing single-partition query on t".as_bytes()))
        );
    });
}

#[test]
fn text_that_is_not_cql_is_a_syntax_error() {
    run(async {
        let db = Db::open(&Env::for_test(23)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        assert_eq!(error(client.call(query("SELEKT 1", params())).await).0, ErrorKind::Syntax);
    });
}
