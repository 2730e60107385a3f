//! The nodes of a ring and their tokens.

use super::replicas::natural_replicas;
use crate::endpoint::Endpoint;
use coordinator::{DiskUsage, Node, Strategy};
use model::key::Token;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// Where a node is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It holds its part of the ring.
    Normal,
    /// It gets its part of the ring.
    Joining,
    /// It gets the part of another node, which is dead.
    Replacing(Uuid),
    /// It hands its part over.
    Leaving,
    /// It gets the part of these tokens, and hands its own over.
    Moving(Vec<Token>),
}

/// A node of the ring.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its address.
    pub endpoint: Endpoint,
    /// The node, as the coordinator asks it.
    pub node: Arc<Node>,
    /// Its tokens; those of a joining node are to be its own.
    pub tokens: Vec<Token>,
    /// Where it is in its life.
    pub phase: Phase,
    /// Number of its last start; 0 as long as it was not heard of.
    pub generation: i32,
}

impl Member {
    /// Whether it holds a part of the ring now.
    pub fn holds(&self) -> bool {
        !matches!(self.phase, Phase::Joining | Phase::Replacing(_))
    }
}

/// All nodes of the ring.
#[derive(Clone, Debug, Default)]
pub struct Members {
    members: Vec<Member>,
    disk_usage: DiskUsage,
}

/// Who has a token: the index of a member.
pub(super) type Owners = BTreeMap<Token, usize>;

impl Members {
    /// A ring of these nodes.
    pub fn new(members: Vec<Member>) -> Members {
        let disk_usage = members.iter().map(|member| member.node.disk_usage()).max().unwrap_or_default();
        Members { members, disk_usage }
    }

    /// How full the fullest disks were when this was made.
    pub(super) fn disk_usage(&self) -> DiskUsage {
        self.disk_usage
    }

    /// The nodes.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// The node with this host id.
    pub fn by_id(&self, id: Uuid) -> Option<&Member> {
        self.members.iter().find(|member| member.node.id == id)
    }

    /// The node with this address.
    pub fn by_endpoint(&self, endpoint: &Endpoint) -> Option<&Member> {
        self.members.iter().find(|member| member.endpoint == *endpoint)
    }

    /// Who holds a token, in the order of the ring. Nobody with `LocalStrategy`.
    pub fn replicas(&self, strategy: &Strategy, token: Token) -> Vec<&Member> {
        self.named(natural_replicas(self, &self.owners(), strategy, token))
    }

    /// The ranges between two tokens that follow each other: the token before, the last token of the range,
    /// and who holds it. The first range is the one that goes around the end of the ring.
    pub fn ranges(&self, strategy: &Strategy) -> Vec<(Token, Token, Vec<&Member>)> {
        let owners = self.owners();
        let Some((last, _)) = owners.last_key_value() else { return Vec::new() };
        let starts = std::iter::once(*last).chain(owners.keys().copied());
        let ranges = starts.zip(owners.keys().copied());
        ranges
            .map(|(start, end)| (start, end, self.named(natural_replicas(self, &owners, strategy, end))))
            .collect()
    }

    fn named(&self, found: Vec<usize>) -> Vec<&Member> {
        found.into_iter().filter_map(|at| self.get(at)).collect()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Member> {
        self.members.get(index)
    }

    pub(super) fn index_of(&self, id: Uuid) -> Option<usize> {
        self.members.iter().position(|member| member.node.id == id)
    }

    /// Who has each token now. Of several that say so it is who started last
    /// (`StorageService.handleStateNormal` of Cassandra 4.0).
    pub(super) fn owners(&self) -> Owners {
        let mut holding: Vec<usize> = (0..self.members.len()).collect();
        holding.retain(|at| self.get(*at).is_some_and(Member::holds));
        holding.sort_by_key(|at| self.get(*at).map(|member| (member.generation, member.endpoint)));
        let members = holding.into_iter().filter_map(|at| Some((at, self.get(at)?)));
        members.flat_map(|(at, member)| member.tokens.iter().map(move |token| (*token, at))).collect()
    }

    /// Nodes whose place another one has taken, which is no node of the ring any more, and that other one:
    /// a node that started later has the same id, for it came back under another address, or has all its
    /// tokens. The id of the node `own` is never another's, and it is never out of its place.
    pub fn superseded(&self, own: &Endpoint) -> Vec<(&Member, &Member)> {
        let owners = self.owners();
        let holding = || self.members.iter().filter(|member| member.holds());
        let others = holding().filter(|member| member.endpoint != *own);
        let by = |old: &Member| {
            let is_later = |new: &&Member| new.generation > old.generation;
            let is_same = |new: &&Member| new.node.id == old.node.id && new.endpoint != old.endpoint;
            let by_id = holding().find(|new| is_same(new) && (new.endpoint == *own || is_later(new)));
            by_id.or_else(|| {
                let mut now = old.tokens.iter().map(|token| self.get(*owners.get(token)?));
                let first = now.next()??;
                let is_out = |new: &Member| new.endpoint != old.endpoint && is_later(&new);
                (is_out(first) && now.all(|new| new.is_some_and(is_out))).then_some(first)
            })
        };
        others.filter_map(|old| Some((old, by(old)?))).collect()
    }
}
