//! Which data directory a new SSTable goes to: the one with the most free space.
//!
//! With `disk_failure_policy: best_effort` a data directory in which a write failed takes no new SSTables
//! until the next start, as long as the table has another one. A full disk does not count: that heals. What
//! such a directory holds is still read, so that no answer misses rows; compactions, which write beside their
//! inputs, leave it alone.

use super::files::FileContext;
use crate::disk_failure::DiskFailure;
use crate::error::EngineError;
use env::sync::Mutex;
use std::collections::BTreeSet;
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

impl FileContext {
    /// The directory among `dirs`, a table's, for a new SSTable; made if it is missing.
    pub(crate) fn home(&self, dirs: &[PathBuf]) -> Result<PathBuf, EngineError> {
        loop {
            let given_up = self.homes.given_up();
            let is_left = |dir: &&PathBuf| !given_up.iter().any(|root| root == data_directory(dir));
            let left: Vec<&PathBuf> = dirs.iter().filter(is_left).collect();
            let mut best: Option<(u64, &PathBuf)> = None;
            let mut failed = None;
            for dir in &left {
                // The table's directory may not be there yet; that of its keyspaces is.
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
