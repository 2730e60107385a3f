//! This node's replica, asked by others.
//!
//! 1. A request is decoded and carried out where it arrives, as far as that takes no waiting. What has to
//!    wait goes on as a task.
//! 2. A write that is to be passed on to others of its data center is passed on first.
//! 3. Who waits is told of failures, but not of what comes too late: that is known there as soon as here.
//!    Nothing is answered to a write that was not kept.
//! 4. A request of an unknown table fails as one of an incompatible schema.

use crate::messaging::{FailureReason, Handler, Messenger, ReplyTo, Request, Verb};
use crate::verbs::answer::{encode_data, encode_digest};
use crate::verbs::command::decode_command;
use crate::verbs::{PayloadError, UnsentError, paxos, write};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use coordinator::trace::{self, TraceSession};
use coordinator::{Answer, Coordinator, DataRequest, LocalReplica, Replica, ReplicaError};
use foldhash::HashMap;
use model::command::{DataLimits, PartitionSelection, ReadCommand};
use model::{Schema, TableSchema};
use partition::{Deadline, NanoClock, PageLimits, ReadError, Recording};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use uuid::Uuid;

/// Starts a task.
pub type Spawn = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync>;

/// What answers requests for the data of this node.
pub struct ReplicaServer {
    local: Arc<LocalReplica>,
    coordinator: Arc<Coordinator>,
    schema: Box<dyn Fn() -> Arc<Schema> + Send + Sync>,
    tables: ArcSwapOption<Tables>,
    clock: NanoClock,
    now_millis: Box<dyn Fn() -> i64 + Send + Sync>,
    spawn: Spawn,
    traces: Arc<dyn Traces>,
}

/// Where the steps go that this node does for requests which others trace.
pub trait Traces: Send + Sync {
    /// Begins this node's part of a trace; `None` where it takes none.
    fn begin(&self, id: Uuid) -> Option<Arc<TraceSession>>;

    /// Keeps the steps.
    fn keep(&self, trace: &Arc<TraceSession>);
}

/// No trace is kept.
#[derive(Debug)]
pub struct NoTraces;

impl Traces for NoTraces {
    fn begin(&self, _: Uuid) -> Option<Arc<TraceSession>> {
        None
    }

    fn keep(&self, _: &Arc<TraceSession>) {}
}

/// The tables of one version of the schema, which requests name by their ids.
struct Tables {
    schema: Arc<Schema>,
    by_id: HashMap<Uuid, Arc<TableSchema>>,
}

impl Tables {
    fn of(schema: Arc<Schema>) -> Tables {
        let tables = schema.keyspaces.values().flat_map(|keyspace| keyspace.stores());
        let by_id = tables.map(|table| (table.id, Arc::clone(table))).collect();
        Tables { schema, by_id }
    }
}

/// What became of a request.
type Outcome = Result<Bytes, ReplicaError>;

impl ReplicaServer {
    /// Serves the node of `coordinator`. `clock` is that of deadlines, `now_millis` that of messages.
    pub fn new(
        coordinator: Arc<Coordinator>,
        schema: impl Fn() -> Arc<Schema> + Send + Sync + 'static,
        clock: NanoClock,
        now_millis: impl Fn() -> i64 + Send + Sync + 'static,
        spawn: Spawn,
        traces: Arc<dyn Traces>,
    ) -> Arc<ReplicaServer> {
        let (schema, now_millis) = (Box::new(schema), Box::new(now_millis));
        let local = Arc::clone(coordinator.local());
        let tables = ArcSwapOption::empty();
        Arc::new(ReplicaServer { local, coordinator, schema, tables, clock, now_millis, spawn, traces })
    }

    /// Has `messenger` hand the requests over.
    pub fn attach(self: &Arc<Self>, messenger: &Messenger) {
        for verb in VERBS {
            messenger.handle(*verb, Arc::clone(self) as Arc<dyn Handler>);
        }
    }

