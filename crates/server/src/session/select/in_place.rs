//! A read on the network thread: it may not wait for the disk and has to stay short.

use model::command::PartitionSelection;
use partition::{PageLimits, ReadContext};
use protocol::Opcode;
use protocol::response::rows::RowsWriter;

use super::account::{self, Tally};
use super::page::{finish_shape, returned};
use super::{Read, Stop};
use crate::session::{Exchange, explain};

/// Rows of the longest answer that is made on a network thread.
const IN_PLACE_ROWS: u64 = 256;
/// Bytes of values of the longest answer that is made on a network thread.
const IN_PLACE_BYTES: u64 = 128 << 10;
/// Tombstones that a read on a network thread may meet.
const IN_PLACE_TOMBSTONES: u64 = 256;
/// Partitions that a read on a network thread may look for.
const IN_PLACE_KEYS: usize = 8;

impl Read {
    /// Whether the read is worth a try on the network thread.
    pub(super) fn fits_in_place(&self) -> bool {
        let command = self.command();
        let few_keys =
            matches!(&command.partitions, PartitionSelection::Keys(keys) if keys.len() <= IN_PLACE_KEYS);
        few_keys && command.row_filter.is_empty() && !self.select.is_grouped && !self.select.is_sorted
    }
}

/// Runs the read here and sends its rows, if it needs no disk and stays short.
pub(super) fn run(exchange: &mut Exchange, read: &Read) -> Result<(), Stop> {
    let started = exchange.sessions.node.env.clock.monotonic_nanos();
    let context = ReadContext {
        may_block: false,
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
    // A replica that cannot answer at once is waited for elsewhere.
    let Some(rows) = exchange.sessions.coordinator.read_at_once(request) else { return Err(Stop::Move) };
    let mut rows = rows?;
    let Some(reply) = exchange.reply.take() else { return Err(Stop::Move) };
    let mut tally = Tally::default();
    let sent = reply.send_in_place(Opcode::Result, |envelope| {
        let mut writer = RowsWriter::new(envelope.body(), read.columns(), read.metadata_mode());
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
            account::conclude(exchange, read, tally, &tally.cost_of(&context), ended);
            Ok(())
        }
        Err((reply, stop)) => {
            exchange.reply = Some(reply);
            Err(stop)
        }
    }
}
