//! Data.db read without its index: partitions, rows and markers from any place that one starts at.
//!
//! For tools that check or mend an SSTable. An error leaves the walk where it was met: the caller says from
//! where to go on, with [`DataWalk::start_partition`] or inside a partition with [`DataWalk::resume`].

use crate::checksum::ChunkCrcs;
use crate::compression::CompressionInfo;
use crate::descriptor::{Component, Descriptor};
use crate::error::{OpenError, corrupt, file_name, read_optional};
use crate::header_table::table_of_header;
use crate::pages::{Cursor, FileId, FilePart, PageLayout, PagedFile, Uncached};
use crate::proof::{Found, Proof};
use crate::statistics::Statistics;
use crate::stream::forward::{Forward, UnfilteredKind, check_end};
use crate::toc;
use env::fs::FileSystem;
use model::clustering::Position;
use model::{DecoratedKey, Deletion, PartitionKey, Row, TableSchema};
use partition::codec::{ColumnSet, Input, Layout, UnfilteredHead, Wanted};
use partition::{Fragment, RangeChange, ReadContext, ReadError};
use std::io;
use std::sync::Arc;

/// How far long work on an SSTable is: uncompressed bytes of Data.db, each as often as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkDone {
    /// Bytes that are done.
    pub done: u64,
    /// All of them.
    pub of: u64,
}

/// Who wants to know how far it is.
pub type Tell<'a> = &'a dyn Fn(WorkDone);

/// How the pages of Data.db lie.
#[derive(Debug)]
pub(crate) struct DataPages {
    pub layout: PageLayout,
    /// The CRC-32 of the component that says so; 0 where there is none.
    pub table_crc: u32,
}

impl DataPages {
    /// Pages without anything known about them.
    pub fn plain() -> DataPages {
        DataPages { layout: PageLayout::Plain, table_crc: 0 }
    }

    /// What CompressionInfo.db or CRC.db say. Fails where TOC.txt names the first and it is missing:
    /// compressed data would be taken for rows.
    pub fn of(fs: &dyn FileSystem, descriptor: &Descriptor) -> Result<DataPages, OpenError> {
        let failed = |component, e| corrupt(&descriptor.path(component), e);
        if let Some(bytes) = read_optional(fs, descriptor, Component::CompressionInfo)? {
            let table_crc = crc32fast::hash(&bytes);
            let info = CompressionInfo::decode(bytes, descriptor.version)
                .map_err(|e| failed(Component::CompressionInfo, e))?;
            return Ok(DataPages { layout: PageLayout::Compressed(info), table_crc });
        }
        let Some(bytes) = read_optional(fs, descriptor, Component::Crc)? else {
            let toc = read_optional(fs, descriptor, Component::Toc)?;
            if toc.is_some_and(|text| toc::names(&text, Component::CompressionInfo)) {
                let (table, component) = (descriptor.to_string(), Component::CompressionInfo);
                return Err(OpenError::MissingComponent { table, component });
            }
            return Ok(DataPages::plain());
        };
        let table_crc = crc32fast::hash(&bytes);
        let crcs = ChunkCrcs::decode(bytes).map_err(|e| failed(Component::Crc, e))?;
        Ok(DataPages { layout: PageLayout::Checked(crcs), table_crc })
    }
}

/// Data.db with what is needed to understand it.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub statistics: Statistics,
    pub table: Arc<TableSchema>,
    pub layout: Arc<Layout>,
    pub file: Arc<PagedFile>,
}

impl DataFile {
    /// Opens Data.db with pages that lie as `pages` says, of a table that may be known.
    pub fn open(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        pages: DataPages,
        table: Option<&TableSchema>,
    ) -> Result<DataFile, OpenError> {
        let mut statistics = Statistics::read(fs, descriptor)?;
        if let Some(table) = table {
            statistics.header.freeze_as(table);
        }
        DataFile::with(fs, descriptor, pages, statistics)
    }

