//! The abstract syntax tree of CQL: what a statement says, before anything is looked up in the schema.
//!
//! Contract:
//! 1. A tree owns its text, so it outlives the query string; it holds no schema objects.
//! 2. Identifiers are already folded: an unquoted `Name` is stored as `name`, a quoted one as it stood.
//! 3. Literals keep Cassandra's raw text (a string without its quotes, `0xCAFE` as written), since their
//!    meaning depends on the type that receives them.
//! 4. Bind markers are numbered from zero in the order of the text; [`ParsedStatement::markers`] holds their
//!    names. Every `Term::Marker(i)` and `InValues::Marker(i)` indexes that list, batches included.
//! 5. Trees are shallow: the parser bounds nesting, so walking one recursively is safe.
//!
//! `Display` prints what Cassandra prints (error messages, result column names), not always valid CQL; where
//! CQL is wanted (quoted identifiers), the method says so, as [`Identifier::to_cql`].

mod describe;
mod dml;
mod name;
mod relation;
mod role;
mod schema;
mod select;
mod selectable;
mod term;
mod types;

#[cfg(test)]
mod tests;

pub use describe::{Describe, DescribeTarget};
pub use dml::{
    Assignment, Batch, BatchKind, ColumnCondition, ConditionTarget, ConditionTest, Delete, Deletion,
    DeletionTarget, Insert, InsertJson, JsonValue, Modification, ModificationCondition, Update,
    UpdateOperation, Using,
};
pub use name::{FunctionName, Identifier, QualifiedName, TextRange};
pub use relation::{ComparisonOperator, InValues, Relation, WherePredicate};
pub use role::{
    AlterRole, CreateRole, Grant, GrantRole, ListPermissions, ListRoles, Permission, Permissions, Resource,
    Revoke, RevokeRole, RoleName, RoleOption,
};
pub use schema::{
    AlterKeyspace, AlterMaterializedView, AlterTable, AlterTableAction, AlterType, AlterTypeAction,
    ColumnDefinition, ColumnMask, CreateAggregate, CreateFunction, CreateIndex, CreateKeyspace,
    CreateMaterializedView, CreateTable, CreateTrigger, CreateType, FunctionSignature, IndexTarget,
    IndexTargetKind, PrimaryKey, Property, PropertyValue,
};
pub use select::{OrderBy, OrderByExpression, Select, Selection};
pub use selectable::{Selectable, Selector, Subselection, WritetimeKind};
pub use term::{ArithmeticOperator, Literal, LiteralKind, Term};
pub use types::{NativeType, RawType};

/// One statement and the bind markers in it: the result of parsing.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedStatement {
    /// The statement.
    pub statement: Statement,
    /// The bind markers in the order of the text: `None` for `?`, the folded name for `:name`. A name that is
    /// used twice stands twice, as in Cassandra.
    pub markers: Vec<Option<Identifier>>,
}

/// A CQL statement of Cassandra 5.0, whether or not the node carries it out.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant is named after its statement; the payloads are documented")]
pub enum Statement {
    Select(Box<Select>),
    Insert(Box<Insert>),
    InsertJson(Box<InsertJson>),
    Update(Box<Update>),
    Delete(Box<Delete>),
    Batch(Box<Batch>),
    /// `USE keyspace`.
    Use(Identifier),
    /// `TRUNCATE [TABLE] table`.
    Truncate(QualifiedName),

    CreateKeyspace(Box<CreateKeyspace>),
    AlterKeyspace(Box<AlterKeyspace>),
    /// `DROP KEYSPACE`.
    DropKeyspace {
        keyspace: Identifier,
        if_exists: bool,
    },
    CreateTable(Box<CreateTable>),
    AlterTable(Box<AlterTable>),
    /// `DROP TABLE`.
    DropTable {
        table: QualifiedName,
        if_exists: bool,
    },
    CreateType(Box<CreateType>),
    AlterType(Box<AlterType>),
    /// `DROP TYPE`.
    DropType {
        name: QualifiedName,
        if_exists: bool,
    },
    CreateIndex(Box<CreateIndex>),
    /// `DROP INDEX`.
    DropIndex {
        index: QualifiedName,
        if_exists: bool,
    },
    CreateMaterializedView(Box<CreateMaterializedView>),
    AlterMaterializedView(Box<AlterMaterializedView>),
    /// `DROP MATERIALIZED VIEW`.
    DropMaterializedView {
        view: QualifiedName,
        if_exists: bool,
    },
    CreateFunction(Box<CreateFunction>),
    /// `DROP FUNCTION`.
    DropFunction(Box<FunctionSignature>),
    CreateAggregate(Box<CreateAggregate>),
    /// `DROP AGGREGATE`.
    DropAggregate(Box<FunctionSignature>),
    CreateTrigger(Box<CreateTrigger>),
    /// `DROP TRIGGER`.
    DropTrigger {
        name: Identifier,
        table: QualifiedName,
        if_exists: bool,
    },

