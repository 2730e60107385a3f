//! Values that hold values: lists, sets, maps, tuples, user types and vectors.
//!
//! ```text
//! list, set    i32 n | n * element
//! map          i32 n | n * (key element, value element)
//! tuple, UDT   element for each field; the last fields may be missing, which means null
//! element      i32 length, bytes; a negative length is null
//! vector       dimension * bytes               elements of a fixed length
//!              dimension * (uvint length, bytes) others
//! ```
//! The iterators borrow and stop early on bytes that are cut short: values from outside pass
//! [`CqlType::validate`] first, which refuses those.

use super::CqlType;
use crate::vint;
use bytes::Bytes;
use std::cmp::Ordering;

/// Splits an element off the front: `None` when `input` is cut short, inner `None` for a null.
#[inline]
pub(super) fn next_element<'a>(input: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (head, rest) = input.split_first_chunk::<4>()?;
    let len = i32::from_be_bytes(*head);
    if len < 0 {
        *input = rest;
        return Some(None);
    }
    let (value, rest) = rest.split_at_checked(len as usize)?;
    *input = rest;
    Some(Some(value))
}

/// Splits the count off the front of a list, set or map: `None` when it is not there or negative.
#[inline]
pub(super) fn split_count(value: &[u8]) -> Option<(u32, &[u8])> {
    let (head, rest) = value.split_first_chunk::<4>()?;
    let count = u32::try_from(i32::from_be_bytes(*head)).ok()?;
    Some((count, rest))
}

/// Number of elements that a list, set or map says it has (of pairs, for a map).
pub fn count(value: &[u8]) -> usize {
    split_count(value).map_or(0, |(count, _)| count as usize)
}

/// Elements of a list or a set, or the fields of a tuple or a user type. Inner `None` is a null.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        next_element(&mut self.rest)
    }
}

/// The elements of a list or set; of a map, its keys and values in turn.
pub fn elements(value: &[u8]) -> Elements<'_> {
    let (left, rest) = split_count(value).unwrap_or_default();
    Elements { rest, left }
}

/// The keys and values of a map. A null where a key or a value should be ends the iteration.
pub fn pairs(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
    let (left, rest) = split_count(value).unwrap_or_default();
    let mut elements = Elements { rest, left: left.saturating_mul(2) };
    let next = move || Some((elements.next()??, elements.next()??));
    std::iter::from_fn(next)
}

/// The fields of a tuple or user type that the value has: there may be fewer than the type declares.
pub fn tuple_fields(value: &[u8]) -> Elements<'_> {
    Elements { rest: value, left: u32::MAX }
}

/// The elements of a vector.
#[derive(Clone, Debug)]
pub struct VectorElements<'a> {
    rest: &'a [u8],
    fixed_len: Option<usize>,
    left: u32,
}

impl<'a> Iterator for VectorElements<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let len = match self.fixed_len {
            Some(len) => len,
            None => {
                let (len, used) = vint::read_unsigned(self.rest)?;
                self.rest = self.rest.get(used..)?;
                usize::try_from(len).ok()?
            }
        };
        let (value, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(value)
    }
}

impl<'a> VectorElements<'a> {
    /// What is behind the elements read so far.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// The elements of a vector of `dimension` elements of type `element`.
pub fn vector_elements<'a>(element: &CqlType, dimension: u32, value: &'a [u8]) -> VectorElements<'a> {
    VectorElements { rest: value, fixed_len: element.fixed_len(), left: dimension }
}

