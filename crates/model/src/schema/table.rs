//! Tables and their columns.

use super::compact::CompactStorage;
use super::kept::{ColumnMask, Index, Trigger};
use super::options::TableOptions;
use crate::cell::ColumnId;
use crate::clustering::ClusteringComparator;
use crate::types::{Component, CqlType};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Part of the partition key.
    PartitionKey,
    /// Orders rows inside a partition.
    Clustering,
    /// One value for each partition.
    Static,
    /// One value for each row.
    Regular,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    /// Name, case-sensitive.
    pub name: String,
    /// Stable for the life of the process.
    pub id: ColumnId,
    /// What it is for.
    pub kind: ColumnKind,
    /// Position among the columns of the same kind, for key and clustering columns; 0 for others.
    pub position: usize,
    /// Type; never "reversed": see `descending`.
    pub ty: CqlType,
    /// For clustering columns: whether rows are stored last to first.
    pub descending: bool,
}

impl ColumnDef {
    /// Whether each element of the value is a cell of its own.
    #[inline]
    pub fn is_multi_cell(&self) -> bool {
        self.ty.is_multi_cell()
    }

    /// The type as class string, with `ReversedType` around descending clustering columns.
    pub fn class_name(&self) -> String {
        self.ty.clustering_class_name(self.descending)
    }
}

/// A column that was dropped: its cells up to that moment are ignored where they are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    /// Name it had.
    pub name: String,
    /// `Static` or `Regular`.
    pub kind: ColumnKind,
    /// Type it had.
    pub ty: CqlType,
    /// Microseconds; cells with a timestamp up to this one are dropped.
    pub dropped_time_micros: i64,
}

/// Order of columns in SSTable headers, subsets and rows on disk (docs/formats/sstable-big.md): single-cell
/// before multi-cell, then by name bytes, where the top bit of the first byte is flipped.
pub fn compare_column_order(a: (&str, bool), b: (&str, bool)) -> Ordering {
    let flipped = |name: &str| {
        let mut prefix = [0u8; 6];
        for (to, from) in prefix.iter_mut().zip(name.bytes()) {
            *to = from;
        }
        prefix[0] ^= 0x80;
        prefix
    };
    a.1.cmp(&b.1)
        .then_with(|| flipped(a.0).cmp(&flipped(b.0)))
        .then_with(|| a.0.as_bytes().cmp(b.0.as_bytes()))
}

/// A table's definition. Immutable: build a changed one with [`TableSchema::to_builder`].
#[derive(Clone, Debug)]
pub struct TableSchema {
    /// Keyspace name.
    pub keyspace: String,
    /// Table name.
    pub name: String,
    /// Id, also in the name of the table's directory.
    pub id: Uuid,
    /// Options of CREATE TABLE ... WITH.
    pub options: TableOptions,
    /// Whether the table is one of counters, those included whose counters were all dropped.
    pub is_counter: bool,
    /// How rows are kept that are not those of CQL.
    pub compact: Option<CompactStorage>,
    /// Whether a row is there by its liveness alone, whatever cells it has. So it is in a view with a key
    /// column that is no key column of its table. When a row of such a view moves to another key, Cassandra
    /// leaves expired liveness and the cells that changed. (Cassandra: `enforceStrictLiveness`,
    /// CASSANDRA-11500.)
    pub has_strict_liveness: bool,
    /// Columns that were dropped, by name.
    pub dropped: Vec<DroppedColumn>,
    /// Secondary indexes, by name; kept, not used.
    pub indexes: Vec<Index>,
    /// Triggers, by name; kept, not run.
    pub triggers: Vec<Trigger>,
    /// Masks of columns, by the columns' names.
    pub masks: Vec<ColumnMask>,
    partition_key: Vec<Arc<ColumnDef>>,
    clustering: Vec<Arc<ColumnDef>>,
    statics: Vec<Arc<ColumnDef>>,
    regulars: Vec<Arc<ColumnDef>>,
    by_name: HashMap<String, Arc<ColumnDef>>,
    by_id: Vec<Option<Arc<ColumnDef>>>,
    comparator: ClusteringComparator,
}

