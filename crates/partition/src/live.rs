//! From a stream to the rows of a result: what is live, passes the filter and lies within the limits.
//!
//! 1. A partition's static row is kept aside until the partition is left.
//! 2. A row that is live and passes the filter is a result row.
//! 3. A partition without such rows is one result row when its static content is live and passes the filter,
//!    and nothing in the query is about rows.
//! 4. `DISTINCT` takes one row of each partition and leaves it.
//! 5. The result is over with the last row that the query can have: of rows that are asked for by name there
//!    are no more than names. What lies behind it is not looked at.
//! 6. The page ends at its limits: of rows, of bytes, and of tombstones scanned. The last one makes pages
//!    short, even empty, where deleted data lies: the mark then stands at the last position *scanned*.

use crate::cost::ReadContext;
use crate::error::ReadError;
use crate::filter;
use crate::plain::TakeLive;
use crate::recording::Cut;
use crate::stream::{BoxedStream, Event, Fragment, PartitionStream};
use model::command::{ClusteringFilter, ReadCommand};
use model::row::ResultRow;
use model::{BoundKind, Clustering, DecoratedKey, Row};
use std::sync::Arc;

/// Fragments between two looks at the deadline.
const FRAGMENTS_PER_LOOK: u32 = 256;

/// When a page is full.
#[derive(Clone, Copy, Debug)]
pub struct PageLimits {
    /// Rows.
    pub rows: u64,
    /// Bytes of values, counted over whole rows: the row that exceeds the limit is still part of the page.
    pub bytes: u64,
    /// Tombstones met on the way.
    pub tombstones: u64,
}

impl PageLimits {
    /// One page for everything.
    pub const NONE: PageLimits = PageLimits { rows: u64::MAX, bytes: u64::MAX, tombstones: u64::MAX };
}

/// Where a page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageMark {
    /// The partition that was read last, or the one that comes next.
    pub key: DecoratedKey,
    /// Whether nothing of the partition was read yet.
    pub is_before: bool,
    /// The row that was read last in it; `None` when nothing more is wanted of the partition.
    pub clustering: Option<Clustering>,
    /// Rows that the command may still return.
    pub remaining: u64,
    /// Rows that it may still return of the partition. As long as nothing of the partition was returned, this
    /// is the limit, or [`u64::MAX`] where there is none.
    pub remaining_in_partition: u64,
}

/// The rows of one page of a result.
pub struct LiveRows {
    stream: BoxedStream,
    command: Arc<ReadCommand>,
    context: ReadContext,
    limits: PageLimits,
    fragment: Fragment,
    key: DecoratedKey,
    static_row: Row,
    in_partition: bool,
    /// Something of this partition was returned, on this page or an earlier one.
    partition_has_rows: bool,
    statics_stand_alone: bool,
    /// Where the page before ended, in the partition in which it did.
    after: Option<Clustering>,
    /// Clustering of the last row scanned, but where that is still in the fragment.
    last: Option<Clustering>,
    is_last_in_fragment: bool,
    remaining: u64,
    remaining_in_partition: u64,
    /// Rows that can still come, by what is asked for.
    possible: u64,
    rows: u64,
    bytes: u64,
    tombstones: u64,
    live: u64,
    filtered: u64,
    /// Fragments until the next look at the deadline.
    until_look: u32,
    full: bool,
    /// Where the stream was cut off, once it was.
    cut: Option<Cut>,
}

impl LiveRows {
    /// Reads `stream`, the answer to `command`. In a box from the start: it is long, and handed on by several
    /// hands.
    pub fn new(
        stream: BoxedStream,
        command: Arc<ReadCommand>,
        context: ReadContext,
        limits: PageLimits,
    ) -> Box<LiveRows> {
        Box::new(LiveRows {
            stream,
            context,
            limits,
            fragment: Fragment::default(),
            key: Fragment::default().key,
            static_row: Row::default(),
            in_partition: false,
            partition_has_rows: false,
            statics_stand_alone: statics_stand_alone(&command),
            after: start_of(&command),
            last: None,
            is_last_in_fragment: false,
            remaining: command.limits.rows,
            remaining_in_partition: command.limits.rows_per_partition,
            possible: command.rows_max(),
            command,
            rows: 0,
            bytes: 0,
            tombstones: 0,
            live: 0,
            filtered: 0,
            // The first fragment too: a read that comes late does nothing.
            until_look: 1,
            full: false,
            cut: None,
        })
    }

    /// Goes on where an earlier page ended: the first partition of the stream is the one that `mark` stands
    /// in, if that is not done with.
    pub fn resume(mut self: Box<Self>, mark: &PageMark) -> Box<LiveRows> {
        self.remaining = mark.remaining;
        if mark.clustering.is_some() {
            self.after.clone_from(&mark.clustering);
            self.key = mark.key.clone();
            self.remaining_in_partition = mark.remaining_in_partition;
            self.partition_has_rows = mark.remaining_in_partition < self.command.limits.rows_per_partition;
        }
        self
    }

    /// Reads on behind the last row that can come, to the end of the stream.
    pub(crate) fn read_to_the_end(&mut self) {
        self.possible = u64::MAX;
    }

