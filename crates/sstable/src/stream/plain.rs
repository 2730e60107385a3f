//! Plain rows, handed on where they lie in the page at hand.

use super::forward::{Forward, row_flags};
use super::places::Places;
use super::{SsTableStream, State, Walker};
use crate::pages::{Cursor, InPage, NotInPage};
use partition::codec::{ColumnSet, Input, Layout, Wanted};
use partition::{PlainHead, PlainParts, PlainRow, ReadError, TakePlain};
use std::ops::Range;

/// What a stream keeps for plain rows.
#[derive(Debug, Default)]
pub(super) struct Plain {
    parts: PlainParts,
    peeked: Option<Peeked>,
}

/// A plain row that was looked at.
#[derive(Debug)]
struct Peeked {
    /// Where it lies in the data.
    bytes: Range<u64>,
    cells: u64,
}

impl SsTableStream {
    /// [`partition::PartitionStream::plain_rows`]: of partitions that are read as a whole, forwards.
    pub(super) fn take_plain(&mut self, take: &mut TakePlain<'_>) -> Result<(), ReadError> {
        if !self.may_be_plain()? {
            return Ok(());
        }
        let Walker::Forward(walker) = &mut self.walker else { return Ok(()) };
        let parts = &mut self.aside.get_or_insert_default().plain.parts;
        let (rows, cells) = walker.plain_in_page(&mut self.data, &self.layout, &self.wanted, parts, take);
        if rows > 0 {
            self.taken_start = walker.head_start().unwrap_or(self.taken_start);
            self.counted.plain(rows, cells);
        }
        Ok(())
    }

    /// [`partition::PartitionStream::peek_plain`].
    pub(super) fn find_plain(&mut self, out: &mut PlainHead) -> Result<bool, ReadError> {
        let peeked = match (self.may_be_plain()?, &mut self.walker) {
            (true, Walker::Forward(walker)) => {
                walker.peek_plain(&mut self.data, &self.layout, &self.wanted, out)
            }
            _ => None,
        };
        let is_plain = peeked.is_some();
        self.aside.get_or_insert_default().plain.peeked = peeked;
        Ok(is_plain)
    }

    /// [`partition::PartitionStream::leave_plain`].
    pub(super) fn leave_peeked(&mut self) {
        if let Some(aside) = &mut self.aside
            && let Some(peeked) = aside.plain.peeked.take()
            && let Walker::Forward(walker) = &mut self.walker
        {
            walker.note(&peeked.bytes);
            self.data.seek(peeked.bytes.end);
            self.taken_start = peeked.bytes.start;
            self.counted.plain(1, peeked.cells);
        }
    }

    /// Whether the stream stands among rows, and nothing but what they say of themselves bears on them.
    fn may_be_plain(&mut self) -> Result<bool, ReadError> {
        if !self.whole || self.is_reversed() {
            return Ok(false);
        }
        if self.state == State::Static && !self.layout.has_statics() {
            self.begin_rows()?;
        }
        Ok(self.state == State::Rows && self.open.is_none())
    }
}

/// What decoding a plain row takes besides its bytes.
struct Decoder<'d> {
    layout: &'d Layout,
    wanted: &'d Wanted,
    places: &'d Places,
    present: &'d mut ColumnSet,
}

impl Decoder<'_> {
    /// Decodes the row at hand, under the conditions of [`Forward::take_in_page`]; returns where it lies.
    #[inline(always)]
    fn decode(
        &mut self,
        page: &mut InPage<'_>,
        before: Option<u64>,
        parts: &mut PlainParts,
    ) -> Result<Range<u64>, NotInPage> {
        let start = page.position();
        let flags = row_flags(page, self.layout)?;
        self.layout.read_plain_clustering(page, parts)?;
        let (end, says) = self.layout.read_sizes(page)?;
        let follows = before.is_none_or(|before| start.checked_sub(says) == Some(before));
        if !follows || self.places.is_new(start) || self.places.is_new_behind(end) {
            return Err(NotInPage);
        }
        self.layout.read_plain_body(page, flags, end, self.wanted, self.present, parts)?;
        Ok(start..end)
    }
}

impl Forward {
    /// Hands on the rows at hand that are plain. Returns how many they were, and how many of their cells were
    /// looked at.
    fn plain_in_page(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        wanted: &Wanted,
        parts: &mut PlainParts,
        take: &mut TakePlain<'_>,
    ) -> (u64, u64) {
        let (mut rows, mut cells) = (0, 0);
        if self.head.is_some() {
            return (rows, cells);
        }
        let mut last = None;
        let mut before = self.before;
        let mut decoder = Decoder { layout, wanted, places: &self.places, present: &mut self.present };
        let _ = data.decode_in_page(|page| {
            loop {
                let mut next = page.clone();
                let Ok(bytes) = decoder.decode(&mut next, before, parts) else { return Ok(()) };
                *page = next;
                before = Some(bytes.start);
                last = Some(bytes);
                rows += 1;
                cells += parts.cells.len() as u64;
                if !take(PlainRow::new(page.page(), parts)) {
                    return Ok(());
                }
            }
        });
        if let Some(last) = last {
            self.note(&last);
        }
        (rows, cells)
    }

    /// Looks at the row at hand, if it is plain, and leaves it there.
    fn peek_plain(
        &mut self,
        data: &mut Cursor,
        layout: &Layout,
        wanted: &Wanted,
        out: &mut PlainHead,
    ) -> Option<Peeked> {
        if self.head.is_some() {
            return None;
        }
        let before = self.before;
        let mut decoder = Decoder { layout, wanted, places: &self.places, present: &mut self.present };
        data.decode_in_page(|page| {
            out.set_page(page.page());
            let bytes = decoder.decode(&mut page.clone(), before, &mut out.parts)?;
            Ok(Peeked { bytes, cells: out.parts.cells.len() as u64 })
        })
    }

    /// Notes a row that was taken.
    fn note(&mut self, bytes: &Range<u64>) {
        (self.before, self.head_start, self.head_end) = (Some(bytes.start), Some(bytes.start), bytes.end);
    }
}
