//! Traces: the steps of a request in `system_traces.sessions` and `system_traces.events`.
//!
//! A trace is gathered in memory while its request runs and written after the answer, so that tracing costs
//! the traced request little. Clients ask for the session until it has a duration.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use coordinator::trace::TraceSession;
use env::Env;
use model::{Clustering, Consistency, PartitionUpdate, Row};
use protocol::request::{Message, QueryParams, Request};

use super::Sessions;
use super::statements::Statement;
use crate::redact;
use crate::traces::{self, Cells, address, int, text};

/// The steps of one request.
pub(super) struct Trace {
    pub(super) session: Arc<TraceSession>,
    /// Whether the client wants to know of it.
    pub(super) is_asked_for: bool,
    client: IpAddr,
    request: &'static str,
    parameters: BTreeMap<String, String>,
    started_micros: i64,
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
            session: TraceSession::start(env, env.time_uuid()),
            is_asked_for: message.tracing,
            client: client.ip(),
            request,
            parameters,
            started_micros: env.now_micros(),
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

    /// Writes the trace. Its loss is no failure of the request.
    pub(super) async fn keep(self: Box<Self>, sessions: &Sessions, duration_nanos: u64) {
        let cells = Cells::new(&sessions.node, sessions.coordinator.next_timestamp());
        let events = traces::events_of(&sessions.node, &cells, self.session.id, &self.session.take_events());
        let session = self.row(sessions, &cells, duration_nanos);
        // The session comes last: its duration says that the events are there.
        let (Some(events), Some(session)) = (events, session) else { return };
        traces::write(&sessions.coordinator, vec![events, session]).await;
    }

    fn row(&self, sessions: &Sessions, cells: &Cells, duration_nanos: u64) -> Option<PartitionUpdate> {
        let schema = sessions.node.schema();
        let config = &sessions.node.config;
        let table = schema.table("system_traces", "sessions")?;
        let mut session = PartitionUpdate::new(Arc::clone(table), traces::key_of(self.session.id));
        let mut row = Row::new(Clustering::empty());
        let duration = i32::try_from(duration_nanos / 1_000).unwrap_or(i32::MAX);
        cells.fill(
            &mut row,
            table,
            &[
                ("client", address(self.client)),
                ("command", text("QUERY")),
                ("coordinator", address(config.broadcast_rpc_address)),
                ("coordinator_port", int(i32::from(config.settings.storage_port))),
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
        Some(session)
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
