//! A table's SSTables on disk: finding and opening them, naming new ones, writing a memtable, removing some.

use super::TableStore;
use crate::commitlog::LogPosition;
use crate::error::EngineError;
use crate::memtable::Memtable;
use env::Env;
use env::fs::FileSystem;
use model::command::ClusteringFilter;
use model::key::KeyRange;
use partition::codec::EncodingStats;
use partition::{Event, Fragment, PartitionStream, ReadContext};
use sstable::statistics::CommitLogPosition;
use sstable::txn_log::{self, Operation, TxnLog};
use sstable::{Descriptor, PageSource, SsTable, SsTableId, SsTableWriter, WriterOptions, descriptor};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use uuid::Uuid;

/// What opening and writing SSTables needs besides the table.
pub(crate) struct FileContext {
    pub(crate) env: Env,
    pub(crate) pages: Arc<dyn PageSource>,
    /// The next number that tells an open SSTable apart in the page cache.
    pub(crate) next_number: AtomicU64,
    pub(crate) uuid_ids: bool,
}

impl FileContext {
    fn fs(&self) -> &dyn FileSystem {
        self.env.fs.as_ref()
    }

    /// Opens an SSTable.
    ///
    /// # Errors
    /// When it is damaged or of a version that is not read.
    pub(crate) fn open(&self, descriptor: &Descriptor) -> Result<Arc<SsTable>, EngineError> {
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let table = SsTable::open(self.fs(), descriptor, number, Arc::clone(&self.pages))?;
        table.check_by_chance(Arc::clone(&self.env.random));
        Ok(Arc::new(table))
    }

    /// Finishes what a crash left in the directories and opens every SSTable in them; also the largest sequence
    /// number among them.
    ///
    /// # Errors
    /// As [`FileContext::open`], and when a transaction log does not fit its files.
    pub(crate) fn open_all(&self, dirs: &[PathBuf]) -> Result<(Vec<Arc<SsTable>>, u64), EngineError> {
        let mut tables = Vec::new();
        let mut last = 0;
        for dir in dirs {
            if !self.fs().exists(dir)? {
                continue;
            }
            for done in txn_log::recover(self.fs(), dir)? {
                tracing::info!(log = %done.log.display(), committed = done.committed, "transaction recovered");
            }
            let listing = descriptor::list(self.fs(), dir)?;
            for path in &listing.temporary {
                self.fs().remove_file(path)?;
            }
            for descriptor in listing.tables.keys() {
                if let SsTableId::Sequence(n) = descriptor.id {
                    last = last.max(n);
                }
                tables.push(self.open(descriptor)?);
            }
        }
        Ok((tables, last))
    }

    /// The directory among `dirs` with the most free space, made if it is missing.
    pub(crate) fn roomiest(&self, dirs: &[PathBuf]) -> io::Result<PathBuf> {
        let mut best: Option<(u64, &PathBuf)> = None;
        for dir in dirs {
            // The table's directory may not be there yet; that of its keyspaces is.
            let above = dir.parent().and_then(Path::parent).unwrap_or(dir);
            let free = if dirs.len() > 1 { self.fs().space(above)?.free_bytes } else { 0 };
            if best.is_none_or(|(most, _)| free > most) {
                best = Some((free, dir));
            }
        }
        let dir = best.map(|(_, dir)| dir.clone()).ok_or_else(|| io::Error::other("no data directory"))?;
        self.fs().create_dir_all_durable(&dir)?;
        Ok(dir)
    }
}

