//! Decoding over the pages of a file: vints, arrays and values. A value inside one page is a slice of it, one
//! that crosses pages is copied once, and a value that is stepped over touches no page.

use super::ahead::Ahead;
use super::file::{PageLayout, PagedFile};
use super::in_page::{InPage, NotInPage};
use super::{FilePart, PageSource, count_page};
use crate::outline::{Outline, OutlineReader};
use bytes::Bytes;
use model::vint;
use partition::codec::Input;
use partition::{ReadContext, ReadError};
use std::ops::Range;
use std::sync::Arc;

/// A position in a paged file, and the page that it lies in.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    file: Arc<PagedFile>,
    pages: Arc<dyn PageSource>,
    context: ReadContext,
    /// A page of the file, or a leaf of its outline; empty when there is none.
    page: Bytes,
    /// Which bytes of `page` count: all of a page of the file, those of a run of a leaf.
    here: Range<usize>,
    /// Position of the first byte of `page`, wrapping around for a leaf; of the cursor, when there is no
    /// page.
    start: u64,
    /// The cursor in `page`; may lie behind what counts of it.
    at: usize,
    /// The page of the file that was left last, and the position of its first byte. A cursor that reads
    /// backwards, or looks at a row before a block, goes to and fro between two pages.
    left: Option<(u64, Bytes)>,
    /// Where to look for what lies behind a jump, before the file itself.
    outline: Option<Box<OutlineReader>>,
    /// Only of a read that may load pages.
    ahead: Option<Box<Ahead>>,
}

impl Cursor {
    pub fn new(file: Arc<PagedFile>, pages: Arc<dyn PageSource>, context: ReadContext) -> Cursor {
        Cursor {
            file,
            pages,
            context,
            page: Bytes::new(),
            here: 0..0,
            start: 0,
            at: 0,
            left: None,
            outline: None,
            ahead: None,
        }
    }

    /// As this cursor, but for what stands in the file's outline: that is taken from there.
    pub fn with_outline(self, outline: Option<&Arc<Outline>>) -> Cursor {
        let outline = outline.map(|outline| Box::new(OutlineReader::new(Arc::clone(outline))));
        Cursor { outline, ..self }
    }

    /// Which file it reads.
    pub fn part(&self) -> FilePart {
        self.file.id.part
    }

    pub fn context(&self) -> &ReadContext {
        &self.context
    }

    /// Says what will be read, for pages to be loaded together; of no account where none may be loaded.
    #[inline]
    pub fn look_ahead(&mut self, plan: impl FnOnce(&mut Ahead)) {
        if self.context.may_load() {
            plan(self.ahead.get_or_insert_default());
        }
    }

    /// Moves to `position`; the page there is loaded when it is needed.
    pub fn seek(&mut self, position: u64) {
        let at = position.wrapping_sub(self.start);
        if at >= self.here.start as u64 && at <= self.here.end as u64 {
            self.at = at as usize;
            return;
        }
        let page = std::mem::take(&mut self.page);
        let is_run = self.outline.as_mut().is_some_and(|outline| std::mem::take(&mut outline.is_here));
        let before = Some((self.start, page)).filter(|(_, page)| !page.is_empty() && !is_run);
        // Where there is an outline, it is asked first.
        if self.outline.is_none()
            && let Some((start, left)) = self.left.take_if(|left| is_in(left, position))
        {
            self.left = before;
            (self.here, self.at) = (0..left.len(), (position - start) as usize);
            (self.page, self.start) = (left, start);
            return;
        }
        self.left = before.or_else(|| self.left.take());
        (self.here, self.start, self.at) = (0..0, position, 0);
    }

    /// Where the page of the file ends that `position` lies in.
    pub fn page_end(&self, position: u64) -> u64 {
        (position / self.file.page_len + 1).saturating_mul(self.file.page_len)
    }

    /// Whether the next byte is one of the page at hand.
    pub fn is_in_page(&self) -> bool {
        self.at < self.here.end
    }

    /// Whether the page that the next byte lies in is in memory. Asking counts nothing.
    pub fn is_in_memory(&self) -> bool {
        let number = self.file.page_of(self.position());
        self.is_in_page()
            || self.left.as_ref().is_some_and(|left| is_in(left, self.position()))
            || self.file.page_in_memory(number).is_some()
            || self.pages.has(self.file.id, number)
    }

    pub fn is_at_end(&self) -> bool {
        self.position() >= self.file.len
    }

    fn rest(&self) -> &[u8] {
        self.page.get(self.at..self.here.end).unwrap_or_default()
    }

