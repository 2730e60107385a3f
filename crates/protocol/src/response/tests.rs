use bytes::Bytes;
use proptest::prelude::*;

use super::blocks::Blocks;
use super::error::{ErrorKind, FailureReason, Progress};
use super::event::{StatusChange, TopologyChange};
use super::rows::{ColumnSpec, EncodedColumns, MetadataMode, Rows, RowsWriter};
use super::schema_change::{ChangeKind, ChangeTarget, SchemaChange};
use super::*;
use model::types::CqlType;
use model::{Consistency, WriteType};

fn body(version: ProtocolVersion, response: &Response) -> Bytes {
    let mut out = BytesMut::new();
    response.encode(version, &mut out);
    out.freeze()
}

fn round_trip(version: ProtocolVersion, response: &Response) -> Response {
    let envelope =
        Envelope { version, flags: 0, stream: 0, opcode: response.opcode(), body: body(version, response) };
    Message::decode(envelope).unwrap().response
}

fn error(kind: ErrorKind) -> Response {
    Response::Error(ErrorResponse::new(kind, "why"))
}

const PROGRESS: Progress = Progress { consistency: Consistency::Quorum, received: 1, block_for: 2 };

fn failures() -> Vec<(std::net::IpAddr, FailureReason)> {
    vec![
        ("127.0.0.1".parse().unwrap(), FailureReason::Timeout),
        ("::1".parse().unwrap(), FailureReason::ReadTooManyTombstones),
    ]
}

fn all_errors() -> Vec<ErrorKind> {
    vec![
        ErrorKind::Server,
        ErrorKind::Protocol,
        ErrorKind::BadCredentials,
        ErrorKind::Unavailable { consistency: Consistency::All, required: 3, alive: 1 },
        ErrorKind::Overloaded,
        ErrorKind::Bootstrapping,
        ErrorKind::Truncate,
        ErrorKind::WriteTimeout { progress: PROGRESS, write_type: WriteType::Cas, contentions: 7 },
        ErrorKind::WriteTimeout { progress: PROGRESS, write_type: WriteType::BatchLog, contentions: 0 },
        ErrorKind::ReadTimeout { progress: PROGRESS, data_present: true },
        ErrorKind::ReadFailure { progress: PROGRESS, failures: failures(), data_present: false },
        ErrorKind::FunctionFailure {
            keyspace: "ks".into(),
            function: "f".into(),
            argument_types: vec!["int".into()],
        },
        ErrorKind::WriteFailure { progress: PROGRESS, failures: failures(), write_type: WriteType::Simple },
        ErrorKind::CdcWriteFailure,
        ErrorKind::CasWriteUnknown { progress: PROGRESS },
        ErrorKind::Syntax,
        ErrorKind::Unauthorized,
        ErrorKind::Invalid,
        ErrorKind::Config,
        ErrorKind::AlreadyExists { keyspace: "ks".into(), table: "t".into() },
        ErrorKind::Unprepared { id: Bytes::from_static(&[7; 16]) },
    ]
}

#[test]
fn errors_round_trip_in_v5() {
    for kind in all_errors() {
        let response = error(kind);
        assert_eq!(round_trip(ProtocolVersion::V5, &response), response);
    }
}

#[test]
fn v3_clients_get_timeouts_for_failures() {
    let timed_out = "Operation timed out - received only 1 responses.";
    let read = ErrorKind::ReadFailure { progress: PROGRESS, failures: failures(), data_present: true };
    let kind = ErrorKind::ReadTimeout { progress: PROGRESS, data_present: true };
    let expected = Response::Error(ErrorResponse::new(kind, timed_out));
    assert_eq!(round_trip(ProtocolVersion::V3, &error(read)), expected);

    let write =
        ErrorKind::WriteFailure { progress: PROGRESS, failures: failures(), write_type: WriteType::Batch };
    let kind = ErrorKind::WriteTimeout { progress: PROGRESS, write_type: WriteType::Batch, contentions: 0 };
    let expected = Response::Error(ErrorResponse::new(kind, timed_out));
    assert_eq!(round_trip(ProtocolVersion::V3, &error(write)), expected);
}

