//! The two formats of /metrics, and which of them a scraper asked for.
//!
//! | | Prometheus text 0.0.4 | OpenMetrics 1.0.0 |
//! |---|---|---|
//! | family of a counter | `x_total` | `x`, its sample `x_total` |
//! | bound of a bucket | as short as can be: `0.00005`, `1` | as Go spells it: `5e-05`, `1.0` |
//! | end | nothing | `# EOF` |

use std::fmt::Display;

/// A format of /metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// Prometheus's own.
    Prometheus,
    /// The one that became a standard.
    OpenMetrics,
}

impl Format {
    /// The format that the values of Accept headers prefer; Prometheus's where they leave it open.
    pub(super) fn accepted<'a>(headers: impl Iterator<Item = &'a str>) -> Format {
        let (mut open, mut text) = (0.0_f32, 0.0_f32);
        for range in headers.flat_map(|header| header.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default().to_ascii_lowercase();
            let (mut weight, mut version) = (1.0_f32, None);
            for (name, value) in parts.filter_map(|parameter| parameter.split_once('=')) {
                match name.trim().to_ascii_lowercase().as_str() {
                    "q" => weight = value.trim().parse().unwrap_or(0.0),
                    "version" => version = Some(value.trim().trim_matches('"')),
                    _ => {}
                }
            }
            match media.as_str() {
                "application/openmetrics-text" if version.is_none_or(|v| v == "1.0.0") => {
                    open = weight.max(open);
                }
                "text/plain" | "text/*" | "*/*" => text = weight.max(text),
                _ => {}
            }
        }
        if open > 0.0 && open >= text { Format::OpenMetrics } else { Format::Prometheus }
    }

    /// Its Content-Type.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// What a family is called whose samples are called `name`.
    pub(super) fn family(self, name: &str, kind: &str) -> String {
        match (self, name.strip_suffix("_total")) {
            (Format::OpenMetrics, Some(family)) if kind == "counter" => family.to_owned(),
            _ => name.to_owned(),
        }
    }

    /// The bound of a bucket.
    pub(super) fn bound(self, bound: impl Display) -> String {
        let short = bound.to_string();
        match (self, short.parse::<f64>()) {
            (Format::OpenMetrics, Ok(number)) if number.is_finite() => as_go(number),
            _ => short,
        }
    }

    /// The last line.
    pub(super) fn end(self) -> &'static str {
        match self {
            Format::Prometheus => "",
            Format::OpenMetrics => "# EOF\n",
        }
    }
}

/// A number as Go's `%g` spells it, with a point where that has neither point nor exponent.
fn as_go(number: f64) -> String {
    let scientific = format!("{number:e}");
    let exponent = scientific.split_once('e').and_then(|(m, e)| Some((m, e.parse::<i32>().ok()?)));
    match exponent {
        Some((mantissa, exponent)) if !(-4..6).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", exponent.abs())
        }
        _ => format!("{number:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_is_preferred() {
        let of = |header: &str| Format::accepted([header].into_iter());
        for header in [
            "application/openmetrics-text",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
        ] {
            assert_eq!(of(header), Format::OpenMetrics, "{header}");
        }
        for header in [
            "",
            "*/*",
            "text/plain",
            "text/plain, application/openmetrics-text;q=0.5",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;version=7",
            "application/openmetrics-text;q=much",
        ] {
            assert_eq!(of(header), Format::Prometheus, "{header}");
        }
        assert_eq!(Format::accepted(std::iter::empty()), Format::Prometheus);
    }

    #[test]
    fn bounds_of_openmetrics_are_spelt_as_go_spells_them() {
        for (bound, spelt) in [
            ("0.000016", "1.6e-05"),
            ("0.0001", "0.0001"),
            ("0", "0.0"),
            ("1", "1.0"),
            ("1.25", "1.25"),
            ("262144", "262144.0"),
            ("1048576", "1.048576e+06"),
            ("16777216", "1.6777216e+07"),
            ("+Inf", "+Inf"),
        ] {
            assert_eq!(Format::OpenMetrics.bound(bound), spelt);
            assert_eq!(Format::Prometheus.bound(bound), bound);
        }
    }
}
