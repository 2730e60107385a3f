//! A member of the conversation: what a node says of itself and knows of others.
//!
//! It is a state machine: inputs are the passing of a second ([`Gossiper::tick`]), messages (`on_...`) and
//! what the node wants to say ([`Gossiper::set`]); each returns its [`Effects`]. It has no clock, no threads
//! and no connections, so the same inputs and the same seed of randomness lead to the same effects.
//!
//! ```text
//!           start_shadow_round                start(generation)
//!   idle ─────────────────────> shadow  ─┐ ┌──────────────────> running
//!    ^                                   │ │                       │
//!    ├───────────────────────────────────┘ │                       │
//!    └───────── (ended) ───────────────────┘ <────── shutdown ─────┘
//! ```
//! A node that is idle hears and says nothing. Steps of a second are in `round`, what others say in `apply`.
//! Source: `org.apache.cassandra.gms.Gossiper` of Cassandra 4.0 to 5.0.

use super::app_state::AppState;
use super::detector::{FailureDetector, Suspicion};
use super::effects::{Effects, Event, Refusal};
use super::message::{Ack, Ack2, Digest, ENDPOINTS_MAX, Syn, Verb, decode_shutdown, encode_shutdown};
use super::peer::{Peer, Saved};
use super::shadow::{ShadowEnd, ShadowRound, is_sufficient};
use super::state::{EndpointState, NEVER_HEARD};
use super::status::{Status, StatusKind};
use super::text::Text;
use super::values;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use env::Env;
use env::random::Random;
use partition::codec::DecodeError;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

/// Time between two calls of [`Gossiper::tick`].
pub const INTERVAL_MILLIS: u64 = 1_000;
/// How long the state of a node that left is kept, unless it says otherwise: three days.
pub const VERY_LONG_MILLIS: i64 = 259_200_000;
/// Reasons that are remembered as told.
const REFUSALS_MAX: usize = 1_024;
const NANOS_PER_MILLI: u64 = 1_000_000;

/// One moment on two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds that never go back, for durations.
    pub monotonic_nanos: u64,
    /// Milliseconds since 1970, for what nodes tell each other.
    pub wall_millis: i64,
}

impl Now {
    /// The present.
    pub fn of(env: &Env) -> Now {
        Now { monotonic_nanos: env.clock.monotonic_nanos(), wall_millis: env.clock.now_millis() }
    }

    pub(super) fn seconds(self) -> i64 {
        self.wall_millis.div_euclid(1_000)
    }
}

/// The generation of a start, to be stored before it is said: larger than the `stored` one of the last start,
/// and about the seconds since 1970, so that it is larger even when what was stored is lost.
pub fn next_generation(stored: Option<i32>, now: Now) -> i32 {
    let seconds = i32::try_from(now.seconds()).unwrap_or(i32::MAX);
    stored.map_or(seconds, |stored| stored.saturating_add(1).max(seconds))
}

/// Who a node is, and how it gossips.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its broadcast address and storage port.
    pub endpoint: Endpoint,
    /// `cluster_name`
    pub cluster_name: Text,
    /// The class of the partitioner, with its package.
    pub partitioner: Text,
    /// The seeds. The node itself may be among them.
    pub seeds: BTreeSet<Endpoint>,
    /// How long news take to reach everybody: `cassandra.ring_delay_ms`, 30 s.
    pub ring_delay_millis: u64,
    /// `phi_convict_threshold`
    pub phi_convict_threshold: f64,
}

pub(super) enum Phase {
    Idle,
    Shadow(ShadowRound),
    Running,
}

/// A member of the conversation.
pub struct Gossiper {
    pub(super) settings: Settings,
    pub(super) random: Arc<Random>,
    pub(super) phase: Phase,
    /// What this node says of itself.
    pub(super) own: EndpointState,
    /// The last version that was given out.
    last_version: i32,
    pub(super) peers: BTreeMap<Endpoint, Peer>,
    /// The seeds but for this node.
    pub(super) seeds: BTreeSet<Endpoint>,
    /// About how much memory the states of `peers` take.
    pub(super) states_bytes: usize,
    pub(super) detector: FailureDetector,
    /// Nodes that were removed, and when: milliseconds since 1970. What is said of them is not listened to.
    pub(super) quarantine: BTreeMap<Endpoint, i64>,
    /// Whether a SYN was sent since the start. Before it an ACK is left over from the shadow round.
    pub(super) has_sent_syn: bool,
    refusals_told: BTreeSet<(Endpoint, u8)>,
}

