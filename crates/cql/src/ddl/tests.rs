//! Replays the schema statements and DESCRIBEs of scripts whose expectations a real Cassandra 5.0 recorded:
//! the outcome, or the error's code and words, must be the same. A few reads of `system_schema` are answered
//! from the schema, so that what was kept is compared too. Where we differ on purpose the script says what we
//! answer (`--|`).

use super::*;
use crate::parser::parse_statement;
use model::schema::{Replication, TableOptions};
use model::types::CqlType;
use std::path::Path;
use std::sync::LazyLock;

const KEYSPACE: &str = "cql_script";

struct Step {
    line: usize,
    /// Whether the statement is only prepared.
    is_prepared: bool,
    cql: String,
    expected: Vec<String>,
    ours: Vec<String>,
}

/// The statements of a script with their expectations. `conformance/harness/script.py` is the reference.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut open, mut is_prepared) = (false, false);
    for (at, line) in text.lines().enumerate() {
        if open {
            let step = steps.last_mut().unwrap();
            step.cql.push('\n');
            step.cql.push_str(line);
            open = !is_complete(&step.cql);
        } else if let Some(answer) = line.strip_prefix("-->") {
            steps.last_mut().unwrap().expected.push(answer.trim_start().to_owned());
        } else if let Some(answer) = line.strip_prefix("--|") {
            steps.last_mut().unwrap().ours.push(answer.trim_start().to_owned());
        } else if let Some(directive) = line.strip_prefix("-- ") {
            is_prepared |= directive.trim() == "prepare";
        } else if !line.trim().is_empty() && !line.starts_with("//") {
            steps.push(Step {
                line: at + 1,
                is_prepared,
                cql: line.to_owned(),
                expected: vec![],
                ours: vec![],
            });
            is_prepared = false;
            open = !is_complete(line);
        }
    }
    steps
}

fn is_complete(cql: &str) -> bool {
    let end = cql.trim_end();
    if cql.trim_start().to_ascii_uppercase().starts_with("BEGIN") {
        return end.to_ascii_uppercase().replace(' ', "").ends_with("APPLYBATCH;");
    }
    end.ends_with(';')
}

fn first_schema() -> Arc<Schema> {
    let mut schema = Schema::default();
    for name in ["system", "system_schema", "system_auth", "system_traces", "system_distributed", KEYSPACE] {
        schema = schema.with_keyspace(KeyspaceSchema::new(name, Replication::simple(1)));
    }
    let tables = [
        TableSchema::builder("system", "local", Uuid::from_u128(1))
            .partition_key("key", CqlType::Text)
            .regular("rack", CqlType::Text)
            .build(),
        TableSchema::builder("system_traces", "sessions", Uuid::from_u128(2))
            .options(TableOptions {
                comment: "tracing sessions".to_owned(),
                gc_grace_seconds: 0,
                ..TableOptions::default()
            })
            .partition_key("session_id", CqlType::Uuid)
            .regular("client", CqlType::Inet)
            .regular("command", CqlType::Text)
            .regular("coordinator", CqlType::Inet)
            .regular("coordinator_port", CqlType::Int)
            .regular("duration", CqlType::Int)
            .regular("parameters", CqlType::map(CqlType::Text, CqlType::Text, true))
            .regular("request", CqlType::Text)
            .regular("started_at", CqlType::Timestamp)
            .build(),
        TableSchema::builder("system_virtual_schema", "tables", Uuid::from_u128(3))
            .options(TableOptions {
                comment: "virtual table definitions".to_owned(),
                ..TableOptions::default()
            })
            .partition_key("keyspace_name", CqlType::Text)
            .clustering("table_name", CqlType::Text, false)
            .regular("comment", CqlType::Text)
            .build(),
    ];
    for table in tables {
        let mut keyspace = match schema.keyspace(&table.keyspace) {
            Some(keyspace) => KeyspaceSchema::clone(keyspace),
            None => {
                let keyspace = KeyspaceSchema::new(&table.keyspace, Replication::local());
                KeyspaceSchema { is_virtual: true, ..keyspace }
            }
        };
        keyspace.tables.insert(table.name.clone(), Arc::new(table));
        schema = schema.with_keyspace(keyspace);
    }
    Arc::new(schema)
}

