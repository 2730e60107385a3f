//! Checksums of data files: CRC.db of uncompressed ones, Digest.crc32 of all (docs/formats/sstable-big.md).
//!
//! ```text
//! CRC.db:        i32 chunk length | u32 CRC32 of each chunk
//! Digest.crc32:  CRC32 of the whole file as decimal text
//! ```

use crate::descriptor::{Component, Descriptor};
use crate::error::{OpenError, read_optional};
use crate::pages::INDEX_PAGE_BYTES;
use bytes::Bytes;
use env::fs::FileSystem;
use env::random::Random;
use partition::ReadError;
use partition::codec::{DecodeError, Input, SliceInput};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that one checksum of CRC.db covers.
pub(crate) const CRC_CHUNK_BYTES: u32 = 16 << 10;

/// A CRC.db.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChunkCrcs {
    /// A power of two.
    pub chunk_len: u32,
    pub crcs: Vec<u32>,
}

impl ChunkCrcs {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.chunk_len.to_be_bytes().to_vec();
        self.crcs.iter().for_each(|crc| out.extend_from_slice(&crc.to_be_bytes()));
        out
    }

    pub fn decode(bytes: Bytes) -> Result<ChunkCrcs, DecodeError> {
        let mut input = SliceInput::new(bytes);
        let chunk_len = input.i32()?;
        if chunk_len < 512 || !(chunk_len as u32).is_power_of_two() || chunk_len > 64 << 20 {
            return Err(input.malformed(format!("chunks of {chunk_len} bytes")));
        }
        let mut crcs = Vec::with_capacity(input.remaining() / 4);
        while input.remaining() > 0 {
            crcs.push(u32::from_be_bytes(input.array()?));
        }
        Ok(ChunkCrcs { chunk_len: chunk_len as u32, crcs })
    }
}

/// Bytes of content of a page that ends with its checksum.
pub(crate) const SEALED_BYTES: usize = INDEX_PAGE_BYTES as usize - 4;

/// Makes `content`, of at most [`SEALED_BYTES`], the page of that number: zeroes up to its checksum, which
/// covers the number, too, so that no page passes for another.
pub(crate) fn seal_page(content: &mut Vec<u8>, number: u64) {
    content.resize(SEALED_BYTES, 0);
    let crc = seal_of(content, number);
    content.extend_from_slice(&crc.to_be_bytes());
}

/// The checksum of the content of a page.
pub(crate) fn seal_of(content: &[u8], number: u64) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&number.to_be_bytes());
    crc.update(content);
    crc.finalize()
}

const READ_BYTES: usize = 1 << 20;

/// The CRC32 of a whole file; `progress` hears of the bytes that are done, and of all of them.
pub(crate) fn file_crc(fs: &dyn FileSystem, path: &Path, progress: impl Fn(u64, u64)) -> io::Result<u32> {
    let file = fs.open_read(path)?;
    let mut crc = crc32fast::Hasher::new();
    let mut buffer = vec![0; READ_BYTES];
    let mut at = 0;
    while at < file.len() {
        let len = usize::try_from(file.len() - at).unwrap_or(READ_BYTES).min(READ_BYTES);
        let part = buffer.get_mut(..len).unwrap_or_default();
        file.read_exact_at(at, part)?;
        crc.update(part);
        at += len as u64;
        progress(at, file.len());
    }
    Ok(crc.finalize())
}

/// The checksum that a Digest.crc32 holds.
pub(crate) fn digest_of(text: &[u8]) -> Option<u32> {
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// What the Digest.crc32 of an SSTable says; `None` where there is none, or it says nothing.
pub(crate) fn stored_digest(fs: &dyn FileSystem, descriptor: &Descriptor) -> Result<Option<u32>, OpenError> {
    Ok(read_optional(fs, descriptor, Component::Digest)?.and_then(|text| digest_of(&text)))
}

/// Whether Digest.crc32 is there and fits Data.db.
pub(crate) fn digest_fits(fs: &dyn FileSystem, descriptor: &Descriptor) -> Result<bool, OpenError> {
    match stored_digest(fs, descriptor)? {
        Some(digest) => {
            let found =
                file_crc(fs, &descriptor.path(Component::Data), |_, _| {}).map_err(ReadError::from)?;
            Ok(found == digest)
        }
        None => Ok(false),
    }
}

/// How often checksums are checked when data is read: a table's `crc_check_chance`.
#[derive(Debug)]
pub(crate) struct CrcChecks {
    /// The bits of the chance, from 0 to 1.
    chance: AtomicU64,
    random: OnceLock<Arc<Random>>,
}

impl Default for CrcChecks {
    fn default() -> Self {
        CrcChecks { chance: AtomicU64::new(1f64.to_bits()), random: OnceLock::new() }
    }
}

impl CrcChecks {
    /// Gives the numbers that decide. Without them every checksum is checked.
    pub fn draw_from(&self, random: Arc<Random>) {
        self.random.get_or_init(|| random);
    }

    pub fn set_chance(&self, chance: f64) {
        self.chance.store(chance.to_bits(), Ordering::Relaxed);
    }

    /// Whether none is left out.
    pub fn are_all_due(&self) -> bool {
        self.are_all_due_with(f64::from_bits(self.chance.load(Ordering::Relaxed)))
    }

    /// The same with another chance.
    pub fn are_all_due_with(&self, chance: f64) -> bool {
        chance >= 1.0 || self.random.get().is_none()
    }

    /// Whether to check this time.
    pub fn is_due(&self) -> bool {
        let chance = f64::from_bits(self.chance.load(Ordering::Relaxed));
        chance >= 1.0 || self.random.get().is_none_or(|random| random.unit() < chance)
    }
}
