//! What an execution of a statement asks of the node.

use super::{BoundBatch, BoundWrite, CasPlan};
use crate::ast;
use crate::bind::ColumnSpec;
use crate::result::{Circumstances, ResultShaper, Shape};
use model::clustering::Clustering;
use model::command::ReadCommand;
use model::key::DecoratedKey;
use model::row::{ResultRow, Row};
use model::{ColumnKind, TableSchema};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A statement with its values.
#[derive(Debug)]
pub enum Bound {
    /// Read, shape, answer.
    Select(Box<BoundSelect>),
    /// Say how the read would be carried out.
    Explain(Box<BoundExplain>),
    /// An unconditional write of one table.
    Write(Box<BoundWrite>),
    /// Writes under conditions, in one partition; a batch of such writes too.
    Cas(Box<CasPlan>),
    /// Unconditional writes that belong together.
    Batch(Box<BoundBatch>),
    /// Empty the table.
    Truncate(Arc<TableSchema>),
    /// Use the keyspace, which exists.
    Use(String),
    /// Change the schema: for `ddl`.
    Schema(Arc<ast::Statement>),
    /// A statement about roles, permissions or identities: for whoever keeps them.
    Role(Arc<ast::Statement>),
    /// Describe the schema: for `describe`.
    Describe(Arc<ast::Describe>),
}

/// EXPLAIN with the values of its SELECT.
#[derive(Clone, Debug)]
pub struct BoundExplain {
    /// Whether the read is carried out, too.
    pub analyze: bool,
    /// The read.
    pub select: BoundSelect,
}

/// A read and how its rows become a result set.
#[derive(Clone, Debug)]
pub struct BoundSelect {
    /// The read. Its limits count rows; where [`BoundSelect::is_grouped`] says so they do not apply and
    /// [`ResultShaper`] limits the groups.
    pub command: Arc<ReadCommand>,
    /// Whether rows are aggregated or grouped. Then the rows of the command are not the rows of the result,
    /// and the reader should page internally until the shaper has enough.
    pub is_grouped: bool,
    /// Whether the rows of several partitions are sorted after they are all read, so that the result is one
    /// page.
    pub is_sorted: bool,
    /// Whether what the read loads stays in no cache: BYPASS CACHE.
    pub bypasses_cache: bool,
    /// What the client is told of an aggregation of many partitions.
    pub warning: Option<&'static str>,
    pub(crate) shape: Arc<Shape>,
    pub(crate) with: Circumstances,
}

impl BoundSelect {
    /// Whether there is a GROUP BY: the result can be read in pages of groups. Aggregates without one are one
    /// row.
    pub fn has_groups(&self) -> bool {
        !self.shape.group_by.is_empty()
    }

    /// Whether anything is computed of the columns, rather than shown as it is.
    pub fn has_expressions(&self) -> bool {
        self.shape.outputs.iter().any(|output| matches!(output, crate::result::Output::Expr(_)))
    }

    /// Whether rows are filtered by several columns whose values replicas may hold apart: rows that match on
    /// no replica may match once they are merged.
    pub fn filters_mutable_columns(&self) -> bool {
        let ReadCommand { table, row_filter, .. } = &*self.command;
        let kind = |column| table.column_by_id(column).map(|column| column.kind);
        let columns = row_filter.iter().map(|filter| filter.column);
        // Beside a static column those of the key count, too.
        let has_static = columns.clone().any(|column| kind(column) == Some(ColumnKind::Static));
        let is_mutable = |column: &_| matches!(kind(*column), Some(ColumnKind::Regular | ColumnKind::Static));
        let mut mutable = columns.filter(is_mutable);
        let first = mutable.next();
        has_static && row_filter.len() > 1 || mutable.any(|column| Some(column) != first)
    }

    /// The columns of the result.
    pub fn columns(&self) -> &[ColumnSpec] {
        &self.shape.columns
    }

    /// A shaper for the rows of the command, or of one page of it.
    pub fn shaper(&self) -> ResultShaper<'_> {
        ResultShaper::new(&self.shape, &self.with)
    }
}

/// One row, kept.
#[derive(Clone, Debug)]
pub(crate) struct OwnedResultRow {
    pub(crate) key: DecoratedKey,
    pub(crate) static_row: Option<Row>,
    pub(crate) row: Option<Row>,
    pub(crate) now_s: u32,
}

impl OwnedResultRow {
    pub(crate) fn of(row: &ResultRow<'_>) -> OwnedResultRow {
        OwnedResultRow {
            key: row.key.clone(),
            static_row: row.static_row.cloned(),
            row: row.row.cloned(),
            now_s: row.now_s,
        }
    }

    pub(crate) fn as_row(&self) -> ResultRow<'_> {
        ResultRow {
            key: &self.key,
            static_row: self.static_row.as_ref(),
            row: self.row.as_ref(),
            now_s: self.now_s,
        }
    }
}

/// The rows that a write's `read_before` or a condition's read found.
#[derive(Clone, Debug, Default)]
pub struct RowsRead {
    /// The rows of one partition stand together, in the order of their clusterings.
    pub(crate) rows: Vec<OwnedResultRow>,
    partitions: HashMap<DecoratedKey, Range<usize>>,
}

impl RowsRead {
    /// No rows.
    pub fn new() -> RowsRead {
        RowsRead::default()
    }

    /// Adds a row behind the others.
    pub fn push(&mut self, row: &ResultRow<'_>) {
        let at = self.rows.len();
        match self.partitions.get_mut(row.key) {
            Some(range) => range.end = at + 1,
            None => {
                self.partitions.insert(row.key.clone(), at..at + 1);
            }
        }
        self.rows.push(OwnedResultRow::of(row));
    }

    /// The row of a clustering of a partition, or (for `None`) any row of it, for its static row.
    pub(crate) fn of(
        &self,
        table: &TableSchema,
        key: &DecoratedKey,
        clustering: Option<&Clustering>,
    ) -> Option<ResultRow<'_>> {
        let rows = self.rows.get(self.partitions.get(key)?.clone())?;
        let Some(name) = clustering else { return rows.first().map(OwnedResultRow::as_row) };
        let comparator = table.comparator();
        let order = |found: &OwnedResultRow| match &found.row {
            Some(row) => comparator.compare(&row.clustering, name),
            // A static row alone.
            None => Ordering::Less,
        };
        let at = rows.binary_search_by(order).ok()?;
        rows.get(at).map(OwnedResultRow::as_row)
    }
}
