//! A node elsewhere as a replica: each verb is a message and its answer.
//!
//! 1. A read of several partitions is one message for each, all at once; of a range it is one.
//! 2. Messages say how many rows an answer may have, and nothing of its bytes or tombstones. Where it has as
//!    many, more may follow.
//! 3. An answer is counted here as the replica counted it, so both agree on where it stopped. All rows of it
//!    have passed the filter that the replica was told.

use crate::endpoint::Endpoint;
use crate::messaging::{CallError, FailureReason, Message, Messenger, SendError, Verb};
use crate::verbs::answer::{ReadAnswer, decode_answer as decode_read_answer};
use crate::verbs::command::{Partitions, encode_command};
use crate::verbs::{PayloadError, UnsentError, deletion_times, paxos, write};
use bytes::Bytes;
use coordinator::trace::{self, TraceSession};
use coordinator::{Answer, DataRequest, Hint, LoggedBatch, Promise, Proposal, Replica, ReplicaError};
use model::command::{PartitionSelection, ReadCommand};
use model::{Consistency, Mutation, TableSchema};
use partition::{BoxedStream, Deadline, Digest, PageLimits, ReadContext, Recording, concat, decode_answer};
use std::fmt;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// How long a node may take that is not given a deadline.
#[derive(Clone, Copy, Debug)]
pub struct RemoteTimeouts {
    /// For a read or a write.
    pub request: Duration,
    /// For emptying a table.
    pub truncate: Duration,
}

impl Default for RemoteTimeouts {
    /// Cassandra's.
    fn default() -> RemoteTimeouts {
        RemoteTimeouts { request: Duration::from_secs(10), truncate: Duration::from_secs(60) }
    }
}

/// A node elsewhere.
pub struct RemoteReplica {
    messenger: Arc<Messenger>,
    endpoint: Endpoint,
    host_id: Uuid,
    timeouts: RemoteTimeouts,
    /// Who sent an answer, where it is damaged.
    name: Arc<str>,
}

impl fmt::Debug for RemoteReplica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RemoteReplica").field(&self.endpoint).finish()
    }
}

impl RemoteReplica {
    /// The node with this address and host id.
    pub fn new(
        messenger: Arc<Messenger>,
        endpoint: Endpoint,
        host_id: Uuid,
        timeouts: RemoteTimeouts,
    ) -> RemoteReplica {
        let name = format!("the answer of {endpoint}").into();
        RemoteReplica { messenger, endpoint, host_id, timeouts, name }
    }

    fn version(&self) -> u32 {
        self.messenger.version(self.endpoint)
    }

    /// Sends a request whose payload is encoded for `version`, and waits for its answer.
    fn call(
        &self,
        verb: Verb,
        version: u32,
        payload: Vec<u8>,
        timeout: Duration,
    ) -> impl Future<Output = Result<Message, ReplicaError>> + Send + use<> {
        let endpoint = self.endpoint;
        let (message, trace) = traced(Message::new(verb, payload).encoded_for(version), endpoint);
        let answer = self.messenger.call(endpoint, message, timeout);
        async move { answered(answer.await, endpoint, trace.as_deref()) }
    }

    fn left(&self, deadline: Option<&Deadline>) -> Duration {
        deadline.map_or(self.timeouts.request, Deadline::left)
    }

    /// A request that is answered with nothing.
    fn order(
        &self,
        verb: Verb,
        deadline: Option<&Deadline>,
        encode: impl FnOnce(u32, &mut Vec<u8>) -> Result<(), UnsentError>,
    ) -> Answer<()> {
        let (version, mut payload) = (self.version(), Vec::new());
        if let Err(error) = encode(version, &mut payload) {
            return Answer::ready(Err(ReplicaError::Write(error.to_string())));
        }
        let answer = self.call(verb, version, payload, self.left(deadline));
        Answer::later(async move { answer.await.map(|_| ()) })
    }

