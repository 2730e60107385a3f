use bytes::Bytes;
use proptest::option;
use proptest::prelude::*;

use super::*;
use crate::compression::Compression;
use crate::primitives::{ShortId, Value};
use crate::response::event::EventKind;
use model::Consistency;

fn body(version: ProtocolVersion, request: &Request) -> Bytes {
    let mut out = BytesMut::new();
    request.encode(version, &mut out);
    out.freeze()
}

fn decode(version: ProtocolVersion, opcode: Opcode, body: Bytes) -> Result<Request, BodyError> {
    Request::decode(opcode, version, &mut Reader::new(body))
}

fn query_with(params: QueryParams) -> Request {
    Request::Query(Query { statement: "SELECT".into(), params })
}

#[test]
fn the_lowest_timestamp_is_refused() {
    let params = QueryParams { timestamp_us: Some(i64::MIN), ..QueryParams::new(Consistency::One) };
    for version in ProtocolVersion::ALL {
        let error = decode(version, Opcode::Query, body(version, &query_with(params.clone()))).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Out of bound timestamp, must be in [-9223372036854775807, 9223372036854775807] \
             (got -9223372036854775808)"
        );
    }
}

#[test]
fn a_page_of_no_rows_is_refused_but_not_in_batches() {
    let params = QueryParams { page_size: Some(0), ..QueryParams::new(Consistency::One) };
    let version = ProtocolVersion::V4;
    let error = decode(version, Opcode::Query, body(version, &query_with(params.clone()))).unwrap_err();
    assert_eq!(error.to_string(), "The page size cannot be 0");
    let batch = Request::Batch(Batch { kind: BatchKind::Logged, statements: vec![], params });
    assert_eq!(decode(version, Opcode::Batch, body(version, &batch)), Ok(batch));
}

#[test]
fn batches_of_unknown_kinds_are_refused_in_cassandras_words() {
    let decode = |bytes: &'static [u8]| {
        decode(ProtocolVersion::V4, Opcode::Batch, Bytes::from_static(bytes)).unwrap_err().to_string()
    };
    assert_eq!(decode(&[3, 0, 0, 0, 1, 0]), "Invalid BATCH message type 3");
    assert_eq!(decode(&[0xFF, 0, 0, 0, 1, 0]), "Invalid BATCH message type -1");
    assert_eq!(decode(&[0, 0, 1, 2, 0, 0]), "Invalid query kind in BATCH messages. Must be 0 or 1 but got 2");
}

#[test]
fn register_takes_names_in_any_case_and_refuses_others() {
    let decode = |names: &[&str]| {
        let mut out = BytesMut::new();
        crate::primitives::put_string_list(&mut out, names);
        decode(ProtocolVersion::V4, Opcode::Register, out.freeze())
    };
    let kinds = vec![EventKind::SchemaChange];
    assert_eq!(decode(&["schema_change"]), Ok(Request::Register(Register { kinds })));
    assert_eq!(decode(&["abc"]).unwrap_err().to_string(), "Invalid value 'abc' for Type");
}

#[test]
fn a_custom_payload_needs_v4() {
    let mut out = BytesMut::new();
    crate::primitives::put_bytes_map(&mut out, &[("k".into(), Some(Bytes::from_static(b"v")))]);
    for version in ProtocolVersion::ALL {
        let envelope = Envelope {
            version,
            flags: flags::CUSTOM_PAYLOAD | flags::TRACING,
            stream: 1,
            opcode: Opcode::Options,
            body: out.clone().freeze(),
        };
        let decoded = Message::decode(envelope);
        if version == ProtocolVersion::V3 {
            assert_eq!(decoded, Err(BodyError::PayloadBeforeV4));
        } else {
            let message = decoded.unwrap();
            assert!(message.tracing);
            assert_eq!(message.payload, Some(vec![("k".into(), Some(Bytes::from_static(b"v")))]));
        }
    }
}

#[test]
fn the_cql_version_must_be_there_and_at_least_3() {
    let check = |settings: &[(&str, &str)]| {
        let settings = settings.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        Startup { settings }.check_cql_version().map_err(|error| error.message)
    };
    assert_eq!(check(&[("CQL_VERSION", "3.0.0")]), Ok(()));
    assert_eq!(check(&[("CQL_VERSION", "3.4")]), Ok(()));
    assert_eq!(check(&[]), Err("Missing value CQL_VERSION in STARTUP message".into()));
    assert_eq!(check(&[("CQL_VERSION", "abc")]), Err("Invalid version value: abc".into()));
    let message =
        "CQL version 2.0.0 is not supported by the binary protocol (supported version are >= 3.0.0)";
    assert_eq!(check(&[("CQL_VERSION", "2.0.0")]), Err(message.into()));
}

