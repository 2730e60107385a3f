//! Making of Blocks.db and Outline.db while Data.db is read.

use super::window::Window;
use super::{AdoptedProof, Adoption};
use crate::big::builder::PromotedIndexBuilder;
use crate::big::fences::Fences;
use crate::big::samples::Sample;
use crate::descriptor::{Component, Descriptor};
use crate::error::WriteError;
use crate::index::{BLOCKS_MAX, BlockRule, Walk, WrittenPartition, WrittenUnfiltered};
use crate::outline::{OutlineWriter, RUN_BYTES_MAX};
use crate::pages::Pass;
use crate::proof::PageSummer;
use bytes::Bytes;
use env::fs::{FileSystem, WriteFile};
use model::clustering::Position;
use model::command::ColumnSelection;
use model::{BoundKind, ClusteringBound, DecoratedKey, Deletion, PartitionKey, Row, TableSchema};
use partition::ReadError;
use partition::codec::{
    ColumnSet, EncodeError, Input, LONG_VALUE_BYTES, Layout, RowFlags, SliceInput, UnfilteredHead, Wanted,
    write_prefix,
};
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of a block's description beside its two positions, about.
const DESCRIPTION_BYTES: u64 = 13;

/// The part of a file's name while it is not complete.
const UNFINISHED: &str = ".tmp";

/// Why nothing was made.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Data.db or the index cannot be read, or is not what it should be.
    Read(ReadError),
    /// A file cannot be written.
    Write(WriteError),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Read(error) => error.fmt(f),
            Failure::Write(error) => error.fmt(f),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        Failure::Read(error)
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Failure {
        Failure::Write(error)
    }
}

impl From<EncodeError> for Failure {
    fn from(error: EncodeError) -> Failure {
        Failure::Write(error.into())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Write(error.into())
    }
}

/// A file that has its final name only once it is complete. Dropped before, it is removed.
#[derive(Debug)]
pub(crate) struct Unfinished {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    to: PathBuf,
}

impl Unfinished {
    fn new(fs: &Arc<dyn FileSystem>, descriptor: &Descriptor, component: Component) -> Unfinished {
        let to = descriptor.path(component);
        let mut path = to.clone().into_os_string();
        path.push(UNFINISHED);
        let out = Unfinished { fs: Arc::clone(fs), path: path.into(), to };
        out.remove();
        out
    }

    fn remove(&self) {
        // What cannot be removed now is by the next start.
        let _ = self.fs.remove_file(&self.path);
    }

    /// Gives the file its name.
    fn keep(&self) -> io::Result<()> {
        self.fs.rename(&self.path, &self.to)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        self.remove();
    }
}

/// What was made of an SSTable.
#[derive(Debug)]
pub(crate) struct Made {
    pub proof: AdoptedProof,
    blocks: Option<Unfinished>,
    outline: Option<Unfinished>,
}

impl Made {
    /// Gives the files their names.
    pub fn keep(&self) -> io::Result<()> {
        self.blocks.iter().chain(&self.outline).try_for_each(Unfinished::keep)
    }
}

/// What has been made so far.
pub(crate) struct Maker {
    table: Arc<TableSchema>,
    layout: Arc<Layout>,
    adoption: Adoption,
    blocks_name: Unfinished,
    outline_name: Unfinished,
    file: Box<dyn WriteFile>,
    sums: PageSummer,
    directory: Vec<Sample>,
    fences: Fences,
    blocks: PromotedIndexBuilder,
    outline: OutlineWriter,
    buffer: Vec<u8>,
    last_key: Option<DecoratedKey>,
    /// No column.
    wanted: Wanted,
    present: ColumnSet,
    row: Row,
    /// The position of a row or marker.
    bound: ClusteringBound,
    /// The clustering, as it is stored, of the last row, if the blocks do not know it.
    deferred: Vec<u8>,
    /// Bytes after which a block of the partition ends.
    block_len: u64,
}

