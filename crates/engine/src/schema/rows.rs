//! A keyspace as rows of `system_schema`, column for column as Cassandra 5.0 writes them.
//!
//! What is kept for Cassandra is never written anew: its rows are here so that they go with the table or
//! keyspace that they belong to. Those of views lack the options. `cdc` is never written either, as by a
//! Cassandra whose `cdc_enabled` is false (`SchemaKeyspace.addTableParamsToRowBuilder`): what one that has it
//! wrote there stays.

use super::values as v;
use bytes::Bytes;
use model::schema::{ColumnMask, CompactStorage, DroppedColumn, TableOptions, View};
use model::types::UserType;
use model::{ColumnDef, ColumnKind, CqlType, KeyspaceSchema, TableSchema};
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Table of `system_schema` and clustering of a row.
pub type RowId = (&'static str, Vec<Bytes>);
/// The cells of a row by column name; columns that are null are not there.
pub type Cells = BTreeMap<&'static str, Bytes>;

/// Every row that describes `keyspace`.
pub fn of_keyspace(keyspace: &KeyspaceSchema) -> BTreeMap<RowId, Cells> {
    let mut out = BTreeMap::new();
    let mut replication = keyspace.replication.options.clone();
    replication.insert("class".to_owned(), keyspace.replication.class.clone());
    let cells = Cells::from([
        ("durable_writes", v::boolean(keyspace.durable_writes)),
        ("replication", v::text_map(&replication)),
    ]);
    out.insert(("keyspaces", Vec::new()), cells);
    for ty in keyspace.types.values() {
        out.insert(("types", vec![v::text(&ty.name)]), of_type(ty));
    }
    for table in keyspace.tables.values() {
        out.insert(("tables", vec![v::text(&table.name)]), of_table(table));
    }
    for view in keyspace.views.values() {
        out.insert(("views", vec![v::text(&view.table.name)]), of_view(view));
    }
    for table in keyspace.stores() {
        for column in table.all_columns() {
            out.insert(("columns", vec![v::text(&table.name), v::text(&column.name)]), of_column(&column));
        }
        for dropped in &table.dropped {
            let id = ("dropped_columns", vec![v::text(&table.name), v::text(&dropped.name)]);
            out.insert(id, of_dropped(dropped));
        }
        for index in &table.indexes {
            let cells =
                Cells::from([("kind", v::text(&index.kind)), ("options", v::text_map(&index.options))]);
            out.insert(("indexes", vec![v::text(&table.name), v::text(&index.name)]), cells);
        }
        for trigger in &table.triggers {
            let cells = Cells::from([("options", v::text_map(&trigger.options))]);
            out.insert(("triggers", vec![v::text(&table.name), v::text(&trigger.name)]), cells);
        }
        for mask in &table.masks {
            out.insert(("column_masks", vec![v::text(&table.name), v::text(&mask.column)]), of_mask(mask));
        }
    }
    for function in &keyspace.functions {
        let id = vec![v::text(&function.name), v::text_list(&function.argument_types)];
        out.insert(("functions", id), Cells::from([("body", v::text(&function.body))]));
    }
    for aggregate in &keyspace.aggregates {
        let id = vec![v::text(&aggregate.name), v::text_list(&aggregate.argument_types)];
        let cells = Cells::from([("state_func", v::text(&aggregate.state_function))]);
        out.insert(("aggregates", id), cells);
    }
    out
}

fn of_view(view: &View) -> Cells {
    Cells::from([
        ("base_table_id", v::uuid(view.base_id)),
        ("base_table_name", v::text(&view.base_name)),
        ("id", v::uuid(view.table.id)),
        ("include_all_columns", v::boolean(view.include_all_columns)),
        ("where_clause", v::text(&view.where_clause)),
    ])
}

fn of_mask(mask: &ColumnMask) -> Cells {
    let values = mask.arguments.iter().map(|value| value.as_deref().unwrap_or_default());
    Cells::from([
        ("function_argument_nulls", v::boolean_list(mask.arguments.iter().map(Option::is_none))),
        ("function_argument_types", v::text_list(&mask.argument_types)),
        ("function_argument_values", v::text_list(values)),
        ("function_keyspace", v::text(&mask.function_keyspace)),
        ("function_name", v::text(&mask.function_name)),
    ])
}

fn of_type(ty: &UserType) -> Cells {
    Cells::from([
        ("field_names", v::text_list(ty.fields.iter().map(|(name, _)| name))),
        ("field_types", v::text_list(ty.fields.iter().map(|(_, ty)| ty.to_string()))),
    ])
}

fn of_table(table: &TableSchema) -> Cells {
    let TableOptions {
        additional_write_policy,
        allow_auto_snapshot,
        bloom_filter_fp_chance,
        caching,
        cdc: _,
        comment,
        compaction,
        compression,
        memtable,
        crc_check_chance,
        default_time_to_live,
        extensions,
        gc_grace_seconds,
        incremental_backups,
        max_index_interval,
        memtable_flush_period_in_ms,
        min_index_interval,
        read_repair,
        speculative_retry,
    } = &table.options;
    let (dense, compound) = match table.compact {
        None => (false, true),
        Some(CompactStorage::Static) => (false, false),
        Some(CompactStorage::Dense { compound }) => (true, compound),
    };
    let flags = [("compound", compound), ("counter", table.is_counter), ("dense", dense)];
    let flags: Vec<&str> = flags.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect();
    let mut cells = Cells::from([
        ("additional_write_policy", v::text(additional_write_policy)),
        ("bloom_filter_fp_chance", v::double(*bloom_filter_fp_chance)),
        ("caching", v::text_map(&caching.to_map())),
        ("comment", v::text(comment)),
        ("compaction", v::text_map(&compaction.to_map())),
        ("compression", v::text_map(&compression.to_map())),
        ("crc_check_chance", v::double(*crc_check_chance)),
        ("dclocal_read_repair_chance", v::double(0.0)),
        ("default_time_to_live", v::int(*default_time_to_live)),
        ("extensions", v::text_map(extensions)),
        ("flags", v::text_set(&flags)),
        ("gc_grace_seconds", v::int(*gc_grace_seconds)),
        ("id", v::uuid(table.id)),
        ("max_index_interval", v::int(*max_index_interval)),
        ("memtable_flush_period_in_ms", v::int(*memtable_flush_period_in_ms)),
        ("min_index_interval", v::int(*min_index_interval)),
        ("read_repair", v::text(read_repair)),
        ("read_repair_chance", v::double(0.0)),
        ("speculative_retry", v::text(speculative_retry)),
    ]);
    let flag = |name: &'static str, value: &Option<bool>| value.map(|value| (name, v::boolean(value)));
    cells.extend(flag("allow_auto_snapshot", allow_auto_snapshot));
    cells.extend(flag("incremental_backups", incremental_backups));
    cells.extend(memtable.as_ref().map(|name| ("memtable", v::text(name))));
    cells
}

fn kind_name(kind: ColumnKind) -> &'static str {
    match kind {
        ColumnKind::PartitionKey => "partition_key",
        ColumnKind::Clustering => "clustering",
        ColumnKind::Static => "static",
        ColumnKind::Regular => "regular",
    }
}

