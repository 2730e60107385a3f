//! SELECT: from a bound statement to rows in the answer.
//!
//! 1. A read of few partitions by key is tried in place, on the network thread: it may not wait for the disk, and
//!    it may not grow beyond [`IN_PLACE_ROWS`] and its companions. If it stays within them its rows were
//!    written straight into the connection's buffer.
//! 2. Otherwise nothing of it is sent, and the whole read runs on the pool of readers. It waits there until the
//!    client has read most of its earlier answers, so that answers do not pile up in memory.
//! 3. A page ends at the rows the client asked for, at [`super::PAGE_BYTES_MAX`], or after
//!    `tombstone_failure_threshold` tombstones: deleted data makes pages short, never an error.
//! 4. Grouped, aggregated and sorted results are made of as many internal pages as it takes. A page of groups ends
//!    before the row that would begin one group too many; sorted results are one page.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use coordinator::{Coordinator, CoordinatorError, PagingState, ReadRequest, ReplicaError};
use cql::plan::BoundSelect;
use cql::result::{ResultShaper, RowSink};
use model::command::{Consistency, PartitionSelection, ReadCommand};
use partition::{
    CostSnapshot, Deadline, LiveRows, PageLimits, PageMark, ReadContext, ReadError, Recorder, SourceRecord,
};
use protocol::response::error::ErrorResponse;
use protocol::response::rows::{EncodedColumns, MetadataMode, RowsWriter};
use protocol::{Opcode, ProtocolVersion};

use super::options::{self, Options};
use super::run::{Metadata, Work};
use super::statements::{Statement, encode_columns};
use super::{Answer, Exchange, PAGE_BYTES_MAX, Progress, RESULT_BYTES_MAX, error, explain};
use crate::metrics::ReadNumbers;
use crate::reads::{self, ReadRecord};

/// Rows of the longest answer that is made on a network thread.
const IN_PLACE_ROWS: u64 = 256;
/// Bytes of values of the longest answer that is made on a network thread.
const IN_PLACE_BYTES: u64 = 128 << 10;
/// Tombstones that a read on a network thread may meet.
const IN_PLACE_TOMBSTONES: u64 = 256;
/// Partitions that a read on a network thread may look for.
const IN_PLACE_KEYS: usize = 8;

/// One SELECT, ready to run anywhere.
pub(super) struct Read {
    statement: Arc<Statement>,
    select: Box<BoundSelect>,
    consistency: Consistency,
    page: PageLimits,
    /// Groups of a page, where rows are grouped.
    page_groups: u64,
    after: Option<PagingState>,
    metadata: Metadata,
    version: ProtocolVersion,
    /// The columns of its rows, where they are not those that the statement answers with.
    columns: Option<EncodedColumns>,
}

/// What a read came to, besides its rows.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rows: u64,
    tombstones: u64,
    /// Rows of the answer, and their bytes.
    returned: (u64, u64),
    has_more: bool,
    local_nanos: u64,
}

impl Tally {
    /// What the read cost, with what it came to.
    fn cost_of(&self, context: &ReadContext) -> CostSnapshot {
        let mut cost = context.total_cost();
        (cost.rows_returned, cost.returned_bytes) = self.returned;
        cost
    }
}

/// Why a read ended without its rows.
pub(super) enum Stop {
    /// It has to wait for the disk, or grew too long for the network thread.
    Move,
    /// The replicas did not deliver.
    Failed(CoordinatorError),
    /// The statement cannot be executed.
    Refused(ErrorResponse),
}

impl Stop {
    /// A failure while rows were pulled.
    pub(super) fn of_read(consistency: Consistency, cause: ReadError) -> Stop {
        Stop::from(CoordinatorError::of_read(consistency, 0, 1, 1, cause.into()))
    }

