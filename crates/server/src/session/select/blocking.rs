//! A read that may wait: the coordinator carries it out, on the pool of readers, the only threads here that
//! wait for the disk.

use std::sync::Arc;

use coordinator::{Interruption, Pages, PagingState, ReadWork};
use cql::plan::BoundSelect;
use env::Env;
use partition::{CostSnapshot, Deadline, NanoClock, PageLimits, PageMark, ReadContext, Recorder};
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
use crate::session::{Answer, Exchange, PAGE_BYTES_MAX, error, explain};

/// A read, wherever it is carried out.
struct Reading {
    read: Read,
    /// Room for its answer.
    room: AnswerRoom,
    deadline: Deadline,
    env: Env,
    /// The clock of recorders of sources, where somebody wants to know of those.
    recording: Option<NanoClock>,
}

impl Reading {
    fn new(exchange: &Exchange, read: Read, is_recorded: bool) -> Reading {
        let sessions = &exchange.sessions;
        Reading {
            room: AnswerRoom::new(&exchange.connection),
            deadline: read.deadline(exchange),
            env: sessions.node.env.clone(),
            recording: is_recorded.then(|| Arc::clone(&sessions.clock)),
            read,
        }
    }
}

impl ReadWork for Reading {
    type Output = (Blocks, Tally);
    type Error = Stop;

    fn begin(&mut self) -> ReadContext {
        let recorder = self.recording.as_ref().map(|clock| Recorder::new(Arc::clone(clock)));
        ReadContext { deadline: Some(self.deadline.clone()), ..self.read.context(recorder) }
    }

    async fn carry_out(
        mut self,
        context: ReadContext,
        pages: Pages,
    ) -> (Self, Result<(Blocks, Tally), Stop>) {
        let begun = self.env.clock.monotonic_nanos();
        let mut body = Blocks::default();
        let outcome = self.read.answer(&pages, &context, &mut body, &mut self.room).await;
        let local_nanos = self.env.clock.monotonic_nanos().saturating_sub(begun);
        (self, outcome.map(|tally| (body, Tally { local_nanos, ..tally })))
    }

    fn interruption(stop: Stop) -> Result<Interruption, Stop> {
        match stop {
            Stop::Interrupted(interruption) => Ok(interruption),
            other => Err(other),
        }
    }
}

/// What a read came to.
struct Done {
    reading: Reading,
    body: Blocks,
    tally: Tally,
    context: ReadContext,
}

/// Carries a read out, and waits for room for its answer where there is none; `None` when the client is gone.
async fn carry_out(exchange: &mut Exchange, mut reading: Reading) -> Result<Option<Done>, ErrorResponse> {
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let command = Arc::clone(reading.read.command());
    let refusal = loop {
        let (consistency, deadline) = (reading.read.consistency, reading.deadline.clone());
        let (back, outcome) = coordinator.read(reading, consistency, Some(&deadline), exchange).await;
        let stop = match (back, outcome) {
            (Some(reading), Ok((body, tally))) => {
                let context = exchange.last_read.take().unwrap_or_default();
                return Ok(Some(Done { reading, body, tally, context }));
            }
            (Some(mut back), Err(Stop::NoRoom(no_room))) => {
                match wait_for_room(exchange, &mut back, no_room).await {
                    Ok(true) => {
                        reading = back;
                        continue;
                    }
                    Ok(false) => return Ok(None),
                    Err(refusal) => Stop::Refused(refusal),
                }
            }
            (None, Ok(_)) => Stop::Refused(error::internal("a read was lost")),
            (_, Err(stop)) => stop,
        };
        break stop.into_refusal(exchange);
    };
    let context = exchange.last_read.take().unwrap_or_default();
    account::fail(exchange, &command, &context, &refusal);
    Err(refusal)
}

/// Reads where it may wait.
pub(in crate::session) async fn on_reader(
    exchange: &mut Exchange,
    read: Read,
) -> Result<Answer, ErrorResponse> {
    if !exchange.connection.room().await {
        return Ok(Answer::Sent);
    }
    let reading = Reading::new(exchange, read, exchange.trace.is_some());
    let Some(Done { mut reading, body, tally, context }) = carry_out(exchange, reading).await? else {
        return Ok(Answer::Sent);
    };
    account::warn_about_tombstones(exchange, tally);
    explain::trace(exchange, context.recorder.as_deref());
    let ended = exchange.sessions.node.env.clock.monotonic_nanos();
    account::conclude(exchange, &reading.read, tally, &tally.cost_of(&context), ended);
    reading.room.shrink(body.length() as u64);
    Ok(Answer::Rows(body, reading.room))
}

