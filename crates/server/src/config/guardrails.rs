//! The guardrails that cassandra.yaml asks for. What cannot be is refused in the words of Cassandra's
//! `GuardrailsOptions`.

use super::settings::Settings;
use super::units::{ByteSize, Millis};
use cql::ddl;
use cql::guardrails::{Feature, Guardrails, Thresholds, Values};
use engine::PartitionLimits;
use env::fs::FileSystem;
use model::Consistency;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A number as Cassandra has it, where -1 is no threshold.
fn count(name: &str, side: &str, value: i64) -> Result<u64, String> {
    match value {
        -1 => Ok(0),
        0 => Err(format!("Invalid value for {name}_{side}_threshold: 0 is not allowed; if attempting to disable use -1")),
        1.. if value > i64::from(i32::MAX) => Err(format!(
            "Invalid value {value} for {name}_{side}_threshold: maximum allowed value is {}",
            i32::MAX
        )),
        _ => u64::try_from(value).map_err(|_| {
            format!(
                "Invalid value {value} for {name}_{side}_threshold: negative values are not allowed, outside of -1 which \
                 disables the guardrail"
            )
        }),
    }
}

/// Numbers of which more is worse.
fn counts(name: &str, warn: i64, fail: i64) -> Result<Thresholds, String> {
    in_order(name, (warn, fail), "lower", fail >= warn)
}

/// Percentages of which more is worse.
fn percentages(name: &str, warn: i64, fail: i64) -> Result<Thresholds, String> {
    for (side, value) in [("warn", warn), ("fail", fail)] {
        if value > 100 {
            return Err(format!(
                "Invalid value {value} for {name}_{side}_threshold: maximum allowed value is 100"
            ));
        }
    }
    counts(name, warn, fail)
}

/// Numbers of which less is worse.
fn minimum(name: &str, warn: i64, fail: i64) -> Result<Thresholds, String> {
    in_order(name, (warn, fail), "greater", fail <= warn)
}

fn in_order(
    name: &str,
    (warn, fail): (i64, i64),
    word: &str,
    is_in_order: bool,
) -> Result<Thresholds, String> {
    let thresholds = Thresholds { warn: count(name, "warn", warn)?, fail: count(name, "fail", fail)? };
    if warn != -1 && fail != -1 && !is_in_order {
        return Err(should_be(name, word, &warn, &fail));
    }
    Ok(thresholds)
}

fn should_be(name: &str, word: &str, warn: &dyn ToString, fail: &dyn ToString) -> String {
    let (warn, fail) = (warn.to_string(), fail.to_string());
    format!(
        "The warn threshold {warn} for {name}_warn_threshold should be {word} than the fail threshold {fail}"
    )
}

/// Sizes, of which none is no threshold.
fn sizes(name: &str, warn: Option<ByteSize>, fail: Option<ByteSize>) -> Result<Thresholds, String> {
    for (side, size) in [("warn", warn), ("fail", fail)] {
        if size == Some(ByteSize(0)) {
            return Err(format!(
                "Invalid value for {name}_{side}_threshold: 0 is not allowed; if attempting to disable use an empty value"
            ));
        }
    }
    match (warn, fail) {
        (Some(warn), Some(fail)) if fail < warn => Err(should_be(name, "lower", &warn, &fail)),
        _ => Ok(Thresholds { warn: warn.map_or(0, |size| size.0), fail: fail.map_or(0, |size| size.0) }),
    }
}

/// Times from the clock on, in microseconds.
fn times(name: &str, warn: Option<Millis>, fail: Option<Millis>) -> Result<Thresholds, String> {
    match (warn, fail) {
        (Some(warn), Some(fail)) if fail < warn => Err(should_be(name, "lower", &warn, &fail)),
        _ => {
            let micros = |time: Option<Millis>| time.map_or(0, |time| time.0.saturating_mul(1_000));
            Ok(Thresholds { warn: micros(warn), fail: micros(fail) })
        }
    }
}

