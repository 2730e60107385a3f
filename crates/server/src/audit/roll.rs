//! Roll cycles: how long one file of a log is written, and how its beginning is spelled in the file's name.
//!
//! The words are those of Chronicle's `RollCycles`, which cassandra.yaml uses. Their sizes of indexes mean
//! nothing here: `HUGE_DAILY` is a day, as `DAILY` is.

use model::types::calendar::Date;

/// Words and seconds.
const CYCLES: [(&str, i64); 19] = [
    ("TEST_SECONDLY", 1),
    ("MINUTELY", 60),
    ("FIVE_MINUTELY", 300),
    ("TEN_MINUTELY", 600),
    ("TWENTY_MINUTELY", 1_200),
    ("HALF_HOURLY", 1_800),
    ("FAST_HOURLY", 3_600),
    ("HOURLY", 3_600),
    ("LARGE_HOURLY", 3_600),
    ("TWO_HOURLY", 7_200),
    ("FOUR_HOURLY", 14_400),
    ("SIX_HOURLY", 21_600),
    ("FAST_DAILY", SECONDS_A_DAY),
    ("DAILY", SECONDS_A_DAY),
    ("SMALL_DAILY", SECONDS_A_DAY),
    ("LARGE_DAILY", SECONDS_A_DAY),
    ("XLARGE_DAILY", SECONDS_A_DAY),
    ("HUGE_DAILY", SECONDS_A_DAY),
    ("WEEKLY", 7 * SECONDS_A_DAY),
];

const SECONDS_A_DAY: i64 = 86_400;

/// How long one file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollCycle {
    word: &'static str,
    seconds: i64,
}

impl Default for RollCycle {
    fn default() -> Self {
        RollCycle { word: "HOURLY", seconds: 3_600 }
    }
}

impl RollCycle {
    /// The cycle of a word in any spelling.
    ///
    /// # Errors
    /// What words there are.
    pub fn parse(word: &str) -> Result<RollCycle, String> {
        let found = CYCLES.iter().find(|(known, _)| known.eq_ignore_ascii_case(word.trim()));
        let known = || CYCLES.map(|(word, _)| word).join(", ");
        let (word, seconds) =
            found.ok_or_else(|| format!("{word} is no roll cycle; there are {}", known()))?;
        Ok(RollCycle { word, seconds: *seconds })
    }

    /// The word of cassandra.yaml.
    pub fn word(self) -> &'static str {
        self.word
    }

    /// When the cycle of an instant began, both in seconds since 1970.
    pub(super) fn beginning(self, at_s: i64) -> i64 {
        at_s.div_euclid(self.seconds) * self.seconds
    }
}

/// An instant as names of files have it, in UTC: `20261126T013000Z`. Names are ordered as instants are.
pub(super) fn stamp(at_s: i64) -> String {
    let (day, second) = (at_s.div_euclid(SECONDS_A_DAY), at_s.rem_euclid(SECONDS_A_DAY));
    let Date { year, month, day } = Date::from_epoch_days(day);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_lies_in_the_cycle_that_began_before_it() {
        let daily = RollCycle::parse("daily").unwrap();
        assert_eq!((daily.word(), daily.beginning(1_764_120_600)), ("DAILY", 1_764_115_200));
        let hourly = RollCycle::default();
        assert_eq!(hourly.beginning(1_764_120_600), 1_764_118_800);
        assert_eq!(hourly, RollCycle::parse("HOURLY").unwrap());
        assert!(RollCycle::parse("sometimes").unwrap_err().contains("MINUTELY"));
    }

    #[test]
    fn an_instant_is_spelled_in_utc() {
        assert_eq!(stamp(0), "19700101T000000Z");
        assert_eq!(stamp(1_709_210_096), "20240229T123456Z");
        assert_eq!(stamp(1_764_120_600), "20251126T013000Z");
    }
}
