//! Before a change of the schema is stored: what would be stored is loaded, by the loader of the next start,
//! and held against what will be in force. Where the two differ the change is refused, because the node would
//! come back as another one, or not at all.
//!
//! Only what changes is looked at: of a keyspace that differs, itself, its types, and the tables and views
//! that differ.

use super::load::{self, SchemaRow, SchemaRows};
use super::rows::{self, Cells, RowId};
use crate::error::EngineError;
use crate::system::{self, SYSTEM_SCHEMA};
use model::schema::{DroppedColumn, Release};
use model::{ColumnKind, CqlType, KeyspaceSchema, Schema, TableSchema};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Checks that what `new` changes of `old` would be loaded as it is.
///
/// # Errors
/// [`EngineError::Unstorable`] says what would not.
pub fn verify(old: &Schema, new: &Schema) -> Result<(), EngineError> {
    let stored = |keyspace: &&Arc<KeyspaceSchema>| !keyspace.is_virtual && !system::is_local(&keyspace.name);
    for keyspace in new.keyspaces.values().filter(stored) {
        let before = old.keyspace(&keyspace.name);
        if before != Some(keyspace) {
            verify_keyspace(before.map(AsRef::as_ref), keyspace, new.release)?;
        }
    }
    Ok(())
}

fn verify_keyspace(
    before: Option<&KeyspaceSchema>,
    after: &KeyspaceSchema,
    release: Release,
) -> Result<(), EngineError> {
    let refuse = |what: String| Err(EngineError::Unstorable(what));
    let is_changed = |table: &Arc<TableSchema>| before.and_then(|b| b.store(&table.name)) != Some(table);
    let mut changed = after.clone();
    changed.tables.retain(|_, table| is_changed(table));
    changed.views.retain(|_, view| is_changed(&view.table));
    // These are kept for Cassandra, and never change.
    changed.functions.clear();
    changed.aggregates.clear();
    let loaded = match load::load(&as_stored(&after.name, &rows::of_keyspace(&changed), release)) {
        Ok(loaded) => loaded,
        Err(EngineError::Schema(reason)) => return refuse(reason),
        Err(other) => return Err(other),
    };
    let Some(loaded) = loaded.keyspace(&after.name) else {
        return refuse(format!("keyspace {} would be gone", after.name));
    };
    if loaded.replication != after.replication || loaded.durable_writes != after.durable_writes {
        return refuse(format!("keyspace {} would be another", after.name));
    }
    if let Some(name) = first_difference(&loaded.types, &changed.types) {
        return refuse(format!("type {}.{name} would be another", after.name));
    }
    for table in changed.stores() {
        let found = loaded.store(&table.name);
        if let Some(what) = found.map_or(Some("all of it"), |found| difference(found, table, &changed)) {
            return refuse(format!("{what} of table {}.{} would be another", after.name, table.name));
        }
    }
    Ok(())
}

/// The first name under which the maps hold different things.
fn first_difference<'m, T: PartialEq>(
    a: &'m BTreeMap<String, T>,
    b: &'m BTreeMap<String, T>,
) -> Option<&'m String> {
    a.keys().chain(b.keys()).find(|name| a.get(*name) != b.get(*name))
}

/// The rows as they would be read back.
fn as_stored(keyspace: &str, rows: &BTreeMap<RowId, Cells>, release: Release) -> SchemaRows {
    let mut out = SchemaRows::new();
    for name in system::schema_tables(release) {
        let table = system::table(release, SYSTEM_SCHEMA, name);
        let of_table = rows.iter().filter(|((of, _), _)| *of == name);
        let rows = of_table.map(|((_, clustering), cells)| SchemaRow {
            keyspace: keyspace.to_owned(),
            clustering: clustering.clone(),
            cells: cells
                .iter()
                .filter(|(column, _)| table.column(column).is_some())
                .map(|(column, value)| ((*column).to_owned(), value.clone()))
                .collect(),
        });
        out.insert(name, rows.collect());
    }
    out
}

/// What differs between a table as it is loaded and as it will be in force. Ids of columns are of the
/// process.
fn difference(loaded: &TableSchema, table: &TableSchema, keyspace: &KeyspaceSchema) -> Option<&'static str> {
    // `cdc` is not written, and neither are the options of a view.
    let mut options = loaded.options.clone();
    options.cdc = table.options.cdc;
    let is_view = keyspace.views.contains_key(&table.name);
    let columns = |table: &TableSchema| -> Vec<(String, ColumnKind, usize, CqlType, bool)> {
        let columns = table.all_columns();
        columns.iter().map(|c| (c.name.clone(), c.kind, c.position, c.ty.clone(), c.descending)).collect()
    };
    let checks = [
        ("the id", loaded.id == table.id),
        ("the kind", loaded.is_counter == table.is_counter && loaded.compact == table.compact),
        ("the options", is_view || options == table.options),
        ("the columns", columns(loaded) == columns(table)),
        ("the dropped columns", dropped(loaded) == dropped(table)),
        ("the indexes", by_name(&loaded.indexes, |i| &i.name) == by_name(&table.indexes, |i| &i.name)),
        ("the triggers", by_name(&loaded.triggers, |t| &t.name) == by_name(&table.triggers, |t| &t.name)),
        ("the masks", by_name(&loaded.masks, |m| &m.column) == by_name(&table.masks, |m| &m.column)),
    ];
    checks.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
}

fn by_name<T>(items: &[T], name: impl Fn(&T) -> &String) -> BTreeMap<&String, &T> {
    items.iter().map(|item| (name(item), item)).collect()
}

/// Dropped columns by name; their types as they are written, because user types do not outlive the column
/// there, and their times in milliseconds, to which Cassandra's schema rounds them.
fn dropped(table: &TableSchema) -> BTreeMap<&str, (ColumnKind, String, i64)> {
    let text = |dropped: &DroppedColumn| rows::without_user_types(&dropped.ty).to_string();
    let millis = |dropped: &DroppedColumn| dropped.dropped_time_micros.div_euclid(1_000);
    table.dropped.iter().map(|d| (d.name.as_str(), (d.kind, text(d), millis(d)))).collect()
}