/// Names of properties of tables, in small letters and in order.
fn properties(key: &str, given: &[String]) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = given.iter().map(|name| name.to_lowercase()).collect();
    names.sort();
    names.dedup();
    let unknown: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !ddl::TABLE_PROPERTIES.contains(name)).collect();
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        return Err(format!("Invalid value for {key}: '[{unknown}]' do not parse as valid table properties"));
    }
    Ok(names)
}

/// In Cassandra's order.
fn levels(given: &[Consistency]) -> Vec<Consistency> {
    let mut levels = given.to_vec();
    levels.sort_by_key(|level| *level as u16);
    levels.dedup();
    levels
}

/// Beyond which size the log tells of partitions.
///
/// # Errors
/// A threshold that cannot be, in words.
pub(super) fn partitions(settings: &Settings) -> Result<PartitionLimits, String> {
    let bytes = sizes(
        "partition_size",
        settings.partition_size_warn_threshold,
        settings.partition_size_fail_threshold,
    )?;
    let tombstones = counts(
        "partition_tombstones",
        settings.partition_tombstones_warn_threshold,
        settings.partition_tombstones_fail_threshold,
    )?;
    let limit = |threshold: u64| (threshold > 0).then_some(threshold);
    Ok(PartitionLimits {
        bytes_warn: limit(bytes.warn),
        bytes_fail: limit(bytes.fail),
        tombstones_warn: limit(tombstones.warn),
        tombstones_fail: limit(tombstones.fail),
    })
}

/// The disks of `directories` have to be as large as they are said to be.
fn disk_size(fs: &dyn FileSystem, said: Option<ByteSize>, directories: &[PathBuf]) -> Result<(), String> {
    const NAME: &str = "data_disk_usage_max_disk_size";
    let Some(said) = said else { return Ok(()) };
    if said.0 == 0 {
        return Err(format!(
            "Invalid value for {NAME}: 0 is not allowed; if attempting to disable use an empty value"
        ));
    }
    // A directory may still have to be made.
    let space = |directory: &PathBuf| directory.ancestors().find_map(|above| fs.space(above).ok());
    let devices: BTreeMap<u64, u64> =
        directories.iter().filter_map(space).map(|space| (space.device, space.total_bytes)).collect();
    let there = ByteSize(devices.into_values().sum());
    if said.0 > there.0 {
        return Err(format!(
            "Invalid value for {NAME}: {said} specified, but only {there} are actually available on disk"
        ));
    }
    Ok(())
}

