//! A table's SSTables on disk: finding and opening them, naming new ones, writing a memtable, removing some.

use super::homes::Homes;
use super::{TableStore, TableView};
use crate::commitlog::LogPosition;
use crate::error::EngineError;
use crate::memtable::Memtable;
use crate::options::PartitionLimits;
use crate::turns::{InTurns, in_turns};
use crate::warm::Warmth;
use env::Env;
use env::fs::{Access, FileSystem};
use model::TableSchema;
use model::command::ClusteringFilter;
use model::key::KeyRange;
use partition::codec::EncodingStats;
use partition::{BoxedStream, Event, Fragment, PartitionStream, ReadContext, merge};
use sstable::statistics::CommitLogPosition;
use sstable::txn_log::{Committed, Operation, TxnLog};
use sstable::{
    Descriptor, FilePart, PageSource, SsTable, SsTableId, SsTableWriter, Version, WriteError, WriterOptions,
};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uuid::Uuid;

/// What opening and writing SSTables needs besides the table.
pub(crate) struct FileContext {
    pub(crate) env: Env,
    pub(crate) pages: Arc<dyn PageSource>,
    /// The next number that tells an open SSTable apart in the page cache.
    pub(crate) next_number: AtomicU64,
    pub(crate) uuid_ids: bool,
    /// Whether a warning was given that files are not read as they should be.
    pub(crate) told_of_access: AtomicBool,
    /// The version of new SSTables.
    pub(crate) version: Version,
    /// Bytes of the blocks of their row indexes.
    pub(crate) column_index_bytes: u64,
    /// Which of their partitions the log tells of.
    pub(crate) partition_limits: PartitionLimits,
    /// Where they may go.
    pub(crate) homes: Homes,
}

impl FileContext {
    fn fs(&self) -> &dyn FileSystem {
        self.env.fs.as_ref()
    }

    /// How a new SSTable of a table is written, but for what depends on its content.
    ///
    /// # Errors
    /// When the table's compression is one that is not known.
    pub(crate) fn writer_options(&self, schema: &TableSchema) -> Result<WriterOptions, WriteError> {
        let column_index_bytes = self.column_index_bytes;
        let row_index_bytes = column_index_bytes;
        let large_from = self.partition_limits.least();
        Ok(WriterOptions {
            column_index_bytes,
            row_index_bytes,
            large_from,
            ..WriterOptions::of_table(schema)?
        })
    }

    /// Opens an SSTable of a table.
    ///
    /// # Errors
    /// When it is damaged or of a version that is not read.
    pub(crate) fn open(
        &self,
        descriptor: &Descriptor,
        schema: &TableSchema,
    ) -> Result<Arc<SsTable>, EngineError> {
        self.open_as(descriptor, self.next_number(), schema)
    }

    /// Lets the pages of SSTables go that are no part of their table any more. Who still reads them may bring
    /// some back, which age and leave as any others.
    pub(crate) fn forget(&self, gone: &[Arc<SsTable>]) {
        let numbers: Vec<u64> = gone.iter().map(|table| table.number()).collect();
        let count = gone.iter().map(|table| table.page_count()).sum();
        self.pages.forget(&numbers, count, &mut gone.iter().flat_map(|table| table.pages()));
    }

    /// A number for an SSTable that will be opened.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// As [`FileContext::open`], with a number from [`FileContext::next_number`].
    pub(crate) fn open_as(
        &self,
        descriptor: &Descriptor,
        number: u64,
        schema: &TableSchema,
    ) -> Result<Arc<SsTable>, EngineError> {
        let table = SsTable::open_as(self.fs(), descriptor, number, Arc::clone(&self.pages), Some(schema))?;
        let refused =
            self.pages.access(FilePart::Data) == Access::Direct && table.data_access() != Access::Direct;
        if refused && !self.told_of_access.swap(true, Ordering::Relaxed) {
            let file = descriptor.path(sstable::Component::Data);
            tracing::warn!(file = %file.display(), "the file system has no direct reads (disk_access_mode): such files are read through its cache");
        }
        if let Some(reason) = table.unfit_proof() {
            tracing::warn!(%reason, "a Proof.db is left aside: its SSTable is read as one that Cassandra wrote");
        }
        if let Some(reason) = table.refusal() {
            tracing::warn!(%reason, "an SSTable was found damaged before: reads of it fail until it was compared again");
        }
        table.check_by_chance(Arc::clone(&self.env.random));
        Ok(Arc::new(table))
    }
}

