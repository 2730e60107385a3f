//! Compression of data files (docs/formats/sstable-big.md).
//!
//! A compressed Data.db is a sequence of chunks, each of the same number of bytes before compression (the
//! last may hold fewer) and each followed by a checksum:
//!
//! ```text
//! chunk := payload | u32 CRC32 of the payload
//! payload shorter than the maximal compressed length: compressed; else as it was
//! ```
//! A raw chunk that would look compressed (only the last can) is padded with zeroes to that length.

mod info;
pub(crate) mod sink;

pub use info::CompressionInfo;

use crate::error::WriteError;
use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use model::schema::CompressionOptions;
use std::collections::BTreeMap;

/// A compression algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressor {
    /// LZ4 block with the uncompressed length before it, little-endian.
    Lz4,
    /// Snappy block.
    Snappy,
    /// Zlib stream.
    Deflate,
    /// Zstandard frame.
    Zstd {
        /// Effort, -131072 to 22.
        level: i32,
    },
    /// None at all, though with chunks and checksums.
    Noop,
}

const ZSTD_LEVEL: i32 = 3;

impl Compressor {
    /// The compressor of a Java class name, with or without package.
    pub fn of_class(class: &str, options: &BTreeMap<String, String>) -> Option<Compressor> {
        Some(match class.strip_prefix("org.apache.cassandra.io.compress.").unwrap_or(class) {
            "LZ4Compressor" => Compressor::Lz4,
            "SnappyCompressor" => Compressor::Snappy,
            "DeflateCompressor" => Compressor::Deflate,
            "NoopCompressor" => Compressor::Noop,
            "ZstdCompressor" => {
                let level = options.get("compression_level").and_then(|l| l.parse().ok());
                Compressor::Zstd { level: level.unwrap_or(ZSTD_LEVEL) }
            }
            _ => return None,
        })
    }

    /// The Java class name without its package.
    pub fn class(self) -> &'static str {
        match self {
            Compressor::Lz4 => "LZ4Compressor",
            Compressor::Snappy => "SnappyCompressor",
            Compressor::Deflate => "DeflateCompressor",
            Compressor::Zstd { .. } => "ZstdCompressor",
            Compressor::Noop => "NoopCompressor",
        }
    }

    /// Compresses `input`, replacing what `out` holds.
    pub fn compress(self, input: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        match self {
            Compressor::Lz4 => {
                out.extend_from_slice(&(input.len() as u32).to_le_bytes());
                let bound = lz4_flex::block::get_maximum_output_size(input.len());
                out.resize(4 + bound, 0);
                let target = out.get_mut(4..).unwrap_or_default();
                let len = lz4_flex::block::compress_into(input, target).map_err(|e| e.to_string())?;
                out.truncate(4 + len);
            }
            Compressor::Snappy => {
                out.resize(snap::raw::max_compress_len(input.len()), 0);
                let len = snap::raw::Encoder::new().compress(input, out).map_err(|e| e.to_string())?;
                out.truncate(len);
            }
            Compressor::Deflate => {
                // Stored blocks cost 5 bytes for each 64 KiB at most, the stream's frame 6.
                out.reserve(input.len() + input.len() / 1000 + 64);
                let status = Compress::new(flate2::Compression::default(), true)
                    .compress_vec(input, out, FlushCompress::Finish)
                    .map_err(|e| e.to_string())?;
                if status != Status::StreamEnd {
                    return Err("the zlib stream did not end".to_owned());
                }
            }
            Compressor::Zstd { level } => {
                out.resize(zstd::zstd_safe::compress_bound(input.len()), 0);
                let len = zstd::bulk::compress_to_buffer(input, out.as_mut_slice(), level)
                    .map_err(|e| e.to_string())?;
                out.truncate(len);
            }
            Compressor::Noop => out.extend_from_slice(input),
        }
        Ok(())
    }

    /// The most bytes that `len` compressed ones can become: nothing has to be allocated for who claims more.
    pub fn decompressed_max(self, len: usize) -> u64 {
        let ratio = match self {
            // A byte of a length adds 255 bytes of a match.
            Compressor::Lz4 => 255,
            // Three bytes copy up to 64.
            Compressor::Snappy => 22,
            // Two codes of a bit each copy 258.
            Compressor::Deflate => 1032,
            // A block of four bytes repeats one 128 KiB times.
            Compressor::Zstd { .. } => 1 << 15,
            Compressor::Noop => 1,
        };
        (len as u64).saturating_mul(ratio)
    }

    /// Decompresses `input`, which must yield exactly `len` bytes.
    pub fn decompress(self, input: &[u8], len: usize) -> Result<Vec<u8>, String> {
        let out = match self {
            Compressor::Lz4 => {
                let Some((prefix, block)) = input.split_first_chunk::<4>() else {
                    return Err("an LZ4 chunk without its length".to_owned());
                };
                let claimed = u32::from_le_bytes(*prefix) as usize;
                if claimed != len {
                    return Err(format!("an LZ4 chunk of {claimed} bytes where {len} are expected"));
                }
                lz4_flex::block::decompress(block, len).map_err(|e| e.to_string())?
            }
            Compressor::Snappy => {
                let claimed = snap::raw::decompress_len(input).map_err(|e| e.to_string())?;
                if claimed != len {
                    return Err(format!("a snappy chunk of {claimed} bytes where {len} are expected"));
                }
                snap::raw::Decoder::new().decompress_vec(input).map_err(|e| e.to_string())?
            }
            Compressor::Deflate => {
                let (mut inflater, mut out) = (Decompress::new(true), Vec::with_capacity(len));
                let status = inflater
                    .decompress_vec(input, &mut out, FlushDecompress::Finish)
                    .map_err(|e| e.to_string())?;
                if status != Status::StreamEnd {
                    return Err(format!("a zlib stream of more than {len} bytes"));
                }
                out
            }
            Compressor::Zstd { .. } => zstd::bulk::decompress(input, len).map_err(|e| e.to_string())?,
            Compressor::Noop => input.to_vec(),
        };
        let got = out.len();
        if got == len { Ok(out) } else { Err(format!("{got} bytes where {len} are expected")) }
    }
}

