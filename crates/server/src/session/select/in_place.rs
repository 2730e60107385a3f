//! A read on the network thread: it may not wait for the disk and has to stay short.
//!
//! It is tried with the pages that the page cache has, which nothing is planned for. If one is not there it is tried once
//! more, and now may load a few, by calls that the system answers only from its own memory. What needs the disk ends this
//! try, too, before anything was waited for. Where most pages have to come from the disk ([`Luck`]), it is seldom made.

use std::sync::atomic::{AtomicU32, Ordering};

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
/// Bytes that a read on a network thread may load and decompress.
const AT_ONCE_BYTES: u64 = 256 << 10;
/// Partitions that a read on a network thread may look for.
const IN_PLACE_KEYS: usize = 8;

/// Whether second tries were worth it lately. After [`Luck::VAIN_MAX`] vain ones in a row only one read in
/// [`Luck::ONE_IN`] makes one, until it succeeds.
#[derive(Debug, Default)]
pub(in crate::session) struct Luck {
    /// Vain tries in a row, then the reads since.
    vain: AtomicU32,
}

impl Luck {
    const VAIN_MAX: u32 = 8;
    const ONE_IN: u32 = 32;

    // Threads that overwrite each other's numbers make a few tries more or fewer.
    fn is_worth_a_try(&self) -> bool {
        let vain = self.vain.load(Ordering::Relaxed);
        if vain < Self::VAIN_MAX {
            return true;
        }
        let is_over = vain + 1 >= Self::VAIN_MAX + Self::ONE_IN;
        self.vain.store(if is_over { Self::VAIN_MAX } else { vain + 1 }, Ordering::Relaxed);
        is_over
    }

    fn note(&self, is_success: bool) {
        let vain = self.vain.load(Ordering::Relaxed);
        let next = if is_success { 0 } else { vain.saturating_add(1).min(Self::VAIN_MAX) };
        self.vain.store(next, Ordering::Relaxed);
    }
}

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
    match attempt(exchange, read, 0) {
        Ok(()) => Ok(()),
        // What fails with pages that were loaded is told by a thread that may wait.
        Err((Stop::Move, true)) if exchange.sessions.luck.is_worth_a_try() => {
            let outcome = attempt(exchange, read, AT_ONCE_BYTES);
            exchange.sessions.luck.note(outcome.is_ok());
            outcome.map_err(|_| Stop::Move)
        }
        Err((stop, _)) => Err(stop),
    }
}

/// Reads with pages from the cache and, of files that the system has in memory, `at_once_bytes_max` bytes. An error says
/// whether a page was missing.
fn attempt(exchange: &mut Exchange, read: &Read, at_once_bytes_max: u64) -> Result<(), (Stop, bool)> {
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
    // A replica that cannot answer at once is waited for elsewhere.
    let Some(rows) = exchange.sessions.coordinator.read_at_once(request) else {
        return Err((Stop::Move, false));
    };
    let misses = || {
        let cost = context.total_cost();
        cost.chunk_misses + cost.index_page_misses > 0
    };
    let mut rows = rows.map_err(|error| (Stop::from(error), misses()))?;
    let Some(reply) = exchange.reply.take() else { return Err((Stop::Move, false)) };
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
            Err((stop, misses()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Luck;

    #[test]
    fn after_vain_tries_few_are_made_until_one_succeeds() {
        let luck = Luck::default();
        let tries = |reads: u32, succeeds: bool| {
            let read = |_: &u32| {
                let tries = luck.is_worth_a_try();
                if tries {
                    luck.note(succeeds);
                }
                tries
            };
            (0..reads).filter(read).count() as u32
        };
        assert_eq!(tries(100, true), 100);
        assert_eq!(tries(Luck::VAIN_MAX, false), Luck::VAIN_MAX);
        assert_eq!(tries(10 * Luck::ONE_IN, false), 10);
        assert_eq!(tries(Luck::ONE_IN, true), 1, "the last of them");
        assert_eq!(tries(100, true), 100);
    }
}
