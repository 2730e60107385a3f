//! Tables of a file of CQL statements, as snapshots and DESCRIBE have them.
//!
//! Keyspaces that are not made in the file are made on the way: the schema file of a snapshot has none.
//! Statements about anything but keyspaces, types and tables are left out.

use super::Failure;
use cql::ast::Statement;
use cql::ddl::{self, DdlContext, TableDefaults};
use cql::parser::parse_statement;
use env::Env;
use model::schema::Replication;
use model::{KeyspaceSchema, Schema, TableSchema};
use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

/// How the comment begins in which a table with COMPACT STORAGE is described.
const WARNING: &str = "/*\nWarning: Table ";
/// What stands before its statement there.
const APPROXIMATE: &str = "(this should not be used to reproduce this schema)\n";

/// What was read of a file.
pub(super) struct SchemaFile {
    pub schema: Schema,
    /// Statements that made no sense.
    failures: Vec<String>,
}

/// Reads a file of statements.
pub(super) fn read(env: &Env, path: &Path) -> Result<SchemaFile, Failure> {
    Ok(parse(env, &env.fs.read_to_string(path).map_err(Failure::usage)?))
}

/// Reads statements.
pub(super) fn parse(env: &Env, text: &str) -> SchemaFile {
    let mut out = SchemaFile { schema: Schema::default(), failures: Vec::new() };
    for text in statements(&without_warnings(text)) {
        if let Err(error) = out.apply(env, text) {
            let start: String = text.chars().take(60).collect();
            out.failures.push(format!("{error} in \"{start}\""));
        }
    }
    out
}

impl SchemaFile {
    fn apply(&mut self, env: &Env, text: &str) -> Result<(), String> {
        let mut statement = parse_statement(text).map_err(|e| e.to_string())?.statement;
        if let Statement::CreateTable(create) = &mut statement
            && create.compact_storage
        {
            // The text of DESCRIBE orders clustering columns that it does not show, too.
            let keys = &create.primary_keys;
            create.clustering_order.retain(|(name, _)| keys.iter().any(|key| key.clustering.contains(name)));
        }
        let keyspace = match &statement {
            Statement::CreateTable(create) => create.table.keyspace.as_ref(),
            Statement::AlterTable(alter) => alter.table.keyspace.as_ref(),
            Statement::CreateType(create) => create.name.keyspace.as_ref(),
            Statement::CreateKeyspace(_) | Statement::AlterType(_) => None,
            _ => return Ok(()),
        };
        if let Some(name) = keyspace.map(|name| name.as_str())
            && self.schema.keyspace(name).is_none()
        {
            let keyspace = KeyspaceSchema::new(name, Replication::simple(1));
            self.schema.keyspaces.insert(name.to_owned(), Arc::new(keyspace));
        }
        let before = Arc::new(self.schema.clone());
        let context = DdlContext {
            schema: &before,
            keyspace: None,
            new_table_id: env.time_uuid(),
            now_micros: env.now_micros(),
            datacenters: &[("datacenter1".into(), 1)],
            drops_compact_storage: true,
            default_factor: 1,
            tables: &TableDefaults { memtables: None, ..TableDefaults::default() },
            guard: None,
            masking_enabled: true,
        };
        if let Some(outcome) = ddl::apply(&statement, &context).map_err(|e| e.to_string())? {
            self.schema = outcome.schema;
        }
        Ok(())
    }

    /// The table of that name, or the only one.
    pub(super) fn table(&self, name: Option<(&str, &str)>, file: &str) -> Result<Arc<TableSchema>, Failure> {
        let all: Vec<_> = self.schema.keyspaces.values().flat_map(|keyspace| keyspace.stores()).collect();
        let found = match (name, all.as_slice()) {
            (Some((keyspace, table)), _) => self.schema.table(keyspace, table),
            (None, [only]) => Some(*only),
            (None, _) => None,
        };
        if let Some(table) = found {
            return Ok(Arc::clone(table));
        }
        let mut text = match name {
            Some((keyspace, table)) => format!("{file} makes no table {keyspace}.{table}"),
            None if all.is_empty() => format!("{file} makes no table"),
            None => {
                format!("{file} makes {} tables: --table KEYSPACE.TABLE says which one it is", all.len())
            }
        };
        for failure in &self.failures {
            text.push_str("; ");
            text.push_str(failure);
        }
        Err(Failure::Usage(text))
    }
}

/// The text with its tables that have COMPACT STORAGE, which DESCRIBE and snapshots tell of in comments.
/// These warn of making them again, which does not matter to who reads files.
fn without_warnings(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once(WARNING)
        && let Some((comment, after)) = comment.split_once("\n*/")
    {
        out.push_str(before);
        // What else has such a comment is a virtual table.
        if let Some((_, table)) = comment.split_once(APPROXIMATE) {
            out.push_str(table);
        }
        rest = after;
    }
    match out.is_empty() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(out + rest),
    }
}

