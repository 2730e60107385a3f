//! From the paths of the command line to SSTables.

use super::Failure;
use env::Env;
use env::fs::{EntryKind, FileSystem};
use model::TableSchema;
use sstable::txn_log::RecoverError;
use sstable::{
    Component, Descriptor, SsTable, Uncached, descriptor, table_of_header, table_with_frozen_types,
};
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories below a data directory in which tables are.
const DEPTH_MAX: usize = 3;
/// Looks at transactions that are not understood: one may have ended meanwhile, when a node runs on the
/// directory.
const LOOKS_MAX: usize = 3;

/// Directories that hold copies, not tables.
fn holds_copies(name: &str) -> bool {
    name == "snapshots" || name == "backups" || name.starts_with('.')
}

/// What a path of the command line names.
enum Named {
    /// A directory and those below it, each before what is below it.
    Directories(Vec<PathBuf>),
    SsTable(Descriptor),
}

impl Named {
    fn parse(fs: &dyn FileSystem, path: &Path) -> Result<Named, Failure> {
        match fs.read_dir(path) {
            Ok(_) => {
                let mut directories = Vec::new();
                gather(fs, path, 0, &mut directories)?;
                Ok(Named::Directories(directories))
            }
            // What the names of components begin with is no file itself.
            Err(e) if matches!(e.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => {
                Ok(Named::SsTable(descriptor_of(fs, path)?))
            }
            Err(e) => Err(e.into()),
        }
    }
}

/// A directory and those below it in which tables may be.
fn gather(fs: &dyn FileSystem, directory: &Path, depth: usize, out: &mut Vec<PathBuf>) -> io::Result<()> {
    out.push(directory.to_owned());
    if depth == DEPTH_MAX {
        return Ok(());
    }
    for entry in fs.read_dir(directory)? {
        if entry.kind == EntryKind::Dir && !entry.name.to_str().is_none_or(holds_copies) {
            gather(fs, &directory.join(&entry.name), depth + 1, out)?;
        }
    }
    Ok(())
}

/// The descriptor of a component, or of what the names of its components begin with.
fn descriptor_of(fs: &dyn FileSystem, path: &Path) -> Result<Descriptor, Failure> {
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
    parsed.map(|(descriptor, _)| descriptor).ok_or_else(no_name)
}

/// The SSTables that paths name, in the order of the paths and below a directory by name. Below a directory
/// those are left out that a transaction which did not end will remove at the next start of a node. One that
/// is not understood says of no SSTable beside it whether it counts: then they have to be named.
pub(super) fn find(env: &Env, paths: &[PathBuf]) -> Result<Vec<Descriptor>, Failure> {
    let fs = env.fs.as_ref();
    let mut out = Vec::new();
    for path in paths {
        let before = out.len();
        match Named::parse(fs, path)? {
            Named::Directories(directories) => {
                for directory in directories {
                    out.extend(those_that_count(fs, &directory)?);
                }
            }
            Named::SsTable(descriptor) => {
                let is_there =
                    |component: &Component| fs.exists(&descriptor.path(*component)).unwrap_or(false);
                if !Component::ALL.iter().any(is_there) {
                    return Err(Failure::Usage(format!("there is no SSTable {descriptor}")));
                }
                out.push(descriptor);
            }
        }
        if out.len() == before {
            return Err(Failure::Usage(format!("there are no SSTables in {}", path.display())));
        }
    }
    let mut seen = HashSet::new();
    out.retain(|descriptor| seen.insert(descriptor.clone()));
    Ok(out)
}

/// The directories in which [`find`] looks, those that hold SSTables or transaction logs.
pub(super) fn directories(env: &Env, paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let fs = env.fs.as_ref();
    let mut out = Vec::new();
    for path in paths {
        match Named::parse(fs, path)? {
            Named::Directories(directories) => out.extend(directories),
            Named::SsTable(descriptor) => out.push(descriptor.directory),
        }
    }
    let mut seen = HashSet::new();
    out.retain(|directory| seen.insert(directory.clone()));
    let mut holding = Vec::new();
    for directory in out {
        let listing = descriptor::list(fs, &directory)?;
        if !listing.tables.is_empty() || !listing.txn_logs.is_empty() {
            holding.push(directory);
        }
    }
    Ok(holding)
}

/// The SSTables of a directory that count.
fn those_that_count(fs: &dyn FileSystem, directory: &Path) -> Result<Vec<Descriptor>, Failure> {
    let mut looks = 1;
    loop {
        match descriptor::live(fs, directory) {
            Ok(descriptors) => return Ok(descriptors),
            Err(RecoverError::Io(e)) => return Err(e.into()),
            Err(_) if looks < LOOKS_MAX => looks += 1,
            Err(e) => {
                return Err(Failure::Usage(format!(
                    "which SSTables of {} count is not known, name those that are meant: {e}",
                    directory.display()
                )));
            }
        }
    }
}

/// An open SSTable and its table, as far as the header tells.
pub(super) struct Source {
    pub(super) sstable: Arc<SsTable>,
    pub(super) table: Arc<TableSchema>,
}

impl Source {
    pub(super) fn open(env: &Env, descriptor: &Descriptor) -> Result<Source, Failure> {
        let fs = env.fs.as_ref();
        let known = table_with_frozen_types(fs, descriptor);
        let sstable = SsTable::open_as(fs, descriptor, 0, Arc::new(Uncached), known.as_ref());
        let sstable = sstable.map_err(Failure::new)?;
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

    struct World {
        env: Env,
        fs: Arc<dyn FileSystem>,
    }

    const TABLE: &str = "/data/ks/t";

    fn of(n: u64) -> Descriptor {
        Descriptor::new(Path::new(TABLE), SsTableId::Sequence(n), Version::NB)
    }

    fn world() -> World {
        let fs: Arc<dyn FileSystem> = Arc::new(MemoryFileSystem::new());
        let env = Env::for_test(1).with_fs(Arc::clone(&fs));
        fs.create_dir_all(Path::new(TABLE)).unwrap();
        World { env, fs }
    }

    impl World {
        fn log(&self) -> TxnLog {
            let id = self.env.time_uuid();
            TxnLog::create(Arc::clone(&self.fs), Path::new(TABLE), Version::NB, Operation::Scrub, id).unwrap()
        }

        /// Files of data without more.
        fn write(&self, numbers: &[u64]) -> Vec<PathBuf> {
            let paths: Vec<_> = numbers.iter().map(|n| of(*n).path(Component::Data)).collect();
            paths.iter().for_each(|path| self.fs.write(path, b"rows").unwrap());
            paths
        }

        fn refusal(&self, path: &str) -> String {
            match find(&self.env, &[path.into()]) {
                Err(Failure::Usage(text)) => text,
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_an_operation_that_did_not_end_has_begun_is_left_out_below_a_directory() {
        let world = world();
        world.log().add(&of(2)).unwrap();
        let paths = world.write(&[1, 2]);
        assert_eq!(find(&world.env, &["/data".into()]).unwrap(), [of(1)]);
        assert_eq!(find(&world.env, &paths).unwrap(), [of(1), of(2)]);
        assert_eq!(world.refusal("/data/nothing"), "there is no /data/nothing");
        assert_eq!(world.refusal("/data/ks/t/nb-3-big"), "there is no SSTable /data/ks/t/nb-3-big");
    }

    #[test]
    fn what_a_committed_operation_has_replaced_is_left_out_below_a_directory() {
        let world = world();
        world.write(&[1, 2]);
        let mut log = world.log();
        log.add(&of(2)).unwrap();
        log.remove([&of(1)]).unwrap();
        log.commit().unwrap();
        assert_eq!(find(&world.env, &["/data".into()]).unwrap(), [of(2)]);
    }

    /// Neither the old nor the new SSTables may be shown for the rows of the table, and both together even
    /// less.
    #[test]
    fn beside_a_log_that_is_not_understood_sstables_have_to_be_named() {
        let world = world();
        let paths = world.write(&[1, 2]);
        let mut log = world.log();
        log.add(&of(2)).unwrap();
        log.remove([&of(1)]).unwrap();
        let path = descriptor::list(world.fs.as_ref(), Path::new(TABLE)).unwrap().txn_logs.remove(0);
        let text = world.fs.read_to_string(&path).unwrap();
        world.fs.write(&path, text.replacen("ADD", "ADE", 1).as_bytes()).unwrap();
        let refusal = world.refusal("/data");
        let expected = "which SSTables of /data/ks/t count is not known, name those that are meant: /data/ks/t/nb_txn_scrub_";
        assert!(refusal.starts_with(expected) && refusal.ends_with(".log is damaged in line 1"), "{refusal}");
        assert_eq!(find(&world.env, &paths).unwrap(), [of(1), of(2)]);
        // A retired SSTable of more files than were retired.
        world.fs.write(&path, text.as_bytes()).unwrap();
        world.fs.write(&of(1).path(Component::Toc), b"").unwrap();
        assert!(world.refusal("/data").contains(" retires /data/ks/t/nb-1-big- of 1 files"), "{refusal}");
    }
}
