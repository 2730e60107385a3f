//! `system.local`: who this node is. Written at every start; what must not change is read first and compared.
//!
//! The engine keeps `host_id`, `schema_version` and `truncated_at` itself. A directory that a Cassandra made
//! keeps the versions that this Cassandra wrote: it takes a start with another version for an upgrade.
//! `system.peers` and `system.peers_v2` are written by a member of a ring (`crate::membership`); rows in them
//! say that the directory is a member's of a larger ring.

use super::rows::{IntoValue, Value};
use crate::config::Config;
use bytes::Bytes;
use env::Env;
use model::command::{ClusteringFilter, ColumnSelection, DataLimits, PartitionSelection, ReadCommand};
use model::key::KeyRange;
use model::{
    Cell, Clustering, CqlType, DecoratedKey, Deletion, Mutation, PartitionKey, PartitionUpdate, Row,
};
use model::{ColumnId, Liveness, TableSchema};
use partition::{BoxedStream, Event, Fragment, PartitionStream, ReadError};
use std::net::IpAddr;
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
    /// Version of the Cassandra whose directory this is; of 5.0.5 before the first start.
    pub release_version: Option<String>,
    /// Version of CQL of that Cassandra.
    pub cql_version: Option<String>,
    /// The newest version of the native protocol of that Cassandra.
    pub native_protocol_version: Option<String>,
    /// Data center at the last start.
    pub data_center: Option<String>,
    /// Rack at the last start.
    pub rack: Option<String>,
    /// `COMPLETED`, or how far the node had come into its ring, or out of it.
    pub bootstrapped: Option<String>,
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
    /// The node was in another data center.
    #[error(
        "Cannot start node if snitch's data center ({configured}) differs from previous data center ({saved}). Please fix \
         the snitch configuration, decommission and rebootstrap this node or use the flag --ignore-dc."
    )]
    DataCenter {
        /// As it was.
        saved: String,
        /// As it is now.
        configured: String,
    },
    /// The node was in another rack.
    #[error(
        "Cannot start node if snitch's rack ({configured}) differs from previous rack ({saved}). Please fix the snitch \
         configuration, decommission and rebootstrap this node or use the flag --ignore-rack."
    )]
    Rack {
        /// As it was.
        saved: String,
        /// As it is now.
        configured: String,
    },
    /// The node has another number of tokens.
    #[error("Cannot change the number of tokens from {saved} to {configured}")]
    NumTokens {
        /// As many as it has.
        saved: usize,
        /// As many as it should have.
        configured: usize,
    },
    /// The node had left its ring.
    #[error(
        "This node was decommissioned and will not rejoin the ring unless all existing data is removed and the node is \
         bootstrapped again"
    )]
    Decommissioned,
    /// The node had not got all its data.
    #[error(
        "This node has not completed its bootstrap ({0}): it does not have the data of its ranges; let Cassandra complete it"
    )]
    Bootstrap(String),
    /// The node belongs to a larger ring.
    #[error(
        "This node is a member of a ring with {count} other node(s), {peer} among them: it has only a part of the data, and \
         the configuration names no seeds of its ring (seed_provider). Give --single-node to serve what is here as if it were \
         everything"
    )]
    Member {
        /// How many others there are.
        count: usize,
        /// One of them.
        peer: IpAddr,
    },
}

/// What `bootstrapped` says of a node that owns its tokens.
const BOOTSTRAPPED: Bytes = Bytes::from_static(b"COMPLETED");

/// The write that says which tokens the node is to own; there were none before.
pub fn chosen(table: &Arc<TableSchema>, tokens: &[i64], now_micros: i64) -> Mutation {
    let mut row = Row::new(Clustering::empty());
    row.liveness = Liveness::new(now_micros);
    if let Some(column) = table.column("tokens") {
        row.cells.extend(token_cells(column.id, tokens, now_micros));
    }
    let mut update = PartitionUpdate::new(Arc::clone(table), key());
    update.rows.push(row);
    Mutation::of(update)
}

/// The elements of the set of tokens, in its order.
fn token_cells(column: ColumnId, tokens: &[i64], now_micros: i64) -> impl Iterator<Item = Cell> {
    let mut paths: Vec<String> = tokens.iter().map(i64::to_string).collect();
    paths.sort_by(|a, b| CqlType::Text.compare(a.as_bytes(), b.as_bytes()));
    paths.into_iter().map(move |path| Cell::live(column, now_micros, Bytes::new()).with_path(path.into()))
}

