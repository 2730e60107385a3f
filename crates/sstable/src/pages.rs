//! Files in pages: what a cache can hold, and a cursor that decodes over them.
//!
//! A data file's pages are its chunks, decompressed and checked; an index file's are plain pages of 4 KiB. A
//! [`PageSource`] decides whether a page comes from memory. [`Cursor`] reads vints, arrays and values over page
//! boundaries: a value inside one page is a slice of it, one that crosses pages is copied once, and a value that is
//! stepped over touches no page.

use crate::checksum::{ChunkCrcs, CrcChecks, seal_of};
use crate::compression::CompressionInfo;
use crate::outline::{Outline, OutlineReader};
use bytes::Bytes;
use env::fs::{Access, ReadFile};
use model::vint;
use partition::codec::Input;
use partition::{ReadContext, ReadError};
use std::borrow::Cow;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a page of an index; trie nodes do not cross its end.
pub(crate) const INDEX_PAGE_BYTES: u64 = 4 << 10;
/// Bytes of a page of a data file without CompressionInfo.db and CRC.db.
pub(crate) const PLAIN_PAGE_BYTES: u64 = 16 << 10;
/// Bytes that are read from a file at once, at most, when it is known that more than a page is needed.
const AHEAD_BYTES_MAX: u64 = 1 << 20;

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
    /// The page, from memory or by `load`. Counts the hit or the miss in `context.cost` ([`count_page`] does), and
    /// returns [`ReadError::WouldBlock`] instead of loading when the context may not block, and
    /// [`ReadError::TimedOut`] when its deadline is over.
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

    /// Keeps a page that nobody asked for yet, if there is room for such.
    fn keep(&self, _file: FileId, _page: u64, _content: &[u8]) {}

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
        if !context.may_block {
            return Err(ReadError::WouldBlock);
        }
        context.check_deadline()?;
        count_page(context, file.part, false);
        load()
    }

    fn keeps(&self, _: FilePart, _: &ReadContext) -> bool {
        false
    }
}

/// How pages lie in the file.
#[derive(Debug)]
pub(crate) enum PageLayout {
    /// As they are, unchecked.
    Plain,
    /// As they are, each with a checksum elsewhere.
    Checked(ChunkCrcs),
    /// Compressed, each followed by its checksum.
    Compressed(CompressionInfo),
    /// As they are, each ending with its checksum ([`crate::checksum::seal_page`]).
    Sealed,
}

/// The end of a file that is being written: what has no place in a cache, because it will change.
#[derive(Debug)]
struct Tail {
    first_page: u64,
    bytes: Bytes,
}

/// A file whose content is read in pages.
#[derive(Debug)]
pub(crate) struct PagedFile {
    pub id: FileId,
    pub name: Arc<str>,
    file: Arc<dyn ReadFile>,
    /// Bytes of content.
    pub len: u64,
    page_len: u64,
    layout: PageLayout,
    tail: Option<Tail>,
    /// Which loads check the page's checksum, if it has one.
    pub crc_checks: CrcChecks,
}

impl PagedFile {
    pub fn new(id: FileId, name: Arc<str>, file: Arc<dyn ReadFile>, layout: PageLayout) -> PagedFile {
        let (len, page_len) = match &layout {
            PageLayout::Plain if id.part != FilePart::Data => (file.len(), INDEX_PAGE_BYTES),
            PageLayout::Sealed => (file.len(), INDEX_PAGE_BYTES),
            PageLayout::Plain => (file.len(), PLAIN_PAGE_BYTES),
            PageLayout::Checked(crcs) => (file.len(), crcs.chunk_len as u64),
            PageLayout::Compressed(info) => (info.data_len, info.params.chunk_len as u64),
        };
        PagedFile { id, name, file, len, page_len, layout, tail: None, crc_checks: CrcChecks::default() }
    }

    /// Gives a file that is being written the content that its end has at this moment, in memory: `bytes` from the start
    /// of a page on. The pages before are as they will be.
    pub fn with_tail(mut self, start: u64, bytes: Bytes) -> PagedFile {
        self.len = start + bytes.len() as u64;
        self.tail = Some(Tail { first_page: start / self.page_len, bytes });
        self
    }

