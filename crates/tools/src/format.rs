//! Sizes, numbers, times and columns as nodetool prints them.

use model::types::calendar::Date;

/// Rounds half to even at `digits` places and drops zeroes at the end, as Java's `#.##` does.
fn trimmed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// `554.06 KiB`, `131 bytes`.
pub(crate) fn file_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift {
            return format!("{} {unit}", trimmed(bytes as f64 / (1u64 << shift) as f64, 2));
        }
    }
    format!("{bytes} bytes")
}

/// `6.348KiB`, `0B`.
pub(crate) fn pretty_bytes(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift {
            return format!("{:.3}{unit}", bytes as f64 / (1u64 << shift) as f64);
        }
    }
    format!("{bytes}B")
}

/// `1 hour 0 minutes 5 seconds`: without units that are nothing at either end.
pub(crate) fn duration_words(seconds: u64) -> String {
    let units = [("day", seconds / 86_400), ("hour", seconds / 3_600 % 24), ("minute", seconds / 60 % 60)];
    let all: Vec<(&str, u64)> = units.into_iter().chain([("second", seconds % 60)]).collect();
    let is_some = |(_, n): &(&str, u64)| *n > 0;
    let (Some(first), Some(last)) = (all.iter().position(is_some), all.iter().rposition(is_some)) else {
        return "0 seconds".to_owned();
    };
    let words = all.iter().take(last + 1).skip(first);
    let words: Vec<String> =
        words.map(|(unit, n)| format!("{n} {unit}{}", if *n == 1 { "" } else { "s" })).collect();
    words.join(" ")
}

/// `2026-11-25T07:14:10.568`, in UTC: as Java prints a local time, without what is nothing at its end.
pub(crate) fn local_date_time(millis: i64) -> String {
    let (seconds, millis) = (millis.div_euclid(1_000), millis.rem_euclid(1_000));
    let (date, of_day) = (Date::from_epoch_days(seconds.div_euclid(86_400)), seconds.rem_euclid(86_400));
    let (hours, minutes, seconds) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    let rest = match (seconds, millis) {
        (0, 0) => String::new(),
        (seconds, 0) => format!(":{seconds:02}"),
        (seconds, millis) => format!(":{seconds:02}.{millis:03}"),
    };
    format!("{:04}-{:02}-{:02}T{hours:02}:{minutes:02}{rest}", date.year, date.month, date.day)
}

/// Bytes as a number, or for people.
pub(crate) fn bytes(value: u64, human: bool) -> String {
    if human { file_size(value) } else { value.to_string() }
}

/// Columns, each as wide as its widest cell, with `gap` between them; the last one is padded too.
pub(crate) fn columns(rows: &[Vec<String>], gap: &str) -> String {
    let width = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..width)
        .map(|at| {
            rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        out.push_str(&cells.join(gap));
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_nodetools() {
        for (bytes, file, pretty) in [
            (0, "0 bytes", "0B"),
            (131, "131 bytes", "131B"),
            (6_500, "6.35 KiB", "6.348KiB"),
            (567_357, "554.06 KiB", "554.060KiB"),
            (26_112, "25.5 KiB", "25.500KiB"),
            (3 << 20, "3 MiB", "3.000MiB"),
            (5 << 30, "5 GiB", "5.000GiB"),
        ] {
            assert_eq!((file_size(bytes).as_str(), pretty_bytes(bytes).as_str()), (file, pretty));
        }
    }

    #[test]
    fn durations_are_words() {
        for (seconds, text) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (60, "1 minute"),
            (3_605, "1 hour 0 minutes 5 seconds"),
            (2 * 86_400 + 120, "2 days 0 hours 2 minutes"),
        ] {
            assert_eq!(duration_words(seconds), text);
        }
    }

    #[test]
    fn local_times_end_where_they_are_nothing() {
        for (millis, text) in [
            (1_795_590_850_568, "2026-11-25T07:14:10.568"),
            (1_795_590_850_000, "2026-11-25T07:14:10"),
            (1_795_590_840_000, "2026-11-25T07:14"),
        ] {
            assert_eq!(local_date_time(millis), text);
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "bb".to_owned()], vec!["ccc".to_owned(), "d".to_owned()]];
        assert_eq!(columns(&rows, "  "), "a    bb\nccc  d \n");
    }
}
