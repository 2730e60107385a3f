//! Compressed bodies of v3 and v4, and the LZ4 blocks inside v5 segments.
//!
//! ```text
//! lz4 body      u32 uncompressed length | raw LZ4 block       empty body: 00000000 00
//! snappy body   raw snappy block (its own varint length first)
//! ```
//!
//! A length that a client states is checked against a limit before anything is allocated for it.

use bytes::{BufMut, Bytes, BytesMut};
use thiserror::Error;

/// An algorithm that STARTUP can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// `lz4`: every version.
    Lz4,
    /// `snappy`: v3 and v4 only.
    Snappy,
}

impl Compression {
    /// The value of STARTUP's COMPRESSION and of SUPPORTED.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Snappy => "snappy",
        }
    }

    /// The algorithm of that name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Lz4, Self::Snappy].into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }
}

/// Why bytes cannot be decompressed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CompressionError {
    /// The block is damaged, or longer or shorter than announced.
    #[error("{0}")]
    Corrupt(String),
    /// The uncompressed length is over the limit.
    #[error("uncompressed length {length} exceeds {max}")]
    TooBig {
        /// The length announced, in bytes.
        length: u64,
        /// The limit, in bytes.
        max: usize,
    },
}

fn corrupt(error: impl ToString) -> CompressionError {
    CompressionError::Corrupt(error.to_string())
}

/// Decompresses the body of a v3 or v4 envelope of at most `max` bytes.
pub fn decompress_body(algorithm: Compression, body: &[u8], max: usize) -> Result<Bytes, CompressionError> {
    match algorithm {
        Compression::Lz4 => {
            let (length, block) = body.split_first_chunk::<4>().ok_or_else(|| corrupt("no length"))?;
            let length = u32::from_be_bytes(*length);
            let too_big = CompressionError::TooBig { length: u64::from(length), max };
            let length = usize::try_from(length).map_err(|_| too_big.clone())?;
            if length > max {
                return Err(too_big);
            }
            decompress_block(block, length)
        }
        Compression::Snappy => {
            if body.is_empty() {
                return Ok(Bytes::new());
            }
            let length = snap::raw::decompress_len(body).map_err(corrupt)?;
            if length > max {
                return Err(CompressionError::TooBig { length: length as u64, max });
            }
            snap::raw::Decoder::new().decompress_vec(body).map(Bytes::from).map_err(corrupt)
        }
    }
}

/// Decompresses a raw LZ4 block to exactly `length` bytes. An LZ4 block expands at most 255 times, so a
/// length beyond that is refused before memory is set aside for it.
pub fn decompress_block(block: &[u8], length: usize) -> Result<Bytes, CompressionError> {
    if length == 0 {
        return Ok(Bytes::new());
    }
    let possible = block.len().saturating_mul(255);
    if length > possible {
        return Err(CompressionError::Corrupt(format!(
            "{} bytes cannot expand to the {length} announced",
            block.len()
        )));
    }
    let mut plain = vec![0; length];
    let written = lz4_flex::block::decompress_into(block, &mut plain).map_err(corrupt)?;
    if written != length {
        return Err(CompressionError::Corrupt(format!("{written} bytes where {length} were announced")));
    }
    Ok(Bytes::from(plain))
}

/// Appends the compressed form of a v3 or v4 body to `out`.
pub fn compress_body(algorithm: Compression, body: &[u8], out: &mut BytesMut) {
    match algorithm {
        Compression::Lz4 => {
            out.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
            compress_block(body, out);
        }
        Compression::Snappy => {
            let start = out.len();
            out.resize(start + snap::raw::max_compress_len(body.len()), 0);
            let room = out.get_mut(start..).unwrap_or_default();
            // Fails only for bodies over 4 GiB, which never come here, or for less room than computed above.
            let written = snap::raw::Encoder::new().compress(body, room).unwrap_or_default();
            out.truncate(start + written);
        }
    }
}

/// Appends the raw LZ4 block of `plain` to `out`.
pub fn compress_block(plain: &[u8], out: &mut BytesMut) {
    let start = out.len();
    out.resize(start + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
    let room = out.get_mut(start..).unwrap_or_default();
    // Fails only for less room than computed above.
    let written = lz4_flex::block::compress_into(plain, room).unwrap_or_default();
    out.truncate(start + written);
}

#[cfg(test)]
mod tests;
