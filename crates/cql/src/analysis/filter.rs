//! ALLOW FILTERING: what is checked on each row after it was read.

use super::context::BindInput;
use super::expr::Expr;
use super::keys::{in_items, values_of};
use super::relation::{InSource, Restriction, SliceEnd, Test};
use crate::bind::BoundValue;
use crate::error::{Result, bail};
use crate::result::CellPart;
use bytes::Bytes;
use model::cell::ColumnId;
use model::command::{FilterExpression, Operator};
use model::{ColumnDef, CqlType};
use std::sync::Arc;

/// Conditions on rows.
#[derive(Debug, Default)]
pub(crate) struct FilterPlan {
    conditions: Vec<(Arc<ColumnDef>, Condition)>,
}

#[derive(Debug)]
enum Condition {
    Compare(Operator, Expr),
    In(Test),
    Contains(Operator, Expr),
    Entry(Expr, Expr),
    /// One component of a tuple.
    Component {
        tuple: Expr,
        index: usize,
    },
}

impl FilterPlan {
    pub(crate) fn new(
        partition: Vec<Restriction>,
        clustering: Vec<Restriction>,
        others: Vec<Restriction>,
    ) -> Result<FilterPlan> {
        let mut plan = FilterPlan::default();
        for restriction in partition.into_iter().chain(clustering).chain(others) {
            plan.add(restriction)?;
        }
        Ok(plan)
    }

    /// The columns that conditions look at, and the part of each if only a part is looked at.
    pub(crate) fn for_each_column(&self, visit: &mut dyn FnMut(ColumnId, Option<&CellPart>)) {
        for (column, condition) in &self.conditions {
            let part = match (condition, &column.ty) {
                (Condition::Entry(key, _), CqlType::Map { key: key_type, multi_cell: true, .. }) => {
                    Some(CellPart::entry(key_type, key))
                }
                _ => None,
            };
            visit(column.id, part.as_ref());
        }
    }

    fn add(&mut self, restriction: Restriction) -> Result<()> {
        let Restriction { columns, is_multi, test } = restriction;
        if is_multi {
            return match test {
                Test::Eq(tuple) => {
                    for (index, column) in columns.into_iter().enumerate() {
                        self.conditions.push((column, Condition::Component { tuple: tuple.clone(), index }));
                    }
                    Ok(())
                }
                Test::In(_) => bail!("Multicolumn IN filters are not supported"),
                Test::Slice { .. } | Test::Contains { .. } => {
                    bail!("Multi-column slice restrictions cannot be used for filtering.")
                }
            };
        }
        let Some(column) = columns.into_iter().next() else { return Ok(()) };
        let mut push = |condition| self.conditions.push((Arc::clone(&column), condition));
        match test {
            Test::Eq(value) => push(Condition::Compare(Operator::Eq, value)),
            Test::In(_) => push(Condition::In(test)),
            Test::Slice { start, end } => {
                let operator =
                    |end: &SliceEnd, strict, inclusive| if end.inclusive { inclusive } else { strict };
                if let Some(start) = start {
                    push(Condition::Compare(operator(&start, Operator::Gt, Operator::GtEq), start.value));
                }
                if let Some(end) = end {
                    push(Condition::Compare(operator(&end, Operator::Lt, Operator::LtEq), end.value));
                }
            }
            Test::Contains { values, keys, entries } => {
                values.into_iter().for_each(|v| push(Condition::Contains(Operator::Contains, v)));
                keys.into_iter().for_each(|k| push(Condition::Contains(Operator::ContainsKey, k)));
                entries.into_iter().for_each(|(k, v)| push(Condition::Entry(k, v)));
            }
        }
        Ok(())
    }

    pub(crate) fn bind(&self, input: &BindInput<'_>) -> Result<Vec<FilterExpression>> {
        self.conditions.iter().map(|(column, condition)| bind_condition(column, condition, input)).collect()
    }
}

/// The values of IN that a row may have: not those that are null or unset.
fn wanted(test: &Test, column: &ColumnDef, input: &BindInput<'_>) -> Result<Vec<Bytes>> {
    let mut out = Vec::new();
    match test {
        Test::In(InSource::Terms(terms)) => {
            for term in terms {
                if let BoundValue::Bytes(bytes) = term.eval(&input.scope())? {
                    out.push(bytes);
                }
            }
        }
        Test::In(InSource::List(list)) => match list.eval(&input.scope())? {
            BoundValue::Bytes(bytes) => out.extend(in_items(&bytes, &column.ty).flatten()),
            BoundValue::Null | BoundValue::Unset => return values_of(test, column, input),
        },
        _ => return values_of(test, column, input),
    }
    Ok(out)
}

fn bind_condition(
    column: &ColumnDef,
    condition: &Condition,
    input: &BindInput<'_>,
) -> Result<FilterExpression> {
    let expression =
        |operator, map_key, values| FilterExpression { column: column.id, operator, map_key, values };
    let value = |expr: &Expr, what: &str| -> Result<Bytes> {
        match expr.eval(&input.scope())? {
            BoundValue::Bytes(bytes) => Ok(bytes),
            BoundValue::Null => bail!("Unsupported null {what} for column {}", column.name),
            BoundValue::Unset => bail!("Unsupported unset {what} for column {}", column.name),
        }
    };
    Ok(match condition {
        Condition::Compare(operator, expr) | Condition::Contains(operator, expr) => {
            expression(*operator, None, vec![value(expr, "value")?])
        }
        Condition::In(test) => expression(Operator::In, None, wanted(test, column, input)?),
        Condition::Entry(key, expr) => {
            expression(Operator::Eq, Some(value(key, "map key")?), vec![value(expr, "map value")?])
        }
        Condition::Component { tuple, index } => {
            let bytes = value(tuple, "value")?;
            let component = model::types::collection::tuple_fields(&bytes).nth(*index).flatten();
            match component {
                Some(component) => expression(Operator::Eq, None, vec![bytes.slice_ref(component)]),
                None => bail!("Invalid null value for column {}", column.name),
            }
        }
    })
}
