//! Guardrails of files.

use super::*;
use cql::guardrails::{Guardrails, Thresholds};

#[test]
fn guardrails_that_cannot_be_end_the_start_in_cassandras_words() {
    for (yaml, words) in [
        ("in_select_cartesian_product_fail_threshold: 0", &["in_select_cartesian_product"][..]),
        (
            "in_select_cartesian_product_warn_threshold: 9\nin_select_cartesian_product_fail_threshold: 8",
            &[
                "The warn threshold 9 for in_select_cartesian_product_warn_threshold should be lower than the fail threshold 8",
            ],
        ),
        (
            "tables_fail_threshold: -2",
            &["Invalid value -2 for tables_fail_threshold: negative values are not"],
        ),
        ("page_size_warn_threshold: 2147483648", &["page_size_warn_threshold: maximum allowed value is"]),
        (
            "column_value_size_warn_threshold: 2KiB\ncolumn_value_size_fail_threshold: 1KiB",
            &["The warn threshold 2KiB for column_value_size_warn_threshold should be lower than", "1KiB"],
        ),
        (
            "data_disk_usage_percentage_fail_threshold: 101",
            &["_fail_threshold: maximum allowed value is 100"],
        ),
        ("data_disk_usage_max_disk_size: 0B", &["attempting to disable use an empty value"]),
        ("data_disk_usage_max_disk_size: 9999999999GiB", &["9999999999GiB specified, but only", "on disk"]),
        ("collection_size_fail_threshold: 0B", &["attempting to disable use an empty value"]),
        (
            "minimum_replication_factor_fail_threshold: 2",
            &[
                "minimum_replication_factor_fail_threshold to be set (2) cannot be greater than default_keyspace_rf (1)",
            ],
        ),
        (
            "default_keyspace_rf: 3\nmaximum_replication_factor_fail_threshold: 2",
            &[
                "maximum_replication_factor_fail_threshold to be set (2) cannot be lesser than default_keyspace_rf (3)",
            ],
        ),
        (
            "minimum_replication_factor_warn_threshold: 2\nminimum_replication_factor_fail_threshold: 3\n\
             default_keyspace_rf: 3",
            &["minimum_replication_factor_warn_threshold should be greater than the fail threshold 3"],
        ),
        (
            "table_properties_ignored: [comment, colour]",
            &["'[colour]' do not parse as valid table properties"],
        ),
        ("read_consistency_levels_warned: [MOST]", &["\"MOST\" is no consistency level"]),
        ("write_consistency_levels_disallowed: ALL", &["it must be a list of consistency levels"]),
    ] {
        let error = load(yaml).expect_err(yaml).to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{yaml}: {error}");
    }
}

#[test]
fn guardrails_are_those_of_the_file() {
    assert_eq!(*load(STOCK).unwrap().guardrails, Guardrails::default());
    let yaml = "tables_warn_threshold: 100\ncolumn_value_size_fail_threshold: 2KiB\n\
                maximum_timestamp_warn_threshold: 2s\ntable_properties_ignored: [Comment, CDC]\n\
                write_consistency_levels_disallowed: [any, ALL, any]\ngroup_by_enabled: false";
    let guardrails = load(yaml).unwrap().guardrails;
    assert_eq!(guardrails.tables, Thresholds { warn: 100, fail: 0 });
    assert_eq!(guardrails.column_value_size, Thresholds { warn: 0, fail: 2 << 10 });
    assert_eq!(guardrails.maximum_timestamp, Thresholds { warn: 2_000_000, fail: 0 });
    assert_eq!(guardrails.table_properties.ignored, ["cdc", "comment"]);
    assert_eq!(guardrails.write_consistency_levels.disallowed, [Consistency::Any, Consistency::All]);
    let yaml = "data_disk_usage_percentage_warn_threshold: 70\ndata_disk_usage_percentage_fail_threshold: 90\n\
                data_disk_usage_max_disk_size: 1KiB";
    let disks = load(yaml).unwrap().guardrails.data_disk_usage_percentage;
    assert_eq!(disks, Thresholds { warn: 70, fail: 90 });
    assert!(!guardrails.group_by_enabled && guardrails.allow_filtering_enabled);
}
