//! Guardrails for changes of the schema.

use super::{Beyond, Guard};
use crate::ast::{Property, RawType};
use crate::ddl::DdlContext;
use crate::error::Result;
use model::schema::is_system_keyspace;
use model::{Schema, TableSchema};
use std::borrow::Cow;

const TIME_WINDOWS: &str = "TimeWindowCompactionStrategy";

impl Guard {
    /// One more keyspace.
    pub(crate) fn keyspaces(&self, keyspace: &str, schema: &Schema) -> Result<()> {
        let count = schema.keyspaces.keys().filter(|name| !is_system_keyspace(name)).count() + 1;
        self.at_most(count, self.rules.keyspaces, "keyspaces", |Beyond { threshold, is_warning }| {
            match is_warning {
                true => format!(
                    "Creating keyspace {keyspace}, current number of keyspaces {count} exceeds warning threshold of \
                     {threshold}."
                ),
                false => format!(
                    "Cannot have more than {threshold} keyspaces, aborting the creation of keyspace {keyspace}"
                ),
            }
        })
    }

    /// One more table.
    pub(crate) fn tables(&self, table: &str, schema: &Schema) -> Result<()> {
        let keyspaces = schema.keyspaces.values().filter(|keyspace| !is_system_keyspace(&keyspace.name));
        let count = keyspaces.map(|keyspace| keyspace.stores().count()).sum::<usize>() + 1;
        self.at_most(count, self.rules.tables, "tables", |Beyond { threshold, is_warning }| match is_warning {
            true => format!(
                "Creating table {table}, current number of tables {count} exceeds warning threshold of {threshold}."
            ),
            false => format!("Cannot have more than {threshold} tables, aborting the creation of table {table}"),
        })
    }

    /// The columns of a table.
    pub(crate) fn columns(&self, table: &str, count: usize) -> Result<()> {
        let name = "columns_per_table";
        self.at_most(count, self.rules.columns_per_table, name, |Beyond { threshold, is_warning }| {
            match is_warning {
                true => format!(
                    "The table {table} has {count} columns, this exceeds the warning threshold of {threshold}."
                ),
                false => format!(
                    "Tables cannot have more than {threshold} columns, but {count} provided for table {table}"
                ),
            }
        })
    }

    /// The fields of a user type.
    pub(crate) fn fields(&self, user_type: &str, count: usize) -> Result<()> {
        let name = "fields_per_udt";
        self.at_most(count, self.rules.fields_per_udt, name, |Beyond { threshold, is_warning }| {
            match is_warning {
                true => format!(
                    "The user type {user_type} has {count} columns, this exceeds the warning threshold of {threshold}."
                ),
                false => format!(
                    "User types cannot have more than {threshold} columns, but {count} provided for user type \
                     {user_type}."
                ),
            }
        })
    }

    fn vector(&self, what: &str, dimensions: usize) -> Result<()> {
        self.require(self.rules.vector_type_enabled, "vector_type_enabled", None, what)?;
        self.at_most(dimensions, self.rules.vector_dimensions, "vector_dimensions", |beyond| {
            let (word, threshold) = (beyond.word(), beyond.threshold);
            format!("{what} has a vector of {dimensions} dimensions, this exceeds the {word} threshold of {threshold}.")
        })
    }

    /// The type of a column or field, as the statement has it. Types inside of vectors are not looked at.
    pub(crate) fn vectors_in(&self, what: &str, ty: &RawType) -> Result<()> {
        match ty {
            RawType::Vector { dimensions, .. } => {
                self.vector(what, usize::try_from(*dimensions).unwrap_or(0))
            }
            RawType::List(element) | RawType::Set(element) | RawType::Frozen(element) => {
                self.vectors_in(what, element)
            }
            RawType::Map(key, value) => {
                self.vectors_in(what, key)?;
                self.vectors_in(what, value)
            }
            RawType::Tuple(types) => types.iter().try_for_each(|ty| self.vectors_in(what, ty)),
            _ => Ok(()),
        }
    }

