//! Files read around the system's cache (O_DIRECT).
//!
//! The device transfers whole blocks between block-aligned places in the file and in memory, so a read goes
//! through a scratch buffer of the thread's own, of [`BYTES_MAX`]. A file system that has no direct reads (an
//! older tmpfs, some FUSE ones) refuses at the opening or at the first read, which is made there and then;
//! such a file is read as any other.

use super::super::{Access, Advice, ReadFile, with_path};
use super::DiskReadFile;
use rustix::fs::OFlags;
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// What places and lengths are multiples of: the block size of devices is this or a part of it.
pub(in super::super) const BLOCK_BYTES: usize = 4 << 10;
/// Bytes that one call reads at most.
pub(in super::super) const BYTES_MAX: usize = 256 << 10;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

#[cfg(test)]
thread_local! {
    /// Calls for direct reads that this thread has made, and bytes that they read.
    pub(in super::super) static TAKEN: std::cell::Cell<(u64, u64)> = const { std::cell::Cell::new((0, 0)) };
}

#[derive(Debug)]
struct DirectFile {
    direct: File,
    plain: DiskReadFile,
}

/// Opens the file once more for direct reads; gives it back as it is where there are none.
pub(super) fn open(plain: DiskReadFile) -> io::Result<Arc<dyn ReadFile>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::DIRECT.bits() as i32);
    let is_refused =
        |e: &io::Error| matches!(e.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported);
    let direct = match options.open(&plain.path) {
        Ok(file) => file,
        Err(e) if is_refused(&e) => return Ok(Arc::new(plain)),
        Err(e) => return Err(with_path("open", &plain.path, e)),
    };
    let file = DirectFile { direct, plain };
    match file.read_blocks(0, &mut [0]) {
        Ok(_) => Ok(Arc::new(file)),
        Err(e) if is_refused(&e) => Ok(Arc::new(file.plain)),
        Err(e) => Err(with_path("read", &file.plain.path, e)),
    }
}

impl DirectFile {
    /// Reads into the first bytes of `buf`, by one call; how many.
    fn read_blocks(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let before = (offset % BLOCK_BYTES as u64) as usize;
        let wanted = (before + buf.len()).next_multiple_of(BLOCK_BYTES).min(BYTES_MAX);
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.resize(BYTES_MAX + BLOCK_BYTES, 0);
            let aligned = scratch.as_ptr().align_offset(BLOCK_BYTES);
            let blocks = &mut scratch[aligned..aligned + wanted];
            let got = loop {
                match self.direct.read_at(blocks, offset - before as u64) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    other => break other?,
                }
            };
            #[cfg(test)]
            TAKEN.set((TAKEN.get().0 + 1, TAKEN.get().1 + got as u64));
            let found = blocks[..got].get(before..).unwrap_or_default();
            let len = found.len().min(buf.len());
            buf[..len].copy_from_slice(&found[..len]);
            Ok(len)
        })
    }
}

impl ReadFile for DirectFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut got = 0;
        while got < buf.len() {
            match self.read_blocks(offset + got as u64, &mut buf[got..]) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(e) => return Err(with_path("read", &self.plain.path, e)),
            }
        }
        Ok(got)
    }

    fn len(&self) -> u64 {
        self.plain.len
    }

    /// The system keeps nothing of the file that it could be advised about.
    fn advise(&self, _: u64, _: u64, _: Advice) {}

    fn path(&self) -> &Path {
        &self.plain.path
    }

    fn access(&self) -> Access {
        Access::Direct
    }
}
