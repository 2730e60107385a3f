//! The clustering columns' part of WHERE: which rows of a partition a statement is about.
//!
//! At preparation the restrictions stand in column order. Those that continue a prefix of equalities (and IN)
//! can be answered by position. What comes behind a gap has to be filtered. At binding, equalities and INs
//! multiply to prefixes. If these cover all columns they are names, otherwise slices. A slice over several
//! columns, some of them descending, is one range of the *logical* order. It can be several ranges of the
//! storage order:
//!
//! ```text
//! (a, b) > (1, 2) with b DESC, in storage order:
//!     a = 1, b > 2    before the position (1, 2):    [ (1) .. (1, 2) )
//!     a > 1           after all of a = 1:            ( (1) .. end ]
//! ```

use super::context::BindInput;
use super::expr::Expr;
use super::keys::{value_of, values_of};
use super::product;
use super::relation::{Restriction, SliceEnd, Test};
use crate::bind::BoundValue;
use crate::error::{Result, bail};
use bytes::Bytes;
use model::clustering::{
    BoundKind, Clustering, ClusteringBound, ClusteringComparator, Component, Position, Slice,
};
use model::command::ClusteringFilter;
use model::types::collection;
use model::{ColumnDef, TableSchema};
use std::cmp::Ordering;
use std::sync::Arc;

/// Restrictions of the clustering columns.
#[derive(Debug)]
pub(crate) struct ClusteringPlan {
    table: Arc<TableSchema>,
    /// Sorted by first column.
    restrictions: Vec<Restriction>,
    /// How many of them are answered by position.
    positioned: usize,
}

impl ClusteringPlan {
    pub(crate) fn new(table: &Arc<TableSchema>, restrictions: Vec<Restriction>) -> ClusteringPlan {
        let mut next = 0;
        let mut positioned = 0;
        for restriction in &restrictions {
            if restriction.first_position() != next || matches!(restriction.test, Test::Contains { .. }) {
                break;
            }
            positioned += 1;
            if restriction.is_slice() {
                break;
            }
            next += restriction.columns.len();
        }
        ClusteringPlan { table: Arc::clone(table), restrictions, positioned }
    }

    fn by_position(&self) -> &[Restriction] {
        self.restrictions.get(..self.positioned).unwrap_or_default()
    }

    pub(crate) fn needs_filtering(&self) -> bool {
        self.positioned < self.restrictions.len()
    }

    /// The restrictions that have to be filtered by.
    pub(crate) fn filtered(&self) -> Vec<Restriction> {
        self.restrictions.get(self.positioned..).unwrap_or_default().to_vec()
    }

    pub(crate) fn has_slice(&self) -> bool {
        self.restrictions.iter().any(Restriction::is_slice)
    }

    pub(crate) fn has_contains(&self) -> bool {
        self.restrictions.iter().any(|r| matches!(r.test, Test::Contains { .. }))
    }

    pub(crate) fn has_in(&self) -> bool {
        self.restrictions.iter().any(|r| matches!(r.test, Test::In(_)))
    }

    fn restricted(&self) -> impl Iterator<Item = &Arc<ColumnDef>> {
        self.restrictions.iter().flat_map(|r| &r.columns)
    }

    /// Names of the columns that are not restricted.
    pub(crate) fn missing(&self) -> Vec<String> {
        let columns = self.table.clustering_columns().iter();
        columns.filter(|c| !self.restricted().any(|r| r == *c)).map(|c| c.name.clone()).collect()
    }

    /// Whether every clustering column is restricted by a value or by IN.
    pub(crate) fn names_rows(&self) -> bool {
        !self.has_slice() && !self.needs_filtering() && self.missing().is_empty()
    }

    /// Positions of the columns that an equality fixes.
    pub(crate) fn fixed(&self) -> Vec<usize> {
        let equalities = self.restrictions.iter().filter(|r| matches!(r.test, Test::Eq(_)));
        equalities.flat_map(|r| r.columns.iter().map(|c| c.position)).collect()
    }

    /// Whether no column is restricted.
    pub(crate) fn is_empty(&self) -> bool {
        self.restrictions.is_empty()
    }

