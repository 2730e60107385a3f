//! The path of a query.
//!
//! ```text
//! QUERY    text ── parse, prepare ──┐
//! EXECUTE  id ── look up ───────────┼─> bind ─> select   ─> coordinator ─> shape ─> rows
//! BATCH    texts and ids ───────────┘       ├─> write    ─> coordinator ─> void, or [applied]
//!                                           ├─> schema   ─> cql::ddl ─> engine ─> schema change, event
//!                                           └─> describe, use, truncate
//! PREPARE  text ── parse, prepare ─> the cache of statements ─> id
//! ```
//!
//! 1. A connection hands over a decoded message and the obligation to answer it ([`Service::handle`]).
//!    Where clients log in, what the sender may do is looked up first if that is old ([`principal`]).
//! 2. An [`Exchange`] accompanies the request: clock, warnings, trace, the obligation itself.
//! 3. The file of the request's kind binds it; what is common to kinds is in `run`. A read that finds all it
//!    needs in memory is over then. What else has to be done is [`Work`], which may wait.
//! 4. Where a log of requests is on, it is told what came of this one ([`logged`]).
//! 5. The answer goes out with warnings and tracing id; then the request is counted, a slow one kept for the
//!    log, a traced one written down.
//!
//! Long requests are parsed and bound on the pool of readers ([`long`]): that takes time that grows with
//! their length, and nobody else of the network thread has to wait for it.
//!
//! The awkward exception: a read that finds all it needs in memory answers by itself, straight into the
//! connection's buffer ([`Answer::Sent`]). Every other read runs on the pool of readers, the only threads
//! here that wait for the disk.

mod batch;
mod describe;
mod error;
mod execute;
mod explain;
mod guard;
mod logged;
mod long;
mod options;
mod prepare;
mod principal;
mod query;
mod run;
mod schema;
mod select;
mod statements;
mod trace;
mod write;

#[cfg(test)]
mod tests;

use model::{DecoratedKey, TableSchema};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use coordinator::trace::{TraceSession, during};
use coordinator::{Coordinator, READER_THREAD, ReadObserver, ReaderWait};
use cql::bind::UuidSource;
use cql::guardrails::Guardrails;
use env::Env;
use partition::{CostSnapshot, Deadline, NanoClock, ReadContext, Recorder};
use protocol::request::{Execute, Message, Request};
use protocol::response::blocks::Blocks;
use protocol::response::error::ErrorResponse;
use protocol::response::{Response, ResultBody};
use protocol::{Extras, Opcode, ProtocolVersion};
use uuid::Uuid;

use crate::config::Millis;
use crate::metrics::RequestKind;
use crate::net::{AnswerRoom, Arrival, Connection, Entrance, Handling, Reply, Service};
use crate::node::Node;
use crate::reads::{self, ReadRecord, Waits};
use crate::redact;
use crate::running::RunningRequest;
use crate::state::NodeState;
use crate::timeouts::TimeoutKind;
use logged::Logged;
use run::Work;
use statements::Statements;
use trace::Trace;

/// Bytes of values in one page, when the client asked for pages. A page ends with the row that exceeds it, so
/// that a page of large rows is shorter than the client asked for, and far below what a frame holds.
const PAGE_BYTES_MAX: u64 = 2 << 20;

/// Bytes of the largest answer, whatever the client asked for: what clients accept in one frame.
const RESULT_BYTES_MAX: usize = 256 << 20;

/// Carries out the requests of all sessions.
pub struct Sessions {
    /// The clock of deadlines and recorders.
    clock: NanoClock,
    node: Arc<NodeState>,
    coordinator: Arc<Coordinator>,
    statements: Statements,
    uuids: Arc<dyn UuidSource>,
    /// Whether ordinary roles are held by other guardrails than those that hold them by default.
    guards: bool,
    /// Whether their reads and writes are.
    guards_requests: bool,
    /// When somebody was warned of disks with little room; `u64::MAX` is never.
    warned_of_disks_nanos: AtomicU64,
    /// Held from the look at the schema until its change is in force.
    schema_turn: tokio::sync::Mutex<()>,
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

/// `now()` and `uuid()` of CQL.
#[derive(Debug)]
struct EnvUuids(Env);

impl UuidSource for EnvUuids {
    fn time_uuid(&self) -> Uuid {
        self.0.time_uuid()
    }

