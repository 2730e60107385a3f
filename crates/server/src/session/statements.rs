//! Prepared statements: found by id, evicted by use, kept across restarts.
//!
//! The cache is bounded by the bytes that its statements hold: text, plan, and columns in the encodings of
//! all versions. `system.prepared_statements` holds the text of each, so that clients need not prepare again
//! after a restart; what the cache drops is deleted there. A statement whose table changed is dropped, too:
//! the next execution answers UNPREPARED, the driver prepares again and gets the new columns under the same
//! id.

use std::sync::{Arc, OnceLock};

use cql::ast::ParsedStatement;
use cql::bind::ColumnSpec;
use cql::plan::Prepared;
use model::Schema;
use parking_lot::Mutex;
use protocol::ProtocolVersion;
use protocol::ids::{self, Id};
use protocol::response::error::ErrorResponse;
use protocol::response::rows::{self, EncodedColumns};
use quick_cache::sync::Cache;
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};

use super::error;
use crate::auth::check::{self, Need};
use crate::metrics::Metrics;

/// Parts of the cache with locks of their own. A statement has to fit into one, so there are few.
const SHARDS: usize = 2;

/// Bytes that a usual statement holds: how many the cache makes itself ready for.
const USUAL_BYTES: u64 = 4_096;

/// A statement that needs no more parsing.
pub(super) struct Statement {
    pub(super) text: Arc<str>,
    /// The keyspace of its unqualified names; `None` when it has none.
    pub(super) keyspace: Option<Arc<str>>,
    pub(super) plan: Prepared,
    pub(super) id: Id,
    pub(super) result_metadata_id: Id,
    encoded: [OnceLock<EncodedColumns>; ProtocolVersion::ALL.len()],
    held_bytes: OnceLock<u64>,
    needs: OnceLock<Vec<Need>>,
}

impl Statement {
    /// Parses and prepares `text` against `schema`.
    pub(super) fn compile(
        text: Arc<str>,
        keyspace: Option<&str>,
        schema: &Arc<Schema>,
    ) -> Result<Statement, ErrorResponse> {
        let parsed: ParsedStatement = cql::parser::parse_statement(&text).map_err(error::of_syntax)?;
        let plan = cql::plan::prepare(parsed, schema, keyspace).map_err(error::of_cql)?;
        let keyspace: Option<Arc<str>> =
            if plan.is_qualified { None } else { keyspace.map(Arc::<str>::from) };
        Ok(Statement {
            id: ids::prepared_id(keyspace.as_deref(), &text),
            result_metadata_id: ids::result_metadata_id(
                plan.result_columns.iter().map(|column| (&column.name, column.ty.class_name())),
            ),
            text,
            keyspace,
            plan,
            encoded: Default::default(),
            held_bytes: OnceLock::new(),
            needs: OnceLock::new(),
        })
    }

    /// The columns of its result in the encoding of `version`.
    pub(super) fn encoded_columns(&self, version: ProtocolVersion) -> &EncodedColumns {
        let at = ProtocolVersion::ALL.iter().position(|known| *known == version).unwrap_or_default();
        self.encoded[at].get_or_init(|| encode_columns(version, &self.plan.result_columns))
    }

    /// The permissions that it needs on tables, looked up once: with a change of them the statement goes.
    pub(super) fn needs(&self, schema: impl FnOnce() -> Arc<Schema>) -> &[Need] {
        self.needs.get_or_init(|| check::needs(&self.plan, &schema()))
    }

    /// Bytes of memory that it holds, or will when clients of every version have asked for it.
    fn held_bytes(&self) -> u64 {
        *self.held_bytes.get_or_init(|| {
            let encoded =
                self.encoded_columns(ProtocolVersion::HIGHEST).length() * ProtocolVersion::ALL.len();
            (self.plan.held_bytes(&self.text) + encoded) as u64
        })
    }

    /// Whether a table of the statement differs between two schemas.
    fn is_touched_by(&self, old: &Schema, new: &Schema) -> bool {
        self.plan.tables.iter().any(|reference| {
            let before = old.table(&reference.keyspace, &reference.table);
            let after = new.table(&reference.keyspace, &reference.table);
            match (before, after) {
                (Some(before), Some(after)) => !Arc::ptr_eq(before, after) && before != after,
                _ => true,
            }
        })
    }
}

