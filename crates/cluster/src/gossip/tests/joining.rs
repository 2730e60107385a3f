//! Shadow rounds.

use super::super::join::{JoinError, check_host_id};
use super::*;
use std::collections::BTreeMap;
use uuid::Uuid;

fn starting(seeds: &[u8]) -> Gossiper {
    Gossiper::new(settings(1, seeds), Arc::new(Random::from_seed(1)), at(0))
}

fn ended(effects: &Effects) -> Option<&ShadowEnd> {
    effects.events.iter().find_map(|event| match event {
        Event::ShadowRoundEnded(end) => Some(end),
        _ => None,
    })
}

fn empty_syn() -> Bytes {
    let Settings { cluster_name, partitioner, .. } = settings(2, &[]);
    Syn { cluster_name, partitioner, digests: vec![] }.encode().into()
}

fn answer(states: Vec<(Endpoint, EndpointState)>) -> Bytes {
    Ack { requests: vec![], states }.encode().into()
}

#[test]
fn who_has_nobody_to_ask_is_done() {
    let effects = starting(&[1]).start_shadow_round(BTreeSet::new(), at(0));
    assert_eq!(ended(&effects), Some(&ShadowEnd::Answered(BTreeMap::new())));
}

#[test]
fn seeds_are_asked_first_and_old_acquaintances_from_the_second_time_on() {
    let mut node = starting(&[2, 3]);
    let effects = node.start_shadow_round([endpoint(3), endpoint(4)].into(), at(0));
    assert_eq!(whom(&effects, Verb::Syn), [endpoint(2), endpoint(3)]);
    assert_eq!(effects.messages[0].payload, empty_syn());
    assert!((1..5).all(|second| node.tick(at(second)).is_empty()));
    assert_eq!(whom(&node.tick(at(5)), Verb::Syn), [endpoint(2), endpoint(3), endpoint(4)]);
}

#[test]
fn an_answer_ends_the_round_and_is_kept_out_of_gossip() {
    let mut node = starting(&[2]);
    let _ = node.start_shadow_round(BTreeSet::new(), at(0));
    let effects = node.on_ack(endpoint(2), answer(vec![(endpoint(2), normal(5))]), at(1)).unwrap();
    let known = BTreeMap::from([(endpoint(2), normal(5))]);
    assert_eq!(ended(&effects), Some(&ShadowEnd::Answered(known)));
    assert_eq!(node.state(&endpoint(2)), None);
    assert!(!node.is_in_shadow_round());

    node.start(GENERATION);
    let late = answer(vec![(endpoint(3), normal(5))]);
    assert!(node.on_ack(endpoint(2), late, at(1)).unwrap().is_empty(), "an answer left over");
}

#[test]
fn an_answer_that_does_not_tell_whose_the_address_is_does_not_end_the_round() {
    let mut node = starting(&[2]);
    let _ = node.start_shadow_round(BTreeSet::new(), at(0));
    let effects = node.on_ack(endpoint(2), answer(vec![(endpoint(1), normal(5))]), at(1)).unwrap();
    assert!(ended(&effects).is_none() && node.is_in_shadow_round());
}

#[test]
fn an_answer_to_who_had_the_address_before_does_not_end_the_round() {
    let mut node = starting(&[2]);
    let _ = node.start_shadow_round(BTreeSet::new(), at(0));
    let request = Digest { endpoint: endpoint(1), generation: GENERATION, max_version: 3 };
    for states in [vec![], vec![(endpoint(2), normal(5))]] {
        let ack = Ack { requests: vec![request], states };
        let effects = node.on_ack(endpoint(2), ack.encode().into(), at(1)).unwrap();
        assert!(ended(&effects).is_none() && node.is_in_shadow_round());
    }
}

