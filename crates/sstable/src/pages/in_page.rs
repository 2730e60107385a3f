//! Decoding what lies wholly in the page at hand, which is nearly everything. Nothing has to be loaded on the
//! way, and errors need no description. Whatever fails here is decoded once more from the
//! [`Cursor`](super::Cursor), which turns pages and names file and offset.

use bytes::Bytes;
use model::vint;
use partition::Place;
use partition::codec::{InPlace, Input};

/// The bytes do not lie in the page, or are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotInPage;

/// The rest of the page at hand.
#[derive(Clone, Debug)]
pub(crate) struct InPage<'p> {
    page: &'p Bytes,
    /// The rest of `page` up to `end`, where it ceases to count.
    rest: &'p [u8],
    end: usize,
    /// Position of the first byte of `page`.
    start: u64,
}

impl<'p> InPage<'p> {
    /// From byte `at` of `page` on, whose first byte lies at `start` and which counts up to `end`.
    #[inline]
    pub fn new(page: &'p Bytes, at: usize, end: usize, start: u64) -> Result<InPage<'p>, NotInPage> {
        Ok(InPage { page, rest: page.get(at..end).ok_or(NotInPage)?, end, start })
    }

    /// The page.
    #[inline]
    pub fn page(&self) -> &'p Bytes {
        self.page
    }

    /// Where in the page it is.
    #[inline]
    pub fn at(&self) -> usize {
        self.end - self.rest.len()
    }

    /// Goes on to `position`, which must not lie behind or beyond the page's end.
    #[inline]
    pub fn go_on_to(&mut self, position: u64) -> Result<(), NotInPage> {
        self.skip(position.checked_sub(self.position()).ok_or(NotInPage)?)
    }

    /// The next `len` bytes.
    #[inline]
    fn take(&mut self, len: u64) -> Result<&'p [u8], NotInPage> {
        let len = usize::try_from(len).map_err(|_| NotInPage)?;
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(NotInPage)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl InPlace for InPage<'_> {
    #[inline]
    fn place(&mut self, len: u64) -> Result<Place, NotInPage> {
        let start = self.at() as u32;
        let taken = self.take(len)?;
        Ok(Place { start, len: taken.len() as u32 })
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
        self.start.wrapping_add(self.at() as u64)
    }

    #[inline]
    fn u8(&mut self) -> Result<u8, NotInPage> {
        let (byte, rest) = self.rest.split_first().ok_or(NotInPage)?;
        self.rest = rest;
        Ok(*byte)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], NotInPage> {
        let (chunk, rest) = self.rest.split_first_chunk::<N>().ok_or(NotInPage)?;
        self.rest = rest;
        Ok(*chunk)
    }

    #[inline]
    fn uvint(&mut self) -> Result<u64, NotInPage> {
        let (value, len) = vint::read_unsigned(self.rest).ok_or(NotInPage)?;
        self.rest = self.rest.get(len..).ok_or(NotInPage)?;
        Ok(value)
    }

    #[inline]
    fn bytes(&mut self, len: u64) -> Result<Bytes, NotInPage> {
        let at = self.at();
        let taken = self.take(len)?;
        Ok(self.page.slice(at..at + taken.len()))
    }

    #[inline]
    fn with_slice<R>(&mut self, len: u64, f: impl FnOnce(&[u8]) -> R) -> Result<R, NotInPage> {
        self.take(len).map(f)
    }

    #[inline]
    fn skip(&mut self, len: u64) -> Result<(), NotInPage> {
        self.take(len).map(|_| ())
    }
}
