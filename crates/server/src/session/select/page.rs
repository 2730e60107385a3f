//! The rows of a page: pulled, shaped and written.

use bytes::Bytes;
use coordinator::PagingState;
use cql::result::{ResultShaper, RowSink};
use partition::{LiveRows, PageMark};
use protocol::response::error::ErrorResponse;
use protocol::response::rows::RowsWriter;

use super::account::Tally;
use super::{Read, Stop};
use crate::session::{RESULT_BYTES_MAX, error, options};

pub(super) fn finish_shape(shaper: &mut ResultShaper<'_>, writer: &mut RowsWriter<'_>) -> Result<(), Stop> {
    shaper.finish(&mut Sink(writer)).map_err(|error| Stop::Refused(error::of_cql(error)))
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
        rows: &mut LiveRows,
        shaper: &mut ResultShaper<'_>,
        writer: &mut RowsWriter<'_>,
    ) -> Result<(Option<Bytes>, Tally), Stop> {
        let (counted, is_satisfied) = self.pull_rows(rows, shaper, writer)?;
        let mark = if is_satisfied { None } else { rows.mark() };
        let version = options::paging_version(self.version);
        Ok((mark.map(|mark| PagingState::of(self.command(), &mark).encode(version)), counted))
    }

    /// Writes rows until the page is over or the shaper has enough (`true`).
    fn pull_rows(
        &self,
        rows: &mut LiveRows,
        shaper: &mut ResultShaper<'_>,
        writer: &mut RowsWriter<'_>,
    ) -> Result<(Tally, bool), Stop> {
        let mut tally = Tally::default();
        let mut is_satisfied = false;
        loop {
            let row = match rows.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(cause) => return Err(Stop::of_read(self.consistency, cause)),
            };
            tally.rows += 1;
            match shaper.push(&row, &mut Sink(writer)) {
                Ok(true) => {}
                Ok(false) => {
                    is_satisfied = true;
                    break;
                }
                Err(error) => return Err(Stop::Refused(error::of_cql(error))),
            }
            if writer.row_bytes() > RESULT_BYTES_MAX {
                return Err(Stop::Refused(ErrorResponse::invalid(format!(
                    "The result is larger than the {RESULT_BYTES_MAX} bytes of the largest frame; read it in pages"
                ))));
            }
        }
        tally.tombstones = rows.tombstones();
        Ok((tally, is_satisfied))
    }

    /// As [`Read::pull_rows`]; `last` is where the last row stands that belongs to a group of this page.
    pub(super) fn pull_grouped(
        &self,
        rows: &mut LiveRows,
        last: &mut Option<PageMark>,
        shaper: &mut ResultShaper<'_>,
        writer: &mut RowsWriter<'_>,
    ) -> Result<(Tally, bool), Stop> {
        if self.page_groups == u64::MAX {
            return self.pull_rows(rows, shaper, writer);
        }
        let mut tally = Tally::default();
        let is_satisfied = loop {
            let row = match rows.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => break false,
                Err(cause) => return Err(Stop::of_read(self.consistency, cause)),
            };
            tally.rows += 1;
            match shaper.push(&row, &mut Sink(writer)) {
                Ok(true) => *last = rows.mark(),
                Ok(false) => break true,
                Err(error) => return Err(Stop::Refused(error::of_cql(error))),
            }
        };
        tally.tombstones = rows.tombstones();
        Ok((tally, is_satisfied))
    }
}
