use proptest::prelude::*;

use super::*;

fn reader(bytes: &[u8]) -> Reader {
    Reader::new(Bytes::copy_from_slice(bytes))
}

#[test]
fn a_negative_length_means_null_unset_or_nonsense() {
    let value = |length: i32, version| reader(&length.to_be_bytes()).value(version);
    assert_eq!(value(-1, ProtocolVersion::V3), Ok(Value::Null));
    assert_eq!(value(-2, ProtocolVersion::V3), Ok(Value::Null));
    assert_eq!(value(-3, ProtocolVersion::V3), Ok(Value::Null));
    for version in [ProtocolVersion::V4, ProtocolVersion::V5] {
        assert_eq!(value(-1, version), Ok(Value::Null));
        assert_eq!(value(-2, version), Ok(Value::Unset));
        assert_eq!(value(-3, version), Err(BodyError::ValueLength { length: -3 }));
    }
}

#[test]
fn a_lying_count_is_an_error_and_reserves_nothing() {
    let error = reader(&[0xFF, 0xFF, 0, 0, 0, 0]).values(ProtocolVersion::V5).unwrap_err();
    assert_eq!(error, BodyError::Truncated { what: "a value", needed: 4, remaining: 0 });
    assert_eq!(reader(&[0xFF, 0xFF]).string_list(), Err(BodyError::ShortString));
    assert_eq!(reader(&[0x7F, 0xFF, 0xFF, 0xFF, 0]).long_string(), Err(BodyError::LongString));
    assert_eq!(reader(&[0xFF, 0xFF, 0xFF, 0xFF]).long_string(), Err(BodyError::LongString));
}

#[test]
fn text_that_is_not_utf8_is_shown_in_part() {
    let mut bytes = vec![0, 200];
    bytes.extend([0xFF; 200]);
    let BodyError::Utf8 { hex } = reader(&bytes).string().unwrap_err() else { panic!() };
    assert_eq!(hex, "ff".repeat(64));
}

#[test]
fn a_long_message_is_cut_at_a_character() {
    let mut out = BytesMut::new();
    put_string(&mut out, &"ä".repeat(40_000));
    let text = Reader::new(out.freeze()).string().unwrap();
    assert_eq!(text, "ä".repeat(32_767));
}

#[test]
fn addresses_have_four_or_sixteen_bytes() {
    assert_eq!(reader(&[5, 1, 2, 3, 4, 5]).inet_addr(), Err(BodyError::AddressSize { size: 5 }));
    assert!(matches!(reader(&[16, 1]).inet_addr(), Err(BodyError::Truncated { .. })));
    let bytes = [4, 127, 0, 0, 1, 0, 1, 0, 0];
    assert_eq!(reader(&bytes).inet(), Err(BodyError::Port { port: 65_536 }));
}

proptest! {
    #[test]
    fn everything_written_is_read(
        texts in proptest::collection::vec((".{0,20}", proptest::option::of(any::<Vec<u8>>())), 0..6),
        address: std::net::SocketAddr,
        id: u128,
    ) {
        let map: Vec<_> = texts.iter().map(|(name, _)| (name.clone(), name.to_uppercase())).collect();
        let multimap: Vec<_> = map.iter().map(|(a, b)| (a.clone(), vec![b.clone(), a.clone()])).collect();
        let payload: CustomPayload = texts.iter().map(|(a, b)| (a.clone(), b.clone().map(Bytes::from))).collect();
        let address = SocketAddr::new(address.ip(), address.port());
        let mut out = BytesMut::new();
        put_string_map(&mut out, &map);
        put_string_multimap(&mut out, &multimap);
        put_bytes_map(&mut out, &payload);
        put_inet(&mut out, address);
        put_uuid(&mut out, Uuid::from_u128(id));
        put_long_string(&mut out, "end");
        let mut reader = Reader::new(out.freeze());
        prop_assert_eq!(reader.string_map().unwrap(), map);
        prop_assert_eq!(reader.string_multimap().unwrap(), multimap);
        prop_assert_eq!(reader.bytes_map().unwrap(), payload);
        prop_assert_eq!(reader.inet().unwrap(), address);
        prop_assert_eq!(reader.uuid("id").unwrap(), Uuid::from_u128(id));
        prop_assert_eq!(reader.long_string().unwrap(), "end");
        prop_assert_eq!(reader.remaining(), 0);
    }
}
