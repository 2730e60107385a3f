//! CREATE, ALTER and DROP TYPE.
//!
//! Types hold the definitions of the types inside them, so a changed one is put into every type and every
//! column of its keyspace that has it anywhere inside.

use super::guard::{self, Permission, Resource};
use super::{ChangeKind, ChangeTarget, DdlContext, DdlOutcome, full_name, release, size, stored, types};
use crate::ast::{AlterType, AlterTypeAction, CreateType, Identifier, QualifiedName, RawType};
use crate::error::{Result, bail};
use crate::guardrails::guard_types;
use model::KeyspaceSchema;
use model::schema::View;
use model::types::{CqlType, UserType};
use std::collections::HashSet;
use std::sync::Arc;

pub(super) fn create(create: &CreateType, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    let keyspace_name = ctx.keyspace_of(&create.name)?;
    guard::check(keyspace_name, Permission::Create, Resource::AllTables)?;
    let name = create.name.name.as_str();
    ctx.guard.map_or(Ok(()), |guard| guard.fields(name, create.fields.len()))?;
    guard_types("Field", create.fields.iter().map(|(field, ty)| (field.as_str(), ty)), ctx)?;
    let keyspace = ctx.existing_keyspace(keyspace_name)?;
    if keyspace.types.contains_key(name) {
        if create.if_not_exists {
            return Ok(None);
        }
        bail!("A user type with name '{name}' already exists");
    }
    let mut names = HashSet::new();
    if let Some((twice, _)) = create.fields.iter().find(|(field, _)| !names.insert(field)) {
        bail!("Duplicate field name '{twice}' in type '{name}'");
    }
    create.fields.iter().try_for_each(|(_, ty)| check_field(ty))?;
    let fields = create
        .fields
        .iter()
        .map(|(field, ty)| Ok((field.as_str().to_owned(), types::resolve(ty, keyspace)?)))
        .collect::<Result<_>>()?;
    let definition = UserType { keyspace: keyspace_name.to_owned(), name: name.to_owned(), fields };
    release::check_user_type(&definition, ctx.schema.release)?;
    let definition = Arc::new(definition);
    size::check_user_type(&definition)?;
    definition.fields.iter().try_for_each(|(field, ty)| stored::check_field(field, ty, keyspace))?;
    let mut after = KeyspaceSchema::clone(keyspace);
    after.types.insert(name.to_owned(), definition);
    Ok(ctx.replaced(after, ChangeKind::Created, ChangeTarget::Type, Some(name)))
}

fn check_field(ty: &RawType) -> Result<()> {
    match ty {
        ty if types::is_counter(ty) => bail!("A user type cannot contain counters"),
        RawType::User(_) => bail!("A user type cannot contain non-frozen UDTs"),
        _ => Ok(()),
    }
}

pub(super) fn alter(alter: &AlterType, ctx: &DdlContext<'_>) -> Result<Option<DdlOutcome>> {
    let keyspace_name = ctx.keyspace_of(&alter.name)?;
    guard::check(keyspace_name, Permission::Alter, Resource::AllTables)?;
    if let AlterTypeAction::Add { field, field_type, .. } = &alter.action {
        guard_types("Field", [(field.as_str(), field_type)].into_iter(), ctx)?;
    }
    let name = alter.name.name.as_str();
    let Some((keyspace, before)) = find(keyspace_name, name, ctx) else {
        if alter.if_exists {
            return Ok(None);
        }
        bail!("Type {keyspace_name}.{name} doesn't exist");
    };
    let after = match &alter.action {
        AlterTypeAction::AlterField { .. } => bail!("Altering field types is no longer supported"),
        AlterTypeAction::Add { if_not_exists, field, field_type } => {
            match add_field(keyspace, before, (field, field_type), *if_not_exists, ctx)? {
                Some(after) => after,
                None => return Ok(None),
            }
        }
        AlterTypeAction::Rename { if_exists, renames } => rename_fields(before, renames, *if_exists)?,
    };
    if after == *before {
        return Ok(None);
    }
    release::check_user_type(&after, ctx.schema.release)?;
    let before = keyspace;
    let keyspace = with_changed_type(before, after);
    check_growth(before, &keyspace)?;
    Ok(ctx.replaced(keyspace, ChangeKind::Updated, ChangeTarget::Type, Some(name)))
}

fn find<'a>(keyspace: &str, name: &str, ctx: &DdlContext<'a>) -> Option<(&'a KeyspaceSchema, &'a UserType)> {
    let keyspace = ctx.schema.keyspace(keyspace)?;
    Some((keyspace, keyspace.types.get(name)?))
}