    /// `CREATE ROLE` and `CREATE USER`.
    CreateRole(Box<CreateRole>),
    /// `ALTER ROLE` and `ALTER USER`.
    AlterRole(Box<AlterRole>),
    /// `DROP ROLE` and `DROP USER` (which Cassandra treats alike).
    DropRole {
        role: RoleName,
        if_exists: bool,
    },
    Grant(Box<Grant>),
    Revoke(Box<Revoke>),
    GrantRole(Box<GrantRole>),
    RevokeRole(Box<RevokeRole>),
    ListPermissions(Box<ListPermissions>),
    ListRoles(Box<ListRoles>),
    /// `LIST USERS`.
    ListUsers,
    /// `ADD IDENTITY 'identity' TO ROLE 'role'`.
    AddIdentity {
        identity: String,
        role: String,
        if_not_exists: bool,
    },
    /// `DROP IDENTITY 'identity'`.
    DropIdentity {
        identity: String,
        if_exists: bool,
    },

    Describe(Box<Describe>),
    /// `EXPLAIN [ANALYZE] SELECT ...`, which Cassandra does not have.
    Explain {
        analyze: bool,
        select: Box<Select>,
    },
}

impl Statement {
    /// The table or user type that a change of the schema is about.
    pub(crate) fn changed_name(&self) -> Option<&QualifiedName> {
        match self {
            Statement::CreateTable(create) => Some(&create.table),
            Statement::AlterTable(alter) => Some(&alter.table),
            Statement::DropTable { table, .. } => Some(table),
            Statement::CreateType(create) => Some(&create.name),
            Statement::AlterType(alter) => Some(&alter.name),
            Statement::DropType { name, .. } => Some(name),
            _ => None,
        }
    }

    /// The words that name this kind of statement, for refusals and traces: `CREATE TABLE`, `SELECT`, ...
    pub fn kind(&self) -> &'static str {
        match self {
            Statement::Select(_) => "SELECT",
            Statement::Insert(_) => "INSERT",
            Statement::InsertJson(_) => "INSERT JSON",
            Statement::Update(_) => "UPDATE",
            Statement::Delete(_) => "DELETE",
            Statement::Batch(_) => "BATCH",
            Statement::Use(_) => "USE",
            Statement::Truncate(_) => "TRUNCATE",
            Statement::CreateKeyspace(_) => "CREATE KEYSPACE",
            Statement::AlterKeyspace(_) => "ALTER KEYSPACE",
            Statement::DropKeyspace { .. } => "DROP KEYSPACE",
            Statement::CreateTable(_) => "CREATE TABLE",
            Statement::AlterTable(_) => "ALTER TABLE",
            Statement::DropTable { .. } => "DROP TABLE",
            Statement::CreateType(_) => "CREATE TYPE",
            Statement::AlterType(_) => "ALTER TYPE",
            Statement::DropType { .. } => "DROP TYPE",
            Statement::CreateIndex(_) => "CREATE INDEX",
            Statement::DropIndex { .. } => "DROP INDEX",
            Statement::CreateMaterializedView(_) => "CREATE MATERIALIZED VIEW",
            Statement::AlterMaterializedView(_) => "ALTER MATERIALIZED VIEW",
            Statement::DropMaterializedView { .. } => "DROP MATERIALIZED VIEW",
            Statement::CreateFunction(_) => "CREATE FUNCTION",
            Statement::DropFunction(_) => "DROP FUNCTION",
            Statement::CreateAggregate(_) => "CREATE AGGREGATE",
            Statement::DropAggregate(_) => "DROP AGGREGATE",
            Statement::CreateTrigger(_) => "CREATE TRIGGER",
            Statement::DropTrigger { .. } => "DROP TRIGGER",
            Statement::CreateRole(_) => "CREATE ROLE",
            Statement::AlterRole(_) => "ALTER ROLE",
            Statement::DropRole { .. } => "DROP ROLE",
            Statement::Grant(_) | Statement::GrantRole(_) => "GRANT",
            Statement::Revoke(_) | Statement::RevokeRole(_) => "REVOKE",
            Statement::ListPermissions(_) => "LIST PERMISSIONS",
            Statement::ListRoles(_) => "LIST ROLES",
            Statement::ListUsers => "LIST USERS",
            Statement::AddIdentity { .. } => "ADD IDENTITY",
            Statement::DropIdentity { .. } => "DROP IDENTITY",
            Statement::Describe(_) => "DESCRIBE",
            Statement::Explain { .. } => "EXPLAIN",
        }
    }
}
