//! CREATE TABLE ... WITH COMPACT STORAGE: what is refused, and the columns that CQL does not show.

use crate::ast::{ColumnDefinition, CreateTable, Identifier, PrimaryKey};
use crate::error::{Result, bail};
use model::CqlType;
use model::schema::{CompactStorage, TableBuilder};

/// Refuses what such a table cannot hold. `columns` are those that are not part of the primary key.
pub(super) fn check<'c>(
    primary_key: &PrimaryKey,
    columns: impl Iterator<Item = &'c ColumnDefinition>,
    is_multi_cell: impl Fn(&Identifier) -> bool,
) -> Result<()> {
    let mut columns: Vec<&ColumnDefinition> = columns.collect();
    columns.sort_by(|a, b| a.name.cmp(&b.name));
    if columns.iter().any(|column| is_multi_cell(&column.name)) {
        bail!("Non-frozen collections and UDTs are not supported with COMPACT STORAGE");
    }
    if columns.iter().any(|column| column.is_static) {
        bail!("Static columns are not supported in COMPACT STORAGE tables");
    }
    if primary_key.clustering.is_empty() {
        if columns.is_empty() {
            bail!("No definition found that is not part of the PRIMARY KEY");
        }
    } else if columns.len() > 1 {
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        bail!(
            "COMPACT STORAGE with composite PRIMARY KEY allows no more than one column not part of the PRIMARY KEY \
             (got: {})",
            names.join(", ")
        );
    }
    Ok(())
}

/// Adds the columns that are not shown.
pub(super) fn complete(
    mut builder: TableBuilder,
    create: &CreateTable,
    primary_key: &PrimaryKey,
    has_counters: bool,
) -> TableBuilder {
    let unused = |base: &str, first: usize| {
        let name = |number: usize| if number == 0 { base.to_owned() } else { format!("{base}{number}") };
        let is_taken = |name: &String| create.columns.iter().any(|column| column.name.as_str() == name);
        (first..).map(name).find(|name| !is_taken(name)).unwrap_or_default()
    };
    let value = unused("value", 0);
    if primary_key.clustering.is_empty() {
        let ty = if has_counters { CqlType::Counter } else { CqlType::Blob };
        builder = builder.clustering(&unused("column", 1), CqlType::Text, false).regular(&value, ty);
        builder.compact = Some(CompactStorage::Static);
        return builder;
    }
    let in_key = primary_key.partition_key.len() + primary_key.clustering.len();
    if create.columns.len() == in_key {
        builder = builder.regular(&value, CqlType::Empty);
    }
    builder.compact = Some(CompactStorage::Dense { compound: primary_key.clustering.len() > 1 });
    builder
}
