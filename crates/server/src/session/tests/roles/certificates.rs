//! Connections of HTTP whose certificate is their login, and how soon a change holds for them.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;
use crate::auth::certificate::CertificateLogin;
use env::clock::{Clock, ManualClock};
use env::fs::memory::MemoryFileSystem;
use env::random::Random;

const IDENTITY: &str = "spiffe://a/app";

async fn with_identity(clock: &Arc<ManualClock>, seed: u64) -> Db {
    clock.advance(Duration::from_secs(1));
    let env = Env::new(
        Arc::clone(clock) as Arc<dyn Clock>,
        Arc::new(Random::from_seed(seed)),
        Arc::new(MemoryFileSystem::new()),
    );
    let db = open(&env).await;
    let root = &mut superuser(&db).await;
    let statements = ["CREATE ROLE app WITH LOGIN = true", "CREATE ROLE other WITH LOGIN = true"];
    all(root, &statements).await;
    cql(root, &format!("ADD IDENTITY '{IDENTITY}' TO ROLE 'app'")).await;
    db
}

/// Who a request is by its connection's certificate.
async fn who(db: &Db, connection: &CertificateLogin) -> Result<String, String> {
    let state = &db.node.state;
    let store = Store::new(state, &db.node.coordinator);
    let judged = connection.principal(state, &store, SocketAddr::from(([127, 0, 0, 1], 1))).await;
    judged.map(|principal| principal.name().to_string()).map_err(|error| error.message)
}

fn connection() -> CertificateLogin {
    CertificateLogin::new(Arc::new(certificate(&[IDENTITY])))
}

#[test]
fn a_connection_logs_in_once_and_a_statement_on_roles_holds_at_once() {
    run(async {
        let db = with_identity(&Arc::default(), 121).await;
        let root = &mut superuser(&db).await;
        let app = connection();
        let logins = &db.node.state.auth.logins;
        for _ in 0..3 {
            assert_eq!(who(&db, &app).await.as_deref(), Ok("app"));
        }
        assert_eq!((logins.by_certificate.get(), logins.failures.get()), (1, 0));
        cql(root, "ALTER ROLE app WITH LOGIN = false").await;
        assert_eq!(who(&db, &app).await.unwrap_err(), "app is not permitted to log in");
        cql(root, "ALTER ROLE app WITH LOGIN = true").await;
        assert_eq!(who(&db, &app).await.as_deref(), Ok("app"));
        // What is about others costs a look-up, and is no login.
        cql(root, "CREATE ROLE third").await;
        assert_eq!(who(&db, &app).await.as_deref(), Ok("app"));
        assert_eq!((logins.by_certificate.get(), logins.failures.get()), (2, 1));
        all(root, &[&format!("DROP IDENTITY '{IDENTITY}'")]).await;
        assert!(who(&db, &app).await.unwrap_err().contains("not authorized"));
        all(root, &[&format!("ADD IDENTITY '{IDENTITY}' TO ROLE 'other'")]).await;
        assert_eq!(who(&db, &app).await.as_deref(), Ok("other"));
        assert_eq!((logins.by_certificate.get(), logins.failures.get()), (3, 2));
        db.stop().await;
    });
}

#[test]
fn what_another_node_has_changed_holds_for_connections_after_the_validity() {
    run(async {
        let clock = Arc::new(ManualClock::default());
        let db = with_identity(&clock, 122).await;
        let app = connection();
        assert_eq!(who(&db, &app).await.as_deref(), Ok("app"));
        let state = &db.node.state;
        let store = Store::new(state, &db.node.coordinator);
        store.write(vec![store.drop_identity(IDENTITY).unwrap()]).await.unwrap();
        assert_eq!(who(&db, &app).await.as_deref(), Ok("app"));
        clock.advance(Duration::from_millis(2_000));
        assert!(who(&db, &app).await.unwrap_err().contains("not authorized"));
        db.stop().await;
    });
}
