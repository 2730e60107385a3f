//! Rows of `system_schema` to a schema.
//!
//! 1. Keyspaces. 2. User types, those first whose fields need no other. 3. Tables with their columns.
//! 4. What is kept for Cassandra: views, indexes, triggers, masks, functions, aggregates.
//!
//! Of `system` and `system_schema` only that they are stored is told: what they hold is built in, and another
//! patch release of Cassandra may have tables there that nobody here knows.

use super::values as v;
use crate::error::EngineError;
use bytes::Bytes;
use model::schema::TableBuilder;
use model::schema::{
    CachingOptions, ColumnMask, CompactStorage, CompactionOptions, CompressionOptions, DroppedColumn, Index,
    Replication, RowsPerPartition, TableOptions, Trigger, UserAggregate, UserFunction, View,
};
use model::types::{TypeBounds, UserType};
use model::{ColumnKind, CqlType, KeyspaceSchema, Schema, TableSchema};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

/// A live row of one of the schema's tables.
#[derive(Clone, Debug, Default)]
pub struct SchemaRow {
    /// The keyspace: the partition key.
    pub keyspace: String,
    /// The clustering values.
    pub clustering: Vec<Bytes>,
    /// Live cells by column name.
    pub cells: BTreeMap<String, Bytes>,
}

/// Live rows by table of `system_schema`.
pub type SchemaRows = BTreeMap<&'static str, Vec<SchemaRow>>;

