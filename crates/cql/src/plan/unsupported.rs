//! Statements about roles, which the node does not carry out: each is refused by name. What it does not carry out of
//! the statements that change the schema, `ddl` refuses: those answers depend on the schema.

use crate::ast::Statement;
use crate::error::{Result, bail};

/// An error that says what is not supported, for statements that are not.
pub(super) fn refuse(statement: &Statement) -> Result<()> {
    let what = match statement {
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