/// A row or marker, as far as it was read.
struct Met {
    end: u64,
    /// Bytes from the start of the one before it, or of the partition, to its own.
    before: u64,
    /// Where the clustering of a row lies that was stepped over.
    clustering: Option<Range<u64>>,
}

/// A partition of Data.db, by the places that the index gives.
#[derive(Clone, Copy)]
struct Place {
    start: u64,
    end: u64,
}

impl Maker {
    pub fn new(
        fs: &Arc<dyn FileSystem>,
        descriptor: &Descriptor,
        table: Arc<TableSchema>,
        layout: Arc<Layout>,
        adoption: Adoption,
    ) -> Result<Maker, Failure> {
        let blocks_name = Unfinished::new(fs, descriptor, Component::Blocks);
        let outline_name = Unfinished::new(fs, descriptor, Component::Outline);
        Ok(Maker {
            file: fs.create_new(&blocks_name.path)?,
            outline: OutlineWriter::new(Arc::clone(fs), outline_name.path.clone()),
            blocks_name,
            outline_name,
            table,
            wanted: layout.wanted(&ColumnSelection::of(Vec::new())),
            layout,
            sums: PageSummer::default(),
            directory: Vec::new(),
            fences: Fences::default(),
            blocks: PromotedIndexBuilder::new(BLOCKS_MAX),
            buffer: Vec::new(),
            last_key: None,
            present: ColumnSet::default(),
            row: Row::default(),
            bound: ClusteringBound::BOTTOM,
            deferred: Vec::new(),
            block_len: adoption.block_bytes,
            adoption,
        })
    }

    /// Goes through the partitions of `index` that are large enough.
    pub fn run(&mut self, index: &mut Walk, pass: &mut Pass<'_>) -> Result<(), Failure> {
        let data_len = pass.pages().len;
        let mut window = Window::new(pass);
        let mut next = index.next_position()?;
        while let Some(start) = next {
            index.pass(start)?;
            next = index.next_position()?;
            let end = next.unwrap_or(data_len);
            if end.saturating_sub(start) < self.adoption.partition_bytes_min {
                continue;
            }
            window.go_on_to(start)?;
            self.partition(&mut window, Place { start, end })?;
        }
        Ok(())
    }

    fn partition(&mut self, data: &mut Window<'_, '_>, place: Place) -> Result<(), Failure> {
        let len = data.u16()?;
        let key = DecoratedKey::new(PartitionKey(data.bytes(len.into())?));
        if self.last_key.as_ref().is_some_and(|last| *last >= key) {
            return Err(data.malformed("partitions are out of order".to_owned()).into());
        }
        let deletion = self.layout.deletion_times().read(data)?;
        if self.layout.has_statics() {
            self.static_row(data)?;
        }
        let first_at = data.position();
        self.outline_of(data, place.start, first_at)?;
        self.blocks.clear();
        self.rows(data, place.start)?;
        self.outline.leave_out(data.position())?;
        if data.position() != place.end {
            let detail = format!("the partition ends here, the index has the next one at {}", place.end);
            return Err(data.malformed(detail).into());
        }
        let written = WrittenPartition {
            key: &key,
            deletion,
            position: place.start,
            header_len: first_at - place.start,
            len: place.end - place.start,
        };
        self.buffer.clear();
        self.blocks.finish(&mut self.buffer, &self.layout, &written)?;
        if self.blocks.has_several() {
            let position = self.file.position();
            self.directory.push(Sample { token: key.token, position });
            self.sums.add(&self.buffer);
            let end = position + self.buffer.len() as u64;
            self.blocks.add_fences(end, &self.layout, self.table.comparator(), &mut self.fences);
            self.file.write_all(&self.buffer)?;
        }
        self.last_key = Some(key);
        Ok(())
    }

