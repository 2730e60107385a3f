use proptest::prelude::*;

use super::*;
use crate::error::FrameErrorKind as Kind;
use crate::segment::{SegmentError, encode_lz4, encode_plain};

const MAX: usize = 1 << 20;

fn envelope(version: u8, stream: i16, opcode: Opcode, body: &[u8]) -> Vec<u8> {
    raw(version, 0, stream, opcode.code(), body.len() as u32, body)
}

fn raw(first: u8, flags: u8, stream: i16, opcode: u8, body_length: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = RawHeader { first, flags, stream, opcode, body_length }.to_bytes().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

fn segment(payload: &[u8], self_contained: bool) -> BytesMut {
    let mut out = BytesMut::new();
    encode_plain(payload, self_contained, &mut out);
    out
}

fn v5() -> Decoder {
    let mut decoder = Decoder::new(MAX);
    decoder.negotiate(ProtocolVersion::V5, None);
    decoder
}

fn next_error(decoder: &mut Decoder) -> FrameError {
    decoder.next_envelope().unwrap_err()
}

/// The stream of the next envelope.
fn next_stream(decoder: &mut Decoder) -> Option<i16> {
    decoder.next_envelope().unwrap().map(|envelope| envelope.stream)
}

#[test]
fn an_unknown_version_is_answered_on_stream_0_in_v5() {
    for number in [0, 7, 65, 66] {
        let mut decoder = Decoder::new(MAX);
        decoder.feed(&[number]);
        let error = next_error(&mut decoder);
        assert_eq!(error.kind, Kind::UnsupportedVersion { number });
        assert_eq!((error.stream, error.version_number, error.fatal), (0, 5, false));
        decoder.feed(&envelope(4, 3, Opcode::Options, &[]));
        assert_eq!(next_stream(&mut decoder), Some(3));
    }
}

#[test]
fn versions_1_and_2_are_answered_in_their_own_shape_from_one_byte() {
    for number in [1, 2] {
        let mut decoder = Decoder::new(MAX);
        decoder.feed(&[number]);
        assert_eq!(next_error(&mut decoder).version_number, number);
    }
}

#[test]
fn the_draft_version_is_told_apart_by_its_flag() {
    let mut decoder = Decoder::new(MAX);
    decoder.feed(&[6]);
    assert_eq!(decoder.next_envelope(), Ok(None));
    decoder.feed(&[0]);
    let error = next_error(&mut decoder);
    assert_eq!((error.kind, error.version_number), (Kind::BetaVersion, 6));
    decoder.feed(&[6, flags::USE_BETA]);
    assert_eq!(next_error(&mut decoder).kind, Kind::UnsupportedVersion { number: 6 });
}

#[test]
fn an_envelope_over_the_limit_is_skipped_and_then_reported() {
    let mut decoder = Decoder::new(100);
    decoder.feed(&envelope(4, 7, Opcode::Query, &[0; 92])[..50]);
    assert_eq!(decoder.next_envelope(), Ok(None));
    assert_eq!(decoder.buffered_bytes(), 0);
    decoder.feed(&[0; 51]);
    decoder.feed(&envelope(4, 8, Opcode::Query, &[0; 91]));
    let error = next_error(&mut decoder);
    assert_eq!(error.to_string(), "Request is too big: length 101 exceeds maximum allowed length 100.");
    assert_eq!((error.stream, error.fatal), (7, false));
    assert_eq!(next_stream(&mut decoder), Some(8));
}

#[test]
fn a_wrong_opcode_is_reported_on_its_stream_and_skipped() {
    let mut decoder = Decoder::new(MAX);
    decoder.feed(&raw(4, 0, 5, 0x55, 3, b"abc"));
    decoder.feed(&raw(4, 0, 6, 0x08, 0, &[]));
    decoder.feed(&raw(0x84, 0, 7, 0x05, 0, &[]));
    decoder.feed(&envelope(4, 8, Opcode::Options, &[]));
    for (stream, message) in [
        (5, "Unknown opcode 85"),
        (6, "Wrong protocol direction (expected RESPONSE, got REQUEST) for opcode 8 (RESULT)"),
        (7, "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode 5 (OPTIONS)"),
    ] {
        let error = next_error(&mut decoder);
        assert_eq!((error.stream, error.to_string().as_str(), error.fatal), (stream, message, false));
    }
    assert_eq!(next_stream(&mut decoder), Some(8));
}

#[test]
fn the_version_may_not_change_after_startup() {
    let mut decoder = Decoder::new(MAX);
    decoder.feed(&envelope(5, 1, Opcode::Options, &[]));
    decoder.feed(&envelope(3, 2, Opcode::Startup, &[]));
    assert_eq!(next_stream(&mut decoder), Some(1));
    assert_eq!(next_stream(&mut decoder), Some(2));
    decoder.negotiate(ProtocolVersion::V3, None);
    decoder.feed(&envelope(4, 3, Opcode::Query, &[]));
    let error = next_error(&mut decoder);
    assert_eq!(
        error.to_string(),
        "Invalid message version. Got 4/v4 but previous messages on this connection had version 3/v3"
    );
    assert_eq!((error.stream, error.version_number), (3, 3));
}

#[test]
fn bodies_share_the_memory_of_the_bytes_read() {
    let mut decoder = Decoder::new(MAX);
    decoder.feed(&envelope(4, 1, Opcode::Query, b"first"));
    decoder.feed(&envelope(4, 2, Opcode::Query, b"second"));
    let first = decoder.next_envelope().unwrap().unwrap().body;
    let second = decoder.next_envelope().unwrap().unwrap().body;
    assert_eq!((&first[..], &second[..]), (&b"first"[..], &b"second"[..]));
    assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, 5 + HEADER);
}

