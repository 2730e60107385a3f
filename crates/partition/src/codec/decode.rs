//! Decoding of rows and markers. A caller reads the head, then the clustering or bound, and decides then
//! whether it decodes the body or steps over it.

use super::clustering::{compare_clustering, read_bound, read_clustering, skip_clustering};
use super::columns::ColumnSet;
use super::input::Input;
use super::layout::{Layout, LayoutColumn, Others, Wanted};
use super::stats::moment;
use bytes::Bytes;
use model::clustering::Position;
use model::elements::ElementSelection;
use model::{
    Cell, Clustering, ClusteringBound, ClusteringComparator, Deletion, Liveness, NO_DELETION_TIME, NO_TTL,
    Row,
};
use std::cmp::Ordering;

pub(super) mod flag {
    pub const END: u8 = 0x01;
    pub const MARKER: u8 = 0x02;
    pub const TIMESTAMP: u8 = 0x04;
    pub const TTL: u8 = 0x08;
    pub const DELETION: u8 = 0x10;
    pub const ALL_COLUMNS: u8 = 0x20;
    pub const COMPLEX_DELETION: u8 = 0x40;
    pub const EXTENSION: u8 = 0x80;

    pub const EXT_STATIC: u8 = 0x01;
    pub const EXT_SHADOWABLE: u8 = 0x02;

    pub const CELL_TOMBSTONE: u8 = 0x01;
    pub const CELL_EXPIRING: u8 = 0x02;
    pub const CELL_EMPTY: u8 = 0x04;
    pub const CELL_ROW_TIMESTAMP: u8 = 0x08;
    pub const CELL_ROW_TTL: u8 = 0x10;
    pub const CELL_ALL: u8 = 0x1f;
}

/// The flags of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFlags {
    bits: u8,
    /// Whether the row is static.
    pub is_static: bool,
    /// See [`Row::is_shadowable`].
    is_shadowable: bool,
}

impl RowFlags {
    /// Whether the row was inserted, without a TTL, and neither it nor a whole column of it was deleted.
    #[inline]
    pub(super) fn is_inserted_for_good(self) -> bool {
        self.bits & (flag::TIMESTAMP | flag::TTL | flag::DELETION | flag::COMPLEX_DELETION) == flag::TIMESTAMP
    }

    #[inline]
    pub(super) fn has(self, bit: u8) -> bool {
        self.bits & bit != 0
    }
}

/// How the cells of a column are read.
#[derive(Clone, Copy)]
struct CellRead<'c> {
    column: &'c LayoutColumn,
    wanted: bool,
    /// If not all elements of the column are wanted, which ones.
    elements: Option<&'c ElementSelection>,
    /// Up to which timestamp those that live are left out if they are not wanted.
    left_out: i64,
}

impl CellRead<'_> {
    /// Whether the value of the cell with this path is wanted.
    #[inline]
    fn wants(&self, path: &[u8]) -> bool {
        self.wanted && self.elements.is_none_or(|elements| elements.contains(path))
    }
}

/// What comes next in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnfilteredHead {
    /// A row.
    Row(RowFlags),
    /// A range tombstone marker.
    Marker,
    /// Nothing more.
    End,
}

/// The deletions of a marker: of the range that ends and of the one that starts, where the bound says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Deletion of the range that ends here; none where only one starts.
    pub close: Deletion,
    /// Deletion of the range that starts here; none where only one ends.
    pub open: Deletion,
}

impl Layout {
    /// Reads the flags of a row or marker.
    #[inline(always)]
    pub fn read_head<I: Input>(&self, input: &mut I) -> Result<UnfilteredHead, I::Error> {
        let bits = input.u8()?;
        if bits & flag::END != 0 {
            return match bits {
                flag::END => Ok(UnfilteredHead::End),
                _ => Err(input.malformed(format!("flags {bits:#04x} at the end of a partition"))),
            };
        }
        if bits & flag::MARKER != 0 {
            return match bits {
                flag::MARKER => Ok(UnfilteredHead::Marker),
                _ => Err(input.malformed(format!("flags {bits:#04x} of a marker"))),
            };
        }
        if bits & (flag::TIMESTAMP | flag::TTL) == flag::TTL {
            return Err(input.malformed(format!("flags {bits:#04x}: a TTL without a timestamp")));
        }
        let ext = if bits & flag::EXTENSION != 0 { input.u8()? } else { 0 };
        if ext & !(flag::EXT_STATIC | flag::EXT_SHADOWABLE) != 0 {
            return Err(input.malformed(format!("extended flags {ext:#04x} of a row")));
        }
        Ok(UnfilteredHead::Row(RowFlags {
            bits,
            is_static: ext & flag::EXT_STATIC != 0,
            is_shadowable: ext & flag::EXT_SHADOWABLE != 0,
        }))
    }

    /// Reads the clustering of a row that is not static.
    #[inline(always)]
    pub fn read_clustering<I: Input>(&self, input: &mut I, out: &mut Clustering) -> Result<(), I::Error> {
        read_clustering(input, &self.clustering, out)
    }

