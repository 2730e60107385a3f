//! A RESULT of rows, written into the buffer that goes to the socket, or into blocks that will.
//!
//! ```text
//! i32 2
//! u32 flags                    01 one table for all columns, 02 more pages, 04 no metadata, 08 new metadata id
//! i32 column count
//! [02] bytes paging state
//! [08] short bytes result metadata id                          v5
//! unless 04: [01] string keyspace | string table
//!            columns: [not 01] string keyspace | string table, string name | type option
//! i32 row count
//! rows: column count * bytes
//! ```
//!
//! 1. [`EncodedColumns`] is made once for a statement and a version.
//! 2. [`RowsWriter::new`] writes everything up to the rows.
//! 3. Each row is as many values as there are columns, then [`RowsWriter::end_row`].
//! 4. [`RowsWriter::finish`] fills in the row count. The paging state is known only now, but stands before
//!    the rows. So the rows of a page that is not the last are moved once; where they are in blocks, only the
//!    first block is moved.

use bytes::{BufMut, Bytes, BytesMut};
use model::types::CqlType;

use crate::encoder::{insert, patch_u32};
#[cfg(any(test, feature = "client"))]
use crate::error::BodyError;
#[cfg(any(test, feature = "client"))]
use crate::primitives::Reader;
use crate::primitives::{length_i32, put_bytes, put_short_bytes, put_string};
use crate::response::blocks::Blocks;
use crate::types::put_type;
#[cfg(any(test, feature = "client"))]
use crate::types::read_type;
use crate::version::ProtocolVersion;

pub(super) const GLOBAL_TABLE: u32 = 0x01;
const HAS_MORE_PAGES: u32 = 0x02;
pub(super) const NO_METADATA: u32 = 0x04;
const METADATA_CHANGED: u32 = 0x08;

/// The kind of a RESULT of rows.
pub(super) const KIND: i32 = 2;

/// A column of a result, or a bind marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnSpec {
    /// The keyspace of the table.
    pub keyspace: String,
    /// The table.
    pub table: String,
    /// The column's name, or what the selector is called.
    pub name: String,
    /// The type.
    pub kind: CqlType,
}

/// The columns of a result in the encoding of one version. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedColumns {
    version: ProtocolVersion,
    global: bool,
    count: u32,
    bytes: Bytes,
}

impl EncodedColumns {
    /// Encodes columns; the table is written once if it is the same for all.
    pub fn new(version: ProtocolVersion, columns: &[ColumnSpec]) -> Self {
        let mut bytes = BytesMut::new();
        let global = put_columns(&mut bytes, version, columns);
        Self { version, global, count: columns.len() as u32, bytes: bytes.freeze() }
    }

    /// The version that the encoding is for.
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// The number of columns.
    pub fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes of the encoding.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// The flag that says whether the table is written once.
    pub(super) fn flags(&self) -> u32 {
        if self.global { GLOBAL_TABLE } else { 0 }
    }

    /// The encoding, without flags and count.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Writes columns and says whether they share one table.
pub(super) fn put_columns(out: &mut BytesMut, version: ProtocolVersion, columns: &[ColumnSpec]) -> bool {
    let Some(first) = columns.first() else { return false };
    let global =
        columns.iter().all(|column| column.keyspace == first.keyspace && column.table == first.table);
    if global {
        put_string(out, &first.keyspace);
        put_string(out, &first.table);
    }
    for column in columns {
        if !global {
            put_string(out, &column.keyspace);
            put_string(out, &column.table);
        }
        put_string(out, &column.name);
        put_type(out, version, &column.kind);
    }
    global
}

/// What the metadata of a result says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataMode<'a> {
    /// The columns.
    Full,
    /// Only their number: the client asked to skip the rest.
    Skip,
    /// The columns, and the id of this metadata, because the client's are outdated; v5.
    Changed(&'a [u8]),
}

/// Where the body of a result is written.
#[derive(Debug)]
enum Target<'a> {
    /// At the end of a buffer: the body starts at the position.
    Buffer(&'a mut BytesMut, usize),
    Blocks(&'a mut Blocks),
}

impl Target<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        match self {
            Self::Buffer(out, _) => out.put_slice(bytes),
            Self::Blocks(out) => out.put(bytes),
        }
    }

