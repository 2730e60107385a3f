//! INSERT, UPDATE, DELETE, batches of them, conditional ones, and TRUNCATE.
//!
//! 1. What has to be read first (elements of lists, conditions) is read: in place if it is in memory, else by
//!    a thread that may wait.
//! 2. `cql` makes mutations of the statement and what was read.
//! 3. The coordinator keeps them; the client is answered when enough replicas did.

use std::sync::Arc;

use coordinator::{CasRequest, CoordinatorError, Page, PullError, ReadRequest, ReplicaError};
use cql::ast::BatchKind;
use cql::plan::{BoundBatch, BoundWrite, CasOutcome, CasPlan, RowsRead};
use model::{Consistency, DecoratedKey, Mutation, TableSchema, WriteType};
use partition::{Deadline, ReadContext};
use protocol::response::blocks::Blocks;
use protocol::response::error::ErrorResponse;
use protocol::response::rows::{MetadataMode, RowsWriter};

use super::options::Options;
use super::select::{Sink, Stop};
use super::statements::encode_columns;
use super::{Answer, Exchange, error};
use crate::net::AnswerRoom;
use crate::timeouts::TimeoutKind;

/// An unconditional write of one table.
pub(super) async fn single(
    exchange: &mut Exchange,
    write: &BoundWrite,
    options: &Options,
) -> Result<Answer, ErrorResponse> {
    check_level(write, options.consistency)?;
    let rows = read_before(exchange, write, options).await?;
    let made = write.mutations(&rows);
    let mutations = substantial(exchange.guarded(options.bind.guard.as_deref(), made)?);
    exchange.guard_disks(partitions_of(&mutations))?;
    exchange.note(|| format!("Writing {} mutations to {}", mutations.len(), write.table.name));
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let written = if write.is_counter {
        write_counters(exchange, mutations, options.consistency).await
    } else {
        let kind = if mutations.len() > 1 { WriteType::UnloggedBatch } else { WriteType::Simple };
        let deadline = exchange.write_deadline();
        coordinator.write(mutations, options.consistency, kind, Some(&deadline)).await
    };
    written.map_err(|failure| refusal(exchange, failure))?;
    record(exchange, &[&write.table]);
    Ok(Answer::VOID)
}

