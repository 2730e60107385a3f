//! The proleptic Gregorian calendar: days since the epoch to dates and back.
//!
//! The arithmetic counts days from 1 March of year 0, so that the leap day ends the year, in cycles of 400
//! years.

/// Days in 400 years.
const DAYS_PER_CYCLE: i64 = 146_097;
/// Days from 1 March of year 0 to 1 January 1970.
const EPOCH: i64 = 719_468;
/// Milliseconds in a day.
pub const MILLIS_PER_DAY: i64 = 86_400_000;
/// Nanoseconds in a day.
pub const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// A date. Years count through zero (year 0 is 1 BC).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// Proleptic year.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
}

impl Date {
    /// The date `days` after 1970-01-01. For dates within some hundred million years.
    pub fn from_epoch_days(days: i64) -> Date {
        let shifted = days + EPOCH;
        let cycle = shifted.div_euclid(DAYS_PER_CYCLE);
        let day_of_cycle = shifted.rem_euclid(DAYS_PER_CYCLE);
        let year_of_cycle =
            (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
        let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
        let month = (month_from_march + if month_from_march < 10 { 3 } else { -9 }) as u32;
        Date { year: cycle * 400 + year_of_cycle + i64::from(month <= 2), month, day }
    }

    /// Days from 1970-01-01.
    pub fn epoch_days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let cycle = year.div_euclid(400);
        let year_of_cycle = year.rem_euclid(400);
        let month_from_march = (i64::from(self.month) + 9) % 12;
        let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let day_of_cycle = year_of_cycle * 365 + year_of_cycle / 4 - year_of_cycle / 100 + day_of_year;
        cycle * DAYS_PER_CYCLE + day_of_cycle - EPOCH
    }

    /// Number of days of a month.
    pub fn days_in_month(year: i64, month: u32) -> u32 {
        match month {
            4 | 6 | 9 | 11 => 30,
            2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
            2 => 28,
            _ => 31,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_correspond() {
        assert_eq!(Date { year: 1970, month: 1, day: 1 }.epoch_days(), 0);
        assert_eq!(Date { year: 2000, month: 2, day: 29 }.epoch_days(), 11_016);
        assert_eq!(Date::from_epoch_days(-(1 << 31)), Date { year: -5_877_641, month: 6, day: 23 });
        let mut expected = Date { year: -401, month: 1, day: 1 };
        let end = Date { year: 801, month: 1, day: 1 }.epoch_days();
        for days in expected.epoch_days()..end {
            assert_eq!(Date::from_epoch_days(days), expected);
            assert_eq!(expected.epoch_days(), days);
            expected.day += 1;
            if expected.day > Date::days_in_month(expected.year, expected.month) {
                expected = match expected.month {
                    12 => Date { year: expected.year + 1, month: 1, day: 1 },
                    month => Date { month: month + 1, day: 1, ..expected },
                };
            }
        }
    }
}
