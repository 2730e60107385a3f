//! The tables that describe the node: rows of `system.local` that are written at the start, and virtual
//! tables whose rows are made when they are read.
//!
//! - `catalog`: the virtual tables' definitions; `rows`: their rows and the stream of them;
//! - `virtual_schema`, `views`, `internode`, `roles`, `pools`: what stands in them; `local`: `system.local`
//!   and the peers' tables.
//!
//! A virtual table that has no entry in [`VirtualTables`] is empty, as it is on a Cassandra where nothing of
//! its kind happens (repairs, streams, caches of credentials).

pub mod catalog;
mod internode;
pub mod local;
pub mod pools;
mod roles;
pub mod rows;
mod views;
mod virtual_schema;

use crate::state::NodeState;
use model::command::ReadCommand;
use partition::BoxedStream;
use rows::VirtualRows;
use std::collections::HashMap;
use std::sync::Arc;
use uuid::Uuid;

/// Full name of the only partitioner.
pub const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// The version that clients are told: that of the Cassandra whose behaviour this is. Drivers decide by it
/// what they may ask for.
pub const RELEASE_VERSION: &str = "5.0.5";
/// Version of CQL.
pub const CQL_VERSION: &str = "3.4.7";
/// The newest version of the native protocol.
pub const NATIVE_PROTOCOL_VERSION: &str = "5";

/// A table whose rows are made when they are read.
pub trait VirtualTable: Send + Sync {
    /// Adds all rows.
    fn fill(&self, state: &NodeState, rows: &mut VirtualRows);
}

impl<F: Fn(&NodeState, &mut VirtualRows) + Send + Sync> VirtualTable for F {
    fn fill(&self, state: &NodeState, rows: &mut VirtualRows) {
        self(state, rows);
    }
}

/// The virtual tables that can have rows.
pub struct VirtualTables {
    by_id: HashMap<Uuid, Box<dyn VirtualTable>>,
}

impl std::fmt::Debug for VirtualTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualTables").field("tables", &self.by_id.len()).finish()
    }
}

impl Default for VirtualTables {
    fn default() -> Self {
        VirtualTables::new()
    }
}

impl VirtualTables {
    /// All of them.
    pub fn new() -> VirtualTables {
        let mut tables = VirtualTables { by_id: HashMap::new() };
        let schema = "system_virtual_schema";
        tables.add(schema, "keyspaces", |_: &NodeState, rows: &mut VirtualRows| {
            virtual_schema::keyspaces(rows);
        });
        tables.add(schema, "tables", |_: &NodeState, rows: &mut VirtualRows| virtual_schema::tables(rows));
        tables.add(schema, "columns", |_: &NodeState, rows: &mut VirtualRows| virtual_schema::columns(rows));

        let system_views = "system_views";
        tables.add(system_views, "adoption", views::adoption);
        tables.add(system_views, "batch_metrics", views::batch_metrics);
        tables.add(system_views, "bulk_scans", views::bulk_scans);
        tables.add(system_views, "caches", views::caches);
        tables.add(system_views, "cidr_filtering_metrics_counts", roles::cidr_counts);
        tables.add(system_views, "cidr_filtering_metrics_latencies", roles::cidr_latencies);
        tables.add(system_views, "clients", views::clients);
        tables.add(system_views, "cql_metrics", views::cql_metrics);
        tables.add(system_views, "credentials_cache_keys", roles::credentials);
        tables.add(system_views, "gossip_info", views::gossip_info);
        tables.add(system_views, "internode_inbound", internode::inbound);
        tables.add(system_views, "internode_outbound", internode::outbound);
        tables.add(system_views, "max_sstable_duration", views::max_sstable_duration);
        tables.add(system_views, "network_permissions_cache_keys", roles::network_permissions);
        tables.add(system_views, "pending_hints", internode::pending_hints);
        tables.add(system_views, "permissions_cache_keys", roles::permissions);
        tables.add(system_views, "queries", views::queries);
        tables.add(system_views, "roles_cache_keys", roles::roles);
        tables.add(system_views, "settings", views::settings);
        tables.add(system_views, "slow_queries", views::slow_queries);
        tables.add(system_views, "snapshots", views::snapshots);
        tables.add(system_views, "sstable_tasks", views::sstable_tasks);
        tables.add(system_views, "system_properties", views::system_properties);
        tables.add(system_views, "thread_pools", views::thread_pools);

        macro_rules! of_tables {
            ($($fill:ident: $($name:literal => $of:expr),+;)+) => {$($(
                tables.add(system_views, $name, |state: &NodeState, rows: &mut VirtualRows| {
                    views::$fill(state, rows, $of);
                });
            )+)+};
        }
        of_tables! {
            latency:
                "coordinator_read_latency" => |t| &t.coordinator_read,
                "coordinator_scan_latency" => |t| &t.coordinator_scan,
                "coordinator_write_latency" => |t| &t.coordinator_write,
                "local_read_latency" => |t| &t.read,
                "local_scan_latency" => |t| &t.scan,
                "local_write_latency" => |t| &t.write;
            per_read:
                "rows_per_read" => |t| &t.rows_per_read,
                "tombstones_per_read" => |t| &t.tombstones_per_read,
                "sstables_per_read" => |t| &t.sstables_per_read,
                "ios_per_read" => |t| &t.ios_per_read,
                "disk_bytes_per_read" => |t| &t.disk_bytes_per_read,
                "returned_bytes_per_read" => |t| &t.returned_bytes_per_read;
            hundredths_per_read:
                "read_amplification" => |t| &t.read_amplification;
            table_bytes:
                "disk_usage" => |t| t.live_bytes,
                "max_partition_size" => |t| t.partition_max_bytes,
                "max_sstable_size" => |t| t.sstable_bytes_max;
        }
        tables
    }

    fn add(&mut self, keyspace: &str, name: &str, table: impl VirtualTable + 'static) {
        match catalog::table(keyspace, name) {
            Some(schema) => {
                self.by_id.insert(schema.id, Box::new(table));
            }
            None => debug_assert!(false, "{keyspace}.{name} is no virtual table"),
        }
    }

    /// The rows of `command`, if its table is a virtual one.
    pub fn read(&self, state: &NodeState, command: &ReadCommand) -> Option<BoxedStream> {
        let table = &command.table;
        if !model::schema::VIRTUAL_KEYSPACES.contains(&table.keyspace.as_str()) {
            return None;
        }
        let mut rows = VirtualRows::new(Arc::clone(table), state.env.now_micros());
        if let Some(provider) = self.by_id.get(&table.id) {
            provider.fill(state, &mut rows);
        }
        Some(rows.into_stream(command))
    }
}
