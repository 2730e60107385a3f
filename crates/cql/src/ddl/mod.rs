//! Statements that change the schema: from a tree and a schema to the next schema, without any I/O.
//!
//! [`apply`] judges a statement in Cassandra's order, because that order decides which error is seen:
//! 1. what the statement alone shows to be wrong (two primary keys);
//! 2. whether users may change that keyspace at all (`guard`);
//! 3. features that are switched off (masks), guardrails, and values that properties cannot have;
//! 4. what it says about the present schema, what its properties are worth, and its types;
//! 5. the changed table as a whole (`create_table::validate`).
//!
//! A statement that changes nothing (`IF NOT EXISTS`, an option set to the value that it has) gives `None`,
//! and clients are told of no change.

pub mod access;
mod alter_table;
mod compact;
mod compat;
mod create_table;
mod guard;
mod keyspace;
mod masks;
mod options;
mod release;
mod size;
mod stored;
pub(crate) mod types;
mod unsupported;
mod user_type;

pub use options::{TABLE_PROPERTIES, TableDefaults};

#[cfg(test)]
mod tests;

use crate::ast::{Identifier, QualifiedName, Statement};
use crate::error::{Result, bail};
use crate::guardrails::Guard;
use model::{KeyspaceSchema, Schema, TableSchema};
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
    /// The data centers that there are, and how many nodes each has.
    pub datacenters: &'a [(Arc<str>, u32)],
    /// `drop_compact_storage_enabled`: whether tables WITH COMPACT STORAGE may become tables of CQL.
    pub drops_compact_storage: bool,
    /// `dynamic_data_masking_enabled`: whether columns may be masked.
    pub masking_enabled: bool,
    /// `default_keyspace_rf`: the replication factor where a statement gives none.
    pub default_factor: u32,
    /// What the configuration says of new tables.
    pub tables: &'a TableDefaults,
    /// The guardrails; `None` for those whom none holds.
    pub guard: Option<&'a Guard>,
}

/// What a schema statement brings about.
#[derive(Clone, Debug, PartialEq)]
pub struct DdlOutcome {
    /// The schema after. Its version is still that of the schema before: whoever publishes it computes the
    /// new one.
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

/// A change of the schema, as the native protocol tells it (docs/formats/native-protocol.md).
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
    match statement {
        Statement::CreateKeyspace(create) => keyspace::create(create, ctx),
        Statement::AlterKeyspace(alter) => keyspace::alter(alter, ctx),
        Statement::DropKeyspace { keyspace, if_exists } => keyspace::drop(keyspace, *if_exists, ctx),
        Statement::CreateTable(create) => create_table::create(create, ctx),
        Statement::AlterTable(alter) => alter_table::alter(alter, ctx),
        Statement::DropTable { table, if_exists } => alter_table::drop(table, *if_exists, ctx),
        Statement::CreateType(create) => user_type::create(create, ctx),
        Statement::AlterType(alter) => user_type::alter(alter, ctx),
        Statement::DropType { name, if_exists } => user_type::drop(name, *if_exists, ctx),
        Statement::DropMaterializedView { view, if_exists } => alter_table::drop_view(view, *if_exists, ctx),
        other => unsupported::refuse(other, ctx),
    }
}

impl<'a> DdlContext<'a> {
    /// The keyspace that a name is in.
    fn keyspace_of<'n>(&self, name: &'n QualifiedName) -> Result<&'n str>
    where
        'a: 'n,
    {
        self.or_session(name.keyspace.as_ref())
    }

    fn or_session<'n>(&self, given: Option<&'n Identifier>) -> Result<&'n str>
    where
        'a: 'n,
    {
        match (given, self.keyspace) {
            (Some(keyspace), _) => Ok(keyspace.as_str()),
            (None, Some(keyspace)) => Ok(keyspace),
            (None, None) => bail!(
                "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename"
            ),
        }
    }

    /// A keyspace that must be there.
    fn existing_keyspace(&self, name: &str) -> Result<&'a Arc<KeyspaceSchema>> {
        match self.schema.keyspace(name) {
            Some(keyspace) => Ok(keyspace),
            None => bail!("Keyspace '{name}' doesn't exist"),
        }
    }

    /// The outcome in which `keyspace` has taken the place of the one before; `None` when they are the same.
    fn replaced(
        &self,
        keyspace: KeyspaceSchema,
        kind: ChangeKind,
        target: ChangeTarget,
        name: Option<&str>,
    ) -> Option<DdlOutcome> {
        if self.schema.keyspace(&keyspace.name).is_some_and(|before| **before == keyspace) {
            return None;
        }
        let change =
            SchemaChange { kind, target, keyspace: keyspace.name.clone(), name: name.map(str::to_owned) };
        Some(DdlOutcome { schema: self.schema.with_keyspace(keyspace), change, warnings: Vec::new() })
    }

    /// The same for a table that is created or changed.
    fn with_table(
        &self,
        keyspace: &KeyspaceSchema,
        table: TableSchema,
        kind: ChangeKind,
    ) -> Option<DdlOutcome> {
        let name = table.name.clone();
        let mut keyspace = keyspace.clone();
        keyspace.tables.insert(name.clone(), Arc::new(table));
        self.replaced(keyspace, kind, ChangeTarget::Table, Some(&name))
    }
}

/// `keyspace.name`, each quoted where CQL needs that.
fn full_name(keyspace: &str, name: &str) -> String {
    format!("{}.{}", quoted(keyspace), quoted(name))
}

fn quoted(name: &str) -> String {
    Identifier::quoted(name).to_cql()
}
