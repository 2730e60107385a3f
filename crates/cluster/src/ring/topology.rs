//! The ring as the coordinator asks for it.
//!
//! What a request needs is computed when the members or the schema change, and then just looked up. Segments
//! with the same replicas share one [`Placement`].

use super::members::{Members, Owners};
use super::pending::Futures;
use super::replicas::natural_replicas;
use arc_swap::{ArcSwap, ArcSwapOption};
use coordinator::{DiskUsage, Keepers, Node, Part, Parts, Placement, Strategy, Topology};
use env::random::Random;
use foldhash::HashMap;
use model::DecoratedKey;
use model::command::PartitionSelection;
use model::key::{KeyBound, KeyRange, Token};
use model::schema::Schema;
use std::sync::Arc;

/// The ring that this node is a member of.
pub struct RingTopology {
    schema: Box<dyn Fn() -> Arc<Schema> + Send + Sync>,
    this: Arc<Node>,
    members: ArcSwap<Members>,
    known: ArcSwapOption<Known>,
}

/// All keyspaces of one version of the schema, on one version of the ring.
struct Known {
    schema: Arc<Schema>,
    members: Arc<Members>,
    by_keyspace: HashMap<String, Segments>,
}

/// Who holds a keyspace.
struct Segments {
    /// Last tokens of the segments, ascending.
    ends: Vec<Token>,
    /// Of each segment. What is behind the last one is held as the first.
    placements: Vec<Arc<Placement>>,
}

impl Segments {
    /// Everything is held alike.
    fn whole(placement: Arc<Placement>) -> Segments {
        Segments { ends: Vec::new(), placements: vec![placement] }
    }

    fn of(&self, token: Token) -> Option<&Arc<Placement>> {
        let at = self.ends.partition_point(|end| *end < token);
        self.placements.get(at).or_else(|| self.placements.first())
    }
}

impl RingTopology {
    /// A ring with nobody in it yet. `this` is the node itself; `schema` gives the schema in force.
    pub fn new(this: Arc<Node>, schema: impl Fn() -> Arc<Schema> + Send + Sync + 'static) -> RingTopology {
        let (members, known) = (ArcSwap::default(), ArcSwapOption::empty());
        RingTopology { schema: Box::new(schema), this, members, known }
    }

    /// This node.
    pub fn this(&self) -> &Arc<Node> {
        &self.this
    }

    /// Who is in the ring.
    pub fn members(&self) -> Arc<Members> {
        self.members.load_full()
    }

    /// Takes note of who is in the ring now.
    pub fn set_members(&self, members: Members) {
        self.members.store(Arc::new(members));
    }

    fn with<T>(&self, keyspace: &str, look_up: impl FnOnce(&Segments) -> T) -> Option<T> {
        let (schema, members) = ((self.schema)(), self.members.load());
        if let Some(known) = self.known.load().as_deref()
            && Arc::ptr_eq(&known.schema, &schema)
            && Arc::ptr_eq(&known.members, &members)
        {
            return known.by_keyspace.get(keyspace).map(look_up);
        }
        let members = Arc::clone(&members);
        let known = Arc::new(Known::new(schema, members, &self.this));
        let found = known.by_keyspace.get(keyspace).map(look_up);
        self.known.store(Some(known));
        found
    }
}

impl Known {
    fn new(schema: Arc<Schema>, members: Arc<Members>, this: &Arc<Node>) -> Known {
        let (owners, futures) = (members.owners(), Futures::of(&members));
        let mut ends: Vec<Token> = owners.keys().copied().chain(futures.tokens()).collect();
        ends.sort_unstable();
        ends.dedup();
        let place = Place { members: &members, owners: &owners, futures: &futures, this };
        let by_keyspace = schema
            .keyspaces
            .values()
            // A transient replica that is taken for a full one lacks rows.
            .filter(|keyspace| !Strategy::has_transient(&keyspace.replication))
            .map(|keyspace| {
                (keyspace.name.clone(), place.segments(&ends, Strategy::of(&keyspace.replication)))
            })
            .collect();
        Known { schema, members, by_keyspace }
    }
}

