//! The route that samples the most active partitions.

use super::handlers::Api;
use super::{ApiError, Json};
use crate::node::Node;
use crate::storage::{self, StorageError};
use axum::extract::State;
use axum::http::StatusCode;
use model::TableSchema;
use std::sync::Arc;
use std::time::Duration;
use tools::api::{Profile, SamplerResult};

/// Partitions that a sampler keeps of a table at most.
const CAPACITY_MAX: u64 = 65_536;
/// The longest profile, in milliseconds: a day.
const DURATION_MAX: u64 = 86_400_000;

/// Samples until the duration is over. A caller who hangs up ends it.
pub(super) async fn profile(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<Profile>,
) -> Api<Vec<SamplerResult>> {
    if !(1..=DURATION_MAX).contains(&wanted.duration_millis) {
        let words = format!("a profile takes 1 to {DURATION_MAX} ms, not {}", wanted.duration_millis);
        return Err(ApiError::invalid(words));
    }
    if wanted.count > wanted.capacity || !(1..=CAPACITY_MAX).contains(&wanted.capacity) {
        let words = format!("a sampler keeps 1 to {CAPACITY_MAX} partitions, and tells of no more");
        return Err(ApiError::invalid(words));
    }
    let tables = tables(&node, &wanted)?;
    let (capacity, count) = (wanted.capacity as usize, wanted.count as usize);
    let Some(running) = node.state.metrics.profiler.begin(tables, capacity, count) else {
        return Err(ApiError::new(StatusCode::CONFLICT, "conflict", "Sampling already in progress"));
    };
    node.state.env.tasks.sleep(Duration::from_millis(wanted.duration_millis)).await;
    Ok(axum::Json(running.results(&wanted.samplers, storage::show_key)))
}

fn tables(node: &Node, wanted: &Profile) -> Result<Vec<Arc<TableSchema>>, ApiError> {
    let schema = node.state.schema();
    let unknown = || {
        let name = |name: &Option<String>| name.clone().unwrap_or_else(|| "*".to_owned());
        StorageError::NoStore { keyspace: name(&wanted.keyspace), table: name(&wanted.table) }
    };
    let keyspaces = schema.keyspaces.values().filter(|keyspace| !keyspace.is_virtual);
    let keyspaces = keyspaces.filter(|found| wanted.keyspace.as_ref().is_none_or(|name| found.name == *name));
    let all = keyspaces.flat_map(|keyspace| keyspace.stores());
    let tables: Vec<_> =
        all.filter(|found| wanted.table.as_ref().is_none_or(|name| found.name == *name)).cloned().collect();
    match tables.is_empty() && (wanted.keyspace.is_some() || wanted.table.is_some()) {
        true => Err(unknown().into()),
        false => Ok(tables),
    }
}
