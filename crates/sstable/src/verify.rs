//! Whether every component of an SSTable is sound.
//!
//! | step | what is checked |
//! |---|---|
//! | 1 | TOC.txt names the components that are there |
//! | 2 | Statistics.db, CompressionInfo.db, CRC.db, Filter.db, Summary.db decode, with all their checksums |
//! | 3 | every chunk of Data.db against its checksum, the whole file against the digest |
//! | 4 | Data.db from its start: order of partitions and rows, sizes, values of their types, within what the statistics say |
//! | 5 | the index against it: each partition is found where it is, each block of rows starts where one is said to |
//! | 6 | the filter has every key |
//! | 7 | the outline, if there is one, is of this Data.db and has the same bytes |
//! | 8 | the proof, if there is one, is of this Data.db, and every page of the index is as it says |
//!
//! A step goes on after what it finds as far as it makes sense.

use crate::bloom::BloomFilter;
use crate::checksum::{digest_of, file_crc};
use crate::data_walk::{DataFile, DataPages, DataWalk, Tell, Unfiltered, WorkDone};
use crate::descriptor::{Component, Descriptor};
use crate::error::{OpenError, file_name};
use crate::index::{Block, Walk};
use crate::pages::{Cursor, Uncached};
use crate::proof::Proof;
use crate::statistics::Statistics;
use crate::table::SsTable;
use env::fs::FileSystem;
use model::{Cell, ClusteringBound, CqlType, DecoratedKey, Deletion, Row, TableSchema};
use partition::{Fragment, ReadContext, ReadError};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;

/// Findings that are kept.
const FINDINGS_MAX: usize = 1_000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The file.
    pub component: Component,
    /// Where in the file, or in its uncompressed content; `None` for the file as a whole.
    pub offset: Option<u64>,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub found: String,
}

/// What a check saw.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// What is wrong; at most the first thousand things.
    pub findings: Vec<Finding>,
    /// Partitions that were read.
    pub partitions: u64,
    /// Rows that were read, static ones included.
    pub rows: u64,
    /// Bytes of all components.
    pub bytes: u64,
}

/// Times that [`verify`] reads Data.db: its chunks, the whole for its digest, its rows.
const PASSES: u64 = 3;

/// Checks the SSTable. `progress` hears how far it is.
///
/// # Errors
/// When a file is there and cannot be read at all. What is missing or damaged is a finding.
pub fn verify(fs: &dyn FileSystem, descriptor: &Descriptor, progress: Tell<'_>) -> io::Result<Verified> {
    verify_as(fs, descriptor, None, progress)
}

/// As [`verify`], of a table whose columns say what the header may not ([`SsTable::open_as`]).
///
/// # Errors
/// As [`verify`].
pub fn verify_as(
    fs: &dyn FileSystem,
    descriptor: &Descriptor,
    table: Option<&TableSchema>,
    progress: Tell<'_>,
) -> io::Result<Verified> {
    let mut check = Check {
        fs,
        descriptor,
        table,
        out: Verified::default(),
        seen: HashSet::new(),
        context: ReadContext::default(),
        progress,
    };
    check.run()?;
    Ok(check.out)
}

struct Check<'a> {
    fs: &'a dyn FileSystem,
    descriptor: &'a Descriptor,
    table: Option<&'a TableSchema>,
    out: Verified,
    seen: HashSet<Finding>,
    context: ReadContext,
    progress: Tell<'a>,
}

