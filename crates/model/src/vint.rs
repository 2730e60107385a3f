//! Variable-length integers of the SSTable, commit log and internode formats (docs/formats/sstable-big.md).
//!
//! ```text
//! 0xxxxxxx                     7 bits
//! 10xxxxxx xxxxxxxx           14 bits
//! ...
//! 11111110 + 7 bytes          56 bits
//! 11111111 + 8 bytes          64 bits
//! ```
//! The count of leading ones in the first byte is the number of bytes that follow; values are big-endian and
//! always written in the shortest form.

/// Appends `value` as an unsigned vint (1 to 9 bytes).
pub fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    let len = unsigned_len(value);
    if len == 1 {
        out.push(value as u8);
        return;
    }
    if len == 9 {
        out.push(0xff);
        out.extend_from_slice(&value.to_be_bytes());
        return;
    }
    let extra = len - 1;
    // The prefix of `extra` ones lands in bits that the length guarantees to be zero.
    let tagged = value | ((!(0xffu64 >> extra) & 0xff) << (8 * extra));
    let bytes = tagged.to_be_bytes();
    if let Some(tail) = bytes.get(8 - len..) {
        out.extend_from_slice(tail);
    }
}

/// Number of bytes of `value` as an unsigned vint.
pub fn unsigned_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    if bits > 56 { 9 } else { bits.div_ceil(7) }
}

/// Appends `value` as a zig-zag vint.
pub fn write_signed(out: &mut Vec<u8>, value: i64) {
    write_unsigned(out, zigzag(value));
}

/// Number of bytes of `value` as a zig-zag vint.
pub fn signed_len(value: i64) -> usize {
    unsigned_len(zigzag(value))
}

/// Reads an unsigned vint from the front of `input`: the value and its length, `None` when `input` is too
/// short.
#[inline]
pub fn read_unsigned(input: &[u8]) -> Option<(u64, usize)> {
    if let Some(word) = input.first_chunk::<8>() {
        // All eight bytes at once, whatever the length: no branch to guess. The bit that is set limits the
        // count for words of ones, which are longer anyway.
        let word = u64::from_be_bytes(*word);
        let extra = (!word | 1).leading_zeros();
        if extra < 8 {
            return Some(((word << extra >> extra) >> (56 - 8 * extra), 1 + extra as usize));
        }
    }
    read_bytewise(input)
}

/// What is longer than eight bytes, or lies near the end of the input.
#[cold]
fn read_bytewise(input: &[u8]) -> Option<(u64, usize)> {
    let (first, rest) = input.split_first()?;
    let extra = first.leading_ones() as usize;
    let bits = if extra >= 8 { 0 } else { first & (0xff >> extra) };
    let value = rest.get(..extra)?.iter().fold(bits as u64, |value, byte| value << 8 | *byte as u64);
    Some((value, 1 + extra))
}

/// Reads a zig-zag vint from the front of `input`: the value and its length.
pub fn read_signed(input: &[u8]) -> Option<(i64, usize)> {
    let (raw, len) = read_unsigned(input)?;
    Some((((raw >> 1) as i64) ^ -((raw & 1) as i64), len))
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_every_length() {
        for shift in 0..64 {
            for delta in [-1i64, 0, 1] {
                let value = (1u64 << shift).wrapping_add(delta as u64);
                let mut out = Vec::new();
                write_unsigned(&mut out, value);
                assert_eq!(out.len(), unsigned_len(value));
                assert_eq!(read_unsigned(&out), Some((value, out.len())));
                assert_eq!(read_unsigned(&out[..out.len() - 1]), None);
                let followed = [&out[..], &[0xab; 9]].concat();
                assert_eq!(read_unsigned(&followed), Some((value, out.len())));
                let mut out = Vec::new();
                write_signed(&mut out, value as i64);
                assert_eq!(read_signed(&out), Some((value as i64, out.len())));
            }
        }
    }

    #[test]
    fn layout_is_cassandras() {
        let mut out = Vec::new();
        write_unsigned(&mut out, 128);
        assert_eq!(out, [0x80, 0x80]);
        out.clear();
        write_unsigned(&mut out, u64::MAX);
        assert_eq!(out, [0xff; 9]);
    }
}
