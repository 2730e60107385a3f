//! The table of an SSTable, as far as its header tells: for tools that have no schema at hand.
//!
//! A header has the types of the key and of the clusterings but not their names, and nothing of the table's
//! options.

use model::types::TypeNameError;
use model::{CqlType, TableSchema};
use partition::codec::SerializationHeader;
use uuid::Uuid;

/// Names that no column of the header has: `stem`, then `stem1` and so on.
fn free_names<'h>(header: &'h SerializationHeader, stem: &'static str) -> impl Iterator<Item = String> + 'h {
    let taken = move |name: &String| {
        header.static_columns.iter().chain(&header.regular_columns).any(|column| column.name == *name)
    };
    (0u32..)
        .map(move |i| if i == 0 { stem.to_owned() } else { format!("{stem}{i}") })
        .filter(move |name| !taken(name))
}

/// The table that an SSTable with this header belongs to, with made up names for what the header does not
/// name: `keyspace.table`, `key`, `key1`, ... and `clustering`, `clustering1`, ...
///
/// # Errors
/// When the class of the partition key cannot be understood.
pub fn table_of_header(header: &SerializationHeader) -> Result<TableSchema, TypeNameError> {
    let mut builder = TableSchema::builder("keyspace", "table", Uuid::nil());
    for (ty, name) in CqlType::parse_key_class(&header.key_type)?.into_iter().zip(free_names(header, "key")) {
        builder = builder.partition_key(&name, ty);
    }
    for ((ty, descending), name) in header.clustering.iter().zip(free_names(header, "clustering")) {
        builder = builder.clustering(&name, ty.clone(), *descending);
    }
    for column in &header.static_columns {
        builder = builder.static_column(&column.name, column.ty.clone());
    }
    for column in &header.regular_columns {
        builder = builder.regular(&column.name, column.ty.clone());
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use partition::codec::{DeletionTimes, EncodingStats, HeaderColumn};

    #[test]
    fn names_of_columns_are_not_taken_twice() {
        let column = |name: &str| HeaderColumn { name: name.to_owned(), ty: CqlType::Int };
        let header = SerializationHeader {
            stats: EncodingStats::default(),
            times: DeletionTimes::Signed,
            key_type: CqlType::key_class_name(&[CqlType::Int, CqlType::Text]),
            clustering: vec![(CqlType::Uuid, true), (CqlType::Blob, false)],
            static_columns: vec![column("clustering")],
            regular_columns: vec![column("key"), column("v")],
        };
        let table = table_of_header(&header).unwrap();
        let names = |columns: &[std::sync::Arc<model::ColumnDef>]| -> Vec<String> {
            columns.iter().map(|c| c.name.clone()).collect()
        };
        assert_eq!(names(table.partition_key()), ["key1", "key2"]);
        assert_eq!(names(table.clustering_columns()), ["clustering1", "clustering2"]);
        assert!(table.clustering_columns()[0].descending && !table.clustering_columns()[1].descending);
        assert_eq!(
            SerializationHeader::of_table(&table, EncodingStats::default(), DeletionTimes::Signed),
            header
        );
    }
}
