//! Numbers as Java prints them, because that is what clients of Cassandra see: `Double.toString` in the
//! shortest form that reads back (as of JDK 19), and `BigDecimal.toString`.

use num_bigint::BigInt;
use std::fmt::{LowerExp, Write};

/// `Double.toString`.
pub fn write_double(out: &mut String, value: f64) {
    write_float_like(out, value, value.abs(), value.is_sign_negative(), value.is_nan());
}

/// `Float.toString`.
pub fn write_float(out: &mut String, value: f32) {
    write_float_like(out, value, value.abs().into(), value.is_sign_negative(), value.is_nan());
}

/// Plain digits from 10^-3 up to 10^7, else a power of ten; always at least one digit behind the point.
fn write_float_like<T: LowerExp>(out: &mut String, value: T, magnitude: f64, negative: bool, nan: bool) {
    if nan {
        out.push_str("NaN");
        return;
    }
    if negative {
        out.push('-');
    }
    if magnitude.is_infinite() {
        out.push_str("Infinity");
        return;
    }
    if magnitude == 0.0 {
        out.push_str("0.0");
        return;
    }
    let mut text = format!("{value:e}");
    if !text.contains('.') {
        // Of a single digit Java wants two, the closest ones: 4.9E-324, where one digit alone would be 5.
        text = format!("{value:.1e}");
    }
    let text = text.trim_start_matches('-');
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if !(-3..7).contains(&exponent) {
        out.push_str(mantissa);
        if exponent != 0 {
            let _ = write!(out, "E{exponent}");
        }
        return;
    }
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    // A second digit that is zero was only asked for by the scientific form.
    let digits = match digits.trim_end_matches('0') {
        "" => "0",
        trimmed => trimmed,
    };
    if exponent < 0 {
        out.push_str("0.");
        out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
        out.push_str(digits);
        return;
    }
    let whole = exponent as usize + 1;
    match digits.split_at_checked(whole) {
        Some((head, tail)) if !tail.is_empty() => {
            out.push_str(head);
            out.push('.');
            out.push_str(tail);
        }
        _ => {
            out.push_str(digits);
            out.extend(std::iter::repeat_n('0', whole - digits.len().min(whole)));
            out.push_str(".0");
        }
    }
}

/// `BigDecimal.toString`: plain unless the number is very small or has a negative scale.
pub fn write_decimal(out: &mut String, unscaled: &BigInt, scale: i32) {
    let text = unscaled.to_string();
    if scale == 0 {
        out.push_str(&text);
        return;
    }
    let digits = match text.strip_prefix('-') {
        Some(digits) => {
            out.push('-');
            digits
        }
        None => &text,
    };
    let adjusted = digits.len() as i64 - 1 - i64::from(scale);
    if scale > 0 && adjusted >= -6 {
        match digits.len().checked_sub(scale as usize) {
            Some(whole) if whole > 0 => {
                let (head, tail) = digits.split_at_checked(whole).unwrap_or((digits, ""));
                out.push_str(head);
                out.push('.');
                out.push_str(tail);
            }
            _ => {
                out.push_str("0.");
                out.extend(std::iter::repeat_n('0', scale as usize - digits.len()));
                out.push_str(digits);
            }
        }
        return;
    }
    let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, ""));
    out.push_str(first);
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    if adjusted != 0 {
        let _ = write!(out, "E{adjusted:+}");
    }
}

/// Whether a `float` or `double` is not a number: there are many such values, and all of them are equal.
pub fn is_nan(value: &[u8]) -> bool {
    match value.len() {
        4 => value.first_chunk().is_some_and(|b| f32::from_be_bytes(*b).is_nan()),
        _ => value.as_array().is_some_and(|b| f64::from_be_bytes(*b).is_nan()),
    }
}

/// The NaN of Java (`Float.NaN`, `Double.NaN`), of 4 or 8 bytes.
pub fn java_nan(len: usize) -> &'static [u8] {
    if len == 4 { &[0x7f, 0xc0, 0, 0] } else { &[0x7f, 0xf8, 0, 0, 0, 0, 0, 0] }
}

/// Splits a decimal value into unscaled number and scale; `None` when it is too short.
pub fn decode_decimal(value: &[u8]) -> Option<(BigInt, i32)> {
    let (scale, unscaled) = value.split_first_chunk::<4>()?;
    Some((BigInt::from_signed_bytes_be(unscaled), i32::from_be_bytes(*scale)))
}

/// The value of a decimal.
pub fn encode_decimal(unscaled: &BigInt, scale: i32) -> Vec<u8> {
    let mut out = scale.to_be_bytes().to_vec();
    out.extend(unscaled.to_signed_bytes_be());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_and_floats_look_as_in_java() {
        for (value, text) in [
            (1.5, "1.5"),
            (100.0, "100.0"),
            (1e6, "1000000.0"),
            (1e7, "1.0E7"),
            (1e10, "1.0E10"),
            (123456789.12345679, "1.2345678912345679E8"),
            (0.001, "0.001"),
            (0.002, "0.002"),
            (0.0001, "1.0E-4"),
            (-0.0, "-0.0"),
            (0.0, "0.0"),
            (4.9e-324, "4.9E-324"),
            (2.2250738585072014e-308, "2.2250738585072014E-308"),
            (9007199254740993.0, "9.007199254740992E15"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
            (-1234567.0, "-1234567.0"),
            (0.10, "0.1"),
            (5.0, "5.0"),
            (1e23, "1.0E23"),
        ] {
            let mut out = String::new();
            write_double(&mut out, value);
            assert_eq!(out, text);
        }
        for (value, text) in [(1e10f32, "1.0E10"), (3.4028235e38, "3.4028235E38"), (0.1, "0.1")] {
            let mut out = String::new();
            write_float(&mut out, value);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn decimals_look_as_in_java() {
        for (unscaled, scale, text) in [
            (150, 2, "1.50"),
            (1, -10, "1E+10"),
            (1, 10, "1E-10"),
            (0, 1, "0.0"),
            (0, -10, "0E+10"),
            (100, 0, "100"),
            (1, 7, "1E-7"),
            (1, 6, "0.000001"),
            (-123, 1, "-12.3"),
            (123, -2, "1.23E+4"),
            (-5, 3, "-0.005"),
            (1, -2147483647, "1E+2147483647"),
            (0, 2, "0.00"),
            (12, 8, "1.2E-7"),
        ] {
            let mut out = String::new();
            write_decimal(&mut out, &BigInt::from(unscaled), scale);
            assert_eq!(out, text);
        }
    }
}
