//! `compaction = {'class': ..., ...}`: what each strategy understands.
//!
//! They are judged in two steps, as by Cassandra:
//! 1. [`parse`] finds the class and fills in the thresholds.
//! 2. [`validate`] runs when everything in the statement has been read. The strategy looks at its options,
//!    unknown options are refused, then the thresholds are compared.

use super::property::{config, parse_double, show_double};
use super::size::{self, parse_size, show_size};
use crate::error::Result;
use model::schema::CompactionOptions;
use std::collections::BTreeMap;
use std::str::FromStr;

type Options = BTreeMap<String, String>;

const MIN_THRESHOLD: &str = "min_threshold";
const MAX_THRESHOLD: &str = "max_threshold";
const OVERLAPPING_TOMBSTONES: &str = "provide_overlapping_tombstones";

/// Options of every strategy.
const COMMON: [&str; 7] = [
    "enabled",
    "log_all",
    "only_purge_repaired_tombstones",
    OVERLAPPING_TOMBSTONES,
    "tombstone_compaction_interval",
    "tombstone_threshold",
    "unchecked_tombstone_compaction",
];
const TIERED: [&str; 3] = ["bucket_high", "bucket_low", "min_sstable_size"];
const LEVELED: [&str; 3] = ["fanout_size", "single_sstable_uplevel", "sstable_size_in_mb"];
const TIME_WINDOW: [&str; 5] = [
    "compaction_window_size",
    "compaction_window_unit",
    "expired_sstable_check_frequency_seconds",
    "timestamp_resolution",
    "unsafe_aggressive_sstable_expiration",
];
const UNIFIED: [&str; 10] = [
    "base_shard_count",
    "expired_sstable_check_frequency_seconds",
    "flush_size_override",
    "max_sstables_to_compact",
    "min_sstable_size",
    "overlap_inclusion_method",
    "scaling_parameters",
    "sstable_growth",
    "target_sstable_size",
    "unsafe_aggressive_sstable_expiration",
];
const UNIT_MIB: f64 = 1024.0 * 1024.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    SizeTiered,
    Leveled,
    TimeWindow,
    Unified,
}

impl Strategy {
    fn of(class: &str) -> Option<Strategy> {
        match class.strip_prefix("org.apache.cassandra.db.compaction.")? {
            "SizeTieredCompactionStrategy" => Some(Strategy::SizeTiered),
            "LeveledCompactionStrategy" => Some(Strategy::Leveled),
            "TimeWindowCompactionStrategy" => Some(Strategy::TimeWindow),
            "UnifiedCompactionStrategy" => Some(Strategy::Unified),
            _ => None,
        }
    }

    fn understands(self, option: &str) -> bool {
        let thresholds = option == MIN_THRESHOLD || option == MAX_THRESHOLD;
        let own = match self {
            Strategy::SizeTiered => thresholds || TIERED.contains(&option),
            Strategy::Leveled => thresholds || LEVELED.contains(&option) || TIERED.contains(&option),
            Strategy::TimeWindow => thresholds || TIME_WINDOW.contains(&option) || TIERED.contains(&option),
            Strategy::Unified => UNIFIED.contains(&option),
        };
        own || COMMON.contains(&option)
    }
}

/// Bloom filters of leveled tables are larger: most partitions are in one SSTable of each level.
pub(super) fn bloom_filter_fp_chance_default(compaction: &CompactionOptions) -> f64 {
    if Strategy::of(&compaction.class) == Some(Strategy::Leveled) { 0.1 } else { 0.01 }
}

pub(super) fn parse(map: &[(String, String)]) -> Result<CompactionOptions> {
    let mut options: Options = map.iter().cloned().collect();
    let Some(class) = options.remove("class") else {
        config!("Missing sub-option 'class' for the 'compaction' option");
    };
    let class = CompactionOptions::full_class(&class);
    let Some(strategy) = Strategy::of(&class) else {
        config!("Unable to find compaction strategy class '{class}'");
    };
    if strategy != Strategy::Unified {
        options.entry(MIN_THRESHOLD.to_owned()).or_insert_with(|| "4".to_owned());
        options.entry(MAX_THRESHOLD.to_owned()).or_insert_with(|| "32".to_owned());
    }
    if let Some(text) = options.get(OVERLAPPING_TOMBSTONES)
        && !["NONE", "ROW", "CELL"].contains(&text.to_ascii_uppercase().as_str())
    {
        config!(
            "Invalid value {} for '{OVERLAPPING_TOMBSTONES}' compaction sub-option - must be one of the following \
             [NONE, ROW, CELL].",
            text.to_ascii_uppercase()
        );
    }
    Ok(CompactionOptions { class, options })
}