/// Levels that a write without conditions does not have. A batch may have them, as in Cassandra.
fn check_level(write: &BoundWrite, level: Consistency) -> Result<(), ErrorResponse> {
    let told = match level {
        Consistency::Any if write.is_counter => {
            format!("Consistency level ANY is not yet supported for counter table {}", write.table.name)
        }
        Consistency::Serial | Consistency::LocalSerial if write.is_counter => {
            "Counter operations are inherently non-serializable".to_owned()
        }
        Consistency::Serial | Consistency::LocalSerial => {
            "You must use conditional updates for serializable writes".to_owned()
        }
        _ => return Ok(()),
    };
    Err(ErrorResponse::invalid(told))
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
    let made = merged(exchange, &batch, &rows, options).await?;
    let mutations = substantial(exchange.guarded(options.bind.guard.as_deref(), made)?);
    exchange.guard_disks(partitions_of(&mutations))?;
    warn_of_short_log(exchange, &batch);
    check_size(exchange, &batch, &mutations)?;
    count_partitions(exchange, batch.kind, &mutations);
    exchange.note(|| format!("Writing a batch of {} mutations", mutations.len()));
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let consistency = options.consistency;
    let has_counters = batch.kind == BatchKind::Counter || batch.writes.iter().any(|write| write.is_counter);
    let written = if has_counters {
        write_counters(exchange, mutations, consistency).await
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
) -> Result<cql::error::Result<Vec<Mutation>>, ErrorResponse> {
    if batch.writes.len() <= MERGED_IN_PLACE {
        return Ok(batch.mutations(rows));
    }
    let deadline = exchange.write_deadline();
    let (batch, rows) = (Arc::clone(batch), Arc::clone(rows));
    let readers = Arc::clone(exchange.sessions.coordinator.local().readers());
    let done = readers.run_observed(Some(&deadline), exchange, move |_| batch.mutations(&rows)).await;
    done.map_err(|error| error::of_readers(error, options.consistency, &exchange.sessions.node))
}

/// Writes under conditions.
pub(super) async fn conditional(
    exchange: &mut Exchange,
    plan: CasPlan,
    options: &Options,
) -> Result<Answer, ErrorResponse> {
    let sessions = Arc::clone(&exchange.sessions);
    let plan = Arc::new(plan);
    let limits = CasLimits {
        consistency: options.consistency,
        serial_consistency: options.serial_consistency,
        read: exchange.read_deadline(),
        contention: exchange.deadline(sessions.node.timeouts.get(TimeoutKind::CasContention)),
        write: exchange.write_deadline(),
    };
    if plan.is_batch {
        // As in Cassandra, which lets single ones through.
        exchange.guard_disks(std::iter::once((plan.table.keyspace.as_str(), &plan.key)))?;
    }
    exchange.note(|| format!("Evaluating conditions on {}", plan.table.name));
    let outcome = decide_and_write(exchange, &plan, limits).await;
    exchange.guarded(options.bind.guard.as_deref(), Ok(()))?;
    let (outcome, rows) = outcome.map_err(|stop| stop.into_refusal(exchange))?;
    exchange.note(|| format!("Conditions hold: {}", outcome.is_applied()));
    record(exchange, &[&plan.table]);
    let columns = encode_columns(exchange.version, &plan.result_columns(&outcome, &rows));
    let mut body = Blocks::default();
    let mut writer = RowsWriter::in_blocks(&mut body, &columns, MetadataMode::Full);
    let unmasks = options.bind.unmasks;
    plan.write_result(&outcome, &rows, unmasks, &mut Sink(&mut writer)).map_err(error::of_cql)?;
    writer.finish(None);
    // A few rows, which are there already.
    Ok(Answer::Rows(body, AnswerRoom::new(&exchange.connection)))
}

/// Empties a table.
pub(super) async fn truncate(
    exchange: &mut Exchange,
    table: Arc<TableSchema>,
) -> Result<Answer, ErrorResponse> {
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let left = exchange.deadline(exchange.sessions.node.timeouts.get(TimeoutKind::Truncate)).left();
    // A truncation that is late goes on: it is under way on a thread of its own.
    let tasks = &exchange.sessions.node.env.tasks;
    let truncated = tasks.timeout(left, coordinator.truncate(table)).await.unwrap_or_else(|_| {
        let late = "Truncate timed out - received only 0 responses";
        Err(CoordinatorError::Truncate(ReplicaError::Write(late.to_owned())))
    });
    truncated.map_err(|failure| refusal(exchange, failure))?;
    Ok(Answer::VOID)
}

async fn write_counters(
    exchange: &mut Exchange,
    mutations: Vec<Mutation>,
    consistency: Consistency,
) -> Result<(), CoordinatorError> {
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let deadline = counter_deadline(exchange);
    coordinator.write_counters(mutations, consistency, Some(&deadline), exchange).await
}

fn counter_deadline(exchange: &Exchange) -> Deadline {
    exchange.deadline(exchange.sessions.node.timeouts.get(TimeoutKind::CounterWrite))
}

/// What a conditional write must reach, and until when.
struct CasLimits {
    consistency: Consistency,
    serial_consistency: Consistency,
    contention: Deadline,
    read: Deadline,
    write: Deadline,
}

fn refusal(exchange: &Exchange, failure: CoordinatorError) -> ErrorResponse {
    error::of_coordinator(failure, &exchange.sessions.node)
}

/// What came of a decision, and the rows that a refusal shows.
type Decided = Result<(CasOutcome, RowsRead), Stop>;

/// Reads what the conditions are about, decides, and writes.
async fn decide_and_write(exchange: &mut Exchange, plan: &CasPlan, limits: CasLimits) -> Decided {
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let request = CasRequest {
        key: plan.key.clone(),
        reads: [&plan.read].into_iter().chain(&plan.read_first).cloned().collect(),
        consistency: limits.consistency,
        serial_consistency: limits.serial_consistency,
        context: ReadContext { deadline: Some(limits.read.clone()), ..ReadContext::default() },
        read_deadline: Some(limits.read),
        contention_deadline: Some(limits.contention),
        write_deadline: Some(limits.write),
    };
    let mut decided = None;
    let decide = |read: Vec<RowsRead>, timestamp: i64| -> Result<Option<Vec<Mutation>>, Stop> {
        let mut read = read.into_iter();
        let rows = read.next().unwrap_or_default();
        let outcome = plan.evaluate(&rows, timestamp).map_err(|e| Stop::Refused(error::of_cql(e)))?;
        let mutations = match &outcome {
            CasOutcome::Applied(mutation) => Some(substantial(vec![mutation.clone()])),
            CasOutcome::NotApplied => None,
        };
        decided = Some((outcome, read.next().unwrap_or(rows)));
        Ok(mutations)
    };
    coordinator.cas(request, all_rows, decide, exchange).await.map_err(named_as_quorum)?;
    decided.ok_or_else(|| Stop::Refused(error::internal("a conditional write was not decided")))
}

/// Too few replicas for a decision are told in terms of the quorum that it takes, as Cassandra tells it.
fn named_as_quorum(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(CoordinatorError::Unavailable { consistency, datacenter, required, alive }) => {
            let consistency = match consistency {
                Consistency::Serial => Consistency::Quorum,
                Consistency::LocalSerial => Consistency::LocalQuorum,
                other => other,
            };
            Stop::Failed(CoordinatorError::Unavailable { consistency, datacenter, required, alive })
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
    if options.consistency == Consistency::Any {
        return Err(ErrorResponse::invalid(
            "Write operation require a read but consistency ANY is not supported on reads",
        ));
    }
    let command = Arc::new(command.clone());
    exchange.note(|| format!("Reading what is there in {}", write.table.name));
    let coordinator = Arc::clone(&exchange.sessions.coordinator);
    let deadline = exchange.read_deadline();
    let context = ReadContext { deadline: Some(deadline.clone()), ..ReadContext::default() };
    let request = ReadRequest::all(command, options.consistency, context);
    let read = coordinator.collect(&request, all_rows, Some(&deadline), exchange).await;
    read.map_err(|failure| refusal(exchange, failure))
}

/// All rows, and the static row also where it stands alone.
fn all_rows(page: &mut Page) -> Result<RowsRead, PullError> {
    page.with_lone_statics();
    let mut found = RowsRead::new();
    while let Some(row) = page.next_row()? {
        found.push(&row);
    }
    Ok(found)
}

/// The partitions that are written to, with their keyspaces.
fn partitions_of(mutations: &[Mutation]) -> impl Iterator<Item = (&str, &DecoratedKey)> {
    let updates = mutations.iter().filter_map(|mutation| mutation.updates.first());
    updates.map(|update| (update.table.keyspace.as_str(), &update.key))
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

fn names_of(tables: &[&Arc<TableSchema>]) -> String {
    let mut names: Vec<String> =
        tables.iter().map(|table| format!("{}.{}", table.keyspace, table.name)).collect();
    names.sort();
    names.join(", ")
}

/// Warns of logged batches whose tables would have their entries in the log forgotten at once.
fn warn_of_short_log(exchange: &mut Exchange, batch: &BoundBatch) {
    let is_short = |table: &TableSchema| table.options.gc_grace_seconds == 0;
    if batch.kind != BatchKind::Logged || !batch.writes.iter().any(|write| is_short(&write.table)) {
        return;
    }
    let tables: Vec<_> = tables_of(batch).into_iter().filter(|table| is_short(table)).collect();
    exchange.warn(format!(
        "Executing a LOGGED BATCH on table{} [{}], configured with a gc_grace_seconds of 0. The gc_grace_seconds is \
         used to TTL batchlog entries, so setting gc_grace_seconds too low on tables involved in an atomic batch \
         might cause batchlog entries to expire before being replayed.",
        if tables.len() == 1 { "" } else { "s" },
        names_of(&tables)
    ));
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
            names_of(&tables_of(batch)),
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
        let tables = tables_of(batch);
        exchange.warn(format!(
            "Unlogged batch covering {partitions} partitions detected against table{} [{}]. You should use a logged \
             batch for atomicity, or asynchronous writes for performance.",
            if tables.len() == 1 { "" } else { "s" },
            names_of(&tables)
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
