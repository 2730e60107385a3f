//! From one schema to the next: the mutations of `system_schema` that CREATE, ALTER and DROP leave.
//!
//! For each keyspace that differs, one mutation: rows that are new or changed are written whole, cells that
//! became null are deleted, rows that are gone are deleted. A dropped keyspace deletes its partition in every
//! table.

use super::rows::{self, Cells, RowId};
use crate::system::{self, SYSTEM_SCHEMA};
use bytes::Bytes;
use model::schema::Release;
use model::{
    Cell, Clustering, DecoratedKey, Deletion, KeyspaceSchema, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, Schema, TableSchema,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// When the change happens.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Timestamp of what is written, in microseconds.
    pub micros: i64,
    /// Seconds since the epoch.
    pub seconds: u32,
}

/// The mutations that lead from `old` to `new`; virtual keyspaces are not stored.
pub fn mutations(old: &Schema, new: &Schema, moment: Moment) -> Vec<Mutation> {
    let stored = |k: &&Arc<KeyspaceSchema>| !k.is_virtual;
    let mut out = Vec::new();
    for keyspace in new.keyspaces.values().filter(stored) {
        let before = old.keyspace(&keyspace.name);
        if before != Some(keyspace) {
            let moment = generation(new.release, before, keyspace).unwrap_or(moment);
            let before = before.map(|k| rows::of_keyspace(k)).unwrap_or_default();
            let after = rows::of_keyspace(keyspace);
            out.extend(change(new.release, &keyspace.name, &before, &after, moment));
        }
    }
    for keyspace in old.keyspaces.values().filter(stored) {
        if new.keyspace(&keyspace.name).is_none() {
            out.push(drop_keyspace(new.release, &keyspace.name, moment));
        }
    }
    out
}

/// The moment of a keyspace that is made as the release defines it, on every node.
fn generation(
    release: Release,
    before: Option<&Arc<KeyspaceSchema>>,
    after: &Arc<KeyspaceSchema>,
) -> Option<Moment> {
    let is_defined = || system::schema(release).keyspace(&after.name) == Some(after);
    let micros = system::generation_micros(release, &after.name)?;
    (before.is_none() && is_defined()).then_some(Moment { micros, seconds: 0 })
}

fn key(keyspace: &str) -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[keyspace.as_bytes()]))
}

fn drop_keyspace(release: Release, keyspace: &str, moment: Moment) -> Mutation {
    let updates = system::schema_tables(release).map(|name| {
        let table = system::table(release, SYSTEM_SCHEMA, name);
        let mut update = PartitionUpdate::new(table, key(keyspace));
        update.deletion = Deletion::new(moment.micros, moment.seconds);
        update
    });
    Mutation { updates: updates.collect() }
}

/// The mutation from rows to rows; `None` when they are the same. Cells for columns that the release does not
/// have are left out.
pub fn change(
    release: Release,
    keyspace: &str,
    before: &BTreeMap<RowId, Cells>,
    after: &BTreeMap<RowId, Cells>,
    moment: Moment,
) -> Option<Mutation> {
    let mut updates: BTreeMap<&str, PartitionUpdate> = BTreeMap::new();
    let mut add = |table: &'static str, build: &dyn Fn(&TableSchema) -> Row| {
        let update = updates.entry(table).or_insert_with(|| {
            PartitionUpdate::new(system::table(release, SYSTEM_SCHEMA, table), key(keyspace))
        });
        let row = build(&update.table);
        update.add_row(row);
    };
    for (id, cells) in after {
        let old = before.get(id);
        if old != Some(cells) {
            add(id.0, &|table| written(table, id, cells, old, moment));
        }
    }
    for id in before.keys().filter(|id| !after.contains_key(*id)) {
        add(id.0, &|_| {
            let mut row = Row::new(clustering(id));
            row.deletion = Deletion::new(moment.micros, moment.seconds);
            row
        });
    }
    let updates: Vec<_> = updates.into_values().collect();
    (!updates.is_empty()).then_some(Mutation { updates })
}

fn clustering(id: &RowId) -> Clustering {
    Clustering::from_values(id.1.iter().map(Bytes::as_ref))
}

fn written(table: &TableSchema, id: &RowId, cells: &Cells, old: Option<&Cells>, moment: Moment) -> Row {
    let mut row = Row::new(clustering(id));
    row.liveness = Liveness::new(moment.micros);
    for (name, value) in cells {
        if let Some(column) = table.column(name) {
            row.cells.push(Cell::live(column.id, moment.micros, value.clone()));
        }
    }
    for name in old.into_iter().flat_map(Cells::keys).filter(|name| !cells.contains_key(*name)) {
        if let Some(column) = table.column(name) {
            row.cells.push(Cell::tombstone(column.id, moment.micros, moment.seconds));
        }
    }
    row.cells.sort_by_key(|cell| cell.column);
    row
}
