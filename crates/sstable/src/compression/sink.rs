//! Writing of data files: bytes go in, chunks with checksums come out, compressed or not.
//!
//! A chunk is read as a whole, so a read of a long value also pays for what lies beside it in its first and
//! last chunk. Therefore a file chooses the length of its chunks by its first one, which has the length that
//! the table asks for. If that chunk consists of long values, and compression would not make up for the cost,
//! it is written as shorter chunks. All chunks that follow are as short.

use super::{CompressionInfo, CompressionParams};
use crate::checksum::{CRC_CHUNK_BYTES, ChunkCrcs};
use crate::error::WriteError;
use crate::pages::{PageLayout, PageSink};
use bytes::Bytes;
use crc32fast::Hasher;
use env::fs::WriteFile;
use std::ops::Range;

/// Bytes of a chunk for which memory is set aside before there are any: a table may ask for chunks of a GiB.
const AT_FIRST_BYTES_MAX: usize = 1 << 20;
/// Chunks are not made shorter than this.
const CHUNK_BYTES_MIN: usize = 4 << 10;
/// The chunks that a long value lies in take at most this many hundredths of its bytes.
const VALUE_CHUNKS_PERCENT: usize = 120;

/// Bytes of a chunk for values of so many bytes: `chunk_len`, or less if the chunks that one lies in at worst
/// would take too much beside it. `stored` is what becomes of `content` bytes when they are compressed.
fn chunk_len_for(mut chunk_len: usize, value_len: usize, stored: usize, content: usize) -> usize {
    let worst = |chunk_len: usize| (value_len.saturating_sub(2) / chunk_len + 2) * chunk_len;
    while chunk_len > CHUNK_BYTES_MIN
        && worst(chunk_len).saturating_mul(stored) / content.max(1) * 100 > value_len * VALUE_CHUNKS_PERCENT
    {
        chunk_len /= 2;
    }
    chunk_len
}

/// Values that went in before the first chunk came out.
#[derive(Debug, Default)]
struct LongValues {
    count: usize,
    bytes: usize,
}

/// A data file that is being written.
#[derive(Debug)]
pub(crate) struct DataSink {
    file: Box<dyn WriteFile>,
    params: Option<CompressionParams>,
    /// Settled when the first chunk comes out.
    chunk_len: usize,
    long_values: LongValues,
    /// What belongs to the chunk that is not full yet.
    chunk: Vec<u8>,
    compressed: Vec<u8>,
    /// Bytes that went in.
    position: u64,
    /// Bytes that came out.
    written: u64,
    digest: Hasher,
    offsets: Vec<u64>,
    crcs: Vec<u32>,
    /// Who wants to see the chunks.
    pub pages: Option<Box<dyn PageSink>>,
}

/// What a finished data file leaves for the other components.
#[derive(Debug)]
pub(crate) struct FinishedData {
    pub compression: Option<CompressionInfo>,
    /// Bytes of a chunk before compression.
    pub chunk_len: u32,
    /// The checksum of each chunk.
    pub crcs: Vec<u32>,
    pub digest: u32,
    pub data_len: u64,
    pub file_len: u64,
}

impl DataSink {
    pub fn new(file: Box<dyn WriteFile>, params: Option<CompressionParams>) -> DataSink {
        let chunk_len = params.as_ref().map_or(CRC_CHUNK_BYTES, |p| p.chunk_len) as usize;
        DataSink {
            file,
            params,
            chunk_len,
            long_values: LongValues::default(),
            chunk: Vec::with_capacity(chunk_len.min(AT_FIRST_BYTES_MAX)),
            compressed: Vec::new(),
            position: 0,
            written: 0,
            digest: Hasher::new(),
            offsets: Vec::new(),
            crcs: Vec::new(),
            pages: None,
        }
    }

    /// Bytes that went in so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Bytes of a chunk before compression, as far as is known.
    pub fn chunk_len(&self) -> u64 {
        self.chunk_len as u64
    }

    /// Bytes of the file so far, without the chunk that is not full.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Takes the next bytes; `long` are the long values in them.
    pub fn write(&mut self, mut bytes: &[u8], long: &[Range<usize>]) -> Result<(), WriteError> {
        self.position += bytes.len() as u64;
        if self.written == 0 {
            self.long_values.count += long.len();
            self.long_values.bytes += long.iter().map(Range::len).sum::<usize>();
        }
        while !bytes.is_empty() {
            let room = self.chunk_len - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == self.chunk_len {
                if self.written == 0 {
                    self.settle_chunk_len()?;
                }
                self.close_chunk()?;
            }
        }
        Ok(())
    }