    /// Steps over the clustering of a row that is not static.
    #[inline]
    pub fn skip_clustering<I: Input>(&self, input: &mut I) -> Result<(), I::Error> {
        skip_clustering(input, &self.clustering)
    }

    /// Compares the clustering of a row that is not static, which comes next, with a position.
    #[inline]
    pub fn compare_clustering<I: Input>(
        &self,
        input: &mut I,
        comparator: &ClusteringComparator,
        with: Position<'_>,
    ) -> Result<Ordering, I::Error> {
        compare_clustering(input, &self.clustering, comparator, with)
    }

    /// Reads the bound of a marker.
    pub fn read_bound<I: Input>(&self, input: &mut I, out: &mut ClusteringBound) -> Result<(), I::Error> {
        read_bound(input, &self.clustering, out)
    }

    /// Reads the sizes that follow a clustering or a bound in an SSTable and returns the position at which
    /// the row or marker ends.
    #[inline]
    pub fn read_end<I: Input>(&self, input: &mut I) -> Result<u64, I::Error> {
        Ok(self.read_sizes(input)?.0)
    }

    /// As [`Layout::read_end`]. It also gives how many bytes before the row or marker the one before it
    /// starts; for the first one, how many bytes before it the partition starts.
    #[inline(always)]
    pub fn read_sizes<I: Input>(&self, input: &mut I) -> Result<(u64, u64), I::Error> {
        let size = input.uvint()?;
        let Some(end) = input.position().checked_add(size) else {
            return Err(input.malformed(format!("a row of {size} bytes")));
        };
        Ok((end, input.uvint()?))
    }

    /// Reads the deletions of a marker with the given bound.
    pub fn read_marker<I: Input>(&self, input: &mut I, bound: &ClusteringBound) -> Result<Marker, I::Error> {
        let first = self.deltas.read_deletion(input)?;
        Ok(if bound.kind.is_boundary() {
            Marker { close: first, open: self.deltas.read_deletion(input)? }
        } else if bound.kind.is_start() {
            Marker { close: Deletion::NONE, open: first }
        } else {
            Marker { close: first, open: Deletion::NONE }
        })
    }

    /// Reads what follows the clustering and the sizes into `row`, whose clustering stays. Values of columns
    /// and elements that are not `wanted` are stepped over and left empty. Cells of dropped columns are left
    /// out, and other cells as the read wants it. Where the row is to `end`, if it says so, it is not looked
    /// at behind the last cell that counts.
    pub fn read_row_body<I: Input>(
        &self,
        input: &mut I,
        flags: RowFlags,
        end: Option<u64>,
        wanted: &Wanted,
        present: &mut ColumnSet,
        row: &mut Row,
    ) -> Result<(), I::Error> {
        row.clear_content();
        if flags.has(flag::TIMESTAMP) {
            let timestamp = self.deltas.read_timestamp(input)?;
            row.liveness = if flags.has(flag::TTL) {
                let ttl = self.deltas.read_ttl(input)?;
                Liveness::expiring(timestamp, ttl, moment(self.deltas.read_local_deletion(input)?, ttl))
            } else {
                Liveness::new(timestamp)
            };
        }
        if flags.has(flag::DELETION) {
            let deletion = self.deltas.read_deletion(input)?;
            row.set_deletion(deletion, flags.is_shadowable && !deletion.is_none());
            row.drop_outlived_deletion();
        }
        let columns = self.columns(flags.is_static);
        let others = wanted.others;
        let these = wanted.columns(flags.is_static);
        let mut left_out = others.left_out(&row.liveness);
        let all = flags.has(flag::ALL_COLUMNS);
        if !all {
            present.decode(input, columns.list.len())?;
        }
        for (i, column) in columns.list.iter().enumerate() {
            if !all && !present.contains(i) {
                continue;
            }
            if i >= these.end
                && others == Others::One
                && left_out == i64::MAX
                && let Some(end) = end
            {
                let rest = end.checked_sub(input.position());
                input.skip(rest.unwrap_or(u64::MAX))?;
                break;
            }
            let is_wanted = these.set.contains(i) && column.id.is_some();
            let read = CellRead { column, wanted: is_wanted, elements: None, left_out };
            match column.complex {
                true => {
                    let elements = wanted.elements_of(column);
                    self.read_complex(input, flags, CellRead { elements, ..read }, others, row)?;
                }
                false => self.read_cell::<I, false>(input, read, row)?,
            }
            if others == Others::One && !row.cells.is_empty() {
                left_out = i64::MAX;
            }
        }
        if !columns.ids_ascend {
            row.complex_deletions.sort_by_key(|(column, _)| *column);
            row.cells.sort_by_key(|cell| cell.column);
        }
        Ok(())
    }

