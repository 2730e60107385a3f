//! One thread of load: it keeps its lanes full, or on schedule, and judges every answer.
//!
//! Round by round:
//! 1. begin every operation that is due and finds a place;
//! 2. write all of them, one system call for each lane that has something to say;
//! 3. wait until an answer arrives, a full socket drains, or the next operation is due: asleep, but where one
//!    operation is in flight awake at first, so that what it takes to wake the client is not charged to the
//!    server;
//! 4. read each lane that has something once, note the time, and judge every whole answer.
//!
//! When what is measured ends no more operations begin, and those in flight are waited for. A closed loop
//! counts answers that arrive inside a part; at a fixed rate latencies are those of the operations that were
//! *meant* to begin inside it, however late their answers are.

use std::sync::Arc;

use protocol::Consistency;
use protocol::request::{Execute, Message, Options, QueryParams, Request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::answer::{self, Answer};
use crate::connection::{Connection, message};
use crate::error::Error;
use crate::lane::{InFlight, Lane};
use crate::measure::{Clock, Tally};
use crate::pace::Pace;
use crate::parts::Measured;
use crate::workloads::{Operation, Statement, Workload};

/// One answer of this many is compared with the data, value by value.
const CHECK_EVERY: u64 = 64;

/// Rows in a page, as drivers ask for.
const PAGE_ROWS: i32 = 5_000;

/// Without an answer for this long the run has failed.
const STALL_NS: u64 = 60_000_000_000;

const READ_BYTES: usize = 64 << 10;

/// A statement, ready to be sent.
#[derive(Debug, Clone)]
pub struct Prepared {
    statement: Statement,
    message: Message,
}

impl Prepared {
    /// Prepares a statement on the server, or on one node of a ring.
    pub fn new(
        connection: &mut Connection,
        statement: Statement,
        consistency: Consistency,
    ) -> Result<Self, Error> {
        let request = match &statement {
            Statement::Options => Request::Options(Options),
            Statement::Write(text) | Statement::Read(text, _) | Statement::Whole(text, _) => {
                let prepared = connection.prepare(text)?;
                let mut params = QueryParams::new(consistency);
                params.skip_metadata = true;
                params.page_size = Some(PAGE_ROWS).filter(|_| !matches!(statement, Statement::Whole(..)));
                let result_metadata_id = Some(prepared.result_metadata_id[..].into());
                Request::Execute(Execute { id: prepared.id[..].into(), result_metadata_id, params })
            }
        };
        Ok(Self { statement, message: message(request) })
    }
}

/// What a thread works with.
pub struct Worker {
    /// Connections that have begun their load.
    pub lanes: Vec<Lane>,
    /// The workload's statements.
    pub statements: Vec<Prepared>,
    /// What to ask.
    pub workload: Box<dyn Workload>,
    /// When to ask it.
    pub pace: Pace,
    /// For how long it looks for an answer again and again before it sleeps until one wakes it, in
    /// nanoseconds.
    pub watch_ns: u64,
    /// The time.
    pub clock: Clock,
    /// What is measured.
    pub measured: Arc<Measured>,
}

impl Worker {
    /// Works until the window or the workload ends.
    pub fn run(mut self) -> Result<Tally, Error> {
        let mut tally = Tally::default();
        let mut scratch = vec![0; READ_BYTES];
        let mut ready = Vec::with_capacity(self.lanes.len());
        let mut heard_ns = self.clock.now_ns();
        let mut more = true;
        loop {
            more = more && self.begin_due(&mut tally)?;
            for lane in &mut self.lanes {
                lane.blocked = !lane.connection.flush()?;
            }
            let in_flight = self.lanes.iter().map(Lane::in_flight).sum::<usize>();
            let now_ns = self.clock.now_ns();
            if in_flight == 0 {
                heard_ns = now_ns;
            }
            if !more && in_flight == 0 {
                return Ok(tally);
            }
            if now_ns.saturating_sub(heard_ns) > STALL_NS {
                if self.measured.end_ns() > now_ns {
                    return Err(Error::Stalled { seconds: STALL_NS / 1_000_000_000, in_flight });
                }
                tally.unanswered += in_flight as u64;
                return Ok(tally);
            }
            self.wait(more, now_ns, heard_ns, &mut ready)?;
            for &index in &ready {
                heard_ns = self.hear(index, &mut scratch, &mut tally)?;
            }
        }
    }

    /// Begins what is due; false if nothing will be due any more.
    fn begin_due(&mut self, tally: &mut Tally) -> Result<bool, Error> {
        let now_ns = self.clock.now_ns();
        let end_ns = self.measured.end_ns();
        let mut values = Vec::new();
        // One operation on each lane in turn, until a whole turn finds no room.
        loop {
            let mut began = false;
            for lane in &mut self.lanes {
                if !lane.has_room() {
                    continue;
                }
                let Some(meant_ns) = self.pace.due(now_ns) else { return Ok(now_ns < end_ns) };
                if meant_ns >= end_ns {
                    return Ok(false);
                }
                let Some(operation) = self.workload.next(&mut values) else { return Ok(false) };
                self.pace.sent();
                let Some(stream) = lane.begin(InFlight { meant_ns, operation }) else { continue };
                let Some(prepared) = self.statements.get_mut(operation.statement) else { continue };
                if let Request::Execute(execute) = &mut prepared.message.request {
                    std::mem::swap(&mut execute.params.values, &mut values);
                }
                lane.connection.queue(stream, &prepared.message)?;
                values.clear();
                if matches!(self.pace, Pace::Open(_))
                    && let Some(part) = self.measured.part(meant_ns)
                {
                    tally.part(part).lag(now_ns.saturating_sub(meant_ns));
                }
                began = true;
            }
            if !began {
                // A schedule that lags behind the end has still operations that were meant to begin before
                // it.
                let behind = matches!(self.pace, Pace::Open(_));
                return Ok(behind || now_ns < end_ns);
            }
        }
    }

    /// Waits for something to do; `ready` then names the lanes that have something to read.
    fn wait(&self, more: bool, now_ns: u64, heard_ns: u64, ready: &mut Vec<usize>) -> Result<(), Error> {
        let mut sockets: Vec<PollFd<'_>> = self
            .lanes
            .iter()
            .map(|lane| {
                let writable = if lane.blocked { PollFlags::OUT } else { PollFlags::empty() };
                PollFd::new(lane.connection.socket(), PollFlags::IN | writable)
            })
            .collect();
        let room = self.lanes.iter().any(Lane::has_room);
        let idle_ns = match now_ns.saturating_sub(heard_ns) < self.watch_ns {
            true => 0,
            false => self.pace.idle_ns(now_ns).filter(|_| more && room).unwrap_or(1_000_000_000),
        };
        let timeout =
            Timespec { tv_sec: (idle_ns / 1_000_000_000) as _, tv_nsec: (idle_ns % 1_000_000_000) as _ };
        ready.clear();
        match poll(&mut sockets, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                return Err(Error::Connection { address: "all sockets".to_owned(), source: error.into() });
            }
        }
        let readable = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        let indexes = sockets.iter().enumerate();
        ready.extend(
            indexes.filter(|(_, socket)| socket.revents().intersects(readable)).map(|(index, _)| index),
        );
        Ok(())
    }

    /// Reads a lane once and judges what has arrived; returns the time of the reading.
    fn hear(&mut self, index: usize, scratch: &mut [u8], tally: &mut Tally) -> Result<u64, Error> {
        let Self { lanes, statements, workload, pace, clock, measured, .. } = self;
        let Some(lane) = lanes.get_mut(index) else { return Ok(clock.now_ns()) };
        lane.connection.receive(scratch)?;
        let now_ns = clock.now_ns();
        while let Some(envelope) = lane.connection.next_answer()? {
            let stream = envelope.stream;
            let Some(InFlight { meant_ns, operation }) = lane.end(stream) else {
                return Err(Error::Protocol(format!(
                    "an answer on stream {stream}, where nothing was asked"
                )));
            };
            let answer = answer::judge(&envelope)?;
            if let Answer::Refused(error) = &answer {
                tally.refused(error);
                continue;
            }
            let statement = statements.get(operation.statement).map(|prepared| &prepared.statement);
            expect(statement, &answer, operation)?;
            if let Some(part) = measured.part(now_ns) {
                tally.part(part).operations += 1;
            }
            let counts_at = if matches!(pace, Pace::Closed) { now_ns } else { meant_ns };
            if let Some(part) = measured.part(counts_at) {
                tally.part(part).latency(now_ns.saturating_sub(meant_ns));
            }
            if !matches!(answer, Answer::Rows(_)) {
                continue;
            }
            tally.reads += 1;
            if tally.reads.is_multiple_of(CHECK_EVERY) {
                workload.check(operation, &answer::rows(&envelope)?).map_err(Error::WrongAnswer)?;
                tally.checked += 1;
            }
        }
        Ok(now_ns)
    }
}

/// Refuses an answer of the wrong kind, or with the wrong number of rows.
fn expect(statement: Option<&Statement>, answer: &Answer, operation: Operation) -> Result<(), Error> {
    match (statement, answer) {
        (Some(Statement::Options | Statement::Write(_)), Answer::Done) => Ok(()),
        (Some(Statement::Read(_, wanted) | Statement::Whole(_, wanted)), Answer::Rows(found))
            if wanted == found =>
        {
            Ok(())
        }
        (statement, found) => {
            Err(Error::WrongAnswer(format!("{found:?} to {statement:?} (row {})", operation.subject)))
        }
    }
}
