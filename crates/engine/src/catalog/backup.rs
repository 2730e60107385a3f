//! Incremental backups: links to the SSTables that come from outside of compactions: flushed, imported and
//! loaded ones.

use crate::catalog::Catalog;
use crate::table::TableStore;
use sstable::SsTable;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

const BACKUPS: &str = "backups";

impl Catalog {
    /// [`crate::Engine::incremental_backups`].
    pub(crate) fn incremental_backups(&self) -> bool {
        self.incremental_backups.load(Ordering::SeqCst)
    }

    /// [`crate::Engine::set_incremental_backups`].
    pub(crate) fn set_incremental_backups(&self, enabled: bool) {
        self.incremental_backups.store(enabled, Ordering::SeqCst);
    }

    /// Keeps a new SSTable for the operator, where it is wanted. It is done before the table has the SSTable,
    /// so no compaction takes the files away meanwhile. A failure is told: the data is safe where it is.
    pub(crate) fn back_up(&self, table: &TableStore, sstable: &SsTable) {
        let of_table = || table.schema().options.incremental_backups.unwrap_or(true);
        if !self.incremental_backups() || !of_table() {
            return;
        }
        if let Err(error) = self.link_backup(sstable) {
            tracing::error!(file = %sstable.descriptor().prefix(), %error, "an incremental backup failed");
        }
    }

    /// Links an SSTable into its table's `backups/`, from where the operator takes it away.
    fn link_backup(&self, sstable: &SsTable) -> io::Result<()> {
        let target = sstable.descriptor().directory.join(BACKUPS);
        self.env.fs.create_dir_all_durable(&target)?;
        self.link_files(sstable, &target)?;
        self.env.fs.sync_dir(&target)
    }

    /// Links the files of an SSTable. TOC.txt comes last: when it was linked, all that it names is known.
    pub(crate) fn link_files(&self, sstable: &SsTable, target: &Path) -> io::Result<()> {
        let first = sstable.files();
        let link = |file: &PathBuf| match file.file_name() {
            Some(name) => self.env.fs.hard_link(file, &target.join(name)),
            None => Ok(()),
        };
        first.iter().try_for_each(link)?;
        sstable.files().iter().filter(|file| !first.contains(file)).try_for_each(link)
    }
}
