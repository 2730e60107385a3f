//! Values to text.
//!
//! [`CqlType::to_text`] is the bare text of a value (`CAST(x AS text)`, keys in dumps and logs): collections
//! and blobs are bare hexadecimal, fields of tuples stand between colons. [`CqlType::to_literal`] is a CQL
//! constant that means the value: text quoted, collections in brackets, null for an empty value that is no
//! text.

use super::calendar::{Date, MILLIS_PER_DAY};
use super::collection::{elements, pairs, tuple_fields, vector_elements};
use super::composite::{Named, Parts, Shape};
use super::duration::Duration;
use super::names::QuotedName;
use super::{CqlType, numbers};
use num_bigint::BigInt;
use std::fmt::Write;
use std::net::Ipv6Addr;

impl CqlType {
    /// The bare text of a value; empty for an empty value.
    pub fn to_text(&self, value: &[u8]) -> String {
        let mut out = String::new();
        match self {
            CqlType::Tuple(types) => write_fields(types.iter(), value, &mut out),
            CqlType::Udt { definition, .. } => {
                write_fields(definition.fields.iter().map(|(_, ty)| ty), value, &mut out);
            }
            CqlType::Composite(types) => {
                write_parts(Parts::new(Shape::Static(types), value), value, &mut out)
            }
            CqlType::DynamicComposite(aliases) => {
                write_parts(Parts::new(Shape::Dynamic(aliases), value), value, &mut out);
            }
            CqlType::Blob | CqlType::Custom(_) => write_hex(value, &mut out),
            _ if self.is_scalar() => self.write_scalar(value, 'T', &mut out),
            _ => write_hex(value, &mut out),
        }
        out
    }

    /// The value as a CQL constant.
    pub fn to_literal(&self, value: Option<&[u8]>) -> String {
        let mut out = String::new();
        self.write_optional(value, &mut out);
        out
    }

    /// Whether values of the type hold no other values.
    pub(super) fn is_scalar(&self) -> bool {
        !matches!(
            self,
            CqlType::List { .. }
                | CqlType::Set { .. }
                | CqlType::Map { .. }
                | CqlType::Tuple(_)
                | CqlType::Udt { .. }
                | CqlType::Vector { .. }
                | CqlType::Composite(_)
                | CqlType::DynamicComposite(_)
        )
    }

    fn write_optional(&self, value: Option<&[u8]>, out: &mut String) {
        match value {
            None => out.push_str("null"),
            Some(value) => self.write_literal(value, out),
        }
    }

    fn write_literal(&self, value: &[u8], out: &mut String) {
        match self {
            CqlType::List { element, .. } => {
                write_all(out, ['[', ']'], elements(value), |v, out| element.write_optional(v, out));
            }
            CqlType::Set { element, .. } => {
                write_all(out, ['{', '}'], elements(value), |v, out| element.write_optional(v, out));
            }
            CqlType::Map { key, value: of_value, .. } => {
                write_all(out, ['{', '}'], pairs(value), |(k, v), out| {
                    key.write_literal(k, out);
                    out.push_str(": ");
                    of_value.write_literal(v, out);
                });
            }
            CqlType::Tuple(types) => {
                write_all(out, ['(', ')'], types.iter().zip(tuple_fields(value)), |(ty, v), out| {
                    ty.write_optional(v, out);
                });
            }
            CqlType::Udt { definition, .. } => {
                let fields = tuple_fields(value);
                write_all(out, ['{', '}'], definition.fields.iter().zip(fields), |((name, ty), v), out| {
                    let _ = write!(out, "{}: ", QuotedName(name));
                    ty.write_optional(v, out);
                });
            }
            CqlType::Vector { element, dimension } => {
                write_all(out, ['[', ']'], vector_elements(element, *dimension, value), |v, out| {
                    element.write_literal(v, out);
                });
            }
            CqlType::Ascii | CqlType::Text => {
                out.push('\'');
                out.push_str(&String::from_utf8_lossy(value).replace('\'', "''"));
                out.push('\'');
            }
            // The text of a composite does not tell all of it.
            CqlType::Composite(_) | CqlType::DynamicComposite(_) => {
                CqlType::Blob.write_scalar(value, 'T', out)
            }
            CqlType::LexicalUuid if !value.is_empty() => CqlType::Blob.write_scalar(value, 'T', out),
            CqlType::Blob | CqlType::Custom(_) => self.write_scalar(value, 'T', out),
            _ if value.is_empty() => out.push_str("null"),
            CqlType::Date | CqlType::Time | CqlType::Timestamp | CqlType::Inet => {
                out.push('\'');
                self.write_scalar(value, 'T', out);
                out.push('\'');
            }
            _ => self.write_scalar(value, 'T', out),
        }
    }

