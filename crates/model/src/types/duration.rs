//! Durations: months, days and nanoseconds, which no calendar lets convert into each other.
//!
//! ```text
//! vint months | vint days | vint nanoseconds        all of one sign
//! ```
//! As text: `1y2mo3w4d5h6m7s8ms9us10ns` in that order, each part optional; or ISO 8601 as `P1Y2M3DT4H5M6S`,
//! `P2W` or `P0001-02-03T04:05:06`. A `-` in front makes it negative.

use crate::vint;
use std::fmt;

const NANOS_PER_HOUR: i64 = 3_600_000_000_000;

/// A duration. The parts are all of the same sign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Duration {
    pub months: i32,
    pub days: i32,
    pub nanoseconds: i64,
}

/// Units from the largest to the smallest: the name in messages, the part it adds to, how much of it.
const UNITS: [(&str, Part, i64); 10] = [
    ("years", Part::Months, 12),
    ("months", Part::Months, 1),
    ("weeks", Part::Days, 7),
    ("days", Part::Days, 1),
    ("hours", Part::Nanos, NANOS_PER_HOUR),
    ("minutes", Part::Nanos, 60_000_000_000),
    ("seconds", Part::Nanos, 1_000_000_000),
    ("milliseconds", Part::Nanos, 1_000_000),
    ("microseconds", Part::Nanos, 1000),
    ("nanoseconds", Part::Nanos, 1),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Months,
    Days,
    Nanos,
}

/// Units as standard text writes them; of two that start alike the longer comes first.
const SYMBOLS: [(&str, usize); 11] = [
    ("mo", 1),
    ("ms", 7),
    ("us", 8),
    ("µs", 8),
    ("ns", 9),
    ("y", 0),
    ("w", 2),
    ("d", 3),
    ("h", 4),
    ("s", 6),
    ("m", 5),
];

impl Duration {
    /// Decodes a value; `None` when the bytes are not a duration (signs are not looked at).
    pub fn decode(value: &[u8]) -> Option<Duration> {
        let (months, a) = vint::read_signed(value)?;
        let (days, b) = vint::read_signed(value.get(a..)?)?;
        let (nanoseconds, _) = vint::read_signed(value.get(a + b..)?)?;
        Some(Duration { months: months.try_into().ok()?, days: days.try_into().ok()?, nanoseconds })
    }

    /// Encodes the value.
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        vint::write_signed(&mut out, self.months.into());
        vint::write_signed(&mut out, self.days.into());
        vint::write_signed(&mut out, self.nanoseconds);
        out
    }

    /// Whether no part is negative and another positive.
    pub fn has_one_sign(self) -> bool {
        let signs = [self.months.signum() as i64, self.days.signum() as i64, self.nanoseconds.signum()];
        !(signs.contains(&1) && signs.contains(&-1))
    }

    /// Parses text in any of the forms. The error is Cassandra's message.
    pub fn parse(text: &str) -> Result<Duration, String> {
        let (negative, source) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let mut builder = Builder::default();
        let understood = match source.strip_prefix('P') {
            None => parse_standard(source, &mut builder),
            Some(iso) if iso.contains('-') => parse_iso_alternative(iso, &mut builder),
            Some(iso) => match iso.strip_suffix('W') {
                Some(weeks) => number(weeks).map(|weeks| builder.add(2, weeks)),
                None => parse_iso(iso, &mut builder),
            },
        };
        understood.ok_or_else(|| format!("Unable to convert '{text}' to a duration"))?;
        builder.finish(negative)
    }
}

/// Adds up units and keeps the first complaint.
#[derive(Default)]
struct Builder {
    months: i64,
    days: i64,
    nanos: i64,
    last: Option<usize>,
    error: Option<String>,
}

impl Builder {
    fn add(&mut self, unit: usize, amount: i64) {
        if self.error.is_some() {
            return;
        }
        let Some((name, part, factor)) = UNITS.get(unit).copied() else { return };
        if let Some(last) = self.last {
            let last_name = UNITS.get(last).map_or("", |u| u.0);
            if last == unit {
                self.error = Some(format!("Invalid duration. The {name} are specified multiple times"));
                return;
            }
            if last > unit {
                self.error = Some(format!("Invalid duration. The {last_name} should be after {name}"));
                return;
            }
        }
        self.last = Some(unit);
        let (total, max, total_name) = match part {
            Part::Months => (&mut self.months, i32::MAX as i64, "months"),
            Part::Days => (&mut self.days, i32::MAX as i64, "days"),
            Part::Nanos => (&mut self.nanos, i64::MAX, "nanoseconds"),
        };
        if amount > (max - *total) / factor {
            // The number is the same for nanoseconds, though they may be more.
            self.error = Some(format!(
                "Invalid duration. The total number of {total_name} must be less or equal to {}",
                i32::MAX
            ));
            return;
        }
        *total += amount * factor;
    }

    fn finish(self, negative: bool) -> Result<Duration, String> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let sign = if negative { -1 } else { 1 };
        Ok(Duration {
            months: (sign * self.months) as i32,
            days: (sign * self.days) as i32,
            nanoseconds: sign * self.nanos,
        })
    }
}

fn number(digits: &str) -> Option<i64> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Splits a number off the front.
fn split_number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, rest) = text.split_at_checked(end)?;
    Some((number(digits)?, rest))
}

