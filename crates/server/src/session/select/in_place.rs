//! A read on the network thread: it may not wait for the disk and has to stay short.
//!
//! It is tried with the pages that the page cache has, which nothing is planned for. If one is not there it is tried once
//! more, and now may load a few, by calls that the system answers only from its own memory. What needs the disk ends this
//! try, too, before anything was waited for. Where reads often miss pages the first try is left out; where most pages have to
//! come from the disk, the second one is seldom made ([`Luck`]).

use std::sync::atomic::{AtomicU32, Ordering};

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
/// Bytes that a read on a network thread may load and decompress.
const AT_ONCE_BYTES: u64 = 256 << 10;
/// Columns of an answer that is made on a network thread.
const IN_PLACE_COLUMNS: usize = 1024;
/// The same where something is computed of any of them.
const IN_PLACE_EXPRESSIONS: usize = 16;
/// Partitions that a read on a network thread may look for.
const IN_PLACE_KEYS: usize = 8;

/// Whether tries were worth it lately. Threads that overwrite each other's numbers make a few more or fewer.
///
/// After [`Luck::VAIN_MAX`] vain ones in a row that could load pages, only one read in [`Luck::ONE_IN`] makes one, until it
/// succeeds. While more than one read in [`Luck::MISSING_PART`] misses a page, the try that can load none is left out where that
/// one is made.
#[derive(Debug, Default)]
pub(in crate::session) struct Luck {
    /// Vain tries in a row, then the reads since.
    vain: AtomicU32,
    /// The part of the last hundred reads or so that missed a page, of [`Luck::ALL`].
    missing: AtomicU32,
}

impl Luck {
    const VAIN_MAX: u32 = 8;
    const ONE_IN: u32 = 32;
    const ALL: u32 = 1 << 16;
    const MISSING_PART: u32 = 8;
    /// What one read counts of the part that missed a page.
    const WEIGHT: u32 = 64;

    /// Whether the next read is likely to miss a page.
    fn expects_misses(&self) -> bool {
        self.missing.load(Ordering::Relaxed) > Self::ALL / Self::MISSING_PART
    }

    fn note_missing(&self, is_missing: bool) {
        let before = self.missing.load(Ordering::Relaxed);
        let now = before - before / Self::WEIGHT + if is_missing { Self::ALL / Self::WEIGHT } else { 0 };
        // Where all is there nothing is written that other threads read.
        if now != before {
            self.missing.store(now, Ordering::Relaxed);
        }
    }

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
        if next != vain {
            self.vain.store(next, Ordering::Relaxed);
        }
    }
}

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

/// Runs the read here and sends its rows, if it needs no disk and stays short.
pub(super) fn run(exchange: &mut Exchange, read: &Read) -> Result<(), Stop> {
    let luck = &exchange.sessions.luck;
    let may_load = luck.expects_misses().then(|| luck.is_worth_a_try());
    if may_load != Some(true) {
        match attempt(exchange, read, 0) {
            Err((Stop::Move, true)) => {}
            Err((stop, _)) => return Err(stop),
            Ok(_) => {
                exchange.sessions.luck.note_missing(false);
                return Ok(());
            }
        }
        let luck = &exchange.sessions.luck;
        if !may_load.unwrap_or_else(|| luck.is_worth_a_try()) {
            luck.note_missing(true);
            return Err(Stop::Move);
        }
    }
    let outcome = attempt(exchange, read, AT_ONCE_BYTES);
    let luck = &exchange.sessions.luck;
    match outcome {
        Ok(is_missing) => {
            if is_missing {
                luck.note(true);
            }
            luck.note_missing(is_missing);
            Ok(())
        }
        // What fails with pages that were loaded is told by a thread that may wait.
        Err((_, true)) => {
            luck.note(false);
            luck.note_missing(true);
            Err(Stop::Move)
        }
        Err((stop, false)) => Err(stop),
    }
}

/// Reads with pages from the cache and, of files that the system has in memory, `at_once_bytes_max` bytes. Says whether a page
/// was missing, as an error does.
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
    // A replica that cannot answer at once is waited for elsewhere.
    let Some(rows) = exchange.sessions.coordinator.read_at_once(request) else {
        return Err((Stop::Move, false));
    };
    let is_missing = |cost: &CostSnapshot| cost.chunk_misses + cost.index_page_misses > 0;
    let misses = || is_missing(&context.total_cost());
    let mut rows = rows.map_err(|error| (Stop::from(error), misses()))?;
    let Some(reply) = exchange.reply.take() else { return Err((Stop::Move, false)) };
    let mut tally = Tally::default();
    let sent = reply.send_in_place(Opcode::Result, |envelope| {
        let mut writer = RowsWriter::new(envelope.body(), read.columns(), read.metadata_mode());
        let mut shaper = read.select.shaper();
        let mut extent = Extent::short();
        let (mark, counted) = read.pull(&mut rows, &mut shaper, &mut writer, &mut extent)?;
        if mark.is_some() && counted.rows < read.page.rows {
            return Err(Stop::Move);
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

#[cfg(test)]
mod tests {
    use super::Luck;

    #[test]
    fn misses_are_expected_where_there_were_many() {
        let luck = Luck::default();
        let reads = |count: usize, missing_one_in: usize| {
            (0..count).for_each(|n| luck.note_missing(n % missing_one_in == 0));
            luck.expects_misses()
        };
        assert!(!luck.expects_misses());
        assert!(!reads(1_000, 16));
        assert!(reads(100, 2));
        assert!(reads(1_000, 4));
        assert!(!reads(1_000, 16));
        reads(1_000, 1);
        (0..300).for_each(|_| luck.note_missing(false));
        assert!(!luck.expects_misses());
    }

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
