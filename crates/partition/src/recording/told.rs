//! The partitions of which an answer tells: those of which something is left that was asked for.

use super::{Recording, Step};
use model::command::ReadCommand;
use model::schema::ColumnDef;
use model::{DecoratedKey, Deletion, Row};

/// A partition of which an answer tells.
pub(super) struct Told<'a> {
    pub key: &'a DecoratedKey,
    pub deletion: &'a Deletion,
    /// Where a fetched static column has something in it.
    pub static_row: Option<&'a Row>,
    /// Behind its start.
    pub steps: &'a [Step],
}

impl Recording {
    /// The partitions that an answer to `command` tells of, in their order. One of which nothing that is
    /// fetched is left is not there, as in Cassandra (`PurgeFunction.applyToPartition`).
    pub(super) fn told<'a>(&'a self, command: &'a ReadCommand) -> impl Iterator<Item = Told<'a>> {
        let is_start = |step: &Step| matches!(step, Step::PartitionStart(..));
        self.steps.chunk_by(move |_, next| !is_start(next)).filter_map(move |partition| {
            let (Step::PartitionStart(key, deletion), steps) = partition.split_first()? else { return None };
            let static_row = steps.iter().find_map(|step| match step {
                Step::StaticRow(row) if tells_of_statics(command, row) => Some(row),
                _ => None,
            });
            let tells = |step: &Step| match step {
                Step::Row(row) => tells_of_row(command, row),
                Step::RangeChange(_) => true,
                _ => false,
            };
            let is_told = self.told_anyway.contains(&key.key.0);
            let is_empty = deletion.is_none() && static_row.is_none() && !steps.iter().any(tells);
            (is_told || !is_empty).then_some(Told { key, deletion, static_row, steps })
        })
    }
}

/// Whether a row of which only the fetched columns count is one (`BTreeRow.filter`).
pub(super) fn tells_of_row(command: &ReadCommand, row: &Row) -> bool {
    !row.liveness.is_none()
        || !row.deletion.is_none()
        || command.table.regular_columns().iter().any(|c| command.fetches_regular(c.id) && has(row, c))
}

fn tells_of_statics(command: &ReadCommand, row: &Row) -> bool {
    command.table.static_columns().iter().any(|c| command.fetches_static(c.id) && has(row, c))
}

fn has(row: &Row, column: &ColumnDef) -> bool {
    !row.cells_of(column.id).is_empty() || !row.complex_deletion(column.id).is_none()
}
