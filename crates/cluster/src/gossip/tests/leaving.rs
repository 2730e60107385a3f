//! Nodes that stop, leave or are removed.

use super::super::message::encode_shutdown;
use super::*;
use uuid::Uuid;

const DAYS_3: u64 = 259_200;

fn status(generation: i32, heartbeat: i32, status: &str) -> EndpointState {
    said(generation, heartbeat, &[(AppState::STATUS_WITH_PORT, status, heartbeat)])
}

#[test]
fn a_node_that_stops_is_dead_at_once_and_nothing_it_said_before_brings_it_back() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(5), at(1));
    let effects = node.on_shutdown(endpoint(2), Bytes::new(), at(2)).unwrap();
    assert_eq!(effects.events.last(), Some(&Event::Dead(endpoint(2))));
    let state = node.state(&endpoint(2)).unwrap();
    assert_eq!((state.status_kind(), state.heartbeat), (StatusKind::Shutdown, i32::MAX));
    assert_eq!(state.text(AppState::RPC_READY), Some("false"));
    assert!(tell(&mut node, 2, normal(900), at(3)).is_empty());
    assert!(node.on_echo_response(endpoint(2), at(3)).is_empty());

    meet(&mut node, 2, status(GENERATION + 1, 2, "NORMAL,7"), at(4));
}

#[test]
fn a_shutdown_of_version_13_brings_the_last_words() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(5), at(1));
    let mut last = normal(6);
    last.put(AppState::LOAD, text("9.0"), 7);
    last.put(AppState::STATUS_WITH_PORT, text("shutdown,true"), 8);
    let effects = node.on_shutdown(endpoint(2), encode_shutdown(&last).into(), at(2)).unwrap();
    assert_eq!(effects.events.len(), 3, "status, load, dead: {effects:?}");
    let state = node.state(&endpoint(2)).unwrap();
    assert_eq!((state.text(AppState::LOAD), state.heartbeat), (Some("9.0"), i32::MAX));
    assert_eq!(state.get(AppState::STATUS_WITH_PORT).unwrap().version, 8);
}

#[test]
fn a_shutdown_of_an_earlier_start_or_of_an_unknown_node_is_ignored() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(5), at(1));
    let earlier = encode_shutdown(&status(GENERATION - 1, 99, "shutdown,true"));
    assert!(node.on_shutdown(endpoint(2), earlier.into(), at(2)).unwrap().is_empty());
    let no_shutdown = encode_shutdown(&status(GENERATION, 99, "NORMAL,1"));
    assert!(node.on_shutdown(endpoint(2), no_shutdown.into(), at(2)).unwrap().is_empty());
    assert!(node.on_shutdown(endpoint(3), Bytes::new(), at(2)).unwrap().is_empty());
    assert!(node.is_alive(&endpoint(2)));
}

#[test]
fn who_has_left_does_not_come_back_by_stopping() {
    let mut node = node_1(&[]);
    let _ = tell(&mut node, 2, status(GENERATION, 9, "LEFT,7,1900000000000"), at(1));
    assert!(node.on_shutdown(endpoint(2), Bytes::new(), at(2)).unwrap().is_empty());
    assert_eq!(node.state(&endpoint(2)).unwrap().status_kind(), StatusKind::Left);
}

#[test]
fn who_stops_tells_all_that_are_alive() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(5), at(1));
    let _ = tell(&mut node, 3, normal(5), at(1));
    let effects = node.shutdown();
    assert_eq!(whom(&effects, Verb::Shutdown), [endpoint(2)]);
    let last = message::decode_shutdown(effects.messages[0].payload.clone()).unwrap().unwrap();
    assert_eq!(last.status(), Some(Status::Shutdown));
    assert!(!node.is_running() && !node.answers_echo());
    assert!(node.tick(at(2)).is_empty());

    node.set_status(Status::Normal { token: 1 });
    node.start(GENERATION + 1);
    assert!(node.answers_echo() && !node.tick(at(3)).is_empty());
}

#[test]
fn who_owns_nothing_yet_stops_in_silence() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(5), at(1));
    node.set_status(Status::Boot { token: 1 });
    assert!(node.shutdown().is_empty());
    assert!(!node.is_running());
}

