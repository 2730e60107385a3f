//! Tests of the gossiper: one node and messages made by hand, and a world of several nodes.

mod detection;
mod hostile;
mod joining;
mod leaving;
mod rounds;
mod simulation;
mod states;
mod world;

use super::message::{Ack, Ack2, Digest, Syn};
use super::*;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use env::random::Random;
use std::collections::BTreeSet;
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
/// Where the wall clock of tests begins: seconds since 1970.
const EPOCH: i64 = 1_700_000_000;
const GENERATION: i32 = EPOCH as i32;

fn text(text: &str) -> Text {
    Text::new(text).unwrap()
}

fn endpoint(last: u8) -> Endpoint {
    Endpoint::new([127, 0, 0, last].into(), 7_000)
}

/// So many seconds after the beginning.
fn at(seconds: u64) -> Now {
    Now { monotonic_nanos: seconds * SECOND, wall_millis: EPOCH * 1_000 + seconds as i64 * 1_000 }
}

fn settings(node: u8, seeds: &[u8]) -> Settings {
    Settings {
        endpoint: endpoint(node),
        cluster_name: text("ring"),
        partitioner: text("org.apache.cassandra.dht.Murmur3Partitioner"),
        seeds: seeds.iter().map(|seed| endpoint(*seed)).collect(),
        ring_delay_millis: 30_000,
        phi_convict_threshold: 8.0,
    }
}

/// Node 1, running since the beginning.
fn node_1(seeds: &[u8]) -> Gossiper {
    let mut node = Gossiper::new(settings(1, seeds), Arc::new(Random::from_seed(1)), at(0));
    node.set_status(Status::Normal { token: 1 });
    node.start(GENERATION);
    node
}

/// What another node says of itself.
fn said(generation: i32, heartbeat: i32, values: &[(AppState, &str, i32)]) -> EndpointState {
    let mut state = EndpointState::new(generation, heartbeat);
    for (key, value, version) in values {
        state.put(*key, text(value), *version);
    }
    state
}

fn normal(heartbeat: i32) -> EndpointState {
    said(GENERATION, heartbeat, &[(AppState::STATUS_WITH_PORT, "NORMAL,7", 1)])
}

fn ack2(states: Vec<(Endpoint, EndpointState)>) -> Bytes {
    Ack2 { states }.encode().into()
}

/// Node `of` tells node 1 of itself.
fn tell(node: &mut Gossiper, of: u8, state: EndpointState, now: Now) -> Effects {
    node.on_ack2(endpoint(of), ack2(vec![(endpoint(of), state)]), now).unwrap()
}

/// Node `of` tells node 1 of itself, and answers its ECHO.
fn meet(node: &mut Gossiper, of: u8, state: EndpointState, now: Now) {
    let _ = tell(node, of, state, now);
    let effects = node.on_echo_response(endpoint(of), now);
    assert_eq!(effects.events, [Event::Alive(endpoint(of))]);
}

/// What is counted for all nodes is what each takes.
fn check_bytes(node: &Gossiper) {
    let bytes: usize = node.peers.values().map(|peer| peer.state.bytes()).sum();
    assert_eq!(node.states_bytes, bytes);
}

fn whom(effects: &Effects, verb: Verb) -> Vec<Endpoint> {
    effects.messages.iter().filter(|message| message.verb == verb).map(|message| message.to).collect()
}
