//! What a table's directories hold, found out without changing anything, and the opening of many SSTables at
//! once.

use super::FileContext;
use crate::error::EngineError;
use env::fs::FileSystem;
use env::sync::Mutex;
use model::TableSchema;
use sstable::txn_log::{self, Leftover};
use sstable::{Component, Descriptor, OpenError, SsTable, SsTableId, descriptor};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// SSTables for which another thread is worth its while.
const SSTABLES_FOR_THREAD: usize = 32;
/// Time between two lines in the log that say how far it has come.
const PROGRESS_NANOS: u64 = 2_000_000_000;

/// What a table's directories hold.
#[derive(Debug, Default)]
pub(crate) struct TableFiles {
    /// The SSTables that count.
    pub(crate) sstables: Vec<Descriptor>,
    /// Transactions to be finished.
    leftovers: Vec<Leftover>,
    /// Files that nobody needs.
    temporary: Vec<PathBuf>,
    /// The largest sequence number among all names.
    pub(crate) last_sequence: u64,
}

impl TableFiles {
    /// Finishes what a crash left.
    ///
    /// # Errors
    /// When the file system fails.
    pub(crate) fn tidy_up(&self, fs: &dyn FileSystem) -> Result<(), EngineError> {
        for leftover in &self.leftovers {
            leftover.finish(fs)?;
            let log = leftover.logs.first().map(|log| log.display().to_string());
            tracing::info!(log, committed = leftover.committed, "transaction recovered");
        }
        Ok(self.temporary.iter().try_for_each(|path| fs.remove_file(path))?)
    }
}

impl FileContext {
    /// Looks through a table's directories, those that are there.
    ///
    /// # Errors
    /// When a transaction log does not fit its files, or a file is of an SSTable that is too old to have a
    /// version.
    pub(crate) fn survey(&self, dirs: &[PathBuf]) -> Result<TableFiles, EngineError> {
        let fs = self.env.fs.as_ref();
        let mut listings = Vec::new();
        for dir in dirs {
            if fs.exists(dir)? {
                listings.push((dir.clone(), descriptor::list(fs, dir)?));
            }
        }
        let mut out = TableFiles::default();
        if listings.iter().any(|(_, listing)| !listing.txn_logs.is_empty()) {
            let dirs: Vec<PathBuf> = listings.iter().map(|(dir, _)| dir.clone()).collect();
            out.leftovers = txn_log::understand(fs, &dirs)?;
        }
        let gone: HashSet<&Path> = out.leftovers.iter().flat_map(|l| &l.gone).map(PathBuf::as_path).collect();
        for (_, listing) in listings {
            if let Some(path) = listing.unknown.first() {
                return Err(OpenError::UnsupportedVersion(path.display().to_string()).into());
            }
            out.temporary.extend(listing.temporary);
            for (descriptor, files) in listing.tables {
                if let SsTableId::Sequence(n) = descriptor.id {
                    out.last_sequence = out.last_sequence.max(n);
                }
                if files.iter().any(|file| gone.contains(file.as_path())) {
                    continue;
                }
                if files.contains(&descriptor.path(Component::Data)) {
                    out.sstables.push(descriptor);
                } else {
                    tracing::warn!(sstable = %descriptor, "files of an SSTable without data are left alone");
                }
            }
        }
        Ok(out)
    }

    /// Opens SSTables, on as many threads as the machine has, and checks that they fit their tables.
    ///
    /// # Errors
    /// That of the first one that is damaged, of a version that is not read, or of other columns.
    pub(crate) fn open_many(
        &self,
        wanted: &[(&Descriptor, &Arc<TableSchema>)],
    ) -> Result<Vec<Arc<SsTable>>, EngineError> {
        self.try_open_many(wanted, false).into_iter().collect()
    }

    /// As [`FileContext::open_many`], and what became of each. Behind a failure the rest may be missing,
    /// unless `goes_on`.
    pub(crate) fn try_open_many(
        &self,
        wanted: &[(&Descriptor, &Arc<TableSchema>)],
        goes_on: bool,
    ) -> Vec<Result<Arc<SsTable>, EngineError>> {
        let open = |(descriptor, table): &(&Descriptor, &Arc<TableSchema>)| {
            let sstable = self.open(descriptor, table)?;
            sstable.check_schema(table)?;
            Ok::<_, EngineError>(sstable)
        };
        let threads = self.env.tasks.parallelism().min(wanted.len() / SSTABLES_FOR_THREAD).max(1);
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let clock = &self.env.clock;
        let started = clock.monotonic_nanos();
        let progress = Mutex::new((started, 0_usize));
        let work = || {
            let mut done = Vec::new();
            while !failed.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = wanted.get(index) else { break };
                let opened = open(job);
                failed.fetch_or(opened.is_err() && !goes_on, Ordering::Relaxed);
                done.push((index, opened));
                let (told, opened) = &mut *progress.lock();
                *opened += 1;
                let now = clock.monotonic_nanos();
                if now.saturating_sub(*told) > PROGRESS_NANOS {
                    *told = now;
                    tracing::info!(opened = *opened, all = wanted.len(), "opening SSTables");
                }
            }
            done
        };
        let mut all: Vec<_> = self.env.tasks.in_parallel(threads, work).into_iter().flatten().collect();
        all.sort_by_key(|(index, _)| *index);
        if wanted.len() > SSTABLES_FOR_THREAD {
            let millis = clock.monotonic_nanos().saturating_sub(started) / 1_000_000;
            tracing::info!(sstables = wanted.len(), millis, threads, "SSTables opened");
        }
        all.into_iter().map(|(_, opened)| opened).collect()
    }
}