    /// The messages of a read.
    fn ask(
        &self,
        request: &DataRequest,
        is_digest: bool,
    ) -> Result<Vec<impl Future<Output = Result<Message, ReplicaError>> + Send + use<>>, ReplicaError> {
        let (command, version) = (&request.command, self.version());
        let timeout = self.left(request.deadline.as_ref());
        let mut payloads = Vec::new();
        let mut encode = |part: Partitions<'_>| {
            let mut payload = Vec::new();
            encode_command(command, part, request.page.rows, is_digest, version, &mut payload)
                .map_err(|error| ReplicaError::Write(error.to_string()))?;
            payloads.push(payload);
            Ok::<(), ReplicaError>(())
        };
        let verb = match &command.partitions {
            PartitionSelection::Keys(keys) => {
                keys.iter().try_for_each(|key| encode(Partitions::Key(key)))?;
                Verb::ReadReq
            }
            PartitionSelection::Range(range) => {
                encode(Partitions::Range(range))?;
                Verb::RangeReq
            }
        };
        Ok(payloads.into_iter().map(|payload| self.call(verb, version, payload, timeout)).collect())
    }

    fn read(&self, request: &DataRequest) -> Answer<Recording> {
        let calls = match self.ask(request, false) {
            Ok(calls) => calls,
            Err(error) => return Answer::ready(Err(error)),
        };
        let (command, page) = (Arc::clone(&request.command), request.page);
        let (name, version) = (Arc::clone(&self.name), self.version());
        Answer::later(async move {
            let mut data = Vec::with_capacity(calls.len());
            for call in calls {
                match read_answer(call.await?.payload, &name)? {
                    ReadAnswer::Data(bytes) => data.push(bytes),
                    ReadAnswer::Digest(_) => return Err(damaged("data were asked for", &name)),
                }
            }
            recording(data, &command, page, version, &name)
        })
    }
}

/// The answer that the data of one or several messages are.
fn recording(
    data: Vec<Bytes>,
    command: &Arc<ReadCommand>,
    page: PageLimits,
    version: u32,
    name: &Arc<str>,
) -> Result<Recording, ReplicaError> {
    // The replica has left out what does not pass.
    let told = Arc::new(ReadCommand { row_filter: Vec::new(), ..ReadCommand::clone(command) });
    let (times, source, of_parts) = (deletion_times(version), Arc::clone(name), Arc::clone(command));
    let mut parts = data.into_iter();
    let decode = move |bytes| decode_answer(bytes, &of_parts, times, &source);
    let stream: BoxedStream = Box::new(concat(move || Ok(parts.next().map(&decode))));
    let page = PageLimits { rows: page.rows, ..PageLimits::NONE };
    Ok(Recording::of(stream, &told, ReadContext::default(), page)?)
}

fn read_answer(payload: Bytes, name: &Arc<str>) -> Result<ReadAnswer, ReplicaError> {
    decode_read_answer(payload).map_err(|error| damaged(&error.to_string(), name))
}

fn damaged(what: &str, name: &Arc<str>) -> ReplicaError {
    partition::ReadError::corrupt(name, 0, what).into()
}

/// A message that tells its trace to who gets it, where there is one.
fn traced(message: Message, to: Endpoint) -> (Message, Option<Arc<TraceSession>>) {
    let Some(trace) = trace::current() else { return (message, None) };
    trace.note(format!("Sending {} message to /{to}", message.verb));
    (message.of_trace(Some(trace.id)), Some(trace))
}

/// What a call was answered, which its trace is told.
fn answered(
    answer: Result<Message, CallError>,
    from: Endpoint,
    trace: Option<&TraceSession>,
) -> Result<Message, ReplicaError> {
    if let Some(trace) = trace {
        trace.note(match &answer {
            Ok(message) => format!("{} message received from /{from}", message.verb),
            Err(error) => format!("No answer of /{from}: {error}"),
        });
    }
    answer.map_err(|error| of_call(error, from))
}

