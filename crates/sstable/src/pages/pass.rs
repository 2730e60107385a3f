//! A file read once from start to end, around the page cache: for all its checksums, and for the content of
//! those pages that somebody wants on the way.

use super::file::{PageLayout, PagedFile};
use bytes::Bytes;
use crc32fast::Hasher;
use env::fs::ReadFile;
use partition::ReadError;

/// Bytes that are read at once; a page more where they end inside of one.
const RUN_BYTES: u64 = 256 << 10;

/// What a file sums up to.
#[derive(Debug)]
pub(crate) struct Sums {
    /// The CRC-32 of the whole file.
    pub digest: u32,
    /// The checksums that stand behind the chunks of a compressed file.
    pub chunks: Vec<u32>,
    /// The error of the first page that does not fit its own checksum.
    pub damage: Option<ReadError>,
}

/// Told of the bytes of each run of pages, it ends the pass by `false`.
pub(crate) type Pace<'p> = &'p mut dyn FnMut(u64) -> bool;

/// A pass over a file, as far as it has come.
pub(crate) struct Pass<'p> {
    pages: &'p PagedFile,
    file: &'p dyn ReadFile,
    pace: Pace<'p>,
    digest: Hasher,
    chunks: Vec<u32>,
    damage: Option<ReadError>,
    /// The run of pages that was read last, as they are stored.
    run: Vec<u8>,
    /// Where the run starts in the file, and the number of its first page.
    run_start: u64,
    run_page: u64,
    /// Where each page of the run ends, in bytes from the run's start.
    ends: Vec<usize>,
    /// Where the next run starts.
    at: u64,
    is_stopped: bool,
}

impl<'p> Pass<'p> {
    /// A pass over `pages`, read by way of `file`.
    pub fn new(pages: &'p PagedFile, file: &'p dyn ReadFile, pace: Pace<'p>) -> Pass<'p> {
        Pass {
            pages,
            file,
            pace,
            digest: Hasher::new(),
            chunks: Vec::new(),
            damage: None,
            run: Vec::new(),
            run_start: 0,
            run_page: 0,
            ends: Vec::new(),
            at: 0,
            is_stopped: false,
        }
    }

    /// The file that is read.
    pub fn pages(&self) -> &'p PagedFile {
        self.pages
    }

    /// The page behind the run.
    fn next_page(&self) -> u64 {
        self.run_page + self.ends.len() as u64
    }

    /// Reads the next run of pages; `false` at the end, and when the pace ended the pass.
    fn advance(&mut self) -> Result<bool, ReadError> {
        // Cassandra may have ended a file by a chunk of nothing.
        let pages = self.pages.page_count().max(self.pages.chunks());
        let page = self.next_page();
        if page >= pages || self.is_stopped {
            return Ok(false);
        }
        (self.run_page, self.run_start) = (page, self.at);
        self.ends.clear();
        while self.next_page() < pages && self.at - self.run_start < RUN_BYTES {
            let place = self.pages.stored(self.next_page())?;
            if place.start != self.at {
                let detail = format!("a chunk that begins at {} of the file", place.start);
                return Err(self.pages.corrupt(self.at, detail));
            }
            self.at = place.end;
            self.ends.push((self.at - self.run_start) as usize);
        }
        self.run.resize((self.at - self.run_start) as usize, 0);
        self.file.read_exact_at(self.run_start, &mut self.run)?;
        self.digest.update(&self.run);
        let mut start = 0;
        for (page, end) in (self.run_page..).zip(&self.ends) {
            let bytes = self.run.get(start..*end).unwrap_or_default();
            let sum = self.pages.check_stored(page, self.run_start + start as u64, bytes);
            self.damage = self.damage.take().or(sum.err());
            self.chunks.extend(seal_of_chunk(self.pages, bytes));
            start = *end;
        }
        self.is_stopped = !(self.pace)(self.run.len() as u64);
        Ok(!self.is_stopped)
    }

    /// The content of a page that does not lie before the run at hand. `None` when the pass ended before it,
    /// or met a page that does not fit its checksum.
    ///
    /// # Errors
    /// As [`Pass::finish`], and when the page cannot be decompressed.
    pub fn content(&mut self, page: u64) -> Result<Option<Bytes>, ReadError> {
        while page >= self.next_page() {
            if !self.advance()? {
                return Ok(None);
            }
        }
        let in_run = page.checked_sub(self.run_page).filter(|_| self.damage.is_none());
        let Some(number) = in_run.map(|number| number as usize) else { return Ok(None) };
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(number).copied().unwrap_or(start);
        let bytes = self.run.get(start..end).unwrap_or_default();
        self.pages.content_of(page, self.run_start + start as u64, bytes).map(Some)
    }

    /// Reads the rest of the file; `None` when the pace ended the pass.
    ///
    /// # Errors
    /// When the file cannot be read, or its pages do not fill it one behind the other.
    pub fn finish(mut self) -> Result<Option<Sums>, ReadError> {
        while self.advance()? {}
        if self.is_stopped {
            return Ok(None);
        }
        if self.at != self.file.len() {
            let detail = format!("{} bytes that belong to no chunk", self.file.len() - self.at);
            return Err(self.pages.corrupt(self.at, detail));
        }
        Ok(Some(Sums { digest: self.digest.finalize(), chunks: self.chunks, damage: self.damage }))
    }
}

/// The checksum that stands behind a chunk; `None` in a file of another layout.
fn seal_of_chunk(pages: &PagedFile, stored: &[u8]) -> Option<u32> {
    let sum = stored.last_chunk::<4>().filter(|_| matches!(pages.layout, PageLayout::Compressed(_)));
    sum.map(|sum| u32::from_be_bytes(*sum))
}
