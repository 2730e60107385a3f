//! The keyspaces that every node has: `system`, `system_schema`, `system_auth`, `system_distributed` and
//! `system_traces`, as Cassandra 5.0.5 defines them.
//!
//! `tables.txt` holds the definitions; it was generated from the system tables of a running 5.0.5.
//!
//! ```text
//! keyspace <name> <replication class> [<option>=<value> ...]
//! table <name> <id>
//!   option <name> <value>            options that differ from the defaults of a new table
//!   dropped <column> <kind> <type> <time in microseconds>
//!   key | clustering | descending | static | regular  <column> <type>
//! ```

use model::schema::{CompactionOptions, DroppedColumn, Replication, TableBuilder};
use model::{ColumnKind, CqlType, KeyspaceSchema, Schema, TableSchema};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use uuid::Uuid;

const DEFINITIONS: &str = include_str!("tables.txt");

/// Keyspace `system`.
pub const SYSTEM: &str = "system";
/// Keyspace `system_schema`.
pub const SYSTEM_SCHEMA: &str = "system_schema";
/// The tables of `system_schema`, in the order in which the schema's version covers them.
pub const SCHEMA_TABLES: [&str; 11] = [
    "column_masks",
    "columns",
    "dropped_columns",
    "triggers",
    "types",
    "functions",
    "aggregates",
    "indexes",
    "tables",
    "views",
    "keyspaces",
];

/// The system keyspaces as a schema without a version.
pub fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| parse(DEFINITIONS).unwrap_or_default())
}

/// A table of a system keyspace; a table of that name without columns if there is none, which the tests rule out
/// for every name that the engine uses.
pub fn table(keyspace: &str, name: &str) -> Arc<TableSchema> {
    match schema().table(keyspace, name) {
        Some(table) => Arc::clone(table),
        None => Arc::new(TableSchema::builder(keyspace, name, Uuid::nil()).build()),
    }
}

/// Whether a keyspace is one of those that only the node itself writes.
pub fn is_local(keyspace: &str) -> bool {
    model::schema::LOCAL_SYSTEM_KEYSPACES.contains(&keyspace)
}

/// `None` at the first line that is not as the top of the module says.
fn parse(text: &str) -> Option<Schema> {
    let mut out = Schema::default();
    let mut keyspace: Option<KeyspaceSchema> = None;
    let mut table: Option<TableBuilder> = None;
    let finish_table = |keyspace: &mut Option<KeyspaceSchema>, table: Option<TableBuilder>| {
        if let (Some(keyspace), Some(table)) = (keyspace, table) {
            let table = table.build();
            keyspace.tables.insert(table.name.clone(), Arc::new(table));
        }
    };
    for line in text.lines() {
        let (word, rest) = line.trim_start().split_once(' ')?;
        match word {
            "keyspace" => {
                finish_table(&mut keyspace, table.take());
                out.keyspaces.extend(keyspace.take().map(|k| (k.name.clone(), Arc::new(k))));
                keyspace = Some(parse_keyspace(rest)?);
            }
            "table" => {
                finish_table(&mut keyspace, table.take());
                let (name, id) = rest.split_once(' ')?;
                table = Some(TableSchema::builder(&keyspace.as_ref()?.name, name, id.parse().ok()?));
            }
            _ => table = Some(parse_table_line(table.take()?, word, rest)?),
        }
    }
    finish_table(&mut keyspace, table.take());
    out.keyspaces.extend(keyspace.take().map(|k| (k.name.clone(), Arc::new(k))));
    Some(out)
}

fn parse_keyspace(line: &str) -> Option<KeyspaceSchema> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let class = format!("org.apache.cassandra.locator.{}", words.next()?);
    let mut replication = Replication { class, options: BTreeMap::new() };
    for word in words {
        let (key, value) = word.split_once('=')?;
        replication.options.insert(key.to_owned(), value.to_owned());
    }
    Some(KeyspaceSchema::new(name, replication))
}

fn parse_table_line(mut table: TableBuilder, word: &str, rest: &str) -> Option<TableBuilder> {
    let (name, value) = rest.split_once(' ')?;
    let parse_type = |text: &str| CqlType::parse_cql(text, &|_| None).ok();
    Some(match word {
        "key" => table.partition_key(name, parse_type(value)?),
        "clustering" => table.clustering(name, parse_type(value)?, false),
        "descending" => table.clustering(name, parse_type(value)?, true),
        "static" => table.static_column(name, parse_type(value)?),
        "regular" => table.regular(name, parse_type(value)?),
        "dropped" => {
            let [kind, ty, micros] = value.split(' ').collect::<Vec<_>>().try_into().ok()?;
            table.dropped.push(DroppedColumn {
                name: name.to_owned(),
                kind: if kind == "static" { ColumnKind::Static } else { ColumnKind::Regular },
                ty: parse_type(ty)?,
                dropped_time_micros: micros.parse().ok()?,
            });
            table
        }
        "option" => {
            let options = &mut table.options;
            match name {
                "comment" => options.comment = value.to_owned(),
                "gc_grace_seconds" => options.gc_grace_seconds = value.parse().ok()?,
                "default_time_to_live" => options.default_time_to_live = value.parse().ok()?,
                "memtable_flush_period_in_ms" => options.memtable_flush_period_in_ms = value.parse().ok()?,
                "compaction" => {
                    let pairs = value.split(' ').map(|pair| pair.split_once('='));
                    let mut map: BTreeMap<String, String> =
                        pairs.map(|p| p.map(|(k, v)| (k.to_owned(), v.to_owned()))).collect::<Option<_>>()?;
                    let class = map.remove("class")?;
                    options.compaction = CompactionOptions { class, options: map };
                }
                _ => return None,
            }
            table
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_parse_and_have_cassandras_ids() {
        let schema = parse(DEFINITIONS).expect("the data file is well formed");
        let names: Vec<&str> = schema.keyspaces.keys().map(String::as_str).collect();
        assert_eq!(names, ["system", "system_auth", "system_distributed", "system_schema", "system_traces"]);
        for keyspace in schema.keyspaces.values() {
            for table in keyspace.tables.values() {
                let id = model::schema::system_table_id(&keyspace.name, &table.name);
                assert_eq!(table.id, id, "{}.{}", keyspace.name, table.name);
                assert!(!table.partition_key().is_empty());
            }
        }
        let local = &schema.keyspaces["system"].tables["local"];
        assert_eq!(local.select_star().len(), 20);
        assert!(local.column("tokens").is_some_and(|c| c.is_multi_cell()));
        assert!(local.dropped_column("thrift_version", false).is_some());
    }

    #[test]
    fn every_schema_table_is_there() {
        let there = &schema().keyspaces[SYSTEM_SCHEMA].tables;
        assert_eq!(there.len(), SCHEMA_TABLES.len());
        assert!(SCHEMA_TABLES.iter().all(|name| there.contains_key(*name)));
    }
}