    fn put_u32(&mut self, number: u32) {
        self.put(&number.to_be_bytes());
    }

    /// Bytes of the body so far.
    fn length(&self) -> usize {
        match self {
            Self::Buffer(out, start) => out.len() - start,
            Self::Blocks(out) => out.length(),
        }
    }

    /// Overwrites four bytes.
    fn patch_u32(&mut self, at: usize, number: u32) {
        match self {
            Self::Buffer(out, start) => patch_u32(out, *start + at, number),
            Self::Blocks(out) => out.patch(at, &number.to_be_bytes()),
        }
    }

    /// Puts bytes at `at`, moving what follows.
    fn insert(&mut self, at: usize, bytes: &[u8]) {
        match self {
            Self::Buffer(out, start) => insert(out, *start + at, bytes),
            Self::Blocks(out) => out.insert(at, bytes),
        }
    }
}

/// Where the flags of a result of rows stand in its body.
const FLAGS: usize = 4;
/// Where its paging state does.
const PAGING_STATE: usize = 12;

/// Writes the body of a result of rows.
#[derive(Debug)]
pub struct RowsWriter<'a> {
    out: Target<'a>,
    flags: u32,
    row_count_at: usize,
    columns: u32,
    rows: u32,
    row_bytes: usize,
    values_in_row: u32,
}

impl<'a> RowsWriter<'a> {
    /// Begins a body at the end of `out`.
    pub fn new(out: &'a mut BytesMut, columns: &EncodedColumns, mode: MetadataMode<'_>) -> Self {
        let start = out.len();
        Self::begin(Target::Buffer(out, start), columns, mode)
    }

    /// Begins a body in blocks, which hold nothing yet.
    pub fn in_blocks(out: &'a mut Blocks, columns: &EncodedColumns, mode: MetadataMode<'_>) -> Self {
        Self::begin(Target::Blocks(out), columns, mode)
    }

    fn begin(mut out: Target<'a>, columns: &EncodedColumns, mode: MetadataMode<'_>) -> Self {
        let mode_flags = match mode {
            MetadataMode::Full => 0,
            MetadataMode::Skip => NO_METADATA,
            MetadataMode::Changed(_) => METADATA_CHANGED,
        };
        let flags = columns.flags() | mode_flags;
        out.put(&KIND.to_be_bytes());
        out.put_u32(flags);
        out.put_u32(columns.count);
        if let MetadataMode::Changed(id) = mode {
            let mut short = BytesMut::new();
            put_short_bytes(&mut short, id);
            out.put(&short);
        }
        if mode != MetadataMode::Skip {
            out.put(columns.bytes());
        }
        let row_count_at = out.length();
        out.put_u32(0);
        Self { out, flags, row_count_at, columns: columns.count, rows: 0, row_bytes: 0, values_in_row: 0 }
    }

    /// Writes the next value of the row; `None` is null.
    #[inline]
    pub fn value(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => {
                self.out.put(&length_i32(value.len()).to_be_bytes());
                self.out.put(value);
                self.row_bytes += 4 + value.len();
            }
            None => {
                self.out.put(&(-1_i32).to_be_bytes());
                self.row_bytes += 4;
            }
        }
        self.values_in_row += 1;
    }

    /// Ends the row, which must have as many values as there are columns.
    #[inline]
    pub fn end_row(&mut self) {
        debug_assert_eq!(self.values_in_row, self.columns, "a row has one value for each column");
        self.values_in_row = 0;
        self.rows += 1;
    }

    /// The rows ended so far.
    pub fn row_count(&self) -> usize {
        self.rows as usize
    }

    /// The bytes of the rows so far: what a page is measured by.
    pub fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Completes the body. A paging state says that there are more pages, and where the next one begins.
    pub fn finish(mut self, paging_state: Option<&[u8]>) {
        debug_assert_eq!(self.values_in_row, 0, "the last row has ended");
        self.out.patch_u32(self.row_count_at, self.rows);
        let Some(state) = paging_state else { return };
        self.out.patch_u32(FLAGS, self.flags | HAS_MORE_PAGES);
        let mut bytes = BytesMut::with_capacity(4 + state.len());
        put_bytes(&mut bytes, Some(state));
        self.out.insert(PAGING_STATE, &bytes);
    }
}

