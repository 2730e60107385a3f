//! The audit log of requests and logins, through a socket.

use super::*;
use crate::audit::{AuditLogger, AuditOptions, FilterOptions, WAIT_MAX};
use crate::auth::setup;
use crate::auth::store::Store;
use crate::config::{AuthSettings, Authenticator};
use env::fs::faulty::{FaultyFileSystem, Op};
use protocol::request::AuthResponse;
use serde_json::Value as Json;
use std::path::Path;

/// Where the log of these tests is.
const DIRECTORY: &str = "/ilion/audit";

fn options(filter: FilterOptions) -> AuditOptions {
    AuditOptions { enabled: true, filter, audit_logs_dir: Some(DIRECTORY.into()), ..AuditOptions::default() }
}

async fn open(env: &Env, audit: AuditOptions) -> Db {
    Db::open_with(env, |config| config.settings.audit_logging_options = audit).await
}

/// Ends the log and reads it.
async fn lines(db: &Db, env: &Env) -> Vec<String> {
    let state = Arc::clone(&db.node.state);
    tokio::task::spawn_blocking(move || state.logs.stop()).await.unwrap();
    let files = env.fs.read_dir(Path::new(DIRECTORY)).unwrap();
    let text = |name: &std::ffi::OsString| env.fs.read_to_string(&Path::new(DIRECTORY).join(name)).unwrap();
    files.iter().flat_map(|file| text(&file.name).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Type, keyspace, scope and operation of each entry.
async fn entries(db: &Db, env: &Env) -> Vec<(String, String, String, String)> {
    let parse = |line: &String| {
        let json: Json = serde_json::from_str(line).unwrap();
        let field = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        (field("type"), field("ks"), field("scope"), field("operation"))
    };
    lines(db, env).await.iter().map(parse).collect()
}

fn entry(kind: &str, ks: &str, scope: &str, operation: &str) -> (String, String, String, String) {
    (kind.to_owned(), ks.to_owned(), scope.to_owned(), operation.to_owned())
}

#[test]
fn each_statement_is_an_entry_of_its_type() {
    run(async {
        let env = Env::for_test(701);
        let db = open(&env, options(FilterOptions::default())).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        create(client).await;
        let statements = [
            ("UPDATE", "t", "INSERT INTO ks.t (k, c, v) VALUES (1, 1, 'a')"),
            ("SELECT", "t", "SELECT v FROM ks.t WHERE k = 1"),
            ("SELECT", "t", "SELECT v FROM ks.t"),
            ("DELETE", "t", "DELETE FROM ks.t WHERE k = 1"),
            ("USE_KEYSPACE", "", "USE ks"),
            ("TRUNCATE", "t", "TRUNCATE t"),
            ("DROP_TABLE", "t", "DROP TABLE t"),
        ];
        for (_, _, statement) in statements {
            cql(client, statement).await;
        }
        cql(client, "SELECT * FROM system.local").await;
        let mut expected =
            vec![entry("CREATE_KEYSPACE", "ks", "", KEYSPACE), entry("CREATE_TABLE", "ks", "t", TABLE)];
        expected.extend(statements.map(|(kind, scope, statement)| entry(kind, "ks", scope, statement)));
        assert_eq!(entries(&db, &env).await, expected);
        db.stop().await;
    });
}

#[test]
fn prepared_statements_and_batches_are_told_with_each_statement() {
    run(async {
        let env = Env::for_test(702);
        let db = open(&env, options(FilterOptions::default())).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        create(client).await;
        let insert = "INSERT INTO ks.t (k, c) VALUES (?, ?)";
        let prepared = prepare(client, insert).await;
        result(client.call(execute(&prepared, with_values(vec![int(1), int(1)]))).await);
        let delete = "DELETE FROM ks.t WHERE k = 7";
        let parts = vec![
            BatchStatement {
                text: StatementText::Prepared(prepared.id[..].into()),
                values: vec![int(2), int(2)],
            },
            BatchStatement { text: StatementText::Query(delete.to_owned()), values: Vec::new() },
        ];
        let batch = Batch { kind: BatchKind::Logged, statements: parts, params: params() };
        result(client.call(Request::Batch(batch)).await);
        let told: Vec<Json> =
            lines(&db, &env).await.iter().skip(2).map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<&str> = told.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["PREPARE_STATEMENT", "UPDATE", "BATCH", "UPDATE", "DELETE"]);
        let operations: Vec<&str> = told.iter().map(|line| line["operation"].as_str().unwrap()).collect();
        let id = told[2]["batch"].as_str().unwrap();
        let batch = format!("BatchId:[{id}] - BATCH of [2] statements");
        assert_eq!(operations, [insert, insert, &batch, insert, delete]);
        assert!(told[3]["batch"] == id && told[4]["batch"] == id && told[1]["batch"] == Json::Null);
        db.stop().await;
    });
}

#[test]
fn what_fails_is_told_with_the_reason() {
    run(async {
        let env = Env::for_test(703);
        let db = open(&env, options(FilterOptions::default())).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        error(client.call(query("SELECT * FROM ks.nope", params())).await);
        error(client.call(query("CREATE ROLE r WITH PASSWORD = 'geheim' nonsense", params())).await);
        let unknown = Execute {
            id: [7; 16][..].into(),
            result_metadata_id: Some([7; 16][..].into()),
            params: params(),
        };
        error(client.call(Request::Execute(unknown)).await);
        let entries = entries(&db, &env).await;
        assert_eq!(
            entries[..2],
            [
                entry("REQUEST_FAILURE", "", "", "SELECT * FROM ks.nope; keyspace ks does not exist"),
                entry(
                    "REQUEST_FAILURE",
                    "",
                    "",
                    "CREATE ROLE r WITH PASSWORD *******; Syntax Exception. Obscured for security reasons."
                ),
            ]
        );
        assert!(entries[2].3.starts_with("null; Prepared query with ID 0707"), "{entries:?}");
        db.stop().await;
    });
}

#[test]
fn filters_leave_out_what_they_name() {
    run(async {
        let env = Env::for_test(704);
        let filter = FilterOptions { included_categories: "QUERY".to_owned(), ..FilterOptions::default() };
        let db = open(&env, options(filter)).await;
        let client = &mut db.client(ProtocolVersion::V4).await;
        create(client).await;
        cql(client, "SELECT * FROM ks.t").await;
        let logs = &db.node.state.logs;
        let filter = FilterOptions { excluded_keyspaces: "ks".to_owned(), ..FilterOptions::default() };
        logs.enable_audit(&options(filter)).unwrap();
        cql(client, "SELECT * FROM ks.t").await;
        cql(client, "SELECT key FROM system.local").await;
        logs.disable_audit();
        cql(client, "SELECT key FROM system.local").await;
        assert!(!logs.is_any_on() && !logs.audit_options().0);
        let told = entries(&db, &env).await;
        assert_eq!(
            told,
            [
                entry("SELECT", "ks", "t", "SELECT * FROM ks.t"),
                entry("SELECT", "system", "local", "SELECT key FROM system.local"),
            ]
        );
        db.stop().await;
    });
}

#[test]
fn logins_and_refusals_are_told_and_passwords_are_not() {
    run(async {
        let env = Env::for_test(705);
        let db = Db::open_with(&env, |config| {
            config.auth = AuthSettings {
                authenticator: Authenticator::Password,
                permissions: true,
                ..AuthSettings::default()
            };
            config.settings.auth_bcrypt_gensalt_log2_rounds = 4;
            config.settings.audit_logging_options =
                AuditOptions { logger: AuditLogger::File, ..options(FilterOptions::default()) };
        })
        .await;
        let state = &db.node.state;
        let store = Store::new(state, &db.node.coordinator);
        setup::prepare(&state.auth, &store, None).await.expect("the first role is made");
        let login = async |user: &str, password: &str| {
            let mut client = Client::connect(db.server.local_addr(), ProtocolVersion::V5).await;
            client.startup_asked(None, "org.apache.cassandra.auth.PasswordAuthenticator").await;
            let token = Bytes::from(format!("\0{user}\0{password}"));
            let answer = client.call(Request::AuthResponse(AuthResponse { token: Some(token) })).await;
            (client, answer)
        };
        login("cassandra", "wrong").await;
        let mut root = login("cassandra", "cassandra").await.0;
        cql(&mut root, "CREATE ROLE bob WITH PASSWORD = 'geheim' AND LOGIN = true").await;
        let mut bob = login("bob", "geheim").await.0;
        error(bob.call(query("CREATE ROLE eve", params())).await);
        error(bob.call(query(KEYSPACE, params())).await);
        let told: Vec<String> = lines(&db, &env)
            .await
            .iter()
            .map(|line| {
                let kept = |field: &&str| {
                    ["user:", "type:", "operation:"].iter().any(|name| field.starts_with(name))
                };
                line.split('|').filter(kept).collect::<Vec<_>>().join("|")
            })
            .collect();
        assert_eq!(
            told,
            [
                "user:null|type:LOGIN_ERROR|operation:LOGIN FAILURE; Provided username cassandra and/or password *******",
                "user:cassandra|type:LOGIN_SUCCESS|operation:LOGIN SUCCESSFUL",
                "user:cassandra|type:CREATE_ROLE|operation:CREATE ROLE bob WITH PASSWORD = '*******' AND LOGIN = true",
                "user:bob|type:LOGIN_SUCCESS|operation:LOGIN SUCCESSFUL",
                "user:bob|type:UNAUTHORIZED_ATTEMPT|operation:CREATE ROLE eve; User bob does not have sufficient \
                 privileges to perform the requested operation",
                &format!(
                    "user:bob|type:UNAUTHORIZED_ATTEMPT|operation:{KEYSPACE}; User bob has no CREATE permission on \
                     <all keyspaces> or any of its parents"
                ),
            ]
        );
        db.stop().await;
    });
}

#[test]
fn a_directory_that_is_stuck_holds_a_client_up_once() {
    run(async {
        let plain = Env::for_test(706);
        let faulty = FaultyFileSystem::new(Arc::clone(&plain.fs));
        let env = plain.with_fs(Arc::new(faulty.clone()));
        let mut audit = options(FilterOptions::default());
        audit.log.max_queue_weight = 1_000;
        let db = open(&env, audit).await;
        let client = &mut db.client(ProtocolVersion::V5).await;
        create(client).await;
        faulty.hold(Op::Flush, "/audit/");
        let counts = Arc::clone(&db.node.state.logs.audit_counts);
        for _ in 0..100 {
            cql(client, "SELECT * FROM ks.t").await;
        }
        assert_eq!(counts.waits.get(), 1, "one waited, for {WAIT_MAX:?}");
        assert!(counts.dropped.get() > 50);
        faulty.release();
        while counts.written.get() < 5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        cql(client, "SELECT v FROM ks.t").await;
        let told = entries(&db, &plain).await;
        assert_eq!(told.last().unwrap().3, "SELECT v FROM ks.t");
        assert_eq!(told.len() as u64 + counts.dropped.get(), 103);
        db.stop().await;
    });
}
