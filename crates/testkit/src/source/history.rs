//! Random histories: tables, updates and commands from small domains, so that everything meets everything.

use super::NOW_S;
use bytes::Bytes;
use env::random::Random;
use model::command::{ClusteringFilter, PartitionSelection};
use model::key::{KeyBound, KeyRange};
use model::{
    BoundKind, Cell, Clustering, ClusteringBound, ColumnDef, CqlType, DecoratedKey, Deletion, Liveness,
    PartitionKey, PartitionUpdate, RangeTombstone, Row, Slice, TableSchema, Token,
};
use std::sync::Arc;
use uuid::Uuid;

const KEYS: u64 = 6;
const VALUES_PER_COMPONENT: i32 = 6;
const TIMESTAMPS: u64 = 12;

/// A source of random histories.
pub struct History {
    random: Random,
    table: Arc<TableSchema>,
}

/// Three shapes of tables: one clustering column; two, the first descending; none.
fn table(shape: u64) -> TableSchema {
    let name = ["one", "two_desc", "none"].get(shape as usize % 3).copied().unwrap_or("one");
    let mut builder = TableSchema::builder("check", name, Uuid::from_u128(shape as u128 + 1))
        .partition_key("k", CqlType::Int);
    builder = match name {
        "one" => builder.clustering("c", CqlType::Int, false),
        "two_desc" => builder.clustering("c", CqlType::Int, true).clustering("d", CqlType::Text, false),
        _ => builder,
    };
    if name != "none" {
        builder =
            builder.static_column("s", CqlType::Int).static_column("t", CqlType::set(CqlType::Text, true));
    }
    builder
        .regular("a", CqlType::Int)
        .regular("b", CqlType::Text)
        .regular("m", CqlType::map(CqlType::Text, CqlType::Int, true))
        .regular("z", CqlType::set(CqlType::Int, true))
        .build()
}

fn component(ty: &CqlType, value: i32) -> Vec<u8> {
    match ty {
        // "a", "aa", "b", "bb", ...: some are prefixes of others.
        CqlType::Text => {
            let letter = char::from(b'a' + (value / 2) as u8).to_string();
            letter.repeat(1 + (value % 2) as usize).into_bytes()
        }
        _ => value.to_be_bytes().to_vec(),
    }
}

/// Every clustering that a history of this table may contain.
pub fn every_clustering(table: &TableSchema) -> Vec<Clustering> {
    let mut out = vec![Vec::<Vec<u8>>::new()];
    for column in table.clustering_columns() {
        let longer = |prefix: &Vec<Vec<u8>>| {
            let prefix = prefix.clone();
            let ty = column.ty.clone();
            (0..VALUES_PER_COMPONENT).map(move |v| [prefix.clone(), vec![component(&ty, v)]].concat())
        };
        out = out.iter().flat_map(longer).collect();
    }
    out.iter().map(|values| Clustering::from_values(values.iter().map(Vec::as_slice))).collect()
}

impl History {
    /// The history of a seed.
    pub fn new(seed: u64) -> History {
        History { random: Random::from_seed(seed), table: Arc::new(table(seed % 3)) }
    }

    /// Its table.
    pub fn table(&self) -> Arc<TableSchema> {
        Arc::clone(&self.table)
    }

    fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn chance(&self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    fn key(&self) -> DecoratedKey {
        DecoratedKey::new(PartitionKey::from_components(&[&(self.below(KEYS) as i32).to_be_bytes()]))
    }

    fn timestamp(&self) -> i64 {
        1 + self.below(TIMESTAMPS) as i64
    }

    fn deletion(&self) -> Deletion {
        Deletion::new(self.timestamp(), NOW_S - 100 + self.below(3) as u32)
    }

    /// The first `len` values of a clustering.
    fn prefix(&self, len: usize) -> Clustering {
        let columns = self.table.clustering_columns().iter().take(len);
        let values: Vec<Vec<u8>> =
            columns.map(|c| component(&c.ty, self.below(VALUES_PER_COMPONENT as u64) as i32)).collect();
        Clustering::from_values(values.iter().map(Vec::as_slice))
    }

    fn clustering(&self) -> Clustering {
        self.prefix(self.table.clustering_columns().len())
    }

    /// A slice that is not empty, or all.
    fn slice(&self) -> Slice {
        let len = self.table.clustering_columns().len() as u64;
        for _ in 0..20 {
            let bound = |kinds: [BoundKind; 2]| {
                let prefix = self.prefix(self.below(len + 1) as usize);
                // Only an inclusive bound can lie at the end of a partition.
                let kind = kinds[if prefix.is_empty() { 0 } else { self.below(2) as usize }];
                ClusteringBound::new(kind, prefix)
            };
            let start = bound([BoundKind::InclStart, BoundKind::ExclStart]);
            let end = bound([BoundKind::InclEnd, BoundKind::ExclEnd]);
            let slice = Slice { start, end };
            if !slice.is_empty(self.table.comparator()) {
                return slice;
            }
        }
        Slice::ALL
    }

    /// The updates of the history, in order.
    pub fn updates(&mut self) -> Vec<PartitionUpdate> {
        let count = 1 + self.below(40);
        (0..count).map(|_| self.update()).collect()
    }

    fn update(&self) -> PartitionUpdate {
        let mut update = PartitionUpdate::new(Arc::clone(&self.table), self.key());
        if self.chance(12) {
            update.deletion = self.deletion();
        }
        if self.table.has_statics() && self.chance(4) {
            let row = self.row(Clustering::empty(), self.table.static_columns());
            if !row.is_empty() {
                update.add_static(row);
            }
        }
        for _ in 0..self.below(5) {
            let mut row = self.row(self.clustering(), self.table.regular_columns());
            if self.chance(2) {
                row.liveness = match self.chance(4) {
                    true => Liveness::expiring(self.timestamp(), 50, NOW_S + self.below(3) as u32),
                    false => Liveness::new(self.timestamp()),
                };
            }
            if self.chance(6) {
                row.deletion = self.deletion();
            }
            if !row.is_empty() {
                update.add_row(row);
            }
        }
        if !self.table.clustering_columns().is_empty() {
            for _ in 0..self.below(6).saturating_sub(3) {
                update
                    .range_tombstones
                    .push(RangeTombstone { slice: self.slice(), deletion: self.deletion() });
            }
        }
        update
    }

    /// A row with random cells, reconciled.
    fn row(&self, clustering: Clustering, columns: &[Arc<ColumnDef>]) -> Row {
        let mut out = Row::new(clustering.clone());
        for column in columns.iter().filter(|_| self.chance(2)) {
            let mut row = Row::new(clustering.clone());
            if column.is_multi_cell() {
                if self.chance(4) {
                    row.complex_deletions.push((column.id, self.deletion()));
                }
                for _ in 0..1 + self.below(3) {
                    let path = match &column.ty {
                        CqlType::Set { element, .. } => component(element, self.below(6) as i32),
                        _ => component(&CqlType::Text, self.below(6) as i32),
                    };
                    let mut one = Row::new(clustering.clone());
                    one.cells.push(self.cell(column).with_path(Bytes::from(path)));
                    model::reconcile::merge_row_into(&self.table, &mut row, &one);
                }
            } else {
                row.cells.push(self.cell(column));
            }
            model::reconcile::merge_row_into(&self.table, &mut out, &row);
        }
        out
    }

    fn cell(&self, column: &ColumnDef) -> Cell {
        let value = match &column.ty {
            CqlType::Set { .. } => Bytes::new(),
            CqlType::Text => Bytes::from(vec![b'x'; self.below(40) as usize]),
            _ => Bytes::from((self.below(5) as i32).to_be_bytes().to_vec()),
        };
        match self.below(6) {
            0 => Cell::tombstone(column.id, self.timestamp(), NOW_S - 100 + self.below(3) as u32),
            1 => Cell::expiring(column.id, self.timestamp(), 60, NOW_S + self.below(3) as u32, value),
            _ => Cell::live(column.id, self.timestamp(), value),
        }
    }

    /// Commands that ask for everything in many ways.
    pub fn commands(&mut self) -> Vec<(PartitionSelection, ClusteringFilter)> {
        let mut out = Vec::new();
        for reversed in [false, true] {
            out.push((
                PartitionSelection::Range(KeyRange::FULL),
                ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed },
            ));
            for _ in 0..8 {
                out.push((self.partitions(), self.slices(reversed)));
                out.push((self.partitions(), self.names(reversed)));
            }
        }
        out
    }

    fn partitions(&self) -> PartitionSelection {
        match self.below(4) {
            0 => PartitionSelection::Range(KeyRange { start: self.key_bound(), end: self.key_bound() }),
            1 => {
                let mut keys = vec![self.key(), self.key(), self.key()];
                keys.sort();
                keys.dedup();
                PartitionSelection::Keys(keys)
            }
            _ => PartitionSelection::Keys(vec![self.key()]),
        }
    }

    fn key_bound(&self) -> KeyBound {
        match self.below(4) {
            0 => KeyBound::Unbounded,
            1 => KeyBound::Token { token: self.key().token, inclusive: self.chance(2) },
            2 => KeyBound::Token { token: Token(self.random.u64() as i64), inclusive: self.chance(2) },
            _ => KeyBound::Key { key: self.key(), inclusive: self.chance(2) },
        }
    }

    fn slices(&self, reversed: bool) -> ClusteringFilter {
        let comparator = self.table.comparator();
        let mut slices: Vec<Slice> = (0..1 + self.below(3)).map(|_| self.slice()).collect();
        slices.sort_by(|a, b| comparator.compare_positions(a.start.position(), b.start.position()));
        let mut kept: Vec<Slice> = Vec::new();
        for slice in slices {
            let apart = kept.last().is_none_or(|last| {
                comparator.compare_positions(last.end.position(), slice.start.position()).is_le()
            });
            if apart {
                kept.push(slice);
            }
        }
        ClusteringFilter::Slices { slices: kept, reversed }
    }

    fn names(&self, reversed: bool) -> ClusteringFilter {
        let comparator = self.table.comparator();
        let mut names: Vec<Clustering> = (0..self.below(4)).map(|_| self.clustering()).collect();
        names.sort_by(|a, b| comparator.compare(a, b));
        names.dedup();
        ClusteringFilter::Names { names, reversed }
    }
}
