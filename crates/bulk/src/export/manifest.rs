//! The manifest of an export: what it is of, its splits, and which of them are whole.

use super::ExportOptions;
use crate::{BulkError, Loss, ScanRequest, Split, Table};
use env::fs::FileSystem;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The layout of the manifest.
const VERSION: u32 = 1;

/// What an export is of. Runs in one directory have to agree in all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Keyspace and name of the table.
    pub table: String,
    /// The id of the table.
    pub table_id: String,
    /// The columns of the files, with their Arrow types.
    pub columns: Vec<(String, String)>,
    /// What was asked for, in words.
    pub asked: Vec<(String, String)>,
    /// The format of the files, and how they are compressed.
    pub format: String,
    /// Data files of the source, with their sizes.
    pub source: Vec<(String, u64)>,
}

/// A split that is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WholeFile {
    /// The number of the split.
    pub split: usize,
    /// The name of its file.
    pub name: String,
    /// Rows in it.
    pub rows: u64,
    /// How many of them are deletions.
    #[serde(default, skip_serializing_if = "is_none")]
    pub deletions: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Empty values that became null.
    pub empty_values: u64,
    /// What is not in it because a file of the source is damaged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
}

/// The manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The layout of this file.
    pub version: u32,
    /// Whether every split that is needed was written to its end.
    pub is_complete: bool,
    /// Seconds since the epoch at which TTLs and deletions are judged.
    pub now_s: u32,
    /// What it is of.
    pub identity: Identity,
    /// The splits, in ring order.
    pub splits: Vec<Split>,
    /// Those that are whole, by number.
    pub files: Vec<WholeFile>,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Identity {
    pub(super) fn of(
        table: &dyn Table,
        request: &ScanRequest,
        asked: &[(String, String)],
        options: &ExportOptions,
    ) -> Identity {
        let definition = table.definition();
        let schema = request.schema();
        let columns = schema.fields().iter().map(|f| (f.name().clone(), f.data_type().to_string()));
        Identity {
            table: format!("{}.{}", definition.keyspace, definition.name),
            table_id: definition.id.to_string(),
            columns: columns.collect(),
            asked: asked.to_vec(),
            format: format!("{} {}", options.format, options.compression),
            source: table.files(),
        }
    }

    /// What another one differs in, in words.
    fn difference(&self, other: &Identity) -> Option<String> {
        let differ = |what: &str, before: &str, now: &str| Some(format!("{what}: {before} then, {now} now"));
        if (&self.table, &self.table_id) != (&other.table, &other.table_id) {
            let of = |identity: &Identity| format!("{} ({})", identity.table, identity.table_id);
            return differ("table", &of(self), &of(other));
        }
        if self.format != other.format {
            return differ("format", &self.format, &other.format);
        }
        let words = |asked: &[(String, String)]| -> String {
            let all: Vec<String> = asked.iter().map(|(name, value)| format!("{name} {value}")).collect();
            if all.is_empty() { "all rows".to_owned() } else { all.join(", ") }
        };
        if self.asked != other.asked {
            return differ("request", &words(&self.asked), &words(&other.asked));
        }
        if self.columns != other.columns {
            return Some("the columns are others, or of other types".to_owned());
        }
        (self.source != other.source).then(|| {
            let (before, now) = (self.source.len(), other.source.len());
            format!("the SSTables are others: {before} then, {now} now")
        })
    }
}

impl Manifest {
    pub(super) fn new(identity: Identity, now_s: u32, splits: Vec<Split>) -> Manifest {
        Manifest { version: VERSION, is_complete: false, now_s, identity, splits, files: Vec::new() }
    }

    /// Reads a manifest, if it is there.
    ///
    /// # Errors
    /// When it cannot be read or understood.
    pub fn read(fs: &dyn FileSystem, path: &Path) -> Result<Option<Manifest>, BulkError> {
        if !fs.exists(path)? {
            return Ok(None);
        }
        let refuse = |detail: String| BulkError::Directory(format!("{}: {detail}", path.display()));
        let manifest: Manifest =
            serde_json::from_slice(&fs.read(path)?).map_err(|e| refuse(format!("no manifest: {e}")))?;
        match manifest.version {
            VERSION => Ok(Some(manifest)),
            other => Err(refuse(format!("a manifest of layout {other}, known is {VERSION}"))),
        }
    }

    pub(super) fn write(&self, fs: &dyn FileSystem, path: &Path) -> Result<(), BulkError> {
        let text = serde_json::to_vec_pretty(self).map_err(|e| BulkError::Directory(e.to_string()))?;
        Ok(fs.write_atomic(path, &text)?)
    }

    /// Refuses to go on with another export.
    pub(super) fn check(&self, identity: &Identity, path: &Path) -> Result<(), BulkError> {
        match self.identity.difference(identity) {
            None => Ok(()),
            Some(difference) => Err(BulkError::Directory(format!(
                "{} is of another export ({difference}); export into an empty directory",
                path.display()
            ))),
        }
    }
}
