//! Files and directories, synchronous, behind one trait.
//!
//! What a caller may rely on, on every implementation:
//!
//! 1. **Writes are visible after `flush`, durable after `sync_data`.** [`WriteFile::write_all`] collects
//!    bytes in a buffer of [`WRITE_BUFFER_BYTES`]; `flush` hands them to the file (from then on readers see
//!    them and they outlive the process), `sync_data` also puts them on the device (they outlive the
//!    machine). A file that is dropped without either loses what was still in its buffer.
//! 2. **A name is durable after `sync_dir`.** Creating, renaming, linking and removing change a directory;
//!    after a power loss such a change is there for certain only if [`FileSystem::sync_dir`] of that
//!    directory came later. Syncing the file is not enough.
//! 3. **Rename within a directory is atomic** and replaces the target.
//! 4. **A failed sync is final.** After an error from `sync_data` the bytes written since the last good sync
//!    may be lost even if a later sync succeeds; the caller must write them anew or stop.
//! 5. **Errors name the file.** Every error is an `io::Error` of the cause's kind whose message holds the
//!    operation and the path; see [`PathError`].
//!
//! | implementation | what it is |
//! |---|---|
//! | [`disk`] | the machine's file system; the only user of `std::fs` |
//! | [`memory`] | a tree in memory that can lose power between any two calls |
//! | [`faulty`] | any of them, with calls that fail on demand |

mod buffered;
pub mod disk;
pub mod faulty;
pub mod memory;

use std::any::Any;
use std::ffi::OsString;
use std::fmt::{self, Debug};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that a [`WriteFile`] collects before it hands them to the file.
pub const WRITE_BUFFER_BYTES: usize = 64 << 10;

/// A tree of files and directories. All calls may block.
pub trait FileSystem: Send + Sync + Debug {
    /// Makes a directory and its missing parents; one that exists is fine. The new names are durable only
    /// after a `sync_dir` of each parent, see [`FileSystem::create_dir_all_durable`].
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// What a directory holds, ordered by name.
    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Whether there is a file or directory of this name.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// The one path of what this one leads to, without links and dots.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Length of a file in bytes.
    fn file_len(&self, path: &Path) -> io::Result<u64>;

    /// When a file's content last changed, in milliseconds since 1970; 0 where the file system does not know.
    fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        self.file_len(path).map(|_| 0)
    }

    /// Opens a file for positional reads from any number of threads.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>>;

    /// As [`FileSystem::open_read`], for a file that nobody writes any more, by another way if there is one
    /// here: [`ReadFile::access`] says which it became.
    fn open_read_by(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        let _ = access;
        self.open_read(path)
    }

    /// Makes an empty file, or empties the one that is there.
    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Makes an empty file; `AlreadyExists` if the name is taken.
    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Opens a file to write at its end; makes it if it is missing.
    fn open_append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Opens a file that exists to write from its start, keeping what is there: for files whose space was
    /// allocated ahead.
    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn WriteFile>>;

    /// Gives a file or directory another name, replacing a file of that name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file's name; its bytes stay until the last opened handle and the last link are gone.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory that holds nothing; `DirectoryNotEmpty` if it does.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a directory and all it holds.
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;

    /// Whether it is a file, not a link to one, that nobody but this process's user may change. Who has the
    /// right to can change the bytes under every other name of the file, too.
    fn is_private(&self, path: &Path) -> io::Result<bool> {
        self.file_len(path).map(|_| true)
    }

    /// Makes a copy that shares the file's bytes until either is changed; false, and nothing is made, where
    /// the file system cannot do that.
    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<bool> {
        let _ = (from, to);
        Ok(false)
    }

    /// Gives a file a second name.
    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// The space of the device that holds `path`.
    fn space(&self, path: &Path) -> io::Result<Space>;

    /// Takes the one exclusive lock on `path`: a directory, which is not changed by it, or a file that is
    /// made if it is missing. The lock ends when the value is dropped or the process dies; while another
    /// holds it the error is of kind `WouldBlock`.
    fn lock_exclusive(&self, path: &Path) -> io::Result<FileLock>;

    /// The whole of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.open_read(path)?;
        let mut bytes = vec![0; usize::try_from(file.len()).map_err(io::Error::other)?];
        file.read_exact_at(0, &mut bytes)?;
        Ok(bytes)
    }

    /// The whole of a file as text; `InvalidData` if it is not UTF-8.
    fn read_to_string(&self, path: &Path) -> io::Result<String> {
        String::from_utf8(self.read(path)?)
            .map_err(|e| with_path("read as text", path, io::Error::new(io::ErrorKind::InvalidData, e)))
    }

    /// Writes a whole file, in place and without syncing: for files that may be lost.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = self.create(path)?;
        file.write_all(bytes)?;
        file.flush()
    }

    /// Replaces a file by new content: a reader, and the machine after a power loss, finds the old content or
    /// the new. Goes through a file beside it whose name ends in `.tmp`.
    fn write_atomic(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut name = path.as_os_str().to_owned();
        name.push(".tmp");
        let beside = PathBuf::from(name);
        let mut file = self.create(&beside)?;
        file.write_all(bytes)?;
        file.sync_data()?;
        drop(file);
        self.rename(&beside, path)?;
        self.sync_dir(parent(path))
    }

    /// Makes a directory and its missing parents, and their names durable.
    fn create_dir_all_durable(&self, path: &Path) -> io::Result<()> {
        if self.exists(path)? {
            return Ok(());
        }
        let above = parent(path);
        if above != path {
            self.create_dir_all_durable(above)?;
        }
        self.create_dir_all(path)?;
        // Who comes next takes a directory that exists for a durable one.
        self.sync_dir(above).inspect_err(|_| drop(self.remove_dir(path)))
    }
}

