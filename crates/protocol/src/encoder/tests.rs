use proptest::prelude::*;

use super::*;
use crate::compression::Compression;
use crate::decoder::{DEFAULT_ENVELOPE_BYTES_MAX, Decoder};
use crate::envelope::Envelope;
use crate::error::FrameErrorKind;
use crate::segment::Layout;
use crate::test_bytes::noise;

const SETTINGS: [(ProtocolVersion, Option<Compression>); 6] = [
    (ProtocolVersion::V3, None),
    (ProtocolVersion::V4, None),
    (ProtocolVersion::V4, Some(Compression::Lz4)),
    (ProtocolVersion::V4, Some(Compression::Snappy)),
    (ProtocolVersion::V5, None),
    (ProtocolVersion::V5, Some(Compression::Lz4)),
];

fn pair(version: ProtocolVersion, compression: Option<Compression>) -> (Encoder, Decoder) {
    let mut encoder = Encoder::new();
    encoder.negotiate(version, compression);
    let mut decoder = Decoder::of_responses(DEFAULT_ENVELOPE_BYTES_MAX);
    decoder.negotiate(version, compression);
    (encoder, decoder)
}

fn push(encoder: &mut Encoder, stream: i16, body: &[u8]) {
    let mut envelope = encoder.begin(stream, Opcode::Result);
    envelope.body().put_slice(body);
    envelope.finish(&Extras::default()).unwrap();
}

fn all(decoder: &mut Decoder, bytes: &[u8]) -> Vec<Envelope> {
    decoder.feed(bytes);
    let mut found = Vec::new();
    while let Some(envelope) = decoder.next_envelope().unwrap() {
        found.push(envelope);
    }
    assert_eq!(decoder.buffered_bytes(), 0);
    found
}

/// The payload length and the kind of each plain segment.
fn segments(bytes: &[u8]) -> Vec<(usize, bool)> {
    let mut input = BytesMut::from(bytes);
    let mut found = Vec::new();
    while let Some(segment) = segment::decode(&mut input, Layout::Plain).unwrap() {
        found.push((segment.payload.len(), segment.self_contained));
    }
    assert!(input.is_empty());
    found
}

#[test]
fn small_envelopes_share_a_segment() {
    let (mut encoder, _) = pair(ProtocolVersion::V5, None);
    push(&mut encoder, 1, &[0; 100]);
    push(&mut encoder, 2, &[0; 50]);
    assert_eq!(segments(&encoder.take()), [(150 + 2 * HEADER, true)]);
    assert!(encoder.take().is_empty());
}

#[test]
fn an_envelope_that_does_not_fit_begins_the_next_segment() {
    let (mut encoder, _) = pair(ProtocolVersion::V5, None);
    push(&mut encoder, 1, &noise(100_000));
    push(&mut encoder, 2, &noise(60_000));
    push(&mut encoder, 3, &noise(10));
    let expected = [(100_000 + HEADER, true), (60_010 + 2 * HEADER, true)];
    assert_eq!(segments(&encoder.take()), expected);
}

#[test]
fn an_envelope_as_long_as_a_segment_stays_whole_and_a_longer_one_is_cut() {
    let (mut encoder, _) = pair(ProtocolVersion::V5, None);
    push(&mut encoder, 1, &noise(PAYLOAD_MAX - HEADER));
    assert_eq!(segments(&encoder.take()), [(PAYLOAD_MAX, true)]);
    push(&mut encoder, 1, &noise(PAYLOAD_MAX - HEADER + 1));
    assert_eq!(segments(&encoder.take()), [(PAYLOAD_MAX, false), (1, false)]);
    push(&mut encoder, 1, &noise(10));
    push(&mut encoder, 2, &noise(2 * PAYLOAD_MAX - HEADER));
    push(&mut encoder, 3, &noise(10));
    let expected = [(19, true), (PAYLOAD_MAX, false), (PAYLOAD_MAX, false), (19, true)];
    assert_eq!(segments(&encoder.take()), expected);
}

#[test]
fn an_envelope_that_is_dropped_leaves_no_trace() {
    for (version, compression) in SETTINGS {
        let (mut encoder, mut decoder) = pair(version, compression);
        drop(encoder.begin(1, Opcode::Result));
        assert_eq!(encoder.pending_bytes(), 0);
        push(&mut encoder, 2, b"kept");
        let mut dropped = encoder.begin(3, Opcode::Result);
        dropped.body().put_slice(b"lost");
        drop(dropped);
        let found = all(&mut decoder, &encoder.take());
        assert_eq!(found.iter().map(|envelope| envelope.stream).collect::<Vec<_>>(), [2]);
        assert_eq!(found[0].body, &b"kept"[..]);
    }
}