    fn static_row(&mut self, data: &mut Window<'_, '_>) -> Result<(), ReadError> {
        let flags = match self.layout.read_head(data)? {
            UnfilteredHead::Row(flags) if flags.is_static => flags,
            _ => return Err(data.malformed("a static row expected".to_owned())),
        };
        let end = self.layout.read_end(data)?;
        self.read_long(data, flags, end)
    }

    /// Rows and markers, up to the end of the partition.
    fn rows(&mut self, data: &mut Window<'_, '_>, partition_start: u64) -> Result<(), Failure> {
        let (mut before, mut open) = (partition_start, Deletion::NONE);
        let chunk_len = Some(data.page_len());
        self.deferred.clear();
        loop {
            data.keep();
            let start = data.position();
            let Some(met) = self.unfiltered(data, start, &mut open)? else {
                if !open.is_none() {
                    let detail = "a range deletion is open at the end of its partition";
                    return Err(data.malformed(detail.to_owned()).into());
                }
                self.take_deferred(data)?;
                return self.outline_of(data, start, data.position());
            };
            let end = met.end;
            if start.checked_sub(met.before) != Some(before) {
                let detail =
                    format!("the row or marker before is {} bytes away, it starts at {before}", met.before);
                return Err(data.malformed(detail).into());
            }
            if before == partition_start {
                self.find_position(data, met.clustering.as_ref())?;
                self.block_len =
                    self.adoption.block_len(&self.layout, self.bound.position(), data.page_len())?;
            }
            let may_end = self.layout.deletion_times().can_write(&open);
            let len = if may_end { self.block_len } else { u64::MAX };
            let blocks = BlockRule { len, chunk_len, partition_start };
            let (from, to) = (start - partition_start, end - partition_start);
            match met.clustering {
                // Most rows: nothing is said of them.
                Some(clustering) if self.blocks.is_within(&blocks, from, to) => {
                    self.deferred.clear();
                    self.deferred.extend_from_slice(data.slice(clustering)?);
                }
                clustering => {
                    self.find_position(data, clustering.as_ref())?;
                    self.deferred.clear();
                    let position = self.bound.position();
                    let unfiltered =
                        WrittenUnfiltered { position, start: from, end: to, open_after: open, blocks };
                    self.blocks.add(&self.layout, &unfiltered)?;
                }
            }
            self.outline_of(data, start, end)?;
            data.go_on_to(end)?;
            before = start;
        }
    }

    /// Makes `self.bound` the position of a row whose clustering lies there; it is that already without.
    fn find_position(
        &mut self,
        data: &mut Window<'_, '_>,
        clustering: Option<&Range<u64>>,
    ) -> Result<(), ReadError> {
        let Some(clustering) = clustering else { return Ok(()) };
        let (layout, bound) = (&self.layout, &mut self.bound);
        bound.kind = BoundKind::Row;
        data.again(clustering.start, |data| layout.read_clustering(data, &mut bound.prefix))
    }

    /// Lets the blocks know the last row, if it was left out.
    fn take_deferred(&mut self, data: &Window<'_, '_>) -> Result<(), ReadError> {
        if self.deferred.is_empty() {
            return Ok(());
        }
        let mut input = SliceInput::new(Bytes::copy_from_slice(&self.deferred));
        let read = self.layout.read_clustering(&mut input, &mut self.bound.prefix);
        read.map_err(|error| data.malformed(error.to_string()))?;
        self.blocks.set_last(Position::row(&self.bound.prefix));
        Ok(())
    }

    /// Reads a row up to its `end`, for the outline.
    fn read_long(&mut self, data: &mut Window<'_, '_>, flags: RowFlags, end: u64) -> Result<(), ReadError> {
        let (present, row) = (&mut self.present, &mut self.row);
        data.is_in_long_row = true;
        let read = self.layout.read_row_body(data, flags, Some(end), &self.wanted, present, row);
        data.is_in_long_row = false;
        read.and_then(|()| ends_at(data, end))
    }

