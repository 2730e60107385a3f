use super::super::param::{Threshold, TraceType};
use super::*;
use proptest::prelude::*;

const NOW: i64 = 1_600_000_000_000;

fn encoded(message: &Message) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(&mut out);
    out
}

fn decoded(bytes: &[u8]) -> Result<Parsed, DecodeError> {
    let mut input = SliceInput::new(Bytes::copy_from_slice(bytes));
    let parsed = Message::decode(&mut input, NOW)?;
    assert_eq!(input.position(), Message::measure(bytes).unwrap().unwrap() as u64);
    Ok(parsed)
}

fn endpoint(last: u8) -> Endpoint {
    Endpoint::new([127, 0, 0, last].into(), 7000)
}

/// One of each parameter.
fn example() -> Message {
    let forwards = vec![Forward { to: endpoint(2), id: 300 }, Forward { to: endpoint(3), id: 300 }];
    Message {
        id: 300,
        created_millis: NOW,
        expires_after_millis: 2_000,
        ..Message::new(Verb::MutationReq, "abc")
    }
    .with_flags(Flags::CALL_BACK_ON_FAILURE | Flags::TRACK_WARNINGS)
    .with_param(Param::ForwardTo(forwards))
    .with_param(Param::RespondTo(endpoint(1)))
    .with_param(Param::TraceSession(Uuid::from_u128(7)))
    .with_param(Param::TraceType(TraceType::Query))
    .with_param(Param::Crossed(Threshold::TombstoneWarn, 1_001))
    .with_param(Param::Crossed(Threshold::LocalReadSizeFail, 1 << 40))
}

#[test]
fn the_bytes_are_cassandras() {
    let message = Message {
        id: 1,
        created_millis: 0x0102_0304,
        expires_after_millis: 10_000,
        ..Message::new(Verb::EchoReq, Bytes::new())
    };
    let bytes = encoded(&message.clone().with_flags(Flags::CALL_BACK_ON_FAILURE));
    assert_eq!(bytes, [1, 1, 2, 3, 4, 0xa7, 0x10, 31, 1, 0, 0]);
    let bytes = encoded(&message.with_param(Param::RespondTo(endpoint(9))));
    assert_eq!(bytes[8..], [0, 1, 1, 7, 6, 127, 0, 0, 9, 0x1b, 0x58, 0]);
}

#[test]
fn a_message_comes_back_with_its_parameters() {
    let message = example();
    let bytes = encoded(&message);
    assert_eq!(bytes.len(), message.encoded_len());
    assert_eq!(decoded(&bytes), Ok(Parsed::Message(message.clone())));
    assert_eq!(message.respond_to(), Some(endpoint(1)));
    assert_eq!(message.forward_to().len(), 2);
    assert_eq!(message.trace_session(), Some(Uuid::from_u128(7)));
}

#[test]
fn a_message_that_is_cut_off_is_an_error_and_its_length_is_told_when_it_is_there() {
    let bytes = encoded(&example());
    for len in 0..bytes.len() {
        let cut = &bytes[..len];
        assert!(Message::decode(&mut SliceInput::new(Bytes::copy_from_slice(cut)), NOW).is_err());
        let whole = (len >= bytes.len() - 3).then_some(bytes.len());
        assert_eq!(Message::measure(cut), Ok(whole), "{len} bytes");
    }
}

#[test]
fn parameters_that_are_not_known_are_stepped_over() {
    let known = example();
    let mut bytes = Vec::new();
    let head = encoded(&Message { params: Vec::new(), payload: Bytes::new(), ..known.clone() });
    bytes.extend_from_slice(&head[..head.len() - 2]);
    bytes.push(known.params.len() as u8 + 2);
    bytes.extend_from_slice(&[14, 2, 0xff, 0xff]);
    known.params.iter().for_each(|param| param.encode(&mut bytes));
    bytes.extend_from_slice(&[0x80, 0xc8, 0, 3]);
    bytes.extend_from_slice(b"abc");
    assert_eq!(decoded(&bytes), Ok(Parsed::Message(known)));
}

#[test]
fn a_parameter_that_goes_on_is_an_error() {
    assert_eq!(Param::decode(99, Bytes::new()), Ok(None));
    assert!(Param::decode(6, Bytes::from_static(&[1, 1])).is_err());
    assert!(Param::decode(1, Bytes::from_static(&[6, 127, 0, 0, 1, 0x1b, 0x58, 0])).is_err());
    assert!(Param::decode(0, Bytes::from_static(&[0xff; 9])).is_err(), "more nodes than bytes");
}

