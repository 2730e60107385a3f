//! What a connection's task, its requests in flight and the rest of the node share of the connection.
//!
//! Answers are encoded into the connection's [`Encoder`] under its lock, and written from there; it is never
//! held while anything waits. While the task is serving (between a read and the write after it) nobody needs
//! to wake it: it looks at the encoder when it is done.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use protocol::encoder::EnvelopeWriter;
use protocol::response::blocks::Blocks;
use protocol::response::error::ErrorResponse;
use protocol::response::event::EventKind;
use protocol::response::{Event, Response};
use protocol::{Compression, Encoder, Extras, Opcode, ProtocolVersion};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::ANONYMOUS;
use super::answers::AnswerRoom;
use super::budget::{Address, Budget, Budgets, NodeBudgets};
use super::pace::Pace;
use crate::auth::Principal;
use crate::tls::TlsSession;

/// What a client said about itself in STARTUP.
#[derive(Clone, Debug)]
pub struct ClientInfo {
    /// The protocol version.
    pub version: ProtocolVersion,
    /// The compression in use.
    pub compression: Option<Compression>,
    /// Every setting, names in upper case, in the order sent.
    pub settings: Vec<(String, String)>,
    /// Wants OVERLOADED errors instead of waiting.
    pub throws_on_overload: bool,
}

impl ClientInfo {
    /// A setting by its name in upper case.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.settings.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

#[derive(Debug)]
struct Outgoing {
    encoder: Encoder,
    closed: bool,
    /// Held by an answer for which there was no room, until all is sent.
    pass: Option<OwnedSemaphorePermit>,
}

/// One connection of a client.
#[derive(Debug)]
pub struct Connection {
    /// Unique in the process.
    pub id: u64,
    /// The client's end.
    pub peer: SocketAddr,
    /// Whether the client was warned about USE with prepared statements.
    pub warned_about_use: AtomicBool,
    info: OnceLock<ClientInfo>,
    /// Whether nothing of it is read until a certificate is judged.
    is_held_up: AtomicBool,
    /// Whether it may send statements: it has begun its session, and logged in where that is asked.
    is_admitted: AtomicBool,
    principal: ArcSwapOption<Principal>,
    keyspace: Mutex<Option<Arc<str>>>,
    /// A bit for each [`EventKind`] registered for.
    events: AtomicU8,
    requests: AtomicU64,
    /// Those of them that were counted before the threads were compared last.
    requests_seen: AtomicU64,
    /// The thread that is to serve it.
    thread: AtomicUsize,
    pub(super) in_flight: AtomicUsize,
    budget: Budget,
    /// Answers that are made, and those that were made and not sent.
    pub(super) answers: Budget,
    /// Those of them that were made, as far as the budgets know.
    unsent: AtomicU64,
    /// Whose turn it is to make an answer for which the connection has no room.
    pub(super) answer_turn: Arc<Semaphore>,
    address: Arc<Address>,
    node: Arc<NodeBudgets>,
    outgoing: Mutex<Outgoing>,
    outgoing_bytes: AtomicUsize,
    outgoing_bytes_high: usize,
    has_room: Notify,
    /// Wakes the connection's task, once there is one.
    task: Mutex<Option<Waker>>,
    pub(super) serving: AtomicBool,
    killed: AtomicBool,
    tls: OnceLock<TlsSession>,
    /// Whether a TLS handshake goes on.
    pub(super) is_shaking_hands: AtomicBool,
    /// Seconds since the client sent something, and since it took something of what was waiting for it.
    pub(super) quiet_s: AtomicU32,
    pub(super) stalled_s: AtomicU32,
    pub(super) pace: Pace,
}

fn event_bit(kind: EventKind) -> u8 {
    match kind {
        EventKind::TopologyChange => 1,
        EventKind::StatusChange => 2,
        EventKind::SchemaChange => 4,
    }
}

impl Connection {
    pub(super) fn new(
        id: u64,
        peer: SocketAddr,
        options: &super::NetOptions,
        address: Arc<Address>,
        node: Arc<NodeBudgets>,
    ) -> Self {
        Self {
            id,
            peer,
            warned_about_use: AtomicBool::new(false),
            info: OnceLock::new(),
            is_held_up: AtomicBool::new(false),
            is_admitted: AtomicBool::new(false),
            principal: ArcSwapOption::empty(),
            keyspace: Mutex::new(None),
            events: AtomicU8::new(0),
            requests: AtomicU64::new(0),
            requests_seen: AtomicU64::new(0),
            thread: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            budget: Budget::new(options.in_flight_per_connection_bytes_max),
            answers: Budget::new(options.answers_per_connection_bytes_max),
            unsent: AtomicU64::new(0),
            answer_turn: Arc::new(Semaphore::new(1)),
            address,
            node,
            outgoing: Mutex::new(Outgoing { encoder: Encoder::new(), closed: false, pass: None }),
            outgoing_bytes: AtomicUsize::new(0),
            outgoing_bytes_high: options.outgoing_bytes_high,
            has_room: Notify::new(),
            task: Mutex::new(None),
            serving: AtomicBool::new(false),
            killed: AtomicBool::new(false),
            tls: OnceLock::new(),
            is_shaking_hands: AtomicBool::new(false),
            quiet_s: AtomicU32::new(0),
            stalled_s: AtomicU32::new(0),
            pace: Pace::default(),
        }
    }

