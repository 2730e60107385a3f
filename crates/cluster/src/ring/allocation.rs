//! Which tokens a new node takes, so that all nodes of its data center hold much the same
//! (`allocate_tokens_for_local_replication_factor`).
//!
//! 1. [`Units`] says whose shares are to be alike: those of all nodes of the data center, or, where there are
//!    as many racks as replicas, those of the nodes of the rack, each of which then has one replica.
//! 2. While there are fewer nodes than replicas, each holds everything, and the new node only halves what is
//!    longest, so that later ones find ranges of one size.
//! 3. Then the node takes one token after the other: each is tried in the largest ranges, and stays where the
//!    shares of all nodes come closest to each other. At the end it looks for a better place of each.
//!
//! Which units there are, and the words of refusals, are those of `TokenAllocation` of Cassandra 4.0 to 5.0
//! (CASSANDRA-7032, CASSANDRA-15600). The search is another one: the same goal, and as even a ring.

use env::random::Random;
use std::collections::{BTreeMap, BTreeSet};

/// Ranges in which a token is tried; in large rings not all of them.
const RANGES_TRIED: usize = 128;
/// Where in a range a token is tried, in sixteenths of its length.
const PLACES: [u64; 5] = [2, 5, 8, 11, 14];
/// How often a node looks for a better place of each of its tokens.
const REFINEMENTS: usize = 2;
/// Where the first nodes split the longest range: their parts are of many sizes, as later nodes need them.
const SPLIT: (f64, f64) = (1.0 - std::f64::consts::FRAC_1_SQRT_2, 0.075);

/// A node of the data center, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Its rack.
    pub rack: String,
    /// Its tokens.
    pub tokens: Vec<i64>,
}

/// Why no tokens can be allocated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "Token allocation failed: the number of racks {racks} in datacenter {datacenter} is lower than its replication factor {replicas}."
)]
pub struct AllocationError {
    /// Racks with nodes.
    pub racks: usize,
    /// The data center.
    pub datacenter: String,
    /// The replication factor.
    pub replicas: usize,
}

/// Whose shares are to be alike.
#[derive(Debug)]
struct Units {
    /// Who has each token: its node.
    owners: BTreeMap<i64, usize>,
    /// The group of each node: no two replicas are in one. The last is the new node.
    groups: Vec<usize>,
    replicas: usize,
}

/// Tokens for a new node in `rack` of `datacenter`, in their order. `neighbours` are the nodes that are in
/// the data center already, `replicas` is how many of its nodes are to hold each row.
///
/// # Errors
/// [`AllocationError`], when no choice makes the shares alike.
pub fn allocate(
    neighbours: &[Neighbour],
    datacenter: &str,
    rack: &str,
    replicas: usize,
    count: usize,
    random: &Random,
) -> Result<Vec<i64>, AllocationError> {
    let mut units = Units::of(neighbours, datacenter, rack, replicas)?;
    let new = units.groups.len() - 1;
    let groups: BTreeSet<usize> = units.groups.iter().copied().collect();
    let splits = groups.len() <= units.replicas || units.owners.is_empty();
    let mut tokens = Vec::with_capacity(count);
    while tokens.len() < count {
        let token = if splits { units.split(random) } else { units.best(new, count - tokens.len(), random) };
        // Only a ring without room has none: then any will do.
        let token = token.unwrap_or_else(|| any(random));
        if units.owners.contains_key(&token) {
            continue;
        }
        units.owners.insert(token, new);
        tokens.push(token);
    }
    // Each once more, now that the others are known.
    for _ in 0..if splits { 0 } else { REFINEMENTS } {
        for token in &mut tokens {
            units.owners.remove(token);
            *token = units.best(new, 1, random).unwrap_or(*token);
            units.owners.insert(*token, new);
        }
    }
    tokens.sort_unstable();
    Ok(tokens)
}

/// A token drawn at random. The smallest number is none.
pub fn any(random: &Random) -> i64 {
    (random.u64() as i64).max(i64::MIN + 1)
}

