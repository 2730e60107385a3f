//! One function for each route.

use super::exposition::Format;
use super::{ApiError, Json, OPENAPI, prometheus};
use crate::node::estimates;
use crate::node::{Node, SHUTDOWN_GRACE, TransportError};
use crate::slices::take_time;
use crate::state::NodeState;
use crate::storage::{self, StorageError};
use crate::system::PARTITIONER;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::IntoResponse;
use coordinator::Strategy;
use engine::Engine;
use model::Schema;
use model::schema::is_system_keyspace;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tools::api::{
    BANDS, CacheCapacity, CacheKind, ClearSnapshots, Cluster, Health, HeatColumns, ImportSstables,
    ImportedDirectory, IncrementalBackups, Info, InvalidateCache, KeyspaceReplication, NativeTransport,
    NodeStatus, QualifiedTable, ReadSample, ReadsByTable, Refreshed, SampleQuery, Selection,
    SetIncrementalBackups, SetNativeTransport, SnapshotEntry, Status, TableHistograms, TableReport,
    TakeSnapshot, Version,
};

pub(super) type Api<T> = Result<axum::Json<T>, ApiError>;

/// Runs `work` where it may block; it goes on when the caller hangs up.
pub(super) async fn blocking<T: Send + 'static>(
    node: &Node,
    work: impl FnOnce(&NodeState) -> Result<T, StorageError> + Send + 'static,
) -> Result<T, ApiError> {
    let state = Arc::clone(&node.state);
    match take_time(move || work(&state)).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(ApiError::failed(format!("the operation did not end: {error}"))),
    }
}

/// As [`blocking`], for work that answers nothing.
pub(super) async fn done(
    node: &Node,
    work: impl FnOnce(&Engine) -> Result<(), StorageError> + Send + 'static,
) -> Result<StatusCode, ApiError> {
    blocking(node, move |state| work(&state.engine)).await.map(|()| StatusCode::NO_CONTENT)
}

pub(super) async fn health(State(node): State<Arc<Node>>) -> impl IntoResponse {
    let (code, status) = match node.state.is_drained() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "drained"),
        false => (StatusCode::OK, "up"),
    };
    (code, axum::Json(Health { status: status.to_owned() }))
}

pub(super) async fn metrics(State(node): State<Arc<Node>>, headers: HeaderMap) -> impl IntoResponse {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let format = Format::accepted(accepted);
    let said = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "Accept")];
    (said, prometheus::render(&node.state, &node.coordinator, format))
}

pub(super) async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI)
}

fn load_bytes(state: &NodeState) -> u64 {
    storage::tables(&state.engine).iter().map(|t| t.live_bytes).sum()
}

fn tokens(state: &NodeState) -> Vec<String> {
    state.tokens().iter().map(i64::to_string).collect()
}

#[derive(Debug, Deserialize)]
pub(super) struct OfKeyspace {
    keyspace: Option<String>,
}

pub(super) async fn status(State(node): State<Arc<Node>>, Query(of): Query<OfKeyspace>) -> Api<Status> {
    let state = &node.state;
    let of_keyspace = of.keyspace;
    if let Some(keyspace) = &of_keyspace
        && state.schema().keyspace(keyspace).is_none()
    {
        return Err(ApiError::not_found(format!("The keyspace {keyspace}, does not exist")));
    }
    let (config, note) = (&state.config, ownership_note(&state.schema(), of_keyspace.as_deref()));
    if let Some(ring) = state.ring.get() {
        let nodes = ring.status(state, of_keyspace.as_deref(), load_bytes(state));
        return Ok(axum::Json(Status { nodes, note }));
    }
    Ok(axum::Json(Status {
        note,
        nodes: vec![NodeStatus {
            state: "UN".to_owned(),
            address: config.broadcast_address.to_string(),
            data_center: config.data_center.clone(),
            rack: config.rack.clone(),
            load_bytes: load_bytes(state),
            load_is_unknown: false,
            owns: 1.0,
            host_id: state.engine.host_id().to_string(),
            tokens: tokens(state),
        }],
    }))
}

