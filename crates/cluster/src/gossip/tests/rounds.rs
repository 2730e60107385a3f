//! To whom a node talks each second.

use super::*;

#[test]
fn a_generation_is_larger_than_the_last_and_no_less_than_the_clock() {
    assert_eq!(next_generation(None, at(5)), GENERATION + 5);
    assert_eq!(next_generation(Some(GENERATION), at(5)), GENERATION + 5);
    assert_eq!(next_generation(Some(GENERATION + 5), at(5)), GENERATION + 6);
    assert_eq!(next_generation(Some(GENERATION + 900), at(5)), GENERATION + 901);
}

#[test]
fn a_tick_counts_the_heartbeat_and_tells_how_much_is_known() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(5), at(1));
    let before = node.own().heartbeat;
    let effects = node.tick(at(1));
    assert_eq!(node.own().heartbeat, before + 1);
    assert_eq!(whom(&effects, Verb::Syn), [endpoint(2)]);
    let mut syn = Syn::decode(effects.messages[0].payload.clone()).unwrap();
    syn.digests.sort_by_key(|digest| digest.endpoint);
    let known: Vec<_> = syn.digests.iter().map(|digest| (digest.endpoint, digest.max_version)).collect();
    assert_eq!(known, [(endpoint(1), before + 1), (endpoint(2), 5)]);
}

#[test]
fn what_is_announced_all_that_are_alive_hear_at_once() {
    let mut node = node_1(&[]);
    assert!(node.announce().is_empty());
    meet(&mut node, 2, normal(5), at(1));
    meet(&mut node, 3, normal(5), at(1));
    node.add_saved(endpoint(4), Saved { host_id: None, tokens: None }, at(1));
    let before = node.own().heartbeat;
    assert_eq!(whom(&node.announce(), Verb::Syn), [endpoint(2), endpoint(3)]);
    assert_eq!(node.own().heartbeat, before, "that it goes on is for each second to say");
}

#[test]
fn a_node_that_is_alone_talks_to_a_seed() {
    let mut node = node_1(&[1, 2]);
    assert_eq!(whom(&node.tick(at(1)), Verb::Syn), [endpoint(2)]);
    let mut lone_seed = node_1(&[1]);
    assert!(lone_seed.tick(at(1)).is_empty());
}

#[test]
fn a_seed_that_was_just_talked_to_is_not_talked_to_again() {
    let mut node = node_1(&[2]);
    meet(&mut node, 2, normal(1), at(1));
    for second in 2..20 {
        let _ = tell(&mut node, 2, normal(second as i32), at(second));
        assert_eq!(whom(&node.tick(at(second)), Verb::Syn), [endpoint(2)]);
    }
}

#[test]
fn a_dead_node_is_tried_as_often_as_others_are_few() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(1), at(1));
    node.add_saved(endpoint(3), Saved { host_id: None, tokens: None }, at(1));
    let mut tried = 0;
    for second in 2..402 {
        let _ = tell(&mut node, 2, normal(second as i32), at(second));
        tried += whom(&node.tick(at(second)), Verb::Syn).iter().filter(|to| **to == endpoint(3)).count();
    }
    assert!((150..250).contains(&tried), "one of two is dead: tried {tried} times of 400");
}

#[test]
fn a_node_that_hibernates_is_not_tried() {
    let mut node = node_1(&[]);
    let _ = tell(&mut node, 2, said(GENERATION, 3, &[(AppState::STATUS, "hibernate,true", 1)]), at(1));
    for second in 2..50 {
        assert!(node.tick(at(second)).messages.is_empty());
    }
}

#[test]
fn who_is_idle_neither_hears_nor_speaks() {
    let mut node = Gossiper::new(settings(1, &[2]), Arc::new(Random::from_seed(1)), at(0));
    let Settings { cluster_name, partitioner, .. } = settings(2, &[]);
    let syn = Syn { cluster_name, partitioner, digests: vec![] };
    assert!(node.on_syn(endpoint(2), syn.encode().into()).unwrap().is_empty());
    assert!(tell(&mut node, 2, normal(1), at(1)).is_empty());
    assert!(node.tick(at(1)).is_empty());
    assert_eq!(node.state(&endpoint(2)), None);
}

#[test]
fn bytes_that_are_no_message_are_an_error() {
    let mut node = node_1(&[]);
    let bad = || Bytes::from_static(&[0xff; 9]);
    assert!(node.on_syn(endpoint(2), bad()).is_err());
    assert!(node.on_ack(endpoint(2), bad(), at(1)).is_err());
    assert!(node.on_ack2(endpoint(2), bad(), at(1)).is_err());
    assert!(node.on_shutdown(endpoint(2), bad(), at(1)).is_err());
}

#[test]
fn seeds_can_be_exchanged_but_not_taken_away() {
    let mut node = node_1(&[2]);
    node.set_seeds([endpoint(1), endpoint(3)].into());
    assert_eq!(node.seeds(), &[endpoint(3)].into());
    node.set_seeds(BTreeSet::new());
    assert_eq!(node.seeds(), &[endpoint(3)].into());
    assert!(!node.has_seen_a_seed());
    meet(&mut node, 3, normal(1), at(1));
    assert!(node.has_seen_a_seed());
}
