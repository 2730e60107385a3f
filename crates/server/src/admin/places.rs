//! The routes about where data lies.

use super::ApiError;
use super::handlers::{Api, blocking};
use crate::node::Node;
use crate::storage;
use axum::extract::{Query, State};
use coordinator::Strategy;
use serde::Deserialize;
use std::sync::Arc;
use tools::api::{PartitionPlace, TableDirectories, TokenSample};

/// A partition.
#[derive(Debug, Deserialize)]
pub(super) struct OfPartition {
    keyspace: String,
    table: String,
    key: String,
    /// Whether the key is in hexadecimal digits.
    #[serde(default)]
    hex: bool,
}

pub(super) async fn partition(
    State(node): State<Arc<Node>>,
    Query(of): Query<OfPartition>,
) -> Api<PartitionPlace> {
    let schema = node.state.schema();
    let Some(keyspace) = schema.keyspace(&of.keyspace) else {
        return Err(ApiError::not_found(format!("Unknown keyspace '{}'", of.keyspace)));
    };
    let Some(table) = keyspace.store(&of.table).cloned() else {
        let words = format!("Unknown table '{}' in keyspace '{}'", of.table, of.keyspace);
        return Err(ApiError::not_found(words));
    };
    let strategy = Strategy::of(&keyspace.replication);
    let place = move |state: &crate::state::NodeState| {
        let key = storage::parse_key(&state.engine, &table, &of.key, of.hex)?;
        let endpoints = match state.ring.get().filter(|_| strategy != Strategy::Local) {
            Some(ring) => ring.replicas(&strategy, key.token),
            None => vec![state.config.broadcast_address.to_string()],
        };
        let (sstables, levels) = storage::sstables_of(&state.engine, &table, &key)?;
        Ok(PartitionPlace { endpoints, sstables, levels })
    };
    blocking(&node, place).await.map(axum::Json)
}

pub(super) async fn directories(State(node): State<Arc<Node>>) -> axum::Json<Vec<TableDirectories>> {
    axum::Json(storage::directories(&node.state.engine))
}

pub(super) async fn token_sample(State(node): State<Arc<Node>>) -> axum::Json<TokenSample> {
    let tokens = storage::token_sample(&node.state.engine);
    axum::Json(TokenSample { tokens: tokens.iter().map(i64::to_string).collect() })
}
