//! Guardrails: what cassandra.yaml does not let ordinary users do, and what it warns them of (Cassandra's
//! `db.guardrails`, CASSANDRA-16896).
//!
//! Superusers are held by none of them, nor is anybody where nobody has to log in: [`Guard`] is made for the
//! requests of others. Names and words of refusals and warnings are Cassandra's.

mod schema;
mod writes;

use crate::error::{CqlError, Result};
use model::Consistency;
use parking_lot::Mutex;
use std::fmt;
use std::sync::Arc;

pub(crate) use schema::guard_types;
pub(crate) use writes::{Findings, Inspection};

/// Where a number or a size is warned of, and where it is refused. 0 is nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Thresholds {
    /// What is above is warned of; of a minimum, what is below.
    pub warn: u64,
    /// What is above is refused; of a minimum, what is below.
    pub fail: u64,
}

impl Thresholds {
    fn is_off(self) -> bool {
        self == Thresholds::default()
    }
}

/// A feature that may be switched off, or warned of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Whether it may be used.
    pub enabled: bool,
    /// Whether who uses it is warned.
    pub warned: bool,
}

/// Values that statements are warned of or refused for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values<T> {
    /// Those that are warned of.
    pub warned: Vec<T>,
    /// Those that count as not given, with a warning.
    pub ignored: Vec<T>,
    /// Those that are refused.
    pub disallowed: Vec<T>,
}

impl<T> Default for Values<T> {
    fn default() -> Self {
        Values { warned: Vec::new(), ignored: Vec::new(), disallowed: Vec::new() }
    }
}

impl<T> Values<T> {
    fn is_off(&self) -> bool {
        self.warned.is_empty() && self.ignored.is_empty() && self.disallowed.is_empty()
    }
}

/// The guardrails of a node, by their names in cassandra.yaml.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of cassandra.yaml, which says what they are")]
pub struct Guardrails {
    pub keyspaces: Thresholds,
    pub tables: Thresholds,
    pub columns_per_table: Thresholds,
    pub fields_per_udt: Thresholds,
    pub vector_dimensions: Thresholds,
    pub minimum_replication_factor: Thresholds,
    pub maximum_replication_factor: Thresholds,
    pub table_properties: Values<String>,
    pub alter_table_enabled: bool,
    pub drop_keyspace_enabled: bool,
    pub drop_truncate_table_enabled: bool,
    pub uncompressed_tables_enabled: bool,
    pub compact_tables_enabled: bool,
    pub simplestrategy_enabled: bool,
    pub vector_type_enabled: bool,
    pub zero_ttl_on_twcs: Feature,
    pub page_size: Thresholds,
    pub partition_keys_in_select: Thresholds,
    pub in_select_cartesian_product: Thresholds,
    pub read_consistency_levels: Values<Consistency>,
    pub write_consistency_levels: Values<Consistency>,
    pub group_by_enabled: bool,
    pub allow_filtering_enabled: bool,
    pub intersect_filtering_query: Feature,
    pub user_timestamps_enabled: bool,
    /// Microseconds that a timestamp may be ahead of the clock.
    pub maximum_timestamp: Thresholds,
    /// Microseconds that a timestamp may be behind the clock.
    pub minimum_timestamp: Thresholds,
    pub read_before_write_list_operations_enabled: bool,
    /// In bytes.
    pub column_value_size: Thresholds,
    /// In bytes.
    pub collection_size: Thresholds,
    pub items_per_collection: Thresholds,
    /// In percent of what the disks hold.
    pub data_disk_usage_percentage: Thresholds,
}

impl Default for Guardrails {
    /// Those of a Cassandra 5.0 whose cassandra.yaml names none.
    fn default() -> Self {
        let none = Thresholds::default();
        Guardrails {
            keyspaces: none,
            tables: none,
            columns_per_table: none,
            fields_per_udt: none,
            vector_dimensions: none,
            minimum_replication_factor: none,
            maximum_replication_factor: none,
            table_properties: Values::default(),
            alter_table_enabled: true,
            drop_keyspace_enabled: true,
            drop_truncate_table_enabled: true,
            uncompressed_tables_enabled: true,
            compact_tables_enabled: true,
            simplestrategy_enabled: true,
            vector_type_enabled: true,
            zero_ttl_on_twcs: Feature { enabled: true, warned: true },
            page_size: none,
            partition_keys_in_select: none,
            in_select_cartesian_product: none,
            read_consistency_levels: Values::default(),
            write_consistency_levels: Values::default(),
            group_by_enabled: true,
            allow_filtering_enabled: true,
            intersect_filtering_query: Feature { enabled: true, warned: true },
            user_timestamps_enabled: true,
            maximum_timestamp: none,
            minimum_timestamp: none,
            read_before_write_list_operations_enabled: true,
            column_value_size: none,
            collection_size: none,
            items_per_collection: none,
            data_disk_usage_percentage: none,
        }
    }
}

