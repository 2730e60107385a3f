//! Snapshots: hard links of a table's SSTables in `<table directory>/snapshots/<tag>/`, with a
//! `manifest.json` and the `schema.cql` that makes the table anew. Incremental backups: hard links of each
//! flushed SSTable in `<table directory>/backups/`.
//!
//! `name.rs` says what a snapshot may be called, `expiry.rs` removes those whose manifest says that their
//! time is over.

mod expiry;
mod name;
mod time;

pub(crate) use expiry::NextExpiry;

use crate::error::EngineError;
use crate::intake::Intake;
use crate::table::TableStore;
use env::fs::EntryKind;
use model::TableSchema;
use name::{check_name, check_path};
use sstable::{Component, Descriptor, SsTable};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time::iso_time;

/// Writes the CQL that makes a table and its types anew.
pub type SchemaText = Box<dyn Fn(&TableSchema) -> String + Send + Sync>;

const SNAPSHOTS: &str = "snapshots";
const MANIFEST: &str = "manifest.json";
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
    /// The `expires_at` of its manifest, when it has one.
    pub expires_at: Option<String>,
}

/// How a snapshot is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotOptions {
    /// Whether what is in memory is left out.
    pub skip_flush: bool,
    /// Seconds after which it is removed; never without them.
    pub ttl_s: Option<u32>,
}

/// When a snapshot was made, and when it is to go, in milliseconds since 1970.
#[derive(Clone, Copy, Debug)]
struct Lifetime {
    created_millis: i64,
    expires_millis: Option<i64>,
}

/// What a `manifest.json` says of times.
#[derive(Default)]
struct Manifest {
    created_at: Option<String>,
    expires_at: Option<String>,
}

impl Intake {
    /// [`crate::Engine::set_schema_text`].
    pub(crate) fn set_schema_text(&self, text: SchemaText) {
        let _ = self.schema_text.set(text);
    }

    /// [`crate::Engine::snapshot`].
    pub(crate) fn snapshot(
        &self,
        tag: &str,
        keyspaces: &[String],
        table: Option<&str>,
        options: SnapshotOptions,
    ) -> Result<(), EngineError> {
        check_name(tag)?;
        let tables = self.select_tables(keyspaces, table)?;
        for table in &tables {
            if table
                .dirs()
                .iter()
                .any(|d| self.catalog.env.fs.exists(&d.join(SNAPSHOTS).join(tag)).unwrap_or(false))
            {
                return Err(EngineError::SnapshotExists(tag.to_owned()));
            }
        }
        let life = self.life(options.ttl_s);
        for table in &tables {
            if !options.skip_flush {
                self.writing.flush_table(table)?;
            }
            self.link_until_done(table, tag, life)?;
        }
        Ok(())
    }

    /// The life of a snapshot that is taken now.
    fn life(&self, ttl_s: Option<u32>) -> Lifetime {
        let created_millis = self.catalog.env.clock.now_millis();
        let expires_millis = ttl_s.map(|ttl_s| created_millis.saturating_add(i64::from(ttl_s) * 1_000));
        Lifetime { created_millis, expires_millis }
    }

    fn select_tables(
        &self,
        keyspaces: &[String],
        table: Option<&str>,
    ) -> Result<Vec<Arc<TableStore>>, EngineError> {
        let schema = self.catalog.schema();
        if let (Some(table), [keyspace]) = (table, keyspaces) {
            return Ok(vec![self.catalog.table_named(keyspace, table)?]);
        }
        if let Some(unknown) = keyspaces.iter().find(|k| schema.keyspace(k).is_none()) {
            return Err(EngineError::UnknownKeyspace(unknown.clone()));
        }
        let mut tables = self.catalog.tables();
        tables.retain(|t| keyspaces.is_empty() || keyspaces.contains(&t.schema().keyspace));
        Ok(tables)
    }

    /// Whether dropping or truncating the table leaves a snapshot.
    pub(crate) fn snapshots_automatically(&self, table: &TableSchema) -> bool {
        self.catalog.options.auto_snapshot && table.options.allow_auto_snapshot.unwrap_or(true)
    }

    /// Takes the snapshot that a table leaves which is dropped or truncated: links its SSTables as they are
    /// now. One without SSTables gets none.
    pub(crate) fn snapshot_automatically(&self, table: &TableStore, tag: &str) -> Result<(), EngineError> {
        self.link_until_done(table, tag, self.life(self.catalog.options.auto_snapshot_ttl_s))
    }