impl PartialEq for TableSchema {
    fn eq(&self, other: &Self) -> bool {
        self.keyspace == other.keyspace
            && self.name == other.name
            && self.id == other.id
            && self.options == other.options
            && self.is_counter == other.is_counter
            && self.compact == other.compact
            && self.has_strict_liveness == other.has_strict_liveness
            && self.dropped == other.dropped
            && self.indexes == other.indexes
            && self.triggers == other.triggers
            && self.masks == other.masks
            && self.partition_key == other.partition_key
            && self.clustering == other.clustering
            && self.statics == other.statics
            && self.regulars == other.regulars
    }
}

impl Eq for TableSchema {}

impl TableSchema {
    /// Starts a table.
    pub fn builder(keyspace: &str, name: &str, id: Uuid) -> TableBuilder {
        TableBuilder {
            keyspace: keyspace.to_owned(),
            name: name.to_owned(),
            id,
            options: TableOptions::default(),
            compact: None,
            is_counter: false,
            has_strict_liveness: false,
            dropped: Vec::new(),
            indexes: Vec::new(),
            triggers: Vec::new(),
            masks: Vec::new(),
            partition_key: Vec::new(),
            clustering: Vec::new(),
            others: Vec::new(),
            next_id: 0,
        }
    }

    /// A builder that holds this table; ids of columns are kept.
    pub fn to_builder(&self) -> TableBuilder {
        TableBuilder {
            keyspace: self.keyspace.clone(),
            name: self.name.clone(),
            id: self.id,
            options: self.options.clone(),
            compact: self.compact,
            is_counter: self.is_counter,
            has_strict_liveness: self.has_strict_liveness,
            dropped: self.dropped.clone(),
            indexes: self.indexes.clone(),
            triggers: self.triggers.clone(),
            masks: self.masks.clone(),
            partition_key: self.partition_key.iter().map(|c| (**c).clone()).collect(),
            clustering: self.clustering.iter().map(|c| (**c).clone()).collect(),
            others: self.statics.iter().chain(&self.regulars).map(|c| (c.as_ref().clone(), true)).collect(),
            next_id: self.by_id.len() as u32,
        }
    }

    /// The same table with the ids that `known`, an earlier definition of it, gave to its columns. A column
    /// that was dropped meanwhile and is there again is another one.
    pub fn with_ids_of(&self, known: &TableSchema) -> TableSchema {
        let mut builder = self.to_builder();
        let dropped_at = |table: &TableSchema, name: &str| {
            table.dropped_column(name).map_or(i64::MIN, |dropped| dropped.dropped_time_micros)
        };
        builder.next_id = known.by_id.len() as u32;
        for (column, is_assigned) in &mut builder.others {
            let same = known.column(&column.name).filter(|before| {
                before.kind == column.kind
                    && before.is_multi_cell() == column.is_multi_cell()
                    && dropped_at(self, &column.name) <= dropped_at(known, &column.name)
            });
            *is_assigned = same.is_some();
            if let Some(same) = same {
                column.id = same.id;
            }
        }
        // Key columns may be renamed, but neither come nor go.
        for (column, before) in builder.partition_key.iter_mut().zip(&known.partition_key) {
            column.id = before.id;
        }
        for (column, before) in builder.clustering.iter_mut().zip(&known.clustering) {
            column.id = before.id;
        }
        builder.build()
    }

    /// Partition key columns in key order.
    pub fn partition_key(&self) -> &[Arc<ColumnDef>] {
        &self.partition_key
    }

    /// The type of a whole partition key, whose text has colons between the columns.
    pub fn partition_key_type(&self) -> CqlType {
        match self.partition_key() {
            [single] => single.ty.clone(),
            columns => {
                let component = |ty: &CqlType| Component { ty: ty.clone(), reversed: false, old_class: None };
                CqlType::Composite(columns.iter().map(|column| component(&column.ty)).collect())
            }
        }
    }

    /// Clustering columns in order.
    pub fn clustering_columns(&self) -> &[Arc<ColumnDef>] {
        &self.clustering
    }

    /// Static columns in column order.
    pub fn static_columns(&self) -> &[Arc<ColumnDef>] {
        &self.statics
    }