/// The columns of a result as the protocol names them.
pub(super) fn to_protocol(columns: &[ColumnSpec]) -> Vec<rows::ColumnSpec> {
    columns
        .iter()
        .map(|column| rows::ColumnSpec {
            keyspace: column.keyspace.to_string(),
            table: column.table.to_string(),
            name: column.name.clone(),
            kind: column.ty.clone(),
        })
        .collect()
}

/// The columns of a result in the encoding of `version`.
pub(super) fn encode_columns(version: ProtocolVersion, columns: &[ColumnSpec]) -> EncodedColumns {
    EncodedColumns::new(version, &to_protocol(columns))
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Id, Arc<Statement>> for ByBytes {
    fn weight(&self, _: &Id, statement: &Arc<Statement>) -> u64 {
        statement.held_bytes()
    }
}

/// Remembers what was evicted, until somebody forgets it on disk.
#[derive(Clone, Default)]
struct Evicted(Arc<Mutex<Vec<Id>>>);

impl quick_cache::Lifecycle<Id, Arc<Statement>> for Evicted {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), id: Id, _: Arc<Statement>) {
        self.0.lock().push(id);
    }
}

type StatementCache = Cache<Id, Arc<Statement>, ByBytes, DefaultHashBuilder, Evicted>;

/// The prepared statements of the node.
pub(super) struct Statements {
    cache: StatementCache,
    statement_bytes_max: u64,
    evicted: Evicted,
    metrics: Arc<Metrics>,
}

impl Statements {
    pub(super) fn new(bytes_max: u64, metrics: Arc<Metrics>) -> Statements {
        let evicted = Evicted::default();
        let items = usize::try_from(bytes_max / USUAL_BYTES).unwrap_or(usize::MAX).max(16);
        let options = OptionsBuilder::new()
            .estimated_items_capacity(items)
            .weight_capacity(bytes_max)
            .shards(SHARDS)
            .build()
            .unwrap_or_else(|_| unreachable!("both capacities are given"));
        let cache =
            StatementCache::with_options(options, ByBytes, DefaultHashBuilder::default(), evicted.clone());
        Statements { cache, statement_bytes_max: bytes_max / SHARDS as u64, evicted, metrics }
    }

    /// The statement of an id as clients send it.
    pub(super) fn get(&self, id: &[u8]) -> Option<Arc<Statement>> {
        let id: Id = id.try_into().ok()?;
        self.cache.get(&id)
    }

    /// Refuses a statement for which the cache has no room.
    pub(super) fn check_size(&self, statement: &Arc<Statement>) -> Result<(), ErrorResponse> {
        let bytes = ByBytes.weight(&statement.id, statement);
        if bytes <= self.statement_bytes_max {
            return Ok(());
        }
        let beginning: String = statement.text.chars().take(200).collect();
        Err(ErrorResponse::invalid(format!(
            "Prepared statement of size {bytes} bytes is larger than allowed maximum of {} MB: {beginning}...",
            self.statement_bytes_max >> 20
        )))
    }

    /// Keeps a statement; returns whether it is new, and the ids of those that made room.
    pub(super) fn insert(&self, statement: Arc<Statement>) -> (bool, Vec<Id>) {
        let is_new = self.cache.peek(&statement.id).is_none();
        self.cache.insert(statement.id, statement);
        let mut evicted = std::mem::take(&mut *self.evicted.0.lock());
        // A statement that took the place of its equal pushed that one out, and is there all the same.
        evicted.retain(|id| self.cache.peek(id).is_none());
        self.metrics.prepared_statements_evicted.add(evicted.len() as u64);
        self.count();
        (is_new, evicted)
    }

    /// Drops the statements that the change from `old` to `new` concerns, and returns their ids: they are to
    /// be forgotten on disk, too.
    pub(super) fn invalidate(&self, old: &Schema, new: &Schema) -> Vec<Id> {
        let stale: Vec<Id> = self
            .cache
            .iter()
            .filter(|(_, statement)| statement.is_touched_by(old, new))
            .map(|(id, _)| id)
            .collect();
        stale.iter().for_each(|id| drop(self.cache.remove(id)));
        self.count();
        stale
    }

    fn count(&self) {
        self.metrics.prepared_statements.set(self.cache.len() as i64);
    }
}