impl Units {
    fn of(
        neighbours: &[Neighbour],
        datacenter: &str,
        rack: &str,
        replicas: usize,
    ) -> Result<Units, AllocationError> {
        let racks: BTreeSet<&str> = neighbours.iter().map(|node| node.rack.as_str()).collect();
        // A rack without a node yet is a ring of its own.
        let count = if racks.contains(rack) { racks.len() } else { 1 };
        let (only_rack, by_rack, replicas) = match count {
            _ if replicas <= 1 => (false, false, 1),
            racks if racks == replicas => (true, false, 1),
            racks if racks > replicas => (false, true, replicas),
            1 => (false, false, replicas),
            racks => {
                let datacenter = datacenter.to_owned();
                return Err(AllocationError { racks, datacenter, replicas });
            }
        };
        let counted: Vec<&Neighbour> =
            neighbours.iter().filter(|node| !only_rack || node.rack == rack).collect();
        let names: Vec<&str> = racks.into_iter().collect();
        let of_rack = |name: &str| names.iter().position(|rack| *rack == name).unwrap_or(names.len());
        let all = counted.iter().map(|node| node.rack.as_str()).chain([rack]).enumerate();
        let groups = all.map(|(at, name)| if by_rack { of_rack(name) } else { at }).collect();
        let owned = counted.iter().enumerate();
        let owners = owned.flat_map(|(at, node)| node.tokens.iter().map(move |token| (*token, at))).collect();
        Ok(Units { owners, groups, replicas })
    }

    /// A token in the longest range; any, if there is no range.
    fn split(&self, random: &Random) -> Option<i64> {
        let (start, bytes) = self.ranges().into_iter().next()?;
        let part = SPLIT.0 + SPLIT.1 * random.unit();
        place(start, (bytes as f64 * part) as u64)
    }

    /// The token that brings the shares closest to each other, or one right beside it: nodes that choose at
    /// the same time are not to choose the same.
    fn best(&self, new: usize, left: usize, random: &Random) -> Option<i64> {
        let target = self.replicas as f64 / self.groups.len() as f64;
        let mut best: Option<(f64, i64, u64)> = None;
        let mut ring: Vec<(i64, usize)> = self.owners.iter().map(|(token, node)| (*token, *node)).collect();
        let own = self.shares(&ring).get(new).copied().unwrap_or_default();
        // What each of the tokens that are left has to bring, of the ring's 2^64.
        let wanted = (target - own).max(0.0) / left as f64 / self.replicas as f64 * 2f64.powi(64);
        for (start, length) in self.ranges().into_iter().take(RANGES_TRIED) {
            let places = PLACES.iter().map(|sixteenth| length / 16 * sixteenth);
            let whole = (wanted < length as f64).then_some(wanted as u64);
            for token in places.chain(whole).filter_map(|offset| place(start, offset)) {
                if self.owners.contains_key(&token) {
                    continue;
                }
                let at = ring.partition_point(|(other, _)| *other < token);
                ring.insert(at, (token, new));
                let shares = self.shares(&ring);
                ring.remove(at);
                let others = shares.iter().enumerate().filter(|(node, _)| *node != new);
                // Of the new node only too much is bad, as long as it gets more with its next tokens.
                let own = shares.get(new).copied().unwrap_or_default() - target;
                let own = if left > 1 { own.max(0.0) } else { own };
                let uneven = others.map(|(_, share)| (share - target).powi(2)).sum::<f64>() + own.powi(2);
                if best.is_none_or(|(least, ..)| uneven < least) {
                    best = Some((uneven, token, length));
                }
            }
        }
        best.map(|(_, token, length)| place(token, random.below(length / 256 + 1)).unwrap_or(token))
    }

    /// The ranges, each by the token before it and its length, the longest first.
    fn ranges(&self) -> Vec<(i64, u64)> {
        let Some((last, _)) = self.owners.last_key_value() else { return Vec::new() };
        let starts = std::iter::once(*last).chain(self.owners.keys().copied());
        let mut ranges: Vec<_> =
            starts.zip(self.owners.keys()).map(|(start, end)| (start, length(start, *end))).collect();
        ranges.sort_by_key(|(start, length)| (std::cmp::Reverse(*length), *start));
        ranges
    }

