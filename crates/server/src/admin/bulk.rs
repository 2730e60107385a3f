//! Bulk reads.

use super::handlers::Api;
use super::{ApiError, Json};
use crate::node::Node;
use crate::storage;
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;
use tools::api::{BulkStats, Throughput};

fn without_any() -> ApiError {
    ApiError::not_found("this node was built without bulk reads")
}

pub(super) async fn bulk(State(node): State<Arc<Node>>) -> Api<BulkStats> {
    storage::bulk(&node.state).map(axum::Json).ok_or_else(without_any)
}

pub(super) async fn set_throughput(
    State(node): State<Arc<Node>>,
    Json(limit): Json<Throughput>,
) -> Result<StatusCode, ApiError> {
    let bytes_per_s = limit.mebibytes_per_second.saturating_mul(1 << 20);
    match storage::set_bulk_throughput(&node.state, bytes_per_s) {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(without_any()),
    }
}