impl TableStore {
    /// A name for a new SSTable in `dir`.
    pub(crate) fn next_descriptor(&self, files: &FileContext, dir: &Path) -> Descriptor {
        let id = if files.uuid_ids {
            SsTableId::Uuid(files.env.time_uuid())
        } else {
            SsTableId::Sequence(self.last_sequence.fetch_add(1, Ordering::SeqCst) + 1)
        };
        Descriptor::new(dir, id, files.version)
    }

    /// Writes a memtable to a new SSTable, durable when this returns; `None` when there was nothing to write.
    pub(crate) fn write_memtable(
        &self,
        schema: &Arc<TableSchema>,
        files: &FileContext,
        memtable: &Arc<Memtable>,
        end: LogPosition,
        host_id: Uuid,
    ) -> Result<Option<Arc<SsTable>>, EngineError> {
        let dir = files.home(self.homes())?;
        self.write_memtable_in(schema, files, memtable, end, host_id, &dir).inspect_err(|error| {
            files.homes.note_failure(&dir, self.homes(), error);
        })
    }

    /// Whether anybody has read the table since this was asked last.
    fn is_read(&self) -> bool {
        let reads = self.reads.load(Ordering::Relaxed);
        self.reads_at_flush.swap(reads, Ordering::Relaxed) != reads
    }

    fn write_memtable_in(
        &self,
        schema: &Arc<TableSchema>,
        files: &FileContext,
        memtable: &Arc<Memtable>,
        end: LogPosition,
        host_id: Uuid,
        dir: &Path,
    ) -> Result<Option<Arc<SsTable>>, EngineError> {
        let minima = memtable.minima();
        let none = EncodingStats::default();
        let options = WriterOptions {
            estimated_partitions: memtable.partition_count().max(1) as u64,
            encoding_stats: EncodingStats {
                min_timestamp: minima.timestamp.unwrap_or(none.min_timestamp),
                min_local_deletion_time: minima.local_deletion_time.unwrap_or(none.min_local_deletion_time),
                min_ttl: minima.ttl.unwrap_or(none.min_ttl),
            },
            commit_log_intervals: vec![(on_disk(memtable.start()), on_disk(end))],
            host_id: Some(host_id),
            ..files.writer_options(schema)?
        };
        let fs = &files.env.fs;
        let id = files.env.time_uuid();
        let mut txn = TxnLog::create(Arc::clone(fs), dir, files.version, Operation::Flush, id)?;
        let descriptor = self.next_descriptor(files, dir);
        let mut warmth = None;
        let written = (|| {
            txn.add(&descriptor)?;
            let mut writer =
                SsTableWriter::new(Arc::clone(fs), descriptor.clone(), Arc::clone(schema), options)?;
            let ctx = ReadContext::default();
            let rows = memtable.scan(schema, KeyRange::FULL, &ClusteringFilter::all(), &ctx);
            // A Cassandra that reads one SSTable does not apply its deletions to its own rows.
            let mut stream = merge(schema, [Box::new(InTurns::new(rows)) as BoxedStream], false);
            let number = files.next_number();
            if self.is_read() {
                let (of_flush, sink) = Warmth::of_flush(number, &files.pages);
                writer.tell_pages_to(sink);
                warmth = Some(of_flush);
            }
            let mut fragment = Fragment::default();
            loop {
                let event = stream.next(&mut fragment)?;
                if event == Event::End {
                    break;
                }
                if let Some(warmth) = &mut warmth {
                    warmth.starts(event, &fragment);
                }
                writer.append(event, &fragment)?;
                if let Some(warmth) = &mut warmth {
                    warmth.wrote(event, &fragment, writer.data_bytes());
                }
            }
            let written = match writer.finish() {
                Err(sstable::WriteError::Empty) => return Ok(None),
                other => other?,
            };
            files.tell_of_large(schema, &written);
            // What was written must be readable before anything is given up for it.
            let table = files.open_as(&written.descriptor, number, schema)?;
            if let Some(warmth) = &mut warmth {
                warmth.look_up(&table, schema);
            }
            Ok(Some(table))
        })();
        match written {
            Ok(Some(table)) => {
                let committed =
                    txn.commit().inspect_err(|error| self.note(error)).map_err(io::Error::from)?;
                committed.clean_up().unwrap_or_else(|error| {
                    tracing::warn!(%error, "the log of a committed flush stays until the next start");
                });
                warmth.into_iter().for_each(Warmth::stay);
                Ok(Some(table))
            }
            Ok(None) => {
                txn.abort()?;
                Ok(None)
            }
            Err(error) => {
                if let Err(error) = txn.abort() {
                    tracing::warn!(%error, "files of a failed flush stay until the next start");
                }
                Err(error)
            }
        }
    }
}