/// Why nobody can say who owns how much of a keyspace, or of those that users made (Cassandra's
/// `StorageService.effectiveOwnership`).
fn ownership_note(schema: &Schema, keyspace: Option<&str>) -> Option<String> {
    if let Some(keyspace) = keyspace.and_then(|name| schema.keyspace(name)) {
        let is_local = Strategy::of(&keyspace.replication) == Strategy::Local;
        let note = "Ownership values for keyspaces with LocalStrategy are meaningless";
        return is_local.then(|| note.to_owned());
    }
    let mut of_users = schema.keyspaces.values().filter(|k| !k.is_virtual && !is_system_keyspace(&k.name));
    let first = of_users.next()?;
    let note = "Non-system keyspaces don't have the same replication settings, effective ownership information is meaningless";
    of_users.any(|other| other.replication != first.replication).then(|| note.to_owned())
}

pub(super) async fn info(State(node): State<Arc<Node>>) -> Api<Info> {
    let state = &node.state;
    let stats = state.engine.stats();
    Ok(axum::Json(Info {
        host_id: state.engine.host_id().to_string(),
        gossip_active: state.ring.get().is_some_and(|ring| ring.gossips()),
        native_transport_active: node.lets_clients_in().await,
        load_bytes: load_bytes(state),
        generation: state.generation,
        uptime_seconds: state.uptime_millis() / 1_000,
        resident_bytes: prometheus::resident_bytes(state),
        memtable_bytes: stats.memtable_bytes,
        memtable_bytes_max: stats.memtable_limit_bytes,
        data_center: state.config.data_center.clone(),
        rack: state.config.rack.clone(),
        exceptions: state.metrics.exceptions.get(),
        page_cache: storage::page_cache(&state.engine),
        row_cache: storage::row_cache(&state.engine),
        tokens: tokens(state),
        drained: state.is_drained(),
        given_up_directories: state.engine.given_up_directories(),
    }))
}

