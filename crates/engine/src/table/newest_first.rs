//! Reading named rows newest first, and stopping when nothing older can win.
//!
//! Memtables are read first, then SSTables from the newest timestamp down. What each yields is kept, and
//! before the next SSTable is opened, its newest timestamp is held against what is known: if every named row
//! is newer in everything that was asked for, the SSTable and those behind it need not be read.
//!
//! A row is *settled* at a timestamp if a deletion of it is newer; or if every column asked for has a newer
//! cell and the row is certainly there, so that cells of columns nobody asked for, which may lie in what is
//! left unread, cannot decide that: by an insertion or a cell, of any column, that is newer and lives at the
//! time of the read. (Cassandra wants the insertion, but for tables WITH COMPACT STORAGE, which have none:
//! SinglePartitionReadCommand.isRowComplete, CASSANDRA-16226. So rows made by UPDATE alone end no search
//! there.) A read that names no rows is about the static row alone, which is there while any of its cells is.
//! Columns of many cells and counters are never settled, because their older parts count.

use model::command::{ClusteringFilter, ReadCommand};
use model::{Clustering, ColumnId, Deletion, NO_TIMESTAMP, Row};
use partition::{BoxedStream, Event, Fragment, PartitionStream, ReadError};

/// With more names than this the rows that are kept would cost more than what is left unread.
const NAMES_MAX: usize = 16;

/// What is known about the named rows so far.
pub(super) struct NewestFirst {
    names: Vec<Clustering>,
    /// Timestamp up to which each name is settled.
    settled: Vec<i64>,
    rows: Vec<Row>,
    static_row: Row,
    statics: Vec<ColumnId>,
    regulars: Vec<ColumnId>,
    deletion: Deletion,
    /// Seconds at which the read judges what expires.
    now_s: u32,
    /// Whether cells alone make no row.
    has_strict_liveness: bool,
    kept: Vec<BoxedStream>,
}

impl NewestFirst {
    /// Starts such a read, if the command is one that can stop early.
    pub(super) fn of(command: &ReadCommand) -> Option<NewestFirst> {
        let table = command.table.as_ref();
        let names = match &command.clusterings {
            _ if table.clustering_columns().is_empty() => vec![Clustering::empty()],
            ClusteringFilter::Names { names, .. } if names.len() <= NAMES_MAX => names.clone(),
            _ => return None,
        };
        let (mut statics, mut regulars) = (Vec::new(), Vec::new());
        for column in table.static_columns().iter().filter(|c| command.columns.contains(c.id)) {
            statics.push(column.id);
        }
        for column in table.regular_columns().iter().filter(|c| command.columns.contains(c.id)) {
            regulars.push(column.id);
        }
        let simple = |id: &ColumnId| {
            table.cell_column(*id).is_some_and(|c| !c.is_multi_cell()) && !table.is_counter_column(*id)
        };
        if !statics.iter().chain(&regulars).all(simple) {
            return None;
        }
        Some(NewestFirst {
            settled: vec![NO_TIMESTAMP; names.len()],
            rows: names.iter().cloned().map(Row::new).collect(),
            names,
            static_row: Row::default(),
            statics,
            regulars,
            deletion: Deletion::NONE,
            now_s: command.now_s,
            has_strict_liveness: table.has_strict_liveness,
            kept: Vec::new(),
        })
    }

    /// Reads a source to its end and keeps what it yields.
    pub(super) fn take(
        &mut self,
        command: &ReadCommand,
        mut source: impl PartitionStream,
    ) -> Result<(), ReadError> {
        let table = command.table.as_ref();
        let mut open = Deletion::NONE;
        let mut events = Vec::new();
        loop {
            let mut fragment = Fragment::default();
            let event = source.next(&mut fragment)?;
            match event {
                Event::PartitionStart => self.deletion = self.deletion.max(fragment.deletion),
                Event::StaticRow => {
                    model::reconcile::merge_row_into(table, &mut self.static_row, &fragment.row);
                }
                Event::RangeChange => open = fragment.change.deletion,
                Event::Row => {
                    let comparator = table.comparator();
                    let clustering = &fragment.row.clustering;
                    if let Ok(at) = self.names.binary_search_by(|n| comparator.compare(n, clustering))
                        && let (Some(row), Some(settled)) = (self.rows.get_mut(at), self.settled.get_mut(at))
                    {
                        model::reconcile::merge_row_into(table, row, &fragment.row);
                        // A deletion that a newer liveness takes back settles nothing.
                        let deletion = if row.is_shadowable { &Deletion::NONE } else { &row.deletion };
                        *settled = (*settled).max(open.timestamp).max(deletion.timestamp);
                    }
                }
                Event::PartitionEnd => {}
                Event::End => break,
            }
            events.push((event, fragment));
        }
        self.kept.push(Box::new(Kept(events.into_iter())));
        Ok(())
    }

