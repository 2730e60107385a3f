//! Which of two states wins, and what is asked for and told.

use super::*;

fn changed(node: u8, key: AppState, value: &str) -> Event {
    Event::Changed { endpoint: endpoint(node), key, value: text(value) }
}

#[test]
fn a_new_node_is_alive_only_after_it_answered() {
    let mut node = node_1(&[]);
    let effects = tell(&mut node, 2, normal(3), at(1));
    let status = changed(2, AppState::STATUS_WITH_PORT, "NORMAL,7");
    assert_eq!(effects.events, [Event::Joined(endpoint(2)), status]);
    assert_eq!(whom(&effects, Verb::Echo), [endpoint(2)]);
    assert!(!node.is_alive(&endpoint(2)));
    assert_eq!(node.on_echo_response(endpoint(2), at(1)).events, [Event::Alive(endpoint(2))]);
    assert!(node.is_alive(&endpoint(2)));
    assert!(node.on_echo_response(endpoint(2), at(1)).is_empty());
}

#[test]
fn an_answer_that_nobody_asked_for_makes_nobody_alive() {
    let mut node = node_1(&[]);
    assert!(node.on_echo_response(endpoint(2), at(1)).is_empty());
    node.add_saved(endpoint(3), Saved { host_id: None, tokens: None }, at(1));
    assert!(node.on_echo_response(endpoint(3), at(1)).is_empty());
}

#[test]
fn an_echo_that_was_lost_is_sent_again_a_second_later() {
    let mut node = node_1(&[]);
    let echoes = |effects: Effects| whom(&effects, Verb::Echo).len();
    assert_eq!(echoes(tell(&mut node, 2, normal(3), at(1))), 1);
    assert_eq!(echoes(tell(&mut node, 2, normal(4), at(1))), 0);
    assert_eq!(echoes(tell(&mut node, 2, normal(5), at(2))), 1);
}

#[test]
fn the_status_is_told_before_what_depends_on_it() {
    let mut node = node_1(&[]);
    let state = said(GENERATION, 3, &[(AppState::TOKENS, "t", 1), (AppState::STATUS_WITH_PORT, "BOOT,1", 2)]);
    let effects = tell(&mut node, 2, state, at(1));
    let status = changed(2, AppState::STATUS_WITH_PORT, "BOOT,1");
    assert_eq!(effects.events, [Event::Joined(endpoint(2)), status, changed(2, AppState::TOKENS, "t")]);
}

#[test]
fn what_is_superseded_by_an_address_with_a_port_is_not_told() {
    let mut node = node_1(&[]);
    let rpc = (AppState::RPC_ADDRESS, "1.1.1.1", 1);
    let native = (AppState::NATIVE_ADDRESS_AND_PORT, "1.1.1.1:9042", 2);
    let effects = tell(&mut node, 2, said(GENERATION, 3, &[rpc, native]), at(1));
    assert_eq!(effects.events[1..], [changed(2, AppState::NATIVE_ADDRESS_AND_PORT, "1.1.1.1:9042")]);
    assert_eq!(node.state(&endpoint(2)).unwrap().values().len(), 2, "it is passed on");
}

#[test]
fn later_words_win_and_earlier_ones_are_ignored() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, said(GENERATION, 5, &[(AppState::LOAD, "1.0", 4)]), at(1));
    let effects = tell(&mut node, 2, said(GENERATION, 9, &[(AppState::LOAD, "2.0", 8)]), at(2));
    assert_eq!(effects.events, [changed(2, AppState::LOAD, "2.0")]);
    assert!(tell(&mut node, 2, said(GENERATION, 7, &[(AppState::LOAD, "3.0", 6)]), at(3)).is_empty());
    assert!(tell(&mut node, 2, said(GENERATION - 1, 99, &[(AppState::LOAD, "4.0", 98)]), at(3)).is_empty());
    assert_eq!(node.state(&endpoint(2)).unwrap().text(AppState::LOAD), Some("2.0"));
}

#[test]
fn a_larger_generation_replaces_everything_and_has_to_answer_again() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, said(GENERATION, 500, &[(AppState::LOAD, "1.0", 400)]), at(1));
    let effects = tell(&mut node, 2, said(GENERATION + 5, 1, &[]), at(2));
    assert_eq!(effects.events, [Event::Dead(endpoint(2)), Event::Restarted(endpoint(2))]);
    assert_eq!(whom(&effects, Verb::Echo), [endpoint(2)]);
    assert_eq!(node.state(&endpoint(2)), Some(&EndpointState::new(GENERATION + 5, 1)));
}

