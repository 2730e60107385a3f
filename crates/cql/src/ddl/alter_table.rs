//! ALTER TABLE and DROP TABLE.

use super::create_table::{
    check_counter_ttl, check_mask, has_nested_multi_cell, refuse_mask, refuse_static, validate,
};
use super::guard::{self, Permission, Resource};
use super::options::property::Properties;
use super::{ChangeKind, ChangeTarget, DdlContext, DdlOutcome, compat, full_name, options, quoted, types};
use crate::ast::{AlterTable, AlterTableAction, ColumnDefinition, Identifier, Property, QualifiedName};
use crate::error::{Result, bail};
use model::schema::TableBuilder;
use model::types::CqlType;
use model::{ColumnKind, KeyspaceSchema, TableSchema};

pub(super) fn alter(alter: &AlterTable, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    if let AlterTableAction::Add { columns, .. } = &alter.action {
        types::check_frozen(columns.iter().map(|column| &column.column_type))?;
    }
    let keyspace_name = ctx.keyspace_of(&alter.table)?;
    let name = alter.table.name.as_str();
    guard::check(keyspace_name, Permission::Alter, Resource::Table(name))?;
    if let AlterTableAction::Mask { mask: Some(_), .. } = &alter.action {
        refuse_mask()?;
    }
    let Some((keyspace, table)) = find(keyspace_name, name, alter.if_exists, ctx)? else {
        return Ok(None);
    };
    let builder = match &alter.action {
        AlterTableAction::AlterType { .. } => bail!("Altering column types is no longer supported"),
        AlterTableAction::Mask { column, if_exists, .. } => {
            if table.column(column.as_str()).is_none() && !if_exists {
                bail!("Column with name '{column}' doesn't exist on table '{name}'");
            }
            return Ok(None);
        }
        AlterTableAction::Add { if_not_exists, columns } => add(keyspace, table, columns, *if_not_exists)?,
        AlterTableAction::Drop { if_exists, columns, timestamp } => {
            drop_columns(table, columns, *if_exists, timestamp.unwrap_or(ctx.now_micros))?
        }
        AlterTableAction::Rename { renames, .. } => rename(table, renames)?,
        AlterTableAction::DropCompactStorage => {
            bail!("DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.")
        }
        AlterTableAction::With(properties) => set_options(table, properties)?,
    };
    let altered = builder.build();
    validate(&altered, table.is_counter)?;
    Ok(ctx.with_table(keyspace, altered, ChangeKind::Updated))
}

pub(super) fn drop(
    table: &QualifiedName,
    if_exists: bool,
    ctx: &DdlContext<'_>,
) -> Result<Option<DdlOutcome>> {
    let keyspace_name = ctx.keyspace_of(table)?;
    let name = table.name.as_str();
    guard::check(keyspace_name, Permission::Drop, Resource::Table(name))?;
    let Some((keyspace, _)) = find(keyspace_name, name, if_exists, ctx)? else { return Ok(None) };
    let mut keyspace = keyspace.clone();
    keyspace.tables.remove(name);
    Ok(ctx.replaced(keyspace, ChangeKind::Dropped, ChangeTarget::Table, Some(name)))
}

/// The table and its keyspace; `None` if it may be absent and is.
fn find<'a>(
    keyspace: &str,
    name: &str,
    if_exists: bool,
    ctx: &DdlContext<'a>,
) -> Result<Option<(&'a KeyspaceSchema, &'a TableSchema)>> {
    let found =
        ctx.schema.keyspace(keyspace).and_then(|ks| Some((ks.as_ref(), ks.tables.get(name)?.as_ref())));
    if found.is_none() && !if_exists {
        bail!("Table '{keyspace}.{name}' doesn't exist");
    }
    Ok(found)
}

