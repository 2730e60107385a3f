//! `compression = {'class': ..., ...}`, for each compressor.
//!
//! The options of one compressor are judged before the options that every compressor has, because Cassandra
//! makes the compressor first.

use super::property::{config, parse_double};
use crate::error::{CqlError, Result};
use model::schema::CompressionOptions;
use std::collections::BTreeMap;

const CHUNK_LENGTH: &str = "chunk_length_in_kb";
const MIN_RATIO: &str = "min_compress_ratio";
/// KiB of a chunk, if it is not said.
const CHUNK_LENGTH_DEFAULT: u32 = 16;
/// KiB of the longest chunk, which is in memory as a whole for each read of a row in it. SSTables with longer
/// ones are refused.
const CHUNK_LENGTH_MAX: i32 = 64 << 10;

pub(super) fn parse(map: &[(String, String)]) -> Result<CompressionOptions> {
    let mut options: BTreeMap<String, String> = map.iter().cloned().collect();
    let enabled = options.remove("enabled").is_none_or(|text| text.eq_ignore_ascii_case("true"));
    if map.is_empty() || !enabled {
        if !options.is_empty() {
            config!("If the 'enabled' option is set to false no other options must be specified");
        }
        return Ok(disabled());
    }
    let Some(class) = options.remove("class") else {
        config!("Missing sub-option 'class' for the 'compression' option.");
    };
    if class.is_empty() {
        config!("The 'class' option must not be empty. To disable compression use 'enabled' : false");
    }
    let chunk_length_kb = chunk_length(options.remove(CHUNK_LENGTH))?;
    let min_compress_ratio = match options.remove(MIN_RATIO) {
        None => 0.0,
        Some(text) => match parse_double(&text) {
            Some(ratio) if ratio < 0.0 => config!("Invalid negative {MIN_RATIO}"),
            Some(ratio) => ratio,
            None => {
                return Err(CqlError::Server(format!(
                    "java.lang.NumberFormatException: For input string: \"{text}\""
                )));
            }
        },
    };
    let class = CompressionOptions::full_class(&class);
    check_compressor(&class, &options)?;
    Ok(CompressionOptions { class: Some(class), chunk_length_kb, min_compress_ratio, options })
}

fn disabled() -> CompressionOptions {
    CompressionOptions {
        class: None,
        chunk_length_kb: CHUNK_LENGTH_DEFAULT,
        min_compress_ratio: 0.0,
        options: BTreeMap::new(),
    }
}

fn chunk_length(text: Option<String>) -> Result<u32> {
    let Some(text) = text else { return Ok(CHUNK_LENGTH_DEFAULT) };
    match text.parse::<i32>() {
        Err(_) => config!("Invalid value for {CHUNK_LENGTH}"),
        Ok(kib) if kib > CHUNK_LENGTH_MAX => config!("Value of {CHUNK_LENGTH} is too large ({kib})"),
        Ok(kib) if kib <= 0 => config!("Invalid negative or null {CHUNK_LENGTH}"),
        Ok(kib) => Ok(kib.unsigned_abs()),
    }
}

fn check_compressor(class: &str, options: &BTreeMap<String, String>) -> Result<()> {
    let known: &[&str] = match class.strip_prefix("org.apache.cassandra.io.compress.") {
        Some("LZ4Compressor") => {
            check_lz4(options)?;
            &["lz4_compressor_type", "lz4_high_compressor_level"]
        }
        Some("ZstdCompressor") => {
            check_zstd(options)?;
            &["compression_level"]
        }
        Some("SnappyCompressor" | "DeflateCompressor" | "NoopCompressor") => &[],
        _ => config!("Could not create Compression for type {class}"),
    };
    match options.keys().find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => config!("Unknown compression options {unknown}"),
        None => Ok(()),
    }
}

fn check_lz4(options: &BTreeMap<String, String>) -> Result<()> {
    if let Some(kind) = options.get("lz4_compressor_type")
        && kind != "fast"
        && kind != "high"
    {
        config!(
            "Invalid compressor type '{kind}' specified for LZ4 parameter 'lz4_compressor_type'. Valid options are \
             [high, fast]."
        );
    }
    if let Some(level) = options.get("lz4_high_compressor_level")
        && !level.parse::<i32>().is_ok_and(|level| (1..=17).contains(&level))
    {
        config!(
            "Invalid value [{level}] for parameter 'lz4_high_compressor_level'. Value must be between 1 and 17."
        );
    }
    Ok(())
}

fn check_zstd(options: &BTreeMap<String, String>) -> Result<()> {
    let Some(level) = options.get("compression_level") else { return Ok(()) };
    match level.parse::<i32>() {
        Ok(level) if (-131_072..=22).contains(&level) => Ok(()),
        Ok(level) => config!(
            "ZstdCompressor.create() threw an error: java.lang.IllegalArgumentException compression_level={level} is \
             invalid"
        ),
        Err(_) => config!(
            "ZstdCompressor.create() threw an error: java.lang.NumberFormatException For input string: \"{level}\""
        ),
    }
}

/// What is judged only once everything in the statement has been read.
pub(super) fn validate(compression: &CompressionOptions) -> Result<()> {
    if !compression.chunk_length_kb.is_power_of_two() {
        config!("{CHUNK_LENGTH} must be a power of 2");
    }
    if !(compression.min_compress_ratio >= 1.0 || compression.min_compress_ratio == 0.0) {
        config!("{MIN_RATIO} can either be 0 or greater than or equal to 1");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_at_most_64_mib() {
        let option = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let parsed = |kib: &str| parse(&[option("class", "LZ4Compressor"), option(CHUNK_LENGTH, kib)]);
        assert_eq!(parsed("65536").unwrap().chunk_length_kb, 65_536);
        let refused = parsed("131072").unwrap_err().to_string();
        assert_eq!(refused, "Value of chunk_length_in_kb is too large (131072)");
    }
}