    /// Regular columns in column order.
    pub fn regular_columns(&self) -> &[Arc<ColumnDef>] {
        &self.regulars
    }

    /// Columns as `SELECT *` shows them: partition key, clustering, statics by name, regulars by name.
    pub fn select_star(&self) -> Vec<Arc<ColumnDef>> {
        let mut columns = self.all_columns();
        columns.retain(|column| !self.is_hidden(column));
        columns
    }

    /// The same with the columns that CQL does not show.
    pub fn all_columns(&self) -> Vec<Arc<ColumnDef>> {
        let by_name = |columns: &[Arc<ColumnDef>]| {
            let mut sorted = columns.to_vec();
            sorted.sort_by(|a, b| compare_column_order((&a.name, false), (&b.name, false)));
            sorted
        };
        let mut out = self.partition_key.clone();
        out.extend(self.clustering.iter().cloned());
        out.extend(by_name(&self.statics));
        out.extend(by_name(&self.regulars));
        out
    }

    /// A column by name.
    pub fn column(&self, name: &str) -> Option<&Arc<ColumnDef>> {
        self.by_name.get(name)
    }

    /// A column by id; `None` for one that was dropped.
    #[inline]
    pub fn column_by_id(&self, id: ColumnId) -> Option<&Arc<ColumnDef>> {
        self.by_id.get(id.0 as usize)?.as_ref()
    }

    /// The mask of a column.
    pub fn mask_of(&self, column: &str) -> Option<&ColumnMask> {
        self.masks.iter().find(|mask| mask.column == column)
    }

    /// A static or regular column by id: the column of a cell.
    #[inline]
    pub fn cell_column(&self, id: ColumnId) -> Option<&ColumnDef> {
        self.by_id.get(id.0 as usize)?.as_deref()
    }

    /// Whether `id` is a counter.
    #[inline]
    pub fn is_counter_column(&self, id: ColumnId) -> bool {
        self.is_counter && self.cell_column(id).is_some_and(|c| c.ty.is_counter())
    }

    /// The order of rows.
    #[inline]
    pub fn comparator(&self) -> &ClusteringComparator {
        &self.comparator
    }

    /// Whether the table has static columns.
    pub fn has_statics(&self) -> bool {
        !self.statics.is_empty()
    }

    /// The last dropped column of that name, if there is one. Its kind does not count: one record stands for
    /// all columns that had the name, and releases before 3.11.3 did not write the kind down.
    pub fn dropped_column(&self, name: &str) -> Option<&DroppedColumn> {
        self.dropped.iter().find(|d| d.name == name)
    }

    /// Class string of the partition key's type: the column's own, or a CompositeType of all.
    pub fn partition_key_class(&self) -> String {
        match self.partition_key.as_slice() {
            [single] => single.ty.class_name(),
            several => {
                let args: Vec<String> = several.iter().map(|c| c.ty.class_name()).collect();
                format!("org.apache.cassandra.db.marshal.CompositeType({})", args.join(","))
            }
        }
    }

    /// Name of the table's directory inside its keyspace's.
    pub fn directory_name(&self) -> String {
        format!("{}-{}", self.name, self.id.simple())
    }
}

/// Assembles a [`TableSchema`].
#[derive(Clone, Debug)]
pub struct TableBuilder {
    keyspace: String,
    name: String,
    id: Uuid,
    /// Options of the table.
    pub options: TableOptions,
    /// How rows are kept that are not those of CQL.
    pub compact: Option<CompactStorage>,
    /// Whether it is one of counters although it has none: one whose counters were dropped stays one.
    pub is_counter: bool,
    /// See [`TableSchema::has_strict_liveness`].
    pub has_strict_liveness: bool,
    /// Columns that were dropped.
    pub dropped: Vec<DroppedColumn>,
    /// Secondary indexes.
    pub indexes: Vec<Index>,
    /// Triggers.
    pub triggers: Vec<Trigger>,
    /// Masks of columns.
    pub masks: Vec<ColumnMask>,
    partition_key: Vec<ColumnDef>,
    clustering: Vec<ColumnDef>,
    /// Static and regular columns, and whether their id is assigned already.
    others: Vec<(ColumnDef, bool)>,
    next_id: u32,
}

