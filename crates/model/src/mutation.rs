//! Mutations: what a write changes, in one partition of one or more tables of a keyspace.

use crate::clustering::Slice;
use crate::deletion::Deletion;
use crate::key::DecoratedKey;
use crate::row::Row;
use crate::schema::TableSchema;
use std::sync::Arc;

/// The deletion of a range of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// The rows, in storage order.
    pub slice: Slice,
    /// When they were deleted.
    pub deletion: Deletion,
}

/// Changes to one partition of one table; a reader sees all of them or none.
#[derive(Clone, Debug)]
pub struct PartitionUpdate {
    /// The table as it was when the update was made.
    pub table: Arc<TableSchema>,
    /// The partition.
    pub key: DecoratedKey,
    /// Deletion of the whole partition.
    pub deletion: Deletion,
    /// Changes to the static row; its clustering is empty.
    pub static_row: Option<Row>,
    /// Changes to rows, in storage order, one for each clustering.
    pub rows: Vec<Row>,
    /// Deletions of ranges, in any order, possibly overlapping.
    pub range_tombstones: Vec<RangeTombstone>,
}

impl PartitionUpdate {
    /// An update that changes nothing yet.
    pub fn new(table: Arc<TableSchema>, key: DecoratedKey) -> PartitionUpdate {
        PartitionUpdate {
            table,
            key,
            deletion: Deletion::NONE,
            static_row: None,
            rows: Vec::new(),
            range_tombstones: Vec::new(),
        }
    }

    /// Whether the update changes nothing.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_none()
            && self.static_row.is_none()
            && self.rows.is_empty()
            && self.range_tombstones.is_empty()
    }

    /// Adds a row, merging it with one of the same clustering; keeps the order.
    pub fn add_row(&mut self, row: Row) {
        let comparator = self.table.comparator();
        match self.rows.binary_search_by(|r| comparator.compare(&r.clustering, &row.clustering)) {
            Ok(at) => {
                if let Some(existing) = self.rows.get_mut(at) {
                    crate::reconcile::merge_row_into(&self.table, existing, &row);
                }
            }
            Err(at) => self.rows.insert(at, row),
        }
    }

    /// Adds changes to the static row.
    pub fn add_static(&mut self, row: Row) {
        match &mut self.static_row {
            Some(existing) => crate::reconcile::merge_row_into(&self.table, existing, &row),
            None => self.static_row = Some(row),
        }
    }

    /// Bytes of the update's values, for accounting and limits.
    pub fn data_size(&self) -> usize {
        self.key.key.0.len()
            + self.static_row.as_ref().map_or(0, Row::data_size)
            + self.rows.iter().map(|r| r.data_size() + 32).sum::<usize>()
            + self.range_tombstones.len() * 64
    }
}

/// Updates of the same partition key in tables of one keyspace: the unit of the commit log, kept whole or not
/// at all.
#[derive(Clone, Debug)]
pub struct Mutation {
    /// One for each table, all with the same key.
    pub updates: Vec<PartitionUpdate>,
}

impl Mutation {
    /// A mutation of one table.
    pub fn of(update: PartitionUpdate) -> Mutation {
        Mutation { updates: vec![update] }
    }
}
