//! Who is about to hold a token, and has to get what is written to it meanwhile
//! (`TokenMetadata.calculatePendingRanges` of Cassandra 4.0).
//!
//! 1. Nodes that leave are taken off the ring, all of them. Who then is a replica of a token, and is not yet,
//!    is pending.
//! 2. Each node that joins, moves or replaces another is added to that ring on its own. So it is if it is a
//!    replica of the token there.

use super::members::{Members, Owners, Phase};
use super::replicas::natural_replicas;
use coordinator::Strategy;
use model::key::Token;

/// The rings that are to come.
pub(super) struct Futures {
    rings: Vec<Owners>,
}

impl Futures {
    /// Those of these members; none where nobody comes or goes.
    pub(super) fn of(members: &Members) -> Futures {
        let mut base = members.owners();
        let leaving: Vec<usize> = members
            .iter()
            .enumerate()
            .filter(|(_, member)| member.phase == Phase::Leaving)
            .map(|(at, _)| at)
            .collect();
        base.retain(|_, at| !leaving.contains(at));
        let mut rings = Vec::new();
        if !leaving.is_empty() {
            rings.push(base.clone());
        }
        for (at, member) in members.iter().enumerate() {
            let mut ring = base.clone();
            match &member.phase {
                Phase::Normal | Phase::Leaving => continue,
                Phase::Joining => ring.extend(member.tokens.iter().map(|token| (*token, at))),
                Phase::Moving(tokens) => {
                    ring.retain(|_, owner| *owner != at);
                    ring.extend(tokens.iter().map(|token| (*token, at)));
                }
                Phase::Replacing(id) => {
                    let Some(replaced) = members.index_of(*id) else { continue };
                    ring.values_mut().filter(|owner| **owner == replaced).for_each(|owner| *owner = at);
                }
            }
            rings.push(ring);
        }
        Futures { rings }
    }

    /// The tokens at which replicas will change.
    pub(super) fn tokens(&self) -> impl Iterator<Item = Token> {
        self.rings.iter().flat_map(|ring| ring.keys().copied())
    }

    /// Who will be a replica of `token` besides `natural`.
    pub(super) fn pending(
        &self,
        members: &Members,
        strategy: &Strategy,
        token: Token,
        natural: &[usize],
    ) -> Vec<usize> {
        let mut pending = Vec::new();
        for ring in &self.rings {
            for at in natural_replicas(members, ring, strategy, token) {
                if !natural.contains(&at) && !pending.contains(&at) {
                    pending.push(at);
                }
            }
        }
        pending
    }
}
