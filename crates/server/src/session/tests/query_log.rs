//! The full query log of requests, through a socket.

use super::*;
use crate::audit::{QueryLogError, QueryLogOptions};
use protocol::query_log::{Logged, Record, records_of};
use std::path::Path;

const DIRECTORY: &str = "/fql";

fn options() -> QueryLogOptions {
    QueryLogOptions { log_dir: Some(DIRECTORY.into()), ..QueryLogOptions::default() }
}

/// Ends the log and reads it.
async fn records(db: &Db, env: &Env) -> Vec<Record> {
    let state = Arc::clone(&db.node.state);
    tokio::task::spawn_blocking(move || state.logs.disable_queries()).await.unwrap();
    let mut records = Vec::new();
    for file in env.fs.read_dir(Path::new(DIRECTORY)).unwrap() {
        let path = Path::new(DIRECTORY).join(file.name);
        let bytes = env.fs.read(&path).unwrap();
        records.extend(records_of(&path, bytes.into()).unwrap().map(|record| record.expect("a record")));
    }
    records
}

#[test]
fn what_succeeds_is_kept_with_its_values() {
    run(async {
        let env = Env::for_test(801);
        let db = Db::open(&env).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        create(client).await;
        db.node.state.logs.enable_queries(&options()).unwrap();
        let insert = "INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)";
        let with_timestamp =
            QueryParams { timestamp_us: Some(7), ..with_values(vec![int(1), int(1), text("one")]) };
        result(client.call(query(insert, with_timestamp.clone())).await);
        error(client.call(query("SELECT * FROM ks.nope", params())).await);
        cql(client, "USE ks").await;
        let prepared = prepare(client, "SELECT v FROM t WHERE k = ?").await;
        let one = with_values(vec![int(1)]);
        result(client.call(execute(&prepared, one.clone())).await);
        let insert_id = prepare(client, insert).await.id;
        let values = vec![int(2), int(2), text("two")];
        let prepared_part =
            BatchStatement { text: StatementText::Prepared(insert_id[..].into()), values: values.clone() };
        let batch = Batch { kind: BatchKind::Unlogged, statements: vec![prepared_part], params: params() };
        result(client.call(Request::Batch(batch.clone())).await);
        let records = records(&db, &env).await;
        let requests: Vec<&Logged> = records.iter().map(|record| &record.request).collect();
        let single = |statement: &str, params: QueryParams| {
            Logged::Query(Query { statement: statement.to_owned(), params })
        };
        let as_text = BatchStatement { text: StatementText::Query(insert.to_owned()), values };
        assert_eq!(
            requests,
            [
                &single(insert, with_timestamp),
                &single("USE ks", params()),
                &single("SELECT v FROM t WHERE k = ?", one),
                &Logged::Batch(Batch { statements: vec![as_text], ..batch }),
            ]
        );
        assert_eq!((records[0].generated_timestamp, records[0].keyspace.as_deref()), (i64::MIN, None));
        assert_eq!(records[3].keyspace.as_deref(), Some("ks"));
        assert!(records[3].generated_timestamp > 0 && records[3].generated_now_s > 0);
        assert_eq!(records[2].version, ProtocolVersion::V5);
        db.stop().await;
    });
}

#[test]
fn it_is_on_once_and_a_reset_removes_its_files() {
    run(async {
        let env = Env::for_test(802);
        let db = Db::open(&env).await;
        let logs = &db.node.state.logs;
        assert!(matches!(logs.enable_queries(&QueryLogOptions::default()), Err(QueryLogError::NoDirectory)));
        logs.enable_queries(&options()).unwrap();
        assert!(matches!(logs.enable_queries(&options()), Err(QueryLogError::IsOn)));
        assert!(logs.query_options().0 && logs.is_any_on());
        let client = &mut db.client(ProtocolVersion::V4).await;
        cql(client, "SELECT key FROM system.local").await;
        env.fs.write("/fql/kept.txt".as_ref(), b"x").unwrap();
        let state = Arc::clone(&db.node.state);
        let removed = tokio::task::spawn_blocking(move || state.logs.reset_queries()).await.unwrap();
        assert_eq!(removed.unwrap(), 1);
        assert!(!logs.is_any_on());
        let left: Vec<_> =
            env.fs.read_dir("/fql".as_ref()).unwrap().into_iter().map(|file| file.name).collect();
        assert_eq!(left, ["kept.txt"]);
        db.stop().await;
    });
}