    /// The answer to the client.
    pub(super) fn into_refusal(self, exchange: &Exchange) -> ErrorResponse {
        match self {
            // Who may wait for the disk never gets here.
            Stop::Move => error::internal("a read that may block would block"),
            Stop::Refused(error) => error,
            Stop::Failed(failure) => error::of_coordinator(failure, &exchange.sessions.node),
        }
    }
}

impl From<CoordinatorError> for Stop {
    fn from(error: CoordinatorError) -> Stop {
        match error {
            CoordinatorError::ReadFailure { cause: ReplicaError::Read(ReadError::WouldBlock), .. } => {
                Stop::Move
            }
            other => Stop::Failed(other),
        }
    }
}

/// The read of a bound statement.
fn read_of(
    exchange: &Exchange,
    statement: Arc<Statement>,
    select: Box<BoundSelect>,
    options: &Options,
    metadata: Metadata,
) -> Result<Read, ErrorResponse> {
    let sessions = &exchange.sessions;
    let after = options.after(exchange.version)?;
    let is_one_page = select.is_grouped || select.is_sorted;
    let has_pages_of_groups = select.has_groups() && !select.is_sorted;
    let page = match options.page_rows {
        None => PageLimits::NONE,
        Some(_) if is_one_page => PageLimits::NONE,
        Some(rows) => PageLimits {
            rows: u64::from(rows),
            bytes: PAGE_BYTES_MAX,
            tombstones: u64::from(sessions.node.config.settings.tombstone_failure_threshold).max(1),
        },
    };
    let page_groups = options.page_rows.filter(|_| has_pages_of_groups).map_or(u64::MAX, u64::from);
    Ok(Read {
        statement,
        select,
        consistency: options.consistency,
        page,
        page_groups,
        after,
        metadata,
        version: exchange.version,
        columns: None,
    })
}

/// Reads in place, if that may do.
pub(super) fn start(
    exchange: &mut Exchange,
    statement: Arc<Statement>,
    select: Box<BoundSelect>,
    options: Options,
    metadata: Metadata,
) -> Result<Progress, ErrorResponse> {
    let read = read_of(exchange, statement, select, &options, metadata)?;
    if read.select.is_grouped {
        warn_about_aggregation(exchange, read.command());
    }
    exchange.note(|| read.describe());
    if read.fits_in_place() {
        match in_place(exchange, &read) {
            Ok(()) => return Ok(Progress::Over(Answer::Sent)),
            Err(Stop::Move) => exchange.sessions.node.metrics.reads_moved.add(1),
            Err(stop) => return Err(stop.into_refusal(exchange)),
        }
        exchange.note(|| "Moved to a reader thread".to_owned());
    }
    Ok(Progress::Waits(Work::Read(Box::new(read))))
}

/// Runs the read on the pool of readers.
pub(super) async fn on_reader(exchange: &mut Exchange, read: Read) -> Result<Answer, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    if !exchange.connection.room().await {
        return Ok(Answer::Sent);
    }
    let deadline = read.deadline(exchange);
    let context = ReadContext { deadline: Some(deadline.clone()), ..read.context(exchange.recorder()) };
    let consistency = read.consistency;
    let (recorder, command) = (context.recorder.clone(), Arc::clone(read.command()));
    let runtime = tokio::runtime::Handle::current();
    let coordinator = Arc::clone(&sessions.coordinator);
    let env = sessions.node.env.clone();
    let job = move || {
        let started = env.clock.monotonic_nanos();
        let mut body = BytesMut::new();
        let outcome = read.run_blocking(&coordinator, &runtime, &context, &mut body);
        let local_nanos = env.clock.monotonic_nanos().saturating_sub(started);
        let outcome = match outcome {
            Ok(tally) => Ok((Tally { local_nanos, ..tally }, tally.cost_of(&context))),
            Err(stop) => Err((stop, context.total_cost())),
        };
        (read, body, outcome)
    };
    let (read, body, outcome) = match sessions.readers.run(&deadline, job).await {
        Ok(done) => done,
        Err(error) => {
            let refusal = error::of_readers(error, consistency, &sessions.node);
            let ended = sessions.node.env.clock.monotonic_nanos();
            remember(exchange, &command, &CostSnapshot::default(), ended, Some(&refusal));
            return Err(refusal);
        }
    };
    match outcome {
        Ok((tally, cost)) => {
            warn_about_tombstones(exchange, tally);
            explain::trace(exchange, recorder.as_deref());
            let ended = exchange.sessions.node.env.clock.monotonic_nanos();
            conclude(exchange, &read, tally, &cost, ended);
            Ok(Answer::Rows(body))
        }
        Err((stop, cost)) => {
            let refusal = stop.into_refusal(exchange);
            let ended = exchange.sessions.node.env.clock.monotonic_nanos();
            remember(exchange, &command, &cost, ended, Some(&refusal));
            Err(refusal)
        }
    }
}