pub(super) fn validate(compaction: &CompactionOptions) -> Result<()> {
    let options = &compaction.options;
    let Some(strategy) = Strategy::of(&compaction.class) else {
        config!("Unable to find compaction strategy class '{}'", compaction.class);
    };
    validate_common(options)?;
    match strategy {
        Strategy::SizeTiered => validate_tiered(options)?,
        Strategy::Leveled => {
            validate_leveled(options)?;
            validate_tiered(options)?;
        }
        Strategy::TimeWindow => {
            validate_time_window(options)?;
            validate_tiered(options)?;
        }
        Strategy::Unified => validate_unified(options)?,
    }
    let unknown: Vec<&str> =
        options.keys().map(String::as_str).filter(|option| !strategy.understands(option)).collect();
    if !unknown.is_empty() {
        config!(
            "Properties specified [{}] are not understood by {}",
            unknown.join(", "),
            compaction.short_class()
        );
    }
    if strategy != Strategy::Unified {
        validate_thresholds(options)?;
    }
    Ok(())
}

fn validate_thresholds(options: &Options) -> Result<()> {
    let threshold = |name: &str| match number::<i32>(options, name) {
        Err(text) => config!("Invalid value {text} for '{name}' compaction sub-option - must be an integer"),
        Ok(value) => Ok(value.unwrap_or_default()),
    };
    let (min, max) = (threshold(MIN_THRESHOLD)?, threshold(MAX_THRESHOLD)?);
    if min <= 0 || max <= 0 {
        config!(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction option \
             'enabled' to false instead."
        );
    }
    if min < 2 {
        config!("Min compaction threshold cannot be less than 2 (got {min})");
    }
    if min > max {
        config!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        );
    }
    Ok(())
}

/// The number in an option, if it is given; the text when it is no number.
fn number<'o, T: FromStr>(options: &'o Options, name: &str) -> Result<Option<T>, &'o str> {
    match options.get(name) {
        None => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| text.as_str()),
    }
}

fn int(options: &Options, name: &str) -> Result<Option<i32>> {
    match number(options, name) {
        Ok(value) => Ok(value),
        Err(text) => config!("{text} is not a parsable int (base10) for {name}"),
    }
}

fn long(options: &Options, name: &str, kind: &str) -> Result<Option<i64>> {
    match number(options, name) {
        Ok(value) => Ok(value),
        Err(text) => config!("{text} is not a parsable {kind} (base10) for {name}"),
    }
}

fn is_boolean(text: &str) -> bool {
    text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false")
}

fn validate_common(options: &Options) -> Result<()> {
    if let Some(text) = options.get("tombstone_threshold") {
        match parse_double(text) {
            // The words are Cassandra's, which says "int" here.
            None => config!("{text} is not a parsable int (base10) for tombstone_threshold"),
            Some(value) if value < 0.0 => {
                config!("tombstone_threshold must be greater than 0, but was {value:.6}")
            }
            Some(_) => {}
        }
    }
    if let Some(value) = long(options, "tombstone_compaction_interval", "int")?
        && value < 0
    {
        config!("tombstone_compaction_interval must be greater than 0, but was {value}");
    }
    if let Some(text) = options.get("unchecked_tombstone_compaction")
        && !is_boolean(text)
    {
        config!("'unchecked_tombstone_compaction' should be either 'true' or 'false', not '{text}'");
    }
    if let Some(text) = options.get("log_all")
        && !is_boolean(text)
    {
        config!("'log_all' should either be 'true' or 'false', not {text}");
    }
    if let Some(text) = options.get("enabled")
        && !is_boolean(text)
    {
        config!("enabled should either be 'true' or 'false', not {text}");
    }
    Ok(())
}

fn validate_tiered(options: &Options) -> Result<()> {
    if let Some(size) = long(options, "min_sstable_size", "int")?
        && size < 0
    {
        config!("min_sstable_size must be non negative: {size}");
    }
    let bucket = |name: &str, default: f64| match options.get(name) {
        None => Ok(default),
        Some(text) => match parse_double(text) {
            Some(value) => Ok(value),
            None => config!("{text} is not a parsable float for {name}"),
        },
    };
    let (low, high) = (bucket("bucket_low", 0.5)?, bucket("bucket_high", 1.5)?);
    if high <= low {
        config!(
            "bucket_high value ({}) is less than or equal to the bucket_low value ({})",
            show_double(high),
            show_double(low)
        );
    }
    Ok(())
}

fn validate_leveled(options: &Options) -> Result<()> {
    if let Some(size) = int(options, "sstable_size_in_mb")?
        && size < 1
    {
        config!("sstable_size_in_mb must be larger than 0, but was {size}");
    }
    match number::<i32>(options, "fanout_size") {
        // Cassandra shows the other option's value here.
        Err(_) => {
            let shown = options.get("sstable_size_in_mb").map_or("1", String::as_str);
            config!("{shown} is not a parsable int (base10) for fanout_size")
        }
        Ok(Some(fanout)) if fanout < 1 => config!("fanout_size must be larger than 0, but was {fanout}"),
        Ok(_) => Ok(()),
    }
}

