//! The naive model: every update of a partition applied one after the other, range deletions kept as a list.

use super::grammar::FoundPartition;
use model::clustering::Position;
use model::command::{PartitionSelection, ReadCommand};
use model::{
    Clustering, DecoratedKey, Deletion, PartitionUpdate, RangeTombstone, Row, TableSchema, reconcile,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a history means.
pub struct Model {
    partitions: BTreeMap<DecoratedKey, ModelPartition>,
}

#[derive(Default)]
struct ModelPartition {
    deletion: Option<Deletion>,
    static_row: Option<Row>,
    /// In storage order.
    rows: Vec<Row>,
    ranges: Vec<RangeTombstone>,
}

impl ModelPartition {
    fn deletion(&self) -> Deletion {
        self.deletion.unwrap_or(Deletion::NONE)
    }

    /// The newest deletion of the partition or of a range around `clustering`.
    fn deletion_at(&self, table: &TableSchema, clustering: &Clustering) -> Deletion {
        let around = |r: &&RangeTombstone| r.slice.contains(table.comparator(), Position::row(clustering));
        self.ranges.iter().filter(around).fold(self.deletion(), |newest, r| newest.max(r.deletion))
    }
}

impl Model {
    /// Applies `updates` in order.
    pub fn new(table: &Arc<TableSchema>, updates: &[PartitionUpdate]) -> Model {
        let mut partitions: BTreeMap<DecoratedKey, ModelPartition> = BTreeMap::new();
        for update in updates {
            let partition = partitions.entry(update.key.clone()).or_default();
            partition.deletion = Some(partition.deletion().max(update.deletion));
            if let Some(row) = &update.static_row {
                let into = partition.static_row.get_or_insert_with(Row::default);
                reconcile::merge_row_into(table, into, row);
            }
            for row in &update.rows {
                let comparator = table.comparator();
                let found =
                    partition.rows.binary_search_by(|r| comparator.compare(&r.clustering, &row.clustering));
                let at = found.unwrap_or_else(|at| {
                    partition.rows.insert(at, Row::new(row.clustering.clone()));
                    at
                });
                if let Some(into) = partition.rows.get_mut(at) {
                    reconcile::merge_row_into(table, into, row);
                }
            }
            partition.ranges.extend(update.range_tombstones.iter().cloned());
        }
        Model { partitions }
    }

    /// Compares what a source yielded for `command` with what it should have.
    ///
    /// # Panics
    /// At the first difference.
    pub fn check(&self, command: &ReadCommand, found: &[FoundPartition], context: &str) {
        let table = command.table.as_ref();
        let nothing = ModelPartition::default();
        let expected: Vec<&DecoratedKey> = match &command.partitions {
            PartitionSelection::Keys(keys) => keys.iter().collect(),
            PartitionSelection::Range(range) => {
                self.partitions.keys().filter(|k| range.contains(k)).collect()
            }
        };
        for partition in found {
            assert!(expected.contains(&&partition.key), "{context}: unknown partition {:?}", partition.key);
        }
        for key in expected {
            let expected = self.partitions.get(key).unwrap_or(&nothing);
            let mut yielded = found.iter().filter(|p| p.key == *key);
            let partition = yielded.next();
            assert!(yielded.next().is_none(), "{context}: {key:?} came twice");
            let deletion = partition.map_or(Deletion::NONE, |p| p.deletion);
            assert_eq!(deletion, expected.deletion(), "{context}: deletion of {key:?}");

            let statics = partition.and_then(|p| p.static_row.clone()).into_iter();
            let statics: Vec<Row> = statics.filter_map(|row| visible(row, &deletion)).collect();
            let expected_statics: Vec<Row> =
                expected.static_row.iter().filter_map(|row| visible(row.clone(), &deletion)).collect();
            assert_eq!(statics, expected_statics, "{context}: static row of {key:?}");

            let rows = partition.map(|p| p.rows.clone()).unwrap_or_default();
            let mut rows: Vec<Row> =
                rows.into_iter().filter_map(|(row, open)| visible(row, &deletion.max(open))).collect();
            if command.is_reversed() {
                rows.reverse();
            }
            let selected = |row: &&Row| command.clusterings.selects(table.comparator(), &row.clustering);
            let expected_rows: Vec<Row> = expected
                .rows
                .iter()
                .filter(selected)
                .filter_map(|row| visible(row.clone(), &expected.deletion_at(table, &row.clustering)))
                .collect();
            assert_eq!(rows, expected_rows, "{context}: rows of {key:?}");

            for clustering in super::history::every_clustering(table) {
                if !command.clusterings.selects(table.comparator(), &clustering) {
                    continue;
                }
                let open =
                    partition.map_or(Deletion::NONE, |p| p.deletion_at(command, Position::row(&clustering)));
                let holds = expected.deletion_at(table, &clustering);
                assert_eq!(deletion.max(open), holds, "{context}: deletion at {clustering:?} of {key:?}");
            }
        }
    }
}

/// What is left of a row under a deletion; `None` when nothing is.
fn visible(mut row: Row, deletion: &Deletion) -> Option<Row> {
    reconcile::apply_deletion(&mut row, deletion);
    (!row.is_empty()).then_some(row)
}
