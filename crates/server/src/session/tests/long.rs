//! Requests that are long: they begin on the pool of readers. And what INs multiply to.

use super::waits::{begin, open, stuck};
use super::*;
use crate::config::Millis;
use env::fs::faulty::Op;

/// A statement of more bytes than a network thread parses.
fn long_insert(k: i32) -> String {
    format!("INSERT INTO ks.t (k, c, v) VALUES ({k}, 1, '{}')", "x".repeat(100_000))
}

/// One, in many digits.
fn long_one() -> String {
    format!("{}1", "0".repeat(70_000))
}

#[test]
fn a_long_request_keeps_no_network_thread() {
    run(async {
        let (db, _, fs) = open(Millis(30_000)).await;
        fs.hold(Op::Read, "-Data.db");
        let reader = begin(&db, "SELECT v FROM ks.t WHERE k = 1").await;
        stuck(&fs).await;
        // The only reader thread is held: a long request waits for it, short ones do not.
        let long = begin(&db, &long_insert(50)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        assert_eq!(cql(client, "INSERT INTO ks.t (k, c, v) VALUES (51, 1, 'y')").await, ResultBody::Void);
        assert!(!long.is_finished());
        fs.release();
        assert!(matches!(reader.await.unwrap().0, Response::Result(ResultBody::Rows(_))));
        assert_eq!(result(long.await.unwrap().0), ResultBody::Void);
        let found = select(client, "SELECT v FROM ks.t WHERE k = 50").await;
        assert_eq!(found.rows[0][0].as_ref().unwrap().len(), 100_000);
        db.stop().await;
    });
}

#[test]
fn long_requests_of_every_kind_are_answered() {
    run(async {
        let db = Db::open(&Env::for_test(41)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        create(client).await;
        // Prepared: what is written down of it is written from there, too.
        let request =
            Request::Prepare(protocol::request::Prepare { statement: long_insert(1), keyspace: None });
        assert!(matches!(result(client.call(request).await), ResultBody::Prepared(_)));
        // A batch whose mutations are merged elsewhere.
        let statements: String =
            (0..2_000).map(|c| format!("INSERT INTO ks.t (k, c, v) VALUES (2, {c}, 'some text');")).collect();
        assert_eq!(cql(client, &format!("BEGIN BATCH {statements} APPLY BATCH")).await, ResultBody::Void);
        let names: Vec<String> = (0..2_000).map(|c| format!("{c:040}")).collect();
        let read = format!("SELECT c FROM ks.t WHERE k = 2 AND c IN ({})", names.join(", "));
        assert!(read.len() > 64 << 10);
        assert_eq!(select(client, &read).await.rows.len(), 2_000);
        // A long statement by its id.
        let list: Vec<String> = (0..9_000).map(|c| c.to_string()).collect();
        let statement =
            format!("SELECT c FROM ks.t WHERE k = ? AND c IN ({}, {})", long_one(), list.join(", "));
        let prepared = prepare(client, &statement).await;
        let answer = client.call(execute(&prepared, with_values(vec![int(2)]))).await;
        assert_eq!(rows(answer).rows.len(), 2_000);
        // Values alone.
        let insert = "INSERT INTO ks.t (k, c, v) VALUES (3, 1, ?)";
        let long = with_values(vec![text(&"y".repeat(300_000))]);
        assert_eq!(result(client.call(query(insert, long)).await), ResultBody::Void);
        // What is wrong with one is said.
        let wrong = format!("SELECT nothing FROM ks.t WHERE k = {}", long_one());
        let Response::Error(error) = client.call(query(&wrong, params())).await else { panic!("an error") };
        assert_eq!(error.message, "Undefined column name nothing in table ks.t");
        db.stop().await;
    });
}
