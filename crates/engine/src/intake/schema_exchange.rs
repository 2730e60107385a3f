//! The schema, as nodes of a ring exchange it: rows of `system_schema` with their timestamps.
//!
//! A node hands out all that it has of keyspaces that nodes share ([`Intake::schema_mutations`]), deletions
//! included. What comes from another node is merged ([`Intake::merge_schema`]):
//! 1. What is stored and in force is left alone: nodes tell each other the same again and again.
//! 2. What would be stored is loaded, so that a schema that no start could load is not taken.
//! 3. It is written, synced and flushed, as a change of this node's own is.
//! 4. The keyspaces that it tells of are loaded anew. Columns that stay keep their ids.
//!
//! The merge is by timestamps, so the order in which nodes hear of changes makes no difference.

use crate::commitlog::LogPosition;
use crate::error::EngineError;
use crate::intake::Intake;
use crate::memtable::Memtable;
use crate::schema::load::{self, SchemaRows};
use crate::schema::of_directory::schema_row;
use crate::system::{self, SYSTEM_SCHEMA};
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::{DecoratedKey, KeyspaceSchema, Mutation, PartitionUpdate, Schema, TableSchema};
use partition::codec::tombstones_of_changes;
use partition::{BoxedStream, Event, Fragment, ReadContext, merge};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a merge made of the schema.
#[derive(Clone, Debug)]
pub struct MergedSchema {
    /// The schema before.
    pub old: Arc<Schema>,
    /// The schema now.
    pub new: Arc<Schema>,
}

/// Told of a change that this node made: the rows that were written, and the schema in force.
pub type SchemaChangeHook = Box<dyn Fn(&[Mutation], &Arc<Schema>) + Send + Sync>;

impl Intake {
    /// [`crate::Engine::schema_mutations`].
    pub(crate) fn schema_mutations(&self) -> Result<Vec<Mutation>, EngineError> {
        let mut by_keyspace: BTreeMap<String, Vec<PartitionUpdate>> = BTreeMap::new();
        let release = self.catalog.release();
        for name in system::schema_tables(release) {
            let table = system::table(release, SYSTEM_SCHEMA, name);
            let stream = self.stored(&table, PartitionSelection::Range(KeyRange::FULL))?;
            each_update(&table, stream, |update| {
                let keyspace = keyspace_of(&update);
                if !system::is_local(&keyspace) {
                    by_keyspace.entry(keyspace).or_default().push(update);
                }
            })?;
        }
        Ok(by_keyspace.into_values().map(|updates| Mutation { updates }).collect())
    }

    /// [`crate::Engine::merge_schema`].
    pub(crate) fn merge_schema(&self, mutations: Vec<Mutation>) -> Result<MergedSchema, EngineError> {
        let release = self.catalog.release();
        let is_schema = |update: &PartitionUpdate| {
            update.table.keyspace == SYSTEM_SCHEMA && !system::is_local(&keyspace_of(update))
        };
        let mut mutations = mutations;
        for mutation in &mut mutations {
            mutation.updates.retain(is_schema);
        }
        mutations.retain(|mutation| !mutation.updates.is_empty());
        let _turn = self.schema_turn.lock();
        let old = self.catalog.schema();
        let (rows, is_news) = self.rows_with(&mutations)?;
        let told: BTreeSet<String> =
            mutations.iter().flat_map(|mutation| &mutation.updates).map(keyspace_of).collect();
        let mut loaded = load::load(&rows)?;
        let mut new = Schema::clone(&old);
        for name in &told {
            match loaded.keyspaces.remove(name) {
                Some(keyspace) => {
                    let keyspace = with_ids_of(&keyspace, old.keyspace(name));
                    new.keyspaces.insert(name.clone(), Arc::new(keyspace));
                }
                None => {
                    new.keyspaces.remove(name);
                }
            }
        }
        let new = system::completed(new, release);
        // What is stored need not be in force: a change may have failed between the two.
        if !is_news && told.iter().all(|name| new.keyspace(name) == old.keyspace(name)) {
            return Ok(MergedSchema { new: Arc::clone(&old), old });
        }
        self.writing.apply_durably(&mutations)?;
        let awaits_flush = self.writing.flush_change(&mutations);
        let new = self.publish(&old, new, awaits_flush)?;
        Ok(MergedSchema { old, new })
    }

