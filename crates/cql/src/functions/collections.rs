//! Functions of whole collections.

use super::aggregate::{Aggregate, State};
use crate::error::Result;
use bytes::Bytes;
use model::types::{CqlType, collection};

/// The values of a list or set.
fn elements<'a>(ty: &CqlType, value: &'a [u8]) -> Vec<&'a [u8]> {
    match ty {
        CqlType::Map { .. } => collection::pairs(value).map(|(_, v)| v).collect(),
        _ => collection::elements(value).flatten().collect(),
    }
}

/// The keys of a map, as a set.
pub(super) fn map_keys(value: &[u8]) -> Bytes {
    collection::encode_list(collection::pairs(value).map(|(k, _)| k))
}

/// The values of a map, as a list.
pub(super) fn map_values(value: &[u8]) -> Bytes {
    collection::encode_list(collection::pairs(value).map(|(_, v)| v))
}

pub(super) fn count(value: &[u8]) -> Bytes {
    Bytes::copy_from_slice(&(collection::count(value) as i32).to_be_bytes())
}

/// An aggregate over the elements of a list or a set.
pub(super) fn fold(
    aggregate: &Aggregate,
    ty: &CqlType,
    element: &CqlType,
    value: &[u8],
) -> Result<Option<Bytes>> {
    let mut state = State::new(aggregate, std::slice::from_ref(element));
    for item in elements(ty, value) {
        state.add(&[Some(Bytes::copy_from_slice(item))])?;
    }
    state.result()
}
