//! Sizes in the options of the unified compaction strategy: `100MiB`, `1.5 GB`, `2097152B`.

/// Why a text is no size.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SizeError {
    /// The text is not a number with a unit; Cassandra's reason.
    Text(String),
    /// The number is too large.
    Range,
}

const PREFIXES: [char; 6] = ['K', 'M', 'G', 'T', 'P', 'E'];

/// Bytes. Units are `B` with an optional prefix: `K` is 1000, `Ki` is 1024, and so on.
pub(super) fn parse_size(text: &str) -> Result<f64, SizeError> {
    let Some(rest) = text.strip_suffix('B') else {
        return Err(SizeError::Text(format!("{text} does not end in unit B")));
    };
    let (rest, base) = match rest.strip_suffix('i') {
        Some(rest) => (rest, 1024f64),
        None => (rest, 1000f64),
    };
    let (digits, exponent) =
        match rest.chars().next_back().and_then(|last| PREFIXES.iter().position(|p| *p == last)) {
            Some(at) => (rest.trim_end_matches(PREFIXES), at as i32 + 1),
            None if base == 1000.0 => (rest, 0),
            None => return Err(SizeError::Text("null".to_owned())),
        };
    let bytes = super::property::parse_double(digits).ok_or_else(|| SizeError::Text("null".to_owned()))?
        * base.powi(exponent);
    if bytes.abs() < i64::MAX as f64 { Ok(bytes.trunc()) } else { Err(SizeError::Range) }
}

/// The size with the largest binary unit that it reaches.
pub(super) fn show_size(bytes: f64) -> String {
    for (unit, shift) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        let scaled = bytes / (1u64 << shift) as f64;
        if scaled.abs() >= 1.0 {
            return format!("{scaled:.3}{unit}");
        }
    }
    format!("{bytes:.3}B")
}
