//! The keyspaces that every node has: `system`, `system_schema`, `system_auth`, `system_distributed` and
//! `system_traces`, as each release of Cassandra defines them.
//!
//! `tables.txt` holds the definitions; it was made from the system tables of running nodes: 4.0.17, 4.1.10
//! and 5.0.5.
//!
//! ```text
//! keyspace <name> <replication class> [<option>=<value> ...]
//! table <name> <id>
//!   option <name> <value>            options that differ from the defaults of a new table
//!   dropped <column> <kind> <type> <time in microseconds>
//!   index <name> <kind> [<option>=<value> ...]
//!   key | clustering | descending | static | regular  <column> <type>
//! ```
//!
//! `since <release>` or `until <release>` before a line says which releases have it. A directory is served in
//! the form of the release that made it: Cassandra refuses SSTables and commit logs with columns that it does
//! not know.

use model::schema::{CompactionOptions, DroppedColumn, Index, Release, Replication, TableBuilder};
use model::{ColumnKind, CqlType, KeyspaceSchema, Schema, TableSchema};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

const DEFINITIONS: &str = include_str!("tables.txt");

/// Keyspace `system`.
pub const SYSTEM: &str = "system";
/// Keyspace `system_schema`.
pub const SYSTEM_SCHEMA: &str = "system_schema";
/// The tables of `system_schema` in the newest release, in the order in which the schema's version covers
/// them.
const SCHEMA_TABLES: [&str; 11] = [
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

/// The greatest of [`generation_micros`]: changes of the schema come later.
pub(crate) const GENERATION_MICROS_MAX: i64 = 1_577_836_800_000_002;

/// The system keyspaces of a release as a schema without a version.
pub fn schema(release: Release) -> &'static Schema {
    static SCHEMAS: LazyLock<[Schema; Release::ALL.len()]> =
        LazyLock::new(|| Release::ALL.map(|release| parse(DEFINITIONS, release).unwrap_or_default()));
    let [v4_0, v4_1, v5_0] = &*SCHEMAS;
    match release {
        Release::V4_0 => v4_0,
        Release::V4_1 => v4_1,
        Release::V5_0 => v5_0,
    }
}

/// A table of a system keyspace; a table of that name without columns if there is none, which the tests rule
/// out for every name that the engine uses.
pub fn table(release: Release, keyspace: &str, name: &str) -> Arc<TableSchema> {
    match schema(release).table(keyspace, name) {
        Some(table) => Arc::clone(table),
        None => Arc::new(TableSchema::builder(keyspace, name, Uuid::nil()).build()),
    }
}

/// The tables of `system_schema` that a release has, in the order in which the schema's version covers them.
pub fn schema_tables(release: Release) -> impl Iterator<Item = &'static str> {
    SCHEMA_TABLES.into_iter().filter(move |name| schema(release).table(SYSTEM_SCHEMA, name).is_some())
}

/// The stored schema, completed by what every node of the release has.
pub(crate) fn completed(mut stored: Schema, release: Release) -> Schema {
    for (name, builtin) in &self::schema(release).keyspaces {
        // The replicated ones are the operator's to change, and what is stored of them is what their files
        // hold.
        if is_local(name) || !stored.keyspaces.contains_key(name) {
            stored.keyspaces.insert(name.clone(), Arc::clone(builtin));
        }
    }
    stored.release = release;
    stored
}

/// The timestamp, in microseconds, with which every node of a release writes its definition of a replicated
/// keyspace (`GENERATION` of Cassandra's `AuthKeyspace`, `SystemDistributedKeyspace`, `TraceKeyspace`): so
/// nodes have one schema before they have met. `None` for 4.0, where the tables of a keyspace have several.
pub(crate) fn generation_micros(release: Release, keyspace: &str) -> Option<i64> {
    match (release, keyspace) {
        (Release::V4_0, _) => None,
        (_, "system_auth") => Some(1),
        (_, "system_distributed") => Some(6),
        (_, "system_traces") => Some(GENERATION_MICROS_MAX),
        _ => None,
    }
}

/// Whether a keyspace is one of those that only the node itself writes.
pub fn is_local(keyspace: &str) -> bool {
    model::schema::LOCAL_SYSTEM_KEYSPACES.contains(&keyspace)
}

/// Tables of `system` that the node itself reads.
const READ_BY_NODE: [&str; 5] = ["local", "peers", "peers_v2", "batches", "prepared_statements"];

/// Whether the node itself reads a table, at its start or later.
pub(crate) fn is_read_by_node(table: &TableSchema) -> bool {
    table.keyspace == SYSTEM_SCHEMA || table.keyspace == SYSTEM && READ_BY_NODE.contains(&table.name.as_str())
}

/// Tables of `system` that are written much, and go to all data directories like those of users.
const IN_ALL_DIRECTORIES: [&str; 5] =
    ["batches", "paxos", "compaction_history", "prepared_statements", "repairs"];

/// Whether all new SSTables of a table go to one directory.
pub(crate) fn has_one_home(table: &TableSchema) -> bool {
    is_local(&table.keyspace)
        && !(table.keyspace == SYSTEM && IN_ALL_DIRECTORIES.contains(&table.name.as_str()))
}