/// Why a call has no answer, as what became of the replica's work.
fn of_call(error: CallError, endpoint: Endpoint) -> ReplicaError {
    match error {
        CallError::TimedOut | CallError::Lost(_) => ReplicaError::TimedOut,
        CallError::Failed(FailureReason::Timeout) => ReplicaError::TimedOut,
        CallError::Failed(reason) => {
            ReplicaError::Elsewhere { address: endpoint.ip, code: reason.number(), name: reason.name() }
        }
        CallError::NotSent(SendError::TooLarge { .. }) => ReplicaError::TooLarge(error.to_string()),
        CallError::NotSent(error @ SendError::Full) => ReplicaError::Overloaded(error.to_string()),
        CallError::NotSent(_) => ReplicaError::TimedOut,
    }
}

impl Replica for RemoteReplica {
    fn read_data(&self, request: &DataRequest) -> Answer<Recording> {
        self.read(request)
    }

    fn read_digest(&self, request: &DataRequest) -> Answer<Digest> {
        let is_one = matches!(&request.command.partitions, PartitionSelection::Keys(keys) if keys.len() == 1);
        if !is_one {
            // Digests of parts make none of the whole.
            let (answer, command) = (self.read(request), Arc::clone(&request.command));
            return Answer::later(async move { Ok(answer.await?.digest(&command)) });
        }
        let calls = match self.ask(request, true) {
            Ok(calls) => calls,
            Err(error) => return Answer::ready(Err(error)),
        };
        let name = Arc::clone(&self.name);
        Answer::later(async move {
            let not_asked_for = || damaged("a digest was asked for", &name);
            let call = calls.into_iter().next().ok_or_else(not_asked_for)?;
            match read_answer(call.await?.payload, &name)? {
                ReadAnswer::Digest(digest) => Ok(digest),
                ReadAnswer::Data(_) => Err(not_asked_for()),
            }
        })
    }

