//! `CAST(x AS type)`.

use super::number::Number;
use super::time;
use bytes::Bytes;
use model::types::CqlType;

/// The types that can be cast to `target`, besides itself.
pub(super) fn sources(target: &CqlType) -> Vec<CqlType> {
    use CqlType::*;
    // In the order in which Cassandra lists them.
    const NUMBERS: [CqlType; 9] = [Float, Counter, TinyInt, BigInt, Varint, Double, SmallInt, Decimal, Int];
    let others = |also: &[CqlType]| -> Vec<CqlType> {
        NUMBERS.iter().chain(also).filter(|ty| *ty != target).cloned().collect()
    };
    match target {
        TinyInt | SmallInt | Int | BigInt | Float | Double | Decimal | Varint => others(&[]),
        Ascii => others(&[Boolean, TimeUuid, Timestamp, Date, Time, Uuid]),
        Text => others(&[Ascii, Boolean, TimeUuid, Timestamp, Date, Time, Uuid, Inet]),
        Timestamp => vec![TimeUuid, Date],
        Date => vec![TimeUuid, Timestamp],
        _ => Vec::new(),
    }
}

/// The value as one of the type `to`. The error says what cannot be cast.
pub(super) fn cast(from: &CqlType, to: &CqlType, value: &[u8]) -> Result<Option<Bytes>, String> {
    if value.is_empty() && !matches!(from, CqlType::Ascii | CqlType::Text) {
        return Ok(None);
    }
    match to {
        CqlType::Text | CqlType::Ascii => Ok(Some(text(from, value).into_bytes().into())),
        CqlType::Timestamp | CqlType::Date => {
            Ok(time::millis(from, value).and_then(|millis| time::from_millis(to, millis)))
        }
        _ => match Number::decode(from, value) {
            Some(Number::Float(v)) if !v.is_finite() && is_wide(to) => {
                Err(format!("Cannot cast {v} to {to}"))
            }
            Some(Number::Double(v)) if !v.is_finite() && is_wide(to) => {
                Err(format!("Cannot cast {v} to {to}"))
            }
            Some(number) => Ok(number.encode(to)),
            None => Ok(None),
        },
    }
}

fn is_wide(ty: &CqlType) -> bool {
    *ty == CqlType::Decimal
}

fn text(from: &CqlType, value: &[u8]) -> String {
    match from {
        CqlType::Counter => CqlType::BigInt.to_text(value),
        other => other.to_text(value),
    }
}
