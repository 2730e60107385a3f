//! Checksums of frames on a network: the native protocol's from v5 on, and those between nodes.
//!
//! - [`crc24`] guards the header of a frame, whose length says where the next frame begins;
//! - [`crc32`] guards its payload, and the handshakes between nodes.
//!
//! Source: `org.apache.cassandra.net.Crc` of Cassandra 4.0.

/// The CRC24 register after one more byte, bit by bit.
const fn crc24_step(register: u32, byte: u8) -> u32 {
    let mut register = register ^ (byte as u32) << 16;
    let mut bits = 0;
    while bits < 8 {
        register <<= 1;
        if register & 0x100_0000 != 0 {
            register ^= 0x197_4F0B;
        }
        bits += 1;
    }
    register
}

/// What a byte in the upper third of an otherwise empty register leaves there. There are two headers for each
/// batch of answers, and a bit depends on the one before.
#[expect(clippy::indexing_slicing, reason = "made by the compiler")]
const CRC24_STEPS: [u32; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        steps[byte] = crc24_step(0, byte as u8);
        byte += 1;
    }
    steps
};

/// The CRC24 of a frame's header.
pub fn crc24(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x87_5060, |register: u32, &byte| {
        let upper = (register >> 16) as u8 ^ byte;
        (register << 8 & 0xFF_FFFF) ^ CRC24_STEPS.get(usize::from(upper)).copied().unwrap_or_default()
    })
}

/// The CRC32 of a frame's payload: the usual one, as if the bytes `FA 2D 55 CA` stood before the payload.
pub fn crc32(payload: &[u8]) -> u32 {
    const AFTER_PREFIX: u32 = 0x4477_7ED3;
    let mut hasher = crc32fast::Hasher::new_with_initial(AFTER_PREFIX);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_header_checksum_of_an_empty_self_contained_frame_is_known() {
        assert_eq!(crc24(&[0, 0, 2]), 0xC4_366A);
    }

    #[test]
    fn the_payload_checksum_starts_behind_four_fixed_bytes() {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&[0xFA, 0x2D, 0x55, 0xCA]);
        hasher.update(b"payload");
        assert_eq!(crc32(b"payload"), hasher.finalize());
        assert_eq!(crc32(b""), 0x4477_7ED3);
    }

    proptest! {
        #[test]
        fn the_header_checksum_is_that_of_its_bits_one_by_one(header: Vec<u8>) {
            let bit_by_bit = header.iter().fold(0x87_5060, |register, &byte| crc24_step(register, byte));
            prop_assert_eq!(crc24(&header), bit_by_bit);
        }
    }
}
