//! CompressionInfo.db: where the chunks of a compressed data file lie (docs/formats/sstable-big.md).
//!
//! ```text
//! utf class | i32 n, n * (utf key, utf value) | i32 chunk length | i32 maximal compressed length (from `na` on)
//!           | i64 length of the data | i32 chunk count | count * i64 offset in Data.db
//! ```

use super::{CompressionParams, Compressor};
use crate::descriptor::{Component, Descriptor, Version};
use crate::error::{OpenError, corrupt, read_component};
use bytes::Bytes;
use env::fs::FileSystem;
use partition::codec::{DecodeError, Input, SliceInput};
use std::collections::BTreeMap;

pub(super) const CHUNK_LEN_MAX: u32 = 64 << 20;
const CHUNK_LEN_MIN: u32 = 1 << 9;

/// A CompressionInfo.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionInfo {
    /// How chunks are compressed.
    pub params: CompressionParams,
    /// Bytes of the data before compression.
    pub data_len: u64,
    /// Where each chunk starts in Data.db. There may be one chunk more than the data needs, which is empty.
    pub offsets: Vec<u64>,
}

fn write_utf(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&(text.len() as u16).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

fn read_utf(input: &mut SliceInput) -> Result<String, DecodeError> {
    let len = input.u16()?;
    let bytes = input.bytes(len as u64)?;
    String::from_utf8(bytes.to_vec()).map_err(|e| input.malformed(format!("text is not UTF-8: {e}")))
}

impl CompressionInfo {
    /// Reads the CompressionInfo.db of an SSTable; `None` when it has none, because it is not compressed.
    ///
    /// # Errors
    /// When the file is damaged or cannot be read.
    pub fn of_sstable(
        fs: &dyn FileSystem,
        descriptor: &Descriptor,
    ) -> Result<Option<CompressionInfo>, OpenError> {
        let path = descriptor.path(Component::CompressionInfo);
        match read_component(fs, descriptor, Component::CompressionInfo) {
            Ok(bytes) => {
                Ok(Some(CompressionInfo::decode(bytes, descriptor.version).map_err(|e| corrupt(&path, e))?))
            }
            Err(OpenError::MissingComponent { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The file's bytes, for versions from `na` on.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + 8 * self.offsets.len());
        write_utf(&mut out, self.params.compressor.class());
        out.extend_from_slice(&(self.params.options.len() as i32).to_be_bytes());
        for (key, value) in &self.params.options {
            write_utf(&mut out, key);
            write_utf(&mut out, value);
        }
        out.extend_from_slice(&self.params.chunk_len.to_be_bytes());
        out.extend_from_slice(&self.params.max_compressed_len.to_be_bytes());
        out.extend_from_slice(&self.data_len.to_be_bytes());
        out.extend_from_slice(&(self.offsets.len() as i32).to_be_bytes());
        self.offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
        out
    }

    /// Reads the file of an SSTable of a version.
    pub fn decode(bytes: Bytes, version: Version) -> Result<CompressionInfo, DecodeError> {
        let mut input = SliceInput::new(bytes);
        let class = read_utf(&mut input)?;
        let mut options = BTreeMap::new();
        for _ in 0..input.i32()? {
            let key = read_utf(&mut input)?;
            options.insert(key, read_utf(&mut input)?);
        }
        let Some(compressor) = Compressor::of_class(&class, &options) else {
            return Err(input.malformed(format!("the compressor {class} is not known")));
        };
        let chunk_len = input.i32()? as u32;
        if !chunk_len.is_power_of_two() || !(CHUNK_LEN_MIN..=CHUNK_LEN_MAX).contains(&chunk_len) {
            return Err(input.malformed(format!("chunks of {chunk_len} bytes")));
        }
        let max_compressed_len = if version.has_max_compressed_len() { input.i32()? } else { i32::MAX };
        if max_compressed_len < 0 {
            return Err(input.malformed(format!("a maximal compressed length of {max_compressed_len}")));
        }
        let data_len = input.i64()?;
        let count = input.i32()?;
        if data_len < 0 || count < 0 || count as usize * 8 != input.remaining() {
            return Err(input.malformed(format!("{count} chunks in {} bytes", input.remaining())));
        }
        let needed = (data_len as u64).div_ceil(chunk_len as u64);
        if (count as u64) < needed || count as u64 > needed + 1 {
            return Err(input.malformed(format!("{count} chunks for {data_len} bytes of data")));
        }
        let mut offsets = Vec::with_capacity(count as usize);
        let mut last = None;
        for _ in 0..count {
            let offset = input.i64()? as u64;
            if last.is_some_and(|last| offset <= last) || offset > i64::MAX as u64 {
                return Err(input.malformed(format!("a chunk at {offset} after one at {last:?}")));
            }
            last = Some(offset);
            offsets.push(offset);
        }
        let params = CompressionParams {
            compressor,
            chunk_len,
            max_compressed_len: max_compressed_len as u32,
            options,
        };
        Ok(CompressionInfo { params, data_len: data_len as u64, offsets })
    }

    /// Whether a chunk of `stored` bytes, its checksum not counted, is stored raw.
    pub fn is_raw(&self, stored: u64) -> bool {
        stored >= self.params.max_compressed_len as u64
    }

    /// Where a chunk lies in a data file of `file_len` bytes: offset and length, its checksum included.
    pub fn chunk(&self, index: u64, file_len: u64) -> Option<(u64, u64)> {
        let index = usize::try_from(index).ok()?;
        let start = *self.offsets.get(index)?;
        let end = self.offsets.get(index + 1).copied().unwrap_or(file_len);
        Some((start, end.checked_sub(start)?))
    }
}
