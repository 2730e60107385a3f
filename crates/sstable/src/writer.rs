//! Writing an SSTable.
//!
//! Fragments come in the order of the stream grammar. Rows go through one chunk of data; only the blocks of
//! the current partition are described in memory. Steps of [`SsTableWriter::finish`]:
//!
//! 1. Data.db, the index and the outline, where there are long values, are completed and synced;
//! 2. the components that are known only now (Proof.db, CompressionInfo.db or CRC.db, Digest.crc32,
//!    Filter.db, Summary.db, Statistics.db) are written and synced;
//! 3. TOC.txt is written and synced, then the directory.
//!
//! Files carry their final names from the start. What marks an unfinished SSTable is the transaction log that
//! its owner writes before ([`crate::txn_log`]); one without TOC.txt was never finished either.
//!
//! A partition without content is not written at all.
//!
//! From version `oa` on a deletion of a partition before 1970 has no place in the head of the partition. It
//! is written as what it means: a range deletion of all rows, and tombstones of the static columns. Where
//! such a deletion is open no block of rows ends.

mod early;

use crate::big::writer::BigIndexWriter;
use crate::bloom::BloomFilter;
use crate::bti::writer::BtiIndexWriter;
use crate::checksum::ChunkCrcs;
use crate::compression::CompressionParams;
use crate::compression::sink::DataSink;
use crate::descriptor::{Component, Descriptor, remove_files};
use crate::error::WriteError;
use crate::index::{BLOCKS_MAX, BlockRule, IndexWriter, WrittenPartition, WrittenUnfiltered};
use crate::large::{LargeFrom, LargePartitions};
use crate::outline::OutlineWriter;
use crate::pages::PageSink;
use crate::proof::{IndexProof, Proof};
use crate::statistics::{Cardinality, Collector, CommitLogPosition, Statistics, Stats};
use crate::toc;
use env::fs::FileSystem;
use model::clustering::Position;
use model::{BoundKind, Cell, Clustering, ClusteringBound, DecoratedKey, Deletion, Row, TableSchema};
use partition::codec::{EncodingStats, Layout, RowSizes, SerializationHeader, write_end};
use partition::{Event, Fragment};
use std::sync::Arc;
use uuid::Uuid;

/// What a writer needs to know beside the rows.
#[derive(Clone, Debug)]
pub struct WriterOptions {
    /// How Data.db is compressed, if it is.
    pub compression: Option<CompressionParams>,
    /// Chance of false positives of the bloom filter; 1 for no filter.
    pub bloom_fp_chance: f64,
    /// About how many partitions there will be.
    pub estimated_partitions: u64,
    /// Minima that deltas are relative to; need not be exact.
    pub encoding_stats: EncodingStats,
    /// Bytes of rows after which the promoted index starts another block.
    pub column_index_bytes: u64,
    /// The same for Rows.db of the trie index.
    pub row_index_bytes: u64,
    /// Whether blocks end where chunks do if they can, which those of Cassandra do not.
    pub align_blocks: bool,
    /// Blocks that the promoted index of a partition may have before two of them become one, while they are
    /// short.
    pub blocks_max: usize,
    /// Partitions for each entry of the summary.
    pub min_index_interval: u32,
    /// Parts of the commit log that the SSTable makes dispensable.
    pub commit_log_intervals: Vec<(CommitLogPosition, CommitLogPosition)>,
    /// The node that writes.
    pub host_id: Option<Uuid>,
    /// Milliseconds at which the data was repaired; 0 when it was not.
    pub repaired_at_ms: i64,
    /// The repair session that the SSTable takes part in.
    pub pending_repair: Option<Uuid>,
    /// Level in leveled compaction.
    pub level: i32,
    /// Which partitions [`SsTableMeta::large`] tells of.
    pub large_from: LargeFrom,
}

impl WriterOptions {
    /// Options of a table: compression, bloom filter and index interval as it asks for.
    ///
    /// # Errors
    /// When the table's compression options are not ones that this crate knows.
    pub fn of_table(table: &TableSchema) -> Result<WriterOptions, WriteError> {
        Ok(WriterOptions {
            compression: CompressionParams::of_options(&table.options.compression)?,
            bloom_fp_chance: table.options.bloom_filter_fp_chance,
            min_index_interval: table.options.min_index_interval.max(1) as u32,
            ..WriterOptions::default()
        })
    }
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions {
            compression: Some(CompressionParams::lz4()),
            bloom_fp_chance: 0.01,
            estimated_partitions: 1,
            encoding_stats: EncodingStats::default(),
            column_index_bytes: 64 << 10,
            row_index_bytes: 16 << 10,
            align_blocks: true,
            blocks_max: BLOCKS_MAX,
            min_index_interval: 128,
            commit_log_intervals: Vec::new(),
            host_id: None,
            repaired_at_ms: 0,
            pending_repair: None,
            level: 0,
            large_from: LargeFrom::NEVER,
        }
    }
}

