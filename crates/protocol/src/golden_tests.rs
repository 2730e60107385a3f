//! What a real Cassandra 5.0 sent and understood, recorded by `testdata/capture.py`: every envelope is
//! decoded, encoded anew, and must come out byte for byte.

use bytes::Bytes;

use crate::compression::Compression;
use crate::decoder::{DEFAULT_ENVELOPE_BYTES_MAX, Decoder};
use crate::encoder::{Encoder, Extras};
use crate::envelope::Opcode;
use crate::ids::{prepared_id, result_metadata_id};
use crate::request::{self, Request};
use crate::response::error::ErrorKind;
use crate::response::result::ResultBody;
use crate::response::rows::{EncodedColumns, MetadataMode, RowsWriter};
use crate::response::{self, Response};
use crate::version::ProtocolVersion;
use model::types::CqlType;

struct Frame {
    kind: char,
    version: String,
    name: String,
    bytes: Vec<u8>,
}

fn frames() -> Vec<Frame> {
    include_str!("../testdata/frames.txt")
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            let mut next = || words.next().expect("four words in a line").to_owned();
            let (kind, version, name, hex) = (next(), next(), next(), next());
            let bytes = (0..hex.len() / 2)
                .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal"))
                .collect();
            Frame { kind: kind.chars().next().expect("a kind"), version, name, bytes }
        })
        .collect()
}

fn version(frame: &Frame) -> ProtocolVersion {
    ProtocolVersion::from_number(frame.version.parse().expect("a number")).expect("a version")
}

fn response_of(frame: &Frame) -> response::Message {
    let mut decoder = Decoder::of_responses(DEFAULT_ENVELOPE_BYTES_MAX);
    decoder.feed(&frame.bytes);
    let envelope = decoder.next_envelope().expect("well-formed").expect("whole");
    response::Message::decode(envelope).unwrap_or_else(|error| panic!("{}: {error}", frame.name))
}

fn find(kind: char, version: u8, name: &str) -> Frame {
    let version = version.to_string();
    frames()
        .into_iter()
        .find(|frame| frame.kind == kind && frame.version == version && frame.name == name)
        .expect("recorded")
}

fn rows(version: u8, name: &str) -> response::rows::Rows {
    match response_of(&find('<', version, name)).response {
        Response::Result(ResultBody::Rows(rows)) => rows,
        other => panic!("{name}: {other:?}"),
    }
}

