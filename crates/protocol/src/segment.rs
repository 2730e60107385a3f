//! Segments: the checksummed frames of v5, which carry envelopes once STARTUP is answered.
//!
//! Header and trailer are little-endian, unlike everything else in the protocol.
//!
//! ```text
//! plain   u24  payload length (17 bits) | self-contained << 17
//!         u24  CRC24 of those 3 bytes
//!         payload
//!         u32  CRC32 of the payload
//!
//! lz4     u40  length as sent (17 bits) | uncompressed length << 17 (17 bits) | self-contained << 34
//!         u24  CRC24 of those 5 bytes
//!         payload: an LZ4 block, or plain bytes where the uncompressed length is 0
//!         u32  CRC32 of the payload as sent
//! ```
//!
//! 1. A self-contained segment holds one or more whole envelopes.
//! 2. An envelope longer than [`PAYLOAD_MAX`] is cut over several segments that are not self-contained and
//!    hold nothing else.
//! 3. A checksum that does not match ends the connection: where the next segment begins is not known any
//!    more.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use model::checksum::{crc24, crc32};
use thiserror::Error;

use crate::compression::{compress_block, decompress_block};

/// The longest payload of a segment, before compression, in bytes.
pub const PAYLOAD_MAX: usize = (1 << 17) - 1;
/// The length of the header of a plain segment, in bytes.
pub const PLAIN_HEADER: usize = 6;
/// The length of the header of an LZ4 segment, in bytes.
pub const LZ4_HEADER: usize = 8;
/// The length of the trailer, in bytes.
pub const TRAILER: usize = 4;

const SELF_CONTAINED_PLAIN: u64 = 1 << 17;
const SELF_CONTAINED_LZ4: u64 = 1 << 34;

/// Which of the two layouts a connection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// No compression.
    Plain,
    /// LZ4.
    Lz4,
}

/// A segment's payload, checked and decompressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The payload.
    pub payload: Bytes,
    /// Whether it holds whole envelopes.
    pub self_contained: bool,
}

/// A segment that cannot be trusted; the connection must close.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SegmentError {
    /// The header fails its CRC24.
    #[error("invalid, unrecoverable CRC mismatch detected in frame header. Read {read}, Computed {computed}")]
    HeaderChecksum {
        /// The checksum sent.
        read: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The payload fails its CRC32.
    #[error("invalid, unrecoverable CRC mismatch detected in frame body. Read {read}, Computed {computed}")]
    PayloadChecksum {
        /// The checksum sent, signed as Cassandra prints it.
        read: i32,
        /// The checksum of the bytes.
        computed: i32,
    },
    /// The payload's LZ4 block is damaged.
    #[error("Cannot decompress a segment: {reason}")]
    Decompression {
        /// The codec's words.
        reason: String,
    },
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Takes the next segment off the front of `input`; `None` until all of it has arrived.
pub fn decode(input: &mut BytesMut, layout: Layout) -> Result<Option<Segment>, SegmentError> {
    let header_length = match layout {
        Layout::Plain => PLAIN_HEADER,
        Layout::Lz4 => LZ4_HEADER,
    };
    let Some((fields, crc)) = input.get(..header_length).and_then(|header| header.split_last_chunk::<3>())
    else {
        return Ok(None);
    };
    let read = little_endian(crc) as u32;
    let computed = crc24(fields);
    if read != computed {
        return Err(SegmentError::HeaderChecksum { read, computed });
    }
    let bits = little_endian(fields);
    let sent_length = (bits & PAYLOAD_MAX as u64) as usize;
    let (plain_length, self_contained) = match layout {
        Layout::Plain => (0, bits & SELF_CONTAINED_PLAIN != 0),
        Layout::Lz4 => ((bits >> 17 & PAYLOAD_MAX as u64) as usize, bits & SELF_CONTAINED_LZ4 != 0),
    };
    if input.len() < header_length + sent_length + TRAILER {
        return Ok(None);
    }
    input.advance(header_length);
    let payload = input.split_to(sent_length).freeze();
    let read = input.get_u32_le();
    let computed = crc32(&payload);
    if read != computed {
        return Err(SegmentError::PayloadChecksum { read: read as i32, computed: computed as i32 });
    }
    let payload = match plain_length {
        0 => payload,
        length => decompress_block(&payload, length)
            .map_err(|error| SegmentError::Decompression { reason: error.to_string() })?,
    };
    Ok(Some(Segment { payload, self_contained }))
}

/// The 6 bytes before a plain payload of `length` bytes, at most [`PAYLOAD_MAX`].
pub fn plain_header(length: usize, self_contained: bool) -> [u8; PLAIN_HEADER] {
    debug_assert!(length <= PAYLOAD_MAX, "a segment's payload is at most 131071 bytes");
    let bits = length as u64 | if self_contained { SELF_CONTAINED_PLAIN } else { 0 };
    let [a, b, c, ..] = bits.to_le_bytes();
    let [x, y, z, _] = crc24(&[a, b, c]).to_le_bytes();
    [a, b, c, x, y, z]
}

/// Appends a plain segment.
pub fn encode_plain(payload: &[u8], self_contained: bool, out: &mut BytesMut) {
    out.put_slice(&plain_header(payload.len(), self_contained));
    out.put_slice(payload);
    out.put_u32_le(crc32(payload));
}

/// Appends an LZ4 segment; a payload that does not shrink is sent as it is.
pub fn encode_lz4(payload: &[u8], self_contained: bool, out: &mut BytesMut) {
    debug_assert!(payload.len() <= PAYLOAD_MAX, "a segment's payload is at most 131071 bytes");
    let start = out.len();
    out.put_bytes(0, LZ4_HEADER);
    compress_block(payload, out);
    let body = start + LZ4_HEADER;
    let mut plain_length = payload.len();
    if out.len() - body >= payload.len() {
        out.truncate(body);
        out.put_slice(payload);
        plain_length = 0;
    }
    let crc = crc32(out.get(body..).unwrap_or_default());
    let bits = (out.len() - body) as u64
        | (plain_length as u64) << 17
        | if self_contained { SELF_CONTAINED_LZ4 } else { 0 };
    let [a, b, c, d, e, ..] = bits.to_le_bytes();
    let [x, y, z, _] = crc24(&[a, b, c, d, e]).to_le_bytes();
    if let Some(header) = out.get_mut(start..body) {
        header.copy_from_slice(&[a, b, c, d, e, x, y, z]);
    }
    out.put_u32_le(crc);
}

#[cfg(test)]
mod tests;
