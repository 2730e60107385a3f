//! Taking in what others say: which of two states of a node is the later one, and what follows from it.
//!
//! - Of two generations the larger one wins, as a whole. One that is over a year ahead of the clock is
//!   refused.
//! - Of two texts of one generation and one number the one with the larger version wins.
//! - What a node says of itself is never corrected by others, and what is said of a node in quarantine is not
//!   listened to.
//! - A node that is new, or back, is alive only after it answered an ECHO: what others say of it does not
//!   prove that this node reaches it.
//! - What others make this node keep in mind is bounded, in nodes and in bytes.
//!
//! Source: `Gossiper.applyStateLocally`, `handleMajorStateChange`, `markAsShutdown` of Cassandra 4.0 to 5.0.

use super::app_state::AppState;
use super::effects::{Effects, Event, Refusal};
use super::gossiper::{Gossiper, Now, VERY_LONG_MILLIS};
use super::message::{ENDPOINTS_MAX, Verb};
use super::peer::Peer;
use super::state::EndpointState;
use super::status::{Status, StatusKind};
use super::values;
use crate::endpoint::Endpoint;
use bytes::Bytes;

/// How far a generation may be ahead of this node's clock: a year.
const GENERATION_AHEAD_SECONDS_MAX: i64 = 86_400 * 365;
/// Time between two questions whether a node is there.
const ECHO_INTERVAL_NANOS: u64 = 1_000_000_000;
/// Most that is kept in mind of one node. Tokens and statuses take a few thousand bytes.
const STATE_BYTES_MAX: usize = 256 << 10;
/// Most that is kept in mind of all nodes.
const STATES_BYTES_MAX: usize = 128 << 20;

impl Gossiper {
    /// Takes in states. Those of nodes on their way into the ring come last, because they speak of others.
    pub(super) fn apply(&mut self, mut states: Vec<(Endpoint, EndpointState)>, now: Now, out: &mut Effects) {
        states.sort_by_cached_key(|(endpoint, state)| {
            (state.status_kind().is_booting(), state.generation, *endpoint)
        });
        for (endpoint, remote) in states {
            let is_own = endpoint == self.settings.endpoint;
            if !is_own && !self.quarantine.contains_key(&endpoint) && !remote.is_unheard() {
                self.apply_one(endpoint, remote, now, out);
            }
        }
    }

    fn apply_one(&mut self, endpoint: Endpoint, remote: EndpointState, now: Now, out: &mut Effects) {
        if !self.is_plausible(endpoint, &remote, now, out) {
            return;
        }
        let Some(peer) = self.peers.get_mut(&endpoint) else {
            if self.peers.len() >= ENDPOINTS_MAX {
                self.refuse(endpoint, Refusal::TooManyEndpoints, out);
            } else {
                self.change_generation(endpoint, remote, now, out);
            }
            return;
        };
        if remote.generation > peer.state.generation {
            self.change_generation(endpoint, remote, now, out);
        } else if remote.generation == peer.state.generation {
            let max_version = peer.state.max_version();
            if remote.heartbeat > max_version {
                peer.updated_nanos = now.monotonic_nanos;
                self.detector.report(endpoint, now.monotonic_nanos);
            }
            if remote.max_version() > max_version {
                self.take_newer(endpoint, remote, now, out);
            }
            self.ask_whether_it_is_there(endpoint, now, out);
        }
    }

    fn is_plausible(
        &mut self,
        endpoint: Endpoint,
        remote: &EndpointState,
        now: Now,
        out: &mut Effects,
    ) -> bool {
        let (generation, local_seconds) = (remote.generation, now.seconds());
        let ahead = i64::from(generation).saturating_sub(local_seconds);
        if ahead > GENERATION_AHEAD_SECONDS_MAX {
            self.refuse(endpoint, Refusal::FutureGeneration { generation, local_seconds }, out);
        }
        ahead <= GENERATION_AHEAD_SECONDS_MAX
    }

