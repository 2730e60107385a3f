//! ALLOW FILTERING: whether a row, or a partition's static content, passes the conditions of a read.

use model::command::{FilterExpression, Operator, ReadCommand};
use model::filter::{map_entry, satisfies};
use model::row::ResultRow;
use model::{Cell, ColumnDef, ColumnKind, CqlType, counter};

/// Whether `row` passes all conditions of `command`. Conditions on rows fail for a partition that has static
/// content only.
#[inline]
pub fn passes(command: &ReadCommand, row: &ResultRow<'_>) -> bool {
    command.row_filter.iter().all(|expression| holds(command, expression, row))
}

/// Whether a condition is about rows rather than about the partition.
pub fn is_about_rows(command: &ReadCommand, expression: &FilterExpression) -> bool {
    command
        .table
        .column_by_id(expression.column)
        .is_some_and(|c| matches!(c.kind, ColumnKind::Clustering | ColumnKind::Regular))
}

fn holds(command: &ReadCommand, expression: &FilterExpression, row: &ResultRow<'_>) -> bool {
    let Some(column) = command.table.column_by_id(expression.column) else { return false };
    match column.kind {
        ColumnKind::PartitionKey => {
            let count = command.table.partition_key().len();
            value_holds(expression, &column.ty, row.key.key.component(count, column.position))
        }
        ColumnKind::Clustering => {
            let value = row.row.and_then(|r| r.clustering.value(column.position));
            value_holds(expression, &column.ty, value)
        }
        ColumnKind::Static => cells_hold(expression, column, row, true),
        ColumnKind::Regular => cells_hold(expression, column, row, false),
    }
}

fn value_holds(expression: &FilterExpression, ty: &CqlType, value: Option<&[u8]>) -> bool {
    let Some(wanted) = &expression.map_key else {
        return satisfies(expression.operator, ty, value, &expression.values);
    };
    let CqlType::Map { value: value_type, .. } = ty else { return false };
    let entry = value.and_then(|v| map_entry(ty, v, wanted));
    satisfies(expression.operator, value_type, entry, &expression.values)
}

fn cells_hold(
    expression: &FilterExpression,
    column: &ColumnDef,
    row: &ResultRow<'_>,
    is_static: bool,
) -> bool {
    let mut cells = row.live_cells(column.id, is_static);
    if column.ty.is_counter() {
        let total = cells.next().map(|c| counter::total(&c.value).to_be_bytes());
        return value_holds(expression, &CqlType::BigInt, total.as_ref().map(|t| t.as_slice()));
    }
    if !column.is_multi_cell() {
        return value_holds(expression, &column.ty, cells.next().map(|c| c.value.as_ref()));
    }
    let operand = expression.values.first();
    let is = |ty: &CqlType, value: &[u8]| operand.is_some_and(|o| ty.compare(value, o).is_eq());
    match (&column.ty, expression.operator) {
        (CqlType::List { element, .. }, Operator::Contains) => cells.any(|c: &Cell| is(element, &c.value)),
        (CqlType::Set { element, .. }, Operator::Contains) => cells.any(|c| is(element, &c.path)),
        (CqlType::Map { value, .. }, Operator::Contains) => cells.any(|c| is(value, &c.value)),
        (CqlType::Map { key, .. }, Operator::ContainsKey) => cells.any(|c| is(key, &c.path)),
        (CqlType::Map { key, value, .. }, operator) => {
            let Some(wanted) = &expression.map_key else { return false };
            let entry = cells.find(|c| key.compare(&c.path, wanted).is_eq());
            satisfies(operator, value, entry.map(|c| c.value.as_ref()), &expression.values)
        }
        _ => false,
    }
}