/// The statements of a text: what lies between semicolons that are in no string, name or comment.
pub(crate) fn statements(text: &str) -> Vec<&str> {
    let (mut out, mut start, mut at) = (Vec::new(), 0, 0);
    let rest = |at: usize| text.get(at..).unwrap_or_default();
    // Where what begins at `at` ends.
    let behind = |at: usize, opening: usize, closing: &str| {
        let found = rest(at + opening).find(closing);
        found.map_or(text.len(), |found| at + opening + found + closing.len())
    };
    while let Some(first) = rest(at).chars().next() {
        at = match first {
            '\'' => behind(at, 1, "'"),
            '"' => behind(at, 1, "\""),
            '$' if rest(at).starts_with("$$") => behind(at, 2, "$$"),
            '-' if rest(at).starts_with("--") => behind(at, 2, "\n"),
            '/' if rest(at).starts_with("//") => behind(at, 2, "\n"),
            '/' if rest(at).starts_with("/*") => behind(at, 2, "*/"),
            ';' => {
                out.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
                start
            }
            other => at + other.len_utf8(),
        };
    }
    out.push(rest(start));
    out.retain(|statement| !statement.trim().is_empty());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::fs::memory::MemoryFileSystem;
    use model::schema::Release;

    #[test]
    fn semicolons_in_strings_and_comments_end_nothing() {
        let text = "A 'x;''y' \"n;\" ; -- c;\n B /* ; */ $$ ; $$; \n";
        let found = statements(text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("A 'x") && found[1].trim_end().ends_with("$$ ; $$"), "{found:?}");
    }

    #[test]
    fn what_a_snapshot_tells_of_a_table_makes_it() {
        let env = Env::for_test(1);
        for text in [
            "(k text PRIMARY KEY, a int, b text) WITH COMPACT STORAGE",
            "(k text, c int, v text, PRIMARY KEY (k, c)) WITH COMPACT STORAGE AND CLUSTERING ORDER BY (c DESC) AND comment = '*/'",
            "(k text, c int, d uuid, PRIMARY KEY (k, c, d)) WITH COMPACT STORAGE",
            "(k text PRIMARY KEY, n counter) WITH COMPACT STORAGE",
            "(k text, c int, n counter, PRIMARY KEY (k, c)) WITH COMPACT STORAGE",
            "(k text, c frozen<outer>, v set<frozen<inner>>, PRIMARY KEY (k, c)) WITH comment = 'x'",
        ] {
            let types = "CREATE TYPE ks.inner (a int);CREATE TYPE ks.\"Mid\" (i frozen<inner>);CREATE TYPE ks.outer (a frozen<inner>, m list<frozen<\"Mid\">>);";
            let made = parse(&env, &format!("{types} CREATE TABLE ks.t {text};"));
            let made = made.table(None, "it").unwrap();
            let kept = cql::describe::schema_cql(&made, Release::V5_0);
            let computed =
                "/*\nWarning: Table system_views.c is a virtual table and cannot be recreated with CQL.\n*/";
            let again = parse(&env, &format!("{computed}\n-- kept\n{kept}\n{computed}\n"));
            assert_eq!(again.failures, Vec::<String>::new(), "{kept}");
            assert_eq!(again.table(None, "it").unwrap(), made, "{kept}");
        }
    }

    #[test]
    fn the_schema_file_of_a_snapshot_makes_its_table() {
        let env = Env::for_test(1).with_fs(Arc::new(MemoryFileSystem::new()));
        let text = "CREATE TYPE IF NOT EXISTS ks.u (a int);\n\
                    CREATE TABLE IF NOT EXISTS ks.t (k int, c text, v frozen<u>, gone int, PRIMARY KEY (k, c)) \
                    WITH ID = 5a1c395e-b41f-11e5-9f22-ba0be0483c18 AND comment = 'a;b';\n\
                    ALTER TABLE ks.t DROP gone USING TIMESTAMP 5;\n\
                    CREATE INDEX i ON ks.t (v);";
        let path = Path::new("/schema.cql");
        env.fs.write(path, text.as_bytes()).unwrap();
        let file = read(&env, path).unwrap();
        let table = file.table(None, "it").unwrap();
        assert_eq!(
            (table.keyspace.as_str(), table.id.to_string().as_str()),
            ("ks", "5a1c395e-b41f-11e5-9f22-ba0be0483c18")
        );
        assert!(table.column("gone").is_none() && table.dropped_column("gone").is_some());
        let kept = cql::describe::schema_cql(&table, Release::V5_0);
        assert_eq!(kept.lines().next(), Some("CREATE TYPE IF NOT EXISTS ks.u ("));
        let refusal = file.table(Some(("ks", "other")), "it").unwrap_err();
        assert!(matches!(refusal, Failure::Usage(text) if text == "it makes no table ks.other"));
    }
}
