use proptest::prelude::*;

use super::*;
use crate::test_bytes::noise;

fn encode(layout: Layout, payload: &[u8], self_contained: bool) -> BytesMut {
    let mut out = BytesMut::new();
    match layout {
        Layout::Plain => encode_plain(payload, self_contained, &mut out),
        Layout::Lz4 => encode_lz4(payload, self_contained, &mut out),
    }
    out
}

#[test]
fn what_does_not_shrink_is_sent_as_it_is() {
    let noise = noise(2000);
    let segment = encode(Layout::Lz4, &noise, true);
    assert_eq!(segment.len(), LZ4_HEADER + noise.len() + TRAILER);
    assert!(encode(Layout::Lz4, &[7; 2000], true).len() < 100);
}

#[test]
fn the_longest_payload_fits() {
    for layout in [Layout::Plain, Layout::Lz4] {
        let payload = noise(PAYLOAD_MAX);
        let mut bytes = encode(layout, &payload, false);
        let segment = decode(&mut bytes, layout).unwrap().unwrap();
        assert_eq!(segment.payload, payload);
        assert!(!segment.self_contained);
    }
}

#[test]
fn an_lz4_block_that_lies_about_its_length_is_an_error() {
    // A plain payload of 4 bytes, announced to expand to 100.
    let payload = [0, 0, 0, 0];
    let bits = 4_u64 | 100 << 17 | 1 << 34;
    let fields = &bits.to_le_bytes()[..5];
    let mut bytes = BytesMut::from(fields);
    bytes.put_slice(&crc24(fields).to_le_bytes()[..3]);
    bytes.put_slice(&payload);
    bytes.put_u32_le(crc32(&payload));
    assert!(matches!(decode(&mut bytes, Layout::Lz4), Err(SegmentError::Decompression { .. })));
}

proptest! {
    #[test]
    fn segments_round_trip(pattern: Vec<u8>, times in 0..100_usize, self_contained: bool, lz4: bool) {
        let layout = if lz4 { Layout::Lz4 } else { Layout::Plain };
        let mut payload = pattern.repeat(times);
        payload.truncate(PAYLOAD_MAX);
        let whole = encode(layout, &payload, self_contained);
        let mut input = whole.clone();
        input.put_slice(b"next");
        let segment = decode(&mut input, layout).unwrap().unwrap();
        prop_assert_eq!(segment.payload, payload);
        prop_assert_eq!(segment.self_contained, self_contained);
        prop_assert_eq!(&input[..], b"next");
        for end in 0..whole.len() {
            prop_assert_eq!(decode(&mut BytesMut::from(&whole[..end]), layout), Ok(None));
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed(payload in proptest::collection::vec(any::<u8>(), 1..300), lz4: bool) {
        let layout = if lz4 { Layout::Lz4 } else { Layout::Plain };
        let whole = encode(layout, &payload, true);
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&mut damaged, layout).is_err(), "bit {} of {:?}", bit, whole);
        }
    }
}