    /// All of some partitions of a table, deletions included.
    fn stored(
        &self,
        table: &Arc<TableSchema>,
        partitions: PartitionSelection,
    ) -> Result<BoxedStream, EngineError> {
        let command = ReadCommand {
            table: Arc::clone(table),
            partitions,
            clusterings: ClusteringFilter::all(),
            columns: ColumnSelection::all(table),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: self.catalog.now_s(),
        };
        Ok(self.catalog.read(&command, &ReadContext::default())?)
    }

    /// The live rows of the keyspaces that `mutations` tell of, as they are with them, and whether these tell
    /// anything that is not stored.
    fn rows_with(&self, mutations: &[Mutation]) -> Result<(SchemaRows, bool), EngineError> {
        let (release, now_s) = (self.catalog.release(), self.catalog.now_s());
        let updates = || mutations.iter().flat_map(|mutation| &mutation.updates);
        let keys: BTreeSet<&DecoratedKey> = updates().map(|update| &update.key).collect();
        let keys: Vec<DecoratedKey> = keys.into_iter().cloned().collect();
        let (mut rows, mut is_news) = (SchemaRows::new(), false);
        for name in system::schema_tables(release) {
            let table = system::table(release, SYSTEM_SCHEMA, name);
            let stored = || self.stored(&table, PartitionSelection::Keys(keys.clone()));
            let told = Arc::new(Memtable::new(LogPosition::NONE, 0));
            updates().filter(|update| update.table.id == table.id).for_each(|update| {
                told.apply(update);
            });
            let told = told.scan(&table, KeyRange::FULL, &ClusteringFilter::all(), &ReadContext::default());
            let merged = collected(&table, merge(&table, [stored()?, Box::new(told) as BoxedStream], false))?;
            is_news = is_news || !is_same(&merged, &collected(&table, stored()?)?);
            let live = |update: &PartitionUpdate| -> Vec<_> {
                update.rows.iter().filter_map(|row| schema_row(&table, &update.key, row, now_s)).collect()
            };
            rows.entry(name).or_default().extend(merged.iter().flat_map(live));
        }
        Ok((rows, is_news))
    }
}

/// Whether two tables hold the same, timestamps and deletions included.
fn is_same(one: &[PartitionUpdate], other: &[PartitionUpdate]) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.key == other.key
                && one.deletion == other.deletion
                && one.rows == other.rows
                && one.range_tombstones == other.range_tombstones
        })
}

/// The keyspace that a row of `system_schema` is of.
fn keyspace_of(update: &PartitionUpdate) -> String {
    String::from_utf8_lossy(&update.key.key.0).into_owned()
}

fn collected(table: &Arc<TableSchema>, stream: BoxedStream) -> Result<Vec<PartitionUpdate>, EngineError> {
    let mut out = Vec::new();
    each_update(table, stream, |update| out.push(update))?;
    Ok(out)
}

/// The partitions of a stream, one after the other.
fn each_update(
    table: &Arc<TableSchema>,
    mut stream: BoxedStream,
    mut visit: impl FnMut(PartitionUpdate),
) -> Result<(), EngineError> {
    let mut fragment = Fragment::default();
    let (mut update, mut changes) = (None, Vec::new());
    loop {
        match stream.next(&mut fragment)? {
            Event::PartitionStart => {
                let mut started = PartitionUpdate::new(Arc::clone(table), fragment.key.clone());
                started.deletion = fragment.deletion;
                update = Some(started);
            }
            Event::StaticRow => {}
            Event::Row => {
                if let Some(update) = &mut update {
                    update.rows.push(fragment.row.clone());
                }
            }
            Event::RangeChange => changes.push(fragment.change.clone()),
            Event::PartitionEnd => {
                if let Some(mut ended) = update.take() {
                    ended.range_tombstones = tombstones_of_changes(std::mem::take(&mut changes));
                    visit(ended);
                }
            }
            Event::End => return Ok(()),
        }
    }
}

/// The keyspace with the ids of columns that tables of before have.
fn with_ids_of(keyspace: &KeyspaceSchema, before: Option<&Arc<KeyspaceSchema>>) -> KeyspaceSchema {
    let mut out = keyspace.clone();
    let Some(before) = before else { return out };
    let known = |table: &TableSchema| before.stores().find(|known| known.id == table.id);
    for table in out.tables.values_mut() {
        if let Some(known) = known(table) {
            *table = Arc::new(table.with_ids_of(known));
        }
    }
    for view in out.views.values_mut() {
        if let Some(known) = known(&view.table) {
            let mut altered = (**view).clone();
            altered.table = Arc::new(altered.table.with_ids_of(known));
            *view = Arc::new(altered);
        }
    }
    out
}