struct Session {
    schema: Arc<Schema>,
    keyspace: String,
    tables_made: u128,
    masking_enabled: bool,
}

impl Session {
    fn new() -> Session {
        let schema = first_schema();
        Session { schema, keyspace: KEYSPACE.to_owned(), tables_made: 0x100, masking_enabled: false }
    }

    /// The answer in the words of the scripts; `None` for statements that are no concern of this test.
    fn answer(&mut self, cql: &str) -> Option<Vec<String>> {
        let text = cql.replace("$ks", KEYSPACE);
        let text = text.trim_end().trim_end_matches(';');
        let parsed = match parse_statement(text) {
            Ok(parsed) => parsed.statement,
            Err(_) => return None,
        };
        match &parsed {
            Statement::Use(keyspace) => {
                if self.schema.keyspace(keyspace.as_str()).is_some() {
                    self.keyspace = keyspace.as_str().to_owned();
                }
                return None;
            }
            Statement::Select(_) => return system_schema::answer(&self.schema, text),
            Statement::Describe(describe) => return self.describe(describe, text),
            statement if !is_schema(statement) => return None,
            _ => {}
        }
        self.tables_made += 1;
        let ctx = DdlContext {
            keyspace: Some(&self.keyspace),
            new_table_id: Uuid::from_u128(self.tables_made),
            now_micros: 1_800_000_000_000_000,
            masking_enabled: self.masking_enabled,
            ..context(&self.schema)
        };
        let answer = match apply(&parsed, &ctx) {
            Ok(None) => vec!["ok".to_owned()],
            Ok(Some(outcome)) => {
                let change = &outcome.change;
                let mut lines: Vec<String> =
                    outcome.warnings.iter().map(|w| format!("warning {w}")).collect();
                let name = change.name.as_ref().map(|name| format!(".{name}")).unwrap_or_default();
                lines.push(
                    format!("ok schema {:?} {:?} ", change.kind, change.target)
                        .to_uppercase()
                        .replace("OK SCHEMA", "ok schema")
                        + &change.keyspace
                        + &name,
                );
                self.schema = Arc::new(outcome.schema);
                lines
            }
            Err(error) => {
                let words: Vec<String> = error.to_string().split_whitespace().map(str::to_owned).collect();
                let mut lines = vec![format!("error 0x{:04X} {}", error.code(), words.join(" "))];
                if let crate::error::CqlError::AlreadyExists { keyspace, table, .. } = &error {
                    lines.push(format!("info keyspace={keyspace} table={table}"));
                }
                lines
            }
        };
        Some(answer.into_iter().map(|line| line.replace(KEYSPACE, "$ks")).collect())
    }
}

impl Session {
    fn describe(&self, describe: &crate::ast::Describe, text: &str) -> Option<Vec<String>> {
        // The definitions of these tables are no part of this crate.
        if text.contains("system.") || text.contains("system_schema") {
            return None;
        }
        let ctx = crate::describe::DescribeContext {
            schema: &self.schema,
            keyspace: Some(&self.keyspace),
            cluster_name: "peer",
            partitioner: "Murmur3Partitioner",
            snitch: "DynamicEndpointSnitch",
            range_ownership: &[(
                "-6889711027515331401".to_owned(),
                vec!["127.0.0.50/127.0.0.50:7000".to_owned()],
            )],
        };
        let rows = match crate::describe::describe(describe, &ctx) {
            Ok(rows) => rows,
            Err(error) => {
                return Some(vec![format!("error 0x{:04X} {error}", error.code()).replace(KEYSPACE, "$ks")]);
            }
        };
        let columns: Vec<String> = rows
            .columns
            .iter()
            .map(|column| {
                format!("{} {}", column.name, column.ty)
                    .replace("frozen<map<text, frozen<list<text>>>>", "map<text, list<text>>")
            })
            .collect();
        let mut lines = vec![format!("columns {}", columns.join(" | "))];
        for row in &rows.rows {
            let values: Vec<String> = row
                .iter()
                .zip(&rows.columns)
                .map(|(value, column)| {
                    column.ty.to_literal(value.as_deref()).replace('\\', "\\\\").replace('\n', "\\n")
                })
                .collect();
            lines.push(values.join(" | "));
        }
        lines.push(format!("({} row{})", rows.rows.len(), if rows.rows.len() == 1 { "" } else { "s" }));
        Some(lines.into_iter().map(|line| line.replace(KEYSPACE, "$ks")).collect())
    }
}

