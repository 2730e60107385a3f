//! CREATE TABLE, and what must hold for every table.

use super::guard::{self, Permission, Resource};
use super::options::property::{Properties, config};
use super::{
    ChangeKind, DdlContext, DdlOutcome, compact, full_name, masks, options, release, size, stored, types,
};
use crate::ast::{ColumnDefinition, CreateTable, Identifier, PrimaryKey, Property};
use crate::error::{CqlError, Result, bail};
use crate::guardrails::guard_types;
use model::types::CqlType;
use model::{KeyspaceSchema, TableSchema};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The name stands in the name of the table's directory, before a dash and 32 digits; directories have 255
/// bytes.
const TABLE_NAME_MAX: usize = 222;

pub(super) fn create(create: &CreateTable, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    check_statement(create)?;
    let keyspace_name = ctx.keyspace_of(&create.table)?;
    let [primary_key] = create.primary_keys.as_slice() else {
        bail!("No PRIMARY KEY specifed for table '{}' (exactly one required)", create.table);
    };
    guard::check(keyspace_name, Permission::Create, Resource::AllTables)?;
    let properties = guard_statement(create, ctx)?;
    let properties = Properties(&properties);
    let keyspace = ctx.existing_keyspace(keyspace_name)?;
    let name = create.table.name.as_str();
    if keyspace.store(name).is_some() {
        if create.if_not_exists {
            return Ok(None);
        }
        return Err(CqlError::AlreadyExists {
            keyspace: keyspace_name.to_owned(),
            table: name.to_owned(),
            message: format!("Cannot add already existing table \"{name}\" to keyspace \"{keyspace_name}\""),
        });
    }
    let mut table = build(create, (primary_key, properties), keyspace, ctx)?;
    table.masks = masks::of_columns(&create.columns, &table, ctx)?;
    release::check_table(&table, ctx.schema.release)?;
    size::check_table(&table, None)?;
    table
        .all_columns()
        .iter()
        .try_for_each(|column| stored::check_column(&column.name, &column.ty, keyspace))?;
    validate(&table, create.columns.iter().any(|column| types::is_counter(&column.column_type)))?;
    ctx.guard.map_or(Ok(()), |guard| guard.compression(&table))?;
    if let Some(other) = ctx.schema.table_by_id(table.id) {
        bail!("Table id {} is already used by {}", table.id, full_name(&other.keyspace, &other.name));
    }
    Ok(ctx.with_table(keyspace, table, ChangeKind::Created))
}

/// What is wrong with the statement alone; its properties without those that guardrails ignore.
fn guard_statement<'c>(create: &'c CreateTable, ctx: &DdlContext<'_>) -> Result<Cow<'c, [Property]>> {
    let name = create.table.name.as_str();
    let properties = guarded_properties(&create.properties, ctx)?;
    if let Some(guard) = ctx.guard {
        guard.columns(name, create.columns.len())?;
        guard.tables(name, ctx.schema)?;
        if create.compact_storage {
            guard.compact_tables()?;
        }
    }
    read_properties(Properties(&properties), ctx)?;
    let types = create.columns.iter().map(|column| (column.name.as_str(), &column.column_type));
    guard_types("Column", types, ctx)?;
    create.columns.iter().try_for_each(|column| masks::check_enabled(column.mask.as_ref(), ctx))?;
    Ok(properties)
}

/// The properties without those that guardrails ignore.
pub(super) fn guarded_properties<'p>(
    properties: &'p [Property],
    ctx: &DdlContext<'_>,
) -> Result<Cow<'p, [Property]>> {
    ctx.guard.map_or(Ok(properties.into()), |guard| guard.properties(properties))
}

/// Reads the values of properties as on a new table: whether there is a table, and what a property is worth,
/// is asked later. Guardrails are asked about compaction and TTL.
pub(super) fn read_properties(properties: Properties<'_>, ctx: &DdlContext<'_>) -> Result<()> {
    let options = options::read(properties, None, ctx)?;
    ctx.guard
        .map_or(Ok(()), |guard| guard.compaction(&options.compaction.class, options.default_time_to_live))
}

