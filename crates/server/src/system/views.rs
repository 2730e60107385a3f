//! `system_views`: what the node is doing and what it was told, as tables.

use super::internode;
use super::pools;
use super::rows::{IntoValue, VirtualRows};
use crate::histogram::Histogram;
use crate::metrics::{Latency, TableMetrics};
use crate::state::NodeState;
use model::CqlType;
use model::schema::Schema;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// `settings`.
pub(super) fn settings(state: &NodeState, rows: &mut VirtualRows) {
    for setting in
        state.config.shown(&state.timeouts, state.engine.incremental_backups(), state.engine.release())
    {
        rows.add(
            [setting.name.into_value()],
            &[("in_effect", setting.is_in_effect.into_value()), ("value", setting.value.into_value())],
        );
    }
}

/// `queries`: the requests that wait. How long one of them waited for a thread is known when it is over.
pub(super) fn queries(state: &NodeState, rows: &mut VirtualRows) {
    let now = state.env.clock.monotonic_nanos();
    for (number, request) in state.running.list() {
        let micros = i64::try_from(now.saturating_sub(request.started_nanos) / 1_000).unwrap_or(i64::MAX);
        rows.add(
            [format!("request-{number}").into_value()],
            &[("running_micros", micros.into_value()), ("task", (&*request.task).into_value())],
        );
    }
}

/// `clients`.
pub(super) fn clients(state: &NodeState, rows: &mut VirtualRows) {
    for connection in state.connections.connections() {
        let info = connection.info();
        let options: BTreeMap<String, String> =
            info.map(|i| i.settings.iter().cloned().collect()).unwrap_or_default();
        let setting = |name: &str| info.and_then(|i| i.setting(name)).map(str::to_owned);
        let stage = match (info, connection.is_admitted()) {
            (None, _) => "establishing",
            (Some(_), false) => "authenticating",
            (Some(_), true) => "ready",
        };
        rows.add(
            [connection.peer.ip().into_value(), i32::from(connection.peer.port()).into_value()],
            &[
                ("client_options", (&options).into_value()),
                ("connection_stage", stage.into_value()),
                ("driver_name", setting("DRIVER_NAME").into_value()),
                ("driver_version", setting("DRIVER_VERSION").into_value()),
                ("hostname", connection.peer.ip().to_string().into_value()),
                ("keyspace_name", connection.keyspace().as_deref().into_value()),
                ("protocol_version", info.map(|i| i32::from(i.version.number())).into_value()),
                ("request_count", connection.requests().into_value()),
                ("ssl_cipher_suite", connection.tls().map(|tls| tls.cipher_suite.as_str()).into_value()),
                ("ssl_enabled", connection.tls().is_some().into_value()),
                ("ssl_protocol", connection.tls().map(|tls| tls.protocol).into_value()),
                ("username", (&*connection.user()).into_value()),
            ],
        );
    }
}

/// Every real table with what was counted for it, if anything.
fn each_table(state: &NodeState, mut visit: impl FnMut(&str, &str, Option<&TableMetrics>)) {
    let schema: Arc<Schema> = state.engine.schema();
    for keyspace in schema.keyspaces.values().filter(|k| !k.is_virtual) {
        for table in keyspace.stores() {
            let counted = state.metrics.table_by_id(table.id);
            visit(&table.keyspace, &table.name, counted.as_deref());
        }
    }
}

/// `local_read_latency` and its five relatives.
pub(super) fn latency(state: &NodeState, rows: &mut VirtualRows, of: fn(&TableMetrics) -> &Latency) {
    let millis = |nanos: u64| (nanos as f64 / 1_000.0).round() / 1_000.0;
    each_table(state, |keyspace, table, counted| {
        let latency = counted.map(of);
        let quantile = |q: f64| latency.map_or(0.0, |l| millis(l.nanos.quantile(q)));
        rows.add(
            [keyspace.into_value(), table.into_value()],
            &[
                ("count", latency.map_or(0, |l| l.nanos.count()).into_value()),
                ("max_ms", latency.map_or(0.0, |l| millis(l.nanos.max())).into_value()),
                ("p50th_ms", quantile(0.5).into_value()),
                ("p99th_ms", quantile(0.99).into_value()),
                ("per_second", latency.map_or(0.0, |l| l.meter.per_second()).into_value()),
            ],
        );
    });
}

