//! Live rows, and deletions between them.
//!
//! Of a partition come, in this order: its deletion, those in its static row, then in clustering order the
//! deletions in each row and the row itself if it is live. A deletion of a range comes where it ends, so
//! behind the rows in it. A partition without a live row that has live static values is one row at its end,
//! as for CQL.

use super::rows::RowColumns;
use crate::BulkError;
use crate::deletion::{Kind, Target, element_of, encode, of_cell, of_marker};
use crate::split::Part;
use bytes::Bytes;
use model::command::ReadCommand;
use model::row::ResultRow;
use model::{ClusteringBound, ColumnDef, DecoratedKey, Deletion, Row, TableSchema};
use partition::{BoxedStream, Event, Fragment, PartitionStream, ReadContext};
use std::collections::VecDeque;
use std::sync::Arc;

/// Fragments between two looks at the deadline.
const FRAGMENTS_PER_LOOK: u32 = 256;

/// What was appended, and the bytes of its values.
pub(super) enum Appended {
    Row(u64),
    Deletion(u64),
    /// The stream is over.
    Nothing,
}

/// What the fragment that was met last still has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    /// The row in the fragment, behind its deletions.
    Row,
    /// The static row for itself.
    Statics,
}

/// The rows of a stream with its deletions.
pub(super) struct RowsAndDeletions {
    stream: BoxedStream,
    context: ReadContext,
    table: Arc<TableSchema>,
    /// Columns whose deletions are handed out, by id.
    columns: Vec<Arc<ColumnDef>>,
    now_s: u32,
    /// Whether what belongs to the partition as a whole comes here, and not with other rows of it.
    with_partition: bool,
    /// Whether all rows of the partitions come here.
    is_whole: bool,
    fragment: Fragment,
    key: DecoratedKey,
    static_row: Row,
    has_rows: bool,
    /// The deletion that holds for what follows, and since where.
    open: Deletion,
    open_from: ClusteringBound,
    /// Deletions that the last fragment had. Those of a row are at its clustering.
    deletions: VecDeque<Bytes>,
    are_at_row: bool,
    waits: Waits,
    until_look: u32,
}

impl RowsAndDeletions {
    pub fn new(
        stream: BoxedStream,
        command: &ReadCommand,
        columns: &[Arc<ColumnDef>],
        part: &Part,
        context: ReadContext,
    ) -> RowsAndDeletions {
        let mut columns = columns.to_vec();
        columns.sort_by_key(|column| column.id);
        RowsAndDeletions {
            stream,
            context,
            table: Arc::clone(&command.table),
            columns,
            now_s: command.now_s,
            with_partition: *part != Part::Rest,
            is_whole: *part == Part::Whole,
            fragment: Fragment::default(),
            key: Fragment::default().key,
            static_row: Row::default(),
            has_rows: false,
            open: Deletion::NONE,
            open_from: ClusteringBound::BOTTOM,
            deletions: VecDeque::new(),
            are_at_row: false,
            waits: Waits::Nothing,
            until_look: 1,
        }
    }

    /// Appends what comes next.
    pub fn next(&mut self, out: &mut RowColumns) -> Result<Appended, BulkError> {
        loop {
            if let Some(deletion) = self.deletions.pop_front() {
                let clustering = self.are_at_row.then_some(&self.fragment.row.clustering);
                return Ok(Appended::Deletion(out.append_deletion(&self.key, clustering, &deletion)?));
            }
            let waits = std::mem::replace(&mut self.waits, Waits::Nothing);
            if waits != Waits::Nothing {
                let row = ResultRow {
                    key: &self.key,
                    static_row: (!self.static_row.cells.is_empty()).then_some(&self.static_row),
                    row: (waits == Waits::Row).then_some(&self.fragment.row),
                    now_s: self.now_s,
                };
                self.has_rows = true;
                return Ok(Appended::Row(out.append(&row)?));
            }
            self.until_look -= 1;
            if self.until_look == 0 {
                self.until_look = FRAGMENTS_PER_LOOK;
                self.context.check_deadline()?;
            }
            if !self.meet()? {
                return Ok(Appended::Nothing);
            }
        }
    }