    /// What the client said in STARTUP; `None` before.
    pub fn info(&self) -> Option<&ClientInfo> {
        self.info.get()
    }

    /// Whether it may send statements.
    pub fn is_admitted(&self) -> bool {
        self.is_admitted.load(Ordering::Acquire)
    }

    /// The role that has logged in, if any had to.
    pub fn principal(&self) -> Option<Arc<Principal>> {
        self.principal.load_full()
    }

    /// The same for a look: nothing that other connections of the role use is written to.
    pub(crate) fn principal_now(&self) -> Guard<Option<Arc<Principal>>> {
        self.principal.load()
    }

    /// The name of the role that has logged in.
    pub fn user(&self) -> Arc<str> {
        match &*self.principal.load() {
            Some(principal) => Arc::clone(principal.name()),
            None => ANONYMOUS.into(),
        }
    }

    /// Lets it send statements as this role.
    pub(crate) fn admit_as(&self, principal: Arc<Principal>) {
        self.principal.store(Some(principal));
        self.is_admitted.store(true, Ordering::Release);
    }

    /// Says whether its client has to wait for a decision.
    pub(super) fn hold_up(&self, is_held_up: bool) {
        self.is_held_up.store(is_held_up, Ordering::SeqCst);
    }

    pub(super) fn is_held_up(&self) -> bool {
        self.is_held_up.load(Ordering::SeqCst)
    }

    /// Lets it send statements without a login.
    pub(super) fn admit_anybody(&self) {
        self.is_admitted.store(true, Ordering::Release);
    }

    /// The protocol version in use, the highest before STARTUP.
    pub fn version(&self) -> ProtocolVersion {
        self.info.get().map_or(ProtocolVersion::HIGHEST, |info| info.version)
    }

    /// What was agreed upon with a client that speaks TLS, and whom it has proven to be: known before its
    /// first request is.
    pub fn tls(&self) -> Option<&TlsSession> {
        self.tls.get()
    }

    pub(super) fn set_tls(&self, session: TlsSession) {
        let _ = self.tls.set(session);
    }

    /// The keyspace in use.
    pub fn keyspace(&self) -> Option<Arc<str>> {
        self.keyspace.lock().clone()
    }

    /// Uses a keyspace from now on.
    pub fn use_keyspace(&self, keyspace: &str) {
        *self.keyspace.lock() = Some(keyspace.into());
    }

    /// Requests that were decoded so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests since the last call.
    pub(super) fn requests_since(&self) -> u64 {
        let requests = self.requests();
        requests - self.requests_seen.swap(requests, Ordering::Relaxed)
    }

    /// The number of the thread that is to serve the connection.
    pub(super) fn thread(&self) -> usize {
        self.thread.load(Ordering::Relaxed)
    }

    /// Says which thread is to serve the connection from now on; its task moves there.
    pub(super) fn move_to(&self, thread: usize) {
        self.thread.store(thread, Ordering::Relaxed);
        self.wake();
    }

    /// Waits until the client has read most of its answers; `false` when it is gone.
    pub async fn room(&self) -> bool {
        loop {
            let notified = self.has_room.notified();
            if self.outgoing.lock().closed {
                return false;
            }
            if self.outgoing_bytes() < self.outgoing_bytes_high {
                return true;
            }
            notified.await;
        }
    }

    pub(super) fn begin_session(&self, info: ClientInfo) {
        let (version, compression) = (info.version, info.compression);
        let _ = self.info.set(info);
        let mut outgoing = self.outgoing.lock();
        outgoing.encoder.negotiate(version, compression);
    }

    pub(super) fn register(&self, kinds: &[EventKind]) {
        let bits = kinds.iter().fold(0, |bits, kind| bits | event_bit(*kind));
        self.events.fetch_or(bits, Ordering::AcqRel);
    }

    /// Whether the client registered for events of a kind.
    pub(super) fn is_told(&self, kind: EventKind) -> bool {
        self.events.load(Ordering::Acquire) & event_bit(kind) != 0
    }

    /// Sends an event if the client registered for it. One that does not read its answers misses no events:
    /// it is disconnected, and will look at the schema when it comes again.
    pub(super) fn notify(&self, event: &Event) {
        if !self.is_told(event.kind()) {
            return;
        }
        if self.outgoing_bytes() >= self.outgoing_bytes_high {
            return self.kill();
        }
        self.encode(|encoder| {
            // An event is far below what an envelope holds.
            let _ = encoder.push_event(event);
        });
    }

