use super::*;
use crate::gossip::app_state::AppState;
use crate::gossip::status::Status;
use crate::gossip::tokens;
use proptest::collection::vec;
use proptest::prelude::*;

fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}

fn endpoint(last: u8) -> Endpoint {
    Endpoint::new([127, 0, 0, last].into(), 7_000)
}

/// What a Cassandra 5.0.5 answered to a SYN without digests, in version 12.
const ACK_OF_A_CASSANDRA: &str = "0000000000000001067f00005d1b586b078f92000000560000000e00000000001a4e4f524d414c2c3737393733393238\
    3739303938363536363933000000190000000100083131373133372e300000001e00000002002464303337383364372d\
    623436382d336331612d383266312d3865333062326564646538620000001300000003000b6461746163656e74657231\
    000000080000000400057261636b310000000a000000050005352e302e350000000500000008000a3132372e302e302e\
    3933000000040000000b00023132000000010000000c002436613934336264322d623262352d343936632d613864612d\
    343930333234386262383739000000020000000d001dc080c080c080086c35c3a7c282c39cc395c3b7c2b5c080c080c0\
    80c080000000170000000e0004747275650000001b00000010000f3132372e302e302e39333a39303432000000030000\
    0011001a4e4f524d414c2c37373937333932383739303938363536363933000000180000001200066269672d6e620000\
    0006";

/// What a Cassandra 5.0.5 said when it stopped, in version 13.
const SHUTDOWN_OF_A_CASSANDRA: &str = "6b0790230000002b0000000e00000000000d73687574646f776e2c74727565000000310000000100083131383735362e\
    300000001e00000002002464303337383364372d623436382d336331612d383266312d38653330623265646465386200\
    00001300000003000b6461746163656e74657231000000080000000400057261636b310000000a000000050005352e30\
    2e350000000500000008000a3132372e302e302e3933000000040000000b00023133000000010000000c002435363239\
    366462652d643666332d346662642d383633652d346364303338623362663462000000020000000d001ac080c080c080\
    08c3963a543f1164c282c29ac080c080c080c080000000170000000e000566616c73650000002d00000010000f313237\
    2e302e302e39333a393034320000000300000011000d73687574646f776e2c747275650000002f000000120006626967\
    2d6f6100000006";

fn unhex(hex: &str) -> Bytes {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}

#[test]
fn an_ack_of_a_cassandra_is_read_and_written_back() {
    let bytes = unhex(ACK_OF_A_CASSANDRA);
    let ack = Ack::decode(bytes.clone()).unwrap();
    assert_eq!(ack.encode(), bytes);
    let [(endpoint, state)] = &ack.states[..] else { panic!("{ack:?}") };
    assert_eq!((endpoint.to_string().as_str(), state.values().len()), ("127.0.0.93:7000", 14));
    assert_eq!(state.status(), Some(Status::Normal { token: 7_797_392_879_098_656_693 }));
    assert_eq!(state.tokens(), Some(vec![7_797_392_879_098_656_693]));
    assert_eq!(state.text(AppState::RELEASE_VERSION), Some("5.0.5"));
    assert_eq!(state.host_id().unwrap().to_string(), "6a943bd2-b2b5-496c-a8da-4903248bb879");
    assert!(state.is_rpc_ready() && state.schema().is_some());
}

#[test]
fn a_shutdown_of_a_cassandra_is_read_and_written_back() {
    let bytes = unhex(SHUTDOWN_OF_A_CASSANDRA);
    let state = decode_shutdown(bytes.clone()).unwrap().unwrap();
    assert_eq!(encode_shutdown(&state), bytes);
    assert_eq!((state.status(), state.is_rpc_ready()), (Some(Status::Shutdown), false));
    assert_eq!(state.text(AppState::SSTABLE_VERSIONS), Some("big-oa"));
}

/// A small state, byte by byte.
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
