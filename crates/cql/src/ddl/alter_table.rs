//! ALTER TABLE and DROP TABLE.

use super::create_table::{
    check_counter_ttl, guarded_properties, has_nested_multi_cell, read_properties, refuse_static, validate,
};
use super::guard::{self, Permission, Resource};
use super::options::property::Properties;
use super::{
    ChangeKind, ChangeTarget, DdlContext, DdlOutcome, compat, full_name, masks, options, quoted, release,
    size, stored, types,
};
use crate::ast::{AlterTable, AlterTableAction, ColumnDefinition, Identifier, Property, QualifiedName};
use crate::error::{Result, bail};
use crate::guardrails::{Guard, guard_types};
use model::schema::TableBuilder;
use model::types::CqlType;
use model::{ColumnKind, KeyspaceSchema, TableSchema};
use std::borrow::Cow;
use std::collections::HashSet;

pub(super) fn alter(alter: &AlterTable, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    let keyspace_name = ctx.keyspace_of(&alter.table)?;
    let name = alter.table.name.as_str();
    guard::check(keyspace_name, Permission::Alter, Resource::Table(name))?;
    if let AlterTableAction::Mask { mask, .. } = &alter.action {
        masks::check_enabled(mask.as_ref(), ctx)?;
    }
    let properties = guard_statement(alter, ctx)?;
    let Some((keyspace, table)) = find(keyspace_name, name, alter.if_exists, ctx)? else {
        return Ok(None);
    };
    if let Some(guard) = ctx.guard
        && matches!(
            alter.action,
            AlterTableAction::Add { .. } | AlterTableAction::Drop { .. } | AlterTableAction::Rename { .. }
        )
    {
        guard.alter_columns()?;
    }
    let builder = match &alter.action {
        AlterTableAction::AlterType { .. } => bail!("Altering column types is no longer supported"),
        AlterTableAction::Mask { column, if_exists, mask } => {
            if table.visible_column(column.as_str()).is_none() {
                if *if_exists {
                    return Ok(None);
                }
                bail!("Column with name '{column}' doesn't exist on table '{name}'");
            }
            let mask = mask.as_ref().map(|mask| masks::of_column(mask, column, table, ctx)).transpose()?;
            table.to_builder().mask_column(column.as_str(), mask)
        }
        AlterTableAction::Add { if_not_exists, columns } => {
            let builder = add(keyspace, table, columns, *if_not_exists, ctx)?;
            let is_new = |column: &&ColumnDefinition| table.column(column.name.as_str()).is_none();
            let added: Vec<ColumnDefinition> = columns.iter().filter(is_new).cloned().collect();
            let of_added = masks::of_columns(&added, &builder.clone().build(), ctx)?;
            of_added.into_iter().fold(builder, |builder, mask| {
                let column = mask.column.clone();
                builder.mask_column(&column, Some(mask))
            })
        }
        AlterTableAction::Drop { if_exists, columns, timestamp } => {
            // The schema on disk has milliseconds: the node drops the same cells before and after a restart.
            let dropped_time = timestamp.unwrap_or(ctx.now_micros.div_euclid(1_000) * 1_000);
            drop_columns(keyspace, table, columns, *if_exists, dropped_time)?
        }
        AlterTableAction::Rename { renames, .. } => rename(keyspace, table, renames)?,
        AlterTableAction::DropCompactStorage => {
            if !ctx.drops_compact_storage {
                bail!("DROP COMPACT STORAGE is disabled. Enable in cassandra.yaml to use.");
            }
            if table.compact.is_none() {
                bail!("Cannot DROP COMPACT STORAGE on table without COMPACT STORAGE");
            }
            let mut builder = table.to_builder();
            builder.compact = None;
            builder
        }
        AlterTableAction::With(_) => set_options(table, &properties, ctx)?,
    };
    let altered = builder.build();
    if let Some(guard) = ctx.guard {
        match &alter.action {
            AlterTableAction::Add { .. } => guard.columns(name, columns_of(&altered))?,
            AlterTableAction::With(_) => guard.compression(&altered)?,
            _ => {}
        }
    }
    release::check_table(&altered, ctx.schema.release)?;
    size::check_table(&altered, Some(table))?;
    validate(&altered, table.is_counter)?;
    let keyspace = &masks::shown_by_views(keyspace, &altered);
    Ok(ctx.with_table(keyspace, altered, ChangeKind::Updated))
}

