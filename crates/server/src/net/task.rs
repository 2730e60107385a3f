//! The task of one connection.
//!
//! Each turn of its loop: decode and start what has been read, as far as the limits admit and until a batch
//! of answers is there; write what has been answered, as far as the socket takes it; then wait for whatever
//! can change that. Reading stops while
//! 1. an envelope waits for admission, because bytes in flight are at a limit, or the rest of one would have
//!    no room;
//! 2. the connection has its fill of requests in flight, or of answers that the client does not read;
//! 3. the node has taken its requests of this second, and the connection's last one was among those too many;
//! 4. the connection is about to close: after a fatal error, or because the server shuts down.
//!
//! Between two turns the connection can leave for another thread ([`super::threads`]), with the bytes that
//! were read and not decoded yet. Requests in flight stay where they are; their answers wait in the
//! connection.

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use env::tasks::Tasks;
use protocol::request::{Message, Request};
use protocol::response::Response;
use protocol::response::error::ErrorResponse;
use protocol::{Decoder, Envelope, Extras};
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;

use super::incoming::{self, Incoming};
use super::server::{Presence, Shared};
use super::threads::Seat;
use super::wire::{RestingWire, Wire, WireWriter};
use super::{Connection, Handling, Reply, Traffic, handshake};

/// Room for one read of the socket.
const READ_BYTES: usize = 32 << 10;

/// Bytes of answers that are written before more are made: what is copied to the socket while it is in the
/// processor's cache, from memory that the next answers use again.
const BATCH_BYTES: usize = 64 << 10;

/// How long a client has to take the answer that explains why its connection is closed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How reading goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Requests are read.
    Open,
    /// No more requests; what is in flight is answered.
    Draining,
    /// Nothing is waited for but the socket to take what is written.
    Closing,
}

pub(super) struct ConnectionTask {
    wire: RestingWire,
    seat: Seat,
    unstarted: Unstarted,
    presence: Presence,
}

/// What was read of the socket and is not started.
struct Unstarted {
    decoder: Decoder,
    /// Waits for bytes in flight to be given back.
    waiting: Option<Envelope>,
    /// What both count.
    incoming: Incoming,
    /// Whether the framing follows from a STARTUP that is not decided.
    is_arriving: bool,
}

/// What became of a connection that was served for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// It is over.
    Ended,
    /// Another thread is to serve it.
    Leaves,
}

impl ConnectionTask {
    pub(super) fn new(wire: RestingWire, seat: Seat, presence: Presence) -> Self {
        let first_bytes_max = presence.shared.options.frame_bytes_max.min(handshake::FIRST_FRAME_BYTES_MAX);
        let unstarted = Unstarted {
            decoder: Decoder::new(first_bytes_max),
            waiting: None,
            incoming: Incoming::new(&presence.connection),
            is_arriving: false,
        };
        presence.connection.move_to(seat.thread());
        Self { wire, seat, unstarted, presence }
    }

    /// Where it is to be run.
    pub(super) fn runtime(&self) -> &Handle {
        self.seat.runtime()
    }

    /// Serves the connection to its end, or until it is to be run on another thread.
    pub(super) async fn run(self) -> Option<ConnectionTask> {
        let Self { wire, seat, mut unstarted, presence } = self;
        let served = async {
            let Presence { shared, connection } = &presence;
            let mut wire = wire.wake()?;
            if wire.is_unknown() {
                let Some(is_tls) = told_apart(&wire, shared, connection).await? else { return Ok(None) };
                wire = wire.told(is_tls, connection, &shared.registry)?;
            }
            let outcome = serve(&mut wire, shared, connection, seat.thread(), &mut unstarted).await?;
            Ok::<_, io::Error>(match outcome {
                Outcome::Ended => {
                    wire.close();
                    None
                }
                Outcome::Leaves => Some(wire.rest()?),
            })
        };
        match served.await {
            Ok(left) => left.map(|wire| {
                let seat = seat.moved_to(presence.connection.thread());
                Self { wire, seat, unstarted, presence }
            }),
            Err(error) => {
                tracing::debug!(%error, peer = %presence.connection.peer, "connection lost");
                None
            }
        }
    }
}

/// Waits until it is known whether the client speaks TLS; `None` when the connection is over before.
async fn told_apart(wire: &Wire, shared: &Shared, connection: &Connection) -> io::Result<Option<bool>> {
    poll_fn(|context| {
        connection.attend(context.waker());
        if connection.is_killed() || shared.is_draining.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(None));
        }
        wire.poll_first(context).map_ok(Some)
    })
    .await
}

