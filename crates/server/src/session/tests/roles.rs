//! Logins, roles and permissions, through a socket.

mod certificates;
mod credentials;
mod guardrails;
mod masks;

use std::path::Path;

use super::*;
use crate::auth::cidr::Cidr;
use crate::auth::login;
use crate::auth::setup;
use crate::auth::store::Store;
use crate::config::{AuthSettings, Authenticator, CidrSettings};
use keystore::Certificate;
use protocol::request::{AuthResponse, Options};

const DENIED: &str = "User bob has no SELECT permission on <table ks.t> or any of its parents";

/// A node on which clients log in, without roles.
async fn open_empty(env: &Env) -> Db {
    open_as(env, with(true)).await
}

fn with(permissions: bool) -> AuthSettings {
    AuthSettings { authenticator: Authenticator::Password, permissions, ..AuthSettings::default() }
}

async fn open_as(env: &Env, auth: AuthSettings) -> Db {
    Db::open_with(env, |config| {
        config.auth = auth;
        config.settings.auth_bcrypt_gensalt_log2_rounds = 4;
    })
    .await
}

/// Makes the first role as a start does.
async fn prepare_roles(db: &Db, password: Option<&str>) -> Result<(), String> {
    let state = &db.node.state;
    let store = Store::new(state, &db.node.coordinator);
    setup::prepare(&state.auth, &store, password.map(Path::new)).await
}

/// A node on which clients log in, with the first role.
async fn open(env: &Env) -> Db {
    let db = open_empty(env).await;
    prepare_roles(&db, None).await.expect("the first role is made");
    db
}

fn token(user: &str, password: &str) -> Request {
    let token = format!("\0{user}\0{password}");
    Request::AuthResponse(AuthResponse { token: Some(Bytes::from(token)) })
}

/// A connection that has to log in.
async fn stranger(db: &Db, version: ProtocolVersion) -> Client {
    let mut client = Client::connect(db.server.local_addr(), version).await;
    client.startup_asked(None, "org.apache.cassandra.auth.PasswordAuthenticator").await;
    client
}

async fn login(db: &Db, user: &str, password: &str) -> Client {
    let mut client = stranger(db, ProtocolVersion::V5).await;
    let answer = client.call(token(user, password)).await;
    assert!(matches!(answer, Response::AuthSuccess(_)), "{answer:?}");
    client
}

async fn superuser(db: &Db) -> Client {
    login(db, "cassandra", "cassandra").await
}

async fn refused(client: &mut Client, statement: &str) -> (ErrorKind, String) {
    error(client.call(query(statement, params())).await)
}

async fn all(client: &mut Client, statements: &[&str]) {
    for statement in statements {
        cql(client, statement).await;
    }
}