#[test]
fn a_verb_that_is_not_known_is_stepped_over() {
    let bytes = [1, 0, 0, 0, 0, 5, 120, 0, 0, 2, 8, 9];
    assert_eq!(decoded(&bytes), Ok(Parsed::UnknownVerb { number: 120 }));
}

#[test]
fn the_time_of_creation_is_that_nearest_to_now() {
    let edge = 5 << 32;
    for (now, created) in
        [(edge + 5, edge - 20), (edge - 20, edge + 5), (edge, edge), (NOW, NOW - 86_400_000)]
    {
        assert_eq!(unwrapped(created as u32, now), created);
    }
    assert_eq!(unwrapped(0, i64::MAX), i64::MAX, "clocks may stand anywhere");
}

#[test]
fn a_message_is_waited_for_until_it_expires() {
    let message = example();
    assert_eq!(message.left(NOW + 500), Duration::from_millis(1_500));
    assert_eq!(message.left(NOW + 2_000), Duration::ZERO);
    let for_ever = Message { expires_after_millis: u64::MAX, ..message };
    assert_eq!(for_ever.expires_at_millis(), i64::MAX);
}

#[test]
fn size_and_verb_choose_the_connection() {
    let (read, gossip) = (Message::new(Verb::ReadReq, ""), Message::new(Verb::GossipDigestSyn, ""));
    assert_eq!(read.connection_for(100), ConnectionKind::Small);
    assert_eq!(gossip.connection_for(100), ConnectionKind::Urgent);
    assert_eq!(gossip.connection_for(SMALL_MESSAGE_BYTES_MAX + 1), ConnectionKind::Large);
    let ping = Message { connection: Some(ConnectionKind::Large), ..read };
    assert_eq!(ping.connection_for(100), ConnectionKind::Large);
}

#[test]
fn a_payload_suits_the_version_that_it_is_encoded_for() {
    let read = Message::new(Verb::ReadReq, "key");
    assert!(read.suits(12) && read.suits(13));
    let read = read.encoded_for(13);
    assert!(!read.suits(12) && read.suits(13));
    assert!(Message::new(Verb::MutationRsp, "").encoded_for(13).suits(12), "nothing is the same in all");
}

#[test]
fn lengths_that_no_memory_has_are_refused() {
    let huge = [&[1, 0, 0, 0, 0, 5, 0, 0, 0][..], &[0xff; 9]].concat();
    assert!(Message::measure(&huge).is_err());
    assert!(Message::decode(&mut SliceInput::new(huge.into()), NOW).is_err());
    let params = [&[1, 0, 0, 0, 0, 5, 0, 0][..], &[0xff; 9], &[99, 0xff], &[0xff; 20]].concat();
    assert_eq!(Message::measure(&params), Ok(None));
    assert!(Message::decode(&mut SliceInput::new(params.into()), NOW).is_err());
}

proptest! {
    #[test]
    fn any_message_comes_back(
        id: u64, ago in -1_000_000_000..1_000_000_000_i64, expires_after_millis: u64,
        verb in 0..Verb::ALL.len(), flags: u32, payload: Vec<u8>, with_params: bool,
    ) {
        let message = Message {
            id,
            created_millis: NOW - ago,
            expires_after_millis,
            verb: Verb::ALL[verb],
            flags: Flags(flags),
            params: if with_params { example().params } else { Vec::new() },
            ..Message::new(Verb::EchoReq, payload)
        };
        let bytes = encoded(&message);
        prop_assert_eq!(bytes.len(), message.encoded_len());
        prop_assert_eq!(decoded(&bytes), Ok(Parsed::Message(message)));
    }

    #[test]
    fn noise_is_decoded_without_a_panic(bytes: Vec<u8>) {
        let _ = Message::measure(&bytes);
        let _ = Message::decode(&mut SliceInput::new(bytes.into()), NOW);
    }

    #[test]
    fn a_flipped_bit_never_makes_a_longer_message_than_there_are_bytes(bit in 0..800_usize) {
        let mut bytes = encoded(&example());
        let bit = bit % (8 * bytes.len());
        bytes[bit / 8] ^= 1 << (bit % 8);
        let mut input = SliceInput::new(Bytes::from(bytes.clone()));
        if Message::decode(&mut input, NOW).is_ok() {
            prop_assert_eq!(Message::measure(&bytes).unwrap().unwrap() as u64, input.position());
        }
    }
}
