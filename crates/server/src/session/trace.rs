//! Traces: the steps of a request in `system_traces.sessions` and `system_traces.events`.
//!
//! A trace is gathered in memory while its request runs and written after the answer, so that tracing costs
//! the traced request little. Clients ask for the session until it has a duration.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use env::Env;
use model::{
    Cell, Clustering, Component, Consistency, DecoratedKey, Liveness, Mutation, PartitionKey,
    PartitionUpdate, Row, WriteType,
};
use protocol::request::{Message, QueryParams, Request};
use uuid::Uuid;

use super::Sessions;
use super::options::seconds;
use super::statements::Statement;
use crate::redact;

/// The steps of one request.
pub(super) struct Trace {
    pub(super) id: Uuid,
    /// Whether the client wants to know of it.
    pub(super) is_asked_for: bool,
    client: IpAddr,
    request: &'static str,
    parameters: BTreeMap<String, String>,
    started_micros: i64,
    started_nanos: u64,
    events: Vec<Event>,
}

struct Event {
    id: Uuid,
    activity: String,
    elapsed_micros: i32,
    thread: String,
}

impl Trace {
    pub(super) fn start(env: &Env, client: SocketAddr, message: &Message) -> Trace {
        let (request, parameters) = match &message.request {
            Request::Query(query) => {
                let mut parameters = of_params(&query.params);
                parameters.insert("query".to_owned(), redact::passwords(&query.statement).into_owned());
                ("Execute CQL3 query", parameters)
            }
            Request::Execute(execute) => ("Execute CQL3 prepared query", of_params(&execute.params)),
            Request::Batch(batch) => {
                let mut parameters = of_params(&batch.params);
                parameters.remove("page_size");
                ("Execute batch of CQL3 queries", parameters)
            }
            Request::Prepare(prepare) => {
                let query = ("query".to_owned(), redact::passwords(&prepare.statement).into_owned());
                ("Preparing CQL3 query", BTreeMap::from([query]))
            }
            other => (other.opcode().name(), BTreeMap::new()),
        };
        Trace {
            id: env.time_uuid(),
            is_asked_for: message.tracing,
            client: client.ip(),
            request,
            parameters,
            started_micros: env.now_micros(),
            started_nanos: env.clock.monotonic_nanos(),
            events: Vec::new(),
        }
    }

    /// The statement of an EXECUTE, known once its id was looked up.
    pub(super) fn is_prepared(&mut self, statement: &Statement, params: &QueryParams) {
        self.parameters.insert("query".to_owned(), redact::passwords(&statement.text).into_owned());
        for (at, (column, value)) in statement.plan.bind_variables.iter().zip(&params.values).enumerate() {
            let text = match redact::names_password(&column.name) {
                true => redact::STARS.to_owned(),
                false => column.ty.to_literal(value.as_bytes()),
            };
            self.parameters.insert(format!("bound_var_{at}_{}", column.name), text);
        }
    }

    pub(super) fn note(&mut self, env: &Env, activity: String) {
        let thread = std::thread::current();
        let (id, now) = (env.time_uuid(), env.clock.monotonic_nanos());
        self.note_as(id, activity, now, thread.name().unwrap_or_default());
    }

    /// Notes what happened on `thread` at an instant of the clock; `id` was made then.
    pub(super) fn note_as(&mut self, id: Uuid, activity: String, at_nanos: u64, thread: &str) {
        let elapsed = at_nanos.saturating_sub(self.started_nanos) / 1_000;
        self.events.push(Event {
            id,
            activity,
            elapsed_micros: i32::try_from(elapsed).unwrap_or(i32::MAX),
            thread: thread.to_owned(),
        });
    }

    /// How long it has been going on.
    pub(super) fn elapsed_nanos(&self, env: &Env) -> u64 {
        env.clock.monotonic_nanos().saturating_sub(self.started_nanos)
    }

