//! What an application does with the `scylla` driver (protocol version 4), against ADDRESS PORT. Prints a
//! line for each part that holds; a panic ends it with a status that is not 0.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use scylla::client::execution_profile::ExecutionProfile;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::client::Compression;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::statement::Consistency;
use scylla::value::{Counter, CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlVarint};
use scylla::{DeserializeValue, SerializeValue};
use uuid::Uuid;

const KEYSPACE: &str = "drivers_rust";

#[derive(Debug, PartialEq, SerializeValue, DeserializeValue)]
struct Point {
    x: i32,
    y: Option<String>,
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (address, port) = (arguments.next().expect("ADDRESS"), arguments.next().expect("PORT"));
    let node = format!("{address}:{port}");
    for compression in [None, Some(Compression::Lz4), Some(Compression::Snappy)] {
        let session = connect(&node, compression).await;
        execute(&session, &format!("DROP KEYSPACE IF EXISTS {KEYSPACE}")).await;
        execute(
            &session,
            &format!("CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"),
        )
        .await;
        session.use_keyspace(KEYSPACE, false).await.expect("USE");
        part("types", compression, all_types(&session)).await;
        part("paging", compression, paging(&session)).await;
        part("batches", compression, batches(&session)).await;
        part("lightweight transactions", compression, lightweight_transactions(&session)).await;
        part("schema metadata", compression, schema_metadata(&session)).await;
        part("metadata refresh", compression, metadata_refresh(&session, &node)).await;
        part("tracing", compression, tracing(&session)).await;
        part("errors", compression, errors(&session)).await;
        part("concurrency", compression, concurrency(&session)).await;
        execute(&session, &format!("DROP KEYSPACE {KEYSPACE}")).await;
    }
    println!("done");
}

async fn part(name: &str, compression: Option<Compression>, run: impl Future<Output = ()>) {
    run.await;
    println!("{compression:?} {name}");
}

async fn connect(node: &str, compression: Option<Compression>) -> Session {
    let profile = ExecutionProfile::builder()
        .consistency(Consistency::One)
        .request_timeout(Some(Duration::from_secs(60)))
        .build();
    SessionBuilder::new()
        .known_node(node)
        .compression(compression)
        // The driver cannot parse some type names that are legal; what other keyspaces hold is not its
        // business here.
        .keyspaces_to_fetch([KEYSPACE])
        .cluster_metadata_refresh_interval(Duration::from_secs(1))
        .connection_timeout(Duration::from_secs(60))
        .default_execution_profile_handle(profile.into_handle())
        .build()
        .await
        .expect("a session")
}

async fn execute(session: &Session, statement: &str) {
    session.query_unpaged(statement, &[]).await.unwrap_or_else(|e| panic!("{statement}: {e}"));
}

/// Writes a value into a column of the type and reads it back.
macro_rules! round_trip {
    ($session:expr, $($cql:literal: $rust:ty = $value:expr;)*) => {$({
        let table = format!("type_{}", $cql.replace(|c: char| !c.is_alphanumeric(), "_"));
        execute($session, &format!("CREATE TABLE {table} (k int PRIMARY KEY, v {})", $cql)).await;
        let insert = $session.prepare(format!("INSERT INTO {table} (k, v) VALUES (?, ?)")).await.expect("prepare");
        let value: $rust = $value;
        $session.execute_unpaged(&insert, (1, &value)).await.expect($cql);
        $session.execute_unpaged(&insert, (2, None::<$rust>)).await.expect($cql);
        let select = $session.prepare(format!("SELECT v FROM {table} WHERE k = ?")).await.expect("prepare");
        for (k, wanted) in [(1, Some(value)), (2, None)] {
            let rows = $session.execute_unpaged(&select, (k,)).await.expect($cql).into_rows_result().expect("rows");
            let (got,) = rows.single_row::<(Option<$rust>,)>().expect($cql);
            assert_eq!(wanted, got, $cql);
        }
    })*};
}

