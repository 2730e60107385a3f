//! Prepared statements.

use super::*;
use crate::session::prepare::Recalled;
use crate::session::statements::Statement;

#[test]
fn statements_are_prepared_once_for_all_connections() {
    run(async {
        let db = Db::open(&Env::for_test(5)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let insert = prepare(&mut client, "INSERT INTO ks.t (k, c, v) VALUES (?, ?, ?)").await;
        assert_eq!(insert.partition_key_indexes, [0]);
        let read = prepare(&mut client, "SELECT v FROM ks.t WHERE k = ? AND c = ?").await;
        let mut other = db.client(ProtocolVersion::V4).await;
        let values = with_values(vec![int(1), int(2), text("x")]);
        assert_eq!(result(other.call(execute(&insert, values)).await), ResultBody::Void);
        let skipping = QueryParams { skip_metadata: true, ..with_values(vec![int(1), int(2)]) };
        let found = rows(other.call(execute(&read, skipping)).await);
        assert_eq!(found.columns, None);
        assert_eq!(found.rows, [[Some(Bytes::from("x"))]]);
    });
}

#[test]
fn an_unknown_id_is_told_with_the_error() {
    run(async {
        let db = Db::open(&Env::for_test(6)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        let id = Bytes::from_static(&[9; 16]);
        let request = Request::Execute(Execute {
            id: id[..].into(),
            result_metadata_id: Some(id[..].into()),
            params: params(),
        });
        assert_eq!(error(client.call(request).await).0, ErrorKind::Unprepared { id });
    });
}

#[test]
fn a_changed_table_asks_for_a_new_preparation_and_tells_new_columns() {
    run(async {
        let db = Db::open(&Env::for_test(7)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        cql(&mut client, "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'x')").await;
        let before = prepare(&mut client, "SELECT * FROM ks.t WHERE k = 1").await;
        cql(&mut client, "ALTER TABLE ks.t ADD w int").await;
        let (kind, _) = error(client.call(execute(&before, params())).await);
        assert_eq!(kind, ErrorKind::Unprepared { id: before.id.clone() });
        let after = prepare(&mut client, "SELECT * FROM ks.t WHERE k = 1").await;
        assert_eq!(after.id, before.id);
        assert_ne!(after.result_metadata_id, before.result_metadata_id);

        let skipping = QueryParams { skip_metadata: true, ..params() };
        let told = rows(client.call(execute(&before, skipping.clone())).await);
        assert_eq!(told.new_metadata_id, Some(after.result_metadata_id.clone()));
        assert_eq!(told.columns.expect("all columns").len(), 4);
        let silent = rows(client.call(execute(&after, skipping)).await);
        assert_eq!((silent.columns, silent.new_metadata_id), (None, None));
    });
}

#[test]
fn prepared_statements_outlive_a_restart() {
    run(async {
        let env = Env::for_test(8);
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        cql(&mut client, "USE ks").await;
        let insert = prepare(&mut client, "INSERT INTO t (k, c, v) VALUES (?, ?, 'x')").await;
        let stored = "SELECT prepared_id FROM system.prepared_statements";
        while select(&mut client, stored).await.rows.is_empty() {
            tokio::task::yield_now().await;
        }
        let rows = select(&mut client, stored).await.rows;
        prepare(&mut client, "INSERT INTO t (k, c, v) VALUES (?, ?, 'x')").await;
        prepare(&mut client, "INSERT INTO t (k, c, v) VALUES (?, ?, 'y')").await;
        while select(&mut client, stored).await.rows.len() < 2 {
            tokio::task::yield_now().await;
        }
        let kept = select(&mut client, stored).await.rows;
        assert!(kept.contains(&rows[0]), "preparing a statement again does not forget it");
        db.stop().await;
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        let values = with_values(vec![int(5), int(6)]);
        assert_eq!(result(client.call(execute(&insert, values)).await), ResultBody::Void);
        assert_eq!(ints(&select(&mut client, "SELECT c FROM ks.t WHERE k = 5").await, 0), [6]);
    });
}

#[test]
fn preparing_after_use_warns_once() {
    run(async {
        let db = Db::open(&Env::for_test(9)).await;
        let mut client = db.client(ProtocolVersion::V4).await;
        create(&mut client).await;
        cql(&mut client, "USE ks").await;
        for expected in [1, 0] {
            let request =
                Request::Prepare(Prepare { statement: "SELECT * FROM t".to_owned(), keyspace: None });
            let answer = client.exchange(Message { tracing: false, payload: None, request }).await;
            assert_eq!(answer.extras.warnings.len(), expected);
        }
    });
}

#[test]
fn a_prepared_schema_change_is_of_the_keyspace_that_was_in_use() {
    run(async {
        let db = Db::open(&Env::for_test(20)).await;
        let mut client = db.client(ProtocolVersion::V4).await;
        create(&mut client).await;
        cql(&mut client, &KEYSPACE.replace("ks", "other")).await;
        let unqualified =
            |keyspace| Prepare { statement: "CREATE TABLE made (k int PRIMARY KEY)".to_owned(), keyspace };
        let (_, message) = error(client.call(Request::Prepare(unqualified(None))).await);
        assert!(message.starts_with("No keyspace has been specified."), "{message}");
        cql(&mut client, "USE ks").await;
        let change = prepare(&mut client, &unqualified(None).statement).await;
        let tables = prepare(&mut client, "DESCRIBE TABLES").await;
        cql(&mut client, "USE other").await;
        result(client.call(execute(&change, params())).await);
        assert!(select(&mut client, "SELECT * FROM ks.made").await.rows.is_empty());
        // DESCRIBE is of the keyspace that is in use when it is executed.
        assert!(rows(client.call(execute(&tables, params())).await).rows.is_empty());
    });
}

#[test]
fn preparing_a_schema_change_warns_without_a_keyspace_too() {
    run(async {
        let db = Db::open(&Env::for_test(21)).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        for (statement, keyspace, expected) in [
            ("TRUNCATE ks.t", None, 0),
            ("TRUNCATE ks.t", Some("system".to_owned()), 0),
            ("DROP TABLE ks.t", Some("ks".to_owned()), 1),
            ("DROP TABLE ks.t", Some("ks".to_owned()), 0),
            ("DROP TABLE ks.t", None, 1),
            ("DROP TABLE ks.t", None, 0),
        ] {
            let used = keyspace.as_deref().unwrap_or("null").to_owned();
            let request = Request::Prepare(Prepare { statement: statement.to_owned(), keyspace });
            let answer = client.exchange(Message { tracing: false, payload: None, request }).await;
            assert_eq!(answer.extras.warnings.len(), expected, "{statement}");
            for warning in answer.extras.warnings {
                let told = format!("Keyspace used: {used}, statement keyspace: {used}, statement id: ");
                assert!(warning.contains(&told), "{warning}");
            }
        }
    });
}

#[test]
fn statements_that_a_schema_change_concerns_are_forgotten_on_disk_too() {
    run(async {
        let env = Env::for_test(19);
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        cql(&mut client, "CREATE TABLE ks.dropped (k int PRIMARY KEY, v int)").await;
        cql(&mut client, "CREATE TABLE ks.stays (k int PRIMARY KEY, v int)").await;
        cql(&mut client, &KEYSPACE.replace("ks", "gone")).await;
        cql(&mut client, "CREATE TABLE gone.t (k int PRIMARY KEY)").await;
        for table in ["ks.t", "ks.dropped", "ks.stays", "gone.t"] {
            prepare(&mut client, &format!("SELECT * FROM {table} WHERE k = ?")).await;
        }
        let stored = "SELECT query_string FROM system.prepared_statements";
        while select(&mut client, stored).await.rows.len() < 4 {
            tokio::task::yield_now().await;
        }
        cql(&mut client, "ALTER TABLE ks.t ADD w int").await;
        assert_eq!(select(&mut client, stored).await.rows.len(), 3);
        cql(&mut client, "DROP TABLE ks.dropped").await;
        assert_eq!(select(&mut client, stored).await.rows.len(), 2);
        cql(&mut client, "DROP KEYSPACE gone").await;
        let left = [[Some(Bytes::from("SELECT * FROM ks.stays WHERE k = ?"))]];
        assert_eq!(select(&mut client, stored).await.rows, left);
        // Prepared again after the change, it is kept again.
        prepare(&mut client, "SELECT * FROM ks.t WHERE k = ?").await;
        while select(&mut client, stored).await.rows.len() < 2 {
            tokio::task::yield_now().await;
        }
        db.stop().await;
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        assert_eq!(select(&mut client, stored).await.rows.len(), 2);
        db.stop().await;
    });
}

#[test]
fn a_start_counts_statements_whose_tables_are_gone_and_forgets_them() {
    run(async {
        let env = Env::for_test(19);
        let db = Db::open(&env).await;
        let mut client = db.client(ProtocolVersion::V5).await;
        create(&mut client).await;
        let sessions = Sessions::new(&db.node);
        assert_eq!(sessions.recall_statements(), Recalled::default());
        let schema = db.node.state.schema();
        for (number, text) in ["SELECT v FROM ks.t", "SELECT k FROM ks.t", "SELECT key FROM system.local"]
            .into_iter()
            .enumerate()
        {
            let statement = Statement::compile(text.into(), None, &schema).expect("a statement");
            sessions.write_down(&statement, 1 + number as i64).await;
        }
        cql(&mut client, "DROP TABLE ks.t").await;
        let recalled = sessions.recall_statements();
        assert_eq!((recalled.prepared, recalled.gone), (1, 2));
        assert!(recalled.first_reason.is_some_and(|reason| reason.contains("does not exist")));
        let again = sessions.recall_statements();
        assert_eq!((again.prepared, again.gone), (1, 0), "what is gone is forgotten");
    });
}
