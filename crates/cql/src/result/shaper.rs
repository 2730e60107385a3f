//! The shaper: rows in, rows of the result out.
//!
//! Three ways, chosen by the statement:
//! 1. plain: each row is written as it comes;
//! 2. grouped: a group is written when its last row is known, that is with the next group or at the end;
//! 3. sorted (ORDER BY over several partitions): everything is kept, sorted and written at the end.

use super::json_row::JsonSink;
use super::shape::{GroupBy, Output, Shape};
use super::{ColumnRef, RowSink};
use crate::analysis::Scope;
use crate::bind::{BoundValue, UuidSource};
use crate::error::{Result, bail};
use crate::functions::State;
use crate::plan::OwnedResultRow;
use bytes::Bytes;
use model::Cell;
use model::row::ResultRow;
use std::cmp::Ordering;
use std::sync::Arc;

/// The values of the markers, and uuids.
#[derive(Clone, Debug)]
pub(crate) struct Inputs {
    pub(crate) values: Arc<[BoundValue]>,
    pub(crate) uuids: Arc<dyn UuidSource>,
}

/// What expressions of a SELECT clause need of the execution.
#[derive(Clone, Debug)]
pub(crate) struct Circumstances {
    /// Nothing when the result shows no expressions.
    pub(crate) inputs: Option<Inputs>,
    pub(crate) now_micros: i64,
    /// Rows of the result, and of each partition, where the shaper does the counting.
    pub(crate) limit: u64,
    pub(crate) limit_per_partition: u64,
    /// Whether masked columns are shown as they are.
    pub(crate) unmasks: bool,
}

/// Turns the rows of a read into the rows of a result set.
#[derive(Debug)]
pub struct ResultShaper<'s> {
    shape: &'s Shape,
    with: &'s Circumstances,
    /// Rows or groups that the page may have.
    limit: u64,
    buffer: Vec<u8>,
    group: Option<Group>,
    kept: Vec<OwnedResultRow>,
    kept_bytes: usize,
    written: u64,
    written_in_partition: u64,
    partition: Option<Bytes>,
}

/// Bytes of memory of a row that is kept, about.
fn held_bytes(row: &ResultRow<'_>) -> usize {
    let of_rows = [row.static_row, row.row].into_iter().flatten();
    let of_cells = of_rows.map(|row| row.cells.len() * size_of::<Cell>() + row.data_size());
    size_of::<OwnedResultRow>() + row.key.key.0.len() + of_cells.sum::<usize>()
}

/// The group that rows are added to.
#[derive(Debug)]
struct Group {
    /// Plain columns show the values of the first row.
    first: Option<OwnedResultRow>,
    key: Vec<Option<Bytes>>,
    states: Vec<State>,
}

