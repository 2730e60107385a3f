//! Files that stay open for reads, of which there may be more than a process may have open.
//!
//! A node has two or three files open for each SSTable. Up to [`set_open_max`] they stay open; beyond it
//! those that were not read lately are closed (a second chance each, in the order of their opening), and
//! opened again by their names when they are read. A file that loses its name stays readable all the same:
//! before a name goes, the files that were opened by it are opened again, and kept open ([`keep_open`]).

use super::super::{Access, Advice, ReadFile, with_path};
use super::open_unpooled;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Entries of files that are gone are swept out when there are so many more than after the last time.
const SWEEP: usize = 1024;

/// Files without a name may stay open beyond the limit, by this part of it.
const KEPT_SHARE: usize = 6;

/// Files of the pool that are open now; one that is read around the system's cache counts twice.
static OPEN: AtomicUsize = AtomicUsize::new(0);
static POOL: Mutex<Pool> = Mutex::new(Pool {
    open_max: usize::MAX,
    queue: VecDeque::new(),
    names: BTreeMap::new(),
    sweep_at: SWEEP,
});

struct Pool {
    open_max: usize,
    /// Those that may be closed, and some that are gone.
    queue: VecDeque<Weak<PooledFile>>,
    names: BTreeMap<PathBuf, Vec<Weak<PooledFile>>>,
    sweep_at: usize,
}

/// Sets how many files may stay open.
pub(super) fn set_open_max(files: usize) {
    POOL.lock().open_max = files;
}

/// To be called before `path`, a file or a directory, loses its name: files that were opened by it, or by a
/// name below it, are from now on open. Only when there are far too many of those at once, as when thousands
/// of SSTables are replaced by one, some stay closed, and who still reads them gets an error.
pub(super) fn keep_open(path: &Path) {
    let (named, open_max) = {
        let pool = POOL.lock();
        let below = pool.names.range(path.to_owned()..).take_while(|(name, _)| name.starts_with(path));
        let named: Vec<_> = below.flat_map(|(_, files)| files.iter().cloned()).collect();
        (named, pool.open_max)
    };
    for file in named.iter().filter_map(Weak::upgrade) {
        file.is_kept.store(true, Ordering::Relaxed);
        if OPEN.load(Ordering::Relaxed) <= open_max.saturating_add(open_max / KEPT_SHARE) {
            // What cannot be opened cannot be read either, which its reader is told.
            let _ = file.with(|_| ());
        }
    }
}

/// Opens a file that may be closed while it is not read.
pub(super) fn open(path: &Path, access: Access) -> io::Result<Arc<dyn ReadFile>> {
    make_room(weight(access));
    let file = open_unpooled(path, access)?;
    let (len, access) = (file.len(), file.access());
    let identity = identity(path)?;
    OPEN.fetch_add(weight(access), Ordering::Relaxed);
    let pooled = Arc::new_cyclic(|me| PooledFile {
        path: path.to_owned(),
        access,
        len,
        identity,
        is_read: AtomicBool::new(false),
        is_kept: AtomicBool::new(false),
        file: RwLock::new(Some(file)),
        me: Weak::clone(me),
    });
    let mut pool = POOL.lock();
    pool.sweep();
    pool.queue.push_back(Arc::downgrade(&pooled));
    pool.names.entry(path.to_owned()).or_default().push(Arc::downgrade(&pooled));
    Ok(pooled)
}

/// Files that it takes to read a file so.
fn weight(access: Access) -> usize {
    if access == Access::Direct { 2 } else { 1 }
}

/// What tells a file from another one of the same name.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::metadata(path).map_err(|e| with_path("measure", path, e))?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Closes files until `wanted` more may be opened, or none is left that nobody reads.
fn make_room(wanted: usize) {
    // Whoever holds the last handle of a file drops it behind the lock.
    let mut seen = Vec::new();
    let mut pool = POOL.lock();
    let mut looks = 2 * pool.queue.len();
    while OPEN.load(Ordering::Relaxed) + wanted > pool.open_max && looks > 0 {
        looks -= 1;
        let Some(next) = pool.queue.pop_front() else { break };
        let Some(file) = next.upgrade() else { continue };
        if !file.close() && !file.is_kept.load(Ordering::Relaxed) {
            pool.queue.push_back(next);
        }
        seen.push(file);
    }
    drop(pool);
}