/// What placements are made of.
struct Place<'a> {
    members: &'a Members,
    owners: &'a Owners,
    futures: &'a Futures,
    this: &'a Arc<Node>,
}

impl Place<'_> {
    fn segments(&self, ends: &[Token], strategy: Strategy) -> Segments {
        let datacenter = &self.this.datacenter;
        if strategy == Strategy::Local {
            let own = vec![Arc::clone(self.this)];
            let placement = Placement::new(strategy, own, Vec::new(), Arc::clone(datacenter));
            return Segments::whole(Arc::new(placement));
        }
        let has_others = self.members.iter().any(|member| member.node.id != self.this.id);
        let mut shared: HashMap<(Vec<usize>, Vec<usize>), Arc<Placement>> = HashMap::default();
        let mut placement = |token: Token| {
            let natural = natural_replicas(self.members, self.owners, &strategy, token);
            let pending = self.futures.pending(self.members, &strategy, token, &natural);
            let made = shared.entry((natural, pending)).or_insert_with_key(|(natural, pending)| {
                let nodes = (self.closest_first(natural), self.closest_first(pending));
                let placement = Placement::new(strategy.clone(), nodes.0, nodes.1, Arc::clone(datacenter));
                Arc::new(if has_others { placement.with_other_coordinators() } else { placement })
            });
            Arc::clone(made)
        };
        match ends {
            [] => Segments::whole(placement(Token::MIN)),
            ends => {
                Segments { ends: ends.to_vec(), placements: ends.iter().map(|end| placement(*end)).collect() }
            }
        }
    }

    /// This node, then those of its rack, then those of its data center, otherwise as the ring has them.
    fn closest_first(&self, replicas: &[usize]) -> Vec<Arc<Node>> {
        let found = replicas.iter().filter_map(|at| self.members.get(*at));
        let mut nodes: Vec<Arc<Node>> = found.map(|member| Arc::clone(&member.node)).collect();
        nodes.sort_by_key(|node| {
            let is_near = node.datacenter == self.this.datacenter;
            (node.id != self.this.id, !is_near, !is_near || node.rack != self.this.rack)
        });
        nodes
    }
}

impl Topology for RingTopology {
    fn schema(&self) -> Arc<Schema> {
        (self.schema)()
    }

    fn placement(&self, keyspace: &str, key: &DecoratedKey) -> Option<Arc<Placement>> {
        self.with(keyspace, |segments| segments.of(key.token).cloned())?
    }

    fn split(&self, keyspace: &str, selection: &PartitionSelection) -> Option<Parts> {
        self.with(keyspace, |segments| segments.split(selection))
    }

    fn datacenters(&self) -> Vec<(Arc<str>, u32)> {
        let members = self.members.load();
        let mut found: Vec<(Arc<str>, u32)> = vec![(Arc::clone(&self.this.datacenter), 0)];
        for member in members.iter().filter(|member| member.holds()) {
            match found.iter_mut().find(|(name, _)| *name == member.node.datacenter) {
                Some((_, nodes)) => *nodes += 1,
                None => found.push((Arc::clone(&member.node.datacenter), 1)),
            }
        }
        found
    }

    fn disk_usage(&self) -> DiskUsage {
        self.members.load().disk_usage().max(self.this.disk_usage())
    }

    /// Two live nodes of this data center, of two racks other than this node's where that is possible
    /// (`ReplicaPlans.filterBatchlogEndpoints` of Cassandra 4.0).
    fn batch_keepers(&self, random: &Random) -> Keepers {
        let members = self.members.load();
        let holding = members.iter().filter(|member| member.holds()).map(|member| &member.node);
        let mut others: Vec<&Arc<Node>> = holding
            .filter(|node| node.id != self.this.id && node.datacenter == self.this.datacenter)
            .collect();
        if others.is_empty() {
            return Keepers::ThisNode;
        }
        others.retain(|node| node.is_alive());
        shuffle(&mut others, random);
        if others.len() > 2 {
            let is_elsewhere = |node: &&Arc<Node>| node.rack != self.this.rack;
            if others.iter().filter(|node| is_elsewhere(node)).count() >= 2 {
                others.retain(is_elsewhere);
            }
            // Each rack is as likely as another, however many nodes it has.
            let mut racks: Vec<&Arc<str>> = others.iter().map(|node| &node.rack).collect();
            racks.sort_unstable();
            racks.dedup();
            shuffle(&mut racks, random);
            if racks.len() > 1 {
                let one_of = |rack: &&Arc<str>| others.iter().find(|node| node.rack == **rack).copied();
                others = racks.iter().take(2).filter_map(one_of).collect();
            }
            others.truncate(2);
        }
        Keepers::Others(others.into_iter().map(Arc::clone).collect())
    }
}