    /// Refuses a column that is restricted behind one that is not.
    pub(crate) fn check_gap(&self) -> Result<()> {
        let mut columns = self.restricted().zip(self.table.clustering_columns());
        if let Some((restricted, missing)) = columns.find(|(restricted, expected)| restricted != expected) {
            bail!(
                "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                restricted.name,
                missing.name
            );
        }
        Ok(())
    }

    /// The rows by name: a clustering for each, in storage order. Only when [`ClusteringPlan::names_rows`],
    /// or of a dense table: there the last components may be missing.
    pub(crate) fn names(&self, input: &BindInput<'_>) -> Result<Vec<Clustering>> {
        let comparator = self.table.comparator();
        let mut names = self.prefixes(self.by_position(), input)?;
        for name in &mut names {
            while name.len() < comparator.len() {
                name.push(Component::Null);
            }
        }
        sort(comparator, &mut names);
        Ok(names)
    }

    /// The rows; `None` when there cannot be any.
    pub(crate) fn bind(&self, input: &BindInput<'_>, reversed: bool) -> Result<Option<ClusteringFilter>> {
        if self.table.is_static_compact() {
            return Ok(Some(ClusteringFilter::Names { names: Vec::new(), reversed }));
        }
        let comparator = self.table.comparator();
        let (equal, slice) = match self.by_position().split_last() {
            Some((last, rest)) if last.is_slice() => (rest, Some(last)),
            _ => (self.by_position(), None),
        };
        let mut prefixes = self.prefixes(equal, input)?;
        if prefixes.is_empty() {
            return Ok(None);
        }
        sort(comparator, &mut prefixes);
        let covered: usize = equal.iter().map(|r| r.columns.len()).sum();
        if slice.is_none() && covered == comparator.len() && covered > 0 {
            return Ok(Some(ClusteringFilter::Names { names: prefixes, reversed }));
        }
        let ends = match slice {
            Some(restriction) => match SliceValues::of(restriction, input)? {
                Some(values) => Some(values),
                None => return Ok(None),
            },
            None => None,
        };
        let mut slices = Vec::with_capacity(prefixes.len());
        for prefix in prefixes {
            match &ends {
                None => slices.push(Slice::of_prefix(prefix)),
                Some(ends) => ends.slices(comparator, &prefix, &mut slices),
            }
        }
        if slices.is_empty() {
            return Ok(None);
        }
        Ok(Some(ClusteringFilter::Slices { slices, reversed }))
    }

    /// Whether a range of rows has a null as one of its ends.
    pub(crate) fn ends_at_null(&self, input: &BindInput<'_>) -> Result<bool> {
        match self.by_position().last() {
            Some(last) if last.is_slice() => Ok(SliceValues::of(last, input)?.is_none()),
            _ => Ok(false),
        }
    }

    /// All combinations of the values of equalities and INs.
    fn prefixes(&self, restrictions: &[Restriction], input: &BindInput<'_>) -> Result<Vec<Clustering>> {
        if let Some(single) = single_prefix(restrictions, input)? {
            return Ok(vec![single]);
        }
        let given = restrictions.iter().map(|r| tuples(r, input)).collect::<Result<Vec<_>>>()?;
        product::check("clustering key", given.iter().map(Vec::len), input)?;
        let mut prefixes = vec![Clustering::empty()];
        for rows in &given {
            let mut longer = Vec::with_capacity(prefixes.len() * rows.len());
            for prefix in &prefixes {
                for row in rows {
                    let mut next = prefix.clone();
                    row.iter().for_each(|value| next.push(Component::Value(value)));
                    longer.push(next);
                }
            }
            prefixes = longer;
        }
        Ok(prefixes)
    }
}

/// The prefix of restrictions that give each column one value: the common case.
fn single_prefix(restrictions: &[Restriction], input: &BindInput<'_>) -> Result<Option<Clustering>> {
    let mut prefix = Clustering::empty();
    for restriction in restrictions {
        let ([column], false, Test::Eq(expr)) =
            (restriction.columns.as_slice(), restriction.is_multi, &restriction.test)
        else {
            return Ok(None);
        };
        prefix.push(Component::Value(&value_of(expr, &column.name, input)?));
    }
    Ok(Some(prefix))
}

