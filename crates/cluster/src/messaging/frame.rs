//! Frames: the checksummed pieces that messages travel in.
//!
//! Header and trailer are little-endian, unlike everything else between nodes. The native protocol's segments
//! (`protocol::segment`) have the layouts of CRC and LZ4, and other rules for what is damaged.
//!
//! ```text
//! CRC          u24  payload length (17 bits) | self-contained << 17
//!              u24  CRC24 of those 3 bytes
//!              payload
//!              u32  CRC32 of the payload
//!
//! LZ4          u40  length as sent (17 bits) | uncompressed length << 17 (17 bits) | self-contained << 34
//!              u24  CRC24 of those 5 bytes
//!              payload: an LZ4 block, or plain bytes where the uncompressed length is 0
//!              u32  CRC32 of the payload as sent
//!
//! unprotected  as CRC, without the trailer
//! ```
//!
//! 1. A self-contained frame holds one or more whole messages.
//! 2. A message over [`SMALL_MESSAGE_BYTES_MAX`] is cut over several frames that are not self-contained. It
//!    shares none of them with other messages.
//! 3. A header that fails its checksum ends the connection: where the next frame begins is not known.
//! 4. A payload that fails its checksum is left out, if its frame was self-contained.
//!
//! Source: `FrameEncoder`, `FrameDecoder` and their kinds in Cassandra 4.0.

use bytes::{Buf, Bytes, BytesMut};
use model::checksum::{crc24, crc32};

/// The longest payload of a frame, before compression, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 17) - 1;
/// Bytes of a large message in one frame, as in Cassandra (`AsyncMessageOutputPlus`). There are always
/// several frames: a Cassandra that gets a whole large message in one takes what follows for more of it.
const LARGE_PIECE_BYTES: usize = 32 << 10;
/// The longest message that shares a self-contained frame with others, in bytes.
pub const SMALL_MESSAGE_BYTES_MAX: usize = 64 << 10;

const HEADER: usize = 6;
const HEADER_LZ4: usize = 8;
const TRAILER: usize = 4;
const SELF_CONTAINED: u64 = 1 << 17;
const SELF_CONTAINED_LZ4: u64 = 1 << 34;

/// How the messages of a connection are framed; who connects chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Payloads without checksums.
    Unprotected = 0,
    /// Compressed payloads.
    Lz4 = 1,
    /// Plain payloads.
    Crc = 2,
}

/// A frame's payload, checked and decompressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The payload.
    pub payload: Bytes,
    /// Whether it holds whole messages.
    pub is_self_contained: bool,
}

/// What the front of the input is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// Part of a frame; the whole needs so many bytes more, at least one.
    Needs(usize),
    /// A frame, which was taken.
    Frame(Frame),
    /// A frame that fails its checksum, which was taken.
    Corrupt {
        /// Whether it held whole messages, so that others are not concerned.
        is_self_contained: bool,
        /// The checksum sent.
        read: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
}

/// A frame behind which nothing can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The header fails its CRC24.
    #[error("the checksum of a frame's header is {read:#08x}, of its bytes {computed:#08x}")]
    Header {
        /// The checksum sent.
        read: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A payload that is right as sent does not decompress.
    #[error("a frame's payload is no LZ4 block of {length} bytes: {reason}")]
    Decompression {
        /// The length announced.
        length: usize,
        /// The codec's words.
        reason: String,
    },
}

impl Framing {
    /// The framing of that number.
    pub fn from_number(number: u8) -> Option<Framing> {
        [Framing::Unprotected, Framing::Lz4, Framing::Crc].into_iter().find(|f| *f as u8 == number)
    }

    /// Takes the frame at the front of `input`, if all of it is there.
    ///
    /// # Errors
    /// When nothing behind the frame can be read any more.
    pub fn decode(self, input: &mut BytesMut) -> Result<Decoded, FrameError> {
        let header_len = self.header_len();
        let header = input.get(..header_len).and_then(|header| header.split_last_chunk::<3>());
        let Some((fields, crc)) = header else { return Ok(Decoded::Needs(header_len - input.len())) };
        let (read, computed) = (little_endian(crc) as u32, crc24(fields));
        if read != computed {
            return Err(FrameError::Header { read, computed });
        }
        let bits = little_endian(fields);
        let sent_len = (bits & PAYLOAD_BYTES_MAX as u64) as usize;
        let (plain_len, is_self_contained) = match self {
            Framing::Lz4 => {
                ((bits >> 17 & PAYLOAD_BYTES_MAX as u64) as usize, bits & SELF_CONTAINED_LZ4 != 0)
            }
            Framing::Crc | Framing::Unprotected => (0, bits & SELF_CONTAINED != 0),
        };
        let trailer_len = if self == Framing::Unprotected { 0 } else { TRAILER };
        let len = header_len + sent_len + trailer_len;
        if input.len() < len {
            return Ok(Decoded::Needs(len - input.len()));
        }
        input.advance(header_len);
        let payload = input.split_to(sent_len).freeze();
        if trailer_len != 0 {
            let (read, computed) = (input.get_u32_le(), crc32(&payload));
            if read != computed {
                return Ok(Decoded::Corrupt { is_self_contained, read, computed });
            }
        }
        let payload = if plain_len == 0 { payload } else { decompress(&payload, plain_len)? };
        Ok(Decoded::Frame(Frame { payload, is_self_contained }))
    }

