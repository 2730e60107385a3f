//! Writing an SSTable.
//!
//! Fragments come in the order of the stream grammar, without ever being kept: rows go through one chunk of data,
//! only the description of the blocks of the current partition stays in memory. Steps of [`SsTableWriter::finish`]:
//!
//! 1. Data.db and Index.db are completed and synced;
//! 2. the components that are known only now (CompressionInfo.db or CRC.db, Digest.crc32, Filter.db, Summary.db,
//!    Statistics.db) are written and synced;
//! 3. TOC.txt is written and synced, then the directory.
//!
//! Files carry their final names from the start. What marks an unfinished SSTable is the transaction log that its
//! owner writes before ([`crate::txn_log`]); one without TOC.txt was never finished either.
//!
//! A partition without content is not written at all.

use super::index::PromotedIndexBuilder;
use super::summary::SummaryBuilder;
use crate::bloom::BloomFilter;
use crate::compression::CompressionParams;
use crate::compression::sink::DataSink;
use crate::descriptor::{Component, Descriptor};
use crate::error::WriteError;
use crate::statistics::{Cardinality, Collector, CommitLogPosition, Statistics, Stats};
use crate::toc;
use env::fs::{FileSystem, WriteFile};
use model::clustering::Position;
use model::{ClusteringBound, DecoratedKey, Deletion, TableSchema};
use partition::codec::{
    EncodingStats, Layout, RowSizes, SerializationHeader, write_deletion_time, write_end,
};
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
            min_index_interval: 128,
            commit_log_intervals: Vec::new(),
            host_id: None,
            repaired_at_ms: 0,
            pending_repair: None,
            level: 0,
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
    index: Box<dyn WriteFile>,
    summary: SummaryBuilder,
    filter: Option<BloomFilter>,
    collector: Collector,
    cardinality: Cardinality,
    partitions: u64,
    current: CurrentPartition,
    buffer: Vec<u8>,
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
    sizes: RowSizes,
    blocks: PromotedIndexBuilder,
}

