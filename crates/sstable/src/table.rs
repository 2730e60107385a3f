//! An open SSTable.
//!
//! Opening reads the small components whole (Statistics.db, CompressionInfo.db or CRC.db, Filter.db, Summary.db) and
//! nothing of Data.db; of Index.db the entries after the last sample, or all when Summary.db or Filter.db is missing; of
//! Outline.db the root.
//!
//! The index and Filter.db carry no checksums. What they say is checked against the data where a read depends on it:
//! the key in the data must be the one asked for, and before a key that passed the filter is called absent, its
//! neighbours are compared with the data. The filter itself is believed only as far as it is proven ([`KeyFilter`]).
//! Before version `na` Statistics.db has no checksums either: nothing is left out of a read or of a compaction for what
//! it says, and the minima in its header are proven ([`Minima`]).

use crate::big::lookup::{BigIndex, SummaryError};
use crate::bloom::BloomFilter;
use crate::bti::partitions::BtiIndex;
use crate::data_walk::DataPages;
use crate::descriptor::{Component, Descriptor};
use crate::error::{OpenError, corrupt, file_name, read_component, read_optional};
use crate::header_check::check_header;
use crate::header_table::table_of_header;
use crate::index::{Entry, Index, Walk};
use crate::key_filter::{FilterCheck, KeyFilter};
use crate::minima::Minima;
use crate::outline::Outline;
use crate::pages::{Course, Cursor, FileId, FilePart, PageLayout, PageSource, PagedFile, Wish};
use crate::proof::{PageSums, Proof, proven};
use crate::statistics::{CommitLogPosition, Statistics, Stats};
use crate::stream::{Partitions, SsTableStream, Walker};
use arc_swap::ArcSwapOption;
use env::fs::{Access, FileSystem};
use env::random::Random;
use model::command::{ClusteringFilter, ColumnSelection};
use model::key::KeyRange;
use model::{DecoratedKey, NO_DELETION_TIME, NO_TTL, Slice, TableSchema};
use partition::codec::{Layout, SerializationHeader};
use partition::{ReadContext, ReadError};
use std::io;
use std::sync::Arc;
use uuid::Uuid;

/// The layout of an SSTable's rows for one version of a table's schema.
#[derive(Debug)]
pub(crate) struct MappedLayout {
    table: Arc<TableSchema>,
    layout: Arc<Layout>,
}

/// An SSTable that can be read. Shared by readers; its files stay readable after they were removed.
#[derive(Debug)]
pub struct SsTable {
    pub(crate) descriptor: Descriptor,
    pub(crate) components: Vec<Component>,
    pub(crate) statistics: Statistics,
    pub(crate) index: Index,
    pub(crate) filter: Option<KeyFilter>,
    pub(crate) minima: Minima,
    pub(crate) data: Arc<PagedFile>,
    pub(crate) outline: Option<Arc<Outline>>,
    /// Whether every page of the index is held against a checksum, the summary was, and no chunk passes for another.
    pub(crate) is_proven: bool,
    pub(crate) pages: Arc<dyn PageSource>,
    pub(crate) layout: ArcSwapOption<MappedLayout>,
    pub(crate) disk_bytes: u64,
    /// Bytes of a row and of a partition, on the average.
    pub(crate) row_bytes: u64,
    pub(crate) partition_bytes: u64,
}

fn crc(bytes: &bytes::Bytes) -> u32 {
    crc32fast::hash(bytes)
}