    /// Asks the task to close the connection now.
    pub(super) fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake();
    }

    /// Says how the connection's task is woken. What happened before, the task looks for after this.
    pub(super) fn attend(&self, waker: &Waker) {
        *self.task.lock() = Some(waker.clone());
    }

    /// Has the connection's task look at everything once more.
    pub(super) fn wake(&self) {
        if let Some(task) = &*self.task.lock() {
            task.wake_by_ref();
        }
    }

    pub(super) fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    pub(super) fn outgoing_bytes(&self) -> usize {
        self.outgoing_bytes.load(Ordering::Acquire)
    }

    pub(super) fn outgoing_bytes_high(&self) -> usize {
        self.outgoing_bytes_high
    }

    /// Those of the connection's address and of the node.
    pub(super) fn shared_budgets(&self) -> [&Budgets; 2] {
        [&self.address.budgets, &self.node.budgets]
    }

    pub(super) fn node(&self) -> &NodeBudgets {
        &self.node
    }

    /// The budgets that answers count against.
    pub(super) fn answer_budgets(&self) -> [&Budget; 3] {
        [&self.answers, &self.address.budgets.answers, &self.node.budgets.answers]
    }

    /// Whether answers that this connection does not take keep others waiting.
    pub(super) fn is_in_the_way(&self) -> bool {
        self.unsent.load(Ordering::Relaxed) > 0
            && self.shared_budgets().iter().any(|budgets| budgets.answers.holds_somebody_up())
    }

    /// Whether what is not sent is more than answers may take together, so that nothing is to be added.
    pub(super) fn is_out_of_room(&self) -> bool {
        self.answer_budgets().iter().any(|budget| !budget.has_room(0))
    }

    /// Has the budgets of answers know what the socket did not take.
    pub(super) fn settle(&self) {
        if self.unsent.load(Ordering::Acquire) == self.outgoing_bytes() as u64 {
            return;
        }
        let outgoing = self.outgoing.lock();
        let bytes = outgoing.encoder.pending_bytes() as u64;
        let before = self.unsent.swap(bytes, Ordering::AcqRel);
        for budget in self.answer_budgets() {
            match bytes.checked_sub(before) {
                Some(more) => budget.take(more),
                None => budget.give_back(before - bytes),
            }
        }
    }

    /// Counts a request in flight, if its bytes fit everywhere.
    pub(super) fn admit(self: &Arc<Self>, stream: i16, bytes: u64) -> Option<Reply> {
        if !self.budget.try_take(bytes) {
            return None;
        }
        if !self.address.budgets.requests.try_take(bytes) {
            self.budget.undo(bytes);
            return None;
        }
        if !self.node.budgets.requests.try_take(bytes) {
            self.address.budgets.requests.undo(bytes);
            self.budget.undo(bytes);
            return None;
        }
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.requests.fetch_add(1, Ordering::Relaxed);
        Some(Reply { connection: Arc::clone(self), stream, bytes, is_answered: false })
    }

    /// Runs `write` on the encoder and sees to it that the task sends the outcome.
    pub(super) fn encode<T>(&self, write: impl FnOnce(&mut Encoder) -> T) -> Option<T> {
        self.put(|outgoing| write(&mut outgoing.encoder))
    }

    fn put<T>(&self, write: impl FnOnce(&mut Outgoing) -> T) -> Option<T> {
        let mut outgoing = self.outgoing.lock();
        if outgoing.closed {
            return None;
        }
        let out = write(&mut outgoing);
        self.outgoing_bytes.store(outgoing.encoder.pending_bytes(), Ordering::Release);
        drop(outgoing);
        if !self.serving.load(Ordering::SeqCst) {
            self.wake();
        }
        Some(out)
    }

    /// Hands `write` what is to be sent, and lets go of as much as it says that it took.
    pub(super) fn send(&self, write: impl FnOnce(&[u8]) -> io::Result<usize>) -> io::Result<usize> {
        let mut outgoing = self.outgoing.lock();
        let written = write(outgoing.encoder.unsent())?;
        outgoing.encoder.sent(written);
        let left = outgoing.encoder.pending_bytes();
        self.outgoing_bytes.store(left, Ordering::Release);
        if left == 0 {
            outgoing.pass = None;
        }
        if left < self.outgoing_bytes_high {
            self.has_room.notify_waiters();
        }
        Ok(written)
    }

    /// Nothing is sent any more.
    pub(super) fn close(&self) {
        let mut outgoing = self.outgoing.lock();
        outgoing.closed = true;
        outgoing.encoder = Encoder::new();
        outgoing.pass = None;
        self.outgoing_bytes.store(0, Ordering::Release);
        drop(outgoing);
        self.settle();
        self.has_room.notify_waiters();
    }