async fn all_types(session: &Session) {
    execute(session, "CREATE TYPE point (x int, y text)").await;
    let id = Uuid::parse_str("50554d6e-29bb-11e5-b345-feff819cdc9f").expect("uuid");
    round_trip! {session,
        "ascii": String = "ascii".into();
        "bigint": i64 = i64::MAX;
        "blob": Vec<u8> = vec![0, 255];
        "boolean": bool = true;
        "date": CqlDate = CqlDate(1 << 31);
        "decimal": CqlDecimal = CqlDecimal::from_signed_be_bytes_and_exponent(vec![0, 150], 2);
        "double": f64 = -1.5e300;
        "duration": CqlDuration = CqlDuration { months: 1, days: 2, nanoseconds: 3 };
        "float": f32 = 0.5;
        "inet": IpAddr = "2001:db8::1".parse().expect("address");
        "int": i32 = i32::MIN;
        "smallint": i16 = i16::MIN;
        "text": String = "žluť 🦀".into();
        "time": CqlTime = CqlTime(86_399_999_999_999);
        "timestamp": CqlTimestamp = CqlTimestamp(1_709_208_000_123);
        "timeuuid": CqlTimeuuid = CqlTimeuuid::from(id);
        "tinyint": i8 = i8::MIN;
        "uuid": Uuid = id;
        "varint": CqlVarint = CqlVarint::from_signed_bytes_be(vec![0xff, 0x00, 0x01]);
        "list<int>": Vec<i32> = vec![3, 1, 2];
        "set<text>": HashSet<String> = HashSet::from(["a".to_owned(), "b".to_owned()]);
        "map<text, int>": HashMap<String, i32> = HashMap::from([("x".to_owned(), 1)]);
        "tuple<int, text>": (i32, String) = (1, "one".into());
        "frozen<point>": Point = Point { x: 1, y: None };
        "list<frozen<point>>": Vec<Point> = vec![Point { x: 1, y: Some("y".into()) }];
        "vector<float, 3>": Vec<f32> = vec![1.0, 2.5, -3.0];
    }
}

async fn paging(session: &Session) {
    execute(session, "CREATE TABLE pages (k int, c int, PRIMARY KEY (k, c))").await;
    let insert = session.prepare("INSERT INTO pages (k, c) VALUES (?, ?)").await.expect("prepare");
    for c in 0..100 {
        session.execute_unpaged(&insert, (c % 3, c)).await.expect("insert");
    }
    for size in [7, 100, 1000] {
        let select = Statement::new("SELECT c FROM pages").with_page_size(size);
        let rows = session.query_iter(select, &[]).await.expect("select").rows_stream::<(i32,)>().expect("types");
        let seen: HashSet<(i32,)> = rows.try_collect().await.expect("rows");
        assert_eq!(100, seen.len());
    }
    let mut select = session.prepare("SELECT c FROM pages WHERE k = ?").await.expect("prepare");
    select.set_page_size(10);
    let (first, state) = session.execute_single_page(&select, (1,), PagingState::start()).await.expect("first page");
    assert_eq!(10, first.into_rows_result().expect("rows").rows_num());
    let PagingStateResponse::HasMorePages { state } = state else { panic!("no more pages") };
    let (rest, _) = session.execute_single_page(&select, (1,), state).await.expect("second page");
    let (c,) = rest.into_rows_result().expect("rows").first_row::<(i32,)>().expect("row");
    assert_eq!(31, c);
}

async fn batches(session: &Session) {
    execute(session, "CREATE TABLE batches (k int PRIMARY KEY, v int)").await;
    execute(session, "CREATE TABLE counts (k int PRIMARY KEY, c counter)").await;
    for kind in [BatchType::Logged, BatchType::Unlogged] {
        let mut batch = Batch::new(kind);
        batch.append_statement("INSERT INTO batches (k, v) VALUES (?, ?)");
        batch.append_statement("INSERT INTO batches (k, v) VALUES (2, 2)");
        session.batch(&batch, ((1, 1), ())).await.expect("batch");
    }
    let rows = session.query_unpaged("SELECT k FROM batches", &[]).await.expect("select");
    assert_eq!(2, rows.into_rows_result().expect("rows").rows_num());
    let mut batch = Batch::new(BatchType::Counter);
    batch.append_statement("UPDATE counts SET c = c + ? WHERE k = ?");
    batch.append_statement("UPDATE counts SET c = c + 2 WHERE k = 1");
    session.batch(&batch, ((Counter(1), 1), ())).await.expect("counter batch");
    let rows = session.query_unpaged("SELECT c FROM counts", &[]).await.expect("select").into_rows_result();
    assert_eq!((Counter(3),), rows.expect("rows").single_row().expect("row"));
}

