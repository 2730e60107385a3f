use super::*;
use proptest::prelude::*;

const ALL: [Framing; 3] = [Framing::Unprotected, Framing::Lz4, Framing::Crc];

fn encoded(framing: Framing, payload: &[u8], is_self_contained: bool) -> Vec<u8> {
    let mut out = Vec::new();
    framing.encode(payload, is_self_contained, &mut out);
    out
}

fn decoded(framing: Framing, bytes: &[u8]) -> Result<Decoded, FrameError> {
    framing.decode(&mut BytesMut::from(bytes))
}

/// Bytes that do not compress.
fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

#[test]
fn the_bytes_are_cassandras() {
    // Made by another implementation of the format, which real nodes understand.
    let bytes = [0x03, 0, 0x02, 0x42, 0x96, 0x7c, b'a', b'b', b'c', 0x08, 0x7a, 0x36, 0xc5];
    assert_eq!(encoded(Framing::Crc, b"abc", true), bytes);
    assert_eq!(encoded(Framing::Unprotected, b"abc", true), bytes[..9]);
}

#[test]
fn the_longest_payload_fits() {
    for framing in ALL {
        let payload = noise(PAYLOAD_BYTES_MAX);
        let frame = decoded(framing, &encoded(framing, &payload, false)).unwrap();
        assert_eq!(frame, Decoded::Frame(Frame { payload: payload.into(), is_self_contained: false }));
    }
}

#[test]
fn what_does_not_shrink_is_sent_as_it_is() {
    assert_eq!(encoded(Framing::Lz4, &noise(2_000), true).len(), HEADER_LZ4 + 2_000 + TRAILER);
    assert!(encoded(Framing::Lz4, &[7; 2_000], true).len() < 100);
}

#[test]
fn a_frame_that_is_cut_off_says_how_much_it_needs() {
    for framing in ALL {
        let bytes = encoded(framing, &[5; 300], true);
        for len in 0..bytes.len() {
            let Ok(Decoded::Needs(more)) = decoded(framing, &bytes[..len]) else { panic!("{len}") };
            assert!((1..=bytes.len() - len).contains(&more), "{framing:?}: {len} of {}", bytes.len());
            if len >= framing.header_len() {
                assert_eq!(len + more, bytes.len());
            }
        }
    }
}

#[test]
fn a_flipped_bit_of_the_header_ends_the_connection() {
    for framing in ALL {
        let bytes = encoded(framing, b"some message", true);
        for bit in 0..8 * framing.header_len() {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(decoded(framing, &bytes), Err(FrameError::Header { .. })), "bit {bit}");
        }
    }
}

#[test]
fn a_flipped_bit_of_the_payload_costs_that_frame_alone() {
    for (framing, is_self_contained) in [(Framing::Crc, true), (Framing::Lz4, true), (Framing::Crc, false)] {
        let bytes = encoded(framing, b"some message", is_self_contained);
        for bit in 8 * framing.header_len()..8 * bytes.len() {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes.extend_from_slice(&encoded(framing, b"another", true));
            let mut input = BytesMut::from(&bytes[..]);
            match framing.decode(&mut input).unwrap() {
                Decoded::Corrupt { is_self_contained: said, .. } => assert_eq!(said, is_self_contained),
                other => panic!("bit {bit}: {other:?}"),
            }
            let Ok(Decoded::Frame(next)) = framing.decode(&mut input) else { panic!("bit {bit}") };
            assert_eq!(next.payload, "another");
        }
    }
}

#[test]
fn an_lz4_block_that_lies_about_its_length_is_an_error() {
    // Four plain bytes, announced to be more.
    for announced in [5_u64, 100, PAYLOAD_BYTES_MAX as u64] {
        let payload = [0, 0, 0, 0];
        let fields = &(4 | announced << 17 | SELF_CONTAINED_LZ4).to_le_bytes()[..5];
        let crc = crc24(fields).to_le_bytes();
        let bytes = [fields, &crc[..3], &payload, &crc32(&payload).to_le_bytes()].concat();
        let refused = decoded(Framing::Lz4, &bytes);
        assert!(matches!(refused, Err(FrameError::Decompression { .. })), "{refused:?}");
    }
}

#[test]
fn a_packer_fills_frames_with_whole_messages() {
    let mut packer = Packer::new(Framing::Crc);
    let mut out = Vec::new();
    let message = [3; 50_000];
    for _ in 0..5 {
        packer.push(message.len(), |payload| payload.extend_from_slice(&message), &mut out);
    }
    packer.finish(&mut out);
    packer.finish(&mut out);
    let mut input = BytesMut::from(&out[..]);
    let mut lens = Vec::new();
    while !input.is_empty() {
        let Ok(Decoded::Frame(frame)) = Framing::Crc.decode(&mut input) else { panic!() };
        assert!(frame.is_self_contained);
        lens.push(frame.payload.len());
    }
    assert_eq!(lens, [100_000, 100_000, 50_000]);
}

#[test]
fn a_large_message_has_its_head_in_the_first_of_several_frames() {
    let (head, payload) = (noise(100), noise(SMALL_MESSAGE_BYTES_MAX));
    let mut frames = LargeFrames::new(Framing::Crc, &head, &payload);
    let mut out = Vec::new();
    let mut count = 0;
    while frames.next(&mut out) {
        count += 1;
    }
    assert_eq!(count, 3, "one frame is too few for a Cassandra");
    let (mut input, mut whole) = (BytesMut::from(&out[..]), Vec::new());
    while !input.is_empty() {
        let Ok(Decoded::Frame(frame)) = Framing::Crc.decode(&mut input) else { panic!() };
        assert!(!frame.is_self_contained);
        whole.extend_from_slice(&frame.payload);
    }
    assert_eq!(whole, [head, payload].concat());
}

proptest! {
    #[test]
    fn a_frame_comes_back(
        number in 0..3_u8, payload: Vec<u8>, is_self_contained: bool, repeated in 1..50_usize,
    ) {
        let framing = Framing::from_number(number).unwrap();
        let payload = payload.repeat(repeated);
        let mut input = BytesMut::from(&encoded(framing, &payload, is_self_contained)[..]);
        let frame = Frame { payload: payload.into(), is_self_contained };
        prop_assert_eq!(framing.decode(&mut input), Ok(Decoded::Frame(frame)));
        prop_assert!(input.is_empty());
    }

    #[test]
    fn noise_is_decoded_without_a_panic(number in 0..3_u8, bytes: Vec<u8>) {
        let _ = decoded(Framing::from_number(number).unwrap(), &bytes);
    }
}