/// How the bytes of a file come to who reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// By calls, through the system's cache.
    #[default]
    Buffered,
    /// By calls, around the system's cache, in whole blocks of the device.
    Direct,
    /// From a mapping of the file.
    Mapped,
}

impl Access {
    /// What reading `range` of a file of `file_len` bytes comes to: how many calls, and how many bytes they
    /// read.
    pub fn taken(self, range: &Range<u64>, file_len: u64) -> (u64, u64) {
        if self != Access::Direct {
            return (1, range.end.saturating_sub(range.start));
        }
        let block = disk::direct::BLOCK_BYTES as u64;
        let start = range.start / block * block;
        let end = range.end.checked_next_multiple_of(block).unwrap_or(u64::MAX).min(file_len);
        let bytes = end.saturating_sub(start);
        (bytes.div_ceil(disk::direct::BYTES_MAX as u64).max(1), bytes)
    }
}

/// A file opened for reading; shared by threads.
pub trait ReadFile: Send + Sync + Debug {
    /// Fills `buf` from `offset` on and returns how many bytes it got: fewer than asked only at the file's
    /// end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// As [`ReadFile::read_at`], if the system has the bytes in memory: `None` where the call would wait for
    /// the device, and where nobody can tell. What is in `buf` then is of no account.
    fn read_at_once(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let _ = (offset, buf);
        Ok(None)
    }

    /// Reads `len` bytes from `offset` on into memory of just that size, which nobody has to have zeroed
    /// before, and fills `after` with those that follow, in one call where the system can. `None` where it
    /// has them not in memory and may not wait, as for [`ReadFile::read_at_once`], and then where the file
    /// ends too early, too; with `may_wait` that is an `UnexpectedEof`.
    fn read_vec_at(
        &self,
        offset: u64,
        len: usize,
        after: &mut [u8],
        may_wait: bool,
    ) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; len + after.len()];
        if may_wait {
            self.read_exact_at(offset, &mut bytes)?;
        } else if self.read_at_once(offset, &mut bytes)? != Some(bytes.len()) {
            return Ok(None);
        }
        after.copy_from_slice(&bytes[len..]);
        bytes.truncate(len);
        bytes.shrink_to_fit();
        Ok(Some(bytes))
    }

    /// The file's length in bytes when it was opened.
    fn len(&self) -> u64;

    /// Whether the file held nothing when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tells the system how `len` bytes from `offset` on will be used (`len` 0: to the end). A hint: it
    /// cannot fail.
    fn advise(&self, offset: u64, len: u64, advice: Advice);

    /// The path it was opened by.
    fn path(&self) -> &Path;

    /// How it is read.
    fn access(&self) -> Access {
        Access::Buffered
    }

    /// Fills all of `buf`; `UnexpectedEof` if the file ends earlier.
    fn read_exact_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let got = self.read_at(offset, buf)?;
        if got == buf.len() {
            return Ok(());
        }
        let wanted = buf.len();
        let short = format!("wanted {wanted} bytes at {offset}, the file ends after {got} of them");
        Err(with_path("read", self.path(), io::Error::new(io::ErrorKind::UnexpectedEof, short)))
    }
}

