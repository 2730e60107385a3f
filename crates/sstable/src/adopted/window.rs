//! What lies at hand of a file that is read once, from start to end: an [`Input`] over its content.
//!
//! Bytes that are stepped over are not decompressed where a whole page lies among them.

use crate::outline::RUN_BYTES_MAX;
use crate::pages::Pass;
use bytes::Bytes;
use model::vint;
use partition::ReadError;
use partition::codec::{Input, LONG_VALUE_BYTES};
use std::ops::Range;

/// What is decoded in one piece is no longer than this: keys and clusterings are shorter.
const PIECE_BYTES_MAX: u64 = 16 << 20;
/// Bytes behind the cursor that may stay before the rest is moved to their place.
const LEFT_BYTES_MAX: usize = 64 << 10;

/// A cursor that moves forward only.
pub(super) struct Window<'w, 'p> {
    pass: &'w mut Pass<'p>,
    /// Content of the file from `start` on.
    content: Vec<u8>,
    start: u64,
    /// The cursor, in bytes from `start`; may lie behind `content`.
    at: usize,
    /// What stays at hand, though it is behind the cursor, in bytes from `start`.
    kept: usize,
    /// The page behind `content`.
    next_page: u64,
    /// Whether long values come next, so that a step over one may leave what is kept.
    pub is_in_long_row: bool,
    /// Steps in long rows that were as long as a long value, in the order of the file.
    pub long: Vec<LongStep>,
}

/// A step over many bytes.
pub(super) struct LongStep {
    /// The bytes that were stepped over.
    pub over: Range<u64>,
    /// What lies right before them, as far as that matters to an outline.
    pub before: Vec<u8>,
}

impl<'w, 'p> Window<'w, 'p> {
    pub fn new(pass: &'w mut Pass<'p>) -> Window<'w, 'p> {
        Window {
            pass,
            content: Vec::new(),
            start: 0,
            at: 0,
            kept: 0,
            next_page: 0,
            is_in_long_row: false,
            long: Vec::new(),
        }
    }

    /// Bytes of a page of the file.
    pub fn page_len(&self) -> u64 {
        self.pass.pages().page_len()
    }

    /// Goes on to `position`.
    pub fn go_on_to(&mut self, position: u64) -> Result<(), ReadError> {
        match position.checked_sub(self.position()) {
            Some(len) => self.advance(len),
            None => Err(self.malformed(format!("a step back to {position}"))),
        }
    }

    /// Keeps at hand what comes next, until the next call or a step beyond what is at hand.
    #[inline]
    pub fn keep(&mut self) {
        self.kept = self.at;
    }

    /// Decodes once more what lies at `position`, which is kept at hand.
    pub fn again<R>(
        &mut self,
        position: u64,
        decode: impl FnOnce(&mut Self) -> Result<R, ReadError>,
    ) -> Result<R, ReadError> {
        let at = self.at;
        self.at = position.saturating_sub(self.start) as usize;
        let decoded = decode(self);
        self.at = at;
        decoded
    }

    /// The bytes of a part of the file; empty if its start is not at hand any more.
    pub fn slice(&mut self, part: Range<u64>) -> Result<&[u8], ReadError> {
        self.fill(part.end.saturating_sub(self.position()) as usize)?;
        let at = |position: u64| position.checked_sub(self.start).map(|at| at as usize);
        let (Some(start), Some(end)) = (at(part.start), at(part.end)) else { return Ok(&[]) };
        Ok(self.content.get(start..end).unwrap_or_default())
    }

    fn advance(&mut self, len: u64) -> Result<(), ReadError> {
        let file = self.pass.pages();
        if len > file.len.saturating_sub(self.position()) {
            return Err(self.malformed(format!("a step over {len} bytes, beyond the end of the file")));
        }
        let at = self.at as u64 + len;
        if at <= self.content.len() as u64 {
            self.at = at as usize;
            return Ok(());
        }
        let position = self.start + at;
        self.content.clear();
        self.next_page = file.page_of(position).max(self.next_page);
        self.start = self.next_page * file.page_len();
        self.at = (position - self.start) as usize;
        self.kept = self.at;
        Ok(())
    }

