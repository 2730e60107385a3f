//! Byte-comparable keys: encodings whose order as unsigned bytes is the order of what they encode
//! (CASSANDRA-6936, "byte-comparable"; Cassandra's "OSS50"). The trie indexes of the SSTable format `da` are
//! made of them.
//!
//! ```text
//! decorated key   40 token 40 key 38              token: 8 bytes, sign flipped; key: escaped
//! position        { 40 value | 3F | 41 | 3E } end     3F, 41: value without bytes, ascending or descending; 3E: null
//! end             20 before, 38 row, 60 after what the prefix covers; 18 static row
//! sequence        { 40 value | 3E } 38            lists, sets, maps, tuples, user types, vectors
//! composite       40 { component } 38             3E before all of them: the name of a static column
//! component       40 value | 3E; 40 end           end: one byte, sign flipped
//!                                                 dynamic: before it 40 class 40 package.class, and before these two
//!                                                 40 ReversedType where it is reversed
//! ```
//! No encoding of a value is a prefix of another one of its type once a byte of 20 to 60 follows, so parts
//! can be put after one another. The bytes of values in descending columns are inverted, the markers are not.
//! Different values have different encodings, but for a null and an empty value inside of a tuple
//! ([`is_exact`]).

use crate::clustering::{BoundKind, ClusteringComparator, Component, Position};
use crate::key::{DecoratedKey, Token};
use crate::types::collection::{elements, tuple_fields, vector_elements};
use crate::types::compare::lexical_uuid;
use crate::types::composite::{Parts, Shape};
use crate::types::{CqlType, MARSHAL, numbers};
use crate::vint;
use num_bigint::Sign;

const NEXT: u8 = 0x40;
const NEXT_EMPTY: u8 = 0x3f;
const NEXT_EMPTY_DESCENDING: u8 = 0x41;
const NEXT_NULL: u8 = 0x3e;
const NEXT_GREATER: u8 = 0x41;
const TERMINATOR: u8 = 0x38;
const BEFORE: u8 = 0x20;
const AFTER: u8 = 0x60;
const STATIC: u8 = 0x18;

/// Varints of at least so many significant bytes have an explicit length.
const VARINT_FULL_LEN: usize = 7;

/// What the encoding of a partition's key begins with: all of it that is made of the token.
fn key_head(token: Token) -> [u8; 10] {
    let mut head = [NEXT; 10];
    if let Some(bytes) = head.get_mut(1..9) {
        bytes.copy_from_slice(&(token.0 ^ i64::MIN).to_be_bytes());
    }
    head
}

/// The encoding of a partition's key, byte by byte. Only who takes more than the token's bytes pays for the
/// others.
pub fn key_bytes(key: &DecoratedKey) -> impl Iterator<Item = u8> + '_ {
    let (head, mut whole) = (key_head(key.token), Vec::new());
    (0..).map_while(move |at| {
        if let Some(byte) = head.get(at) {
            return Some(*byte);
        }
        if whole.is_empty() {
            encode_key(key, &mut whole);
        }
        whole.get(at).copied()
    })
}

/// Appends the encoding of a partition's key.
pub fn encode_key(key: &DecoratedKey, out: &mut Vec<u8>) {
    out.extend_from_slice(&key_head(key.token));
    escape(&key.key.0, out);
    out.push(TERMINATOR);
}

/// Appends bytes that are less than the encodings of all keys of a token, and greater than those of all keys
/// of lesser tokens.
pub fn encode_token(token: Token, out: &mut Vec<u8>) {
    out.push(NEXT);
    out.extend_from_slice(&(token.0 ^ i64::MIN).to_be_bytes());
    out.push(BEFORE);
}

/// Appends the encoding of a position inside a partition.
pub fn encode_position(comparator: &ClusteringComparator, position: Position<'_>, out: &mut Vec<u8>) {
    for (i, component) in position.prefix.iter().enumerate() {
        let (ty, descending) = comparator.column(i).unwrap_or((&CqlType::Blob, false));
        match component {
            Component::Null => out.push(NEXT_NULL),
            Component::Value(value) => {
                let marker = out.len();
                out.push(NEXT);
                if encode_value(ty, value, out) {
                    if descending {
                        out.iter_mut().skip(marker + 1).for_each(|b| *b = !*b);
                    }
                } else if let Some(byte) = out.get_mut(marker) {
                    *byte = if descending { NEXT_EMPTY_DESCENDING } else { NEXT_EMPTY };
                }
            }
        }
    }
    out.push(match position.kind {
        BoundKind::ExclEnd | BoundKind::InclStart | BoundKind::ExclEndInclStart => BEFORE,
        BoundKind::Static => STATIC,
        BoundKind::Row => TERMINATOR,
        BoundKind::InclEndExclStart | BoundKind::InclEnd | BoundKind::ExclStart => AFTER,
    });
}

