//! The order of values: what clustering columns, collections and range restrictions sort by.
//!
//! An empty value sorts before every other one. Bytes that are no value of the type (they can come from
//! damaged files only, since writes are validated) still have a total order: by their bytes.

use super::CqlType;
use super::collection::{next_element, vector_elements};
use super::composite::{self, Shape};
use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

impl CqlType {
    /// Compares two values of this type.
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        if a.is_empty() || b.is_empty() {
            return a.len().cmp(&b.len());
        }
        match self {
            CqlType::Int
            | CqlType::BigInt
            | CqlType::Counter
            | CqlType::SmallInt
            | CqlType::TinyInt
            | CqlType::Timestamp => signed_big_endian(a, b),
            CqlType::Float => match (a.as_array::<4>(), b.as_array::<4>()) {
                (Some(a), Some(b)) => {
                    java_total_order_f64(f32::from_be_bytes(*a) as f64, f32::from_be_bytes(*b) as f64)
                }
                _ => a.cmp(b),
            },
            CqlType::Double => match (a.as_array::<8>(), b.as_array::<8>()) {
                (Some(a), Some(b)) => java_total_order_f64(f64::from_be_bytes(*a), f64::from_be_bytes(*b)),
                _ => a.cmp(b),
            },
            CqlType::Varint => BigInt::from_signed_bytes_be(a).cmp(&BigInt::from_signed_bytes_be(b)),
            CqlType::Decimal => compare_decimals(a, b),
            CqlType::Uuid => compare_uuids(a, b),
            CqlType::LexicalUuid => match (lexical_uuid(a), lexical_uuid(b)) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a.cmp(b),
            },
            CqlType::TimeUuid => compare_time_uuids(a, b),
            CqlType::List { element, .. } => compare_sequences(element, a, b),
            CqlType::Set { element, .. } => compare_sequences(element, a, b),
            CqlType::Map { key, value, .. } => compare_maps(key, value, a, b),
            CqlType::Tuple(types) => compare_tuples(types.iter(), a, b),
            CqlType::Udt { definition, .. } => compare_tuples(definition.fields.iter().map(|(_, t)| t), a, b),
            CqlType::Vector { element, dimension } => compare_vectors(element, *dimension, a, b),
            CqlType::Composite(types) => composite::compare(Shape::Static(types), a, b),
            CqlType::DynamicComposite(aliases) => composite::compare(Shape::Dynamic(aliases), a, b),
            // Whatever is not zero is true.
            CqlType::Boolean => (a != [0]).cmp(&(b != [0])),
            CqlType::Ascii
            | CqlType::Blob
            | CqlType::Custom(_)
            | CqlType::Date
            | CqlType::Duration
            | CqlType::Empty
            | CqlType::Inet
            | CqlType::Text
            | CqlType::Time => a.cmp(b),
        }
    }
}

/// Two's complement numbers of equal width; the sign is in the first byte.
#[inline]
fn signed_big_endian(a: &[u8], b: &[u8]) -> Ordering {
    if let (Some(a), Some(b)) = (a.as_array::<8>(), b.as_array::<8>()) {
        return i64::from_be_bytes(*a).cmp(&i64::from_be_bytes(*b));
    }
    let sign = |v: &[u8]| v.first().map_or(0, |x| *x as i8);
    (sign(a) >= 0).cmp(&(sign(b) >= 0)).then_with(|| a.len().cmp(&b.len())).then_with(|| a.cmp(b))
}

/// `Double.compare`: -0.0 before 0.0, every NaN equal and after everything.
fn java_total_order_f64(a: f64, b: f64) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => a.total_cmp(&b),
    }
}

/// By UUID version, then by time for version 1, else by bytes (Cassandra's UUIDType).
fn compare_uuids(a: &[u8], b: &[u8]) -> Ordering {
    let (Some(x), Some(y)) = (a.as_array::<16>(), b.as_array::<16>()) else { return a.cmp(b) };
    let (version_a, version_b) = (x[6] >> 4, y[6] >> 4);
    if version_a != version_b {
        return version_a.cmp(&version_b);
    }
    if version_a == 1 {
        let order = uuid_time(x).cmp(&uuid_time(y));
        if order != Ordering::Equal {
            return order;
        }
    }
    x.cmp(y)
}

