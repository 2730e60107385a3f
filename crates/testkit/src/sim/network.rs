//! The network between the nodes of a simulated ring.
//!
//! It carries whole messages, as bytes: above frames and connections, below calls, verbs and everything else
//! that a message is. What frames and sockets do has tests of its own in `cluster`.
//!
//! 1. A message takes a while, drawn from the seed. Those of one connection (sender, receiver, kind) keep
//!    their order; others overtake each other.
//! 2. A message is lost by chance, where its way is cut when it is sent or when it would arrive, and where
//!    nobody is there who gets it. Nobody is told.
//! 3. A message may arrive twice, as from a connection that is given up and opened anew. Increments of
//!    counters and truncations do not: nobody promises that they could.
//! 4. It arrives at the executor of its receiver. So a node that is paused gets it afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use cluster::endpoint::Endpoint;
use cluster::messaging::message::Parsed;
use cluster::messaging::{ConnectionKind, Inbox, Loss, Message, SendError, Transport, VERSION_40, Verb};
use env::Env;
use env::random::Random;
use env::sim::Executor;
use env::sync::Mutex;
use partition::codec::SliceInput;

/// What happens to messages on their way.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Shortest way.
    pub delay_min: Duration,
    /// Longest way.
    pub delay_max: Duration,
    /// Messages of a thousand that are lost.
    pub lost_per_mille: u64,
    /// Messages of a thousand that arrive twice.
    pub doubled_per_mille: u64,
}

impl Weather {
    /// Half a millisecond, and nothing is lost.
    pub const FAIR: Weather = Weather {
        delay_min: Duration::from_micros(200),
        delay_max: Duration::from_micros(800),
        lost_per_mille: 0,
        doubled_per_mille: 0,
    };
}

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkCounts {
    /// Those that arrived.
    pub arrived: u64,
    /// Those that did not.
    pub lost: u64,
    /// Those that arrived again.
    pub doubled: u64,
}

/// The network of a ring. Clones are the same.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

struct Shared {
    random: Random,
    /// Never held over a turn.
    state: Mutex<State>,
}

struct State {
    weather: Weather,
    /// Ways that nothing passes: from, to.
    cuts: BTreeSet<(Endpoint, Endpoint)>,
    inlets: BTreeMap<Endpoint, Arc<Inlet>>,
    /// When the last message of a connection arrives (monotonic nanoseconds).
    last: BTreeMap<(Endpoint, Endpoint, u8), u64>,
    packets_sent: u64,
    counts: NetworkCounts,
}

/// Where messages to a node arrive, as long as this life of it lasts.
struct Inlet {
    own: Endpoint,
    env: Env,
    executor: Executor,
    inbox: Mutex<Option<Weak<dyn Inbox>>>,
    is_closed: AtomicBool,
    /// By the time at which they arrive, and the order in which they were sent.
    packets: Mutex<BTreeMap<(u64, u64), Packet>>,
}

struct Packet {
    from: Endpoint,
    verb: Verb,
    id: u64,
    bytes: Bytes,
}

impl Network {
    /// A network in fair weather.
    pub fn new(seed: u64) -> Network {
        let state = State {
            weather: Weather::FAIR,
            cuts: BTreeSet::new(),
            inlets: BTreeMap::new(),
            last: BTreeMap::new(),
            packets_sent: 0,
            counts: NetworkCounts::default(),
        };
        let shared = Shared { random: Random::from_seed(seed), state: Mutex::new(state) };
        Network { shared: Arc::new(shared) }
    }

    /// Connects a node, whose executor takes what arrives; an earlier life of it gets nothing any more.
    pub fn connect(&self, own: Endpoint, env: &Env, executor: &Executor) -> Wire {
        let inlet = Arc::new(Inlet {
            own,
            env: env.clone(),
            executor: executor.clone(),
            inbox: Mutex::new(None),
            is_closed: AtomicBool::new(false),
            packets: Mutex::default(),
        });
        let earlier = self.shared.state.lock().inlets.insert(own, Arc::clone(&inlet));
        if let Some(earlier) = earlier {
            earlier.is_closed.store(true, Ordering::SeqCst);
        }
        Wire { network: self.clone(), inlet }
    }

    /// What happens to messages from now on.
    pub fn set_weather(&self, weather: Weather) {
        self.shared.state.lock().weather = weather;
    }

    /// Lets nothing pass from one node to the other. The way back stays.
    pub fn cut(&self, from: Endpoint, to: Endpoint) {
        self.shared.state.lock().cuts.insert((from, to));
    }

    /// Mends all ways, and makes the weather fair.
    pub fn heal(&self) {
        let mut state = self.shared.state.lock();
        state.cuts.clear();
        state.weather = Weather::FAIR;
    }

    /// What became of messages so far.
    pub fn counts(&self) -> NetworkCounts {
        self.shared.state.lock().counts
    }

    fn chance(&self, per_mille: u64) -> bool {
        per_mille > 0 && self.shared.random.below(1_000) < per_mille
    }

    fn count(&self, count: impl FnOnce(&mut NetworkCounts)) {
        count(&mut self.shared.state.lock().counts);
    }