#[test]
fn a_node_that_left_is_kept_until_it_expires() {
    let mut node = node_1(&[2]);
    meet(&mut node, 2, normal(5), at(1));
    let expires = (EPOCH + DAYS_3 as i64) * 1_000;
    let effects = tell(&mut node, 2, status(GENERATION, 9, &format!("LEFT,7,{expires}")), at(2));
    assert_eq!(effects.events[1..], [Event::Dead(endpoint(2)), Event::Left(endpoint(2))]);
    assert!(node.unreachable().is_empty() && node.seeds().is_empty());
    assert_eq!(node.tick(at(100)).events, []);
    assert_eq!(node.tick(at(DAYS_3)).events, []);
    assert_eq!(node.tick(at(DAYS_3 + 1)).events, [Event::Removed(endpoint(2))]);
}

#[test]
fn a_node_that_left_at_no_time_expires_after_three_days() {
    let mut node = node_1(&[]);
    let _ = tell(&mut node, 2, status(GENERATION, 9, "LEFT,7"), at(10));
    assert_eq!(node.tick(at(DAYS_3 + 10)).events, []);
    assert_eq!(node.tick(at(DAYS_3 + 11)).events, [Event::Removed(endpoint(2))]);
}

#[test]
fn a_node_that_left_may_come_back_after_its_quarantine() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(5), at(1));
    let _ = tell(&mut node, 2, status(GENERATION, 9, "LEFT,7,1900000000000"), at(2));
    let again = || status(GENERATION + 9, 3, "BOOT,7");
    assert!(tell(&mut node, 2, again(), at(30)).is_empty());
    let _ = node.tick(at(63));
    meet(&mut node, 2, again(), at(63));
}

#[test]
fn a_node_that_changed_its_mind_about_leaving_is_tried_again() {
    let mut node = node_1(&[]);
    let _ = tell(&mut node, 2, status(GENERATION, 9, "LEFT,7,1900000000000"), at(2));
    let _ = node.tick(at(63));
    meet(&mut node, 2, status(GENERATION, 99, "NORMAL,7"), at(64));
    let _ = node.on_shutdown(endpoint(2), Bytes::new(), at(65)).unwrap();
    assert_eq!(node.unreachable(), [endpoint(2)]);
    assert_eq!(node.tick(at(2 * DAYS_3)).events, []);
}

#[test]
fn a_node_that_was_replaced_is_not_heard_of_for_a_while() {
    let mut node = node_1(&[]);
    meet(&mut node, 2, normal(5), at(1));
    let effects = node.replace(endpoint(2), at(2));
    assert_eq!(effects.events, [Event::Dead(endpoint(2)), Event::Removed(endpoint(2))]);
    let _ = node.tick(at(62));
    assert!(tell(&mut node, 2, normal(6), at(62)).is_empty());
    let _ = node.tick(at(63));
    assert!(!tell(&mut node, 2, normal(7), at(63)).is_empty());
}

#[test]
fn a_node_is_removed_in_two_steps() {
    let mut node = node_1(&[]);
    let (host_id, own) = (Uuid::from_u128(2), Uuid::from_u128(1));
    meet(&mut node, 2, normal(5), at(1));
    let effects = node.advertise_removing(endpoint(2), host_id, own, at(2)).unwrap();
    assert_eq!(effects.events[..2], [Event::Dead(endpoint(2)), Event::Restarted(endpoint(2))]);
    let state = node.state(&endpoint(2)).unwrap();
    assert_eq!((state.generation, state.status()), (GENERATION + 1, Some(Status::Removing { host_id })));
    assert_eq!(state.text(AppState::REMOVAL_COORDINATOR), Some(format!("REMOVER,{own}").as_str()));
    assert_eq!(node.tick(at(3)).events, [], "it is kept");

    let effects = node.advertise_removed(endpoint(2), host_id, at(4)).unwrap();
    assert_eq!(effects.events.last(), Some(&Event::Left(endpoint(2))));
    assert_eq!(node.tick(at(DAYS_3 + 5)).events, [Event::Removed(endpoint(2))]);
    assert!(node.advertise_removed(endpoint(9), host_id, at(4)).is_err());
}

#[test]
fn a_node_that_nobody_knows_can_be_assassinated() {
    let mut node = node_1(&[]);
    let effects = node.assassinate(endpoint(9), 5, at(1)).unwrap();
    assert_eq!(effects.events.first(), Some(&Event::Joined(endpoint(9))));
    assert_eq!(effects.events.last(), Some(&Event::Left(endpoint(9))));
    assert!(node.assassinate(endpoint(1), 5, at(1)).is_err(), "but not the node itself");
}
