use super::*;
use crate::gossip::app_state::AppState;
use crate::gossip::tokens;
use proptest::collection::vec;
use proptest::prelude::*;

fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}

fn endpoint(last: u8) -> Endpoint {
    Endpoint::new([127, 0, 0, last].into(), 7_000)
}

/// The bytes that `formats/fakenode.py` sends and a Cassandra 5.0 takes, with one token.
const STATE_OF_A_NODE: &[u8] = &[
    0x65, 0x00, 0x00, 0x00, 0, 0, 0, 4, 0, 0, 0, 3, // generation, heartbeat, three values
    0, 0, 0, 11, 0, 2, b'1', b'2', 0, 0, 0, 1, // NET_VERSION
    0, 0, 0, 13, 0, 31, 0xc0, 0x80, 0xc0, 0x80, 0xc0, 0x80, 8, // TOKENS: the length of a token,
    0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3, 0xbf, 0xc3,
    0xbb, // -5,
    0xc0, 0x80, 0xc0, 0x80, 0xc0, 0x80, 0xc0, 0x80, 0, 0, 0, 2, // and the end
    0, 0, 0, 17, 0, 9, b'N', b'O', b'R', b'M', b'A', b'L', b',', b'-', b'5', 0, 0, 0,
    3, // STATUS_WITH_PORT
];

fn state_of_a_node() -> EndpointState {
    let mut state = EndpointState::new(0x6500_0000, 4);
    state.put(AppState::NET_VERSION, text("12"), 1);
    state.put(AppState::TOKENS, tokens::encode(&[-5]).unwrap(), 2);
    state.put(AppState::STATUS_WITH_PORT, text("NORMAL,-5"), 3);
    state
}

#[test]
fn a_syn_is_written_as_cassandra_writes_it() {
    let syn = Syn {
        cluster_name: text("ring"),
        partitioner: text("Murmur3"),
        digests: vec![Digest { endpoint: endpoint(2), generation: 7, max_version: -1 }],
    };
    let bytes = b"\x00\x04ring\x00\x07Murmur3\x00\x00\x00\x01\
        \x06\x7f\x00\x00\x02\x1b\x58\x00\x00\x00\x07\xff\xff\xff\xff";
    assert_eq!(syn.encode(), bytes);
    assert_eq!(Syn::decode(Bytes::from_static(bytes)).unwrap(), syn);
}

#[test]
fn an_ack_is_written_as_cassandra_writes_it() {
    let ack = Ack {
        requests: vec![Digest { endpoint: endpoint(1), generation: 9, max_version: 0 }],
        states: vec![(endpoint(99), state_of_a_node())],
    };
    let head = b"\x00\x00\x00\x01\x06\x7f\x00\x00\x01\x1b\x58\x00\x00\x00\x09\x00\x00\x00\x00\
        \x00\x00\x00\x01\x06\x7f\x00\x00\x63\x1b\x58";
    let bytes = [head, STATE_OF_A_NODE].concat();
    assert_eq!(ack.encode(), bytes);
    assert_eq!(Ack::decode(Bytes::from(bytes)).unwrap(), ack);
}

#[test]
fn a_shutdown_says_nothing_or_the_last_state() {
    assert_eq!(decode_shutdown(Bytes::new()).unwrap(), None);
    assert_eq!(encode_shutdown(&state_of_a_node()), STATE_OF_A_NODE);
    let payload = Bytes::from_static(STATE_OF_A_NODE);
    assert_eq!(decode_shutdown(payload).unwrap(), Some(state_of_a_node()));
}

#[test]
fn values_that_cannot_be_passed_on_are_left_out() {
    let bytes = b"\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\
        \x00\x00\x00\x1f\x00\x01a\x00\x00\x00\x01\x00\x00\x00\x1e\x00\x01b\x00\x00\x00\x02";
    let state = decode_shutdown(Bytes::from_static(bytes)).unwrap().unwrap();
    let names: Vec<_> = state.values().map(|(key, said)| (key.name(), said.value.to_string())).collect();
    assert_eq!(names, [("X10", "b".to_owned())]);
}

#[test]
fn counts_are_not_trusted() {
    for count in [-1, ENDPOINTS_MAX as i32 + 1, i32::MAX] {
        let payload = Bytes::copy_from_slice(&count.to_be_bytes());
        assert!(Ack2::decode(payload).is_err(), "{count} nodes");
    }
    let values = b"\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff";
    assert!(decode_shutdown(Bytes::from_static(values)).is_err());
}

#[test]
fn bytes_that_are_left_over_are_refused() {
    let mut bytes = Ack2::default().encode();
    bytes.push(0);
    assert!(Ack2::decode(Bytes::from(bytes)).is_err());
}

fn endpoints() -> impl Strategy<Value = Endpoint> {
    prop_oneof![
        any::<([u8; 4], u16)>().prop_map(|(ip, port)| Endpoint::new(ip.into(), port)),
        any::<([u8; 16], u16)>().prop_map(|(ip, port)| Endpoint::new(ip.into(), port)),
    ]
}

fn digests() -> impl Strategy<Value = Vec<Digest>> {
    let digest = (endpoints(), any::<(i32, i32)>());
    vec(
        digest.prop_map(|(endpoint, (generation, max_version))| Digest { endpoint, generation, max_version }),
        0..4,
    )
}

fn states() -> impl Strategy<Value = Vec<(Endpoint, EndpointState)>> {
    let values = vec((0..31i32, "\\PC{0,8}", any::<i32>()), 0..4);
    let state = (any::<(i32, i32)>(), values).prop_map(|((generation, heartbeat), values)| {
        let mut state = EndpointState::new(generation, heartbeat);
        for (number, value, version) in values {
            state.put(AppState::from_number(number).unwrap(), text(&value), version);
        }
        state
    });
    vec((endpoints(), state), 0..4)
}

/// Every message comes back from its bytes, and from no front part of them.
fn comes_back<M: PartialEq + std::fmt::Debug>(
    message: &M,
    bytes: Vec<u8>,
    decode: fn(Bytes) -> Result<M, DecodeError>,
) -> Result<(), TestCaseError> {
    prop_assert_eq!(&decode(Bytes::from(bytes.clone())).unwrap(), message);
    for len in 0..bytes.len() {
        prop_assert!(decode(Bytes::copy_from_slice(&bytes[..len])).is_err());
    }
    Ok(())
}

proptest! {
    #[test]
    fn syns_come_back(cluster in "\\PC{0,8}", partitioner in "[a-z.]{0,8}", digests in digests()) {
        let syn = Syn { cluster_name: text(&cluster), partitioner: text(&partitioner), digests };
        comes_back(&syn, syn.encode(), Syn::decode)?;
    }

    #[test]
    fn acks_come_back(requests in digests(), states in states()) {
        let ack = Ack { requests, states };
        comes_back(&ack, ack.encode(), Ack::decode)?;
    }

    #[test]
    fn acks_of_acks_come_back(states in states()) {
        let ack2 = Ack2 { states };
        comes_back(&ack2, ack2.encode(), Ack2::decode)?;
    }

    #[test]
    fn any_bytes_are_a_message_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        crate::gossip::fuzz::fuzz_gossip(&bytes);
    }
}