    fn random_uuid(&self) -> Uuid {
        self.0.random_uuid()
    }
}

/// How far a request came without waiting.
enum Progress {
    /// To its end.
    Over(Answer),
    /// To a point at which it waits: this is left.
    Waits(Work),
    /// Nowhere: it is an execution of a long statement, which is not bound on a network thread.
    IsLong(Box<Execute>),
}

/// What a request comes to.
enum Answer {
    /// This.
    Response(Response),
    /// A RESULT whose body is this, with the room that it has.
    Rows(Blocks, AnswerRoom),
    /// It was sent already.
    Sent,
}

impl Answer {
    const VOID: Answer = Answer::Response(Response::Result(ResultBody::Void));
}

/// One request, from its arrival to its answer.
struct Exchange {
    sessions: Arc<Sessions>,
    /// `None` once answered.
    reply: Option<Reply>,
    connection: Arc<Connection>,
    version: ProtocolVersion,
    started_nanos: u64,
    /// When it was over, once that is known.
    ended_nanos: Option<u64>,
    warnings: Vec<String>,
    trace: Option<Box<Trace>>,
    /// What is executed, for logs.
    text: Option<Arc<str>>,
    /// How long it has waited on no thread.
    waits: Waits,
    /// Whether it has left the network thread because it is long.
    is_on_reader: bool,
    /// The read of a slow request.
    slow: Option<Arc<ReadRecord>>,
    /// Whether it changes the schema. That waits for syncs of many files and is never told of as slow.
    changes_schema: bool,
    /// What accompanied the read that was begun last where it may wait.
    last_read: Option<ReadContext>,
    /// What logs of requests are told, where one is on.
    logged: Option<Box<Logged>>,
}

impl Exchange {
    fn new(sessions: Arc<Sessions>, message: &Message, reply: Reply) -> Exchange {
        let connection = Arc::clone(reply.connection());
        let env = &sessions.node.env;
        let is_traced = message.tracing || sessions.node.trace_probability.strikes(env);
        let trace = || Box::new(Trace::start(env, connection.peer, message));
        Exchange {
            version: connection.version(),
            started_nanos: env.clock.monotonic_nanos(),
            ended_nanos: None,
            trace: is_traced.then(trace),
            warnings: Vec::new(),
            text: None,
            waits: Waits::default(),
            slow: None,
            changes_schema: false,
            last_read: None,
            logged: Logged::new(&sessions.node, &message.request),
            is_on_reader: false,
            reply: Some(reply),
            connection,
            sessions,
        }
    }

    /// Notes a step for the trace. `activity` is made only for requests that are traced.
    fn note(&mut self, activity: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace.session.note(activity());
        }
    }

    /// What other nodes are told of the trace.
    fn trace_session(&self) -> Option<Arc<TraceSession>> {
        self.trace.as_ref().map(|trace| Arc::clone(&trace.session))
    }

    /// A recorder of sources for a read that is traced.
    fn recorder(&self) -> Option<Arc<Recorder>> {
        self.trace.as_ref().map(|_| self.new_recorder())
    }

    fn new_recorder(&self) -> Arc<Recorder> {
        Recorder::new(Arc::clone(&self.sessions.clock))
    }

    /// When the request has taken `timeout`, counted from when it was decoded.
    fn deadline(&self, timeout: Millis) -> Deadline {
        let nanos = timeout.0.saturating_mul(1_000_000);
        Deadline::new(&self.sessions.clock, self.started_nanos.saturating_add(nanos))
    }

    fn read_deadline(&self) -> Deadline {
        self.deadline(self.sessions.node.timeouts.get(TimeoutKind::Read))
    }

    fn write_deadline(&self) -> Deadline {
        self.deadline(self.sessions.node.timeouts.get(TimeoutKind::Write))
    }

    /// The statement as lists of requests may show it.
    fn kept_text(&self) -> Arc<str> {
        let values = self.sessions.node.config.settings.slow_query_values;
        self.text.as_ref().map(|text| reads::kept(text, values)).unwrap_or_default()
    }

    /// What the list of running requests says about it, once that is asked.
    fn describe(&self, kind: RequestKind, text: Option<Arc<str>>) -> impl Fn() -> RunningRequest + use<> {
        let started_nanos = self.started_nanos;
        let values = self.sessions.node.config.settings.slow_query_values;
        move || {
            let kind = kind.name().to_ascii_uppercase();
            let task = match &text {
                Some(text) => format!("{kind} {}", reads::kept(text, values)),
                None => kind,
            };
            RunningRequest { task: task.into(), started_nanos }
        }
    }

    fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Takes what leads the answer.
    fn extras(&mut self) -> Extras {
        Extras {
            tracing_id: self.trace.as_ref().filter(|trace| trace.is_asked_for).map(|trace| trace.session.id),
            warnings: std::mem::take(&mut self.warnings),
            payload: Vec::new(),
        }
    }
}

/// The request is told what its reads wait for, and so are its trace and EXPLAIN.
impl ReadObserver for Exchange {
    fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    fn begins(&mut self, context: &ReadContext) {
        self.last_read = Some(context.clone());
    }

    fn waited_for_reader(&mut self, nanos: u64, how: ReaderWait) {
        self.waits.reader_nanos += nanos;
        let micros = nanos / 1_000;
        match (&self.trace, how) {
            (Some(trace), ReaderWait::Began { at_nanos, event: Some(event) }) => {
                let activity = format!("Waited {micros} us for a reader thread");
                trace.session.note_as(event, activity, at_nanos, READER_THREAD);
            }
            (_, ReaderWait::Began { .. }) => {}
            (_, ReaderWait::InVain) => {
                self.note(|| format!("Waited {micros} us for a reader thread in vain"));
            }
        }
    }

    fn waited_for_proof(&mut self, name: &str, nanos: u64, is_proven: bool) {
        self.waits.proof_nanos += nanos;
        let micros = nanos / 1_000;
        self.note(|| match is_proven {
            true => format!("Waited {micros} us until {name} was compared with its digest"),
            false => format!("Waited {micros} us in vain for {name} to be compared with its digest"),
        });
    }

    fn contended(&mut self, table: &TableSchema, key: &DecoratedKey, times: u32) {
        let profiler = &self.sessions.node.metrics.profiler;
        if profiler.is_running() {
            profiler.take_contention(table, &key.key, times);
        }
    }
}

impl Service for Sessions {
    fn handle(self: Arc<Self>, message: Message, reply: Reply) -> Option<Handling> {
        let is_long = long::is_long(&message.request, reply.request_bytes());
        let exchange = Exchange::new(self, &message, reply);
        match exchange.finds_a_full_log() {
            true => Some(Box::pin(logged::when_there_is_room(exchange, message.request, is_long))),
            false => admit(exchange, message.request, is_long),
        }
    }

    fn entrance(&self, connection: &Connection) -> Entrance {
        self.entrance_of(connection)
    }

    fn log_in_early(self: Arc<Self>, arrival: Arrival) -> Handling {
        Box::pin(principal::log_in_early(self, arrival))
    }

    fn log_in(self: Arc<Self>, token: Option<Bytes>, reply: Reply) -> Handling {
        Box::pin(principal::log_in(self, token, reply))
    }
}

/// Carries out a request, whose sender's permissions are looked up first where they are old.
fn admit(exchange: Exchange, request: Request, is_long: bool) -> Option<Handling> {
    if exchange.has_old_grants() {
        return Some(Box::pin(principal::with_fresh_grants(exchange, request, is_long)));
    }
    proceed(exchange, request, is_long)
}

/// Carries out a request of somebody whose permissions are known.
fn proceed(mut exchange: Exchange, request: Request, is_long: bool) -> Option<Handling> {
    if is_long {
        return Some(Box::pin(long::carry_out(exchange, request)));
    }
    let trace = exchange.trace_session();
    let (kind, progress) = during(trace.as_ref(), || begin(&mut exchange, request));
    let outcome = match progress {
        Ok(Progress::Waits(work)) => {
            return Some(Box::pin(async move {
                let describe = exchange.describe(kind, exchange.text.clone());
                let outcome = work.watched(&mut exchange, describe).await;
                end(&mut exchange, kind, outcome);
            }));
        }
        Ok(Progress::IsLong(execute)) => {
            return Some(Box::pin(long::carry_out(exchange, Request::Execute(*execute))));
        }
        Ok(Progress::Over(answer)) => Ok(answer),
        Err(error) => Err(error),
    };
    end(&mut exchange, kind, outcome);
    None
}