impl TableStore {
    /// Takes SSTables out of the view, removes their files, all or none of those in one directory, and lets
    /// their pages go. Readers that have them open go on. `change` sees the view after the last is gone.
    ///
    /// # Errors
    /// When the file system fails: what could not be removed for certain stays in the view.
    pub(crate) fn remove_sstables(
        &self,
        files: &FileContext,
        change: impl FnOnce(&mut TableView),
    ) -> Result<(), EngineError> {
        self.check_settled()?;
        let (mut gone, mut committed) = (Vec::new(), Vec::new());
        let mut result = Ok(());
        self.change_view(|view| {
            result = self.retire(&files.env, view, &mut gone, &mut committed);
            view.forget_cached_rows();
            if result.is_ok() {
                change(view);
            }
        });
        in_turns(|| files.forget(&gone));
        for transaction in committed {
            if let Err(error) = transaction.clean_up() {
                tracing::warn!(%error, "files of removed SSTables stay until the next start");
            }
        }
        result
    }

    /// Commits to the removal of a view's SSTables, directory by directory.
    fn retire(
        &self,
        env: &Env,
        view: &mut TableView,
        gone: &mut Vec<Arc<SsTable>>,
        committed: &mut Vec<Committed>,
    ) -> Result<(), EngineError> {
        while let Some(first) = view.sstables.first() {
            let dir = first.descriptor().directory.clone();
            let (version, id) = (first.descriptor().version, env.time_uuid());
            let here = view.sstables.iter().filter(|t| t.descriptor().directory == dir);
            let here: Vec<Arc<SsTable>> = here.cloned().collect();
            let mut txn = TxnLog::create(Arc::clone(&env.fs), &dir, version, Operation::Compaction, id)?;
            if let Err(error) = txn.remove(here.iter().map(|table| table.descriptor())) {
                txn.abort()?;
                return Err(error.into());
            }
            let done = txn.commit().inspect_err(|error| self.note(error)).map_err(io::Error::from)?;
            committed.push(done);
            view.replace_sstables(&here, []);
            gone.extend(here);
        }
        Ok(())
    }
}

fn on_disk(position: LogPosition) -> CommitLogPosition {
    CommitLogPosition { segment: position.segment, offset: position.offset.min(i32::MAX as u32) as i32 }
}

pub(super) fn from_disk(position: CommitLogPosition) -> LogPosition {
    LogPosition { segment: position.segment, offset: position.offset.max(0) as u32 }
}