    /// Reads a multi-cell column into `row`.
    #[inline(never)]
    fn read_complex<I: Input>(
        &self,
        input: &mut I,
        flags: RowFlags,
        mut read: CellRead<'_>,
        others: Others,
        row: &mut Row,
    ) -> Result<(), I::Error> {
        let column = read.column;
        if flags.has(flag::COMPLEX_DELETION) {
            let deletion = self.deltas.read_deletion(input)?;
            if let Some(id) = column.id
                && !deletion.is_none()
                && deletion.timestamp > column.dropped_at
            {
                row.complex_deletions.push((id, deletion));
            }
        }
        for _ in 0..input.uvint()? {
            self.read_cell::<I, true>(input, read, row)?;
            if others == Others::One && !row.cells.is_empty() {
                read.left_out = i64::MAX;
            }
        }
        Ok(())
    }

    /// Reads a cell into `row`, unless it is left out or went with a dropped column. `COMPLEX` is what its
    /// column is: most are not, and of these nothing is asked cell by cell.
    #[inline(always)]
    fn read_cell<I: Input, const COMPLEX: bool>(
        &self,
        input: &mut I,
        read: CellRead<'_>,
        row: &mut Row,
    ) -> Result<(), I::Error> {
        let bits = input.u8()?;
        if bits & !(flag::CELL_EMPTY | flag::CELL_ROW_TIMESTAMP) != 0 {
            return self.take_passing_cell(input, read, bits, row);
        }
        let CellRead { column, left_out, .. } = read;
        let timestamp = if bits & flag::CELL_ROW_TIMESTAMP != 0 {
            row.liveness.timestamp
        } else {
            self.deltas.read_timestamp(input)?
        };
        let may_go = timestamp <= left_out;
        let (path, wanted) = match COMPLEX {
            false => (Bytes::new(), read.wanted),
            true if may_go && !read.wanted => {
                (input.uvint().and_then(|len| input.skip(len)).map(|()| Bytes::new())?, false)
            }
            true if may_go && read.elements.is_some() => {
                // Most cells go: a path is copied only if its cell stays.
                let len = input.uvint()?;
                let copy = |path: &[u8]| read.wants(path).then(|| Bytes::copy_from_slice(path));
                let path = input.with_slice(len, copy)?;
                let wanted = path.is_some();
                (path.unwrap_or_default(), wanted)
            }
            true => {
                let path = input.vbytes()?;
                let wanted = read.wants(&path);
                (path, wanted)
            }
        };
        let is_left_out = !wanted && may_go;
        let value = if bits & flag::CELL_EMPTY != 0 {
            Bytes::new()
        } else {
            let len = column.len.read(input)?;
            match wanted {
                true => input.bytes(len)?,
                false => input.skip(len).map(|()| Bytes::new())?,
            }
        };
        if let Some(id) = column.id
            && !is_left_out
            && column.has_kept(timestamp)
        {
            row.cells.push(Cell { path, ..Cell::live(id, timestamp, value) });
        }
        Ok(())
    }

    /// Reads what follows the flags of a cell that is a tombstone or expires into `row`.
    fn take_passing_cell<I: Input>(
        &self,
        input: &mut I,
        read: CellRead<'_>,
        bits: u8,
        row: &mut Row,
    ) -> Result<(), I::Error> {
        let (column, liveness) = (read.column, row.liveness);
        let has = |bit: u8| bits & bit != 0;
        let (tombstone, expiring) = (has(flag::CELL_TOMBSTONE), has(flag::CELL_EXPIRING));
        if bits & !flag::CELL_ALL != 0
            || (tombstone && (expiring || !has(flag::CELL_EMPTY)))
            || (has(flag::CELL_ROW_TTL) && !(expiring && liveness.is_expiring()))
        {
            return Err(input.malformed(format!("flags {bits:#04x} of a cell")));
        }
        let timestamp = match has(flag::CELL_ROW_TIMESTAMP) {
            true => liveness.timestamp,
            false => self.deltas.read_timestamp(input)?,
        };
        let (local_deletion_time, ttl) = if has(flag::CELL_ROW_TTL) {
            (liveness.local_expiration_time, liveness.ttl)
        } else if expiring {
            let local = self.deltas.read_local_deletion(input)?;
            let ttl = self.deltas.read_ttl(input)?;
            (moment(local, ttl), ttl)
        } else if tombstone {
            (moment(self.deltas.read_local_deletion(input)?, NO_TTL), NO_TTL)
        } else {
            (NO_DELETION_TIME, NO_TTL)
        };
        let path = if column.complex { input.vbytes()? } else { Bytes::new() };
        let value = if has(flag::CELL_EMPTY) {
            Bytes::new()
        } else {
            let len = column.len.read(input)?;
            if read.wants(&path) {
                input.bytes(len)?
            } else {
                input.skip(len)?;
                Bytes::new()
            }
        };
        let Some(id) = column.id else { return Ok(()) };
        if column.has_kept(timestamp) {
            row.cells.push(Cell { column: id, timestamp, ttl, local_deletion_time, path, value });
        }
        Ok(())
    }
}