    /// Whether there is room for `state` in the place of what is known of a node.
    fn has_room(&mut self, endpoint: Endpoint, state: &EndpointState, out: &mut Effects) -> bool {
        let before = self.peers.get(&endpoint).map_or(0, |peer| peer.state.bytes());
        let bytes = state.bytes();
        let total = self.states_bytes.saturating_sub(before).saturating_add(bytes);
        let has_room = bytes <= before || (bytes <= STATE_BYTES_MAX && total <= STATES_BYTES_MAX);
        if has_room {
            self.states_bytes = total;
        } else {
            self.refuse(endpoint, Refusal::TooMuchState, out);
        }
        has_room
    }

    /// A node is new, or has started anew.
    fn change_generation(&mut self, endpoint: Endpoint, remote: EndpointState, now: Now, out: &mut Effects) {
        if !self.has_room(endpoint, &remote, out) {
            return;
        }
        let was_alive = self.is_alive(&endpoint);
        if !was_alive {
            // What it was used to may no longer hold.
            self.detector.remove(&endpoint);
        }
        self.detector.report(endpoint, now.monotonic_nanos);
        self.mark_dead(endpoint, now, out);

        let mut peer = Peer::new(remote, now.monotonic_nanos);
        let keys = peer.state.values().map(|(key, _)| key).collect();
        match self.peers.get(&endpoint) {
            Some(before) => {
                peer.is_member = before.is_member;
                peer.down_since_nanos = before.down_since_nanos;
                peer.saved = before.saved.clone();
                out.tell(Event::Restarted(endpoint));
            }
            None => out.tell(Event::Joined(endpoint)),
        }
        self.peers.insert(endpoint, peer);
        self.tell_changes(endpoint, keys, now, out);
        self.ask_whether_it_is_there(endpoint, now, out);
    }

    /// A node of the same generation has said more.
    fn take_newer(&mut self, endpoint: Endpoint, remote: EndpointState, now: Now, out: &mut Effects) {
        let Some(peer) = self.peers.get(&endpoint) else { return };
        let mut state = peer.state.clone();
        let changed = state.take_newer(remote);
        if !changed.is_empty() && !self.has_room(endpoint, &state, out) {
            return;
        }
        if let Some(peer) = self.peers.get_mut(&endpoint) {
            peer.state = state;
            peer.updated_nanos = now.monotonic_nanos;
        }
        self.tell_changes(endpoint, changed, now, out);
    }

    /// Tells what changed, the status first: who hears of tokens has to know whether they are owned.
    pub(super) fn tell_changes(
        &mut self,
        endpoint: Endpoint,
        mut changed: Vec<AppState>,
        now: Now,
        out: &mut Effects,
    ) {
        let Some(peer) = self.peers.get(&endpoint) else { return };
        changed.sort_by_key(|key| !key.is_status());
        for key in changed.iter().copied().filter(|key| !peer.state.is_superseded(*key)) {
            if let Some(said) = peer.state.get(key) {
                out.tell(Event::Changed { endpoint, key, value: said.value.clone() });
            }
        }
        if changed.iter().any(|key| key.is_status()) {
            self.follow_status(endpoint, now, out);
        }
    }

    /// Does what the status of a node asks for.
    fn follow_status(&mut self, endpoint: Endpoint, now: Now, out: &mut Effects) {
        let Some(peer) = self.peers.get_mut(&endpoint) else { return };
        let status = peer.state.status_kind();
        peer.is_member |= status.is_member();
        peer.has_left = status.is_gone();
        peer.expires_millis = None;
        if status == StatusKind::Shutdown {
            self.mark_shutdown(endpoint, now, out);
        } else if status.is_gone() {
            let expires = peer.state.status().as_ref().and_then(Status::expires_millis);
            peer.expires_millis = Some(expires.unwrap_or(now.wall_millis.saturating_add(VERY_LONG_MILLIS)));
            peer.is_member = false;
            self.seeds.remove(&endpoint);
            self.quarantine.insert(endpoint, now.wall_millis);
            self.mark_dead(endpoint, now, out);
            out.tell(Event::Left(endpoint));
        } else if status.is_dead() {
            self.mark_dead(endpoint, now, out);
        }
    }