/// Waits for room for an answer; `false` when the client is gone.
async fn wait_for_room(
    exchange: &mut Exchange,
    reading: &mut Reading,
    no_room: NoRoom,
) -> Result<bool, ErrorResponse> {
    exchange.sessions.node.metrics.answers_without_room.add(1);
    exchange.note(|| "Waiting for memory for the answer".to_owned());
    // The client itself is waited for, as long as it takes, and no timeout runs meanwhile.
    let left = reading.deadline.left();
    if !reading.room.wait_for_turn().await {
        return Ok(false);
    }
    let clock = &exchange.sessions.clock;
    reading.deadline = Deadline::new(clock, clock().saturating_add(left.as_nanos() as u64));
    let tasks = &exchange.sessions.node.env.tasks;
    match tasks.timeout(reading.deadline.left(), reading.room.wait_for_room(no_room)).await {
        Ok(()) => Ok(true),
        Err(_) => Err(ErrorResponse::overloaded(
            "Answers that clients have not read yet take all the memory for answers \
             (native_transport_max_response_data_in_flight). Server is currently in an overloaded state and \
             cannot accept more requests.",
        )),
    }
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
    let statement = Arc::clone(statement);
    let mut read = read_of(exchange, statement, Box::new(select), options, Metadata::Skip)?;
    read.columns = Some(encode_columns(exchange.version, read.select.columns()));
    let reading = Reading::new(exchange, read, true);
    let Some(Done { tally, context, .. }) = carry_out(exchange, reading).await? else {
        // Nobody is told.
        return Err(error::internal("the client is gone"));
    };
    Ok(Analysis {
        cost: tally.cost_of(&context),
        recorder: context.recorder.unwrap_or_else(|| exchange.new_recorder()),
        read_nanos: tally.local_nanos,
        has_more: tally.has_more,
    })
}

impl Read {
    /// The whole read, on a thread that may block.
    async fn answer(
        &self,
        pages: &Pages,
        context: &ReadContext,
        body: &mut Blocks,
        room: &mut AnswerRoom,
    ) -> Result<Tally, Stop> {
        let open = |page, after| pages.open(self.request(page, after, context.clone()));
        let mut extent = Extent::of(self.columns(), room)?;
        let mut writer = RowsWriter::in_blocks(body, self.columns(), self.metadata_mode());
        let mut shaper = self.select.shaper();
        if !self.is_whole {
            let mut rows = open(self.page, self.after.clone()).await?;
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
            && state.is_limited_in_partition()
            && let Some(mark) = state.mark(self.command())
            && mark.clustering.is_some()
        {
            shaper.resume_partition(mark.key.key.0, state.remaining_in_partition);
        }
        // Pages of their own, so that no view of the table is held for as long as the whole read takes.
        let internal = PageLimits { rows: u64::MAX, bytes: PAGE_BYTES_MAX, tombstones: u64::MAX };
        let (mut total, mut after, mut last) = (Tally::default(), self.after.clone(), None);
        loop {
            let mut rows = open(internal, after).await?;
            let (tally, is_satisfied) =
                self.pull_grouped(&mut rows, &mut last, &mut shaper, &mut writer, &mut extent)?;
            total.rows += tally.rows;
            total.tombstones += tally.tombstones;
            after = rows.mark().and_then(|mark| PagingState::of(self.command(), &mark));
            if is_satisfied || after.is_none() {
                break;
            }
        }
        finish_shape(&mut shaper, &mut writer, &mut extent)?;
        let left = limit.saturating_sub(writer.row_count() as u64);
        let is_full = writer.row_count() as u64 >= self.page_groups;
        let state = last.filter(|_| is_full && left > 0).and_then(|mark| {
            // A group of the partition was returned.
            let remaining_in_partition = shaper.left_in_partition().min(u64::MAX - 1);
            let mark = PageMark { remaining: left, remaining_in_partition, ..mark };
            let mut state = PagingState::of(self.command(), &mark)?;
            if state.row.is_none() && state.remaining_in_partition > 0 {
                state.remaining_in_partition = shaper.limit_per_partition();
            }
            Some(state)
        });
        let state = state.map(|state| state.encode(options::paging_version(self.version)));
        total.returned = returned(&writer);
        total.has_more = state.is_some();
        writer.finish(state.as_deref());
        Ok(total)
    }
}
