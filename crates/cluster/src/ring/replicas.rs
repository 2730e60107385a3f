//! The replicas of a token, as Cassandra's strategies choose them
//! (`SimpleStrategy.calculateNaturalReplicas`, `NetworkTopologyStrategy.calculateNaturalReplicas` of 4.0).
//!
//! Both walk along the ring from the token on. The simple one takes the first nodes that it meets. The other
//! takes nodes of each data center on its own: one of each rack first, and as many of racks that it has met
//! as there are more replicas than racks.

use super::members::{Members, Owners};
use coordinator::Strategy;
use model::key::Token;
use std::collections::{HashMap, HashSet};
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

/// The replicas of `token`, as indexes of members, in the order of the ring. None with `LocalStrategy`.
pub fn natural_replicas(members: &Members, owners: &Owners, strategy: &Strategy, token: Token) -> Vec<usize> {
    let walk = owners.range((Included(token), Unbounded)).chain(owners.range((Unbounded, Excluded(token))));
    let walk = walk.map(|(_, at)| *at);
    match strategy {
        Strategy::Local => Vec::new(),
        Strategy::Simple(factor) => {
            let mut found = Vec::new();
            for at in walk {
                if found.len() >= *factor as usize {
                    break;
                }
                if !found.contains(&at) {
                    found.push(at);
                }
            }
            found
        }
        Strategy::NetworkTopology(factors) => in_datacenters(members, owners, factors, walk),
    }
}

/// What is still wanted of a data center.
struct Wanted<'a> {
    replicas: usize,
    /// How many replicas may be of racks that have one.
    repeats: usize,
    racks: HashSet<&'a str>,
}

fn in_datacenters<'a>(
    members: &'a Members,
    owners: &Owners,
    factors: &'a [(Arc<str>, u32)],
    walk: impl Iterator<Item = usize>,
) -> Vec<usize> {
    let mut nodes: HashMap<&str, HashSet<usize>> = HashMap::new();
    let mut racks: HashMap<&str, HashSet<&str>> = HashMap::new();
    for at in owners.values() {
        let Some(member) = members.get(*at) else { continue };
        let datacenter = &*member.node.datacenter;
        nodes.entry(datacenter).or_default().insert(*at);
        racks.entry(datacenter).or_default().insert(&member.node.rack);
    }
    let count = |of: Option<usize>| of.unwrap_or(0);
    let wanted = factors.iter().map(|(name, factor)| {
        let factor = *factor as usize;
        let replicas = factor.min(count(nodes.get(&**name).map(HashSet::len)));
        let repeats = factor.saturating_sub(count(racks.get(&**name).map(HashSet::len)));
        (&**name, Wanted { replicas, repeats, racks: HashSet::new() })
    });
    let mut wanted: HashMap<&str, Wanted<'_>> = wanted.collect();
    let mut left: usize = wanted.values().map(|wanted| wanted.replicas).sum();
    let mut found = Vec::new();
    for at in walk {
        if left == 0 {
            break;
        }
        let Some(member) = members.get(at) else { continue };
        let Some(wanted) = wanted.get_mut(&*member.node.datacenter) else { continue };
        if wanted.replicas == 0 || found.contains(&at) {
            continue;
        }
        if !wanted.racks.insert(&member.node.rack) {
            if wanted.repeats == 0 {
                continue;
            }
            wanted.repeats -= 1;
        }
        wanted.replicas -= 1;
        left -= 1;
        found.push(at);
    }
    found
}

/// Which part of the ring each member holds, 0 to 1, in the order of the members.
pub fn ownership(members: &Members, strategy: &Strategy) -> Vec<f64> {
    let owners = members.owners();
    let mut owned = vec![0.0; members.iter().count()];
    let Some(last) = owners.keys().next_back() else { return owned };
    let mut before = last.0;
    for token in owners.keys() {
        // The distance around the ring; all of it where there is one token.
        let distance = token.0.wrapping_sub(before) as u64;
        let part = if owners.len() == 1 { 1.0 } else { distance as f64 / 2f64.powi(64) };
        before = token.0;
        for at in natural_replicas(members, &owners, strategy, *token) {
            if let Some(owned) = owned.get_mut(at) {
                *owned += part;
            }
        }
    }
    owned
}
