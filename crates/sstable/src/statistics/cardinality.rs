//! The estimate of the number of partition keys in Statistics.db: HyperLogLog++ of precision 13, sparse
//! precision 25, in the serialization of stream-lib 2.5 (docs/formats/sstable-big.md). Compactions of
//! Cassandra merge those of their inputs to size the bloom filter of the result.
//!
//! ```text
//! ibytes of: i32 -2 | uvarint 13 | uvarint 25 | form
//! form := 0 | uvarint number of bytes | words: u32 each, six registers of 5 bits, the first in the lowest bits
//!       | 1 | uvarint n | n * uvarint difference (modulo 2^32) to the entry before, the first to 0
//! entry := index of 25 bits, then bit 0                                   when its last 12 bits are not all zero
//!        | index of 25 bits, then 6 bits 63 - run length, then bit 1      when they are
//! ```
//! The index is the first 25 bits of a key's hash, its first 13 bits the number of the register; the run
//! length counts the zeros after those 13 bits, plus one. Entries ascend by index. A uvarint has 7 bits in
//! each byte, the lowest first, and the top bit set in all but the last (not the vint of the rest of the
//! format).
//!
//! Up to 6,147 different indexes are kept one by one, more only as registers. The bytes depend on the set of
//! keys and not on their order. Registers and entries are those that Cassandra writes for the same keys. But
//! where stream-lib 2.5 merges batches of entries, it leaves those with bit 1 and their neighbours out of
//! order.

use bytes::Bytes;
use std::collections::BTreeSet;

const VERSION: i32 = -2;
const PRECISION: u32 = 13;
const SPARSE_PRECISION: u32 = 25;
const REGISTERS: usize = 1 << PRECISION;
/// Indexes that are kept one by one: stream-lib gives up above 6,144, but looks only after each 2,049th key.
const SPARSE_MAX: usize = 3 * 2049;
/// Entries that may wait to be sorted in, so that sorting is rare.
const PENDING_MAX: usize = 1024;
const REGISTER_BITS: usize = 5;
const REGISTERS_PER_WORD: usize = 6;
const REGISTER_MAX: u32 = (1 << REGISTER_BITS) - 1;
/// Registers that may be too low in a component that counts all keys.
const REGISTERS_TOO_LOW_MAX: usize = 16;
/// Bits of a run length in an entry, all set.
const RUN_MASK: u32 = 63;
const RUN_BITS: u32 = 6;

/// Counts different keys, roughly. At most 28 KiB, 5.5 KiB from some 6,000 keys on.
#[derive(Debug)]
pub(crate) enum Cardinality {
    /// An index and below it [`RUN_BITS`] with [`RUN_MASK`] minus the run length. So the longest run of equal
    /// indexes sorts first.
    Sparse { entries: Vec<u32>, sorted: usize },
    /// Registers, packed.
    Normal(Vec<u32>),
}

/// MurmurHash2 64A of seed 0 as Cassandra computes it: the bytes after the last whole group of eight are
/// sign-extended before they are shifted to their places.
fn hash(key: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut hash = M.wrapping_mul(key.len() as u64);
    let (groups, tail) = key.as_chunks::<8>();
    for group in groups {
        let mut k = u64::from_le_bytes(*group).wrapping_mul(M);
        k = (k ^ (k >> R)).wrapping_mul(M);
        hash = (hash ^ k).wrapping_mul(M);
    }
    for (i, byte) in tail.iter().enumerate() {
        hash ^= ((*byte as i8) as u64) << (8 * i);
    }
    if !tail.is_empty() {
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> R)).wrapping_mul(M);
    hash ^ (hash >> R)
}

/// Zeros after the bits of the register's number, plus one.
fn run_length(hash: u64) -> u32 {
    let stop = 1 << (PRECISION - 1);
    ((hash << PRECISION) | stop).leading_zeros() + 1
}

fn index_of(entry: u32) -> u32 {
    entry >> RUN_BITS
}

impl Default for Cardinality {
    fn default() -> Self {
        Cardinality::Sparse { entries: Vec::new(), sorted: 0 }
    }
}

