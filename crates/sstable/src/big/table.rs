//! An open SSTable.
//!
//! Opening reads the small components whole (Statistics.db, CompressionInfo.db or CRC.db, Filter.db, Summary.db) and
//! nothing of Data.db; of Index.db the entries after the last sample, or all when Summary.db or Filter.db is missing.
//!
//! Index.db, Summary.db and Filter.db carry no checksums. What they say is checked against the data where a read
//! depends on it: the key in the data must be the one asked for, and before a key that passed the filter is called
//! absent, the order of the entries around it is checked, and its neighbours against the data. The filter itself is
//! believed only as far as it is proven ([`KeyFilter`]).

use super::forward::Forward;
use super::index::{IndexEntry, IndexWalk};
use super::key_filter::KeyFilter;
use super::reverse::Reverse;
use super::stream::{Partitions, SsTableStream, Walker};
use super::summary::{Summary, SummaryBuilder};
use crate::bloom::BloomFilter;
use crate::checksum::ChunkCrcs;
use crate::compression::CompressionInfo;
use crate::descriptor::{Component, Descriptor};
use crate::error::{OpenError, corrupt, file_name, read_component};
use crate::pages::{Cursor, FileId, FilePart, PageLayout, PageSource, PagedFile};
use crate::statistics::{Statistics, Stats};
use arc_swap::ArcSwapOption;
use env::fs::FileSystem;
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::{KeyBound, KeyRange};
use model::{DecoratedKey, PartitionKey, Slice, TableSchema};
use partition::codec::{Input, Layout, SerializationHeader};
use partition::{ReadContext, ReadError};
use std::io;
use std::sync::Arc;

/// Partitions for each entry of a summary that has to be rebuilt.
const REBUILT_INTERVAL: u32 = 128;
/// No entry of Index.db is shorter: the key's length, a byte of key, the position and the size of the promoted index.
const ENTRY_BYTES_MIN: u64 = 5;
/// A filter without checksum is proven at once when Index.db has no more bytes.
const PROVEN_AT_ONCE_BYTES: u64 = 64 << 10;

/// The layout of an SSTable's rows for one version of a table's schema.
#[derive(Debug)]
struct MappedLayout {
    table: Arc<TableSchema>,
    layout: Arc<Layout>,
}

/// An SSTable that can be read. Shared by readers; its files stay readable after they were removed.
#[derive(Debug)]
pub struct SsTable {
    descriptor: Descriptor,
    components: Vec<Component>,
    pub(crate) statistics: Statistics,
    summary: Summary,
    filter: Option<KeyFilter>,
    pub(super) data: Arc<PagedFile>,
    pub(super) index: Arc<PagedFile>,
    pub(super) pages: Arc<dyn PageSource>,
    layout: ArcSwapOption<MappedLayout>,
    disk_bytes: u64,
}

