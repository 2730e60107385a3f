//! Functions of times: `now()` and its kin, conversions between the types of time, `floor`.

use super::number::decode_integer;
use bytes::Bytes;
use model::types::CqlType;
use model::types::Duration;
use model::types::calendar::{Date, MILLIS_PER_DAY};

/// Ticks of 100 ns between 1582-10-15 and 1970-01-01.
const TICKS_TO_1970: i64 = 0x01b2_1dd2_1381_4000;
/// Where `date` counts from: day zero of the epoch is in the middle.
const DATE_ZERO: i64 = 1 << 31;

fn bytes_of<const N: usize>(value: [u8; N]) -> Bytes {
    Bytes::copy_from_slice(&value)
}

pub(super) fn timestamp(millis: i64) -> Bytes {
    bytes_of(millis.to_be_bytes())
}

fn date(days: i64) -> Bytes {
    bytes_of(((days + DATE_ZERO) as u32).to_be_bytes())
}

/// The time of a version 1 uuid, in ticks of 100 ns since 1582.
fn uuid_ticks(value: &[u8]) -> Option<i64> {
    let [a, b, c, d, e, f, g, h, ..] = *value else { return None };
    Some(i64::from_be_bytes([g & 0x0f, h, e, f, a, b, c, d]))
}

/// Milliseconds since the epoch of a `timeuuid`, a `timestamp` or a `date`.
pub(super) fn millis(ty: &CqlType, value: &[u8]) -> Option<i64> {
    match ty {
        CqlType::TimeUuid => Some((uuid_ticks(value)? - TICKS_TO_1970).div_euclid(10_000)),
        CqlType::Timestamp | CqlType::BigInt if value.len() == 8 => decode_integer(value),
        CqlType::Date => {
            let days = i64::from(u32::from_be_bytes(*value.as_array::<4>()?)) - DATE_ZERO;
            Some(days * MILLIS_PER_DAY)
        }
        _ => None,
    }
}

/// The value of `ty` for a moment.
pub(super) fn from_millis(ty: &CqlType, millis: i64) -> Option<Bytes> {
    match ty {
        CqlType::Timestamp | CqlType::BigInt => Some(timestamp(millis)),
        // Cut towards 1970, as Cassandra does: 1969-12-31 10:00 is the day zero.
        CqlType::Date => Some(date(millis / MILLIS_PER_DAY)),
        _ => None,
    }
}

/// Nanoseconds of the day of a moment.
pub(super) fn time_of_day(micros: i64) -> Bytes {
    bytes_of((micros.rem_euclid(MILLIS_PER_DAY * 1000) * 1000).to_be_bytes())
}

/// The smallest or the largest version 1 uuid of a millisecond.
pub(super) fn bound_uuid(millis: i64, is_max: bool) -> Bytes {
    let ticks = millis.wrapping_mul(10_000).wrapping_add(TICKS_TO_1970) + if is_max { 9_999 } else { 0 };
    let ticks = ticks as u64;
    // Of times before 1582 and after 5236 the topmost bits stay beside the version.
    let (low, mid, high) = (ticks as u32, (ticks >> 32) as u16, (ticks >> 48) as u16 | 0x1000);
    let rest: u64 = if is_max { 0x7f7f_7f7f_7f7f_7f7f } else { 0x8080_8080_8080_8080 };
    let msb = (u64::from(low) << 32) | (u64::from(mid) << 16) | u64::from(high);
    bytes_of(((u128::from(msb) << 64) | u128::from(rest)).to_be_bytes())
}

/// The uuid whose time mirrors that of `id` at the start of 2010, so that the later uuid sorts first.
pub(crate) fn mirrored(id: &uuid::Uuid) -> uuid::Uuid {
    /// 2010-01-01 in ticks since 1582.
    const MIRROR: i64 = 1_262_304_000_000 * 10_000 + TICKS_TO_1970;
    let bytes = *id.as_bytes();
    let ticks = uuid_ticks(&bytes).map_or(0, |ticks| MIRROR.saturating_mul(2) - ticks).max(0) as u64;
    let rest = u128::from_be_bytes(bytes) as u64;
    let high = ((ticks >> 48) as u16 & 0x0fff) | 0x1000;
    let msb = (u64::from(ticks as u32) << 32) | (u64::from((ticks >> 32) as u16) << 16) | u64::from(high);
    uuid::Uuid::from_u64_pair(msb, rest)
}