impl TableStore {
    /// Opens SSTables that were put into the table's directories from outside and adds them to the view; their names.
    ///
    /// # Errors
    /// As [`FileContext::open`]; then none is added.
    pub(crate) fn load_new(&self, files: &FileContext) -> Result<Vec<Descriptor>, EngineError> {
        // No flush gives an SSTable its name while the directories are looked through.
        let _turn = self.flush_turn.lock();
        let known = self.view();
        let mut new = Vec::new();
        for dir in self.dirs() {
            if !files.fs().exists(dir)? {
                continue;
            }
            let listing = descriptor::list(files.fs(), dir)?;
            if !listing.txn_logs.is_empty() {
                let busy = format!("{} has a transaction under way, try again later", dir.display());
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, busy).into());
            }
            for descriptor in listing.tables.into_keys() {
                if known.sstables.iter().all(|t| *t.descriptor() != descriptor) {
                    if let SsTableId::Sequence(n) = descriptor.id {
                        self.last_sequence.fetch_max(n, Ordering::SeqCst);
                    }
                    new.push(files.open(&descriptor)?);
                }
            }
        }
        let names = new.iter().map(|t| t.descriptor().clone()).collect();
        self.change_view(|view| view.replace_sstables(&[], new));
        Ok(names)
    }

    /// A name for a new SSTable in `dir`.
    pub(crate) fn next_descriptor(&self, files: &FileContext, dir: &Path) -> Descriptor {
        let id = if files.uuid_ids {
            SsTableId::Uuid(files.env.time_uuid())
        } else {
            SsTableId::Sequence(self.last_sequence.fetch_add(1, Ordering::SeqCst) + 1)
        };
        Descriptor::new(dir, id)
    }

    /// Writes a memtable to a new SSTable, durable when this returns; `None` when there was nothing to write.
    pub(crate) fn write_memtable(
        &self,
        files: &FileContext,
        memtable: &Arc<Memtable>,
        end: LogPosition,
        host_id: Uuid,
    ) -> Result<Option<Arc<SsTable>>, EngineError> {
        let schema = self.schema();
        let dir = files.roomiest(self.dirs())?;
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
            ..WriterOptions::of_table(&schema)?
        };
        let fs = &files.env.fs;
        let mut txn = TxnLog::create(Arc::clone(fs), &dir, Operation::Flush, files.env.time_uuid())?;
        let descriptor = self.next_descriptor(files, &dir);
        let written = (|| {
            txn.add(&descriptor)?;
            let mut writer =
                SsTableWriter::new(Arc::clone(fs), descriptor.clone(), Arc::clone(&schema), options)?;
            let ctx = ReadContext::default();
            let mut stream = memtable.scan(&schema, KeyRange::FULL, &ClusteringFilter::all(), &ctx);
            let mut fragment = Fragment::default();
            loop {
                let event = stream.next(&mut fragment)?;
                if event == Event::End {
                    break;
                }
                writer.append(event, &fragment)?;
            }
            let written = match writer.finish() {
                Err(sstable::WriteError::Empty) => return Ok(None),
                other => other?,
            };
            // What was written must be readable before anything is given up for it.
            files.open(&written.descriptor).map(Some)
        })();
        match written {
            Ok(Some(table)) => {
                txn.commit()?.clean_up().unwrap_or_else(|error| {
                    tracing::warn!(%error, "the log of a committed flush stays until the next start");
                });
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

/// Removes SSTables from disk, all or none of those in one directory. Readers that have them open go on.
pub(crate) fn remove_sstables(env: &Env, tables: &[Arc<SsTable>]) -> Result<(), EngineError> {
    let mut left: Vec<&Arc<SsTable>> = tables.iter().collect();
    while let Some(first) = left.first() {
        let dir = first.descriptor().directory.clone();
        let mut txn = TxnLog::create(Arc::clone(&env.fs), &dir, Operation::Compaction, env.time_uuid())?;
        for table in left.iter().filter(|t| t.descriptor().directory == dir) {
            txn.remove(table.descriptor())?;
        }
        txn.commit()?.clean_up()?;
        left.retain(|t| t.descriptor().directory != dir);
    }
    Ok(())
}

fn on_disk(position: LogPosition) -> CommitLogPosition {
    CommitLogPosition { segment: position.segment, offset: position.offset.min(i32::MAX as u32) as i32 }
}

pub(super) fn from_disk(position: CommitLogPosition) -> LogPosition {
    LogPosition { segment: position.segment, offset: position.offset.max(0) as u32 }
}