impl Gossiper {
    /// A node that is idle.
    pub fn new(settings: Settings, random: Arc<Random>, now: Now) -> Gossiper {
        Gossiper {
            seeds: settings.seeds.iter().copied().filter(|seed| *seed != settings.endpoint).collect(),
            detector: FailureDetector::new(settings.phi_convict_threshold, now.monotonic_nanos),
            settings,
            random,
            phase: Phase::Idle,
            own: EndpointState::new(0, 0),
            last_version: 0,
            peers: BTreeMap::new(),
            states_bytes: 0,
            quarantine: BTreeMap::new(),
            has_sent_syn: false,
            refusals_told: BTreeSet::new(),
        }
    }

    // What the node wants.

    /// Asks who is there, before [`Gossiper::start`]. [`Event::ShadowRoundEnded`] tells the answer. `peers`
    /// are nodes that are known from an earlier life. Ends at once when there is nobody to ask.
    pub fn start_shadow_round(&mut self, peers: BTreeSet<Endpoint>, now: Now) -> Effects {
        let mut out = Effects::default();
        if self.seeds.is_empty() && peers.is_empty() {
            out.tell(Event::ShadowRoundEnded(ShadowEnd::Answered(BTreeMap::new())));
            return out;
        }
        let delays = if self.is_seed() { 1 } else { 2 };
        let patience = self.settings.ring_delay_millis.saturating_mul(delays * NANOS_PER_MILLI);
        self.phase = Phase::Shadow(ShadowRound::new(peers, now.monotonic_nanos, patience));
        self.step_shadow_round(now, &mut out);
        out
    }

    /// Begins to gossip. `generation` has to be larger than that of any earlier start ([`next_generation`]).
    /// What was set before is said from the first round on; behind a shutdown that includes its status,
    /// unless another one is set.
    pub fn start(&mut self, generation: i32) {
        self.own.generation = generation;
        self.own.heartbeat = self.next_version();
        self.has_sent_syn = false;
        self.phase = Phase::Running;
    }

    /// Says something of this node. Tokens have to be said before a status that speaks of them.
    pub fn set(&mut self, key: AppState, value: Text) {
        let version = self.next_version();
        self.own.put(key, value, version);
    }

    /// Says the status of this node, to nodes of all versions.
    pub fn set_status(&mut self, status: Status) {
        self.set(AppState::STATUS_WITH_PORT, status.text());
        let without_port = match status {
            Status::BootReplace { ip, .. } => Status::BootReplace { ip, port: None },
            other => other,
        };
        self.set(AppState::STATUS, without_port.text());
    }

    /// Stops, and tells all that are alive, unless the status is one that nobody counts on. The messages
    /// should be given time to arrive (`cassandra.shutdown_announce_in_ms`, 2 s).
    pub fn shutdown(&mut self) -> Effects {
        let mut out = Effects::default();
        let status = self.own.status_kind();
        let was_running = matches!(self.phase, Phase::Running);
        self.phase = Phase::Idle;
        if was_running && status != StatusKind::Absent && !status.is_dead() && !status.is_booting() {
            self.set(AppState::RPC_READY, values::rpc_ready(false));
            self.set_status(Status::Shutdown);
            let payload = Bytes::from(encode_shutdown(&self.own));
            for peer in self.live() {
                out.send(peer, Verb::Shutdown, payload.clone());
            }
        }
        out
    }