    /// A value that holds no others, without quotes. `separator` stands between the date and the time of a
    /// timestamp. Bytes that are no value of the type are shown as a blob.
    pub(super) fn write_scalar(&self, value: &[u8], separator: char, out: &mut String) {
        let blob = matches!(self, CqlType::Blob | CqlType::Custom(_));
        if blob || (!value.is_empty() && self.try_write_scalar(value, separator, out).is_none()) {
            out.push_str("0x");
            write_hex(value, out);
        }
    }

    /// `None`, and nothing written, when the bytes are no value of the type.
    fn try_write_scalar(&self, value: &[u8], separator: char, out: &mut String) -> Option<()> {
        match self {
            CqlType::Ascii | CqlType::Text => out.push_str(std::str::from_utf8(value).ok()?),
            CqlType::Boolean => out.push_str(if value == [0] { "false" } else { "true" }),
            CqlType::TinyInt => show(i8::from_be_bytes(*value.as_array()?), out),
            CqlType::SmallInt => show(i16::from_be_bytes(*value.as_array()?), out),
            CqlType::Int => show(i32::from_be_bytes(*value.as_array()?), out),
            CqlType::BigInt | CqlType::Counter => {
                show(i64::from_be_bytes(*value.as_array()?), out);
            }
            CqlType::Varint => show(BigInt::from_signed_bytes_be(value), out),
            CqlType::Decimal => {
                let (unscaled, scale) = numbers::decode_decimal(value)?;
                numbers::write_decimal(out, &unscaled, scale);
            }
            CqlType::Float => numbers::write_float(out, f32::from_be_bytes(*value.as_array()?)),
            CqlType::Double => numbers::write_double(out, f64::from_be_bytes(*value.as_array()?)),
            CqlType::LexicalUuid | CqlType::TimeUuid | CqlType::Uuid => {
                show(uuid::Uuid::from_bytes(*value.as_array()?).hyphenated(), out);
            }
            CqlType::Inet => write_inet(value, out)?,
            CqlType::Date => {
                let days = i64::from(u32::from_be_bytes(*value.as_array()?)) - (1 << 31);
                write_date(Date::from_epoch_days(days), out);
            }
            CqlType::Time => write_time(i64::from_be_bytes(*value.as_array()?), out),
            CqlType::Timestamp => {
                write_timestamp(i64::from_be_bytes(*value.as_array()?), separator, out);
            }
            CqlType::Duration => show(Duration::decode(value)?, out),
            _ => return None,
        }
        Some(())
    }
}

/// The fields that are there between colons: `@` for null; colons and `@` inside a field carry a backslash.
fn write_fields<'t>(types: impl Iterator<Item = &'t CqlType>, value: &[u8], out: &mut String) {
    for (i, (ty, field)) in types.zip(tuple_fields(value)).enumerate() {
        if i > 0 {
            out.push(':');
        }
        match field {
            None => out.push('@'),
            Some(field) => out.push_str(&ty.to_text(field).replace(':', "\\:").replace('@', "\\@")),
        }
    }
}

/// Components between colons, each behind its type and an `@` where it says one. Bytes that are no composite
/// are shown as a blob.
fn write_parts(mut parts: Parts<'_, '_>, value: &[u8], out: &mut String) {
    let start = out.len();
    let mut separator = "";
    while let Some(part) = parts.next() {
        let Ok(part) = part else {
            out.truncate(start);
            return write_hex(value, out);
        };
        out.push_str(separator);
        match part.named {
            Some(Named::Alias(alias)) => out.extend([char::from(alias), '@']),
            Some(Named::Class(class)) => out.extend([class, "@"]),
            None => {}
        }
        let text = part.component.ty.to_text(part.value).replace(':', "\\:");
        out.push_str(&text);
        // Or the last character would be taken for a part of what follows.
        if text.ends_with(['\\', '!']) {
            out.push('!');
        }
        match part.end {
            0 => separator = ":",
            ..0 => return out.push_str(":_"),
            _ => return out.push_str(":!"),
        }
    }
}

fn show(value: impl std::fmt::Display, out: &mut String) {
    let _ = write!(out, "{value}");
}

/// Items between brackets, separated by commas.
pub(super) fn write_all<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl Iterator<Item = T>,
    mut write_one: impl FnMut(T, &mut String),
) {
    out.push(open);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_one(item, out);
    }
    out.push(close);
}

/// Two lower-case hexadecimal digits for each byte.
pub(super) fn write_hex(bytes: &[u8], out: &mut String) {
    out.reserve(2 * bytes.len());
    for byte in bytes {
        out.extend([byte >> 4, byte & 15].map(|d| char::from_digit(d.into(), 16).unwrap_or('0')));
    }
}

/// As Java prints addresses: no `::`, and an IPv4 address in its IPv6 form as IPv4.
fn write_inet(value: &[u8], out: &mut String) -> Option<()> {
    let v4 = match value.as_array::<16>() {
        None => Some((*value.as_array::<4>()?).into()),
        Some(v6) => Ipv6Addr::from(*v6).to_ipv4_mapped(),
    };
    if let Some(v4) = v4 {
        let _ = write!(out, "{v4}");
        return Some(());
    }
    let segments = Ipv6Addr::from(*value.as_array::<16>()?).segments();
    for (i, segment) in segments.iter().enumerate() {
        let _ = write!(out, "{}{segment:x}", if i > 0 { ":" } else { "" });
    }
    Some(())
}

