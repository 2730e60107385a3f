//! Calls, answers and messages of one node, over a [`Transport`].
//!
//! 1. [`Messenger::call`] sends a request at once and returns a future of its answer. Who drops the future
//!    forgets the call.
//! 2. What arrives too late is dropped and counted. How late it is follows from the sender's clock, unless
//!    [`MessengerOptions::internode_timeout`] is off.
//! 3. An answer ends its call. A request goes to the [`Handler`] of its verb, which answers when it likes
//!    ([`Messenger::respond`]); without a handler, who wants to hear of failures hears of one.
//! 4. A request names where its answer is to go, if not to its sender. Who passes a request on says so
//!    ([`Messenger::forward`]).
//!
//! Source: `MessagingService` and `RequestCallbacks` of Cassandra 4.0.

use super::callbacks::{Callbacks, Waiting};
use super::counters::{Event, VerbCounters, VerbCounts};
use super::failure::FailureReason;
use super::handshake::{ConnectionKind, VERSION_40};
use super::message::{Flags, Message};
use super::param::{Forward, Param};
use super::transport::{Inbox, Loss, SendError, Transport};
use super::verb::Verb;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use env::Env;
use foldhash::{HashMap, HashMapExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

/// Ids of calls stay below: Cassandra reads them as a Java int.
const ID_END: u64 = 1 << 31;

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// None came in time. The request may have been carried out.
    #[error("no answer came in time")]
    TimedOut,
    /// The node says that it failed.
    #[error("the node failed: {0}")]
    Failed(FailureReason),
    /// The request was not taken.
    #[error("not sent: {0}")]
    NotSent(#[from] SendError),
    /// The request was taken, and never left this node.
    #[error("not sent: {0}")]
    Lost(Loss),
}

/// What a messenger is told.
#[derive(Clone, Copy, Debug)]
pub struct MessengerOptions {
    /// Whether the age of a message follows from its sender's clock. Otherwise it begins when it arrives.
    pub internode_timeout: bool,
}

impl Default for MessengerOptions {
    /// Cassandra's.
    fn default() -> MessengerOptions {
        MessengerOptions { internode_timeout: true }
    }
}

/// A request that arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Who sent it.
    pub from: Endpoint,
    /// The messaging version of its payload, and of that of the answer.
    pub version: u32,
    /// What it says.
    pub message: Message,
}

/// What it takes to answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    /// Where the answer goes.
    pub to: Endpoint,
    /// The messaging version of the answer's payload.
    pub version: u32,
    /// The call's number.
    pub id: u64,
    /// The verb of the request.
    pub verb: Verb,
    /// Whether the caller wants to hear of a failure.
    pub wants_failure: bool,
    /// When nobody waits for the answer any more: milliseconds since 1970.
    pub expires_at_millis: i64,
}

impl Request {
    /// What it takes to answer it.
    pub fn reply_to(&self) -> ReplyTo {
        ReplyTo {
            to: self.message.respond_to().unwrap_or(self.from),
            version: self.version,
            id: self.message.id,
            verb: self.message.verb,
            wants_failure: self.message.flags.has(Flags::CALL_BACK_ON_FAILURE),
            expires_at_millis: self.message.expires_at_millis(),
        }
    }
}

impl ReplyTo {
    /// The answer with that payload; `None` for a verb that is not answered.
    pub fn answer(&self, payload: impl Into<Bytes>) -> Option<Message> {
        let answer = Message::new(self.verb.answer()?, payload).encoded_for(self.version);
        Some(Message { id: self.id, ..answer })
    }
}

/// Takes the requests of some verbs. It is called where messages are read from the network, and is to hand
/// on what takes long. Payloads that it keeps hold back what comes behind them, answers too: who waits for
/// other nodes lets go of the payload before.
pub trait Handler: Send + Sync {
    /// A request arrived. `messenger` is what it came by.
    fn handle(&self, messenger: &Arc<Messenger>, request: Request);
}

impl<F: Fn(&Arc<Messenger>, Request) + Send + Sync> Handler for F {
    fn handle(&self, messenger: &Arc<Messenger>, request: Request) {
        self(messenger, request);
    }
}

/// The messages of a node.
pub struct Messenger {
    env: Env,
    options: MessengerOptions,
    transport: Arc<dyn Transport>,
    callbacks: Arc<Callbacks>,
    handlers: HashMap<Verb, OnceLock<Arc<dyn Handler>>>,
    counters: VerbCounters,
    next_id: AtomicU64,
    this: Weak<Messenger>,
}

