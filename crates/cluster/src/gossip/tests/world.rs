//! A world of several nodes in memory: messages take time and are lost, nodes crash, stop, are slow or cut
//! off. All chances are drawn from one seed, and everything that happens is written down in a trace.
//!
//! After each step the world checks what has to hold always:
//! - of a node that is known, neither the generation nor the largest version of one generation goes back;
//! - `Alive` and `Dead` take turns, and agree with what the node itself says.

use super::*;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

const MILLI: u64 = 1_000_000;

/// What arrives at a node.
enum Arrival {
    Tick,
    Message { from: Endpoint, verb: Verb, payload: Bytes },
    EchoResponse { from: Endpoint },
}

pub(super) struct Node {
    pub(super) gossiper: Gossiper,
    pub(super) is_up: bool,
    /// How many times longer it takes than others, for a second and for a message.
    slowness: u64,
    starts: i32,
    /// What it was told of whom to be alive.
    told_alive: BTreeSet<Endpoint>,
    /// The generation and version of each node that it knew last.
    known: HashMap<Endpoint, (i32, i32)>,
}

pub(super) struct World {
    random: Arc<Random>,
    seeds: Vec<u8>,
    pub(super) nodes: BTreeMap<Endpoint, Node>,
    /// What arrives, by time and order of sending, where, and at which start of the node.
    queue: BTreeMap<(u64, u64), (Endpoint, i32, Arrival)>,
    now_nanos: u64,
    sent: u64,
    pub(super) loss: f64,
    pub(super) delay_millis_max: u64,
    /// Nodes on one side; they do not reach the others.
    pub(super) cut_off: BTreeSet<Endpoint>,
    pub(super) trace: String,
}

impl World {
    /// Nodes 1 to `count`, all just started; the first two are seeds.
    pub(super) fn new(seed: u64, count: u8) -> World {
        let mut world = World {
            random: Arc::new(Random::from_seed(seed)),
            seeds: vec![1, 2],
            nodes: BTreeMap::new(),
            queue: BTreeMap::new(),
            now_nanos: 0,
            sent: 0,
            loss: 0.0,
            delay_millis_max: 20,
            cut_off: BTreeSet::new(),
            trace: String::new(),
        };
        (1..=count).for_each(|node| world.start(node));
        world
    }

    fn now(&self) -> Now {
        let wall_millis = EPOCH * 1_000 + (self.now_nanos / MILLI) as i64;
        Now { monotonic_nanos: self.now_nanos, wall_millis }
    }

    /// A node starts, or starts anew with nothing but its address.
    pub(super) fn start(&mut self, node: u8) {
        let starts = self.nodes.get(&endpoint(node)).map_or(1, |before| before.starts + 1);
        let mut gossiper = Gossiper::new(settings(node, &self.seeds), self.random.clone(), self.now());
        gossiper.set(AppState::DC, text("dc1"));
        gossiper.set(AppState::TOKENS, tokens::encode(&[i64::from(node)]).unwrap());
        gossiper.set_status(Status::Normal { token: i64::from(node) });
        gossiper.start(self.now().seconds() as i32 + starts);
        let node = Node {
            gossiper,
            is_up: true,
            slowness: 1,
            starts,
            told_alive: BTreeSet::new(),
            known: HashMap::new(),
        };
        let address = node.gossiper.settings().endpoint;
        self.nodes.insert(address, node);
        let first = self.random.below(1_000) * MILLI;
        self.arrive(first, address, Arrival::Tick);
    }

    /// A node is gone without a word.
    pub(super) fn crash(&mut self, node: u8) {
        self.nodes.get_mut(&endpoint(node)).unwrap().is_up = false;
    }

    /// A node stops in good order.
    pub(super) fn stop(&mut self, node: u8) {
        let effects = self.node(node).gossiper.shutdown();
        self.follow(endpoint(node), effects);
        self.crash(node);
    }

    pub(super) fn slow_down(&mut self, node: u8, slowness: u64) {
        self.node(node).slowness = slowness;
    }

    pub(super) fn node(&mut self, node: u8) -> &mut Node {
        self.nodes.get_mut(&endpoint(node)).unwrap()
    }

    pub(super) fn set(&mut self, node: u8, key: AppState, value: &str) {
        self.node(node).gossiper.set(key, text(value));
    }

    fn arrive(&mut self, in_nanos: u64, to: Endpoint, what: Arrival) {
        self.sent += 1;
        let starts = self.nodes[&to].starts;
        self.queue.insert((self.now_nanos + in_nanos, self.sent), (to, starts, what));
    }

