//! The virtual keyspaces as schema: what `system_virtual_schema` and DESCRIBE show.
//!
//! `views.txt` holds the definitions of a 5.0.5, and behind its `system_views` those of Ilion's own, one word
//! a line:
//!
//! ```text
//! table <keyspace>.<name> <comment>
//! key | clustering | descending | regular  <column> <type>
//! ```

use model::schema::{Replication, TableBuilder, VIRTUAL_KEYSPACES, system_table_id};
use model::{CqlType, KeyspaceSchema, Schema, TableSchema};
use std::sync::{Arc, OnceLock};

const DEFINITIONS: &str = include_str!("views.txt");

/// The virtual keyspaces.
pub fn keyspaces() -> &'static [KeyspaceSchema] {
    static KEYSPACES: OnceLock<Vec<KeyspaceSchema>> = OnceLock::new();
    KEYSPACES.get_or_init(|| parse(DEFINITIONS).unwrap_or_default())
}

/// A virtual table.
pub fn table(keyspace: &str, name: &str) -> Option<&'static Arc<TableSchema>> {
    keyspaces().iter().find(|k| k.name == keyspace)?.tables.get(name)
}

/// `schema` with the virtual keyspaces.
pub fn with_virtual(schema: &Schema) -> Schema {
    keyspaces().iter().cloned().fold(schema.clone(), |schema, keyspace| schema.with_keyspace(keyspace))
}

/// `None` at the first line that is not as the top of the module says.
fn parse(text: &str) -> Option<Vec<KeyspaceSchema>> {
    let mut keyspaces: Vec<KeyspaceSchema> = VIRTUAL_KEYSPACES
        .iter()
        .map(|name| KeyspaceSchema { is_virtual: true, ..KeyspaceSchema::new(name, Replication::local()) })
        .collect();
    let mut add = |builder: Option<TableBuilder>| {
        let Some(builder) = builder else { return };
        let table = builder.build();
        if let Some(keyspace) = keyspaces.iter_mut().find(|k| k.name == table.keyspace) {
            keyspace.tables.insert(table.name.clone(), Arc::new(table));
        }
    };
    let mut current: Option<TableBuilder> = None;
    for line in text.lines() {
        let (word, rest) = line.split_once(' ')?;
        if word == "table" {
            add(current.take());
            let (name, comment) = rest.split_once(' ').unwrap_or((rest, ""));
            let (keyspace, name) = name.split_once('.')?;
            let mut builder = TableSchema::builder(keyspace, name, system_table_id(keyspace, name));
            builder.options.comment = comment.to_owned();
            current = Some(builder);
            continue;
        }
        let (column, ty) = rest.split_once(' ')?;
        let ty = CqlType::parse_cql(ty, &|_| None).ok()?;
        let builder = current.take()?;
        current = Some(match word {
            "key" => builder.partition_key(column, ty),
            "clustering" => builder.clustering(column, ty, false),
            "descending" => builder.clustering(column, ty, true),
            "regular" => builder.regular(column, ty),
            _ => return None,
        });
    }
    add(current);
    Some(keyspaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definitions_parse() {
        let names: Vec<(&str, usize)> =
            keyspaces().iter().map(|k| (k.name.as_str(), k.tables.len())).collect();
        assert_eq!(names, [("system_views", 51), ("system_virtual_schema", 3)]);
        let clients = table("system_views", "clients").unwrap();
        assert_eq!(clients.select_star().len(), 14);
        assert_eq!(clients.options.comment, "currently connected clients");
        assert!(keyspaces().iter().flat_map(|k| k.tables.values()).all(|t| !t.partition_key().is_empty()));
    }
}
