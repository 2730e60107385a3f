//! Locks of directories whose files are changed.

use super::Failure;
use env::Env;
use env::fs::FileLock;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::{Path, PathBuf};

/// The data directory that a table's directory lies in, by its name: `<data
/// directory>/<keyspace>/<table>-<id>`.
pub(super) fn data_directory(directory: &Path) -> io::Result<Option<PathBuf>> {
    let directory = std::path::absolute(directory)?;
    let id = directory.file_name().and_then(|name| name.to_str()).and_then(|name| name.rsplit_once('-'));
    let is_table = id.is_some_and(|(_, id)| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    Ok(directory.ancestors().nth(2).filter(|_| is_table).map(Path::to_owned))
}

/// Takes, for each directory, the lock that a node holds on its data directory while it runs, or one on the
/// directory itself if it is in none. They are held as long as the result. `advice` says what to do when one
/// is taken.
///
/// # Errors
/// When one is taken, or cannot be.
pub(super) fn all(env: &Env, directories: &[PathBuf], advice: &str) -> Result<Vec<FileLock>, Failure> {
    let mut locks = HashMap::new();
    for directory in directories {
        let data = data_directory(directory)?;
        let who = if data.is_some() { "a node runs on" } else { "another tool works in" };
        let locked = data.map_or_else(|| std::path::absolute(directory), Ok)?;
        if let Entry::Vacant(free) = locks.entry(locked) {
            let lock = env.fs.lock_exclusive(free.key()).map_err(|e| match e.kind() {
                io::ErrorKind::WouldBlock => {
                    Failure::Usage(format!("{who} {}: {advice}", free.key().display()))
                }
                _ => e.into(),
            })?;
            free.insert(lock);
        }
    }
    Ok(locks.into_values().collect())
}