impl Default for CurrentPartition {
    fn default() -> Self {
        CurrentPartition {
            key: None,
            deletion: Deletion::NONE,
            start: None,
            header_len: 0,
            open: Deletion::NONE,
            sizes: RowSizes::default(),
            blocks: PromotedIndexBuilder::default(),
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
        let header = SerializationHeader::of_table(&table, options.encoding_stats);
        let layout = Layout::of_table(&table, options.encoding_stats);
        let data = fs.create_new(&descriptor.path(Component::Data))?;
        let index = fs.create_new(&descriptor.path(Component::Index))?;
        Ok(SsTableWriter {
            data: DataSink::new(data, options.compression.clone()),
            index,
            summary: SummaryBuilder::new(options.min_index_interval),
            filter: BloomFilter::new(options.estimated_partitions, options.bloom_fp_chance),
            collector: Collector::new(),
            cardinality: Cardinality::default(),
            partitions: 0,
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
        if self.summary.last().is_some_and(|last| last >= key) {
            return Err(WriteError::OutOfOrder("a partition that does not come after the one before"));
        }
        if key.key.0.len() > u16::MAX as usize {
            return Err(WriteError::OutOfOrder("a partition key of more than 65535 bytes"));
        }
        self.current.key = Some(key.clone());
        self.current.deletion = deletion;
        self.current.start = None;
        self.current.open = Deletion::NONE;
        self.current.blocks.clear();
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
        out.extend_from_slice(&(key.key.0.len() as u16).to_be_bytes());
        out.extend_from_slice(&key.key.0);
        write_deletion_time(out, &self.current.deletion);
        self.collector.deletion(&self.current.deletion);
        if self.layout.has_statics() {
            match static_row {
                Some(fragment) => {
                    self.layout.write_row(out, &fragment.row, true, &mut self.current.sizes)?;
                    self.collector.row(&fragment.row, &self.table);
                }
                None => self.layout.write_row(out, &model::Row::default(), true, &mut self.current.sizes)?,
            }
        }
        self.current.header_len = out.len() as u64;
        self.current.sizes.previous = out.len() as u64;
        self.current.start = Some(start);
        self.data.write(out)?;
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
        let before = self.current.open;
        if before == deletion {
            return Ok(());
        }
        let partition_start = self.open_partition(None)?;
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
        self.data.write(&self.buffer)?;
        let end = self.data.position() - partition_start;
        let open = self.current.open;
        let block_len = self.options.column_index_bytes;
        self.current.blocks.add(&self.layout, position, (start, end), &open, block_len)?;
        Ok(())
    }

    fn end_partition(&mut self) -> Result<(), WriteError> {
        if !self.current.open.is_none() {
            return Err(WriteError::OutOfOrder("the end of a partition while a range deletion is open"));
        }
        if self.current.start.is_none() && self.current.deletion.is_none() {
            self.current.key = None;
            return Ok(());
        }
        let start = self.open_partition(None)?;
        let Some(key) = self.current.key.take() else {
            return Err(WriteError::OutOfOrder("the end of a partition that did not start"));
        };
        self.buffer.clear();
        write_end(&mut self.buffer);
        self.data.write(&self.buffer)?;
        let size = self.data.position() - start;
        self.collector.partition_end(size);
        self.summary.add(&key, self.index.position());
        self.cardinality.add(&key.key.0);
        if let Some(filter) = &mut self.filter {
            filter.add(&key);
        }
        self.partitions += 1;
        self.buffer.clear();
        let current = &mut self.current;
        let header_len = current.header_len;
        current.blocks.finish(
            &mut self.buffer,
            &self.layout,
            (&key.key.0, start),
            header_len,
            &current.deletion,
            size,
        )?;
        self.index.write_all(&self.buffer)?;
        Ok(())
    }

    /// Completes all files and makes them durable.
    ///
    /// # Errors
    /// When a file cannot be written, and for an SSTable without partitions. The files stay as they are:
    /// [`remove_files`] removes them.
    pub fn finish(mut self) -> Result<SsTableMeta, WriteError> {
        if self.current.key.is_some() {
            return Err(WriteError::OutOfOrder("the end inside a partition"));
        }
        self.index.sync_data()?;
        let summary = self.summary.finish().ok_or(WriteError::Empty)?;
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
        let filter = self.filter.map(|filter| filter.encode());
        let statistics = Statistics {
            bloom_fp_chance: self.options.bloom_fp_chance,
            filter_crc: filter.as_ref().map(|bytes| crc32fast::hash(bytes)),
            cardinality: Some(self.cardinality.finish()),
            stats,
            header: self.header,
        };

        let mut components = vec![Component::Data, Component::Index];
        let mut put = |component: Component, bytes: Vec<u8>| -> Result<(), WriteError> {
            components.push(component);
            let mut file = self.fs.create(&self.descriptor.path(component))?;
            file.write_all(&bytes)?;
            Ok(file.sync_data()?)
        };
        if let Some(info) = &data.compression {
            put(Component::CompressionInfo, info.encode())?;
        }
        if let Some(crcs) = &data.crcs {
            put(Component::Crc, crcs.encode())?;
        }
        put(Component::Digest, data.digest.to_string().into_bytes())?;
        if let Some(filter) = filter {
            put(Component::Filter, filter)?;
        }
        put(Component::Summary, summary.encode())?;
        put(Component::Statistics, statistics.encode(self.descriptor.version))?;
        components.push(Component::Toc);
        let mut file = self.fs.create(&self.descriptor.path(Component::Toc))?;
        file.write_all(toc::encode(&components).as_bytes())?;
        file.sync_data()?;
        self.fs.sync_dir(&self.descriptor.directory)?;
        Ok(SsTableMeta {
            descriptor: self.descriptor,
            components,
            stats: statistics.stats,
            first_key: summary.first,
            last_key: summary.last,
            partitions: self.partitions,
            data_bytes: data.data_len,
            file_bytes: data.file_len,
        })
    }

    /// Gives up and removes the files.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn abort(self) -> Result<(), WriteError> {
        let SsTableWriter { fs, descriptor, data, index, .. } = self;
        drop((data, index));
        Ok(remove_files(fs.as_ref(), &descriptor)?)
    }
}

/// Removes the components of an SSTable as far as they are there: first TOC.txt, so that what a crash leaves is seen
/// to be incomplete.
///
/// # Errors
/// When a file cannot be removed.
pub fn remove_files(fs: &dyn FileSystem, descriptor: &Descriptor) -> std::io::Result<()> {
    for component in Component::ALL.iter().rev() {
        match fs.remove_file(&descriptor.path(*component)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    fs.sync_dir(&descriptor.directory)
}