/// `None` at the first line that is not as the top of the module says.
fn parse(text: &str, release: Release) -> Option<Schema> {
    let mut out = Schema { release, ..Schema::default() };
    let mut keyspace: Option<KeyspaceSchema> = None;
    let mut table: Option<TableBuilder> = None;
    let finish_table = |keyspace: &mut Option<KeyspaceSchema>, table: Option<TableBuilder>| {
        if let (Some(keyspace), Some(table)) = (keyspace, table) {
            let table = table.build();
            keyspace.tables.insert(table.name.clone(), Arc::new(table));
        }
    };
    // Whether the lines of the current table count.
    let mut known = true;
    for line in text.lines() {
        let (is_meant, line) = of_release(line.trim_start(), release)?;
        let (word, rest) = line.split_once(' ')?;
        match word {
            "keyspace" => {
                finish_table(&mut keyspace, table.take());
                out.keyspaces.extend(keyspace.take().map(|k| (k.name.clone(), Arc::new(k))));
                keyspace = Some(parse_keyspace(rest)?);
            }
            "table" => {
                finish_table(&mut keyspace, table.take());
                known = is_meant;
                if known {
                    let (name, id) = rest.split_once(' ')?;
                    table = Some(TableSchema::builder(&keyspace.as_ref()?.name, name, id.parse().ok()?));
                }
            }
            _ if known && is_meant => table = Some(parse_table_line(table.take()?, word, rest)?),
            _ => {}
        }
    }
    finish_table(&mut keyspace, table.take());
    out.keyspaces.extend(keyspace.take().map(|k| (k.name.clone(), Arc::new(k))));
    Some(out)
}

/// Whether `release` has the line, and the line without the words that say so.
fn of_release(line: &str, release: Release) -> Option<(bool, &str)> {
    let condition = |line: &'_ str| -> Option<(Release, usize)> {
        let number = line.split(' ').next()?;
        Some((Release::of_version(number)?, number.len() + 1))
    };
    if let Some(rest) = line.strip_prefix("since ") {
        let (first, len) = condition(rest)?;
        return Some((release >= first, rest.get(len..)?));
    }
    if let Some(rest) = line.strip_prefix("until ") {
        let (last, len) = condition(rest)?;
        return Some((release <= last, rest.get(len..)?));
    }
    Some((true, line))
}

fn parse_keyspace(line: &str) -> Option<KeyspaceSchema> {
    let mut words = line.split(' ');
    let name = words.next()?;
    let class = format!("org.apache.cassandra.locator.{}", words.next()?);
    Some(KeyspaceSchema::new(name, Replication { class, options: parse_options(words)? }))
}

fn parse_options<'a>(words: impl Iterator<Item = &'a str>) -> Option<BTreeMap<String, String>> {
    words.map(|word| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()))).collect()
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
        "index" => {
            let mut words = value.split(' ');
            let kind = words.next()?.to_owned();
            table.indexes.push(Index { name: name.to_owned(), kind, options: parse_options(words)? });
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
                    let mut map = parse_options(value.split(' '))?;
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
        for release in Release::ALL {
            let schema = parse(DEFINITIONS, release).expect("the data file is well formed");
            let names: Vec<&str> = schema.keyspaces.keys().map(String::as_str).collect();
            assert_eq!(
                names,
                ["system", "system_auth", "system_distributed", "system_schema", "system_traces"]
            );
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
            assert!(local.dropped_column("thrift_version").is_some());
        }
    }

    #[test]
    fn each_release_has_its_own_columns() {
        let columns = |release| table(release, SYSTEM_SCHEMA, "tables").regular_columns().len();
        assert_eq!(Release::ALL.map(columns), [20, 21, 23]);
        let tables = |release| schema(release).keyspaces.values().map(|k| k.tables.len()).sum::<usize>();
        let newest = tables(Release::V5_0);
        assert_eq!(Release::ALL.map(tables), [newest - 8, newest - 4, newest]);
        let id = |release| table(release, SYSTEM, "compaction_history").partition_key()[0].ty.to_string();
        assert_eq!(Release::ALL.map(id), ["uuid", "timeuuid", "timeuuid"]);
    }

    #[test]
    fn paxos_has_its_index_since_4_1() {
        let index = |release| table(release, SYSTEM, "paxos").indexes.first().cloned();
        assert_eq!(index(Release::V4_0), None);
        let index = [Release::V4_1, Release::V5_0].map(|release| index(release).unwrap());
        assert_eq!(index[0], index[1]);
        assert_eq!((index[0].name.as_str(), index[0].kind.as_str()), ("PaxosUncommittedIndex", "CUSTOM"));
        let class = "org.apache.cassandra.service.paxos.uncommitted.PaxosUncommittedIndex";
        let options = [("class_name", class), ("target", "")];
        assert_eq!(index[0].options, options.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
    }

    #[test]
    fn every_schema_table_is_there() {
        assert_eq!(schema_tables(Release::V4_0).count(), SCHEMA_TABLES.len() - 1);
        for release in [Release::V4_1, Release::V5_0] {
            let there = &schema(release).keyspaces[SYSTEM_SCHEMA].tables;
            assert_eq!(there.len(), schema_tables(release).count());
        }
    }
}
