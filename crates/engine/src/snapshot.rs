//! Snapshots: hard links of a table's SSTables in `<table directory>/snapshots/<tag>/`, with a `manifest.json` and
//! the `schema.cql` that makes the table anew. Incremental backups: hard links of each flushed SSTable in
//! `<table directory>/backups/`.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::table::TableStore;
use env::fs::EntryKind;
use model::TableSchema;
use sstable::{Component, Descriptor, SsTable};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes the CQL that makes a table and its types anew.
pub type SchemaText = Box<dyn Fn(&TableSchema) -> String + Send + Sync>;

const SNAPSHOTS: &str = "snapshots";
const BACKUPS: &str = "backups";
/// How often a snapshot starts anew because a compaction removed files under it.
const ATTEMPTS: usize = 10;

/// A snapshot of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Name of the snapshot.
    pub tag: String,
    /// Keyspace.
    pub keyspace: String,
    /// Table, which may have been dropped since.
    pub table: String,
    /// Bytes of its files.
    pub size_bytes: u64,
    /// Bytes of those SSTables' files that are in no other place any more.
    pub true_size_bytes: u64,
    /// The `created_at` of its manifest, empty when there is none.
    pub created_at: String,
}

impl Engine {
    /// Sets who writes the `schema.cql` of snapshots; the first call counts. Without one there is no such file.
    pub fn set_schema_text(&self, text: SchemaText) {
        let _ = self.schema_text.set(text);
    }

    /// Takes a snapshot of every table of `keyspaces` (of all keyspaces when there are none), or of one table of the
    /// one keyspace that is named. Memtables are flushed before, unless `skip_flush`.
    ///
    /// # Errors
    /// [`EngineError::SnapshotExists`], [`EngineError::SnapshotName`], an unknown name, or what failed.
    pub fn snapshot(
        &self,
        tag: &str,
        keyspaces: &[String],
        table: Option<&str>,
        skip_flush: bool,
    ) -> Result<(), EngineError> {
        check_name(tag)?;
        let tables = self.select_tables(keyspaces, table)?;
        for table in &tables {
            if table.dirs().iter().any(|d| self.env.fs.exists(&d.join(SNAPSHOTS).join(tag)).unwrap_or(false))
            {
                return Err(EngineError::SnapshotExists(tag.to_owned()));
            }
        }
        for table in &tables {
            if !skip_flush {
                self.flush_table(table)?;
            }
            self.snapshot_table(table, tag)?;
        }
        Ok(())
    }

    fn select_tables(
        &self,
        keyspaces: &[String],
        table: Option<&str>,
    ) -> Result<Vec<Arc<TableStore>>, EngineError> {
        let schema = self.schema();
        if let (Some(table), [keyspace]) = (table, keyspaces) {
            return Ok(vec![self.table_named(keyspace, table)?]);
        }
        if let Some(unknown) = keyspaces.iter().find(|k| schema.keyspace(k).is_none()) {
            return Err(EngineError::UnknownKeyspace(unknown.clone()));
        }
        let mut tables = self.tables();
        tables.retain(|t| keyspaces.is_empty() || keyspaces.contains(&t.schema().keyspace));
        Ok(tables)
    }

    /// Whether dropping or truncating the table leaves a snapshot.
    pub(crate) fn snapshots_automatically(&self, table: &TableSchema) -> bool {
        self.options.auto_snapshot && table.options.allow_auto_snapshot.unwrap_or(true)
    }

