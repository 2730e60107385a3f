//! A scan in words: what command lines, tickets and query engines ask for. Conditions are those of a SELECT,
//! so they mean what they mean in CQL.

use crate::{BulkError, ScanOptions, ScanRequest};
use cql::ast::Identifier;
use cql::plan::Bound;
use cql::{BindContext, BoundValues, UuidSource};
use env::Env;
use model::Schema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use uuid::Uuid;

/// What is asked for of a table, in words that can be sent to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Select {
    /// The keyspace.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// Conditions as behind WHERE in CQL; filtering is allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Columns in the order that they are to have; all without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Tokens are greater than the first, and not greater than the second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_range: Option<(i64, i64)>,
    /// Rows at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// The form of the columns.
    #[serde(default)]
    pub options: ScanOptions,
    /// Whether the scan goes on behind damaged data. A node that does not know of it refuses the words.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub salvage: bool,
}

/// Uuids of functions in conditions.
#[derive(Debug)]
struct Uuids(Env);

impl UuidSource for Uuids {
    fn time_uuid(&self) -> Uuid {
        self.0.time_uuid()
    }

    fn random_uuid(&self) -> Uuid {
        self.0.random_uuid()
    }
}

impl Select {
    /// All of a table.
    pub fn of(keyspace: &str, table: &str) -> Select {
        Select { keyspace: keyspace.to_owned(), table: table.to_owned(), ..Select::default() }
    }

    /// How many rows a table has, and nothing else of it.
    pub fn count(keyspace: &str, table: &str) -> Select {
        Select { columns: Some(Vec::new()), ..Select::of(keyspace, table) }
    }

    /// Whether that is what is asked for.
    pub fn is_count(&self) -> bool {
        *self == Select::count(&self.keyspace, &self.table)
    }

    /// The SELECT of CQL that answers the same rows, for people. Write times and deletions, which may be
    /// asked for, too, are not in it, nor what becomes of damage.
    pub fn to_cql(&self, schema: &Schema) -> String {
        let name = |name: &str| Identifier::quoted(name).to_cql();
        let names = |names: &mut dyn Iterator<Item = &str>| names.map(name).collect::<Vec<_>>().join(", ");
        let columns = match self.columns.as_deref() {
            None => "*".to_owned(),
            // Rows are counted.
            Some([]) => "count(*)".to_owned(),
            Some(columns) => names(&mut columns.iter().map(String::as_str)),
        };
        let mut conditions: Vec<String> = self.filter.iter().cloned().collect();
        if let Some((after, through)) = self.token_range {
            let table = schema.keyspace(&self.keyspace).and_then(|keyspace| keyspace.store(&self.table));
            let key = table.map_or(&[][..], |table| table.partition_key());
            let token = format!("token({})", names(&mut key.iter().map(|column| column.name.as_str())));
            conditions.push(format!("{token} > {after} AND {token} <= {through}"));
        }
        let mut out = format!("SELECT {columns} FROM {}.{}", name(&self.keyspace), name(&self.table));
        if !conditions.is_empty() {
            out += &format!(" WHERE {}", conditions.join(" AND "));
        }
        if let Some(limit) = self.limit {
            out += &format!(" LIMIT {limit}");
        }
        out
    }

    /// The request that it is in a schema, as of now.
    ///
    /// # Errors
    /// When the schema has no such table, or the words make no sense for it.
    pub fn request(&self, env: &Env, schema: &Schema) -> Result<ScanRequest, BulkError> {
        let refused = |error: &dyn std::fmt::Display| BulkError::Request(error.to_string());
        // Made-up names of key columns are words of CQL.
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let (keyspace, table) = (quoted(&self.keyspace), quoted(&self.table));
        let filter = self.filter.as_deref().map(|filter| format!(" WHERE {filter}")).unwrap_or_default();
        let text = format!("SELECT * FROM {keyspace}.{table}{filter} ALLOW FILTERING");
        let parsed = cql::parser::parse_statement(&text).map_err(|e| refused(&e))?;
        let prepared = cql::prepare(parsed, schema, None).map_err(|e| refused(&e))?;
        let now_micros = env.now_micros();
        let context = BindContext {
            now_s: u32::try_from(env.now_seconds()).unwrap_or(0),
            now_micros,
            timestamp_micros: now_micros,
            page_size: None,
            expiration_max_s: u32::MAX,
            // The rows are not shaped by the statement: whoever opened the table sees all of it.
            unmasks: true,
            guard: None,
            uuids: Arc::new(Uuids(env.clone())),
        };
        let bound = prepared.bind(&BoundValues::NONE, &context).map_err(|e| refused(&e))?;
        let Bound::Select(select) = bound else {
            return Err(BulkError::Request(format!("{text} is no SELECT")));
        };
        if select.is_grouped || select.is_sorted {
            return Err(BulkError::Request("conditions are all that may stand behind WHERE".to_owned()));
        }
        let mut command = select.command.as_ref().clone();
        if let Some(limit) = self.limit {
            command.limits.rows = command.limits.rows.min(limit);
        }
        let request = ScanRequest::of_command(command, self.columns.as_deref(), self.options)?;
        let request = match self.token_range {
            Some((after, through)) => request.within(after, through),
            None => request,
        };
        Ok(ScanRequest { words: Some(Arc::new(self.clone())), salvages: self.salvage, ..request })
    }
}