fn texts(rows: &Rows) -> Vec<String> {
    let text =
        |value: &Option<Bytes>| String::from_utf8_lossy(value.as_deref().unwrap_or(b"null")).into_owned();
    rows.rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn a_first_role_that_is_made_anew_changes_nothing_of_one_that_was_not_seen() {
    run(async {
        let db = open(&Env::for_test(123)).await;
        cql(&mut superuser(&db).await, "ALTER ROLE cassandra WITH PASSWORD = 'mine'").await;
        let store = Store::new(&db.node.state, &db.node.coordinator);
        let made_anew =
            store.create_first_role("$2a$04$dvxZoHYh7wJTvoJ8xyP6wuNV9zq1B9SNE0CV2kKzJtJ4cZ6Aqv2q6");
        store.write(vec![made_anew.unwrap()]).await.unwrap();
        db.node.state.auth.invalidate();
        login(&db, "cassandra", "mine").await;
        assert_eq!(prepare_roles(&db, None).await, Ok(()), "and it is there");
        login(&db, "cassandra", "mine").await;
    });
}

#[test]
fn a_node_in_no_ring_needs_no_other_replica_of_the_roles() {
    run(async {
        let db = open(&Env::for_test(124)).await;
        let elsewhere = "{'class': 'SimpleStrategy', 'replication_factor': 3}";
        let alter = format!("ALTER KEYSPACE system_auth WITH replication = {elsewhere}");
        cql(&mut superuser(&db).await, &alter).await;
        db.node.state.auth.invalidate();
        let root = &mut superuser(&db).await;
        cql(root, "CREATE ROLE bob WITH PASSWORD = 'one' AND LOGIN = true").await;
        login(&db, "bob", "one").await;
        assert_eq!(prepare_roles(&db, None).await, Ok(()), "and it starts again");
    });
}

#[test]
fn nothing_is_answered_before_a_login() {
    run(async {
        let db = open(&Env::for_test(91)).await;
        for version in ProtocolVersion::ALL {
            let client = &mut stranger(&db, version).await;
            for request in [
                query("SELECT key FROM system.local", params()),
                Request::Options(Options),
                Request::Register(Register { kinds: vec![EventKind::SchemaChange] }),
                Request::Prepare(Prepare {
                    statement: "SELECT key FROM system.local".into(),
                    keyspace: None,
                }),
            ] {
                let (kind, message) = error(client.call(request).await);
                assert_eq!(kind, ErrorKind::Protocol);
                assert!(message.ends_with(", expecting SASL_RESPONSE"), "{message}");
            }
            for (user, password, said) in [
                ("cassandra", "wrong", "Provided username cassandra and/or password are incorrect"),
                ("nobody", "wrong", "Provided username nobody and/or password are incorrect"),
                ("cassandra", "", "Password must not be null"),
                ("", "x", "Authentication ID must not be null"),
            ] {
                let answer = error(client.call(token(user, password)).await);
                assert_eq!(answer, (ErrorKind::BadCredentials, said.to_owned()));
            }
            let empty = Request::AuthResponse(AuthResponse { token: None });
            assert_eq!(error(client.call(empty).await).0, ErrorKind::BadCredentials);
            assert!(matches!(client.call(token("cassandra", "cassandra")).await, Response::AuthSuccess(_)));
            select(client, "SELECT key FROM system.local").await;
            let user = select(client, "SELECT username, connection_stage FROM system_views.clients").await;
            assert!(texts(&user).contains(&"cassandra ready".to_owned()), "{:?}", texts(&user));
        }
        db.stop().await;
    });
}

#[test]
fn permissions_are_asked_for_and_end_with_a_revoke() {
    run(async {
        let db = open(&Env::for_test(92)).await;
        let root = &mut superuser(&db).await;
        create(root).await;
        all(root, &["CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true", "CREATE ROLE readers"]).await;
        let bob = &mut login(&db, "bob", "b").await;
        assert_eq!(refused(bob, "SELECT * FROM ks.t").await, (ErrorKind::Unauthorized, DENIED.to_owned()));
        for statement in ["EXPLAIN SELECT * FROM ks.t", "EXPLAIN ANALYZE SELECT * FROM ks.t"] {
            assert_eq!(refused(bob, statement).await.1, DENIED);
        }
        let prepared = prepare(bob, "SELECT * FROM ks.t WHERE k = 1").await;
        assert_eq!(error(bob.call(execute(&prepared, params())).await).1, DENIED);

        all(root, &["GRANT SELECT ON ks.t TO readers", "GRANT readers TO bob"]).await;
        rows(bob.call(execute(&prepared, params())).await);
        select(bob, "SELECT * FROM ks.t").await;
        for (statement, permission, on) in [
            ("INSERT INTO ks.t (k, c) VALUES (1, 1)", "MODIFY", "<table ks.t>"),
            ("UPDATE ks.t SET v = '' WHERE k = 1 AND c = 1 IF EXISTS", "MODIFY", "<table ks.t>"),
            ("BEGIN BATCH DELETE FROM ks.t WHERE k = 1 APPLY BATCH", "MODIFY", "<table ks.t>"),
            ("TRUNCATE ks.t", "MODIFY", "<table ks.t>"),
            ("ALTER TABLE ks.t ADD x int", "ALTER", "<table ks.t>"),
            ("DROP TABLE ks.t", "DROP", "<table ks.t>"),
            ("CREATE TABLE ks.u (k int PRIMARY KEY)", "CREATE", "<all tables in ks>"),
            ("CREATE TYPE ks.u (k int)", "CREATE", "<all tables in ks>"),
            ("DROP KEYSPACE ks", "DROP", "<keyspace ks>"),
            ("ALTER KEYSPACE ks WITH durable_writes = true", "ALTER", "<keyspace ks>"),
            (&KEYSPACE.replace("ks", "other"), "CREATE", "<all keyspaces>"),
            ("GRANT SELECT ON ks.t TO bob", "AUTHORIZE", "<table ks.t>"),
            ("SELECT * FROM system_auth.roles", "SELECT", "<table system_auth.roles>"),
            ("SELECT * FROM system.prepared_statements", "SELECT", "<table system.prepared_statements>"),
        ] {
            let said = format!("User bob has no {permission} permission on {on} or any of its parents");
            assert_eq!(refused(bob, statement).await, (ErrorKind::Unauthorized, said), "{statement}");
        }
        let insert = "INSERT INTO ks.t (k, c) VALUES (1, 1)".to_owned();
        let batch = Request::Batch(Batch {
            kind: BatchKind::Logged,
            statements: vec![BatchStatement { text: StatementText::Query(insert), values: Vec::new() }],
            params: params(),
        });
        assert!(error(bob.call(batch).await).1.contains("no MODIFY permission"));
        all(root, &["GRANT MODIFY ON KEYSPACE ks TO bob", "REVOKE readers FROM bob"]).await;
        cql(bob, "INSERT INTO ks.t (k, c) VALUES (1, 1)").await;
        let conditional = "INSERT INTO ks.t (k, c) VALUES (1, 1) IF NOT EXISTS";
        assert_eq!(refused(bob, conditional).await.1, DENIED);
        assert_eq!(error(bob.call(execute(&prepared, params())).await).1, DENIED);
        for open in
            ["SELECT * FROM system.local", "SELECT * FROM system_schema.tables", "USE ks", "DESCRIBE TABLES"]
        {
            cql(bob, open).await;
        }
        db.stop().await;
    });
}

#[test]
fn nobody_gives_himself_what_he_does_not_have() {
    run(async {
        let db = open(&Env::for_test(93)).await;
        let root = &mut superuser(&db).await;
        create(root).await;
        all(
            root,
            &[
                "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true",
                "CREATE ROLE boss WITH SUPERUSER = true",
                "CREATE ROLE chief",
                "GRANT boss TO chief",
                "GRANT ALL ON ALL KEYSPACES TO bob",
                "GRANT ALL ON ALL ROLES TO bob",
            ],
        )
        .await;
        let bob = &mut login(&db, "bob", "b").await;
        for statement in [
            "CREATE ROLE x WITH SUPERUSER = true",
            "ALTER ROLE bob WITH SUPERUSER = true",
            "ALTER ROLE boss WITH PASSWORD = 'x'",
            "ALTER ROLE chief WITH PASSWORD = 'x'",
            "ALTER ROLE cassandra WITH PASSWORD = 'x'",
            "DROP ROLE cassandra",
            "DROP ROLE chief",
            "GRANT boss TO bob",
            "GRANT chief TO bob",
            "ADD IDENTITY 'spiffe://x' TO ROLE 'boss'",
            "SELECT * FROM system_auth.roles",
            "DROP TABLE system_auth.roles",
            "DROP KEYSPACE system_auth",
        ] {
            assert_eq!(refused(bob, statement).await.0, ErrorKind::Unauthorized, "{statement}");
        }
        for statement in [
            "INSERT INTO system_auth.roles (role, is_superuser) VALUES ('bob', true)",
            "INSERT INTO system_auth.role_members (role, member) VALUES ('boss', 'bob')",
            "UPDATE system_auth.role_permissions SET permissions = {'ALTER'} WHERE role = 'bob' AND resource = 'data'",
        ] {
            assert!(refused(bob, statement).await.1.contains("roles and permissions"), "{statement}");
        }
        cql(bob, "ALTER ROLE bob WITH PASSWORD = 'new'").await;
        login(&db, "bob", "new").await;
        let loops = refused(root, "GRANT chief TO boss").await;
        assert_eq!(loops, (ErrorKind::Invalid, "chief is a member of boss".to_owned()));
        db.stop().await;
    });
}

#[test]
fn grants_come_and_go_with_what_they_are_about() {
    run(async {
        let db = open(&Env::for_test(94)).await;
        let root = &mut superuser(&db).await;
        all(
            root,
            &["CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true", "GRANT CREATE ON ALL KEYSPACES TO bob"],
        )
        .await;
        let bob = &mut login(&db, "bob", "b").await;
        create(bob).await;
        select(bob, "SELECT * FROM ks.t").await;
        let listed = texts(&select(bob, "LIST ALL PERMISSIONS OF bob").await);
        assert!(listed.contains(&"bob bob <table ks.t> SELECT".to_owned()), "{listed:?}");
        assert!(listed.contains(&"bob bob <keyspace ks> DROP".to_owned()), "{listed:?}");
        cql(bob, "DROP KEYSPACE ks").await;
        let left = texts(&select(bob, "LIST ALL PERMISSIONS OF bob").await);
        assert_eq!(left, ["bob bob <all keyspaces> CREATE"]);
        all(root, &["DROP ROLE bob", "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true"]).await;
        assert_eq!(result(root.call(query("LIST ALL PERMISSIONS OF bob", params())).await), ResultBody::Void);
        assert!(refused(bob, KEYSPACE).await.1.contains("no CREATE permission"));
        db.stop().await;
    });
}

#[test]
fn roles_survive_a_restart() {
    run(async {
        let env = Env::for_test(95);
        let db = open(&env).await;
        let root = &mut superuser(&db).await;
        create(root).await;
        all(
            root,
            &[
                "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true",
                "GRANT SELECT ON ks.t TO bob",
                "ALTER ROLE cassandra WITH PASSWORD = 'other'",
                "CREATE ROLE mute WITH PASSWORD = 'm'",
            ],
        )
        .await;
        db.stop().await;
        let db = open(&env).await;
        select(&mut login(&db, "bob", "b").await, "SELECT * FROM ks.t").await;
        let client = &mut stranger(&db, ProtocolVersion::V4).await;
        assert_eq!(error(client.call(token("cassandra", "cassandra")).await).0, ErrorKind::BadCredentials);
        let (kind, message) = error(client.call(token("mute", "m")).await);
        assert_eq!((kind, message.as_str()), (ErrorKind::BadCredentials, "mute is not permitted to log in"));
        let roles = texts(&select(&mut login(&db, "cassandra", "other").await, "LIST USERS").await);
        assert_eq!(roles.len(), 2, "{roles:?}");
        db.stop().await;
    });
}

#[test]
fn the_first_password_comes_from_a_file() {
    run(async {
        let env = Env::for_test(96);
        let db = open_empty(&env).await;
        let no_file = prepare_roles(&db, Some("/none")).await.unwrap_err();
        assert!(no_file.starts_with("/none: "), "{no_file}");
        for (content, said) in [("", "has to be the password"), ("cassandra\n", "everybody knows")] {
            env.fs.write(Path::new("/password"), content.as_bytes()).unwrap();
            let error = prepare_roles(&db, Some("/password")).await.unwrap_err();
            assert!(error.contains(said) && !error.contains("cassandra"), "{error}");
        }
        env.fs.write(Path::new("/password"), b"geheim\nmore\n").unwrap();
        prepare_roles(&db, Some("/password")).await.unwrap();
        login(&db, "cassandra", "geheim").await;
        // Roles that are there stay as they are.
        env.fs.write(Path::new("/password"), b"other").unwrap();
        prepare_roles(&db, Some("/password")).await.unwrap();
        login(&db, "cassandra", "geheim").await;
        db.stop().await;
    });
}

#[test]
fn passwords_alone_hold_nobody_back_but_from_roles() {
    run(async {
        let db = open_as(&Env::for_test(97), with(false)).await;
        prepare_roles(&db, None).await.unwrap();
        let root = &mut superuser(&db).await;
        create(root).await;
        all(
            root,
            &[
                "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true",
                "CREATE ROLE boss WITH SUPERUSER = true",
            ],
        )
        .await;
        let bob = &mut login(&db, "bob", "b").await;
        all(
            bob,
            &["INSERT INTO ks.t (k, c) VALUES (1, 1)", "SELECT role FROM system_auth.roles", "CREATE ROLE x"],
        )
        .await;
        for statement in [
            "CREATE ROLE y WITH SUPERUSER = true",
            "ALTER ROLE bob WITH SUPERUSER = true",
            "ALTER ROLE boss WITH PASSWORD = 'x'",
            "GRANT boss TO bob",
            "DROP ROLE boss",
        ] {
            assert_eq!(refused(bob, statement).await.0, ErrorKind::Unauthorized, "{statement}");
        }
        let (kind, message) = refused(root, "GRANT SELECT ON ks.t TO bob").await;
        assert_eq!(kind, ErrorKind::Server);
        assert!(message.contains("not supported by AllowAllAuthorizer"), "{message}");
        // A superuser is one at once, and no longer at once.
        cql(root, "GRANT boss TO bob").await;
        cql(bob, "CREATE ROLE y WITH SUPERUSER = true").await;
        cql(root, "REVOKE boss FROM bob").await;
        assert_eq!(refused(bob, "CREATE ROLE z WITH SUPERUSER = true").await.0, ErrorKind::Unauthorized);
        db.stop().await;
    });
}

fn certificate(uris: &[&str]) -> Certificate {
    Certificate {
        common_name: Some("app".to_owned()),
        uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
        not_before_s: 0,
        not_after_s: i64::MAX,
    }
}

#[test]
fn the_identity_of_a_certificate_leads_to_a_role() {
    run(async {
        let db = open(&Env::for_test(98)).await;
        let root = &mut superuser(&db).await;
        all(
            root,
            &[
                "CREATE ROLE app WITH LOGIN = true",
                "CREATE ROLE mute",
                "ADD IDENTITY 'spiffe://a/app' TO ROLE 'app'",
                "ADD IDENTITY 'spiffe://a/mute' TO ROLE 'mute'",
            ],
        )
        .await;
        let state = &db.node.state;
        let store = Store::new(state, &db.node.coordinator);
        let judge = async |certificate: Option<&Certificate>| {
            let judged = login::by_certificate(&state.auth, &store, certificate).await;
            judged.map(|principal| principal.name().to_string()).map_err(|error| error.message)
        };
        let app = certificate(&["https://a", "spiffe://a/app", "spiffe://a/mute"]);
        assert_eq!(judge(Some(&app)).await, Ok("app".to_owned()));
        for (uris, words) in [
            (&[][..], "Unable to extract Spiffe from the certificate"),
            (&["https://a"], "Unable to extract Spiffe from the certificate"),
            (&["spiffe://a/other"], "Certificate identity 'spiffe://a/other' not authorized"),
            (&["spiffe://a/mute"], "mute is not permitted to log in"),
        ] {
            assert_eq!(judge(Some(&certificate(uris))).await.unwrap_err(), words);
        }
        assert_eq!(judge(None).await.unwrap_err(), "No certificate present on connection");
        all(root, &["DROP IDENTITY 'spiffe://a/app'"]).await;
        assert!(judge(Some(&app)).await.unwrap_err().contains("not authorized"));
        let logins = &state.auth.logins;
        assert_eq!((logins.by_certificate.get(), logins.failures.get()), (1, 6));
        db.stop().await;
    });
}

#[test]
fn an_address_that_fails_too_often_waits() {
    run(async {
        let db = Db::open_with(&Env::for_test(99), |config| {
            config.auth = with(true);
            config.settings.auth_bcrypt_gensalt_log2_rounds = 4;
            config.settings.native_transport_max_failed_logins_per_minute_per_ip = 2;
        })
        .await;
        prepare_roles(&db, None).await.unwrap();
        let root = &mut superuser(&db).await;
        let guest = &mut stranger(&db, ProtocolVersion::V5).await;
        for _ in 0..2 {
            assert_eq!(error(guest.call(token("cassandra", "x")).await).0, ErrorKind::BadCredentials);
        }
        let (kind, message) = error(guest.call(token("cassandra", "cassandra")).await);
        assert_eq!((kind, message.contains("have failed")), (ErrorKind::Overloaded, true), "{message}");
        // Who is in goes on.
        select(root, "LIST ROLES").await;
        assert_eq!(db.node.state.auth.logins.limited.get(), 1);
        db.stop().await;
    });
}

#[test]
fn roles_are_held_to_data_centers() {
    run(async {
        let auth = AuthSettings { datacenters: true, ..with(true) };
        let db = open_as(&Env::for_test(100), auth).await;
        prepare_roles(&db, None).await.unwrap();
        let root = &mut superuser(&db).await;
        let here = db.node.state.config.data_center.clone();
        let unknown = query("CREATE ROLE x WITH ACCESS TO DATACENTERS {'nowhere'}", params());
        assert!(
            error(root.call(unknown).await).1.starts_with("Invalid value(s) for DATACENTERS '[nowhere]'")
        );
        cql(
            root,
            &format!(
                "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true AND ACCESS TO DATACENTERS {{'{here}'}}"
            ),
        )
        .await;
        let keys = texts(&select(root, "SELECT role FROM system_auth.network_permissions").await);
        assert_eq!(keys, ["roles/bob"], "as Cassandra names them");
        cql(root, "CREATE ROLE mute").await;
        let select_local = || query("SELECT key FROM system.local", params());
        let bob = &mut login(&db, "bob", "b").await;
        select(bob, "SELECT key FROM system.local").await;
        let listed = texts(&select(root, "LIST ROLES").await);
        assert!(listed.iter().any(|row| row.starts_with("bob") && row.ends_with(&here)), "{listed:?}");
        assert!(listed.iter().any(|row| row.starts_with("mute") && row.ends_with("n/a")), "{listed:?}");
        // As if it had come with a directory from elsewhere.
        let state = &db.node.state;
        let store = Store::new(state, &db.node.coordinator);
        let elsewhere = store.set_datacenters("bob", &["elsewhere".to_owned()].into()).unwrap();
        store.write(vec![elsewhere]).await.unwrap();
        state.auth.invalidate();
        let (kind, message) = error(bob.call(select_local()).await);
        let expected = format!("You do not have access to this datacenter ({here})");
        assert_eq!((kind, message), (ErrorKind::Unauthorized, expected.clone()));
        assert_eq!(error(bob.call(query("LIST ROLES", params())).await).1, expected);
        cql(root, "ALTER ROLE bob WITH ACCESS TO ALL DATACENTERS").await;
        select(bob, "SELECT key FROM system.local").await;
        db.stop().await;
    });
}

#[test]
fn roles_are_held_to_networks() {
    run(async {
        let cidr = CidrSettings { enforces: true, ..CidrSettings::default() };
        let db = open_as(&Env::for_test(101), AuthSettings { cidr: Some(cidr), ..with(true) }).await;
        prepare_roles(&db, None).await.unwrap();
        let root = &mut superuser(&db).await;
        let state = &db.node.state;
        let store = Store::new(state, &db.node.coordinator);
        for (group, network) in [("loopback", "127.0.0.0/8"), ("other", "10.0.0.0/8")] {
            let cidrs = [Cidr::parse(network).unwrap()].into();
            store.write(vec![store.set_cidr_group(group, &cidrs).unwrap()]).await.unwrap();
        }
        let unknown = query("CREATE ROLE x WITH ACCESS FROM CIDRS {'home', 'other'}", params());
        let words = "Invalid CIDR group(s): [home, other]. Available CIDR Groups are: [loopback, other]";
        assert_eq!(error(root.call(unknown).await).1, words);
        cql(root, "CREATE ROLE bob WITH PASSWORD = 'b' AND LOGIN = true AND ACCESS FROM CIDRS {'loopback'}")
            .await;
        let bob = &mut login(&db, "bob", "b").await;
        // Nobody has read the groups since.
        let refused = "You do not have access from this IP 127.0.0.1";
        let local = || query("SELECT key FROM system.local", params());
        assert_eq!(error(bob.call(local()).await), (ErrorKind::Unauthorized, refused.to_owned()));
        state.auth.cidr().unwrap().reload(&store).await.unwrap();
        select(bob, "SELECT key FROM system.local").await;
        cql(root, "ALTER ROLE bob WITH ACCESS FROM CIDRS {'other'}").await;
        assert_eq!(error(bob.call(local()).await).1, refused);
        cql(root, "ALTER ROLE bob WITH ACCESS FROM ALL CIDRS").await;
        select(bob, "SELECT key FROM system.local").await;
        let counts = "SELECT value FROM system_views.cidr_filtering_metrics_counts WHERE name = \
                      'Number of CIDR accesses rejected from CIDR group - loopback'";
        assert_eq!(select(root, counts).await.rows.len(), 1);
        let keys = texts(&select(root, "SELECT role FROM system_views.roles_cache_keys").await);
        assert!(keys.contains(&"bob".to_owned()) && keys.contains(&"cassandra".to_owned()), "{keys:?}");
        db.stop().await;
    });
}
