//! Any file system, with calls that fail on demand.
//!
//! A [`Fault`] says which calls it strikes (an [`Op`], a part of the path, how many matching calls go well
//! first, how many fail) and how. Rules are added and removed while the node runs. Next to them stands a
//! budget of free bytes, which makes the disk full in the way a disk is full: what grows a file fails,
//! everything else works, and removing or truncating files gives the space back (also that of a file which
//! another link keeps, the one place where the budget is kinder than a disk).
//!
//! A failed call has no effect on the file system behind, with two exceptions that real disks make as well: a
//! short write leaves a part of its bytes, and a call that was made to fail by [`Fault::after_effect`] did
//! its work before the error came.

mod rules;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::sync::{Condvar, Mutex};

pub use self::rules::{Fault, FaultId, Op, Seen};
use self::rules::{Rules, Verdict};
use super::{
    Access, Advice, DirEntry, FileLock, FileSystem, ReadFile, Space, SyncFile, WriteFile, with_path,
};

/// A file system whose calls can be made to fail. Clones share their rules.
#[derive(Clone, Debug)]
pub struct FaultyFileSystem {
    inner: Arc<dyn FileSystem>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    rules: Mutex<Rules>,
    /// Calls that wait: of an operation, on paths that contain a text.
    held: Mutex<Option<(Op, String)>>,
    released: Condvar,
    /// How many calls are held.
    waiting: AtomicUsize,
    /// The bytes by which files may still grow.
    free_bytes: Mutex<Option<u64>>,
    /// Whether the system has the bytes of all files in memory.
    is_in_memory: AtomicBool,
}

impl FaultyFileSystem {
    /// `inner` without faults yet.
    pub fn new(inner: Arc<dyn FileSystem>) -> Self {
        Self { inner, state: Arc::default() }
    }

    /// Adds a rule. Of several rules that match a call, the first added that is ready to fail strikes.
    pub fn add(&self, fault: Fault) -> FaultId {
        self.state.rules.lock().add(fault)
    }

    /// Removes a rule; a second time is fine.
    pub fn remove(&self, id: FaultId) {
        self.state.rules.lock().remove(id);
    }

    /// Makes calls of `op` on paths that contain `part` wait until [`FaultyFileSystem::release`], as a device
    /// that hangs does. In place of what was held before.
    pub fn hold(&self, op: Op, part: &str) {
        *self.state.held.lock() = Some((op, part.to_owned()));
        self.state.released.notify_all();
    }

    /// Lets the calls go on that are held.
    pub fn release(&self) {
        *self.state.held.lock() = None;
        self.state.released.notify_all();
    }

    /// How many calls are held now.
    pub fn waiting(&self) -> usize {
        self.state.waiting.load(Ordering::SeqCst)
    }

    /// Removes all rules and the limit on free bytes, and releases what is held.
    pub fn heal(&self) {
        self.release();
        self.state.rules.lock().clear();
        self.set_free_bytes(None);
    }

    /// How many calls a rule has made fail; still known after its removal, 0 after
    /// [`FaultyFileSystem::heal`].
    pub fn struck(&self, id: FaultId) -> u64 {
        self.state.rules.lock().struck(id)
    }

    /// What a rule has met, whether it struck or not; as long as [`FaultyFileSystem::struck`] is known.
    pub fn seen(&self, id: FaultId) -> Seen {
        self.state.rules.lock().seen(id)
    }

    /// From now on files may grow by `free_bytes` in total before `StorageFull`; `None` takes the limit away.
    pub fn set_free_bytes(&self, free_bytes: Option<u64>) {
        *self.state.free_bytes.lock() = free_bytes;
    }

    /// From now on the system has the bytes of all files in memory, or (as at the start) of none:
    /// [`ReadFile::read_at_once`] says so.
    pub fn set_in_memory(&self, is_in_memory: bool) {
        self.state.is_in_memory.store(is_in_memory, Ordering::Relaxed);
    }

    /// Runs a call under the rules.
    fn call<T>(&self, op: Op, path: &Path, body: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.state.call(op, path, 0, body)
    }

    fn writer(&self, inner: Box<dyn WriteFile>) -> io::Result<Box<dyn WriteFile>> {
        let len = self.inner.file_len(inner.path())?;
        Ok(Box::new(FaultyWriteFile { inner, len, state: self.state.clone() }))
    }

