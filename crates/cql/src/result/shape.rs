//! What the rows of a result are made of: the part of a SELECT that runs after the read.

use super::ColumnRef;
use crate::analysis::Expr;
use crate::bind::ColumnSpec;
use crate::functions::AggregateCall;
use model::TableSchema;
use std::sync::Arc;

/// One column of the result.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// A column of the table as it is.
    Column(ColumnRef),
    /// Something computed.
    Expr(Expr),
}

/// What tells groups apart.
#[derive(Clone, Debug)]
pub(crate) enum GroupBy {
    Column(ColumnRef),
    /// A function of the last clustering column that is grouped by.
    Expr(Expr),
}

/// How rows of a table become rows of a result.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) table: Arc<TableSchema>,
    /// Names and types of the outputs.
    pub(crate) columns: Vec<ColumnSpec>,
    pub(crate) outputs: Vec<Output>,
    pub(crate) aggregates: Vec<AggregateCall>,
    pub(crate) group_by: Vec<GroupBy>,
    /// `SELECT JSON`: the names of the outputs, which become one text.
    pub(crate) json: Option<JsonShape>,
    /// Clustering columns by which the rows of several partitions are sorted, each with whether it is
    /// descending.
    pub(crate) order: Vec<(ColumnRef, bool)>,
    /// Whether a partition without rows but with static content gives a row.
    pub(crate) includes_static_only: bool,
}

impl Shape {
    /// Whether rows show anything but columns as they are.
    pub(crate) fn is_computed(&self) -> bool {
        self.is_grouped() || self.outputs.iter().any(|output| matches!(output, Output::Expr(_)))
    }

    /// Whether the rows of the result are not those of the read.
    pub(crate) fn is_grouped(&self) -> bool {
        !self.aggregates.is_empty() || !self.group_by.is_empty()
    }
}

/// The names and types of what JSON text is made of.
#[derive(Debug)]
pub(crate) struct JsonShape {
    pub(crate) fields: Vec<(String, model::CqlType)>,
}