    /// The file itself.
    pub fn raw(&self) -> &dyn ReadFile {
        self.file.as_ref()
    }

    /// Whether the file is being written, so that what lies at its end now will lie elsewhere.
    pub fn is_growing(&self) -> bool {
        self.tail.is_some()
    }

    fn page_in_tail(&self, page: u64) -> Option<Bytes> {
        let tail = self.tail.as_ref()?;
        let start = usize::try_from(page.checked_sub(tail.first_page)? * self.page_len).ok()?;
        let end = tail.bytes.len().min(start.saturating_add(self.page_len as usize));
        (start < end).then(|| tail.bytes.slice(start..end))
    }

    /// Bytes that the layout keeps in memory.
    pub fn memory_bytes(&self) -> usize {
        match &self.layout {
            PageLayout::Plain | PageLayout::Sealed => 0,
            PageLayout::Checked(crcs) => crcs.crcs.len() * 4,
            PageLayout::Compressed(info) => info.offsets.len() * 8,
        }
    }

    #[cold]
    pub fn corrupt(&self, offset: u64, detail: String) -> ReadError {
        ReadError::corrupt(&self.name, offset, detail)
    }

    /// Number of pages.
    pub fn page_count(&self) -> u64 {
        self.len.div_ceil(self.page_len)
    }

    /// Number of checksums that are kept in another file; `None` where there is none.
    pub fn stored_pages(&self) -> Option<u64> {
        match &self.layout {
            PageLayout::Checked(crcs) => Some(crcs.crcs.len() as u64),
            _ => None,
        }
    }

    /// Reads a page to see whether it is sound.
    pub fn check_page(&self, page: u64, context: &ReadContext) -> Result<(), ReadError> {
        self.load(page, context).map(drop)
    }

