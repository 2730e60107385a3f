//! What happens to a ring.

use std::time::Duration;

use env::fs::memory::Crash;
use env::random::Random;
use model::KeyspaceSchema;
use model::schema::Replication;
use testkit::sim::network::Weather;
use testkit::sim::ring::Ring;

use super::levels::Layout;
use super::tables::KEYSPACE;

/// By how much clocks are ahead or behind at most.
const SKEW_MICROS_MAX: i64 = 3_000_000;

/// What happened in a life.
#[derive(Default)]
pub struct Happened {
    /// In words.
    pub told: Vec<String>,
    /// By how much the clock of a node was ahead or behind at most.
    pub skew_micros_max: i64,
}

impl Happened {
    /// Lets something happen to the ring; where nothing fails, a node looks after its files.
    pub fn next(
        &mut self,
        ring: &mut Ring<'_>,
        layout: &Layout,
        random: &Random,
        has_faults: bool,
        has_restarts: bool,
    ) {
        let told = match has_faults {
            true => self.fault(ring, layout, random, has_restarts),
            false => maintain(ring, random),
        };
        self.told.push(told);
    }

    /// A fault, or its end, or work on files; says what.
    fn fault(&mut self, ring: &mut Ring<'_>, layout: &Layout, random: &Random, has_restarts: bool) -> String {
        let numbers = ring.numbers();
        let any = || numbers[random.below(numbers.len() as u64) as usize];
        let (one, other) = (any(), any());
        let millis = |max: u64| Duration::from_millis(1 + random.below(max));
        let absent: Vec<u8> =
            numbers.iter().copied().filter(|number| ring.nodes().get(*number).is_none()).collect();
        match random.below(14) {
            0 | 1 if layout.has_several() && random.below(2) == 0 => {
                let datacenter = layout.datacenter_of(one);
                ring.part(&layout.nodes_of(datacenter));
                format!("the data centers are parted: {}", layout.datacenters[datacenter].name)
            }
            0 => {
                ring.part(&[one]);
                format!("node {one} is parted")
            }
            1 if one != other => {
                ring.network().cut(ring.endpoint(one), ring.endpoint(other));
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
                let ahead = random.below(2 * SKEW_MICROS_MAX as u64) as i64 - SKEW_MICROS_MAX;
                ring.skew(one, ahead);
                self.skew_micros_max = self.skew_micros_max.max(ahead.abs());
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
                if random.below(3) == 0 {
                    ring.change_address(absent[0]);
                }
                let started = ring.start(absent[0]).map(drop);
                format!("node {} starts at {}: {started:?}", absent[0], ring.endpoint(absent[0]))
            }
            10 => maintain(ring, random),
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
}

/// A node flushes, or compacts all that it has.
fn maintain(ring: &Ring<'_>, random: &Random) -> String {
    let numbers = ring.numbers();
    let number = numbers[random.below(numbers.len() as u64) as usize];
    let Some(node) = ring.nodes().get(number) else { return "nothing".to_owned() };
    let flushed = node.engine.flush_all().is_ok();
    if random.below(2) == 0 {
        return format!("node {number} flushes: {flushed}");
    }
    let compacted = node.engine.compact(KEYSPACE, None).is_ok();
    format!("node {number} flushes and compacts: {flushed}, {compacted}")
}
