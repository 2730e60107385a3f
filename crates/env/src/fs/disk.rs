//! The machine's own file system.
//!
//! The one place that may use `std::fs`. Reads are positional (`pread`), so threads share a handle without a
//! lock; the data directory's lock is `flock`, which the kernel lets go when the process dies.
#![allow(clippy::disallowed_methods)]

pub(super) mod direct;
#[cfg(target_os = "linux")]
mod into_spare;
mod mapped;
mod pool;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice as Fadvise, FallocateFlags};
use rustix::io::Errno;
#[cfg(target_os = "linux")]
use rustix::io::{ReadWriteFlags, preadv2};
#[cfg(target_os = "linux")]
use std::io::IoSliceMut;

use super::buffered::{BufferedFile, RawFile};
use super::{
    Access, Advice, DirEntry, EntryKind, FileLock, FileSystem, ReadFile, Space, WriteFile, with_path,
};

/// The machine's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskFileSystem;

impl FileSystem for DiskFileSystem {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path).map_err(|e| with_path("create directory", path, e))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let list = || {
            let mut entries = Vec::new();
            for entry in fs::read_dir(path)? {
                let entry = entry?;
                entries.push(DirEntry { name: entry.file_name(), kind: kind(entry.file_type()?) });
            }
            entries.sort();
            Ok(entries)
        };
        list().map_err(|e| with_path("list", path, e))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        fs::exists(path).map_err(|e| with_path("look for", path, e))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        fs::canonicalize(path).map_err(|e| with_path("look up", path, e))
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        fs::metadata(path).map(|metadata| metadata.len()).map_err(|e| with_path("measure", path, e))
    }

    fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        let modified = fs::metadata(path).and_then(|metadata| metadata.modified());
        let since = modified.map_err(|e| with_path("look up the age of", path, e))?;
        Ok(since.duration_since(std::time::UNIX_EPOCH).map_or(0, |age| age.as_millis() as i64))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(open_file(path)?))
    }

    fn open_read_by(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        pool::open(path, access)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        open_write("create", path, OpenOptions::new().write(true).create(true).truncate(true))
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        open_write("create", path, OpenOptions::new().write(true).create_new(true))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        // Not O_APPEND: on Linux it would send positional writes to the end as well.
        let mut file = open_write("open", path, OpenOptions::new().write(true).create(true).truncate(false))?;
        file.seek(self.file_len(path)?)?;
        Ok(file)
    }

    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        open_write("open", path, OpenOptions::new().write(true))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        pool::keep_open(from);
        pool::keep_open(to);
        fs::rename(from, to).map_err(|e| with_path("rename", from, e))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        pool::keep_open(path);
        fs::remove_file(path).map_err(|e| with_path("remove", path, e))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path).map_err(|e| with_path("remove directory", path, e))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        pool::keep_open(path);
        fs::remove_dir_all(path).map_err(|e| with_path("remove directory", path, e))
    }

    fn is_private(&self, path: &Path) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::symlink_metadata(path).map_err(|e| with_path("look up", path, e))?;
        let is_mine = metadata.uid() == rustix::process::geteuid().as_raw();
        let others_write = metadata.mode() & 0o022 != 0;
        Ok(metadata.is_file() && is_mine && !others_write)
    }

    #[cfg(target_os = "linux")]
    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<bool> {
        let source = File::open(from).map_err(|e| with_path("open", from, e))?;
        let target = File::create_new(to).map_err(|e| with_path("create", to, e))?;
        if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
            return Ok(true);
        }
        // Of another device, or of a kind that shares nothing.
        drop(target);
        self.remove_file(to).map(|()| false)
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()> {
        fs::hard_link(existing, link).map_err(|e| with_path("link", existing, e))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path).and_then(|dir| dir.sync_all()).map_err(|e| with_path("sync directory", path, e))
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        use std::os::unix::fs::MetadataExt;
        let metadata = fs::metadata(path).map_err(|e| with_path("look up", path, e))?;
        let stat =
            rustix::fs::statvfs(path).map_err(|e| with_path("measure the device of", path, e.into()))?;
        Ok(Space {
            device: metadata.dev(),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }

    fn lock_exclusive(&self, path: &Path) -> io::Result<FileLock> {
        let lock = || {
            let file = match path.is_dir() {
                true => File::open(path)?,
                false => OpenOptions::new().write(true).create(true).truncate(false).open(path)?,
            };
            match file.try_lock() {
                Ok(()) => Ok(file),
                Err(TryLockError::WouldBlock) => {
                    Err(io::Error::new(io::ErrorKind::WouldBlock, "another process holds it"))
                }
                Err(TryLockError::Error(e)) => Err(e),
            }
        };
        lock().map(|file| FileLock::new(path, file)).map_err(|e| with_path("lock", path, e))
    }
}

