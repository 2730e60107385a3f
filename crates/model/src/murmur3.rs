//! Cassandra's MurmurHash3 x64 128 (seed 0), whose tail bytes are sign-extended
//! (docs/formats/sstable-big.md).
//!
//! The published algorithm treats the up to 15 bytes after the last whole block as unsigned; Cassandra's Java
//! widens signed bytes. Tokens and bloom filters depend on that, so it is kept.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// Both halves of the 128-bit hash.
pub fn hash(data: &[u8]) -> (i64, i64) {
    let (mut h1, mut h2) = (0u64, 0u64);
    let (blocks, tail) = data.as_chunks::<16>();
    for block in blocks {
        let (k1, k2) = halves(block);
        h1 ^= mix_k1(k1);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_k2(k2);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let (mut k1, mut k2) = (0u64, 0u64);
    for (i, byte) in tail.iter().enumerate() {
        let widened = *byte as i8 as i64 as u64;
        if i < 8 {
            k1 ^= widened << (8 * i);
        } else {
            k2 ^= widened << (8 * (i - 8));
        }
    }
    if tail.len() > 8 {
        h2 ^= mix_k2(k2);
    }
    if !tail.is_empty() {
        h1 ^= mix_k1(k1);
    }
    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish(h1);
    h2 = finish(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1 as i64, h2 as i64)
}

fn halves(block: &[u8; 16]) -> (u64, u64) {
    let whole = u128::from_le_bytes(*block);
    (whole as u64, (whole >> 64) as u64)
}

fn mix_k1(k1: u64) -> u64 {
    k1.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_k2(k2: u64) -> u64 {
    k2.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn vectors_of_a_real_node() {
        assert_eq!(hash(b""), (0, 0));
        assert_eq!(hash(&[0, 0, 0, 1]), (-4069959284402364209, 8758431505130184934));
        assert_eq!(hash(b"hello"), (-3758069500696749310, 6565844092913065241));
        assert_eq!(hash(&[0xff, 0xfe, 0xfd]), (4778542740094909933, -8472617770952608660));
        assert_eq!(hash(b"The quick brown fox jumps over"), (-8526311487233562019, 5607669319464828675));
        assert_eq!(hash(&[0x80; 20]), (-2331765004752948948, -2282880439584954581));
    }
}