fn sort(comparator: &ClusteringComparator, clusterings: &mut Vec<Clustering>) {
    clusterings.sort_by(|a, b| comparator.compare(a, b));
    clusterings.dedup_by(|a, b| comparator.compare(a, b).is_eq());
}

/// The values of an equality or IN: a component for each column of the restriction.
fn tuples(restriction: &Restriction, input: &BindInput<'_>) -> Result<Vec<Vec<Bytes>>> {
    if !restriction.is_multi {
        let Some(column) = restriction.columns.first() else { return Ok(Vec::new()) };
        let values = values_of(&restriction.test, column, input)?;
        return Ok(values.into_iter().map(|value| vec![value]).collect());
    }
    let columns = restriction.columns.as_slice();
    let null = || format!("Invalid null value in condition for columns: [{}]", shown(columns, ", "));
    match &restriction.test {
        Test::Eq(expr) => {
            let null = |column: &ColumnDef| format!("Invalid null value for column {}", column.name);
            Ok(vec![components(expr, columns, &null, input)?])
        }
        Test::In(source) => {
            let of_item = |item: Option<Bytes>| match item {
                Some(tuple) => split(&tuple, columns, &|_| null()),
                None => bail!("{}", null()),
            };
            let no_list = |nothing: &BoundValue| match nothing {
                BoundValue::Unset => format!("Invalid unset value for in({})", shown(columns, ",")),
                _ => "Invalid null value for IN restriction".to_owned(),
            };
            source.bind(input, |term| components(term, columns, &|_| null(), input), of_item, no_list)
        }
        Test::Slice { .. } | Test::Contains { .. } => Ok(Vec::new()),
    }
}

fn shown(columns: &[Arc<ColumnDef>], separator: &str) -> String {
    columns.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(separator)
}

/// The components of a tuple; `null` makes the message for one that is null.
fn components(
    expr: &Expr,
    columns: &[Arc<ColumnDef>],
    null: &dyn Fn(&ColumnDef) -> String,
    input: &BindInput<'_>,
) -> Result<Vec<Bytes>> {
    match expr.eval(&input.scope())? {
        BoundValue::Bytes(bytes) => split(&bytes, columns, null),
        BoundValue::Null => bail!("Invalid null value for ({})", shown(columns, ",")),
        BoundValue::Unset => bail!("Invalid unset value for tuple ({})", shown(columns, ",")),
    }
}

fn split(
    tuple: &Bytes,
    columns: &[Arc<ColumnDef>],
    null: &dyn Fn(&ColumnDef) -> String,
) -> Result<Vec<Bytes>> {
    let mut fields = collection::tuple_fields(tuple);
    let mut out = Vec::with_capacity(columns.len());
    for column in columns {
        match fields.next().flatten() {
            Some(value) => out.push(tuple.slice_ref(value)),
            None => bail!("{}", null(column)),
        }
    }
    Ok(out)
}

/// The two ends of a slice, with their values.
#[derive(Debug)]
struct SliceValues {
    start: Option<(Vec<Bytes>, bool)>,
    end: Option<(Vec<Bytes>, bool)>,
}

impl SliceValues {
    /// `None` when a bound is null: nothing is greater or less than that.
    fn of(restriction: &Restriction, input: &BindInput<'_>) -> Result<Option<SliceValues>> {
        let Test::Slice { start, end } = &restriction.test else {
            return Ok(Some(SliceValues { start: None, end: None }));
        };
        let mut has_null = false;
        let mut side = |end: &Option<SliceEnd>| -> Result<Option<(Vec<Bytes>, bool)>> {
            let Some(end) = end else { return Ok(None) };
            let columns = restriction.columns.get(..end.columns).unwrap_or(&restriction.columns);
            let name = columns.first().map_or("", |c| c.name.as_str());
            if end.is_tuple {
                let null = |column: &ColumnDef| {
                    format!("Invalid null value in condition for column {}", column.name)
                };
                return Ok(Some((components(&end.value, columns, &null, input)?, end.inclusive)));
            }
            match end.value.eval(&input.scope())? {
                BoundValue::Bytes(bytes) => Ok(Some((vec![bytes], end.inclusive))),
                BoundValue::Null => {
                    has_null = true;
                    Ok(None)
                }
                BoundValue::Unset => bail!("Invalid unset value for column {name}"),
            }
        };
        let values = SliceValues { start: side(start)?, end: side(end)? };
        Ok((!has_null).then_some(values))
    }

