//! A read on the pool of readers, the only threads here that wait for the disk.

use std::sync::Arc;

use coordinator::{Coordinator, PagingState};
use cql::plan::BoundSelect;
use partition::{CostSnapshot, Deadline, LiveRows, PageLimits, ReadContext, Recorder};
use protocol::response::blocks::Blocks;
use protocol::response::error::ErrorResponse;
use protocol::response::rows::RowsWriter;

use super::account::{self, Tally};
use super::page::{Extent, finish_shape, returned};
use super::{Read, Stop, read_of};
use crate::net::{AnswerRoom, NoRoom};
use crate::session::options::{self, Options};
use crate::session::run::Metadata;
use crate::session::statements::{Statement, encode_columns};
use crate::session::{Answer, Exchange, PAGE_BYTES_MAX, Sessions, error, explain, proofs};

/// Runs the read on the pool of readers.
pub(in crate::session) async fn on_reader(
    exchange: &mut Exchange,
    read: Read,
) -> Result<Answer, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    if !exchange.connection.room().await {
        return Ok(Answer::Sent);
    }
    let mut deadline = read.deadline(exchange);
    let mut read = read;
    let mut room = AnswerRoom::new(&exchange.connection);
    loop {
        let (back, outcome) = try_on_reader(exchange, &sessions, (read, room), &deadline).await?;
        (read, room) = back;
        let (stop, context) = match outcome {
            Ok(body) => {
                room.shrink(body.length() as u64);
                return Ok(Answer::Rows(body, room));
            }
            Err(failed) => failed,
        };
        let stop = match stop {
            Stop::NoRoom(no_room) => match wait_for_room(exchange, &mut room, no_room, &mut deadline).await {
                Ok(true) => continue,
                Ok(false) => return Ok(Answer::Sent),
                Err(refusal) => Stop::Refused(refusal),
            },
            Stop::Await(name) => match proofs::compared(exchange, &name, read.consistency, &deadline).await {
                Ok(()) => continue,
                Err(stop) => stop,
            },
            stop => stop,
        };
        let refusal = stop.into_refusal(exchange);
        account::fail(exchange, read.command(), &context, &refusal);
        return Err(refusal);
    }
}

/// Waits for room for an answer; `false` when the client is gone.
async fn wait_for_room(
    exchange: &mut Exchange,
    room: &mut AnswerRoom,
    no_room: NoRoom,
    deadline: &mut Deadline,
) -> Result<bool, ErrorResponse> {
    exchange.sessions.node.metrics.answers_without_room.add(1);
    exchange.note(|| "Waiting for memory for the answer".to_owned());
    // The client itself is waited for, as long as it takes, and no timeout runs meanwhile.
    let left = deadline.left();
    if !room.wait_for_turn().await {
        return Ok(false);
    }
    let clock = &exchange.sessions.clock;
    *deadline = Deadline::new(clock, clock().saturating_add(left.as_nanos() as u64));
    match tokio::time::timeout(deadline.left(), room.wait_for_room(no_room)).await {
        Ok(()) => Ok(true),
        Err(_) => Err(ErrorResponse::overloaded(
            "Answers that clients have not read yet take all the memory for answers \
             (native_transport_max_response_data_in_flight). Server is currently in an overloaded state and \
             cannot accept more requests.",
        )),
    }
}

/// The read with the room for its answer.
type Reading = (Read, AnswerRoom);

/// The read, and its rows or why it has none, with what that took.
type Tried = (Reading, Result<Blocks, (Stop, ReadContext)>);

/// Runs the read once. An error is that of the pool.
async fn try_on_reader(
    exchange: &mut Exchange,
    sessions: &Sessions,
    (read, mut room): Reading,
    deadline: &Deadline,
) -> Result<Tried, ErrorResponse> {
    let context = ReadContext { deadline: Some(deadline.clone()), ..read.context(exchange.recorder()) };
    let consistency = read.consistency;
    let command = Arc::clone(read.command());
    let runtime = tokio::runtime::Handle::current();
    let coordinator = Arc::clone(&sessions.coordinator);
    let (env, watched) = (sessions.node.env.clone(), context.clone());
    let job = move |begun: u64| {
        let mut body = Blocks::default();
        let outcome = read.run_blocking(&coordinator, &runtime, &context, &mut body, &mut room);
        let local_nanos = env.clock.monotonic_nanos().saturating_sub(begun);
        ((read, room), body, outcome.map(|tally| Tally { local_nanos, ..tally }))
    };
    let (reading, body, outcome) = match exchange.run_on_reader(deadline, job).await {
        Ok(done) => done,
        Err(error) => {
            let refusal = error::of_readers(error, consistency, &sessions.node);
            account::fail(exchange, &command, &watched, &refusal);
            return Err(refusal);
        }
    };
    let tried = match outcome {
        Ok(tally) => {
            account::warn_about_tombstones(exchange, tally);
            explain::trace(exchange, watched.recorder.as_deref());
            let ended = exchange.sessions.node.env.clock.monotonic_nanos();
            account::conclude(exchange, &reading.0, tally, &tally.cost_of(&watched), ended);
            Ok(body)
        }
        Err(stop) => Err((stop, watched)),
    };
    Ok((reading, tried))
}

/// What EXPLAIN ANALYZE finds out.
pub(in crate::session) struct Analysis {
    /// What the whole read cost.
    pub(in crate::session) cost: CostSnapshot,
    /// What each source did.
    pub(in crate::session) recorder: Arc<Recorder>,
    /// Time that it took on its thread.
    pub(in crate::session) read_nanos: u64,
    /// Whether more pages follow.
    pub(in crate::session) has_more: bool,
}

