//! Values to JSON, byte for byte as `SELECT JSON` and `toJson` print them.
//!
//! Numbers, booleans and nulls are bare. NaN and the infinities are null. All other scalars are strings, and
//! so is an empty value of any type. (The function `toJson` alone shows an empty number as null: see
//! [`CqlType::is_null_when_empty`].) Keys of maps are strings whatever their type. Names with capitals carry
//! CQL quotes inside the JSON string, so that `INSERT JSON` finds them again. A composite is its text, where
//! Cassandra has no answer.

use super::CqlType;
use super::collection::{elements, pairs, tuple_fields, vector_elements};
use super::text::write_all;

impl CqlType {
    /// Whether a value of no bytes counts as null where it is handed to a function: true for all types but
    /// text, blobs and composites.
    pub fn is_null_when_empty(&self) -> bool {
        !matches!(
            self,
            CqlType::Ascii
                | CqlType::Blob
                | CqlType::Composite(_)
                | CqlType::Custom(_)
                | CqlType::DynamicComposite(_)
                | CqlType::Text
        )
    }

    /// The JSON of a value; `null` for a null.
    pub fn to_json(&self, value: Option<&[u8]>) -> String {
        let mut out = String::new();
        self.write_json(value, &mut out);
        out
    }

    /// Appends the JSON of a value to `out`.
    pub fn write_json(&self, value: Option<&[u8]>, out: &mut String) {
        match value {
            None => out.push_str("null"),
            Some(value) => self.write_json_value(value, out),
        }
    }

    fn write_json_value(&self, value: &[u8], out: &mut String) {
        match self {
            CqlType::List { element, .. } | CqlType::Set { element, .. } => {
                write_all(out, ['[', ']'], elements(value), |v, out| element.write_json(v, out));
            }
            CqlType::Map { key, value: of_value, .. } => {
                write_all(out, ['{', '}'], pairs(value), |(k, v), out| {
                    key.write_json_key(k, out);
                    out.push_str(": ");
                    of_value.write_json_value(v, out);
                });
            }
            CqlType::Tuple(types) => {
                let fields = tuple_fields(value).chain(std::iter::repeat(None));
                write_all(out, ['[', ']'], types.iter().zip(fields), |(ty, v), out| ty.write_json(v, out));
            }
            CqlType::Udt { definition, .. } => {
                let fields = tuple_fields(value).chain(std::iter::repeat(None));
                write_all(out, ['{', '}'], definition.fields.iter().zip(fields), |((name, ty), v), out| {
                    write_json_name(name, out);
                    out.push_str(": ");
                    ty.write_json(v, out);
                });
            }
            CqlType::Vector { element, dimension } => {
                write_all(out, ['[', ']'], vector_elements(element, *dimension, value), |v, out| {
                    element.write_json_value(v, out);
                });
            }
            CqlType::Ascii | CqlType::Text => write_json_string(&String::from_utf8_lossy(value), out),
            CqlType::Composite(_) | CqlType::DynamicComposite(_) => {
                write_json_string(&self.to_text(value), out)
            }
            CqlType::Blob | CqlType::Custom(_) => self.write_quoted_scalar(value, out),
            _ if value.is_empty() => out.push_str("\"\""),
            CqlType::Float if value.as_array().is_some_and(|v| !f32::from_be_bytes(*v).is_finite()) => {
                out.push_str("null");
            }
            CqlType::Double if value.as_array().is_some_and(|v| !f64::from_be_bytes(*v).is_finite()) => {
                out.push_str("null");
            }
            CqlType::Date
            | CqlType::Duration
            | CqlType::Empty
            | CqlType::Inet
            | CqlType::LexicalUuid
            | CqlType::Time
            | CqlType::Timestamp
            | CqlType::TimeUuid
            | CqlType::Uuid => self.write_quoted_scalar(value, out),
            _ => self.write_scalar(value, ' ', out),
        }
    }

