//! Schema statements that the node does not carry out: refused by name.
//!
//! What they name is looked up first: a table that is not there is a clearer answer, and IF EXISTS of something that
//! cannot exist is no error.

use super::guard::{self, Permission, Resource};
use super::{DdlContext, DdlOutcome};
use crate::ast::{FunctionName, FunctionSignature, QualifiedName, RawType, Statement};
use crate::error::{Result, bail};

pub(super) fn refuse(statement: &Statement, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    match statement {
        Statement::CreateIndex(create) => {
            existing_table(&create.table, ctx)?;
            bail!("Secondary indexes are not supported")
        }
        Statement::DropIndex { index, if_exists } => {
            // The stray quote is Cassandra's.
            absent(*if_exists, || {
                Ok(format!("Index '{}.{}' doesn't exist'", ctx.keyspace_of(index)?, index.name))
            })
        }
        Statement::CreateMaterializedView(_) => {
            bail!("Materialized views are disabled. Enable in cassandra.yaml to use.")
        }
        Statement::AlterMaterializedView(alter) => {
            absent(alter.if_exists, || view_is_absent(&alter.view, ctx))
        }
        Statement::DropMaterializedView { view, if_exists } => {
            absent(*if_exists, || view_is_absent(view, ctx))
        }
        Statement::CreateFunction(_) => bail!(
            "User-defined functions are disabled in cassandra.yaml - set user_defined_functions_enabled=true to enable"
        ),
        Statement::DropFunction(drop) => absent(drop.if_exists, || function_is_absent("Function", drop, ctx)),
        Statement::CreateAggregate(create) => {
            // An aggregate needs a function of the user's, and there can be none.
            let types: Vec<&RawType> =
                std::iter::once(&create.state_type).chain(&create.argument_types).collect();
            let function =
                FunctionName { keyspace: create.name.keyspace.clone(), name: create.state_function.clone() };
            bail!("State function {}{} doesn't exist", function_name(&function, ctx)?, joined(types))
        }
        Statement::DropAggregate(drop) => {
            absent(drop.if_exists, || function_is_absent("Aggregate", drop, ctx))
        }
        Statement::CreateTrigger(create) => {
            existing_table(&create.table, ctx)?;
            bail!("Trigger class '{}' couldn't be loaded", create.class)
        }
        Statement::DropTrigger { name, table, if_exists } => absent(*if_exists, || {
            Ok(format!("Trigger '{name}' on '{}.{}' doesn't exist", ctx.keyspace_of(table)?, table.name))
        }),
        other => bail!("{} is not a schema statement", other.kind()),
    }
}

/// The answer to a statement on something that is not there.
fn absent(if_exists: bool, message: impl FnOnce() -> Result<String>) -> Result<Option<DdlOutcome>> {
    let message = message()?;
    if if_exists { Ok(None) } else { bail!("{message}") }
}

fn existing_table(table: &QualifiedName, ctx: &DdlContext<'_>) -> Result<()> {
    let keyspace = ctx.keyspace_of(table)?;
    guard::check(keyspace, Permission::Alter, Resource::Table(table.name.as_str()))?;
    if ctx.existing_keyspace(keyspace)?.tables.contains_key(table.name.as_str()) {
        return Ok(());
    }
    bail!("Table '{}' doesn't exist", table.name)
}

fn view_is_absent(view: &QualifiedName, ctx: &DdlContext<'_>) -> Result<String> {
    Ok(format!("Materialized view '{}.{}' doesn't exist", ctx.keyspace_of(view)?, view.name))
}

fn function_is_absent(what: &str, drop: &FunctionSignature, ctx: &DdlContext<'_>) -> Result<String> {
    let arguments = drop.argument_types.as_ref().map(joined).unwrap_or_default();
    Ok(format!("{what} '{}{arguments}' doesn't exist", function_name(&drop.name, ctx)?))
}

fn function_name(name: &FunctionName, ctx: &DdlContext<'_>) -> Result<String> {
    Ok(format!("{}.{}", ctx.or_session(name.keyspace.as_ref())?, name.name))
}

fn joined<'a>(types: impl IntoIterator<Item = &'a RawType>) -> String {
    let types: Vec<String> = types.into_iter().map(RawType::to_string).collect();
    format!("({})", types.join(", "))
}
