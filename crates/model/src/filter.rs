//! Whether a value satisfies a comparison: the value level of ALLOW FILTERING and of IF conditions.

use crate::command::Operator;
use crate::types::{CqlType, collection};
use bytes::Bytes;
use std::cmp::Ordering;

/// Whether `value`, a value of type `ty` in one piece, compares to `operands` as `operator` says. A null
/// never does. `operands` are several for `IN`, else one.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::collection::{encode_list, encode_map};

    fn int(v: i32) -> Bytes {
        Bytes::copy_from_slice(&v.to_be_bytes())
    }

    #[test]
    fn comparisons_follow_the_order_of_the_type() {
        use Operator::*;
        let holds = |op, v: Option<i32>, o: &[i32]| {
            let operands: Vec<Bytes> = o.iter().map(|o| int(*o)).collect();
            satisfies(op, &CqlType::Int, v.map(int).as_deref(), &operands)
        };
        for (op, expected) in [
            (Eq, [false, true, false]),
            (NotEq, [true, false, true]),
            (Lt, [true, false, false]),
            (LtEq, [true, true, false]),
            (Gt, [false, false, true]),
            (GtEq, [false, true, true]),
        ] {
            assert_eq!([-6, -5, 5].map(|v| holds(op, Some(v), &[-5])), expected, "{op:?}");
            assert!(!holds(op, None, &[-5]), "{op:?}");
        }
        assert!(holds(In, Some(2), &[1, 2]));
        assert!(!holds(In, Some(3), &[1, 2]));
        assert!(!holds(In, Some(3), &[]));
    }

    #[test]
    fn frozen_collections_are_searched() {
        let map_type = CqlType::map(CqlType::Int, CqlType::Text, false);
        let map = encode_map(&CqlType::Int, [(int(1), "a"), (int(2), "b")]);
        let list = encode_list([int(7)]);
        let list_type = CqlType::list(CqlType::Int, false);
        assert!(satisfies(Operator::Contains, &list_type, Some(&list), &[int(7)]));
        assert!(!satisfies(Operator::Contains, &list_type, Some(&list), &[int(8)]));
        assert!(satisfies(Operator::Contains, &map_type, Some(&map), &["b".into()]));
        assert!(satisfies(Operator::ContainsKey, &map_type, Some(&map), &[int(2)]));
        assert!(!satisfies(Operator::ContainsKey, &map_type, Some(&map), &[int(3)]));
        assert_eq!(map_entry(&map_type, &map, &int(2)), Some(b"b".as_slice()));
        assert_eq!(map_entry(&map_type, &map, &int(3)), None);
    }
}
