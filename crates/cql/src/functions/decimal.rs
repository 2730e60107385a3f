//! Arithmetic on decimals: unscaled integer and scale, as `java.math.BigDecimal`.
//!
//! Scales come from clients and may be huge, so nothing here expands a number by more than [`DIGITS_MAX`]
//! digits.

use num_bigint::{BigInt, Sign};
use std::cmp::Ordering;

/// Digits beyond which the smaller operand of a sum no longer counts, and results are cut.
const DIGITS_MAX: i64 = 10_000;
/// Digits that a quotient has at least.
const QUOTIENT_DIGITS: i64 = 32;
/// Digits behind the point that a quotient has at most.
const QUOTIENT_SCALE_MAX: i64 = 1000;

fn pow10(exponent: u32) -> BigInt {
    BigInt::from(10).pow(exponent)
}

fn digits(value: &BigInt) -> i64 {
    if value.sign() == Sign::NoSign { 1 } else { value.magnitude().to_string().len() as i64 }
}

/// The integer part.
pub(super) fn truncate(unscaled: &BigInt, scale: i32) -> BigInt {
    if scale > 0 {
        if i64::from(scale) > digits(unscaled) { BigInt::ZERO } else { unscaled / pow10(scale as u32) }
    } else {
        unscaled * pow10((-i64::from(scale)).min(DIGITS_MAX) as u32)
    }
}

/// Both numbers at the same scale; `None` when they are so far apart that one does not count.
fn align(a: (&BigInt, i32), b: (&BigInt, i32)) -> Option<(BigInt, BigInt, i32)> {
    let gap = i64::from(a.1) - i64::from(b.1);
    let factor = pow10(u32::try_from(gap.abs()).ok().filter(|g| i64::from(*g) <= DIGITS_MAX)?);
    Some(match gap.cmp(&0) {
        Ordering::Equal => (a.0.clone(), b.0.clone(), a.1),
        Ordering::Greater => (a.0.clone(), b.0 * factor, a.1),
        Ordering::Less => (a.0 * factor, b.0.clone(), b.1),
    })
}

/// The one with the higher first digit of two numbers that are far apart.
fn dominant(a: (&BigInt, i32), b: (&BigInt, i32)) -> (BigInt, i32) {
    let top = |v: (&BigInt, i32)| digits(v.0) - i64::from(v.1);
    let winner =
        if b.0.sign() == Sign::NoSign || (a.0.sign() != Sign::NoSign && top(a) >= top(b)) { a } else { b };
    (winner.0.clone(), winner.1)
}

pub(super) fn add(a: (&BigInt, i32), b: (&BigInt, i32)) -> (BigInt, i32) {
    match align(a, b) {
        Some((x, y, scale)) => (x + y, scale),
        None => dominant(a, b),
    }
}

pub(super) fn subtract(a: (&BigInt, i32), b: (&BigInt, i32)) -> (BigInt, i32) {
    add(a, (&-b.0, b.1))
}

pub(super) fn multiply(a: (&BigInt, i32), b: (&BigInt, i32)) -> Option<(BigInt, i32)> {
    Some((a.0 * b.0, a.1.checked_add(b.1)?))
}

/// The quotient, rounded half up to the digits that Cassandra keeps, without trailing zeros; `None` by zero.
pub(super) fn divide(a: (&BigInt, i32), b: (&BigInt, i32)) -> Option<(BigInt, i32)> {
    if b.0.sign() == Sign::NoSign {
        return None;
    }
    let first_digit = (digits(a.0) - i64::from(a.1)) - (digits(b.0) - i64::from(b.1));
    quotient(a, b, quotient_scale(first_digit, a.1, b.1))
}

/// `a / b` with `scale` digits behind the point, half up, stripped.
fn quotient(a: (&BigInt, i32), b: (&BigInt, i32), scale: i64) -> Option<(BigInt, i32)> {
    // a.0 * 10^-a.1 / (b.0 * 10^-b.1) * 10^scale = a.0 * 10^shift / b.0
    let shift = scale - i64::from(a.1) + i64::from(b.1);
    if shift.abs() > DIGITS_MAX + QUOTIENT_SCALE_MAX {
        return if shift < 0 { Some((BigInt::ZERO, 0)) } else { None };
    }
    let power = pow10(shift.unsigned_abs() as u32);
    let (numerator, denominator) =
        if shift >= 0 { (a.0 * power, b.0.clone()) } else { (a.0.clone(), b.0 * power) };
    Some(strip((divide_half_up(&numerator, &denominator), i32::try_from(scale).ok()?)))
}