#[test]
fn the_memory_of_a_large_result_is_not_kept() {
    for (version, compression) in SETTINGS {
        let (mut encoder, _) = pair(version, compression);
        push(&mut encoder, 1, &noise(4 * KEPT_BYTES_MAX));
        drop(encoder.take());
        assert!(encoder.out.capacity() <= KEPT_BYTES_MAX, "{version} {compression:?}");
        assert!(encoder.stage.capacity() <= KEPT_BYTES_MAX, "{version} {compression:?}");
    }
}

/// As [`push`], of a body that was written elsewhere, in pieces of `step` bytes.
fn push_blocks(encoder: &mut Encoder, stream: i16, body: &[u8], step: usize) {
    let mut blocks = Blocks::default();
    body.chunks(step).for_each(|part| blocks.put(part));
    assert_eq!(blocks.length(), body.len());
    encoder.push_blocks(stream, Opcode::Result, blocks, &Extras::default()).unwrap();
}

#[test]
fn a_long_body_in_blocks_goes_out_in_segments_of_its_own() {
    let (mut encoder, _) = pair(ProtocolVersion::V5, None);
    push(&mut encoder, 1, &[0; 100]);
    push_blocks(&mut encoder, 2, &noise(PAYLOAD_MAX - HEADER), 1000);
    push_blocks(&mut encoder, 3, &noise(PAYLOAD_MAX - HEADER + 1), 1000);
    push(&mut encoder, 4, &[0; 50]);
    push_blocks(&mut encoder, 5, &[0; 70], 1000);
    let expected = [
        (100 + HEADER, true),
        (PAYLOAD_MAX, true),
        (PAYLOAD_MAX, false),
        (1, false),
        (50 + HEADER + 70 + HEADER, true),
    ];
    assert_eq!(segments(&encoder.take()), expected);
    assert_eq!(encoder.pending_bytes(), 0);
}

#[test]
fn what_the_socket_did_not_take_is_sent_next() {
    for (version, compression) in SETTINGS {
        let (mut encoder, mut decoder) = pair(version, compression);
        push(&mut encoder, 1, b"first");
        push_blocks(&mut encoder, 2, &noise(300_000), 7_000);
        let mut bytes = Vec::new();
        while encoder.pending_bytes() > 0 {
            let some = encoder.unsent().len().min(1_001);
            bytes.extend_from_slice(&encoder.unsent()[..some]);
            encoder.sent(some);
            if bytes.len() < 5_000 {
                push(&mut encoder, 3, b"behind");
            }
        }
        let found = all(&mut decoder, &bytes);
        assert_eq!(found[0].body, &b"first"[..], "{version} {compression:?}");
        assert!(found[1].body == noise(300_000), "{version} {compression:?}");
        assert!(found.len() > 2 && found[2..].iter().all(|envelope| envelope.body == b"behind"[..]));
    }
}

#[test]
fn extras_lead_the_body_and_v3_gets_only_the_tracing_id() {
    let extras = Extras {
        tracing_id: Some(Uuid::from_u128(7)),
        warnings: vec!["careful".into()],
        payload: vec![("key".into(), None)],
    };
    for (version, compression) in SETTINGS {
        let (mut encoder, mut decoder) = pair(version, compression);
        encoder.push(1, &Response::Ready, &extras).unwrap();
        let envelope = all(&mut decoder, &encoder.take()).remove(0);
        let message = crate::response::Message::decode(envelope).unwrap();
        let expected = match version {
            ProtocolVersion::V3 => Extras { tracing_id: extras.tracing_id, ..Extras::default() },
            _ => extras.clone(),
        };
        assert_eq!((message.response, message.extras), (Response::Ready, expected));
    }
}

#[test]
fn only_bodies_that_shrink_are_compressed() {
    for algorithm in [Compression::Lz4, Compression::Snappy] {
        let (mut encoder, _) = pair(ProtocolVersion::V4, Some(algorithm));
        push(&mut encoder, 1, &noise(500));
        let bytes = encoder.take();
        assert_eq!((bytes[1], bytes.len()), (0, 500 + HEADER));
        push(&mut encoder, 1, &[1; 500]);
        let bytes = encoder.take();
        assert_eq!(bytes[1], flags::COMPRESSED);
        assert!(bytes.len() < 100);
    }
}

