//! Read commands: what a query wants from the tables, in terms that every layer below `cql` understands.

use crate::cell::{Cell, ColumnId};
use crate::clustering::{Clustering, ClusteringComparator, Position, Slice};
use crate::elements::ElementSelection;
use crate::key::{DecoratedKey, KeyRange};
use crate::schema::TableSchema;
use bytes::Bytes;
use std::cmp::Ordering;
use std::sync::Arc;

/// Which partitions a command reads.
#[derive(Clone, Debug)]
pub enum PartitionSelection {
    /// These keys, in this order.
    Keys(Vec<DecoratedKey>),
    /// All keys of a range, in ring order.
    Range(KeyRange),
}

/// Which rows of each partition a command reads.
#[derive(Clone, Debug)]
pub enum ClusteringFilter {
    /// Rows inside any of the slices. Sorted in storage order, not overlapping, none empty.
    Slices {
        /// The slices.
        slices: Vec<Slice>,
        /// Whether rows come last to first.
        reversed: bool,
    },
    /// Rows of exactly these clusterings, sorted in storage order, without duplicates. No clusterings at all
    /// means that only the static row is wanted.
    Names {
        /// The clusterings.
        names: Vec<Clustering>,
        /// Whether rows come last to first.
        reversed: bool,
    },
}

impl ClusteringFilter {
    /// Every row, in storage order.
    pub fn all() -> ClusteringFilter {
        ClusteringFilter::Slices { slices: vec![Slice::ALL], reversed: false }
    }

    /// Whether rows come last to first.
    pub fn is_reversed(&self) -> bool {
        match self {
            ClusteringFilter::Slices { reversed, .. } | ClusteringFilter::Names { reversed, .. } => *reversed,
        }
    }

    /// Whether every row is selected.
    pub fn is_all(&self) -> bool {
        matches!(self, ClusteringFilter::Slices { slices, .. } if slices.iter().any(Slice::is_all))
    }

    /// Whether no row is selected, just static content.
    pub fn is_statics_only(&self) -> bool {
        matches!(self, ClusteringFilter::Names { names, .. } if names.is_empty())
    }

    /// Whether it selects one slice that goes on to the end of the partition in the direction of the read.
    pub fn has_open_end(&self) -> bool {
        let ClusteringFilter::Slices { slices, reversed } = self else { return false };
        let [slice] = slices.as_slice() else { return false };
        if *reversed { slice.start.prefix.is_empty() } else { slice.end.prefix.is_empty() }
    }

    /// The selected rows as slices in storage order.
    pub fn to_slices(&self) -> Vec<Slice> {
        match self {
            ClusteringFilter::Slices { slices, .. } => slices.clone(),
            ClusteringFilter::Names { names, .. } => names.iter().cloned().map(Slice::of_prefix).collect(),
        }
    }

    /// Whether a row is selected.
    pub fn selects(&self, comparator: &ClusteringComparator, clustering: &Clustering) -> bool {
        match self {
            ClusteringFilter::Slices { slices, .. } => {
                slices.iter().any(|s| s.contains(comparator, Position::row(clustering)))
            }
            ClusteringFilter::Names { names, .. } => {
                names.binary_search_by(|n| comparator.compare(n, clustering)).is_ok()
            }
        }
    }
}

/// Which columns a command reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSelection {
    /// Static and regular columns whose values are wanted, sorted. A source still reports the cells of other
    /// columns, because they keep a row alive, but steps over their values and leaves them empty.
    pub columns: Arc<[ColumnId]>,
    /// Whether all columns of the table are wanted.
    pub all: bool,
    /// The elements that are wanted, of multi-cell columns that are not wanted as a whole.
    pub elements: Option<Arc<Vec<ElementSelection>>>,
    /// The columns that an answer to another node tells of, where that node says which.
    pub fetched: Option<Arc<FetchedColumns>>,
}

/// The columns that an answer to another node tells of, wanted or not. Sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedColumns {
    /// Static ones.
    pub statics: Vec<ColumnId>,
    /// Regular ones.
    pub regulars: Vec<ColumnId>,
}

impl ColumnSelection {
    /// All static and regular columns of `table`.
    pub fn all(table: &TableSchema) -> ColumnSelection {
        let mut columns: Vec<ColumnId> =
            table.static_columns().iter().chain(table.regular_columns()).map(|c| c.id).collect();
        columns.sort();
        ColumnSelection { columns: columns.into(), all: true, elements: None, fetched: None }
    }