    /// For texts without characters that JSON escapes.
    fn write_quoted_scalar(&self, value: &[u8], out: &mut String) {
        out.push('"');
        self.write_scalar(value, ' ', out);
        out.push('"');
    }

    fn write_json_key(&self, value: &[u8], out: &mut String) {
        let start = out.len();
        self.write_json_value(value, out);
        if out.get(start..).is_some_and(|key| key.starts_with('"')) {
            return;
        }
        let key = out.split_off(start);
        write_json_string(&key, out);
    }
}

/// A column or field name as a JSON string: with CQL quotes inside when it has capitals.
pub fn write_json_name(name: &str, out: &mut String) {
    if name.chars().any(char::is_uppercase) {
        write_json_string(&format!("\"{name}\""), out);
    } else {
        write_json_string(name, out);
    }
}

/// A JSON string: quotes, backslashes and control characters are escaped, nothing else.
pub fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::super::UserType;
    use super::super::collection::{encode_list, encode_map, encode_tuple};
    use super::super::parse::hex_bytes;
    use super::*;
    use std::sync::Arc;

    #[test]
    fn scalars_look_as_a_real_node_prints_them() {
        for (ty, hex, json) in [
            (CqlType::Timestamp, "0000014d19c2011a", "\"2015-05-03 12:30:54.234Z\""),
            (CqlType::Date, "800040ae", "\"2015-05-03\""),
            (CqlType::Time, "00002c4024630c00", "\"13:30:54.000000000\""),
            (CqlType::Int, "00000005", "5"),
            (CqlType::Int, "", "\"\""),
            (CqlType::Text, "", "\"\""),
            (CqlType::Blob, "", "\"0x\""),
            (CqlType::Timestamp, "", "\"\""),
            (CqlType::Decimal, "fffffff601", "1E+10"),
            (CqlType::Float, "7fc00000", "null"),
            (CqlType::Double, "fff0000000000000", "null"),
            (CqlType::Double, "416312d000000000", "1.0E7"),
            (CqlType::Boolean, "01", "true"),
            (CqlType::Text, "c3a9225c5c0a0901", "\"é\\\"\\\\\\\\\\n\\t\\u0001\""),
            (CqlType::Text, "e280a87fe282acf09f98802f", "\"\u{2028}\u{7f}€😀/\""),
            (CqlType::Duration, "1c32fc2168cdf9d664", "\"1y2mo25d5h6m7s8ms9us10ns\""),
            (CqlType::Duration, "000000", "\"\""),
            (CqlType::Uuid, "123e4567e89b12d3a456426614174000", "\"123e4567-e89b-12d3-a456-426614174000\""),
        ] {
            assert_eq!(ty.to_json(Some(&hex_bytes(hex).unwrap())), json);
        }
    }

    #[test]
    fn nested_values_look_as_a_real_node_prints_them() {
        let one = 1i32.to_be_bytes();
        let list = encode_list([one]);
        let lists = CqlType::list(CqlType::Int, false);
        let definition = UserType {
            keyspace: "ks".into(),
            name: "u1".into(),
            fields: vec![
                ("a".into(), CqlType::Int),
                ("l".into(), lists.clone()),
                ("Qu".into(), CqlType::Text),
            ],
        };
        let udt = CqlType::Udt { definition: Arc::new(definition), multi_cell: true };
        let tuple = CqlType::Tuple([udt, CqlType::map(CqlType::Int, lists.clone(), false)].into());
        let value =
            encode_tuple([Some(encode_tuple([Some(one)])), Some(encode_map(&CqlType::Int, [(one, &list)]))]);
        assert_eq!(tuple.to_json(Some(&value)), r#"[{"a": 1, "l": null, "\"Qu\"": null}, {"1": [1]}]"#);
        let by_list = CqlType::map(lists, CqlType::Text, false);
        assert_eq!(by_list.to_json(Some(&encode_map(&CqlType::Blob, [(&list, "x")]))), r#"{"[1]": "x"}"#);
    }
}