/// Whether encodings have the order of the values of the type. Where they may not, a null inside of a tuple
/// has the encoding of an empty value, and rows that differ in nothing else cannot be told apart.
pub fn is_exact(ty: &CqlType) -> bool {
    let is_exact_field = |ty: &CqlType| (encodes_empty(ty) || !ty.allows_empty()) && is_exact(ty);
    match ty {
        CqlType::Tuple(types) => types.iter().all(is_exact_field),
        CqlType::Udt { definition, .. } => definition.fields.iter().all(|(_, ty)| is_exact_field(ty)),
        CqlType::List { element, .. } | CqlType::Set { element, .. } | CqlType::Vector { element, .. } => {
            is_exact(element)
        }
        CqlType::Map { key, value, .. } => is_exact(key) && is_exact(value),
        CqlType::Composite(components) => components.iter().all(|component| is_exact(&component.ty)),
        CqlType::DynamicComposite(_) => false,
        _ => true,
    }
}

/// Whether a value without bytes has an encoding; if not, the sequence around it has a marker.
fn encodes_empty(ty: &CqlType) -> bool {
    matches!(
        ty,
        CqlType::Ascii
            | CqlType::Blob
            | CqlType::Custom(_)
            | CqlType::Duration
            | CqlType::DynamicComposite(_)
            | CqlType::Inet
            | CqlType::Text
    )
}

/// Appends the encoding of a value. False, with nothing appended, for a value without bytes of a type that
/// encodes those as a marker of the sequence around it.
///
/// Bytes that are no value of the type are escaped like a blob; such values have no order to keep.
pub fn encode_value(ty: &CqlType, value: &[u8], out: &mut Vec<u8>) -> bool {
    if value.is_empty() && !encodes_empty(ty) {
        return false;
    }
    match ty {
        CqlType::Int | CqlType::Timestamp | CqlType::SmallInt | CqlType::TinyInt => {
            out.extend(value.iter().enumerate().map(|(i, b)| if i == 0 { b ^ 0x80 } else { *b }));
        }
        CqlType::Date | CqlType::Time => out.extend_from_slice(value),
        CqlType::BigInt | CqlType::Counter => match value.as_array() {
            Some(bytes) => encode_signed(i64::from_be_bytes(*bytes), out),
            None => escape(value, out),
        },
        CqlType::Float | CqlType::Double => {
            // Every NaN is one and the last value. (Cassandra keeps their bits here: one with a sign comes
            // first, in spite of the order of its own rows.)
            let value = if numbers::is_nan(value) { numbers::java_nan(value.len()) } else { value };
            let negative = value.first().is_some_and(|b| b & 0x80 != 0);
            let flip = |(i, b): (usize, &u8)| match (negative, i) {
                (true, _) => !b,
                (false, 0) => b | 0x80,
                (false, _) => *b,
            };
            out.extend(value.iter().enumerate().map(flip));
        }
        CqlType::Boolean => out.push(u8::from(value != [0])),
        CqlType::Uuid => match value.as_array() {
            Some(bytes) => encode_uuid(u128::from_be_bytes(*bytes), out),
            None => escape(value, out),
        },
        CqlType::LexicalUuid => match lexical_uuid(value) {
            Some(number) => out.extend_from_slice(&number.to_be_bytes()),
            None => escape(value, out),
        },
        CqlType::TimeUuid => match value.as_array() {
            Some(bytes) => {
                let uuid = u128::from_be_bytes(*bytes);
                out.extend_from_slice(&uuid_time((uuid >> 64) as u64).to_be_bytes());
                out.extend_from_slice(&(uuid as u64 ^ 0x8080_8080_8080_8080).to_be_bytes());
            }
            None => escape(value, out),
        },
        CqlType::Varint => encode_varint(value, out),
        CqlType::Decimal => encode_decimal(value, out),
        CqlType::List { element, .. } | CqlType::Set { element, .. } => {
            encode_sequence(elements(value).map(|v| (element.as_ref(), v)), out);
        }
        CqlType::Map { key, value: of_value, .. } => {
            let types = [key.as_ref(), of_value.as_ref()].into_iter().cycle();
            encode_sequence(types.zip(map_parts(value)), out);
        }
        CqlType::Tuple(types) => encode_tuple(types.iter(), value, out),
        CqlType::Udt { definition, .. } => encode_tuple(definition.fields.iter().map(|(_, t)| t), value, out),
        CqlType::Vector { element, dimension } => {
            let parts = vector_elements(element, *dimension, value);
            encode_sequence(parts.map(|v| (element.as_ref(), Some(v))), out);
        }
        CqlType::Composite(types) => encode_composite(Parts::new(Shape::Static(types), value), out),
        CqlType::DynamicComposite(aliases) => {
            encode_composite(Parts::new(Shape::Dynamic(aliases), value), out);
        }
        CqlType::Ascii
        | CqlType::Blob
        | CqlType::Custom(_)
        | CqlType::Duration
        | CqlType::Empty
        | CqlType::Inet
        | CqlType::Text => escape(value, out),
    }
    true
}

