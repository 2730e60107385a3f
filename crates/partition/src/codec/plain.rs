//! Plain rows, decoded without a copy: most rows of most tables.
//!
//! A row is plain if it was inserted for good, nothing in it is deleted or expires, and no wanted column has
//! more than one cell. Such a row is live whatever cells it has, so those of columns that are not wanted do
//! not count. What turns out not to be plain is an error of the input, and is decoded once more as any row.

use super::columns::ColumnSet;
use super::decode::{RowFlags, flag};
use super::input::Input;
use super::layout::{Layout, Wanted};
use crate::plain::{Place, PlainCell, PlainParts};

/// An input whose bytes lie in one page.
pub trait InPlace: Input {
    /// Where in the page the next `len` bytes lie.
    ///
    /// # Errors
    /// When there are fewer.
    fn place(&mut self, len: u64) -> Result<Place, Self::Error>;
}

impl Layout {
    /// Reads the clustering of a row that is not static.
    #[inline(always)]
    pub fn read_plain_clustering<I: InPlace>(
        &self,
        input: &mut I,
        out: &mut PlainParts,
    ) -> Result<(), I::Error> {
        const EMPTY: u64 = 1;
        const NULL: u64 = 2;
        out.clustering.clear();
        for types in self.clustering.chunks(32) {
            let mut header = input.uvint()?;
            for ty in types {
                out.clustering.push(match header & 3 {
                    0 => {
                        let len = ty.read(input)?;
                        Some(input.place(len)?)
                    }
                    EMPTY => Some(Place::default()),
                    NULL => None,
                    _ => return Err(input.malformed(String::new())),
                });
                header >>= 2;
            }
            if header != 0 {
                return Err(input.malformed(String::new()));
            }
        }
        Ok(())
    }

    /// Reads what follows the clustering and the sizes of a row that is not static and ends at `end`.
    ///
    /// # Errors
    /// When the row is not plain, or its bytes are not what they should be.
    #[inline(always)]
    pub fn read_plain_body<I: InPlace>(
        &self,
        input: &mut I,
        flags: RowFlags,
        end: u64,
        wanted: &Wanted,
        present: &mut ColumnSet,
        out: &mut PlainParts,
    ) -> Result<(), I::Error> {
        out.cells.clear();
        let columns = &self.regulars;
        if !flags.is_inserted_for_good() || !columns.ids_ascend {
            return Err(input.malformed(String::new()));
        }
        let inserted = self.deltas.read_timestamp(input)?;
        let these = wanted.columns(false);
        let all = flags.has(flag::ALL_COLUMNS);
        if !all {
            present.decode(input, columns.list.len())?;
        }
        for (i, column) in columns.list.iter().enumerate().take(these.end) {
            if !all && !present.contains(i) {
                continue;
            }
            let bits = if column.complex { u8::MAX } else { input.u8()? };
            if bits & !(flag::CELL_EMPTY | flag::CELL_ROW_TIMESTAMP) != 0 {
                return Err(input.malformed(String::new()));
            }
            let timestamp = match bits & flag::CELL_ROW_TIMESTAMP != 0 {
                true => inserted,
                false => self.deltas.read_timestamp(input)?,
            };
            let value = match bits & flag::CELL_EMPTY != 0 {
                true => Place::default(),
                false => {
                    let len = column.len.read(input)?;
                    input.place(len)?
                }
            };
            if let Some(id) = column.id
                && these.set.contains(i)
                && column.has_kept(timestamp)
            {
                out.cells.push(PlainCell { column: id, timestamp, value });
            }
        }
        let rest = end.checked_sub(input.position());
        input.skip(rest.unwrap_or(u64::MAX))
    }
}
