//! A file whose content is read in pages: where each lies, and how its stored bytes become content.

use super::{FileId, FilePart, INDEX_PAGE_BYTES, PLAIN_PAGE_BYTES};
use crate::checksum::{ChunkCrcs, CrcChecks, seal_of};
use crate::compression::CompressionInfo;
use bytes::Bytes;
use env::fs::{Access, ReadFile};
use partition::{ReadContext, ReadError};
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// How pages lie in the file.
#[derive(Debug, Default)]
pub(crate) enum PageLayout {
    /// As they are, unchecked.
    #[default]
    Plain,
    /// As they are, each with a checksum elsewhere.
    Checked(ChunkCrcs),
    /// Compressed, each followed by its checksum.
    Compressed(CompressionInfo),
    /// As they are, each ending with its checksum ([`crate::checksum::seal_page`]).
    Sealed,
}

/// Bytes of the checksum behind a chunk.
const SUM_BYTES: usize = 4;
/// Longer chunks get memory of their own to be decompressed from.
const CHUNK_BYTES_KEPT: u64 = 128 << 10;

thread_local! {
    /// What the thread decompressed last, as it is stored.
    static CHUNK: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
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
    pub(super) page_len: u64,
    pub(super) layout: PageLayout,
    tail: Option<Tail>,
    /// A page that stays in memory, and its number.
    kept: OnceLock<(u64, Bytes)>,
    /// The checksum of each chunk of a compressed file, from elsewhere, once they are known.
    places: OnceLock<Vec<u32>>,
    /// Which loads check the page's checksum, if it has one.
    pub crc_checks: CrcChecks,
    /// Whether something in it was not what it should be.
    is_damaged: AtomicBool,
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
        PagedFile {
            id,
            name,
            file,
            len,
            page_len,
            layout,
            tail: None,
            kept: OnceLock::new(),
            places: OnceLock::new(),
            crc_checks: CrcChecks::default(),
            is_damaged: AtomicBool::new(false),
        }
    }

    /// Whether something that was read of it was not what it should be.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Gives a file that is being written the content that its end has at this moment, in memory: `bytes`
    /// from the start of a page on. The pages before are as they will be.
    pub fn with_tail(mut self, start: u64, bytes: Bytes) -> PagedFile {
        self.len = start + bytes.len() as u64;
        self.tail = Some(Tail { first_page: start / self.page_len, bytes });
        self
    }

    /// As this file, with pages of the same length that lie in another way.
    pub fn with_layout(self, layout: PageLayout) -> PagedFile {
        PagedFile { layout, ..self }
    }

    /// Says which checksum each chunk of a compressed file has, so that none passes for another.
    pub fn with_places(self, places: Vec<u32>) -> PagedFile {
        PagedFile { places: OnceLock::from(places), ..self }
    }

    /// As [`PagedFile::with_places`], for a file that is being read; the first call counts.
    pub fn set_places(&self, places: Vec<u32>) {
        self.places.get_or_init(|| places);
    }

    /// Number of chunks of a compressed file; 0 of another one.
    pub fn chunks(&self) -> u64 {
        match &self.layout {
            PageLayout::Compressed(info) => info.offsets.len() as u64,
            _ => 0,
        }
    }

    /// Whether the checksums of chunks stand elsewhere, each at its place.
    pub fn has_checked_places(&self) -> bool {
        matches!(self.layout, PageLayout::Checked(_))
    }

    /// The file itself.
    pub fn raw(&self) -> &dyn ReadFile {
        self.file.as_ref()
    }

    /// Whether the file is being written, so that what lies at its end now will lie elsewhere.
    pub fn is_growing(&self) -> bool {
        self.tail.is_some()
    }

    /// Loads the page that a byte lies in, for as long as the file is open.
    pub fn keep_page_of(&self, position: u64) -> Result<(), ReadError> {
        let page = position / self.page_len;
        let content = self.load(page, &ReadContext::default())?;
        self.kept.get_or_init(|| (page, content));
        Ok(())
    }

    /// Bytes of the page that is kept.
    pub fn kept_bytes(&self) -> usize {
        self.kept.get().map_or(0, |(_, content)| content.len())
    }

    /// A page that is in memory whatever the cache has.
    pub(super) fn page_in_memory(&self, page: u64) -> Option<Bytes> {
        let kept = self.kept.get().filter(|(number, _)| *number == page);
        kept.map(|(_, content)| content.clone()).or_else(|| self.page_in_tail(page))
    }

    fn page_in_tail(&self, page: u64) -> Option<Bytes> {
        let tail = self.tail.as_ref()?;
        let start = usize::try_from(page.checked_sub(tail.first_page)? * self.page_len).ok()?;
        let end = tail.bytes.len().min(start.saturating_add(self.page_len as usize));
        (start < end).then(|| tail.bytes.slice(start..end))
    }

    /// Bytes that the layout keeps in memory.
    pub fn memory_bytes(&self) -> usize {
        let layout = match &self.layout {
            PageLayout::Plain | PageLayout::Sealed => 0,
            PageLayout::Checked(crcs) => crcs.crcs.len() * 4,
            PageLayout::Compressed(info) => info.offsets.len() * 8,
        };
        layout + self.places.get().map_or(0, |places| places.len() * 4)
    }

    #[cold]
    pub fn corrupt(&self, offset: u64, detail: String) -> ReadError {
        self.is_damaged.store(true, Ordering::Relaxed);
        ReadError::corrupt(&self.name, offset, detail)
    }

    /// Bytes of a page of content.
    pub fn page_len(&self) -> u64 {
        self.page_len
    }

    /// The page that a position lies in.
    pub fn page_of(&self, position: u64) -> u64 {
        position / self.page_len
    }

    /// Number of pages.
    pub fn page_count(&self) -> u64 {
        self.len.div_ceil(self.page_len)
    }

    /// The pages that a cache may have.
    pub fn pages(&self) -> impl Iterator<Item = (FileId, u64)> + use<> {
        let id = self.id;
        (0..self.whole_pages()).map(move |page| (id, page))
    }

    /// Number of pages before the end that is kept in memory.
    pub(super) fn whole_pages(&self) -> u64 {
        self.tail.as_ref().map_or(self.page_count(), |tail| tail.first_page)
    }

    /// The pages that some content lies in.
    pub(super) fn pages_of(&self, content: &Range<u64>) -> Range<u64> {
        match content.is_empty() {
            true => 0..0,
            false => content.start / self.page_len..content.end.div_ceil(self.page_len),
        }
    }

    /// Number of pages that so much content takes, at least one.
    pub(super) fn pages_in(&self, content_len: u64) -> u64 {
        (content_len / self.page_len).max(1)
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

    /// Reads some of what is stored, for use by a walk.
    pub(super) fn read_raw(
        &self,
        offset: u64,
        len: u64,
        context: &ReadContext,
    ) -> Result<Vec<u8>, ReadError> {
        may_read(len, context)?;
        self.read_vec(offset, len, &mut [], context)
    }

    /// Reads `len` bytes into memory of their own, and fills `after` with those that follow.
    fn read_vec(
        &self,
        offset: u64,
        len: u64,
        after: &mut [u8],
        context: &ReadContext,
    ) -> Result<Vec<u8>, ReadError> {
        // What ends too early is told by the thread that may wait.
        let bytes = self.file.read_vec_at(offset, len as usize, after, context.may_block)?;
        let bytes = bytes.ok_or(ReadError::WouldBlock)?;
        self.count_read(offset, len + after.len() as u64, context);
        Ok(bytes)
    }

    fn read_into(&self, bytes: &mut [u8], offset: u64, context: &ReadContext) -> Result<(), ReadError> {
        match context.may_block {
            true => self.file.read_exact_at(offset, bytes)?,
            false if self.file.read_at_once(offset, bytes)? == Some(bytes.len()) => {}
            false => return Err(ReadError::WouldBlock),
        }
        self.count_read(offset, bytes.len() as u64, context);
        Ok(())
    }

    fn count_read(&self, offset: u64, len: u64, context: &ReadContext) {
        let access = self.file.access();
        let (calls, taken) = access.taken(&(offset..offset.saturating_add(len)), self.file.len());
        context.cost.ios.add(calls);
        match access {
            Access::Buffered => {}
            Access::Direct => context.cost.direct_ios.add(calls),
            Access::Mapped => context.cost.mapped_ios.add(calls),
        }
        context.cost.disk_bytes.add(taken);
    }

    /// Bytes of a page's content.
    fn content_len(&self, page: u64) -> u64 {
        self.page_len.min(self.len.saturating_sub(page.saturating_mul(self.page_len)))
    }

    /// Where a page lies in the file, from and to.
    pub(super) fn stored(&self, page: u64) -> Result<Range<u64>, ReadError> {
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
        let Range { start, end } = self.stored(page)?;
        let len = end - start;
        may_read(len, context)?;
        let PageLayout::Compressed(info) = &self.layout else {
            let bytes = self.read_vec(start, len, &mut [], context)?;
            return self.decode(page, start, bytes.into(), context);
        };
        let payload_len = len - SUM_BYTES as u64;
        if info.is_raw(payload_len) || len > CHUNK_BYTES_KEPT {
            let mut sum = [0; SUM_BYTES];
            let payload = self.read_vec(start, payload_len, &mut sum, context)?;
            return self.decode_chunk(info, page, start, payload.into(), sum, context);
        }
        // Nothing of what is read here stays: each thread does it in the same place.
        CHUNK.with_borrow_mut(|chunk| {
            chunk.resize(len as usize, 0);
            self.read_into(chunk, start, context)?;
            self.decode(page, start, Cow::Borrowed(chunk), context)
        })
    }

    /// Compares a page of checked or compressed content, stored as `bytes` at `start` in the file, with its
    /// checksum.
    pub(super) fn check_stored(&self, page: u64, start: u64, bytes: &[u8]) -> Result<(), ReadError> {
        match &self.layout {
            PageLayout::Plain | PageLayout::Sealed => Ok(()),
            PageLayout::Checked(crcs) => {
                let found = crc32fast::hash(bytes);
                let expected = usize::try_from(page).ok().and_then(|page| crcs.crcs.get(page));
                if expected == Some(&found) {
                    return Ok(());
                }
                let table = if self.id.part == FilePart::Data { "CRC.db" } else { "Proof.db" };
                let len = bytes.len();
                let expected = expected.map_or_else(|| "none".to_owned(), |sum| format!("{sum:#010x}"));
                let detail = format!("checksum of {len} bytes is {found:#010x}, {table} has {expected}");
                Err(self.corrupt(start, detail))
            }
            PageLayout::Compressed(_) => {
                let Some((payload, sum)) = bytes.split_last_chunk() else { return Ok(()) };
                self.check_chunk(page, start, payload, u32::from_be_bytes(*sum))
            }
        }
    }

    fn check_chunk(&self, page: u64, start: u64, payload: &[u8], expected: u32) -> Result<(), ReadError> {
        let found = crc32fast::hash(payload);
        if expected == found {
            return Ok(());
        }
        let detail = format!("checksum of chunk {page} is {found:#010x}, {expected:#010x} is stored");
        Err(self.corrupt(start, detail))
    }

    /// The content of a page that is stored as `bytes`, at `start` in the file.
    pub(super) fn decode(
        &self,
        page: u64,
        start: u64,
        mut bytes: Cow<'_, [u8]>,
        context: &ReadContext,
    ) -> Result<Bytes, ReadError> {
        match &self.layout {
            PageLayout::Plain => {}
            PageLayout::Checked(_) => {
                if self.crc_checks.is_due() {
                    self.check_stored(page, start, &bytes)?;
                }
            }
            PageLayout::Compressed(info) => {
                let Some((payload, sum)) = bytes.split_last_chunk::<SUM_BYTES>() else {
                    return Err(self.corrupt(start, format!("chunk {page} has no checksum")));
                };
                return self.decode_chunk(info, page, start, payload.into(), *sum, context);
            }
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
        payload: Cow<'_, [u8]>,
        sum: [u8; SUM_BYTES],
        context: &ReadContext,
    ) -> Result<Bytes, ReadError> {
        let expected = u32::from_be_bytes(sum);
        if self.crc_checks.is_due() {
            self.check_chunk(page, start, &payload, expected)?;
        }
        let places = self.places.get();
        let place = places.zip(usize::try_from(page).ok()).and_then(|(places, page)| places.get(page));
        if place.is_some_and(|place| *place != expected) {
            let detail = format!("a chunk with checksum {expected:#010x}, Proof.db has {place:x?} here");
            return Err(self.corrupt(start, detail));
        }
        self.inflate(info, page, start, payload, context)
    }

    /// The content of a page that is stored as `bytes`, at `start` in the file, and was compared with its
    /// checksum.
    pub(super) fn content_of(&self, page: u64, start: u64, bytes: &[u8]) -> Result<Bytes, ReadError> {
        let PageLayout::Compressed(info) = &self.layout else { return Ok(Bytes::copy_from_slice(bytes)) };
        let payload = bytes.get(..bytes.len().saturating_sub(SUM_BYTES)).unwrap_or_default();
        self.inflate(info, page, start, payload.into(), &ReadContext::default())
    }

    /// The content of a chunk without its checksum.
    fn inflate(
        &self,
        info: &CompressionInfo,
        page: u64,
        start: u64,
        mut payload: Cow<'_, [u8]>,
        context: &ReadContext,
    ) -> Result<Bytes, ReadError> {
        let len = self.content_len(page) as usize;
        if !info.is_raw(payload.len() as u64) {
            let out = info
                .params
                .compressor
                .decompress(&payload, len)
                .map_err(|e| self.corrupt(start, format!("chunk {page}: {e}")))?;
            context.cost.decompressed_bytes.add(len as u64);
            return Ok(out.into());
        }
        if payload.len() < len {
            let detail = format!("raw chunk {page} of {} bytes for {len} of content", payload.len());
            return Err(self.corrupt(start, detail));
        }
        match &mut payload {
            Cow::Owned(bytes) => bytes.truncate(len),
            Cow::Borrowed(bytes) => *bytes = bytes.get(..len).unwrap_or_default(),
        }
        Ok(payload.into_owned().into())
    }
}

/// Whether so much may be read by a thread that may perhaps not wait.
fn may_read(len: u64, context: &ReadContext) -> Result<(), ReadError> {
    match context.may_block || context.may_load_at_once(len) {
        true => Ok(()),
        false => Err(ReadError::WouldBlock),
    }
}