    /// The ranges of the storage order that lie between the ends, behind `prefix`.
    fn slices(&self, comparator: &ClusteringComparator, prefix: &Clustering, out: &mut Vec<Slice>) {
        let whole = vec![Slice::of_prefix(prefix.clone())];
        let side = |end: &Option<(Vec<Bytes>, bool)>, greater: bool| match end {
            None => whole.clone(),
            Some((values, inclusive)) => half_line(comparator, prefix, values, *inclusive, greater),
        };
        let (above, below) = (side(&self.start, true), side(&self.end, false));
        for a in &above {
            for b in &below {
                let start = later(comparator, &a.start, &b.start);
                let end = earlier(comparator, &a.end, &b.end);
                let slice = Slice { start: start.clone(), end: end.clone() };
                if !slice.is_empty(comparator) {
                    push_joined(comparator, out, slice);
                }
            }
        }
    }
}

fn later<'b>(
    comparator: &ClusteringComparator,
    a: &'b ClusteringBound,
    b: &'b ClusteringBound,
) -> &'b ClusteringBound {
    if comparator.compare_positions(a.position(), b.position()) == Ordering::Less { b } else { a }
}

fn earlier<'b>(
    comparator: &ClusteringComparator,
    a: &'b ClusteringBound,
    b: &'b ClusteringBound,
) -> &'b ClusteringBound {
    if comparator.compare_positions(a.position(), b.position()) == Ordering::Greater { b } else { a }
}

/// Appends a slice. It is joined with the last one if it starts where that one ends.
fn push_joined(comparator: &ClusteringComparator, out: &mut Vec<Slice>, slice: Slice) {
    if let Some(last) = out.last_mut()
        && touches(comparator, last.end.position(), slice.start.position())
    {
        last.end = slice.end;
        return;
    }
    out.push(slice);
}

fn touches(comparator: &ClusteringComparator, end: Position<'_>, start: Position<'_>) -> bool {
    end.kind.complement() == start.kind && comparator.compare_positions(end, start).is_eq()
}

/// The rows behind a prefix that are greater (or less) than a tuple of values. There is one part for each
/// component: the rows that are equal in the components before and greater in this one. Rows that are equal
/// in all belong to it if `inclusive`. The parts are in storage order, joined.
fn half_line(
    comparator: &ClusteringComparator,
    prefix: &Clustering,
    values: &[Bytes],
    inclusive: bool,
    greater: bool,
) -> Vec<Slice> {
    let mut pieces = Vec::with_capacity(values.len() + 1);
    let mut equal = prefix.clone();
    for (i, value) in values.iter().enumerate() {
        let outer = Slice::of_prefix(equal.clone());
        let mut at = equal.clone();
        at.push(Component::Value(value));
        let descending = comparator.column(prefix.len() + i).is_some_and(|(_, descending)| descending);
        // In storage order the greater values of a descending column come first.
        pieces.push(if greater != descending {
            Slice { start: ClusteringBound::new(BoundKind::ExclStart, at.clone()), end: outer.end }
        } else {
            Slice { start: outer.start, end: ClusteringBound::new(BoundKind::ExclEnd, at.clone()) }
        });
        equal = at;
    }
    if inclusive {
        pieces.push(Slice::of_prefix(equal));
    }
    pieces.sort_by(|a, b| comparator.compare_positions(a.start.position(), b.start.position()));
    let mut out = Vec::with_capacity(pieces.len());
    for piece in pieces {
        push_joined(comparator, &mut out, piece);
    }
    out
}