#[test]
fn the_round_ends_when_all_seeds_are_starting_too() {
    let mut node = starting(&[1, 2, 3]);
    let _ = node.start_shadow_round(BTreeSet::new(), at(0));
    let asked = node.on_syn(endpoint(2), empty_syn()).unwrap();
    assert_eq!(asked.messages[0].payload, Bytes::from(Ack::default().encode()));
    for seed in [2, 9] {
        let effects = node.on_ack(endpoint(seed), answer(vec![]), at(1)).unwrap();
        assert_eq!(ended(&effects), None);
    }
    assert_eq!(ended(&node.tick(at(2))), None);
    let effects = node.on_ack(endpoint(3), answer(vec![]), at(2)).unwrap();
    assert_eq!(ended(&effects), None, "it waits a moment");
    assert_eq!(ended(&node.tick(at(2))), None);
    assert_eq!(ended(&node.tick(at(3))), Some(&ShadowEnd::Answered(BTreeMap::new())));
}

#[test]
fn nothing_and_then_an_answer_is_an_answer() {
    let mut node = starting(&[2]);
    let _ = node.start_shadow_round(BTreeSet::new(), at(0));
    assert!(ended(&node.on_ack(endpoint(2), answer(vec![]), at(1)).unwrap()).is_none());
    let known = vec![(endpoint(2), normal(5))];
    let effects = node.on_ack(endpoint(2), answer(known.clone()), at(1)).unwrap();
    assert_eq!(ended(&effects), Some(&ShadowEnd::Answered(known.into_iter().collect())));
}

#[test]
fn a_round_that_nobody_answers_fails_unless_the_node_is_a_seed() {
    let mut node = starting(&[2]);
    let _ = node.start_shadow_round(BTreeSet::new(), at(0));
    assert!((1..=60).all(|second| ended(&node.tick(at(second))).is_none()));
    let effects = node.tick(at(61));
    assert_eq!(ended(&effects), Some(&ShadowEnd::Failed));
    assert_eq!(effects.events[0].to_string(), "Unable to gossip with any peers");

    let mut seed = starting(&[1, 2]);
    let _ = seed.start_shadow_round(BTreeSet::new(), at(0));
    assert!((1..=30).all(|second| ended(&seed.tick(at(second))).is_none()));
    assert_eq!(ended(&seed.tick(at(31))), Some(&ShadowEnd::Answered(BTreeMap::new())));
}

#[test]
fn who_asks_in_a_shadow_round_is_told_of_saved_nodes_too() {
    let mut node = node_1(&[]);
    let host_id = Uuid::from_u128(3).to_string();
    let saved = Saved { host_id: Some(text(&host_id)), tokens: Some(tokens::encode(&[7]).unwrap()) };
    node.add_saved(endpoint(3), saved, at(0));
    let effects = node.on_syn(endpoint(2), empty_syn()).unwrap();
    let states: BTreeMap<_, _> =
        Ack::decode(effects.messages[0].payload.clone()).unwrap().states.into_iter().collect();
    assert_eq!(states[&endpoint(1)], *node.own());
    assert_eq!(states[&endpoint(3)].tokens(), Some(vec![7]));
    assert_eq!(node.state(&endpoint(3)).unwrap().values().len(), 0, "nobody else is told");
}

#[test]
fn an_id_that_another_live_node_has_is_taken() {
    let mut node = node_1(&[]);
    let host_id = Uuid::from_u128(3);
    let state = said(GENERATION, 3, &[(AppState::HOST_ID, &host_id.to_string(), 1)]);
    let _ = tell(&mut node, 2, state, at(1));
    assert_eq!(check_host_id(&node, host_id), Ok(()));
    let _ = node.on_echo_response(endpoint(2), at(1));
    let taken = check_host_id(&node, host_id).unwrap_err();
    assert!(matches!(taken, JoinError::HostIdTaken { .. }));
    assert_eq!(
        taken.to_string(),
        format!(
            "Host ID collision between active endpoint /127.0.0.2:7000 and /127.0.0.1:7000 (id={host_id})"
        )
    );
}
