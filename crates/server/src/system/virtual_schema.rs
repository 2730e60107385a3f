//! `system_virtual_schema`: the virtual tables described in virtual tables.

use super::catalog;
use super::rows::{IntoValue, VirtualRows};
use bytes::Bytes;
use model::ColumnKind;

/// `keyspaces`.
pub(super) fn keyspaces(rows: &mut VirtualRows) {
    for keyspace in catalog::keyspaces() {
        rows.add([keyspace.name.as_str().into_value()], &[]);
    }
}

/// `tables`.
pub(super) fn tables(rows: &mut VirtualRows) {
    for table in catalog::keyspaces().iter().flat_map(|k| k.tables.values()) {
        rows.add(
            [table.keyspace.as_str().into_value(), table.name.as_str().into_value()],
            &[("comment", table.options.comment.as_str().into_value())],
        );
    }
}

/// `columns`.
pub(super) fn columns(rows: &mut VirtualRows) {
    for table in catalog::keyspaces().iter().flat_map(|k| k.tables.values()) {
        for column in table.select_star() {
            let (kind, position, order) = match column.kind {
                ColumnKind::PartitionKey => ("partition_key", column.position as i32, "none"),
                ColumnKind::Clustering => {
                    ("clustering", column.position as i32, if column.descending { "desc" } else { "asc" })
                }
                ColumnKind::Static => ("static", -1, "none"),
                ColumnKind::Regular => ("regular", -1, "none"),
            };
            rows.add(
                [
                    table.keyspace.as_str().into_value(),
                    table.name.as_str().into_value(),
                    column.name.as_str().into_value(),
                ],
                &[
                    ("clustering_order", order.into_value()),
                    ("column_name_bytes", Bytes::copy_from_slice(column.name.as_bytes()).into_value()),
                    ("kind", kind.into_value()),
                    ("position", position.into_value()),
                    ("type", column.ty.to_string().into_value()),
                ],
            );
        }
    }
}