/// The write that says that the node owns its tokens.
pub fn bootstrapped(table: &Arc<TableSchema>, now_micros: i64) -> Mutation {
    of_column(table, "bootstrapped", Some(BOOTSTRAPPED), now_micros)
}

/// The write that says which start of gossip it is.
pub fn generation(table: &Arc<TableSchema>, generation: i32, now_micros: i64) -> Mutation {
    of_column(table, "gossip_generation", generation.into_value(), now_micros)
}

fn of_column(table: &Arc<TableSchema>, name: &str, value: Value, now_micros: i64) -> Mutation {
    let mut row = Row::new(Clustering::empty());
    row.liveness = Liveness::new(now_micros);
    let column = table.column(name).zip(value);
    row.cells.extend(column.map(|(column, value)| Cell::live(column.id, now_micros, value)));
    let mut update = PartitionUpdate::new(Arc::clone(table), key());
    update.rows.push(row);
    Mutation::of(update)
}

fn key() -> DecoratedKey {
    DecoratedKey::new(PartitionKey::from_components(&[b"local"]))
}

/// The read of one of the node's own tables.
pub fn whole_table(table: &Arc<TableSchema>, now_s: u32) -> ReadCommand {
    ReadCommand {
        table: Arc::clone(table),
        partitions: PartitionSelection::Range(KeyRange::FULL),
        clusterings: ClusteringFilter::all(),
        columns: ColumnSelection::all(table),
        row_filter: Vec::new(),
        limits: DataLimits::NONE,
        now_s,
    }
}

/// The addresses of the nodes in `system.peers_v2` or `system.peers` that own a part of the ring.
///
/// # Errors
/// When the table cannot be read.
pub fn peers(table: &TableSchema, mut stream: BoxedStream, now_s: u32) -> Result<Vec<IpAddr>, ReadError> {
    let tokens = table.column("tokens").map(|c| c.id);
    let mut found = Vec::new();
    let mut fragment = Fragment::default();
    loop {
        match stream.next(&mut fragment)? {
            Event::Row => {}
            Event::End => return Ok(found),
            _ => continue,
        }
        let owns = fragment.row.cells.iter().any(|c| Some(c.column) == tokens && c.is_live(now_s));
        found.extend(address(&fragment.key.key.0).filter(|_| owns));
    }
}