fn divide_half_up(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let quotient = numerator / denominator;
    let remainder: BigInt = numerator % denominator;
    if remainder.magnitude() * 2u32 >= *denominator.magnitude() {
        let away =
            if (numerator.sign() == Sign::Minus) == (denominator.sign() == Sign::Minus) { 1 } else { -1 };
        quotient + away
    } else {
        quotient
    }
}

/// The remainder of a division that is cut; `None` by zero or out of bounds. Its scale is that of
/// `java.math.BigDecimal.remainder`: the dividend's, or what its quotient, without trailing zeros, makes of
/// the divisor's.
pub(super) fn remainder(a: (&BigInt, i32), b: (&BigInt, i32)) -> Option<(BigInt, i32)> {
    if b.0.sign() == Sign::NoSign {
        return None;
    }
    let (x, y, scale) = align(a, b)?;
    if x.magnitude() < y.magnitude() {
        return Some((a.0.clone(), a.1));
    }
    if a.1 >= b.1 {
        return Some((x % y, scale));
    }
    let (_, quotient_scale) = strip((&x / &y, 0));
    let wanted = b.1.saturating_add(quotient_scale).max(a.1);
    let surplus = u32::try_from(i64::from(scale) - i64::from(wanted)).ok()?;
    Some((x % y / pow10(surplus), wanted))
}

/// How Java says that `dividend` cannot be divided by zero: the words depend on whether a `long` holds it at
/// the scale of the quotient.
pub(super) fn division_by_zero((dividend, scale): (&BigInt, i32), divisor_scale: i32) -> &'static str {
    let first_digit = (digits(dividend) - i64::from(scale)) - (1 - i64::from(divisor_scale));
    let shift =
        quotient_scale(first_digit, scale, divisor_scale) + i64::from(divisor_scale) - i64::from(scale);
    let is_small = digits(dividend) + shift <= 19
        && i64::try_from(dividend * pow10(u32::try_from(shift).unwrap_or_default())).is_ok();
    if is_small { "/ by zero" } else { "BigInteger divide by zero" }
}

/// Digits behind the point that a quotient is rounded to.
fn quotient_scale(first_digit: i64, a: i32, b: i32) -> i64 {
    let wanted = (QUOTIENT_DIGITS - first_digit).max(i64::from(a)).max(i64::from(b));
    wanted.clamp(QUOTIENT_DIGITS, QUOTIENT_SCALE_MAX)
}

/// Without trailing zeros; zero has scale 0.
pub(super) fn strip((unscaled, scale): (BigInt, i32)) -> (BigInt, i32) {
    if unscaled.sign() == Sign::NoSign {
        return (unscaled, 0);
    }
    let text = unscaled.to_string();
    let zeros = text.len() - text.trim_end_matches('0').len();
    match text.get(..text.len() - zeros).and_then(|t| t.parse().ok()) {
        Some(stripped) => (stripped, scale.saturating_sub(zeros as i32)),
        None => (unscaled, scale),
    }
}

/// Rounded to an integer, half up; negative scales are expanded.
pub(super) fn round((unscaled, scale): (&BigInt, i32)) -> (BigInt, i32) {
    if scale <= 0 {
        return (truncate(unscaled, scale), 0);
    }
    if i64::from(scale) > digits(unscaled) + 1 {
        return (BigInt::ZERO, 0);
    }
    (divide_half_up(unscaled, &pow10(scale as u32)), 0)
}

/// An integer quotient, rounded to the nearest, to the even one of two that are as near.
pub(super) fn divide_half_even(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let quotient = numerator / denominator;
    let remainder: BigInt = numerator % denominator;
    let away = if (numerator.sign() == Sign::Minus) == (denominator.sign() == Sign::Minus) { 1 } else { -1 };
    match (remainder.magnitude() * 2u32).cmp(denominator.magnitude()) {
        Ordering::Less => quotient,
        Ordering::Equal if !quotient.bit(0) => quotient,
        _ => quotient + away,
    }
}