    /// A node of an earlier life, as the system tables remember it. It counts as dead until it is heard.
    pub fn add_saved(&mut self, endpoint: Endpoint, saved: Saved, now: Now) {
        if endpoint != self.settings.endpoint && self.peers.len() < ENDPOINTS_MAX {
            let peer = self.peers.entry(endpoint).or_insert_with(|| {
                let state = EndpointState::never_heard();
                self.states_bytes += state.bytes();
                Peer::new(state, now.monotonic_nanos)
            });
            peer.is_member = true;
            peer.saved = Some(saved);
        }
    }

    /// Replaces the seeds. An empty list changes nothing, as in Cassandra.
    pub fn set_seeds(&mut self, seeds: BTreeSet<Endpoint>) {
        let others: BTreeSet<_> = seeds.iter().copied().filter(|e| *e != self.settings.endpoint).collect();
        if !others.is_empty() {
            self.settings.seeds = seeds;
            self.seeds = others;
        }
    }

    /// Sets the phi above which a node is taken for dead.
    pub fn set_phi_convict_threshold(&mut self, threshold: f64) {
        self.settings.phi_convict_threshold = threshold;
        self.detector.set_threshold(threshold);
    }

    // Messages.

    /// Somebody opens a round.
    ///
    /// # Errors
    /// When the payload is none of a SYN.
    pub fn on_syn(&mut self, from: Endpoint, payload: Bytes) -> Result<Effects, DecodeError> {
        let mut out = Effects::default();
        let syn = Syn::decode(payload)?;
        if matches!(self.phase, Phase::Idle) {
            return Ok(out);
        }
        let (ours, partitioner) = (self.settings.cluster_name.clone(), self.settings.partitioner.clone());
        if syn.cluster_name != ours {
            self.refuse(from, Refusal::ClusterName { theirs: syn.cluster_name, ours }, &mut out);
        } else if syn.partitioner != partitioner {
            let why = Refusal::Partitioner { theirs: syn.partitioner, ours: partitioner };
            self.refuse(from, why, &mut out);
        } else if matches!(self.phase, Phase::Running) {
            let ack = if syn.digests.is_empty() { self.everything() } else { self.compare(&syn.digests) };
            out.send(from, Verb::Ack, ack.encode());
        } else if syn.digests.is_empty() {
            out.send(from, Verb::Ack, Ack::default().encode());
        }
        Ok(out)
    }

    /// Somebody answers a round that this node opened.
    ///
    /// # Errors
    /// When the payload is none of an ACK.
    pub fn on_ack(&mut self, from: Endpoint, payload: Bytes, now: Now) -> Result<Effects, DecodeError> {
        let mut out = Effects::default();
        let ack = Ack::decode(payload)?;
        match &self.phase {
            Phase::Idle => {}
            Phase::Shadow(_) => self.on_shadow_answer(from, ack, now, &mut out),
            Phase::Running if !ack.states.is_empty() && !self.has_sent_syn => {}
            Phase::Running => {
                self.apply(ack.states, now, &mut out);
                let once: BTreeMap<_, _> =
                    ack.requests.iter().map(|request| (request.endpoint, request.max_version)).collect();
                let wanted = once.into_iter().filter_map(|(endpoint, have)| {
                    // Of itself a node tells everything: nobody else could correct what is known of it.
                    let is_own = endpoint == self.settings.endpoint;
                    let have = if is_own { NEVER_HEARD } else { have };
                    Some((endpoint, self.state(&endpoint)?.newer_than(have)?))
                });
                let ack2 = Ack2 { states: wanted.collect() };
                out.send(from, Verb::Ack2, ack2.encode());
            }
        }
        Ok(out)
    }

    /// Somebody closes a round that it opened.
    ///
    /// # Errors
    /// When the payload is none of an ACK2.
    pub fn on_ack2(&mut self, _from: Endpoint, payload: Bytes, now: Now) -> Result<Effects, DecodeError> {
        let mut out = Effects::default();
        let ack2 = Ack2::decode(payload)?;
        if matches!(self.phase, Phase::Running) {
            self.apply(ack2.states, now, &mut out);
        }
        Ok(out)
    }