#[test]
fn v3_clients_get_invalid_requests_for_functions_and_change_capture() {
    let function =
        ErrorKind::FunctionFailure { keyspace: "ks".into(), function: "f".into(), argument_types: vec![] };
    for (kind, message) in [
        (function, "ERROR FUNCTION_FAILURE: why"),
        (ErrorKind::CdcWriteFailure, "ERROR CDC_WRITE_FAILURE: why"),
    ] {
        let expected = Response::Error(ErrorResponse::invalid(message));
        assert_eq!(round_trip(ProtocolVersion::V3, &error(kind.clone())), expected);
        assert_eq!(round_trip(ProtocolVersion::V4, &error(kind.clone())), error(kind));
    }
}

#[test]
fn v4_clients_get_the_number_of_failures_only() {
    let kind = ErrorKind::ReadFailure { progress: PROGRESS, failures: failures(), data_present: true };
    let bytes = body(ProtocolVersion::V4, &error(kind));
    // code, "why", consistency, received, block for, two failures, data present
    assert_eq!(
        bytes,
        &[0, 0, 0x13, 0, 0, 3, b'w', b'h', b'y', 0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 1][..]
    );
}

#[test]
fn older_clients_get_a_write_timeout_for_an_unknown_outcome() {
    for version in [ProtocolVersion::V3, ProtocolVersion::V4] {
        let kind = ErrorKind::WriteTimeout { progress: PROGRESS, write_type: WriteType::Cas, contentions: 0 };
        let message = "Operation timed out - received only 1 responses.";
        let expected = Response::Error(ErrorResponse::new(kind, message));
        let sent = error(ErrorKind::CasWriteUnknown { progress: PROGRESS });
        assert_eq!(round_trip(version, &sent), expected);
    }
}

#[test]
fn events_and_schema_changes_round_trip() {
    let change = |target| SchemaChange { kind: ChangeKind::Dropped, keyspace: "ks".into(), target };
    let address = "10.0.0.1:9042".parse().unwrap();
    let types = vec!["int".to_owned(), "text".to_owned()];
    let mut events = vec![
        Event::Topology(TopologyChange::NewNode, address),
        Event::Topology(TopologyChange::RemovedNode, address),
        Event::Topology(TopologyChange::MovedNode, address),
        Event::Status(StatusChange::Up, "[::1]:9042".parse().unwrap()),
        Event::Status(StatusChange::Down, address),
        Event::Schema(change(ChangeTarget::Keyspace)),
        Event::Schema(change(ChangeTarget::Table { name: "t".into() })),
        Event::Schema(change(ChangeTarget::Type { name: "t".into() })),
    ];
    let functions = [
        change(ChangeTarget::Function { name: "f".into(), argument_types: types.clone() }),
        change(ChangeTarget::Aggregate { name: "f".into(), argument_types: types }),
    ];
    for function in &functions {
        let v3 = round_trip(ProtocolVersion::V3, &Response::Event(Event::Schema(function.clone())));
        let expected = SchemaChange { kind: ChangeKind::Updated, ..change(ChangeTarget::Keyspace) };
        assert_eq!(v3, Response::Event(Event::Schema(expected)));
    }
    events.extend(functions.map(Event::Schema));
    for event in events {
        let response = Response::Event(event);
        assert_eq!(round_trip(ProtocolVersion::V5, &response), response);
    }
}

#[test]
fn authentication_round_trips() {
    for response in [
        Response::Authenticate(Authenticate { authenticator: auth::PASSWORD_AUTHENTICATOR.into() }),
        Response::AuthChallenge(AuthChallenge { token: Some(Bytes::from_static(b"c")) }),
        Response::AuthSuccess(AuthSuccess { token: None }),
        Response::Ready,
        Response::Supported(Supported { options: vec![("CQL_VERSION".into(), vec!["3.4.7".into()])] }),
        Response::Result(ResultBody::Void),
        Response::Result(ResultBody::SetKeyspace("ks".into())),
    ] {
        assert_eq!(round_trip(ProtocolVersion::V4, &response), response);
    }
}