fn plus_months(days: i64, months: i64) -> i64 {
    let from = Date::from_epoch_days(days);
    let total = from.year * 12 + i64::from(from.month) - 1 + months;
    let (year, month) = (total.div_euclid(12), total.rem_euclid(12) as u32 + 1);
    Date { year, month, day: from.day.min(Date::days_in_month(year, month)) }.epoch_days()
}

/// A timestamp or a date, later or earlier by a duration. The error is the reason.
pub(super) fn add_duration(
    ty: &CqlType,
    value: &[u8],
    duration: &[u8],
    negate: bool,
) -> Result<Bytes, String> {
    let (Some(millis), Some(parts)) = (millis(ty, value), Duration::decode(duration)) else {
        return Err("invalid operands".to_owned());
    };
    let sign = if negate { -1 } else { 1 };
    let (days, of_day) = (millis.div_euclid(MILLIS_PER_DAY), millis.rem_euclid(MILLIS_PER_DAY));
    if *ty == CqlType::Date && parts.nanoseconds != 0 {
        let text = CqlType::Duration.to_text(duration);
        return Err(format!("The duration must have a day precision. Was: {text}"));
    }
    let days = plus_months(days, sign * i64::from(parts.months)) + sign * i64::from(parts.days);
    let millis = (i128::from(days) * i128::from(MILLIS_PER_DAY))
        + i128::from(of_day)
        + i128::from(sign * (parts.nanoseconds / 1_000_000));
    let millis = i64::try_from(millis).map_err(|_| "long overflow".to_owned())?;
    from_millis(ty, millis).ok_or_else(|| "invalid operands".to_owned())
}

/// The start of the interval of `duration` since `start` in which a moment lies. The error is the message.
pub(super) fn floor(millis: i64, duration: &[u8], start: i64) -> Result<i64, String> {
    let parts = Duration::decode(duration).ok_or_else(|| "invalid duration".to_owned())?;
    check_floor(parts, duration)?;
    if parts == Duration::default() {
        return Ok(millis);
    }
    if start > millis {
        return Err("The floor function starting time is greater than the provided time".to_owned());
    }
    let nanos_ms = parts.nanoseconds / 1_000_000;
    if parts.months == 0 {
        let length = i64::from(parts.days) * MILLIS_PER_DAY + nanos_ms;
        if length == 0 {
            return Err(nanos_too_fine(duration));
        }
        return Ok(millis - (millis - start).rem_euclid(length));
    }
    // Months differ in length: search the number of steps, then walk to it.
    let step = |n: i64| -> i64 {
        let (days, of_day) = (start.div_euclid(MILLIS_PER_DAY), start.rem_euclid(MILLIS_PER_DAY));
        let days = plus_months(days, n * i64::from(parts.months)) + n * i64::from(parts.days);
        days * MILLIS_PER_DAY + of_day + n * nanos_ms
    };
    let (mut low, mut high) = (0i64, 1i64);
    while step(high) <= millis && high < 1 << 40 {
        high *= 2;
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if step(middle) <= millis { low = middle } else { high = middle }
    }
    Ok(step(low))
}

fn check_floor(parts: Duration, duration: &[u8]) -> Result<(), String> {
    let shown = || CqlType::Duration.to_text(duration);
    if parts.months < 0 || parts.days < 0 || parts.nanoseconds < 0 {
        return Err(format!("Negative durations are not supported by the floor function. Was: {}", shown()));
    }
    Ok(())
}

/// `floor` of a date takes whole days.
pub(super) fn check_floor_date(duration: &[u8]) -> Result<(), String> {
    match Duration::decode(duration) {
        Some(parts) if parts.nanoseconds == 0 => Ok(()),
        _ => Err(format!(
            "The floor on date values cannot be computed for the {} duration as precision is below 1 day",
            CqlType::Duration.to_text(duration)
        )),
    }
}

fn nanos_too_fine(duration: &[u8]) -> String {
    format!(
        "The floor cannot be computed for the {} duration as precision is below 1 millisecond",
        CqlType::Duration.to_text(duration)
    )
}

/// `floor` of a time of day, in nanoseconds.
pub(super) fn floor_time(nanos: i64, duration: &[u8]) -> Result<i64, String> {
    let parts = Duration::decode(duration).ok_or_else(|| "invalid duration".to_owned())?;
    check_floor(parts, duration)?;
    if parts.months != 0 || parts.days != 0 {
        return Err(format!(
            "For time values, the floor can only be computed for durations smaller that a day. Was: {}",
            CqlType::Duration.to_text(duration)
        ));
    }
    Ok(nanos - nanos.rem_euclid(parts.nanoseconds.max(1)))
}