impl SchemaRow {
    fn cell<T>(&self, name: &str, read: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, EngineError> {
        match self.cells.get(name) {
            None => Ok(None),
            Some(bytes) => read(bytes).map(Some).ok_or_else(|| self.damaged(name)),
        }
    }

    fn need<T>(&self, name: &str, read: impl Fn(&[u8]) -> Option<T>) -> Result<T, EngineError> {
        self.cell(name, read)?.ok_or_else(|| self.damaged(name))
    }

    fn name(&self, index: usize) -> Result<String, EngineError> {
        let name = self.clustering.get(index).and_then(|bytes| v::read_text(bytes));
        name.ok_or_else(|| self.damaged("its clustering"))
    }

    /// The argument types of a function or an aggregate, which are a part of its name.
    fn argument_types(&self) -> Result<Vec<String>, EngineError> {
        let types = self.clustering.get(1).and_then(|bytes| v::read_text_list(bytes));
        types.ok_or_else(|| self.damaged("its clustering"))
    }

    fn damaged(&self, what: &str) -> EngineError {
        let at: Vec<_> = self.clustering.iter().map(|c| String::from_utf8_lossy(c)).collect();
        EngineError::Schema(format!("{what} of {}.{} is missing or malformed", self.keyspace, at.join(".")))
    }
}

/// The schema that the rows describe, without a version.
///
/// # Errors
/// [`EngineError::Schema`] names the first row that cannot be.
pub fn load(rows: &SchemaRows) -> Result<Schema, EngineError> {
    let of = |table: &str| rows.get(table).map(Vec::as_slice).unwrap_or_default();
    let mut keyspaces = BTreeMap::new();
    for row in of("keyspaces") {
        let mut options = row.need("replication", v::read_text_map)?;
        let class = options.remove("class").ok_or_else(|| row.damaged("replication"))?;
        let mut keyspace = KeyspaceSchema::new(&row.keyspace, Replication { class, options });
        keyspace.durable_writes = row.cell("durable_writes", v::read_boolean)?.unwrap_or(true);
        keyspaces.insert(row.keyspace.clone(), keyspace);
    }
    for keyspace in keyspaces.values_mut().filter(|k| !crate::system::is_local(&k.name)) {
        let mine = |row: &&SchemaRow| row.keyspace == keyspace.name;
        keyspace.types = load_types(&keyspace.name, of("types").iter().filter(mine))?;
        let of_row = |row: &SchemaRow, table: &str| -> Result<Vec<&SchemaRow>, EngineError> {
            let name = row.name(0)?;
            Ok(of(table).iter().filter(|r| mine(r) && r.name(0).is_ok_and(|n| n == name)).collect())
        };
        let whole_table = |row: &SchemaRow| -> Result<TableBuilder, EngineError> {
            let mut builder =
                load_table(row, &of_row(row, "columns")?, &of_row(row, "dropped_columns")?, &keyspace.types)?;
            for index in of_row(row, "indexes")? {
                let options = index.need("options", v::read_text_map)?;
                let kind = index.need("kind", v::read_text)?;
                builder.indexes.push(Index { name: index.name(1)?, kind, options });
            }
            for trigger in of_row(row, "triggers")? {
                let options = trigger.need("options", v::read_text_map)?;
                builder.triggers.push(Trigger { name: trigger.name(1)?, options });
            }
            for mask in of_row(row, "column_masks")? {
                builder.masks.push(load_mask(mask)?);
            }
            Ok(builder)
        };
        for row in of("tables").iter().filter(mine) {
            keyspace.tables.insert(row.name(0)?, Arc::new(whole_table(row)?.build()));
        }
        for row in of("views").iter().filter(mine) {
            let base_name = row.need("base_table_name", v::read_text)?;
            let view = View {
                table: Arc::new(view_table(whole_table(row)?, keyspace.tables.get(&base_name))),
                base_id: row.need("base_table_id", v::read_uuid)?,
                base_name,
                include_all_columns: row.need("include_all_columns", v::read_boolean)?,
                where_clause: row.need("where_clause", v::read_text)?,
            };
            keyspace.views.insert(row.name(0)?, Arc::new(view));
        }
        keyspace.functions =
            of("functions").iter().filter(mine).map(load_function).collect::<Result<_, _>>()?;
        keyspace.aggregates =
            of("aggregates").iter().filter(mine).map(load_aggregate).collect::<Result<_, _>>()?;
    }
    let keyspaces = keyspaces.into_iter().map(|(name, keyspace)| (name, Arc::new(keyspace))).collect();
    Ok(Schema { keyspaces, ..Schema::default() })
}

type Types = BTreeMap<String, Arc<UserType>>;

fn parse_type(row: &SchemaRow, text: &str, types: &Types) -> Result<CqlType, EngineError> {
    let damaged = |error: &dyn Display| EngineError::Schema(format!("in keyspace {}: {error}", row.keyspace));
    let ty = CqlType::parse_cql(text, &|name| types.get(name).cloned()).map_err(|error| damaged(&error))?;
    match TypeBounds::STORED.measure(&ty) {
        Ok(_) => Ok(ty),
        Err(error) => Err(damaged(&format_args!("type {text} is too large: {error}"))),
    }
}

fn load_types<'r>(keyspace: &str, rows: impl Iterator<Item = &'r SchemaRow>) -> Result<Types, EngineError> {
    let mut out = Types::new();
    let mut left: Vec<&SchemaRow> = rows.collect();
    while !left.is_empty() {
        let mut waiting = Vec::new();
        let mut problem = None;
        for row in &left {
            match load_type(keyspace, row, &out) {
                Ok(ty) => {
                    out.insert(ty.name.clone(), Arc::new(ty));
                }
                Err(error) => {
                    waiting.push(*row);
                    problem = Some(error);
                }
            }
        }
        match problem {
            // None could be loaded in this round, so none can be in the next.
            Some(error) if waiting.len() == left.len() => return Err(error),
            _ => left = waiting,
        }
    }
    Ok(out)
}

fn load_type(keyspace: &str, row: &SchemaRow, types: &Types) -> Result<UserType, EngineError> {
    let names = row.need("field_names", v::read_text_list)?;
    let field_types = row.need("field_types", v::read_text_list)?;
    if names.len() != field_types.len() {
        return Err(row.damaged("field_types"));
    }
    let field_types = field_types.iter().map(|text| parse_type(row, text, types));
    let fields = names.into_iter().zip(field_types).map(|(name, ty)| Ok((name, ty?)));
    Ok(UserType {
        keyspace: keyspace.to_owned(),
        name: row.name(0)?,
        fields: fields.collect::<Result<_, EngineError>>()?,
    })
}