fn of_column(column: &ColumnDef) -> Cells {
    let order = match (column.kind, column.descending) {
        (ColumnKind::Clustering, true) => "desc",
        (ColumnKind::Clustering, false) => "asc",
        _ => "none",
    };
    let position = match column.kind {
        ColumnKind::PartitionKey | ColumnKind::Clustering => column.position as i32,
        _ => -1,
    };
    Cells::from([
        ("clustering_order", v::text(order)),
        ("column_name_bytes", v::text(&column.name)),
        ("kind", v::text(kind_name(column.kind))),
        ("position", v::int(position)),
        ("type", v::text(&column.ty.to_string())),
    ])
}

fn of_dropped(dropped: &DroppedColumn) -> Cells {
    Cells::from([
        ("dropped_time", v::timestamp(dropped.dropped_time_micros.div_euclid(1_000))),
        ("kind", v::text(kind_name(dropped.kind))),
        ("type", v::text(&without_user_types(&dropped.ty).to_string())),
    ])
}

/// The type with tuples in place of user types: those may be dropped before the column's cells are gone.
pub(super) fn without_user_types(ty: &CqlType) -> CqlType {
    match ty {
        CqlType::Udt { definition, .. } => {
            CqlType::Tuple(definition.fields.iter().map(|(_, ty)| without_user_types(ty)).collect())
        }
        other => {
            let Ok(ty) = other.map_inner(&|ty| Ok::<_, Infallible>(without_user_types(ty)));
            ty
        }
    }
}