    /// Runs a call that ends the life of the files at `path`, and gives their space back.
    fn freeing<T>(&self, path: &Path, body: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let limited = self.state.free_bytes.lock().is_some();
        let bytes = if limited { bytes_below(self.inner.as_ref(), path) } else { 0 };
        let done = body()?;
        self.state.refund(bytes);
        Ok(done)
    }
}

/// Bytes of a file, or of all files in a directory; 0 for what is not there.
fn bytes_below(fs: &dyn FileSystem, path: &Path) -> u64 {
    match fs.read_dir(path) {
        Ok(entries) => entries.iter().map(|entry| bytes_below(fs, &path.join(&entry.name))).sum(),
        Err(_) => fs.file_len(path).unwrap_or(0),
    }
}

impl State {
    fn call<T>(
        &self,
        op: Op,
        path: &Path,
        bytes: usize,
        body: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        let is_held = |held: &mut Option<(Op, String)>| {
            held.as_ref().is_some_and(|(which, part)| *which == op && path.to_string_lossy().contains(part))
        };
        crate::tasks::step();
        let mut held = self.held.lock();
        if is_held(&mut held) {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            while is_held(&mut held) {
                self.released.wait(&mut held);
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        drop(held);
        let verdict = self.rules.lock().judge(op, path, bytes);
        let outcome = match verdict {
            Verdict::Go => body(),
            Verdict::Fail { kind, after_effect, .. } => {
                if after_effect {
                    body()?;
                }
                Err(with_path(op.verb(), path, kind.error()))
            }
        };
        crate::tasks::step();
        outcome
    }

    /// Takes the growth of a file from `from` to `to` bytes out of the budget, or fails with what is left.
    fn charge(&self, from: u64, to: u64) -> Result<(), u64> {
        let mut budget = self.free_bytes.lock();
        let growth = to.saturating_sub(from);
        match *budget {
            Some(free) if growth > free => Err(free),
            Some(free) => {
                *budget = Some(free - growth);
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn refund(&self, bytes: u64) {
        let mut budget = self.free_bytes.lock();
        *budget = budget.map(|free| free.saturating_add(bytes));
    }
}

fn storage_full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "no space left on device")
}

impl FileSystem for FaultyFileSystem {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.call(Op::CreateDir, path, || self.inner.create_dir_all(path))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        self.call(Op::ReadDir, path, || self.inner.read_dir(path))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.canonical(path)
    }

    fn file_len(&self, path: &Path) -> io::Result<u64> {
        self.inner.file_len(path)
    }

    fn modified_ms(&self, path: &Path) -> io::Result<i64> {
        self.inner.modified_ms(path)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn ReadFile>> {
        let inner = self.call(Op::Open, path, || self.inner.open_read(path))?;
        Ok(Arc::new(FaultyReadFile { inner, state: self.state.clone() }))
    }

    fn open_read_by(&self, path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
        let inner = self.call(Op::Open, path, || self.inner.open_read_by(path, access))?;
        Ok(Arc::new(FaultyReadFile { inner, state: self.state.clone() }))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let inner = self.call(Op::Create, path, || self.freeing(path, || self.inner.create(path)))?;
        self.writer(inner)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let inner = self.call(Op::Create, path, || self.inner.create_new(path))?;
        self.writer(inner)
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let op = if self.inner.exists(path)? { Op::Open } else { Op::Create };
        let inner = self.call(op, path, || self.inner.open_append(path))?;
        self.writer(inner)
    }

    fn open_rw(&self, path: &Path) -> io::Result<Box<dyn WriteFile>> {
        let inner = self.call(Op::Open, path, || self.inner.open_rw(path))?;
        self.writer(inner)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(Op::Rename, from, || self.freeing(to, || self.inner.rename(from, to)))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.call(Op::Remove, path, || self.freeing(path, || self.inner.remove_file(path)))
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call(Op::Remove, path, || self.inner.remove_dir(path))
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.call(Op::Remove, path, || self.freeing(path, || self.inner.remove_dir_all(path)))
    }

    fn is_private(&self, path: &Path) -> io::Result<bool> {
        self.inner.is_private(path)
    }

    fn clone_file(&self, from: &Path, to: &Path) -> io::Result<bool> {
        self.call(Op::Link, to, || self.inner.clone_file(from, to))
    }

    fn hard_link(&self, existing: &Path, link: &Path) -> io::Result<()> {
        self.call(Op::Link, link, || self.inner.hard_link(existing, link))
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call(Op::SyncDir, path, || self.inner.sync_dir(path))
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let space = self.inner.space(path)?;
        let free_bytes = self.state.free_bytes.lock().unwrap_or(space.free_bytes);
        Ok(Space { free_bytes: free_bytes.min(space.free_bytes), ..space })
    }

    fn lock_exclusive(&self, path: &Path) -> io::Result<FileLock> {
        self.call(Op::Lock, path, || self.inner.lock_exclusive(path))
    }
}

#[derive(Debug)]
struct FaultyReadFile {
    inner: Arc<dyn ReadFile>,
    state: Arc<State>,
}

impl ReadFile for FaultyReadFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.state.call(Op::Read, self.inner.path(), buf.len(), || self.inner.read_at(offset, buf))
    }

    fn read_at_once(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<usize>> {
        match self.state.is_in_memory.load(Ordering::Relaxed) {
            true => self.read_at(offset, buf).map(Some),
            false => Ok(None),
        }
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        self.inner.advise(offset, len, advice);
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn access(&self) -> Access {
        self.inner.access()
    }
}

#[derive(Debug)]
struct FaultyWriteFile {
    inner: Box<dyn WriteFile>,
    /// Length of the file, buffered bytes included.
    len: u64,
    state: Arc<State>,
}

impl FaultyWriteFile {
    /// Writes under the rules and the budget; what little of a failing write happens is written by `write`
    /// too.
    fn put(
        &mut self,
        offset: u64,
        bytes: &[u8],
        write: impl Fn(&mut dyn WriteFile, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let path = self.inner.path().to_owned();
        let verdict = self.state.rules.lock().judge(Op::Write, &path, bytes.len());
        let (allowed, outcome) = match verdict {
            Verdict::Go => (bytes.len(), Ok(())),
            Verdict::Fail { kind, after_effect, short } => {
                let allowed = if after_effect { bytes.len() } else { short.min(bytes.len()) };
                (allowed, Err(with_path(Op::Write.verb(), &path, kind.error())))
            }
        };
        let end = offset + allowed as u64;
        let (allowed, outcome) = match self.state.charge(self.len, end) {
            Ok(()) => (allowed, outcome),
            Err(free) => {
                let fits = (self.len + free).saturating_sub(offset).min(allowed as u64);
                // Cannot fail: `fits` is what is left.
                let _ = self.state.charge(self.len, offset + fits);
                (fits as usize, Err(with_path(Op::Write.verb(), &path, storage_full())))
            }
        };
        if allowed > 0 {
            write(self.inner.as_mut(), &bytes[..allowed])?;
            self.len = self.len.max(offset + allowed as u64);
        }
        outcome
    }
}

impl WriteFile for FaultyWriteFile {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.put(self.inner.position(), bytes, |file, bytes| file.write_all(bytes))
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.put(offset, bytes, |file, bytes| file.write_at(offset, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        let path = self.inner.path().to_owned();
        self.state.call(Op::Flush, &path, 0, || self.inner.flush())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        let path = self.inner.path().to_owned();
        self.state.call(Op::Sync, &path, 0, || self.inner.sync_data())
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }

    fn seek(&mut self, position: u64) -> io::Result<()> {
        self.inner.seek(position)
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        let path = self.inner.path().to_owned();
        self.state.call(Op::Truncate, &path, 0, || self.inner.truncate(len))?;
        self.state.refund(self.len.saturating_sub(len));
        self.len = len;
        Ok(())
    }

    fn allocate(&mut self, len: u64) -> io::Result<()> {
        let path = self.inner.path().to_owned();
        self.state.call(Op::Allocate, &path, 0, || {
            self.state.charge(self.len, len).map_err(|_| with_path("allocate", &path, storage_full()))?;
            self.inner.allocate(len)
        })?;
        self.len = self.len.max(len);
        Ok(())
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        Arc::new(FaultySyncFile {
            inner: self.inner.syncer(),
            path: self.inner.path().to_owned(),
            state: self.state.clone(),
        })
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

#[derive(Debug)]
struct FaultySyncFile {
    inner: Arc<dyn SyncFile>,
    path: PathBuf,
    state: Arc<State>,
}

impl SyncFile for FaultySyncFile {
    fn sync_data(&self) -> io::Result<()> {
        self.state.call(Op::Sync, &self.path, 0, || self.inner.sync_data())
    }
}

#[cfg(test)]
mod tests;