/// What ended the wait between two turns.
enum Event {
    /// So many bytes were read, or none, because the client will send no more.
    Read(io::Result<usize>),
    /// The socket may take more, or failed.
    Writable(io::Result<()>),
    /// The client had its time to take the last answer.
    TooLate,
    /// The moment has come for which the connection was not read.
    Rested,
    /// Bytes in flight were given back, or the connection is to be read without room.
    Freed(Option<OwnedSemaphorePermit>),
    /// Somebody woke the task: what there is to do is looked for.
    Woken,
}

/// Waits for room: `true` for an envelope that is to be admitted, `false` for the rest of one.
type Waiting<'a> = (bool, Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send + 'a>>);

async fn serve(
    wire: &mut Wire,
    shared: &Arc<Shared>,
    connection: &Arc<Connection>,
    thread: usize,
    unstarted: &mut Unstarted,
) -> io::Result<Outcome> {
    let (mut reader, writer) = wire.split();
    let Unstarted { decoder, waiting, incoming, is_arriving } = unstarted;
    let mut intake = Intake {
        shared,
        connection,
        decoder,
        waiting,
        incoming,
        is_arriving,
        phase: Phase::Open,
        is_stuck: false,
        rest: None,
    };
    let mut rest: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    let mut deadline: Option<Pin<Box<dyn Future<Output = ()> + Send>>> = None;
    let mut freed: Option<Waiting<'_>> = None;
    let mut waker: Option<Waker> = None;
    loop {
        connection.serving.store(true, Ordering::SeqCst);
        let wants_bytes = intake.advance();
        connection.serving.store(false, Ordering::SeqCst);
        write(&writer, connection, &intake.shared.registry.traffic)?;
        connection.settle();
        let has_room = intake.hold(wants_bytes);
        intake.is_stuck = connection.outgoing_bytes() > 0;

        if connection.is_killed() {
            return Ok(Outcome::Ended);
        }
        if rest.is_none() {
            rest = intake.rest.map(|left| Box::pin(Tasks::of_machine().sleep(left)) as _);
        }
        if intake.phase == Phase::Open && connection.thread() != thread && rest.is_none() {
            return Ok(Outcome::Leaves);
        }
        if intake.phase == Phase::Open && !wants_bytes && intake.waiting.is_none() && !intake.is_full() {
            // The socket took what there was: there is more to start, after others had a turn.
            tokio::task::yield_now().await;
            continue;
        }
        if intake.phase == Phase::Open && shared.is_draining.load(Ordering::SeqCst) {
            intake.phase = Phase::Draining;
            *intake.waiting = None;
        }
        let is_written = connection.outgoing_bytes() == 0;
        let is_idle = connection.in_flight.load(Ordering::Acquire) == 0;
        match intake.phase {
            Phase::Draining if is_written && is_idle => return Ok(Outcome::Ended),
            Phase::Closing if is_written => return Ok(Outcome::Ended),
            Phase::Closing => {
                deadline.get_or_insert_with(|| Box::pin(Tasks::of_machine().sleep(LAST_WORDS)));
            }
            _ => {}
        }
        let is_whole = intake.waiting.is_some();
        if !is_whole && has_room {
            freed = None;
        } else if freed.as_ref().is_none_or(|(is_for_whole, _)| *is_for_whole != is_whole) {
            freed = Some((is_whole, wait_for_room(connection, is_whole)));
            // What was given back before is noticed by nothing but another try.
            continue;
        }
        let is_reading = wants_bytes && has_room && intake.phase == Phase::Open;
        connection.pace.note_partial(if is_reading { intake.decoder.buffered_bytes() as u64 } else { 0 });
        if is_reading {
            intake.decoder.buffer_mut().reserve(READ_BYTES);
        }
        let mut read = pin!(reader.read(intake.decoder.buffer_mut()));
        let mut is_first = true;
        let wait = |context: &mut Context<'_>| {
            if !waker.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
                // What happened before this is looked for, too.
                waker = Some(context.waker().clone());
                connection.attend(context.waker());
                return Poll::Ready(Event::Woken);
            }
            if is_reading && let Poll::Ready(read) = read.as_mut().poll(context) {
                return Poll::Ready(Event::Read(read));
            }
            if !is_written && let Poll::Ready(ready) = writer.poll_ready(context) {
                return Poll::Ready(Event::Writable(ready));
            }
            if let Some(deadline) = &mut deadline
                && deadline.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Event::TooLate);
            }
            if let Some(rest) = &mut rest
                && rest.as_mut().poll(context).is_ready()
            {
                return Poll::Ready(Event::Rested);
            }
            if let Some(freed) = &mut freed
                && let Poll::Ready(pass) = freed.1.as_mut().poll(context)
            {
                return Poll::Ready(Event::Freed(pass));
            }
            if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(Event::Woken) }
        };
        match poll_fn(wait).await {
            Event::Read(read) => {
                let read = read?;
                if read == 0 {
                    return Ok(Outcome::Ended);
                }
                intake.shared.registry.traffic.received_bytes.add(read as u64);
                connection.quiet_s.store(0, Ordering::Relaxed);
            }
            Event::Writable(ready) => ready?,
            Event::TooLate => return Ok(Outcome::Ended),
            Event::Freed(pass) => {
                freed = None;
                pass.into_iter().for_each(|pass| intake.incoming.let_pass(pass));
            }
            Event::Rested => (rest, intake.rest) = (None, None),
            Event::Woken => {}
        }
    }
}