/// Appends one element, or a null.
pub fn push_element(out: &mut Vec<u8>, element: Option<&[u8]>) {
    match element {
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// Puts the count that is only known at the end in front.
fn counted(mut out: Vec<u8>, count: usize) -> Bytes {
    if let Some(head) = out.first_chunk_mut::<4>() {
        *head = (count as i32).to_be_bytes();
    }
    out.into()
}

/// A list of the given elements.
pub fn encode_list<B: AsRef<[u8]>>(items: impl IntoIterator<Item = B>) -> Bytes {
    let mut out = vec![0; 4];
    let mut count = 0;
    for item in items {
        push_element(&mut out, Some(item.as_ref()));
        count += 1;
    }
    counted(out, count)
}

/// A list of the given elements. Some may be null.
pub fn encode_nullable_list<B: AsRef<[u8]>>(items: impl IntoIterator<Item = Option<B>>) -> Bytes {
    let mut out = vec![0; 4];
    let mut count = 0;
    for item in items {
        push_element(&mut out, item.as_ref().map(AsRef::as_ref));
        count += 1;
    }
    counted(out, count)
}

/// A set of the given elements, in the order of their type and without duplicates.
pub fn encode_set<B: AsRef<[u8]>>(element: &CqlType, items: impl IntoIterator<Item = B>) -> Bytes {
    let mut items: Vec<B> = items.into_iter().collect();
    sort_set(element, &mut items);
    encode_list(items)
}

/// Sorts the elements of a set and removes duplicates. Of elements that are equal, the first stays.
pub fn sort_set<B: AsRef<[u8]>>(element: &CqlType, items: &mut Vec<B>) {
    items.sort_by(|a, b| element.compare(a.as_ref(), b.as_ref()));
    items.dedup_by(|later, first| element.compare(later.as_ref(), first.as_ref()) == Ordering::Equal);
}

/// A map of the given pairs, in the order of the key's type and without duplicates.
pub fn encode_map<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    key: &CqlType,
    pairs: impl IntoIterator<Item = (K, V)>,
) -> Bytes {
    encode_nullable_map(key, pairs.into_iter().map(|(k, v)| (k, Some(v))))
}

/// The same; some values may be null.
pub fn encode_nullable_map<K: AsRef<[u8]>, V: AsRef<[u8]>>(
    key: &CqlType,
    pairs: impl IntoIterator<Item = (K, Option<V>)>,
) -> Bytes {
    let mut pairs: Vec<(K, Option<V>)> = pairs.into_iter().collect();
    sort_map(key, &mut pairs);
    let mut out = vec![0; 4];
    for (key, value) in &pairs {
        push_element(&mut out, Some(key.as_ref()));
        push_element(&mut out, value.as_ref().map(AsRef::as_ref));
    }
    counted(out, pairs.len())
}

/// Sorts the pairs of a map by key and removes duplicates. Of keys that are equal, the last one's value
/// stays.
pub fn sort_map<K: AsRef<[u8]>, V>(key: &CqlType, pairs: &mut Vec<(K, V)>) {
    pairs.sort_by(|(a, _), (b, _)| key.compare(a.as_ref(), b.as_ref()));
    pairs.dedup_by(|later, first| {
        let equal = key.compare(later.0.as_ref(), first.0.as_ref()) == Ordering::Equal;
        if equal {
            std::mem::swap(&mut later.1, &mut first.1);
        }
        equal
    });
}

/// A tuple or user type of the given fields.
pub fn encode_tuple<B: AsRef<[u8]>>(fields: impl IntoIterator<Item = Option<B>>) -> Bytes {
    let mut out = Vec::new();
    for field in fields {
        push_element(&mut out, field.as_ref().map(AsRef::as_ref));
    }
    out.into()
}

/// A vector of elements of type `element`; how many there are is the caller's affair.
pub fn encode_vector<B: AsRef<[u8]>>(element: &CqlType, items: impl IntoIterator<Item = B>) -> Bytes {
    let with_length = element.fixed_len().is_none();
    let mut out = Vec::new();
    for item in items {
        if with_length {
            vint::write_unsigned(&mut out, item.as_ref().len() as u64);
        }
        out.extend_from_slice(item.as_ref());
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_sets_and_maps_round_trip() {
        let list = encode_list([b"a".as_slice(), b"", b"bc"]);
        assert_eq!(list.as_ref(), b"\0\0\0\x03\0\0\0\x01a\0\0\0\0\0\0\0\x02bc");
        assert_eq!(count(&list), 3);
        assert_eq!(elements(&list).flatten().collect::<Vec<_>>(), [b"a".as_slice(), b"", b"bc"]);
        let set = encode_set(&CqlType::Text, ["b", "a", "b"]);
        assert_eq!(elements(&set).flatten().collect::<Vec<_>>(), [b"a", b"b"]);
        let map = encode_map(&CqlType::Text, [("b", "1"), ("a", "2"), ("b", "3")]);
        assert_eq!(
            pairs(&map).collect::<Vec<_>>(),
            [(b"a".as_slice(), b"2".as_slice()), (b"b".as_slice(), b"3".as_slice())]
        );
    }

    #[test]
    fn tuples_may_end_early_and_hold_nulls() {
        let tuple = encode_tuple([Some("x"), None]);
        assert_eq!(tuple.as_ref(), b"\0\0\0\x01x\xff\xff\xff\xff");
        assert_eq!(tuple_fields(&tuple).collect::<Vec<_>>(), [Some(b"x".as_slice()), None]);
        assert_eq!(tuple_fields(b"").count(), 0);
    }

    #[test]
    fn vectors_write_lengths_only_where_they_vary() {
        let floats = encode_vector(&CqlType::Float, [[0u8; 4], [1; 4]]);
        assert_eq!(floats.len(), 8);
        assert_eq!(vector_elements(&CqlType::Float, 2, &floats).count(), 2);
        let texts = encode_vector(&CqlType::Text, ["a", "bc"]);
        assert_eq!(texts.as_ref(), b"\x01a\x02bc");
        let read: Vec<&[u8]> = vector_elements(&CqlType::Text, 2, &texts).collect();
        assert_eq!(read, [b"a".as_slice(), b"bc"]);
    }

    #[test]
    fn truncated_values_end_early() {
        let list = encode_list(["abc", "def"]);
        for cut in 0..list.len() {
            assert!(elements(&list[..cut]).count() < 2);
        }
        assert_eq!(elements(b"\x7f\xff\xff\xff").count(), 0);
        assert_eq!(pairs(b"\xff\xff\xff\xff\0\0\0\0").count(), 0);
        assert_eq!(
            vector_elements(&CqlType::Text, u32::MAX, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff").count(),
            0
        );
    }
}