impl Pool {
    /// Forgets files that are gone, now and then.
    fn sweep(&mut self) {
        if self.names.len().max(self.queue.len()) < self.sweep_at {
            return;
        }
        let is_there = |file: &Weak<PooledFile>| file.strong_count() > 0;
        self.queue.retain(is_there);
        self.names.retain(|_, files| {
            files.retain(is_there);
            !files.is_empty()
        });
        self.sweep_at = 2 * self.names.len().max(self.queue.len()) + SWEEP;
    }
}

#[derive(Debug)]
struct PooledFile {
    path: PathBuf,
    access: Access,
    len: u64,
    /// Device and number of the file.
    identity: (u64, u64),
    /// Whether it was read since the last look at it.
    is_read: AtomicBool,
    /// Whether it has to stay open.
    is_kept: AtomicBool,
    /// `None` while it is closed.
    file: RwLock<Option<Arc<dyn ReadFile>>>,
    me: Weak<PooledFile>,
}

impl PooledFile {
    fn was_read(&self) {
        // Readers of one file do not take the line from each other to say the same.
        if !self.is_read.load(Ordering::Relaxed) {
            self.is_read.store(true, Ordering::Relaxed);
        }
    }

    /// Does something with the file, which is opened if it is not.
    fn with<T>(&self, work: impl FnOnce(&dyn ReadFile) -> T) -> io::Result<T> {
        if let Some(file) = &*self.file.read() {
            self.was_read();
            return Ok(work(file.as_ref()));
        }
        make_room(weight(self.access));
        let mut slot = self.file.write();
        if let Some(file) = &*slot {
            return Ok(work(file.as_ref()));
        }
        let file = open_unpooled(&self.path, self.access)?;
        if identity(&self.path)? != self.identity || file.len() != self.len {
            let cause = io::Error::new(io::ErrorKind::NotFound, "another file has its name");
            return Err(with_path("open", &self.path, cause));
        }
        OPEN.fetch_add(weight(self.access), Ordering::Relaxed);
        let file = slot.insert(file);
        POOL.lock().queue.push_back(Weak::clone(&self.me));
        Ok(work(file.as_ref()))
    }

    /// What the file says to a reader who may not wait; `None` of one that is closed, or is opened or closed
    /// at this moment.
    fn at_once<T>(&self, read: impl FnOnce(&dyn ReadFile) -> io::Result<Option<T>>) -> io::Result<Option<T>> {
        let Some(slot) = self.file.try_read() else { return Ok(None) };
        let Some(file) = &*slot else { return Ok(None) };
        self.was_read();
        read(file.as_ref())
    }

    /// Closes the file if nobody has read it since the last call, and nobody does now.
    fn close(&self) -> bool {
        let Some(mut slot) = self.file.try_write() else { return false };
        if self.is_kept.load(Ordering::Relaxed) || self.is_read.swap(false, Ordering::Relaxed) {
            return false;
        }
        let is_closed = slot.take().is_some();
        OPEN.fetch_sub(if is_closed { weight(self.access) } else { 0 }, Ordering::Relaxed);
        true
    }
}

impl Drop for PooledFile {
    fn drop(&mut self) {
        if self.file.get_mut().is_some() {
            OPEN.fetch_sub(weight(self.access), Ordering::Relaxed);
        }
    }
}

impl ReadFile for PooledFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.with(|file| file.read_at(offset, buf))?
    }

    fn read_at_once(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.at_once(|file| file.read_at_once(offset, buf))
    }

    fn read_vec_at(
        &self,
        offset: u64,
        len: usize,
        after: &mut [u8],
        may_wait: bool,
    ) -> io::Result<Option<Vec<u8>>> {
        if may_wait {
            return self.with(|file| file.read_vec_at(offset, len, after, true))?;
        }
        self.at_once(|file| file.read_vec_at(offset, len, after, false))
    }

    fn len(&self) -> u64 {
        self.len
    }

    /// Of a file that is closed the system keeps no hints.
    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        if let Some(file) = &*self.file.read() {
            file.advise(offset, len, advice);
        }
    }

    fn path(&self) -> &Path {
        &self.path
    }

    fn access(&self) -> Access {
        self.access
    }
}
