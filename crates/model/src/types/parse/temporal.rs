//! Dates, times and timestamps from text.
//!
//! ```text
//! timestamp := millis | 'now' | date [ (' ' | 'T') h:m[:s[.fraction]] ] [ zone ]
//! date      := YYYY-MM-DD, with a sign before other years than 0000 to 9999
//! zone      := [' '] ( 'Z' | ±hh | ±hhmm | ±hh:mm ) | ' ' ( 'UTC' | 'GMT' | 'UT' [ ±hh:mm ] )
//! ```
//! Without a zone a timestamp is in UTC. Timestamps take a day up to 31 in every month and mean the month's
//! last; dates do not. Fractions beyond a millisecond are cut off.

use super::super::calendar::{Date, MILLIS_PER_DAY, NANOS_PER_DAY};
use super::super::validate::InvalidValue;
use super::is_digits;

/// Milliseconds since the epoch.
pub(super) fn parse_timestamp(text: &str, now_ms: i64) -> Result<i64, InvalidValue> {
    if text.eq_ignore_ascii_case("now") {
        return Ok(now_ms);
    }
    if is_digits(text.strip_prefix('-').unwrap_or(text)) {
        return text
            .parse()
            .map_err(|_| InvalidValue(format!("Unable to make long (for date) from: '{text}'")));
    }
    timestamp(text).ok_or_else(|| InvalidValue(format!("Unable to parse a date/time from '{text}'")))
}

/// Days since the epoch plus 2^31.
pub(super) fn parse_date(text: &str) -> Result<u32, InvalidValue> {
    if is_digits(text.strip_prefix('-').unwrap_or(text)) {
        return text
            .parse()
            .map_err(|_| InvalidValue(format!("Unable to make unsigned int (for date) from: '{text}'")));
    }
    let parsed = split_date(text)
        .filter(|(date, rest)| rest.is_empty() && date.day <= Date::days_in_month(date.year, date.month))
        .and_then(|(date, _)| u32::try_from(date.epoch_days() + (1 << 31)).ok());
    parsed.ok_or_else(|| InvalidValue(format!("Unable to coerce '{text}' to a formatted date (long)")))
}

/// Nanoseconds since midnight.
pub(super) fn parse_time(text: &str) -> Result<i64, InvalidValue> {
    if is_digits(text.strip_prefix('-').unwrap_or(text)) {
        let nanos = text.parse().ok().filter(|n| (0..NANOS_PER_DAY).contains(n));
        return nanos.ok_or_else(|| InvalidValue(format!("Unable to make long (for time) from: '{text}'")));
    }
    time_of_day(text.trim()).ok_or_else(|| {
        InvalidValue(format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)"))
    })
}

/// A date from the front of `text`: the day is 1 to 31, whatever the month.
fn split_date(text: &str) -> Option<(Date, &str)> {
    let sign = text.chars().next().filter(|c| matches!(c, '+' | '-'));
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (year, rest) = unsigned.split_once('-')?;
    let (month, rest) = rest.split_at_checked(2)?;
    let (day, rest) = rest.strip_prefix('-')?.split_at_checked(2)?;
    // More than four digits want a sign, and a plus wants more than four.
    let width_fits = match sign {
        None => year.len() == 4,
        Some('+') => (5..=9).contains(&year.len()),
        _ => (4..=9).contains(&year.len()),
    };
    if !width_fits || ![year, month, day].into_iter().all(is_digits) {
        return None;
    }
    let year: i64 = year.parse().ok()?;
    let date = Date {
        year: if sign == Some('-') { -year } else { year },
        month: month.parse().ok()?,
        day: day.parse().ok()?,
    };
    ((1..=12).contains(&date.month) && (1..=31).contains(&date.day)).then_some((date, rest))
}

fn timestamp(text: &str) -> Option<i64> {
    let (mut date, rest) = split_date(text)?;
    date.day = date.day.min(Date::days_in_month(date.year, date.month));
    let (millis, rest) = match rest.strip_prefix(['T', ' ']) {
        Some(time) if time.starts_with(|c: char| c.is_ascii_digit()) => clock(time)?,
        _ => (0, rest),
    };
    date.epoch_days().checked_mul(MILLIS_PER_DAY)?.checked_add(millis - zone_millis(rest)?)
}

/// One or two digits up to `max` from the front of `text`.
fn small_number(text: &str, max: i64) -> Option<(i64, &str)> {
    let len = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at_checked(len)?;
    let value: i64 = digits.parse().ok()?;
    (value <= max).then_some((value, rest))
}

/// `h:m[:s[.fraction]]` from the front of `text`, in milliseconds; 24:00 is the end of the day.
fn clock(text: &str) -> Option<(i64, &str)> {
    let (hours, rest) = small_number(text, 24)?;
    let (minutes, mut rest) = small_number(rest.strip_prefix(':')?, 59)?;
    let (mut seconds, mut millis) = (0, 0);
    if let Some(after) = rest.strip_prefix(':') {
        (seconds, rest) = small_number(after, 59)?;
        if let Some(fraction) = rest.strip_prefix('.') {
            let len = fraction.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, after) = fraction.split_at_checked(len)?;
            if len > 9 {
                return None;
            }
            millis = format!("{digits:0<3}").get(..3)?.parse().ok()?;
            rest = after;
        }
    }
    let total = ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis;
    (total <= MILLIS_PER_DAY).then_some((total, rest))
}

/// What a zone is ahead of UTC.
fn zone_millis(text: &str) -> Option<i64> {
    let (spaced, zone) = match text.strip_prefix(' ') {
        Some(zone) => (true, zone),
        None => (false, text),
    };
    match zone {
        "" => return (!spaced).then_some(0),
        "Z" => return Some(0),
        _ => {}
    }
    let names = ["Etc/UTC", "UTC", "GMT", "UT"];
    let offset = match names.iter().find_map(|name| zone.strip_prefix(name)).filter(|_| spaced) {
        Some("") => return Some(0),
        Some(offset) if offset.contains(':') => offset,
        Some(_) => return None,
        None => zone,
    };
    let (sign, digits) = match (offset.strip_prefix('+'), offset.strip_prefix('-')) {
        (Some(digits), _) => (1, digits),
        (_, Some(digits)) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.len() {
        2 => (digits, "00"),
        4 => digits.split_at_checked(2)?,
        5 => digits.split_once(':')?,
        _ => return None,
    };
    if !is_digits(hours) || !is_digits(minutes) || hours.len() != 2 {
        return None;
    }
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    let total = hours * 60 + minutes;
    (minutes < 60 && total <= 18 * 60).then_some(sign * total * 60_000)
}

/// `h:m:s[.fraction]`, each a whole number with optional sign, in nanoseconds.
fn time_of_day(text: &str) -> Option<i64> {
    let (hours, rest) = text.split_once(':')?;
    let (minutes, rest) = rest.split_once(':')?;
    let (seconds, fraction) = match rest.split_once('.') {
        Some((seconds, fraction)) => (seconds, Some(fraction)),
        None => (rest, None),
    };
    let part = |text: &str, max: i64| text.parse().ok().filter(|v| (0..=max).contains(v));
    let (hours, minutes, seconds) = (part(hours, 23)?, part(minutes, 59)?, part(seconds, 59)?);
    let nanos: i64 = match fraction {
        None => 0,
        Some(digits) if is_digits(digits) && digits.len() <= 9 => format!("{digits:0<9}").parse().ok()?,
        Some(_) => return None,
    };
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + nanos)
}
