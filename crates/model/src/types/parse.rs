//! Text to values, as the string and number constants of CQL and the strings of JSON mean them.
//!
//! [`CqlType::parse_text`] takes what stands inside the quotes (or behind `0x`). Which kinds of constants a
//! type takes at all is the business of the `cql` crate. Error messages are Cassandra's. Not understood, on
//! purpose: host names where an address is wanted, names of time zones with rules of their own, hexadecimal
//! floating point.

mod composite;
mod temporal;

use super::CqlType;
use super::collection::encode_tuple;
use super::duration::Duration;
use super::numbers::encode_decimal;
use super::validate::InvalidValue;
use bytes::Bytes;
use num_bigint::{BigInt, BigUint, Sign};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

impl CqlType {
    /// Parses the text of a value. `now_ms` is what the timestamp `'now'` means, in milliseconds.
    ///
    /// A tuple is its fields with colons between them, `@` a null, `\:` and `\@` these characters themselves.
    /// Composites are written alike, with other rules (`composite`). Collections, user types and vectors have
    /// no such text.
    pub fn parse_text(&self, text: &str, now_ms: i64) -> Result<Bytes, InvalidValue> {
        if text.is_empty() && self.is_scalar() && self.allows_empty() && *self != CqlType::Boolean {
            return Ok(Bytes::new());
        }
        let fail = |what: &str| Err(InvalidValue(format!("Unable to make {what} from '{text}'")));
        let value = match self {
            CqlType::Tuple(types) => return parse_tuple(self, types, text, now_ms),
            CqlType::Composite(_) | CqlType::DynamicComposite(_) => {
                return composite::parse(self, text, now_ms);
            }
            CqlType::Ascii if !text.is_ascii() => {
                return Err(InvalidValue(
                    "Invalid ASCII character in string literal: \
                     java.nio.charset.UnmappableCharacterException: Input length = 1"
                        .to_owned(),
                ));
            }
            CqlType::Ascii | CqlType::Text => text.as_bytes().to_vec(),
            CqlType::Blob | CqlType::Custom(_) => match hex_bytes(text) {
                Some(bytes) => bytes,
                None => return Err(InvalidValue(format!("cannot parse '{text}' as hex bytes"))),
            },
            CqlType::TinyInt => match i8::from_str(text) {
                Ok(v) => v.to_be_bytes().to_vec(),
                Err(_) => return fail("byte"),
            },
            CqlType::SmallInt => match i16::from_str(text) {
                Ok(v) => v.to_be_bytes().to_vec(),
                Err(_) => return fail("short"),
            },
            CqlType::Int => match i32::from_str(text) {
                Ok(v) => v.to_be_bytes().to_vec(),
                Err(_) => return fail("int"),
            },
            CqlType::BigInt | CqlType::Counter => match i64::from_str(text) {
                Ok(v) => v.to_be_bytes().to_vec(),
                Err(_) => return fail("long"),
            },
            CqlType::Varint => match parse_integer(text) {
                Some(v) => v.to_signed_bytes_be(),
                None => return Err(InvalidValue(format!("unable to make int from '{text}'"))),
            },
            CqlType::Decimal => match parse_decimal(text) {
                Some((unscaled, scale)) => encode_decimal(&unscaled, scale),
                None => return Err(InvalidValue(format!("unable to make BigDecimal from '{text}'"))),
            },
            CqlType::Float => match parse_float::<f32>(text) {
                Some(v) if v.is_nan() => 0x7fc0_0000u32.to_be_bytes().to_vec(),
                Some(v) => v.to_be_bytes().to_vec(),
                None => return fail("float"),
            },
            CqlType::Double => match parse_float::<f64>(text) {
                Some(v) if v.is_nan() => 0x7ff8_0000_0000_0000u64.to_be_bytes().to_vec(),
                Some(v) => v.to_be_bytes().to_vec(),
                None => return fail("double"),
            },
            CqlType::Boolean => match text {
                _ if text.eq_ignore_ascii_case("true") => vec![1],
                _ if text.is_empty() || text.eq_ignore_ascii_case("false") => vec![0],
                _ => return fail("boolean"),
            },
            CqlType::Uuid => match parse_uuid(text) {
                Some(uuid) => uuid.into_bytes().to_vec(),
                None => return fail("UUID"),
            },
            CqlType::LexicalUuid => match parse_uuid(text) {
                Some(uuid) => uuid.into_bytes().to_vec(),
                None => return Err(InvalidValue(format!("unable to make UUID from '{text}'"))),
            },
            CqlType::TimeUuid => match parse_uuid(text) {
                Some(uuid) if uuid.get_version_num() == 1 => uuid.into_bytes().to_vec(),
                Some(_) => return Err(InvalidValue("TimeUUID supports only version 1 UUIDs".to_owned())),
                None => return Err(InvalidValue(format!("Unknown timeuuid representation: {text}"))),
            },
            CqlType::Inet => match parse_inet(text) {
                Some(bytes) => bytes,
                None => return fail("inet address"),
            },
            CqlType::Duration => Duration::parse(text).map_err(InvalidValue)?.encode(),
            CqlType::Date => temporal::parse_date(text)?.to_be_bytes().to_vec(),
            CqlType::Time => temporal::parse_time(text)?.to_be_bytes().to_vec(),
            CqlType::Timestamp => temporal::parse_timestamp(text, now_ms)?.to_be_bytes().to_vec(),
            CqlType::Empty => return Err(InvalidValue("EmptyType only accept empty values".to_owned())),
            _ => return Err(InvalidValue(format!("A {self} cannot be written as text"))),
        };
        Ok(value.into())
    }
}

