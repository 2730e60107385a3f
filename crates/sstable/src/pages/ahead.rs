//! Reading several pages of a file by one call to the file system.
//!
//! A page that is neither in the cache nor at hand is read together with
//!
//! 1. the other pages of a value, or of a block of rows and a few rows behind it, if the page lies in one
//!    that is certain to be read;
//! 2. the neighbour that is nearer to the place in an index, or some pages before it;
//! 3. the pages that a walk comes to next. These are none at first, then as many as it has read already, up
//!    to [`WINDOW_BYTES_MAX`]. It reads none behind the place where it is expected to end.
//!
//! Pages that the cache has are not read again: a call ends before one. A thread that may not wait reads the
//! pages of a single row one by one, because its calls do not go to the device. What was read is kept as it
//! is stored. A page is checked, decompressed and handed to the cache when it is asked for, and not before.

use super::file::PagedFile;
use super::{INDEX_PAGE_BYTES, PageSource};
use bytes::Bytes;
use env::fs::Access;
use partition::{ReadContext, ReadError};
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are read at once, at most.
const CALL_BYTES_MAX: u64 = 1 << 20;
/// Bytes of content that a walk reads at once, at most.
const WINDOW_BYTES_MAX: u64 = 256 << 10;
/// Rows are certain to be read only if they are that short together. Values in longer ones may be stepped
/// over.
const ROWS_BYTES_MAX: u64 = 128 << 10;
/// Rows behind a block are certain to be wanted only if they are as short as that: more are asked for by
/// whoever takes what there is.
const WANTED_BYTES_MAX: u64 = 64 << 10;

/// About how much of a file a reader will want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// Rows that it will take at most.
    pub rows: u64,
    /// Whether it will take as many if they are there.
    pub is_open: bool,
    /// Bytes of a row.
    pub row_bytes: u64,
}

impl Default for Wish {
    fn default() -> Self {
        Wish { rows: u64::MAX, is_open: false, row_bytes: 1 }
    }
}

/// Where a walk through a file leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Course {
    /// Anywhere.
    #[default]
    None,
    /// Forwards, up to about here.
    Forward(u64),
    /// Backwards, down to about here.
    Backward(u64),
}

/// What a cursor has read of its file and not used yet, and what it is to read next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ahead {
    /// The value that is read at this moment.
    pub value: Range<u64>,
    /// The rows that are certain to be read.
    rows: Range<u64>,
    /// What is likely to be read before or behind a place in an index: the nearer one of the pages beside it,
    /// or more.
    near: Range<u64>,
    /// How much will be read after a jump to a block.
    pub wish: Wish,
    /// Where the walk leads from here on.
    pub course: Course,
    /// The page that was turned last; backwards, the first of those that the walk has come to.
    last: u64,
    /// How many pages were read for the walk.
    read: u64,
    /// What the last calls for more than a page read, the last one first. When a block is read backwards, one
    /// has its end and the other its start.
    at_hand: [Option<Arc<Stretch>>; 2],
}

/// A stretch of a file, as it is stored.
#[derive(Debug)]
struct Stretch {
    start: u64,
    bytes: Vec<u8>,
}

impl Stretch {
    fn get(&self, stored: &Range<u64>) -> Option<&[u8]> {
        let at = |position: u64| usize::try_from(position.checked_sub(self.start)?).ok();
        self.bytes.get(at(stored.start)?..at(stored.end)?)
    }
}

impl Ahead {
    /// Says which rows will be read; none if they are long.
    pub fn set_rows(&mut self, rows: Range<u64>) {
        let is_short = rows.end.saturating_sub(rows.start) <= ROWS_BYTES_MAX;
        self.rows = if is_short { rows } else { 0..0 };
    }

    /// Says that a place in an index is looked at, which begins and ends as `within` does. What is wanted may
    /// begin in the page before or go on in the one behind, and a call for two pages costs hardly more than
    /// one for one. `before`: bytes in front of it that are likely to be wanted next.
    pub fn set_near(&mut self, at: u64, before: u64, within: &Range<u64>) {
        let half = INDEX_PAGE_BYTES / 2;
        let start = at.saturating_sub(before.max(half));
        self.near = start.max(within.start)..at.saturating_add(half).min(within.end);
    }

    /// Says that some of this will be read.
    pub fn set_near_all(&mut self, content: &Range<u64>) {
        self.near = content.clone();
    }

    /// Says that a walk goes on with a block of rows, in which the first row that is wanted lies, and whether
    /// the row before the block is looked at, too.
    pub fn set_block(&mut self, block: Range<u64>, looks_before: bool) {
        let Wish { rows, is_open, row_bytes } = self.wish;
        let others = rows.saturating_sub(1).saturating_mul(row_bytes);
        let certain = if is_open && others <= WANTED_BYTES_MAX { others } else { 0 };
        let Range { start, end } = block;
        if let Course::Backward(_) = self.course {
            self.course = Course::Backward(start.saturating_sub(others));
            self.set_rows(start.saturating_sub(certain)..end);
        } else {
            self.course = Course::Forward(end.saturating_add(others));
            let before = if looks_before { row_bytes.min(WANTED_BYTES_MAX) } else { 0 };
            self.set_rows(start.saturating_sub(before)..end.saturating_add(certain));
        }
    }