/// A number in the order of Java's `UUID.compareTo`, which takes both halves for numbers with signs.
pub(crate) fn lexical_uuid(value: &[u8]) -> Option<u128> {
    Some(u128::from_be_bytes(*value.as_array()?) ^ (1 << 127 | 1 << 63))
}

/// By time, then by the low half as signed bytes (Cassandra's TimeUUIDType).
fn compare_time_uuids(a: &[u8], b: &[u8]) -> Ordering {
    let (Some(x), Some(y)) = (a.as_array::<16>(), b.as_array::<16>()) else { return a.cmp(b) };
    uuid_time(x).cmp(&uuid_time(y)).then_with(|| {
        let low = |v: &[u8; 16]| u128::from_be_bytes(*v) as u64 ^ 0x8080_8080_8080_8080;
        low(x).cmp(&low(y))
    })
}

/// The version nibble and the timestamp of a UUID, most significant bits first.
fn uuid_time(bytes: &[u8; 16]) -> u64 {
    let msb = (u128::from_be_bytes(*bytes) >> 64) as u64;
    (msb << 48) | ((msb << 16) & 0x0000_ffff_0000_0000) | (msb >> 32)
}

fn count_prefix(input: &mut &[u8]) -> i32 {
    match input.split_first_chunk::<4>() {
        Some((head, rest)) => {
            *input = rest;
            i32::from_be_bytes(*head)
        }
        None => 0,
    }
}

fn compare_optional(ty: &CqlType, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
        (Some(a), Some(b)) => ty.compare(a, b),
    }
}

fn compare_sequences(element: &CqlType, mut a: &[u8], mut b: &[u8]) -> Ordering {
    let (size_a, size_b) = (count_prefix(&mut a), count_prefix(&mut b));
    for _ in 0..size_a.min(size_b) {
        let (Some(x), Some(y)) = (next_element(&mut a), next_element(&mut b)) else { return a.cmp(b) };
        let order = compare_optional(element, x, y);
        if order != Ordering::Equal {
            return order;
        }
    }
    size_a.cmp(&size_b)
}

fn compare_maps(key: &CqlType, value: &CqlType, mut a: &[u8], mut b: &[u8]) -> Ordering {
    let (size_a, size_b) = (count_prefix(&mut a), count_prefix(&mut b));
    for _ in 0..size_a.min(size_b) {
        for ty in [key, value] {
            let (Some(x), Some(y)) = (next_element(&mut a), next_element(&mut b)) else { return a.cmp(b) };
            let order = compare_optional(ty, x, y);
            if order != Ordering::Equal {
                return order;
            }
        }
    }
    size_a.cmp(&size_b)
}

