//! Numbers of every CQL type, taken apart and put together.

use bytes::Bytes;
use model::types::CqlType;
use model::types::numbers::{decode_decimal, encode_decimal, write_double, write_float};
use num_bigint::BigInt;

/// A number in one of the four ways in which arithmetic is done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    /// `tinyint`, `smallint`, `int`, `bigint`, `counter`.
    Integer(i64),
    /// `varint`.
    Big(BigInt),
    /// `float`: arithmetic on floats rounds to floats.
    Float(f32),
    /// `double`.
    Double(f64),
    /// `decimal`: unscaled value and scale.
    Decimal(BigInt, i32),
}

/// Two's complement bytes of one to eight, as an integer.
pub(super) fn decode_integer(bytes: &[u8]) -> Option<i64> {
    let first = *bytes.first()?;
    if bytes.len() > 8 {
        return None;
    }
    let sign = if first & 0x80 == 0 { 0i64 } else { -1 };
    Some(bytes.iter().fold(sign, |value, byte| (value << 8) | i64::from(*byte)))
}

impl Number {
    /// The number that `bytes` are as a value of `ty`; `None` for an empty value or another type.
    pub(super) fn decode(ty: &CqlType, bytes: &[u8]) -> Option<Number> {
        if bytes.is_empty() {
            return None;
        }
        Some(match ty {
            CqlType::TinyInt | CqlType::SmallInt | CqlType::Int | CqlType::BigInt | CqlType::Counter => {
                Number::Integer(decode_integer(bytes)?)
            }
            CqlType::Varint => Number::Big(BigInt::from_signed_bytes_be(bytes)),
            CqlType::Float => Number::Float(f32::from_be_bytes(*bytes.as_array::<4>()?)),
            CqlType::Double => Number::Double(f64::from_be_bytes(*bytes.as_array::<8>()?)),
            CqlType::Decimal => {
                let (unscaled, scale) = decode_decimal(bytes)?;
                Number::Decimal(unscaled, scale)
            }
            _ => return None,
        })
    }

    /// The number as a value of `ty`, as Java casts: integers lose their high bits, floating point numbers
    /// are cut and held within bounds.
    pub(super) fn encode(&self, ty: &CqlType) -> Option<Bytes> {
        let out: Vec<u8> = match ty {
            CqlType::TinyInt => (self.to_i64() as i8).to_be_bytes().to_vec(),
            CqlType::SmallInt => (self.to_i64() as i16).to_be_bytes().to_vec(),
            CqlType::Int => match self {
                Number::Float(v) => (*v as i32).to_be_bytes().to_vec(),
                Number::Double(v) => (*v as i32).to_be_bytes().to_vec(),
                other => (other.to_i64() as i32).to_be_bytes().to_vec(),
            },
            CqlType::BigInt | CqlType::Counter => self.to_i64().to_be_bytes().to_vec(),
            CqlType::Varint => self.to_big().to_signed_bytes_be(),
            CqlType::Float => self.to_f32().to_be_bytes().to_vec(),
            CqlType::Double => self.to_f64().to_be_bytes().to_vec(),
            CqlType::Decimal => {
                let (unscaled, scale) = self.to_decimal()?;
                encode_decimal(&unscaled, scale)
            }
            _ => return None,
        };
        Some(out.into())
    }

    /// The number as an operand of arithmetic in `target`'s kind. For decimals it goes by way of a double. So
    /// `2` is `2.0`, and a float has all its digits, as in Cassandra's `DecimalType.toBigDecimal`. `None` for
    /// NaN and infinities.
    pub(super) fn convert(self, target: &CqlType) -> Option<Number> {
        Some(match target {
            CqlType::TinyInt | CqlType::SmallInt | CqlType::Int | CqlType::BigInt | CqlType::Counter => {
                Number::Integer(self.to_i64())
            }
            CqlType::Varint => Number::Big(self.to_big()),
            CqlType::Float => Number::Float(self.to_f32()),
            CqlType::Double => Number::Double(self.to_f64()),
            CqlType::Decimal => {
                let (unscaled, scale) = match self {
                    Number::Integer(_) | Number::Float(_) => Number::Double(self.to_f64()).to_decimal()?,
                    Number::Big(_) | Number::Double(_) | Number::Decimal(..) => self.to_decimal()?,
                };
                Number::Decimal(unscaled, scale)
            }
            _ => return None,
        })
    }

    pub(super) fn to_i64(&self) -> i64 {
        match self {
            Number::Integer(v) => *v,
            Number::Big(v) => low_bits(v),
            Number::Float(v) => *v as i64,
            Number::Double(v) => *v as i64,
            Number::Decimal(unscaled, scale) => low_bits(&super::decimal::truncate(unscaled, *scale)),
        }
    }

    pub(super) fn to_big(&self) -> BigInt {
        match self {
            Number::Integer(v) => BigInt::from(*v),
            Number::Big(v) => v.clone(),
            // By way of a `bigint`, as Java's `longValue`.
            Number::Float(_) | Number::Double(_) => BigInt::from(self.to_i64()),
            Number::Decimal(unscaled, scale) => super::decimal::truncate(unscaled, *scale),
        }
    }

    pub(super) fn to_f64(&self) -> f64 {
        match self {
            Number::Integer(v) => *v as f64,
            Number::Big(v) => v.to_string().parse().unwrap_or(f64::NAN),
            Number::Float(v) => f64::from(*v),
            Number::Double(v) => *v,
            Number::Decimal(unscaled, scale) => {
                format!("{unscaled}e{}", -i64::from(*scale)).parse().unwrap_or(f64::NAN)
            }
        }
    }

    pub(super) fn to_f32(&self) -> f32 {
        match self {
            Number::Integer(v) => *v as f32,
            Number::Big(v) => v.to_string().parse().unwrap_or(f32::NAN),
            Number::Float(v) => *v,
            Number::Double(v) => *v as f32,
            Number::Decimal(unscaled, scale) => {
                format!("{unscaled}e{}", -i64::from(*scale)).parse().unwrap_or(f32::NAN)
            }
        }
    }

    /// Floating point numbers by their shortest text, as `BigDecimal.valueOf` does; `None` for NaN and
    /// infinities.
    pub(super) fn to_decimal(&self) -> Option<(BigInt, i32)> {
        match self {
            Number::Integer(v) => Some((BigInt::from(*v), 0)),
            Number::Big(v) => Some((v.clone(), 0)),
            Number::Decimal(unscaled, scale) => Some((unscaled.clone(), *scale)),
            Number::Float(v) => {
                let mut text = String::new();
                write_float(&mut text, *v);
                parse_decimal(&text)
            }
            Number::Double(v) => {
                let mut text = String::new();
                write_double(&mut text, *v);
                parse_decimal(&text)
            }
        }
    }
}

fn parse_decimal(text: &str) -> Option<(BigInt, i32)> {
    decode_decimal(&CqlType::Decimal.parse_text(text, 0).ok()?)
}

/// The low 64 bits in two's complement, as `BigInteger.longValue`.
fn low_bits(value: &BigInt) -> i64 {
    let bytes = value.to_signed_bytes_be();
    let low = bytes.get(bytes.len().saturating_sub(8)..).unwrap_or_default();
    decode_integer(low).unwrap_or(0)
}