    fn read_raw(&self, offset: u64, len: u64, context: &ReadContext) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; len as usize];
        self.file.read_exact_at(offset, &mut bytes)?;
        context.cost.ios.add(1);
        match self.file.access() {
            Access::Buffered => {}
            Access::Direct => context.cost.direct_ios.add(1),
            Access::Mapped => context.cost.mapped_ios.add(1),
        }
        context.cost.disk_bytes.add(len);
        Ok(bytes)
    }

    /// Bytes of a page's content.
    fn content_len(&self, page: u64) -> u64 {
        self.page_len.min(self.len.saturating_sub(page.saturating_mul(self.page_len)))
    }

    /// Where a page lies in the file, from and to.
    fn stored(&self, page: u64) -> Result<Range<u64>, ReadError> {
        let PageLayout::Compressed(info) = &self.layout else {
            let start = page * self.page_len;
            return Ok(start..start + self.content_len(page));
        };
        let file_len = self.file.len();
        let chunk = info.chunk(page, file_len).filter(|(start, len)| *len >= 4 && start + len <= file_len);
        let Some((start, stored)) = chunk else {
            return Err(self.corrupt(0, format!("chunk {page} does not lie in the file of {file_len} bytes")));
        };
        // A chunk is never much longer than its content, so a damaged offset cannot make us read gigabytes.
        let most = (self.page_len * 2 + 1024)
            .max(info.params.max_compressed_len.min(self.page_len as u32 * 4) as u64 + 4);
        if stored > most {
            let content = self.content_len(page);
            return Err(
                self.corrupt(start, format!("chunk {page} of {stored} bytes for {content} of content"))
            );
        }
        Ok(start..start + stored)
    }

    /// Reads a page, checks it unless chance lets it off, and decompresses it.
    pub fn load(&self, page: u64, context: &ReadContext) -> Result<Bytes, ReadError> {
        let stored = self.stored(page)?;
        let bytes = self.read_raw(stored.start, stored.end - stored.start, context)?;
        self.decode(page, stored.start, bytes.into(), context)
    }

    /// As [`PagedFile::load`]. Unless `ahead` holds the page already, the pages behind it up to `last` are read into it
    /// by the same call to the file system.
    fn load_ahead(
        &self,
        page: u64,
        last: u64,
        ahead: &mut Option<Box<Ahead>>,
        context: &ReadContext,
    ) -> Result<Bytes, ReadError> {
        let stored = self.stored(page)?;
        if let Some(bytes) = ahead.as_ref().and_then(|ahead| ahead.get(&stored)) {
            return self.decode(page, stored.start, bytes.into(), context);
        }
        let mut end = stored.end;
        let pages = self.tail.as_ref().map_or(self.page_count(), |tail| tail.first_page);
        for next in page + 1..pages.min(last.saturating_add(1)) {
            match self.stored(next) {
                Ok(next) if next.start == end && next.end - stored.start <= AHEAD_BYTES_MAX => end = next.end,
                _ => break,
            }
        }
        if end == stored.end {
            return self.load(page, context);
        }
        let bytes = self.read_raw(stored.start, end - stored.start, context)?;
        let ahead = ahead.insert(Box::new(Ahead { start: stored.start, bytes }));
        self.decode(page, stored.start, ahead.get(&stored).unwrap_or_default().into(), context)
    }

    /// The content of a page that is stored as `bytes`, at `start` in the file.
    fn decode(
        &self,
        page: u64,
        start: u64,
        mut bytes: Cow<'_, [u8]>,
        context: &ReadContext,
    ) -> Result<Bytes, ReadError> {
        match &self.layout {
            PageLayout::Plain => {}
            PageLayout::Checked(crcs) => {
                let check = self.crc_checks.is_due().then(|| crc32fast::hash(&bytes));
                let expected = usize::try_from(page).ok().and_then(|page| crcs.crcs.get(page));
                if let Some(found) = check.filter(|found| expected != Some(found)) {
                    let len = bytes.len();
                    let detail =
                        format!("checksum of {len} bytes is {found:#010x}, CRC.db has {expected:x?}");
                    return Err(self.corrupt(start, detail));
                }
            }
            PageLayout::Compressed(info) => return self.decode_chunk(info, page, start, bytes, context),
            PageLayout::Sealed => {
                let content = bytes.split_last_chunk::<4>().map(|(content, sum)| {
                    (seal_of(content, page) == u32::from_be_bytes(*sum)).then_some(content.len())
                });
                let Some(len) = content.flatten() else {
                    return Err(self.corrupt(start, format!("the checksum of page {page} does not fit it")));
                };
                bytes.to_mut().truncate(len);
            }
        }
        Ok(bytes.into_owned().into())
    }

    fn decode_chunk(
        &self,
        info: &CompressionInfo,
        page: u64,
        start: u64,
        mut bytes: Cow<'_, [u8]>,
        context: &ReadContext,
    ) -> Result<Bytes, ReadError> {
        let len = self.content_len(page) as usize;
        let Some((payload, sum)) = bytes.split_last_chunk::<4>() else {
            return Err(self.corrupt(start, format!("chunk {page} has no checksum")));
        };
        let expected = u32::from_be_bytes(*sum);
        let found = if self.crc_checks.is_due() { crc32fast::hash(payload) } else { expected };
        if expected != found {
            let detail = format!("checksum of chunk {page} is {found:#010x}, {expected:#010x} is stored");
            return Err(self.corrupt(start, detail));
        }
        if payload.len() < info.params.max_compressed_len as usize {
            let out = info
                .params
                .compressor
                .decompress(payload, len)
                .map_err(|e| self.corrupt(start, format!("chunk {page}: {e}")))?;
            context.cost.decompressed_bytes.add(len as u64);
            return Ok(out.into());
        }
        if payload.len() < len {
            let detail = format!("raw chunk {page} of {} bytes for {len} of content", payload.len());
            return Err(self.corrupt(start, detail));
        }
        bytes.to_mut().truncate(len);
        Ok(bytes.into_owned().into())
    }
}

/// A stretch of a file that was read at once, for pages that are to be made of it.
#[derive(Clone, Debug)]
struct Ahead {
    /// Where it starts in the file.
    start: u64,
    bytes: Vec<u8>,
}

impl Ahead {
    fn get(&self, stored: &Range<u64>) -> Option<&[u8]> {
        let at = |position: u64| usize::try_from(position.checked_sub(self.start)?).ok();
        self.bytes.get(at(stored.start)?..at(stored.end)?)
    }
}

