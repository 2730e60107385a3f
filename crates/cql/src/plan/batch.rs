//! BATCH, as a statement and as a request of the protocol.

use super::write::{WritePlan, bind_timestamp};
use super::{Bound, BoundWrite, CasPlan, RowsRead};
use crate::analysis::product::BatchProduct;
use crate::analysis::{BindInput, Expr};
use crate::ast::BatchKind;
use crate::error::{Result, bail};
use bytes::Bytes;
use model::TableSchema;
use model::clustering::Clustering;
use model::key::DecoratedKey;
use model::mutation::{Mutation, PartitionUpdate};
use model::row::Row;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::iter::Peekable;
use std::sync::Arc;
use std::vec;

/// A BATCH statement with all its names resolved.
#[derive(Debug)]
pub(crate) struct BatchPlan {
    pub(crate) kind: BatchKind,
    pub(crate) writes: Vec<WritePlan>,
    pub(crate) timestamp: Option<Expr>,
}

impl BatchPlan {
    pub(crate) fn bind(&self, input: &BindInput<'_>) -> Result<Bound> {
        let timestamp = match &self.timestamp {
            Some(expr) => bind_timestamp(expr, input)?,
            None => None,
        };
        let mut ctx = input.ctx.clone();
        ctx.timestamp_micros = timestamp.unwrap_or(ctx.timestamp_micros);
        let input = BindInput { ctx: &ctx, ..*input };
        let mut product = BatchProduct::default();
        let mut writes = Vec::with_capacity(self.writes.len());
        for write in &self.writes {
            let write = write.bind(&input)?;
            product.count(&write)?;
            writes.push(write);
        }
        BoundBatch::assemble(self.kind, writes)
    }
}

/// Unconditional writes that belong together.
#[derive(Clone, Debug)]
pub struct BoundBatch {
    /// Logged, unlogged or counter.
    pub kind: BatchKind,
    /// The writes, in order.
    pub writes: Vec<BoundWrite>,
}

impl BoundBatch {
    /// A batch of writes that were bound one by one, as the protocol's BATCH request sends them: a
    /// [`Bound::Batch`], or a [`Bound::Cas`] if any of them has conditions.
    pub fn assemble(kind: BatchKind, writes: Vec<BoundWrite>) -> Result<Bound> {
        let has_counters = writes.iter().any(|w| w.is_counter);
        check_kinds(kind, has_counters, writes.iter().any(|w| !w.is_counter))?;
        if writes.iter().any(BoundWrite::is_conditional) {
            return Ok(Bound::Cas(Box::new(CasPlan::new(writes, true)?)));
        }
        Ok(Bound::Batch(Box::new(BoundBatch { kind, writes })))
    }

    /// The mutations of the whole batch, merged: one for each partition key of each keyspace. `rows` holds,
    /// for each write in order, the rows of its [`BoundWrite::read_before`].
    pub fn mutations(&self, rows: &[RowsRead]) -> Result<Vec<Mutation>> {
        let nothing = RowsRead::new();
        let (mut gathered, mut index) = (Vec::new(), HashMap::new());
        for (i, write) in self.writes.iter().enumerate() {
            write.tell_findings()?;
            for key in write.keys() {
                let update = write.update(key, rows.get(i).unwrap_or(&nothing), write.timestamp)?;
                gather(&mut gathered, &mut index, update);
            }
        }
        let merged = |tables: Vec<Vec<PartitionUpdate>>| Mutation {
            updates: tables.into_iter().filter_map(merge_updates).collect(),
        };
        Ok(gathered.into_iter().map(merged).collect())
    }
}

/// Refuses mixtures of counters and other columns.
pub(crate) fn check_kinds(kind: BatchKind, has_counters: bool, has_others: bool) -> Result<()> {
    if kind == BatchKind::Counter && has_others {
        bail!("Cannot include non-counter statement in a counter batch");
    }
    if has_counters && has_others {
        bail!("Counter and non-counter mutations cannot exist in the same batch");
    }
    if kind == BatchKind::Logged && has_counters {
        bail!("Cannot include a counter statement in a logged batch");
    }
    Ok(())
}