/// Zero bytes are followed by FE for another zero and by FF before other bytes, so that 00 can end the text.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    let mut in_zeros = false;
    for byte in bytes {
        match (in_zeros, *byte) {
            (true, 0) => out.push(0xfe),
            (true, other) => {
                out.extend([0xff, other]);
                in_zeros = false;
            }
            (false, other) => {
                out.push(other);
                in_zeros = other == 0;
            }
        }
    }
    out.push(if in_zeros { 0xfe } else { 0 });
}

/// Shorter numbers first: the bits behind the sign say how many bytes follow; negative numbers are inverted.
fn encode_signed(value: i64, out: &mut Vec<u8>) {
    let magnitude = (value ^ (value >> 63)) as u64;
    let flip = if value < 0 { 0xff } else { 0 };
    let bits = 64 - (magnitude | 1).leading_zeros() as usize;
    let len = bits / 7 + 1;
    let bytes = match len {
        1..=8 => magnitude | !(u64::MAX >> len) >> (64 - 8 * len),
        _ => {
            out.push(0xff ^ flip);
            magnitude | 1 << 63
        }
    };
    out.extend(bytes.to_be_bytes().iter().skip(8 - len.min(8)).map(|b| b ^ flip));
}

/// The version and the timestamp of a UUID, most significant bits first.
fn uuid_time(msb: u64) -> u64 {
    (msb << 48) | ((msb << 16) & 0x0000_ffff_0000_0000) | (msb >> 32)
}

fn encode_uuid(uuid: u128, out: &mut Vec<u8>) {
    let msb = (uuid >> 64) as u64;
    let version = (msb >> 12) & 15;
    let head = match version {
        1 => uuid_time(msb),
        _ => (version << 60) | ((msb >> 4) & 0x0fff_ffff_ffff_f000) | (msb & 0xfff),
    };
    out.extend_from_slice(&head.to_be_bytes());
    out.extend_from_slice(&(uuid as u64).to_be_bytes());
}

fn encode_varint(value: &[u8], out: &mut Vec<u8>) {
    let sign = match value.first() {
        Some(b) if b & 0x80 != 0 => 0xff,
        _ => 0,
    };
    // The last byte is significant even when it looks like the sign.
    let redundant = value.iter().take(value.len().saturating_sub(1)).take_while(|b| **b == sign).count();
    let significant = value.get(redundant..).unwrap_or_default();
    if significant.len() < VARINT_FULL_LEN {
        let start = if sign == 0 { 0 } else { -1i64 };
        encode_signed(significant.iter().fold(start, |n, b| n << 8 | i64::from(*b)), out);
        return;
    }
    out.push(!sign);
    let length_at = out.len();
    vint::write_unsigned(out, (significant.len() - VARINT_FULL_LEN) as u64);
    out.iter_mut().skip(length_at).for_each(|b| *b ^= sign);
    out.extend_from_slice(significant);
}

