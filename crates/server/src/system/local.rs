//! `system.local`: who this node is. Written at every start; what must not change is read first and compared.
//!
//! The engine keeps `host_id`, `schema_version` and `truncated_at` itself. `system.peers` and `system.peers_v2`
//! stay empty: there are no other nodes.

use super::rows::{IntoValue, Value};
use crate::config::Config;
use bytes::Bytes;
use env::Env;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Deletion, Mutation, PartitionKey, PartitionUpdate, Row,
};
use model::{Liveness, TableSchema};
use partition::{BoxedStream, Event, Fragment, PartitionStream, ReadError};
use std::sync::Arc;

/// What a node keeps of itself from one start to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Name of the cluster; `None` before the first start.
    pub cluster_name: Option<String>,
    /// The node's tokens, in the order of the ring.
    pub tokens: Vec<i64>,
    /// Number of the last start: seconds since the epoch, and always more than the one before.
    pub generation: i32,
}

/// Why the node may not start on this data.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The directory belongs to another cluster.
    #[error("Saved cluster name {saved} != configured name {configured}")]
    ClusterName {
        /// As it was when the directory was made.
        saved: String,
        /// As it is now.
        configured: String,
    },
}

fn key() -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[b"local"]))
}

/// The read of `system.local`.
pub fn read_command(table: &Arc<TableSchema>, now_s: u32) -> ReadCommand {
    ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Keys(vec![key()]),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s,
    }
}

/// What `stream`, the answer to [`read_command`], holds.
///
/// # Errors
/// When the table cannot be read.
pub fn identity(table: &TableSchema, mut stream: BoxedStream, now_s: u32) -> Result<Identity, ReadError> {
    let column = |name: &str| table.column(name).map(|c| c.id);
    let (cluster_name, tokens, generation) =
        (column("cluster_name"), column("tokens"), column("gossip_generation"));
    let mut found = Identity::default();
    let mut fragment = Fragment::default();
    loop {
        match stream.next(&mut fragment)? {
            Event::Row => {}
            Event::End => break,
            _ => continue,
        }
        for cell in fragment.row.cells.iter().filter(|c| c.is_live(now_s)) {
            let id = Some(cell.column);
            if id == cluster_name {
                found.cluster_name = Some(String::from_utf8_lossy(&cell.value).into_owned());
            } else if id == tokens {
                found.tokens.extend(std::str::from_utf8(&cell.path).ok().and_then(|t| t.parse::<i64>().ok()));
            } else if id == generation
                && let Ok(bytes) = <[u8; 4]>::try_from(cell.value.as_ref())
            {
                found.generation = i32::from_be_bytes(bytes);
            }
        }
    }
    found.tokens.sort_unstable();
    Ok(found)
}

impl Identity {
    /// The identity of this start: checked against the configuration, tokens drawn if there are none.
    ///
    /// # Errors
    /// [`IdentityError`], as Cassandra refuses to start then.
    pub fn next(mut self, env: &Env, config: &Config) -> Result<Identity, IdentityError> {
        let configured = &config.settings.cluster_name;
        match &self.cluster_name {
            Some(saved) if saved != configured => {
                return Err(IdentityError::ClusterName {
                    saved: saved.clone(),
                    configured: configured.clone(),
                });
            }
            _ => self.cluster_name = Some(configured.clone()),
        }
        if self.tokens.is_empty() {
            self.tokens = match &config.settings.initial_token {
                Some(tokens) => tokens.split(',').filter_map(|t| t.trim().parse().ok()).collect(),
                // The smallest number is no token.
                None => (0..config.settings.num_tokens)
                    .map(|_| (env.random.u64() as i64).max(i64::MIN + 1))
                    .collect(),
            };
            self.tokens.sort_unstable();
        }
        let now = i32::try_from(env.now_seconds()).unwrap_or(i32::MAX);
        self.generation = now.max(self.generation.saturating_add(1));
        Ok(self)
    }

    /// The write that makes `system.local` say so.
    pub fn mutation(&self, table: &Arc<TableSchema>, config: &Config, now_micros: i64) -> Mutation {
        let settings = &config.settings;
        let port = |port: u16| i32::from(port).into_value();
        let values: [(&str, Value); 16] = [
            ("bootstrapped", "COMPLETED".into_value()),
            ("broadcast_address", config.broadcast_address.into_value()),
            ("broadcast_port", port(settings.storage_port)),
            ("cluster_name", self.cluster_name.clone().into_value()),
            ("cql_version", super::CQL_VERSION.into_value()),
            ("data_center", config.data_center.as_str().into_value()),
            ("gossip_generation", self.generation.into_value()),
            ("listen_address", config.listen_address.into_value()),
            ("listen_port", port(settings.storage_port)),
            ("native_protocol_version", super::NATIVE_PROTOCOL_VERSION.into_value()),
            ("partitioner", super::PARTITIONER.into_value()),
            ("rack", config.rack.as_str().into_value()),
            ("release_version", super::RELEASE_VERSION.into_value()),
            ("rpc_address", config.broadcast_rpc_address.into_value()),
            ("rpc_port", port(config.cql_address.port())),
            ("tokens", None),
        ];
        let mut row = Row::new(Clustering::empty());
        row.liveness = Liveness::new(now_micros);
        for (name, value) in values {
            let Some(column) = table.column(name) else { continue };
            if let Some(value) = value {
                row.cells.push(Cell::live(column.id, now_micros, value));
            } else {
                // A set is replaced: what was there before goes with a deletion one tick older.
                let seconds = u32::try_from(now_micros / 1_000_000).unwrap_or(0);
                row.complex_deletions.push((column.id, Deletion::new(now_micros - 1, seconds)));
                let mut paths: Vec<String> = self.tokens.iter().map(i64::to_string).collect();
                paths.sort_by(|a, b| CqlType::Text.compare(a.as_bytes(), b.as_bytes()));
                row.cells.extend(
                    paths
                        .into_iter()
                        .map(|path| Cell::live(column.id, now_micros, Bytes::new()).with_path(path.into())),
                );
            }
        }
        row.cells.sort_by_key(|cell| cell.column);
        let mut update = PartitionUpdate::new(Arc::clone(table), key());
        update.rows.push(row);
        Mutation::of(update)
    }
}
