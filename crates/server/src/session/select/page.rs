//! The rows of a page: pulled, shaped and written.

use bytes::Bytes;
use coordinator::{Page, PagingState};
use cql::result::{ResultShaper, RowSink};
use partition::PageMark;
use protocol::response::error::ErrorResponse;
use protocol::response::rows::{EncodedColumns, RowsWriter};

use super::account::Tally;
use super::{Read, Stop};
use crate::net::AnswerRoom;
use crate::session::{RESULT_BYTES_MAX, error, options};

/// Room that an answer takes at its beginning, in bytes: most are shorter.
const FIRST_ROOM_BYTES: u64 = 64 << 10;

/// How long an answer may become.
pub(super) struct Extent<'a> {
    /// Where it takes room; none of a short answer, which other bounds hold.
    room: Option<&'a mut AnswerRoom>,
    /// Bytes before its rows.
    before_rows: u64,
    /// Bytes of rows for which there is room.
    row_bytes_max: usize,
}

impl<'a> Extent<'a> {
    /// Of an answer that is made on the network thread.
    pub(super) fn short() -> Extent<'a> {
        Extent { room: None, before_rows: 0, row_bytes_max: RESULT_BYTES_MAX }
    }

    /// Of an answer with these columns, in as much room as it begins with.
    pub(super) fn of(columns: &EncodedColumns, room: &'a mut AnswerRoom) -> Result<Extent<'a>, Stop> {
        let before_rows = columns.length() as u64;
        room.reach(before_rows + FIRST_ROOM_BYTES).map_err(Stop::NoRoom)?;
        let row_bytes_max = (room.bytes() - before_rows).min(RESULT_BYTES_MAX as u64) as usize;
        Ok(Extent { room: Some(room), before_rows, row_bytes_max })
    }

    /// Sees to it that there is room for the rows so far, those included that are kept to be sorted, and for
    /// more as the answer grows.
    #[inline]
    fn fit(&mut self, shaper: &ResultShaper<'_>, writer: &RowsWriter<'_>) -> Result<(), Stop> {
        let bytes = writer.row_bytes() + shaper.kept_bytes();
        match bytes > self.row_bytes_max {
            true => self.stretch(bytes),
            false => Ok(()),
        }
    }

    #[cold]
    fn stretch(&mut self, row_bytes: usize) -> Result<(), Stop> {
        if row_bytes > RESULT_BYTES_MAX {
            return Err(Stop::Refused(ErrorResponse::invalid(format!(
                "The result is larger than the {RESULT_BYTES_MAX} bytes of the largest frame; read it in pages"
            ))));
        }
        let wanted = row_bytes.saturating_mul(2).min(RESULT_BYTES_MAX);
        if let Some(room) = &mut self.room {
            room.reach(self.before_rows + wanted as u64).map_err(Stop::NoRoom)?;
        }
        self.row_bytes_max = wanted;
        Ok(())
    }
}

pub(super) fn finish_shape(
    shaper: &mut ResultShaper<'_>,
    writer: &mut RowsWriter<'_>,
    extent: &mut Extent<'_>,
) -> Result<(), Stop> {
    shaper.finish(&mut Sink(writer)).map_err(|error| Stop::Refused(error::of_cql(error)))?;
    extent.fit(shaper, writer)
}

/// Rows of the answer so far, and their bytes.
pub(super) fn returned(writer: &RowsWriter<'_>) -> (u64, u64) {
    (writer.row_count() as u64, writer.row_bytes() as u64)
}

/// Rows into the answer.
pub(in crate::session) struct Sink<'a, 'b>(pub(in crate::session) &'a mut RowsWriter<'b>);

impl RowSink for Sink<'_, '_> {
    #[inline]
    fn begin_row(&mut self) {}

    #[inline]
    fn value(&mut self, value: Option<&[u8]>) {
        self.0.value(value);
    }

    #[inline]
    fn end_row(&mut self) {
        self.0.end_row();
    }
}

impl Read {
    /// Writes the rows of a page and says where the next one starts.
    pub(super) fn pull(
        &self,
        rows: &mut Page,
        shaper: &mut ResultShaper<'_>,
        writer: &mut RowsWriter<'_>,
        extent: &mut Extent<'_>,
    ) -> Result<(Option<Bytes>, Tally), Stop> {
        let (counted, is_satisfied) = self.pull_rows(rows, shaper, writer, extent)?;
        let mark = if is_satisfied { None } else { rows.mark() };
        let state = mark.and_then(|mark| PagingState::of(self.command(), &mark));
        Ok((state.map(|state| state.encode(options::paging_version(self.version))), counted))
    }

    /// Writes rows until the page is over or the shaper has enough (`true`).
    fn pull_rows(
        &self,
        rows: &mut Page,
        shaper: &mut ResultShaper<'_>,
        writer: &mut RowsWriter<'_>,
        extent: &mut Extent<'_>,
    ) -> Result<(Tally, bool), Stop> {
        let mut tally = Tally::default();
        let mut is_satisfied = false;
        while let Some(row) = rows.next_row()? {
            tally.rows += 1;
            match shaper.push(&row, &mut Sink(writer)) {
                Ok(true) => {}
                Ok(false) => {
                    is_satisfied = true;
                    break;
                }
                Err(error) => return Err(Stop::Refused(error::of_cql(error))),
            }
            extent.fit(shaper, writer)?;
        }
        tally.tombstones = rows.tombstones();
        Ok((tally, is_satisfied))
    }

    /// As [`Read::pull_rows`]; `last` is where the last row stands that belongs to a group of this page.
    pub(super) fn pull_grouped(
        &self,
        rows: &mut Page,
        last: &mut Option<PageMark>,
        shaper: &mut ResultShaper<'_>,
        writer: &mut RowsWriter<'_>,
        extent: &mut Extent<'_>,
    ) -> Result<(Tally, bool), Stop> {
        if self.page_groups == u64::MAX {
            return self.pull_rows(rows, shaper, writer, extent);
        }
        let mut tally = Tally::default();
        let is_satisfied = loop {
            let Some(row) = rows.next_row()? else { break false };
            tally.rows += 1;
            match shaper.push(&row, &mut Sink(writer)) {
                Ok(true) => *last = rows.mark(),
                Ok(false) => break true,
                Err(error) => return Err(Stop::Refused(error::of_cql(error))),
            }
            extent.fit(shaper, writer)?;
        };
        tally.tombstones = rows.tombstones();
        Ok((tally, is_satisfied))
    }
}
