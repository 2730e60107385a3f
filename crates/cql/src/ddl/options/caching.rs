//! `caching = {'keys': ..., 'rows_per_partition': ...}`.

use super::property::config;
use crate::error::{CqlError, Result};
use model::schema::{CachingOptions, RowsPerPartition};

const KEYS: &str = "keys";
const ROWS: &str = "rows_per_partition";

pub(super) fn parse(map: &[(String, String)]) -> Result<CachingOptions> {
    // What is not said is off, unlike the option's default as a whole.
    let mut caching = CachingOptions { keys: false, rows_per_partition: RowsPerPartition::None };
    let mut unknown = Vec::new();
    let option = |name: &str| map.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    if let Some(keys) = option(KEYS) {
        caching.keys = match keys.to_ascii_uppercase().as_str() {
            "ALL" => true,
            "NONE" => false,
            _ => config!(
                "Invalid value '{keys}' for caching sub-option '{KEYS}': only 'ALL' and 'NONE' are allowed"
            ),
        };
    }
    if let Some(rows) = option(ROWS) {
        caching.rows_per_partition = rows_per_partition(rows)?;
    }
    for (key, _) in map {
        if key != KEYS && key != ROWS {
            unknown.push(key.as_str());
        }
    }
    if !unknown.is_empty() {
        config!(
            "Invalid caching sub-options [{}]: only '{KEYS}' and '{ROWS}' are allowed",
            unknown.join(", ")
        );
    }
    Ok(caching)
}

fn rows_per_partition(text: &str) -> Result<RowsPerPartition> {
    Ok(match text.to_ascii_uppercase().as_str() {
        "ALL" => RowsPerPartition::All,
        "NONE" => RowsPerPartition::None,
        digits if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) => {
            match digits.parse::<i32>() {
                Ok(0) => RowsPerPartition::None,
                Ok(i32::MAX) => RowsPerPartition::All,
                Ok(rows) => RowsPerPartition::Some(rows.unsigned_abs()),
                Err(_) => {
                    return Err(CqlError::Server(format!(
                        "java.lang.NumberFormatException: For input string: \"{text}\""
                    )));
                }
            }
        }
        _ => config!(
            "Invalid value '{text}' for caching sub-option '{ROWS}': only 'ALL', 'NONE', and integer values are \
             allowed"
        ),
    })
}