impl TableBuilder {
    /// Adds the next partition key column.
    pub fn partition_key(mut self, name: &str, ty: CqlType) -> Self {
        let position = self.partition_key.len();
        self.partition_key.push(column(name, ColumnKind::PartitionKey, position, ty, false));
        self
    }

    /// Adds the next clustering column.
    pub fn clustering(mut self, name: &str, ty: CqlType, descending: bool) -> Self {
        let position = self.clustering.len();
        self.clustering.push(column(name, ColumnKind::Clustering, position, ty, descending));
        self
    }

    /// Adds a static column.
    pub fn static_column(mut self, name: &str, ty: CqlType) -> Self {
        self.others.push((column(name, ColumnKind::Static, 0, ty, false), false));
        self
    }

    /// Adds a regular column.
    pub fn regular(mut self, name: &str, ty: CqlType) -> Self {
        self.others.push((column(name, ColumnKind::Regular, 0, ty, false), false));
        self
    }

    /// Sets the options.
    pub fn options(mut self, options: TableOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets the dropped columns.
    pub fn dropped(mut self, dropped: Vec<DroppedColumn>) -> Self {
        self.dropped = dropped;
        self
    }

    /// Removes a static or regular column (its id is not used again) and remembers it as dropped.
    pub fn drop_column(mut self, name: &str, dropped_time_micros: i64) -> Self {
        if let Some(at) = self.others.iter().position(|(c, _)| c.name == name) {
            let (column, _) = self.others.remove(at);
            self.masks.retain(|mask| mask.column != name);
            self.dropped.retain(|d| d.name != name);
            self.dropped.push(DroppedColumn {
                name: column.name,
                kind: column.kind,
                ty: column.ty,
                dropped_time_micros,
            });
        }
        self
    }

    /// Renames a key or clustering column.
    pub fn rename_column(mut self, from: &str, to: &str) -> Self {
        for column in self.partition_key.iter_mut().chain(&mut self.clustering) {
            if column.name == from {
                column.name = to.to_owned();
            }
        }
        for mask in self.masks.iter_mut().filter(|mask| mask.column == from) {
            mask.column = to.to_owned();
        }
        self.masks.sort_by(|a, b| a.column.cmp(&b.column));
        self
    }

    /// Masks a column, or shows it again. Masks stand in the order in which they are loaded.
    pub fn mask_column(mut self, name: &str, mask: Option<ColumnMask>) -> Self {
        self.masks.retain(|known| known.column != name);
        self.masks.extend(mask);
        self.masks.sort_by(|a, b| a.column.cmp(&b.column));
        self
    }

    /// Replaces the type of a column (a user type that was altered, say).
    pub fn map_types(mut self, change: impl Fn(&CqlType) -> CqlType) -> Self {
        let others = self.others.iter_mut().map(|(c, _)| c);
        for column in self.partition_key.iter_mut().chain(&mut self.clustering).chain(others) {
            column.ty = change(&column.ty);
        }
        self
    }

    /// Builds the table: columns that have no id get theirs in column order, statics first.
    pub fn build(mut self) -> TableSchema {
        self.others.sort_by(|(a, _), (b, _)| {
            (a.kind == ColumnKind::Regular).cmp(&(b.kind == ColumnKind::Regular)).then_with(|| {
                compare_column_order((&a.name, a.is_multi_cell()), (&b.name, b.is_multi_cell()))
            })
        });
        let mut next_id = self.next_id;
        let is_new = next_id == 0;
        let mut assign = |column: &mut ColumnDef| {
            column.id = ColumnId(next_id);
            next_id += 1;
        };
        for (column, assigned) in &mut self.others {
            if !*assigned {
                assign(column);
            }
        }
        if is_new {
            self.partition_key.iter_mut().chain(&mut self.clustering).for_each(&mut assign);
        }
        let share = |columns: Vec<ColumnDef>| columns.into_iter().map(Arc::new).collect::<Vec<_>>();
        let (statics, regulars): (Vec<_>, Vec<_>) =
            self.others.into_iter().map(|(c, _)| c).partition(|c| c.kind == ColumnKind::Static);
        let (partition_key, clustering) = (share(self.partition_key), share(self.clustering));
        let (statics, regulars) = (share(statics), share(regulars));
        let everything = || partition_key.iter().chain(&clustering).chain(&statics).chain(&regulars);
        let mut by_id = vec![None; next_id as usize];
        for column in everything() {
            if let Some(slot) = by_id.get_mut(column.id.0 as usize) {
                *slot = Some(Arc::clone(column));
            }
        }
        TableSchema {
            is_counter: self.is_counter || everything().any(|c| c.ty.is_counter()),
            by_name: everything().map(|c| (c.name.clone(), Arc::clone(c))).collect(),
            comparator: ClusteringComparator::new(clustering.iter().map(|c| (c.ty.clone(), c.descending))),
            keyspace: self.keyspace,
            name: self.name,
            id: self.id,
            options: self.options,
            compact: self.compact,
            has_strict_liveness: self.has_strict_liveness,
            dropped: self.dropped,
            indexes: self.indexes,
            triggers: self.triggers,
            masks: self.masks,
            partition_key,
            clustering,
            statics,
            regulars,
            by_id,
        }
    }
}

fn column(name: &str, kind: ColumnKind, position: usize, ty: CqlType, descending: bool) -> ColumnDef {
    ColumnDef { name: name.to_owned(), id: ColumnId(u32::MAX), kind, position, ty, descending }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TableSchema {
        TableSchema::builder("ks", "t", Uuid::nil())
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Text, true)
            .regular("zeta", CqlType::Int)
            .regular("été", CqlType::Int)
            .regular("Zed", CqlType::Int)
            .regular("all", CqlType::set(CqlType::Int, true))
            .static_column("s", CqlType::Int)
            .build()
    }

