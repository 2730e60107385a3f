//! SELECT.

use super::{Identifier, QualifiedName, Selectable, Selector, Term, WherePredicate};

/// `SELECT ... FROM ...`.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// `SELECT JSON`.
    pub json: bool,
    /// `SELECT DISTINCT`.
    pub distinct: bool,
    /// What is selected.
    pub selection: Selection,
    /// FROM.
    pub table: QualifiedName,
    /// WHERE; empty if absent.
    pub filter: Vec<WherePredicate>,
    /// GROUP BY; empty if absent.
    pub group_by: Vec<Selectable>,
    /// ORDER BY; empty if absent.
    pub order_by: Vec<OrderBy>,
    /// PER PARTITION LIMIT: an integer constant or a marker.
    pub per_partition_limit: Option<Term>,
    /// LIMIT: an integer constant or a marker.
    pub limit: Option<Term>,
    /// ALLOW FILTERING.
    pub allow_filtering: bool,
    /// BYPASS CACHE, which is ScyllaDB's: what the read loads does not stay in the page cache.
    pub bypass_cache: bool,
}

/// The SELECT clause.
#[derive(Clone, Debug, PartialEq)]
pub enum Selection {
    /// `*`.
    Wildcard,
    /// A list, never empty.
    Selectors(Vec<Selector>),
}

/// One ordering.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    /// By what.
    pub expression: OrderByExpression,
    /// DESC.
    pub descending: bool,
}

/// What an ordering orders by.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderByExpression {
    /// `column`.
    Column(Identifier),
    /// `column ANN OF vector`.
    Ann {
        /// The vector column.
        column: Identifier,
        /// The vector to be near to.
        target: Term,
    },
}
