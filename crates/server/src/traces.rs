//! Traces as rows of `system_traces`: of requests of clients, and of what this node does for requests that
//! other nodes trace.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use cluster::serve::Traces;
use coordinator::Coordinator;
use coordinator::trace::{TraceEvent, TraceSession};
use model::{
    Cell, Clustering, Component, Consistency, DecoratedKey, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, WriteType,
};
use uuid::Uuid;

use crate::state::NodeState;

/// How the cells of a trace are written.
pub(crate) struct Cells {
    timestamp: i64,
    now_s: u32,
    ttl_s: i32,
}

impl Cells {
    /// Cells that are written now and expire as the settings say.
    pub(crate) fn new(state: &NodeState, timestamp: i64) -> Cells {
        Cells {
            timestamp,
            now_s: u32::try_from(state.env.now_seconds()).unwrap_or(0),
            ttl_s: i32::try_from(state.config.settings.trace_type_query_ttl.0 / 1_000).unwrap_or(i32::MAX),
        }
    }

    fn expiration(&self) -> u32 {
        self.now_s.saturating_add(self.ttl_s.unsigned_abs())
    }

    pub(crate) fn cell(&self, column: model::ColumnId, value: Bytes) -> Cell {
        match self.ttl_s {
            0 => Cell::live(column, self.timestamp, value),
            ttl_s => Cell::expiring(column, self.timestamp, ttl_s, self.expiration(), value),
        }
    }

    pub(crate) fn fill(&self, row: &mut Row, table: &model::TableSchema, values: &[(&str, Bytes)]) {
        row.liveness = match self.ttl_s {
            0 => Liveness::new(self.timestamp),
            ttl_s => Liveness::expiring(self.timestamp, ttl_s, self.expiration()),
        };
        for (name, value) in values {
            if let Some(column) = table.column(name) {
                row.cells.push(self.cell(column.id, value.clone()));
            }
        }
        row.cells.sort_by_key(|cell| cell.column);
    }
}

pub(crate) fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

pub(crate) fn int(number: i32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

pub(crate) fn address(ip: IpAddr) -> Bytes {
    match ip {
        IpAddr::V4(ip) => Bytes::copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => Bytes::copy_from_slice(&ip.octets()),
    }
}

/// The partition of a trace.
pub(crate) fn key_of(id: Uuid) -> DecoratedKey {
    DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(id.as_bytes())))
}

/// Steps as rows of `system_traces.events`; `None` without that table.
pub(crate) fn events_of(
    state: &NodeState,
    cells: &Cells,
    id: Uuid,
    events: &[TraceEvent],
) -> Option<PartitionUpdate> {
    let schema = state.schema();
    let table = schema.table("system_traces", "events")?;
    let mut update = PartitionUpdate::new(Arc::clone(table), key_of(id));
    for event in events {
        let mut clustering = Clustering::empty();
        clustering.push(Component::Value(event.id.as_bytes()));
        let mut row = Row::new(clustering);
        let elapsed_micros = i32::try_from(event.elapsed_nanos / 1_000).unwrap_or(i32::MAX);
        cells.fill(
            &mut row,
            table,
            &[
                ("activity", text(&event.activity)),
                ("source", address(state.config.broadcast_rpc_address)),
                ("source_port", int(i32::from(state.config.settings.storage_port))),
                ("source_elapsed", int(elapsed_micros)),
                ("thread", text(&event.thread)),
            ],
        );
        update.add_row(row);
    }
    Some(update)
}

/// Writes rows of a trace. Their loss is no failure of the request.
pub(crate) async fn write(coordinator: &Coordinator, updates: Vec<PartitionUpdate>) {
    let mutations = updates.into_iter().map(Mutation::of).collect();
    let written = coordinator.write(mutations, Consistency::Any, WriteType::Simple, None).await;
    if let Err(error) = written {
        tracing::warn!(%error, "a trace could not be written");
    }
}

/// What this node does for requests that others trace: its steps are written as soon as it has answered.
pub(crate) struct NodeTraces {
    pub(crate) state: Arc<NodeState>,
    pub(crate) coordinator: Arc<Coordinator>,
}

impl Traces for NodeTraces {
    fn begin(&self, id: Uuid) -> Option<Arc<TraceSession>> {
        Some(TraceSession::start(&self.state.env, id))
    }

    fn keep(&self, trace: &Arc<TraceSession>) {
        let cells = Cells::new(&self.state, self.coordinator.next_timestamp());
        let events = events_of(&self.state, &cells, trace.id, &trace.take_events());
        let coordinator = Arc::clone(&self.coordinator);
        tokio::spawn(async move { write(&coordinator, events.into_iter().collect()).await });
    }
}
