//! Schema statements that the node does not carry out: refused by name.
//!
//! What they name is looked up first: a table that is not there is a clearer answer, and IF EXISTS of
//! something that cannot exist is no error.

use super::guard::{self, Permission, Resource};
use super::{DdlContext, DdlOutcome};
use crate::ast::{FunctionName, FunctionSignature, QualifiedName, RawType, Statement};
use crate::error::{Result, bail};
use model::KeyspaceSchema;

pub(super) fn refuse(statement: &Statement, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    match statement {
        Statement::CreateIndex(create) => {
            existing_table(&create.table, ctx)?;
            bail!("Secondary indexes are not supported")
        }
        Statement::DropIndex { index, if_exists } => {
            // The stray quote is Cassandra's.
            let keyspace = ctx.keyspace_of(index)?;
            let tables = ctx.schema.keyspace(keyspace).into_iter().flat_map(|k| k.tables.values());
            let mut of_index =
                tables.filter(|table| table.indexes.iter().any(|i| i.name == index.name.as_str()));
            if let Some(table) = of_index.next() {
                guard::check(keyspace, Permission::Alter, Resource::Table(&table.name))?;
                bail!("{}", cassandras("Index", keyspace, index.name.as_str()));
            }
            absent(*if_exists, || Ok(format!("Index '{keyspace}.{}' doesn't exist'", index.name)))
        }
        Statement::CreateMaterializedView(_) => {
            bail!("Materialized views are disabled. Enable in cassandra.yaml to use.")
        }
        Statement::AlterMaterializedView(alter) => {
            let keyspace = ctx.keyspace_of(&alter.view)?;
            if has(ctx, keyspace, |k| k.views.contains_key(alter.view.name.as_str())) {
                bail!("{}", cassandras("Materialized view", keyspace, alter.view.name.as_str()));
            }
            absent(alter.if_exists, || view_is_absent(&alter.view, ctx))
        }
        Statement::CreateFunction(_) => bail!(
            "User-defined functions are disabled in cassandra.yaml - set user_defined_functions_enabled=true to enable"
        ),
        Statement::DropFunction(drop)
            if has_any(ctx, drop, |k, name| k.functions.iter().any(|f| f.name == name)) =>
        {
            bail!(
                "{}",
                cassandras("Function", ctx.or_session(drop.name.keyspace.as_ref())?, drop.name.name.as_str())
            )
        }
        Statement::DropAggregate(drop)
            if has_any(ctx, drop, |k, name| k.aggregates.iter().any(|a| a.name == name)) =>
        {
            bail!(
                "{}",
                cassandras(
                    "Aggregate",
                    ctx.or_session(drop.name.keyspace.as_ref())?,
                    drop.name.name.as_str()
                )
            )
        }
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

fn has(ctx: &DdlContext<'_>, keyspace: &str, test: impl Fn(&KeyspaceSchema) -> bool) -> bool {
    ctx.schema.keyspace(keyspace).is_some_and(|keyspace| test(keyspace))
}

fn has_any(
    ctx: &DdlContext<'_>,
    drop: &FunctionSignature,
    test: impl Fn(&KeyspaceSchema, &str) -> bool,
) -> bool {
    let keyspace = ctx.or_session(drop.name.keyspace.as_ref());
    keyspace.is_ok_and(|keyspace| has(ctx, keyspace, |k| test(k, drop.name.name.as_str())))
}

/// The answer to a change of something that came with the directory.
fn cassandras(what: &str, keyspace: &str, name: &str) -> String {
    format!("{what} '{keyspace}.{name}' is kept for Cassandra; Ilion cannot change or drop it")
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
