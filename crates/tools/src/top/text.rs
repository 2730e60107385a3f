//! Numbers in few characters.

/// Microseconds: `950us`, `1.23ms`, `45.6ms`, `12.3s`.
pub(super) fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros}us"),
        // What rounds up to 1000 of a unit is told in the next one.
        1_000..999_500 => format!("{}ms", three_digits(micros as f64 / 1e3)),
        _ => format!("{}s", three_digits(micros as f64 / 1e6)),
    }
}

/// The bound of a band: `50us`, `2ms`, `1s`.
pub(super) fn bound(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros}us"),
        1_000..1_000_000 => format!("{}ms", micros / 1_000),
        _ => format!("{}s", micros / 1_000_000),
    }
}

/// A number: `0`, `0.25`, `12.3`, `950`, `1.23k`, `45.6M`.
pub(super) fn number(value: f64) -> String {
    for (unit, suffix) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= unit * 0.9995 {
            return format!("{}{suffix}", three_digits(value / unit));
        }
    }
    if value.fract() == 0.0 { format!("{value:.0}") } else { three_digits(value) }
}

/// Bytes: `0B`, `950B`, `1.23K`, `45.6M`; units of 1,024.
pub(super) fn bytes(value: f64) -> String {
    for (shift, suffix) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        let unit = (1u64 << shift) as f64;
        if value >= unit {
            return format!("{}{suffix}", three_digits(value / unit));
        }
    }
    format!("{value:.0}B")
}

/// Three digits that matter, at most two of them behind the point.
fn three_digits(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The time of day of a second since the epoch, UTC: `13:05:59`.
pub(super) fn time_of_day(second: u64) -> String {
    let of_day = second % 86_400;
    format!("{:02}:{:02}:{:02}", of_day / 3_600, of_day / 60 % 60, of_day % 60)
}

/// How long something lasts: `42s`, `17m`, `5h 2m`, `12d 3h`.
pub(super) fn uptime(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// A text of clients in one line that no terminal takes for a command: control characters become spaces.
pub(super) fn one_line(text: &str) -> String {
    let plain: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_few_characters() {
        let durations = [7, 999, 1_000, 1_234, 45_600, 999_499, 999_500, 12_345_678].map(duration);
        assert_eq!(durations, ["7us", "999us", "1.00ms", "1.23ms", "45.6ms", "999ms", "1.00s", "12.3s"]);
        let numbers = [0.0, 0.25, 7.0, 12.34, 950.0, 999.6, 1_234.0, 45_600_000.0].map(number);
        assert_eq!(numbers, ["0", "0.25", "7", "12.3", "950", "1.00k", "1.23k", "45.6M"]);
        let sizes = [0.0, 950.0, 1_260.0, 4_096.0, 47_815_065.0].map(bytes);
        assert_eq!(sizes, ["0B", "950B", "1.23K", "4.00K", "45.6M"]);
        assert_eq!([20, 5_000, 10_000_000].map(bound), ["20us", "5ms", "10s"]);
        assert_eq!(time_of_day(1_795_253_259), "09:27:39");
        assert_eq!([5, 1_020, 18_120, 1_047_600].map(uptime), ["5s", "17m", "5h 2m", "12d 3h"]);
    }

    #[test]
    fn what_clients_wrote_commands_no_terminal() {
        assert_eq!(one_line("SELECT *\n\t FROM t\u{1b}[2J\u{9b}31m"), "SELECT * FROM t [2J 31m");
    }
}
