//! The hashes of roles that have logged in, and how soon a changed password holds.

use std::time::Duration;

use super::*;
use env::clock::{Clock, ManualClock};
use env::fs::memory::MemoryFileSystem;
use env::random::Random;

async fn is_let_in(db: &Db, user: &str, password: &str) -> bool {
    let mut client = stranger(db, ProtocolVersion::V5).await;
    matches!(client.call(token(user, password)).await, Response::AuthSuccess(_))
}

async fn remembered(root: &mut Client) -> Vec<String> {
    texts(&select(root, "SELECT role FROM system_views.credentials_cache_keys").await)
}

#[test]
fn a_statement_about_a_password_holds_at_once() {
    run(async {
        let db = open(&Env::for_test(111)).await;
        let root = &mut superuser(&db).await;
        cql(root, "CREATE ROLE bob WITH PASSWORD = 'one' AND LOGIN = true").await;
        assert!(is_let_in(&db, "bob", "one").await);
        assert_eq!(remembered(root).await, ["bob", "cassandra"]);
        cql(root, "ALTER ROLE bob WITH PASSWORD = 'two'").await;
        assert_eq!(remembered(root).await, ["cassandra"]);
        assert!(!is_let_in(&db, "bob", "one").await && is_let_in(&db, "bob", "two").await);
        cql(root, "DROP ROLE bob").await;
        assert!(!is_let_in(&db, "bob", "two").await);
        cql(root, "CREATE ROLE bob WITH PASSWORD = 'three' AND LOGIN = true").await;
        assert!(is_let_in(&db, "bob", "three").await, "a role that was not there is not remembered");
        cql(root, "CREATE ROLE mute WITH LOGIN = true").await;
        assert!(!is_let_in(&db, "mute", "x").await && !is_let_in(&db, "nobody", "x").await);
        assert_eq!(remembered(root).await, ["bob", "cassandra"]);
        db.stop().await;
    });
}

#[test]
fn what_another_node_has_changed_holds_after_the_validity() {
    run(async {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Duration::from_secs(1));
        let env = Env::new(
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::new(Random::from_seed(112)),
            Arc::new(MemoryFileSystem::new()),
        );
        let db = open(&env).await;
        let root = &mut superuser(&db).await;
        cql(root, "CREATE ROLE bob WITH PASSWORD = 'one' AND LOGIN = true").await;
        assert!(is_let_in(&db, "bob", "one").await);
        let state = &db.node.state;
        let store = Store::new(state, &db.node.coordinator);
        let change = async |password: &str| {
            let hash =
                crate::auth::statements::hashed(&state.auth, &store, password.to_owned()).await.unwrap();
            store.write(vec![store.alter_role("bob", None, None, Some(&hash)).unwrap()]).await.unwrap();
        };
        change("two").await;
        assert!(is_let_in(&db, "bob", "one").await && !is_let_in(&db, "bob", "two").await);
        clock.advance(Duration::from_millis(2_000));
        assert!(!is_let_in(&db, "bob", "one").await && is_let_in(&db, "bob", "two").await);
        change("three").await;
        assert!(!is_let_in(&db, "bob", "three").await);
        state.auth.credentials.refresh_all(&store).await;
        assert!(is_let_in(&db, "bob", "three").await);
        change("four").await;
        state.auth.credentials.forget("bob");
        assert!(!is_let_in(&db, "bob", "three").await && is_let_in(&db, "bob", "four").await);
        db.stop().await;
    });
}
