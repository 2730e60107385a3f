//! Elements of the schema as CQL text, byte for byte as Cassandra prints them.
//!
//! Statements end in `;`. What the node computes itself (virtual keyspaces and tables) is no statement anyone
//! can run: it stands in a comment that says so.

use super::kept;
use crate::ast::Identifier;
use model::schema::{ColumnDef, ColumnKind, DroppedColumn, Release, TableOptions};
use model::types::{CqlType, UserType, is_quoted_in_types};
use model::{KeyspaceSchema, TableSchema};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How a table is described.
pub(super) struct Form {
    /// Options that this release does not have are left out.
    pub release: Release,
    /// With the id, and what was dropped.
    pub internals: bool,
    /// Whether the node computes it.
    pub is_virtual: bool,
    /// Whether it is the table of a view.
    pub is_view: bool,
    /// Whether nothing is made that is there.
    pub if_not_exists: bool,
}

/// The name, quoted where CQL needs that.
pub(super) fn quoted(name: &str) -> String {
    Identifier::quoted(name).to_cql()
}

pub(super) fn full_name(keyspace: &str, name: &str) -> String {
    format!("{}.{}", quoted(keyspace), quoted(name))
}

/// `CREATE KEYSPACE`.
pub(super) fn keyspace(keyspace: &KeyspaceSchema) -> String {
    let name = quoted(&keyspace.name);
    if keyspace.is_virtual {
        return format!(
            "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with CQL.\nStructure, for \
             reference:\nVIRTUAL KEYSPACE {name};\n*/"
        );
    }
    let mut replication = vec![("class", keyspace.replication.short_class())];
    replication
        .extend(keyspace.replication.options.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    // The two blanks are Cassandra's.
    format!(
        "CREATE KEYSPACE {name} WITH replication = {}  AND durable_writes = {};",
        map_text(replication),
        keyspace.durable_writes
    )
}

/// IF NOT EXISTS, where that is wanted.
fn condition(if_not_exists: bool) -> &'static str {
    if if_not_exists { "IF NOT EXISTS " } else { "" }
}

/// `CREATE TYPE`.
pub(super) fn user_type(ty: &UserType, if_not_exists: bool) -> String {
    let fields: Vec<String> =
        ty.fields.iter().map(|(name, ty)| format!("    {} {ty}", quoted(name))).collect();
    let name = if is_quoted_in_types(&ty.name) { format!("\"{}\"", ty.name) } else { quoted(&ty.name) };
    let condition = condition(if_not_exists);
    format!("CREATE TYPE {condition}{}.{name} (\n{}\n);", quoted(&ty.keyspace), fields.join(",\n"))
}

/// `CREATE TABLE`. With `internals` the table gets its id. A dropped column is created, dropped and, if it
/// came back, added. Replayed on an empty node, the text leaves a table that reads the same files. A table
/// with COMPACT STORAGE would not be the same when it is made anew: its text is a comment.
pub(super) fn table(table: &TableSchema, form: &Form) -> String {
    let (is_virtual, internals) = (form.is_virtual, form.internals);
    let name = full_name(&table.keyspace, &table.name);
    let mut out = String::new();
    let is_comment = is_virtual || table.compact.is_some();
    if is_comment {
        out.push_str("/*\nWarning: Table ");
        out.push_str(&name);
    }
    out.push_str(match (is_virtual, table.compact) {
        (true, _) => " is a virtual table and cannot be recreated with CQL.\nStructure, for reference:\nVIRTUAL",
        (false, Some(_)) => {
            " omitted because it has constructs not compatible with CQL (was created via legacy API).\nApproximate \
             structure, for reference:\n(this should not be used to reproduce this schema)\n\nCREATE"
        }
        (false, None) => "CREATE",
    });
    out.push_str(" TABLE ");
    out.push_str(condition(form.if_not_exists));
    out.push_str(&name);
    out.push_str(" (\n");
    let dropped = dropped_columns(table, internals);
    write_columns(&mut out, table, &dropped);
    out.push_str("\n) WITH ");
    out.push_str(&properties(table, form).join("\n    AND "));
    out.push(';');
    for column in dropped {
        write_drop(&mut out, &name, table, column);
    }
    if is_comment {
        out.push_str("\n*/");
    }
    out
}

/// The dropped columns that the text has to speak of. Cassandra's order is that of a hash table; ours is by
/// name.
fn dropped_columns(table: &TableSchema, internals: bool) -> Vec<&DroppedColumn> {
    let mut dropped: Vec<&DroppedColumn> =
        if internals { table.dropped.iter().collect() } else { Vec::new() };
    dropped.sort_by(|a, b| a.name.cmp(&b.name));
    dropped
}

/// Columns in the order in which they are described.
pub(super) fn write_order(table: &TableSchema) -> impl Iterator<Item = &ColumnDef> {
    let key = table.partition_key().iter().chain(table.clustering_columns());
    let all = key.chain(table.static_columns()).chain(table.regular_columns()).map(AsRef::as_ref);
    all.filter(|column| !table.is_hidden(column))
}

