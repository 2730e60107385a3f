//! Whether a statement may be carried out: the permissions that it needs, table by table, as Cassandra asks
//! for them.
//!
//! | statement | needs |
//! |---|---|
//! | SELECT, EXPLAIN | SELECT on the table; of a view, on what it shows |
//! | INSERT, UPDATE, DELETE | MODIFY, and SELECT under conditions |
//! | WHERE of a SELECT, IF: about masked columns | UNMASK or SELECT_MASKED |
//! | TRUNCATE | MODIFY |
//! | CREATE, ALTER, DROP of the schema | `cql::ddl::access` |
//! | USE, DESCRIBE | a login |
//! | on roles | [`super::statements`] |

use cql::ast::{Permission, Statement as Tree};
use cql::ddl::access;
use cql::error::CqlError;
use cql::plan::{Prepared, StatementKind, TableRef};
use model::Schema;
#[cfg(feature = "bulk")]
use model::TableSchema;
use protocol::response::error::{ErrorKind, ErrorResponse};

use super::Principal;
use super::permission;
use super::resource::Resource;

/// A permission that a statement needs.
#[derive(Debug)]
pub(crate) struct Need {
    permission: Permission,
    resource: Resource,
}

/// Tables that whoever has logged in may read: drivers and tools rely on them.
fn is_open(keyspace: &str, table: &str) -> bool {
    match keyspace {
        "system" => matches!(table, "local" | "peers" | "peers_v2" | "size_estimates" | "table_estimates"),
        "system_schema" | "system_traces" | "system_virtual_schema" => true,
        _ => false,
    }
}

/// What a statement needs that was planned for `schema`.
pub(crate) fn needs(plan: &Prepared, schema: &Schema) -> Vec<Need> {
    let permissions: &[Permission] = match plan.kind {
        StatementKind::Select | StatementKind::Explain => &[Permission::Select],
        StatementKind::Truncate => &[Permission::Modify],
        StatementKind::Insert | StatementKind::Update | StatementKind::Delete | StatementKind::Batch => {
            match plan.is_conditional {
                true => &[Permission::Modify, Permission::Select],
                false => &[Permission::Modify],
            }
        }
        // Judged when they are carried out.
        StatementKind::Use | StatementKind::Schema | StatementKind::Role | StatementKind::Describe => &[],
    };
    let mut needs = Vec::new();
    for table in &plan.tables {
        for &permission in permissions {
            needs.extend(need(permission, &table.keyspace, &table.table, schema));
        }
    }
    needs
}

/// What it needs to do something with a table; `None` where a login is enough.
fn need(permission: Permission, keyspace: &str, table: &str, schema: &Schema) -> Option<Need> {
    if permission == Permission::Select && is_open(keyspace, table) {
        return None;
    }
    let view = schema.keyspace(keyspace).and_then(|keyspace| keyspace.views.get(table));
    let name = view.map_or(table, |view| &view.base_name);
    Some(Need { permission, resource: Resource::table(keyspace, name) })
}

/// Refuses a read of a table that the principal may not read.
///
/// # Errors
/// In Cassandra's words.
#[cfg(feature = "bulk")]
pub(crate) fn check_read(
    principal: &Principal,
    keyspace: &str,
    table: &str,
    schema: &Schema,
) -> Result<(), ErrorResponse> {
    let need = need(Permission::Select, keyspace, table, schema);
    check(principal, need.as_slice())
}

/// Refuses a table with masked columns to who would see them only masked, where rows go out as they are.
///
/// # Errors
/// In words of Ilion's own.
#[cfg(feature = "bulk")]
pub(crate) fn check_unmasked(principal: &Principal, table: &TableSchema) -> Result<(), ErrorResponse> {
    if unmasks(principal, &table.keyspace, &table.name) {
        return Ok(());
    }
    let columns: Vec<&str> = table.masks.iter().map(|mask| mask.column.as_str()).collect();
    Err(unauthorized(format!(
        "User {} has no UNMASK permission on table {}.{}, whose columns [{}] are masked; CQL shows their masks",
        principal.name(),
        table.keyspace,
        table.name,
        columns.join(", ")
    )))
}

/// Refuses what needs a permission that the principal does not have.
///
/// # Errors
/// In Cassandra's words.
pub(crate) fn check(principal: &Principal, needs: &[Need]) -> Result<(), ErrorResponse> {
    let grants = principal.grants();
    match needs.iter().find(|need| !grants.allow(need.permission, &need.resource)) {
        None => Ok(()),
        Some(need) => Err(refusal(principal, need.permission, &need.resource)),
    }
}

/// Whether the principal sees the masked columns of a table or a view as they are.
pub(crate) fn unmasks(principal: &Principal, keyspace: &str, table: &str) -> bool {
    principal.grants().allow(Permission::Unmask, &Resource::table(keyspace, table))
}

/// Refuses a statement whose conditions would tell the principal what is masked from it. Cassandra asks this
/// of SELECT alone.
///
/// # Errors
/// In Cassandra's words.
pub(crate) fn check_masked_conditions(principal: &Principal, plan: &Prepared) -> Result<(), ErrorResponse> {
    if plan.masked_conditions.is_empty() {
        return Ok(());
    }
    let grants = principal.grants();
    let may_ask = |table: &TableRef| {
        let resource = Resource::table(&table.keyspace, &table.table);
        grants.allow(Permission::Unmask, &resource) || grants.allow(Permission::SelectMasked, &resource)
    };
    let Some(table) = plan.tables.iter().find(|table| !may_ask(table)) else { return Ok(()) };
    Err(unauthorized(format!(
        "User {} has no UNMASK nor SELECT_MASKED permission on table {}.{}, cannot query masked columns [{}]",
        principal.name(),
        table.keyspace,
        table.table,
        plan.masked_conditions.join(", ")
    )))
}

/// Refuses a change of the schema that the principal may not make.
///
/// # Errors
/// In Cassandra's words.
pub(crate) fn check_schema(
    principal: &Principal,
    statement: &Tree,
    in_use: Option<&str>,
    schema: &Schema,
) -> Result<(), ErrorResponse> {
    let needed = access::needed(statement, in_use).map_err(of_cql)?;
    let Some((permission, resource)) = needed else { return Ok(()) };
    let mut resource = Resource::of(&resource, in_use);
    if let Resource::Table(keyspace, name) = &resource
        && let Some(view) = schema.keyspace(keyspace).and_then(|keyspace| keyspace.views.get(name))
    {
        resource = Resource::table(keyspace, &view.base_name);
    }
    check(principal, &[Need { permission, resource }])
}

/// A statement that is refused for what it says.
pub(super) fn of_cql(error: CqlError) -> ErrorResponse {
    let kind = match error {
        CqlError::Syntax(_) => ErrorKind::Syntax,
        CqlError::Unauthorized(_) => ErrorKind::Unauthorized,
        CqlError::Config(_) => ErrorKind::Config,
        _ => ErrorKind::Invalid,
    };
    ErrorResponse::new(kind, error.to_string())
}

/// What somebody is told who lacks a permission.
pub(crate) fn refusal(principal: &Principal, permission: Permission, resource: &Resource) -> ErrorResponse {
    let (name, permission) = (principal.name(), permission::name(permission));
    unauthorized(format!("User {name} has no {permission} permission on {resource} or any of its parents"))
}

/// Refuses something.
pub(crate) fn unauthorized(message: impl Into<String>) -> ErrorResponse {
    ErrorResponse::new(ErrorKind::Unauthorized, message)
}
