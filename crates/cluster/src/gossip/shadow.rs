//! The shadow round: a node that starts asks who is there before it says a word of itself.
//!
//! 1. It sends a SYN without digests to all seeds, and again every 5 s; from the second time on also to the
//!    nodes that it remembers from an earlier life.
//! 2. A node that runs answers with all it knows. The round ends with that answer, if it tells enough of the
//!    node that asks.
//!    An answer that asks for something is to who had the address before, and is passed over.
//! 3. A node that is itself in a shadow round answers with nothing. When all seeds do, the cluster is
//!    starting as a whole, and the round ends without an answer. It waits a moment for one: nodes that know
//!    the same answer each other with nothing, too, and so somebody else may have been answered.
//! 4. After twice the ring delay the round has failed. A seed waits half as long, and then goes on alone.
//!
//! Source: `Gossiper.doShadowRound` and `maybeFinishShadowRound` of Cassandra 4.0.

use super::state::EndpointState;
use crate::endpoint::Endpoint;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How long an answer is waited for when all seeds have answered with nothing.
const GRACE_NANOS: u64 = 500_000_000;
/// Time between two attempts.
const RETRY_NANOS: u64 = 5_000_000_000;

/// How a shadow round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShadowEnd {
    /// The states of the cluster. None when the node begins a cluster, or begins together with all seeds.
    Answered(BTreeMap<Endpoint, EndpointState>),
    /// Nobody answered.
    Failed,
}

impl fmt::Display for ShadowEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShadowEnd::Answered(states) => write!(f, "Heard of {} nodes before joining", states.len()),
            ShadowEnd::Failed => f.write_str("Unable to gossip with any peers"),
        }
    }
}

/// A shadow round under way.
#[derive(Debug)]
pub(super) struct ShadowRound {
    /// Nodes of an earlier life.
    peers: BTreeSet<Endpoint>,
    /// Seeds that are in a shadow round themselves.
    seeds_in_shadow: BTreeSet<Endpoint>,
    deadline_nanos: u64,
    next_attempt_nanos: u64,
    /// When the round ends because all seeds have answered with nothing.
    ends_nanos: Option<u64>,
    has_asked_seeds: bool,
}

/// What a shadow round does when time passes.
pub(super) enum ShadowStep {
    Wait,
    Ask(Vec<Endpoint>),
    /// The cluster starts as a whole.
    Begin,
    GiveUp,
}

impl ShadowRound {
    pub(super) fn new(peers: BTreeSet<Endpoint>, now_nanos: u64, patience_nanos: u64) -> ShadowRound {
        ShadowRound {
            peers,
            seeds_in_shadow: BTreeSet::new(),
            deadline_nanos: now_nanos.saturating_add(patience_nanos),
            next_attempt_nanos: now_nanos,
            ends_nanos: None,
            has_asked_seeds: false,
        }
    }

    pub(super) fn step(&mut self, seeds: &BTreeSet<Endpoint>, now_nanos: u64) -> ShadowStep {
        if self.ends_nanos.is_some_and(|ends| now_nanos >= ends) {
            return ShadowStep::Begin;
        }
        if now_nanos > self.deadline_nanos {
            return ShadowStep::GiveUp;
        }
        if now_nanos < self.next_attempt_nanos {
            return ShadowStep::Wait;
        }
        self.next_attempt_nanos = now_nanos.saturating_add(RETRY_NANOS);
        let asks_peers = std::mem::replace(&mut self.has_asked_seeds, true);
        let peers = self.peers.iter().filter(|peer| asks_peers && !seeds.contains(peer));
        ShadowStep::Ask(seeds.iter().chain(peers).copied().collect())
    }

    /// An answer with nothing in it.
    pub(super) fn on_empty_answer(&mut self, from: Endpoint, seeds: &BTreeSet<Endpoint>, now_nanos: u64) {
        if seeds.contains(&from) {
            self.seeds_in_shadow.insert(from);
        }
        if self.seeds_in_shadow.is_superset(seeds) {
            self.ends_nanos.get_or_insert(now_nanos.saturating_add(GRACE_NANOS));
        }
    }
}

/// Whether an answer tells enough of the node that asked, to judge whether it may join.
pub(super) fn is_sufficient(of_itself: Option<&EndpointState>) -> bool {
    of_itself.is_none_or(|state| state.status_kind().is_dead() || state.host_id().is_some())
}