/// `rows_per_read` and its relatives.
pub(super) fn per_read(state: &NodeState, rows: &mut VirtualRows, of: fn(&TableMetrics) -> &Histogram) {
    scaled_per_read(state, rows, of, 1.0);
}

/// `read_amplification`, which is counted in hundredths.
pub(super) fn hundredths_per_read(
    state: &NodeState,
    rows: &mut VirtualRows,
    of: fn(&TableMetrics) -> &Histogram,
) {
    scaled_per_read(state, rows, of, 0.01);
}

fn scaled_per_read(
    state: &NodeState,
    rows: &mut VirtualRows,
    of: fn(&TableMetrics) -> &Histogram,
    scale: f64,
) {
    each_table(state, |keyspace, table, counted| {
        let histogram = counted.map(of);
        let quantile = |q: f64| histogram.map_or(0.0, |h| h.quantile(q) as f64 * scale);
        rows.add(
            [keyspace.into_value(), table.into_value()],
            &[
                ("count", histogram.map_or(0, Histogram::count).into_value()),
                ("max", histogram.map_or(0.0, |h| h.max() as f64 * scale).into_value()),
                ("p50th", quantile(0.5).into_value()),
                ("p99th", quantile(0.99).into_value()),
            ],
        );
    });
}

/// `slow_queries`: reads only, because the table is part of the key.
pub(super) fn slow_queries(state: &NodeState, rows: &mut VirtualRows) {
    for (number, read) in state.metrics.reads.slow.kept() {
        let Some(table) = &read.table else { continue };
        let cost: BTreeMap<&str, u64> = crate::reads::nonzero(&read.cost).collect();
        rows.add(
            [table.keyspace.as_str().into_value(), table.name.as_str().into_value(), number.into_value()],
            &[
                ("client", read.client.to_string().into_value()),
                ("cost", (&cost).into_value()),
                ("micros", (read.nanos / 1_000).into_value()),
                ("proof_wait_micros", (read.waits.proof_nanos / 1_000).into_value()),
                ("query", (*read.statement).into_value()),
                ("reader_wait_micros", (read.waits.reader_nanos / 1_000).into_value()),
                ("restriction", read.restriction.as_str().into_value()),
                ("timestamp", (read.at_micros / 1_000).into_value()),
            ],
        );
    }
}

/// `disk_usage`, `max_sstable_size`, `max_partition_size`: MiB, rounded up.
pub(super) fn table_bytes(
    state: &NodeState,
    rows: &mut VirtualRows,
    of: fn(&tools::api::TableReport) -> u64,
) {
    for stats in crate::storage::tables(&state.engine) {
        rows.add(
            [stats.keyspace.as_str().into_value(), stats.table.as_str().into_value()],
            &[("mebibytes", of(&stats).div_ceil(MIB).into_value())],
        );
    }
}

/// `max_sstable_duration`, in milliseconds.
pub(super) fn max_sstable_duration(state: &NodeState, rows: &mut VirtualRows) {
    for stats in crate::storage::tables(&state.engine) {
        rows.add(
            [stats.keyspace.as_str().into_value(), stats.table.as_str().into_value()],
            &[("max_sstable_duration", stats.sstable_duration_millis_max.into_value())],
        );
    }
}

/// `snapshots`.
pub(super) fn snapshots(state: &NodeState, rows: &mut VirtualRows) {
    // A snapshot directory that cannot be read is in the log; the table shows the others.
    for snapshot in crate::storage::snapshots(&state.engine).unwrap_or_default() {
        rows.add(
            [
                snapshot.name.as_str().into_value(),
                snapshot.keyspace.as_str().into_value(),
                snapshot.table.as_str().into_value(),
            ],
            &[
                ("created_at", CqlType::Timestamp.parse_text(&snapshot.created_at, 0).ok()),
                ("ephemeral", false.into_value()),
                ("size_on_disk", snapshot.disk_bytes.into_value()),
                ("true_size", snapshot.true_bytes.into_value()),
            ],
        );
    }
}

