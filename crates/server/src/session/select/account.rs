//! What a read came to: counted, put into the heat map, kept if it was slow.

use std::sync::Arc;

use model::command::{PartitionSelection, ReadCommand};
use partition::{CostSnapshot, ReadContext};
use protocol::response::error::ErrorResponse;

use super::Read;
use crate::config::SlowQueryValues;
use crate::metrics::ReadNumbers;
use crate::profile;
use crate::reads::{self, ReadRecord};
use crate::redact;
use crate::session::{Exchange, explain};

/// What a read came to, besides its rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) rows: u64,
    pub(super) tombstones: u64,
    /// Rows of the answer, and their bytes.
    pub(super) returned: (u64, u64),
    pub(super) has_more: bool,
    pub(super) local_nanos: u64,
}

impl Tally {
    /// What the read cost, with what it came to.
    pub(super) fn cost_of(&self, context: &ReadContext) -> CostSnapshot {
        let mut cost = context.total_cost();
        (cost.rows_returned, cost.returned_bytes) = self.returned;
        cost
    }
}

pub(super) fn warn_about_tombstones(exchange: &mut Exchange, tally: Tally) {
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
pub(super) fn conclude(exchange: &mut Exchange, read: &Read, tally: Tally, cost: &CostSnapshot, ended: u64) {
    exchange.ended_nanos = Some(ended);
    let total_nanos = remember(exchange, read.command(), cost, ended, None);
    exchange.sessions.node.metrics.table(&read.command().table).record_read(
        read.is_scan(),
        tally.local_nanos,
        total_nanos,
        &ReadNumbers { rows: tally.rows, tombstones: tally.tombstones, cost },
    );
    if exchange.sessions.node.metrics.profiler.is_running() {
        sample(exchange, read.command(), tally, cost);
    }
    exchange.note(|| format!("Read {} live rows and {} tombstone cells", tally.rows, tally.tombstones));
    exchange.note(|| format!("Cost: {}", reads::cost_text(cost)));
}

/// Offers a read to the profile that runs.
#[cold]
fn sample(exchange: &Exchange, command: &ReadCommand, tally: Tally, cost: &CostSnapshot) {
    let node = &exchange.sessions.node;
    let profiler = &node.metrics.profiler;
    if let PartitionSelection::Keys(keys) = &command.partitions {
        let keys: Vec<_> = keys.iter().map(|key| &key.key).collect();
        let Tally { rows, tombstones, .. } = tally;
        profiler.take_read(
            &command.table,
            &keys,
            profile::ReadNumbers { rows, tombstones, sstables: cost.sstables_read },
        );
    }
    profiler.take_read_time(&command.table, tally.local_nanos / 1_000, || {
        let restriction = restriction(command, node.config.settings.slow_query_values);
        let (keyspace, table) = (&command.table.keyspace, &command.table.name);
        match restriction.as_str() {
            "" => format!("SELECT * FROM {keyspace}.{table}"),
            _ => format!("SELECT * FROM {keyspace}.{table} WHERE {restriction}"),
        }
    });
}

/// What a read asked for, with its values if they may be told.
fn restriction(command: &ReadCommand, values: SlowQueryValues) -> String {
    let text = cql::explain::restriction(command);
    match values {
        SlowQueryValues::Shown => text,
        SlowQueryValues::Redacted => redact::literals(&text),
    }
}

/// Keeps a read that comes to no answer for who watches, and tells the trace what it did until now.
pub(super) fn fail(
    exchange: &mut Exchange,
    command: &ReadCommand,
    context: &ReadContext,
    refusal: &ErrorResponse,
) {
    let (cost, ended) = (context.total_cost(), exchange.sessions.node.env.clock.monotonic_nanos());
    explain::trace(exchange, context.recorder.as_deref());
    exchange.note(|| format!("Cost: {}", reads::cost_text(&cost)));
    remember(exchange, command, &cost, ended, Some(refusal));
}

/// Puts a read that ended at `ended` into the heat map, whether or not it came to an answer, and keeps it if
/// it is a sample or slow. Returns how long the request has taken.
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
            waits: exchange.waits,
            table: Some(Arc::clone(&command.table)),
            statement: exchange.kept_text(),
            restriction: restriction(command, node.config.settings.slow_query_values),
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