/// No text at all is a value of no bytes.
fn parse_tuple(ty: &CqlType, types: &[CqlType], text: &str, now_ms: i64) -> Result<Bytes, InvalidValue> {
    if text.is_empty() {
        return Ok(Bytes::new());
    }
    let parts = split_at_colons(text);
    if parts.len() > types.len() {
        return Err(InvalidValue(format!(
            "Invalid tuple literal: too many elements. Type {ty} expects {} but got {}",
            types.len(),
            parts.len()
        )));
    }
    let fields = parts.iter().zip(types).map(|(part, ty)| match *part {
        "@" => Ok(None),
        part => parse_inner(ty, &part.replace("\\:", ":").replace("\\@", "@"), now_ms).map(Some),
    });
    Ok(encode_tuple(fields.collect::<Result<Vec<_>, _>>()?))
}

/// A value inside of a tuple or composite. A collection is hexadecimal there.
fn parse_inner(ty: &CqlType, text: &str, now_ms: i64) -> Result<Bytes, InvalidValue> {
    if !ty.is_collection() {
        return ty.parse_text(text, now_ms);
    }
    let value = hex_bytes(text).ok_or_else(|| InvalidValue(format!("cannot parse '{text}' as hex bytes")))?;
    ty.validate(&value)?;
    Ok(value.into())
}

/// What stands between colons that have no backslash before them.
fn split_at_colons(text: &str) -> Vec<&str> {
    let (mut parts, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices(':') {
        let (part, escaped) = (text.get(start..at).unwrap_or_default(), text.get(..at));
        if !escaped.is_some_and(|before| before.ends_with('\\')) {
            parts.push(part);
            start = at + 1;
        }
    }
    parts.push(text.get(start..).unwrap_or_default());
    parts
}

/// Bytes written as pairs of hexadecimal digits.
pub(super) fn hex_bytes(hex: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = hex.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    let digit = |b: u8| (b as char).to_digit(16);
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8)).collect()
}

/// Whether `text` is made of digits only, at least one.
fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// An optional sign and digits, nothing else.
fn parse_integer(text: &str) -> Option<BigInt> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !is_digits(digits) {
        return None;
    }
    let sign = if text.starts_with('-') { Sign::Minus } else { Sign::Plus };
    Some(BigInt::from_biguint(sign, parse_digits(digits)?))
}