fn is_schema(statement: &Statement) -> bool {
    let kind = statement.kind();
    let makes = ["CREATE ", "ALTER ", "DROP "].iter().any(|verb| kind.starts_with(verb));
    makes && !kind.ends_with("ROLE") && !kind.ends_with("IDENTITY")
}

/// Whether an answer is as expected: a `*` in an expectation written by hand stands for any words.
fn matches(expected: &[String], answer: &[String]) -> bool {
    expected.len() == answer.len()
        && expected.iter().zip(answer).all(|(expected, answer)| match expected.split_once('*') {
            Some((start, _)) if expected.starts_with("error") => answer.starts_with(start),
            _ => expected.trim_end() == answer.trim_end(),
        })
}

#[allow(clippy::disallowed_methods, reason = "the scripts are files of the repository")]
fn complaints(path: &Path) -> (usize, Vec<String>) {
    let mut session = Session::new();
    // The nodes of these scripts mask.
    session.masking_enabled = path.parent().is_some_and(|folder| folder.ends_with("masked"));
    let (mut checked, mut complaints) = (0, Vec::new());
    for step in steps(&std::fs::read_to_string(path).unwrap()) {
        let wanted = if step.ours.is_empty() { &step.expected } else { &step.ours };
        if step.is_prepared {
            continue;
        }
        let Some(answer) = session.answer(&step.cql) else { continue };
        // A statement without effect tells of no change, and so carries no warning.
        let wanted: Vec<String> = if wanted.last().is_some_and(|last| last == "ok") {
            vec!["ok".to_owned()]
        } else {
            wanted.clone()
        };
        checked += 1;
        if !matches(&wanted, &answer) {
            complaints.push(format!(
                "{}:{}: {}\n    wanted {wanted:?}\n    got    {answer:?}",
                path.file_name().unwrap().to_string_lossy(),
                step.line,
                step.cql
            ));
        }
    }
    (checked, complaints)
}

/// A statement on this schema: no keyspace is in use, and the configuration has Cassandra's defaults.
fn context(schema: &Arc<Schema>) -> DdlContext<'_> {
    static DATACENTERS: LazyLock<[(Arc<str>, u32); 1]> = LazyLock::new(|| [("datacenter1".into(), 1)]);
    static TABLES: LazyLock<TableDefaults> = LazyLock::new(TableDefaults::default);
    DdlContext {
        schema,
        keyspace: None,
        new_table_id: Uuid::from_u128(9),
        now_micros: 0,
        datacenters: &*DATACENTERS,
        drops_compact_storage: false,
        masking_enabled: false,
        default_factor: 1,
        tables: &TABLES,
        guard: None,
    }
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the scripts are files of the repository")]
fn answers_are_cassandras() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut checked, mut found) = (0, Vec::new());
    for folder in
        ["testdata/ddl", "testdata/describe", "../../conformance/cql", "../../conformance/cql/masked"]
    {
        let mut paths: Vec<_> =
            std::fs::read_dir(root.join(folder)).unwrap().map(|e| e.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|ext| ext == "cqltest"));
        paths.sort();
        assert!(!paths.is_empty());
        for path in paths {
            let (count, complaints) = complaints(&path);
            checked += count;
            found.extend(complaints);
        }
    }
    assert!(found.is_empty(), "{} of {checked} answers differ:\n{}", found.len(), found.join("\n"));
    assert!(checked > 1600, "only {checked} answers were checked");
}

#[test]
fn a_name_without_a_keyspace_needs_one_in_use() {
    let schema = first_schema();
    let ctx = context(&schema);
    for cql in [
        "CREATE TABLE t (k int PRIMARY KEY)",
        "ALTER TABLE t ADD v int",
        "DROP TABLE IF EXISTS t",
        "CREATE TYPE t (a int)",
        "DROP TYPE t",
        "DROP INDEX i",
    ] {
        let error = apply(&parse_statement(cql).unwrap().statement, &ctx).unwrap_err();
        assert!(error.to_string().starts_with("No keyspace has been specified."), "{cql}: {error}");
    }
    let cql = format!("CREATE TABLE {KEYSPACE}.t (k int PRIMARY KEY)");
    assert!(apply(&parse_statement(&cql).unwrap().statement, &ctx).unwrap().is_some());
}