    /// Notes that a page is turned to.
    pub(super) fn turn(&mut self, file: &PagedFile, page: u64) {
        let goes_on = match self.course {
            Course::None => false,
            Course::Forward(_) => page == self.last || page == self.last + 1,
            // A block is read forwards, and the next one ends where it starts. Nothing goes on that was not
            // begun.
            Course::Backward(_) => {
                let rows = file.pages_of(&self.rows);
                let is_beside = page + 1 >= self.last && page <= self.last + self.read;
                self.read > 0 && (is_beside || rows.contains(&page) && rows.end >= self.last)
            }
        };
        if !goes_on {
            self.read = 0;
        }
        let is_back = goes_on && matches!(self.course, Course::Backward(_));
        self.last = if is_back { self.last.min(page) } else { page };
    }

    /// Reads a page, or takes it from what was read before.
    pub(super) fn load(
        &mut self,
        file: &PagedFile,
        page: u64,
        pages: &dyn PageSource,
        context: &ReadContext,
    ) -> Result<Bytes, ReadError> {
        let stored = file.stored(page)?;
        if let Some(bytes) = self.get(&stored) {
            if !context.may_block && !context.may_load_at_once(file.page_len) {
                return Err(ReadError::WouldBlock);
            }
            return file.decode(page, stored.start, bytes.into(), context);
        }
        self.correct(file, page);
        let wanted = match self.is_one_row_at_once(page, file, context) {
            true => page..page + 1,
            false => self.wanted(file, page),
        };
        let (mut start, mut end) = (stored.start, stored.end);
        let joins = |next: u64, start: u64, end: u64| {
            let stored = file.stored(next).ok()?;
            let is_beside = stored.start == end || stored.end == start;
            let len = end.max(stored.end) - start.min(stored.start);
            let is_here = self.get(&stored).is_some() || pages.has(file.id, next);
            (is_beside && len <= CALL_BYTES_MAX && !is_here).then_some(stored)
        };
        let mut count = 1;
        // A mapping is read page by page by the system, which reads ahead itself.
        if file.raw().access() != Access::Mapped {
            for next in page + 1..wanted.end {
                let Some(next) = joins(next, start, end) else { break };
                (end, count) = (next.end, count + 1);
            }
            for before in (wanted.start..page).rev() {
                let Some(before) = joins(before, start, end) else { break };
                (start, count) = (before.start, count + 1);
            }
        }
        self.read += count;
        if count == 1 {
            return file.load(page, context);
        }
        let bytes = file.read_raw(start, end - start, context)?;
        let [last, _] = std::mem::take(&mut self.at_hand);
        self.at_hand = [Some(Arc::new(Stretch { start, bytes })), last];
        file.decode(page, stored.start, self.get(&stored).unwrap_or_default().into(), context)
    }

    /// Whether a thread that may not wait wants the page for a single row, and not for a long value of it. If
    /// the row goes on in another page, one more call to the system's memory costs less than a page that is
    /// mostly not needed.
    fn is_one_row_at_once(&self, page: u64, file: &PagedFile, context: &ReadContext) -> bool {
        let lies_in = |content| file.pages_of(content).contains(&page);
        !context.may_block && self.wish.rows == 1 && lies_in(&self.rows) && !lies_in(&self.value)
    }

    /// What is stored there, if it was read already.
    fn get(&self, stored: &Range<u64>) -> Option<&[u8]> {
        self.at_hand.iter().flatten().find_map(|stretch| stretch.get(stored))
    }

    /// Begins a new walk where there is more than was expected.
    fn correct(&mut self, file: &PagedFile, page: u64) {
        let is_past = match self.course {
            Course::None => false,
            Course::Forward(until) => page >= file.pages_of(&(0..until)).end,
            Course::Backward(until) => page < file.pages_of(&(until..u64::MAX)).start,
        };
        if is_past {
            self.read = 0;
            self.course = match self.course {
                Course::Backward(_) => Course::Backward(0),
                _ => Course::Forward(u64::MAX),
            };
        }
    }

    /// The pages that are to be read with `page`.
    fn wanted(&self, file: &PagedFile, page: u64) -> Range<u64> {
        let (mut first, mut end) = (page, page + 1);
        for certain in [&self.rows, &self.value, &self.near].map(|content| file.pages_of(content)) {
            if certain.contains(&page) {
                (first, end) = (first.min(certain.start), end.max(certain.end));
            }
        }
        let window = self.read.clamp(1, file.pages_in(WINDOW_BYTES_MAX));
        match self.course {
            Course::None => {}
            Course::Forward(until) => end = end.max((page + window).min(file.pages_of(&(0..until)).end)),
            Course::Backward(until) => {
                let expected = file.pages_of(&(until..u64::MAX)).start;
                first = first.min((page + 1).saturating_sub(window).max(expected));
            }
        }
        first..end.min(file.whole_pages())
    }
}
