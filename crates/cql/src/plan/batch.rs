//! BATCH, as a statement and as a request of the protocol.

use super::write::{WritePlan, bind_timestamp};
use super::{Bound, BoundWrite, CasPlan, RowsRead};
use crate::analysis::{BindInput, Expr};
use crate::ast::BatchKind;
use crate::error::{Result, bail};
use bytes::Bytes;
use model::key::DecoratedKey;
use model::mutation::{Mutation, PartitionUpdate};
use model::row::Row;
use std::collections::HashMap;

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
        let writes = self.writes.iter().map(|write| write.bind(&input)).collect::<Result<Vec<_>>>()?;
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
    /// A batch of writes that were bound one by one, as the protocol's BATCH request sends them: a [`Bound::Batch`],
    /// or a [`Bound::Cas`] if any of them has conditions.
    pub fn assemble(kind: BatchKind, writes: Vec<BoundWrite>) -> Result<Bound> {
        let has_counters = writes.iter().any(|w| w.is_counter);
        check_kinds(kind, has_counters, writes.iter().any(|w| !w.is_counter))?;
        if writes.iter().any(BoundWrite::is_conditional) {
            return Ok(Bound::Cas(Box::new(CasPlan::new(writes, true)?)));
        }
        Ok(Bound::Batch(Box::new(BoundBatch { kind, writes })))
    }

    /// The mutations of the whole batch, merged: one for each partition key of each keyspace. `rows` holds, for each
    /// write in order, the rows of its [`BoundWrite::read_before`].
    pub fn mutations(&self, rows: &[RowsRead]) -> Result<Vec<Mutation>> {
        let nothing = RowsRead::new();
        let (mut merged, mut index) = (Vec::new(), HashMap::new());
        for (i, write) in self.writes.iter().enumerate() {
            for key in write.keys() {
                let update = write.update(key, rows.get(i).unwrap_or(&nothing), write.timestamp)?;
                add(&mut merged, &mut index, update);
            }
        }
        Ok(merged)
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

/// Adds an update to the mutation of its key, and to the update of its table in there.
fn add(
    merged: &mut Vec<Mutation>,
    index: &mut HashMap<(String, DecoratedKey), usize>,
    update: PartitionUpdate,
) {
    let place = (update.table.keyspace.clone(), update.key.clone());
    let at = *index.entry(place).or_insert_with(|| {
        merged.push(Mutation { updates: Vec::new() });
        merged.len() - 1
    });
    let Some(mutation) = merged.get_mut(at) else { return };
    match mutation.updates.iter_mut().find(|u| u.table.id == update.table.id) {
        Some(into) => merge_update(into, update),
        None => mutation.updates.push(update),
    }
}

/// Adds the changes of `update` to `into`, of the same partition.
pub(crate) fn merge_update(into: &mut PartitionUpdate, update: PartitionUpdate) {
    into.deletion = into.deletion.max(update.deletion);
    into.range_tombstones.extend(update.range_tombstones);
    if let Some(mut row) = update.static_row {
        if into.table.is_counter {
            sum_increments(into.static_row.as_mut(), &mut row);
        }
        into.add_static(row);
    }
    for mut row in update.rows {
        if into.table.is_counter {
            sum_increments(into.rows.iter_mut().find(|r| r.clustering == row.clustering), &mut row);
        }
        into.add_row(row);
    }
}

/// Moves the increments of cells that both rows have into `existing`: they are no counter contexts, which could be
/// reconciled, but add up.
fn sum_increments(existing: Option<&mut Row>, row: &mut Row) {
    let Some(existing) = existing else { return };
    row.cells.retain(|cell| {
        let same = existing.cells.iter_mut().find(|c| c.column == cell.column);
        let (Some(same), Some(more)) = (same, cell.value.as_array::<8>()) else { return true };
        let Some(before) = same.value.as_array::<8>() else { return true };
        let sum = i64::from_be_bytes(*before).wrapping_add(i64::from_be_bytes(*more));
        same.value = Bytes::copy_from_slice(&sum.to_be_bytes());
        same.timestamp = same.timestamp.max(cell.timestamp);
        false
    });
}
