//! INSERT, UPDATE, DELETE, batches of them, conditional ones, and TRUNCATE.
//!
//! 1. What has to be read first (elements of lists, conditions) is read: in place if it is in memory, else on the
//!    pool of readers.
//! 2. `cql` makes mutations of the statement and what was read.
//! 3. The coordinator keeps them; the client is answered when enough replicas did.

use std::sync::Arc;

use coordinator::{CasRequest, Coordinator, CoordinatorError, ReadRequest, ReplicaError, WriteType};
use cql::ast::BatchKind;
use cql::error::CqlError;
use cql::plan::{BoundBatch, BoundWrite, CasOutcome, CasPlan, RowsRead};
use model::command::{Consistency, ReadCommand};
use model::{Mutation, TableSchema};
use partition::{Deadline, LiveRows, PageLimits, ReadContext};
use protocol::response::blocks::Blocks;
use protocol::response::error::ErrorResponse;
use protocol::response::rows::{MetadataMode, RowsWriter};
use tokio::runtime::Handle;

use super::options::Options;
use super::readers::ReaderError;
use super::select::{Sink, Stop};
use super::statements::encode_columns;
use super::{Answer, Exchange, error, proofs};
use crate::net::AnswerRoom;

/// An unconditional write of one table.
pub(super) async fn single(
    exchange: &mut Exchange,
    write: BoundWrite,
    options: &Options,
) -> Result<Answer, ErrorResponse> {
    let rows = read_before(exchange, &write, options).await?;
    let mutations = substantial(write.mutations(&rows).map_err(error::of_cql)?);
    exchange.note(|| format!("Writing {} mutations to {}", mutations.len(), write.table.name));
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let written = if write.is_counter {
        let again = || write.mutations(&rows).map(substantial);
        write_counters(exchange, mutations, again, options.consistency).await?
    } else {
        let kind = if mutations.len() > 1 { WriteType::UnloggedBatch } else { WriteType::Simple };
        let deadline = exchange.write_deadline();
        coordinator.write(mutations, options.consistency, kind, Some(&deadline)).await
    };
    written.map_err(|failure| refusal(exchange, failure))?;
    record(exchange, &[&write.table]);
    Ok(Answer::VOID)
}

/// Unconditional writes that belong together.
pub(super) async fn batch(
    exchange: &mut Exchange,
    batch: BoundBatch,
    options: &Options,
) -> Result<Answer, ErrorResponse> {
    let mut rows = Vec::with_capacity(batch.writes.len());
    for write in &batch.writes {
        rows.push(read_before(exchange, write, options).await?);
    }
    let (batch, rows) = (Arc::new(batch), Arc::new(rows));
    let mutations = substantial(merged(exchange, &batch, &rows, options).await?);
    check_size(exchange, &batch, &mutations)?;
    count_partitions(exchange, batch.kind, &mutations);
    exchange.note(|| format!("Writing a batch of {} mutations", mutations.len()));
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let consistency = options.consistency;
    let has_counters = batch.kind == BatchKind::Counter || batch.writes.iter().any(|write| write.is_counter);
    let written = if has_counters {
        let again = || batch.mutations(&rows).map(substantial);
        write_counters(exchange, mutations, again, consistency).await?
    } else {
        let deadline = exchange.write_deadline();
        match batch.kind {
            BatchKind::Logged => {
                coordinator.write_logged_batch(mutations, consistency, Some(&deadline)).await
            }
            _ => coordinator.write(mutations, consistency, WriteType::UnloggedBatch, Some(&deadline)).await,
        }
    };
    written.map_err(|failure| refusal(exchange, failure))?;
    record(exchange, &tables_of(&batch));
    Ok(Answer::VOID)
}

/// Writes whose mutations are merged on a network thread.
const MERGED_IN_PLACE: usize = 512;

/// The mutations of a batch; those of a long one are made on the pool of readers.
async fn merged(
    exchange: &mut Exchange,
    batch: &Arc<BoundBatch>,
    rows: &Arc<Vec<RowsRead>>,
    options: &Options,
) -> Result<Vec<Mutation>, ErrorResponse> {
    if batch.writes.len() <= MERGED_IN_PLACE {
        return batch.mutations(rows).map_err(error::of_cql);
    }
    let deadline = exchange.write_deadline();
    let (batch, rows) = (Arc::clone(batch), Arc::clone(rows));
    let done = exchange.run_on_reader(&deadline, move |_| batch.mutations(&rows)).await;
    let made =
        done.map_err(|error| error::of_readers(error, options.consistency, &exchange.sessions.node))?;
    made.map_err(error::of_cql)
}

