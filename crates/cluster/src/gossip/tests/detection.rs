//! Who is thought dead, and who is forgotten.

use super::*;

/// Ticks each second until the node tells something, or the last second. Says when, and what.
fn watch(node: &mut Gossiper, from: u64, to: u64) -> Option<(u64, Vec<Event>)> {
    (from..=to).map(|second| (second, node.tick(at(second)).events)).find(|(_, events)| !events.is_empty())
}

/// Node 2 is heard each second.
fn hear(node: &mut Gossiper, from: u64, to: u64) {
    for second in from..=to {
        let _ = tell(node, 2, normal(second as i32 + 1), at(second));
        assert_eq!(node.tick(at(second)).events, []);
    }
}

#[test]
fn a_node_that_falls_silent_is_found_dead_and_comes_back_alive() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(1), at(1));
    hear(&mut node, 2, 100);
    let (second, events) = watch(&mut node, 101, 200).unwrap();
    assert_eq!((second, events), (119, vec![Event::Dead(endpoint(2))]), "after 18.4 times the usual second");
    assert_eq!((node.live(), node.unreachable()), (vec![], vec![endpoint(2)]));
    assert_eq!(node.downtime_millis(&endpoint(2), at(121)), 2_000);
    assert_eq!(watch(&mut node, 120, 300), None, "it is found dead once");

    assert_eq!(whom(&tell(&mut node, 2, normal(900), at(301)), Verb::Echo), [endpoint(2)]);
    assert_eq!(node.on_echo_response(endpoint(2), at(301)).events, [Event::Alive(endpoint(2))]);
    assert_eq!(node.downtime_millis(&endpoint(2), at(302)), 0);
}

#[test]
fn old_heartbeats_keep_nobody_alive() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(500), at(1));
    for second in 2..=100 {
        let _ = tell(&mut node, 2, normal(second as i32), at(second));
        if node.tick(at(second)).events == [Event::Dead(endpoint(2))] {
            return;
        }
    }
    panic!("it was never found dead");
}

#[test]
fn who_was_away_itself_finds_nobody_dead() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(1), at(1));
    hear(&mut node, 2, 100);
    assert_eq!(node.tick(at(200)).events, []);
    hear(&mut node, 201, 210);
    assert!(node.is_alive(&endpoint(2)));
}

#[test]
fn a_node_that_comes_back_anew_is_not_judged_by_what_it_was_used_to() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(1), at(1));
    hear(&mut node, 2, 200);
    assert!(watch(&mut node, 201, 230).is_some());
    meet(&mut node, 2, said(GENERATION + 9, 1, &[]), at(231));
    let (second, events) = watch(&mut node, 232, 300).unwrap();
    assert_eq!((second, events), (268, vec![Event::Dead(endpoint(2))]), "as after a first heartbeat");
}

#[test]
fn a_member_that_has_not_said_its_status_again_is_still_one() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(1), at(1));
    let _ = tell(&mut node, 2, said(GENERATION + 9, 1, &[]), at(2));
    assert_eq!(watch(&mut node, 3, 500), None);
    assert!(node.state(&endpoint(2)).is_some());
}

#[test]
fn phis_are_shown() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(1), at(1));
    hear(&mut node, 2, 3);
    let _ = node.tick(at(5));
    let phis: Vec<_> = node.phis().collect();
    assert_eq!(phis.len(), 1);
    assert!((phis[0].1 - 2.0 / (4.0 / 3.0) / std::f64::consts::LN_10).abs() < 1e-9, "{phis:?}");
}

#[test]
fn what_speaks_for_a_death_can_be_told() {
    let mut node = node_1(&[]);
    assert_eq!(node.suspicion(&endpoint(2), at(1)), None, "it was never heard");
    meet(&mut node, 2, normal(1), at(1));
    hear(&mut node, 2, 100);
    assert_eq!(watch(&mut node, 101, 200).unwrap().1, [Event::Dead(endpoint(2))]);
    let found = node.suspicion(&endpoint(2), at(119)).unwrap();
    assert_eq!((found.silent_nanos, found.threshold), (19_000_000_000, 8.0));
    assert!(found.phi > 8.0 && found.phi < 8.5, "{found:?}");
    assert!(found.mean_nanos > 1e9 && found.mean_nanos < 1.1e9, "{found:?}");
}

#[test]
fn a_threshold_can_be_set() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(1), at(1));
    hear(&mut node, 2, 100);
    node.set_phi_convict_threshold(2.0);
    assert_eq!(watch(&mut node, 101, 200).unwrap().0, 105);
}

#[test]
fn a_silent_node_without_tokens_is_forgotten_and_quarantined() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, said(GENERATION, 1, &[]), at(1));
    let (second, events) = watch(&mut node, 2, 100).unwrap();
    assert_eq!((second, events), (32, vec![Event::Dead(endpoint(2)), Event::Removed(endpoint(2))]));
    assert_eq!(node.state(&endpoint(2)), None);
    for second in 33..=92 {
        assert!(tell(&mut node, 2, said(GENERATION, second as i32, &[]), at(second)).is_empty());
        let _ = node.tick(at(second));
    }
    let _ = node.tick(at(93));
    assert!(!tell(&mut node, 2, said(GENERATION, 94, &[]), at(94)).is_empty());
}

#[test]
fn a_silent_node_that_was_joining_is_forgotten_later() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, said(GENERATION, 2, &[(AppState::STATUS_WITH_PORT, "BOOT,1", 1)]), at(1));
    assert_eq!(watch(&mut node, 2, 300).unwrap().1, [Event::Dead(endpoint(2))]);
    assert_eq!(watch(&mut node, 300, 400), Some((302, vec![Event::Removed(endpoint(2))])));
}

#[test]
fn a_silent_node_with_tokens_is_never_forgotten() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(1), at(1));
    node.add_saved(endpoint(3), Saved { host_id: None, tokens: None }, at(1));
    let dead = watch(&mut node, 2, 10_000).unwrap();
    assert_eq!(dead.1, [Event::Dead(endpoint(2))]);
    assert_eq!(watch(&mut node, dead.0 + 1, 10_000), None);
}