/// Carries out the read of a statement, one page of it, and throws its rows away.
pub(in crate::session) async fn analyze(
    exchange: &mut Exchange,
    statement: &Arc<Statement>,
    select: BoundSelect,
    options: &Options,
) -> Result<Analysis, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let statement = Arc::clone(statement);
    let mut read = read_of(exchange, statement, Box::new(select), options, Metadata::Skip)?;
    read.columns = Some(encode_columns(exchange.version, read.select.columns()));
    let mut deadline = read.deadline(exchange);
    let mut room = AnswerRoom::new(&exchange.connection);
    loop {
        let env = sessions.node.env.clone();
        let recorder = exchange.new_recorder();
        let context =
            ReadContext { deadline: Some(deadline.clone()), ..read.context(Some(Arc::clone(&recorder))) };
        let consistency = read.consistency;
        let runtime = tokio::runtime::Handle::current();
        let coordinator = Arc::clone(&sessions.coordinator);
        let job = move |begun: u64| {
            let mut body = Blocks::default();
            let outcome = read.run_blocking(&coordinator, &runtime, &context, &mut body, &mut room);
            let read_nanos = env.clock.monotonic_nanos().saturating_sub(begun);
            let analysis = outcome.map(|tally| Analysis {
                cost: tally.cost_of(&context),
                recorder,
                read_nanos,
                has_more: tally.has_more,
            });
            ((read, room), analysis)
        };
        let done = exchange.run_on_reader(&deadline, job).await;
        let (back, outcome) = done.map_err(|error| error::of_readers(error, consistency, &sessions.node))?;
        (read, room) = back;
        let stop = match outcome {
            Ok(analysis) => return Ok(analysis),
            Err(stop) => stop,
        };
        let compared = match stop {
            Stop::Await(name) => proofs::compared(exchange, &name, consistency, &deadline).await,
            Stop::NoRoom(no_room) => match wait_for_room(exchange, &mut room, no_room, &mut deadline).await {
                Ok(true) => Ok(()),
                // Nobody is told what follows.
                Ok(false) => Err(Stop::Move),
                Err(refusal) => Err(Stop::Refused(refusal)),
            },
            stop => Err(stop),
        };
        compared.map_err(|stop| stop.into_refusal(exchange))?;
    }
}

impl Read {
    /// The whole read, on a thread that may block.
    fn run_blocking(
        &self,
        coordinator: &Coordinator,
        runtime: &tokio::runtime::Handle,
        context: &ReadContext,
        body: &mut Blocks,
        room: &mut AnswerRoom,
    ) -> Result<Tally, Stop> {
        let start = |page, after| -> Result<Box<LiveRows>, Stop> {
            Ok(runtime.block_on(coordinator.read(self.request(page, after, context.clone())))?)
        };
        let mut extent = Extent::of(self.columns(), room)?;
        let mut writer = RowsWriter::in_blocks(body, self.columns(), self.metadata_mode());
        let mut shaper = self.select.shaper();
        if !self.select.is_grouped && !self.select.is_sorted {
            let mut rows = start(self.page, self.after.clone())?;
            let (mark, tally) = self.pull(&mut rows, &mut shaper, &mut writer, &mut extent)?;
            finish_shape(&mut shaper, &mut writer, &mut extent)?;
            let returned = returned(&writer);
            writer.finish(mark.as_deref());
            return Ok(Tally { returned, has_more: mark.is_some(), ..tally });
        }
        let limit = match &self.after {
            // A paging state knows no more than "no limit" above this.
            Some(state) if state.remaining < i32::MAX as u64 => state.remaining.min(shaper.limit()),
            _ => shaper.limit(),
        };
        shaper.set_limit(limit.min(self.page_groups));
        if let Some(state) = &self.after
            && state.remaining_in_partition < i32::MAX as u64
            && let Some(mark) = state.mark(self.command())
        {
            shaper.resume_partition(mark.key.key.0, state.remaining_in_partition);
        }
        // Pages of their own, so that no view of the table is held for as long as the whole read takes.
        let internal = PageLimits { rows: u64::MAX, bytes: PAGE_BYTES_MAX, tombstones: u64::MAX };
        let (mut total, mut after, mut last) = (Tally::default(), self.after.clone(), None);
        loop {
            let mut rows = start(internal, after)?;
            let (tally, is_satisfied) =
                self.pull_grouped(&mut rows, &mut last, &mut shaper, &mut writer, &mut extent)?;
            total.rows += tally.rows;
            total.tombstones += tally.tombstones;
            after = match rows.mark() {
                Some(mark) if !is_satisfied => Some(PagingState::of(self.command(), &mark)),
                _ => break,
            };
        }
        finish_shape(&mut shaper, &mut writer, &mut extent)?;
        let left = limit.saturating_sub(writer.row_count() as u64);
        let is_full = writer.row_count() as u64 >= self.page_groups;
        let state = last.filter(|_| is_full && left > 0).map(|mark| {
            let state = PagingState {
                remaining: left,
                remaining_in_partition: shaper.left_in_partition(),
                ..PagingState::of(self.command(), &mark)
            };
            state.encode(options::paging_version(self.version))
        });
        total.returned = returned(&writer);
        total.has_more = state.is_some();
        writer.finish(state.as_deref());
        Ok(total)
    }
}