    /// Somebody stops.
    ///
    /// # Errors
    /// When the payload is none of a shutdown.
    pub fn on_shutdown(&mut self, from: Endpoint, payload: Bytes, now: Now) -> Result<Effects, DecodeError> {
        let mut out = Effects::default();
        let last = decode_shutdown(payload)?;
        if matches!(self.phase, Phase::Running) {
            self.apply_shutdown(from, last, now, &mut out);
        }
        Ok(out)
    }

    /// Somebody is there: it answered an ECHO.
    pub fn on_echo_response(&mut self, from: Endpoint, now: Now) -> Effects {
        let mut out = Effects::default();
        if matches!(self.phase, Phase::Running) {
            self.mark_alive(from, now, &mut out);
        }
        out
    }

    /// Whether an ECHO is to be answered: not by a node that is about to stop.
    pub fn answers_echo(&self) -> bool {
        self.own.status_kind() != StatusKind::Shutdown
    }

    // What is known.

    /// What is known of a node, be it this one.
    pub fn state(&self, endpoint: &Endpoint) -> Option<&EndpointState> {
        match *endpoint == self.settings.endpoint {
            true => Some(&self.own),
            false => self.peers.get(endpoint).map(|peer| &peer.state),
        }
    }

    /// What this node says of itself.
    pub fn own(&self) -> &EndpointState {
        &self.own
    }

    /// Every node that is known, by address, this one among them.
    pub fn states(&self) -> impl Iterator<Item = (Endpoint, &EndpointState)> {
        let own = (self.settings.endpoint, &self.own);
        let (before, behind) = (self.peers.range(..own.0), self.peers.range(own.0..));
        let before = before.map(|(endpoint, peer)| (*endpoint, &peer.state));
        let behind = behind.map(|(endpoint, peer)| (*endpoint, &peer.state));
        before.chain([own]).chain(behind)
    }

    /// Whether a node can be reached and asked. This one always can.
    pub fn is_alive(&self, endpoint: &Endpoint) -> bool {
        *endpoint == self.settings.endpoint || self.peers.get(endpoint).is_some_and(Peer::is_alive)
    }

    /// The other nodes that can be reached.
    pub fn live(&self) -> Vec<Endpoint> {
        self.peers.iter().filter(|(_, peer)| peer.is_alive()).map(|(endpoint, _)| *endpoint).collect()
    }

    /// The nodes that cannot be reached, but for those that left.
    pub fn unreachable(&self) -> Vec<Endpoint> {
        let lost = |peer: &Peer| !peer.is_alive() && !peer.has_left;
        self.peers.iter().filter(|(_, peer)| lost(peer)).map(|(endpoint, _)| *endpoint).collect()
    }

    /// How long a node could not be reached: milliseconds, 0 for one that is alive or unknown.
    pub fn downtime_millis(&self, endpoint: &Endpoint, now: Now) -> u64 {
        let since = self.peers.get(endpoint).and_then(|peer| peer.down_since_nanos);
        since.map_or(0, |since| now.monotonic_nanos.saturating_sub(since) / NANOS_PER_MILLI)
    }

    /// The seeds but for this node.
    pub fn seeds(&self) -> &BTreeSet<Endpoint> {
        &self.seeds
    }

    /// Whether another seed was heard of, under the address in the list or its internal one.
    pub fn has_seen_a_seed(&self) -> bool {
        self.peers.iter().any(|(endpoint, peer)| {
            let internal = peer.state.text(AppState::INTERNAL_ADDRESS_AND_PORT);
            let internal = internal.and_then(|text| text.parse::<SocketAddr>().ok()).map(Endpoint::from);
            self.seeds.contains(endpoint) || internal.is_some_and(|internal| self.seeds.contains(&internal))
        })
    }

    /// Whether it gossips.
    pub fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// Whether a shadow round is under way.
    pub fn is_in_shadow_round(&self) -> bool {
        matches!(self.phase, Phase::Shadow(_))
    }

    /// Who this node is.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What speaks for a node being dead; `None` for one that was never heard.
    pub fn suspicion(&self, endpoint: &Endpoint, now: Now) -> Option<Suspicion> {
        self.detector.suspicion(endpoint, now.monotonic_nanos)
    }

