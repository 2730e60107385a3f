//! Files in pages: what a cache can hold, and a cursor that decodes over them.
//!
//! A data file's pages are its chunks, decompressed and checked; an index file's are plain pages of 4 KiB. A
//! [`PageSource`] decides whether a page comes from memory; if not, a [`PagedFile`] loads it. A [`Cursor`]
//! decodes what lies in pages as if there were none.

mod ahead;
mod cursor;
mod file;
mod in_page;
mod pass;

pub(crate) use ahead::{Course, Wish};
pub(crate) use cursor::Cursor;
pub(crate) use file::{PageLayout, PagedFile};
pub(crate) use in_page::{InPage, NotInPage};
pub(crate) use pass::Pass;

use bytes::Bytes;
use env::fs::Access;
use partition::{ReadContext, ReadError};
use std::fmt::Debug;

/// Bytes of a page of an index; trie nodes do not cross its end.
pub(crate) const INDEX_PAGE_BYTES: u64 = 4 << 10;
/// Bytes of a page of a data file without CompressionInfo.db and CRC.db.
pub(crate) const PLAIN_PAGE_BYTES: u64 = 16 << 10;

/// Which file of an SSTable a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FilePart {
    /// Data.db: pages are chunks.
    Data,
    /// Index.db, or Partitions.db.
    Index,
    /// Rows.db.
    Rows,
    /// Not a file: the directories of Index.db's intervals, made of its entries.
    IndexDirectory,
    /// Outline.db.
    Outline,
    /// Blocks.db.
    Blocks,
}

/// A paged file; the key of a cache together with the number of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    /// Number that the opener gave the SSTable, never used twice in a process.
    pub sstable: u64,
    /// Which of its files.
    pub part: FilePart,
}

/// Where pages come from: a cache in front of the files, or nothing at all ([`Uncached`]).
pub trait PageSource: Send + Sync + Debug {
    /// The page, from memory or by `load`. Counts the hit or the miss in `context.cost` ([`count_page`]
    /// does). Instead of loading it returns [`ReadError::WouldBlock`] when the context may not load
    /// ([`ReadContext::may_load`]), and [`ReadError::TimedOut`] when its deadline is over.
    ///
    /// # Errors
    /// Those of `load`.
    fn page(
        &self,
        file: FileId,
        page: u64,
        context: &ReadContext,
        load: &mut dyn FnMut() -> Result<Bytes, ReadError>,
    ) -> Result<Bytes, ReadError>;

    /// Hands the page to `look` and counts the hit, if it is in memory; otherwise it does and counts nothing.
    /// It is for callers that do not keep the page: no count of its users is touched. Looking must be short
    /// and ask for no other page.
    ///
    /// # Errors
    /// [`ReadError::WouldBlock`] when finding out takes waiting that the context does not allow.
    fn look(
        &self,
        _file: FileId,
        _page: u64,
        _context: &ReadContext,
        _look: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, ReadError> {
        Ok(false)
    }

    /// Whether the page is in memory. Asking counts nothing and makes nothing hotter.
    fn has(&self, _file: FileId, _page: u64) -> bool {
        false
    }

    /// Keeps a page that nobody asked for yet as one that was needed `count` times, if there is room for
    /// such.
    fn keep(&self, _file: FileId, _page: u64, _content: &[u8], _count: u8) {}

    /// Lets the pages of SSTables go that nobody opens any more: `pages` are all that there may be of those
    /// with these numbers, `count` of them. It takes a while where they are many. Pages that a reader who
    /// still has one open asks for later come back, and go when their turn comes.
    fn forget(&self, _sstables: &[u64], _count: u64, _pages: &mut dyn Iterator<Item = (FileId, u64)>) {}

    /// How files are to be read, if the file system can.
    fn access(&self, _part: FilePart) -> Access {
        Access::Buffered
    }

    /// Whether a page that is loaded for this read stays for later ones.
    fn keeps(&self, part: FilePart, context: &ReadContext) -> bool {
        context.fill_cache && (part == FilePart::Data || context.fill_index_cache)
    }
}

/// Gets the pages of a data file while it is written.
pub trait PageSink: Send + Debug {
    /// The content of a page, as a reader will see it.
    fn page(&mut self, page: u64, content: &[u8]);
}

/// Counts a page that was found in memory (`hit`) or had to be loaded.
pub fn count_page(context: &ReadContext, part: FilePart, hit: bool) {
    let cost = &context.cost;
    let counter = match (part, hit) {
        (FilePart::Data, true) => &cost.chunk_hits,
        (FilePart::Data, false) => &cost.chunk_misses,
        (_, true) => &cost.index_page_hits,
        (_, false) => &cost.index_page_misses,
    };
    counter.add(1);
}

/// No cache: every page is loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Uncached;

impl PageSource for Uncached {
    fn page(
        &self,
        file: FileId,
        _page: u64,
        context: &ReadContext,
        load: &mut dyn FnMut() -> Result<Bytes, ReadError>,
    ) -> Result<Bytes, ReadError> {
        count_page(context, file.part, false);
        if !context.may_load() {
            return Err(ReadError::WouldBlock);
        }
        context.check_deadline()?;
        load()
    }

    fn keeps(&self, _: FilePart, _: &ReadContext) -> bool {
        false
    }
}
