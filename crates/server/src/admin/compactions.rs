//! The routes about compactions, and about other work on whole SSTables.

use super::handlers::{Api, OfTables, blocking, done};
use super::{ApiError, Json};
use crate::node::Node;
use crate::storage;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use std::sync::Arc;
use tools::api::{
    Autocompaction, AutocompactionStatus, CollectGarbage, Compact, CompactionRecord, CompactionStats,
    CompactionThresholds, ConcurrentCompactors, ForceCompact, QualifiedTable, ScrubSstables, SstableFinding,
    TableAdoption, Throughput, UpgradeSstables, VerifySstables,
};

const MIB: u64 = 1 << 20;

pub(super) async fn compact(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<Compact>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::compact(engine, &wanted)).await
}

pub(super) async fn compactions(State(node): State<Arc<Node>>) -> axum::Json<CompactionStats> {
    axum::Json(storage::compactions(&node.state.engine))
}

pub(super) async fn compaction_history(State(node): State<Arc<Node>>) -> Api<Vec<CompactionRecord>> {
    blocking(&node, |state| storage::compaction_history(&state.engine)).await.map(axum::Json)
}

pub(super) async fn adoption(State(node): State<Arc<Node>>) -> axum::Json<Vec<TableAdoption>> {
    axum::Json(storage::adoption(&node.state.engine))
}

/// Which tasks are to be stopped.
#[derive(Debug, Deserialize)]
pub(super) struct StopQuery {
    /// `Compaction` when it is not given.
    kind: Option<String>,
}

pub(super) async fn stop_compactions(
    State(node): State<Arc<Node>>,
    Query(query): Query<StopQuery>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::stop_tasks(engine, query.kind.as_deref())).await
}

pub(super) async fn pause_compactions(State(node): State<Arc<Node>>) -> StatusCode {
    node.state.engine.set_compactions_paused(true);
    StatusCode::NO_CONTENT
}

pub(super) async fn resume_compactions(State(node): State<Arc<Node>>) -> StatusCode {
    node.state.engine.set_compactions_paused(false);
    StatusCode::NO_CONTENT
}

pub(super) async fn set_autocompaction(
    State(node): State<Arc<Node>>,
    Json(auto): Json<Autocompaction>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::set_autocompaction(engine, &auto.selection, auto.enabled)).await
}

pub(super) async fn throughput(State(node): State<Arc<Node>>) -> axum::Json<Throughput> {
    let bytes = storage::compactions(&node.state.engine).throughput_bytes;
    axum::Json(Throughput { mebibytes_per_second: bytes / MIB })
}

pub(super) async fn set_throughput(
    State(node): State<Arc<Node>>,
    Json(limit): Json<Throughput>,
) -> StatusCode {
    let bytes = limit.mebibytes_per_second.saturating_mul(MIB);
    node.state.engine.set_compaction_throughput(bytes);
    StatusCode::NO_CONTENT
}

pub(super) async fn autocompaction(
    State(node): State<Arc<Node>>,
    Query(of): Query<OfTables>,
) -> Api<Vec<AutocompactionStatus>> {
    let selection = of.selection();
    blocking(&node, move |state| storage::autocompaction(&state.engine, &selection)).await.map(axum::Json)
}

pub(super) async fn thresholds(
    State(node): State<Arc<Node>>,
    Query(table): Query<QualifiedTable>,
) -> Api<CompactionThresholds> {
    blocking(&node, move |state| storage::thresholds(&state.engine, &table)).await.map(axum::Json)
}

pub(super) async fn set_thresholds(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<CompactionThresholds>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::set_thresholds(engine, &wanted)).await
}

pub(super) async fn compactors(State(node): State<Arc<Node>>) -> axum::Json<ConcurrentCompactors> {
    axum::Json(ConcurrentCompactors { compactors: node.state.engine.concurrent_compactors() as u64 })
}

pub(super) async fn set_compactors(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<ConcurrentCompactors>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::set_compactors(engine, wanted)).await
}

pub(super) async fn upgrade(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<UpgradeSstables>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::upgrade(engine, &wanted)).await
}

pub(super) async fn verify(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<VerifySstables>,
) -> Api<Vec<SstableFinding>> {
    blocking(&node, move |state| storage::verify(&state.engine, &wanted)).await.map(axum::Json)
}

pub(super) async fn scrub(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<ScrubSstables>,
) -> Api<Vec<SstableFinding>> {
    blocking(&node, move |state| storage::scrub(&state.engine, &wanted)).await.map(axum::Json)
}

pub(super) async fn force_compact(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<ForceCompact>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::force_compact(engine, &wanted)).await
}

pub(super) async fn collect_garbage(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<CollectGarbage>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::collect_garbage(engine, &wanted)).await
}