/// A finished SSTable.
#[derive(Clone, Debug)]
pub struct SsTableMeta {
    /// Its name.
    pub descriptor: Descriptor,
    /// Its components.
    pub components: Vec<Component>,
    /// What is known about its rows.
    pub stats: Stats,
    /// Its first partition.
    pub first_key: DecoratedKey,
    /// Its last partition.
    pub last_key: DecoratedKey,
    /// Number of partitions.
    pub partitions: u64,
    /// Bytes of its rows before compression.
    pub data_bytes: u64,
    /// Bytes of Data.db.
    pub file_bytes: u64,
    /// Its large partitions.
    pub large: LargePartitions,
}

/// Writes one SSTable.
#[derive(Debug)]
pub struct SsTableWriter {
    fs: Arc<dyn FileSystem>,
    descriptor: Descriptor,
    table: Arc<TableSchema>,
    options: WriterOptions,
    header: SerializationHeader,
    layout: Layout,
    data: DataSink,
    index: IndexWriter,
    outline: OutlineWriter,
    /// Bytes of rows after which the index of a partition starts another block.
    block_len: u64,
    first_key: Option<DecoratedKey>,
    last_key: Option<DecoratedKey>,
    filter: Option<BloomFilter>,
    collector: Collector,
    cardinality: Cardinality,
    partitions: u64,
    large: LargePartitions,
    current: CurrentPartition,
    buffer: Vec<u8>,
}

const BEHIND_EVERY_ROW: ClusteringBound =
    ClusteringBound { kind: BoundKind::ExclStart, prefix: Clustering::empty() };

/// The static row under a deletion of its partition, without that deletion.
fn with_floor(mut row: Row, floor: &Deletion, table: &TableSchema) -> Row {
    row.cells.retain(|cell| cell.timestamp > floor.timestamp);
    for column in table.static_columns() {
        if column.is_multi_cell() {
            if floor.supersedes(&row.complex_deletion(column.id)) {
                row.complex_deletions.retain(|(id, _)| *id != column.id);
                row.complex_deletions.push((column.id, *floor));
            }
        } else if row.cells_of(column.id).is_empty() {
            row.cells.push(Cell::tombstone(column.id, floor.timestamp, floor.local_deletion_time));
            row.cells.sort_by_key(|cell| cell.column);
        }
    }
    row.complex_deletions.sort_by_key(|(id, _)| *id);
    row
}

/// The partition that is being written.
#[derive(Debug)]
struct CurrentPartition {
    /// `None` between partitions.
    key: Option<DecoratedKey>,
    deletion: Deletion,
    /// Where it starts in the data; `None` until there is something to write.
    start: Option<u64>,
    header_len: u64,
    open: Deletion,
    /// The deletion of the partition that its head cannot hold.
    floor: Deletion,
    sizes: RowSizes,
}

impl Default for CurrentPartition {
    fn default() -> Self {
        CurrentPartition {
            key: None,
            deletion: Deletion::NONE,
            start: None,
            header_len: 0,
            open: Deletion::NONE,
            floor: Deletion::NONE,
            sizes: RowSizes::default(),
        }
    }
}

