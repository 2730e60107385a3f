//! Which permission a schema statement needs, and on what.

use super::guard::{self, Permission as Change, Resource as Changed};
use crate::ast::{Identifier, Permission, QualifiedName, Resource, Statement};
use crate::error::{Result, bail};

/// The permission that a statement needs and what it is needed on; `None` for statements that are refused to
/// everybody. The system's own keyspaces are refused here, because no permission opens them.
///
/// # Errors
/// In Cassandra's words.
pub fn needed(statement: &Statement, in_use: Option<&str>) -> Result<Option<(Permission, Resource)>> {
    let keyspace_of = |name: &QualifiedName| match (&name.keyspace, in_use) {
        (Some(keyspace), _) => Ok(keyspace.clone()),
        (None, Some(keyspace)) => Ok(Identifier::quoted(keyspace)),
        (None, None) => {
            bail!("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
        }
    };
    let all_tables = |name: &QualifiedName, permission: Permission, change: Change| {
        let keyspace = keyspace_of(name)?;
        guard::check(keyspace.as_str(), change, Changed::AllTables)?;
        Ok::<_, crate::error::CqlError>((permission, Resource::AllTables(keyspace)))
    };
    let table = |name: &QualifiedName, permission: Permission, change: Change| {
        let keyspace = keyspace_of(name)?;
        guard::check(keyspace.as_str(), change, Changed::Table(name.name.as_str()))?;
        let name = QualifiedName { keyspace: Some(keyspace), name: name.name.clone() };
        Ok::<_, crate::error::CqlError>((permission, Resource::Table(name)))
    };
    let keyspace = |name: &Identifier, permission: Permission, change: Change| {
        guard::check(name.as_str(), change, Changed::Keyspace)?;
        Ok::<_, crate::error::CqlError>((permission, Resource::Keyspace(name.clone())))
    };
    Ok(Some(match statement {
        Statement::CreateKeyspace(_) => (Permission::Create, Resource::AllKeyspaces),
        Statement::AlterKeyspace(alter) => keyspace(&alter.keyspace, Permission::Alter, Change::Alter)?,
        Statement::DropKeyspace { keyspace: name, .. } => keyspace(name, Permission::Drop, Change::Drop)?,
        Statement::CreateTable(create) => all_tables(&create.table, Permission::Create, Change::Create)?,
        Statement::AlterTable(alter) => table(&alter.table, Permission::Alter, Change::Alter)?,
        Statement::DropTable { table: name, .. } => table(name, Permission::Drop, Change::Drop)?,
        Statement::CreateType(create) => all_tables(&create.name, Permission::Create, Change::Create)?,
        Statement::AlterType(alter) => all_tables(&alter.name, Permission::Alter, Change::Alter)?,
        Statement::DropType { name, .. } => all_tables(name, Permission::Drop, Change::Drop)?,
        Statement::CreateIndex(create) => table(&create.table, Permission::Alter, Change::Alter)?,
        // A view is looked up to its table by whoever knows the schema.
        Statement::DropMaterializedView { view, .. } => table(view, Permission::Alter, Change::Alter)?,
        Statement::AlterMaterializedView(alter) => table(&alter.view, Permission::Alter, Change::Alter)?,
        _ => return Ok(None),
    }))
}
