//! JSON to values: INSERT JSON and `from_json`. (`to_json` is `CqlType::to_json`.)
//!
//! Numbers and booleans may be given as strings, too; everything that CQL writes in quotes is a string.
//! Errors are Cassandra's messages.

pub(crate) use super::json_value::Json;
use bytes::Bytes;
use model::types::{CqlType, collection};
use std::collections::{HashMap, HashSet};

/// The value of type `ty`; `None` for null.
pub(crate) fn encode(ty: &CqlType, json: &Json) -> Result<Option<Bytes>, String> {
    if *json == Json::Null {
        return Ok(None);
    }
    scalar_or_nested(ty, json).map(Some)
}

fn expected(what: &str, json: &Json) -> String {
    format!("Expected {what}, but got a {}: {json}", json.java_class())
}

fn parse(ty: &CqlType, text: &str) -> Result<Bytes, String> {
    ty.parse_text(text, 0).map_err(|e| e.to_string())
}

fn scalar_or_nested(ty: &CqlType, json: &Json) -> Result<Bytes, String> {
    use CqlType::*;
    let number = |what: &str| match json {
        Json::Text(text) | Json::Integer(text) => parse(ty, text),
        other => Err(expected(what, other)),
    };
    let floating = |what: &str| match json {
        Json::Text(text) | Json::Integer(text) | Json::Float(text) => parse(ty, text),
        other => Err(expected(what, other)),
    };
    let string = |what: &str| match json {
        Json::Text(text) => parse(ty, text),
        other => Err(expected(what, other)),
    };
    match ty {
        TinyInt => number("a byte value"),
        SmallInt => number("a short value"),
        Int => match json {
            Json::Integer(text) if text.parse::<i32>().is_err() => Err(expected("an int value", json)),
            _ => number("an int value"),
        },
        BigInt | Counter => number("a bigint value"),
        Varint => match json {
            Json::Text(text) | Json::Integer(text) => parse(ty, text)
                .map_err(|_| format!("Value '{json}' is not a valid representation of a varint value")),
            _ => Err(format!("Value '{json}' is not a valid representation of a varint value")),
        },
        Decimal => floating("a decimal value")
            .map_err(|_| format!("Value '{json}' is not a valid representation of a decimal value")),
        Float => floating("a float value"),
        Double => floating("a double value"),
        Boolean => match json {
            Json::Bool(v) => Ok(Bytes::from_static(if *v { &[1] } else { &[0] })),
            Json::Text(text) => parse(ty, text),
            other => Err(expected("a boolean value", other)),
        },
        Text => string("a UTF-8 string"),
        Ascii => string("an ascii string"),
        Blob | Custom(_) | Empty => match json {
            Json::Text(text) => match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
                Some(hex) => parse(ty, hex)
                    .map_err(|reason| format!("Value '{text}' is not a valid blob representation: {reason}")),
                None => Err(format!(
                    "Value '{text}' is not a valid blob representation: String representation of blob is missing \
                     0x prefix: {text}"
                )),
            },
            other => Err(format!("Value '{other}' is not a valid blob representation: not a string")),
        },
        Composite(_) | DynamicComposite(_) => string("a string representation of a composite"),
        LexicalUuid | Uuid => string("a string representation of a uuid"),
        TimeUuid => string("a string representation of a timeuuid"),
        Timestamp => match json {
            Json::Text(text) => parse(ty, text),
            // Cassandra's JSON has integers of 32 bits, too, which are no timestamps.
            Json::Integer(text) if json.java_class() == "Long" => parse(&BigInt, text),
            other => Err(expected("a long or a datestring representation of a timestamp value", other)),
        },
        Date => string("a string representation of a date value"),
        Time => string("a string representation of a time value"),
        Inet => string("a string representation of an inet value"),
        Duration => string("a string representation of a duration"),
        List { .. } | Set { .. } | Map { .. } | Tuple(_) | Udt { .. } | Vector { .. } => match json {
            // Nested values may stand in a string, as they do in the keys of a map.
            Json::Text(text) => match Json::parse(text) {
                Ok(Json::Text(_)) | Err(_) => Err(format!("Could not decode JSON string: {text}")),
                Ok(inner) => nested(ty, &inner),
            },
            other => nested(ty, other),
        },
    }
}

fn nested(ty: &CqlType, json: &Json) -> Result<Bytes, String> {
    match (ty, json) {
        (CqlType::List { element, .. }, Json::Array(items)) => {
            Ok(collection::encode_list(all(element, items, "Invalid null element in list")?))
        }
        (CqlType::Set { element, .. }, Json::Array(items)) => {
            Ok(collection::encode_set(element, all(element, items, "Invalid null element in set")?))
        }
        (CqlType::Map { key, value, .. }, Json::Object(entries)) => {
            let mut pairs = Vec::with_capacity(entries.len());
            for (name, item) in entries {
                let k = scalar_or_nested(key, &Json::Text(name.clone()))?;
                let v = encode(value, item)?.ok_or("Invalid null value in map")?;
                pairs.push((k, v));
            }
            Ok(collection::encode_map(key, pairs))
        }
        (CqlType::Tuple(types), Json::Array(items)) => {
            if items.len() > types.len() {
                return Err(format!("Tuple contains extra items (expected {}): {json}", types.len()));
            }
            if items.len() < types.len() {
                return Err(format!("Tuple is missing items (expected {}): {json}", types.len()));
            }
            let fields: Result<Vec<_>, String> =
                items.iter().zip(types.iter()).map(|(item, ty)| encode(ty, item)).collect();
            Ok(collection::encode_tuple(fields?))
        }
        (CqlType::Udt { definition, .. }, Json::Object(entries)) => {
            let known: HashSet<&str> = definition.fields.iter().map(|(field, _)| field.as_str()).collect();
            let mut named: HashMap<String, &Json> = HashMap::with_capacity(known.len());
            let mut unknown = None;
            for (name, value) in entries {
                let name = folded(name);
                if unknown.is_none() && !known.contains(name.as_str()) {
                    unknown = Some(name.clone());
                }
                named.entry(name).or_insert(value);
            }
            if let Some(name) = unknown {
                return Err(format!(
                    "Unknown field '{name}' in value of user defined type {}",
                    definition.name
                ));
            }
            let fields: Result<Vec<_>, String> = definition
                .fields
                .iter()
                .map(|(field, ty)| match named.get(field) {
                    Some(value) => encode(ty, value),
                    None => Ok(None),
                })
                .collect();
            Ok(collection::encode_tuple(fields?))
        }
        (CqlType::Vector { element, dimension }, Json::Array(items)) => {
            if items.len() != *dimension as usize {
                return Err(format!(
                    "List had incorrect size: expected {dimension} but given {}; {json}",
                    items.len()
                ));
            }
            Ok(collection::encode_vector(element, all(element, items, "Invalid null element in vector")?))
        }
        (CqlType::Set { .. }, other) => Err(expected("a list (representing a set)", other)),
        (CqlType::Map { .. } | CqlType::Udt { .. }, other) => Err(expected("a map", other)),
        (CqlType::Tuple(_), other) => Err(expected("a list representation of a tuple", other)),
        (_, other) => Err(expected("a list", other)),
    }
}

fn all(element: &CqlType, items: &[Json], null: &str) -> Result<Vec<Bytes>, String> {
    items.iter().map(|item| encode(element, item)?.ok_or_else(|| null.to_owned())).collect()
}

/// A name of JSON as a column's or field's: in lower case, unless it is in quotes of its own.
pub(crate) fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.to_owned(),
        None => name.to_ascii_lowercase(),
    }
}
