//! Guardrails hold ordinary roles, and nobody else.

use super::*;
use coordinator::DiskUsage;
use cql::guardrails::{Guardrails, Thresholds};
use std::sync::Arc;

async fn open_guarded(env: &Env, auth: AuthSettings, rules: Guardrails) -> Db {
    let db = Db::open_with(env, |config| {
        config.auth = auth;
        config.settings.auth_bcrypt_gensalt_log2_rounds = 4;
        config.guardrails = Arc::new(rules);
    })
    .await;
    if db.node.state.auth.authenticates() {
        prepare_roles(&db, None).await.expect("the first role is made");
    }
    db
}

fn asking(text: &str) -> Message {
    Message { tracing: false, payload: None, request: query(text, params()) }
}

#[test]
fn who_is_held_is_warned_and_refused() {
    run(async {
        let rules = Guardrails {
            in_select_cartesian_product: Thresholds { warn: 2, fail: 4 },
            alter_table_enabled: false,
            ..Guardrails::default()
        };
        for permissions in [true, false] {
            let db = open_guarded(&Env::for_test(131), with(permissions), rules.clone()).await;
            let root = &mut superuser(&db).await;
            create(root).await;
            cql(root, "CREATE ROLE bob WITH PASSWORD = 'bob' AND LOGIN = true").await;
            if permissions {
                cql(root, "GRANT ALL ON KEYSPACE ks TO bob").await;
            }
            let bob = &mut login(&db, "bob", "bob").await;
            let keys = |keys: &str| asking(&format!("DELETE FROM ks.t WHERE k IN ({keys})"));
            assert!(bob.exchange(keys("1, 2")).await.extras.warnings.is_empty());
            assert_eq!(
                bob.exchange(keys("1, 2, 3")).await.extras.warnings,
                [
                    "Guardrail in_select_cartesian_product violated: The cartesian product of the IN restrictions on \
                  partition key produces 3 values, this exceeds warning threshold of 2."
                ]
            );
            let answer = bob.exchange(keys("1, 2, 3, 4, 5")).await;
            let (kind, message) = error(answer.response);
            assert_eq!((kind, answer.extras.warnings), (ErrorKind::Invalid, vec![message.clone()]));
            assert_eq!(
                message,
                "Guardrail in_select_cartesian_product violated: Aborting query because the cartesian product of the IN \
                 restrictions on partition key produces 5 values, this exceeds fail threshold of 4."
            );
            let refused = "Guardrail alter_table violated: ALTER TABLE changing columns is not allowed";
            let alter = "ALTER TABLE ks.t ADD x int";
            assert_eq!(self::refused(bob, alter).await, (ErrorKind::Invalid, refused.to_owned()));

            assert!(root.exchange(keys("1, 2, 3, 4, 5")).await.extras.warnings.is_empty());
            cql(root, alter).await;
            // Whoever becomes a superuser is free of them with the next request.
            cql(root, "ALTER ROLE bob WITH SUPERUSER = true").await;
            cql(bob, "ALTER TABLE ks.t ADD y int").await;
            db.stop().await;
        }
    });
}

#[test]
fn nobody_is_held_where_nobody_logs_in() {
    run(async {
        let rules = Guardrails {
            in_select_cartesian_product: Thresholds { warn: 1, fail: 2 },
            drop_truncate_table_enabled: false,
            ..Guardrails::default()
        };
        let db = open_guarded(&Env::for_test(132), AuthSettings::default(), rules).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        create(client).await;
        let answer = client.exchange(asking("DELETE FROM ks.t WHERE k IN (1, 2, 3)")).await;
        assert!(answer.extras.warnings.is_empty());
        cql(client, "TRUNCATE ks.t").await;
        db.stop().await;
    });
}

#[test]
fn use_can_be_switched_off_for_all() {
    run(async {
        let db =
            Db::open_with(&Env::for_test(133), |config| config.settings.use_statements_enabled = false).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        create(client).await;
        let words = "USE statements prohibited. (see use_statements_enabled in cassandra.yaml)".to_owned();
        assert_eq!(refused(client, "USE ks").await, (ErrorKind::Invalid, words.clone()));
        let prepare = Request::Prepare(Prepare { statement: "USE ks".to_owned(), keyspace: None });
        assert_eq!(error(client.call(prepare).await), (ErrorKind::Invalid, words));
        db.stop().await;
    });
}

#[test]
fn full_disks_take_no_more_of_ordinary_roles() {
    run(async {
        let db = open_guarded(&Env::for_test(134), with(false), Guardrails::default()).await;
        let root = &mut superuser(&db).await;
        create(root).await;
        cql(root, "CREATE ROLE bob WITH PASSWORD = 'bob' AND LOGIN = true").await;
        let bob = &mut login(&db, "bob", "bob").await;
        let write = "DELETE FROM ks.t WHERE k = 1";
        let batch = format!("BEGIN BATCH {write}; DELETE FROM ks.t WHERE k = 2; APPLY BATCH");

        db.node.coordinator.set_disk_usage(DiskUsage::Stuffed);
        let words = "Guardrail replica_disk_usage violated: Replica disk usage exceeds warning threshold";
        assert_eq!(bob.exchange(asking(write)).await.extras.warnings, [words]);
        // Not with each write.
        assert!(bob.exchange(asking(write)).await.extras.warnings.is_empty());

        db.node.coordinator.set_disk_usage(DiskUsage::Full);
        let words = "Guardrail replica_disk_usage violated: Write request failed because disk usage exceeds \
                     failure threshold";
        let conditional = "BEGIN BATCH DELETE FROM ks.t WHERE k = 1 AND c = 1 IF EXISTS; APPLY BATCH";
        for text in [write, &batch, conditional] {
            assert_eq!(refused(bob, text).await, (ErrorKind::Invalid, words.to_owned()));
            cql(root, text).await;
        }
        cql(bob, "SELECT * FROM ks.t").await;

        db.node.coordinator.set_disk_usage(DiskUsage::Spacious);
        cql(bob, write).await;
        db.stop().await;
    });
}
