use proptest::prelude::*;

use super::*;

#[test]
fn names_are_taken_in_any_case() {
    assert_eq!(Compression::from_name("LZ4"), Some(Compression::Lz4));
    assert_eq!(Compression::from_name("Snappy"), Some(Compression::Snappy));
    assert_eq!(Compression::from_name("zstd"), None);
}

#[test]
fn empty_bodies_look_like_cassandras() {
    for (algorithm, bytes) in [(Compression::Lz4, &[0, 0, 0, 0, 0][..]), (Compression::Snappy, &[0])] {
        let mut out = BytesMut::new();
        compress_body(algorithm, &[], &mut out);
        assert_eq!(out, bytes);
        assert_eq!(decompress_body(algorithm, bytes, 10), Ok(Bytes::new()));
    }
}

#[test]
fn announced_lengths_are_bounded_before_memory_is_set_aside() {
    let lz4 = decompress_body(Compression::Lz4, &[0x7F, 0xFF, 0xFF, 0xFF, 0], 1 << 20);
    assert_eq!(lz4, Err(CompressionError::TooBig { length: 0x7FFF_FFFF, max: 1 << 20 }));
    let within_limit_but_impossible = decompress_body(Compression::Lz4, &[0, 8, 0, 0, 0], 1 << 20);
    assert!(matches!(within_limit_but_impossible, Err(CompressionError::Corrupt(_))));
    let snappy = decompress_body(Compression::Snappy, &[0xFF, 0xFF, 0xFF, 0xFF, 0x07, 0], 1 << 20);
    assert_eq!(snappy, Err(CompressionError::TooBig { length: 0x7FFF_FFFF, max: 1 << 20 }));
}

#[test]
fn a_block_of_another_length_than_announced_is_corrupt() {
    let mut block = BytesMut::new();
    compress_block(b"hello hello hello", &mut block);
    assert!(decompress_block(&block, 17).is_ok());
    assert!(decompress_block(&block, 16).is_err());
    assert!(decompress_block(&block, 18).is_err());
}

proptest! {
    #[test]
    fn bodies_round_trip(pattern: Vec<u8>, times in 1..200_usize, snappy: bool) {
        let algorithm = if snappy { Compression::Snappy } else { Compression::Lz4 };
        let body = pattern.repeat(times);
        let mut out = BytesMut::from(&b"before"[..]);
        compress_body(algorithm, &body, &mut out);
        prop_assert_eq!(&out[..6], b"before");
        prop_assert_eq!(decompress_body(algorithm, &out[6..], body.len()).unwrap(), body);
    }

    #[test]
    fn noise_never_panics(noise: Vec<u8>, snappy: bool, length in 0..100_000_usize) {
        let algorithm = if snappy { Compression::Snappy } else { Compression::Lz4 };
        let _ = decompress_body(algorithm, &noise, 1 << 16);
        let _ = decompress_block(&noise, length);
    }
}
