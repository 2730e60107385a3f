//! The digest of an answer: sixteen bytes that are the same where two replicas know the same.
//!
//! The algorithm is Cassandra's (`UnfilteredRowIterators.digest` of 4.0 to 5.0, messaging versions 12 and
//! 13): MD5 over the partitions, one after the other.
//!
//! ```text
//! partition := key | deletion | names of regular columns | names of static columns (with a static row)
//!              | u8 (reversed ? 0 : 1) | row (the static one, empty where there is none) | (row | marker)*
//! row       := u8 0 | clustering | u8 kind (static 3, other 4) | deletion | u8 (shadowable ? 0 : 1)
//!              | i64 liveness | (u32 expiration | i32 ttl)? | (deletion of the column? | cell*)*
//! cell      := value | i64 timestamp | i32 ttl | u8 (counter ? 0 : 1) | path
//! marker    := bound | u8 kind | deletion | (second deletion of a boundary)?
//! deletion  := i64 timestamp, of none the smallest
//! ```
//! Numbers are big-endian, and nothing has a length in front. Columns come in the order of the table. A
//! counter's value is its shards without what precedes them. Of a cell that was not asked for only the
//! existence counts: some sources leave its value out. So Cassandra, where it reads only some of the columns,
//! may come to another digest, and is asked for the data then.

use super::told::{Told, tells_of_row};
use super::{Recording, Step};
use crate::stream::RangeChange;
use md5::{Digest as _, Md5};
use model::command::ReadCommand;
use model::schema::ColumnDef;
use model::{BoundKind, Cell, Clustering, ClusteringBound, Component, Deletion, NO_TIMESTAMP, Row};

/// A digest of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest(pub [u8; 16]);

impl Recording {
    /// The digest of this answer to `command`.
    pub fn digest(&self, command: &ReadCommand) -> Digest {
        let mut digester = Digester::new(command);
        for told in self.told(command) {
            digester.partition(&told);
            let mut is_over = false;
            for step in told.steps {
                match step {
                    Step::Row(row) if tells_of_row(command, row) => digester.row(row),
                    Step::RangeChange(change) => digester.change(change),
                    Step::Left => digester.close(None),
                    Step::PartitionEnd => is_over = true,
                    Step::PartitionStart(..) | Step::StaticRow(_) | Step::Row(_) => {}
                }
            }
            if !is_over {
                digester.close(self.stop.as_ref());
            }
        }
        Digest(digester.hash.finalize().into())
    }
}

struct Digester<'a> {
    hash: Md5,
    command: &'a ReadCommand,
    /// The range deletion that is open.
    open: Deletion,
    /// The last row of the partition.
    last: Clustering,
}

impl<'a> Digester<'a> {
    fn new(command: &'a ReadCommand) -> Digester<'a> {
        Digester { hash: Md5::new(), command, open: Deletion::NONE, last: Clustering::empty() }
    }

    fn partition(&mut self, told: &Told<'_>) {
        (self.open, self.last) = (Deletion::NONE, Clustering::empty());
        let command = self.command;
        self.hash.update(&told.key.key.0);
        self.deletion(told.deletion);
        let regulars = command.table.regular_columns().iter().filter(|c| command.fetches_regular(c.id));
        regulars.for_each(|column| self.hash.update(&column.name));
        let statics = || command.table.static_columns().iter().filter(|c| command.fetches_static(c.id));
        if told.static_row.is_some() {
            statics().for_each(|column| self.hash.update(&column.name));
        }
        self.hash.update([u8::from(!command.is_reversed())]);
        self.head(BoundKind::Static, told.static_row.unwrap_or(&Row::default()));
        if let Some(row) = told.static_row {
            statics().for_each(|column| self.column(row, column));
        }
    }

    fn row(&mut self, row: &Row) {
        self.last.assign(&row.clustering);
        self.head(BoundKind::Row, row);
        let command: &'a ReadCommand = self.command;
        let regulars = command.table.regular_columns().iter().filter(|c| command.fetches_regular(c.id));
        regulars.for_each(|column| self.column(row, column));
    }

    /// A row but for its columns.
    fn head(&mut self, kind: BoundKind, row: &Row) {
        self.hash.update([0]);
        self.clustering(&row.clustering);
        self.hash.update([kind as u8]);
        self.deletion(&row.deletion);
        self.hash.update([u8::from(!row.is_shadowable)]);
        self.hash.update(row.liveness.timestamp.to_be_bytes());
        if row.liveness.is_expiring() {
            self.hash.update(row.liveness.local_expiration_time.to_be_bytes());
            self.hash.update(row.liveness.ttl.to_be_bytes());
        }
    }

    fn column(&mut self, row: &Row, column: &ColumnDef) {
        let deletion = row.complex_deletion(column.id);
        if !deletion.is_none() {
            self.deletion(&deletion);
        }
        for cell in row.cells_of(column.id) {
            self.cell(cell);
        }
    }

    fn cell(&mut self, cell: &Cell) {
        let is_counter = !cell.is_tombstone() && self.command.table.is_counter_column(cell.column);
        if self.command.columns.wants_value_of(cell) {
            let header = if is_counter { model::counter::header_len(&cell.value) } else { 0 };
            self.hash.update(cell.value.get(header..).unwrap_or_default());
        }
        self.hash.update(cell.timestamp.to_be_bytes());
        self.hash.update(cell.ttl.to_be_bytes());
        self.hash.update([u8::from(!is_counter)]);
        self.hash.update(&cell.path);
    }

    fn clustering(&mut self, clustering: &Clustering) {
        for component in clustering.iter() {
            if let Component::Value(value) = component {
                self.hash.update(value);
            }
        }
    }

    fn deletion(&mut self, deletion: &Deletion) {
        let timestamp = if deletion.is_none() { NO_TIMESTAMP } else { deletion.timestamp };
        self.hash.update(timestamp.to_be_bytes());
    }

    /// Ends an open range deletion behind a row, where nothing more was asked for.
    fn close(&mut self, behind: Option<&Clustering>) {
        if !self.open.is_none() {
            let kind = if self.command.is_reversed() { BoundKind::InclStart } else { BoundKind::ExclStart };
            let position = ClusteringBound { kind, prefix: behind.unwrap_or(&self.last).clone() };
            self.change(&RangeChange { position, deletion: Deletion::NONE });
        }
    }

    fn change(&mut self, change: &RangeChange) {
        let before = std::mem::replace(&mut self.open, change.deletion);
        // In storage order one range ends here, or another starts.
        let (ends, starts) = match self.command.is_reversed() {
            false => (before, change.deletion),
            true => (change.deletion, before),
        };
        let is_before_prefix = change.position.kind == BoundKind::InclStart;
        let kind = match (ends.is_none(), starts.is_none(), is_before_prefix) {
            (false, false, true) => BoundKind::ExclEndInclStart,
            (false, false, false) => BoundKind::InclEndExclStart,
            (false, true, true) => BoundKind::ExclEnd,
            (false, true, false) => BoundKind::InclEnd,
            (true, _, true) => BoundKind::InclStart,
            (true, _, false) => BoundKind::ExclStart,
        };
        self.clustering(&change.position.prefix);
        self.hash.update([kind as u8]);
        for deletion in [ends, starts].iter().filter(|deletion| !deletion.is_none()) {
            self.deletion(deletion);
        }
    }
}

#[cfg(test)]
mod tests;
