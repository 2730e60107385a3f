//! Decoding what lies wholly in the page at hand, which is nearly all there is: nothing has to be loaded on the way, and
//! what is wrong need not be said. Whatever fails here is decoded once more from the [`Cursor`](super::Cursor), which
//! turns pages and names file and offset.

use bytes::Bytes;
use model::vint;
use partition::codec::Input;

/// The bytes do not lie in the page, or are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotInPage;

/// The rest of the page at hand.
#[derive(Clone, Debug)]
pub(crate) struct InPage<'p> {
    page: &'p Bytes,
    /// Of `page`, up to where it counts.
    bytes: &'p [u8],
    at: usize,
    /// Position of the first byte of `page`.
    start: u64,
}

impl<'p> InPage<'p> {
    /// From byte `at` of `page` on, whose first byte lies at `start` and which counts up to `end`.
    pub fn new(page: &'p Bytes, at: usize, end: usize, start: u64) -> InPage<'p> {
        InPage { page, bytes: page.get(..end).unwrap_or_default(), at, start }
    }

    /// Where in the page it is.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Goes on to `position`, which must not lie behind or beyond the page's end.
    #[inline]
    pub fn go_on_to(&mut self, position: u64) -> Result<(), NotInPage> {
        self.skip(position.checked_sub(self.position()).ok_or(NotInPage)?)
    }

    #[inline]
    fn rest(&self) -> &'p [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Where `len` bytes from here on end.
    #[inline]
    fn end_of(&self, len: u64) -> Result<usize, NotInPage> {
        match len <= self.rest().len() as u64 {
            true => Ok(self.at + len as usize),
            false => Err(NotInPage),
        }
    }
}

impl Input for InPage<'_> {
    type Error = NotInPage;

    #[cold]
    fn malformed(&self, _: String) -> NotInPage {
        NotInPage
    }

    #[inline]
    fn position(&self) -> u64 {
        self.start.wrapping_add(self.at as u64)
    }

    #[inline]
    fn u8(&mut self) -> Result<u8, NotInPage> {
        let byte = *self.bytes.get(self.at).ok_or(NotInPage)?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], NotInPage> {
        let chunk = *self.rest().first_chunk::<N>().ok_or(NotInPage)?;
        self.at += N;
        Ok(chunk)
    }

    #[inline]
    fn uvint(&mut self) -> Result<u64, NotInPage> {
        let (value, len) = vint::read_unsigned(self.rest()).ok_or(NotInPage)?;
        self.at += len;
        Ok(value)
    }

    #[inline]
    fn bytes(&mut self, len: u64) -> Result<Bytes, NotInPage> {
        let end = self.end_of(len)?;
        let out = self.page.slice(self.at..end);
        self.at = end;
        Ok(out)
    }

    #[inline]
    fn with_slice<R>(&mut self, len: u64, f: impl FnOnce(&[u8]) -> R) -> Result<R, NotInPage> {
        let end = self.end_of(len)?;
        let here = self.bytes.get(self.at..end).ok_or(NotInPage)?;
        self.at = end;
        Ok(f(here))
    }

    #[inline]
    fn skip(&mut self, len: u64) -> Result<(), NotInPage> {
        self.at = self.end_of(len)?;
        Ok(())
    }
}