    #[test]
    fn column_order_is_cassandras() {
        let table = sample();
        let names: Vec<&str> = table.regular_columns().iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["été", "Zed", "zeta", "all"]);
        let ids: Vec<u32> =
            table.static_columns().iter().chain(table.regular_columns()).map(|c| c.id.0).collect();
        assert_eq!(ids, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn another_definition_of_a_table_takes_its_ids_over() {
        let table = sample();
        let altered = table.to_builder().drop_column("Zed", 5).regular("alpha", CqlType::Int).build();
        let again = altered.to_builder().regular("Zed", CqlType::Int).build();
        let elsewhere = TableSchema::builder("ks", "t", Uuid::nil())
            .partition_key("key", CqlType::Int)
            .clustering("c", CqlType::Text, true)
            .regular("zeta", CqlType::Int)
            .regular("Zed", CqlType::Int)
            .regular("beta", CqlType::Int)
            .dropped(again.dropped.clone())
            .build();
        let merged = elsewhere.with_ids_of(&altered);
        let id = |table: &TableSchema, name: &str| table.column(name).unwrap().id;
        assert_eq!(id(&merged, "zeta"), id(&altered, "zeta"));
        assert_eq!(id(&merged, "key"), id(&altered, "k"));
        assert_eq!(id(&merged, "c"), id(&altered, "c"));
        assert!(id(&merged, "beta").0 > id(&altered, "alpha").0);
        assert_ne!(id(&elsewhere.with_ids_of(&table), "Zed"), id(&table, "Zed"), "dropped meanwhile");
        assert_eq!(id(&elsewhere.with_ids_of(&again), "Zed"), id(&again, "Zed"));
        assert_eq!(merged.column_by_id(id(&altered, "alpha")), None);
    }

    #[test]
    fn ids_survive_alterations_and_are_not_used_again() {
        let table = sample();
        let before = table.column("zeta").map(|c| c.id);
        let altered = table.to_builder().drop_column("Zed", 5).regular("alpha", CqlType::Int).build();
        assert_eq!(altered.column("zeta").map(|c| c.id), before);
        let again = altered.to_builder().regular("Zed", CqlType::Int).build();
        assert_eq!(again.column("alpha").map(|c| c.id.0), Some(7));
        assert_eq!(again.column("Zed").map(|c| c.id.0), Some(8));
        assert!(again.dropped_column("Zed").is_some());
        assert_eq!(again.column_by_id(ColumnId(2)), None);
    }
}