    #[cfg(test)]
    pub(super) fn budget_used(&self) -> (u64, u64, u64) {
        (self.budget.used(), self.address.budgets.requests.used(), self.node.budgets.requests.used())
    }

    /// Answers of the connection, of its address, of the node.
    #[cfg(test)]
    pub(crate) fn answers_used(&self) -> [u64; 3] {
        self.answer_budgets().map(Budget::used)
    }

    /// Requests of the address and of the node that have not come whole.
    #[cfg(test)]
    pub(crate) fn incoming_used(&self) -> [u64; 2] {
        self.shared_budgets().map(|budgets| budgets.incoming.used())
    }
}

/// The obligation to answer one request.
#[derive(Debug)]
pub struct Reply {
    connection: Arc<Connection>,
    stream: i16,
    bytes: u64,
    is_answered: bool,
}

impl Reply {
    /// The connection to answer on.
    pub fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    /// Bytes of the request.
    pub fn request_bytes(&self) -> u64 {
        self.bytes
    }

    /// Answers on stream 0 instead of the request's, as Cassandra does until a connection has begun.
    pub(super) fn on_stream_0(mut self) -> Reply {
        self.stream = 0;
        self
    }

    /// Sends an answer.
    pub fn send(mut self, response: &Response, extras: &Extras) {
        let stream = self.stream;
        self.is_answered = true;
        self.connection.encode(|encoder| {
            if let Err(error) = encoder.push(stream, response, extras) {
                push_error(encoder, stream, &ErrorResponse::server(error.to_string()), extras);
            }
        });
    }

    /// Sends an error.
    pub fn send_error(self, error: ErrorResponse, extras: &Extras) {
        self.send(&Response::Error(error), extras);
    }

    /// Sends a body that was written elsewhere, in the room that was taken for it.
    pub fn send_blocks(mut self, opcode: Opcode, body: Blocks, mut room: AnswerRoom, extras: &Extras) {
        let stream = self.stream;
        self.is_answered = true;
        let (bytes, pass) = room.hand_over();
        self.connection.unsent.fetch_add(bytes, Ordering::AcqRel);
        let sent = self.connection.put(|outgoing| {
            if pass.is_some() {
                outgoing.pass = pass;
            }
            let encoder = &mut outgoing.encoder;
            if let Err(error) = encoder.push_blocks(stream, opcode, body, extras) {
                push_error(encoder, stream, &ErrorResponse::server(error.to_string()), extras);
            }
        });
        if sent.is_none() {
            self.connection.settle();
        }
        // Whose turn is next sees the answer.
        drop(room);
    }

    /// Lets `write` put an answer straight into the connection's buffer. When it says `Err`, nothing is sent
    /// and the obligation comes back with its reason; `Ok` holds what leads the body.
    ///
    /// # Errors
    /// What `write` said.
    pub fn send_in_place<E>(
        mut self,
        opcode: Opcode,
        write: impl FnOnce(&mut EnvelopeWriter<'_>) -> Result<Extras, E>,
    ) -> Result<(), (Self, E)> {
        let stream = self.stream;
        let outcome = self.connection.encode(|encoder| {
            let mut envelope = encoder.begin(stream, opcode);
            let extras = write(&mut envelope)?;
            if let Err(error) = envelope.finish(&extras) {
                push_error(encoder, stream, &ErrorResponse::server(error.to_string()), &extras);
            }
            Ok(())
        });
        match outcome {
            Some(Err(error)) => Err((self, error)),
            // Answered, or nobody is there to read it.
            Some(Ok(())) | None => {
                self.is_answered = true;
                Ok(())
            }
        }
    }
}

fn push_error(encoder: &mut Encoder, stream: i16, error: &ErrorResponse, extras: &Extras) {
    // An error's message is at most 64 KiB, so its body is never too long.
    let _ = encoder.push(stream, &Response::Error(error.clone()), extras);
}

impl Drop for Reply {
    fn drop(&mut self) {
        let connection = &self.connection;
        if !self.is_answered {
            let id = format!("{}/{}", connection.id, self.stream);
            tracing::error!(request = id, peer = %connection.peer, "a request ended without an answer");
            let error = ErrorResponse::server(format!("Unexpected error during request {id}; see the log"));
            let stream = self.stream;
            connection.encode(|encoder| push_error(encoder, stream, &error, &Extras::default()));
        }
        connection.budget.give_back(self.bytes);
        connection.address.budgets.requests.give_back(self.bytes);
        connection.node.budgets.requests.give_back(self.bytes);
        connection.in_flight.fetch_sub(1, Ordering::AcqRel);
        if !connection.serving.load(Ordering::SeqCst) {
            connection.wake();
        }
    }
}
