//! What statements may not touch, and what nobody is told of them.

use super::*;
use crate::config::SlowQueryValues;

/// Runs statements that must be refused; the error of each.
async fn refused(client: &mut Client, statement: &str) -> (ErrorKind, String) {
    error(client.call(query(statement, params())).await)
}

#[test]
fn roles_are_written_by_statements_on_roles_alone() {
    run(async {
        let db = Db::open(&Env::for_test(81)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        let said = "Cannot write to system_auth.roles: it holds roles and permissions";
        for statement in [
            "INSERT INTO system_auth.roles (role, can_login, is_superuser) VALUES ('eve', true, true)",
            "INSERT INTO system_auth.roles (role, is_superuser) VALUES ('eve', true) IF NOT EXISTS",
            "INSERT INTO system_auth.roles JSON '{\"role\": \"eve\", \"is_superuser\": true}'",
            "UPDATE system_auth.roles SET is_superuser = true WHERE role = 'eve'",
            "UPDATE system_auth.roles SET is_superuser = true WHERE role = 'eve' IF can_login = false",
            "DELETE FROM system_auth.roles WHERE role = 'cassandra'",
            "DELETE salted_hash FROM system_auth.roles WHERE role = 'cassandra'",
            "TRUNCATE system_auth.roles",
            "BEGIN BATCH INSERT INTO system_auth.roles (role, is_superuser) VALUES ('eve', true) APPLY BATCH",
            "BEGIN UNLOGGED BATCH INSERT INTO system_auth.roles (role) VALUES ('e') IF NOT EXISTS APPLY BATCH",
        ] {
            let (kind, message) = refused(client, statement).await;
            assert_eq!(kind, ErrorKind::Invalid, "{statement}");
            assert!(message.starts_with(said), "{statement}: {message}");
        }
        cql(client, "USE system_auth").await;
        let unqualified = "INSERT INTO roles (role, is_superuser) VALUES (?, true)";
        let request = Request::Prepare(Prepare { statement: unqualified.to_owned(), keyspace: None });
        assert!(error(client.call(request).await).1.starts_with(said));
        for table in
            ["role_members", "role_permissions", "resource_role_permissons_index", "network_permissions"]
        {
            let (_, message) = refused(client, &format!("TRUNCATE system_auth.{table}")).await;
            assert!(message.contains("roles and permissions"), "{table}: {message}");
        }
        let roles = select(client, "SELECT role FROM system_auth.roles").await;
        assert_eq!(roles.rows, Vec::<Vec<Option<Bytes>>>::new());
        db.stop().await;
    });
}

#[test]
fn what_a_node_knows_of_itself_is_not_written_and_reports_are() {
    run(async {
        let db = Db::open(&Env::for_test(82)).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        for statement in [
            "INSERT INTO system.peers (peer, tokens) VALUES ('10.0.0.1', {'1'})",
            "DELETE FROM system.peers_v2 WHERE peer = '10.0.0.1'",
            "INSERT INTO system_schema.keyspaces (keyspace_name) VALUES ('x')",
            "TRUNCATE system.local",
            "TRUNCATE system_schema.tables",
        ] {
            let (kind, message) = refused(client, statement).await;
            assert_eq!(kind, ErrorKind::Invalid, "{statement}");
            assert!(message.starts_with("Cannot write to system"), "{statement}: {message}");
        }
        for statement in ["TRUNCATE system.peers", "TRUNCATE system_traces.sessions"] {
            cql(client, statement).await;
        }
        db.stop().await;
    });
}

/// The texts of the traces of `system_traces`, once there are so many sessions.
async fn traced(client: &mut Client, sessions: usize) -> String {
    loop {
        let found = select(client, "SELECT parameters FROM system_traces.sessions").await;
        if found.rows.len() >= sessions {
            let events = select(client, "SELECT activity FROM system_traces.events").await;
            let all = found.rows.iter().chain(&events.rows).flatten().flatten();
            return all
                .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
                .collect::<Vec<_>>()
                .join("\n");
        }
        tokio::task::yield_now().await;
    }
}

#[test]
fn traces_tell_no_passwords() {
    run(async {
        let db = Db::open(&Env::for_test(83)).await;
        let client = &mut db.client(ProtocolVersion::V4).await;
        create(client).await;
        cql(client, "CREATE TABLE ks.u (k int PRIMARY KEY, password text)").await;
        let insert = "INSERT INTO ks.u (k, password) VALUES (?, ?)";
        let prepared = prepare(client, insert).await;
        let bad = "CREATE ROLE r WITH PASSWORD = 'geheim' AND nonsense";
        let requests = [
            query("CREATE ROLE r WITH PASSWORD = 'geheim' AND LOGIN = true", params()),
            query("ALTER USER r WITH PASSWORD 'geheim'", params()),
            query(bad, params()),
            query("INSERT INTO ks.u (k, password) VALUES (1, 'open')", params()),
            query("UPDATE ks.u SET password = 'geheim' WHERE k = 1", params()),
            Request::Prepare(Prepare { statement: bad.to_owned(), keyspace: None }),
            execute(&prepared, with_values(vec![int(1), text("geheim")])),
        ];
        let count = requests.len();
        for request in requests {
            client.exchange(Message { tracing: true, payload: None, request }).await;
        }
        let told = traced(client, count).await;
        assert!(told.contains("PASSWORD *******") && told.contains(insert), "{told}");
        assert!(!told.contains("geheim"), "{told}");
        db.stop().await;
    });
}

#[test]
fn lists_of_reads_tell_values_as_the_setting_says() {
    run(async {
        for values in [SlowQueryValues::Shown, SlowQueryValues::Redacted] {
            let env = Env::for_test(84);
            let db = Db::open_with(&env, |config| config.settings.slow_query_values = values).await;
            let client = &mut db.client(ProtocolVersion::V4).await;
            create(client).await;
            select(client, "SELECT v FROM ks.t WHERE k = 4711 AND c = 7").await;
            let samples =
                db.node.state.metrics.reads.heat.samples(&tools::api::SampleQuery {
                    keyspace: Some("ks".to_owned()),
                    ..Default::default()
                });
            let [read] = samples.as_slice() else { panic!("{samples:?}") };
            let told = (&*read.statement, read.restriction.as_str());
            match values {
                SlowQueryValues::Shown => {
                    assert_eq!(told, ("SELECT v FROM ks.t WHERE k = 4711 AND c = 7", "k = 4711 AND c = 7"));
                }
                SlowQueryValues::Redacted => {
                    assert_eq!(told, ("SELECT v FROM ks.t WHERE k = ? AND c = ?", "k = ? AND c = ?"));
                }
            }
            db.stop().await;
        }
    });
}