fn column(table: &str, name: &str, kind: CqlType) -> ColumnSpec {
    ColumnSpec { keyspace: "ks".into(), table: table.into(), name: name.into(), kind }
}

#[test]
fn a_row_count_without_columns_is_refused() {
    let mut out = BytesMut::new();
    Rows { columns: None, column_count: 0, new_metadata_id: None, paging_state: None, rows: vec![] }
        .encode(ProtocolVersion::V4, &mut out);
    let end = out.len();
    out[end - 4..].copy_from_slice(&u32::MAX.to_be_bytes());
    assert!(ResultBody::decode(ProtocolVersion::V4, &mut Reader::new(out.freeze())).is_err());
}

/// The body of the rows in a buffer behind something else, and in blocks.
fn written(values: &[Vec<u8>], paging_state: Option<&[u8]>) -> [Vec<u8>; 2] {
    let columns = EncodedColumns::new(ProtocolVersion::V5, &[column("t", "a", CqlType::Blob)]);
    let write = |mut writer: RowsWriter<'_>| {
        for value in values {
            writer.value(Some(value));
            writer.end_row();
        }
        assert_eq!(writer.row_bytes(), values.iter().map(|value| value.len() + 4).sum::<usize>());
        writer.finish(paging_state);
    };
    let mode = MetadataMode::Changed(&[9; 16]);
    let mut out = BytesMut::from(&b"not mine"[..]);
    write(RowsWriter::new(&mut out, &columns, mode));
    let mut blocks = Blocks::default();
    write(RowsWriter::in_blocks(&mut blocks, &columns, mode));
    assert!(out.starts_with(b"not mine"));
    [out[8..].to_vec(), blocks.parts().flatten().copied().collect()]
}

#[test]
fn rows_in_blocks_are_those_in_a_buffer() {
    for (rows, length) in [(0, 0), (3, 10), (400, 1_000), (2, 300_000), (131, 1_000), (262, 1_000)] {
        for state in [0, 40, 140_000] {
            let state = (state > 0).then(|| vec![7; state]);
            let [buffer, blocks] = written(&vec![vec![3; length]; rows], state.as_deref());
            assert!(buffer == blocks, "{rows} rows of {length} bytes");
            let mut reader = Reader::new(blocks.into());
            let ResultBody::Rows(found) = ResultBody::decode(ProtocolVersion::V5, &mut reader).unwrap()
            else {
                panic!()
            };
            assert_eq!(found.paging_state.as_deref(), state.as_deref());
            assert_eq!(found.rows.len(), rows);
        }
    }
}

proptest! {
    #[test]
    fn rows_round_trip(
        values in proptest::collection::vec(any::<[Option<Vec<u8>>; 2]>(), 0..20),
        one_table: bool,
        paging_state: Option<Vec<u8>>,
        changed: bool,
    ) {
        let other = if one_table { "t" } else { "u" };
        let columns = vec![column("t", "a", CqlType::Blob), column(other, "b", CqlType::Text)];
        let new_metadata_id = changed.then(|| Bytes::from_static(&[9; 16]));
        let rows = values.into_iter().map(|row| row.into_iter().map(|v| v.map(Bytes::from)).collect()).collect();
        let rows = Rows {
            columns: Some(columns),
            column_count: 2,
            new_metadata_id,
            paging_state: paging_state.map(Bytes::from),
            rows,
        };
        let response = Response::Result(ResultBody::Rows(rows));
        prop_assert_eq!(round_trip(ProtocolVersion::V5, &response), response);
    }

    #[test]
    fn noise_never_panics(settings: u8, bits: u8, noise: Vec<u8>) {
        fuzz_response(settings, bits, &noise);
    }
}
