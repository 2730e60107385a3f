//! The nodes of a ring and their tokens.

use super::replicas::natural_replicas;
use crate::endpoint::Endpoint;
use coordinator::{Node, Strategy};
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
}

/// Who has a token: the index of a member.
pub(super) type Owners = BTreeMap<Token, usize>;

impl Members {
    /// A ring of these nodes.
    pub fn new(members: Vec<Member>) -> Members {
        Members { members }
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

    /// Who has each token now.
    pub(super) fn owners(&self) -> Owners {
        let holding = self.members.iter().enumerate().filter(|(_, member)| member.holds());
        holding.flat_map(|(at, member)| member.tokens.iter().map(move |token| (*token, at))).collect()
    }
}
