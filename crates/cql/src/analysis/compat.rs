//! Which values may stand where: Cassandra's assignability.

use model::types::CqlType;

/// How well something fits a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// It does not.
    No,
    /// It can be taken for a value of the type.
    Weak,
    /// It is of the type.
    Exact,
}

impl Fit {
    /// Whether it fits at all.
    pub(crate) fn is_assignable(self) -> bool {
        self != Fit::No
    }

    /// The worst of several.
    pub(crate) fn all(fits: impl IntoIterator<Item = Fit>) -> Fit {
        fits.into_iter().min().unwrap_or(Fit::Exact)
    }
}

/// How a value of type `given` fits `wanted`. Whether collections are frozen does not matter.
pub(crate) fn fit_type(given: &CqlType, wanted: &CqlType) -> Fit {
    if same(given, wanted) {
        Fit::Exact
    } else if accepts_values_of(wanted, given) {
        Fit::Weak
    } else {
        Fit::No
    }
}

/// Whether two types are the same but for `frozen` of the outermost level.
pub(crate) fn same(a: &CqlType, b: &CqlType) -> bool {
    a == b || a.frozen() == b.frozen()
}

/// Whether the bytes of every value of `given` are a value of `wanted` as well.
fn accepts_values_of(wanted: &CqlType, given: &CqlType) -> bool {
    match (wanted, given) {
        (CqlType::Blob, _) => true,
        (CqlType::Text, CqlType::Ascii)
        | (CqlType::BigInt, CqlType::Timestamp)
        | (CqlType::Varint, CqlType::Int | CqlType::BigInt | CqlType::Timestamp)
        | (CqlType::Timestamp, CqlType::BigInt)
        | (CqlType::Uuid, CqlType::TimeUuid)
        | (CqlType::Date, CqlType::Int)
        | (CqlType::Time, CqlType::BigInt) => true,
        (CqlType::List { element: a, .. }, CqlType::List { element: b, .. })
        | (CqlType::Set { element: a, .. }, CqlType::Set { element: b, .. }) => {
            a == b || accepts_values_of(a, b)
        }
        (CqlType::Map { key: ka, value: va, .. }, CqlType::Map { key: kb, value: vb, .. }) => {
            ka == kb && (va == vb || accepts_values_of(va, vb))
        }
        (CqlType::Tuple(a), CqlType::Tuple(b)) => {
            a.len() >= b.len() && a.iter().zip(b.iter()).all(|(a, b)| a == b || accepts_values_of(a, b))
        }
        (CqlType::Udt { definition: a, .. }, CqlType::Udt { definition: b, .. }) => {
            a.keyspace == b.keyspace
                && a.name == b.name
                && a.fields.len() >= b.fields.len()
                && a.fields.iter().zip(&b.fields).all(|((_, a), (_, b))| a == b || accepts_values_of(a, b))
        }
        _ => false,
    }
}