    /// Links the table's SSTables as they are now. One without SSTables gets none.
    pub(crate) fn snapshot_table(&self, table: &TableStore, tag: &str) -> Result<(), EngineError> {
        for _ in 1..ATTEMPTS {
            match self.link_all(table, tag) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                done => return Ok(done?),
            }
        }
        Ok(self.link_all(table, tag)?)
    }

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
    fn link_files(&self, sstable: &SsTable, target: &Path) -> io::Result<()> {
        let first = sstable.files();
        let link = |file: &PathBuf| match file.file_name() {
            Some(name) => self.env.fs.hard_link(file, &target.join(name)),
            None => Ok(()),
        };
        first.iter().try_for_each(link)?;
        sstable.files().iter().filter(|file| !first.contains(file)).try_for_each(link)
    }

    fn link_all(&self, table: &TableStore, tag: &str) -> io::Result<()> {
        let view = table.view();
        for dir in table.dirs() {
            let here: Vec<_> = view.sstables.iter().filter(|t| t.descriptor().directory == *dir).collect();
            if here.is_empty() {
                continue;
            }
            let target = dir.join(SNAPSHOTS).join(tag);
            if let Err(error) = self.link_dir(table, &here, &target) {
                let _ = self.env.fs.remove_dir_all(&target);
                return Err(error);
            }
        }
        Ok(())
    }

    fn link_dir(&self, table: &TableStore, sstables: &[&Arc<SsTable>], target: &Path) -> io::Result<()> {
        let fs = &self.env.fs;
        fs.create_dir_all_durable(target)?;
        let mut data_files = Vec::new();
        for sstable in sstables {
            self.link_files(sstable, target)?;
            data_files.push(format!("\"{}{}\"", sstable.descriptor().prefix(), Component::Data));
        }
        let files =
            if data_files.is_empty() { " ".to_owned() } else { format!(" {} ", data_files.join(", ")) };
        let manifest = format!(
            "{{\n  \"files\" : [{files}],\n  \"created_at\" : \"{}\",\n  \"expires_at\" : null,\n  \"ephemeral\" : false\n}}",
            iso_time(self.env.clock.now_millis())
        );
        let mut texts = vec![("manifest.json", manifest)];
        if let Some(text) = self.schema_text.get() {
            texts.push(("schema.cql", text(&table.schema())));
        }
        for (name, text) in texts {
            let mut file = fs.create(&target.join(name))?;
            file.write_all(text.as_bytes())?;
            file.sync_data()?;
        }
        fs.sync_dir(target)
    }

    /// The directories of all tables that are or were on this node, with their names.
    fn table_directories(&self) -> Result<Vec<(String, String, PathBuf)>, EngineError> {
        let fs = &self.env.fs;
        let mut out = Vec::new();
        for data in self.options.table_roots() {
            for keyspace in fs.read_dir(data)?.into_iter().filter(|e| e.kind == EntryKind::Dir) {
                let dir = data.join(&keyspace.name);
                for table in fs.read_dir(&dir)?.into_iter().filter(|e| e.kind == EntryKind::Dir) {
                    let keyspace = keyspace.name.to_string_lossy().into_owned();
                    let name = table.name.to_string_lossy();
                    let name = name.rsplit_once('-').map_or(name.as_ref(), |(name, _)| name).to_owned();
                    out.push((keyspace, name, dir.join(&table.name)));
                }
            }
        }
        Ok(out)
    }

    /// Every snapshot of every table.
    ///
    /// # Errors
    /// When a directory cannot be listed.
    pub fn list_snapshots(&self) -> Result<Vec<SnapshotInfo>, EngineError> {
        let fs = &self.env.fs;
        let mut out = Vec::new();
        for (keyspace, table, dir) in self.table_directories()? {
            let above = dir.join(SNAPSHOTS);
            if !fs.exists(&above)? {
                continue;
            }
            for tag in fs.read_dir(&above)?.into_iter().filter(|e| e.kind == EntryKind::Dir) {
                let path = above.join(&tag.name);
                let (mut size_bytes, mut true_size_bytes) = (0, 0);
                for file in fs.read_dir(&path)? {
                    let len = fs.file_len(&path.join(&file.name)).unwrap_or(0);
                    size_bytes += len;
                    let name = file.name.to_string_lossy();
                    let is_sstable = Descriptor::parse(&dir, &name).is_some();
                    if is_sstable && !fs.exists(&dir.join(&file.name))? {
                        true_size_bytes += len;
                    }
                }
                out.push(SnapshotInfo {
                    tag: tag.name.to_string_lossy().into_owned(),
                    keyspace: keyspace.clone(),
                    table: table.clone(),
                    size_bytes,
                    true_size_bytes,
                    created_at: self.created_at(&path.join("manifest.json")),
                });
            }
        }
        Ok(out)
    }

    fn created_at(&self, manifest: &Path) -> String {
        let text = self.env.fs.read_to_string(manifest).unwrap_or_default();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        json.get("created_at").and_then(|v| v.as_str()).unwrap_or_default().to_owned()
    }

    /// Removes the snapshot `tag`, or all snapshots, of `keyspaces`, or of all keyspaces.
    ///
    /// # Errors
    /// [`EngineError::SnapshotName`], or a directory that cannot be listed or removed.
    pub fn clear_snapshot(&self, tag: Option<&str>, keyspaces: &[String]) -> Result<(), EngineError> {
        tag.map_or(Ok(()), check_name)?;
        for (keyspace, _, dir) in self.table_directories()? {
            let path = match tag {
                Some(tag) => dir.join(SNAPSHOTS).join(tag),
                None => dir.join(SNAPSHOTS),
            };
            let meant = keyspaces.is_empty() || keyspaces.contains(&keyspace);
            if meant && self.env.fs.exists(&path)? {
                self.env.fs.remove_dir_all(&path)?;
            }
        }
        Ok(())
    }
}

/// A name leads to a directory right below `snapshots`, never to the table itself or elsewhere.
fn check_name(tag: &str) -> Result<(), EngineError> {
    if tag.is_empty() || tag.contains(['/', '\0']) || tag == "." || tag == ".." {
        return Err(EngineError::SnapshotName(tag.to_owned()));
    }
    Ok(())
}

/// `2026-11-21T09:12:53.793Z` for milliseconds since 1970.
fn iso_time(millis: i64) -> String {
    let days = millis.div_euclid(86_400_000);
    let in_day = millis.rem_euclid(86_400_000);
    // Days since 0000-03-01, in eras of 400 years: leap days then come last in their year.
    let z = days + 719_468;
    let (era, day_of_era) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hours, minutes) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (seconds, millis) = (in_day / 1_000 % 60, in_day % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::iso_time;

    #[test]
    fn times_are_written_as_iso_8601() {
        assert_eq!(iso_time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso_time(1_795_252_373_793), "2026-11-21T09:12:53.793Z");
        assert_eq!(iso_time(951_782_400_000), "2000-02-29T00:00:00.000Z");
    }
}