fn optional<T>(result: Result<T, OpenError>) -> Result<Option<T>, OpenError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(OpenError::MissingComponent { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

impl SsTable {
    /// Opens an SSTable. `number` tells it apart in the page cache and is never used twice in a process.
    ///
    /// # Errors
    /// When its version is not supported, or a component is missing or damaged.
    pub fn open(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
        number: u64,
        pages: Arc<dyn PageSource>,
    ) -> Result<SsTable, OpenError> {
        if !descriptor.version.is_supported() {
            return Err(OpenError::UnsupportedVersion(descriptor.to_string()));
        }
        let read = |component| read_component(fs, descriptor, component);
        let failed = |component, e| corrupt(&descriptor.path(component), e);
        let statistics = Statistics::decode(read(Component::Statistics)?, descriptor.version)
            .map_err(|e| failed(Component::Statistics, e))?;
        let layout = match optional(read(Component::CompressionInfo))? {
            Some(bytes) => PageLayout::Compressed(
                CompressionInfo::decode(bytes).map_err(|e| failed(Component::CompressionInfo, e))?,
            ),
            None => match optional(read(Component::Crc))? {
                Some(bytes) => {
                    PageLayout::Checked(ChunkCrcs::decode(bytes).map_err(|e| failed(Component::Crc, e))?)
                }
                None => PageLayout::Plain,
            },
        };
        let paged = |component, part, layout| -> Result<Arc<PagedFile>, OpenError> {
            let path = descriptor.path(component);
            let file = match fs.open_read(&path) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(OpenError::MissingComponent { table: descriptor.to_string(), component });
                }
                Err(e) => return Err(ReadError::from(e).into()),
            };
            let id = FileId { sstable: number, part };
            Ok(Arc::new(PagedFile::new(id, file_name(&path), file, layout)))
        };
        let data = paged(Component::Data, FilePart::Data, layout)?;
        let index = paged(Component::Index, FilePart::Index, PageLayout::Plain)?;
        let summary = match optional(read(Component::Summary))? {
            Some(bytes) => {
                let summary = Summary::decode(bytes).map_err(|e| failed(Component::Summary, e))?;
                check_summary(&summary, &index)?;
                summary
            }
            None => rebuild_summary(&index)?,
        };
        let filter = match optional(read(Component::Filter))? {
            Some(bytes) => {
                let is_proven = statistics.filter_crc == Some(crc32fast::hash(&bytes));
                let bloom = BloomFilter::decode(bytes).map_err(|e| failed(Component::Filter, e))?;
                Some(match is_proven {
                    true => KeyFilter::proven(bloom),
                    false => KeyFilter::unproven(bloom, summary.entries.len()),
                })
            }
            None => rebuild_filter(&index, &statistics)?.map(KeyFilter::proven),
        };
        let mut components = Vec::new();
        let mut disk_bytes = 0;
        for component in Component::ALL {
            if let Ok(len) = fs.file_len(&descriptor.path(*component)) {
                components.push(*component);
                disk_bytes += len;
            }
        }
        let table = SsTable {
            descriptor: descriptor.clone(),
            components,
            statistics,
            summary,
            filter,
            data,
            index,
            pages,
            layout: ArcSwapOption::empty(),
            disk_bytes,
        };
        let is_open_question = table.filter.as_ref().is_some_and(|filter| !filter.is_proven());
        if is_open_question && table.index.len <= PROVEN_AT_ONCE_BYTES {
            table.walk_filter(&mut IndexWalk::new(uncached(&table.index), 0))?;
        }
        Ok(table)
    }

    /// Lets the table's `crc_check_chance` decide by these numbers which checksums of Data.db are checked when a page
    /// of it is loaded. Otherwise all are.
    pub fn check_by_chance(&self, random: Arc<Random>) {
        self.data.crc_checks.draw_from(random);
    }

    /// The SSTable's name.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// The components that are there.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// Paths of the components that are there.
    pub fn files(&self) -> Vec<std::path::PathBuf> {
        self.components.iter().map(|c| self.descriptor.path(*c)).collect()
    }

    /// What is known about the rows.
    pub fn stats(&self) -> &Stats {
        &self.statistics.stats
    }

    /// How the rows are encoded; its [`partition::codec::EncodingStats`] are what a merge's are made of.
    pub fn header(&self) -> &SerializationHeader {
        &self.statistics.header
    }

    /// The first partition.
    pub fn first_key(&self) -> &DecoratedKey {
        &self.summary.first
    }

    /// The last partition.
    pub fn last_key(&self) -> &DecoratedKey {
        &self.summary.last
    }

    /// Number of partitions, estimated from the summary.
    pub fn estimated_partitions(&self) -> u64 {
        self.statistics.stats.partition_sizes.count().max(1) as u64
    }

    /// Bytes of rows before compression.
    pub fn data_bytes(&self) -> u64 {
        self.data.len
    }

    /// Bytes of all components on disk.
    pub fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    /// Bytes of memory that the open SSTable takes, pages aside.
    pub fn memory_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, KeyFilter::memory_bytes)
            + self.summary.memory_bytes()
            + self.data.memory_bytes()
    }

    /// Bytes of memory that the bloom filter takes.
    pub fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, KeyFilter::memory_bytes)
    }

    /// Whether `key` may be there; `false` is certain. Compares with the first and last key, then asks the filter.
    pub fn may_contain(&self, key: &DecoratedKey) -> bool {
        self.covers(key)
            && !self.filter.as_ref().is_some_and(|filter| filter.excludes(key, || self.summary.floor(key)))
    }

    /// Finds out whether the bloom filter has every key of Index.db, which is read from end to end. Afterwards
    /// [`SsTable::may_contain`] knows better: a filter that is found sound is believed, another one not asked.
    ///
    /// # Errors
    /// When Filter.db lacks a key, and when Index.db cannot be read.
    pub fn check_filter(&self, context: &ReadContext) -> Result<(), ReadError> {
        let mut walk = IndexWalk::new(self.index_cursor(context), 0);
        match self.walk_filter(&mut walk)? {
            None => Ok(()),
            Some(position) => {
                let detail = format!("the key of the entry at {position} of Index.db does not pass");
                Err(ReadError::corrupt(&file_name(&self.descriptor.path(Component::Filter)), 0, detail))
            }
        }
    }

    /// Proves the filter or gives it up; yields where in Index.db the first key is that does not pass.
    fn walk_filter(&self, walk: &mut IndexWalk) -> Result<Option<u64>, ReadError> {
        let Some(filter) = &self.filter else { return Ok(None) };
        let mut position = 0;
        while let Some(entry) = walk.next()? {
            if !filter.passes(&DecoratedKey::new(PartitionKey(entry.key))) {
                filter.give_up();
                return Ok(Some(position));
            }
            position = entry.end;
        }
        filter.prove_all();
        Ok(None)
    }

    /// Whether `key` lies between the first and the last key.
    pub fn covers(&self, key: &DecoratedKey) -> bool {
        *key >= self.summary.first && *key <= self.summary.last
    }

    /// Whether the range and the SSTable's keys overlap.
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        !range.is_before_start(&self.summary.last) && !range.is_after_end(&self.summary.first)
    }

    /// Whether rows or range tombstones can lie inside one of `slices`; see [`Stats::overlaps_clusterings`].
    pub fn overlaps_clusterings(&self, slices: &[Slice], table: &TableSchema) -> bool {
        self.statistics.stats.overlaps_clusterings(slices, table.comparator())
    }

    /// Whether partitions have static rows.
    pub fn has_statics(&self) -> bool {
        !self.statistics.header.static_columns.is_empty()
    }

    /// The layout for a version of the schema, remembered for the next read.
    fn layout(&self, table: &Arc<TableSchema>) -> Result<Arc<Layout>, ReadError> {
        if let Some(mapped) = self.layout.load().as_deref()
            && Arc::ptr_eq(&mapped.table, table)
        {
            return Ok(Arc::clone(&mapped.layout));
        }
        let layout = Layout::of_sstable(&self.statistics.header, table).map_err(|e| {
            ReadError::corrupt(&file_name(&self.descriptor.path(Component::Statistics)), 0, e.to_string())
        })?;
        let layout = Arc::new(layout);
        let mapped = MappedLayout { table: Arc::clone(table), layout: Arc::clone(&layout) };
        self.layout.store(Some(Arc::new(mapped)));
        self.data.crc_checks.set_chance(table.options.crc_check_chance);
        Ok(layout)
    }

    pub(super) fn data_cursor(&self, context: &ReadContext) -> Cursor {
        Cursor::new(Arc::clone(&self.data), Arc::clone(&self.pages), context.clone())
    }

    pub(super) fn index_cursor(&self, context: &ReadContext) -> Cursor {
        Cursor::new(Arc::clone(&self.index), Arc::clone(&self.pages), context.clone())
    }

    fn stream(
        self: &Arc<Self>,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        table: &Arc<TableSchema>,
        context: &ReadContext,
        partitions: Partitions,
    ) -> Result<SsTableStream, ReadError> {
        let layout = self.layout(table)?;
        let reversed = filter.is_reversed();
        let whole = filter.is_all();
        let mut slices = if whole { vec![Slice::ALL] } else { filter.to_slices() };
        if reversed {
            slices.reverse();
        }
        let walker = match reversed {
            true => Walker::Reverse(Reverse::default()),
            false => Walker::Forward(Forward::default()),
        };
        let wanted = layout.wanted(columns);
        let data = self.data_cursor(context);
        Ok(SsTableStream::new(
            Arc::clone(self),
            Arc::clone(table),
            layout,
            wanted,
            slices,
            whole,
            walker,
            data,
            partitions,
        ))
    }

    /// Reads one partition; `None` when it is not there. The caller has asked [`SsTable::may_contain`] before.
    ///
    /// # Errors
    /// When a file cannot be read or is damaged.
    pub fn read(
        self: &Arc<Self>,
        key: &DecoratedKey,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Option<SsTableStream>, ReadError> {
        let mut index = self.index_cursor(context);
        let Some(entry) = self.find(key, &mut index)? else {
            let passed = self.filter.as_ref().is_some_and(|filter| filter.passes(key));
            context.cost.bloom_false_positives.add(passed as u64);
            return Ok(None);
        };
        let partitions = Partitions::One { key: key.clone(), entry, index };
        self.stream(filter, columns, table, context, partitions).map(Some)
    }

    /// Reads the partitions of a range, in ring order.
    ///
    /// # Errors
    /// When a file cannot be read or is damaged.
    pub fn scan(
        self: &Arc<Self>,
        range: &KeyRange,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<SsTableStream, ReadError> {
        let (data_at, index_at) = self.find_start(range, context)?;
        let index = IndexWalk::new(self.index_cursor(context), index_at);
        let partitions = Partitions::Range { range: range.clone(), next: data_at, index };
        self.stream(filter, columns, table, context, partitions)
    }

    /// Finds the entry of a key in Index.db.
    fn find(&self, key: &DecoratedKey, index: &mut Cursor) -> Result<Option<IndexEntry>, ReadError> {
        let Some(interval) = self.summary.floor(key).filter(|_| self.covers(key)) else { return Ok(None) };
        let (start, end) = self.interval(interval);
        index.seek(start);
        while index.position() < end {
            let at = index.position();
            let len = index.u16()? as u64;
            if index.with_slice(len, |found| found == key.key.0)? {
                index.seek(at);
                return IndexEntry::read(index).map(Some);
            }
            index.uvint()?;
            let size = index.uvint()?;
            index.skip(size)?;
        }
        if let Some(filter) = &self.filter {
            if filter.is_asked() && !filter.passes(key) {
                self.prove_interval(filter, interval, index)?;
            }
            self.check_absence(key, interval, index)?;
        }
        Ok(None)
    }

    /// Finds out whether the filter has every key of an interval of the summary.
    #[cold]
    fn prove_interval(
        &self,
        filter: &KeyFilter,
        interval: usize,
        index: &mut Cursor,
    ) -> Result<(), ReadError> {
        let (start, end) = self.interval(interval);
        index.seek(start);
        while index.position() < end {
            let entry = IndexEntry::read(index)?;
            if !filter.passes(&DecoratedKey::new(PartitionKey(entry.key))) {
                filter.give_up();
                return Ok(());
            }
        }
        filter.prove(interval);
        Ok(())
    }

    /// Where the entries of an interval of the summary start and end.
    fn interval(&self, interval: usize) -> (u64, u64) {
        let at = |i: usize| self.summary.entries.get(i).map(|(_, position)| *position);
        (at(interval).unwrap_or(0), at(interval + 1).unwrap_or(self.index.len))
    }

    /// Fails when an entry around the place of a key that was not found is not what the summary, the order of keys
    /// and the data say.
    #[cold]
    fn check_absence(
        &self,
        key: &DecoratedKey,
        interval: usize,
        index: &mut Cursor,
    ) -> Result<(), ReadError> {
        let (start, end) = self.interval(interval);
        let sample = |i: usize| self.summary.entries.get(i).map(|(key, _)| key);
        index.seek(start);
        let mut last: Option<(DecoratedKey, u64)> = None;
        let mut data = self.data_cursor(index.context());
        loop {
            let at = index.position();
            if at >= self.index.len {
                break;
            }
            let entry = IndexEntry::read(index)?;
            // A damaged length may have swallowed the entries that follow.
            entry.promoted(index)?;
            index.seek(entry.end);
            let found = DecoratedKey::new(PartitionKey(entry.key));
            let expected = match at {
                at if at == start => sample(interval),
                at if at == end => sample(interval + 1),
                _ => None,
            };
            if expected.is_some_and(|expected| *expected != found)
                || last.as_ref().is_some_and(|(l, _)| *l >= found)
            {
                return Err(index.malformed("keys out of order, or not those of the summary".to_owned()));
            }
            if found > *key {
                self.check_key(&found, entry.position, &mut data)?;
                last.as_ref().map_or(Ok(()), |(key, position)| self.check_key(key, *position, &mut data))?;
                return Ok(());
            }
            last = Some((found, entry.position));
            if at >= end {
                break;
            }
        }
        match last {
            Some((last, position)) if last == self.summary.last || end < self.index.len => {
                self.check_key(&last, position, &mut data)
            }
            _ => Err(index.malformed("the last key is not the one of the summary".to_owned())),
        }
    }

    fn check_key(&self, key: &DecoratedKey, position: u64, data: &mut Cursor) -> Result<(), ReadError> {
        data.seek(position);
        let len = data.u16()? as u64;
        match data.with_slice(len, |found| found == key.key.0)? {
            true => Ok(()),
            false => Err(data.malformed("the partition key is not the one of the index".to_owned())),
        }
    }

    /// Where the first partition of a range starts, in Data.db and in Index.db.
    fn find_start(&self, range: &KeyRange, context: &ReadContext) -> Result<(u64, u64), ReadError> {
        if !self.overlaps(range) {
            return Ok((self.data.len, self.index.len));
        }
        if range.start == KeyBound::Unbounded {
            return Ok((0, 0));
        }
        let before = self.summary.entries.partition_point(|(key, _)| range.is_before_start(key));
        let (mut at, _) = self.interval(before.saturating_sub(1));
        let mut index = self.index_cursor(context);
        loop {
            index.seek(at);
            if index.is_at_end() {
                return Ok((self.data.len, self.index.len));
            }
            let entry = IndexEntry::read(&mut index)?;
            if !range.is_before_start(&DecoratedKey::new(PartitionKey(entry.key))) {
                return Ok((entry.position, at));
            }
            at = entry.end;
        }
    }
}

fn uncached(index: &Arc<PagedFile>) -> Cursor {
    Cursor::new(Arc::clone(index), Arc::new(crate::pages::Uncached), ReadContext::default())
}

/// Fails when the index does not end as the summary says: with the last entry's key, and then up to the last key.
fn check_summary(summary: &Summary, index: &Arc<PagedFile>) -> Result<(), ReadError> {
    let Some((sampled, start)) = summary.entries.last() else { return Ok(()) };
    let mut walk = IndexWalk::new(uncached(index), *start);
    let (mut first, mut last): (Option<bool>, Option<DecoratedKey>) = (None, None);
    while let Some(entry) = walk.next()? {
        let key = DecoratedKey::new(PartitionKey(entry.key));
        first = first.or(Some(key == *sampled));
        last = Some(key);
    }
    match first == Some(true) && last.as_ref() == Some(&summary.last) {
        true => Ok(()),
        false => Err(walk.cursor.malformed("the last keys are not those of the summary".to_owned())),
    }
}

/// Makes the summary that is missing from the index.
fn rebuild_summary(index: &Arc<PagedFile>) -> Result<Summary, ReadError> {
    let mut walk = IndexWalk::new(uncached(index), 0);
    let mut builder = SummaryBuilder::new(REBUILT_INTERVAL);
    let mut position = 0;
    while let Some(entry) = walk.next()? {
        let key = DecoratedKey::new(PartitionKey(entry.key));
        if builder.last().is_some_and(|last| *last >= key) {
            return Err(walk.cursor.malformed("keys are out of order".to_owned()));
        }
        builder.add(&key, position);
        position = entry.end;
    }
    builder.finish().ok_or_else(|| walk.cursor.malformed("the index is empty".to_owned()))
}

/// Makes the filter that is missing from the index; `None` when the SSTable is to have none.
fn rebuild_filter(index: &Arc<PagedFile>, statistics: &Statistics) -> Result<Option<BloomFilter>, ReadError> {
    let keys = (statistics.stats.partition_sizes.count().max(1) as u64).min(index.len / ENTRY_BYTES_MIN);
    let Some(mut filter) = BloomFilter::new(keys, statistics.bloom_fp_chance) else { return Ok(None) };
    let mut walk = IndexWalk::new(uncached(index), 0);
    while let Some(entry) = walk.next()? {
        filter.add(&DecoratedKey::new(PartitionKey(entry.key)));
    }
    Ok(Some(filter))
}
