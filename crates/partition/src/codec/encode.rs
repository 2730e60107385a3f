//! Encoding of rows and markers.

use super::clustering::{write_bound, write_clustering};
use super::columns::ColumnSet;
use super::decode::flag;
use super::layout::{Layout, LayoutColumn};
use model::clustering::Position;
use model::{Cell, ClusteringBound, Deletion, Liveness, Row, vint};
use std::ops::Range;

/// Values of so many bytes or more are long: it pays to know where they lie without reading what is before.
pub const LONG_VALUE_BYTES: usize = 8 << 10;

/// What cannot be encoded, because it would not be read back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A value of a type of fixed length has another length.
    #[error("a value of {found} bytes where its type has {expected}")]
    ValueLength {
        /// Bytes of the type's values.
        expected: usize,
        /// Bytes of the value.
        found: usize,
    },
    /// A clustering or bound with a wrong number of components.
    #[error("a clustering of {found} components where the table has {expected}")]
    ClusteringLength {
        /// Number of clustering columns.
        expected: usize,
        /// Number of components.
        found: usize,
    },
    /// A deletion of a partition, or one that is open between blocks of rows, where the format holds none
    /// before 1970.
    #[error("a deletion at {0} microseconds cannot be written at full width")]
    DeletionBefore1970(i64),
}

/// Buffers and sizes that are carried from one unfiltered to the next.
#[derive(Debug, Default)]
pub struct RowSizes {
    /// Bytes of the unfiltered before, or of the partition's header before the first.
    pub previous: u64,
    /// Where the [long values](LONG_VALUE_BYTES) of the row that was appended last lie in what it was
    /// appended to.
    pub long_values: Vec<Range<usize>>,
    body: Vec<u8>,
    present: ColumnSet,
}

/// Appends the end of a partition.
pub fn write_end(out: &mut Vec<u8>) {
    out.push(flag::END);
}

impl Layout {
    /// Appends a row. Cells of columns that the layout does not have are left out: those columns were
    /// dropped.
    pub fn write_row(
        &self,
        out: &mut Vec<u8>,
        row: &Row,
        is_static: bool,
        sizes: &mut RowSizes,
    ) -> Result<(), EncodeError> {
        let start = out.len();
        let RowSizes { body, present, long_values, .. } = sizes;
        body.clear();
        long_values.clear();
        let columns = &self.columns(is_static).list;
        present.reset(columns.len());
        let mut has_complex_deletion = false;
        for (i, column) in columns.iter().enumerate() {
            let Some(id) = column.id else { continue };
            let deleted = column.complex && !row.complex_deletion(id).is_none();
            has_complex_deletion |= deleted;
            if deleted || !row.cells_of(id).is_empty() {
                present.insert(i);
            }
        }
        let mut bits = 0;
        let mut set = |bit: u8, condition: bool| bits |= if condition { bit } else { 0 };
        set(flag::TIMESTAMP, !row.liveness.is_none());
        set(flag::TTL, !row.liveness.is_none() && row.liveness.is_expiring());
        set(flag::DELETION, !row.deletion.is_none());
        set(flag::ALL_COLUMNS, present.len() == columns.len());
        set(flag::COMPLEX_DELETION, has_complex_deletion);
        let extension = match (is_static, row.is_shadowable) {
            (true, _) => flag::EXT_STATIC,
            (false, true) => flag::EXT_SHADOWABLE,
            (false, false) => 0,
        };
        set(flag::EXTENSION, extension != 0);
        self.write_body(body, row, bits, columns, present, long_values)?;
        out.push(bits);
        if extension != 0 {
            out.push(extension);
        }
        if !is_static {
            write_clustering(out, &self.clustering, &row.clustering)?;
        }
        self.finish(out, if is_static { 0 } else { sizes.previous }, &sizes.body);
        let body_at = out.len() - sizes.body.len();
        sizes.long_values.iter_mut().for_each(|v| *v = v.start + body_at..v.end + body_at);
        if !is_static {
            sizes.previous = (out.len() - start) as u64;
        }
        Ok(())
    }

    fn finish(&self, out: &mut Vec<u8>, previous: u64, body: &[u8]) {
        if self.sized {
            vint::write_unsigned(out, (vint::unsigned_len(previous) + body.len()) as u64);
            vint::write_unsigned(out, previous);
        }
        out.extend_from_slice(body);
    }