/// What EXPLAIN ANALYZE finds out.
pub(super) struct Analysis {
    /// What the whole read cost.
    pub(super) cost: CostSnapshot,
    /// What each source did.
    pub(super) sources: Vec<SourceRecord>,
    /// Time until a reader thread took the read.
    pub(super) wait_nanos: u64,
    /// Time that it took there.
    pub(super) read_nanos: u64,
    /// Whether more pages follow.
    pub(super) has_more: bool,
}

/// Carries out the read of a statement, one page of it, and throws its rows away.
pub(super) async fn analyze(
    exchange: &Exchange,
    statement: &Arc<Statement>,
    select: BoundSelect,
    options: &Options,
) -> Result<Analysis, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let statement = Arc::clone(statement);
    let mut read = read_of(exchange, statement, Box::new(select), options, Metadata::Skip)?;
    read.columns = Some(encode_columns(exchange.version, read.select.columns()));
    let env = sessions.node.env.clone();
    let recorder = exchange.new_recorder();
    let deadline = read.deadline(exchange);
    let context =
        ReadContext { deadline: Some(deadline.clone()), ..read.context(Some(Arc::clone(&recorder))) };
    let consistency = read.consistency;
    let runtime = tokio::runtime::Handle::current();
    let coordinator = Arc::clone(&sessions.coordinator);
    let asked = env.clock.monotonic_nanos();
    let job = move || {
        let started = env.clock.monotonic_nanos();
        let outcome = read.run_blocking(&coordinator, &runtime, &context, &mut BytesMut::new());
        let ended = env.clock.monotonic_nanos();
        outcome.map(|tally| Analysis {
            cost: tally.cost_of(&context),
            sources: recorder.sources(),
            wait_nanos: started.saturating_sub(asked),
            read_nanos: ended.saturating_sub(started),
            has_more: tally.has_more,
        })
    };
    let done = sessions.readers.run(&deadline, job).await;
    let outcome = done.map_err(|error| error::of_readers(error, consistency, &sessions.node))?;
    outcome.map_err(|stop| stop.into_refusal(exchange))
}