/// `adoption`.
pub(super) fn adoption(state: &NodeState, rows: &mut VirtualRows) {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for table in crate::storage::adoption(&state.engine) {
        rows.add(
            [table.keyspace.as_str().into_value(), table.table.as_str().into_value()],
            &[
                ("bytes", number(table.bytes).into_value()),
                ("described", number(table.described).into_value()),
                ("partitions", number(table.partitions).into_value()),
                ("waiting", number(table.waiting).into_value()),
            ],
        );
    }
}

/// `bulk_scans`.
pub(super) fn bulk_scans(state: &NodeState, rows: &mut VirtualRows) {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    for scan in crate::storage::bulk(state).unwrap_or_default().running {
        let mut values = vec![
            ("asked_by", scan.asked_by.as_str().into_value()),
            ("bytes", number(scan.bytes).into_value()),
            ("bytes_estimate", number(scan.bytes_estimate).into_value()),
            ("keyspace_name", scan.keyspace.as_str().into_value()),
            ("rows", number(scan.rows).into_value()),
            ("seconds", scan.seconds.into_value()),
            ("table_name", scan.table.as_str().into_value()),
        ];
        values.extend(scan.after.map(|token| ("after_token", token.into_value())));
        values.extend(scan.through.map(|token| ("through_token", token.into_value())));
        rows.add([number(scan.id).into_value()], &values);
    }
}

/// `sstable_tasks`.
pub(super) fn sstable_tasks(state: &NodeState, rows: &mut VirtualRows) {
    for task in crate::storage::compactions(&state.engine).active {
        let ratio = if task.total == 0 { 1.0 } else { task.completed as f64 / task.total as f64 };
        rows.add(
            [
                task.keyspace.as_str().into_value(),
                task.table.as_str().into_value(),
                uuid::Uuid::parse_str(&task.id).unwrap_or_default().into_value(),
            ],
            &[
                ("completion_ratio", ratio.into_value()),
                ("kind", task.kind.to_ascii_lowercase().into_value()),
                ("progress", task.completed.into_value()),
                ("sstables", (task.sstables as i32).into_value()),
                ("total", task.total.into_value()),
                ("unit", task.unit.into_value()),
            ],
        );
    }
}

/// `thread_pools`: those of Cassandra's pools that have a counterpart here.
pub(super) fn thread_pools(state: &NodeState, rows: &mut VirtualRows) {
    let limit = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
    for pool in pools::list(state) {
        rows.add(
            [pool.name.into_value()],
            &[
                ("active_tasks", limit(pool.active).into_value()),
                ("active_tasks_limit", limit(pool.active_max).into_value()),
                ("blocked_tasks", 0i64.into_value()),
                ("blocked_tasks_all_time", 0i64.into_value()),
                ("completed_tasks", pool.completed.into_value()),
                ("pending_tasks", limit(pool.pending).into_value()),
            ],
        );
    }
}

/// `caches`: the page cache, under a name of its own, and the row cache.
pub(super) fn caches(state: &NodeState, rows: &mut VirtualRows) {
    let engine = &state.engine;
    for (name, cache) in
        [("pages", crate::storage::page_cache(engine)), ("rows", crate::storage::row_cache(engine))]
    {
        let requests = cache.hits + cache.misses;
        let ratio = if requests == 0 { f64::NAN } else { cache.hits as f64 / requests as f64 };
        rows.add(
            [name.into_value()],
            &[
                ("capacity_bytes", cache.capacity_bytes.into_value()),
                ("entry_count", i32::try_from(cache.entries).unwrap_or(i32::MAX).into_value()),
                ("hit_count", cache.hits.into_value()),
                ("hit_ratio", ratio.into_value()),
                ("request_count", requests.into_value()),
                ("size_bytes", cache.used_bytes.into_value()),
            ],
        );
    }
}

