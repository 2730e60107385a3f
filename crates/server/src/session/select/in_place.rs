//! A read on the network thread: it may not wait for the disk and has to stay short.
//!
//! The replica says how often it is tried, and with what ([`coordinator::LocalReplica::try_in_place`]).

use std::sync::Arc;

use coordinator::Tried;
use model::command::PartitionSelection;
use partition::{CostSnapshot, PageLimits, ReadContext};
use protocol::Opcode;
use protocol::response::rows::RowsWriter;

use super::account::{self, Tally};
use super::page::{Extent, finish_shape, returned};
use super::{Read, Stop};
use crate::session::{Exchange, explain};

/// Rows of the longest answer that is made on a network thread.
const IN_PLACE_ROWS: u64 = 256;
/// Bytes of values of the longest answer that is made on a network thread.
const IN_PLACE_BYTES: u64 = 128 << 10;
/// Tombstones that a read on a network thread may meet.
const IN_PLACE_TOMBSTONES: u64 = 256;
/// Columns of an answer that is made on a network thread.
const IN_PLACE_COLUMNS: usize = 1024;
/// The same where something is computed of any of them.
const IN_PLACE_EXPRESSIONS: usize = 16;
/// Partitions that a read on a network thread may look for.
const IN_PLACE_KEYS: usize = 8;

impl Read {
    /// Whether the read is worth a try on the network thread.
    pub(super) fn fits_in_place(&self) -> bool {
        let command = self.command();
        let few_keys =
            matches!(&command.partitions, PartitionSelection::Keys(keys) if keys.len() <= IN_PLACE_KEYS);
        let columns = self.select.columns().len();
        let few_columns = columns <= IN_PLACE_EXPRESSIONS
            || (columns <= IN_PLACE_COLUMNS && !self.select.has_expressions());
        few_keys
            && few_columns
            && command.row_filter.is_empty()
            && !self.select.is_grouped
            && !self.select.is_sorted
    }
}

/// Runs the read here and sends its rows, if it needs no disk and stays short; `false` if it does not.
pub(super) fn run(exchange: &mut Exchange, read: &Read) -> Result<bool, Stop> {
    let sessions = Arc::clone(&exchange.sessions);
    sessions.coordinator.local().try_in_place(|at_once_bytes_max| {
        let (stop, missed) = match attempt(exchange, read, at_once_bytes_max) {
            Ok(missed) => return Tried::Done { missed },
            Err(stopped) => stopped,
        };
        match stop {
            Stop::TooLong | Stop::Interrupted(_) => Tried::Stopped { missed },
            // What fails with pages that were loaded is told by a thread that may wait.
            _ if missed && at_once_bytes_max > 0 => Tried::Stopped { missed },
            stop => Tried::Failed(stop),
        }
    })
}

/// Reads with pages from the cache and, of files that the system has in memory, `at_once_bytes_max` bytes.
/// Says whether a page was missing, as an error does.
fn attempt(exchange: &mut Exchange, read: &Read, at_once_bytes_max: u64) -> Result<bool, (Stop, bool)> {
    let started = exchange.sessions.node.env.clock.monotonic_nanos();
    let context = ReadContext {
        may_block: false,
        at_once_bytes_max,
        // A page that the client wants no longer than that is never moved for its rows.
        rows_max: if read.page.rows > IN_PLACE_ROWS { IN_PLACE_ROWS } else { u64::MAX },
        bytes_max: IN_PLACE_BYTES,
        ..read.context(exchange.recorder())
    };
    let limits = PageLimits {
        rows: read.page.rows.min(IN_PLACE_ROWS),
        bytes: read.page.bytes.min(IN_PLACE_BYTES),
        tombstones: read.page.tombstones.min(IN_PLACE_TOMBSTONES),
    };
    let request = read.request(limits, read.after.clone(), context.clone());
    let is_missing = |cost: &CostSnapshot| cost.chunk_misses + cost.index_page_misses > 0;
    let misses = || is_missing(&context.total_cost());
    let mut rows = match exchange.sessions.coordinator.open_local(request) {
        Ok(Some(rows)) => rows,
        // What other replicas answer is waited for elsewhere.
        Ok(None) => return Err((Stop::TooLong, false)),
        Err(error) => return Err((error.into(), misses())),
    };
    let Some(reply) = exchange.reply.take() else { return Err((Stop::TooLong, false)) };
    let mut tally = Tally::default();
    let sent = reply.send_in_place(Opcode::Result, |envelope| {
        let mut writer = RowsWriter::new(envelope.body(), read.columns(), read.metadata_mode());
        let mut shaper = read.select.shaper();
        let mut extent = Extent::short();
        let (mark, counted) = read.pull(&mut rows, &mut shaper, &mut writer, &mut extent)?;
        if mark.is_some() && counted.rows < read.page.rows {
            return Err(Stop::TooLong);
        }
        finish_shape(&mut shaper, &mut writer, &mut extent)?;
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
            let cost = tally.cost_of(&context);
            account::conclude(exchange, read, tally, &cost, ended);
            Ok(is_missing(&cost))
        }
        Err((reply, stop)) => {
            exchange.reply = Some(reply);
            Err((stop, misses()))
        }
    }
}