/// A whole result of rows in memory: for small results, and for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// The columns; `None` if the client asked to skip them.
    pub columns: Option<Vec<ColumnSpec>>,
    /// The number of columns.
    pub column_count: usize,
    /// The id of the columns, if the client's are outdated; v5.
    pub new_metadata_id: Option<Bytes>,
    /// Where the next page begins.
    pub paging_state: Option<Bytes>,
    /// The values, row by row.
    pub rows: Vec<Vec<Option<Bytes>>>,
}

impl Rows {
    /// Appends the body of the RESULT.
    pub fn encode(&self, version: ProtocolVersion, out: &mut BytesMut) {
        let columns = match &self.columns {
            Some(columns) => EncodedColumns::new(version, columns),
            None => EncodedColumns {
                version,
                global: false,
                count: self.column_count as u32,
                bytes: Bytes::new(),
            },
        };
        let mode = match (&self.columns, &self.new_metadata_id) {
            (None, _) => MetadataMode::Skip,
            (_, Some(id)) if version >= ProtocolVersion::V5 => MetadataMode::Changed(id),
            _ => MetadataMode::Full,
        };
        let mut writer = RowsWriter::new(out, &columns, mode);
        for row in &self.rows {
            row.iter().for_each(|value| writer.value(value.as_deref()));
            writer.end_row();
        }
        writer.finish(self.paging_state.as_deref());
    }

    /// Reads the body behind its kind.
    #[cfg(any(test, feature = "client"))]
    pub fn decode(reader: &mut Reader) -> Result<Self, BodyError> {
        let mut rows = read_metadata(reader)?;
        let count = reader.u32("the row count")?;
        if rows.column_count == 0 && count > 0 {
            // Nothing in the body would bound the number of such rows.
            return Err(BodyError::Tag { what: "row count without columns", tag: count.to_string() });
        }
        for _ in 0..count {
            let row: Result<Vec<_>, _> = (0..rows.column_count).map(|_| reader.bytes("a value")).collect();
            rows.rows.push(row?);
        }
        Ok(rows)
    }
}

/// Reads the metadata of a result, the rows left empty.
#[cfg(any(test, feature = "client"))]
pub(super) fn read_metadata(reader: &mut Reader) -> Result<Rows, BodyError> {
    let flags = reader.u32("metadata flags")?;
    let count = reader.u32("the column count")?;
    let mut paging_state = None;
    if flags & HAS_MORE_PAGES != 0 {
        paging_state = reader.bytes("a paging state")?;
    }
    let mut new_metadata_id = None;
    if flags & METADATA_CHANGED != 0 {
        new_metadata_id = Some(reader.short_bytes()?);
    }
    let mut columns = None;
    if flags & NO_METADATA == 0 {
        columns = Some(read_columns(reader, flags & GLOBAL_TABLE != 0, count)?);
    }
    Ok(Rows { columns, column_count: count as usize, new_metadata_id, paging_state, rows: Vec::new() })
}

/// Reads columns.
#[cfg(any(test, feature = "client"))]
pub(super) fn read_columns(
    reader: &mut Reader,
    global: bool,
    count: u32,
) -> Result<Vec<ColumnSpec>, BodyError> {
    let mut table = None;
    if global && count > 0 {
        table = Some((reader.string()?, reader.string()?));
    }
    (0..count)
        .map(|_| {
            let (keyspace, table) = match &table {
                Some(names) => names.clone(),
                None => (reader.string()?, reader.string()?),
            };
            Ok(ColumnSpec { keyspace, table, name: reader.string()?, kind: read_type(reader)? })
        })
        .collect()
}
