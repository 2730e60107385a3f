//! A read on the thread that asks for it: it may not wait for the disk and has to stay short.
//!
//! It is tried with the pages that the page cache has, which nothing is planned for. If one is not there it
//! is tried once more, and now may load a few, by calls that the system answers only from its own memory.
//! What needs the disk ends this try, too, before anything was waited for. Where reads often miss pages the
//! first try is left out; where most pages have to come from the disk, the second one is seldom made
//! ([`InPlaceOdds`]).

use super::LocalReplica;
use partition::ReadContext;
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that a read in place may load and decompress.
const AT_ONCE_BYTES: u64 = 256 << 10;
/// Rows of the longest answer for which a read of all rows is begun in place.
const ROWS_MAX: u64 = 256;
/// Bytes of that answer.
pub(crate) const BYTES_MAX: u64 = 128 << 10;

/// The same for a read of all rows in place: where more are expected than take a moment, it is not begun.
pub(crate) fn short(context: ReadContext) -> ReadContext {
    ReadContext { may_block: false, rows_max: ROWS_MAX, bytes_max: BYTES_MAX, ..context }
}

/// What a try came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried<E> {
    /// The answer is there.
    Done {
        /// Whether a page had to be loaded.
        missed: bool,
    },
    /// The read has to wait, or is too long to be carried out in place.
    Stopped {
        /// Whether a page had to be loaded.
        missed: bool,
    },
    /// It failed.
    Failed(E),
}

/// Whether tries were worth it lately. Threads that overwrite each other's numbers make a few more or fewer.
///
/// After [`InPlaceOdds::VAIN_MAX`] vain ones in a row that could load pages, only one read in
/// [`InPlaceOdds::ONE_IN`] makes one, until it succeeds. While more than one read in
/// [`InPlaceOdds::MISSING_PART`] misses a page, the try that can load none is left out where that one is
/// made.
#[derive(Debug, Default)]
pub(super) struct InPlaceOdds {
    /// Vain tries in a row, then the reads since.
    vain: AtomicU32,
    /// The part of the last hundred reads or so that missed a page, of [`InPlaceOdds::ALL`].
    missing: AtomicU32,
}

impl InPlaceOdds {
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

impl LocalReplica {
    /// Carries a read out on this thread, if it needs no disk and stays short. `attempt` makes one try, which
    /// may load so many bytes. `false` where the read has to be carried out elsewhere.
    ///
    /// # Errors
    /// The read's own.
    pub fn try_in_place<E>(&self, mut attempt: impl FnMut(u64) -> Tried<E>) -> Result<bool, E> {
        let odds = &self.odds;
        let may_load = odds.expects_misses().then(|| odds.is_worth_a_try());
        if may_load != Some(true) {
            match attempt(0) {
                Tried::Done { .. } => {
                    odds.note_missing(false);
                    return Ok(true);
                }
                Tried::Stopped { missed: true } => {}
                Tried::Stopped { missed: false } => return Ok(false),
                Tried::Failed(error) => return Err(error),
            }
            if !may_load.unwrap_or_else(|| odds.is_worth_a_try()) {
                odds.note_missing(true);
                return Ok(false);
            }
        }
        match attempt(AT_ONCE_BYTES) {
            Tried::Done { missed } => {
                if missed {
                    odds.note(true);
                }
                odds.note_missing(missed);
                Ok(true)
            }
            Tried::Stopped { missed: true } => {
                odds.note(false);
                odds.note_missing(true);
                Ok(false)
            }
            Tried::Stopped { missed: false } => Ok(false),
            Tried::Failed(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::InPlaceOdds;

    #[test]
    fn misses_are_expected_where_there_were_many() {
        let odds = InPlaceOdds::default();
        let reads = |count: usize, missing_one_in: usize| {
            (0..count).for_each(|n| odds.note_missing(n % missing_one_in == 0));
            odds.expects_misses()
        };
        assert!(!odds.expects_misses());
        assert!(!reads(1_000, 16));
        assert!(reads(100, 2));
        assert!(reads(1_000, 4));
        assert!(!reads(1_000, 16));
        reads(1_000, 1);
        (0..300).for_each(|_| odds.note_missing(false));
        assert!(!odds.expects_misses());
    }

    #[test]
    fn after_vain_tries_few_are_made_until_one_succeeds() {
        let odds = InPlaceOdds::default();
        let tries = |reads: u32, succeeds: bool| {
            let read = |_: &u32| {
                let tries = odds.is_worth_a_try();
                if tries {
                    odds.note(succeeds);
                }
                tries
            };
            (0..reads).filter(read).count() as u32
        };
        assert_eq!(tries(100, true), 100);
        assert_eq!(tries(InPlaceOdds::VAIN_MAX, false), InPlaceOdds::VAIN_MAX);
        assert_eq!(tries(10 * InPlaceOdds::ONE_IN, false), 10);
        assert_eq!(tries(InPlaceOdds::ONE_IN, true), 1, "the last of them");
        assert_eq!(tries(100, true), 100);
    }
}