/// A file opened for writing, by one owner. It has a position at which [`WriteFile::write_all`] goes on.
pub trait WriteFile: Send + Debug {
    /// Writes at the position and moves it; may stay in the buffer until [`WriteFile::flush`].
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Flushes, then writes at an offset of the caller's choice, unbuffered; the position stays.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Hands buffered bytes to the file.
    fn flush(&mut self) -> io::Result<()>;

    /// Flushes, then waits until the file's bytes and length are on the device.
    fn sync_data(&mut self) -> io::Result<()>;

    /// Where the next `write_all` writes: bytes from the file's start.
    fn position(&self) -> u64;

    /// Flushes, then moves the position; past the end is fine, the gap reads as zeroes.
    fn seek(&mut self, position: u64) -> io::Result<()>;

    /// Flushes, then cuts the file to `len` bytes or grows it with zeroes. A position past the end moves back
    /// to it.
    fn truncate(&mut self, len: u64) -> io::Result<()>;

    /// Grows the file with zeroes to at least `len` bytes and reserves the space, so that later writes below
    /// `len` do not fail for want of space.
    fn allocate(&mut self, len: u64) -> io::Result<()>;

    /// A handle that syncs this file from another thread while its owner goes on writing. It syncs what has
    /// been flushed, not what is in the buffer.
    fn syncer(&self) -> Arc<dyn SyncFile>;

    /// The path it was opened by.
    fn path(&self) -> &Path;
}

/// Syncs one file; see [`WriteFile::syncer`].
pub trait SyncFile: Send + Sync + Debug {
    /// Waits until everything handed to the file before this call is on the device.
    fn sync_data(&self) -> io::Result<()>;
}

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DirEntry {
    /// The name, without the directory.
    pub name: OsString,
    /// What it names.
    pub kind: EntryKind,
}

/// What a name in a directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// Anything else: a symbolic link, a socket, a device.
    Other,
}

/// How a range of a file will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// From front to back: read ahead.
    Sequential,
    /// Here and there: do not read ahead.
    Random,
    /// Soon: start reading.
    WillNeed,
    /// Not again: the system may forget it.
    DontNeed,
}

/// The space of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Which device it is, as the system tells devices apart.
    pub device: u64,
    /// Size of the device in bytes.
    pub total_bytes: u64,
    /// Bytes that this process may still write.
    pub free_bytes: u64,
}

/// Holds a lock until it is dropped; see [`FileSystem::lock_exclusive`].
pub struct FileLock {
    path: PathBuf,
    _held: Box<dyn Any + Send + Sync>,
}

impl FileLock {
    /// A lock on `path` that lasts as long as `held`.
    pub fn new(path: &Path, held: impl Any + Send + Sync) -> Self {
        Self { path: path.to_owned(), _held: Box::new(held) }
    }
}

impl Debug for FileLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileLock").field(&self.path).finish()
    }
}

/// What every error of this module wraps: which call failed on which file, and why.
#[derive(Debug)]
pub struct PathError {
    /// The call, as a verb: "open", "rename".
    pub operation: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.path.display(), self.source)
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// An error of the same kind whose message names the operation and the path; wraps only once.
pub fn with_path(operation: &'static str, path: &Path, source: io::Error) -> io::Error {
    if source.get_ref().is_some_and(|inner| inner.is::<PathError>()) {
        return source;
    }
    io::Error::new(source.kind(), PathError { operation, path: path.to_owned(), source })
}

/// Whether an error says that the device, or the user's share of it, is full.
pub fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The directory that holds `path`: `.` for a bare name, itself for the root.
pub fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if above.as_os_str().is_empty() => Path::new("."),
        Some(above) => above,
        None => path,
    }
}

#[cfg(test)]
mod tests;