/// Lets this process open as many files as the system allows it to; how many that are. A node has two open
/// for each SSTable, and what a shell gives is often too little. Three quarters are for those; beyond that
/// the ones that are not read are closed. The rest is for clients, the commit log and what is being written.
///
/// # Errors
/// When the system refuses.
pub fn raise_open_files_limit() -> io::Result<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let files = limit.current.unwrap_or(u64::MAX);
    pool::set_open_max(usize::try_from(files / 4 * 3).unwrap_or(usize::MAX));
    Ok(files)
}

fn kind(file_type: fs::FileType) -> EntryKind {
    match file_type {
        t if t.is_file() => EntryKind::File,
        t if t.is_dir() => EntryKind::Dir,
        _ => EntryKind::Other,
    }
}

fn open_write(operation: &'static str, path: &Path, options: &OpenOptions) -> io::Result<Box<dyn WriteFile>> {
    let file = options.open(path).map_err(|e| with_path(operation, path, e))?;
    Ok(Box::new(BufferedFile::new(file, path, 0)))
}

/// Opens a file that stays open.
fn open_unpooled(path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
    let file = open_file(path)?;
    match access {
        Access::Buffered => Ok(Arc::new(file)),
        Access::Direct => direct::open(file),
        Access::Mapped => mapped::open(file),
    }
}

fn open_file(path: &Path) -> io::Result<DiskReadFile> {
    let open = || {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(DiskReadFile {
            file,
            len: metadata.len(),
            path: path.to_owned(),
            tells_waits: AtomicBool::new(true),
        })
    };
    open().map_err(|e| with_path("open", path, e))
}

#[derive(Debug)]
struct DiskReadFile {
    file: File,
    len: u64,
    path: PathBuf,
    /// Whether the file system may know which reads would wait; not any more once it has refused to say.
    tells_waits: AtomicBool,
}

#[cfg(target_os = "linux")]
impl DiskReadFile {
    /// What a call gives that may not wait; `None` where it would have to, or nobody can tell.
    fn at_once(&self, call: impl FnOnce() -> rustix::io::Result<usize>) -> io::Result<Option<usize>> {
        if !self.tells_waits.load(Ordering::Relaxed) {
            return Ok(None);
        }
        match call() {
            Ok(got) => Ok(Some(got)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
                self.tells_waits.store(false, Ordering::Relaxed);
                Ok(None)
            }
            Err(e) => Err(with_path("read", &self.path, e.into())),
        }
    }
}

impl ReadFile for DiskReadFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while got < buf.len() {
            match self.file.read_at(&mut buf[got..], offset + got as u64) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(with_path("read", &self.path, e)),
            }
        }
        Ok(got)
    }

    #[cfg(target_os = "linux")]
    fn read_at_once(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let wanted = buf.len().min(usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX));
        let got = self
            .at_once(|| preadv2(&self.file, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT))?;
        // It ends where the system's memory of the file does.
        Ok(got.filter(|got| *got >= wanted))
    }

    #[cfg(target_os = "linux")]
    fn read_vec_at(
        &self,
        offset: u64,
        len: usize,
        after: &mut [u8],
        may_wait: bool,
    ) -> io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::with_capacity(len);
        let mut fill = |flags| into_spare::read(&self.file, offset, &mut bytes, len, after, flags);
        let got = match may_wait {
            // What comes short or fails is read again, by the calls that say why.
            true => fill(ReadWriteFlags::empty()).ok(),
            false => self.at_once(|| fill(ReadWriteFlags::NOWAIT))?,
        };
        if got == Some(len + after.len()) {
            return Ok(Some(bytes));
        }
        if !may_wait {
            return Ok(None);
        }
        bytes.resize(len, 0);
        self.read_exact_at(offset, &mut bytes)?;
        self.read_exact_at(offset + len as u64, after)?;
        Ok(Some(bytes))
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        let advice = match advice {
            Advice::Sequential => Fadvise::Sequential,
            Advice::Random => Fadvise::Random,
            Advice::WillNeed => Fadvise::WillNeed,
            Advice::DontNeed => Fadvise::DontNeed,
        };
        // A file system that does not know hints reads as well without them.
        let _ = rustix::fs::fadvise(&self.file, offset, std::num::NonZeroU64::new(len), advice);
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl RawFile for File {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, len) {
            // Without support for reservations the file only grows.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                if self.metadata()?.len() < len {
                    File::set_len(self, len)
                } else {
                    Ok(())
                }
            }
            result => Ok(result?),
        }
    }
}