fn address(key: &[u8]) -> Option<IpAddr> {
    match key.len() {
        4 => <[u8; 4]>::try_from(key).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(key).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Refuses to be a part of a ring: what this node lacks would be missing from answers without a word.
///
/// # Errors
/// [`IdentityError::Member`].
pub fn check_alone(mut peers: Vec<IpAddr>, own: IpAddr) -> Result<(), IdentityError> {
    peers.retain(|peer| *peer != own);
    peers.sort_unstable();
    peers.dedup();
    match peers.first() {
        Some(peer) => Err(IdentityError::Member { count: peers.len(), peer: *peer }),
        None => Ok(()),
    }
}

/// What `stream`, the answer to [`whole_table`], holds.
///
/// # Errors
/// When the table cannot be read.
pub fn identity(table: &TableSchema, mut stream: BoxedStream, now_s: u32) -> Result<Identity, ReadError> {
    let column = |name: &str| table.column(name).map(|c| c.id);
    let (tokens, generation) = (column("tokens"), column("gossip_generation"));
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
            if let Some(text) = table.column_by_id(cell.column).and_then(|c| found.text(&c.name)) {
                *text = Some(String::from_utf8_lossy(&cell.value).into_owned());
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
    /// What a text column of the table goes to.
    fn text(&mut self, column: &str) -> Option<&mut Option<String>> {
        Some(match column {
            "cluster_name" => &mut self.cluster_name,
            "release_version" => &mut self.release_version,
            "cql_version" => &mut self.cql_version,
            "native_protocol_version" => &mut self.native_protocol_version,
            "data_center" => &mut self.data_center,
            "rack" => &mut self.rack,
            "bootstrapped" => &mut self.bootstrapped,
            _ => return None,
        })
    }

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
        self.check_place(config)?;
        match self.bootstrapped.as_deref() {
            None | Some("COMPLETED") => {}
            Some("DECOMMISSIONED") => return Err(IdentityError::Decommissioned),
            Some(other) => return Err(IdentityError::Bootstrap(other.to_owned())),
        }
        let num_tokens = config.num_tokens();
        if !self.tokens.is_empty() && self.tokens.len() != num_tokens {
            return Err(IdentityError::NumTokens { saved: self.tokens.len(), configured: num_tokens });
        }
        let keep = |value: &mut Option<String>, new: &str| {
            value.get_or_insert_with(|| new.to_owned());
        };
        keep(&mut self.release_version, super::RELEASE_VERSION);
        keep(&mut self.cql_version, super::CQL_VERSION);
        keep(&mut self.native_protocol_version, super::NATIVE_PROTOCOL_VERSION);
        if self.tokens.is_empty() {
            let is_allocated = config.ring.as_ref().is_some_and(|ring| ring.allocation.is_some());
            self.tokens = match &config.settings.initial_token {
                Some(tokens) => tokens.split(',').filter_map(|t| t.trim().parse().ok()).collect(),
                // Chosen when the other nodes of the ring are known.
                None if is_allocated => Vec::new(),
                None => (0..num_tokens).map(|_| cluster::ring::allocation::any(&env.random)).collect(),
            };
            self.tokens.sort_unstable();
        }
        let now = i32::try_from(env.now_seconds()).unwrap_or(i32::MAX);
        self.generation = now.max(self.generation.saturating_add(1));
        Ok(self)
    }

    /// Whether the node is where it was, or may be elsewhere.
    fn check_place(&self, config: &Config) -> Result<(), IdentityError> {
        let left = |what: &str, saved: &Option<String>, now: &str, may_leave: bool| {
            let saved = saved.clone().filter(|saved| saved != now)?;
            if may_leave {
                tracing::warn!(
                    "The {what} is {now} now, and was {saved}: data that belong to its replicas may not be here"
                );
            }
            (!may_leave).then_some(saved)
        };
        let (data_center, rack) = (&config.data_center, &config.rack);
        if let Some(saved) = left("data center", &self.data_center, data_center, config.ignore_dc) {
            return Err(IdentityError::DataCenter { saved, configured: data_center.clone() });
        }
        if let Some(saved) = left("rack", &self.rack, rack, config.ignore_rack) {
            return Err(IdentityError::Rack { saved, configured: rack.clone() });
        }
        Ok(())
    }

    /// The write that makes `system.local` say so.
    pub fn mutation(&self, table: &Arc<TableSchema>, config: &Config, now_micros: i64) -> Mutation {
        let settings = &config.settings;
        let port = |port: u16| i32::from(port).into_value();
        // A member of a ring has joined when it says so to the others.
        let has_bootstrapped = config.ring.is_none() || self.bootstrapped.is_some();
        let values: [(&str, Value); 15] = [
            ("broadcast_address", config.broadcast_address.into_value()),
            ("broadcast_port", port(settings.storage_port)),
            ("cluster_name", self.cluster_name.clone().into_value()),
            ("cql_version", self.cql_version.clone().into_value()),
            ("data_center", config.data_center.as_str().into_value()),
            ("gossip_generation", self.generation.into_value()),
            ("listen_address", config.listen_address.into_value()),
            ("listen_port", port(settings.storage_port)),
            ("native_protocol_version", self.native_protocol_version.clone().into_value()),
            ("partitioner", super::PARTITIONER.into_value()),
            ("rack", config.rack.as_str().into_value()),
            ("release_version", self.release_version.clone().into_value()),
            ("rpc_address", config.broadcast_rpc_address.into_value()),
            ("rpc_port", port(config.cql_address.port())),
            ("tokens", None),
        ];
        let mut row = Row::new(Clustering::empty());
        row.liveness = Liveness::new(now_micros);
        if has_bootstrapped && let Some(column) = table.column("bootstrapped") {
            row.cells.push(Cell::live(column.id, now_micros, BOOTSTRAPPED));
        }
        for (name, value) in values {
            let Some(column) = table.column(name) else { continue };
            if let Some(value) = value {
                row.cells.push(Cell::live(column.id, now_micros, value));
            } else {
                // A set is replaced: what was there before goes with a deletion one tick older.
                let seconds = u32::try_from(now_micros / 1_000_000).unwrap_or(0);
                row.complex_deletions.push((column.id, Deletion::new(now_micros - 1, seconds)));
                row.cells.extend(token_cells(column.id, &self.tokens, now_micros));
            }
        }
        row.cells.sort_by_key(|cell| cell.column);
        let mut update = PartitionUpdate::new(Arc::clone(table), key());
        update.rows.push(row);
        Mutation::of(update)
    }
}