    /// Whether nothing with a timestamp of at most `timestamp` can change the result.
    pub(super) fn is_settled(&self, timestamp: i64) -> bool {
        if self.deletion.timestamp > timestamp {
            return true;
        }
        let newer = |row: &Row, column: &ColumnId| row.cell(*column).is_some_and(|c| c.timestamp > timestamp);
        let is_there = |row: &Row| {
            (row.liveness.timestamp > timestamp && row.liveness.is_live(self.now_s))
                || (!self.has_strict_liveness
                    && row.cells.iter().any(|cell| cell.timestamp > timestamp && cell.is_live(self.now_s)))
        };
        self.statics.iter().all(|column| newer(&self.static_row, column))
            && (!self.names.is_empty() || is_there(&self.static_row))
            && self.rows.iter().zip(&self.settled).all(|(row, settled)| {
                *settled > timestamp
                    || (is_there(row) && self.regulars.iter().all(|column| newer(row, column)))
            })
    }

    /// The sources that were kept.
    pub(super) fn into_sources(self) -> Vec<BoxedStream> {
        self.kept
    }
}

/// A source that was read already.
struct Kept(std::vec::IntoIter<(Event, Fragment)>);

impl PartitionStream for Kept {
    fn next(&mut self, out: &mut Fragment) -> Result<Event, ReadError> {
        match self.0.next() {
            Some((event, fragment)) => {
                *out = fragment;
                Ok(event)
            }
            None => Ok(Event::End),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::command::{ColumnSelection, DataLimits, PartitionSelection};
    use model::{Cell, CqlType, TableSchema};
    use std::sync::Arc;

    #[test]
    fn where_liveness_is_strict_a_cell_does_not_settle_a_row() {
        let mut builder = TableSchema::builder("ks", "t", uuid::Uuid::nil())
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, false)
            .regular("v", CqlType::Int);
        for strict in [false, true] {
            builder.has_strict_liveness = strict;
            let table = Arc::new(builder.clone().build());
            let v = table.column("v").unwrap().id;
            let names = vec![Clustering::from_values([&[0, 0, 0, 1][..]])];
            let mut newest = NewestFirst::of(&ReadCommand {
                partitions: PartitionSelection::Keys(Vec::new()),
                clusterings: ClusteringFilter::Names { names, reversed: false },
                columns: ColumnSelection::all(&table),
                row_filter: Vec::new(),
                limits: DataLimits::NONE,
                now_s: 0,
                table,
            })
            .unwrap();
            newest.rows[0].cells.push(Cell::live(v, 10, bytes::Bytes::new()));
            assert_eq!(newest.is_settled(5), !strict);
            newest.rows[0].liveness = model::Liveness::new(8);
            assert!(newest.is_settled(5) && newest.is_settled(8) != strict);
        }
    }

    #[test]
    fn a_static_row_that_is_read_alone_is_there_while_any_of_its_cells_is() {
        let table = TableSchema::builder("ks", "t", uuid::Uuid::nil())
            .partition_key("k", CqlType::Int)
            .clustering("c", CqlType::Int, false)
            .static_column("a", CqlType::Int)
            .static_column("b", CqlType::Int)
            .build();
        let a = table.column("a").unwrap().id;
        let command = |columns: Vec<ColumnId>, names: Vec<Clustering>| ReadCommand {
            table: Arc::new(table.clone()),
            partitions: PartitionSelection::Keys(Vec::new()),
            clusterings: ClusteringFilter::Names { names, reversed: false },
            columns: ColumnSelection::of(columns),
            row_filter: Vec::new(),
            limits: DataLimits::NONE,
            now_s: 0,
        };
        let nothing_asked = NewestFirst::of(&command(Vec::new(), Vec::new())).unwrap();
        assert!(!nothing_asked.is_settled(5), "an older cell may make the row exist");
        let mut newest = NewestFirst::of(&command(vec![a], Vec::new())).unwrap();
        assert!(!newest.is_settled(5));
        newest.static_row.cells.push(Cell::tombstone(a, 10, 1));
        assert!(!newest.is_settled(5), "a cell that nobody asked for may make the row exist");
        newest.static_row.cells[0] = Cell::live(a, 10, bytes::Bytes::new());
        assert!(newest.is_settled(5) && !newest.is_settled(10));
    }
}
