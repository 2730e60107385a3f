//! A node that hears anything that can be decoded, in any order, keeps its rules.

use super::super::message::encode_shutdown;
use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Input {
    Ack2(Vec<(u8, EndpointState)>),
    Ack(Vec<(u8, i32, i32)>, Vec<(u8, EndpointState)>),
    Shutdown(u8, Option<EndpointState>),
    Echo(u8),
    Seconds(u64),
    Remove(u8),
}

fn numbers() -> impl Strategy<Value = i32> {
    prop_oneof![Just(i32::MIN), Just(-1), 0..5i32, Just(GENERATION), Just(i32::MAX - 1), Just(i32::MAX)]
}

fn heard() -> impl Strategy<Value = EndpointState> {
    let statuses = prop::sample::select(vec![
        "",
        "BOOT,1",
        "NORMAL,1",
        "LEAVING,1",
        "LEFT,1",
        "LEFT,1,5",
        "LEFT,1,9223372036854775807",
        "removing,x",
        "removed,x,1",
        "hibernate,true",
        "shutdown,true",
        "?",
    ]);
    let key = prop_oneof![Just(0), Just(17), 0..31i32];
    let values = vec((key, statuses, numbers()), 0..4);
    let generation = prop_oneof![3 => Just(GENERATION), 1 => Just(GENERATION + 1), 1 => numbers()];
    (generation, numbers(), values).prop_map(|(generation, heartbeat, values)| {
        let key = |number| AppState::from_number(number).unwrap();
        let values: Vec<_> =
            values.into_iter().map(|(number, value, version)| (key(number), value, version)).collect();
        said(generation, heartbeat, &values)
    })
}

fn inputs() -> impl Strategy<Value = Input> {
    let states = || vec((1..6u8, heard()), 0..4);
    prop_oneof![
        4 => states().prop_map(Input::Ack2),
        2 => (vec((1..7u8, numbers(), numbers()), 0..4), states()).prop_map(|(asks, said)| Input::Ack(asks, said)),
        1 => (1..6u8, prop::option::of(heard())).prop_map(|(from, last)| Input::Shutdown(from, last)),
        3 => (1..6u8).prop_map(Input::Echo),
        2 => prop_oneof![Just(1), 1..60u64, Just(400_000)].prop_map(Input::Seconds),
        1 => (1..6u8).prop_map(Input::Remove),
    ]
}

fn named(states: Vec<(u8, EndpointState)>) -> Vec<(Endpoint, EndpointState)> {
    states.into_iter().map(|(of, state)| (endpoint(of), state)).collect()
}

proptest! {
    #[test]
    fn whatever_is_said_the_rules_hold(inputs in vec(inputs(), 0..60)) {
        let mut node = node_1(&[2]);
        let (mut second, mut alive) = (1, BTreeSet::new());
        for input in inputs {
            let now = at(second);
            let effects = match input {
                Input::Ack2(states) => node.on_ack2(endpoint(2), ack2(named(states)), now).unwrap(),
                Input::Ack(asks, states) => {
                    let ask = |(of, generation, max_version)| Digest { endpoint: endpoint(of), generation, max_version };
                    let requests = asks.into_iter().map(ask).collect();
                    let ack = Ack { requests, states: named(states) };
                    node.on_ack(endpoint(3), ack.encode().into(), now).unwrap()
                }
                Input::Shutdown(from, last) => {
                    let payload = last.as_ref().map(encode_shutdown).unwrap_or_default();
                    node.on_shutdown(endpoint(from), payload.into(), now).unwrap()
                }
                Input::Echo(from) => node.on_echo_response(endpoint(from), now),
                Input::Seconds(seconds) => {
                    second += seconds;
                    node.tick(at(second))
                }
                Input::Remove(whom) => node.replace(endpoint(whom), now),
            };
            for event in effects.events {
                match event {
                    Event::Alive(other) => prop_assert!(alive.insert(other)),
                    Event::Dead(other) => prop_assert!(alive.remove(&other)),
                    Event::Removed(other) => prop_assert!(node.state(&other).is_none()),
                    _ => {}
                }
            }
            check_bytes(&node);
            prop_assert_eq!(node.live(), alive.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(node.own().status_kind(), StatusKind::Normal);
            for live in &alive {
                let status = node.state(live).unwrap().status_kind();
                prop_assert!(!status.is_dead() && status != StatusKind::Shutdown);
            }
        }
    }
}