/// Runs the read here and sends its rows, if it needs no disk and stays short.
fn in_place(exchange: &mut Exchange, read: &Read) -> Result<(), Stop> {
    let started = exchange.sessions.node.env.clock.monotonic_nanos();
    let context = ReadContext { may_block: false, ..read.context(exchange.recorder()) };
    let limits = PageLimits {
        rows: read.page.rows.min(IN_PLACE_ROWS),
        bytes: read.page.bytes.min(IN_PLACE_BYTES),
        tombstones: read.page.tombstones.min(IN_PLACE_TOMBSTONES),
    };
    let request = read.request(limits, read.after.clone(), context.clone());
    // A replica that cannot answer at once is waited for elsewhere.
    let Some(rows) = exchange.sessions.coordinator.read_at_once(request) else { return Err(Stop::Move) };
    let mut rows = rows?;
    let Some(reply) = exchange.reply.take() else { return Err(Stop::Move) };
    let mut tally = Tally::default();
    let sent = reply.send_in_place(Opcode::Result, |envelope| {
        let mut writer = read.writer(envelope.body());
        let mut shaper = read.select.shaper();
        let (mark, counted) = read.pull(&mut rows, &mut shaper, &mut writer)?;
        if mark.is_some() && counted.rows < read.page.rows {
            return Err(Stop::Move);
        }
        finish_shape(&mut shaper, &mut writer)?;
        tally = Tally { returned: returned(&writer), ..counted };
        writer.finish(mark.as_deref());
        Ok(exchange.extras())
    });
    match sent {
        Ok(()) => {
            // What the rows came to is counted when they are let go.
            drop(rows);
            let ended = exchange.sessions.node.env.clock.monotonic_nanos();
            tally.local_nanos = ended.saturating_sub(started);
            explain::trace(exchange, context.recorder.as_deref());
            conclude(exchange, read, tally, &tally.cost_of(&context), ended);
            Ok(())
        }
        Err((reply, stop)) => {
            exchange.reply = Some(reply);
            Err(stop)
        }
    }
}

fn finish_shape(shaper: &mut ResultShaper<'_>, writer: &mut RowsWriter<'_>) -> Result<(), Stop> {
    shaper.finish(&mut Sink(writer)).map_err(|error| Stop::Refused(error::of_cql(error)))
}

/// Rows of the answer so far, and their bytes.
fn returned(writer: &RowsWriter<'_>) -> (u64, u64) {
    (writer.row_count() as u64, writer.row_bytes() as u64)
}

/// Rows into the answer.
pub(super) struct Sink<'a, 'b>(pub(super) &'a mut RowsWriter<'b>);

impl RowSink for Sink<'_, '_> {
    #[inline]
    fn begin_row(&mut self) {}

    #[inline]
    fn value(&mut self, value: Option<&[u8]>) {
        self.0.value(value);
    }

    #[inline]
    fn end_row(&mut self) {
        self.0.end_row();
    }
}

impl Read {
    fn command(&self) -> &Arc<ReadCommand> {
        &self.select.command
    }

    /// Whether the read is worth a try on the network thread.
    fn fits_in_place(&self) -> bool {
        let command = self.command();
        let few_keys =
            matches!(&command.partitions, PartitionSelection::Keys(keys) if keys.len() <= IN_PLACE_KEYS);
        few_keys && command.row_filter.is_empty() && !self.select.is_grouped && !self.select.is_sorted
    }

    /// What accompanies the read, wherever it runs.
    fn context(&self, recorder: Option<Arc<Recorder>>) -> ReadContext {
        ReadContext { fill_cache: !self.select.bypasses_cache, recorder, ..ReadContext::default() }
    }

    fn request(&self, page: PageLimits, after: Option<PagingState>, context: ReadContext) -> ReadRequest {
        ReadRequest {
            command: Arc::clone(self.command()),
            consistency: self.consistency,
            page,
            after,
            context,
        }
    }

    fn columns(&self) -> &EncodedColumns {
        self.columns.as_ref().unwrap_or_else(|| self.statement.encoded_columns(self.version))
    }