/// What Cassandra's parser refuses.
fn check_statement(create: &CreateTable) -> Result<()> {
    let mut names = HashSet::new();
    if let Some(twice) = create.columns.iter().find(|column| !names.insert(&column.name)) {
        bail!("Duplicate column '{}' declaration for table '{}'", twice.name, create.table);
    }
    if create.primary_keys.len() > 1 {
        bail!("Multiple PRIMARY KEY specified for table '{}' (exactly one required)", create.table);
    }
    let mut ordered = HashSet::new();
    if let Some((twice, _)) = create.clustering_order.iter().find(|(column, _)| !ordered.insert(column)) {
        bail!("Duplicate column '{twice}' in CLUSTERING ORDER BY clause for table '{}'", create.table);
    }
    Ok(())
}

fn build(
    create: &CreateTable,
    (primary_key, properties): (&PrimaryKey, Properties<'_>),
    keyspace: &KeyspaceSchema,
    ctx: &DdlContext<'_>,
) -> Result<TableSchema> {
    let name = create.table.name.as_str();
    let options = options::new_table(properties, ctx)?;
    let columns = resolve_columns(&create.columns, keyspace)?;

    let mut key_columns = HashSet::new();
    for column in primary_key.partition_key.iter().chain(&primary_key.clustering) {
        let Some((definition, ty)) = columns.get(column) else {
            bail!("Unknown column '{column}' referenced in PRIMARY KEY for table '{name}'");
        };
        if !key_columns.insert(column) {
            bail!("Duplicate column '{column}' in PRIMARY KEY clause for table '{name}'");
        }
        check_key_type(column, ty)?;
        if definition.is_static {
            bail!("Static column '{column}' cannot be part of the PRIMARY KEY");
        }
    }
    if primary_key.clustering.is_empty()
        && !create.compact_storage
        && create.columns.iter().any(|column| column.is_static)
    {
        refuse_static()?;
    }
    check_clustering_order(create, primary_key)?;

    let mut others = create.columns.iter().filter(|column| !key_columns.contains(&column.name));
    let has_counters = create.columns.iter().any(|column| types::is_counter(&column.column_type));
    if has_counters {
        if others.clone().any(|column| !types::is_counter(&column.column_type)) {
            bail!("Cannot mix counter and non counter columns in the same table");
        }
        check_counter_ttl(options.default_time_to_live)?;
    }
    if create.compact_storage {
        compact::check(primary_key, others.clone(), |column| {
            columns.get(column).is_some_and(|(_, ty)| ty.is_multi_cell())
        })?;
    }

    let id = options::id(properties)?.unwrap_or(ctx.new_table_id);
    let ty = |column: &Identifier| columns.get(column).map(|(_, ty)| ty.clone()).unwrap_or(CqlType::Blob);
    let mut builder = TableSchema::builder(&keyspace.name, name, id).options(options);
    for column in &primary_key.partition_key {
        builder = builder.partition_key(column.as_str(), ty(column));
    }
    let descending: HashSet<&Identifier> =
        create.clustering_order.iter().filter(|(_, desc)| *desc).map(|(column, _)| column).collect();
    for column in &primary_key.clustering {
        let is_reversed =
            |(definition, _): &(&ColumnDefinition, _)| types::is_reversed(&definition.column_type);
        let descending = descending.contains(column) || columns.get(column).is_some_and(is_reversed);
        builder = builder.clustering(column.as_str(), ty(column), descending);
    }
    builder = others.try_fold(builder, |builder, column| -> Result<_> {
        let (name, ty) = (column.name.as_str(), ty(&column.name));
        let is_static = column.is_static || create.compact_storage && primary_key.clustering.is_empty();
        Ok(if is_static { builder.static_column(name, ty) } else { builder.regular(name, ty) })
    })?;
    if create.compact_storage {
        builder = compact::complete(builder, create, primary_key, has_counters);
    }
    Ok(builder.build())
}

/// The columns with their types. Of several errors the one of the first column by name is told.
fn resolve_columns<'c>(
    columns: &'c [ColumnDefinition],
    keyspace: &KeyspaceSchema,
) -> Result<HashMap<&'c Identifier, (&'c ColumnDefinition, CqlType)>> {
    let mut by_name: Vec<&ColumnDefinition> = columns.iter().collect();
    by_name.sort_by(|a, b| a.name.cmp(&b.name));
    let mut out = HashMap::new();
    for column in columns {
        let ty = types::resolve(&column.column_type, keyspace)?;
        out.insert(&column.name, (column, ty));
    }
    for column in by_name {
        if let Some((_, ty)) = out.get(&column.name)
            && has_nested_multi_cell(ty)
        {
            bail!("Non-frozen UDTs with nested non-frozen collections are not supported");
        }
    }
    Ok(out)
}

