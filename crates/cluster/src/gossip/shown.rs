//! What gossip shows to people: `nodetool gossipinfo`, `nodetool failuredetector`,
//! `system_views.gossip_info`.
//!
//! Of other nodes a state that is superseded by one with a port is not shown: Cassandra drops it when it
//! hears of it. Source: `FailureDetector.getAllEndpointStates`, `GossipInfoTable` of Cassandra 5.0.

use super::app_state::AppState;
use super::gossiper::Gossiper;
use super::text::Text;
use crate::endpoint::Endpoint;

/// A node as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownEndpoint {
    /// Its address.
    pub endpoint: Endpoint,
    /// Whether it can be reached.
    pub is_alive: bool,
    /// Which start of it.
    pub generation: i32,
    /// The version of its last heartbeat.
    pub heartbeat: i32,
    /// What it said, by number, with versions.
    pub values: Vec<(AppState, i32, Text)>,
}

impl Gossiper {
    /// All nodes as people see them, by address.
    pub fn shown(&self) -> Vec<ShownEndpoint> {
        self.states()
            .map(|(endpoint, state)| {
                let is_own = endpoint == self.settings.endpoint;
                let values = state.values().filter(|(key, _)| is_own || !state.is_superseded(*key));
                ShownEndpoint {
                    endpoint,
                    is_alive: self.is_alive(&endpoint),
                    generation: state.generation,
                    heartbeat: state.heartbeat,
                    values: values.map(|(key, said)| (key, said.version, said.value.clone())).collect(),
                }
            })
            .collect()
    }
}

impl ShownEndpoint {
    /// The text in the column `key.name()` of `gossip_info`. There is none for tokens.
    pub fn value(&self, key: AppState) -> Option<&str> {
        let shown = self.values.iter().find(|(shown, ..)| *shown == key && key != AppState::TOKENS);
        shown.map(|(_, _, value)| value.as_str())
    }

    /// The version in the column `key.name()_version` of `gossip_info`.
    pub fn version(&self, key: AppState) -> Option<i32> {
        self.values.iter().find(|(shown, ..)| *shown == key).map(|(_, version, _)| *version)
    }
}