/// The guardrails.
///
/// # Errors
/// A threshold that cannot be, in words.
pub(super) fn of(fs: &dyn FileSystem, settings: &Settings) -> Result<Guardrails, String> {
    disk_size(fs, settings.data_disk_usage_max_disk_size, &settings.data_file_directories)?;
    macro_rules! thresholds {
        ($read:ident, $name:literal, $warn:ident, $fail:ident) => {
            $read($name, settings.$warn, settings.$fail)?
        };
    }
    let default_factor = i64::from(settings.default_keyspace_rf);
    let (least, most) = (
        settings.minimum_replication_factor_fail_threshold,
        settings.maximum_replication_factor_fail_threshold,
    );
    if least > default_factor {
        return Err(format!(
            "minimum_replication_factor_fail_threshold to be set ({least}) cannot be greater than default_keyspace_rf \
             ({default_factor})"
        ));
    }
    if most != -1 && most < default_factor {
        return Err(format!(
            "maximum_replication_factor_fail_threshold to be set ({most}) cannot be lesser than default_keyspace_rf \
             ({default_factor})"
        ));
    }
    Ok(Guardrails {
        keyspaces: thresholds!(counts, "keyspaces", keyspaces_warn_threshold, keyspaces_fail_threshold),
        tables: thresholds!(counts, "tables", tables_warn_threshold, tables_fail_threshold),
        columns_per_table: thresholds!(
            counts,
            "columns_per_table",
            columns_per_table_warn_threshold,
            columns_per_table_fail_threshold
        ),
        fields_per_udt: thresholds!(
            counts,
            "fields_per_udt",
            fields_per_udt_warn_threshold,
            fields_per_udt_fail_threshold
        ),
        vector_dimensions: thresholds!(
            counts,
            "vector_dimensions",
            vector_dimensions_warn_threshold,
            vector_dimensions_fail_threshold
        ),
        minimum_replication_factor: thresholds!(
            minimum,
            "minimum_replication_factor",
            minimum_replication_factor_warn_threshold,
            minimum_replication_factor_fail_threshold
        ),
        maximum_replication_factor: thresholds!(
            counts,
            "maximum_replication_factor",
            maximum_replication_factor_warn_threshold,
            maximum_replication_factor_fail_threshold
        ),
        table_properties: Values {
            warned: properties("table_properties_warned", &settings.table_properties_warned)?,
            ignored: properties("table_properties_ignored", &settings.table_properties_ignored)?,
            disallowed: properties("table_properties_disallowed", &settings.table_properties_disallowed)?,
        },
        alter_table_enabled: settings.alter_table_enabled,
        drop_keyspace_enabled: settings.drop_keyspace_enabled,
        drop_truncate_table_enabled: settings.drop_truncate_table_enabled,
        uncompressed_tables_enabled: settings.uncompressed_tables_enabled,
        compact_tables_enabled: settings.compact_tables_enabled,
        simplestrategy_enabled: settings.simplestrategy_enabled,
        vector_type_enabled: settings.vector_type_enabled,
        zero_ttl_on_twcs: Feature {
            enabled: settings.zero_ttl_on_twcs_enabled,
            warned: settings.zero_ttl_on_twcs_warned,
        },
        page_size: thresholds!(counts, "page_size", page_size_warn_threshold, page_size_fail_threshold),
        partition_keys_in_select: thresholds!(
            counts,
            "partition_keys_in_select",
            partition_keys_in_select_warn_threshold,
            partition_keys_in_select_fail_threshold
        ),
        in_select_cartesian_product: thresholds!(
            counts,
            "in_select_cartesian_product",
            in_select_cartesian_product_warn_threshold,
            in_select_cartesian_product_fail_threshold
        ),
        read_consistency_levels: Values {
            warned: levels(&settings.read_consistency_levels_warned),
            ignored: Vec::new(),
            disallowed: levels(&settings.read_consistency_levels_disallowed),
        },
        write_consistency_levels: Values {
            warned: levels(&settings.write_consistency_levels_warned),
            ignored: Vec::new(),
            disallowed: levels(&settings.write_consistency_levels_disallowed),
        },
        group_by_enabled: settings.group_by_enabled,
        allow_filtering_enabled: settings.allow_filtering_enabled,
        intersect_filtering_query: Feature {
            enabled: settings.intersect_filtering_query_enabled,
            warned: settings.intersect_filtering_query_warned,
        },
        user_timestamps_enabled: settings.user_timestamps_enabled,
        maximum_timestamp: thresholds!(
            times,
            "maximum_timestamp",
            maximum_timestamp_warn_threshold,
            maximum_timestamp_fail_threshold
        ),
        minimum_timestamp: thresholds!(
            times,
            "minimum_timestamp",
            minimum_timestamp_warn_threshold,
            minimum_timestamp_fail_threshold
        ),
        read_before_write_list_operations_enabled: settings.read_before_write_list_operations_enabled,
        column_value_size: thresholds!(
            sizes,
            "column_value_size",
            column_value_size_warn_threshold,
            column_value_size_fail_threshold
        ),
        collection_size: thresholds!(
            sizes,
            "collection_size",
            collection_size_warn_threshold,
            collection_size_fail_threshold
        ),
        items_per_collection: thresholds!(
            counts,
            "items_per_collection",
            items_per_collection_warn_threshold,
            items_per_collection_fail_threshold
        ),
        data_disk_usage_percentage: thresholds!(
            percentages,
            "data_disk_usage_percentage",
            data_disk_usage_percentage_warn_threshold,
            data_disk_usage_percentage_fail_threshold
        ),
    })
}