/// Carries a request out as far as that goes without waiting.
fn begin(exchange: &mut Exchange, request: Request) -> (RequestKind, Result<Progress, ErrorResponse>) {
    match request {
        Request::Query(query) => (RequestKind::Query, query::start(exchange, query)),
        Request::Execute(execute) => (RequestKind::Execute, execute::start(exchange, execute)),
        Request::Prepare(prepare) => (RequestKind::Prepare, prepare::run(exchange, prepare)),
        Request::Batch(batch) => (RequestKind::Batch, batch::start(exchange, batch)),
        // The connection itself answers the others.
        other => {
            let message = format!("Unexpected message {}", other.opcode().name());
            (RequestKind::Options, Err(ErrorResponse::protocol(message)))
        }
    }
}

fn end(exchange: &mut Exchange, kind: RequestKind, outcome: Result<Answer, ErrorResponse>) {
    exchange.tell_logs(kind, outcome.as_ref().err());
    answer(exchange, outcome);
    conclude(exchange, kind);
}

fn answer(exchange: &mut Exchange, outcome: Result<Answer, ErrorResponse>) {
    let Some(reply) = exchange.reply.take() else { return };
    let extras = exchange.extras();
    match outcome {
        Ok(Answer::Response(response)) => reply.send(&response, &extras),
        Ok(Answer::Rows(body, room)) => reply.send_blocks(Opcode::Result, body, room, &extras),
        // Nothing is left to send.
        Ok(Answer::Sent) => {}
        Err(error) => {
            exchange.sessions.node.metrics.record_error(error.kind.code());
            exchange.note(|| format!("Failed: {}", redact::passwords(&error.message)));
            reply.send_error(error, &extras);
        }
    }
}

/// Counts, logs and traces a request that was answered.
fn conclude(exchange: &mut Exchange, kind: RequestKind) {
    let node = &exchange.sessions.node;
    let ended = exchange.ended_nanos.unwrap_or_else(|| node.env.clock.monotonic_nanos());
    let nanos = ended.saturating_sub(exchange.started_nanos);
    node.metrics.record_request(kind, nanos);
    if node.is_slow(nanos) && !exchange.changes_schema {
        node.metrics.slow_queries.add(1);
        let at_micros = node.env.now_micros();
        let other = || ReadRecord {
            at_micros,
            second: u64::try_from(at_micros / 1_000_000).unwrap_or(0),
            nanos,
            waits: exchange.waits,
            table: None,
            statement: exchange.kept_text(),
            restriction: String::new(),
            client: exchange.connection.peer,
            cost: CostSnapshot::default(),
            failure: None,
        };
        let kept = exchange.slow.clone().unwrap_or_else(|| Arc::new(other()));
        node.metrics.reads.slow.add(&kept);
    }
    if let Some(trace) = exchange.trace.take() {
        let sessions = Arc::clone(&exchange.sessions);
        // Later than the answer: the events that tell of it lie before the end, too.
        let duration_nanos = trace.session.elapsed_nanos();
        tokio::spawn(async move { trace.keep(&sessions, duration_nanos).await });
    }
}

impl Sessions {
    /// Sessions on a node. Statements that were prepared before the last shutdown are prepared again.
    pub fn new(node: &Arc<Node>) -> Arc<Sessions> {
        let state = &node.state;
        let settings = &state.config.settings;
        let bytes =
            settings.prepared_statements_cache_size.map_or(state.config.memory.prepared, |size| size.0);
        let env = state.env.clone();
        let sessions = Arc::new(Sessions {
            clock: Arc::new(move || env.clock.monotonic_nanos()),
            coordinator: Arc::clone(&node.coordinator),
            statements: Statements::new(bytes, Arc::clone(&state.metrics)),
            uuids: Arc::new(EnvUuids(state.env.clone())),
            schema_turn: tokio::sync::Mutex::new(()),
            guards: *state.config.guardrails != Guardrails::default(),
            guards_requests: state.config.guardrails.hold_requests(),
            warned_of_disks_nanos: AtomicU64::new(u64::MAX),
            node: Arc::clone(state),
        });
        sessions.recall_statements();
        let told = Arc::downgrade(&sessions);
        let of_merges = Box::new(move |old: Arc<model::Schema>, new: Arc<model::Schema>| {
            if let Some(sessions) = told.upgrade() {
                tokio::spawn(async move { schema::was_merged(&sessions, &old, &new).await });
            }
        });
        // A node has one set of sessions; what was merged before concerns nobody.
        let _ = state.schema_merged.set(of_merges);
        sessions
    }
}
