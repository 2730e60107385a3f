//! Files read from a mapping.
//!
//! A read copies out of the mapping, so nobody outside holds memory that the file could take away. What lies
//! behind the end of a file that became shorter cannot be read from a mapping without a signal that ends the
//! process: the file's length is looked up before each read, and one that has shrunk is an error. The limit:
//! whoever truncates a file in the instant between the look and the copy still ends the process, as does a
//! device that fails to deliver a page. Files of SSTables are never changed by this node; do not let others
//! truncate them in place.

use super::super::{Access, Advice, ReadFile, with_path};
use super::DiskReadFile;
use memmap2::Mmap;
use std::io;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
struct MappedFile {
    map: Mmap,
    plain: DiskReadFile,
}

/// Maps the file as long as it is now. An empty one has nothing to map.
pub(super) fn open(plain: DiskReadFile) -> io::Result<Arc<dyn ReadFile>> {
    if plain.len == 0 {
        return Ok(Arc::new(plain));
    }
    // SAFETY: the mapping is read only, and only by copies of its bytes that are made after the file was seen
    // to be long enough; no reference into it outlives a read. What remains is the limit that the module
    // names.
    let map = unsafe { Mmap::map(&plain.file) }.map_err(|e| with_path("map", &plain.path, e))?;
    Ok(Arc::new(MappedFile { map, plain }))
}

impl ReadFile for MappedFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.map.len());
        let len = buf.len().min(self.map.len() - start);
        let now = self.plain.file.metadata().map_err(|e| with_path("measure", &self.plain.path, e))?.len();
        if now < (start + len) as u64 {
            let cause = format!("the mapped file of {} bytes was cut to {now}", self.plain.len);
            let cause = io::Error::new(io::ErrorKind::UnexpectedEof, cause);
            return Err(with_path("read", &self.plain.path, cause));
        }
        buf[..len].copy_from_slice(&self.map[start..start + len]);
        Ok(len)
    }

    /// Touching the mapping could wait for the device; a call says when it would.
    fn read_at_once(&self, offset: u64, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.plain.read_at_once(offset, buf)
    }

    fn len(&self) -> u64 {
        self.plain.len
    }

    fn advise(&self, offset: u64, len: u64, advice: Advice) {
        self.plain.advise(offset, len, advice);
    }

    fn path(&self) -> &Path {
        &self.plain.path
    }

    fn access(&self) -> Access {
        Access::Mapped
    }
}
