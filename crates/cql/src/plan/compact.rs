//! What is different in writes to tables with COMPACT STORAGE: a row is there while it has a value.

use super::change::Change;
use crate::error::{Result, bail};
use bytes::Bytes;
use model::clustering::{Clustering, Component};
use model::schema::CompactStorage;
use model::{CqlType, TableSchema};

/// The clustering of a row whose clustering is no composite must not be empty.
pub(super) fn check_clustering(table: &TableSchema, clustering: &Clustering) -> Result<()> {
    if table.compact != Some(CompactStorage::Dense { compound: false }) {
        return Ok(());
    }
    match (clustering.get(0), table.clustering_columns().first()) {
        (Component::Value(value), _) if !value.is_empty() => Ok(()),
        (_, column) => {
            bail!("Invalid empty or null value for column {}", column.map_or("", |c| c.name.as_str()))
        }
    }
}

/// What an INSERT of nothing but the primary key writes: the empty value of a table that has no other
/// columns.
pub(super) fn value_of_key(table: &TableSchema) -> Result<Option<Change>> {
    match table.compact_value() {
        None => Ok(None),
        Some(column) if column.ty == CqlType::Empty => {
            Ok(Some(Change::Cell { column: column.id, path: Bytes::new(), value: Some(Bytes::new()) }))
        }
        Some(column) => bail!("Column {} is mandatory for this COMPACT STORAGE table", column.name),
    }
}