impl Cardinality {
    /// Counts a partition key.
    pub fn add(&mut self, key: &[u8]) {
        let hash = hash(key);
        match self {
            Cardinality::Sparse { entries, sorted } => {
                let index = (hash >> (u64::BITS - SPARSE_PRECISION)) as u32;
                entries.push((index << RUN_BITS) | (RUN_MASK - run_length(hash)));
                if entries.len() >= *sorted + PENDING_MAX {
                    self.settle();
                }
            }
            Cardinality::Normal(words) => {
                raise(words, (hash >> (u64::BITS - PRECISION)) as usize, run_length(hash));
            }
        }
    }

    /// Sorts the entries, and goes over to registers when they are too many.
    fn settle(&mut self) {
        let Cardinality::Sparse { entries, sorted } = self else { return };
        entries.sort_unstable();
        entries.dedup_by_key(|entry| index_of(*entry));
        *sorted = entries.len();
        if entries.len() > SPARSE_MAX {
            let mut words = vec![0; REGISTERS.div_ceil(REGISTERS_PER_WORD)];
            for entry in entries.iter() {
                let register = index_of(*entry) >> (SPARSE_PRECISION - PRECISION);
                raise(&mut words, register as usize, RUN_MASK - (entry & RUN_MASK));
            }
            *self = Cardinality::Normal(words);
        }
    }

    /// The COMPACTION component.
    pub fn finish(mut self) -> Bytes {
        self.settle();
        let mut out = Vec::with_capacity(8 << 10);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&VERSION.to_be_bytes());
        put_varint(&mut out, PRECISION);
        put_varint(&mut out, SPARSE_PRECISION);
        match &self {
            Cardinality::Sparse { entries, .. } => {
                put_varint(&mut out, 1);
                put_varint(&mut out, entries.len() as u32);
                let mut previous = 0u32;
                for entry in entries {
                    let entry = encode_entry(*entry);
                    put_varint(&mut out, entry.wrapping_sub(previous));
                    previous = entry;
                }
            }
            Cardinality::Normal(words) => {
                put_varint(&mut out, 0);
                put_varint(&mut out, words.len() as u32 * 4);
                words.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
            }
        }
        let len = out.len() as i32 - 4;
        if let Some(place) = out.first_chunk_mut::<4>() {
            *place = len.to_be_bytes();
        }
        out.into()
    }
}

/// A COMPACTION component as far as it is understood.
struct Encoded<'a> {
    is_sparse: bool,
    /// Entries, or bytes of registers.
    len: u32,
    rest: &'a [u8],
}

