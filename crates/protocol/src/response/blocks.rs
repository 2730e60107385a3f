//! The body of an answer that is written away from its connection, in blocks that go to the socket as they
//! lie.
//!
//! ```text
//! block    room for a segment's header | payload of at most PAYLOAD_MAX bytes | room for its trailer
//! payload  of the first block: room for the envelope's header, then the body
//! ```
//!
//! So a long body is never moved: not while it grows, not when its connection takes it over, and not to make
//! room for what v5 puts between its parts. A short body is copied in between the other answers of its
//! connection.

use bytes::{BufMut, BytesMut};

use crate::envelope::HEADER;
use crate::segment::{PAYLOAD_MAX, PLAIN_HEADER, TRAILER};

/// Bytes of a full block, its trailer aside.
const BLOCK_BYTES: usize = PLAIN_HEADER + PAYLOAD_MAX;
/// What a body begins with: most are short.
const FIRST_BYTES: usize = 4 << 10;
/// Where the body begins in the first block.
const BODY: usize = PLAIN_HEADER + HEADER;

/// A body in blocks.
#[derive(Debug)]
pub struct Blocks {
    full: Vec<BytesMut>,
    last: BytesMut,
    /// Bytes of `last` up to which nothing has to be done.
    limit: usize,
}

impl Default for Blocks {
    fn default() -> Self {
        let mut last = BytesMut::with_capacity(FIRST_BYTES);
        last.put_bytes(0, BODY);
        Self { full: Vec::new(), last, limit: FIRST_BYTES }
    }
}

impl Blocks {
    /// Bytes of the body.
    pub fn length(&self) -> usize {
        self.full.iter().map(|block| block.len() - PLAIN_HEADER).sum::<usize>() + self.last.len() - BODY
    }

    /// Appends bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        match self.last.len() + bytes.len() <= self.limit {
            true => self.last.put_slice(bytes),
            false => self.put_across(bytes),
        }
    }

    #[cold]
    fn put_across(&mut self, mut bytes: &[u8]) {
        if self.limit < BLOCK_BYTES {
            self.limit = BLOCK_BYTES;
            self.last.reserve(BLOCK_BYTES + TRAILER - self.last.len());
        }
        loop {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.last.len()));
            self.last.put_slice(now);
            if later.is_empty() {
                return;
            }
            let mut next = BytesMut::with_capacity(BLOCK_BYTES + TRAILER);
            next.put_bytes(0, PLAIN_HEADER);
            self.full.push(std::mem::replace(&mut self.last, next));
            bytes = later;
        }
    }

    fn first_mut(&mut self) -> &mut BytesMut {
        self.full.first_mut().unwrap_or(&mut self.last)
    }

    /// Overwrites bytes of the body from `at` on, which all lie in the first block.
    pub(super) fn patch(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.first_mut().get_mut(BODY + at..BODY + at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Puts bytes at `at`, which lies in the first block: only what follows there is moved.
    pub(super) fn insert(&mut self, at: usize, bytes: &[u8]) {
        let mut head = Self::default();
        let first = self.first_mut().split();
        let (before, behind) = first.split_at(BODY + at);
        head.put(before.get(BODY..).unwrap_or_default());
        head.put(bytes);
        head.put(behind);
        if !self.full.is_empty() {
            head.full.push(head.last);
            head.full.extend(self.full.drain(1..));
            (head.last, head.limit) = (std::mem::take(&mut self.last), self.limit);
        }
        *self = head;
    }

    /// The body, part by part.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(BODY).chain(std::iter::repeat(PLAIN_HEADER));
        let blocks = self.full.iter().chain([&self.last]);
        blocks.zip(starts).map(|(block, start)| block.get(start..).unwrap_or_default())
    }

    /// The blocks, with `header` in the room that was left for it.
    pub(crate) fn into_blocks(mut self, header: [u8; HEADER]) -> Vec<BytesMut> {
        if let Some(place) = self.first_mut().get_mut(PLAIN_HEADER..BODY) {
            place.copy_from_slice(&header);
        }
        self.full.push(self.last);
        self.full
    }
}
