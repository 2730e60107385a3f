//! Times of manifests: ISO 8601 in UTC, as Java writes and reads an instant.

/// `2026-11-21T09:12:53.793Z` for milliseconds since 1970.
pub(super) fn iso_time(millis: i64) -> String {
    let days = millis.div_euclid(86_400_000);
    let in_day = millis.rem_euclid(86_400_000);
    // Days since 0000-03-01, in eras of 400 years: leap days then come last in their year.
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hours, minutes) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (seconds, millis) = (in_day / 1_000 % 60, in_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

/// The milliseconds since 1970 of `2026-11-21T09:12:53.793Z`; a fraction may be missing or longer. `None` for
/// anything else.
pub(super) fn millis_of(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let [hours, minutes, seconds] = numbers(time, ':')?;
    let is_time = (1..=12).contains(&month) && (1..=31).contains(&day) && hours < 24 && minutes < 60;
    if !is_time || seconds > 60 || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    // The years of this count begin in March.
    let (year, month_from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(days * 86_400_000 + hours * 3_600_000 + minutes * 60_000 + seconds * 1_000 + millis)
}

fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let mut parts = text.split(between);
    let mut next = || {
        let part = parts.next()?;
        let is_number = (2..=6).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        if is_number { part.parse().ok() } else { None }
    };
    let found = [next()?, next()?, next()?];
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_iso_8601() {
        assert_eq!(iso_time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_time(1_795_252_373_793), "2026-11-21T09:12:53.793Z");
        assert_eq!(iso_time(951_782_400_000), "2000-02-29T00:00:00.000Z");
    }

    #[test]
    fn times_are_read_back() {
        for millis in [0, 1_795_252_373_793, 951_782_400_000, 951_868_799_999, 4_102_444_800_001] {
            assert_eq!(millis_of(&iso_time(millis)), Some(millis));
        }
        assert_eq!(millis_of("1970-01-01T00:00:01Z"), Some(1_000));
        assert_eq!(millis_of("1970-01-01T00:00:00.5Z"), Some(500));
        assert_eq!(millis_of("1970-01-01T00:00:00.123456789Z"), Some(123));
        for text in
            ["", "Z", "1970-01-01", "1970-13-01T00:00:00Z", "1970-01-01T24:00:00Z", "1970-01-01T00:00:00.Z"]
        {
            assert_eq!(millis_of(text), None, "{text:?}");
        }
    }
}