    /// Lets so many seconds pass.
    pub(super) fn run(&mut self, seconds: u64) {
        let end = self.now_nanos + seconds * SECOND;
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), (to, starts, what)) = entry.remove_entry();
            self.now_nanos = at;
            if self.nodes[&to].is_up && self.nodes[&to].starts == starts {
                self.step(to, what);
            }
        }
        self.now_nanos = end;
    }

    fn step(&mut self, at: Endpoint, what: Arrival) {
        let now = self.now();
        let node = self.nodes.get_mut(&at).unwrap();
        let effects = match what {
            Arrival::Tick => {
                let next = SECOND * node.slowness;
                let effects = node.gossiper.tick(now);
                self.arrive(next, at, Arrival::Tick);
                effects
            }
            Arrival::EchoResponse { from } => node.gossiper.on_echo_response(from, now),
            Arrival::Message { from, verb, payload } => match verb {
                Verb::Syn => node.gossiper.on_syn(from, payload).unwrap(),
                Verb::Ack => node.gossiper.on_ack(from, payload, now).unwrap(),
                Verb::Ack2 => node.gossiper.on_ack2(from, payload, now).unwrap(),
                Verb::Shutdown => node.gossiper.on_shutdown(from, payload, now).unwrap(),
                Verb::Echo => {
                    if node.gossiper.answers_echo() {
                        self.send(at, from, Arrival::EchoResponse { from: at });
                    }
                    Effects::default()
                }
            },
        };
        self.follow(at, effects);
        self.nodes.get_mut(&at).unwrap().check();
    }

    fn follow(&mut self, at: Endpoint, effects: Effects) {
        let (seconds, millis) = (self.now_nanos / SECOND, self.now_nanos / MILLI % 1_000);
        for message in effects.messages {
            let Outgoing { to, verb, mut payload } = message;
            if verb == Verb::Shutdown && self.random.below(2) == 0 {
                // The connection is of version 12.
                payload.clear();
            }
            let _ = writeln!(self.trace, "{seconds}.{millis:03} {at} {verb:?} of {} to {to}", payload.len());
            self.send(at, to, Arrival::Message { from: at, verb, payload });
        }
        for event in effects.events {
            let _ = writeln!(self.trace, "{seconds}.{millis:03} {at} {event}");
            self.nodes.get_mut(&at).unwrap().hear(event);
        }
    }

    fn send(&mut self, from: Endpoint, to: Endpoint, what: Arrival) {
        let is_cut = self.cut_off.contains(&from) != self.cut_off.contains(&to);
        let is_lost = self.random.unit() < self.loss;
        if is_cut || is_lost || !self.nodes.contains_key(&to) {
            return;
        }
        let slowness = self.nodes[&from].slowness.max(self.nodes[&to].slowness);
        let delay = (1 + self.random.below(self.delay_millis_max)) * MILLI * slowness;
        self.arrive(delay, to, what);
    }

    fn up(&self) -> impl Iterator<Item = (&Endpoint, &Node)> {
        self.nodes.iter().filter(|(_, node)| node.is_up)
    }

    /// Checks that all nodes that are up agree on who is alive, and on what these say.
    pub(super) fn check_agreement(&self) {
        let up: Vec<Endpoint> = self.up().map(|(endpoint, _)| *endpoint).collect();
        for (at, node) in self.up() {
            let others: Vec<Endpoint> = up.iter().copied().filter(|other| other != at).collect();
            assert_eq!(node.gossiper.live(), others, "{at} at {} s", self.now_nanos / SECOND);
            for other in others {
                let own = self.nodes[&other].gossiper.own();
                let known = node.gossiper.state(&other).unwrap();
                let values = |state: &EndpointState| -> Vec<_> {
                    state.values().map(|(key, said)| (key, said.clone())).collect()
                };
                assert_eq!(values(known), values(own), "{at} of {other} at {} s", self.now_nanos / SECOND);
            }
        }
    }

    /// Whether all that are up, but for the node itself, think so of a node.
    pub(super) fn all_think_alive(&self, node: u8) -> Vec<bool> {
        let of = endpoint(node);
        let others = self.up().filter(|(at, _)| **at != of);
        others.map(|(_, other)| other.gossiper.is_alive(&of)).collect()
    }
}

impl Node {
    fn hear(&mut self, event: Event) {
        match event {
            Event::Alive(other) => assert!(self.told_alive.insert(other), "{other} was alive"),
            Event::Dead(other) => assert!(self.told_alive.remove(&other), "{other} was not alive"),
            Event::Removed(other) => {
                self.known.remove(&other);
            }
            _ => {}
        }
    }

    fn check(&mut self) {
        assert_eq!(self.gossiper.live(), self.told_alive.iter().copied().collect::<Vec<_>>());
        check_bytes(&self.gossiper);
        for (other, state) in self.gossiper.states() {
            let now = (state.generation, state.max_version());
            let before = self.known.insert(other, now).unwrap_or(now);
            assert!(before <= now, "{other} went back from {before:?} to {now:?}");
        }
    }
}
