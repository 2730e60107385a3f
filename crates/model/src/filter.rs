//! Whether a value satisfies a comparison: the value level of ALLOW FILTERING and of IF conditions.

use crate::command::Operator;
use crate::types::{CqlType, collection};
use bytes::Bytes;
use std::cmp::Ordering;

/// Whether `value`, a value of type `ty` in one piece, compares to `operands` as `operator` says. A null never
/// does. `operands` are several for `IN`, else one.
pub fn satisfies(operator: Operator, ty: &CqlType, value: Option<&[u8]>, operands: &[Bytes]) -> bool {
    let Some(value) = value else { return false };
    let compared = |test: fn(Ordering) -> bool| operands.first().is_some_and(|o| test(ty.compare(value, o)));
    match operator {
        Operator::Eq => compared(Ordering::is_eq),
        Operator::NotEq => compared(Ordering::is_ne),
        Operator::Lt => compared(Ordering::is_lt),
        Operator::LtEq => compared(Ordering::is_le),
        Operator::Gt => compared(Ordering::is_gt),
        Operator::GtEq => compared(Ordering::is_ge),
        Operator::In => operands.iter().any(|o| ty.compare(value, o).is_eq()),
        Operator::Contains => operands.first().is_some_and(|o| contains(ty, value, o)),
        Operator::ContainsKey => operands.first().is_some_and(|o| contains_key(ty, value, o)),
    }
}

/// Whether the frozen collection `value` has the element, or the map the value, `wanted`.
fn contains(ty: &CqlType, value: &[u8], wanted: &[u8]) -> bool {
    match ty {
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            collection::elements(value).flatten().any(|e| element.compare(e, wanted).is_eq())
        }
        CqlType::Map { value: ty, .. } => {
            collection::pairs(value).any(|(_, v)| ty.compare(v, wanted).is_eq())
        }
        _ => false,
    }
}

/// Whether the frozen map `value` has the key `wanted`.
fn contains_key(ty: &CqlType, value: &[u8], wanted: &[u8]) -> bool {
    match ty {
        CqlType::Map { key, .. } => collection::pairs(value).any(|(k, _)| key.compare(k, wanted).is_eq()),
        _ => false,
    }
}

/// The value at `wanted` in the frozen map `value`.
pub fn map_entry<'a>(ty: &CqlType, value: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let CqlType::Map { key, .. } = ty else { return None };
    collection::pairs(value).find(|(k, _)| key.compare(k, wanted).is_eq()).map(|(_, v)| v)
}