/// A position in a paged file, and the page that it lies in.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    file: Arc<PagedFile>,
    pages: Arc<dyn PageSource>,
    context: ReadContext,
    page: Bytes,
    /// Position of the first byte of `page`; of the cursor, when there is no page.
    start: u64,
    /// The cursor in `page`; may lie behind it.
    at: usize,
    /// Where to look for what lies behind a jump, before the file itself.
    outline: Option<Box<OutlineReader>>,
    /// Up to where the value goes on that is being read: a page that has to be read is read together with those behind it
    /// up to there.
    until: u64,
    ahead: Option<Box<Ahead>>,
}

impl Cursor {
    pub fn new(file: Arc<PagedFile>, pages: Arc<dyn PageSource>, context: ReadContext) -> Cursor {
        Cursor {
            file,
            pages,
            context,
            page: Bytes::new(),
            start: 0,
            at: 0,
            outline: None,
            until: 0,
            ahead: None,
        }
    }

    /// As this cursor, but for what stands in the file's outline: that is taken from there.
    pub fn with_outline(self, outline: Option<&Arc<Outline>>) -> Cursor {
        let outline = outline.map(|outline| Box::new(OutlineReader::new(Arc::clone(outline))));
        Cursor { outline, ..self }
    }

    pub fn context(&self) -> &ReadContext {
        &self.context
    }

    /// Moves to `position`; the page there is loaded when it is needed.
    pub fn seek(&mut self, position: u64) {
        match position.checked_sub(self.start) {
            Some(at) if at <= self.page.len() as u64 => self.at = at as usize,
            _ => {
                self.page = Bytes::new();
                self.start = position;
                self.at = 0;
            }
        }
    }

    /// Whether the next byte is one of the page at hand.
    pub fn is_in_page(&self) -> bool {
        self.at < self.page.len()
    }

    pub fn is_at_end(&self) -> bool {
        self.position() >= self.file.len
    }

    fn rest(&self) -> &[u8] {
        self.page.get(self.at..).unwrap_or_default()
    }

    /// The rest of the page at the position, which is not at the end of the file.
    pub fn page(&mut self) -> Result<&[u8], ReadError> {
        if self.at >= self.page.len() {
            self.turn_page()?;
        }
        Ok(self.rest())
    }

    /// Bytes of the current page from the position on.
    pub fn in_page(&self) -> usize {
        self.rest().len()
    }

    /// Bytes of the file's content.
    pub fn len(&self) -> u64 {
        self.file.len
    }

    fn remaining(&self) -> u64 {
        self.file.len.saturating_sub(self.position())
    }

    /// Makes the page at the position the current one. There must be a byte at the position.
    #[cold]
    fn turn_page(&mut self) -> Result<(), ReadError> {
        let position = self.position();
        if position >= self.file.len {
            return Err(self.malformed(format!("the file ends at {}", self.file.len)));
        }
        let before = std::mem::take(&mut self.page);
        let goes_on = !before.is_empty() && self.at == before.len();
        let was_run = self.outline.as_mut().is_some_and(|outline| std::mem::take(&mut outline.is_here));
        let run = was_run.then_some(before);
        // What follows the end of a page of the file is in the middle of something.
        if let Some(outline) = &mut self.outline
            && (run.is_some() || !goes_on)
            && let Some((start, bytes)) = outline.run_at(position, self.pages.as_ref(), &self.context)?
        {
            self.at = (position - start) as usize;
            outline.is_here = true;
            (self.page, self.start) = (bytes, start);
            return Ok(());
        }
        let number = position / self.file.page_len;
        let (file, context, ahead) = (&self.file, &self.context, &mut self.ahead);
        let last = self.until.saturating_sub(1) / file.page_len;
        context.check_deadline()?;
        let page = match file.page_in_tail(number) {
            Some(page) => {
                count_page(context, file.id.part, true);
                page
            }
            None => {
                self.pages.page(file.id, number, context, &mut || match last > number || ahead.is_some() {
                    true => file.load_ahead(number, last, ahead, context),
                    false => file.load(number, context),
                })?
            }
        };
        self.start = number * file.page_len;
        self.at = (position - self.start) as usize;
        if let Some(run) = run.filter(|_| goes_on) {
            // The jump to a value is proven by what lies before it.
            let known = self.at.min(run.len());
            let found = page.get(self.at - known..self.at);
            if found != run.get(run.len() - known..) {
                return Err(self.malformed("other bytes lie here than the outline says".to_owned()));
            }
        }
        self.page = page;
        if self.at >= self.page.len() {
            return Err(self.malformed(format!("page {number} has {} bytes only", self.page.len())));
        }
        Ok(())
    }

