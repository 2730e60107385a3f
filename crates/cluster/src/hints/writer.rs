//! Writing a file of hints.

use super::format::{FileId, encode_header};
use crc32fast::Hasher;
use env::fs::{FileSystem, WriteFile};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// A file that is written.
#[derive(Debug)]
pub struct HintsWriter {
    id: FileId,
    file: Box<dyn WriteFile>,
    /// Of all that was written.
    hasher: Hasher,
    /// What is on the device for certain.
    synced_bytes: u64,
}

impl HintsWriter {
    /// Begins a file in the directory `dir`, with its header and a durable name.
    ///
    /// # Errors
    /// When a call of the file system fails. The file is taken away then, if that can be done.
    pub fn create(fs: &dyn FileSystem, dir: &Path, id: FileId) -> io::Result<HintsWriter> {
        let (path, header) = (dir.join(id.to_string()), encode_header(&id));
        let begin = |file: &mut dyn WriteFile| {
            file.write_all(&header)?;
            file.sync_data()?;
            fs.sync_dir(dir)
        };
        let mut file = fs.create_new(&path)?;
        if let Err(error) = begin(file.as_mut()) {
            drop(file);
            // A start removes what is left of it.
            let _ = fs.remove_file(&path);
            return Err(error);
        }
        let mut hasher = Hasher::new();
        hasher.update(&header);
        Ok(HintsWriter { id, file, hasher, synced_bytes: header.len() as u64 })
    }

    /// Which file it is.
    pub fn id(&self) -> FileId {
        self.id
    }

    /// Bytes that are on the device.
    pub fn synced_bytes(&self) -> u64 {
        self.synced_bytes
    }

    /// Appends whole entries, and waits until they are on the device.
    ///
    /// # Errors
    /// When a call of the file system fails. Nothing may be appended any more then, and what lies behind
    /// [`HintsWriter::synced_bytes`] may be anything.
    pub fn append(&mut self, entries: &[u8]) -> io::Result<()> {
        self.file.write_all(entries)?;
        self.file.sync_data()?;
        self.hasher.update(entries);
        self.synced_bytes += entries.len() as u64;
        Ok(())
    }

    /// Writes the checksum beside the file, which is complete.
    ///
    /// # Errors
    /// When a call of the file system fails. Nothing needs the checksum.
    pub fn close(self, fs: &dyn FileSystem, dir: &Path) -> io::Result<()> {
        let mut text = String::new();
        let _ = write!(text, "{:x}", self.hasher.finalize());
        fs.write(&dir.join(self.id.checksum_name()), text.as_bytes())
    }

    /// Gives the file up after an error: cuts off what may be anything, if that can be done.
    pub fn give_up(mut self) {
        if let Err(error) = self.file.truncate(self.synced_bytes) {
            tracing::warn!(%error, "a file of hints is left with a torn end");
        }
    }
}