    fn mutate(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()> {
        self.order(Verb::MutationReq, deadline, |version, out| {
            write::encode_mutation(&mutation, version, out)
        })
    }

    /// One message, if all of them speak one version of the protocol: the first passes on the bytes that it
    /// gets.
    fn mutate_and_pass_on(
        &self,
        others: &[&dyn Replica],
        mutation: &Arc<Mutation>,
        deadline: Option<&Deadline>,
    ) -> Vec<Answer<()>> {
        let version = self.version();
        let reached = |other: &&dyn Replica| {
            let endpoint = Endpoint::from(other.storage_address()?);
            (self.messenger.version(endpoint) == version).then_some(endpoint)
        };
        let passed_on: Vec<Option<Endpoint>> = others.iter().map(reached).collect();
        let mut payload = Vec::new();
        if let Err(error) = write::encode_mutation(mutation, version, &mut payload) {
            let refused = || Answer::ready(Err(ReplicaError::Write(error.to_string())));
            return (0..=others.len()).map(|_| refused()).collect();
        }
        let nodes: Vec<Endpoint> =
            std::iter::once(self.endpoint).chain(passed_on.iter().flatten().copied()).collect();
        let message = Message::new(Verb::MutationReq, payload).encoded_for(version);
        let (message, trace) = traced(message, self.endpoint);
        let calls = self.messenger.call_through(&nodes, message, self.left(deadline));
        let mut answers = calls.into_iter().map(|(endpoint, call)| {
            let trace = trace.clone();
            Answer::later(async move { answered(call.await, endpoint, trace.as_deref()).map(|_| ()) })
        });
        let mut next = || answers.next().unwrap_or_else(|| Answer::ready(Err(ReplicaError::TimedOut)));
        let mut all = vec![next()];
        for (other, passed_on) in others.iter().zip(passed_on) {
            all.push(match passed_on {
                Some(_) => next(),
                None => other.mutate(Arc::clone(mutation), deadline),
            });
        }
        all
    }

    fn storage_address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.endpoint.ip, self.endpoint.port))
    }

    fn repair(&self, mutation: Arc<Mutation>, deadline: Option<&Deadline>) -> Answer<()> {
        let verb = Verb::ReadRepairReq;
        self.order(verb, deadline, |version, out| write::encode_mutation(&mutation, version, out))
    }

    fn hint(&self, hint: Hint, deadline: Option<&Deadline>) -> Answer<()> {
        let target = self.host_id;
        self.order(Verb::HintReq, deadline, |version, out| write::encode_hint(target, &hint, version, out))
    }

    fn store_batch(&self, batch: Arc<LoggedBatch>, deadline: Option<&Deadline>) -> Answer<()> {
        self.order(Verb::BatchStoreReq, deadline, |version, out| write::encode_batch(&batch, version, out))
    }

    fn remove_batch(&self, id: Uuid) -> Answer<()> {
        let message = Message::new(Verb::BatchRemoveReq, id.as_bytes().to_vec());
        let sent = self.messenger.send(self.endpoint, message, self.timeouts.request);
        Answer::ready(sent.map_err(|_| ReplicaError::TimedOut))
    }

    fn lead_counters(
        &self,
        mutation: Arc<Mutation>,
        consistency: Consistency,
        deadline: Option<&Deadline>,
    ) -> Answer<()> {
        self.order(Verb::CounterMutationReq, deadline, |version, out| {
            write::encode_counters(&mutation, consistency, version, out)
        })
    }

    fn prepare(&self, request: Proposal, deadline: Option<&Deadline>) -> Answer<Promise> {
        let (version, mut payload) = (self.version(), Vec::new());
        if let Err(error) = paxos::encode_proposal(&request, version, &mut payload) {
            return Answer::ready(Err(ReplicaError::Write(error.to_string())));
        }
        let answer = self.call(Verb::PaxosPrepareReq, version, payload, self.left(deadline));
        let name = Arc::clone(&self.name);
        Answer::later(async move {
            let table = &request.update.table;
            let lookup = |id: Uuid| (id == table.id).then(|| Arc::clone(table));
            let promise = paxos::decode_promise(answer.await?.payload, version, &lookup);
            promise.map_err(|error: PayloadError| damaged(&error.to_string(), &name))
        })
    }

    fn propose(&self, proposal: Proposal, deadline: Option<&Deadline>) -> Answer<bool> {
        let (version, mut payload) = (self.version(), Vec::new());
        if let Err(error) = paxos::encode_proposal(&proposal, version, &mut payload) {
            return Answer::ready(Err(ReplicaError::Write(error.to_string())));
        }
        let answer = self.call(Verb::PaxosProposeReq, version, payload, self.left(deadline));
        Answer::later(async move { Ok(answer.await?.payload.first().is_some_and(|byte| *byte != 0)) })
    }

    fn commit(&self, decided: Proposal, deadline: Option<&Deadline>) -> Answer<()> {
        let verb = Verb::PaxosCommitReq;
        self.order(verb, deadline, |version, out| paxos::encode_proposal(&decided, version, out))
    }

    fn truncate(&self, table: Arc<TableSchema>) -> Answer<()> {
        let mut payload = Vec::new();
        if let Err(error) = write::encode_truncation(&table.keyspace, &table.name, &mut payload) {
            return Answer::ready(Err(ReplicaError::Write(error.to_string())));
        }
        let answer = self.call(Verb::TruncateReq, self.version(), payload, self.timeouts.truncate);
        let endpoint = self.endpoint;
        Answer::later(async move {
            // The last byte says whether it was done.
            match answer.await?.payload.last() {
                Some(1) => Ok(()),
                _ => Err(ReplicaError::Write(format!("{endpoint} could not empty the table"))),
            }
        })
    }

    /// No message asks for it: a node knows of itself alone.
    fn truncated_millis(&self, _: &TableSchema) -> Answer<Option<i64>> {
        Answer::ready(Ok(None))
    }
}

#[cfg(test)]
mod tests;
