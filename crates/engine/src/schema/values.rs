//! Values of the few types that `system_schema` uses, as bytes and back. Reading gives `None` for bytes that
//! are no such value.

use bytes::Bytes;
use model::CqlType;
use model::types::collection;
use std::collections::BTreeMap;
use uuid::Uuid;

pub(super) fn text(value: &str) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

pub(super) fn int(value: i32) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

pub(super) fn double(value: f64) -> Bytes {
    Bytes::copy_from_slice(&value.to_be_bytes())
}

pub(super) fn boolean(value: bool) -> Bytes {
    Bytes::copy_from_slice(&[u8::from(value)])
}

pub(super) fn timestamp(millis: i64) -> Bytes {
    Bytes::copy_from_slice(&millis.to_be_bytes())
}

pub(super) fn uuid(value: Uuid) -> Bytes {
    Bytes::copy_from_slice(value.as_bytes())
}

pub(super) fn text_map<V: AsRef<[u8]>>(map: &BTreeMap<String, V>) -> Bytes {
    collection::encode_map(&CqlType::Text, map.iter().map(|(k, v)| (k.as_bytes(), v.as_ref())))
}

pub(super) fn text_set(items: &[&str]) -> Bytes {
    collection::encode_set(&CqlType::Text, items)
}

pub(super) fn text_list<S: AsRef<str>>(items: impl IntoIterator<Item = S>) -> Bytes {
    let items: Vec<Vec<u8>> = items.into_iter().map(|s| s.as_ref().as_bytes().to_vec()).collect();
    collection::encode_list(items)
}

pub(super) fn read_boolean_list(value: &[u8]) -> Option<Vec<bool>> {
    collection::elements(value).map(|e| read_boolean(e?)).collect()
}

pub(super) fn boolean_list(items: impl IntoIterator<Item = bool>) -> Bytes {
    let items: Vec<Vec<u8>> = items.into_iter().map(|item| vec![u8::from(item)]).collect();
    collection::encode_list(items)
}

pub(super) fn read_text(value: &[u8]) -> Option<String> {
    String::from_utf8(value.to_vec()).ok()
}

pub(super) fn read_int(value: &[u8]) -> Option<i32> {
    Some(i32::from_be_bytes(value.try_into().ok()?))
}

pub(super) fn read_bigint(value: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(value.try_into().ok()?))
}

pub(super) fn read_double(value: &[u8]) -> Option<f64> {
    Some(f64::from_be_bytes(value.try_into().ok()?))
}

pub(super) fn read_boolean(value: &[u8]) -> Option<bool> {
    match value {
        [byte] => Some(*byte != 0),
        _ => None,
    }
}

pub(super) fn read_uuid(value: &[u8]) -> Option<Uuid> {
    Uuid::from_slice(value).ok()
}

pub(super) fn read_blob_map(value: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    collection::pairs(value).map(|(k, v)| Some((read_text(k)?, v.to_vec()))).collect()
}

pub(super) fn read_text_map(value: &[u8]) -> Option<BTreeMap<String, String>> {
    collection::pairs(value).map(|(k, v)| Some((read_text(k)?, read_text(v)?))).collect()
}

pub(super) fn read_text_list(value: &[u8]) -> Option<Vec<String>> {
    collection::elements(value).map(|e| read_text(e?)).collect()
}
