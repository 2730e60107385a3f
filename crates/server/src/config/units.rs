//! Quantities of cassandra.yaml: durations, sizes and rates, with the units of Cassandra 4.1 and later.
//!
//! ```text
//! duration  "10s" "250ms" "3h" "1d" "500us" "20ns" "5m"
//! size      "32MiB" "16KiB" "1GiB" "10B"
//! rate      "64MiB/s" "10KiB/s" "1000B/s"
//! ```
//! A bare number has no unit of its own: keys of the years before 4.1 name theirs (`..._in_ms`, `..._in_mb`),
//! and only there one is allowed, except 0, which needs none.

use std::fmt;

/// A duration with the precision of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millis(pub u64);

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// Bytes in each second; 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteRate(pub u64);

/// What a bare number means under an old key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldUnit {
    /// A new key: a bare number has no meaning.
    None,
    /// Milliseconds.
    Millis,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// KiB, which old keys call kb.
    Kib,
    /// MiB, which old keys call mb.
    Mib,
}

impl OldUnit {
    /// Milliseconds or bytes in one of it.
    pub(super) fn size(self) -> u64 {
        match self {
            OldUnit::None | OldUnit::Millis | OldUnit::Bytes => 1,
            OldUnit::Seconds => 1_000,
            OldUnit::Kib => 1 << 10,
            OldUnit::Mib => 1 << 20,
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            OldUnit::None => "",
            OldUnit::Millis => "ms",
            OldUnit::Seconds => "s",
            OldUnit::Bytes => "B",
            OldUnit::Kib => "KiB",
            OldUnit::Mib => "MiB",
        }
    }
}

/// Splits `12MiB` into 12 and `MiB`.
fn split(text: &str, old: OldUnit) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number = number.parse().ok()?;
    let unit = unit.trim();
    if unit.is_empty() {
        return (old != OldUnit::None || number == 0).then_some((number, old.suffix()));
    }
    Some((number, unit))
}

/// Parses a duration.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse_duration(text: &str, old: OldUnit) -> Result<Millis, String> {
    let wrong =
        || format!("{text:?} is no duration; one is a number and ns, us, ms, s, m, h or d, as in \"10s\"");
    let (number, unit) = split(text, old).ok_or_else(wrong)?;
    let millis = match unit.to_ascii_lowercase().as_str() {
        "" => Some(0),
        "ns" => Some(number / 1_000_000),
        "us" | "µs" => Some(number / 1_000),
        "ms" => Some(number),
        "s" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        "d" => number.checked_mul(86_400_000),
        _ => None,
    };
    millis.map(Millis).ok_or_else(wrong)
}

/// Parses a size.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse_size(text: &str, old: OldUnit) -> Result<ByteSize, String> {
    let wrong = || format!("{text:?} is no size; one is a number and B, KiB, MiB or GiB, as in \"32MiB\"");
    let (number, unit) = split(text, old).ok_or_else(wrong)?;
    let shift = match unit {
        "" | "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).map(ByteSize).ok_or_else(wrong)
}

/// Parses a rate.
///
/// # Errors
/// What is wrong with it, in words.
pub fn parse_rate(text: &str, old: OldUnit) -> Result<ByteRate, String> {
    let wrong = || format!("{text:?} is no rate; one is a number and B/s, KiB/s or MiB/s, as in \"64MiB/s\"");
    let bare = text.trim().strip_suffix("/s");
    if bare.is_none() && old == OldUnit::None && text.trim() != "0" {
        return Err(wrong());
    }
    parse_size(bare.unwrap_or(text), old).map(|size| ByteRate(size.0)).map_err(|_| wrong())
}

impl fmt::Display for Millis {
    /// The largest unit that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Millis(ms) = *self;
        match ms {
            0 => f.write_str("0ms"),
            _ if ms % 86_400_000 == 0 => write!(f, "{}d", ms / 86_400_000),
            _ if ms % 3_600_000 == 0 => write!(f, "{}h", ms / 3_600_000),
            _ if ms % 1_000 == 0 => write!(f, "{}s", ms / 1_000),
            _ => write!(f, "{ms}ms"),
        }
    }
}

impl fmt::Display for ByteSize {
    /// The largest unit that loses nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ByteSize(bytes) = *self;
        for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
            if bytes != 0 && bytes % (1 << shift) == 0 {
                return write!(f, "{}{unit}", bytes >> shift);
            }
        }
        write!(f, "{bytes}B")
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", ByteSize(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, old, expected) in [
            ("10s", OldUnit::None, Some(10_000)),
            ("10 s", OldUnit::None, Some(10_000)),
            ("250ms", OldUnit::None, Some(250)),
            ("3h", OldUnit::None, Some(10_800_000)),
            ("1d", OldUnit::None, Some(86_400_000)),
            ("2000us", OldUnit::None, Some(2)),
            ("0", OldUnit::None, Some(0)),
            ("10000", OldUnit::Millis, Some(10_000)),
            ("10", OldUnit::Seconds, Some(10_000)),
            ("10", OldUnit::None, None),
            ("ten", OldUnit::Millis, None),
            ("-1s", OldUnit::None, None),
            ("1w", OldUnit::None, None),
            ("99999999999999999999s", OldUnit::None, None),
            ("99999999999999999s", OldUnit::None, None),
            ("", OldUnit::None, None),
        ] {
            assert_eq!(parse_duration(text, old).ok().map(|m| m.0), expected, "{text:?}");
        }
    }

    #[test]
    fn sizes_and_rates_have_units() {
        for (text, old, expected) in [
            ("32MiB", OldUnit::None, Some(32 << 20)),
            ("5KiB", OldUnit::None, Some(5 << 10)),
            ("1GiB", OldUnit::None, Some(1 << 30)),
            ("10B", OldUnit::None, Some(10)),
            ("32", OldUnit::Mib, Some(32 << 20)),
            ("32", OldUnit::None, None),
            ("32MB", OldUnit::None, None),
            ("99999999999999GiB", OldUnit::None, None),
        ] {
            assert_eq!(parse_size(text, old).ok().map(|s| s.0), expected, "{text:?}");
        }
        assert_eq!(parse_rate("64MiB/s", OldUnit::None), Ok(ByteRate(64 << 20)));
        assert_eq!(parse_rate("16", OldUnit::Mib), Ok(ByteRate(16 << 20)));
        assert_eq!(parse_rate("0", OldUnit::None), Ok(ByteRate(0)));
        assert!(parse_rate("64MiB", OldUnit::None).is_err());
    }

    #[test]
    fn quantities_print_as_they_parse() {
        for text in ["10s", "250ms", "3h", "1d", "90s", "0ms"] {
            assert_eq!(parse_duration(text, OldUnit::None).unwrap().to_string(), text);
        }
        for text in ["32MiB", "5KiB", "1GiB", "1000B", "0B"] {
            assert_eq!(parse_size(text, OldUnit::None).unwrap().to_string(), text);
        }
    }
}