/// Puts them in an order that is drawn.
fn shuffle<T>(all: &mut [T], random: &Random) {
    for end in (1..all.len()).rev() {
        all.swap(end, random.below(end as u64 + 1) as usize);
    }
}

impl Segments {
    fn split(&self, selection: &PartitionSelection) -> Parts {
        let mut parts = match selection {
            PartitionSelection::Keys(keys) => self.of_keys(keys),
            PartitionSelection::Range(range) => self.of_range(range),
        };
        match parts.len() {
            1 => Parts::Whole(parts.remove(0).placement),
            _ => Parts::Several(parts),
        }
    }

    /// What several replicas tell of some keys is merged in the order of the ring, so a part ends where the
    /// order of the selection is another one.
    fn of_keys(&self, keys: &[DecoratedKey]) -> Vec<Part> {
        let mut parts: Vec<(Vec<DecoratedKey>, &Arc<Placement>)> = Vec::new();
        for key in keys {
            let Some(placement) = self.of(key.token) else { continue };
            match parts.last_mut() {
                Some((together, last))
                    if Arc::ptr_eq(last, placement) && together.last().is_some_and(|before| before < key) =>
                {
                    together.push(key.clone());
                }
                _ => parts.push((vec![key.clone()], placement)),
            }
        }
        let part = |(keys, placement)| Part {
            selection: PartitionSelection::Keys(keys),
            placement: Arc::clone(placement),
        };
        parts.into_iter().map(part).collect()
    }

    /// Neighbours that are of the same nodes are one part, and asked for as one.
    fn of_range(&self, range: &KeyRange) -> Vec<Part> {
        let behind_start = match &range.start {
            KeyBound::Unbounded => Token::MIN,
            KeyBound::Token { token, .. } => *token,
            KeyBound::Key { key, .. } => key.token,
        };
        // A segment that ends right where the range starts is asked in vain, but is not left out. One that
        // ends at the smallest token is: it holds nothing, and to other nodes that is the end of the ring.
        let first = self.ends.partition_point(|end| *end < behind_start || *end == Token::MIN);
        let mut parts: Vec<Part> = Vec::new();
        let mut start = range.start.clone();
        for at in first..=self.ends.len() {
            let Some(placement) = self.placements.get(at).or_else(|| self.placements.first()) else { break };
            let end = self.ends.get(at).map(|token| KeyBound::Token { token: *token, inclusive: true });
            let is_last = end.as_ref().is_none_or(|end| ends_at_or_before(&range.end, end));
            let end = if is_last { range.end.clone() } else { end.unwrap_or(KeyBound::Unbounded) };
            let next = match &end {
                KeyBound::Token { token, .. } => KeyBound::Token { token: *token, inclusive: false },
                other => other.clone(),
            };
            match parts.last_mut() {
                Some(Part { selection: PartitionSelection::Range(together), placement: last })
                    if last.has_nodes_of(placement) =>
                {
                    together.end = end;
                }
                _ => parts.push(Part {
                    selection: PartitionSelection::Range(KeyRange { start: start.clone(), end }),
                    placement: Arc::clone(placement),
                }),
            }
            if is_last {
                break;
            }
            start = next;
        }
        parts
    }
}

/// Whether a range that ends at `bound` has nothing behind `segment_end`, which is that of a whole token.
fn ends_at_or_before(bound: &KeyBound, segment_end: &KeyBound) -> bool {
    let KeyBound::Token { token: last, .. } = segment_end else { return true };
    match bound {
        KeyBound::Unbounded => false,
        KeyBound::Token { token, .. } => token <= last,
        KeyBound::Key { key, .. } => key.token <= *last,
    }
}