fn add_field(
    keyspace: &KeyspaceSchema,
    before: &UserType,
    (field, field_type): (&Identifier, &RawType),
    if_not_exists: bool,
    ctx: &DdlContext<'_>,
) -> Result<Option<UserType>> {
    let type_name = full_name(&before.keyspace, &before.name);
    check_field(field_type)?;
    if before.fields.iter().any(|(name, _)| name == field.as_str()) {
        if if_not_exists {
            return Ok(None);
        }
        bail!("Cannot add field {field} to type {type_name}: a field with name {field} already exists");
    }
    let ty = types::resolve(field_type, keyspace)?;
    let shown = types::qualified(&ty);
    if types::uses(&ty, &before.name) {
        bail!(
            "Cannot add new field {field} of type {shown} to user type {type_name} as it would create a circular \
             reference"
        );
    }
    // The bytes of a key that is there would no longer be the bytes that the same value is written with.
    let in_keys: Vec<String> = keyspace
        .tables
        .values()
        .filter(|table| table.partition_key().iter().any(|column| types::uses(&column.ty, &before.name)))
        .map(|table| full_name(&table.keyspace, &table.name))
        .collect();
    if !in_keys.is_empty() {
        bail!(
            "Cannot add new field {field} of type {shown} to user type {type_name} as the type is being used in \
             partition key by the following tables: {}",
            in_keys.join(", ")
        );
    }
    ctx.guard.map_or(Ok(()), |guard| guard.fields(&before.name, before.fields.len() + 1))?;
    stored::check_field(field, &ty, keyspace)?;
    let mut after = before.clone();
    after.fields.push((field.as_str().to_owned(), ty));
    Ok(Some(after))
}

/// All renames look at the names as they were before.
fn rename_fields(
    before: &UserType,
    renames: &[(Identifier, Identifier)],
    if_exists: bool,
) -> Result<UserType> {
    let mut after = before.clone();
    for (from, to) in renames {
        let at = before.fields.iter().position(|(name, _)| name == from.as_str());
        match at.and_then(|at| after.fields.get_mut(at)) {
            Some((name, _)) => *name = to.as_str().to_owned(),
            None if if_exists => {}
            None => bail!("Unkown field {from} in user type {}", full_name(&before.keyspace, &before.name)),
        }
    }
    let mut names = HashSet::new();
    if let Some((twice, _)) = after.fields.iter().find(|(name, _)| !names.insert(name)) {
        bail!("Duplicate field name {twice} in type {}", before.keyspace);
    }
    Ok(after)
}

/// The keyspace with the new definition wherever the type is used.
fn with_changed_type(keyspace: &KeyspaceSchema, definition: UserType) -> KeyspaceSchema {
    let name = definition.name.clone();
    let definition = Arc::new(definition);
    let change = |ty: &CqlType| {
        types::map_user_types(ty, &|inner, multi_cell| {
            let definition = if inner.name == name { Arc::clone(&definition) } else { inner };
            CqlType::Udt { definition, multi_cell }
        })
    };
    let mut after = keyspace.clone();
    for user_type in after.types.values_mut() {
        if user_type.name == name {
            *user_type = Arc::clone(&definition);
        } else if user_type.fields.iter().any(|(_, ty)| types::uses(ty, &name)) {
            let fields = user_type.fields.iter().map(|(field, ty)| (field.clone(), change(ty))).collect();
            *user_type = Arc::new(UserType { fields, ..UserType::clone(user_type) });
        }
    }
    let changed = |table: &model::TableSchema| {
        uses_type(table, &name).then(|| Arc::new(table.to_builder().map_types(change).build()))
    };
    for table in after.tables.values_mut() {
        *table = changed(table).unwrap_or_else(|| Arc::clone(table));
    }
    for view in after.views.values_mut() {
        if let Some(table) = changed(&view.table) {
            *view = Arc::new(View { table, ..View::clone(view) });
        }
    }
    after
}

/// Refuses types and tables that became too large with a type that they are made of.
fn check_growth(before: &KeyspaceSchema, after: &KeyspaceSchema) -> Result<()> {
    for (name, ty) in &after.types {
        if before.types.get(name) != Some(ty) {
            size::check_user_type(ty)?;
        }
    }
    after.stores().try_for_each(|table| size::check_table(table, before.store(&table.name).map(|t| &**t)))
}

fn uses_type(table: &model::TableSchema, name: &str) -> bool {
    let columns = table.partition_key().iter().chain(table.clustering_columns());
    columns
        .chain(table.static_columns())
        .chain(table.regular_columns())
        .any(|column| types::uses(&column.ty, name))
}

pub(super) fn drop(
    name: &QualifiedName,
    if_exists: bool,
    ctx: &DdlContext<'_>,
) -> Result<Option<DdlOutcome>> {
    let keyspace_name = ctx.keyspace_of(name)?;
    guard::check(keyspace_name, Permission::Drop, Resource::AllTables)?;
    let name = name.name.as_str();
    let Some((keyspace, _)) = find(keyspace_name, name, ctx) else {
        if if_exists {
            return Ok(None);
        }
        bail!("Type '{keyspace_name}.{name}' doesn't exist");
    };
    let users = |kind: &str, names: Vec<&str>| {
        if names.is_empty() {
            return Ok(());
        }
        bail!(
            "Cannot drop user type '{keyspace_name}.{name}' as it is still used by {kind} {}",
            names.join(", ")
        )
    };
    let named = |ty: &String| ty.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name);
    let functions =
        keyspace.functions.iter().filter(|f| f.argument_types.iter().chain([&f.return_type]).any(named));
    users("functions", functions.map(|f| f.name.as_str()).collect())?;
    let types =
        keyspace.types.values().filter(|ty| ty.fields.iter().any(|(_, field)| types::uses(field, name)));
    users("user types", types.map(|ty| ty.name.as_str()).collect())?;
    let tables = keyspace.stores().filter(|table| uses_type(table, name));
    users("tables", tables.map(|table| table.name.as_str()).collect())?;
    let mut after = keyspace.clone();
    after.types.remove(name);
    Ok(ctx.replaced(after, ChangeKind::Dropped, ChangeTarget::Type, Some(name)))
}