fn parse_standard(mut text: &str, builder: &mut Builder) -> Option<()> {
    while !text.is_empty() {
        let (amount, rest) = split_number(text)?;
        let (symbol, unit) = SYMBOLS.iter().find(|(symbol, _)| {
            rest.get(..symbol.len()).is_some_and(|head| head.eq_ignore_ascii_case(symbol))
        })?;
        builder.add(*unit, amount);
        text = rest.get(symbol.len()..)?;
    }
    Some(())
}

/// `1Y2M3DT4H5M6S` behind the `P`.
fn parse_iso(text: &str, builder: &mut Builder) -> Option<()> {
    let (date, time) = text.split_once('T').map_or((text, ""), |(d, t)| (d, t));
    for (mut part, symbols) in
        [(date, [('Y', 0), ('M', 1), ('D', 3)]), (time, [('H', 4), ('M', 5), ('S', 6)])]
    {
        for (symbol, unit) in symbols {
            if let Some((amount, rest)) = split_number(part)
                && let Some(rest) = rest.strip_prefix(symbol)
            {
                builder.add(unit, amount);
                part = rest;
            }
        }
        if !part.is_empty() {
            return None;
        }
    }
    Some(())
}

/// `0001-02-03T04:05:06` behind the `P`.
fn parse_iso_alternative(text: &str, builder: &mut Builder) -> Option<()> {
    let (mut rest, mut digits) = (text, [0i64; 6]);
    let layout = [(4, "-"), (2, "-"), (2, "T"), (2, ":"), (2, ":"), (2, "")];
    for (slot, (width, separator)) in digits.iter_mut().zip(layout) {
        let (head, tail) = rest.split_at_checked(width)?;
        *slot = number(head)?;
        rest = tail.strip_prefix(separator)?;
    }
    for (amount, unit) in digits.into_iter().zip([0, 1, 3, 4, 5, 6]) {
        builder.add(unit, amount);
    }
    rest.is_empty().then_some(())
}

/// Standard text; nothing at all for a duration of zero.
impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.months < 0 || self.days < 0 || self.nanoseconds < 0 {
            f.write_str("-")?;
        }
        let months = u64::from(self.months.unsigned_abs());
        let mut nanos = self.nanoseconds.unsigned_abs();
        let mut parts = [
            (months / 12, "y"),
            (months % 12, "mo"),
            (self.days.unsigned_abs().into(), "d"),
            (0, "h"),
            (0, "m"),
            (0, "s"),
            (0, "ms"),
            (0, "us"),
            (nanos % 1000, "ns"),
        ];
        let factors = [NANOS_PER_HOUR as u64, 60_000_000_000, 1_000_000_000, 1_000_000, 1000];
        for ((amount, _), factor) in parts.iter_mut().skip(3).zip(factors) {
            *amount = nanos / factor;
            nanos %= factor;
        }
        for (amount, symbol) in parts.iter().filter(|(amount, _)| *amount != 0) {
            write!(f, "{amount}{symbol}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Text and what a real node shows for it again.
    #[test]
    fn text_is_understood_and_shown_as_cassandra_does() {
        for (text, shown) in [
            ("1y2mo3w4d5h6m7s8ms9us10ns", "1y2mo25d5h6m7s8ms9us10ns"),
            ("P1Y2M3DT4H5M6S", "1y2mo3d4h5m6s"),
            ("P0001-02-03T04:05:06", "1y2mo3d4h5m6s"),
            ("-1mo", "-1mo"),
            ("P1W", "7d"),
            ("-P1D", "-1d"),
            ("1µs", "1us"),
            ("1Y2MO3D", "1y2mo3d"),
            ("1MS", "1ms"),
            ("0s", ""),
            ("", ""),
            ("PT", ""),
            ("PT36H", "36h"),
            ("1000ms", "1s"),
            ("-2d3h", "-2d3h"),
            ("9223372036854775807ns", "2562047h47m16s854ms775us807ns"),
        ] {
            let parsed = Duration::parse(text).unwrap();
            assert_eq!(parsed.to_string(), shown, "{text}");
            assert_eq!(Duration::decode(&parsed.encode()), Some(parsed));
        }
        let all = Duration::parse("P1Y2M3DT4H5M6S").unwrap();
        assert_eq!(all.encode(), [0x1c, 0x06, 0xfc, 0x1a, 0xc0, 0x03, 0xcf, 0xe8, 0x00]);
    }

    #[test]
    fn errors_are_cassandras() {
        for (text, message) in [
            ("5", "Unable to convert '5' to a duration"),
            ("1x", "Unable to convert '1x' to a duration"),
            ("PT1.5S", "Unable to convert 'PT1.5S' to a duration"),
            ("1d-2h", "Unable to convert '1d-2h' to a duration"),
            ("P0001-2-03T04:05:06", "Unable to convert 'P0001-2-03T04:05:06' to a duration"),
            ("1d1y", "Invalid duration. The days should be after years"),
            ("1mo1mo", "Invalid duration. The months are specified multiple times"),
            (
                "1y2147483647mo",
                "Invalid duration. The total number of months must be less or equal to 2147483647",
            ),
            (
                "2562047788015216h",
                "Invalid duration. The total number of nanoseconds must be less or equal to 2147483647",
            ),
        ] {
            assert_eq!(Duration::parse(text).unwrap_err(), message);
        }
    }
}