#[test]
fn the_memory_of_a_large_envelope_is_not_kept() {
    let mut decoder = Decoder::new(MAX);
    decoder.feed(&envelope(4, 1, Opcode::Query, &vec![0; 3 * KEPT_BYTES_MAX]));
    assert_eq!(next_stream(&mut decoder), Some(1));
    decoder.buffer_mut().reserve(1);
    assert!(decoder.input.capacity() <= KEPT_BYTES_MAX);
}

#[test]
fn compressed_bodies_are_opened_and_damaged_ones_concern_one_stream() {
    for algorithm in [Compression::Lz4, Compression::Snappy] {
        let mut decoder = Decoder::new(MAX);
        decoder.negotiate(ProtocolVersion::V4, Some(algorithm));
        let mut body = BytesMut::new();
        crate::compression::compress_body(algorithm, &[7; 1000], &mut body);
        decoder.feed(&raw(4, flags::COMPRESSED, 1, 0x07, body.len() as u32, &body));
        decoder.feed(&raw(4, flags::COMPRESSED, 2, 0x07, 3, b"bad"));
        decoder.feed(&envelope(4, 3, Opcode::Query, b"plain"));
        let first = decoder.next_envelope().unwrap().unwrap();
        assert_eq!((first.body, first.flags), (Bytes::from(vec![7; 1000]), 0));
        let error = next_error(&mut decoder);
        assert!(matches!(error.kind, Kind::Decompression { .. }));
        assert_eq!((error.stream, error.fatal), (2, false));
        assert_eq!(next_stream(&mut decoder), Some(3));
    }
}

#[test]
fn the_compression_flag_means_nothing_unless_negotiated() {
    let mut decoder = Decoder::new(MAX);
    decoder.negotiate(ProtocolVersion::V4, None);
    decoder.feed(&raw(4, flags::COMPRESSED, 1, 0x07, 3, b"abc"));
    assert_eq!(decoder.next_envelope().unwrap().unwrap().body, &b"abc"[..]);
}

#[test]
fn a_segment_holds_several_envelopes() {
    let mut payload = envelope(5, 1, Opcode::Options, &[]);
    payload.extend(envelope(5, 2, Opcode::Query, b"x"));
    for compression in [None, Some(Compression::Lz4)] {
        let mut decoder = Decoder::new(MAX);
        decoder.negotiate(ProtocolVersion::V5, compression);
        let mut bytes = BytesMut::new();
        match compression {
            None => encode_plain(&payload, true, &mut bytes),
            _ => encode_lz4(&payload, true, &mut bytes),
        }
        decoder.feed(&bytes);
        assert_eq!(next_stream(&mut decoder), Some(1));
        assert_eq!(next_stream(&mut decoder), Some(2));
        assert_eq!(next_stream(&mut decoder), None);
    }
}

#[test]
fn checksum_mismatches_are_fatal_and_named() {
    let good = segment(&envelope(5, 1, Opcode::Options, &[]), true);
    for (at, header) in [(1, true), (good.len() - 1, false)] {
        let mut decoder = v5();
        let mut damaged = good.clone();
        damaged[at] ^= 1;
        decoder.feed(&damaged);
        let error = next_error(&mut decoder);
        assert_eq!((error.stream, error.fatal), (0, true));
        match error.kind {
            Kind::Segment(SegmentError::HeaderChecksum { .. }) => assert!(header),
            Kind::Segment(SegmentError::PayloadChecksum { .. }) => assert!(!header),
            other => panic!("{other:?}"),
        }
        decoder.feed(&good);
        assert_eq!(decoder.next_envelope(), Ok(None), "a dead decoder stays silent");
        assert_eq!(decoder.buffered_bytes(), 0);
    }
}

#[test]
fn a_bad_envelope_in_a_segment_spares_its_neighbours() {
    for (bad, message) in [
        (raw(5, 0, 5, 0x55, 1, b"a"), "Unknown opcode 85"),
        (
            raw(4, 0, 5, 0x05, 0, &[]),
            "Invalid message version. Got 4/v4 but previous messages on this connection had version 5/v5",
        ),
        (
            raw(66, 0, 5, 0x05, 0, &[]),
            "Invalid or unsupported protocol version (66); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)",
        ),
    ] {
        let mut decoder = v5();
        let mut payload = bad;
        payload.extend(envelope(5, 6, Opcode::Options, &[]));
        decoder.feed(&segment(&payload, true));
        let error = next_error(&mut decoder);
        assert_eq!((error.stream, error.to_string().as_str(), error.fatal), (5, message, false));
        assert_eq!(next_stream(&mut decoder), Some(6));
    }
}

