//! Points in time as sstabledump writes them: ISO 8601 with as many groups of three decimals as are needed.

use model::types::calendar::Date;

const MICROS_PER_S: i64 = 1_000_000;
const NANOS_PER_S: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// Microseconds since 1970. As in sstabledump the seconds of a time before 1970 are rounded towards 1970 and
/// the fraction is not.
pub(in crate::offline) fn of_micros(micros: i64) -> String {
    let nanos = micros.saturating_mul(1_000);
    instant(micros / MICROS_PER_S, nanos.rem_euclid(NANOS_PER_S))
}

/// Seconds since 1970.
pub(super) fn of_seconds(seconds: i64) -> String {
    instant(seconds, 0)
}

fn instant(seconds: i64, nanos: i64) -> String {
    let date = Date::from_epoch_days(seconds.div_euclid(SECONDS_PER_DAY));
    let of_day = seconds.rem_euclid(SECONDS_PER_DAY);
    let year = match date.year {
        0..10_000 => format!("{:04}", date.year),
        10_000.. => format!("+{}", date.year),
        _ => format!("-{:04}", -date.year),
    };
    let fraction = match nanos {
        0 => String::new(),
        n if n % 1_000_000 == 0 => format!(".{:03}", n / 1_000_000),
        n if n % 1_000 == 0 => format!(".{:06}", n / 1_000),
        n => format!(".{n:09}"),
    };
    let (hours, minutes, seconds) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year}-{:02}-{:02}T{hours:02}:{minutes:02}:{seconds:02}{fraction}Z", date.month, date.day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Cassandra 5.0.5 prints, the odd time before 1970 included.
    #[test]
    fn times_are_sstabledumps() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (-1, "1970-01-01T00:00:00.999999Z"),
            (1_000, "1970-01-01T00:00:00.001Z"),
            (1_700_000_000_123_456, "2023-11-14T22:13:20.123456Z"),
            (i64::MAX, "+294247-01-10T04:00:54.854775807Z"),
        ] {
            assert_eq!(of_micros(micros), text);
        }
        assert_eq!(of_seconds(1_795_264_679), "2026-11-21T12:37:59Z");
    }
}
