//! `abs`, `exp`, `log`, `log10`, `round`.

use super::decimal;
use super::number::Number;
use crate::error::{Result, bail};
use bytes::Bytes;
use model::types::CqlType;
use num_bigint::{BigInt, Sign};

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Math {
    Abs,
    Exp,
    Log,
    Log10,
    Round,
}

/// The functions and their names.
pub(super) const ALL: [(&str, Math); 5] = [
    ("abs", Math::Abs),
    ("exp", Math::Exp),
    ("log", Math::Log),
    ("log10", Math::Log10),
    ("round", Math::Round),
];

/// The value, of the same type as the argument.
pub(super) fn call(function: Math, ty: &CqlType, value: &[u8]) -> Result<Option<Bytes>> {
    let Some(number) = Number::decode(ty, value) else { return Ok(None) };
    let result = match (function, number) {
        (Math::Abs, Number::Integer(v)) => Number::Integer(v.wrapping_abs()),
        (Math::Abs, Number::Big(v)) => Number::Big(BigInt::from(v.magnitude().clone())),
        (Math::Abs, Number::Float(v)) => Number::Float(v.abs()),
        (Math::Abs, Number::Double(v)) => Number::Double(v.abs()),
        (Math::Abs, Number::Decimal(v, scale)) => Number::Decimal(BigInt::from(v.magnitude().clone()), scale),
        (Math::Round, Number::Float(v)) => Number::Float(java_round(f64::from(v)) as i32 as f32),
        (Math::Round, Number::Double(v)) => Number::Double(java_round(v) as i64 as f64),
        (Math::Round, Number::Decimal(v, scale)) => {
            let (unscaled, scale) = decimal::round((&v, scale));
            Number::Decimal(unscaled, scale)
        }
        (Math::Round, whole) => whole,
        (function, number @ (Number::Big(_) | Number::Decimal(..))) => {
            return wide(function, &number, ty);
        }
        (Math::Exp, number) => Number::Double(number.to_f64().exp()),
        (Math::Log, number) => Number::Double(number.to_f64().ln()),
        (Math::Log10, number) => Number::Double(number.to_f64().log10()),
    };
    Ok(result.encode(ty))
}

/// `Math.round`: half goes up.
fn java_round(v: f64) -> f64 {
    let floor = v.floor();
    if v - floor >= 0.5 { floor + 1.0 } else { floor }
}

/// Exponentials and logarithms of numbers that need more than 64 bits: computed to as many digits as
/// Cassandra gives.
fn wide(function: Math, number: &Number, ty: &CqlType) -> Result<Option<Bytes>> {
    let Some((unscaled, scale)) = number.to_decimal() else { return Ok(None) };
    if let Some(whole) = exact(function, &unscaled, scale) {
        return Ok(Number::Decimal(BigInt::from(whole), 0).encode(ty));
    }
    let fixed = Fixed::of(&unscaled, scale);
    let result = match function {
        Math::Exp => fixed.and_then(exp),
        Math::Log | Math::Log10 if unscaled.sign() != Sign::Plus => {
            bail!("Illegal log(x) for x <= 0: x = {}", ty_text(ty, number))
        }
        Math::Log => fixed.map(ln),
        _ => fixed.map(|x| Fixed(ln(x).0 * one() / ln(Fixed(one() * 10)).0)),
    };
    match result {
        Some(value) => {
            let (unscaled, scale) = value.to_decimal();
            Ok(Number::Decimal(unscaled, scale).encode(ty))
        }
        None => bail!("Overflow"),
    }
}

/// A result that Cassandra does not compute, and that has no digits behind its point: the exponential of 0
/// and the logarithm of 1.
fn exact(function: Math, unscaled: &BigInt, scale: i32) -> Option<i64> {
    let is_one = || Fixed::of(unscaled, scale).is_some_and(|x| x.0 == one());
    match function {
        Math::Exp => (unscaled.sign() == Sign::NoSign).then_some(1),
        Math::Log => is_one().then_some(0),
        Math::Abs | Math::Log10 | Math::Round => None,
    }
}

fn ty_text(ty: &CqlType, number: &Number) -> String {
    number.encode(ty).map(|bytes| ty.to_text(&bytes)).unwrap_or_default()
}

/// Digits behind the point of a [`Fixed`].
const FIXED_DIGITS: u32 = 120;
/// Significant digits of the results.
const PRECISION: usize = 32;
/// The largest exponent: `exp` of more has more digits than anyone asks for.
const EXPONENT_MAX: i64 = 2_000;

/// A number as an integer multiple of 10^-120.
struct Fixed(BigInt);

fn one() -> BigInt {
    BigInt::from(10).pow(FIXED_DIGITS)
}

impl Fixed {
    /// `None` when the number is out of the range in which the functions below keep their precision.
    fn of(unscaled: &BigInt, scale: i32) -> Option<Fixed> {
        let shift = i64::from(FIXED_DIGITS) - i64::from(scale);
        if shift > 2_000 || unscaled.bits() > 20_000 {
            return None;
        }
        if shift < -20_000 {
            return Some(Fixed(BigInt::ZERO));
        }
        let power = BigInt::from(10).pow(shift.unsigned_abs() as u32);
        Some(Fixed(if shift >= 0 { unscaled * power } else { unscaled / power }))
    }

    /// Rounded to [`PRECISION`] digits.
    fn to_decimal(&self) -> (BigInt, i32) {
        let digits = self.0.magnitude().to_string().len();
        let drop = digits.saturating_sub(PRECISION);
        let power = BigInt::from(10).pow(drop as u32);
        let half: BigInt = &power / 2;
        let rounded = if self.0.sign() == Sign::Minus { &self.0 - half } else { &self.0 + half } / power;
        (rounded, FIXED_DIGITS as i32 - drop as i32)
    }
}

/// By halving the argument until the series converges quickly, then squaring the result.
fn exp(x: Fixed) -> Option<Fixed> {
    let one = one();
    let whole: BigInt = &x.0 / &one;
    let whole = i64::try_from(&whole).ok().filter(|v| *v <= EXPONENT_MAX)?;
    if whole < -EXPONENT_MAX {
        return Some(Fixed(BigInt::ZERO));
    }
    let halvings = 64 - whole.unsigned_abs().leading_zeros() + 8;
    let small: BigInt = &x.0 >> halvings;
    let (mut term, mut sum) = (one.clone(), one.clone());
    for n in 1..200 {
        term = term * &small / &one / n;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += &term;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &one;
    }
    Some(Fixed(sum))
}

/// `ln(x)` for positive x: `x = m * 2^e` with m near one, then the series of artanh.
fn ln(x: Fixed) -> Fixed {
    let one = one();
    let exponent = x.0.bits() as i64 - one.bits() as i64;
    let mantissa = if exponent >= 0 { &x.0 >> exponent as u64 } else { &x.0 << exponent.unsigned_abs() };
    Fixed(artanh_ln(&mantissa, &one) + artanh_ln(&(&one * 2), &one) * exponent)
}

/// `ln(m) = 2 artanh((m - 1) / (m + 1))`.
fn artanh_ln(m: &BigInt, one: &BigInt) -> BigInt {
    let ratio: BigInt = (m - one) * one / (m + one);
    let square: BigInt = &ratio * &ratio / one;
    let (mut power, mut sum) = (ratio.clone(), ratio);
    for n in 1..2_000u32 {
        power = power * &square / one;
        if power.sign() == Sign::NoSign {
            break;
        }
        sum += &power / (2 * n + 1);
    }
    sum * 2
}
