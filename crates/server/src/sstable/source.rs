//! From the paths of the command line to SSTables.

use super::Failure;
use env::Env;
use env::fs::{EntryKind, FileSystem};
use model::TableSchema;
use sstable::{Descriptor, SsTable, Uncached, descriptor, table_of_header, txn_log};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories below a data directory in which tables are.
const DEPTH_MAX: usize = 3;

/// Directories that hold copies, not tables.
fn holds_copies(name: &str) -> bool {
    name == "snapshots" || name == "backups" || name.starts_with('.')
}

/// The SSTables that paths name, in the order of the paths and below a directory by name. Below a directory those are left out
/// that a transaction which did not end will remove at the next start of a node.
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
    let mut seen = HashSet::new();
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
    let mut gone = HashSet::new();
    if !listing.txn_logs.is_empty() {
        // Of a log that is damaged nothing is known; then all there is is looked at.
        let leftovers = txn_log::understand(fs, &[directory.to_owned()]).unwrap_or_default();
        gone.extend(leftovers.into_iter().flat_map(|leftover| leftover.gone));
    }
    let stays = |(_, files): &(Descriptor, Vec<PathBuf>)| !files.iter().any(|file| gone.contains(file));
    out.extend(listing.tables.into_iter().filter(stays).map(|(descriptor, _)| descriptor));
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

#[cfg(test)]
mod tests {
    use super::*;
    use env::fs::memory::MemoryFileSystem;
    use sstable::txn_log::{Operation, TxnLog};
    use sstable::{Component, SsTableId, Version};

    #[test]
    fn what_an_operation_that_did_not_end_has_begun_is_left_out_below_a_directory() {
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
        let env = Env::for_test(1).with_fs(Arc::clone(&fs));
        let directory = Path::new("/data/ks/t");
        fs.create_dir_all(directory).unwrap();
        let of = |n| Descriptor::new(directory, SsTableId::Sequence(n), Version::NB);
        let id = env.time_uuid();
        let mut log = TxnLog::create(Arc::clone(&fs), directory, Version::NB, Operation::Scrub, id).unwrap();
        log.add(&of(2)).unwrap();
        let paths = [of(1), of(2)].map(|descriptor| descriptor.path(Component::Data));
        paths.iter().for_each(|path| fs.write(path, b"rows").unwrap());
        assert_eq!(find(&env, &["/data".into()]).unwrap(), [of(1)]);
        assert_eq!(find(&env, &paths).unwrap(), [of(1), of(2)]);
        let missing = find(&env, &["/data/nothing".into()]).unwrap_err();
        assert!(matches!(missing, Failure::Usage(text) if text == "there is no /data/nothing"));
    }
}
