//! What an input to the gossiper leads to: messages to send, and events for the rest of the node.

use super::app_state::AppState;
use super::message::Verb;
use super::shadow::ShadowEnd;
use super::text::Text;
use crate::endpoint::Endpoint;
use bytes::Bytes;
use std::fmt;

/// A message to send, on the connection for urgent messages. It may be lost: gossip tells everything again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// To whom.
    pub to: Endpoint,
    /// What it is. The answer to an `Echo` goes to `Gossiper::on_echo_response`; no other verb has one.
    pub verb: Verb,
    /// Its payload. That of a `Shutdown` is left out on a connection of version 12.
    pub payload: Bytes,
}

/// Something that the rest of the node may want to know. For one node, `Alive` and `Dead` take turns,
/// beginning with `Alive`; a node is known from `Joined` to `Removed`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A node is heard of for the first time. Its states follow as `Changed`.
    Joined(Endpoint),
    /// A node has started anew. If it was alive, `Dead` went before. Its states follow as `Changed`.
    Restarted(Endpoint),
    /// A node said something new, or is new. The status comes before other states of one message. A state
    /// that is superseded by one with a port is left out.
    Changed {
        /// Who said it.
        endpoint: Endpoint,
        /// About what.
        key: AppState,
        /// What.
        value: Text,
    },
    /// A node can be reached.
    Alive(Endpoint),
    /// A node can no longer be reached.
    Dead(Endpoint),
    /// A node has left the ring for good. Its state is kept until it expires, so that all may hear of it.
    Left(Endpoint),
    /// A node is forgotten.
    Removed(Endpoint),
    /// A shadow round has ended.
    ShadowRoundEnded(ShadowEnd),
    /// What a node said was not taken. Told once for each node and reason; that there is no room, once.
    Refused {
        /// Who said it, or of whom it was said.
        endpoint: Endpoint,
        /// Why.
        why: Refusal,
    },
}

/// Why a message, or a part of it, was not taken. In Cassandra's words where it has some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The sender is of another cluster.
    ClusterName {
        /// The sender's name of it.
        theirs: Text,
        /// This node's name of it.
        ours: Text,
    },
    /// The sender places keys otherwise.
    Partitioner {
        /// The sender's class.
        theirs: Text,
        /// This node's class.
        ours: Text,
    },
    /// A generation that is more than a year ahead of this node's clock.
    FutureGeneration {
        /// The generation.
        generation: i32,
        /// This node's clock: seconds since 1970.
        local_seconds: i64,
    },
    /// More nodes than are kept in mind.
    TooManyEndpoints,
    /// More text than is kept in mind.
    TooMuchState,
}

impl Refusal {
    /// A number for each reason, to tell it once.
    pub(super) fn reason(&self) -> u8 {
        match self {
            Refusal::ClusterName { .. } => 0,
            Refusal::Partitioner { .. } => 1,
            Refusal::FutureGeneration { .. } => 2,
            Refusal::TooManyEndpoints => 3,
            Refusal::TooMuchState => 4,
        }
    }

    /// The line for the log.
    pub fn text(&self, endpoint: Endpoint) -> String {
        match self {
            Refusal::ClusterName { theirs, ours } => {
                format!("ClusterName mismatch from /{endpoint} {theirs}!={ours}")
            }
            Refusal::Partitioner { theirs, ours } => {
                format!("Partitioner mismatch from /{endpoint} {theirs}!={ours}")
            }
            Refusal::FutureGeneration { generation, local_seconds } => format!(
                "received an invalid gossip generation for peer /{endpoint}; local time = {local_seconds}, \
                 received generation = {generation}"
            ),
            Refusal::TooManyEndpoints => {
                format!("ignored gossip about /{endpoint}: too many nodes are known")
            }
            Refusal::TooMuchState => format!("ignored gossip about /{endpoint}: it is too large to be kept"),
        }
    }
}

/// Messages and events, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Effects {
    /// To be sent.
    pub messages: Vec<Outgoing>,
    /// To be told.
    pub events: Vec<Event>,
}

impl Effects {
    pub(super) fn send(&mut self, to: Endpoint, verb: Verb, payload: impl Into<Bytes>) {
        self.messages.push(Outgoing { to, verb, payload: payload.into() });
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.events.is_empty()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Joined(node) => write!(f, "Node /{node} is now part of the cluster"),
            Event::Restarted(node) => write!(f, "Node /{node} has restarted, now UP"),
            Event::Changed { endpoint, key, value } => match *key {
                AppState::TOKENS => write!(f, "/{endpoint} says {key}: <hidden>"),
                _ => write!(f, "/{endpoint} says {key}: {value}"),
            },
            Event::Alive(node) => write!(f, "InetAddress /{node} is now UP"),
            Event::Dead(node) => write!(f, "InetAddress /{node} is now DOWN"),
            Event::Left(node) => write!(f, "Node /{node} has left the ring"),
            Event::Removed(node) => write!(f, "Node /{node} is forgotten"),
            Event::ShadowRoundEnded(end) => end.fmt(f),
            Event::Refused { endpoint, why } => f.write_str(&why.text(*endpoint)),
        }
    }
}