    /// Reads the row or marker at the cursor, which starts at `start`, as far as needed; `None` at the end of
    /// the partition. Where [`Met::clustering`] is missing, its position is in `self.bound`.
    fn unfiltered(
        &mut self,
        data: &mut Window<'_, '_>,
        start: u64,
        open: &mut Deletion,
    ) -> Result<Option<Met>, ReadError> {
        match self.layout.read_head(data)? {
            UnfilteredHead::End => Ok(None),
            UnfilteredHead::Marker => {
                self.layout.read_bound(data, &mut self.bound)?;
                let (end, before) = self.layout.read_sizes(data)?;
                let marker = self.layout.read_marker(data, &self.bound)?;
                ends_at(data, end)?;
                if marker.close != *open {
                    let detail = "a marker closes another range deletion than is open";
                    return Err(data.malformed(detail.to_owned()));
                }
                *open = marker.open;
                Ok(Some(Met { end, before, clustering: None }))
            }
            UnfilteredHead::Row(flags) if flags.is_static => {
                Err(data.malformed("a static row among rows".to_owned()))
            }
            UnfilteredHead::Row(flags) => {
                let at = data.position();
                self.layout.skip_clustering(data)?;
                let clustering = at..data.position();
                let (end, before) = self.layout.read_sizes(data)?;
                if end.saturating_sub(start) < LONG_VALUE_BYTES as u64 {
                    return Ok(Some(Met { end, before, clustering: Some(clustering) }));
                }
                // What is stepped over is at hand no more.
                self.find_position(data, Some(&clustering))?;
                self.read_long(data, flags, end)?;
                Ok(Some(Met { end, before, clustering: None }))
            }
        }
    }
    /// Shows the outline the bytes from `start` to `end`, the cursor lying between the two.
    fn outline_of(&mut self, data: &mut Window<'_, '_>, start: u64, end: u64) -> Result<(), Failure> {
        if data.long.is_empty() && self.outline.is_idle() {
            return Ok(());
        }
        let mut from = start;
        for step in std::mem::take(&mut data.long) {
            let len = step.over.start.saturating_sub(from) as usize;
            match step.before.len().checked_sub(len) {
                Some(at) => self.outline.extend(from, step.before.get(at..).unwrap_or_default())?,
                None => self.outline.leave_out(from)?,
            }
            self.outline.long_value(step.over.start)?;
            from = step.over.end;
        }
        match end.saturating_sub(from) <= RUN_BYTES_MAX as u64 {
            true => self.outline.extend(from, data.slice(from..end)?)?,
            false => self.outline.leave_out(from)?,
        }
        Ok(())
    }

    /// Completes the files of an SSTable whose Data.db has this checksum.
    pub fn finish(mut self, digest: u32, data_len: u64) -> Result<Made, Failure> {
        self.file.sync_data()?;
        let pages = self.sums.finish();
        let has_blocks = pages.len > 0;
        let has_outline = self.outline.finish(digest, data_len)?;
        Ok(Made {
            proof: AdoptedProof { pages, directory: self.directory, fences: self.fences },
            blocks: has_blocks.then_some(self.blocks_name),
            outline: has_outline.then_some(self.outline_name),
        })
    }
}

impl Adoption {
    /// Bytes after which a block ends in a partition with such positions: as many as make equal parts of a
    /// chunk, where a block is shorter.
    fn block_len(&self, layout: &Layout, position: Position<'_>, chunk_len: u64) -> Result<u64, EncodeError> {
        let mut prefix = Vec::new();
        write_prefix(&mut prefix, layout.clustering_types(), position)?;
        let description = 2 * prefix.len() as u64 + DESCRIPTION_BYTES;
        let least = self.block_bytes.max(self.bytes_for_one * description).max(1);
        Ok(if least < chunk_len { chunk_len / (chunk_len / least) } else { least })
    }
}

fn ends_at(data: &Window<'_, '_>, end: u64) -> Result<(), ReadError> {
    match data.position() == end {
        true => Ok(()),
        false => Err(data.malformed(format!("a row or marker that ends here and at {end}"))),
    }
}