/// Field by field; a value with fewer fields equals one whose further fields are all null.
fn compare_tuples<'t>(types: impl Iterator<Item = &'t CqlType>, mut a: &[u8], mut b: &[u8]) -> Ordering {
    for ty in types {
        if a.is_empty() && b.is_empty() {
            return Ordering::Equal;
        }
        let x = next_element(&mut a).unwrap_or(None);
        let y = next_element(&mut b).unwrap_or(None);
        let order = compare_optional(ty, x, y);
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn compare_vectors(element: &CqlType, dimension: u32, a: &[u8], b: &[u8]) -> Ordering {
    let (mut x, mut y) = (vector_elements(element, dimension, a), vector_elements(element, dimension, b));
    loop {
        let order = match (x.next(), y.next()) {
            (Some(x), Some(y)) => element.compare(x, y),
            (None, None) => return Ordering::Equal,
            // Cut short: the shorter one first.
            (x, _) => return if x.is_none() { Ordering::Less } else { Ordering::Greater },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// `i32 scale, two's complement unscaled value`, compared by the number they stand for.
fn compare_decimals(a: &[u8], b: &[u8]) -> Ordering {
    let parse = |v: &[u8]| -> Option<(i32, BigInt)> {
        let (scale, digits) = v.split_first_chunk::<4>()?;
        (!digits.is_empty()).then(|| (i32::from_be_bytes(*scale), BigInt::from_signed_bytes_be(digits)))
    };
    let ((scale_a, a), (scale_b, b)) = match (parse(a), parse(b)) {
        (Some(a), Some(b)) => (a, b),
        // A scale without digits is no number: before all of them.
        (None, None) => return a.cmp(b),
        (a, b) => return a.is_some().cmp(&b.is_some()),
    };
    let rank = |v: &BigInt| match v.sign() {
        Sign::Minus => -1,
        Sign::NoSign => 0,
        Sign::Plus => 1,
    };
    if rank(&a) != rank(&b) || rank(&a) == 0 {
        return rank(&a).cmp(&rank(&b));
    }
    let order = compare_magnitudes(&a.magnitude().to_string(), scale_a, &b.magnitude().to_string(), scale_b);
    if rank(&a) < 0 { order.reverse() } else { order }
}

/// Compares positive decimals by the position of their first digit, then digit by digit, so that a huge scale
/// costs no huge number.
fn compare_magnitudes(a: &str, scale_a: i32, b: &str, scale_b: i32) -> Ordering {
    let exponent = |digits: &str, scale: i32| digits.len() as i64 - scale as i64;
    exponent(a, scale_a)
        .cmp(&exponent(b, scale_b))
        .then_with(|| a.trim_end_matches('0').cmp(b.trim_end_matches('0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(scale: i32, unscaled: i64) -> Vec<u8> {
        let mut out = scale.to_be_bytes().to_vec();
        out.extend(BigInt::from(unscaled).to_signed_bytes_be());
        out
    }

    #[test]
    fn integers_order_by_value() {
        for ty in [CqlType::Int, CqlType::BigInt] {
            let encode = |v: i64| match ty {
                CqlType::Int => (v as i32).to_be_bytes().to_vec(),
                _ => v.to_be_bytes().to_vec(),
            };
            let values = [-70000i64, -1, 0, 1, 70000];
            for (i, x) in values.iter().enumerate() {
                for (j, y) in values.iter().enumerate() {
                    assert_eq!(ty.compare(&encode(*x), &encode(*y)), i.cmp(&j));
                }
            }
        }
        assert_eq!(CqlType::Int.compare(b"", &0i32.to_be_bytes()), Ordering::Less);
    }

    #[test]
    fn decimals_order_by_number_not_by_form() {
        let without_digits = i32::MIN.to_be_bytes();
        for number in [decimal(0, -1), decimal(i32::MAX, 0), decimal(i32::MIN, 5)] {
            assert_eq!(CqlType::Decimal.compare(&without_digits, &number), Ordering::Less);
            assert_eq!(CqlType::Decimal.compare(&number, &without_digits), Ordering::Greater);
        }
        let cmp = |a: &[u8], b: &[u8]| CqlType::Decimal.compare(a, b);
        assert_eq!(cmp(&decimal(1, 10), &decimal(0, 1)), Ordering::Equal);
        assert_eq!(cmp(&decimal(2, 101), &decimal(0, 1)), Ordering::Greater);
        assert_eq!(cmp(&decimal(i32::MAX, 5), &decimal(i32::MIN, 5)), Ordering::Less);
        assert_eq!(cmp(&decimal(0, -2), &decimal(0, -1)), Ordering::Less);
        assert_eq!(cmp(&decimal(0, -2), &decimal(9, 0)), Ordering::Less);
    }

    #[test]
    fn doubles_put_nan_last_and_negative_zero_first() {
        let e = |v: f64| v.to_be_bytes();
        assert_eq!(CqlType::Double.compare(&e(f64::NAN), &e(f64::INFINITY)), Ordering::Greater);
        assert_eq!(CqlType::Double.compare(&e(-0.0), &e(0.0)), Ordering::Less);
    }

    #[test]
    fn time_uuids_order_by_time() {
        let early = *uuid::uuid!("00000001-0000-1000-8080-808080808080").as_bytes();
        let late = *uuid::uuid!("00000000-0001-1000-8080-808080808080").as_bytes();
        assert_eq!(CqlType::TimeUuid.compare(&early, &late), Ordering::Less);
        assert_eq!(CqlType::Uuid.compare(&early, &late), Ordering::Less);
        let random = *uuid::uuid!("00000000-0000-4000-8080-808080808080").as_bytes();
        assert_eq!(CqlType::Uuid.compare(&late, &random), Ordering::Less);
    }
}