impl Guardrails {
    /// Whether there is anything that reads and writes are looked at for, besides filters on several columns.
    pub fn hold_requests(&self) -> bool {
        let thresholds = [
            self.page_size,
            self.partition_keys_in_select,
            self.in_select_cartesian_product,
            self.maximum_timestamp,
            self.minimum_timestamp,
            self.column_value_size,
            self.collection_size,
            self.items_per_collection,
        ];
        let may = [
            self.group_by_enabled,
            self.allow_filtering_enabled,
            self.user_timestamps_enabled,
            self.read_before_write_list_operations_enabled,
            self.drop_truncate_table_enabled,
        ];
        !thresholds.into_iter().all(Thresholds::is_off)
            || !self.read_consistency_levels.is_off()
            || !self.write_consistency_levels.is_off()
            || may.contains(&false)
    }
}

/// A threshold that something is beyond.
#[derive(Clone, Copy)]
struct Beyond {
    threshold: u64,
    is_warning: bool,
}

impl Beyond {
    fn word(self) -> &'static str {
        if self.is_warning { "warning" } else { "failure" }
    }
}

/// The guardrails for the statements of one request, and what they warned of.
#[derive(Debug)]
pub struct Guard {
    rules: Arc<Guardrails>,
    warnings: Mutex<Vec<String>>,
}

impl Guard {
    /// For a request of somebody whom they hold.
    pub fn new(rules: Arc<Guardrails>) -> Guard {
        Guard { rules, warnings: Mutex::default() }
    }

    /// The warnings so far.
    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    fn warn(&self, name: &str, reason: Option<&str>, message: &str) {
        self.warnings.lock().push(decorated(name, reason, message));
    }

    /// The refusal. The client is warned of it, too, as Cassandra does it.
    fn refusal(&self, name: &str, reason: Option<&str>, message: &str) -> CqlError {
        let text = decorated(name, reason, message);
        self.warnings.lock().push(text.clone());
        CqlError::invalid(text)
    }

    fn require(&self, enabled: bool, name: &str, reason: Option<&str>, what: &str) -> Result<()> {
        match enabled {
            true => Ok(()),
            false => Err(self.refusal(name, reason, &format!("{what} is not allowed"))),
        }
    }

    fn feature(&self, feature: Feature, name: &str, reason: Option<&str>, what: &str) -> Result<()> {
        self.require(feature.enabled, name, reason, what)?;
        if feature.warned {
            self.warn(name, reason, &format!("{what} is not recommended"));
        }
        Ok(())
    }

    /// Refuses or warns where `is_beyond` says of a threshold that it is passed.
    fn thresholds(
        &self,
        thresholds: Thresholds,
        is_beyond: impl Fn(u64) -> bool,
        (name, reason): (&str, Option<&str>),
        message: impl Fn(Beyond) -> String,
    ) -> Result<()> {
        let passes = |threshold: u64| threshold > 0 && is_beyond(threshold);
        if passes(thresholds.fail) {
            let message = message(Beyond { threshold: thresholds.fail, is_warning: false });
            return Err(self.refusal(name, reason, &message));
        }
        if passes(thresholds.warn) {
            self.warn(name, reason, &message(Beyond { threshold: thresholds.warn, is_warning: true }));
        }
        Ok(())
    }

    fn at_most(
        &self,
        value: usize,
        thresholds: Thresholds,
        name: &str,
        message: impl Fn(Beyond) -> String,
    ) -> Result<()> {
        self.thresholds(thresholds, |threshold| value as u64 > threshold, (name, None), message)
    }

    /// Returns those of `given` that count as not given.
    fn values<T: Clone + PartialEq + fmt::Display>(
        &self,
        values: &Values<T>,
        given: &[T],
        (name, what): (&str, &str),
    ) -> Result<Vec<T>> {
        let among =
            |set: &[T]| -> Vec<T> { given.iter().filter(|value| set.contains(value)).cloned().collect() };
        let disallowed = among(&values.disallowed);
        if !disallowed.is_empty() {
            let (given, set) = (listed(&disallowed), listed(&values.disallowed));
            let message =
                format!("Provided values {given} are not allowed for {what} (disallowed values are: {set})");
            return Err(self.refusal(name, None, &message));
        }
        let ignored = among(&values.ignored);
        if !ignored.is_empty() {
            let (given, set) = (listed(&ignored), listed(&values.ignored));
            self.warn(
                name,
                None,
                &format!(
                    "Ignoring provided values {given} as they are not supported for {what} (ignored values are: {set})"
                ),
            );
        }
        let warned = among(&values.warned);
        if !warned.is_empty() {
            let (given, set) = (listed(&warned), listed(&values.warned));
            let message =
                format!("Provided values {given} are not recommended for {what} (warned values are: {set})");
            self.warn(name, None, &message);
        }
        Ok(ignored)
    }

    /// The consistency level of a read.
    ///
    /// # Errors
    /// A level that is not allowed.
    pub fn read_level(&self, level: Consistency) -> Result<()> {
        let names = ("read_consistency_levels", "read consistency levels");
        self.values(&self.rules.read_consistency_levels, &[level], names).map(drop)
    }

