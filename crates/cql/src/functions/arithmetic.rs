//! `+ - * / %` on numbers, texts and times.

use super::number::Number;
use super::{decimal, time};
use crate::analysis::types::display;
use crate::ast::ArithmeticOperator;
use crate::error::{CqlError, Result};
use bytes::Bytes;
use model::types::CqlType;
use num_bigint::Sign;

/// The numeric types in the order in which operations know them.
pub(super) const NUMERIC: [CqlType; 9] = [
    CqlType::TinyInt,
    CqlType::SmallInt,
    CqlType::Int,
    CqlType::BigInt,
    CqlType::Counter,
    CqlType::Float,
    CqlType::Double,
    CqlType::Varint,
    CqlType::Decimal,
];

/// Bytes of an integer type of fixed width.
fn width(ty: &CqlType) -> Option<u8> {
    match ty {
        CqlType::TinyInt => Some(1),
        CqlType::SmallInt => Some(2),
        CqlType::Int => Some(4),
        CqlType::BigInt | CqlType::Counter => Some(8),
        _ => None,
    }
}

/// The type of an operation on two numbers.
pub(super) fn result_type(left: &CqlType, right: &CqlType) -> CqlType {
    use CqlType::*;
    match (width(left), width(right)) {
        (Some(a), Some(b)) => match a.max(b) {
            1 => TinyInt,
            2 => SmallInt,
            4 => Int,
            _ => BigInt,
        },
        _ => {
            let pair = [left, right];
            let has = |ty: &CqlType| pair.contains(&ty);
            let is_wide = pair.iter().any(|ty| width(ty) == Some(8));
            match () {
                () if has(&Decimal) => Decimal,
                () if has(&Varint) && (has(&Float) || has(&Double)) => Decimal,
                () if has(&Varint) => Varint,
                () if has(&Double) || (has(&Float) && is_wide) => Double,
                () => Float,
            }
        }
    }
}

fn failure(operator: ArithmeticOperator, types: &[CqlType], reason: &str) -> CqlError {
    let names: Vec<String> = types.iter().map(display).collect();
    let shown = names.join(&format!(" {operator} "));
    let function = match operator {
        ArithmeticOperator::Add => "_add",
        ArithmeticOperator::Subtract => "_substract",
        ArithmeticOperator::Multiply => "_multiply",
        ArithmeticOperator::Divide => "_divide",
        ArithmeticOperator::Modulo => "_modulo",
    };
    CqlError::FunctionFailure {
        keyspace: "system".to_owned(),
        function: function.to_owned(),
        argument_types: names,
        message: format!("the operation '{shown}' failed: {reason}"),
    }
}

/// An operation on values of `types`; null if either has no bytes and is no text.
pub(super) fn operate(
    operator: ArithmeticOperator,
    types: &[CqlType],
    returns: &CqlType,
    left: &[u8],
    right: &[u8],
) -> Result<Option<Bytes>> {
    let [left_type, right_type] = types else { return Ok(None) };
    match (left_type, right_type) {
        (CqlType::Text | CqlType::Ascii, _) => return Ok(Some([left, right].concat().into())),
        _ if left.is_empty() || right.is_empty() => return Ok(None),
        (CqlType::Timestamp | CqlType::Date, CqlType::Duration) => {
            let negate = operator == ArithmeticOperator::Subtract;
            return match time::add_duration(left_type, left, right, negate) {
                Ok(value) => Ok(Some(value)),
                Err(reason) => Err(failure(operator, types, &reason)),
            };
        }
        _ => {}
    }
    let number = |ty: &CqlType, bytes: &[u8]| Number::decode(ty, bytes).and_then(|n| n.convert(returns));
    let (Some(left), Some(right)) = (number(left_type, left), number(right_type, right)) else {
        return Err(failure(operator, types, "Infinite or NaN"));
    };
    match compute(operator, &left, &right) {
        Ok(result) => Ok(result.encode(returns)),
        Err(reason) => Err(failure(operator, types, reason)),
    }
}

/// Two numbers of one kind.
pub(super) fn compute(
    operator: ArithmeticOperator,
    left: &Number,
    right: &Number,
) -> Result<Number, &'static str> {
    use ArithmeticOperator::*;
    Ok(match (left, right) {
        (Number::Integer(a), Number::Integer(b)) => Number::Integer(match operator {
            Add => a.wrapping_add(*b),
            Subtract => a.wrapping_sub(*b),
            Multiply => a.wrapping_mul(*b),
            Divide | Modulo if *b == 0 => return Err("/ by zero"),
            Divide => a.wrapping_div(*b),
            Modulo => a.wrapping_rem(*b),
        }),
        (Number::Float(a), Number::Float(b)) => Number::Float(match operator {
            Add => a + b,
            Subtract => a - b,
            Multiply => a * b,
            Divide => a / b,
            Modulo => a % b,
        }),
        (Number::Double(a), Number::Double(b)) => Number::Double(match operator {
            Add => a + b,
            Subtract => a - b,
            Multiply => a * b,
            Divide => a / b,
            Modulo => a % b,
        }),
        (Number::Big(a), Number::Big(b)) => Number::Big(match operator {
            Add => a + b,
            Subtract => a - b,
            Multiply => a * b,
            Divide | Modulo if b.sign() == Sign::NoSign => return Err("BigInteger divide by zero"),
            Divide => a / b,
            Modulo => a % b,
        }),
        (Number::Decimal(a, scale_a), Number::Decimal(b, scale_b)) => {
            let (a, b) = ((a, *scale_a), (b, *scale_b));
            let (unscaled, scale) = match operator {
                Add => decimal::add(a, b),
                Subtract => decimal::subtract(a, b),
                Multiply => decimal::multiply(a, b).ok_or("Overflow")?,
                Divide if b.0.sign() == Sign::NoSign => return Err(decimal::division_by_zero(a, b.1)),
                Divide => decimal::divide(a, b).ok_or("Overflow")?,
                Modulo => decimal::remainder(a, b).ok_or("Division by zero")?,
            };
            Number::Decimal(unscaled, scale)
        }
        _ => return Err("operands of different kinds"),
    })
}

/// `-value`.
pub(super) fn negate(ty: &CqlType, value: &[u8]) -> Option<Bytes> {
    let negated = match Number::decode(ty, value)? {
        Number::Integer(v) => Number::Integer(v.wrapping_neg()),
        Number::Big(v) => Number::Big(-v),
        Number::Float(v) => Number::Float(-v),
        Number::Double(v) => Number::Double(-v),
        Number::Decimal(unscaled, scale) => Number::Decimal(-unscaled, scale),
    };
    negated.encode(ty)
}