    /// Where `cut` says that the stream was cut off, its end is the end of the page and not of the result.
    pub fn until_cut(mut self: Box<Self>, cut: Cut) -> Box<LiveRows> {
        self.cut = Some(cut);
        self
    }

    /// Where the stream was cut off: behind a row, or behind a whole partition.
    fn cut_off(&self) -> Option<&Option<Clustering>> {
        self.cut.as_ref().and_then(|cut| cut.get())
    }

    /// Hands on the static content of a partition also when rows were asked for by name and none is there.
    pub fn with_lone_statics(&mut self) {
        self.statics_stand_alone = true;
    }

    /// The next row of the page, `None` when the page or the result is over.
    ///
    /// # Errors
    /// When the stream fails, or the deadline is over.
    pub fn next_row(&mut self) -> Result<Option<ResultRow<'_>>, ReadError> {
        self.next_row_or(None)
    }

    /// As [`LiveRows::next_row`]. Rows that come before it and are plain are handed to `take` instead. When
    /// it takes no more rows, of either kind, `None` is the result and more may follow. Only for a page that
    /// ends with the result: nobody knows where in it a plain row was.
    ///
    /// # Errors
    /// As [`LiveRows::next_row`].
    pub fn next_row_or(
        &mut self,
        mut take: Option<&mut TakeLive<'_>>,
    ) -> Result<Option<ResultRow<'_>>, ReadError> {
        let takes_plain = take.is_some()
            && self.command.row_filter.is_empty()
            && !self.command.limits.distinct
            && self.command.limits.rows_per_partition == u64::MAX;
        if self.is_page_full() || self.remaining == 0 {
            return Ok(None);
        }
        if self.possible == 0 {
            self.remaining = 0;
            return Ok(None);
        }
        loop {
            if self.in_partition && self.remaining_in_partition == 0 {
                self.leave_partition()?;
            }
            if takes_plain
                && self.in_partition
                && let Some(take) = &mut take
                && !self.take_plain(*take)?
            {
                return Ok(None);
            }
            if self.tombstones >= self.limits.tombstones && (self.last().is_some() || !self.in_partition) {
                self.full = true;
                return Ok(None);
            }
            self.until_look -= 1;
            if self.until_look == 0 {
                self.until_look = FRAGMENTS_PER_LOOK;
                self.context.check_deadline()?;
            }
            self.keep_last();
            match self.stream.next(&mut self.fragment)? {
                Event::PartitionStart => self.enter_partition(),
                Event::StaticRow => self.keep_static(),
                Event::Row => {
                    if self.scan_row() {
                        return Ok(Some(self.current(true)));
                    }
                }
                Event::RangeChange => self.scan_change(),
                Event::PartitionEnd => {
                    self.in_partition = false;
                    self.last = None;
                    self.after = None;
                    if !self.partition_has_rows && self.take_static() {
                        return Ok(Some(self.current(false)));
                    }
                }
                Event::End if self.cut_off().is_some() => {
                    self.full = true;
                    return Ok(None);
                }
                Event::End => {
                    self.remaining = 0;
                    return Ok(None);
                }
            }
        }
    }

    /// Hands plain rows of the partition to `take`; false when it takes no more, or the limit is reached.
    fn take_plain(&mut self, take: &mut TakeLive<'_>) -> Result<bool, ReadError> {
        let base = ResultRow {
            key: &self.key,
            static_row: (!self.static_row.cells.is_empty()).then_some(&self.static_row),
            row: None,
            now_s: self.command.now_s,
        };
        let (mut rows, mut goes_on, rows_max) = (0, true, self.remaining.min(self.possible));
        self.stream.plain_rows(&mut |row| {
            rows += 1;
            goes_on = take(&base, row) && rows < rows_max;
            goes_on
        })?;
        self.rows += rows;
        self.live += rows;
        self.partition_has_rows |= rows > 0;
        self.remaining -= rows;
        self.possible = self.possible.saturating_sub(rows);
        Ok(goes_on)
    }

    /// Clustering of the last row scanned in the partition.
    fn last(&self) -> Option<&Clustering> {
        if self.is_last_in_fragment { Some(&self.fragment.row.clustering) } else { self.last.as_ref() }
    }

    /// Keeps it before the fragment is filled again. The two change places, so that nothing is copied for
    /// each row.
    fn keep_last(&mut self) {
        if std::mem::take(&mut self.is_last_in_fragment) {
            std::mem::swap(self.last.get_or_insert_default(), &mut self.fragment.row.clustering);
        }
    }

    fn enter_partition(&mut self) {
        self.in_partition = true;
        self.last = None;
        self.static_row.clear();
        if self.key != self.fragment.key || !self.partition_has_rows || self.rows > 0 {
            self.partition_has_rows = false;
            self.remaining_in_partition = self.command.limits.rows_per_partition;
        }
        // A stream sets the key of the fragment anew at each start.
        std::mem::swap(&mut self.key, &mut self.fragment.key);
        if !self.fragment.deletion.is_none() {
            self.tombstones += 1;
        }
    }

    fn keep_static(&mut self) {
        std::mem::swap(&mut self.static_row, &mut self.fragment.row);
        let row = &self.static_row;
        let dead = row.cells.iter().filter(|c| !c.is_live(self.command.now_s)).count();
        self.tombstones += row.tombstones(dead, dead < row.cells.len());
    }

    fn leave_partition(&mut self) -> Result<(), ReadError> {
        self.in_partition = false;
        self.is_last_in_fragment = false;
        self.last = None;
        self.after = None;
        self.stream.skip_partition()
    }

    /// Judges the row in the fragment: whether it belongs to the result.
    fn scan_row(&mut self) -> bool {
        self.is_last_in_fragment = true;
        let row = &self.fragment.row;
        let now_s = self.command.now_s;
        let dead = row.cells.iter().filter(|c| !c.is_live(now_s)).count();
        let has_cells = dead < row.cells.len();
        let live = row.liveness.is_live(now_s) || (has_cells && !self.command.table.has_strict_liveness);
        self.tombstones += row.tombstones(dead, live);
        if !live || !self.passes(true) {
            return false;
        }
        self.bytes += self.fragment.row.data_size() as u64;
        self.take();
        true
    }

    /// A change that lies right behind a clustering in stream order is a place where a page can end.
    fn scan_change(&mut self) {
        self.tombstones += 1;
        let position = &self.fragment.change.position;
        let behind = if self.command.is_reversed() { BoundKind::InclStart } else { BoundKind::ExclStart };
        if position.kind == behind
            && position.prefix.len() == self.command.table.comparator().len()
            // What is open where the page begins leads no further.
            && self.after.as_ref() != Some(&position.prefix)
        {
            self.last.get_or_insert_default().assign(&position.prefix);
        }
    }

    /// Whether the partition's static content makes a row of the result.
    fn take_static(&mut self) -> bool {
        let live = self.static_row.cells.iter().any(|c| c.is_live(self.command.now_s));
        if !self.statics_stand_alone || !live || !self.passes(false) {
            return false;
        }
        self.bytes += self.static_row.data_size() as u64;
        self.take();
        true
    }

    /// Whether the live row passes the filter.
    fn passes(&mut self, with_row: bool) -> bool {
        let passes = filter::passes(&self.command, &self.current(with_row));
        self.live += 1;
        self.filtered += u64::from(!passes);
        passes
    }

    fn take(&mut self) {
        self.rows += 1;
        self.partition_has_rows = true;
        self.remaining -= 1;
        self.possible = self.possible.saturating_sub(1);
        self.remaining_in_partition =
            if self.command.limits.distinct { 0 } else { self.remaining_in_partition.saturating_sub(1) };
    }

    fn current(&self, with_row: bool) -> ResultRow<'_> {
        ResultRow {
            key: &self.key,
            static_row: (!self.static_row.cells.is_empty()).then_some(&self.static_row),
            row: with_row.then_some(&self.fragment.row),
            now_s: self.command.now_s,
        }
    }

    fn is_page_full(&self) -> bool {
        self.full || self.rows >= self.limits.rows || self.bytes >= self.limits.bytes
    }

    /// Where the page ended; `None` when the result is over. To be asked when [`LiveRows::next_row`] yielded
    /// no more.
    pub fn mark(&self) -> Option<PageMark> {
        if self.remaining == 0 {
            return None;
        }
        let stays = self.in_partition && self.remaining_in_partition > 0;
        let last = self.cut_off().and_then(Option::as_ref).or_else(|| self.last());
        Some(PageMark {
            key: self.key.clone(),
            is_before: false,
            clustering: if stays { last.cloned() } else { None },
            remaining: self.remaining,
            remaining_in_partition: self.remaining_in_partition,
        })
    }

    /// Tombstones met so far.
    pub fn tombstones(&self) -> u64 {
        self.tombstones
    }
}

/// Whether a partition of which only static content is there is a row of the result.
pub(crate) fn statics_stand_alone(command: &ReadCommand) -> bool {
    let clusterings = &command.clusterings;
    (command.limits.distinct || clusterings.is_all() || clusterings.is_statics_only())
        && !command.row_filter.iter().any(|condition| filter::is_about_rows(command, condition))
}

/// The row behind which the rows that a command asks for begin, if they do so behind a row.
fn start_of(command: &ReadCommand) -> Option<Clustering> {
    let ClusteringFilter::Slices { slices, reversed } = &command.clusterings else { return None };
    let (bound, behind) = match reversed {
        false => (&slices.first()?.start, BoundKind::ExclStart),
        true => (&slices.last()?.end, BoundKind::ExclEnd),
    };
    let is_row = bound.kind == behind && bound.prefix.len() == command.table.comparator().len();
    is_row.then(|| bound.prefix.clone())
}

impl Drop for LiveRows {
    fn drop(&mut self) {
        self.context.cost.rows_live.add(self.live);
        self.context.cost.rows_filtered.add(self.filtered);
        self.context.cost.tombstones_left.add(self.tombstones);
    }
}

#[cfg(test)]
mod tests;