    /// Meets the next fragment; false at the end.
    fn meet(&mut self) -> Result<bool, BulkError> {
        match self.stream.next(&mut self.fragment)? {
            Event::PartitionStart => {
                std::mem::swap(&mut self.key, &mut self.fragment.key);
                self.static_row.clear();
                self.has_rows = false;
                self.open = Deletion::NONE;
                if self.with_partition && !self.fragment.deletion.is_none() {
                    self.add(Kind::Partition, self.fragment.deletion, &Target::default());
                    self.are_at_row = false;
                }
            }
            Event::StaticRow => {
                std::mem::swap(&mut self.static_row, &mut self.fragment.row);
                if self.with_partition {
                    let row = std::mem::take(&mut self.static_row);
                    self.add_those_in(&row)?;
                    self.static_row = row;
                }
                self.are_at_row = false;
            }
            Event::Row => {
                let row = std::mem::take(&mut self.fragment.row);
                self.add_those_in(&row)?;
                self.are_at_row = true;
                let has_cells = || row.cells.iter().any(|cell| cell.is_live(self.now_s));
                if row.liveness.is_live(self.now_s) || (!self.table.has_strict_liveness && has_cells()) {
                    self.waits = Waits::Row;
                }
                self.fragment.row = row;
            }
            Event::RangeChange => {
                self.change();
                self.are_at_row = false;
            }
            Event::PartitionEnd => {
                let is_live = self.static_row.cells.iter().any(|cell| cell.is_live(self.now_s));
                if is_live && !self.has_rows && self.is_whole {
                    self.waits = Waits::Statics;
                }
            }
            Event::End => return Ok(false),
        }
        Ok(true)
    }

    /// Another range deletion holds from here on: the one before ends.
    fn change(&mut self) {
        if !self.open.is_none() {
            let bounds = Some((&self.open_from, &self.fragment.change.position));
            let of = Target { bounds, ..Target::default() };
            self.deletions.push_back(encode(Kind::Range, self.open, &of, &self.table));
        }
        self.open = self.fragment.change.deletion;
        self.open_from.clone_from(&self.fragment.change.position);
    }

    fn add(&mut self, kind: Kind, deletion: Deletion, of: &Target<'_>) {
        self.deletions.push_back(encode(kind, deletion, of, &self.table));
    }

    /// Deletions of a row, and in it.
    fn add_those_in(&mut self, row: &Row) -> Result<(), BulkError> {
        if !row.deletion.is_none() {
            self.add(Kind::Row, row.deletion, &Target::default());
        }
        if !row.liveness.is_none() && !row.liveness.is_live(self.now_s) {
            self.add(Kind::Marker, of_marker(&row.liveness), &Target::default());
        }
        for (id, deletion) in &row.complex_deletions {
            if let Some(column) = self.column(*id) {
                let of = Target { column: Some(&column), ..Target::default() };
                self.add(Kind::Collection, *deletion, &of);
            }
        }
        let now_s = self.now_s;
        for cell in row.cells.iter().filter(|cell| !cell.is_live(now_s)) {
            let Some(column) = self.column(cell.column) else { continue };
            let (kind, element) = match column.is_multi_cell() {
                true => (Kind::Element, Some(element_of(&column, &cell.path)?)),
                false => (Kind::Cell, None),
            };
            self.add(kind, of_cell(cell), &Target { column: Some(&column), element, bounds: None });
        }
        Ok(())
    }

    fn column(&self, id: model::ColumnId) -> Option<Arc<ColumnDef>> {
        let at = self.columns.binary_search_by_key(&id, |column| column.id).ok()?;
        self.columns.get(at).cloned()
    }
}