/// Fails when Statistics.db, which has a checksum, names other keys than the index.
fn check_key_range(
    descriptor: &Descriptor,
    stats: &Stats,
    first: &DecoratedKey,
    last: &DecoratedKey,
) -> Result<(), ReadError> {
    match &stats.key_range {
        Some(range) if *range != (first.key.0.clone(), last.key.0.clone()) => {
            let name = file_name(&descriptor.path(Component::Statistics));
            Err(ReadError::corrupt(&name, 0, "the first and last key are not those of the index".to_owned()))
        }
        _ => Ok(()),
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
        let data_pages = DataPages::of(fs, descriptor)?;
        let paged = |component, part, layout| -> Result<PagedFile, OpenError> {
            let path = descriptor.path(component);
            let file = match fs.open_read_by(&path, pages.access(part)) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    return Err(OpenError::MissingComponent { table: descriptor.to_string(), component });
                }
                Err(e) => return Err(ReadError::from(e).into()),
            };
            let id = FileId { sstable: number, part };
            Ok(PagedFile::new(id, file_name(&path), file, layout))
        };
        let data = paged(Component::Data, FilePart::Data, data_pages.layout)?;
        let proof = Proof::open(fs, descriptor, &data, data_pages.table_crc)?;
        let summary_crc = proof.as_ref().map(|proof| proof.summary_crc);
        let (data, index_sums, rows_sums) = match proof {
            Some(Proof { chunks, index, rows, .. }) => (data.with_places(chunks), Some(index), Some(rows)),
            None => (data, None, None),
        };
        let indexed = |component, part, sums: Option<PageSums>| -> Result<Arc<PagedFile>, OpenError> {
            let file = paged(component, part, PageLayout::Plain)?;
            Ok(Arc::new(match sums {
                Some(sums) => proven(file, sums)?,
                None => file,
            }))
        };
        let outline = Outline::open(fs, descriptor, number, data.len)?;
        let times = descriptor.version.deletion_times();
        let filter_bytes = read_optional(fs, descriptor, Component::Filter)?;
        let has_proven_filter =
            filter_bytes.as_ref().map(crc).is_some_and(|crc| statistics.filter_crc == Some(crc));
        let bloom = match filter_bytes {
            Some(bytes) => Some(
                BloomFilter::decode(bytes, descriptor.version).map_err(|e| failed(Component::Filter, e))?,
            ),
            None => None,
        };
        let with_doubt = |bloom, intervals| match has_proven_filter {
            true => KeyFilter::proven(bloom),
            false => KeyFilter::unproven(bloom, intervals),
        };
        let mut is_proven = summary_crc.is_some();
        let (index, filter) = if descriptor.version.is_bti() {
            let partitions = indexed(Component::Partitions, FilePart::Index, index_sums)?;
            let rows = indexed(Component::Rows, FilePart::Rows, rows_sums)?;
            let index = BtiIndex::open(partitions, rows, Arc::clone(&pages), times)?;
            let filter = bloom.map(|bloom| with_doubt(bloom, index.intervals()));
            (Index::Bti(Arc::new(index)), filter)
        } else {
            let file = indexed(Component::Index, FilePart::Index, index_sums)?;
            let summary = read_optional(fs, descriptor, Component::Summary)?;
            // Cassandra may have made it anew.
            is_proven &= summary.as_ref().is_none_or(|bytes| summary_crc == Some(crc(bytes)));
            let index = BigIndex::open(summary, file, Arc::clone(&pages), times).map_err(|e| match e {
                SummaryError::Decode(e) => failed(Component::Summary, e),
                SummaryError::Read(e) => e,
            })?;
            let filter = match bloom {
                Some(bloom) => {
                    let filter = with_doubt(bloom, index.intervals());
                    if !has_proven_filter {
                        index.prove_if_small(&filter)?;
                    }
                    Some(filter)
                }
                None => {
                    let keys = statistics.stats.partition_sizes.count().max(1) as u64;
                    index.make_filter(keys, statistics.bloom_fp_chance)?.map(KeyFilter::proven)
                }
            };
            (Index::Big(index), filter)
        };
        check_key_range(descriptor, &statistics.stats, index.first_key(), index.last_key())?;
        let mut components = Vec::new();
        let mut disk_bytes = 0;
        for component in Component::ALL {
            if let Ok(len) = fs.file_len(&descriptor.path(*component)) {
                components.push(*component);
                disk_bytes += len;
            }
        }
        let (row_bytes, partition_bytes) = statistics.stats.mean_bytes(data.len);
        Ok(SsTable {
            row_bytes,
            partition_bytes,
            descriptor: descriptor.clone(),
            components,
            minima: Minima::of(descriptor, &statistics),
            statistics,
            index,
            filter,
            data: Arc::new(data),
            outline,
            is_proven,
            pages,
            layout: ArcSwapOption::empty(),
            disk_bytes,
        })
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

    /// What Statistics.db says about the rows. Before version `na` it may be damaged: rows are left out only for what
    /// the methods below say.
    pub fn stats(&self) -> &Stats {
        &self.statistics.stats
    }

    /// What is certain about the rows, if anything.
    fn believed(&self) -> Option<&Stats> {
        Some(&self.statistics.stats).filter(|_| self.descriptor.version.has_metadata_checksums())
    }

    /// No timestamp is smaller. Microseconds.
    pub fn oldest_timestamp(&self) -> i64 {
        self.believed().map_or(i64::MIN, |stats| stats.min_timestamp)
    }

    /// No timestamp is larger. Microseconds.
    pub fn newest_timestamp(&self) -> i64 {
        self.believed().map_or(i64::MAX, |stats| stats.max_timestamp)
    }

    /// Nothing is deleted or expires later; [`NO_DELETION_TIME`] when something may stay for ever. Seconds.
    pub fn last_local_deletion_time(&self) -> u32 {
        self.believed().map_or(NO_DELETION_TIME, |stats| stats.max_local_deletion_time)
    }

    /// Whether there may be any tombstone or anything that expires.
    pub fn may_have_tombstones(&self) -> bool {
        self.believed().is_none_or(Stats::may_have_tombstones)
    }

    /// Whether there may be anything that expires.
    pub fn may_expire(&self) -> bool {
        self.believed().is_none_or(|stats| stats.max_ttl != NO_TTL)
    }

    /// Whether there may be deletions of partitions.
    pub fn may_delete_partitions(&self) -> bool {
        self.believed().is_none_or(Stats::may_have_partition_deletions)
    }

    /// The parts of the commit log that the SSTable certainly holds, if `host_id` wrote it.
    pub fn commit_log_intervals(&self, host_id: Uuid) -> &[(CommitLogPosition, CommitLogPosition)] {
        let written_here = self.believed().filter(|stats| stats.host_id == Some(host_id));
        written_here.map_or(&[], |stats| &stats.commit_log_intervals)
    }

    /// How the rows are encoded; its [`partition::codec::EncodingStats`] are what a merge's are made of.
    pub fn header(&self) -> &SerializationHeader {
        &self.statistics.header
    }

    /// The first partition.
    pub fn first_key(&self) -> &DecoratedKey {
        self.index.first_key()
    }

    /// The last partition.
    pub fn last_key(&self) -> &DecoratedKey {
        self.index.last_key()
    }

    /// Number of partitions, estimated from the statistics.
    pub fn estimated_partitions(&self) -> u64 {
        self.statistics.stats.partition_sizes.count().max(1) as u64
    }

    /// How Data.db is read.
    pub fn data_access(&self) -> Access {
        self.data.raw().access()
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
            + self.index.memory_bytes()
            + self.data.memory_bytes()
            + self.outline.as_ref().map_or(0, |outline| outline.memory_bytes())
    }

    /// Bytes of memory that the bloom filter takes.
    pub fn filter_bytes(&self) -> usize {
        self.filter.as_ref().map_or(0, KeyFilter::memory_bytes)
    }

    /// Whether `key` may be there; `false` is certain. Compares with the first and last key, then asks the filter.
    pub fn may_contain(&self, key: &DecoratedKey) -> bool {
        self.covers(key)
            && !self.filter.as_ref().is_some_and(|filter| filter.excludes(key, || self.index.interval(key)))
    }

    /// Finds out whether the bloom filter has every key of the index, which is read from end to end. Afterwards
    /// [`SsTable::may_contain`] knows better: a filter that is found sound is believed, another one not asked.
    ///
    /// # Errors
    /// When Filter.db lacks a key, and when the index cannot be read.
    pub fn check_filter(&self, context: &ReadContext) -> Result<(), ReadError> {
        self.check_filter_at_pace(context, &mut |_| true).map(drop)
    }

    /// As [`SsTable::check_filter`]; `pace` is told now and then of the bytes gone over since the last time, and ends it
    /// by `false`. Whether the filter was checked to the end.
    ///
    /// # Errors
    /// As [`SsTable::check_filter`].
    pub fn check_filter_at_pace(
        &self,
        context: &ReadContext,
        pace: &mut dyn FnMut(u64) -> bool,
    ) -> Result<bool, ReadError> {
        let Some(filter) = &self.filter else { return Ok(true) };
        match self.index.check_filter(filter, &mut self.data_cursor(context), pace)? {
            FilterCheck::Sound => Ok(true),
            FilterCheck::Stopped => Ok(false),
            FilterCheck::Lacks(detail) => {
                Err(ReadError::corrupt(&file_name(&self.descriptor.path(Component::Filter)), 0, detail))
            }
        }
    }

    /// Whether the bloom filter is neither known to have every key nor to lack one.
    pub fn has_unproven_filter(&self) -> bool {
        self.filter.as_ref().is_some_and(|filter| !filter.is_proven() && filter.is_asked())
    }

    /// Whether `key` lies between the first and the last key.
    pub fn covers(&self, key: &DecoratedKey) -> bool {
        key >= self.first_key() && key <= self.last_key()
    }

    /// Whether the range and the SSTable's keys overlap.
    pub fn overlaps(&self, range: &KeyRange) -> bool {
        !range.is_before_start(self.last_key()) && !range.is_after_end(self.first_key())
    }

    /// Whether rows or range tombstones can lie where the filter selects; see [`Stats::overlaps_clusterings`].
    pub fn overlaps_clusterings(&self, selected: &ClusteringFilter, table: &TableSchema) -> bool {
        self.believed().is_none_or(|stats| stats.overlaps_clusterings(selected, table.comparator()))
    }

    #[cfg(test)]
    pub(crate) fn minima_are_proven(&self) -> bool {
        self.minima.are_proven()
    }

    /// Makes sure that the minima in the header are those of the rows.
    ///
    /// # Errors
    /// When they are not, and when that takes reading that the context does not allow or that fails.
    pub(crate) fn prove_minima(&self, context: &ReadContext) -> Result<(), ReadError> {
        if self.minima.are_proven() {
            return Ok(());
        }
        let unfit =
            |e: String| ReadError::corrupt(&file_name(&self.descriptor.path(Component::Statistics)), 0, e);
        let table = table_of_header(self.header()).map_err(|e| unfit(e.to_string()))?;
        let layout = Layout::of_sstable(self.header(), &table).map_err(|e| unfit(e.to_string()))?;
        self.minima.prove(&self.descriptor, &self.statistics, &self.data, Arc::new(layout), context)
    }

    /// Whether partitions have static rows.
    pub fn has_statics(&self) -> bool {
        !self.statistics.header.static_columns.is_empty()
    }

    /// Whether rows of a table can be read from here.
    ///
    /// # Errors
    /// When columns are here that the table never had, or other clustering columns.
    pub fn check_schema(&self, table: &Arc<TableSchema>) -> Result<(), ReadError> {
        self.layout(table).map(drop)
    }

    /// The layout for a version of the schema, remembered for the next read.
    fn layout(&self, table: &Arc<TableSchema>) -> Result<Arc<Layout>, ReadError> {
        if let Some(mapped) = self.layout.load().as_deref()
            && Arc::ptr_eq(&mapped.table, table)
        {
            return Ok(Arc::clone(&mapped.layout));
        }
        let unfit =
            |detail| ReadError::corrupt(&file_name(&self.descriptor.path(Component::Statistics)), 0, detail);
        if self.believed().is_none() {
            check_header(&self.statistics.header, table).map_err(unfit)?;
        }
        let layout = Layout::of_sstable(&self.statistics.header, table).map_err(|e| unfit(e.to_string()))?;
        let layout = Arc::new(layout);
        let mapped = MappedLayout { table: Arc::clone(table), layout: Arc::clone(&layout) };
        self.layout.store(Some(Arc::new(mapped)));
        self.data.crc_checks.set_chance(table.options.crc_check_chance);
        Ok(layout)
    }

    /// The index from its first partition on, for those who compare it with the data.
    pub(crate) fn index_walk(
        &self,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Option<Walk>, ReadError> {
        let mut data = self.data_cursor(context);
        let layout = self.layout(table)?;
        Ok(self.index.walk(&KeyRange::FULL, &layout, &mut data)?.map(|(_, walk)| walk))
    }

    /// Where in the data a partition starts, as a lookup finds it.
    pub(crate) fn place_of(
        &self,
        key: &DecoratedKey,
        table: &Arc<TableSchema>,
        context: &ReadContext,
    ) -> Result<Option<u64>, ReadError> {
        if !self.covers(key) {
            return Ok(None);
        }
        let mut data = self.data_cursor(context);
        let layout = self.layout(table)?;
        Ok(self.index.find(key, None, &layout, &mut data)?.map(|entry| entry.position()))
    }

    fn data_cursor(&self, context: &ReadContext) -> Cursor {
        Cursor::new(Arc::clone(&self.data), Arc::clone(&self.pages), context.clone())
    }

    /// A cursor for a read of some columns: by the outline, where one is there and values are stepped over.
    fn cursor_for(&self, columns: &ColumnSelection, layout: &Layout, context: &ReadContext) -> Cursor {
        let outline = self.outline.as_ref().filter(|_| !layout.is_everything(&layout.wanted(columns)));
        self.data_cursor(context).with_outline(outline)
    }

    /// Says what a stream will want of the data, for its pages to be read together.
    fn look_ahead(&self, filter: &ClusteringFilter, partitions: &Partitions, data: &mut Cursor) {
        let (rows, is_open) = match filter {
            ClusteringFilter::Names { .. } => (1, true),
            ClusteringFilter::Slices { .. } => (data.context().rows_wanted, filter.has_open_end()),
        };
        let is_walk = filter.is_all() && !filter.is_reversed();
        let wanted = if is_walk { rows.saturating_mul(self.row_bytes) } else { u64::MAX };
        let (start, certain) = match partitions {
            Partitions::None => return,
            Partitions::Range { next, .. } => (*next, 0),
            Partitions::One { entry, .. } if is_walk || !entry.has_rows() => {
                (entry.position(), wanted.min(self.partition_bytes))
            }
            Partitions::One { entry, .. } => (entry.position(), 0),
        };
        data.look_ahead(|ahead| {
            ahead.wish = Wish { rows, is_open, row_bytes: self.row_bytes };
            ahead.set_rows(start..start.saturating_add(certain));
            ahead.course = match filter.is_reversed() {
                true => Course::Backward(0),
                false => Course::Forward(start.saturating_add(wanted)),
            };
        });
    }

    /// Whether more is expected of a partition than a read that may not block is begun for. Of slices that end somewhere
    /// nobody knows how much lies in them, nor how much of a row some of its columns are.
    fn outgrows(
        &self,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        layout: &Layout,
        entry: &Entry,
        ctx: &ReadContext,
    ) -> bool {
        if ctx.may_block || !entry.has_rows() {
            return false;
        }
        let rows = match filter {
            ClusteringFilter::Names { names, .. } => names.len() as u64,
            ClusteringFilter::Slices { .. } if filter.has_open_end() => ctx.rows_wanted,
            ClusteringFilter::Slices { .. } => 0,
        };
        let rows = rows.min(self.partition_bytes / self.row_bytes.max(1));
        let is_long = rows.saturating_mul(self.row_bytes) > ctx.bytes_max;
        rows > ctx.rows_max || (is_long && layout.is_everything(&layout.wanted(columns)))
    }

    fn stream(
        self: &Arc<Self>,
        filter: &ClusteringFilter,
        columns: &ColumnSelection,
        table: &Arc<TableSchema>,
        mut data: Cursor,
        partitions: Partitions,
        layout: Arc<Layout>,
    ) -> Result<Box<SsTableStream>, ReadError> {
        self.prove_minima(data.context())?;
        self.look_ahead(filter, &partitions, &mut data);
        let reversed = filter.is_reversed();
        let whole = filter.is_all();
        let mut slices = if whole { vec![Slice::ALL] } else { filter.to_slices() };
        if reversed {
            slices.reverse();
        }
        let walker = Walker::new(reversed);
        let wanted = layout.wanted(columns);
        Ok(Box::new(SsTableStream::new(
            Arc::clone(self),
            Arc::clone(table),
            layout,
            wanted,
            slices,
            whole,
            walker,
            data,
            partitions,
        )))
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
    ) -> Result<Option<Box<SsTableStream>>, ReadError> {
        let layout = self.layout(table)?;
        let mut data = self.cursor_for(columns, &layout, context);
        let found = match self.covers(key) {
            true => self.index.find(key, self.filter.as_ref(), &layout, &mut data)?,
            false => None,
        };
        let Some(entry) = found else {
            let passed = self.filter.as_ref().is_some_and(|filter| filter.passes(key));
            context.cost.bloom_false_positives.add(passed as u64);
            return Ok(None);
        };
        if self.outgrows(filter, columns, &layout, &entry, context) {
            return Err(ReadError::WouldBlock);
        }
        let partitions = Partitions::One { key: key.clone(), entry };
        self.stream(filter, columns, table, data, partitions, layout).map(Some)
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
    ) -> Result<Box<SsTableStream>, ReadError> {
        let layout = self.layout(table)?;
        let mut data = self.cursor_for(columns, &layout, context);
        let start = if self.overlaps(range) { self.index.walk(range, &layout, &mut data)? } else { None };
        let partitions = match start {
            Some((next, walk)) => Partitions::Range { range: range.clone(), next, walk },
            None => Partitions::None,
        };
        self.stream(filter, columns, table, data, partitions, layout)
    }
}