/// Waits until a whole envelope may be admitted, or the rest of one has room.
fn wait_for_room(
    connection: &Connection,
    is_whole: bool,
) -> Pin<Box<dyn Future<Output = Option<OwnedSemaphorePermit>> + Send + '_>> {
    if !is_whole {
        return Box::pin(incoming::room(connection));
    }
    let [address, node] = connection.shared_budgets().map(|budgets| budgets.requests.freed());
    Box::pin(async move {
        tokio::select! {
            () = address => {}
            () = node => {}
        }
        None
    })
}

/// Writes as much as the socket takes.
fn write(writer: &WireWriter<'_>, connection: &Connection, traffic: &Traffic) -> io::Result<()> {
    while connection.outgoing_bytes() > 0 {
        match connection.send(|bytes| writer.try_write(bytes)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                traffic.sent_bytes.add(written as u64);
                connection.stalled_s.store(0, Ordering::Relaxed);
                connection.pace.note_taken(written as u64);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// From bytes read to requests started.
struct Intake<'a> {
    shared: &'a Arc<Shared>,
    connection: &'a Arc<Connection>,
    decoder: &'a mut Decoder,
    /// Waits for bytes in flight to be given back.
    waiting: &'a mut Option<Envelope>,
    incoming: &'a mut Incoming,
    is_arriving: &'a mut bool,
    phase: Phase,
    /// Whether the socket did not take all of the answers.
    is_stuck: bool,
    /// For how long nothing more is started, because the node has had its requests of this second.
    rest: Option<Duration>,
}

impl Intake<'_> {
    /// Starts requests until bytes are needed (`true`) or something else has to happen first.
    fn advance(&mut self) -> bool {
        if self.connection.is_admitted() {
            // It may have logged in meanwhile.
            self.shared.options.let_in(self.decoder);
        }
        while self.phase == Phase::Open {
            let connection = self.connection;
            if self.is_full() {
                return false;
            }
            if std::mem::take(self.is_arriving)
                && let Some(info) = connection.info()
            {
                self.decoder.negotiate(info.version, info.compression);
            }
            if self.has_batch() {
                // Where nothing else has arrived, nothing is left to start once it is written.
                return self.waiting.is_none() && self.decoder.buffered_bytes() == 0;
            }
            let envelope = match self.waiting.take() {
                Some(envelope) => envelope,
                None => match self.decoder.next_envelope() {
                    Ok(Some(envelope)) => envelope,
                    Ok(None) => return true,
                    Err(error) => {
                        tracing::debug!(%error, peer = %connection.peer, "malformed bytes");
                        connection.encode(|encoder| encoder.push_frame_error(&error));
                        if error.fatal {
                            self.phase = Phase::Closing;
                        }
                        continue;
                    }
                },
            };
            if let Some(envelope) = self.start(envelope) {
                *self.waiting = Some(envelope);
                return false;
            }
        }
        false
    }

    /// Counts what was read and is not started; `false` when more of it would have no room.
    fn hold(&mut self, wants_bytes: bool) -> bool {
        let whole = self.waiting.as_ref().map_or(0, Envelope::length);
        let bytes = self.decoder.buffered_bytes() + whole;
        // While nothing is read, what is here stays.
        self.incoming.hold(bytes as u64, !wants_bytes)
    }

    /// Whether the connection has its fill of requests in flight or of answers that nobody reads, its client
    /// is not let in yet, or the node has its fill of requests.
    fn is_full(&self) -> bool {
        let connection = self.connection;
        if connection.is_held_up() || self.rest.is_some() {
            return true;
        }
        if self.is_stuck && connection.is_out_of_room() {
            return true;
        }
        connection.in_flight.load(Ordering::Acquire) >= self.shared.options.requests_per_connection_max
            || connection.outgoing_bytes() >= connection.outgoing_bytes_high()
    }

    /// Whether answers are worth a write before more are made.
    fn has_batch(&self) -> bool {
        !self.is_stuck && self.connection.outgoing_bytes() >= BATCH_BYTES
    }

    /// Starts the request of an envelope, or gives it back because it has to wait.
    fn start(&mut self, envelope: Envelope) -> Option<Envelope> {
        let connection = self.connection;
        if connection.info().is_none() {
            let version = envelope.version;
            connection.encode(|encoder| encoder.set_version(version));
        }
        let Some(reply) = connection.admit(envelope.stream, envelope.length() as u64) else {
            if !connection.info().is_some_and(|info| info.throws_on_overload) {
                return Some(envelope);
            }
            let error = ErrorResponse::overloaded(
                "Request breached limit on bytes in flight. (BYTES_IN_FLIGHT)Server is currently in an \
                 overloaded state and cannot accept more requests.",
            );
            let stream = envelope.stream;
            connection.encode(|encoder| {
                // An error is never too long for an envelope.
                let _ = encoder.push(stream, &Response::Error(error), &Extras::default());
            });
            return None;
        };
        let in_time = if self.shared.rate.is_limited() { self.in_time(reply) } else { Some(reply) };
        if let Some(reply) = in_time {
            self.carry_out(envelope, reply);
        }
        None
    }

    /// Takes a request's moment. One that comes before its moment is refused, if the client asked for that;
    /// else it is the last for a while.
    fn in_time(&mut self, reply: Reply) -> Option<Reply> {
        let Some(info) = self.connection.info() else { return Some(reply) };
        let rate = &self.shared.rate;
        if !info.throws_on_overload {
            self.rest = Some(rate.take()).filter(|left| !left.is_zero());
            self.shared.registry.traffic.rate_limited.add(u64::from(self.rest.is_some()));
        } else if !rate.try_take() {
            self.shared.registry.traffic.rate_limited.add(1);
            let told = format!(
                "Request breached global limit of {} requests/second. Server is currently in an overloaded state \
                 and cannot accept more requests.",
                self.shared.options.requests_per_second_max
            );
            reply.send_error(ErrorResponse::overloaded(told), &Extras::default());
            return None;
        }
        Some(reply)
    }

    /// Carries a request that was admitted out as far as it goes without waiting.
    fn carry_out(&mut self, envelope: Envelope, reply: Reply) {
        let connection = self.connection;
        if let Some(error) = handshake::refusal(connection, envelope.opcode) {
            let reply = if connection.info().is_none() { reply.on_stream_0() } else { reply };
            reply.send_error(error, &Extras::default());
            return;
        }
        let version = envelope.version;
        let message = match Message::decode(envelope) {
            Ok(message) => message,
            Err(error) => {
                let reply = if connection.info().is_none() { reply.on_stream_0() } else { reply };
                reply.send_error(ErrorResponse::from(&error), &Extras::default());
                return;
            }
        };
        match message.request {
            Request::Options(_) => reply.send(&handshake::supported(), &Extras::default()),
            Request::Startup(startup) => {
                let decoder = (&mut *self.decoder, &self.shared.options);
                let entrance = self.shared.service.entrance(connection);
                let arrival = handshake::startup(connection, decoder, entrance, version, startup, reply);
                if let Some(arrival) = arrival {
                    *self.is_arriving = true;
                    let service = Arc::clone(&self.shared.service);
                    begin(move || Some(service.log_in_early(arrival)));
                }
            }
            Request::Register(register) => {
                connection.register(&register.kinds);
                reply.send(&Response::Ready, &Extras::default());
            }
            Request::AuthResponse(response) => {
                let service = Arc::clone(&self.shared.service);
                begin(move || Some(service.log_in(response.token, reply)));
            }
            _ => {
                let service = Arc::clone(&self.shared.service);
                begin(move || service.handle(message, reply));
            }
        }
    }
}

/// Carries a request out in place; what has to wait becomes a task.
fn begin(handle: impl FnOnce() -> Option<Handling>) {
    // A panic drops the reply, which answers.
    let made = catch_unwind(AssertUnwindSafe(handle));
    let Ok(Some(mut handling)) = made else { return };
    let mut context = Context::from_waker(std::task::Waker::noop());
    match catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(&mut context))) {
        Ok(Poll::Pending) => drop(tokio::spawn(Caught(handling))),
        Ok(Poll::Ready(())) | Err(_) => {}
    }
}

/// A request whose panic ends it and nothing else.
struct Caught(Handling);

impl Future for Caught {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let handling = &mut self.0;
        catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(context))).unwrap_or(Poll::Ready(()))
    }
}