    /// Sends an ECHO to a node that is heard of but not known to be reached.
    fn ask_whether_it_is_there(&mut self, endpoint: Endpoint, now: Now, out: &mut Effects) {
        let Some(peer) = self.peers.get_mut(&endpoint) else { return };
        let at = now.monotonic_nanos;
        let is_due = |sent: u64| at.saturating_sub(sent) >= ECHO_INTERVAL_NANOS;
        if can_be_alive(peer) && !peer.is_alive() && peer.echo_sent_nanos.is_none_or(is_due) {
            peer.echo_sent_nanos = Some(at);
            out.send(endpoint, Verb::Echo, Bytes::new());
        }
    }

    /// A node answered.
    pub(super) fn mark_alive(&mut self, endpoint: Endpoint, now: Now, out: &mut Effects) {
        let Some(peer) = self.peers.get_mut(&endpoint) else { return };
        if peer.echo_sent_nanos.take().is_some() && can_be_alive(peer) && !peer.is_alive() {
            peer.down_since_nanos = None;
            peer.updated_nanos = now.monotonic_nanos;
            out.tell(Event::Alive(endpoint));
        }
    }

    /// A node cannot be reached.
    pub(super) fn mark_dead(&mut self, endpoint: Endpoint, now: Now, out: &mut Effects) {
        if let Some(peer) = self.peers.get_mut(&endpoint)
            && peer.is_alive()
        {
            peer.down_since_nanos = Some(now.monotonic_nanos);
            out.tell(Event::Dead(endpoint));
        }
    }

    /// A node says that it stops. `last` is its last state, if it is of a version that tells it.
    pub(super) fn apply_shutdown(
        &mut self,
        from: Endpoint,
        last: Option<EndpointState>,
        now: Now,
        out: &mut Effects,
    ) {
        let Some(peer) = self.peers.get(&from) else { return };
        if peer.state.status_kind().is_dead() {
            // Who has left does not come back by stopping.
            return;
        }
        let Some(last) = last else {
            if peer.state.values().len() > 0 {
                self.mark_shutdown(from, now, out);
            }
            return;
        };
        let is_later = last.generation >= peer.state.generation;
        let stops = last.status_kind() == StatusKind::Shutdown;
        if is_later && stops && self.is_plausible(from, &last, now, out) {
            // A message on its way may have told more already, so nothing goes back.
            match self.peers.get(&from) {
                Some(peer) if last.generation > peer.state.generation => {
                    self.change_generation(from, last, now, out);
                }
                _ => self.take_newer(from, last, now, out),
            }
        }
    }

    /// Makes the state of a node that it stopped, in its name: nothing that it said before can win over that.
    pub(super) fn mark_shutdown(&mut self, endpoint: Endpoint, now: Now, out: &mut Effects) {
        let Some(peer) = self.peers.get_mut(&endpoint) else { return };
        let state = &mut peer.state;
        let before = state.bytes();
        if state.status_kind() != StatusKind::Shutdown {
            let newest = state.values().map(|(_, said)| said.version).fold(0, i32::max);
            let version = newest.saturating_add(1);
            let value = Status::Shutdown.text();
            state.put(AppState::STATUS_WITH_PORT, value.clone(), version);
            state.put(AppState::STATUS, value.clone(), version);
            state.put(AppState::RPC_READY, values::rpc_ready(false), version);
            out.tell(Event::Changed { endpoint, key: AppState::STATUS_WITH_PORT, value });
        }
        state.heartbeat = i32::MAX;
        self.states_bytes = (self.states_bytes + state.bytes()).saturating_sub(before);
        peer.is_member = true;
        self.mark_dead(endpoint, now, out);
    }
}

/// Whether what a node says of itself allows it to be alive.
fn can_be_alive(peer: &Peer) -> bool {
    let status = peer.state.status_kind();
    !status.is_dead() && status != StatusKind::Shutdown
}
