//! What happens to a ring.

use std::time::Duration;

use env::fs::memory::Crash;
use env::random::Random;
use model::KeyspaceSchema;
use model::schema::Replication;
use testkit::sim::member::endpoint;
use testkit::sim::network::Weather;
use testkit::sim::ring::Ring;

/// Lets something happen to the ring; says what.
pub fn happen(ring: &mut Ring<'_>, random: &Random, has_restarts: bool) -> String {
    let numbers = ring.numbers();
    let any = || numbers[random.below(numbers.len() as u64) as usize];
    let (one, other) = (any(), any());
    let millis = |max: u64| Duration::from_millis(1 + random.below(max));
    let absent: Vec<u8> =
        numbers.iter().copied().filter(|number| ring.nodes().get(*number).is_none()).collect();
    match random.below(14) {
        0 => {
            ring.part(&[one]);
            format!("node {one} is parted")
        }
        1 if one != other => {
            ring.network().cut(endpoint(one), endpoint(other));
            format!("the way from {one} to {other} is cut")
        }
        2 | 3 => {
            let weather = Weather {
                delay_min: Duration::from_micros(200),
                delay_max: millis(1_500),
                lost_per_mille: random.below(100),
                doubled_per_mille: random.below(100),
            };
            ring.network().set_weather(weather);
            format!("{weather:?}")
        }
        4 => {
            let long = millis(15_000);
            ring.pause(one, long);
            format!("node {one} is paused for {long:?}")
        }
        5 => {
            let ahead = random.below(6_000_000) as i64 - 3_000_000;
            ring.skew(one, ahead);
            format!("the clock of node {one} is ahead by {ahead} us")
        }
        6 | 7 if has_restarts && absent.len() < 2 => {
            let crash = match random.below(3) {
                0 => Crash::LoseUnsynced,
                1 => Crash::TornPrefix(random.u64()),
                _ => Crash::ScatteredPages(random.u64()),
            };
            ring.crash(one, crash);
            format!("node {one} loses power: {crash:?}")
        }
        8 if has_restarts && absent.is_empty() => {
            ring.stop(one);
            format!("node {one} is stopped")
        }
        9 if has_restarts && absent.is_empty() => {
            let restart = |number: &u8| {
                ring.stop(*number);
                ring.start(*number).map(drop)
            };
            let restarted: Vec<_> = numbers.iter().map(restart).collect();
            format!("all nodes are restarted, one after the other: {restarted:?}")
        }
        6..=9 if !absent.is_empty() => {
            let started = ring.start(absent[0]).map(drop);
            format!("node {} starts: {started:?}", absent[0])
        }
        10 => {
            let node = ring.nodes().get(one);
            let flushed = node.map(|node| node.engine.flush_all().is_ok());
            format!("node {one} flushes: {flushed:?}")
        }
        11 => {
            let Some(node) = ring.nodes().get(one) else { return "nothing".to_owned() };
            let name = format!("more{}", random.below(1_000));
            let keyspace = KeyspaceSchema::new(&name, Replication::simple(2));
            let made = node.engine.install_schema(node.engine.schema().with_keyspace(keyspace));
            format!("node {one} makes keyspace {name}: {}", made.is_ok())
        }
        _ => {
            ring.network().heal();
            "the network heals".to_owned()
        }
    }
}