/// Writes under conditions.
pub(super) async fn conditional(
    exchange: &mut Exchange,
    plan: CasPlan,
    options: &Options,
) -> Result<Answer, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let plan = Arc::new(plan);
    let settings = &sessions.node.config.settings;
    let limits = CasLimits {
        consistency: options.consistency,
        serial_consistency: options.serial_consistency,
        read: exchange.read_deadline(),
        contention: exchange.deadline(settings.cas_contention_timeout),
        write: exchange.write_deadline(),
    };
    exchange.note(|| format!("Evaluating conditions on {}", plan.table.name));
    let mut may_block = false;
    let outcome = loop {
        let tried = match may_block {
            false => decide_and_write(&sessions.coordinator, &plan, &limits, false).await,
            true => decide_on_reader(exchange, &plan, &limits).await?,
        };
        match tried {
            Err(Stop::Move) if !may_block => {}
            // Nothing was decided yet.
            Err(Stop::Await(name)) => {
                let consistency = limits.serial_consistency;
                if let Err(stop) = proofs::compared(exchange, &name, consistency, &limits.read).await {
                    break Err(stop);
                }
            }
            other => break other,
        }
        may_block = true;
    };
    let (outcome, rows) = outcome.map_err(|stop| stop.into_refusal(exchange))?;
    exchange.note(|| format!("Conditions hold: {}", outcome.is_applied()));
    record(exchange, &[&plan.table]);
    let columns = encode_columns(exchange.version, &plan.result_columns(&outcome, &rows));
    let mut body = Blocks::default();
    let mut writer = RowsWriter::in_blocks(&mut body, &columns, MetadataMode::Full);
    plan.write_result(&outcome, &rows, &mut Sink(&mut writer));
    writer.finish(None);
    // A few rows, which are there already.
    Ok(Answer::Rows(body, AnswerRoom::new(&exchange.connection)))
}

/// As [`decide_and_write`], on the pool of readers.
async fn decide_on_reader(
    exchange: &mut Exchange,
    plan: &Arc<CasPlan>,
    limits: &CasLimits,
) -> Result<Decided, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let (coordinator, runtime) = (Arc::clone(&sessions.coordinator), Handle::current());
    let (plan, limits) = (Arc::clone(plan), limits.clone());
    let (last, serial) = (limits.last(), limits.serial_consistency);
    let job = move |_| runtime.block_on(decide_and_write(&coordinator, &plan, &limits, true));
    let done = exchange.run_on_reader(&last, job).await;
    done.map_err(|error| match error {
        // Nobody knows how far it came.
        ReaderError::TimedOut => {
            refusal(exchange, CoordinatorError::CasTimeout { consistency: serial, block_for: 1 })
        }
        error => error::of_readers(error, serial, &sessions.node),
    })
}

/// Empties a table.
pub(super) async fn truncate(
    exchange: &mut Exchange,
    table: Arc<TableSchema>,
) -> Result<Answer, ErrorResponse> {
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let left = exchange.deadline(exchange.sessions.node.config.settings.truncate_request_timeout).left();
    // A truncation that is late goes on: it is under way on a thread of its own.
    let truncated = tokio::time::timeout(left, coordinator.truncate(table)).await.unwrap_or_else(|_| {
        let late = "Truncate timed out - received only 0 responses";
        Err(CoordinatorError::Truncate(ReplicaError::Write(late.to_owned())))
    });
    truncated.map_err(|failure| refusal(exchange, failure))?;
    Ok(Answer::VOID)
}

/// Writes counters. What they are to be added to is read before anything is written: where that has to wait until an SSTable was
/// compared, all is begun anew with the mutations that `again` makes.
async fn write_counters(
    exchange: &mut Exchange,
    mutations: Vec<Mutation>,
    again: impl Fn() -> Result<Vec<Mutation>, CqlError>,
    consistency: Consistency,
) -> Result<Result<(), CoordinatorError>, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let deadline = counter_deadline(exchange);
    let mut mutations = mutations;
    loop {
        let written = sessions.coordinator.write_counters(mutations, consistency, Some(&deadline)).await;
        let Some(name) = written.as_ref().err().and_then(proofs::awaited) else { return Ok(written) };
        match proofs::compared(exchange, name, consistency, &deadline).await {
            Ok(()) => {}
            Err(Stop::Failed(CoordinatorError::ReadTimeout { consistency, received, block_for })) => {
                let write_type = WriteType::Counter;
                return Ok(Err(CoordinatorError::WriteTimeout {
                    consistency,
                    received,
                    block_for,
                    write_type,
                }));
            }
            Err(stop) => return Err(stop.into_refusal(exchange)),
        }
        mutations = again().map_err(error::of_cql)?;
    }
}