fn write_columns(out: &mut String, table: &TableSchema, dropped: &[&DroppedColumn]) {
    let key = table.partition_key();
    let clustering = table.visible_clustering();
    let inline_key = key.len() == 1 && table.clustering_columns().is_empty();
    let mut lines: Vec<String> = Vec::new();
    for column in write_order(table) {
        if dropped.iter().any(|d| d.name == column.name) {
            continue;
        }
        let kind = if table.is_static_compact() { ColumnKind::Regular } else { column.kind };
        let mut line = column_text(&column.name, &column.ty, kind);
        if let Some(mask) = table.mask_of(&column.name) {
            line.push_str(&kept::mask(mask, &column.ty));
        }
        if inline_key && column.kind == ColumnKind::PartitionKey {
            line.push_str(" PRIMARY KEY");
        }
        lines.push(line);
    }
    lines.extend(dropped.iter().map(|column| column_text(&column.name, &column.ty, column.kind)));
    if !inline_key {
        let mut parts = vec![match key {
            [single] => quoted(&single.name),
            several => format!("({})", names(several)),
        }];
        parts.extend(clustering.iter().map(|column| quoted(&column.name)));
        lines.push(format!("PRIMARY KEY ({})", parts.join(", ")));
    }
    for (at, line) in lines.iter().enumerate() {
        out.push_str(if at > 0 { ",\n    " } else { "    " });
        out.push_str(line);
    }
}

pub(super) fn names(columns: &[std::sync::Arc<ColumnDef>]) -> String {
    columns.iter().map(|column| quoted(&column.name)).collect::<Vec<_>>().join(", ")
}

fn column_text(name: &str, ty: &CqlType, kind: ColumnKind) -> String {
    let is_static = if kind == ColumnKind::Static { " static" } else { "" };
    format!("{} {ty}{is_static}", quoted(name))
}

fn write_drop(out: &mut String, table_name: &str, table: &TableSchema, dropped: &DroppedColumn) {
    let column = quoted(&dropped.name);
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "\nALTER TABLE {table_name} DROP {column} USING TIMESTAMP {};",
        dropped.dropped_time_micros
    );
    if let Some(back) = table.column(&dropped.name) {
        let mut text = column_text(&back.name, &back.ty, back.kind);
        if let Some(mask) = table.mask_of(&back.name) {
            text.push_str(&kept::mask(mask, &back.ty));
        }
        let _ = write!(out, "\nALTER TABLE {table_name} ADD {text};");
    }
}

/// What stands after WITH.
pub(super) fn properties(table: &TableSchema, form: &Form) -> Vec<String> {
    let mut out = Vec::new();
    if table.compact.is_some() {
        out.push("COMPACT STORAGE".to_owned());
    }
    if form.internals {
        out.push(format!("ID = {}", table.id));
    }
    if !table.clustering_columns().is_empty() {
        let order = |column: &ColumnDef| {
            format!("{} {}", quoted(&column.name), if column.descending { "DESC" } else { "ASC" })
        };
        let orders: Vec<String> = table.clustering_columns().iter().map(|column| order(column)).collect();
        out.push(format!("CLUSTERING ORDER BY ({})", orders.join(", ")));
    }
    if form.is_virtual {
        out.push(format!("comment = {}", literal(&table.options.comment)));
    } else {
        options(&table.options, form, &mut out);
    }
    out
}

fn options(options: &TableOptions, form: &Form, out: &mut Vec<String>) {
    let (is_4_1, is_5_0) = (form.release >= Release::V4_1, form.release >= Release::V5_0);
    let owned = |map: &BTreeMap<String, String>| map_text(map.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    let extensions: Vec<String> =
        options.extensions.iter().map(|(key, value)| format!("{}: {}", literal(key), hex(value))).collect();
    let mut push = |name: &str, value: String| out.push(format!("{name} = {value}"));
    push("additional_write_policy", literal(&options.additional_write_policy));
    if is_5_0 {
        push("allow_auto_snapshot", options.allow_auto_snapshot.unwrap_or(true).to_string());
    }
    push("bloom_filter_fp_chance", double(options.bloom_filter_fp_chance));
    push("caching", owned(&options.caching.to_map()));
    push("cdc", options.cdc.unwrap_or(false).to_string());
    push("comment", literal(&options.comment));
    push("compaction", owned(&options.compaction.to_map()));
    push("compression", owned(&options.compression.to_map()));
    if is_4_1 {
        push("memtable", literal(options.memtable.as_deref().unwrap_or("default")));
    }
    push("crc_check_chance", double(options.crc_check_chance));
    if !form.is_view {
        push("default_time_to_live", options.default_time_to_live.to_string());
    }
    push("extensions", format!("{{{}}}", extensions.join(", ")));
    push("gc_grace_seconds", options.gc_grace_seconds.to_string());
    if is_5_0 {
        push("incremental_backups", options.incremental_backups.unwrap_or(true).to_string());
    }
    push("max_index_interval", options.max_index_interval.to_string());
    push("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms.to_string());
    push("min_index_interval", options.min_index_interval.to_string());
    push("read_repair", literal(&options.read_repair));
    push("speculative_retry", literal(&options.speculative_retry));
}

pub(super) fn map_text<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let entries: Vec<String> =
        entries.into_iter().map(|(key, value)| format!("{}: {}", literal(key), literal(value))).collect();
    format!("{{{}}}", entries.join(", "))
}

pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn double(value: f64) -> String {
    let mut out = String::new();
    model::types::numbers::write_double(&mut out, value);
    out
}