#[test]
fn an_index_is_dropped_by_nobody_and_one_of_the_system_is_not_for_users() {
    let indexed = |keyspace: &str| {
        let mut table =
            TableSchema::builder(keyspace, "t", Uuid::from_u128(5)).partition_key("k", CqlType::Int);
        let (name, kind) = ("i".to_owned(), "COMPOSITES".to_owned());
        table.indexes.push(model::schema::Index { name, kind, options: Default::default() });
        let mut keyspace = KeyspaceSchema::new(keyspace, Replication::simple(1));
        keyspace.tables.insert("t".to_owned(), Arc::new(table.build()));
        keyspace
    };
    let schema = Arc::new(Schema::default().with_keyspace(indexed("system")).with_keyspace(indexed("ks")));
    let ctx = context(&schema);
    let refused = |cql: &str| apply(&parse_statement(cql).unwrap().statement, &ctx).unwrap_err();
    let crate::CqlError::Unauthorized(message) = refused("DROP INDEX system.i") else {
        panic!("another class")
    };
    assert_eq!(message, "system keyspace is not user-modifiable.");
    let message = refused("DROP INDEX ks.i").to_string();
    assert_eq!(message, "Index 'ks.i' is kept for Cassandra; Ilion cannot change or drop it");
}

#[test]
fn an_altered_type_reaches_every_table_and_type() {
    let mut session = Session::new();
    for cql in [
        "CREATE TYPE a (x int)",
        "CREATE TYPE b (a frozen<a>)",
        "CREATE TABLE t (k int, c frozen<list<b>>, v a, w map<int, frozen<tuple<b>>>, PRIMARY KEY (k, c))",
        "ALTER TYPE a ADD y text",
    ] {
        assert!(session.answer(cql).unwrap()[0].starts_with("ok schema"), "{cql}");
    }
    let keyspace = session.schema.keyspace(KEYSPACE).unwrap();
    let changed = Arc::clone(&keyspace.types["a"]);
    assert_eq!(changed.fields.len(), 2);
    let inside_b = &keyspace.types["b"].fields[0].1;
    assert!(matches!(inside_b, CqlType::Udt { definition, .. } if *definition == changed));
    let table = &keyspace.tables["t"];
    let hex: String =
        "y".bytes().map(|b| format!("{b:02x}:org.apache.cassandra.db.marshal.UTF8Type")).collect();
    for column in ["c", "v", "w"] {
        let class = table.column(column).unwrap().ty.class_name();
        assert!(class.contains(&hex), "{column}: {class}");
    }
    let ordering = table.comparator().column(0).unwrap().0.class_name();
    assert!(ordering.contains(&hex), "the comparator: {ordering}");
}

mod defaults;
mod large;
mod system_schema;

#[test]
fn compact_storage_is_dropped_as_the_configuration_says() {
    let apply = |schema: &Arc<Schema>, drops_compact_storage: bool, cql: &str| {
        let ctx = DdlContext { keyspace: Some(KEYSPACE), drops_compact_storage, ..context(schema) };
        apply(&parse_statement(cql).unwrap().statement, &ctx).map(|outcome| Arc::new(outcome.unwrap().schema))
    };
    let (create, drop) = (
        "CREATE TABLE t (k int PRIMARY KEY, v int) WITH COMPACT STORAGE",
        "ALTER TABLE t DROP COMPACT STORAGE",
    );
    let schema = first_schema();
    let schema = apply(&schema, false, create).unwrap();
    let refused = apply(&schema, false, drop).unwrap_err();
    assert!(refused.to_string().starts_with("DROP COMPACT STORAGE is disabled."), "{refused}");
    let schema = apply(&schema, true, drop).unwrap();
    let table = schema.table(KEYSPACE, "t").unwrap();
    let shown: Vec<String> = table.select_star().iter().map(|c| c.name.clone()).collect();
    assert_eq!(shown, ["k", "column1", "v", "value"]);
    let refused = apply(&schema, true, drop).unwrap_err();
    assert_eq!(refused.to_string(), "Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE");
}