/// Digits that are parsed one by one, which takes time that grows with the square of their number.
const DIGITS_AT_ONCE: usize = 1024;

/// A number of any length: pieces are parsed, and then joined in pairs, so that the time is that of a few
/// products.
fn parse_digits(digits: &str) -> Option<BigUint> {
    if digits.len() <= DIGITS_AT_ONCE {
        return digits.parse().ok();
    }
    // The lowest digits first.
    let pieces = digits.as_bytes().rchunks(DIGITS_AT_ONCE);
    let mut parts: Vec<BigUint> =
        pieces.map(|piece| BigUint::parse_bytes(piece, 10)).collect::<Option<_>>()?;
    let mut base = BigUint::from(10u32).pow(DIGITS_AT_ONCE as u32);
    while parts.len() > 1 {
        let mut rest = parts.into_iter();
        parts = Vec::with_capacity(rest.len().div_ceil(2));
        while let Some(low) = rest.next() {
            parts.push(match rest.next() {
                Some(high) => high * &base + low,
                None => low,
            });
        }
        if parts.len() > 1 {
            base = &base * &base;
        }
    }
    parts.pop()
}

/// `[sign] digits [. digits] [e [sign] digits]`, with digits on at least one side of the point.
fn parse_decimal(text: &str) -> Option<(BigInt, i32)> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => {
            is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)).then_some(())?;
            (number, exponent.parse::<i64>().ok()?)
        }
        None => (text, 0),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let unscaled = parse_integer(&format!("{whole}{fraction}"))?;
    if !fraction.is_empty() && !is_digits(fraction) {
        return None;
    }
    let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    Some((unscaled, i32::try_from(scale).ok()?))
}

/// What Java's `parseDouble` takes, but for hexadecimal numbers.
fn parse_float<F: FromStr>(text: &str) -> Option<F> {
    let text = text.trim_matches(|c| c <= ' ');
    let (sign, magnitude) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.get(..1).unwrap_or_default(), rest),
        None => ("", text),
    };
    match magnitude {
        "NaN" => return "NaN".parse().ok(),
        "Infinity" => return format!("{sign}inf").parse().ok(),
        _ => {}
    }
    let magnitude = magnitude.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(magnitude);
    let allowed = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-');
    (magnitude.starts_with(|c: char| c.is_ascii_digit() || c == '.') && magnitude.bytes().all(allowed))
        .then(|| format!("{sign}{magnitude}").parse().ok())?
}

/// Only the form with hyphens.
fn parse_uuid(text: &str) -> Option<uuid::Uuid> {
    (text.len() == 36).then(|| uuid::Uuid::try_parse(text).ok())?
}

/// IPv4 with one to four numbers, where the last one fills the bytes that are left. IPv6 with or without a
/// scope.
fn parse_inet(text: &str) -> Option<Vec<u8>> {
    if text.contains(':') {
        let address = text.split_once('%').map_or(text, |(address, _)| address);
        let address = Ipv6Addr::from_str(address).ok()?;
        return Some(match address.to_ipv4_mapped() {
            Some(v4) => v4.octets().to_vec(),
            None => address.octets().to_vec(),
        });
    }
    let mut parts = text.split('.').rev();
    let last = parts.next()?;
    let mut head: Vec<&str> = parts.collect();
    head.reverse();
    if head.len() > 3 || !is_digits(last) {
        return None;
    }
    let left = 8 * (4 - head.len() as u32);
    let last: u64 = last.parse().ok()?;
    if last >> left != 0 {
        return None;
    }
    let mut address = last as u32;
    for (i, part) in head.into_iter().enumerate() {
        is_digits(part).then_some(())?;
        address |= u32::from(part.parse::<u8>().ok()?) << (24 - 8 * i as u32);
    }
    Some(Ipv4Addr::from(address).octets().to_vec())
}

#[cfg(test)]
mod tests;
