//! From the paths of the command line to SSTables.

use super::Failure;
use env::Env;
use env::fs::{EntryKind, FileSystem};
use model::TableSchema;
use sstable::{Descriptor, SsTable, Uncached, descriptor, table_of_header};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories below a data directory in which tables are.
const DEPTH_MAX: usize = 3;

/// Directories that hold copies, not tables.
fn holds_copies(name: &str) -> bool {
    name == "snapshots" || name == "backups" || name.starts_with('.')
}

/// The SSTables that paths name, in the order of the paths and below a directory by name.
pub(super) fn find(env: &Env, paths: &[PathBuf]) -> Result<Vec<Descriptor>, Failure> {
    let mut out = Vec::new();
    for path in paths {
        let before = out.len();
        match env.fs.read_dir(path) {
            Ok(_) => in_directory(env.fs.as_ref(), path, 0, &mut out)?,
            // What the names of components begin with is no file itself.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => {
                out.push(named(env.fs.as_ref(), path)?);
            }
            Err(e) => return Err(e.into()),
        }
        if out.len() == before {
            return Err(Failure::Usage(format!("there are no SSTables in {}", path.display())));
        }
    }
    let mut seen = std::collections::HashSet::new();
    out.retain(|descriptor| seen.insert(descriptor.clone()));
    Ok(out)
}

/// The SSTable of a component, or of what the names of its components begin with.
fn named(fs: &dyn FileSystem, path: &Path) -> Result<Descriptor, Failure> {
    let no_name = || Failure::Usage(format!("{} is not the name of an SSTable", path.display()));
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(no_name)?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    let prefix = format!("{}-Data.db", name.trim_end_matches('-'));
    let parsed = Descriptor::parse(&directory, name).or_else(|| Descriptor::parse(&directory, &prefix));
    if parsed.is_none() && !fs.exists(path)? {
        return Err(Failure::Usage(format!("there is no {}", path.display())));
    }
    let (descriptor, _) = parsed.ok_or_else(no_name)?;
    let is_there = |component: &sstable::Component| fs.exists(&descriptor.path(*component)).unwrap_or(false);
    if !sstable::Component::ALL.iter().any(is_there) {
        return Err(Failure::Usage(format!("there is no SSTable {descriptor}")));
    }
    Ok(descriptor)
}

fn in_directory(
    fs: &dyn FileSystem,
    directory: &Path,
    depth: usize,
    out: &mut Vec<Descriptor>,
) -> Result<(), Failure> {
    let listing = descriptor::list(fs, directory)?;
    out.extend(listing.tables.into_keys());
    if depth == DEPTH_MAX {
        return Ok(());
    }
    for entry in fs.read_dir(directory)? {
        if entry.kind == EntryKind::Dir && !entry.name.to_str().is_none_or(holds_copies) {
            in_directory(fs, &directory.join(&entry.name), depth + 1, out)?;
        }
    }
    Ok(())
}

/// An open SSTable and its table, as far as the header tells.
pub(super) struct Source {
    pub(super) sstable: Arc<SsTable>,
    pub(super) table: Arc<TableSchema>,
}

impl Source {
    pub(super) fn open(env: &Env, descriptor: &Descriptor) -> Result<Source, Failure> {
        let sstable =
            SsTable::open(env.fs.as_ref(), descriptor, 0, Arc::new(Uncached)).map_err(Failure::new)?;
        let table =
            table_of_header(sstable.header()).map_err(|e| Failure::Usage(format!("{descriptor}: {e}")))?;
        Ok(Source { sstable: Arc::new(sstable), table: Arc::new(table) })
    }
}