    /// The factor of a keyspace, in each data center.
    pub(crate) fn replication_factor(&self, keyspace: &str, factor: u32) -> Result<()> {
        let factor = u64::from(factor);
        let message = |side: &'static str| {
            move |beyond: Beyond| {
                let (word, threshold) = (beyond.word(), beyond.threshold);
                format!(
                    "The keyspace {keyspace} has a replication factor of {factor}, {side} the {word} threshold of \
                     {threshold}."
                )
            }
        };
        let name = ("minimum_replication_factor", None);
        self.thresholds(self.rules.minimum_replication_factor, |min| factor < min, name, message("below"))?;
        let name = ("maximum_replication_factor", None);
        self.thresholds(self.rules.maximum_replication_factor, |max| factor > max, name, message("above"))
    }

    /// A strategy for replicas, as the statement names it.
    pub(crate) fn strategy(&self, class: &str) -> Result<()> {
        let allowed = self.rules.simplestrategy_enabled || class != "SimpleStrategy";
        self.require(allowed, "simplestrategy", None, "SimpleStrategy")
    }

    /// The properties of a table without those that are ignored.
    pub(crate) fn properties<'p>(&self, properties: &'p [Property]) -> Result<Cow<'p, [Property]>> {
        let mut given: Vec<String> = properties.iter().map(|property| property.name.clone()).collect();
        given.sort();
        given.dedup();
        let names = ("table_properties", "Table Properties");
        let ignored = self.values(&self.rules.table_properties, &given, names)?;
        if ignored.is_empty() {
            return Ok(properties.into());
        }
        let counts = |property: &&Property| !ignored.contains(&property.name);
        Ok(properties.iter().filter(counts).cloned().collect())
    }

    /// The compaction of a table whose rows do not expire.
    pub(crate) fn compaction(&self, class: &str, default_time_to_live: i32) -> Result<()> {
        if default_time_to_live != 0 || class.rsplit('.').next() != Some(TIME_WINDOWS) {
            return Ok(());
        }
        let what = format!("0 default_time_to_live on a table with {TIME_WINDOWS} compaction strategy");
        let reason = "It is suspicious to use default_time_to_live set to 0 with such compaction strategy. Please \
                      keep in mind that data will not start to automatically expire after they are older than a \
                      respective compaction window unit of a certain size. Please set TTL for your INSERT or UPDATE \
                      statements if you expect data to be expired as table settings will not do it. ";
        self.feature(self.rules.zero_ttl_on_twcs, "zero_ttl_on_twcs", Some(reason), &what)
    }

    /// A table without compression.
    pub(crate) fn compression(&self, table: &TableSchema) -> Result<()> {
        let allowed = self.rules.uncompressed_tables_enabled || table.options.compression.class.is_some();
        self.require(allowed, "uncompressed_tables_enabled", None, "Uncompressed table")
    }

    /// CREATE TABLE WITH COMPACT STORAGE.
    pub(crate) fn compact_tables(&self) -> Result<()> {
        let allowed = self.rules.compact_tables_enabled;
        self.require(allowed, "compact_tables", None, "Creation of new COMPACT STORAGE tables")
    }

    /// ALTER TABLE ADD, DROP, RENAME.
    pub(crate) fn alter_columns(&self) -> Result<()> {
        self.require(self.rules.alter_table_enabled, "alter_table", None, "ALTER TABLE changing columns")
    }

    /// DROP TABLE and TRUNCATE.
    pub(crate) fn drop_or_truncate(&self) -> Result<()> {
        let allowed = self.rules.drop_truncate_table_enabled;
        self.require(allowed, "drop_truncate_table_enabled", None, "DROP and TRUNCATE TABLE functionality")
    }

    /// DROP KEYSPACE.
    pub(crate) fn drop_keyspace(&self) -> Result<()> {
        let allowed = self.rules.drop_keyspace_enabled;
        self.require(allowed, "drop_keyspace_enabled", None, "DROP KEYSPACE functionality")
    }
}

/// Looks at the types of columns or fields: "Column v" and its type, "Field f" and its type.
pub(crate) fn guard_types<'t>(
    kind: &str,
    types: impl Iterator<Item = (&'t str, &'t RawType)>,
    ctx: &DdlContext<'_>,
) -> Result<()> {
    let Some(guard) = ctx.guard else { return Ok(()) };
    for (name, ty) in types {
        guard.vectors_in(&format!("{kind} {name}"), ty)?;
    }
    Ok(())
}