#[test]
fn an_envelope_that_overruns_its_segment_is_fatal() {
    let whole = envelope(5, 1, Opcode::Query, b"abc");
    for end in [1, 5, 9, 11] {
        let mut decoder = v5();
        decoder.feed(&segment(&whole[..end], true));
        let error = next_error(&mut decoder);
        assert!(matches!(error.kind, Kind::EnvelopeOverrun { .. }) && error.fatal);
    }
    let mut decoder = v5();
    decoder.feed(&segment(&raw(5, 0, 3, 0x07, u32::MAX, &[]), true));
    let error = next_error(&mut decoder);
    assert_eq!(error.to_string(), "Invalid value for envelope header body length field: -1");
    assert_eq!((error.stream, error.fatal), (3, true));
}

#[test]
fn a_message_over_several_segments_is_joined() {
    let body: Vec<u8> = (0..300_000_u32).map(|i| i as u8).collect();
    let whole = envelope(5, 9, Opcode::Query, &body);
    for piece in [131_071, 100_000, 4, 1] {
        let mut decoder = v5();
        let (start, rest) = whole.split_at(piece);
        decoder.feed(&segment(start, false));
        assert_eq!(decoder.next_envelope(), Ok(None));
        decoder.feed(&segment(&envelope(5, 1, Opcode::Options, &[]), true));
        assert_eq!(next_stream(&mut decoder), Some(1), "small requests overtake");
        rest.chunks(131_071).for_each(|piece| decoder.feed(&segment(piece, false)));
        let joined = decoder.next_envelope().unwrap().unwrap();
        assert_eq!((joined.stream, &joined.body[..]), (9, &body[..]));
        assert_eq!(decoder.next_envelope(), Ok(None));
    }
}

#[test]
fn a_large_message_over_the_limit_is_reported_at_once_and_skipped() {
    // The last of its segments holds a single byte.
    let whole = envelope(5, 9, Opcode::Query, &vec![0; 9 * 131_071 + 1 - HEADER]);
    let mut decoder = v5();
    let mut pieces = whole.chunks(131_071);
    decoder.feed(&segment(pieces.next().unwrap(), false));
    let error = next_error(&mut decoder);
    assert_eq!(
        error.to_string(),
        "CQL Message of size 1179631 bytes exceeds allowed maximum of 1048576 bytes"
    );
    assert_eq!((error.stream, error.fatal), (9, false));
    pieces.for_each(|piece| decoder.feed(&segment(piece, false)));
    decoder.feed(&segment(&envelope(5, 1, Opcode::Options, &[]), true));
    assert_eq!(next_stream(&mut decoder), Some(1));
    decoder.feed(&segment(&envelope(5, 2, Opcode::Options, &[]), false));
    assert_eq!(next_stream(&mut decoder), Some(2), "the next large message begins anew");
}

#[test]
fn bytes_behind_a_large_message_are_fatal() {
    let mut payload = envelope(5, 1, Opcode::Options, &[]);
    payload.extend(envelope(5, 2, Opcode::Options, &[]));
    let mut decoder = v5();
    decoder.feed(&segment(&payload, false));
    let error = next_error(&mut decoder);
    assert_eq!((error.kind, error.fatal), (Kind::TrailingBytes { extra: HEADER }, true));
}

proptest! {
    #[test]
    fn noise_never_panics(settings: u8, noise: Vec<u8>) {
        fuzz_decoder(settings, &noise);
    }

    #[test]
    fn noise_in_segments_whose_checksums_hold_never_panics(
        pieces in proptest::collection::vec((any::<Vec<u8>>(), any::<bool>()), 0..8),
    ) {
        let mut decoder = v5();
        for (payload, self_contained) in pieces {
            decoder.feed(&segment(&payload, self_contained));
            decode_all(&mut decoder);
        }
    }

    #[test]
    fn pieces_of_any_size_make_the_same_envelopes(
        bodies in proptest::collection::vec(any::<Vec<u8>>(), 1..6),
        piece in 1..40_usize,
        framed: bool,
    ) {
        let mut decoder = Decoder::new(MAX);
        let number = if framed { 5 } else { 4 };
        decoder.negotiate(ProtocolVersion::from_number(number).unwrap(), None);
        let mut bytes = Vec::new();
        for (stream, body) in bodies.iter().enumerate() {
            bytes.extend(envelope(number, stream as i16, Opcode::Query, body));
        }
        if framed {
            bytes = segment(&bytes, true).to_vec();
        }
        let mut found = Vec::new();
        for piece in bytes.chunks(piece) {
            decoder.feed(piece);
            while let Some(envelope) = decoder.next_envelope().unwrap() {
                found.push(envelope.body.to_vec());
            }
        }
        prop_assert_eq!(found, bodies);
    }
}