/// Puts an update with those of its key, and there with those of its table.
fn gather(
    gathered: &mut Vec<Vec<Vec<PartitionUpdate>>>,
    index: &mut HashMap<(String, DecoratedKey), usize>,
    update: PartitionUpdate,
) {
    let place = (update.table.keyspace.clone(), update.key.clone());
    let at = *index.entry(place).or_insert_with(|| {
        gathered.push(Vec::new());
        gathered.len() - 1
    });
    let Some(tables) = gathered.get_mut(at) else { return };
    let of_table = |of: &&mut Vec<PartitionUpdate>| of.first().is_some_and(|u| u.table.id == update.table.id);
    match tables.iter_mut().find(of_table) {
        Some(of) => of.push(update),
        None => tables.push(vec![update]),
    }
}

/// The changes of all `updates`, of one partition of one table, as one update; `None` of none. Rows are
/// sorted once: putting them in their places one by one would move those behind each time.
pub(crate) fn merge_updates(updates: Vec<PartitionUpdate>) -> Option<PartitionUpdate> {
    let mut rest = updates.into_iter();
    let mut merged = rest.next()?;
    if rest.len() == 0 {
        return Some(merged);
    }
    let table = Arc::clone(&merged.table);
    let mut statics: Vec<Row> = merged.static_row.take().into_iter().collect();
    let mut rows = std::mem::take(&mut merged.rows);
    for update in rest {
        merged.deletion = merged.deletion.max(update.deletion);
        merged.range_tombstones.extend(update.range_tombstones);
        statics.extend(update.static_row);
        rows.extend(update.rows);
    }
    merged.static_row = merge_rows(&table, statics);
    let comparator = table.comparator();
    rows.sort_by(|a, b| comparator.compare(&a.clustering, &b.clustering));
    merged.rows.reserve(rows.len());
    let mut rows = rows.into_iter().peekable();
    while let Some(row) = rows.next() {
        let mut same = vec_of_same(row, &mut rows, |a, b| comparator.compare(a, b).is_eq());
        merged.rows.extend(match same.len() {
            1 => same.pop(),
            _ => merge_rows(&table, same),
        });
    }
    Some(merged)
}

/// `first`, and the rows that follow with the same clustering.
fn vec_of_same(
    first: Row,
    rest: &mut Peekable<vec::IntoIter<Row>>,
    is_same: impl Fn(&Clustering, &Clustering) -> bool,
) -> SmallVec<[Row; 1]> {
    let mut same: SmallVec<[Row; 1]> = SmallVec::new();
    same.push(first);
    while let Some(next) =
        rest.next_if(|next| same.first().is_some_and(|f| is_same(&f.clustering, &next.clustering)))
    {
        same.push(next);
    }
    same
}

/// Rows of one clustering as one. They are merged in pairs: each into one that grows would copy that one each
/// time.
fn merge_rows(table: &TableSchema, rows: impl IntoIterator<Item = Row>) -> Option<Row> {
    let mut rows: Vec<Row> = rows.into_iter().collect();
    while rows.len() > 1 {
        let mut pairs = rows.into_iter();
        let mut halved = Vec::with_capacity(pairs.len().div_ceil(2));
        while let Some(mut row) = pairs.next() {
            if let Some(mut other) = pairs.next() {
                if table.is_counter {
                    sum_increments(&mut row, &mut other);
                }
                model::reconcile::merge_row_into(table, &mut row, &other);
            }
            halved.push(row);
        }
        rows = halved;
    }
    rows.pop()
}

/// Moves the increments of cells that both rows have into `existing`: they are no counter contexts, which
/// could be reconciled, but add up.
fn sum_increments(existing: &mut Row, row: &mut Row) {
    row.cells.retain(|cell| {
        let at = existing.cells.binary_search_by_key(&cell.column, |c| c.column).ok();
        let same = at.and_then(|at| existing.cells.get_mut(at));
        let (Some(same), Some(more)) = (same, cell.value.as_array::<8>()) else { return true };
        let Some(before) = same.value.as_array::<8>() else { return true };
        let sum = i64::from_be_bytes(*before).wrapping_add(i64::from_be_bytes(*more));
        same.value = Bytes::copy_from_slice(&sum.to_be_bytes());
        same.timestamp = same.timestamp.max(cell.timestamp);
        false
    });
}