#[test]
fn a_generation_over_a_year_ahead_is_refused_and_told_once() {
    let mut node = node_1(&[]);
    let year = 86_400 * 365;
    assert!(!tell(&mut node, 2, said(GENERATION + year + 1, 1, &[]), at(1)).is_empty());
    let effects = tell(&mut node, 2, said(GENERATION + year + 2, 1, &[]), at(1));
    let Event::Refused { endpoint: of, why } = &effects.events[0] else { panic!("{effects:?}") };
    assert_eq!(
        why.text(*of),
        "received an invalid gossip generation for peer /127.0.0.2:7000; \
         local time = 1700000001, received generation = 1731536002"
    );
    assert!(tell(&mut node, 2, said(GENERATION + year + 9, 1, &[]), at(1)).is_empty());
    let known = node.state(&endpoint(2)).unwrap();
    assert_eq!(known.generation, GENERATION + year + 1);
}

#[test]
fn nobody_tells_a_node_of_itself() {
    let mut node = node_1(&[]);
    let before = node.own().clone();
    let other = said(GENERATION + 9, 99, &[(AppState::STATUS_WITH_PORT, "LEFT,1,2", 98)]);
    assert!(node.on_ack2(endpoint(2), ack2(vec![(endpoint(1), other)]), at(1)).unwrap().is_empty());
    assert_eq!(node.own(), &before);
}

fn answer(node: &mut Gossiper, digests: Vec<Digest>) -> Ack {
    let Settings { cluster_name, partitioner, .. } = settings(2, &[]);
    let syn = Syn { cluster_name, partitioner, digests };
    let effects = node.on_syn(endpoint(2), syn.encode().into()).unwrap();
    assert_eq!(whom(&effects, Verb::Ack), [endpoint(2)]);
    Ack::decode(effects.messages[0].payload.clone()).unwrap()
}

fn digest(of: u8, generation: i32, max_version: i32) -> Digest {
    Digest { endpoint: endpoint(of), generation, max_version }
}

#[test]
fn a_syn_is_answered_with_what_is_newer_here_and_requests_for_what_is_newer_there() {
    let mut node = node_1(&[]);
    meet(&mut node, 3, said(GENERATION, 5, &[(AppState::LOAD, "1.0", 4)]), at(1));
    let state = node.state(&endpoint(3)).unwrap().clone();

    let same = answer(&mut node, vec![digest(3, GENERATION, 5)]);
    assert_eq!(same, Ack::default());
    let behind = answer(&mut node, vec![digest(3, GENERATION, 4)]);
    assert_eq!(behind.states, [(endpoint(3), said(GENERATION, 5, &[]))]);
    let of_an_earlier_start = answer(&mut node, vec![digest(3, GENERATION - 1, 99)]);
    assert_eq!(of_an_earlier_start.states, [(endpoint(3), state)]);

    let ahead = answer(&mut node, vec![digest(3, GENERATION, 9)]);
    assert_eq!(ahead.requests, [digest(3, GENERATION, 5)]);
    let of_a_later_start = answer(&mut node, vec![digest(3, GENERATION + 1, 2)]);
    assert_eq!(of_a_later_start.requests, [digest(3, GENERATION + 1, 0)]);
    let unknown = answer(&mut node, vec![digest(4, GENERATION, 2)]);
    assert_eq!(unknown.requests, [digest(4, GENERATION, 0)]);
}

#[test]
fn of_itself_a_node_tells_everything() {
    let mut node = node_1(&[]);
    let own = node.own().clone();
    let ack = answer(&mut node, vec![digest(1, GENERATION, own.max_version() + 7)]);
    assert_eq!(ack, Ack { requests: vec![], states: vec![(endpoint(1), own)] });
}

#[test]
fn a_digest_that_is_repeated_is_answered_once() {
    let mut node = node_1(&[]);
    let ack = answer(&mut node, vec![digest(1, 0, 0); 50]);
    assert_eq!(ack.states.len(), 1);
}

