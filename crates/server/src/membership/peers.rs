//! The other nodes of the ring in `system.peers_v2` and `system.peers`, as Cassandra has them: drivers look
//! there for the nodes, and a node that starts for those that it knew.

use crate::state::NodeState;
use crate::system::local::whole_table;
use crate::system::rows::{IntoValue, Value};
use bytes::Bytes;
use cluster::endpoint::Endpoint;
use cluster::member::PeerRecord;
use engine::{Engine, EngineError, WriteOptions};
use env::Env;
use model::{
    Cell, Clustering, Component, CqlType, DecoratedKey, Deletion, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, TableSchema,
};
use partition::{Event, Fragment, ReadContext};
use std::net::IpAddr;
use std::sync::Arc;
use uuid::Uuid;

/// The version of SSTables that this node writes, as nodes tell each other.
pub(super) fn sstable_version(engine: &Engine) -> String {
    let version = engine.sstable_version();
    let format = if version.is_bti() { "bti" } else { "big" };
    format!("{format}-{version}")
}

/// The nodes that were members, but for `own`.
///
/// # Errors
/// When the table cannot be read.
pub(super) fn load(engine: &Engine, env: &Env, own: Endpoint) -> Result<Vec<PeerRecord>, EngineError> {
    let table = engine.system_table("peers_v2");
    let now_s = u32::try_from(env.now_seconds()).unwrap_or(u32::MAX);
    let mut stream = engine.read(&whole_table(&table, now_s), &ReadContext::default())?;
    let mut fragment = Fragment::default();
    let mut found = Vec::new();
    loop {
        match stream.next(&mut fragment)? {
            Event::Row => found.extend(record(&table, &fragment.key, &fragment.row, now_s)),
            Event::End => break,
            _ => {}
        }
    }
    found.retain(|peer| peer.endpoint != own && !peer.tokens.is_empty());
    Ok(found)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn port(bytes: &[u8]) -> Option<u16> {
    u16::try_from(i32::from_be_bytes(bytes.try_into().ok()?)).ok()
}

fn record(table: &TableSchema, key: &DecoratedKey, row: &Row, now_s: u32) -> Option<PeerRecord> {
    let value = |name: &str| {
        let id = table.column(name)?.id;
        row.cells_of(id).iter().find(|cell| cell.is_live(now_s)).map(|cell| cell.value.clone())
    };
    let text = |name: &str| value(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let uuid = |name: &str| value(name).and_then(|bytes| Uuid::from_slice(&bytes).ok());
    let tokens = table.column("tokens").map(|column| {
        let live = row.cells_of(column.id).iter().filter(|cell| cell.is_live(now_s));
        live.filter_map(|cell| std::str::from_utf8(&cell.path).ok()?.parse().ok()).collect()
    });
    let native = || {
        let ip = value("native_address").and_then(|bytes| address(&bytes))?;
        Some(Endpoint::new(ip, value("native_port").and_then(|bytes| port(&bytes))?))
    };
    let preferred = || {
        let ip = value("preferred_ip").and_then(|bytes| address(&bytes))?;
        Some(Endpoint::new(ip, value("preferred_port").and_then(|bytes| port(&bytes))?))
    };
    Some(PeerRecord {
        endpoint: Endpoint::new(address(&key.key.0)?, row.clustering.value(0).and_then(port)?),
        host_id: uuid("host_id")?,
        datacenter: text("data_center")?,
        rack: text("rack")?,
        release_version: text("release_version"),
        native: native(),
        preferred: preferred(),
        schema: uuid("schema_version"),
        tokens: tokens.unwrap_or_default(),
    })
}

/// Writes a node down.
///
/// # Errors
/// When it cannot be kept.
pub(super) fn save(state: &NodeState, peer: &PeerRecord) -> Result<(), EngineError> {
    let now = state.env.now_micros();
    let place: [(&str, Value); 5] = [
        ("data_center", peer.datacenter.as_str().into_value()),
        ("host_id", peer.host_id.into_value()),
        ("rack", peer.rack.as_str().into_value()),
        ("release_version", peer.release_version.clone().and_then(IntoValue::into_value)),
        ("schema_version", peer.schema.and_then(IntoValue::into_value)),
    ];
    let native_ip = peer.native.and_then(|native| native.ip.into_value());
    let native_port = peer.native.and_then(|native| i32::from(native.port).into_value());
    let preferred_ip = peer.preferred.and_then(|preferred| preferred.ip.into_value());
    let preferred_port = peer.preferred.and_then(|preferred| i32::from(preferred.port).into_value());
    let new = [
        ("native_address", native_ip.clone()),
        ("native_port", native_port),
        ("preferred_ip", preferred_ip.clone()),
        ("preferred_port", preferred_port),
    ];
    let old = [("preferred_ip", preferred_ip), ("rpc_address", native_ip)];
    let tables: [(&str, &[(&str, Value)]); 2] = [("peers_v2", &new), ("peers", &old)];
    for (name, others) in tables {
        let table = state.engine.system_table(name);
        let mut row = Row::new(clustering(&table, peer.endpoint));
        row.liveness = Liveness::new(now);
        for (name, value) in place.iter().chain(others) {
            if let (Some(column), Some(value)) = (table.column(name), value) {
                row.cells.push(Cell::live(column.id, now, value.clone()));
            }
        }
        if let Some(column) = table.column("tokens") {
            // The set is replaced: what was there before goes with a deletion one tick older.
            let seconds = u32::try_from(now / 1_000_000).unwrap_or(0);
            row.complex_deletions.push((column.id, Deletion::new(now - 1, seconds)));
            let mut paths: Vec<String> = peer.tokens.iter().map(i64::to_string).collect();
            paths.sort_by(|a, b| CqlType::Text.compare(a.as_bytes(), b.as_bytes()));
            let cells = paths.into_iter();
            row.cells
                .extend(cells.map(|path| Cell::live(column.id, now, Bytes::new()).with_path(path.into())));
        }
        row.cells.sort_by_key(|cell| cell.column);
        let mut update = PartitionUpdate::new(Arc::clone(&table), key(peer.endpoint));
        update.rows.push(row);
        apply(state, update)?;
    }
    Ok(())
}

/// Forgets a node.
///
/// # Errors
/// When that cannot be kept.
pub(super) fn forget(state: &NodeState, endpoint: Endpoint) -> Result<(), EngineError> {
    let now = state.env.now_micros();
    let deletion = Deletion::new(now, u32::try_from(now / 1_000_000).unwrap_or(0));
    for name in ["peers_v2", "peers"] {
        let table = state.engine.system_table(name);
        let mut update = PartitionUpdate::new(Arc::clone(&table), key(endpoint));
        let mut row = Row::new(clustering(&table, endpoint));
        row.deletion = deletion;
        update.rows.push(row);
        apply(state, update)?;
    }
    Ok(())
}

fn key(endpoint: Endpoint) -> DecoratedKey {
    DecoratedKey::new(PartitionKey(endpoint.ip.into_value().unwrap_or_default()))
}

fn clustering(table: &TableSchema, endpoint: Endpoint) -> Clustering {
    let mut clustering = Clustering::empty();
    if !table.clustering_columns().is_empty() {
        clustering.push(Component::Value(&i32::from(endpoint.port).to_be_bytes()));
    }
    clustering
}

fn apply(state: &NodeState, update: PartitionUpdate) -> Result<(), EngineError> {
    // Nobody waits for it: what is lost is heard again.
    let _ = state.engine.apply(&Mutation::of(update), WriteOptions::default()).map_err(EngineError::from)?;
    Ok(())
}