/// Sign and exponent to base 100, then two decimal digits a byte. The mantissa is below one and its digits of
/// a negative number are those of its complement, so that smaller numbers have smaller bytes.
fn encode_decimal(value: &[u8], out: &mut Vec<u8>) {
    let number = numbers::decode_decimal(value).filter(|_| value.len() > size_of::<i32>());
    let Some((unscaled, scale)) = number else {
        // A scale without digits is no number: before all of them.
        out.push(0);
        return escape(value, out);
    };
    let negative = match unscaled.sign() {
        Sign::NoSign => return out.push(0x80),
        sign => sign == Sign::Minus,
    };
    let text = unscaled.magnitude().to_string();
    let digits = text.trim_end_matches('0');
    // Position of the point before the first digit, as a power of ten; rounded up to a power of a hundred.
    let point = text.len() as i64 - i64::from(scale);
    let exponent = (point + 1).div_euclid(2);
    let pad = if point.rem_euclid(2) == 1 { "0" } else { "" };
    let modulated = if negative { -exponent } else { exponent };
    let len = (64 - modulated.unsigned_abs().leading_zeros()).div_ceil(8) as usize;
    let signed_len = if modulated < 0 { -(len as i8) } else { len as i8 };
    out.push((0x40 + signed_len) as u8 | if negative { 0 } else { 0x80 });
    out.extend(modulated.to_be_bytes().iter().skip(8 - len));
    let mut pending = pad.bytes().chain(digits.bytes()).map(|b| b - b'0').peekable();
    let mut first = true;
    while let Some(tens) = pending.next() {
        let pair = (tens * 10 + pending.next().unwrap_or(0)) as i32;
        let is_last = pending.peek().is_none();
        let digit = match (negative, first, is_last) {
            (false, ..) => pair,
            (true, true, true) => -pair,
            (true, true, false) => -pair - 1,
            (true, false, true) => 100 - pair,
            (true, false, false) => 99 - pair,
        };
        out.push((digit + 0x80) as u8);
        first = false;
    }
    out.push(0);
}

fn encode_sequence<'t, 'v>(parts: impl Iterator<Item = (&'t CqlType, Option<&'v [u8]>)>, out: &mut Vec<u8>) {
    for (ty, part) in parts {
        let marker = out.len();
        out.push(NEXT);
        if !part.is_some_and(|value| encode_value(ty, value, out))
            && let Some(byte) = out.get_mut(marker)
        {
            *byte = NEXT_NULL;
        }
    }
    out.push(TERMINATOR);
}

/// An empty value of a reversed component is marked as the last one, which it is. (Cassandra marks it as the
/// first one.)
fn encode_composite(mut parts: Parts<'_, '_>, out: &mut Vec<u8>) {
    out.push(if parts.is_static() { NEXT_NULL } else { NEXT });
    while let Some(part) = parts.next() {
        let Ok(part) = part else {
            // No component: behind those that are.
            out.push(NEXT_GREATER);
            escape(parts.rest(), out);
            break;
        };
        if part.named.is_some() {
            let (outer, class) = part.component.class_names();
            let package = format!("{MARSHAL}{class}");
            for name in outer.into_iter().chain([class, package.as_str()]) {
                out.push(NEXT);
                escape(name.as_bytes(), out);
            }
        }
        let marker = out.len();
        out.push(NEXT);
        if !part.component.encode(part.value, out)
            && let Some(byte) = out.get_mut(marker)
        {
            *byte = if part.component.reversed { NEXT_GREATER } else { NEXT_NULL };
        }
        out.extend([NEXT, part.end as u8 ^ 0x80]);
    }
    out.push(TERMINATOR);
}

/// The keys and values of a map in turn.
fn map_parts(value: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    crate::types::collection::pairs(value).flat_map(|(key, value)| [Some(key), Some(value)])
}

/// Trailing nulls are left out: a shorter value equals one that ends in nulls.
fn encode_tuple<'t>(types: impl Iterator<Item = &'t CqlType> + Clone, value: &[u8], out: &mut Vec<u8>) {
    let present = types.clone().zip(tuple_fields(value)).enumerate();
    let len = present.filter(|(_, (_, field))| field.is_some()).last().map_or(0, |(i, _)| i + 1);
    encode_sequence(types.zip(tuple_fields(value)).take(len), out);
}

#[cfg(test)]
mod tests;