fn validate_time_window(options: &Options) -> Result<()> {
    let one_of = |name: &str, units: &[&str]| match options.get(name) {
        Some(text) if !units.contains(&text.as_str()) => config!("{text} is not valid for {name}"),
        _ => Ok(()),
    };
    one_of("timestamp_resolution", &["SECONDS", "MILLISECONDS", "MICROSECONDS", "NANOSECONDS"])?;
    one_of("compaction_window_unit", &["MINUTES", "HOURS", "DAYS"])?;
    if let Some(size) = int(options, "compaction_window_size")?
        && size < 1
    {
        config!("{size} must be greater than 1 for compaction_window_size");
    }
    if let Some(seconds) = long(options, "expired_sstable_check_frequency_seconds", "int")?
        && seconds < 0
    {
        config!("expired_sstable_check_frequency_seconds must not be negative, but was {seconds}");
    }
    if let Some(text) = options.get("unsafe_aggressive_sstable_expiration") {
        if !is_boolean(text) {
            config!("unsafe_aggressive_sstable_expiration is not 'true' or 'false' ({text})");
        }
        if text.eq_ignore_ascii_case("true") {
            config!(
                "unsafe_aggressive_sstable_expiration is requested but not allowed, restart cassandra with \
                 -Dcassandra.allow_unsafe_aggressive_sstable_expiration=true to allow it"
            );
        }
    }
    Ok(())
}

fn validate_unified(options: &Options) -> Result<()> {
    if let Some(text) = options.get("scaling_parameters") {
        text.split(',').try_for_each(|parameter| scaling_parameter(parameter.trim()))?;
    }
    if let Some(shards) = int(options, "base_shard_count")?
        && shards < 1
    {
        config!("Invalid configuration, base_shard_count should be positive: {shards}");
    }
    let target = at_least_a_mebibyte(options, "target_sstable_size")?.unwrap_or(1024.0 * UNIT_MIB);
    at_least_a_mebibyte(options, "flush_size_override")?;
    int(options, "max_sstables_to_compact")?;
    if let Some(seconds) = long(options, "expired_sstable_check_frequency_seconds", "long")?
        && seconds < 1
    {
        config!(
            "Invalid configuration, expired_sstable_check_frequency_seconds should be positive: {seconds}"
        );
    }
    if let Some(text) = options.get("unsafe_aggressive_sstable_expiration")
        && !is_boolean(text)
    {
        config!("unsafe_aggressive_sstable_expiration should either be 'true' or 'false', not {text}");
    }
    if let Some(text) = options.get("overlap_inclusion_method")
        && !["NONE", "SINGLE", "TRANSITIVE"].contains(&text.to_ascii_uppercase().as_str())
    {
        config!("Invalid overlap inclusion method {text}. The valid options are [NONE, SINGLE, TRANSITIVE].");
    }
    if let Some(text) = options.get("min_sstable_size") {
        match parse_size(text) {
            Err(_) => config!("{text} is not a valid size in bytes for min_sstable_size"),
            Ok(min) if min < 0.0 => {
                config!("Invalid configuration, min_sstable_size should be greater than or equal to 0 (zero)")
            }
            Ok(min) if min > target * 0.7 => config!(
                "Invalid configuration, min_sstable_size ({}) should be less than 70% of the targetSSTableSize ({})",
                show_size(min),
                show_size(target)
            ),
            Ok(_) => {}
        }
    }
    if let Some(text) = options.get("sstable_growth") {
        let (number, scale) = match text.strip_suffix('%') {
            Some(percent) => (percent, 100.0),
            None => (text.as_str(), 1.0),
        };
        match parse_double(number) {
            None => config!(
                "sstable_growth is not a valid number between 0 and 1: For input string: \"{}\"",
                number.trim()
            ),
            Some(value) if !(0.0..=1.0).contains(&(value / scale)) => {
                config!("sstable_growth {text} must be between 0 and 1")
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn at_least_a_mebibyte(options: &Options, name: &str) -> Result<Option<f64>> {
    let Some(text) = options.get(name) else { return Ok(None) };
    match parse_size(text) {
        Err(size::SizeError::Text(reason)) => config!("{name} {text} is not a valid size in bytes: {reason}"),
        Err(size::SizeError::Range) => config!("{name} {text} is out of range of Long."),
        Ok(bytes) if bytes < UNIT_MIB => {
            config!("{name} {text} is not acceptable, size must be at least {}", show_size(UNIT_MIB))
        }
        Ok(bytes) => Ok(Some(bytes)),
    }
}

/// `N`, `L4`, `T10`, `-8`, `7`.
fn scaling_parameter(text: &str) -> Result<()> {
    if text == "N" {
        return Ok(());
    }
    let (fan_factor, digits) = match text.strip_prefix(['L', 'T']) {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix(['+', '-']).unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        config!("Scaling parameter {text} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+");
    }
    let signed = if fan_factor { digits } else { text };
    match signed.parse::<i32>() {
        Err(_) => config!(
            "org.apache.cassandra.db.compaction.UnifiedCompactionStrategy.validateOptions() threw an error: \
             java.lang.NumberFormatException For input string: \"{signed}\""
        ),
        Ok(factor) if fan_factor && factor < 2 => config!("Fan factor cannot be lower than 2 in {text}"),
        Ok(_) => Ok(()),
    }
}