/// Where a table asks for no ratio, chunks that compression makes less than a tenth shorter are stored raw.
/// Reading that much less is not worth decompressing them each time. Cassandra, which reads both from 4.0 on
/// (CASSANDRA-10520), stores all compressed then.
const MIN_RATIO: f64 = 1.1;

fn max_compressed_len(chunk_len: u32, ratio: f64) -> u32 {
    (chunk_len as f64 / ratio.max(1.0)).ceil() as u32
}

/// How a data file is compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionParams {
    /// The algorithm.
    pub compressor: Compressor,
    /// Bytes of data in each chunk, a power of two.
    pub chunk_len: u32,
    /// Chunks that do not get shorter than this are stored raw; `i32::MAX` where all are compressed.
    pub max_compressed_len: u32,
    /// Options of the compressor, kept as they are.
    pub options: BTreeMap<String, String>,
}

impl CompressionParams {
    /// LZ4 in chunks of 16 KiB, Cassandra's default.
    pub fn lz4() -> CompressionParams {
        CompressionParams {
            compressor: Compressor::Lz4,
            chunk_len: 16 << 10,
            max_compressed_len: max_compressed_len(16 << 10, MIN_RATIO),
            options: BTreeMap::new(),
        }
    }

    /// The parameters of a table's options; `None` when its data files are not compressed.
    pub fn of_options(options: &CompressionOptions) -> Result<Option<CompressionParams>, WriteError> {
        let Some(class) = &options.class else { return Ok(None) };
        let refuse = |why: String| WriteError::Compression(why);
        let compressor = Compressor::of_class(class, &options.options)
            .ok_or_else(|| refuse(format!("the compressor {class} is not known")))?;
        let chunk_len = options
            .chunk_length_kb
            .checked_mul(1024)
            .filter(|len| len.is_power_of_two() && *len <= info::CHUNK_LEN_MAX)
            .ok_or_else(|| refuse(format!("chunks of {} KiB", options.chunk_length_kb)))?;
        let ratio = options.min_compress_ratio;
        let max_compressed_len = max_compressed_len(chunk_len, if ratio > 0.0 { ratio } else { MIN_RATIO });
        let options = options.options.clone();
        Ok(Some(CompressionParams { compressor, chunk_len, max_compressed_len, options }))
    }

    /// Makes chunks that long. Chunks that do not get shorter by the same ratio are stored raw.
    pub(crate) fn set_chunk_len(&mut self, chunk_len: u32) {
        if self.max_compressed_len < i32::MAX as u32 {
            let raw_from = self.max_compressed_len as u64 * chunk_len as u64;
            self.max_compressed_len = raw_from.div_ceil(self.chunk_len as u64) as u32;
        }
        self.chunk_len = chunk_len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_compressor_gives_back_what_it_took() {
        let all = [
            Compressor::Lz4,
            Compressor::Snappy,
            Compressor::Deflate,
            Compressor::Zstd { level: 1 },
            Compressor::Noop,
        ];
        let random: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for input in [&b""[..], b"x", &[7; 5000], &random] {
            for compressor in all {
                let mut out = vec![1, 2, 3];
                compressor.compress(input, &mut out).unwrap();
                assert_eq!(compressor.decompress(&out, input.len()).unwrap(), input, "{compressor:?}");
                assert!(compressor.decompress(&out, input.len() + 1).is_err(), "{compressor:?}");
                if !input.is_empty() {
                    assert!(compressor.decompress(&out, input.len() - 1).is_err(), "{compressor:?}");
                }
            }
        }
    }
}