    /// Chooses how long chunks are, with the first one in hand. It becomes several chunks, and the last of
    /// these is in hand afterwards.
    fn settle_chunk_len(&mut self) -> Result<(), WriteError> {
        let LongValues { count, bytes } = self.long_values;
        if count == 0 || (bytes as u64) < self.position / 2 {
            return Ok(());
        }
        let before = self.chunk_len;
        let mut stored = before;
        if let Some(params) = &self.params {
            params.compressor.compress(&self.chunk, &mut self.compressed).map_err(WriteError::Compression)?;
            let len = self.compressed.len();
            stored = if len < params.max_compressed_len as usize { len } else { before };
        }
        self.chunk_len = chunk_len_for(before, bytes / count, stored, before);
        if let Some(params) = &mut self.params {
            params.set_chunk_len(self.chunk_len as u32);
        }
        let first =
            std::mem::replace(&mut self.chunk, Vec::with_capacity(self.chunk_len.min(AT_FIRST_BYTES_MAX)));
        for part in first.chunks(self.chunk_len) {
            if !self.chunk.is_empty() {
                self.close_chunk()?;
            }
            self.chunk.extend_from_slice(part);
        }
        Ok(())
    }

    fn put(&mut self, compressed: bool) -> Result<u32, WriteError> {
        let bytes = if compressed { &self.compressed } else { &self.chunk };
        let crc = crc32fast::hash(bytes);
        self.file.write_all(bytes)?;
        self.digest.update(bytes);
        self.written += bytes.len() as u64;
        Ok(crc)
    }

    fn close_chunk(&mut self) -> Result<(), WriteError> {
        if let Some(pages) = &mut self.pages {
            pages.page(self.crcs.len() as u64, &self.chunk);
        }
        let Some(params) = &self.params else {
            let crc = self.put(false)?;
            self.crcs.push(crc);
            self.chunk.clear();
            return Ok(());
        };
        let limit = params.max_compressed_len as usize;
        params.compressor.compress(&self.chunk, &mut self.compressed).map_err(WriteError::Compression)?;
        let compressed = self.compressed.len() < limit;
        if !compressed && self.chunk.len() < limit {
            self.chunk.resize(limit, 0);
        }
        self.offsets.push(self.written);
        let crc = self.put(compressed)?;
        self.crcs.push(crc);
        let crc = crc.to_be_bytes();
        self.file.write_all(&crc)?;
        self.digest.update(&crc);
        self.written += crc.len() as u64;
        self.chunk.clear();
        Ok(())
    }

    /// Whether chunks are compressed.
    pub fn is_compressed(&self) -> bool {
        self.params.is_some()
    }

    /// The checksums of the chunks so far.
    pub fn crcs(&self) -> &[u32] {
        &self.crcs
    }

    /// Hands what came out to the file, and tells how what went in can be read. The answer has the pages of
    /// the file, and the bytes that are in no page yet, with the place where they start.
    pub fn so_far(&mut self) -> Result<(PageLayout, u64, Bytes), WriteError> {
        self.file.flush()?;
        let layout = match &self.params {
            Some(params) => {
                // The chunk that will come next says where the last one ends.
                let offsets = self.offsets.iter().copied().chain([self.written]).collect();
                let params = params.clone();
                PageLayout::Compressed(CompressionInfo { params, data_len: self.position, offsets })
            }
            None => {
                PageLayout::Checked(ChunkCrcs { chunk_len: self.chunk_len as u32, crcs: self.crcs.clone() })
            }
        };
        let tail = Bytes::copy_from_slice(&self.chunk);
        Ok((layout, self.position - tail.len() as u64, tail))
    }

    /// Writes what is left and makes the file durable.
    pub fn finish(mut self) -> Result<FinishedData, WriteError> {
        if !self.chunk.is_empty() {
            self.close_chunk()?;
        }
        self.file.sync_data()?;
        let chunk_len = self.chunk_len as u32;
        Ok(FinishedData {
            compression: self.params.map(|params| CompressionInfo {
                params,
                data_len: self.position,
                offsets: self.offsets,
            }),
            chunk_len,
            crcs: self.crcs,
            digest: self.digest.finalize(),
            data_len: self.position,
            file_len: self.written,
        })
    }
}