    fn begin(&self, request: &Request) -> Result<Answer<Bytes>, PayloadError> {
        let tables = self.tables();
        let lookup = |id: Uuid| tables.by_id.get(&id).cloned();
        let (version, payload) = (request.version, request.message.payload.clone());
        let deadline = self.deadline(request);
        let nothing = |answer: Answer<()>| mapped(answer, |()| Ok(Bytes::new()));
        Ok(match request.message.verb {
            Verb::ReadReq | Verb::RangeReq => self.read(request, deadline, &lookup)?,
            Verb::MutationReq => {
                let mutation = write::decode_mutation(&payload, version, &lookup)?;
                nothing(self.local.mutate(Arc::new(mutation), Some(&deadline)))
            }
            Verb::ReadRepairReq => {
                let mutation = write::decode_mutation(&payload, version, &lookup)?;
                nothing(self.local.repair(Arc::new(mutation), Some(&deadline)))
            }
            Verb::HintReq => {
                let (_, hint) = write::decode_hint(payload, version, &lookup)?;
                nothing(self.local.hint(hint, Some(&deadline)))
            }
            Verb::BatchStoreReq => {
                let batch = write::decode_batch(payload, version, &lookup)?;
                let stored = self.coordinator.store_batch(&batch);
                nothing(stored)
            }
            Verb::BatchRemoveReq => nothing(self.coordinator.remove_batch(write::decode_batch_id(payload)?)),
            Verb::PaxosPrepareReq => {
                let proposal = paxos::decode_proposal(payload, version, &lookup)?;
                mapped(self.local.prepare(proposal, Some(&deadline)), move |promise| {
                    encoded(|out| paxos::encode_promise(&promise, version, out))
                })
            }
            Verb::PaxosProposeReq => {
                let proposal = paxos::decode_proposal(payload, version, &lookup)?;
                mapped(self.local.propose(proposal, Some(&deadline)), |is_accepted| {
                    Ok(Bytes::from(vec![u8::from(is_accepted)]))
                })
            }
            Verb::PaxosCommitReq => {
                let proposal = paxos::decode_proposal(payload, version, &lookup)?;
                nothing(self.local.commit(proposal, Some(&deadline)))
            }
            Verb::TruncateReq => self.truncate(payload, &tables.schema)?,
            Verb::CounterMutationReq => {
                let (mutation, consistency) = write::decode_counters(&payload, version, &lookup)?;
                let coordinator = Arc::clone(&self.coordinator);
                nothing(Answer::later(async move {
                    coordinator.lead_counters(mutation, consistency, Some(&deadline)).await
                }))
            }
            verb => return Err(PayloadError::Unsupported(format!("{verb} is not carried out here"))),
        })
    }

    /// The tables of the schema in force. They are gathered when it changes, and then just looked up.
    fn tables(&self) -> Arc<Tables> {
        let schema = (self.schema)();
        if let Some(tables) = self.tables.load_full().filter(|known| Arc::ptr_eq(&known.schema, &schema)) {
            return tables;
        }
        let tables = Arc::new(Tables::of(schema));
        self.tables.store(Some(Arc::clone(&tables)));
        tables
    }

    /// When nobody waits for the answer any more.
    fn deadline(&self, request: &Request) -> Deadline {
        let left = request.message.left((self.now_millis)());
        let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        Deadline::new(&self.clock, (self.clock)().saturating_add(nanos))
    }

    fn read(
        &self,
        request: &Request,
        deadline: Deadline,
        lookup: &dyn Fn(Uuid) -> Option<Arc<TableSchema>>,
    ) -> Result<Answer<Bytes>, PayloadError> {
        let asked = decode_command(request.message.payload.clone(), lookup)?;
        let (is_digest, version) = (asked.is_digest, request.version);
        let mut commands = asked.commands.into_iter();
        let Some(command) = commands.next() else {
            return Err(PayloadError::Unsupported("a read of nothing".to_owned()));
        };
        let of = |command, groups| DataRequest {
            command,
            page: PageLimits::NONE,
            groups,
            deadline: Some(deadline.clone()),
        };
        let trace = trace::current();
        if let Some(trace) = &trace {
            trace.note(what_is_read(&command));
        }
        let answer = move |recording: Recording, command: &ReadCommand| {
            if let Some(trace) = &trace {
                trace.note(format!("Read {} live rows", recording.live_rows()));
            }
            match is_digest {
                true => encoded(|out| {
                    encode_digest(&recording.digest(command), out);
                    Ok(())
                }),
                false => encoded(|out| encode_data(&recording, command, version, out)),
            }
        };
        let first = self.local.read_data(&of(Arc::clone(&command), asked.groups.clone()));
        let Some(next) = commands.next() else {
            return Ok(mapped(first, move |recording| answer(recording, &command)));
        };
        let (local, next) = (Arc::clone(&self.local), of(next, asked.groups));
        Ok(Answer::later(async move {
            let mut all = first.await?;
            let left = command.limits.rows.saturating_sub(all.live_rows());
            let groups = all.groups_left().cloned();
            if all.is_whole() && left > 0 && (next.groups.is_none() || groups.is_some()) {
                let limits = DataLimits { rows: left, ..next.command.limits };
                let command = ReadCommand { limits, ..(*next.command).clone() };
                let next = DataRequest { command: Arc::new(command), groups, ..next };
                all = all.followed_by(local.read_data(&next).await?);
            }
            answer(all, &command)
        }))
    }

    fn truncate(&self, payload: Bytes, schema: &Schema) -> Result<Answer<Bytes>, PayloadError> {
        let (keyspace, name) = write::decode_truncation(payload)?;
        let table = schema.table(&keyspace, &name).cloned();
        let table =
            table.ok_or_else(|| PayloadError::Schema(format!("there is no table {keyspace}.{name}")))?;
        let done = move || encoded(|out| write::encode_truncated(&keyspace, &name, true, out));
        Ok(mapped(self.local.truncate(table), move |()| done()))
    }
}

/// Verbs that are served here.
const VERBS: &[Verb] = &[
    Verb::ReadReq,
    Verb::RangeReq,
    Verb::MutationReq,
    Verb::ReadRepairReq,
    Verb::HintReq,
    Verb::BatchStoreReq,
    Verb::BatchRemoveReq,
    Verb::PaxosPrepareReq,
    Verb::PaxosProposeReq,
    Verb::PaxosCommitReq,
    Verb::TruncateReq,
    Verb::CounterMutationReq,
];