    /// The part of the ring that each node holds, where these are the tokens in their order.
    fn shares(&self, ring: &[(i64, usize)]) -> Vec<f64> {
        let mut shares = vec![0.0; self.groups.len()];
        let Some(mut before) = ring.last().map(|(token, _)| *token) else { return shares };
        let mut holders: Vec<usize> = Vec::with_capacity(self.replicas);
        for (at, (token, _)) in ring.iter().enumerate() {
            holders.clear();
            let part = length(before, *token) as f64 / 2f64.powi(64);
            before = *token;
            for (_, node) in ring.iter().cycle().skip(at).take(ring.len()) {
                let Some(&group) = self.groups.get(*node) else { continue };
                if holders.contains(&group) {
                    continue;
                }
                holders.push(group);
                if let Some(share) = shares.get_mut(*node) {
                    *share += part;
                }
                if holders.len() == self.replicas {
                    break;
                }
            }
        }
        shares
    }
}

/// The number of tokens behind `start` up to `end`; between a token and itself lies the whole ring.
fn length(start: i64, end: i64) -> u64 {
    match end.wrapping_sub(start) as u64 {
        0 => u64::MAX,
        length => length,
    }
}

/// The token so far behind another one, unless it is that one or the smallest number.
fn place(start: i64, offset: u64) -> Option<i64> {
    let token = start.wrapping_add(offset as i64);
    (offset > 0 && token != i64::MIN).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest and the least share over the mean, when nodes come one after the other.
    fn grown(racks: &[&str], replicas: usize, count: usize) -> (f64, f64) {
        let (random, mut nodes) = (Random::from_seed(7), Vec::<Neighbour>::new());
        for rack in racks {
            let tokens = allocate(&nodes, "dc", rack, replicas, count, &random).unwrap();
            assert_eq!(tokens.len(), count);
            assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "in order, none twice");
            nodes.push(Neighbour { rack: (*rack).to_owned(), tokens });
        }
        // What they hold of a keyspace: replicas in different racks, as far as there are so many.
        let mut units = Units::of(&nodes, "dc", racks[0], 1).unwrap();
        units.groups.pop();
        units.replicas = replicas;
        let names: BTreeSet<&str> = racks.iter().copied().collect();
        if names.len() >= replicas {
            units.groups =
                racks.iter().map(|rack| names.iter().position(|name| name == rack).unwrap()).collect();
        }
        let ring: Vec<(i64, usize)> = units.owners.iter().map(|(token, node)| (*token, *node)).collect();
        let shares = units.shares(&ring);
        let mean = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!(
            (mean * shares.len() as f64 - replicas as f64).abs() < 1e-6,
            "each row is held by {replicas}"
        );
        let most = shares.iter().copied().fold(0.0, f64::max);
        let least = shares.iter().copied().fold(f64::MAX, f64::min);
        (least / mean, most / mean)
    }

    #[test]
    fn nodes_of_one_rack_hold_much_the_same() {
        for (nodes, replicas) in [(3, 3), (4, 3), (8, 3), (5, 2), (2, 1), (3, 1), (7, 1)] {
            let (least, most) = grown(&vec!["r"; nodes], replicas, 16);
            assert!(least > 0.85 && most < 1.15, "{nodes} nodes, {replicas} replicas: {least} to {most}");
        }
    }

    #[test]
    fn nodes_of_as_many_racks_as_replicas_hold_much_the_same() {
        let racks = ["a", "b", "c"].repeat(3);
        let (least, most) = grown(&racks, 3, 16);
        assert!(least > 0.85 && most < 1.15, "{least} to {most}");
    }

    #[test]
    fn fewer_racks_than_replicas_are_refused() {
        let node = |rack: &str| Neighbour { rack: rack.to_owned(), tokens: vec![rack.len() as i64] };
        let error = allocate(&[node("a"), node("bb")], "dc1", "a", 3, 4, &Random::from_seed(1)).unwrap_err();
        let words = "Token allocation failed: the number of racks 2 in datacenter dc1 is lower than its replication factor 3.";
        assert_eq!(error.to_string(), words);
    }

    #[test]
    fn the_first_node_splits_the_whole_ring() {
        let tokens = allocate(&[], "dc", "r", 3, 8, &Random::from_seed(3)).unwrap();
        let mut lengths: Vec<u64> =
            tokens.iter().zip(tokens.iter().cycle().skip(1)).map(|(a, b)| length(*a, *b)).collect();
        lengths.sort_unstable();
        assert!(lengths[7] / lengths[0] < 8, "{lengths:?}");
    }
}