    fn writer<'a>(&self, out: &'a mut BytesMut) -> RowsWriter<'a> {
        let mode = match self.metadata {
            Metadata::Full => MetadataMode::Full,
            Metadata::Skip => MetadataMode::Skip,
            Metadata::Changed => MetadataMode::Changed(&self.statement.result_metadata_id),
        };
        RowsWriter::new(out, self.columns(), mode)
    }

    /// Writes the rows of a page and says where the next one starts.
    fn pull(
        &self,
        rows: &mut LiveRows,
        shaper: &mut ResultShaper<'_>,
        writer: &mut RowsWriter<'_>,
    ) -> Result<(Option<Bytes>, Tally), Stop> {
        let (counted, is_satisfied) = self.pull_rows(rows, shaper, writer)?;
        let mark = if is_satisfied { None } else { rows.mark() };
        let version = options::paging_version(self.version);
        Ok((mark.map(|mark| PagingState::of(self.command(), &mark).encode(version)), counted))
    }

    /// Writes rows until the page is over or the shaper has enough (`true`).
    fn pull_rows(
        &self,
        rows: &mut LiveRows,
        shaper: &mut ResultShaper<'_>,
        writer: &mut RowsWriter<'_>,
    ) -> Result<(Tally, bool), Stop> {
        let mut tally = Tally::default();
        let mut is_satisfied = false;
        loop {
            let row = match rows.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(cause) => return Err(Stop::of_read(self.consistency, cause)),
            };
            tally.rows += 1;
            match shaper.push(&row, &mut Sink(writer)) {
                Ok(true) => {}
                Ok(false) => {
                    is_satisfied = true;
                    break;
                }
                Err(error) => return Err(Stop::Refused(error::of_cql(error))),
            }
            if writer.row_bytes() > RESULT_BYTES_MAX {
                return Err(Stop::Refused(ErrorResponse::invalid(format!(
                    "The result is larger than the {RESULT_BYTES_MAX} bytes of the largest frame; read it in pages"
                ))));
            }
        }
        tally.tombstones = rows.tombstones();
        Ok((tally, is_satisfied))
    }

    /// The whole read, on a thread that may block.
    fn run_blocking(
        &self,
        coordinator: &Coordinator,
        runtime: &tokio::runtime::Handle,
        context: &ReadContext,
        body: &mut BytesMut,
    ) -> Result<Tally, Stop> {
        let start = |page, after| -> Result<LiveRows, Stop> {
            Ok(runtime.block_on(coordinator.read(self.request(page, after, context.clone())))?)
        };
        let mut writer = self.writer(body);
        let mut shaper = self.select.shaper();
        if !self.select.is_grouped && !self.select.is_sorted {
            let mut rows = start(self.page, self.after.clone())?;
            let (mark, tally) = self.pull(&mut rows, &mut shaper, &mut writer)?;
            finish_shape(&mut shaper, &mut writer)?;
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
            let (tally, is_satisfied) = self.pull_grouped(&mut rows, &mut last, &mut shaper, &mut writer)?;
            total.rows += tally.rows;
            total.tombstones += tally.tombstones;
            after = match rows.mark() {
                Some(mark) if !is_satisfied => Some(PagingState::of(self.command(), &mark)),
                _ => break,
            };
        }
        finish_shape(&mut shaper, &mut writer)?;
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

    /// As [`Read::pull_rows`]; `last` is where the last row stands that belongs to a group of this page.
    fn pull_grouped(
        &self,
        rows: &mut LiveRows,
        last: &mut Option<PageMark>,
        shaper: &mut ResultShaper<'_>,
        writer: &mut RowsWriter<'_>,
    ) -> Result<(Tally, bool), Stop> {
        if self.page_groups == u64::MAX {
            return self.pull_rows(rows, shaper, writer);
        }
        let mut tally = Tally::default();
        let is_satisfied = loop {
            let row = match rows.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => break false,
                Err(cause) => return Err(Stop::of_read(self.consistency, cause)),
            };
            tally.rows += 1;
            match shaper.push(&row, &mut Sink(writer)) {
                Ok(true) => *last = rows.mark(),
                Ok(false) => break true,
                Err(error) => return Err(Stop::Refused(error::of_cql(error))),
            }
        };
        tally.tombstones = rows.tombstones();
        Ok((tally, is_satisfied))
    }

    /// When the client has waited for long enough.
    fn deadline(&self, exchange: &Exchange) -> Deadline {
        let settings = &exchange.sessions.node.config.settings;
        exchange.deadline(match self.is_scan() {
            true => settings.range_request_timeout,
            false => settings.read_request_timeout,
        })
    }

    fn is_scan(&self) -> bool {
        matches!(self.command().partitions, PartitionSelection::Range(_))
    }

    fn describe(&self) -> String {
        let table = &self.command().table;
        match &self.command().partitions {
            PartitionSelection::Keys(keys) if keys.len() == 1 => {
                format!("Executing single-partition query on {}", table.name)
            }
            PartitionSelection::Keys(keys) => {
                format!("Executing {} single-partition queries on {}", keys.len(), table.name)
            }
            PartitionSelection::Range(_) => format!("Executing range query on {}", table.name),
        }
    }
}

