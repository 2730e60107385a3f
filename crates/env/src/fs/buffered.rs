//! The buffer and the position of a [`WriteFile`], over a file that only knows offsets. Disk and memory share
//! it, so a forgotten flush loses the same bytes on both.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{SyncFile, WRITE_BUFFER_BYTES, WriteFile, with_path};

/// A file without buffer and position. Errors need not name the path; the wrapper does.
pub(super) trait RawFile: Send + Sync + Debug + 'static {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes bytes and length durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Sets the length.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space and grows the file to at least `len`.
    fn allocate(&self, len: u64) -> io::Result<()>;
}

/// A raw file with its path, shared by the writer and its syncers.
#[derive(Debug)]
struct Named<R> {
    raw: R,
    path: PathBuf,
}

impl<R: RawFile> SyncFile for Named<R> {
    fn sync_data(&self) -> io::Result<()> {
        self.raw.sync_data().map_err(|e| with_path("sync", &self.path, e))
    }
}

/// The one implementation of [`WriteFile`] that holds bytes back.
#[derive(Debug)]
pub(super) struct BufferedFile<R> {
    file: Arc<Named<R>>,
    /// Bytes that belong right before `position`.
    buffer: Vec<u8>,
    position: u64,
}

impl<R: RawFile> BufferedFile<R> {
    pub(super) fn new(raw: R, path: &Path, position: u64) -> Self {
        Self { file: Arc::new(Named { raw, path: path.to_owned() }), buffer: Vec::new(), position }
    }

    fn write_raw(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.raw.write_at(offset, bytes).map_err(|e| with_path("write", &self.file.path, e))
    }
}

impl<R: RawFile> WriteFile for BufferedFile<R> {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > WRITE_BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= WRITE_BUFFER_BYTES {
            self.write_raw(self.position, bytes)?;
        } else {
            self.buffer.extend_from_slice(bytes);
        }
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.write_raw(offset, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.write_raw(self.position - self.buffer.len() as u64, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        self.flush()?;
        self.file.sync_data()
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn seek(&mut self, position: u64) -> io::Result<()> {
        self.flush()?;
        self.position = position;
        Ok(())
    }

    fn truncate(&mut self, len: u64) -> io::Result<()> {
        self.flush()?;
        self.file.raw.set_len(len).map_err(|e| with_path("truncate", &self.file.path, e))?;
        self.position = self.position.min(len);
        Ok(())
    }

    fn allocate(&mut self, len: u64) -> io::Result<()> {
        self.file.raw.allocate(len).map_err(|e| with_path("allocate", &self.file.path, e))
    }

    fn syncer(&self) -> Arc<dyn SyncFile> {
        self.file.clone()
    }

    fn path(&self) -> &Path {
        &self.file.path
    }
}
