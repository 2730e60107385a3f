//! Incremental backups: links to the SSTables that flushes wrote.

use crate::catalog::Catalog;
use crate::table::TableStore;
use sstable::SsTable;
use std::io;
use std::path::{Path, PathBuf};

const BACKUPS: &str = "backups";

impl Catalog {
    /// Whether flushed SSTables of a table are kept for incremental backups.
    pub(crate) fn backs_up(&self, table: &TableStore) -> bool {
        self.options.incremental_backups && table.schema().options.incremental_backups.unwrap_or(true)
    }

    /// Links a flushed SSTable into its table's `backups/`, from where the operator takes it away.
    pub(crate) fn link_backup(&self, sstable: &SsTable) -> io::Result<()> {
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