impl SsTableWriter {
    /// Starts an SSTable; its directory exists and none of its files do.
    ///
    /// # Errors
    /// When the files cannot be made.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        descriptor: Descriptor,
        table: Arc<TableSchema>,
        options: WriterOptions,
    ) -> Result<SsTableWriter, WriteError> {
        let version = descriptor.version;
        if !version.is_written() {
            return Err(WriteError::Version(version.to_string()));
        }
        let header = SerializationHeader::of_table(&table, options.encoding_stats, version.deletion_times());
        let layout = Layout::of_table(&table, options.encoding_stats, version.deletion_times());
        let data = fs.create_new(&descriptor.path(Component::Data))?;
        let create = |component| fs.create_new(&descriptor.path(component));
        let (index, block_len) = if version.is_bti() {
            let (partitions, rows) = (create(Component::Partitions)?, create(Component::Rows)?);
            let writer = BtiIndexWriter::new(partitions, rows, version.deletion_times());
            (IndexWriter::Bti(Box::new(writer)), options.row_index_bytes)
        } else {
            let index = create(Component::Index)?;
            let writer = BigIndexWriter::new(index, options.min_index_interval, options.blocks_max);
            (IndexWriter::Big(Box::new(writer)), options.column_index_bytes)
        };
        Ok(SsTableWriter {
            data: DataSink::new(data, options.compression.clone()),
            outline: OutlineWriter::new(Arc::clone(&fs), descriptor.path(Component::Outline)),
            index,
            block_len,
            first_key: None,
            last_key: None,
            filter: BloomFilter::new(options.estimated_partitions, options.bloom_fp_chance),
            collector: Collector::new(version),
            cardinality: Cardinality::default(),
            partitions: 0,
            large: LargePartitions::default(),
            current: CurrentPartition::default(),
            buffer: Vec::new(),
            fs,
            descriptor,
            table,
            options,
            header,
            layout,
        })
    }

    /// The SSTable's name.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Shows every page of Data.db to `pages`.
    pub fn tell_pages_to(&mut self, pages: Box<dyn PageSink>) {
        self.data.pages = Some(pages);
    }

    /// Bytes of rows so far, before compression.
    pub fn data_bytes(&self) -> u64 {
        self.data.position()
    }

    /// Bytes of Data.db so far, as compressed: when to go on in another SSTable.
    pub fn file_bytes(&self) -> u64 {
        self.data.written()
    }

    /// Number of partitions so far.
    pub fn partitions(&self) -> u64 {
        self.partitions
    }

    /// Takes the next fragment of a stream that reads forward. [`Event::End`] is ignored.
    ///
    /// # Errors
    /// After one the writer is of no use but to [`SsTableWriter::abort`].
    pub fn append(&mut self, event: Event, fragment: &Fragment) -> Result<(), WriteError> {
        if self.current.key.is_none() && !matches!(event, Event::PartitionStart | Event::End) {
            return Err(WriteError::OutOfOrder("a fragment outside of a partition"));
        }
        match event {
            Event::PartitionStart => self.start_partition(&fragment.key, fragment.deletion),
            Event::StaticRow => self.static_row(fragment),
            Event::Row => self.row(fragment),
            Event::RangeChange => self.range_change(&fragment.change.position, fragment.change.deletion),
            Event::PartitionEnd => self.end_partition(),
            Event::End => Ok(()),
        }
    }

    fn start_partition(&mut self, key: &DecoratedKey, deletion: Deletion) -> Result<(), WriteError> {
        if self.current.key.is_some() {
            return Err(WriteError::OutOfOrder("a partition inside a partition"));
        }
        if self.last_key.as_ref().is_some_and(|last| last >= key) {
            return Err(WriteError::OutOfOrder("a partition that does not come after the one before"));
        }
        if key.key.0.len() > u16::MAX as usize {
            return Err(WriteError::OutOfOrder("a partition key of more than 65535 bytes"));
        }
        self.current.key = Some(key.clone());
        (self.current.deletion, self.current.floor) = match self.layout.deletion_times().can_write(&deletion)
        {
            true => (deletion, Deletion::NONE),
            false => (Deletion::NONE, deletion),
        };
        self.current.start = None;
        self.current.open = Deletion::NONE;
        self.index.start_partition();
        Ok(())
    }

    /// Writes the head of the partition, if that was not done yet.
    fn open_partition(&mut self, static_row: Option<&Fragment>) -> Result<u64, WriteError> {
        if let Some(start) = self.current.start {
            return Ok(start);
        }
        let start = self.data.position();
        let Some(key) = &self.current.key else {
            return Err(WriteError::OutOfOrder("a fragment outside of a partition"));
        };
        let out = &mut self.buffer;
        out.clear();
        self.current.sizes.long_values.clear();
        out.extend_from_slice(&(key.key.0.len() as u16).to_be_bytes());
        out.extend_from_slice(&key.key.0);
        self.layout.deletion_times().write(out, &self.current.deletion)?;
        self.collector.partition_deletion(&self.current.deletion);
        if self.layout.has_statics() {
            let floored = (!self.current.floor.is_none()).then(|| {
                let row = static_row.map(|fragment| fragment.row.clone());
                with_floor(row.unwrap_or_default(), &self.current.floor, &self.table)
            });
            match floored.as_ref().or(static_row.map(|fragment| &fragment.row)) {
                Some(row) => {
                    self.layout.write_row(out, row, true, &mut self.current.sizes)?;
                    self.collector.row(row, &self.table);
                }
                None => self.layout.write_row(out, &Row::default(), true, &mut self.current.sizes)?,
            }
        }
        self.current.header_len = out.len() as u64;
        self.current.sizes.previous = out.len() as u64;
        self.current.start = Some(start);
        self.write_buffer()?;
        self.change_open(&ClusteringBound::BOTTOM, self.current.floor)?;
        Ok(start)
    }

    fn static_row(&mut self, fragment: &Fragment) -> Result<(), WriteError> {
        if self.current.start.is_some() {
            return Err(WriteError::OutOfOrder("a static row that is not the first of its partition"));
        }
        if !fragment.row.is_empty() {
            self.open_partition(Some(fragment))?;
        }
        Ok(())
    }

    fn row(&mut self, fragment: &Fragment) -> Result<(), WriteError> {
        if fragment.row.is_empty() {
            return Ok(());
        }
        let partition_start = self.open_partition(None)?;
        self.buffer.clear();
        self.layout.write_row(&mut self.buffer, &fragment.row, false, &mut self.current.sizes)?;
        self.collector.row(&fragment.row, &self.table);
        let position = Position::row(&fragment.row.clustering);
        self.finish_unfiltered(partition_start, position)
    }

    fn range_change(&mut self, position: &ClusteringBound, deletion: Deletion) -> Result<(), WriteError> {
        let floor = self.current.floor;
        let deletion = if deletion.supersedes(&floor) { deletion } else { floor };
        if self.current.open != deletion {
            self.open_partition(None)?;
        }
        self.change_open(position, deletion)
    }

    /// Writes the marker of a change of the open deletion, if it is one.
    fn change_open(&mut self, position: &ClusteringBound, deletion: Deletion) -> Result<(), WriteError> {
        let before = self.current.open;
        let Some(partition_start) = self.current.start.filter(|_| before != deletion) else { return Ok(()) };
        self.buffer.clear();
        let written = self.layout.write_marker(
            &mut self.buffer,
            position,
            &before,
            &deletion,
            &mut self.current.sizes,
        )?;
        // Each marker counts both the deletion that it closes and the one that it opens, as Cassandra does.
        self.collector.deletion(&before);
        self.collector.deletion(&deletion);
        self.current.open = deletion;
        match written {
            Some(position) => self.finish_unfiltered(partition_start, position),
            None => Ok(()),
        }
    }

    /// Writes the buffer, which holds the row or marker at `position`.
    fn finish_unfiltered(&mut self, partition_start: u64, position: Position<'_>) -> Result<(), WriteError> {
        self.collector.position(position, self.table.comparator());
        let start = self.data.position() - partition_start;
        self.write_buffer()?;
        let written = WrittenUnfiltered {
            position,
            start,
            end: self.data.position() - partition_start,
            open_after: self.current.open,
            blocks: self.block_rule(partition_start),
        };
        self.index.add(&self.layout, self.table.comparator(), &written)
    }

    /// Writes the buffer to the data, and what it takes to step over its long values to the outline.
    fn write_buffer(&mut self) -> Result<(), WriteError> {
        self.outline.add(self.data.position(), &self.buffer, &self.current.sizes.long_values)?;
        self.data.write(&self.buffer, &self.current.sizes.long_values)
    }

    /// Where blocks end, as far as that is known of the row or marker that was just written.
    fn block_rule(&self, partition_start: u64) -> BlockRule {
        // Not where the index could not say what holds there.
        let may_end = self.layout.deletion_times().can_write(&self.current.open);
        let chunk_len = self.options.align_blocks.then(|| self.data.chunk_len());
        BlockRule { len: if may_end { self.block_len } else { u64::MAX }, chunk_len, partition_start }
    }

    fn end_partition(&mut self) -> Result<(), WriteError> {
        let CurrentPartition { start, deletion, floor, .. } = &self.current;
        if start.is_none() && deletion.is_none() && floor.is_none() {
            self.current.key = None;
            return Ok(());
        }
        let start = self.open_partition(None)?;
        if self.current.open != self.current.floor {
            return Err(WriteError::OutOfOrder("the end of a partition while a range deletion is open"));
        }
        self.change_open(&BEHIND_EVERY_ROW, Deletion::NONE)?;
        let Some(key) = self.current.key.take() else {
            return Err(WriteError::OutOfOrder("the end of a partition that did not start"));
        };
        self.buffer.clear();
        write_end(&mut self.buffer);
        self.current.sizes.long_values.clear();
        self.write_buffer()?;
        let size = self.data.position() - start;
        let tombstones = self.collector.partition_end(size);
        self.large.see(self.options.large_from, &key, size, tombstones);
        self.cardinality.add(&key.key.0);
        if let Some(filter) = &mut self.filter {
            filter.add(&key);
        }
        self.partitions += 1;
        let written = WrittenPartition {
            key: &key,
            deletion: self.current.deletion,
            position: start,
            header_len: self.current.header_len,
            len: size,
        };
        self.index.end_partition(&self.layout, self.table.comparator(), &written)?;
        if self.first_key.is_none() {
            self.first_key = Some(key.clone());
        }
        self.last_key = Some(key);
        Ok(())
    }

    /// Completes all files and makes them durable.
    ///
    /// # Errors
    /// When a file cannot be written, and for an SSTable without partitions. The files stay as they are:
    /// [`remove_files`] removes them.
    pub fn finish(self) -> Result<SsTableMeta, WriteError> {
        if self.current.key.is_some() {
            return Err(WriteError::OutOfOrder("the end inside a partition"));
        }
        let (Some(first_key), Some(last_key)) = (self.first_key, self.last_key) else {
            return Err(WriteError::Empty);
        };
        let index = self.index.finish()?;
        let data = self.data.finish()?;
        let mut stats = self.collector.finish();
        if data.compression.is_some() {
            stats.compression_ratio = data.file_len as f64 / (data.data_len as f64).max(1.0);
        }
        stats.commit_log_intervals = self.options.commit_log_intervals;
        stats.level = self.options.level;
        stats.repaired_at_ms = self.options.repaired_at_ms;
        stats.pending_repair = self.options.pending_repair;
        stats.host_id = self.options.host_id;
        if self.descriptor.version.has_key_range() {
            stats.key_range = Some((first_key.key.0.clone(), last_key.key.0.clone()));
        }
        let filter = self.filter.map(|filter| filter.encode());
        let statistics = Statistics {
            bloom_fp_chance: self.options.bloom_fp_chance,
            filter_crc: filter.as_ref().map(|bytes| crc32fast::hash(bytes)),
            cardinality: Some(self.cardinality.finish()),
            stats,
            header: self.header,
        };

        let mut components = vec![Component::Data];
        components.extend(index.files);
        if self.outline.finish(data.digest, data.data_len)? {
            components.push(Component::Outline);
        }
        let mut put = |component: Component, bytes: Vec<u8>| -> Result<(), WriteError> {
            components.push(component);
            let mut file = self.fs.create(&self.descriptor.path(component))?;
            file.write_all(&bytes)?;
            Ok(file.sync_data()?)
        };
        let (table, bytes, chunks) = match &data.compression {
            Some(info) => (Component::CompressionInfo, info.encode(), data.crcs),
            None => {
                let crcs = ChunkCrcs { chunk_len: data.chunk_len, crcs: data.crcs };
                (Component::Crc, crcs.encode(), Vec::new())
            }
        };
        let proof = Proof {
            digest: data.digest,
            data_len: data.data_len,
            table_crc: crc32fast::hash(&bytes),
            index: Some(IndexProof {
                summary_crc: index.summary.as_ref().map_or(0, |bytes| crc32fast::hash(bytes)),
                index: index.index,
                rows: index.rows,
                samples: index.samples,
                fences: index.fences,
            }),
            chunks,
            adopted: None,
        };
        put(Component::Proof, proof.encode())?;
        put(table, bytes)?;
        put(Component::Digest, data.digest.to_string().into_bytes())?;
        if let Some(filter) = filter {
            put(Component::Filter, filter)?;
        }
        if let Some(bytes) = index.summary {
            put(Component::Summary, bytes)?;
        }
        put(Component::Statistics, statistics.encode(self.descriptor.version)?)?;
        components.push(Component::Toc);
        let mut file = self.fs.create(&self.descriptor.path(Component::Toc))?;
        file.write_all(toc::encode(&components).as_bytes())?;
        file.sync_data()?;
        self.fs.sync_dir(&self.descriptor.directory)?;
        Ok(SsTableMeta {
            descriptor: self.descriptor,
            components,
            stats: statistics.stats,
            first_key,
            last_key,
            partitions: self.partitions,
            large: self.large,
            data_bytes: data.data_len,
            file_bytes: data.file_len,
        })
    }

    /// Gives up and removes the files.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn abort(self) -> Result<(), WriteError> {
        let SsTableWriter { fs, descriptor, data, index, outline, .. } = self;
        drop((data, index, outline));
        Ok(remove_files(fs.as_ref(), &descriptor)?)
    }
}