    /// Links the table's SSTables. When the snapshot's life is over, somebody looks for it.
    fn link_until_done(&self, table: &TableStore, tag: &str, life: Lifetime) -> Result<(), EngineError> {
        let mut linked = self.link_all(table, tag, life);
        for _ in 1..ATTEMPTS {
            match &linked {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    linked = self.link_all(table, tag, life);
                }
                _ => break,
            }
        }
        linked?;
        if let Some(expires_millis) = life.expires_millis {
            self.next_expiry.is_at_most(expires_millis);
        }
        Ok(())
    }

    fn link_all(&self, table: &TableStore, tag: &str, life: Lifetime) -> io::Result<()> {
        let view = table.view();
        for dir in table.dirs() {
            let here: Vec<_> = view.sstables.iter().filter(|t| t.descriptor().directory == *dir).collect();
            if here.is_empty() {
                continue;
            }
            let target = dir.join(SNAPSHOTS).join(tag);
            if let Err(error) = self.link_dir(table, &here, &target, life) {
                let _ = self.catalog.env.fs.remove_dir_all(&target);
                return Err(error);
            }
        }
        Ok(())
    }

    fn link_dir(
        &self,
        table: &TableStore,
        sstables: &[&Arc<SsTable>],
        target: &Path,
        life: Lifetime,
    ) -> io::Result<()> {
        let fs = &self.catalog.env.fs;
        fs.create_dir_all_durable(target)?;
        let mut data_files = Vec::new();
        for sstable in sstables {
            self.catalog.link_files(sstable, target)?;
            data_files.push(format!("\"{}{}\"", sstable.descriptor().prefix(), Component::Data));
        }
        let files =
            if data_files.is_empty() { " ".to_owned() } else { format!(" {} ", data_files.join(", ")) };
        let expires_at = life
            .expires_millis
            .map_or_else(|| "null".to_owned(), |millis| format!("\"{}\"", iso_time(millis)));
        let manifest = format!(
            "{{\n  \"files\" : [{files}],\n  \"created_at\" : \"{}\",\n  \"expires_at\" : {expires_at},\n  \
             \"ephemeral\" : false\n}}",
            iso_time(life.created_millis)
        );
        let mut texts = vec![(MANIFEST, manifest)];
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
        let fs = &self.catalog.env.fs;
        let mut out = Vec::new();
        for data in self.catalog.options.table_roots() {
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

    /// [`crate::Engine::list_snapshots`].
    pub(crate) fn list_snapshots(&self) -> Result<Vec<SnapshotInfo>, EngineError> {
        let fs = &self.catalog.env.fs;
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
                let manifest = self.manifest(&path);
                out.push(SnapshotInfo {
                    tag: tag.name.to_string_lossy().into_owned(),
                    keyspace: keyspace.clone(),
                    table: table.clone(),
                    size_bytes,
                    true_size_bytes,
                    created_at: manifest.created_at.unwrap_or_default(),
                    expires_at: manifest.expires_at,
                });
            }
        }
        Ok(out)
    }

    /// What the manifest in the directory of a snapshot says; one that is missing or damaged says nothing.
    fn manifest(&self, snapshot: &Path) -> Manifest {
        let text = self.catalog.env.fs.read_to_string(&snapshot.join(MANIFEST)).unwrap_or_default();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let told = |name: &str| json.get(name).and_then(|v| v.as_str()).map(str::to_owned);
        Manifest { created_at: told("created_at"), expires_at: told("expires_at") }
    }

    /// [`crate::Engine::clear_snapshot`].
    pub(crate) fn clear_snapshot(&self, tag: Option<&str>, keyspaces: &[String]) -> Result<(), EngineError> {
        tag.map_or(Ok(()), check_path)?;
        for (keyspace, _, dir) in self.table_directories()? {
            let path = match tag {
                Some(tag) => dir.join(SNAPSHOTS).join(tag),
                None => dir.join(SNAPSHOTS),
            };
            let meant = keyspaces.is_empty() || keyspaces.contains(&keyspace);
            if meant && self.catalog.env.fs.exists(&path)? {
                self.catalog.env.fs.remove_dir_all(&path)?;
            }
        }
        Ok(())
    }
}