fn counter_deadline(exchange: &Exchange) -> Deadline {
    exchange.deadline(exchange.sessions.node.config.settings.counter_write_request_timeout)
}

/// What a conditional write must reach, and until when.
#[derive(Clone)]
struct CasLimits {
    consistency: Consistency,
    serial_consistency: Consistency,
    contention: Deadline,
    read: Deadline,
    write: Deadline,
}

impl CasLimits {
    /// When nobody waits any more.
    fn last(&self) -> Deadline {
        let later = |a: &Deadline, b: &Deadline| if a.left() >= b.left() { a.clone() } else { b.clone() };
        later(&later(&self.read, &self.write), &self.contention)
    }
}

fn refusal(exchange: &Exchange, failure: CoordinatorError) -> ErrorResponse {
    error::of_coordinator(failure, &exchange.sessions.node)
}

/// What came of a decision.
type Decided = Result<(CasOutcome, RowsRead), Stop>;

/// Reads what the conditions are about, decides, and writes.
async fn decide_and_write(
    coordinator: &Coordinator,
    plan: &CasPlan,
    limits: &CasLimits,
    may_block: bool,
) -> Decided {
    let serial_consistency = limits.serial_consistency;
    let request = CasRequest {
        key: plan.key.clone(),
        read: plan.read.clone(),
        consistency: limits.consistency,
        serial_consistency,
        context: ReadContext { may_block, deadline: Some(limits.read.clone()), ..ReadContext::default() },
        contention_deadline: Some(limits.contention.clone()),
        write_deadline: Some(limits.write.clone()),
    };
    let mut decided = None;
    let decide = |rows: Box<LiveRows>, timestamp: i64| -> Result<Option<Vec<Mutation>>, Stop> {
        let rows = gather(rows, serial_consistency)?;
        let outcome = plan.evaluate(&rows, timestamp).map_err(|e| Stop::Refused(error::of_cql(e)))?;
        let mutations = match &outcome {
            CasOutcome::Applied(mutation) => Some(substantial(vec![mutation.clone()])),
            CasOutcome::NotApplied => None,
        };
        decided = Some((outcome, rows));
        Ok(mutations)
    };
    coordinator.cas(request, decide).await.map_err(named_as_quorum)?;
    decided.ok_or_else(|| Stop::Refused(error::internal("a conditional write was not decided")))
}

/// Too few replicas for a decision are told in terms of the quorum that it takes, as Cassandra tells it.
fn named_as_quorum(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(CoordinatorError::Unavailable { consistency, required, alive }) => {
            let consistency = match consistency {
                Consistency::Serial => Consistency::Quorum,
                Consistency::LocalSerial => Consistency::LocalQuorum,
                other => other,
            };
            Stop::Failed(CoordinatorError::Unavailable { consistency, required, alive })
        }
        other => other,
    }
}

/// The rows that a write wants to know of.
async fn read_before(
    exchange: &mut Exchange,
    write: &BoundWrite,
    options: &Options,
) -> Result<RowsRead, ErrorResponse> {
    let Some(command) = &write.read_before else { return Ok(RowsRead::new()) };
    let sessions = Arc::clone(&exchange.sessions);
    let command = Arc::new(command.clone());
    let consistency = match options.consistency {
        Consistency::Any => Consistency::One,
        level => level,
    };
    exchange.note(|| format!("Reading what is there in {}", write.table.name));
    let deadline = exchange.read_deadline();
    let in_place = ReadContext { may_block: false, ..ReadContext::default() };
    let mut rows = read(&sessions.coordinator, Arc::clone(&command), consistency, in_place).await;
    loop {
        match rows {
            Err(Stop::Move) => {}
            Err(Stop::Await(name)) => {
                let compared = proofs::compared(exchange, &name, consistency, &deadline).await;
                compared.map_err(|stop| stop.into_refusal(exchange))?;
            }
            other => break other.map_err(|stop| stop.into_refusal(exchange)),
        }
        let (coordinator, runtime) = (Arc::clone(&sessions.coordinator), Handle::current());
        let context = ReadContext { deadline: Some(deadline.clone()), ..ReadContext::default() };
        let command = Arc::clone(&command);
        let job = move |_| runtime.block_on(read(&coordinator, command, consistency, context));
        let done = exchange.run_on_reader(&deadline, job).await;
        rows = done.map_err(|error| error::of_readers(error, consistency, &sessions.node))?;
    }
}