fn load_mask(row: &SchemaRow) -> Result<ColumnMask, EngineError> {
    let values = row.need("function_argument_values", v::read_text_list)?;
    let nulls = row.need("function_argument_nulls", v::read_boolean_list)?;
    if values.len() != nulls.len() {
        return Err(row.damaged("function_argument_nulls"));
    }
    Ok(ColumnMask {
        column: row.name(1)?,
        function_keyspace: row.need("function_keyspace", v::read_text)?,
        function_name: row.need("function_name", v::read_text)?,
        argument_types: row.need("function_argument_types", v::read_text_list)?,
        arguments: values.into_iter().zip(nulls).map(|(value, null)| (!null).then_some(value)).collect(),
    })
}

fn load_function(row: &SchemaRow) -> Result<UserFunction, EngineError> {
    Ok(UserFunction {
        name: row.name(0)?,
        argument_types: row.argument_types()?,
        argument_names: row.need("argument_names", v::read_text_list)?,
        return_type: row.need("return_type", v::read_text)?,
        language: row.need("language", v::read_text)?,
        body: row.need("body", v::read_text)?,
        called_on_null_input: row.need("called_on_null_input", v::read_boolean)?,
    })
}

fn load_aggregate(row: &SchemaRow) -> Result<UserAggregate, EngineError> {
    Ok(UserAggregate {
        name: row.name(0)?,
        argument_types: row.argument_types()?,
        return_type: row.need("return_type", v::read_text)?,
        state_function: row.need("state_func", v::read_text)?,
        state_type: row.need("state_type", v::read_text)?,
        final_function: row.cell("final_func", v::read_text)?,
        initial_condition: row.cell("initcond", v::read_text)?,
    })
}

/// The table of a view.
fn view_table(mut builder: TableBuilder, base: Option<&Arc<TableSchema>>) -> TableSchema {
    let view = builder.clone().build();
    let is_key = |kind| matches!(kind, ColumnKind::PartitionKey | ColumnKind::Clustering);
    let is_key_of_base = |name: &str| base.is_none_or(|b| b.column(name).is_some_and(|c| is_key(c.kind)));
    let mut keys = view.partition_key().iter().chain(view.clustering_columns());
    builder.has_strict_liveness = !keys.all(|column| is_key_of_base(&column.name));
    builder.build()
}

/// What a table or a view is made of; indexes and the like are the caller's to add.
fn load_table(
    row: &SchemaRow,
    columns: &[&SchemaRow],
    dropped: &[&SchemaRow],
    types: &Types,
) -> Result<TableBuilder, EngineError> {
    let name = row.name(0)?;
    // A view has no flags.
    let flags = row.cell("flags", v::read_text_list)?.unwrap_or_else(|| vec!["compound".to_owned()]);
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    if has("super") {
        return Err(EngineError::SuperColumns { keyspace: row.keyspace.clone(), table: name });
    }
    let id = row.need("id", v::read_uuid)?;
    let mut builder = TableSchema::builder(&row.keyspace, &name, id).options(load_options(row)?);
    builder.compact = CompactStorage::of_flags(has("dense"), has("compound"));
    builder.is_counter = has("counter");
    let mut columns: Vec<(String, i32, &SchemaRow)> = columns
        .iter()
        .map(|c| Ok((c.need("kind", v::read_text)?, c.need("position", v::read_int)?, *c)))
        .collect::<Result<_, EngineError>>()?;
    columns.sort_by_key(|(_, position, _)| *position);
    for (kind, _, column) in columns {
        let column_name = column.name(1)?;
        if column.cells.get("column_name_bytes").is_some_and(|bytes| *bytes != column_name.as_bytes()) {
            return Err(EngineError::ColumnName {
                keyspace: row.keyspace.clone(),
                table: name,
                column: column_name,
            });
        }
        let ty = parse_type(column, &column.need("type", v::read_text)?, types)?;
        let descending = column.cell("clustering_order", v::read_text)?.is_some_and(|o| o == "desc");
        builder = match kind.as_str() {
            "partition_key" => builder.partition_key(&column_name, ty),
            "clustering" => builder.clustering(&column_name, ty, descending),
            "static" => builder.static_column(&column_name, ty),
            "regular" => builder.regular(&column_name, ty),
            _ => return Err(column.damaged("kind")),
        };
    }
    for column in dropped {
        let kind = column.need("kind", v::read_text)?;
        builder.dropped.push(DroppedColumn {
            name: column.name(1)?,
            kind: if kind == "static" { ColumnKind::Static } else { ColumnKind::Regular },
            ty: parse_type(column, &column.need("type", v::read_text)?, types)?,
            dropped_time_micros: column.need("dropped_time", v::read_bigint)?.saturating_mul(1_000),
        });
    }
    Ok(builder)
}