    /// Puts a message on its way. Where it arrives, and when, if it does.
    fn accept(
        &self,
        (from, to): (Endpoint, Endpoint),
        kind: ConnectionKind,
        now: u64,
    ) -> Option<(Arc<Inlet>, u64, u64)> {
        let mut state = self.shared.state.lock();
        let weather = state.weather;
        let inlet = state.inlets.get(&to).filter(|inlet| !inlet.is_closed.load(Ordering::SeqCst)).cloned();
        let is_cut = state.cuts.contains(&(from, to));
        let Some(inlet) = inlet.filter(|_| !is_cut && !self.chance(weather.lost_per_mille)) else {
            state.counts.lost += 1;
            return None;
        };
        let nanos = |duration: Duration| duration.as_nanos() as u64;
        let spread = nanos(weather.delay_max).saturating_sub(nanos(weather.delay_min)).max(1);
        let drawn = now + nanos(weather.delay_min) + self.shared.random.below(spread);
        let last = state.last.entry((from, to, kind as u8)).or_default();
        let at = drawn.max(*last);
        *last = at;
        state.packets_sent += 1;
        Some((inlet, at, state.packets_sent))
    }

    fn passes(&self, from: Endpoint, to: Endpoint) -> bool {
        !self.shared.state.lock().cuts.contains(&(from, to))
    }
}

impl Inlet {
    fn expect(self: &Arc<Self>, network: &Network, at: u64, number: u64, packet: Packet) {
        self.packets.lock().insert((at, number), packet);
        let (inlet, network) = (Arc::clone(self), network.clone());
        self.executor.spawn(async move {
            let left = at.saturating_sub(inlet.env.clock.monotonic_nanos());
            inlet.env.tasks.sleep(Duration::from_nanos(left)).await;
            inlet.take_first(&network);
        });
    }

    /// Takes the first that is due. There is one call for each message.
    fn take_first(&self, network: &Network) {
        let now = self.env.clock.monotonic_nanos();
        let first = {
            let mut packets = self.packets.lock();
            match packets.first_key_value() {
                Some(((at, _), _)) if *at <= now => packets.pop_first(),
                _ => None,
            }
        };
        let Some((_, packet)) = first else { return };
        let inbox = self.inbox.lock().as_ref().and_then(Weak::upgrade);
        let inbox = inbox.filter(|_| !self.is_closed.load(Ordering::SeqCst));
        let Some(inbox) = inbox.filter(|_| network.passes(packet.from, self.own)) else {
            return network.count(|counts| counts.lost += 1);
        };
        network.count(|counts| counts.arrived += 1);
        let mut input = SliceInput::new(packet.bytes);
        let parsed = Message::decode(&mut input, self.env.clock.now_millis());
        match parsed.expect("a message that a node sent can be read") {
            Parsed::Message(message) => inbox.receive(packet.from, VERSION_40, message),
            Parsed::UnknownVerb { number } => panic!("verb {number} was sent"),
        }
    }

    /// Those on the way from a node.
    fn drop_from(&self, from: Endpoint) -> Vec<Packet> {
        let mut packets = self.packets.lock();
        let keys: Vec<_> =
            packets.iter().filter(|(_, packet)| packet.from == from).map(|(key, _)| *key).collect();
        keys.iter().filter_map(|key| packets.remove(key)).collect()
    }
}

/// A node's end of the network.
pub struct Wire {
    network: Network,
    inlet: Arc<Inlet>,
}

impl Wire {
    /// Nothing is sent and nothing arrives from now on.
    pub fn close(&self) {
        self.inlet.is_closed.store(true, Ordering::SeqCst);
    }
}

/// Whether a message may arrive twice.
fn may_be_doubled(verb: Verb) -> bool {
    !matches!(verb, Verb::CounterMutationReq | Verb::TruncateReq)
}

impl Transport for Wire {
    fn attach(&self, inbox: Weak<dyn Inbox>) {
        *self.inlet.inbox.lock() = Some(inbox);
    }

    fn version(&self, _: Endpoint) -> Option<u32> {
        Some(VERSION_40)
    }

    fn send(&self, to: Endpoint, message: Message) -> Result<(), SendError> {
        if self.inlet.is_closed.load(Ordering::SeqCst) {
            return Err(SendError::Stopped);
        }
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        let (bytes, verb, id) = (Bytes::from(bytes), message.verb, message.id);
        let (from, kind) = (self.inlet.own, message.connection_for(bytes.len()));
        let now = self.inlet.env.clock.monotonic_nanos();
        let doubled = {
            let per_mille = self.network.shared.state.lock().weather.doubled_per_mille;
            may_be_doubled(verb) && self.network.chance(per_mille)
        };
        for _ in 0..=u8::from(doubled) {
            if let Some((inlet, at, number)) = self.network.accept((from, to), kind, now) {
                let packet = Packet { from, verb, id, bytes: bytes.clone() };
                inlet.expect(&self.network, at, number, packet);
            }
        }
        if doubled {
            self.network.count(|counts| counts.doubled += 1);
        }
        Ok(())
    }

    fn interrupt(&self, to: Endpoint) {
        let inlet = self.network.shared.state.lock().inlets.get(&to).cloned();
        let dropped = inlet.map(|inlet| inlet.drop_from(self.inlet.own)).unwrap_or_default();
        let inbox = self.inlet.inbox.lock().as_ref().and_then(Weak::upgrade);
        for packet in dropped {
            self.network.count(|counts| counts.lost += 1);
            // One that was doubled may have arrived, and nothing is told of it. Who waits finds out.
            if let Some(inbox) = inbox.as_ref().filter(|_| !may_be_doubled(packet.verb)) {
                inbox.lost(to, packet.verb, packet.id, Loss::Interrupted);
            }
        }
    }

    fn forget(&self, to: Endpoint) {
        self.interrupt(to);
    }
}