    /// The rest of the page at the position, which is not at the end of the file.
    #[inline]
    pub fn page(&mut self) -> Result<&[u8], ReadError> {
        if self.at >= self.here.end {
            self.turn_page()?;
        }
        Ok(self.rest())
    }

    /// The page that the position lies in, which is not at the end of the file, and where it starts. Of a
    /// cursor without an outline.
    #[inline]
    pub fn whole_page(&mut self) -> Result<(u64, &[u8]), ReadError> {
        if self.at >= self.here.end {
            self.turn_page()?;
        }
        Ok((self.start, &self.page))
    }

    /// Goes where another cursor over the same file is, and has the same at hand. Of cursors without an
    /// outline.
    pub fn stand_at(&mut self, other: &Cursor) {
        if self.start != other.start || self.here != other.here {
            self.page.clone_from(&other.page);
            self.left.clone_from(&other.left);
            (self.here, self.start) = (other.here.clone(), other.start);
        }
        self.at = other.at;
        self.ahead.clone_from(&other.ahead);
    }

    /// Decodes what lies in the page at hand; stays where it is if that fails.
    #[inline]
    pub fn decode_in_page<R>(
        &mut self,
        decode: impl FnOnce(&mut InPage<'_>) -> Result<R, NotInPage>,
    ) -> Option<R> {
        let mut input = InPage::new(&self.page, self.at, self.here.end, self.start).ok()?;
        let decoded = decode(&mut input).ok()?;
        self.at = input.at();
        Some(decoded)
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
    fn turn_page(&mut self) -> Result<(), ReadError> {
        let position = self.position();
        if position >= self.file.len {
            return Err(self.malformed(format!("the file ends at {}", self.file.len)));
        }
        let was_run = self.outline.as_ref().is_some_and(|outline| outline.is_here);
        // What follows the end of a page of the file is in the middle of something.
        let goes_on = !self.page.is_empty() && self.at == self.here.end;
        if let Some(outline) = &mut self.outline
            && (was_run || !goes_on)
            && let Some(run) = outline.run_at(position, self.pages.as_ref(), &self.context)?
        {
            if !(was_run && run.is_in_same_leaf) {
                let before = std::mem::replace(&mut self.page, outline.leaf().clone());
                if !was_run && !before.is_empty() {
                    self.left = Some((self.start, before));
                }
                outline.is_here = true;
            }
            self.start = run.start.wrapping_sub(run.bytes.start as u64);
            self.at = position.wrapping_sub(self.start) as usize;
            self.here = run.bytes;
            return Ok(());
        }
        self.turn_file_page(position, goes_on, was_run)
    }

    /// Makes the page of the file the current one, behind a run of the outline, `was_run`, or another page.
    #[cold]
    fn turn_file_page(&mut self, position: u64, goes_on: bool, was_run: bool) -> Result<(), ReadError> {
        let before = std::mem::take(&mut self.page);
        let here = std::mem::take(&mut self.here);
        let at_hand = self.left.take_if(|left| is_in(left, position));
        let run = match was_run {
            true => Some(before),
            false => {
                if !before.is_empty() {
                    self.left = Some((self.start, before));
                }
                None
            }
        };
        self.outline.iter_mut().for_each(|outline| outline.is_here = false);
        let number = position / self.file.page_len;
        (self.start, self.at) = (position, 0);
        let page = match at_hand {
            Some((_, page)) => page,
            None => self.load(number)?,
        };
        self.start = number * self.file.page_len;
        self.at = (position - self.start) as usize;
        if let Some(run) = run.filter(|_| goes_on) {
            // The jump to a value is proven by what lies before it.
            let run = run.get(here).unwrap_or_default();
            let known = self.at.min(run.len());
            let found = page.get(self.at - known..self.at);
            if found != run.get(run.len() - known..) {
                return Err(self.malformed("other bytes lie here than the outline says".to_owned()));
            }
        }
        self.here = 0..page.len();
        self.page = page;
        if self.at >= self.page.len() {
            return Err(self.malformed(format!("page {number} has {} bytes only", self.page.len())));
        }
        Ok(())
    }

    /// Gets a page of the file from memory or from the disk.
    fn load(&mut self, number: u64) -> Result<Bytes, ReadError> {
        let (file, context, ahead) = (&self.file, &self.context, &mut self.ahead);
        let pages = self.pages.as_ref();
        ahead.iter_mut().for_each(|ahead| ahead.turn(file, number));
        context.check_deadline()?;
        match file.page_in_memory(number) {
            Some(page) => {
                count_page(context, file.id.part, true);
                Ok(page)
            }
            None => pages.page(file.id, number, context, &mut || {
                ahead.get_or_insert_default().load(file, number, pages, context)
            }),
        }
    }

    fn check_len(&self, len: u64) -> Result<usize, ReadError> {
        if len > self.remaining() {
            return Err(self.malformed(format!("{len} bytes wanted, {} are left", self.remaining())));
        }
        Ok(len as usize)
    }

    /// Hands the next `len` bytes to `take`, page by page.
    fn take_parts(&mut self, len: usize, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
        let start = self.position();
        let value = start..start.saturating_add(len as u64);
        self.look_ahead(|ahead| ahead.value = value);
        let mut left = len;
        while left > 0 {
            if self.at >= self.here.end {
                self.turn_page()?;
            }
            let here = self.rest();
            let here = here.get(..left).unwrap_or(here);
            take(here);
            let taken = here.len();
            left -= taken;
            self.at += taken;
        }
        self.look_ahead(|ahead| ahead.value = 0..0);
        Ok(())
    }

    /// Fills `out` with the next bytes.
    fn fill(&mut self, mut out: &mut [u8]) -> Result<(), ReadError> {
        self.take_parts(out.len(), |part| {
            let (now, later) = std::mem::take(&mut out).split_at_mut(part.len());
            now.copy_from_slice(part);
            out = later;
        })
    }

    /// A copy of the next bytes, into memory that nobody had to clear before.
    fn gather(&mut self, len: usize) -> Result<Vec<u8>, ReadError> {
        let mut out = Vec::with_capacity(len);
        self.take_parts(len, |part| out.extend_from_slice(part))?;
        Ok(out)
    }

    #[cold]
    fn uvint_across_pages(&mut self) -> Result<u64, ReadError> {
        let first = self.u8()?;
        let mut bytes = [0u8; 9];
        bytes[0] = first;
        let extra = first.leading_ones() as usize;
        self.fill(bytes.get_mut(1..1 + extra).unwrap_or_default())?;
        match vint::read_unsigned(&bytes) {
            Some((value, _)) => Ok(value),
            None => Err(self.malformed("a vint is cut off".to_owned())),
        }
    }
}

/// Whether the page that starts there has the byte at a position.
#[inline]
fn is_in((start, page): &(u64, Bytes), position: u64) -> bool {
    position.checked_sub(*start).is_some_and(|at| at < page.len() as u64)
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
        self.start.wrapping_add(self.at as u64)
    }

    #[inline]
    fn u8(&mut self) -> Result<u8, ReadError> {
        loop {
            if let Some(byte) = self.rest().first() {
                let byte = *byte;
                self.at += 1;
                return Ok(byte);
            }
            self.turn_page()?;
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        if let Some(chunk) = self.page()?.first_chunk::<N>() {
            let chunk = *chunk;
            self.at += N;
            return Ok(chunk);
        }
        let mut out = [0; N];
        self.fill(&mut out)?;
        Ok(out)
    }

    #[inline]
    fn uvint(&mut self) -> Result<u64, ReadError> {
        // A short run of a leaf is decoded with the bytes behind it in sight, which takes fewer steps.
        match vint::read_unsigned(self.page.get(self.at..).unwrap_or_default()) {
            Some((value, len)) if self.at + len <= self.here.end => {
                self.at += len;
                Ok(value)
            }
            _ => self.uvint_across_pages(),
        }
    }

    #[inline]
    fn bytes(&mut self, len: u64) -> Result<Bytes, ReadError> {
        let len = self.check_len(len)?;
        if len > 0 && self.at >= self.here.end {
            let start = self.position();
            let value = start..start + len as u64;
            self.look_ahead(|ahead| ahead.value = value);
            self.turn_page()?;
            self.look_ahead(|ahead| ahead.value = 0..0);
        }
        if len <= self.rest().len() {
            let out = self.page.slice(self.at..self.at + len);
            self.at += len;
            return Ok(out);
        }
        self.gather(len).map(Bytes::from)
    }

    #[inline]
    fn with_slice<R>(&mut self, len: u64, f: impl FnOnce(&[u8]) -> R) -> Result<R, ReadError> {
        let len = self.check_len(len)?;
        if let Some(here) = self.rest().get(..len) {
            let out = f(here);
            self.at += len;
            return Ok(out);
        }
        self.gather(len).map(|copy| f(&copy))
    }

    #[inline]
    fn skip(&mut self, len: u64) -> Result<(), ReadError> {
        let len = self.check_len(len)?;
        self.at += len;
        Ok(())
    }
}
