//! Pieces of memory that go to the socket one after the other.
//!
//! The checksum of a segment is computed when it is about to be sent: the copy to the socket then finds it in
//! the processor's cache.

use std::collections::VecDeque;

use bytes::{Buf, BufMut, BytesMut};

use super::seal_plain_range;
use crate::segment::{PLAIN_HEADER, TRAILER};

/// Bytes to send.
#[derive(Debug)]
pub(super) struct Piece {
    bytes: BytesMut,
    /// For a segment whose header and trailer are not filled in yet: whether it holds whole envelopes.
    unsealed: Option<bool>,
}

impl Piece {
    /// Bytes that are ready.
    pub(super) fn whole(bytes: BytesMut) -> Piece {
        Piece { bytes, unsealed: None }
    }

    /// The bytes from `start` on.
    pub(super) fn behind(mut bytes: BytesMut, start: usize) -> Piece {
        bytes.advance(start);
        Piece::whole(bytes)
    }

    /// A payload with room for a segment's header before it.
    pub(super) fn segment(mut bytes: BytesMut, self_contained: bool) -> Piece {
        bytes.put_bytes(0, TRAILER);
        Piece { bytes, unsealed: Some(self_contained) }
    }

    fn sealed(&mut self) -> &[u8] {
        if let Some(self_contained) = self.unsealed.take() {
            let length = self.bytes.len() - PLAIN_HEADER - TRAILER;
            seal_plain_range(&mut self.bytes, PLAIN_HEADER, length, self_contained);
        }
        &self.bytes
    }
}

/// Pieces, and how many bytes they hold.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pieces: VecDeque<Piece>,
    bytes: usize,
}

impl Queue {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, piece: Piece) {
        self.bytes += piece.bytes.len();
        self.pieces.push_back(piece);
    }

    /// The first piece, ready to be sent; nothing when there is none.
    pub(super) fn front(&mut self) -> &[u8] {
        self.pieces.front_mut().map(Piece::sealed).unwrap_or_default()
    }

    /// Lets go of the first `count` bytes of the first piece.
    pub(super) fn advance(&mut self, count: usize) {
        let Some(front) = self.pieces.front_mut() else { return };
        self.bytes -= count;
        front.bytes.advance(count);
        if front.bytes.is_empty() {
            self.pieces.pop_front();
        }
    }
}
