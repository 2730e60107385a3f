//! Schema: keyspaces, tables, columns and their options, as immutable snapshots.
//!
//! A [`Schema`] is replaced as a whole when a statement changes it; readers keep the `Arc` they started with.

mod compact;
mod kept;
mod options;
mod release;
mod table;

pub use compact::CompactStorage;
pub use kept::{ColumnMask, Index, IndexUpkeep, Trigger, UserAggregate, UserFunction, View};
pub use options::{CachingOptions, CompactionOptions, CompressionOptions, RowsPerPartition, TableOptions};
pub use release::Release;
pub use table::{ColumnDef, ColumnKind, DroppedColumn, TableBuilder, TableSchema, compare_column_order};

use crate::types::UserType;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Replication of a keyspace: the strategy's class (always the full Java name) and its options, as
/// `system_schema.keyspaces.replication` holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// `org.apache.cassandra.locator.SimpleStrategy`, `...NetworkTopologyStrategy`, `...LocalStrategy`.
    pub class: String,
    /// `replication_factor`, or data centers with their factors.
    pub options: BTreeMap<String, String>,
}

impl Replication {
    /// Replication of the node's own keyspaces.
    pub fn local() -> Replication {
        Replication {
            class: "org.apache.cassandra.locator.LocalStrategy".to_owned(),
            options: BTreeMap::new(),
        }
    }

    /// SimpleStrategy.
    pub fn simple(factor: u32) -> Replication {
        Replication {
            class: "org.apache.cassandra.locator.SimpleStrategy".to_owned(),
            options: BTreeMap::from([("replication_factor".to_owned(), factor.to_string())]),
        }
    }

    /// Class name without its package.
    pub fn short_class(&self) -> &str {
        self.class.rsplit('.').next().unwrap_or(&self.class)
    }
}

/// A keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceSchema {
    /// Name, case-sensitive.
    pub name: String,
    /// Replication.
    pub replication: Replication,
    /// Whether writes go to the commit log.
    pub durable_writes: bool,
    /// Tables by name.
    pub tables: BTreeMap<String, Arc<TableSchema>>,
    /// User types by name.
    pub types: BTreeMap<String, Arc<UserType>>,
    /// Materialized views by name.
    pub views: BTreeMap<String, Arc<View>>,
    /// Functions of the users', in the order of names and arguments.
    pub functions: Vec<UserFunction>,
    /// Aggregates of the users', in the order of names and arguments.
    pub aggregates: Vec<UserAggregate>,
    /// Whether the tables are computed by the node (`system_views`, `system_virtual_schema`).
    pub is_virtual: bool,
}

impl KeyspaceSchema {
    /// A keyspace without tables.
    pub fn new(name: &str, replication: Replication) -> KeyspaceSchema {
        KeyspaceSchema {
            name: name.to_owned(),
            replication,
            durable_writes: true,
            tables: BTreeMap::new(),
            types: BTreeMap::new(),
            views: BTreeMap::new(),
            functions: Vec::new(),
            aggregates: Vec::new(),
            is_virtual: false,
        }
    }
}

/// Everything that is defined on the node, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Schema {
    /// Keyspaces by name, system and virtual ones included.
    pub keyspaces: BTreeMap<String, Arc<KeyspaceSchema>>,
    /// Version that drivers compare across nodes.
    pub version: Uuid,
    /// The release of Cassandra in whose form the schema is stored.
    pub release: Release,
}

impl Schema {
    /// A keyspace.
    pub fn keyspace(&self, name: &str) -> Option<&Arc<KeyspaceSchema>> {
        self.keyspaces.get(name)
    }

    /// A table, or the table of a view.
    pub fn table(&self, keyspace: &str, table: &str) -> Option<&Arc<TableSchema>> {
        self.keyspaces.get(keyspace)?.store(table)
    }

    /// A table by its id.
    pub fn table_by_id(&self, id: Uuid) -> Option<&Arc<TableSchema>> {
        self.keyspaces.values().flat_map(|k| k.stores()).find(|t| t.id == id)
    }

    /// A user type.
    pub fn user_type(&self, keyspace: &str, name: &str) -> Option<&Arc<UserType>> {
        self.keyspaces.get(keyspace)?.types.get(name)
    }

    /// The same schema with one keyspace added or replaced.
    pub fn with_keyspace(&self, keyspace: KeyspaceSchema) -> Schema {
        let mut out = self.clone();
        out.keyspaces.insert(keyspace.name.clone(), Arc::new(keyspace));
        out
    }
}

/// Keyspaces that exist on every node and cannot be changed by users.
pub const LOCAL_SYSTEM_KEYSPACES: [&str; 2] = ["system", "system_schema"];
/// Keyspaces of the system that are replicated like users' own.
pub const REPLICATED_SYSTEM_KEYSPACES: [&str; 3] = ["system_auth", "system_distributed", "system_traces"];
/// Keyspaces whose tables the node computes.
pub const VIRTUAL_KEYSPACES: [&str; 2] = ["system_views", "system_virtual_schema"];

/// Whether a keyspace is none that users made.
pub fn is_system_keyspace(name: &str) -> bool {
    LOCAL_SYSTEM_KEYSPACES.contains(&name)
        || REPLICATED_SYSTEM_KEYSPACES.contains(&name)
        || VIRTUAL_KEYSPACES.contains(&name)
}

/// The id of a table of a system keyspace: a version 3 UUID of its names (docs/formats/schema-tables.md).
pub fn system_table_id(keyspace: &str, table: &str) -> Uuid {
    use md5::{Digest, Md5};
    let mut hasher = Md5::new();
    hasher.update(keyspace.as_bytes());
    hasher.update(table.as_bytes());
    let digest: [u8; 16] = hasher.finalize().into();
    uuid::Builder::from_md5_bytes(digest).into_uuid()
}

#[cfg(test)]
mod tests {
    #[test]
    fn system_table_ids_are_cassandras() {
        let id = super::system_table_id("system", "local");
        assert_eq!(id.simple().to_string(), "7ad54392bcdd35a684174e047860b377");
    }
}