impl Messenger {
    /// The messenger that gets what `transport` receives from now on.
    pub fn new(env: Env, options: MessengerOptions, transport: Arc<dyn Transport>) -> Arc<Messenger> {
        let mut handlers = HashMap::new();
        handlers.extend(Verb::ALL.iter().map(|verb| (*verb, OnceLock::new())));
        let messenger = Arc::new_cyclic(|this| Messenger {
            // Answers to calls of an earlier life are taken for answers to none of this one.
            next_id: AtomicU64::new(env.random.below(ID_END)),
            env,
            options,
            transport: Arc::clone(&transport),
            callbacks: Callbacks::new(),
            handlers,
            counters: VerbCounters::default(),
            this: Weak::clone(this),
        });
        let inbox = Arc::downgrade(&messenger);
        transport.attach(inbox);
        messenger
    }

    /// Gives the requests of a verb to a handler. Whether it had none.
    pub fn handle(&self, verb: Verb, handler: Arc<dyn Handler>) -> bool {
        self.handlers.get(&verb).is_some_and(|place| place.set(handler).is_ok())
    }

    /// The messaging version in which payloads to a peer are to be encoded. Before the first connection it is
    /// a guess; what then is encoded for another version is lost ([`Loss::Version`]).
    pub fn version(&self, to: Endpoint) -> u32 {
        self.transport.version(to).unwrap_or(VERSION_40)
    }

    /// Sends a request, which is worth carrying out for so long, and waits for its answer for as long.
    pub fn call(
        &self,
        to: Endpoint,
        message: Message,
        timeout: Duration,
    ) -> impl Future<Output = Result<Message, CallError>> + Send + use<> {
        let (id, mut calls) = self.begin(&[to], message.verb);
        let sent =
            self.dispatch(to, Message { id, ..message.with_flags(Flags::CALL_BACK_ON_FAILURE) }, timeout);
        if let Err(error) = sent {
            self.callbacks.fail(id, to, error.into());
        }
        let waits = calls.pop().map(|call| self.finish(call, timeout));
        async move {
            match waits {
                Some(waits) => waits.await,
                None => Err(CallError::TimedOut),
            }
        }
    }

    /// Sends a request to the first of `all`, which passes it on to the rest: one message between two data
    /// centers. Each node, named once, and the future of its answer.
    pub fn call_through(
        &self,
        all: &[Endpoint],
        message: Message,
        timeout: Duration,
    ) -> Vec<(Endpoint, impl Future<Output = Result<Message, CallError>> + Send + use<>)> {
        let mut nodes: Vec<Endpoint> = Vec::with_capacity(all.len());
        for to in all {
            if !nodes.contains(to) {
                nodes.push(*to);
            }
        }
        let Some((to, others)) = nodes.split_first() else { return Vec::new() };
        let (id, calls) = self.begin(&nodes, message.verb);
        let mut message = Message { id, ..message.with_flags(Flags::CALL_BACK_ON_FAILURE) };
        if !others.is_empty() {
            let forwards = others.iter().map(|to| Forward { to: *to, id }).collect();
            message = message.with_param(Param::ForwardTo(forwards));
        }
        if let Err(error) = self.dispatch(*to, message, timeout) {
            nodes.iter().for_each(|to| self.callbacks.fail(id, *to, error.into()));
        }
        let calls = calls.into_iter().map(|call| self.finish(call, timeout));
        nodes.iter().copied().zip(calls).collect()
    }

    /// Sends a message that is not answered, or whose answer nobody waits for.
    ///
    /// # Errors
    /// When it is not taken.
    pub fn send(&self, to: Endpoint, message: Message, timeout: Duration) -> Result<(), SendError> {
        self.dispatch(to, Message { id: self.new_id(), ..message }, timeout)
    }

    /// Sends an answer ([`ReplyTo::answer`]).
    ///
    /// # Errors
    /// When it is not taken.
    pub fn respond(&self, reply: &ReplyTo, answer: Message) -> Result<(), SendError> {
        let left = reply.expires_at_millis.saturating_sub(self.env.clock.now_millis());
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        self.dispatch(reply.to, answer, left)
    }

    /// Tells who asked that the request failed, if that is to be told.
    ///
    /// # Errors
    /// When the message is not taken.
    pub fn fail(&self, reply: &ReplyTo, reason: FailureReason) -> Result<(), SendError> {
        if !reply.wants_failure {
            return Ok(());
        }
        self.respond(reply, Message { id: reply.id, ..Message::new(Verb::FailureRsp, reason.encode()) })
    }

