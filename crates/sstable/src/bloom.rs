//! The bloom filter of an SSTable's partition keys (docs/formats/sstable-big.md).
//!
//! ```text
//! i32 number of hash functions | i32 number of 64-bit words | bits
//! ```
//! Bit `i` of the filter is byte `i >> 3`, mask `1 << (i & 7)`. Before version `na` the bytes of each word
//! stand in reverse.

use crate::descriptor::Version;
use bytes::Bytes;
use model::{DecoratedKey, murmur3};
use partition::codec::{DecodeError, Input, SliceInput};

/// More hash functions than any settings lead to; a file that claims more is damaged.
const HASHES_MAX: i32 = 64;
const BITS_PER_KEY_MAX: u32 = 20;
/// Bits beyond those that the keys ask for.
const EXCESS_BITS: u64 = 20;

/// A bloom filter.
#[derive(Clone, PartialEq, Eq)]
pub struct BloomFilter {
    hashes: u32,
    bits: Vec<u8>,
}

impl std::fmt::Debug for BloomFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BloomFilter({} hashes, {} bytes)", self.hashes, self.bits.len())
    }
}

/// Bits for each key and number of hash functions that stay below a chance of false positives: the fewest
/// bits, then the fewest functions.
fn sizing(fp_chance: f64) -> (u32, u32) {
    let rate = |bits: u32, hashes: u32| {
        let empty = (-(hashes as f64) / bits as f64).exp();
        (1.0 - empty).powi(hashes as i32)
    };
    for bits in 2..=BITS_PER_KEY_MAX {
        let most = (bits as f64 * std::f64::consts::LN_2).round().max(1.0) as u32;
        if let Some(hashes) = (1..=most).find(|k| rate(bits, *k) <= fp_chance) {
            return (bits, hashes);
        }
    }
    (BITS_PER_KEY_MAX, (BITS_PER_KEY_MAX as f64 * std::f64::consts::LN_2).round() as u32)
}

impl BloomFilter {
    /// An empty filter for about `keys` keys; `None` when a chance of 1 asks for no filter.
    pub fn new(keys: u64, fp_chance: f64) -> Option<BloomFilter> {
        if fp_chance >= 1.0 {
            return None;
        }
        let (bits_per_key, hashes) = sizing(fp_chance);
        let bits = keys.max(1).saturating_mul(bits_per_key as u64).saturating_add(EXCESS_BITS);
        let words = bits.div_ceil(64).min(i32::MAX as u64);
        Some(BloomFilter { hashes, bits: vec![0; words as usize * 8] })
    }

    fn positions(&self, key: &[u8]) -> impl Iterator<Item = u64> + use<> {
        let (inc, mut base) = murmur3::hash(key);
        let capacity = self.bits.len() as i64 * 8;
        (0..self.hashes).map(move |_| {
            let at = (base % capacity).unsigned_abs();
            base = base.wrapping_add(inc);
            at
        })
    }

    /// Adds a key.
    pub fn add(&mut self, key: &DecoratedKey) {
        for at in self.positions(&key.key.0) {
            if let Some(byte) = self.bits.get_mut((at >> 3) as usize) {
                *byte |= 1 << (at & 7);
            }
        }
    }

    /// Whether the key may have been added; `false` is certain.
    pub fn may_contain(&self, key: &DecoratedKey) -> bool {
        self.positions(&key.key.0)
            .all(|at| self.bits.get((at >> 3) as usize).is_some_and(|byte| byte & (1 << (at & 7)) != 0))
    }

    /// Bytes of memory that the filter takes.
    pub fn memory_bytes(&self) -> usize {
        self.bits.len()
    }

    /// The filter as Filter.db holds it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.bits.len());
        out.extend_from_slice(&(self.hashes as i32).to_be_bytes());
        out.extend_from_slice(&((self.bits.len() / 8) as i32).to_be_bytes());
        out.extend_from_slice(&self.bits);
        out
    }

    /// Reads a Filter.db of a version.
    pub fn decode(bytes: Bytes, version: Version) -> Result<BloomFilter, DecodeError> {
        let mut input = SliceInput::new(bytes);
        let hashes = input.i32()?;
        let words = input.i32()?;
        if !(1..=HASHES_MAX).contains(&hashes) {
            return Err(input.malformed(format!("{hashes} hash functions")));
        }
        if words <= 0 || words as usize * 8 != input.remaining() {
            return Err(input.malformed(format!("{words} words in {} bytes", input.remaining())));
        }
        let mut bits = input.bytes(words as u64 * 8)?.to_vec();
        if version.has_old_bloom_layout() {
            bits.as_chunks_mut::<8>().0.iter_mut().for_each(|word| word.reverse());
        }
        Ok(BloomFilter { hashes: hashes as u32, bits })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PartitionKey;

    fn key(i: u32) -> DecoratedKey {
        DecoratedKey::new(PartitionKey(Bytes::copy_from_slice(&i.to_be_bytes())))
    }

    #[test]
    fn sizes_are_cassandras() {
        assert_eq!(sizing(0.01), (10, 5));
        let filter = BloomFilter::new(20_000, 0.01).unwrap();
        assert_eq!(filter.bits.len() * 8, 200_064);
        assert!(BloomFilter::new(5, 1.0).is_none());
    }

    #[test]
    fn keys_are_found_again_and_others_rarely() {
        let mut filter = BloomFilter::new(1000, 0.01).unwrap();
        (0..1000).for_each(|i| filter.add(&key(i)));
        let filter = BloomFilter::decode(filter.encode().into(), Version::NB).unwrap();
        assert!((0..1000).all(|i| filter.may_contain(&key(i))));
        let wrong = (1000..11_000).filter(|i| filter.may_contain(&key(*i))).count();
        assert!(wrong < 300, "{wrong} of 10000");
    }
}