fn warn_about_aggregation(exchange: &mut Exchange, command: &ReadCommand) {
    match &command.partitions {
        PartitionSelection::Range(_) => {
            exchange.warn("Aggregation query used without partition key".to_owned());
        }
        PartitionSelection::Keys(keys) if keys.len() > 1 => {
            exchange.warn("Aggregation query used on multiple partition keys (IN restriction)".to_owned())
        }
        PartitionSelection::Keys(_) => {}
    }
}

fn warn_about_tombstones(exchange: &mut Exchange, tally: Tally) {
    let threshold = u64::from(exchange.sessions.node.config.settings.tombstone_warn_threshold);
    if tally.tombstones <= threshold {
        return;
    }
    let query: String = exchange.text.as_deref().unwrap_or_default().chars().take(512).collect();
    exchange.warn(format!(
        "Read {} live rows and {} tombstone cells for query {query} (see tombstone_warn_threshold)",
        tally.rows, tally.tombstones
    ));
}

/// Counts a read that was answered at `ended`, in nanoseconds of the clock, and keeps it for who watches.
fn conclude(exchange: &mut Exchange, read: &Read, tally: Tally, cost: &CostSnapshot, ended: u64) {
    exchange.ended_nanos = Some(ended);
    let total_nanos = remember(exchange, read.command(), cost, ended, None);
    exchange.sessions.node.metrics.table(&read.command().table).record_read(
        read.is_scan(),
        tally.local_nanos,
        total_nanos,
        &ReadNumbers { rows: tally.rows, tombstones: tally.tombstones, cost },
    );
    exchange.note(|| format!("Read {} live rows and {} tombstone cells", tally.rows, tally.tombstones));
    exchange.note(|| format!("Cost: {}", reads::cost_text(cost)));
}

/// Puts a read that ended at `ended` into the heat map, whether or not it came to an answer, and keeps it if it is a
/// sample or slow. Returns how long the request has taken.
fn remember(
    exchange: &mut Exchange,
    command: &ReadCommand,
    cost: &CostSnapshot,
    ended: u64,
    failure: Option<&ErrorResponse>,
) -> u64 {
    let node = &exchange.sessions.node;
    let total_nanos = ended.saturating_sub(exchange.started_nanos);
    // Without another look at the wall clock: `now_s` is when the statement was bound.
    let second = u64::from(command.now_s) + total_nanos / 1_000_000_000;
    let is_sample = node.metrics.reads.heat.count(second, total_nanos);
    let is_slow = node.is_slow(total_nanos);
    if is_sample || is_slow {
        let record = Arc::new(ReadRecord {
            at_micros: node.env.now_micros(),
            second,
            nanos: total_nanos,
            table: Some(Arc::clone(&command.table)),
            statement: exchange.text.as_ref().map(reads::bounded).unwrap_or_default(),
            keys: cql::explain::keys(&command.table, &command.partitions),
            client: exchange.connection.peer,
            cost: *cost,
            failure: failure.map(|error| error.message.clone()),
        });
        if is_sample {
            node.metrics.reads.heat.keep(&record);
        }
        exchange.slow = is_slow.then_some(record);
    }
    total_nanos
}