    /// Appends a frame of at most [`PAYLOAD_BYTES_MAX`] bytes. A payload that LZ4 does not shrink is sent as
    /// it is.
    pub fn encode(self, payload: &[u8], is_self_contained: bool, out: &mut Vec<u8>) {
        debug_assert!(payload.len() <= PAYLOAD_BYTES_MAX, "a frame of {} bytes", payload.len());
        let start = out.len();
        let body = start + self.header_len();
        out.resize(body, 0);
        let bits = match self {
            Framing::Lz4 => {
                let plain_len = append_compressed(payload, out);
                (out.len() - body) as u64
                    | (plain_len as u64) << 17
                    | if is_self_contained { SELF_CONTAINED_LZ4 } else { 0 }
            }
            Framing::Crc | Framing::Unprotected => {
                out.extend_from_slice(payload);
                payload.len() as u64 | if is_self_contained { SELF_CONTAINED } else { 0 }
            }
        };
        if self != Framing::Unprotected {
            let crc = crc32(out.get(body..).unwrap_or_default());
            out.extend_from_slice(&crc.to_le_bytes());
        }
        let header = out.get_mut(start..body).and_then(|header| header.split_last_chunk_mut::<3>());
        if let Some((fields, crc)) = header {
            fields.iter_mut().zip(bits.to_le_bytes()).for_each(|(field, byte)| *field = byte);
            let [a, b, c, _] = crc24(fields).to_le_bytes();
            *crc = [a, b, c];
        }
    }

    fn header_len(self) -> usize {
        match self {
            Framing::Lz4 => HEADER_LZ4,
            Framing::Crc | Framing::Unprotected => HEADER,
        }
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// An LZ4 block expands at most 255 times; a length beyond that gets no memory.
fn decompress(block: &[u8], length: usize) -> Result<Bytes, FrameError> {
    let refused = |reason: String| FrameError::Decompression { length, reason };
    if length > block.len().saturating_mul(255) {
        return Err(refused(format!("{} bytes do not expand that far", block.len())));
    }
    let mut plain = vec![0; length];
    match lz4_flex::block::decompress_into(block, &mut plain) {
        Ok(written) if written == length => Ok(Bytes::from(plain)),
        Ok(written) => Err(refused(format!("it has {written} bytes"))),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Appends the block of a payload and returns the payload's length, or the payload and 0.
fn append_compressed(payload: &[u8], out: &mut Vec<u8>) -> usize {
    let body = out.len();
    out.resize(body + lz4_flex::block::get_maximum_output_size(payload.len()), 0);
    let room = out.get_mut(body..).unwrap_or_default();
    // It fails only for less room than computed above.
    let written = lz4_flex::block::compress_into(payload, room).unwrap_or(payload.len());
    if written < payload.len() {
        out.truncate(body + written);
        return payload.len();
    }
    out.truncate(body);
    out.extend_from_slice(payload);
    0
}

/// Puts small messages together into self-contained frames.
#[derive(Debug)]
pub struct Packer {
    framing: Framing,
    /// Whole messages, as many as fit into one frame.
    payload: Vec<u8>,
}

impl Packer {
    /// An empty one.
    pub fn new(framing: Framing) -> Packer {
        Packer { framing, payload: Vec::new() }
    }

    /// Adds a message of `len` bytes, at most [`SMALL_MESSAGE_BYTES_MAX`], which `encode` appends. Where it
    /// does not fit beside those before it, their frame goes to `out`.
    pub fn push(&mut self, len: usize, encode: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        if self.payload.len() + len > PAYLOAD_BYTES_MAX {
            self.finish(out);
        }
        encode(&mut self.payload);
    }

    /// Appends the frame of the messages that were added since the last one.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.payload.is_empty() {
            self.framing.encode(&self.payload, true, out);
            self.payload.clear();
        }
    }
}

/// The frames of one large message, made one at a time.
#[derive(Debug)]
pub struct LargeFrames<'a> {
    framing: Framing,
    head: &'a [u8],
    payload: &'a [u8],
}

impl<'a> LargeFrames<'a> {
    /// Those of the message that is `head` and then `payload`. The head has to fit into one frame, so that
    /// the first one tells the message's length.
    pub fn new(framing: Framing, head: &'a [u8], payload: &'a [u8]) -> LargeFrames<'a> {
        LargeFrames { framing, head, payload }
    }

    /// Appends the next frame. Whether there was one.
    pub fn next(&mut self, out: &mut Vec<u8>) -> bool {
        let room = LARGE_PIECE_BYTES.saturating_sub(self.head.len());
        let (piece, rest) = self.payload.split_at(room.min(self.payload.len()));
        self.payload = rest;
        if self.head.is_empty() {
            if piece.is_empty() {
                return false;
            }
            self.framing.encode(piece, false, out);
        } else {
            self.framing.encode(&[self.head, piece].concat(), false, out);
            self.head = &[];
        }
        true
    }
}

#[cfg(test)]
mod tests;