    /// Writes the trace. Its loss is no failure of the request.
    pub(super) async fn keep(self: Box<Self>, sessions: &Sessions, duration_nanos: u64) {
        let Some(mutations) = self.mutations(sessions, duration_nanos) else { return };
        let written = sessions.coordinator.write(mutations, Consistency::Any, WriteType::Simple, None).await;
        if let Err(error) = written {
            tracing::warn!(%error, "a trace could not be written");
        }
    }

    fn mutations(&self, sessions: &Sessions, duration_nanos: u64) -> Option<Vec<Mutation>> {
        let node = &sessions.node;
        let schema = node.schema();
        let config = &node.config;
        let source = config.broadcast_rpc_address;
        let port = i32::from(config.settings.storage_port);
        let duration = i32::try_from(duration_nanos / 1_000).unwrap_or(i32::MAX);
        let cells = Cells {
            timestamp: sessions.coordinator.next_timestamp(),
            now_s: seconds(node.env.now_micros()),
            ttl_s: i32::try_from(config.settings.trace_type_query_ttl.0 / 1_000).unwrap_or(i32::MAX),
        };
        let key = DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(self.id.as_bytes())));

        let table = schema.table("system_traces", "events")?;
        let mut events = PartitionUpdate::new(std::sync::Arc::clone(table), key.clone());
        for event in &self.events {
            let mut clustering = Clustering::empty();
            clustering.push(Component::Value(event.id.as_bytes()));
            let mut row = Row::new(clustering);
            cells.fill(
                &mut row,
                table,
                &[
                    ("activity", text(&event.activity)),
                    ("source", address(source)),
                    ("source_port", int(port)),
                    ("source_elapsed", int(event.elapsed_micros)),
                    ("thread", text(&event.thread)),
                ],
            );
            events.add_row(row);
        }

        let table = schema.table("system_traces", "sessions")?;
        let mut session = PartitionUpdate::new(std::sync::Arc::clone(table), key);
        let mut row = Row::new(Clustering::empty());
        cells.fill(
            &mut row,
            table,
            &[
                ("client", address(self.client)),
                ("command", text("QUERY")),
                ("coordinator", address(source)),
                ("coordinator_port", int(port)),
                ("duration", int(duration)),
                ("request", text(self.request)),
                ("started_at", Bytes::copy_from_slice(&(self.started_micros / 1_000).to_be_bytes())),
            ],
        );
        if let Some(column) = table.column("parameters") {
            for (name, value) in &self.parameters {
                row.cells.push(cells.cell(column.id, text(value)).with_path(text(name)));
            }
            row.cells.sort_by(|a, b| a.column.cmp(&b.column).then_with(|| a.path.cmp(&b.path)));
        }
        session.rows.push(row);
        // The session comes last: its duration says that the events are there.
        Some(vec![Mutation::of(events), Mutation::of(session)])
    }
}

/// How the cells of a trace are written.
struct Cells {
    timestamp: i64,
    now_s: u32,
    ttl_s: i32,
}

impl Cells {
    fn expiration(&self) -> u32 {
        self.now_s.saturating_add(self.ttl_s.unsigned_abs())
    }

    fn cell(&self, column: model::ColumnId, value: Bytes) -> Cell {
        match self.ttl_s {
            0 => Cell::live(column, self.timestamp, value),
            ttl_s => Cell::expiring(column, self.timestamp, ttl_s, self.expiration(), value),
        }
    }

    fn fill(&self, row: &mut Row, table: &model::TableSchema, values: &[(&str, Bytes)]) {
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

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn int(number: i32) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

fn address(ip: IpAddr) -> Bytes {
    match ip {
        IpAddr::V4(ip) => Bytes::copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => Bytes::copy_from_slice(&ip.octets()),
    }
}

fn of_params(params: &QueryParams) -> BTreeMap<String, String> {
    let serial = params.serial_consistency.unwrap_or(Consistency::Serial);
    let mut parameters = BTreeMap::from([
        ("consistency_level".to_owned(), params.consistency.name().to_owned()),
        ("serial_consistency_level".to_owned(), serial.name().to_owned()),
    ]);
    if let Some(rows) = params.page_size {
        parameters.insert("page_size".to_owned(), rows.to_string());
    }
    parameters
}