fn prepared(version: u8, name: &str) -> response::prepared::Prepared {
    match response_of(&find('<', version, name)).response {
        Response::Result(ResultBody::Prepared(prepared)) => prepared,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn requests_decode_and_encode_to_the_same_bytes() {
    let mut seen = 0;
    for frame in frames().iter().filter(|frame| frame.kind == '>') {
        let mut decoder = Decoder::new(DEFAULT_ENVELOPE_BYTES_MAX);
        decoder.feed(&frame.bytes);
        let envelope = decoder.next_envelope().expect("well-formed").expect("whole");
        let (stream, message) = (envelope.stream, request::Message::decode(envelope));
        if frame.name == "bad_consistency" {
            assert_eq!(message.unwrap_err().to_string(), "Unknown code 99 for a consistency level");
            continue;
        }
        let message = message.unwrap_or_else(|error| panic!("{}: {error}", frame.name));
        let mut encoder = Encoder::of_requests();
        encoder.set_version(version(frame));
        encoder.push_request(stream, &message).unwrap();
        assert_eq!(encoder.take(), frame.bytes, "{} v{}", frame.name, frame.version);
        seen += 1;
    }
    assert!(seen > 100, "only {seen} requests");
}

#[test]
fn responses_decode_and_encode_to_the_same_bytes() {
    let mut seen = 0;
    for frame in frames().iter().filter(|frame| frame.kind == '<') {
        let message = response_of(frame);
        let mut encoder = Encoder::new();
        encoder.set_version(version(frame));
        let stream = i16::from_be_bytes([frame.bytes[2], frame.bytes[3]]);
        encoder.push(stream, &message.response, &message.extras).unwrap();
        let mut written = encoder.take().to_vec();
        if let Response::Result(ResultBody::Rows(rows)) = &message.response
            && rows.columns.is_none()
        {
            // Cassandra leaves the flag for "one table" beside the one for "no metadata"; that the writer
            // does so too is tested below, the owned rows do not know.
            written[16] |= 1;
        }
        assert_eq!(written, frame.bytes, "{} v{}", frame.name, frame.version);
        seen += 1;
    }
    assert!(seen > 100, "only {seen} responses");
}

#[test]
fn rows_without_metadata_are_written_as_cassandra_writes_them() {
    for number in [3, 4, 5] {
        let columns = prepared(number, "prepare_select").result;
        let result = rows(number, "execute_skip_metadata");
        let version = ProtocolVersion::from_number(number).unwrap();
        let mut encoder = Encoder::new();
        encoder.set_version(version);
        let mut envelope = encoder.begin(7, Opcode::Result);
        let columns = EncodedColumns::new(version, &columns);
        let mut writer = RowsWriter::new(envelope.body(), &columns, MetadataMode::Skip);
        for row in &result.rows {
            row.iter().for_each(|value| writer.value(value.as_deref()));
            writer.end_row();
        }
        writer.finish(None);
        envelope.finish(&Extras::default()).unwrap();
        assert_eq!(encoder.take(), find('<', number, "execute_skip_metadata").bytes);
    }
}

#[test]
fn segments_of_cassandra_open() {
    for layout in ["plain", "lz4"] {
        let mut decoder = Decoder::of_responses(DEFAULT_ENVELOPE_BYTES_MAX);
        decoder.negotiate(ProtocolVersion::V5, Compression::from_name(layout));
        let mut seen = 0;
        for frame in frames().iter().filter(|frame| frame.kind == '=' && frame.version == layout) {
            decoder.feed(&frame.bytes);
            let envelope = decoder.next_envelope().expect("well-formed").expect("whole");
            response::Message::decode(envelope.clone()).unwrap();
            if layout == "plain" {
                let mut encoder = Encoder::new();
                encoder.negotiate(ProtocolVersion::V5, None);
                let mut writer = encoder.begin(envelope.stream, envelope.opcode);
                writer.body().extend_from_slice(&envelope.body);
                writer.finish(&Extras::default()).unwrap();
                let written = encoder.take();
                // Header flags are not repeated here, hence neither are the checksums over them.
                assert_eq!(written.len(), frame.bytes.len());
                if envelope.flags == 0 {
                    assert_eq!(written, frame.bytes, "{}", frame.name);
                }
            }
            seen += 1;
        }
        assert!(seen > 0, "no {layout} segments");
    }
}

#[test]
fn compressed_bodies_of_cassandra_open() {
    for codec in ["lz4", "snappy"] {
        let mut decoder = Decoder::of_responses(DEFAULT_ENVELOPE_BYTES_MAX);
        decoder.negotiate(ProtocolVersion::V4, Compression::from_name(codec));
        let mut seen = 0;
        for frame in frames().iter().filter(|frame| frame.kind == '~' && frame.version == codec) {
            decoder.feed(&frame.bytes);
            let envelope = decoder.next_envelope().expect("well-formed").expect("whole");
            response::Message::decode(envelope).unwrap();
            seen += 1;
        }
        assert!(seen >= 3, "{seen} bodies of {codec}");
    }
}

#[test]
fn prepared_ids_are_cassandras() {
    for frame in frames().iter().filter(|frame| frame.kind == '>' && frame.name.starts_with("prepare_")) {
        let mut decoder = Decoder::new(DEFAULT_ENVELOPE_BYTES_MAX);
        decoder.feed(&frame.bytes);
        let envelope = decoder.next_envelope().unwrap().unwrap();
        let Request::Prepare(request) = request::Message::decode(envelope).unwrap().request else { panic!() };
        let number = version(frame).number();
        let keyspace = format!("protocol_golden_v{number}");
        let qualified = request.statement.contains(&keyspace);
        let id = prepared_id((!qualified).then_some(keyspace.as_str()), &request.statement);
        assert_eq!(prepared(number, &frame.name).id, Bytes::copy_from_slice(&id), "{}", frame.name);
    }
}

#[test]
fn result_metadata_ids_are_cassandras() {
    // What metadata does not tell: which columns are not frozen, and that `ck` is in descending order.
    let class = |name: &str, kind: &CqlType| match name {
        "ck" => format!("org.apache.cassandra.db.marshal.ReversedType({})", kind.class_name()),
        "t" | "u" | "v" | "bb" => thawed(kind).class_name(),
        _ => kind.class_name(),
    };
    for name in ["prepare_select", "prepare_insert", "prepare_unqualified", "prepare_with_keyspace"] {
        let prepared = prepared(5, name);
        let columns = prepared.result.iter().map(|column| (&column.name, class(&column.name, &column.kind)));
        let id = result_metadata_id(columns);
        assert_eq!(prepared.result_metadata_id, Bytes::copy_from_slice(&id), "{name}");
    }
}

fn thawed(kind: &CqlType) -> CqlType {
    let mut kind = kind.clone();
    match &mut kind {
        CqlType::List { multi_cell, .. }
        | CqlType::Set { multi_cell, .. }
        | CqlType::Map { multi_cell, .. }
        | CqlType::Udt { multi_cell, .. } => *multi_cell = true,
        other => panic!("{other:?} is never frozen"),
    }
    kind
}

#[test]
fn unprepared_has_cassandras_words() {
    let Response::Error(error) = response_of(&find('<', 5, "unprepared")).response else { panic!() };
    let ErrorKind::Unprepared { id } = &error.kind else { panic!("{error:?}") };
    assert_eq!(crate::ErrorResponse::unprepared(id), error);
}

#[test]
fn every_cut_of_a_recorded_body_is_refused_or_shorter() {
    for frame in frames().iter().filter(|frame| matches!(frame.kind, '>' | '<')) {
        let version = version(frame);
        let (flags, opcode) = (frame.bytes[1], Opcode::from_code(frame.bytes[4]).unwrap());
        let body = Bytes::copy_from_slice(&frame.bytes[9..]);
        for end in 0..body.len() {
            let body = body.slice(..end);
            let envelope = crate::Envelope { version, flags, stream: 0, opcode, body };
            let whole = match frame.kind {
                '>' => request::Message::decode(envelope).is_ok(),
                _ => response::Message::decode(envelope).is_ok(),
            };
            assert!(!whole, "{} v{} cut to {end} is accepted", frame.name, frame.version);
        }
    }
}

#[test]
fn every_cut_of_a_recorded_envelope_waits_for_more() {
    for frame in frames().iter().filter(|frame| frame.kind == '>') {
        let mut decoder = Decoder::new(DEFAULT_ENVELOPE_BYTES_MAX);
        let (last, start) = frame.bytes.split_last().unwrap();
        for byte in start {
            decoder.feed(&[*byte]);
            assert_eq!(decoder.next_envelope(), Ok(None), "{}", frame.name);
        }
        decoder.feed(&[*last]);
        assert!(decoder.next_envelope().unwrap().is_some());
        assert_eq!(decoder.buffered_bytes(), 0);
    }
}