    /// Makes sure that the next `len` bytes are at hand.
    #[inline]
    fn fill(&mut self, len: usize) -> Result<(), ReadError> {
        if self.at + len <= self.content.len() { Ok(()) } else { self.load(len) }
    }

    #[cold]
    fn load(&mut self, len: usize) -> Result<(), ReadError> {
        let file = self.pass.pages();
        if len as u64 > file.len.saturating_sub(self.position()) {
            return Err(self.malformed(format!("{len} bytes, beyond the end of the file")));
        }
        if len as u64 > PIECE_BYTES_MAX {
            return Err(self.malformed(format!("{len} bytes in one piece")));
        }
        if self.at > LEFT_BYTES_MAX {
            let left = self.kept.min(self.content.len());
            self.content.drain(..left);
            self.start += left as u64;
            self.at -= left;
            self.kept -= left;
        }
        while self.at + len > self.content.len() {
            let Some(page) = self.pass.content(self.next_page)? else {
                return Err(self.malformed("the pass ended here".to_owned()));
            };
            self.content.extend_from_slice(&page);
            self.next_page += 1;
        }
        Ok(())
    }

    /// The next `len` bytes, which are behind the cursor then.
    #[inline]
    fn take(&mut self, len: u64) -> Result<&[u8], ReadError> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.fill(len)?;
        let at = self.at;
        self.at += len;
        Ok(self.content.get(at..self.at).unwrap_or_default())
    }
}

impl Input for Window<'_, '_> {
    type Error = ReadError;

    #[cold]
    fn malformed(&self, detail: String) -> ReadError {
        self.pass.pages().corrupt(self.position(), detail)
    }

    #[inline]
    fn position(&self) -> u64 {
        self.start + self.at as u64
    }

    #[inline]
    fn u8(&mut self) -> Result<u8, ReadError> {
        self.fill(1)?;
        let byte = self.content.get(self.at).copied().unwrap_or_default();
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReadError> {
        Ok(self.take(N as u64)?.first_chunk().copied().unwrap_or([0; N]))
    }

    #[inline]
    fn uvint(&mut self) -> Result<u64, ReadError> {
        self.fill(1)?;
        let rest = self.content.get(self.at..).unwrap_or_default();
        let (value, len) = match vint::read_unsigned(rest) {
            Some(read) => read,
            None => {
                let more = rest.first().map_or(0, |first| first.leading_ones());
                self.fill(1 + more as usize)?;
                let rest = self.content.get(self.at..).unwrap_or_default();
                vint::read_unsigned(rest).ok_or_else(|| self.malformed("a number is cut".to_owned()))?
            }
        };
        self.at += len;
        Ok(value)
    }

    fn bytes(&mut self, len: u64) -> Result<Bytes, ReadError> {
        self.take(len).map(Bytes::copy_from_slice)
    }

    #[inline]
    fn with_slice<R>(&mut self, len: u64, f: impl FnOnce(&[u8]) -> R) -> Result<R, ReadError> {
        self.take(len).map(f)
    }

    #[inline]
    fn skip(&mut self, len: u64) -> Result<(), ReadError> {
        if self.is_in_long_row && len >= LONG_VALUE_BYTES as u64 {
            let before = self.content.get(..self.at).unwrap_or_default();
            let before =
                before.get(before.len().saturating_sub(RUN_BYTES_MAX)..).unwrap_or_default().to_vec();
            let over = self.position()..self.position().saturating_add(len);
            self.long.push(LongStep { over, before });
            return self.advance(len);
        }
        // What is kept stays.
        self.take(len).map(drop)
    }
}
