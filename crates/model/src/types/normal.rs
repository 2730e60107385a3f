//! What is stored of a value that a client bound, byte by byte as in Cassandra.
//!
//! 1. A list, set or map is taken apart and built anew. Sets and maps come into the order of their type; of
//!    equal elements the first one stays, of equal keys the last value.
//! 2. What is inside of it is read and written again. A `varint` or the digits of a `decimal` lose the bytes
//!    that they do not need. A `boolean` becomes 0 or 1. An IPv4 address in the form of an IPv6 one becomes
//!    an IPv4 address. Lists, sets, maps and vectors inside are treated alike. But their sets and maps keep
//!    elements that only compare as equal: 1.0 and 1.00 are both in a `list<set<decimal>>`.
//! 3. All others are kept as they came, with everything that is inside of them: scalars, tuples, user types,
//!    composites, and vectors that are not in a collection.
//!
//! So `{2, 1, 2}` is `{1, 2}` as a `set<int>` and in a `list<vector<set<int>, 1>>`, and `{2, 1, 2}` still in
//! a `vector<set<int>, 1>` and in a `list<tuple<set<int>>>`.

use super::CqlType;
use super::collection::{
    elements, encode_list, encode_map, encode_nullable_list, encode_set, encode_vector, pairs, push_element,
    vector_elements,
};
use super::numbers;
use bytes::Bytes;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::Ipv6Addr;

/// The value as it is stored. It must be valid; it is returned as it is when it is normal already.
pub fn normalize(ty: &CqlType, value: &Bytes) -> Bytes {
    let stored = match ty {
        CqlType::List { .. } => rewritten(ty, value),
        CqlType::Set { element, .. } => {
            rewritten(ty, value).map(|set| encode_set(element, elements(&set).flatten()).into())
        }
        CqlType::Map { key, .. } => rewritten(ty, value).map(|map| encode_map(key, pairs(&map)).into()),
        _ => None,
    };
    stored.map_or_else(|| value.clone(), Bytes::from)
}

/// The value as it is inside of a collection; `None` when that is what it is already.
fn rewritten(ty: &CqlType, value: &[u8]) -> Option<Vec<u8>> {
    match ty {
        CqlType::Varint => shortened(value, 0),
        CqlType::Decimal => shortened(value, 4),
        CqlType::Boolean => (value.first().is_some_and(|b| *b > 1)).then(|| vec![1]),
        CqlType::Inet => {
            let address = Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?);
            Some(address.to_ipv4_mapped()?.octets().to_vec())
        }
        CqlType::List { element, .. } if is_kept(element) => None,
        CqlType::List { element, .. } => {
            // A null is not stored, but IN has it among its values.
            let items = rewritten_parts(elements(value).map(|v| (element.as_ref(), v)))?;
            Some(encode_nullable_list(items).into())
        }
        CqlType::Vector { element, .. } if is_kept(element) => None,
        CqlType::Vector { element, dimension } => {
            let parts = vector_elements(element, *dimension, value).map(|v| (element.as_ref(), Some(v)));
            let items = rewritten_parts(parts)?;
            Some(encode_vector(element, items.into_iter().flatten()).into())
        }
        CqlType::Set { element, .. } => {
            let parts = || elements(value).map(|v| (element.as_ref(), v));
            let items = match rewritten_parts(parts()) {
                Some(items) => items,
                None if elements(value).flatten().is_sorted_by(|a, b| element.compare(a, b).is_lt()) => {
                    return None;
                }
                None => parts().map(|(_, v)| v.map(Cow::Borrowed)).collect(),
            };
            let items = distinct(element, items.into_iter().flatten().map(|item| (item, ())));
            Some(encode_list(items.into_iter().map(|(item, ())| item)).into())
        }
        CqlType::Map { key, value: of_value, .. } => {
            let types = [key.as_ref(), of_value.as_ref()].into_iter().cycle();
            let parts = || types.clone().zip(pairs(value).flat_map(|(k, v)| [Some(k), Some(v)]));
            let items = match rewritten_parts(parts()) {
                Some(items) => items,
                None if pairs(value).is_sorted_by(|a, b| key.compare(a.0, b.0).is_lt()) => return None,
                None => parts().map(|(_, v)| v.map(Cow::Borrowed)).collect(),
            };
            let (entries, _) = items.as_chunks::<2>();
            let entries = entries.iter().filter_map(|[k, v]| Some((k.clone()?, v.as_deref()?)));
            Some(map_of(&distinct(key, entries)))
        }
        _ => None,
    }
}

/// Whether values of the type are the same inside of a collection and alone.
fn is_kept(ty: &CqlType) -> bool {
    match ty {
        CqlType::Varint | CqlType::Decimal | CqlType::Boolean | CqlType::Inet => false,
        CqlType::Tuple(_) | CqlType::Udt { .. } | CqlType::Composite(_) | CqlType::DynamicComposite(_) => {
            true
        }
        other => other.is_scalar(),
    }
}

/// A number without the leading bytes that only repeat its sign. The first `start` bytes are not part of it.
fn shortened(value: &[u8], start: usize) -> Option<Vec<u8>> {
    let (head, number) = value.split_at_checked(start)?;
    let is_spare = |pair: &[u8]| {
        matches!(pair, [0x00, next] if *next < 0x80) || matches!(pair, [0xff, next] if *next >= 0x80)
    };
    let spare = number.windows(2).take_while(|pair| is_spare(pair)).count();
    (spare > 0).then(|| [head, number.get(spare..).unwrap_or_default()].concat())
}

/// All parts, rewritten; `None` when that is what they are already.
fn rewritten_parts<'t, 'v>(
    parts: impl Iterator<Item = (&'t CqlType, Option<&'v [u8]>)>,
) -> Option<Vec<Option<Cow<'v, [u8]>>>> {
    let mut changed = false;
    let mut out = Vec::new();
    for (ty, part) in parts {
        out.push(part.map(|value| match rewritten(ty, value) {
            Some(new) => {
                changed = true;
                Cow::Owned(new)
            }
            None => Cow::Borrowed(value),
        }));
    }
    changed.then_some(out)
}

/// The items in the order of `ty`, without equal ones. Of equal items the first stays, with the value of the
/// last.
fn distinct<'v, V>(ty: &CqlType, items: impl Iterator<Item = (Cow<'v, [u8]>, V)>) -> Vec<(Cow<'v, [u8]>, V)> {
    let mut places = BTreeMap::new();
    let mut out: Vec<(Cow<'v, [u8]>, V)> = Vec::new();
    for (item, value) in items {
        // There are many NaN, which are all the same.
        let same = match ty {
            CqlType::Float | CqlType::Double if numbers::is_nan(&item) => Cow::Borrowed(b"NaN".as_slice()),
            _ => item.clone(),
        };
        match places.get(&same).and_then(|place: &usize| out.get_mut(*place)) {
            Some(earlier) => earlier.1 = value,
            None => {
                places.insert(same, out.len());
                out.push((item, value));
            }
        }
    }
    out.sort_by(|(a, _), (b, _)| ty.compare(a, b));
    out
}

/// A map of pairs that are in order.
fn map_of(pairs: &[(Cow<'_, [u8]>, &[u8])]) -> Vec<u8> {
    let mut out = (pairs.len() as i32).to_be_bytes().to_vec();
    for (key, value) in pairs {
        push_element(&mut out, Some(key));
        push_element(&mut out, Some(value));
    }
    out
}

#[cfg(test)]
mod tests;