impl<'s> ResultShaper<'s> {
    pub(crate) fn new(shape: &'s Shape, with: &'s Circumstances) -> ResultShaper<'s> {
        ResultShaper {
            shape,
            with,
            limit: with.limit,
            buffer: Vec::new(),
            group: None,
            kept: Vec::new(),
            kept_bytes: 0,
            written: 0,
            written_in_partition: 0,
            partition: None,
        }
    }

    /// Groups that may be written; those of earlier pages not included.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Stops after `groups` groups, which a page has room for.
    pub fn set_limit(&mut self, groups: u64) {
        self.limit = groups;
    }

    /// Goes on in a partition whose first groups were on earlier pages. `left` more groups may be written.
    pub fn resume_partition(&mut self, partition: Bytes, left: u64) {
        self.written_in_partition = self.with.limit_per_partition.saturating_sub(left);
        self.partition = Some(partition);
    }

    /// Groups that may be written of each partition; `u64::MAX` without a limit.
    pub fn limit_per_partition(&self) -> u64 {
        self.with.limit_per_partition
    }

    /// Groups that may still be written of the partition that was written last.
    pub fn left_in_partition(&self) -> u64 {
        self.with.limit_per_partition.saturating_sub(self.written_in_partition)
    }

    /// Takes the next row; false once no further row can change the result.
    pub fn push<S: RowSink + ?Sized>(&mut self, row: &ResultRow<'_>, sink: &mut S) -> Result<bool> {
        if row.row.is_none() && !self.shape.includes_static_only {
            return Ok(true);
        }
        if !self.shape.order.is_empty() {
            self.kept.push(OwnedResultRow::of(row));
            self.kept_bytes += held_bytes(row);
            return Ok(true);
        }
        if self.shape.is_grouped() {
            return self.add_to_group(row, sink);
        }
        self.write(Some(row), &[], sink)?;
        Ok(true)
    }

    /// Bytes of memory of the rows that are kept to be sorted, about.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Writes what is left. Called once, after the last row of the last page.
    pub fn finish<S: RowSink + ?Sized>(&mut self, sink: &mut S) -> Result<()> {
        if !self.shape.order.is_empty() {
            let kept = self.sorted();
            let shape = self.shape;
            for row in &kept {
                if shape.is_grouped() {
                    if !self.add_to_group(&row.as_row(), sink)? {
                        break;
                    }
                } else if self.written < self.limit {
                    self.write(Some(&row.as_row()), &[], sink)?;
                    self.written += 1;
                }
            }
        }
        if self.group.is_none() && self.shape.group_by.is_empty() && !self.shape.aggregates.is_empty() {
            // An aggregate of no rows at all is a row, too.
            self.group = Some(Group { first: None, key: Vec::new(), states: self.new_states() });
        }
        if let Some(group) = self.group.take() {
            self.write_group(&group, sink)?;
        }
        Ok(())
    }

    fn new_states(&self) -> Vec<State> {
        self.shape.aggregates.iter().map(|call| State::new(&call.op, &call.argument_types)).collect()
    }

    /// The rows kept, in the order asked for. Rows that are equal stay in the order of the partitions.
    fn sorted(&mut self) -> Vec<OwnedResultRow> {
        let mut rows = std::mem::take(&mut self.kept);
        let order = &self.shape.order;
        rows.sort_by(|a, b| {
            order
                .iter()
                .map(|(column, descending)| {
                    let ordering = compare(column, a, b);
                    if *descending { ordering.reverse() } else { ordering }
                })
                .find(|ordering| ordering.is_ne())
                .unwrap_or(Ordering::Equal)
        });
        rows
    }

    fn add_to_group<S: RowSink + ?Sized>(&mut self, row: &ResultRow<'_>, sink: &mut S) -> Result<bool> {
        let shape = self.shape;
        let key = if shape.group_by.is_empty() { Vec::new() } else { self.group_key(shape, row)? };
        if self.group.as_ref().is_none_or(|group| group.key != key) {
            if let Some(done) = self.group.take() {
                self.write_group(&done, sink)?;
                if self.written >= self.limit {
                    return Ok(false);
                }
            }
            let states = self.new_states();
            self.group = Some(Group { first: Some(OwnedResultRow::of(row)), key, states });
        }
        let Some(mut group) = self.group.take() else { return Ok(true) };
        let scope = self.with.scope(shape, Some(row), &[]);
        for (state, call) in group.states.iter_mut().zip(&shape.aggregates) {
            let mut arguments = Vec::with_capacity(call.arguments.len());
            for argument in &call.arguments {
                if argument.is_unset(&scope) {
                    bail!("Invalid unset value for argument in call to function {}", call.op.name());
                }
                arguments.push(argument.eval_or_null(&scope)?);
            }
            state.add(&arguments)?;
        }
        self.group = Some(group);
        Ok(true)
    }

    fn group_key(&self, shape: &Shape, row: &ResultRow<'_>) -> Result<Vec<Option<Bytes>>> {
        let scope = self.with.scope(shape, Some(row), &[]);
        shape
            .group_by
            .iter()
            .map(|by| match by {
                GroupBy::Column(column) => Ok(column.value(&shape.table, row)),
                GroupBy::Expr(expr) => expr.eval_or_null(&scope),
            })
            .collect()
    }

    fn write_group<S: RowSink + ?Sized>(&mut self, group: &Group, sink: &mut S) -> Result<()> {
        let first = group.first.as_ref().map(OwnedResultRow::as_row);
        if !self.shape.group_by.is_empty() {
            let partition = group.first.as_ref().map(|row| row.key.key.0.clone());
            if partition != self.partition {
                self.partition = partition;
                self.written_in_partition = 0;
            }
            if self.written >= self.limit || self.written_in_partition >= self.with.limit_per_partition {
                return Ok(());
            }
        }
        let results: Vec<Option<Bytes>> = group.states.iter().map(State::result).collect::<Result<_>>()?;
        self.written += 1;
        self.written_in_partition += 1;
        self.write(first.as_ref(), &results, sink)
    }

    fn write<S: RowSink + ?Sized>(
        &mut self,
        row: Option<&ResultRow<'_>>,
        aggregates: &[Option<Bytes>],
        sink: &mut S,
    ) -> Result<()> {
        let shape = self.shape;
        match &shape.json {
            Some(json) => {
                let mut json = JsonSink::new(json, sink);
                write_row(shape, self.with, row, aggregates, &mut self.buffer, &mut json)
            }
            None => write_row(shape, self.with, row, aggregates, &mut self.buffer, sink),
        }
    }
}

impl Circumstances {
    pub(crate) fn scope<'a>(
        &'a self,
        shape: &'a Shape,
        row: Option<&'a ResultRow<'a>>,
        aggregates: &'a [Option<Bytes>],
    ) -> Scope<'a> {
        let inputs = self.inputs.as_ref();
        Scope {
            values: inputs.map(|inputs| inputs.values.as_ref()).unwrap_or_default(),
            now_micros: self.now_micros,
            uuids: inputs.map(|inputs| inputs.uuids.as_ref()),
            table: Some(&shape.table),
            row,
            aggregates,
            unmasks: self.unmasks,
        }
    }
}

fn write_row<S: RowSink + ?Sized>(
    shape: &Shape,
    with: &Circumstances,
    row: Option<&ResultRow<'_>>,
    aggregates: &[Option<Bytes>],
    buffer: &mut Vec<u8>,
    sink: &mut S,
) -> Result<()> {
    sink.begin_row();
    for output in &shape.outputs {
        match (output, row) {
            (Output::Column(column), Some(row)) => column.write(&shape.table, row, buffer, sink),
            (Output::Column(_), None) => sink.value(None),
            (Output::Expr(expr), _) => {
                let value = expr.eval_or_null(&with.scope(shape, row, aggregates))?;
                sink.value(value.as_deref());
            }
        }
    }
    sink.end_row();
    Ok(())
}

/// Rows without the column (those of partitions with static content only) come first.
fn compare(column: &ColumnRef, a: &OwnedResultRow, b: &OwnedResultRow) -> Ordering {
    fn value<'r>(row: &'r OwnedResultRow, column: &ColumnRef) -> Option<&'r [u8]> {
        row.row.as_ref()?.clustering.value(column.position)
    }
    match (value(a, column), value(b, column)) {
        (Some(a), Some(b)) => column.ty.compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}