    fn check_len(&self, len: u64) -> Result<usize, ReadError> {
        if len > self.remaining() {
            return Err(self.malformed(format!("{len} bytes wanted, {} are left", self.remaining())));
        }
        Ok(len as usize)
    }

    /// Copies the next bytes, page by page.
    fn gather(&mut self, mut out: &mut [u8]) -> Result<(), ReadError> {
        self.until = self.position().saturating_add(out.len() as u64);
        while !out.is_empty() {
            if self.at >= self.page.len() {
                self.turn_page()?;
            }
            let here = self.rest();
            let len = here.len().min(out.len());
            let (now, later) = out.split_at_mut(len);
            now.copy_from_slice(here.get(..len).unwrap_or_default());
            out = later;
            self.at += len;
        }
        (self.until, self.ahead) = (0, None);
        Ok(())
    }

    #[cold]
    fn uvint_across_pages(&mut self) -> Result<u64, ReadError> {
        let first = self.u8()?;
        let mut bytes = [0u8; 9];
        bytes[0] = first;
        let extra = first.leading_ones() as usize;
        self.gather(bytes.get_mut(1..1 + extra).unwrap_or_default())?;
        match vint::read_unsigned(&bytes) {
            Some((value, _)) => Ok(value),
            None => Err(self.malformed("a vint is cut off".to_owned())),
        }
    }
}

impl Input for Cursor {
    type Error = ReadError;

    #[cold]
    fn malformed(&self, detail: String) -> ReadError {
        let what = match self.file.layout {
            PageLayout::Compressed(_) => " (offset in the uncompressed content)",
            _ => "",
        };
        self.file.corrupt(self.position(), format!("{detail}{what}"))
    }

    #[inline]
    fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    #[inline]
    fn u8(&mut self) -> Result<u8, ReadError> {
        loop {
            if let Some(byte) = self.page.get(self.at) {
                let byte = *byte;
                self.at += 1;
                return Ok(byte);
            }
            self.turn_page()?;
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        if let Some(chunk) = self.rest().first_chunk::<N>() {
            let chunk = *chunk;
            self.at += N;
            return Ok(chunk);
        }
        let mut out = [0; N];
        self.gather(&mut out)?;
        Ok(out)
    }

    #[inline]
    fn uvint(&mut self) -> Result<u64, ReadError> {
        match vint::read_unsigned(self.rest()) {
            Some((value, len)) => {
                self.at += len;
                Ok(value)
            }
            None => self.uvint_across_pages(),
        }
    }

    #[inline]
    fn bytes(&mut self, len: u64) -> Result<Bytes, ReadError> {
        let len = self.check_len(len)?;
        if len > 0 && self.at >= self.page.len() {
            self.until = self.position() + len as u64;
            self.turn_page()?;
        }
        if len <= self.rest().len() {
            let out = self.page.slice(self.at..self.at + len);
            self.at += len;
            return Ok(out);
        }
        let mut out = vec![0; len];
        self.gather(&mut out)?;
        Ok(out.into())
    }

    #[inline]
    fn with_slice<R>(&mut self, len: u64, f: impl FnOnce(&[u8]) -> R) -> Result<R, ReadError> {
        let len = self.check_len(len)?;
        if let Some(here) = self.rest().get(..len) {
            let out = f(here);
            self.at += len;
            return Ok(out);
        }
        let mut copy = vec![0; len];
        self.gather(&mut copy)?;
        Ok(f(&copy))
    }

    #[inline]
    fn skip(&mut self, len: u64) -> Result<(), ReadError> {
        let len = self.check_len(len)?;
        self.at += len;
        Ok(())
    }
}