#[test]
fn an_ack_is_answered_with_what_it_asks_for() {
    let mut node = node_1(&[2]);
    let _ = node.tick(at(1));
    let ack = Ack { requests: vec![digest(1, GENERATION, 99), digest(9, 1, 1)], states: vec![] };
    let effects = node.on_ack(endpoint(2), ack.encode().into(), at(1)).unwrap();
    assert_eq!(whom(&effects, Verb::Ack2), [endpoint(2)]);
    let ack2 = Ack2::decode(effects.messages[0].payload.clone()).unwrap();
    assert_eq!(ack2.states, [(endpoint(1), node.own().clone())]);
}

#[test]
fn other_clusters_and_partitioners_are_refused_and_told_once() {
    let mut node = node_1(&[]);
    let syn = |cluster: &str, partitioner: &str| -> Bytes {
        Syn { cluster_name: text(cluster), partitioner: text(partitioner), digests: vec![] }.encode().into()
    };
    let effects = node.on_syn(endpoint(2), syn("other", "p")).unwrap();
    let Event::Refused { endpoint: of, why } = &effects.events[0] else { panic!("{effects:?}") };
    assert_eq!(why.text(*of), "ClusterName mismatch from /127.0.0.2:7000 other!=ring");
    assert!(effects.messages.is_empty());
    assert!(node.on_syn(endpoint(2), syn("other", "p")).unwrap().is_empty());
    let effects = node.on_syn(endpoint(2), syn("ring", "p")).unwrap();
    let Event::Refused { endpoint: of, why } = &effects.events[0] else { panic!("{effects:?}") };
    assert_eq!(
        why.text(*of),
        "Partitioner mismatch from /127.0.0.2:7000 p!=org.apache.cassandra.dht.Murmur3Partitioner"
    );
}

#[test]
fn what_others_make_a_node_keep_is_bounded() {
    let mut node = node_1(&[]);
    let large = "x".repeat(60_000);
    let values: Vec<_> =
        (20..30).map(|key| (AppState::from_number(key).unwrap(), large.as_str(), 1)).collect();
    let effects = tell(&mut node, 2, said(GENERATION, 2, &values), at(1));
    assert_eq!(effects.events, [Event::Refused { endpoint: endpoint(2), why: Refusal::TooMuchState }]);
    assert_eq!(node.state(&endpoint(2)), None);

    for block in 0..11u8 {
        let of = |i: u16| Endpoint::new([10, block, (i >> 8) as u8, i as u8].into(), 7_000);
        let states = (0..1_000).map(|i| (of(i), said(GENERATION, 1, &[]))).collect();
        let _ = node.on_ack2(endpoint(2), ack2(states), at(1)).unwrap();
    }
    assert_eq!(node.states().count(), super::message::ENDPOINTS_MAX + 1);
}

#[test]
fn people_see_what_a_node_says() {
    let mut node = node_1(&[]);
    let status = [(AppState::STATUS, "NORMAL,7", 1), (AppState::STATUS_WITH_PORT, "NORMAL,7", 2)];
    let rest = [(AppState::TOKENS, "secret", 3), (AppState::DC, "dc1", 4)];
    meet(&mut node, 2, said(GENERATION, 5, &[status, rest].concat()), at(1));
    let shown = node.shown();
    let said = |at: usize| {
        let node = &shown[at];
        let values = node.values.iter().map(|(key, version, value)| (key.name(), *version, value.as_str()));
        (node.endpoint, node.generation, node.heartbeat, values.collect::<Vec<_>>())
    };
    let own = vec![("STATUS", 2, "NORMAL,1"), ("STATUS_WITH_PORT", 1, "NORMAL,1")];
    assert_eq!(said(0), (endpoint(1), GENERATION, 3, own));
    let others = vec![("DC", 4, "dc1"), ("TOKENS", 3, "secret"), ("STATUS_WITH_PORT", 2, "NORMAL,7")];
    assert_eq!(said(1), (endpoint(2), GENERATION, 5, others));
    assert!(shown[1].is_alive);
    assert_eq!((shown[1].value(AppState::DC), shown[1].version(AppState::DC)), (Some("dc1"), Some(4)));
    assert_eq!((shown[1].value(AppState::TOKENS), shown[1].version(AppState::TOKENS)), (None, Some(3)));
}