async fn read(
    coordinator: &Coordinator,
    command: Arc<ReadCommand>,
    consistency: Consistency,
    context: ReadContext,
) -> Result<RowsRead, Stop> {
    let request = ReadRequest { command, consistency, page: PageLimits::NONE, after: None, context };
    gather(coordinator.read(request).await?, consistency)
}

/// All rows, and the static row also where it stands alone.
fn gather(rows: Box<LiveRows>, consistency: Consistency) -> Result<RowsRead, Stop> {
    let mut rows = rows.with_lone_statics();
    let mut found = RowsRead::new();
    while let Some(row) = rows.next_row().map_err(|cause| Stop::of_read(consistency, cause))? {
        found.push(&row);
    }
    Ok(found)
}

/// Without updates that change nothing.
fn substantial(mut mutations: Vec<Mutation>) -> Vec<Mutation> {
    mutations.iter_mut().for_each(|mutation| mutation.updates.retain(|update| !update.is_empty()));
    mutations.retain(|mutation| !mutation.updates.is_empty());
    mutations
}

fn tables_of(batch: &BoundBatch) -> Vec<&Arc<TableSchema>> {
    let mut tables: Vec<&Arc<TableSchema>> = batch.writes.iter().map(|write| &write.table).collect();
    tables.sort_by_key(|table| table.id);
    tables.dedup_by_key(|table| table.id);
    tables
}

fn names_of(batch: &BoundBatch) -> String {
    let mut names: Vec<String> =
        tables_of(batch).iter().map(|table| format!("{}.{}", table.keyspace, table.name)).collect();
    names.sort();
    names.join(", ")
}

/// Warns of large batches and of unlogged ones over many partitions, and refuses the largest.
fn check_size(
    exchange: &mut Exchange,
    batch: &BoundBatch,
    mutations: &[Mutation],
) -> Result<(), ErrorResponse> {
    // A single mutation is no batch, however it came.
    if mutations.len() <= 1 {
        return Ok(());
    }
    let node = Arc::clone(&exchange.sessions.node);
    let settings = &node.config.settings;
    let updates = mutations.iter().flat_map(|mutation| &mutation.updates);
    let size: u64 = updates.map(|update| update.data_size() as u64).sum();
    let (warn, fail) = (settings.batch_size_warn_threshold.0, settings.batch_size_fail_threshold.0);
    let over = |threshold: u64| {
        format!(
            "Batch for [{}] is of size {size}, exceeding specified threshold of {threshold} by {}.",
            names_of(batch),
            size - threshold
        )
    };
    if size > fail {
        let words = format!("{} (see batch_size_fail_threshold)", over(fail));
        tracing::error!("{words}");
        exchange.note(|| words);
        return Err(ErrorResponse::invalid("Batch too large"));
    }
    if size > warn {
        exchange.warn(over(warn));
    }
    let partitions = mutations.len();
    if batch.kind == BatchKind::Unlogged
        && partitions > settings.unlogged_batch_across_partitions_warn_threshold as usize
    {
        let tables = tables_of(batch).len();
        exchange.warn(format!(
            "Unlogged batch covering {partitions} partitions detected against table{} [{}]. You should use a logged \
             batch for atomicity, or asynchronous writes for performance.",
            if tables == 1 { "" } else { "s" },
            names_of(batch)
        ));
    }
    Ok(())
}

fn count_partitions(exchange: &Exchange, kind: BatchKind, mutations: &[Mutation]) {
    let metrics = &exchange.sessions.node.metrics;
    let histogram = match kind {
        BatchKind::Logged => &metrics.partitions_per_logged_batch,
        BatchKind::Unlogged => &metrics.partitions_per_unlogged_batch,
        BatchKind::Counter => &metrics.partitions_per_counter_batch,
    };
    histogram.record(mutations.len() as u64);
}

/// Counts a whole request that wrote to `tables`.
fn record(exchange: &Exchange, tables: &[&Arc<TableSchema>]) {
    let node = &exchange.sessions.node;
    let nanos = node.env.clock.monotonic_nanos().saturating_sub(exchange.started_nanos);
    tables.iter().for_each(|table| node.metrics.table(table).coordinator_write.record(nanos));
}
