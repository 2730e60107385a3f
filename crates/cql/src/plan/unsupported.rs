//! Statements of Cassandra that the node does not carry out: each is refused by name.

use crate::ast::Statement;
use crate::error::{Result, bail};

/// An error that says what is not supported, for statements that are not.
pub(super) fn refuse(statement: &Statement) -> Result<()> {
    let what = match statement {
        Statement::CreateIndex(_) | Statement::DropIndex { .. } => "secondary indexes are",
        Statement::CreateMaterializedView(_)
        | Statement::AlterMaterializedView(_)
        | Statement::DropMaterializedView { .. } => "materialized views are",
        Statement::CreateFunction(_) | Statement::DropFunction(_) => "user-defined functions are",
        Statement::CreateAggregate(_) | Statement::DropAggregate(_) => "user-defined aggregates are",
        Statement::CreateTrigger(_) | Statement::DropTrigger { .. } => "triggers are",
        Statement::CreateRole(_)
        | Statement::AlterRole(_)
        | Statement::DropRole { .. }
        | Statement::GrantRole(_)
        | Statement::RevokeRole(_)
        | Statement::ListRoles(_)
        | Statement::ListUsers => "roles are",
        Statement::Grant(_) | Statement::Revoke(_) | Statement::ListPermissions(_) => "permissions are",
        Statement::AddIdentity { .. } | Statement::DropIdentity { .. } => "identities are",
        _ => return Ok(()),
    };
    bail!("{} is not supported: {what} not implemented", statement.kind())
}