/// What is wrong with the statement alone; its properties without those that guardrails ignore.
fn guard_statement<'a>(alter: &'a AlterTable, ctx: &DdlContext<'_>) -> Result<Cow<'a, [Property]>> {
    match &alter.action {
        AlterTableAction::With(properties) => {
            let properties = guarded_properties(properties, ctx)?;
            read_properties(Properties(&properties), ctx)?;
            Ok(properties)
        }
        AlterTableAction::Add { columns, .. } => {
            let types = columns.iter().map(|column| (column.name.as_str(), &column.column_type));
            guard_types("Column", types, ctx)?;
            Ok(Cow::Borrowed(&[]))
        }
        _ => Ok(Cow::Borrowed(&[])),
    }
}

fn columns_of(table: &TableSchema) -> usize {
    let key = table.partition_key().len() + table.clustering_columns().len();
    key + table.static_columns().len() + table.regular_columns().len()
}

pub(super) fn drop(
    table: &QualifiedName,
    if_exists: bool,
    ctx: &DdlContext<'_>,
) -> Result<Option<DdlOutcome>> {
    let keyspace_name = ctx.keyspace_of(table)?;
    let name = table.name.as_str();
    guard::check(keyspace_name, Permission::Drop, Resource::Table(name))?;
    ctx.guard.map_or(Ok(()), Guard::drop_or_truncate)?;
    if ctx.schema.keyspace(keyspace_name).is_some_and(|k| k.views.contains_key(name)) {
        bail!("Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead.");
    }
    let Some((keyspace, table)) = find(keyspace_name, name, if_exists, ctx)? else { return Ok(None) };
    let views = names_of_views(keyspace, table);
    if !views.is_empty() {
        bail!("Cannot drop a table when materialized views still depend on it ({})", views.join(", "));
    }
    let mut keyspace = keyspace.clone();
    keyspace.tables.remove(name);
    Ok(ctx.replaced(keyspace, ChangeKind::Dropped, ChangeTarget::Table, Some(name)))
}

/// DROP MATERIALIZED VIEW.
pub(super) fn drop_view(
    view: &QualifiedName,
    if_exists: bool,
    ctx: &DdlContext<'_>,
) -> Result<Option<DdlOutcome>> {
    let keyspace_name = ctx.keyspace_of(view)?;
    let name = view.name.as_str();
    let keyspace = ctx.schema.keyspace(keyspace_name).filter(|keyspace| keyspace.views.contains_key(name));
    let Some(keyspace) = keyspace else {
        if if_exists {
            return Ok(None);
        }
        bail!("Materialized view '{keyspace_name}.{name}' doesn't exist");
    };
    guard::check(keyspace_name, Permission::Alter, Resource::Table(name))?;
    let mut keyspace = keyspace.as_ref().clone();
    keyspace.views.remove(name);
    Ok(ctx.replaced(keyspace, ChangeKind::Dropped, ChangeTarget::Table, Some(name)))
}

fn names_of_views(keyspace: &KeyspaceSchema, table: &TableSchema) -> Vec<String> {
    keyspace.views_of(table.id).map(|view| view.table.name.clone()).collect()
}

fn names_of_indexes(table: &TableSchema, column: &str) -> Vec<String> {
    table.indexes.iter().filter(|index| index.is_on(column)).map(|index| index.name.clone()).collect()
}

