//! Speaking in the name of a node that cannot speak: `nodetool removenode` and `assassinate`.
//!
//! The coordinator of a removal raises the node's generation by one, as if it had started anew, and says a
//! status for it. Before each step it has to wait for the ring delay and see that the node's generation
//! stayed the same; between `removing` and `removed` the node's data is streamed to its new owners. All that
//! is the caller's. Source: `Gossiper.advertiseRemoving`, `advertiseTokenRemoved`, `assassinateEndpoint` of
//! Cassandra 4.0.

use super::app_state::AppState;
use super::effects::{Effects, Event};
use super::gossiper::{Gossiper, Now, VERY_LONG_MILLIS};
use super::peer::Peer;
use super::state::EndpointState;
use super::status::Status;
use super::text::Text;
use super::values;
use crate::endpoint::Endpoint;
use uuid::Uuid;

/// A node that nobody has heard of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unknown endpoint: /{0}")]
pub struct UnknownEndpoint(pub Endpoint);

/// What an assassinated node of which nothing is known is said to have counted to.
const UNKNOWN_HEARTBEAT: i32 = 9_999;

impl Gossiper {
    /// Says that a node is being removed by this one, whose id is `coordinator`.
    ///
    /// # Errors
    /// When the node is not known.
    pub fn advertise_removing(
        &mut self,
        endpoint: Endpoint,
        host_id: Uuid,
        coordinator: Uuid,
        now: Now,
    ) -> Result<Effects, UnknownEndpoint> {
        let coordinator = (AppState::REMOVAL_COORDINATOR, values::removal_coordinator(coordinator));
        self.speak_for(endpoint, Status::Removing { host_id }, Some(coordinator), now)
    }

    /// Says that a node was removed.
    ///
    /// # Errors
    /// When the node is not known.
    pub fn advertise_removed(
        &mut self,
        endpoint: Endpoint,
        host_id: Uuid,
        now: Now,
    ) -> Result<Effects, UnknownEndpoint> {
        let expires_millis = now.wall_millis.saturating_add(VERY_LONG_MILLIS);
        self.speak_for(endpoint, Status::Removed { host_id, expires_millis }, None, now)
    }

    /// Says that a node has left, whether it is known or not. `token` is one of its tokens, or any.
    ///
    /// # Errors
    /// When it is this node.
    pub fn assassinate(
        &mut self,
        endpoint: Endpoint,
        token: i64,
        now: Now,
    ) -> Result<Effects, UnknownEndpoint> {
        if endpoint != self.settings.endpoint && !self.peers.contains_key(&endpoint) {
            let generation = i32::try_from(now.seconds().saturating_add(60)).unwrap_or(i32::MAX);
            let state = EndpointState::new(generation, UNKNOWN_HEARTBEAT);
            self.states_bytes += state.bytes();
            self.peers.insert(endpoint, Peer::new(state, now.monotonic_nanos));
        }
        let expires_millis = now.wall_millis.saturating_add(VERY_LONG_MILLIS);
        self.speak_for(endpoint, Status::Left { token, expires_millis }, None, now)
    }

    fn speak_for(
        &mut self,
        endpoint: Endpoint,
        status: Status,
        also: Option<(AppState, Text)>,
        now: Now,
    ) -> Result<Effects, UnknownEndpoint> {
        let mut out = Effects::default();
        let version = self.next_version();
        let peer = self.peers.get_mut(&endpoint).ok_or(UnknownEndpoint(endpoint))?;
        let (before, is_new) = (peer.state.bytes(), peer.state.values().len() == 0);
        peer.state.generation = peer.state.generation.saturating_add(1);
        peer.updated_nanos = now.monotonic_nanos;
        let statuses = [AppState::STATUS_WITH_PORT, AppState::STATUS].map(|key| (key, status.text()));
        let said: Vec<_> = statuses.into_iter().chain(also).collect();
        let keys = said.iter().map(|(key, _)| *key).collect();
        for (key, value) in said {
            peer.state.put(key, value, version);
        }
        self.states_bytes = (self.states_bytes + peer.state.bytes()).saturating_sub(before);
        self.mark_dead(endpoint, now, &mut out);
        out.tell(if is_new { Event::Joined(endpoint) } else { Event::Restarted(endpoint) });
        self.tell_changes(endpoint, keys, now, &mut out);
        Ok(out)
    }
}
