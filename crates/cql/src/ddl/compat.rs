//! Whether a dropped column may come back with another type. Cells of the old column may still be on disk,
//! and readers of the new type must be able to step over them.
//!
//! The relations are Cassandra's. `orders_alike`: values of the old type are valid ones of the new type and
//! keep their order. `reads`: values of the old type are valid ones of the new type.

use super::types;
use model::types::CqlType;

/// Whether cells of the type `old` can be read where the column's type is `new`.
pub(super) fn can_replace(new: &CqlType, old: &CqlType) -> bool {
    reads(new, old) && new.fixed_len() == old.fixed_len() && new.is_multi_cell() == old.is_multi_cell()
}

fn reads(new: &CqlType, old: &CqlType) -> bool {
    match (new, old) {
        (CqlType::Blob, _) => true,
        (CqlType::BigInt, CqlType::Timestamp) | (CqlType::Timestamp, CqlType::BigInt) => true,
        (CqlType::Varint, CqlType::Int | CqlType::BigInt | CqlType::Timestamp) => true,
        (CqlType::Uuid, CqlType::TimeUuid) => true,
        (CqlType::Time, CqlType::BigInt) => true,
        (
            CqlType::List { element: a, multi_cell: false },
            CqlType::List { element: b, multi_cell: false },
        ) => reads(a, b),
        (
            CqlType::Map { key: a, value: x, multi_cell: false },
            CqlType::Map { key: b, value: y, multi_cell: false },
        ) => orders_alike(a, b) && reads(x, y),
        (CqlType::Tuple(new), CqlType::Tuple(old)) => pairs(new, old, reads),
        (CqlType::Udt { .. }, CqlType::Tuple(_)) => false,
        (CqlType::Composite(new), CqlType::Composite(old)) => {
            pairs(new, old, |new, old| reads(&new.ty, &old.ty))
        }
        _ => orders_alike(new, old),
    }
}

fn orders_alike(new: &CqlType, old: &CqlType) -> bool {
    match (new, old) {
        (CqlType::Text | CqlType::Blob, CqlType::Ascii) | (CqlType::Blob, CqlType::Text) => true,
        (CqlType::List { element: a, multi_cell: m }, CqlType::List { element: b, multi_cell: n }) => {
            m == n && if *m { can_replace(a, b) } else { orders_alike(a, b) }
        }
        (CqlType::Set { element: a, multi_cell: m }, CqlType::Set { element: b, multi_cell: n }) => {
            m == n && orders_alike(a, b)
        }
        (
            CqlType::Map { key: a, value: x, multi_cell: m },
            CqlType::Map { key: b, value: y, multi_cell: n },
        ) => m == n && orders_alike(a, b) && if *m { can_replace(x, y) } else { orders_alike(x, y) },
        (CqlType::Tuple(new), CqlType::Tuple(old)) => pairs(new, old, orders_alike),
        // That of a dropped column is kept without its user types.
        (CqlType::Udt { definition, .. }, CqlType::Tuple(old)) => {
            let new: Vec<CqlType> = definition.fields.iter().map(|(_, ty)| ty.clone()).collect();
            pairs(&new, old, orders_alike)
        }
        (CqlType::Vector { .. }, CqlType::Vector { .. }) => types::without_user_types(new) == *old,
        (CqlType::Composite(new), CqlType::Composite(old)) => pairs(new, old, |new, old| {
            new.reversed == old.reversed && new.old_class == old.old_class && orders_alike(&new.ty, &old.ty)
        }),
        (CqlType::DynamicComposite(new), CqlType::DynamicComposite(old)) => {
            old.iter().all(|(alias, ty)| new.get(*alias) == Some(ty))
        }
        _ => new == old,
    }
}

/// A tuple may have got more fields, a composite more components.
fn pairs<T>(new: &[T], old: &[T], related: fn(&T, &T) -> bool) -> bool {
    new.len() >= old.len() && new.iter().zip(old).all(|(new, old)| related(new, old))
}