/// `cql_metrics`.
pub(super) fn cql_metrics(state: &NodeState, rows: &mut VirtualRows) {
    let metrics = &state.metrics;
    let prepared = metrics.prepared_statements_executed.get() as f64;
    let regular = metrics.regular_statements_executed.get() as f64;
    let ratio = if prepared + regular == 0.0 { 0.0 } else { prepared / (prepared + regular) };
    for (name, value) in [
        ("prepared_statements_count", metrics.prepared_statements.get() as f64),
        ("prepared_statements_evicted", metrics.prepared_statements_evicted.get() as f64),
        ("prepared_statements_executed", prepared),
        ("prepared_statements_ratio", ratio),
        ("regular_statements_executed", regular),
    ] {
        rows.add([name.into_value()], &[("value", value.into_value())]);
    }
}

/// `batch_metrics`.
pub(super) fn batch_metrics(state: &NodeState, rows: &mut VirtualRows) {
    for (name, histogram) in [
        ("partitions_per_counter_batch", &state.metrics.partitions_per_counter_batch),
        ("partitions_per_logged_batch", &state.metrics.partitions_per_logged_batch),
        ("partitions_per_unlogged_batch", &state.metrics.partitions_per_unlogged_batch),
    ] {
        let quantile = |q: f64| (histogram.quantile(q) as f64).into_value();
        rows.add(
            [name.into_value()],
            &[
                ("max", histogram.max().into_value()),
                ("p50th", quantile(0.5)),
                ("p999th", quantile(0.999)),
                ("p99th", quantile(0.99)),
            ],
        );
    }
}

/// `system_properties`: what the process runs with. Environment variables that may hold secrets are not
/// shown.
pub(super) fn system_properties(state: &NodeState, rows: &mut VirtualRows) {
    let mut properties = vec![
        ("ilion.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("os.arch", std::env::consts::ARCH.to_owned()),
        ("os.name", std::env::consts::OS.to_owned()),
        ("user.dir", std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default()),
    ];
    if let Some(file) = &state.config.file {
        properties.push(("cassandra.config", format!("file://{}", file.display())));
    }
    for (name, value) in properties {
        rows.add([name.into_value()], &[("value", value.into_value())]);
    }
}

/// `gossip_info`: the nodes of the ring, or the one node.
pub(super) fn gossip_info(state: &NodeState, rows: &mut VirtualRows) {
    if let Some(ring) = state.ring.get() {
        return internode::gossip_info(ring, rows);
    }
    let config = &state.config;
    let load: u64 = crate::storage::tables(&state.engine).iter().map(|t| t.live_bytes).sum();
    let status = format!("NORMAL,{}", state.tokens().first().copied().unwrap_or_default());
    let native = format!("{}:{}", config.broadcast_rpc_address, config.cql_address.port());
    let heartbeat = (state.uptime_millis() / 1_000).min(i32::MAX as u64) as i32;
    rows.add(
        [config.broadcast_address.into_value(), i32::from(config.settings.storage_port).into_value()],
        &[
            ("dc", config.data_center.as_str().into_value()),
            ("generation", state.generation.into_value()),
            ("heartbeat", heartbeat.into_value()),
            ("host_id", state.engine.host_id().to_string().into_value()),
            ("hostname", config.broadcast_address.to_string().into_value()),
            ("load", format!("{load}.0").into_value()),
            ("native_address_and_port", native.into_value()),
            ("rack", config.rack.as_str().into_value()),
            ("release_version", state.release_version.as_str().into_value()),
            ("rpc_address", config.broadcast_rpc_address.to_string().into_value()),
            ("rpc_ready", "true".into_value()),
            ("schema", state.engine.schema().version.to_string().into_value()),
            ("sstable_versions", sstable_versions(state).into_value()),
            ("status", status.as_str().into_value()),
            ("status_with_port", status.as_str().into_value()),
        ],
    );
}

/// The formats and versions of the SSTables that are in use, as gossip tells of them.
fn sstable_versions(state: &NodeState) -> String {
    let mut versions = BTreeSet::new();
    for table in state.engine.tables() {
        for sstable in table.view().sstables.iter() {
            let version = sstable.descriptor().version;
            versions.insert(format!("{}-{version}", version.format()));
        }
    }
    Vec::from_iter(versions).join(",")
}