fn add(
    keyspace: &KeyspaceSchema,
    table: &TableSchema,
    columns: &[ColumnDefinition],
    if_not_exists: bool,
) -> Result<TableBuilder> {
    let mut builder = table.to_builder();
    let mut added: Vec<&Identifier> = Vec::new();
    for column in columns {
        let name = column.name.as_str();
        let ty = types::resolve(&column.column_type, keyspace)?;
        if table.column(name).is_some() || added.contains(&&column.name) {
            if !if_not_exists {
                bail!("Column with name '{name}' already exists");
            }
            continue;
        }
        check_mask(column)?;
        if column.is_static && table.clustering_columns().is_empty() {
            refuse_static()?;
        }
        if has_nested_multi_cell(&ty) {
            bail!(
                "Non-frozen UDTs with nested non-frozen collections are not supported for column {}",
                quoted(name)
            );
        }
        check_dropped(table, column, &ty)?;
        added.push(&column.name);
        builder = if column.is_static { builder.static_column(name, ty) } else { builder.regular(name, ty) };
    }
    Ok(builder)
}

/// Cells of a column of that name may still be on disk.
fn check_dropped(table: &TableSchema, column: &ColumnDefinition, ty: &CqlType) -> Result<()> {
    let name = column.name.as_str();
    let Some(dropped) = table.dropped.iter().find(|dropped| dropped.name == name) else { return Ok(()) };
    if !compat::can_replace(ty, &dropped.ty) {
        bail!(
            "Cannot re-add previously dropped column '{name}' of type {ty}, incompatible with previous type {}",
            dropped.ty
        );
    }
    let was_static = dropped.kind == ColumnKind::Static;
    if was_static != column.is_static {
        let kind = |is_static: bool| if is_static { "STATIC" } else { "REGULAR" };
        bail!(
            "Cannot re-add previously dropped column '{name}' of kind {}, incompatible with previous kind {}",
            kind(column.is_static),
            kind(was_static)
        );
    }
    // Counts written before would come back.
    if table.is_counter {
        bail!("Cannot re-add previously dropped counter column {name}");
    }
    Ok(())
}

fn drop_columns(
    table: &TableSchema,
    columns: &[Identifier],
    if_exists: bool,
    dropped_time_micros: i64,
) -> Result<TableBuilder> {
    let mut builder = table.to_builder();
    for name in columns {
        let Some(column) = table.column(name.as_str()) else {
            if !if_exists {
                bail!("Column {name} was not found in table '{}'", full_name(&table.keyspace, &table.name));
            }
            continue;
        };
        if matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail!("Cannot drop PRIMARY KEY column {name}");
        }
        if let CqlType::Udt { definition, multi_cell: true } = &column.ty {
            bail!("Cannot drop non-frozen column {name} of user type {}", quoted(&definition.name));
        }
        builder = builder.drop_column(name.as_str(), dropped_time_micros);
    }
    for dropped in &mut builder.dropped {
        dropped.ty = types::without_user_types(&dropped.ty);
    }
    Ok(builder)
}

fn rename(table: &TableSchema, renames: &[(Identifier, Identifier)]) -> Result<TableBuilder> {
    let full_name = || full_name(&table.keyspace, &table.name);
    let mut builder = table.to_builder();
    for (at, (from, to)) in renames.iter().enumerate() {
        let Some(column) = table.column(from.as_str()) else {
            bail!("Undefined column name {} in table {}", from.to_cql(), full_name());
        };
        if !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail!("Cannot rename non PRIMARY KEY column {from}");
        }
        let is_taken = renames.iter().take(at).any(|(_, earlier)| earlier == to);
        if is_taken || table.column(to.as_str()).is_some() {
            bail!(
                "Cannot rename column {from} to {to} in table '{}'; another column with that name already exists",
                full_name()
            );
        }
        builder = builder.rename_column(from.as_str(), to.as_str());
    }
    Ok(builder)
}

fn set_options(table: &TableSchema, properties: &[Property]) -> Result<TableBuilder> {
    let options = options::altered(Properties(properties), &table.options)?;
    if table.is_counter {
        check_counter_ttl(options.default_time_to_live)?;
    }
    Ok(table.to_builder().options(options))
}