    /// The phi of each node when it was last judged.
    pub fn phis(&self) -> impl Iterator<Item = (Endpoint, f64)> {
        self.detector.phis()
    }

    // Inside.

    pub(super) fn is_seed(&self) -> bool {
        self.settings.seeds.contains(&self.settings.endpoint)
    }

    pub(super) fn next_version(&mut self) -> i32 {
        self.last_version = self.last_version.saturating_add(1);
        self.last_version
    }

    /// Tells that something was not taken, once for each node and reason, and once that there is no room.
    pub(super) fn refuse(&mut self, endpoint: Endpoint, why: Refusal, out: &mut Effects) {
        let has_no_room = matches!(why, Refusal::TooManyEndpoints | Refusal::TooMuchState);
        let told_of = if has_no_room { self.settings.endpoint } else { endpoint };
        if self.refusals_told.len() < REFUSALS_MAX && self.refusals_told.insert((told_of, why.reason())) {
            out.tell(Event::Refused { endpoint, why });
        }
    }

    /// What this node knows of each.
    pub(super) fn digests(&self) -> Vec<Digest> {
        self.states()
            .map(|(endpoint, state)| Digest {
                endpoint,
                generation: state.generation,
                max_version: state.max_version(),
            })
            .collect()
    }

    /// The answer to somebody in a shadow round. Of nodes that are not heard it tells what is saved.
    fn everything(&mut self) -> Ack {
        let version = self.next_version();
        let states = self.states().map(|(endpoint, state)| {
            let mut state = state.clone();
            if state.is_unheard()
                && let Some(saved) = self.peers.get(&endpoint).and_then(|peer| peer.saved.clone())
            {
                let values = [(AppState::HOST_ID, saved.host_id), (AppState::TOKENS, saved.tokens)];
                for (key, value) in values {
                    value.into_iter().for_each(|value| state.put(key, value, version));
                }
            }
            (endpoint, state)
        });
        Ack { requests: Vec::new(), states: states.collect() }
    }

    /// The answer to somebody who says how much it knows: asks for what is newer there, tells what is newer
    /// here.
    fn compare(&self, digests: &[Digest]) -> Ack {
        let mut ack = Ack::default();
        let once: BTreeMap<Endpoint, &Digest> = digests.iter().map(|d| (d.endpoint, d)).collect();
        for theirs in once.into_values() {
            let Some(ours) = self.state(&theirs.endpoint) else {
                ack.requests.push(Digest { max_version: 0, ..*theirs });
                continue;
            };
            let max_version = ours.max_version();
            if theirs.generation > ours.generation {
                ack.requests.push(Digest { max_version: 0, ..*theirs });
            } else if (theirs.generation, theirs.max_version) == (ours.generation, max_version) {
                // Both know the same.
            } else if theirs.generation < ours.generation || theirs.endpoint == self.settings.endpoint {
                ack.states.extend(ours.newer_than(NEVER_HEARD).map(|state| (theirs.endpoint, state)));
            } else if theirs.max_version > max_version {
                ack.requests.push(Digest { max_version, ..*theirs });
            } else {
                ack.states.extend(ours.newer_than(theirs.max_version).map(|state| (theirs.endpoint, state)));
            }
        }
        ack
    }

    fn on_shadow_answer(&mut self, from: Endpoint, ack: Ack, now: Now, out: &mut Effects) {
        let Phase::Shadow(round) = &mut self.phase else { return };
        if !ack.requests.is_empty() {
            // Who was asked without digests asks for nothing: this answers who had the address before.
            return;
        }
        let states: BTreeMap<_, _> = ack.states.into_iter().collect();
        if states.is_empty() {
            round.on_empty_answer(from, &self.seeds, now.monotonic_nanos);
        } else if is_sufficient(states.get(&self.settings.endpoint)) {
            self.phase = Phase::Idle;
            out.tell(Event::ShadowRoundEnded(ShadowEnd::Answered(states)));
        }
    }
}