    /// The given columns.
    pub fn of(mut columns: Vec<ColumnId>) -> ColumnSelection {
        columns.sort();
        columns.dedup();
        ColumnSelection { columns: columns.into(), all: false, elements: None, fetched: None }
    }

    /// Whether cells of `column` are wanted.
    #[inline]
    pub fn contains(&self, column: ColumnId) -> bool {
        self.all || self.columns.binary_search(&column).is_ok()
    }

    /// Whether the value of a cell is wanted.
    pub fn wants_value_of(&self, cell: &Cell) -> bool {
        let is_element = |elements: &ElementSelection| elements.contains(&cell.path);
        self.contains(cell.column) && self.elements_of(cell.column).is_none_or(is_element)
    }

    /// Which elements of `column` are wanted, where that are not all.
    pub fn elements_of(&self, column: ColumnId) -> Option<&ElementSelection> {
        self.elements.as_ref()?.iter().find(|elements| elements.column == column)
    }
}

/// Comparison of a filter expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operator {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    In,
    Contains,
    ContainsKey,
}

/// One condition of ALLOW FILTERING: evaluated on each row after the merge.
#[derive(Clone, Debug)]
pub struct FilterExpression {
    /// Any column of the table, of any kind.
    pub column: ColumnId,
    /// The comparison.
    pub operator: Operator,
    /// For `m[key] = value`: the key.
    pub map_key: Option<Bytes>,
    /// The value; for `In` one or more, else exactly one.
    pub values: Vec<Bytes>,
}

/// How much a command returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataLimits {
    /// Rows in all.
    pub rows: u64,
    /// Rows of each partition.
    pub rows_per_partition: u64,
    /// Partitions only: one row for each, its static columns.
    pub distinct: bool,
}

impl DataLimits {
    /// No limit.
    pub const NONE: DataLimits = DataLimits { rows: u64::MAX, rows_per_partition: u64::MAX, distinct: false };
}

/// A read, ready to run on a replica.
#[derive(Clone, Debug)]
pub struct ReadCommand {
    /// The table.
    pub table: Arc<TableSchema>,
    /// The partitions.
    pub partitions: PartitionSelection,
    /// The rows of each.
    pub clusterings: ClusteringFilter,
    /// The columns of each.
    pub columns: ColumnSelection,
    /// All must hold for a row to be returned.
    pub row_filter: Vec<FilterExpression>,
    /// How much is returned.
    pub limits: DataLimits,
    /// Seconds since the epoch at which TTLs and deletions are judged.
    pub now_s: u32,
}

impl ReadCommand {
    /// Whether rows come last to first.
    pub fn is_reversed(&self) -> bool {
        self.clusterings.is_reversed()
    }

    /// Whether answers of replicas tell of a static column: where it is asked for, and all of them where a
    /// partition without rows is a row of the result.
    pub fn fetches_static(&self, column: ColumnId) -> bool {
        match &self.columns.fetched {
            Some(fetched) => fetched.statics.binary_search(&column).is_ok(),
            None => self.clusterings.is_all() || self.columns.contains(column),
        }
    }

    /// Whether answers of replicas tell of a regular column: of all of them, for any of their cells keeps a
    /// row alive.
    pub fn fetches_regular(&self, column: ColumnId) -> bool {
        let fetched = self.columns.fetched.as_ref();
        fetched.is_none_or(|fetched| fetched.regulars.binary_search(&column).is_ok())
    }

    /// Rows that it can return at the most, by the names it asks for; its limits and its filter may leave
    /// fewer.
    pub fn rows_max(&self) -> u64 {
        let PartitionSelection::Keys(keys) = &self.partitions else { return u64::MAX };
        let of_each = match &self.clusterings {
            // Without rows there is one of static columns.
            ClusteringFilter::Names { names, .. } => names.len().max(1),
            ClusteringFilter::Slices { .. } if self.table.comparator().is_empty() => 1,
            ClusteringFilter::Slices { .. } => return u64::MAX,
        };
        (keys.len() as u64).saturating_mul(of_each as u64)
    }

    /// Order in which the rows of this command come.
    pub fn compare_rows(&self, a: &Clustering, b: &Clustering) -> Ordering {
        let order = self.table.comparator().compare(a, b);
        if self.is_reversed() { order.reverse() } else { order }
    }
}