    /// The consistency levels of a write; the second counts for writes without conditions, too.
    ///
    /// # Errors
    /// A level that is not allowed.
    pub fn write_levels(&self, level: Consistency, serial: Consistency) -> Result<()> {
        let mut given = vec![level, serial];
        given.sort_by_key(|level| *level as u16);
        given.dedup();
        let names = ("write_consistency_levels", "write consistency levels");
        self.values(&self.rules.write_consistency_levels, &given, names).map(drop)
    }

    /// GROUP BY.
    pub(crate) fn group_by(&self) -> Result<()> {
        self.require(self.rules.group_by_enabled, "group_by", None, "GROUP BY functionality")
    }

    /// ALLOW FILTERING.
    pub(crate) fn allow_filtering(&self) -> Result<()> {
        let reason = "ALLOW FILTERING can potentially visit all the data in the table and have unpredictable performance.";
        let enabled = self.rules.allow_filtering_enabled;
        self.require(enabled, "allow_filtering", Some(reason), "Querying with ALLOW FILTERING")
    }

    /// The message of a refusal in the words for those who may not use ALLOW FILTERING.
    pub fn reworded(&self, message: String) -> String {
        const ADVICE: &str =
            "If you want to execute this query despite the performance unpredictability, use ALLOW FILTERING";
        const INSTEAD: &str = "Executing this query despite the performance unpredictability with ALLOW FILTERING has \
                               been disabled by the allow_filtering_enabled property in cassandra.yaml";
        match message.strip_suffix(ADVICE) {
            Some(start) if !self.rules.allow_filtering_enabled => format!("{start}{INSTEAD}"),
            _ => message,
        }
    }

    /// A filter on several columns whose values replicas may hold apart.
    ///
    /// # Errors
    /// It is not allowed.
    pub fn intersect_filtering(&self) -> Result<()> {
        let reason = "Filtering queries involving an intersection on multiple mutable (i.e. non-key) columns over \
                      unrepaired data at read consistency levels that would require coordinator reconciliation may \
                      violate the guarantees of those consistency levels.";
        let what = "Filtering query with intersection on mutable columns at consistency level requiring coordinator \
                    reconciliation";
        self.feature(self.rules.intersect_filtering_query, "intersect_filtering_query", Some(reason), what)
    }

    /// The rows of a page of a read that may have several.
    pub(crate) fn page_size(&self, table: &str, rows: u32) -> Result<()> {
        self.at_most(rows as usize, self.rules.page_size, "page_size", |Beyond { threshold, is_warning }| {
            match is_warning {
                true => format!(
                    "Query for table {table} with page size {rows} exceeds warning threshold of {threshold}."
                ),
                false => format!(
                    "Aborting query for table {table}, page size {rows} exceeds fail threshold of {threshold}."
                ),
            }
        })
    }

    /// The partitions that INs of a read name.
    pub(crate) fn partition_keys(&self, table: &str, count: usize) -> Result<()> {
        let name = "partition_keys_in_select";
        self.at_most(count, self.rules.partition_keys_in_select, name, |Beyond { threshold, is_warning }| {
            match is_warning {
                true => format!(
                    "Query with partition keys in IN clause on table {table}, with number of partition keys {count} \
                     exceeds warning threshold of {threshold}."
                ),
                false => format!(
                    "Aborting query with partition keys in IN clause on table {table}, number of partition keys \
                     {count} exceeds fail threshold of {threshold}."
                ),
            }
        })
    }

    /// What INs multiply to, so far.
    pub(crate) fn refuse_product(&self, what: &str, count: usize) -> Result<()> {
        let refusing = Thresholds { warn: 0, ..self.rules.in_select_cartesian_product };
        self.at_most(count, refusing, PRODUCT, |Beyond { threshold, .. }| {
            format!(
                "Aborting query because the cartesian product of the IN restrictions on {what} produces {count} \
                 values, this exceeds fail threshold of {threshold}."
            )
        })
    }

    /// What INs multiply to.
    pub(crate) fn warn_of_product(&self, what: &str, count: usize) {
        let Thresholds { warn: threshold, .. } = self.rules.in_select_cartesian_product;
        if threshold > 0 && count as u64 > threshold {
            let message = format!(
                "The cartesian product of the IN restrictions on {what} produces {count} values, this exceeds \
                 warning threshold of {threshold}."
            );
            self.warn(PRODUCT, None, &message);
        }
    }
}

const PRODUCT: &str = "in_select_cartesian_product";

/// A message as clients see it.
fn decorated(name: &str, reason: Option<&str>, message: &str) -> String {
    let end = if message.ends_with('.') { "" } else { "." };
    match reason {
        None => format!("Guardrail {name} violated: {message}"),
        Some(reason) => format!("Guardrail {name} violated: {message}{end} {reason}"),
    }
}

fn listed<T: fmt::Display>(values: &[T]) -> String {
    let values: Vec<String> = values.iter().map(T::to_string).collect();
    format!("[{}]", values.join(", "))
}

#[cfg(test)]
mod tests;