#[test]
fn startup_settings_are_found_in_upper_case() {
    let startup = |settings: &[(&str, &str)]| {
        let settings = settings.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let request = Request::Startup(Startup { settings });
        match decode(ProtocolVersion::V4, Opcode::Startup, body(ProtocolVersion::V4, &request)).unwrap() {
            Request::Startup(startup) => startup,
            other => panic!("{other:?}"),
        }
    };
    let some = startup(&[("cql_version", "3.0.0"), ("compression", "LZ4"), ("THROW_ON_OVERLOAD", "1")]);
    assert_eq!(some.get("CQL_VERSION"), Some("3.0.0"));
    assert_eq!(some.compression(ProtocolVersion::V5), Ok(Some(Compression::Lz4)));
    assert!(some.throw_on_overload());
    assert_eq!(startup(&[]).compression(ProtocolVersion::V5), Ok(None));
    let snappy = startup(&[("COMPRESSION", "snappy")]);
    assert_eq!(snappy.compression(ProtocolVersion::V4), Ok(Some(Compression::Snappy)));
    let refused = snappy.compression(ProtocolVersion::V5).unwrap_err();
    assert_eq!(refused.message, "Snappy compression is not supported in protocol V5");
    let unknown = startup(&[("COMPRESSION", "ZSTD")]).compression(ProtocolVersion::V4).unwrap_err();
    assert_eq!(unknown.message, "Unknown compression algorithm: zstd");
}

#[test]
fn a_token_is_not_shown() {
    let response = AuthResponse { token: Some(Bytes::from_static(b"\0user\0secret")) };
    assert_eq!(format!("{response:?}"), "AuthResponse(12 bytes)");
}

fn bytes() -> impl Strategy<Value = Bytes> {
    any::<Vec<u8>>().prop_map(Bytes::from)
}

fn value(version: ProtocolVersion) -> impl Strategy<Value = Value> {
    let unset = if version >= ProtocolVersion::V4 { Value::Unset } else { Value::Null };
    prop_oneof![4 => bytes().prop_map(Value::Set), 1 => Just(Value::Null), 1 => Just(unset)]
}

fn consistency() -> impl Strategy<Value = Consistency> {
    proptest::sample::select(&Consistency::ALL_LEVELS[..])
}

fn params(version: ProtocolVersion) -> impl Strategy<Value = QueryParams> {
    let v5 = version >= ProtocolVersion::V5;
    let values = proptest::collection::vec((".{0,9}", value(version)), 0..5);
    let settings = (any::<bool>(), option::of(1..i32::MAX), option::of(bytes()), option::of(consistency()));
    let timestamp = option::of(i64::MIN + 1..);
    let newer = (option::of("[a-z]{1,9}"), any::<Option<u32>>());
    (consistency(), values, any::<bool>(), settings, timestamp, newer).prop_map(
        move |(consistency, values, named, settings, timestamp_us, newer)| {
            let (names, values): (Vec<_>, Vec<_>) = values.into_iter().unzip();
            let (skip_metadata, page_size, paging_state, serial_consistency) = settings;
            QueryParams {
                consistency,
                values,
                names: named.then_some(names),
                skip_metadata,
                page_size,
                paging_state,
                serial_consistency,
                timestamp_us,
                keyspace: newer.0.filter(|_| v5),
                now_in_seconds: newer.1.filter(|_| v5),
            }
        },
    )
}

fn request(version: ProtocolVersion) -> impl Strategy<Value = Request> {
    let v5 = version >= ProtocolVersion::V5;
    let id = || bytes().prop_map(|id| ShortId::from_slice(&id[..id.len().min(40)]));
    let query = (".{0,40}", params(version))
        .prop_map(|(statement, params)| Request::Query(Query { statement, params }));
    let prepare = (".{0,40}", option::of(".{1,9}")).prop_map(move |(statement, keyspace)| {
        Request::Prepare(Prepare { statement, keyspace: keyspace.filter(|_| v5) })
    });
    let execute = (id(), id(), params(version)).prop_map(move |(id, result, params)| {
        Request::Execute(Execute { id, result_metadata_id: v5.then_some(result), params })
    });
    let text = prop_oneof![".{0,20}".prop_map(StatementText::Query), id().prop_map(StatementText::Prepared)];
    let statement = (text, proptest::collection::vec(value(version), 0..4))
        .prop_map(|(text, values)| BatchStatement { text, values });
    let kind = proptest::sample::select(&[BatchKind::Logged, BatchKind::Unlogged, BatchKind::Counter][..]);
    let batch = (kind, proptest::collection::vec(statement, 0..4), params(version))
        .prop_map(|(kind, statements, params)| Request::Batch(Batch { kind, statements, params }));
    let auth = option::of(bytes()).prop_map(|token| Request::AuthResponse(AuthResponse { token }));
    prop_oneof![query, prepare, execute, batch, auth, Just(Request::Options(Options))]
}

fn versioned() -> impl Strategy<Value = (ProtocolVersion, Request)> {
    proptest::sample::select(&ProtocolVersion::ALL[..])
        .prop_flat_map(|version| (Just(version), request(version)))
}

proptest! {
    #[test]
    fn requests_round_trip((version, request) in versioned()) {
        let bytes = body(version, &request);
        prop_assert_eq!(decode(version, request.opcode(), bytes), Ok(request));
    }

    #[test]
    fn a_truncated_body_is_refused((version, request) in versioned()) {
        let bytes = body(version, &request);
        for end in 0..bytes.len() {
            prop_assert!(decode(version, request.opcode(), bytes.slice(..end)).is_err());
        }
    }

    #[test]
    fn noise_never_panics(settings: u8, noise: Vec<u8>) {
        fuzz_request(settings, &noise);
    }
}
