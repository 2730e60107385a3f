//! The caches that a Cassandra saved beside its data.
//!
//! Its key cache says where in an SSTable a partition lies, and names the SSTable by its number. Here an
//! SSTable may get a number that was another's when the cache was saved: a TRUNCATE or a compaction took the
//! largest one, and numbers go on behind the largest that is there. So a node that takes a directory over
//! removes the saved key cache, from which Cassandra would only have started warmer. Saved row and counter
//! caches hold keys alone and are left.

use env::fs::FileSystem;
use std::io;
use std::path::Path;

/// `KeyCache-e.db` and `KeyCache-e.crc`, with another letter in other releases.
const KEY_CACHE: &str = "KeyCache-";

/// Removes the key caches that were saved in `directory`, which may not exist. Yields how many files they
/// were.
///
/// # Errors
/// When a file that is there cannot be removed.
pub(super) fn forget_keys(fs: &dyn FileSystem, directory: &Path) -> io::Result<usize> {
    let entries = match fs.read_dir(directory) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other?,
    };
    let is_key_cache = |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.starts_with(KEY_CACHE));
    let mut removed = 0;
    for entry in entries.iter().filter(|entry| is_key_cache(&entry.name)) {
        fs.remove_file(&directory.join(&entry.name))?;
        removed += 1;
    }
    if removed > 0 {
        fs.sync_dir(directory)?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use env::fs::memory::MemoryFileSystem;

    #[test]
    fn saved_keys_are_forgotten_and_nothing_else() {
        let (fs, dir) = (MemoryFileSystem::new(), Path::new("/saved_caches"));
        assert_eq!(forget_keys(&fs, dir).unwrap(), 0);
        fs.create_dir_all(dir).unwrap();
        for name in ["KeyCache-e.db", "KeyCache-e.crc", "RowCache-e.db", "CounterCache-e.db"] {
            fs.write(&dir.join(name), b"x").unwrap();
        }
        assert_eq!(forget_keys(&fs, dir).unwrap(), 2);
        let left: Vec<_> = fs.read_dir(dir).unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(left.len(), 2);
        assert!(left.iter().all(|name| !name.to_str().unwrap().starts_with(KEY_CACHE)));
        assert_eq!(forget_keys(&fs, dir).unwrap(), 0);
    }
}
