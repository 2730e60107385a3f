//! Checksums of data files: CRC.db of uncompressed ones, Digest.crc32 of all (docs/formats/sstable-nb.md).
//!
//! ```text
//! CRC.db:        i32 chunk length | u32 CRC32 of each chunk
//! Digest.crc32:  CRC32 of the whole file as decimal text
//! ```

use bytes::Bytes;
use env::random::Random;
use partition::codec::{DecodeError, Input, SliceInput};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes that one checksum of CRC.db covers.
pub(crate) const CRC_CHUNK_BYTES: u32 = 64 << 10;

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

    /// Whether to check this time.
    pub fn is_due(&self) -> bool {
        let chance = f64::from_bits(self.chance.load(Ordering::Relaxed));
        chance >= 1.0 || self.random.get().is_none_or(|random| random.unit() < chance)
    }
}