fn load_options(row: &SchemaRow) -> Result<TableOptions, EngineError> {
    let default = TableOptions::default();
    let text =
        |name: &str, default: String| Ok::<_, EngineError>(row.cell(name, v::read_text)?.unwrap_or(default));
    let int =
        |name: &str, default: i32| Ok::<_, EngineError>(row.cell(name, v::read_int)?.unwrap_or(default));
    let double =
        |name: &str, default: f64| Ok::<_, EngineError>(row.cell(name, v::read_double)?.unwrap_or(default));
    let flag = |name: &str| row.cell(name, v::read_boolean);
    let map = |name: &str| row.cell(name, v::read_text_map);
    Ok(TableOptions {
        additional_write_policy: text("additional_write_policy", default.additional_write_policy)?,
        allow_auto_snapshot: flag("allow_auto_snapshot")?,
        bloom_filter_fp_chance: double("bloom_filter_fp_chance", default.bloom_filter_fp_chance)?,
        caching: map("caching")?.map_or(default.caching, |m| load_caching(&m)),
        cdc: flag("cdc")?,
        comment: text("comment", default.comment)?,
        compaction: match map("compaction")? {
            None => default.compaction,
            Some(mut map) => {
                let class = map.remove("class").ok_or_else(|| row.damaged("compaction"))?;
                CompactionOptions { class, options: map }
            }
        },
        compression: match map("compression")? {
            None => default.compression,
            Some(map) => load_compression(map).ok_or_else(|| row.damaged("compression"))?,
        },
        memtable: row.cell("memtable", v::read_text)?,
        crc_check_chance: double("crc_check_chance", default.crc_check_chance)?,
        default_time_to_live: int("default_time_to_live", default.default_time_to_live)?,
        extensions: row.cell("extensions", v::read_blob_map)?.unwrap_or_default(),
        gc_grace_seconds: int("gc_grace_seconds", default.gc_grace_seconds)?,
        incremental_backups: flag("incremental_backups")?,
        max_index_interval: int("max_index_interval", default.max_index_interval)?,
        memtable_flush_period_in_ms: int("memtable_flush_period_in_ms", default.memtable_flush_period_in_ms)?,
        min_index_interval: int("min_index_interval", default.min_index_interval)?,
        read_repair: text("read_repair", default.read_repair)?,
        speculative_retry: text("speculative_retry", default.speculative_retry)?,
    })
}

fn load_caching(map: &BTreeMap<String, String>) -> CachingOptions {
    let word = |name: &str| map.get(name).map(|v| v.to_ascii_uppercase()).unwrap_or_default();
    CachingOptions {
        keys: word("keys") != "NONE",
        rows_per_partition: match word("rows_per_partition").as_str() {
            "ALL" => RowsPerPartition::All,
            number => number.parse().map_or(RowsPerPartition::None, RowsPerPartition::Some),
        },
    }
}

fn load_compression(mut map: BTreeMap<String, String>) -> Option<CompressionOptions> {
    let default = TableOptions::default().compression;
    let enabled = map.remove("enabled").is_none_or(|text| text != "false");
    let class = map.remove("class").or_else(|| map.remove("sstable_compression"));
    let chunk_length_kb = match map.remove("chunk_length_in_kb").or_else(|| map.remove("chunk_length_kb")) {
        Some(text) => text.parse().ok()?,
        None => default.chunk_length_kb,
    };
    let min_compress_ratio = match map.remove("min_compress_ratio") {
        Some(text) => text.parse().ok()?,
        None => default.min_compress_ratio,
    };
    let class = class.filter(|class| enabled && !class.is_empty());
    Some(CompressionOptions { class, chunk_length_kb, min_compress_ratio, options: map })
}