async fn lightweight_transactions(session: &Session) {
    execute(session, "CREATE TABLE lwt (k int PRIMARY KEY, v int)").await;
    let insert = session.prepare("INSERT INTO lwt (k, v) VALUES (?, ?) IF NOT EXISTS").await.expect("prepare");
    for (v, wanted) in [(1, (true, None, None)), (2, (false, Some(1), Some(1)))] {
        let rows = session.execute_unpaged(&insert, (1, v)).await.expect("insert").into_rows_result().expect("rows");
        // The first answer has only [applied]; the driver matches by position, so it is read by the columns
        // there are.
        if rows.column_specs().len() == 1 {
            assert_eq!((wanted.0,), rows.single_row::<(bool,)>().expect("row"));
        } else {
            assert_eq!(wanted, rows.single_row::<(bool, Option<i32>, Option<i32>)>().expect("row"));
        }
    }
}

async fn schema_metadata(session: &Session) {
    execute(
        session,
        "CREATE TABLE meta (a int, b text, c int, d text, s int STATIC, v frozen<point>, PRIMARY KEY ((a, b), c, d))",
    )
    .await;
    session.refresh_metadata().await.expect("metadata");
    let state = session.get_cluster_state();
    let keyspace = state.get_keyspace(KEYSPACE).expect("keyspace");
    let table = &keyspace.tables["meta"];
    assert_eq!(["a", "b"], table.partition_key[..]);
    assert_eq!(["c", "d"], table.clustering_key[..]);
    assert_eq!(6, table.columns.len());
    assert!(keyspace.user_defined_types.contains_key("point"));
    session.await_schema_agreement().await.expect("agreement");
}

/// The driver does not act on schema events; it reads the metadata again from time to time.
async fn metadata_refresh(session: &Session, node: &str) {
    let other = connect(node, None).await;
    execute(session, "CREATE TABLE pushed (k int PRIMARY KEY)").await;
    for _ in 0..600 {
        let state = other.get_cluster_state();
        if state.get_keyspace(KEYSPACE).is_some_and(|k| k.tables.contains_key("pushed")) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the created table was not seen");
}

async fn tracing(session: &Session) {
    execute(session, "CREATE TABLE traced (k int PRIMARY KEY)").await;
    let mut insert = Statement::new("INSERT INTO traced (k) VALUES (1)");
    insert.set_tracing(true);
    let id = session.query_unpaged(insert, &[]).await.expect("insert").tracing_id().expect("a tracing id");
    let trace = session.get_tracing_info(&id).await.expect("trace");
    assert!(!trace.events.is_empty());
    assert_eq!("INSERT INTO traced (k) VALUES (1)", trace.parameters.expect("parameters")["query"]);
}

async fn errors(session: &Session) {
    assert!(matches!(fails(session, "SELEC".into()).await, DbError::SyntaxError));
    assert!(matches!(fails(session, "SELECT * FROM nope".into()).await, DbError::Invalid));
    let DbError::AlreadyExists { keyspace, table } = fails(session, "CREATE TABLE traced (k int PRIMARY KEY)".into()).await
    else {
        panic!("not already exists")
    };
    assert_eq!((KEYSPACE, "traced"), (keyspace.as_str(), table.as_str()));
    let mut insert = Statement::new("INSERT INTO traced (k) VALUES (1)");
    insert.set_consistency(Consistency::Two);
    let DbError::Unavailable { required, alive, .. } = fails(session, insert).await else { panic!("not unavailable") };
    assert_eq!((2, 1), (required, alive));
}

async fn fails(session: &Session, statement: Statement) -> DbError {
    match session.query_unpaged(statement, &[]).await {
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _))) => error,
        other => panic!("expected an error of the server, got {other:?}"),
    }
}

async fn concurrency(session: &Session) {
    execute(session, "CREATE TABLE flight (k int PRIMARY KEY, v int)").await;
    let insert = Arc::new(session.prepare("INSERT INTO flight (k, v) VALUES (?, ?)").await.expect("prepare"));
    let select = Arc::new(session.prepare("SELECT v FROM flight WHERE k = ?").await.expect("prepare"));
    stream::iter(0..1000)
        .for_each_concurrent(200, |k: i32| {
            let (insert, select) = (insert.clone(), select.clone());
            async move {
                session.execute_unpaged(&insert, (k, k * k)).await.expect("insert");
                let rows = session.execute_unpaged(&select, (k,)).await.expect("select").into_rows_result();
                assert_eq!((k * k,), rows.expect("rows").single_row::<(i32,)>().expect("row"));
            }
        })
        .await;
}