    /// Passes a request on to the nodes that it names, which answer to who sent it. Nodes to which it cannot
    /// be sent stay without an answer, as if it was lost on the way.
    pub fn forward(&self, request: &Request) {
        for forward in request.message.forward_to() {
            let mut message = request.message.clone().encoded_for(request.version);
            message.id = forward.id;
            message.params.retain(|param| !matches!(param, Param::ForwardTo(_) | Param::RespondTo(_)));
            let message = message.with_param(Param::RespondTo(request.reply_to().to));
            self.count_sent(forward.to, message).unwrap_or_else(|error| {
                tracing::debug!(to = %forward.to, %error, "a message is not passed on");
            });
        }
    }

    /// What was counted of a verb.
    pub fn counts(&self, verb: Verb) -> VerbCounts {
        self.counters.of(verb)
    }

    /// Counts a request that its handler dropped, because it waited for too long.
    pub fn count_dropped(&self, verb: Verb) {
        self.counters.count(verb, Event::Dropped);
    }

    /// Number of calls that wait for an answer.
    pub fn calls_waiting(&self) -> usize {
        self.callbacks.len()
    }

    /// What carries the messages.
    pub fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    fn new_id(&self) -> u64 {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed) % ID_END;
        if id == 0 { self.new_id() } else { id }
    }

    /// Begins calls to all of them, each named once, with one id.
    fn begin(&self, all: &[Endpoint], verb: Verb) -> (u64, Vec<Waiting>) {
        debug_assert!(verb.answer().is_some(), "{verb} is not answered");
        let answer = verb.answer().unwrap_or(Verb::FailureRsp);
        loop {
            let id = self.new_id();
            let begin = |to: &Endpoint| self.callbacks.begin(id, *to, answer);
            // One is in use only if its call still waits after two thousand million others.
            if let Some(calls) = all.iter().map(begin).collect() {
                return (id, calls);
            }
        }
    }

    fn finish(
        &self,
        mut call: Waiting,
        timeout: Duration,
    ) -> impl Future<Output = Result<Message, CallError>> + Send + use<> {
        let env = self.env.clone();
        let until = env.clock.monotonic_nanos().saturating_add(nanos(timeout));
        async move {
            let left = until.saturating_sub(env.clock.monotonic_nanos());
            let waited = env.tasks.timeout(Duration::from_nanos(left), call.outcome()).await;
            waited.unwrap_or(Err(CallError::TimedOut))
        }
    }

    fn dispatch(&self, to: Endpoint, message: Message, timeout: Duration) -> Result<(), SendError> {
        let created_millis = self.env.clock.now_millis();
        let expires_after_millis = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.count_sent(to, Message { created_millis, expires_after_millis, ..message })
    }

    fn count_sent(&self, to: Endpoint, message: Message) -> Result<(), SendError> {
        let verb = message.verb;
        self.transport.send(to, message)?;
        self.counters.count(verb, Event::Sent);
        Ok(())
    }

    /// A request for which no handler is there.
    fn without_handler(&self, request: &Request) {
        let reply = request.reply_to();
        let sent = match (request.message.verb, reply.answer(Bytes::new())) {
            (Verb::PingReq, Some(mut answer)) => {
                // It asks for an answer on a connection of that kind.
                let kind = request.message.payload.first().copied().unwrap_or(0);
                answer.connection = ConnectionKind::from_number(kind);
                self.respond(&reply, answer)
            }
            _ => self.fail(&reply, FailureReason::Unknown),
        };
        if let Err(error) = sent {
            tracing::debug!(to = %reply.to, %error, "an answer is not sent");
        }
    }
}

impl Inbox for Messenger {
    fn receive(&self, from: Endpoint, version: u32, mut message: Message) {
        let now_millis = self.env.clock.now_millis();
        // A clock that is ahead makes nothing younger than it is.
        message.created_millis = match self.options.internode_timeout {
            true => message.created_millis.min(now_millis),
            false => now_millis,
        };
        let verb = message.verb;
        self.counters.count(verb, Event::Received);
        if message.left(now_millis).is_zero() {
            self.counters.count(verb, Event::Dropped);
            return;
        }
        if verb.is_answer() {
            if !self.callbacks.answer(from, message) {
                tracing::trace!(%from, %verb, "nobody waits for an answer");
            }
            return;
        }
        let request = Request { from, version, message };
        let handler = self.handlers.get(&verb).and_then(OnceLock::get);
        match (handler, self.this.upgrade()) {
            (Some(handler), Some(this)) => handler.handle(&this, request),
            _ => self.without_handler(&request),
        }
    }

    fn lost(&self, to: Endpoint, verb: Verb, id: u64, loss: Loss) {
        // The id of an answer is that of a call of the other node.
        if !verb.is_answer() {
            self.callbacks.fail(id, to, CallError::Lost(loss));
        }
    }
}

/// As many nanoseconds as a `u64` has room for.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