    /// As [`DataFile::open`], with what is known of Statistics.db.
    pub fn with(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        pages: DataPages,
        statistics: Statistics,
    ) -> Result<DataFile, OpenError> {
        let path = descriptor.path(Component::Statistics);
        let unfit = |detail: String| OpenError::Read(ReadError::corrupt(&file_name(&path), 0, detail));
        let table = table_of_header(&statistics.header).map_err(|e| unfit(e.to_string()))?;
        let layout = Layout::of_sstable(&statistics.header, &table).map_err(|e| unfit(e.to_string()))?;
        let path = descriptor.path(Component::Data);
        let file = fs.open_read(&path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                OpenError::MissingComponent { table: descriptor.to_string(), component: Component::Data }
            }
            _ => ReadError::from(e).into(),
        })?;
        let id = FileId { sstable: 0, part: FilePart::Data };
        let file = PagedFile::new(id, file_name(&path), file, pages.layout);
        let file = Arc::new(match Proof::find(fs, descriptor, &file, pages.table_crc)? {
            Found::Fit(proof) => file.with_places(proof.chunks),
            Found::Nothing | Found::Unfit(_) | Found::Damaged(_) => file,
        });
        Ok(DataFile { statistics, table: Arc::new(table), layout: Arc::new(layout), file })
    }

    pub fn walk(&self) -> DataWalk {
        DataWalk::new(&self.file, Arc::clone(&self.layout), ReadContext::default())
    }

    /// A key as a message shows it.
    pub fn show_key(&self, key: &DecoratedKey) -> String {
        let columns = self.table.partition_key();
        let values =
            columns.iter().enumerate().map(|(i, c)| c.ty.to_literal(key.key.component(columns.len(), i)));
        format!("({}) of token {}", values.collect::<Vec<_>>().join(", "), key.token.0)
    }

    /// A place in a partition as a message shows it.
    pub fn show_position(&self, position: Position<'_>) -> String {
        let columns = self.table.clustering_columns().iter().enumerate().take(position.prefix.len());
        columns.map(|(i, c)| c.ty.to_literal(position.prefix.value(i))).collect::<Vec<_>>().join(", ")
    }
}

/// What was met in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfiltered {
    /// The fragment's `row`.
    Row,
    /// The fragment's `change`.
    Change,
    /// The end of the partition; the walk stands behind it.
    End,
}

/// A place in Data.db.
#[derive(Debug)]
pub(crate) struct DataWalk {
    data: Cursor,
    layout: Arc<Layout>,
    wanted: Wanted,
    forward: Forward,
    present: ColumnSet,
}

impl DataWalk {
    /// A walk over all columns of the layout, past any cache.
    pub fn new(file: &Arc<PagedFile>, layout: Arc<Layout>, context: ReadContext) -> DataWalk {
        DataWalk {
            data: Cursor::new(Arc::clone(file), Arc::new(Uncached), context),
            wanted: layout.everything(),
            layout,
            forward: Forward::default(),
            present: ColumnSet::default(),
        }
    }

    /// Where the walk stands.
    pub fn position(&self) -> u64 {
        self.data.position()
    }

    /// Where the row or marker that was met last starts, or the one whose reading failed.
    pub fn unfiltered_start(&self) -> u64 {
        self.forward.head_start().unwrap_or(self.data.position())
    }

    /// The range deletion that holds after what was met last.
    pub fn open(&self) -> Deletion {
        self.forward.open()
    }

    /// Reads the head of the partition at `position`: key and deletion.
    pub fn start_partition(&mut self, position: u64, out: &mut Fragment) -> Result<(), ReadError> {
        self.data.seek(position);
        self.forward.begin(&self.data, position, None, true, false);
        let len = self.data.u16()? as u64;
        out.key = DecoratedKey::new(PartitionKey(self.data.bytes(len)?));
        out.deletion = self.layout.deletion_times().read(&mut self.data)?;
        Ok(())
    }

    /// Reads the static row that follows the head in tables that have them; whether there is anything in it.
    pub fn static_row(&mut self, row: &mut Row) -> Result<bool, ReadError> {
        if !self.layout.has_statics() {
            return Ok(false);
        }
        let UnfilteredHead::Row(flags) = self.layout.read_head(&mut self.data)? else {
            return Err(self.data.malformed("a static row expected".to_owned()));
        };
        if !flags.is_static {
            return Err(self.data.malformed("a static row expected".to_owned()));
        }
        let end = self.layout.read_end(&mut self.data)?;
        row.clustering.clear();
        self.layout.read_row_body(&mut self.data, flags, Some(end), &self.wanted, &mut self.present, row)?;
        check_end(&self.data, end)?;
        Ok(!row.is_empty())
    }

    /// Goes to a row or marker in the partition that starts at `partition`, before which a deletion is open.
    pub fn resume(&mut self, partition: u64, position: u64, open: Deletion) {
        self.data.seek(position);
        self.forward.begin(&self.data, partition, None, true, false);
        self.forward.set_open(open);
    }

    /// Reads the next row or marker. Rows may be empty, and markers may change nothing.
    pub fn next(&mut self, out: &mut Fragment) -> Result<Unfiltered, ReadError> {
        match self.forward.peek(&mut self.data, &self.layout)? {
            UnfilteredKind::Row => {
                self.forward.take_row(&mut self.data, &self.layout, &self.wanted, &mut out.row)?;
                Ok(Unfiltered::Row)
            }
            UnfilteredKind::Marker => {
                let mut bound = out.change.position.clone();
                self.forward.take_marker(&mut bound);
                out.change = RangeChange::at(bound, self.forward.open());
                Ok(Unfiltered::Change)
            }
            UnfilteredKind::End => Ok(Unfiltered::End),
        }
    }
}