    fn write_body(
        &self,
        out: &mut Vec<u8>,
        row: &Row,
        bits: u8,
        columns: &[LayoutColumn],
        present: &ColumnSet,
        long_values: &mut Vec<Range<usize>>,
    ) -> Result<(), EncodeError> {
        let mut cell_of = |out: &mut Vec<u8>, column: &LayoutColumn, cell: &Cell| {
            self.write_cell(out, column, cell, &row.liveness)?;
            if cell.value.len() >= LONG_VALUE_BYTES && !cell.is_tombstone() {
                long_values.push(out.len() - cell.value.len()..out.len());
            }
            Ok(())
        };
        if bits & flag::TIMESTAMP != 0 {
            self.deltas.write_timestamp(out, row.liveness.timestamp);
        }
        if bits & flag::TTL != 0 {
            self.deltas.write_ttl(out, row.liveness.ttl);
            self.deltas.write_local_deletion(out, row.liveness.local_expiration_time);
        }
        if bits & flag::DELETION != 0 {
            self.deltas.write_deletion(out, &row.deletion);
        }
        if bits & flag::ALL_COLUMNS == 0 {
            present.encode(out, columns.len());
        }
        for (i, column) in columns.iter().enumerate() {
            let Some(id) = column.id.filter(|_| present.contains(i)) else { continue };
            let cells = row.cells_of(id);
            if column.complex {
                if bits & flag::COMPLEX_DELETION != 0 {
                    self.deltas.write_deletion(out, &row.complex_deletion(id));
                }
                vint::write_unsigned(out, cells.len() as u64);
                for cell in cells {
                    cell_of(out, column, cell)?;
                }
            } else if let Some(cell) = cells.first() {
                cell_of(out, column, cell)?;
            }
        }
        Ok(())
    }

    fn write_cell(
        &self,
        out: &mut Vec<u8>,
        column: &LayoutColumn,
        cell: &Cell,
        liveness: &Liveness,
    ) -> Result<(), EncodeError> {
        let (tombstone, expiring) = (cell.is_tombstone(), cell.is_expiring());
        let row_timestamp = !liveness.is_none() && cell.timestamp == liveness.timestamp;
        let row_ttl = expiring
            && liveness.is_expiring()
            && cell.ttl == liveness.ttl
            && cell.local_deletion_time == liveness.local_expiration_time;
        let empty = tombstone || cell.value.is_empty();
        let mut bits = 0;
        let mut set = |bit: u8, condition: bool| bits |= if condition { bit } else { 0 };
        set(flag::CELL_TOMBSTONE, tombstone);
        set(flag::CELL_EXPIRING, expiring);
        set(flag::CELL_EMPTY, empty);
        set(flag::CELL_ROW_TIMESTAMP, row_timestamp);
        set(flag::CELL_ROW_TTL, row_ttl);
        out.push(bits);
        if !row_timestamp {
            self.deltas.write_timestamp(out, cell.timestamp);
        }
        if (tombstone || expiring) && !row_ttl {
            self.deltas.write_local_deletion(out, cell.local_deletion_time);
        }
        if expiring && !row_ttl {
            self.deltas.write_ttl(out, cell.ttl);
        }
        if column.complex {
            vint::write_unsigned(out, cell.path.len() as u64);
            out.extend_from_slice(&cell.path);
        }
        if empty { Ok(()) } else { column.len.write(out, &cell.value) }
    }

    /// Appends the marker of a range change at `position`, in storage order: `before` held up to it, `after`
    /// holds from it on. Returns the bound's kind; `None`, and appends nothing, when nothing changes.
    pub fn write_marker<'p>(
        &self,
        out: &mut Vec<u8>,
        position: &'p ClusteringBound,
        before: &Deletion,
        after: &Deletion,
        sizes: &mut RowSizes,
    ) -> Result<Option<Position<'p>>, EncodeError> {
        let start = out.len();
        let opens = position.kind;
        sizes.long_values.clear();
        let body = &mut sizes.body;
        body.clear();
        let kind = match (before.is_none(), after.is_none()) {
            (true, true) => return Ok(None),
            (true, false) => opens,
            (false, true) => opens.complement(),
            (false, false) => opens.as_boundary(),
        };
        for deletion in [before, after] {
            if !deletion.is_none() {
                self.deltas.write_deletion(body, deletion);
            }
        }
        out.push(flag::MARKER);
        write_bound(out, &self.clustering, kind, &position.prefix)?;
        self.finish(out, sizes.previous, &sizes.body);
        sizes.previous = (out.len() - start) as u64;
        Ok(Some(Position { kind, prefix: &position.prefix }))
    }
}