pub(super) fn refuse_static() -> Result<()> {
    bail!("Static columns are only useful (and thus allowed) if the table has at least one clustering column")
}

/// Whether the type is a user type that is not frozen and has a field that is a collection that is not.
pub(super) fn has_nested_multi_cell(ty: &CqlType) -> bool {
    match ty {
        CqlType::Udt { definition, multi_cell: true } => {
            definition.fields.iter().any(|(_, field)| field.is_multi_cell())
        }
        _ => false,
    }
}

fn check_key_type(column: &Identifier, ty: &CqlType) -> Result<()> {
    match ty {
        CqlType::Udt { definition, multi_cell: true } => bail!(
            "Invalid non-frozen user-defined type \"{}.{}\" for PRIMARY KEY column '{column}'",
            definition.keyspace,
            definition.name
        ),
        ty if ty.is_multi_cell() => {
            bail!("Invalid non-frozen collection type {ty} for PRIMARY KEY column '{column}'")
        }
        CqlType::Counter => bail!("counter type is not supported for PRIMARY KEY column '{column}'"),
        ty if has_duration(ty) => bail!("duration type is not supported for PRIMARY KEY column '{column}'"),
        _ => Ok(()),
    }
}

/// Durations have no order. Cassandra does not look into vectors, so neither do we.
fn has_duration(ty: &CqlType) -> bool {
    match ty {
        CqlType::Duration => true,
        CqlType::List { element, .. } | CqlType::Set { element, .. } => has_duration(element),
        CqlType::Map { key, value, .. } => has_duration(key) || has_duration(value),
        CqlType::Tuple(types) => types.iter().any(has_duration),
        CqlType::Udt { definition, .. } => definition.fields.iter().any(|(_, ty)| has_duration(ty)),
        _ => false,
    }
}

fn check_clustering_order(create: &CreateTable, primary_key: &PrimaryKey) -> Result<()> {
    let ordered: Vec<&Identifier> = create.clustering_order.iter().map(|(column, _)| column).collect();
    let clustering: HashSet<&Identifier> = primary_key.clustering.iter().collect();
    let strangers: Vec<&str> =
        ordered.iter().filter(|c| !clustering.contains(*c)).map(|c| c.as_str()).collect();
    if !strangers.is_empty() {
        bail!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering \
             columns",
            strangers.join(", ")
        );
    }
    for (given, expected) in ordered.iter().zip(&primary_key.clustering) {
        if *given == expected {
            continue;
        }
        if ordered.contains(&expected) {
            bail!(
                "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns \
                 ({expected} must appear before {given})"
            );
        }
        bail!("Missing CLUSTERING ORDER for column {expected}");
    }
    Ok(())
}

/// Counters do not expire.
pub(super) fn check_counter_ttl(default_time_to_live: i32) -> Result<()> {
    if default_time_to_live > 0 {
        bail!("Cannot set default_time_to_live on a table with counters");
    }
    Ok(())
}

/// What must hold for a table however it came about. `is_counter`: what the table is meant to be; counters
/// and other columns do not stand in one table.
pub(super) fn validate(table: &TableSchema, is_counter: bool) -> Result<()> {
    let (keyspace, name) = (&table.keyspace, &table.name);
    if !guard::is_plain_name(name, TABLE_NAME_MAX) {
        config!(
            "{keyspace}.{name}: Table name must not be empty, more than 48 characters long, or contain \
             non-alphanumeric-underscore characters (got \"{name}\")"
        );
    }
    let mut columns = table.static_columns().iter().chain(table.regular_columns());
    if let Some(column) = columns.find(|column| column.ty.is_counter() != is_counter) {
        if is_counter {
            config!(
                "{keyspace}.{name}: Cannot have a non counter column (\"{}\") in a counter table",
                column.name
            );
        }
        config!(
            "{keyspace}.{name}: Cannot have a counter column (\"{}\") in a non counter table",
            column.name
        );
    }
    Ok(())
}