pub(super) async fn version(State(node): State<Arc<Node>>) -> axum::Json<Version> {
    axum::Json(Version {
        release_version: node.state.release_version.clone(),
        ilion_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

pub(super) async fn cluster(State(node): State<Arc<Node>>) -> axum::Json<Cluster> {
    let state = &node.state;
    let (config, schema) = (&state.config, state.schema());
    let real = schema.keyspaces.values().filter(|k| !k.is_virtual);
    let nodes = match state.ring.get() {
        Some(ring) => ring.cluster().await,
        None => Vec::new(),
    };
    axum::Json(Cluster {
        note: ownership_note(&schema, None),
        name: config.settings.cluster_name.clone(),
        snitch: format!("org.apache.cassandra.locator.{}", config.snitch),
        partitioner: PARTITIONER.to_owned(),
        schema_version: schema.version.to_string(),
        address: config.broadcast_address.to_string(),
        storage_port: config.settings.storage_port,
        native_port: Some(config.settings.native_transport_port),
        data_center: config.data_center.clone(),
        release_version: state.release_version.clone(),
        keyspaces: real
            .map(|k| KeyspaceReplication {
                keyspace: k.name.clone(),
                class: k.replication.short_class().to_owned(),
                options: k.replication.options.clone(),
            })
            .collect(),
        nodes,
    })
}

/// `tables=a,b` with `keyspace=ks`, or `keyspace=ks` alone, or nothing.
#[derive(Debug, Deserialize)]
pub(super) struct OfTables {
    keyspace: Option<String>,
    tables: Option<String>,
}

impl OfTables {
    pub(super) fn selection(self) -> Selection {
        let names = self.tables.unwrap_or_default();
        let tables = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Selection { keyspace: self.keyspace, tables }
    }
}

pub(super) async fn tables(
    State(node): State<Arc<Node>>,
    Query(of): Query<OfTables>,
) -> Api<Vec<TableReport>> {
    let selection = of.selection();
    let stats = blocking(&node, move |state| {
        let wanted = storage::resolve(&state.engine, &selection)?;
        let mut stats = storage::tables_with_times(state);
        stats.retain(|s| wanted.iter().any(|(keyspace, table)| *keyspace == s.keyspace && *table == s.table));
        Ok(stats)
    });
    stats.await.map(axum::Json)
}

pub(super) async fn histograms(
    State(node): State<Arc<Node>>,
    Query(of): Query<OfTables>,
) -> Api<Vec<TableHistograms>> {
    let selection = of.selection();
    let found = blocking(&node, move |state| {
        let unknown = |error| match (&error, &selection.keyspace) {
            (StorageError::UnknownKeyspace(_) | StorageError::UnknownTable { .. }, Some(keyspace))
                if !selection.tables.is_empty() =>
            {
                StorageError::NoTable { keyspace: keyspace.clone(), table: selection.tables.join(",") }
            }
            _ => error,
        };
        let wanted = storage::resolve(&state.engine, &selection).map_err(unknown)?;
        let mut found = storage::table_histograms(state);
        found.retain(|h| wanted.iter().any(|(keyspace, table)| *keyspace == h.keyspace && *table == h.table));
        Ok(found)
    });
    found.await.map(axum::Json)
}

/// `seconds=60`.
#[derive(Debug, Deserialize)]
pub(super) struct OfSeconds {
    seconds: Option<usize>,
}

pub(super) async fn heat(
    State(node): State<Arc<Node>>,
    Query(of): Query<OfSeconds>,
) -> axum::Json<HeatColumns> {
    let now = u64::try_from(node.state.env.now_micros() / 1_000_000).unwrap_or(0);
    axum::Json(node.state.metrics.reads.heat.columns(now, of.seconds.unwrap_or(60)))
}

pub(super) async fn reads_by_table(State(node): State<Arc<Node>>) -> axum::Json<ReadsByTable> {
    axum::Json(storage::reads_by_table(&node.state.metrics, node.state.uptime_millis()))
}

pub(super) async fn read_samples(
    State(node): State<Arc<Node>>,
    Query(wanted): Query<SampleQuery>,
) -> Api<Vec<ReadSample>> {
    if wanted.from_band.max(wanted.to_band) >= Some(BANDS) {
        return Err(ApiError::not_found(format!("there are bands 0 to {}", BANDS - 1)));
    }
    let kept = node.state.metrics.reads.heat.samples(&wanted);
    Ok(axum::Json(kept.iter().map(|read| read.to_sample()).collect()))
}

pub(super) async fn slow_reads(State(node): State<Arc<Node>>) -> axum::Json<Vec<ReadSample>> {
    let kept = node.state.metrics.reads.slow.kept();
    axum::Json(kept.iter().map(|(_, read)| read.to_sample()).collect())
}

pub(super) async fn flush(
    State(node): State<Arc<Node>>,
    Json(selection): Json<Selection>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::flush(engine, &selection)).await
}

pub(super) async fn invalidate_cache(
    State(node): State<Arc<Node>>,
    Json(InvalidateCache { cache, roles }): Json<InvalidateCache>,
) -> Result<StatusCode, ApiError> {
    if cache == CacheKind::Credentials {
        let credentials = &node.state.auth.credentials;
        match roles.as_slice() {
            [] => credentials.forget_all(),
            roles => roles.iter().for_each(|role| credentials.forget(role)),
        }
        return Ok(StatusCode::NO_CONTENT);
    }
    if cache == CacheKind::Cidrs {
        super::cidr::check_invalidation(&node)?;
    }
    if matches!(cache, CacheKind::Roles | CacheKind::Cidrs) {
        node.state.auth.invalidate();
        return Ok(StatusCode::NO_CONTENT);
    }
    done(&node, move |engine| {
        storage::invalidate_cache(engine, cache);
        Ok(())
    })
    .await
}

pub(super) async fn set_cache_capacity(
    State(node): State<Arc<Node>>,
    Json(CacheCapacity { rows_mebibytes }): Json<CacheCapacity>,
) -> Result<StatusCode, ApiError> {
    let (bytes, total) = (rows_mebibytes.saturating_mul(1 << 20), node.state.config.memory.total);
    if bytes > total {
        return Err(ApiError::invalid(format!(
            "a row cache of {rows_mebibytes} MiB is more than the {} MiB of memory that this process may use",
            total >> 20
        )));
    }
    done(&node, move |engine| {
        engine.row_cache().set_capacity(bytes);
        Ok(())
    })
    .await
}

pub(super) async fn drain(State(node): State<Arc<Node>>) -> Result<StatusCode, ApiError> {
    // On a task of its own, because a drain that stops half way would leave the node neither open nor closed.
    let drain = tokio::spawn(async move { node.drain().await });
    match drain.await {
        Ok(Ok(())) => Ok(StatusCode::NO_CONTENT),
        Ok(Err(error)) => Err(ApiError::failed(error.to_string())),
        Err(error) => Err(ApiError::failed(format!("the drain did not end: {error}"))),
    }
}

pub(super) async fn native_transport(State(node): State<Arc<Node>>) -> axum::Json<NativeTransport> {
    axum::Json(NativeTransport { running: node.lets_clients_in().await })
}

pub(super) async fn set_native_transport(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<SetNativeTransport>,
) -> Result<StatusCode, ApiError> {
    // On a task of its own, as a drain is.
    let switch = tokio::spawn(async move {
        if wanted.enabled {
            return node.enable_clients().await;
        }
        let grace = if wanted.force { Duration::ZERO } else { SHUTDOWN_GRACE };
        node.disable_clients(grace).await;
        Ok(())
    });
    match switch.await {
        Ok(Ok(())) => Ok(StatusCode::NO_CONTENT),
        Ok(Err(error @ TransportError::Io(_))) => Err(ApiError::failed(error.to_string())),
        Ok(Err(error)) => Err(ApiError::new(StatusCode::CONFLICT, "refused", error.to_string())),
        Err(error) => Err(ApiError::failed(format!("the operation did not end: {error}"))),
    }
}

pub(super) async fn refresh_estimates(State(node): State<Arc<Node>>) -> Result<StatusCode, ApiError> {
    blocking(&node, |state| Ok(estimates::record(state)?)).await.map(|()| StatusCode::NO_CONTENT)
}

pub(super) async fn import(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<ImportSstables>,
) -> Api<Vec<ImportedDirectory>> {
    blocking(&node, move |state| storage::import(&state.engine, &wanted)).await.map(axum::Json)
}

pub(super) async fn refresh(
    State(node): State<Arc<Node>>,
    Json(table): Json<QualifiedTable>,
) -> Api<Refreshed> {
    let loaded = blocking(&node, move |state| storage::refresh(&state.engine, &table));
    loaded.await.map(|sstables| axum::Json(Refreshed { sstables }))
}

pub(super) async fn snapshots(State(node): State<Arc<Node>>) -> Api<Vec<SnapshotEntry>> {
    blocking(&node, |state| storage::snapshots(&state.engine)).await.map(axum::Json)
}

pub(super) async fn take_snapshot(
    State(node): State<Arc<Node>>,
    Json(snapshot): Json<TakeSnapshot>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::take_snapshot(engine, &snapshot)).await
}

pub(super) async fn clear_snapshots(
    State(node): State<Arc<Node>>,
    Json(clear): Json<ClearSnapshots>,
) -> Result<StatusCode, ApiError> {
    done(&node, move |engine| storage::clear_snapshots(engine, &clear)).await
}

pub(super) async fn incremental_backups(State(node): State<Arc<Node>>) -> axum::Json<IncrementalBackups> {
    axum::Json(IncrementalBackups { running: node.state.engine.incremental_backups() })
}

pub(super) async fn set_incremental_backups(
    State(node): State<Arc<Node>>,
    Json(wanted): Json<SetIncrementalBackups>,
) -> StatusCode {
    node.state.engine.set_incremental_backups(wanted.enabled);
    tracing::info!(enabled = wanted.enabled, "incremental backups were switched");
    StatusCode::NO_CONTENT
}