#[test]
fn unsupported_versions_are_answered_as_cassandra_answers_them() {
    let answer = |number: u8| {
        let mut decoder = Decoder::new(DEFAULT_ENVELOPE_BYTES_MAX);
        decoder.feed(&[number, 0]);
        let mut encoder = Encoder::new();
        encoder.push_frame_error(&decoder.next_envelope().unwrap_err());
        encoder.take().to_vec()
    };
    let text = |number: u8| {
        format!(
            "Invalid or unsupported protocol version ({number}); supported versions are (3/v3, 4/v4, 5/v5, 6/v6-beta)"
        )
    };
    // 9 bytes of header, i32 code, u16 length, message.
    let mut expected = vec![0x85, 0, 0, 0, 0, 0, 0, 0, 0x68, 0, 0, 0, 0x0A, 0, 0x62];
    expected.extend(text(66).bytes());
    assert_eq!(answer(66), expected);
    // 8 bytes of header: the stream is one byte.
    let mut expected = vec![0x82, 0, 0, 0, 0, 0, 0, 0x67, 0, 0, 0, 0x0A, 0, 0x61];
    expected.extend(text(2).bytes());
    assert_eq!(answer(2), expected);
    let draft = answer(6);
    assert_eq!(draft[..9], [0x86, 0x10, 0, 0, 0, 0, 0, 0, 0x4F]);
}

#[test]
fn frame_errors_have_the_codes_of_cassandra() {
    let error = |kind| FrameError { kind, stream: 5, version_number: 4, fatal: false };
    for (kind, code) in [
        (FrameErrorKind::TooBig { length: 2, max: 1 }, 0x2200_u32),
        (FrameErrorKind::UnknownOpcode { code: 0x55 }, 0x000A),
        (FrameErrorKind::Credentials, 0x000A),
        (FrameErrorKind::Decompression { algorithm: Compression::Snappy, reason: String::new() }, 0x000A),
        (FrameErrorKind::Decompression { algorithm: Compression::Lz4, reason: String::new() }, 0x0000),
        (FrameErrorKind::EnvelopeOverrun { needed: 9, remaining: 1 }, 0x0000),
    ] {
        let mut encoder = Encoder::new();
        encoder.set_version(ProtocolVersion::V4);
        encoder.push_frame_error(&error(kind));
        let bytes = encoder.take();
        assert_eq!(bytes[..5], [0x84, 0, 0, 5, 0]);
        assert_eq!(bytes[9..13], code.to_be_bytes());
    }
}

#[test]
fn events_go_out_on_stream_minus_1() {
    let (mut encoder, mut decoder) = pair(ProtocolVersion::V5, None);
    let change = crate::response::event::StatusChange::Up;
    encoder.push_event(&Event::Status(change, "127.0.0.1:9042".parse().unwrap())).unwrap();
    let envelope = all(&mut decoder, &encoder.take()).remove(0);
    assert_eq!((envelope.stream, envelope.opcode), (-1, Opcode::Event));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn envelopes_of_any_size_arrive(
        lengths in proptest::collection::vec(
            prop_oneof![4 => 0..200_usize, 2 => 50_000..140_000_usize, 1 => 131_000..131_100_usize,
                        1 => 260_000..400_000_usize],
            1..8,
        ),
        takes: u8,
        setting in 0..SETTINGS.len(),
        compressible: bool,
        in_blocks: u8,
        step in 1..200_000_usize,
    ) {
        let (version, compression) = SETTINGS[setting];
        let (mut encoder, mut decoder) = pair(version, compression);
        let mut bytes = Vec::new();
        let body = |length: usize| if compressible { vec![length as u8; length] } else { noise(length) };
        for (i, &length) in lengths.iter().enumerate() {
            match in_blocks >> i & 1 == 1 {
                true => push_blocks(&mut encoder, i as i16, &body(length), step),
                false => push(&mut encoder, i as i16, &body(length)),
            }
            if takes >> i & 1 == 1 {
                bytes.extend_from_slice(&encoder.take());
            }
        }
        bytes.extend_from_slice(&encoder.take());
        let found = all(&mut decoder, &bytes);
        prop_assert_eq!(found.len(), lengths.len());
        for (i, (envelope, &length)) in found.iter().zip(&lengths).enumerate() {
            prop_assert_eq!(envelope.stream, i as i16);
            prop_assert!(envelope.body == body(length), "body {} of {} bytes", i, length);
        }
    }
}