/// ISO 8601; years outside 0 to 9999 have a sign.
fn write_date(date: Date, out: &mut String) {
    let sign = match date.year {
        ..0 => "-",
        0..10_000 => "",
        _ => "+",
    };
    let _ = write!(out, "{sign}{:04}-{:02}-{:02}", date.year.abs(), date.month, date.day);
}

fn write_time(nanos: i64, out: &mut String) {
    let seconds = nanos / 1_000_000_000;
    let _ = write!(
        out,
        "{:02}:{:02}:{:02}.{:09}",
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60,
        nanos % 1_000_000_000
    );
}

/// UTC with milliseconds. As in Cassandra the year is that of its era: 2 stands for 2 BC as well.
fn write_timestamp(millis: i64, separator: char, out: &mut String) {
    let date = Date::from_epoch_days(millis.div_euclid(MILLIS_PER_DAY));
    let year = if date.year > 0 { date.year } else { 1 - date.year };
    let sign = if year > 9999 { "+" } else { "" };
    let of_day = millis.rem_euclid(MILLIS_PER_DAY);
    let _ = write!(
        out,
        "{sign}{year:04}-{:02}-{:02}{separator}{:02}:{:02}:{:02}.{:03}Z",
        date.month,
        date.day,
        of_day / 3_600_000,
        of_day / 60_000 % 60,
        of_day / 1000 % 60,
        of_day % 1000
    );
}

#[cfg(test)]
mod tests {
    use super::super::parse::hex_bytes;
    use super::*;

    #[test]
    fn texts_are_those_of_a_real_node() {
        for (ty, hex, text) in [
            (CqlType::Timestamp, "0000014d19c2011a", "2015-05-03T12:30:54.234Z"),
            (CqlType::Timestamp, "fffffffffffffffb", "1969-12-31T23:59:59.995Z"),
            (CqlType::Timestamp, "7fffffffffffffff", "+292278994-08-17T07:12:55.807Z"),
            (CqlType::Timestamp, "8000000000000000", "+292275056-05-16T16:47:04.192Z"),
            (CqlType::Timestamp, "ffffc77590fba000", "0001-01-01T00:00:00.000Z"),
            (CqlType::Date, "00000000", "-5877641-06-23"),
            (CqlType::Date, "ffffffff", "+5881580-07-11"),
            (CqlType::Date, "7ff4c6db", "-0044-03-15"),
            (CqlType::Time, "00002c402bbed915", "13:30:54.123456789"),
            (CqlType::Time, "7f7f7f7f7f7f7f7f", "08:32:30.435737471"),
            (CqlType::Inet, "00000000000000000000000000000001", "0:0:0:0:0:0:0:1"),
            (CqlType::Inet, "00000000000000000000ffff01020304", "1.2.3.4"),
            (CqlType::Inet, "7f000001", "127.0.0.1"),
            (CqlType::Decimal, "000000020096", "1.50"),
            (CqlType::Varint, "018ee90ff6c373e0ee4e3f0ad2", "123456789012345678901234567890"),
            (CqlType::Boolean, "02", "true"),
            (CqlType::Blob, "ab", "ab"),
            (CqlType::Blob, "", ""),
            (CqlType::list(CqlType::Int, false), "00000000", "00000000"),
            (
                CqlType::Tuple([CqlType::Int, CqlType::Text, CqlType::Int].into()),
                "0000000400000001000000033a4061ffffffff",
                "1:\\:\\@a:@",
            ),
            (CqlType::Int, "", ""),
            (CqlType::Int, "00", "0x00"),
            (CqlType::TinyInt, "80", "-128"),
        ] {
            assert_eq!(ty.to_text(&hex_bytes(hex).unwrap()), text);
        }
    }

    #[test]
    fn literals_quote_and_nest() {
        let ty = CqlType::parse_cql("map<text, frozen<list<int>>>", &|_| None).unwrap();
        let list = super::super::collection::encode_list([1i32.to_be_bytes(), 2i32.to_be_bytes()]);
        let map = super::super::collection::encode_map(&CqlType::Text, [("it's", &list)]);
        assert_eq!(ty.to_literal(Some(&map)), "{'it''s': [1, 2]}");
        let tuple = CqlType::Tuple([CqlType::Int, CqlType::Date].into());
        assert_eq!(tuple.to_literal(Some(b"\0\0\0\x04\0\0\0\x01")), "(1)");
        assert_eq!(
            tuple.to_literal(Some(b"\xff\xff\xff\xff\0\0\0\x04\x80\0\x40\xae")),
            "(null, '2015-05-03')"
        );
        assert_eq!(CqlType::Int.to_literal(None), "null");
    }
}
