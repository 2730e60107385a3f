//! Masked columns: who sees what, however the statement comes.

use super::*;

const MASKED: &str = "CREATE TABLE ks.m (k int PRIMARY KEY, v text MASKED WITH mask_inner(1, 1))";

async fn open_masking(env: &Env, masks: bool) -> Db {
    let db = Db::open_with(env, |config| {
        config.auth = with(true);
        config.settings.auth_bcrypt_gensalt_log2_rounds = 4;
        config.settings.dynamic_data_masking_enabled = masks;
    })
    .await;
    prepare_roles(&db, None).await.expect("the first role is there");
    db
}

/// A superuser, and `bob` who may read and write `ks.m`.
async fn two_roles(db: &Db) -> (Client, Client) {
    let mut root = superuser(db).await;
    create(&mut root).await;
    let statements = [
        MASKED,
        "INSERT INTO ks.m (k, v) VALUES (1, 'secret')",
        "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true",
        "GRANT SELECT ON ks.m TO bob",
        "GRANT MODIFY ON ks.m TO bob",
    ];
    all(&mut root, &statements).await;
    let bob = login(db, "bob", "b").await;
    (root, bob)
}

#[test]
fn one_prepared_statement_shows_each_role_what_it_may_see() {
    run(async {
        let db = open_masking(&Env::for_test(102), true).await;
        let (root, bob) = &mut two_roles(&db).await;
        let statement = prepare(bob, "SELECT v FROM ks.m").await;
        let shown =
            async |client: &mut Client| texts(&rows(client.call(execute(&statement, params())).await));
        assert_eq!(shown(bob).await, ["s****t"]);
        assert_eq!(shown(root).await, ["secret"]);
        cql(root, "GRANT UNMASK ON ks.m TO bob").await;
        assert_eq!(shown(bob).await, ["secret"], "a grant holds at once");
        cql(root, "REVOKE UNMASK ON ks.m FROM bob").await;
        assert_eq!(shown(bob).await, ["s****t"]);
        cql(root, "ALTER TABLE ks.m ALTER v MASKED WITH DEFAULT").await;
        let (kind, _) = error(bob.call(execute(&statement, params())).await);
        assert!(
            matches!(kind, ErrorKind::Unprepared { .. }),
            "the old mask is not in force any more: {kind:?}"
        );
        assert_eq!(texts(&select(bob, "SELECT v FROM ks.m").await), ["****"]);
        db.stop().await;
    });
}

#[test]
fn answers_of_conditional_batches_are_masked_and_conditions_are_asked_about() {
    run(async {
        let db = open_masking(&Env::for_test(103), true).await;
        let (root, bob) = &mut two_roles(&db).await;
        let batch = |text: &str| {
            let text = StatementText::Query(text.to_owned());
            let statements = vec![BatchStatement { text, values: Vec::new() }];
            Request::Batch(Batch { kind: BatchKind::Logged, statements, params: params() })
        };
        let exists = "INSERT INTO ks.m (k, v) VALUES (1, 'x') IF NOT EXISTS";
        assert!(texts(&rows(bob.call(batch(exists)).await))[0].ends_with("s****t"));
        assert!(texts(&rows(root.call(batch(exists)).await))[0].ends_with("secret"));
        let guess = "UPDATE ks.m SET v = 'x' WHERE k = 1 IF v = 'secret'";
        let refusal = "User bob has no UNMASK nor SELECT_MASKED permission on table ks.m, cannot query masked columns [v]";
        assert_eq!(error(bob.call(batch(guess)).await), (ErrorKind::Unauthorized, refusal.to_owned()));
        let explained = "EXPLAIN ANALYZE SELECT k FROM ks.m WHERE v = 'secret' ALLOW FILTERING";
        assert_eq!(refused(bob, explained).await.1, refusal);
        cql(root, "GRANT SELECT_MASKED ON ks.m TO bob").await;
        let applied = rows(bob.call(batch(guess)).await);
        assert_eq!(applied.rows[0][0].as_deref(), Some(&[1][..]));
        db.stop().await;
    });
}

#[test]
fn masks_outlive_a_restart_and_hide_nothing_when_masking_is_switched_off() {
    run(async {
        let env = Env::for_test(104);
        let db = open_masking(&env, true).await;
        let _ = two_roles(&db).await;
        db.stop().await;
        for (masks, seen) in [(true, "s****t"), (false, "secret"), (true, "s****t")] {
            let db = open_masking(&env, masks).await;
            let bob = &mut login(&db, "bob", "b").await;
            assert_eq!(texts(&select(bob, "SELECT v FROM ks.m").await), [seen]);
            db.stop().await;
        }
    });
}
