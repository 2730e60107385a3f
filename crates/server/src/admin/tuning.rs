//! The routes about what operators look at and change while the node runs.

use super::{ApiError, Json};
use crate::config::Millis;
use crate::histogram::Histogram;
use crate::logging;
use crate::metrics::{Latency, Metrics, TableMetrics};
use crate::net::Connection;
use crate::node::Node;
use crate::slices::take_time;
use crate::storage::percentiles;
use crate::system::pools;
use crate::timeouts::TimeoutKind;
use axum::extract::State;
use axum::http::StatusCode;
use std::sync::Arc;
use tools::api::{
    ClientConnection, LogLevel, Percentiles, Pool, RequestLatencies, Timeout, TraceProbability,
};

pub(super) async fn timeouts(State(node): State<Arc<Node>>) -> axum::Json<Vec<Timeout>> {
    let timeout =
        |kind: TimeoutKind| Timeout { kind: kind.name().to_owned(), millis: node.state.timeouts.get(kind).0 };
    axum::Json(TimeoutKind::ALL.map(timeout).into())
}

pub(super) async fn set_timeout(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<Timeout>,
) -> Result<StatusCode, ApiError> {
    let Some(kind) = TimeoutKind::ALL.into_iter().find(|kind| kind.name() == wanted.kind) else {
        let kinds = TimeoutKind::ALL.map(TimeoutKind::name).join(", ");
        return Err(ApiError::invalid(format!("Timeout type requires one of ({kinds})")));
    };
    node.state.timeouts.set(kind, Millis(wanted.millis));
    tracing::info!(kind = wanted.kind, millis = wanted.millis, "a timeout of requests was changed");
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn trace_probability(State(node): State<Arc<Node>>) -> axum::Json<TraceProbability> {
    axum::Json(TraceProbability { probability: node.state.trace_probability.get() })
}

pub(super) async fn set_trace_probability(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<TraceProbability>,
) -> Result<StatusCode, ApiError> {
    if !(0.0..=1.0).contains(&wanted.probability) {
        return Err(ApiError::invalid("Trace probability must be between 0 and 1"));
    }
    node.state.trace_probability.set(wanted.probability);
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn log_levels() -> axum::Json<Vec<LogLevel>> {
    let levels = logging::levels().into_iter();
    axum::Json(levels.map(|(part, level)| LogLevel { part, level }).collect())
}

pub(super) async fn set_log_level(Json(wanted): Json<LogLevel>) -> Result<StatusCode, ApiError> {
    logging::set_level(Some((&wanted.part, &wanted.level))).map_err(ApiError::invalid)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn reset_log_levels() -> Result<StatusCode, ApiError> {
    logging::set_level(None).map_err(ApiError::failed)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn thread_pools(State(node): State<Arc<Node>>) -> axum::Json<Vec<Pool>> {
    axum::Json(pools::list(&node.state))
}

pub(super) async fn latencies(State(node): State<Arc<Node>>) -> axum::Json<RequestLatencies> {
    let metrics = &node.state.metrics;
    axum::Json(RequestLatencies {
        read: of_all_tables(metrics, |table| &table.coordinator_read),
        write: of_all_tables(metrics, |table| &table.coordinator_write),
        range: of_all_tables(metrics, |table| &table.coordinator_scan),
    })
}

/// Microseconds of the requests on every table.
fn of_all_tables(metrics: &Metrics, of: impl Fn(&TableMetrics) -> &Latency) -> Percentiles {
    let all = Histogram::default();
    metrics.tables().iter().for_each(|table| all.absorb(&of(table).nanos));
    percentiles(&all, 0.001)
}

/// Nothing where there is no TLS, as Cassandra has it.
pub(super) async fn reload_tls(State(node): State<Arc<Node>>) -> Result<StatusCode, ApiError> {
    let (clients, nodes) = (node.state.tls.clone(), node.state.node_tls.clone());
    match take_time(move || crate::tls::reload(clients.as_deref(), nodes.as_deref())).await {
        Ok(Ok(_)) => Ok(StatusCode::NO_CONTENT),
        Ok(Err(error)) => {
            tracing::error!(%error, "the certificates of TLS stay as they are");
            let message =
                format!("Failed to hot reload the SSL Certificates! The old ones are in force. {error}");
            Err(ApiError::failed(message))
        }
        Err(error) => Err(ApiError::failed(format!("the operation did not end: {error}"))),
    }
}

pub(super) async fn clients(State(node): State<Arc<Node>>) -> axum::Json<Vec<ClientConnection>> {
    let connections = node.state.connections.connections();
    let client = |connection: &Arc<Connection>| {
        let info = connection.info();
        ClientConnection {
            address: connection.peer.to_string(),
            protocol_version: info.map(|info| info.version.number()),
            user: connection.user().to_string(),
            keyspace: connection.keyspace().as_deref().map(str::to_owned),
            requests: connection.requests(),
            tls_protocol: connection.tls().map(|tls| tls.protocol.to_owned()),
            tls_cipher_suite: connection.tls().map(|tls| tls.cipher_suite.clone()),
            options: info.map(|info| info.settings.iter().cloned().collect()).unwrap_or_default(),
        }
    };
    axum::Json(connections.iter().map(client).collect())
}
