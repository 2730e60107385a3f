//! Tables that were made WITH COMPACT STORAGE: rows laid out as before CQL, for Thrift.
//!
//! The stored form has columns that CQL does not show:
//! * A table without clustering columns keeps its columns as static ones. Beside them it has a clustering
//!   column and a regular one, for what Thrift may have written there.
//! * A table that has nothing but its primary key keeps a regular column whose values are empty. In none of
//!   these tables a row is there by itself: it is there while it has a value.
//!
//! (Cassandra: `TableMetadata.CompactTableMetadata`.)

use super::table::{ColumnDef, ColumnKind, TableSchema};
use crate::types::CqlType;
use std::sync::Arc;

/// How a table with COMPACT STORAGE keeps its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactStorage {
    /// Without clustering columns.
    Static,
    /// With clustering columns, and one other column at most. Rows may lack their last clustering columns.
    Dense {
        /// Whether the clustering is a composite; one that is not is never empty.
        compound: bool,
    },
}

impl CompactStorage {
    /// What the flags of `system_schema.tables` say; `None` for a table without COMPACT STORAGE.
    pub fn of_flags(dense: bool, compound: bool) -> Option<CompactStorage> {
        match (dense, compound) {
            (true, compound) => Some(CompactStorage::Dense { compound }),
            (false, true) => None,
            (false, false) => Some(CompactStorage::Static),
        }
    }
}

impl TableSchema {
    /// Whether CQL does not show the column.
    pub fn is_hidden(&self, column: &ColumnDef) -> bool {
        match self.compact {
            None => false,
            Some(CompactStorage::Static) => {
                matches!(column.kind, ColumnKind::Clustering | ColumnKind::Regular)
            }
            Some(CompactStorage::Dense { .. }) => {
                column.kind == ColumnKind::Regular && column.ty == CqlType::Empty
            }
        }
    }

    /// A column that CQL shows, by name.
    pub fn visible_column(&self, name: &str) -> Option<&Arc<ColumnDef>> {
        self.column(name).filter(|column| !self.is_hidden(column))
    }

    /// Clustering columns that CQL shows.
    pub fn visible_clustering(&self) -> &[Arc<ColumnDef>] {
        if self.is_static_compact() { &[] } else { self.clustering_columns() }
    }

    /// Whether what CQL shows as rows are static rows.
    pub fn is_static_compact(&self) -> bool {
        self.compact == Some(CompactStorage::Static)
    }

    /// The column without which a row is not there.
    pub fn compact_value(&self) -> Option<&Arc<ColumnDef>> {
        match self.compact {
            Some(CompactStorage::Dense { .. }) => self.regular_columns().first(),
            Some(CompactStorage::Static) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn names(columns: &[Arc<ColumnDef>]) -> Vec<&str> {
        columns.iter().map(|c| c.name.as_str()).collect()
    }

    #[test]
    fn without_clustering_columns_the_static_ones_are_shown() {
        let mut builder = TableSchema::builder("ks", "t", Uuid::nil())
            .partition_key("k", CqlType::Int)
            .clustering("column1", CqlType::Text, false)
            .static_column("v", CqlType::Int)
            .regular("value", CqlType::Blob);
        builder.compact = Some(CompactStorage::Static);
        let table = builder.build();
        assert_eq!(names(&table.select_star()), ["k", "v"]);
        assert!(table.visible_column("column1").is_none() && table.column("column1").is_some());
        assert!(table.visible_clustering().is_empty() && table.compact_value().is_none());
        assert_eq!(table.to_builder().build(), table);
        let mut plain = table.to_builder();
        plain.compact = None;
        assert_eq!(names(&plain.build().select_star()), ["k", "column1", "v", "value"]);
    }

    #[test]
    fn a_value_that_is_always_empty_is_not_shown() {
        let table = |ty: CqlType| {
            let mut builder = TableSchema::builder("ks", "t", Uuid::nil())
                .partition_key("k", CqlType::Int)
                .clustering("c", CqlType::Text, false)
                .regular("value", ty);
            builder.compact = Some(CompactStorage::Dense { compound: false });
            builder.build()
        };
        assert_eq!(names(&table(CqlType::Empty).select_star()), ["k", "c"]);
        assert_eq!(names(&table(CqlType::Int).select_star()), ["k", "c", "value"]);
        assert_eq!(table(CqlType::Empty).compact_value().map(|c| c.name.clone()), Some("value".to_owned()));
    }

    #[test]
    fn only_compound_rows_that_are_not_dense_are_those_of_cql() {
        assert_eq!(CompactStorage::of_flags(false, true), None);
        assert_eq!(CompactStorage::of_flags(false, false), Some(CompactStorage::Static));
        assert_eq!(CompactStorage::of_flags(true, false), Some(CompactStorage::Dense { compound: false }));
        assert_eq!(CompactStorage::of_flags(true, true), Some(CompactStorage::Dense { compound: true }));
    }
}