fn take_varint(rest: &mut &[u8]) -> Option<u32> {
    let mut value = 0u32;
    for shift in (0..u32::BITS).step_by(7) {
        let (byte, left) = rest.split_first()?;
        *rest = left;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

impl<'a> Encoded<'a> {
    fn of(component: &'a [u8]) -> Option<Encoded<'a>> {
        let (_, rest) = component.split_first_chunk::<4>()?;
        let (version, mut rest) = rest.split_first_chunk::<4>()?;
        if i32::from_be_bytes(*version) != VERSION {
            return None;
        }
        if (take_varint(&mut rest)?, take_varint(&mut rest)?) != (PRECISION, SPARSE_PRECISION) {
            return None;
        }
        let is_sparse = take_varint(&mut rest)? == 1;
        let len = take_varint(&mut rest)?;
        Some(Encoded { is_sparse, len, rest })
    }

    fn register(&self, i: usize) -> u32 {
        let (words, _) = self.rest.as_chunks::<4>();
        let word = words.get(i / REGISTERS_PER_WORD).map_or(0, |word| u32::from_be_bytes(*word));
        (word >> (REGISTER_BITS * (i % REGISTERS_PER_WORD))) & REGISTER_MAX
    }
}

/// Whether a COMPACTION component was made without one of `keys`, which is certain. Bytes that are none, or
/// cut, deny nothing.
///
/// An entry denies a key whose index is not among them. Registers deny keys whose run is longer than theirs.
/// One run in 2^31 is too long for a register, and there stream-lib 2.5 leaves the register too low. So only
/// more than [`REGISTERS_TOO_LOW_MAX`] of them count.
pub(crate) fn denies<'a>(component: &[u8], keys: impl Iterator<Item = &'a [u8]>) -> bool {
    let Some(encoded) = Encoded::of(component) else { return false };
    if !encoded.is_sparse {
        if encoded.rest.len() < REGISTERS.div_ceil(REGISTERS_PER_WORD) * 4 {
            return false;
        }
        let mut too_low = BTreeSet::new();
        for key in keys {
            let hash = hash(key);
            let register = (hash >> (u64::BITS - PRECISION)) as usize;
            if encoded.register(register) < run_length(hash).min(REGISTER_MAX) {
                too_low.insert(register);
            }
        }
        return too_low.len() > REGISTERS_TOO_LOW_MAX;
    }
    let mut rest = encoded.rest;
    let mut indexes = Vec::new();
    let mut entry = 0u32;
    for _ in 0..encoded.len {
        let Some(difference) = take_varint(&mut rest) else { return false };
        entry = entry.wrapping_add(difference);
        indexes.push(if entry & 1 == 1 { entry >> (RUN_BITS + 1) } else { entry >> 1 });
    }
    // In their order already, unless the bytes are damaged.
    indexes.sort_unstable();
    let index = |key: &[u8]| (hash(key) >> (u64::BITS - SPARSE_PRECISION)) as u32;
    !keys.map(index).all(|index| indexes.binary_search(&index).is_ok())
}

/// The number of keys that a COMPACTION component stands for, roughly; `None` when the bytes are none.
pub(crate) fn estimate(component: &[u8]) -> Option<u64> {
    let encoded = Encoded::of(component)?;
    if encoded.is_sparse {
        let all = f64::from(1u32 << SPARSE_PRECISION);
        return Some((all * (all / (all - f64::from(encoded.len))).ln()).round() as u64);
    }
    let registers = (0..REGISTERS).map(|i| encoded.register(i));
    let (mut sum, mut zeros) = (0f64, 0u32);
    for register in registers {
        sum += f64::from(register).exp2().recip();
        zeros += u32::from(register == 0);
    }
    let count = REGISTERS as f64;
    let raw = 0.7213 / (1.0 + 1.079 / count) * count * count / sum;
    let counted = count * (count / f64::from(zeros.max(1))).ln();
    // Few keys are told better by the registers that are still empty.
    Some(if zeros > 0 && counted < 2.5 * count { counted } else { raw }.round() as u64)
}

/// Sets a register to a run length, unless it holds a longer one. A run that is too long for the register,
/// one in 2^31, counts as the longest.
fn raise(words: &mut [u32], register: usize, run: u32) {
    let shift = REGISTER_BITS * (register % REGISTERS_PER_WORD);
    let run = run.min(REGISTER_MAX);
    if let Some(word) = words.get_mut(register / REGISTERS_PER_WORD)
        && (*word >> shift) & REGISTER_MAX < run
    {
        *word = (*word & !(REGISTER_MAX << shift)) | (run << shift);
    }
}

fn encode_entry(entry: u32) -> u32 {
    let index = index_of(entry);
    match index << (u32::BITS - (SPARSE_PRECISION - PRECISION)) {
        0 => (entry << 1) | 1,
        _ => index << 1,
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by Cassandra 5.0.5's own class.
    #[test]
    fn hashes_are_cassandras() {
        let hashes: [(&[u8], i64); 8] = [
            (b"", 0),
            (&[0, 0, 0, 1], 5742556559567673939),
            (b"hello", 2191231550387646743),
            (&[0xff, 0xfe, 0xfd], 7269475462503682380),
            (b"The quick brown fox jumps over", -5908457051021727567),
            (&[0x80; 20], 145074163936426466),
            (&[0x80, 1, 0x90, 2, 0xa0, 3, 0xb0, 4], -2490530831858180769),
            (&[1, 2, 3, 4, 5, 6, 7, 8, 0x81, 9, 0x91, 9, 0xa1, 9, 0xb1], -9153021548931344525),
        ];
        for (key, expected) in hashes {
            assert_eq!(hash(key) as i64, expected, "{key:02x?}");
        }
    }

    fn estimate<K: AsRef<[u8]>>(keys: impl IntoIterator<Item = K>) -> Bytes {
        let mut cardinality = Cardinality::default();
        keys.into_iter().for_each(|key| cardinality.add(key.as_ref()));
        let bytes = cardinality.finish();
        assert_eq!(bytes[..4], (bytes.len() as i32 - 4).to_be_bytes());
        bytes.slice(4..)
    }

    fn numbers(range: std::ops::Range<u32>) -> impl DoubleEndedIterator<Item = [u8; 4]> {
        range.map(u32::to_be_bytes)
    }

    #[test]
    fn few_keys_are_listed() {
        let expected: [(u32, &[u8]); 3] = [
            (0, &[0xff, 0xff, 0xff, 0xfe, 0x0d, 0x19, 1, 0]),
            (1, &[0xff, 0xff, 0xff, 0xfe, 0x0d, 0x19, 1, 1, 0xde, 0xbe, 0x89, 0x0c]),
            (
                3,
                &[
                    0xff, 0xff, 0xff, 0xfe, 0x0d, 0x19, 1, 3, 0xa2, 0x8d, 0xfb, 0x09, 0xbc, 0xb1, 0x8e, 0x02,
                    0x82, 0x9d, 0xad, 0x06,
                ],
            ),
        ];
        for (count, bytes) in expected {
            assert_eq!(estimate(numbers(0..count)), bytes, "{count} keys");
        }
    }

    /// Lengths and checksums of what the estimator that Cassandra 5.0.5 uses writes for the keys 0, 1, 2 and
    /// so on, the entries put in order; the form changes between 6,147 and 6,148 keys.
    #[test]
    fn any_number_of_keys_gives_cassandras_entries() {
        let expected = [
            (100, 309, 1950988266),
            (5_000, 11488, 1902309941),
            (6_147, 13682, 3887302039),
            (6_148, 5473, 3643517413),
            (7_000, 5473, 1007875283),
            (100_000, 5473, 1946298409),
            (300_000, 5473, 1470264475u32),
        ];
        for (count, len, crc) in expected {
            let bytes = estimate(numbers(0..count));
            assert_eq!((bytes.len(), crc32fast::hash(&bytes)), (len, crc), "{count} keys");
        }
        let text = |count: u32| (0..count).map(|i| format!("ключ-{i}"));
        assert_eq!(crc32fast::hash(&estimate(text(1_000))), 89861695);
        assert_eq!(crc32fast::hash(&estimate(text(20_000))), 4095707579);
    }

    #[test]
    fn order_and_repetition_do_not_matter() {
        for count in [5_000, 7_000] {
            let again = numbers(0..count).rev().chain(numbers(0..count));
            assert_eq!(estimate(again), estimate(numbers(0..count)));
        }
    }

    #[test]
    fn only_a_key_that_was_not_counted_is_denied() {
        for count in [1u32, 3, 100, 5_000, 7_000, 100_000] {
            let mut cardinality = Cardinality::default();
            numbers(0..count).for_each(|key| cardinality.add(&key));
            let bytes = cardinality.finish();
            let denies = |range: std::ops::Range<u32>| {
                let keys: Vec<[u8; 4]> = numbers(range).collect();
                denies(&bytes, keys.iter().map(|key| &key[..]))
            };
            assert!(!denies(0..count), "{count} keys");
            // One strange key is told from a list of keys, many from registers.
            assert!(denies(count..if count > 6_147 { 2 * count } else { count + 1 }), "{count} keys");
            let cut = &bytes[..bytes.len() - 1];
            assert!(!super::denies(cut, [&b"strange"[..]].into_iter()), "{count} keys");
        }
        assert!(!super::denies(b"something else", [&b"strange"[..]].into_iter()));
    }

    #[test]
    fn estimates_are_near() {
        for count in [0u32, 1, 3, 100, 5_000, 7_000, 30_000, 100_000] {
            let mut cardinality = Cardinality::default();
            numbers(0..count).for_each(|key| cardinality.add(&key));
            let found = super::estimate(&cardinality.finish()).unwrap();
            let off = (found as f64 - f64::from(count)).abs();
            assert!(off <= f64::from(count) * 0.05, "{found} for {count}");
        }
        assert_eq!(super::estimate(b"something else"), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut cardinality = Cardinality::default();
        for key in numbers(0..20_000) {
            cardinality.add(&key);
            if let Cardinality::Sparse { entries, .. } = &cardinality {
                assert!(entries.len() <= SPARSE_MAX + PENDING_MAX);
            }
        }
        assert!(matches!(cardinality, Cardinality::Normal(_)));
    }
}