impl Handler for ReplicaServer {
    fn handle(&self, messenger: &Arc<Messenger>, request: Request) {
        if !request.message.forward_to().is_empty() {
            messenger.forward(&request);
        }
        let reply = request.reply_to();
        let trace = request.message.trace_session().and_then(|id| self.traces.begin(id));
        if let Some(trace) = &trace {
            trace.note(format!("{} message received from /{}", request.message.verb, request.from));
            for forward in request.message.forward_to() {
                trace.note(format!("Enqueuing forwarded write to /{}", forward.to));
                trace.note(format!("Sending {} message to /{}", request.message.verb, forward.to));
            }
        }
        let mut answer = match trace::during(trace.as_ref(), || self.begin(&request)) {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(from = %request.from, verb = %request.message.verb, %error, "a request is refused");
                keep(&*self.traces, trace.as_ref(), || format!("Refused: {error}"));
                return tell(messenger, &reply, trace.as_deref(), Err(Refused::Payload(error)));
            }
        };
        // Most answers are there.
        let mut context = Context::from_waker(Waker::noop());
        match trace::during(trace.as_ref(), || Pin::new(&mut answer).poll(&mut context)) {
            Poll::Ready(outcome) => {
                keep(&*self.traces, trace.as_ref(), || last_step(&reply, &outcome));
                tell(messenger, &reply, trace.as_deref(), outcome.map_err(Refused::Replica));
            }
            Poll::Pending => {
                let (messenger, traces) = (Arc::clone(messenger), Arc::clone(&self.traces));
                (self.spawn)(Box::pin(async move {
                    let outcome = match &trace {
                        None => answer.await,
                        Some(trace) => trace::within(Arc::clone(trace), answer).await,
                    };
                    keep(&*traces, trace.as_ref(), || last_step(&reply, &outcome));
                    tell(&messenger, &reply, trace.as_deref(), outcome.map_err(Refused::Replica));
                }));
            }
        }
    }
}

/// Has the steps of a traced request kept, and the last one.
fn keep(traces: &dyn Traces, trace: Option<&Arc<TraceSession>>, last_step: impl FnOnce() -> String) {
    if let Some(trace) = trace {
        trace.note(last_step());
        traces.keep(trace);
    }
}

/// What became of a request.
fn last_step(reply: &ReplyTo, outcome: &Outcome) -> String {
    match outcome {
        Ok(_) => format!("Enqueuing response to /{}", reply.to),
        Err(error) => format!("Failed: {error}"),
    }
}

/// Why a request is not answered as it wants.
enum Refused {
    Payload(PayloadError),
    Replica(ReplicaError),
}

/// Answers a request.
fn tell(
    messenger: &Messenger,
    reply: &ReplyTo,
    trace: Option<&TraceSession>,
    outcome: Result<Bytes, Refused>,
) {
    let sent = match outcome {
        Ok(payload) => match reply.answer(payload) {
            Some(answer) => messenger.respond(reply, answer.of_trace(trace.map(|trace| trace.id))),
            None => Ok(()),
        },
        // It is too late there, too.
        Err(Refused::Replica(ReplicaError::TimedOut | ReplicaError::Read(ReadError::TimedOut))) => {
            messenger.count_dropped(reply.verb);
            Ok(())
        }
        Err(refused) => messenger.fail(reply, reason(&refused)),
    };
    if let Err(error) = sent {
        tracing::debug!(to = %reply.to, %error, "an answer is not sent");
    }
}

fn reason(refused: &Refused) -> FailureReason {
    match refused {
        Refused::Payload(PayloadError::Schema(_)) => FailureReason::IncompatibleSchema,
        Refused::Payload(PayloadError::Unsupported(_)) => FailureReason::IndexNotAvailable,
        Refused::Payload(PayloadError::Malformed(_)) => FailureReason::Unknown,
        Refused::Replica(error) => {
            tracing::warn!(%error, "a request of another node failed");
            FailureReason::Unknown
        }
    }
}

/// What a read does, in Cassandra's words.
fn what_is_read(command: &ReadCommand) -> String {
    let table = &command.table.name;
    match &command.partitions {
        PartitionSelection::Keys(_) => format!("Executing single-partition query on {table}"),
        PartitionSelection::Range(_) => format!("Executing seq scan on {table}"),
    }
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>) -> Result<(), UnsentError>) -> Outcome {
    let mut out = Vec::new();
    encode(&mut out).map_err(|error| ReplicaError::Write(error.to_string()))?;
    Ok(out.into())
}

/// An answer of another kind.
fn mapped<T: Send + 'static>(
    answer: Answer<T>,
    map: impl FnOnce(T) -> Outcome + Send + 'static,
) -> Answer<Bytes> {
    match answer {
        Answer::Ready(Some(outcome)) => Answer::ready(outcome.and_then(map)),
        Answer::Ready(None) => Answer::Ready(None),
        later => Answer::later(async move { map(later.await?) }),
    }
}