/// The table and its keyspace; `None` if it may be absent and is.
fn find<'a>(
    keyspace: &str,
    name: &str,
    if_exists: bool,
    ctx: &DdlContext<'a>,
) -> Result<Option<(&'a KeyspaceSchema, &'a TableSchema)>> {
    if ctx.schema.keyspace(keyspace).is_some_and(|k| k.views.contains_key(name)) {
        bail!("Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead");
    }
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
    ctx: &DdlContext<'_>,
) -> Result<TableBuilder> {
    if let Some(view) = keyspace.views_of(table.id).find(|view| view.include_all_columns) {
        bail!(
            "Cannot add columns to {}: the materialized view {} shows all of them, and Ilion does not keep views up",
            full_name(&table.keyspace, &table.name),
            view.table.name
        );
    }
    let mut builder = table.to_builder();
    let mut added: HashSet<&Identifier> = HashSet::new();
    for column in columns {
        let name = column.name.as_str();
        let ty = types::resolve(&column.column_type, keyspace)?;
        if table.column(name).is_some() || added.contains(&column.name) {
            if !if_not_exists {
                bail!("Column with name '{name}' already exists");
            }
            continue;
        }
        if table.compact.is_some() {
            bail!("Cannot add new column to a COMPACT STORAGE table");
        }
        masks::check_enabled(column.mask.as_ref(), ctx)?;
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
        stored::check_column(name, &ty, keyspace)?;
        added.insert(&column.name);
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
    keyspace: &KeyspaceSchema,
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
        if table.compact.is_some() && column.kind == ColumnKind::Regular {
            bail!("Cannot drop the value column {name} of a COMPACT STORAGE table");
        }
        if let CqlType::Udt { definition, multi_cell: true } = &column.ty {
            bail!("Cannot drop non-frozen column {name} of user type {}", quoted(&definition.name));
        }
        let indexes = names_of_indexes(table, name.as_str());
        if !indexes.is_empty() {
            bail!(
                "Cannot drop column {name} because it has dependent secondary indexes ({})",
                indexes.join(", ")
            );
        }
        if keyspace.views_of(table.id).next().is_some() {
            bail!("Cannot drop column {name} on base table {} with materialized views", table.name);
        }
        builder = builder.drop_column(name.as_str(), dropped_time_micros);
    }
    for dropped in &mut builder.dropped {
        dropped.ty = types::without_user_types(&dropped.ty);
    }
    Ok(builder)
}

fn rename(
    keyspace: &KeyspaceSchema,
    table: &TableSchema,
    renames: &[(Identifier, Identifier)],
) -> Result<TableBuilder> {
    let full_name = || full_name(&table.keyspace, &table.name);
    let mut builder = table.to_builder();
    // Of two new names for one column Cassandra knows the last.
    let mut last: Vec<&(Identifier, Identifier)> = Vec::new();
    for rename in renames {
        match last.iter_mut().find(|(from, _)| *from == rename.0) {
            Some(earlier) => *earlier = rename,
            None => last.push(rename),
        }
    }
    for (at, (from, to)) in last.iter().enumerate() {
        let Some(column) = table.visible_column(from.as_str()) else {
            bail!("Undefined column name {} in table {}", from.to_cql(), full_name());
        };
        if !matches!(column.kind, ColumnKind::PartitionKey | ColumnKind::Clustering) {
            bail!("Cannot rename non PRIMARY KEY column {from}");
        }
        let indexes = names_of_indexes(table, from.as_str());
        if !indexes.is_empty() {
            bail!(
                "Can't rename column {from} because it has dependent secondary indexes ({})",
                indexes.join(", ")
            );
        }
        if let Some(view) = keyspace.views_of(table.id).next() {
            bail!(
                "Cannot rename column {from}: the materialized view {} has it too, and Ilion does not keep views up",
                view.table.name
            );
        }
        let is_taken = last.iter().take(at).any(|(_, earlier)| earlier == to);
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

fn set_options(table: &TableSchema, properties: &[Property], ctx: &DdlContext<'_>) -> Result<TableBuilder> {
    let options = options::altered(Properties(properties), &table.options, ctx)?;
    if table.is_counter {
        check_counter_ttl(options.default_time_to_live)?;
    }
    Ok(table.to_builder().options(options))
}