impl Check<'_> {
    /// Tells how far one of the passes over Data.db is.
    fn tell(&self, pass: u64, data: &DataFile, position: u64) {
        let len = data.file.len;
        (self.progress)(WorkDone { done: len * pass + position.min(len), of: len * PASSES });
    }

    fn found(
        &mut self,
        component: Component,
        offset: Option<u64>,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        // Where the index is meant, the layout decides which file that is.
        let component = match component {
            Component::Index if self.descriptor.version.is_bti() => Component::Partitions,
            other => other,
        };
        let finding = Finding { component, offset, expected: expected.into(), found: found.into() };
        if self.out.findings.len() < FINDINGS_MAX && self.seen.insert(finding.clone()) {
            self.out.findings.push(finding);
        }
    }

    /// An error of reading `component`, which may be about another one.
    fn failed(&mut self, component: Component, error: &ReadError) {
        match error {
            ReadError::Corrupt { file, offset, detail } => {
                let named = |c: &&Component| file_name(&self.descriptor.path(**c)) == *file;
                let component = Component::ALL.iter().find(named).copied().unwrap_or(component);
                self.found(component, Some(*offset), "what can be decoded", detail.clone());
            }
            other => self.found(component, None, "a file that can be read", other.to_string()),
        }
    }

    fn failed_to_open(&mut self, component: Component, error: &OpenError) {
        match error {
            OpenError::Read(error) => self.failed(component, error),
            OpenError::MissingComponent { component, .. } => {
                self.found(*component, None, "the file", "it is missing");
            }
            other => self.found(component, None, "what can be opened", other.to_string()),
        }
    }

    fn bytes(&self, component: Component) -> io::Result<Option<bytes::Bytes>> {
        match self.fs.read(&self.descriptor.path(component)) {
            Ok(bytes) => Ok(Some(bytes.into())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        for component in Component::ALL {
            let len = self.fs.file_len(&self.descriptor.path(*component));
            self.out.bytes += len.unwrap_or(0);
        }
        if !self.descriptor.version.is_supported() {
            let version = self.descriptor.version.to_string();
            self.found(Component::Data, None, "a version that is understood", version);
            return Ok(());
        }
        self.toc()?;
        self.small_components()?;
        let pages = match DataPages::of(self.fs, self.descriptor) {
            Ok(pages) => pages,
            Err(error) => {
                self.failed_to_open(Component::CompressionInfo, &error);
                if self.bytes(Component::CompressionInfo)?.is_some() {
                    return Ok(());
                }
                DataPages::plain()
            }
        };
        let table_crc = pages.table_crc;
        let data = match DataFile::open(self.fs, self.descriptor, pages, self.table) {
            Ok(data) => data,
            Err(error) => {
                self.failed_to_open(Component::Data, &error);
                return Ok(());
            }
        };
        self.chunks(&data)?;
        match Proof::check(self.fs, self.descriptor, &data.file, table_crc) {
            Ok(errors) => errors.iter().for_each(|error| self.failed(Component::Proof, error)),
            Err(error) => self.failed_to_open(Component::Proof, &error),
        }
        let sstable = match SsTable::open_as(self.fs, self.descriptor, 0, Arc::new(Uncached), self.table) {
            Ok(sstable) => Some(sstable),
            Err(error) => {
                self.failed_to_open(Component::Index, &error);
                None
            }
        };
        self.rows(&data, sstable.as_ref());
        if let Some(sstable) = &sstable {
            let minima = sstable.prove_minima(&self.context);
            minima.unwrap_or_else(|error| self.failed(Component::Statistics, &error));
            let filter = sstable.check_filter(&self.context);
            filter.unwrap_or_else(|error| self.failed(Component::Filter, &error));
            self.outline(&data, sstable)?;
        }
        Ok(())
    }

    /// Step 7.
    fn outline(&mut self, data: &DataFile, sstable: &SsTable) -> io::Result<()> {
        let Some(outline) = sstable.outline.get() else {
            if self.fs.exists(&self.descriptor.path(Component::Outline))? {
                self.found(Component::Outline, None, "an outline of this Data.db", "it is not used");
            }
            return Ok(());
        };
        let mut data = Cursor::new(Arc::clone(&data.file), Arc::new(Uncached), self.context.clone());
        if let Err(error) = outline.check(&mut data) {
            self.failed(Component::Outline, &error);
        }
        Ok(())
    }

    /// Step 1.
    fn toc(&mut self) -> io::Result<()> {
        let Some(bytes) = self.bytes(Component::Toc)? else {
            self.found(Component::Toc, None, "the file", "it is missing");
            return Ok(());
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let names: HashSet<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        for component in Component::ALL {
            let is_there = self.fs.exists(&self.descriptor.path(*component))?;
            let is_named = names.contains(component.file_part());
            if is_named && !is_there {
                self.found(*component, None, "the file, which TOC.txt names", "it is missing");
            } else if is_there && !is_named && *component != Component::Toc {
                self.found(
                    Component::Toc,
                    None,
                    format!("a line with {component}"),
                    "it names other files only",
                );
            }
        }
        Ok(())
    }

    /// Step 2, for what opening would not tell apart.
    fn small_components(&mut self) -> io::Result<()> {
        if let Some(bytes) = self.bytes(Component::Statistics)?
            && let Err(e) = Statistics::decode(bytes, self.descriptor.version)
        {
            self.found(Component::Statistics, Some(e.offset), "what can be decoded", e.detail);
        }
        if let Some(bytes) = self.bytes(Component::Filter)?
            && let Err(e) = BloomFilter::decode(bytes, self.descriptor.version)
        {
            self.found(Component::Filter, Some(e.offset), "what can be decoded", e.detail);
        }
        Ok(())
    }

    /// Step 3.
    fn chunks(&mut self, data: &DataFile) -> io::Result<()> {
        let (count, len) = (data.file.page_count(), data.file.len);
        for page in 0..count {
            if let Err(error) = data.file.check_page(page, &self.context) {
                self.failed(Component::Data, &error);
            }
            self.tell(0, data, len / count.max(1) * page);
        }
        // Cassandra ends some files with the checksum of an empty chunk.
        if let Some(stored) = data.file.stored_pages()
            && stored > count + 1
        {
            self.found(Component::Crc, None, format!("checksums of {count} chunks"), format!("{stored}"));
        }
        let Some(text) = self.bytes(Component::Digest)? else {
            self.found(Component::Digest, None, "the file", "it is missing");
            return Ok(());
        };
        let told = |done: u64, of: u64| self.tell(1, data, (len as f64 * done as f64 / of as f64) as u64);
        let computed = file_crc(self.fs, &self.descriptor.path(Component::Data), told)?;
        if digest_of(&text) != Some(computed) {
            let found = String::from_utf8_lossy(&text).trim().to_owned();
            self.found(Component::Digest, None, format!("{computed}, the checksum of Data.db"), found);
        }
        Ok(())
    }

    /// Steps 4 and 5.
    fn rows(&mut self, data: &DataFile, sstable: Option<&SsTable>) {
        let mut walk = data.walk();
        let mut index = match sstable.map(|s| s.index_walk(&data.table, &self.context)) {
            Some(Ok(walk)) => walk,
            Some(Err(error)) => {
                self.failed(Component::Index, &error);
                None
            }
            None => None,
        };
        let mut fragment = Fragment::default();
        let mut last: Option<DecoratedKey> = None;
        let mut position = 0;
        while position < data.file.len {
            let next = match self.partition(data, &mut walk, sstable, &mut index, position, &mut fragment) {
                Ok(next) => {
                    let key = &fragment.key;
                    if last.as_ref().is_some_and(|last| last >= key) {
                        let found = format!(
                            "{} after {}",
                            data.show_key(key),
                            last.map_or_else(String::new, |l| data.show_key(&l))
                        );
                        self.found(
                            Component::Data,
                            Some(position),
                            "partitions in the order of their tokens",
                            found,
                        );
                    }
                    last = Some(key.clone());
                    next
                }
                Err(error) => {
                    self.failed(Component::Data, &error);
                    self.next_indexed(&mut index, position).unwrap_or(data.file.len)
                }
            };
            position = next.max(position + 1);
        }
        if let Some(walk) = &mut index {
            match walk.next_position() {
                Ok(None) => {}
                Ok(Some(more)) => {
                    let found = format!("a partition at {more} of the data");
                    self.found(Component::Index, None, "nothing behind the last partition", found);
                }
                Err(error) => self.failed(Component::Index, &error),
            }
        }
        let stored = data.statistics.stats.total_rows;
        if self.out.findings.is_empty() && stored > self.out.rows as i64 {
            let expected = format!("{stored} rows, as Statistics.db says");
            self.found(Component::Data, None, expected, format!("{} rows", self.out.rows));
        }
    }

    fn next_indexed(&mut self, index: &mut Option<Walk>, position: u64) -> Option<u64> {
        let walk = index.as_mut()?;
        loop {
            match walk.next_position() {
                Ok(Some(next)) if next > position => return Some(next),
                Ok(Some(next)) if walk.pass(next).is_ok() => {}
                Ok(None) => return None,
                _ => {
                    *index = None;
                    return None;
                }
            }
        }
    }

    /// Checks the partition at `position`; where the next one starts.
    fn partition(
        &mut self,
        data: &DataFile,
        walk: &mut DataWalk,
        sstable: Option<&SsTable>,
        index: &mut Option<Walk>,
        position: u64,
        fragment: &mut Fragment,
    ) -> Result<u64, ReadError> {
        walk.start_partition(position, fragment)?;
        self.key(data, &fragment.key, position);
        let deletion = fragment.deletion;
        self.timestamp(data, deletion.timestamp, deletion.is_none(), position);
        let mut blocks = self.indexed(data, sstable, index, position, fragment);
        if walk.static_row(&mut fragment.row)? {
            self.out.rows += 1;
            self.row(data, &fragment.row, true, position);
        }
        if let Some((header_len, _)) = &blocks
            && position + header_len != walk.position()
        {
            let found = format!("{} where it is at {}", position + header_len, walk.position());
            self.found(
                Component::Index,
                None,
                format!("the first row of the partition at {position}"),
                found,
            );
        }
        let mut expected = blocks.take().map(|(_, blocks)| blocks).unwrap_or_default().into_iter().peekable();
        let mut last: Option<ClusteringBound> = None;
        loop {
            let before = walk.open();
            let met = walk.next(fragment)?;
            let start = walk.unfiltered_start();
            self.tell(PASSES - 1, data, start);
            while let Some(block) = expected.next_if(|block| position + block.start <= start) {
                if position + block.start != start || block.open != before {
                    let found = format!("{} with {:?} open", position + block.start, block.open);
                    let expected = format!(
                        "a block that starts with a row or marker, as at {start} with {before:?} open"
                    );
                    self.found(Component::Index, None, expected, found);
                }
            }
            let here = match met {
                Unfiltered::End => break,
                Unfiltered::Row => {
                    self.out.rows += u64::from(!fragment.row.is_empty());
                    self.row(data, &fragment.row, false, start);
                    ClusteringBound::new(model::BoundKind::Row, fragment.row.clustering.clone())
                }
                Unfiltered::Change => {
                    let deletion = fragment.change.deletion;
                    self.timestamp(data, deletion.timestamp, deletion.is_none(), start);
                    fragment.change.position.clone()
                }
            };
            let comparator = data.table.comparator();
            let ascends = last.as_ref().is_none_or(|last| {
                comparator.compare_positions(last.position(), here.position()) == Ordering::Less
            });
            if !ascends {
                let expected = "rows and markers in the order of their clusterings";
                let found = format!(
                    "({}) after ({})",
                    data.show_position(here.position()),
                    last.as_ref().map_or_else(String::new, |l| data.show_position(l.position()))
                );
                self.found(Component::Data, Some(start), expected, found);
            }
            last = Some(here);
        }
        if walk.open() != Deletion::NONE {
            self.found(
                Component::Data,
                Some(walk.unfiltered_start()),
                "the end of the range deletion that is open",
                "the end of the partition",
            );
        }
        if let Some(block) = expected.next() {
            let found = format!("one at {}", position + block.start);
            self.found(
                Component::Index,
                None,
                format!("no block behind the end of the partition at {position}"),
                found,
            );
        }
        self.out.partitions += 1;
        Ok(walk.position())
    }

    /// Compares what the index says of the partition; yields its blocks of rows with the length of its head.
    fn indexed(
        &mut self,
        data: &DataFile,
        sstable: Option<&SsTable>,
        index: &mut Option<Walk>,
        position: u64,
        fragment: &Fragment,
    ) -> Option<(u64, Vec<Block>)> {
        let sstable = sstable?;
        match sstable.place_of(&fragment.key, &data.table, &self.context) {
            Ok(Some(place)) if place == position => {}
            Ok(other) => {
                let expected =
                    format!("partition {} at {position} of the data", data.show_key(&fragment.key));
                let found = other.map_or("nothing".to_owned(), |place| format!("{place}"));
                self.found(Component::Index, None, expected, found);
            }
            Err(error) => self.failed(Component::Index, &error),
        }
        let walk = index.as_mut()?;
        let rows = match walk.rows(&data.layout, position) {
            Ok(rows) => rows,
            Err(error) => {
                self.failed(Component::Index, &error);
                *index = None;
                return None;
            }
        };
        let mut rows = rows?;
        let mut blocks = Vec::new();
        let mut block = rows.last(&data.layout);
        loop {
            match block {
                Ok(here) => {
                    blocks.push(here);
                    block = match rows.before(&data.layout, &here) {
                        Ok(None) => break,
                        Ok(Some(before)) => Ok(before),
                        Err(error) => Err(error),
                    };
                }
                Err(error) => {
                    self.failed(Component::Index, &error);
                    break;
                }
            }
        }
        blocks.reverse();
        let header_len = rows.header_len().map_err(|error| self.failed(Component::Index, &error)).ok()?;
        Some((header_len, blocks))
    }

    /// The columns of a key are not told from the components of one column, which may be fewer and end as a
    /// bound does.
    fn key(&mut self, data: &DataFile, key: &DecoratedKey, position: u64) {
        let columns = data.table.partition_key();
        let class = || CqlType::parse_class(&data.statistics.header.key_type);
        let shown = || format!("{:?}", key.key);
        for (i, column) in columns.iter().enumerate() {
            match key.key.component(columns.len(), i) {
                Some(value) => self.value(&column.ty, value, &column.name, position),
                None if class().is_ok_and(|class| class.ty.validate(&key.key.0).is_ok()) => return,
                None => self.found(Component::Data, Some(position), "a partition key of its type", shown()),
            }
        }
    }

    fn value(&mut self, ty: &CqlType, value: &[u8], column: &str, position: u64) {
        if let Err(error) = ty.validate(value) {
            self.found(
                Component::Data,
                Some(position),
                format!("a {ty} in column {column}"),
                error.to_string(),
            );
        }
    }

    /// A timestamp has to lie in the range that the statistics give.
    fn timestamp(&mut self, data: &DataFile, timestamp: i64, is_none: bool, position: u64) {
        let stats = &data.statistics.stats;
        if !is_none && !(stats.min_timestamp..=stats.max_timestamp).contains(&timestamp) {
            let expected = format!("timestamps up to {timestamp}, which is at {position} of the data");
            let found = format!("from {} to {}", stats.min_timestamp, stats.max_timestamp);
            self.found(Component::Statistics, None, expected, found);
        }
    }

    fn row(&mut self, data: &DataFile, row: &Row, is_static: bool, position: u64) {
        if !is_static {
            for (i, column) in data.table.clustering_columns().iter().enumerate() {
                if let Some(value) = row.clustering.value(i) {
                    self.value(&column.ty, value, &column.name, position);
                }
            }
        }
        self.timestamp(data, row.liveness.timestamp, row.liveness.is_none(), position);
        self.timestamp(data, row.deletion.timestamp, row.deletion.is_none(), position);
        let mut before: Option<&Cell> = None;
        for cell in &row.cells {
            self.timestamp(data, cell.timestamp, false, position);
            let Some(column) = data.table.cell_column(cell.column) else { continue };
            if let Some(path_type) = column.ty.path_type() {
                self.value(&path_type, &cell.path, &column.name, position);
                let ascends = before
                    .filter(|b| b.column == cell.column)
                    .is_none_or(|b| column.ty.compare_paths(&b.path, &cell.path) == Ordering::Less);
                if !ascends {
                    let expected = format!("the cells of column {} in order", column.name);
                    self.found(Component::Data, Some(position), expected, "two that are not");
                }
            }
            before = Some(cell);
            if cell.is_tombstone() {
                continue;
            }
            match &column.ty {
                CqlType::Counter => {
                    if model::counter::shards(&cell.value).is_none() {
                        let expected = format!("shards of counter {}", column.name);
                        self.found(Component::Data, Some(position), expected, "other bytes");
                    }
                }
                CqlType::List { element, multi_cell: true } => {
                    self.value(element, &cell.value, &column.name, position)
                }
                CqlType::Map { value, multi_cell: true, .. } => {
                    self.value(value, &cell.value, &column.name, position)
                }
                CqlType::Set { multi_cell: true, .. } => {
                    self.value(&CqlType::Empty, &cell.value, &column.name, position)
                }
                CqlType::Udt { definition, multi_cell: true } => {
                    let field = cell.path.as_ref().try_into().map(u16::from_be_bytes).ok();
                    match field.and_then(|i| definition.fields.get(usize::from(i))) {
                        Some((_, ty)) => self.value(ty, &cell.value, &column.name, position),
                        None => self.found(
                            Component::Data,
                            Some(position),
                            format!("a field of {}", column.ty),
                            format!("{field:?}"),
                        ),
                    }
                }
                ty => self.value(ty, &cell.value, &column.name, position),
            }
        }
    }
}
