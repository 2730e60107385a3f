//! Which data directory a new SSTable goes to: the one with the most free space.
//!
//! With `disk_failure_policy: best_effort` a data directory in which a write failed takes no new SSTables
//! until the next start, as long as the table has another one. A full disk does not count: that heals. What
//! such a directory holds is still read, so that no answer misses rows; compactions, which write beside their
//! inputs, leave it alone.
//!
//! A table's directories are made with the table, as Cassandra's are: people copy SSTables into them.

use super::files::FileContext;
use crate::disk_failure::DiskFailure;
use crate::error::EngineError;
use crate::system;
use env::sync::Mutex;
use model::TableSchema;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// The data directories that take no new SSTables.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    /// Whether any is given up at all.
    gives_up: bool,
    given_up: Mutex<BTreeSet<PathBuf>>,
}

impl Homes {
    pub(crate) fn new(gives_up: bool) -> Homes {
        Homes { gives_up, given_up: Mutex::default() }
    }

    /// Whether what lies in the directory of a table is left alone.
    pub(crate) fn is_given_up(&self, dir: &Path) -> bool {
        self.gives_up && self.given_up.lock().contains(data_directory(dir))
    }

    /// Those that were given up.
    pub(crate) fn given_up(&self) -> Vec<PathBuf> {
        self.given_up.lock().iter().cloned().collect()
    }

    /// Notes that a write failed in the directory `dir` of a table that has `dirs`; whether another one is to
    /// be taken.
    pub(crate) fn note_failure(&self, dir: &Path, dirs: &[PathBuf], error: &EngineError) -> bool {
        let Some(DiskFailure::FileSystem(cause)) = DiskFailure::of(error) else { return false };
        let root = data_directory(dir);
        let mut given_up = self.given_up.lock();
        let has_other =
            dirs.iter().map(|dir| data_directory(dir)).any(|d| d != root && !given_up.contains(d));
        if !self.gives_up || !has_other {
            return false;
        }
        if given_up.insert(root.to_owned()) {
            tracing::error!(directory = %root.display(), cause, "a data directory takes no new SSTables any more, as disk_failure_policy says");
        }
        true
    }
}

/// The data directory that a table's directory lies in.
pub(crate) fn data_directory(dir: &Path) -> &Path {
    dir.parent().and_then(Path::parent).unwrap_or(dir)
}

/// Those of a table's directories that new SSTables go to.
pub(crate) fn homes_among<'a>(dirs: &'a [PathBuf], table: &TableSchema) -> &'a [PathBuf] {
    let count = if system::has_one_home(table) { 1 } else { dirs.len() };
    dirs.get(..count).unwrap_or(dirs)
}

impl FileContext {
    /// Makes those of the directories `dirs` of tables that are missing, durably. One that cannot be made is
    /// told of and left to the flush that needs it.
    pub(crate) fn make_homes<'a>(&self, dirs: impl IntoIterator<Item = &'a PathBuf>) {
        let fs = self.env.fs.as_ref();
        let mut missing: BTreeMap<&Path, Vec<&Path>> = BTreeMap::new();
        for dir in dirs {
            let is_missing = !self.homes.is_given_up(dir) && fs.exists(dir).is_ok_and(|exists| !exists);
            if let Some(keyspace) = dir.parent().filter(|_| is_missing) {
                missing.entry(keyspace).or_default().push(dir);
            }
        }
        for (keyspace, dirs) in missing {
            let made = fs
                .create_dir_all_durable(keyspace)
                .and_then(|()| dirs.iter().try_for_each(|dir| fs.create_dir_all(dir)))
                .and_then(|()| fs.sync_dir(keyspace));
            if let Err(error) = made {
                tracing::warn!(directory = %keyspace.display(), %error, "directories of tables cannot be made");
                // A flush takes a directory that exists for a durable one.
                dirs.iter().for_each(|dir| drop(fs.remove_dir(dir)));
            }
        }
    }

    /// The directory among `dirs`, a table's, for a new SSTable; made if it is missing.
    pub(crate) fn home(&self, dirs: &[PathBuf]) -> Result<PathBuf, EngineError> {
        loop {
            let given_up = self.homes.given_up();
            let is_left = |dir: &&PathBuf| !given_up.iter().any(|root| root == data_directory(dir));
            let left: Vec<&PathBuf> = dirs.iter().filter(is_left).collect();
            let mut best: Option<(u64, &PathBuf)> = None;
            let mut failed = None;
            for dir in &left {
                // The table's directory may be missing; that of its keyspaces is there.
                let free = match left.len() {
                    1 => Ok(0),
                    _ => self.env.fs.space(data_directory(dir)).map(|space| space.free_bytes),
                };
                match free {
                    Ok(free) if best.is_none_or(|(most, _)| free > most) => best = Some((free, dir)),
                    Ok(_) => {}
                    Err(error) => failed = Some((*dir, error)),
                }
            }
            if let (None, Some((_, dir))) = (&failed, best) {
                match self.env.fs.create_dir_all_durable(dir) {
                    Ok(()) => return Ok(dir.clone()),
                    Err(error) => failed = Some((dir, error)),
                }
            }
            let Some((dir, error)) = failed else { return Err(io::Error::other("no data directory").into()) };
            let error = EngineError::from(error);
            if !self.homes.note_failure(dir, dirs, &error) {
                return Err(error);
            }
        }
    }
}
