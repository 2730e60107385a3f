//! Which replicas hold what, and how many of them must answer.

use crate::error::CoordinatorError;
use crate::replica::Replica;
use arc_swap::ArcSwapOption;
use foldhash::HashMap;
use model::DecoratedKey;
use model::command::{Consistency, PartitionSelection};
use model::schema::{Replication, Schema};
use smallvec::SmallVec;

use std::sync::Arc;

/// The replicas of one part of the ring. Made once for a version of the schema, and shared by the requests.
#[derive(Clone, Debug)]
pub struct Placement {
    replicas: Vec<Arc<dyn Replica>>,
    local_datacenter: Arc<str>,
    factors: Factors,
}

/// How many replicas a keyspace asks for.
#[derive(Clone, Copy, Debug)]
struct Factors {
    /// In all.
    total: u32,
    /// In the coordinator's data center.
    local: u32,
    /// The sum of the quorums of every data center.
    each_quorum: u32,
}

impl Factors {
    fn of(replication: &Replication, local_datacenter: &str) -> Factors {
        let total = total_factor(replication);
        let each_quorum = match replication.short_class() {
            "NetworkTopologyStrategy" => replication.options.values().map(|f| quorum(parse_factor(f))).sum(),
            _ => quorum(total),
        };
        Factors { total, local: factor_in(replication, local_datacenter), each_quorum }
    }
}

/// A part of a selection that has the same replicas throughout.
#[derive(Clone, Debug)]
pub struct Part {
    /// The part.
    pub selection: PartitionSelection,
    /// Who holds it.
    pub placement: Arc<Placement>,
}

/// Who holds a selection of partitions.
#[derive(Clone, Debug)]
pub enum Parts {
    /// The same replicas hold all of it.
    Whole(Arc<Placement>),
    /// Parts of different replicas, in the order of the selection.
    Several(Vec<Part>),
}

/// The ring, as the coordinator sees it.
pub trait Topology: Send + Sync {
    /// The schema in force.
    fn schema(&self) -> Arc<Schema>;

    /// Who holds a partition of `keyspace`. `None` for an unknown keyspace.
    fn placement(&self, keyspace: &str, key: &DecoratedKey) -> Option<Arc<Placement>>;

    /// Who holds the selected partitions of `keyspace`. `None` for an unknown keyspace.
    fn split(&self, keyspace: &str, selection: &PartitionSelection) -> Option<Parts>;
}

/// The ring of one node.
pub struct SingleNode {
    schema: Box<dyn Fn() -> Arc<Schema> + Send + Sync>,
    replica: Arc<dyn Replica>,
    datacenter: Arc<str>,
    known: ArcSwapOption<Known>,
}

/// The placements of all keyspaces of one version of the schema.
struct Known {
    schema: Arc<Schema>,
    by_keyspace: HashMap<String, Arc<Placement>>,
}

impl SingleNode {
    /// A ring whose only node is `replica`.
    pub fn new(
        replica: Arc<dyn Replica>,
        schema: impl Fn() -> Arc<Schema> + Send + Sync + 'static,
    ) -> SingleNode {
        let datacenter = replica.datacenter().into();
        SingleNode { schema: Box::new(schema), replica, datacenter, known: ArcSwapOption::empty() }
    }

    fn placement_of(&self, keyspace: &str) -> Option<Arc<Placement>> {
        let schema = (self.schema)();
        if let Some(known) = self.known.load().as_deref()
            && Arc::ptr_eq(&known.schema, &schema)
        {
            return known.by_keyspace.get(keyspace).cloned();
        }
        let by_keyspace: HashMap<String, Arc<Placement>> = schema
            .keyspaces
            .values()
            .map(|keyspace| (keyspace.name.clone(), Arc::new(self.place(&keyspace.replication))))
            .collect();
        let found = by_keyspace.get(keyspace).cloned();
        self.known.store(Some(Arc::new(Known { schema, by_keyspace })));
        found
    }

    fn place(&self, replication: &Replication) -> Placement {
        // A keyspace that has no replicas in this data center has none at all.
        let holds = factor_in(replication, &self.datacenter) > 0;
        let replicas = if holds { vec![Arc::clone(&self.replica)] } else { Vec::new() };
        Placement::new(replication, replicas, Arc::clone(&self.datacenter))
    }
}

impl Topology for SingleNode {
    fn schema(&self) -> Arc<Schema> {
        (self.schema)()
    }

    fn placement(&self, keyspace: &str, _: &DecoratedKey) -> Option<Arc<Placement>> {
        self.placement_of(keyspace)
    }

    fn split(&self, keyspace: &str, _: &PartitionSelection) -> Option<Parts> {
        self.placement_of(keyspace).map(Parts::Whole)
    }
}

/// Replicas that `replication` asks for in `datacenter`.
fn factor_in(replication: &Replication, datacenter: &str) -> u32 {
    match replication.short_class() {
        "LocalStrategy" => 1,
        "NetworkTopologyStrategy" => replication.options.get(datacenter).map_or(0, |f| parse_factor(f)),
        _ => replication.options.get("replication_factor").map_or(0, |f| parse_factor(f)),
    }
}

/// Replicas that `replication` asks for in all.
fn total_factor(replication: &Replication) -> u32 {
    match replication.short_class() {
        "LocalStrategy" => 1,
        "NetworkTopologyStrategy" => replication.options.values().map(|f| parse_factor(f)).sum(),
        _ => replication.options.get("replication_factor").map_or(0, |f| parse_factor(f)),
    }
}

/// `3`, or `3/1` with transient replicas, of which the full ones count here.
fn parse_factor(text: &str) -> u32 {
    text.split('/').next().and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

fn quorum(factor: u32) -> u32 {
    factor / 2 + 1
}

impl Placement {
    /// The placement of a keyspace that is replicated as `replication` says, on `replicas`: closest first, dead ones
    /// included.
    pub fn new(
        replication: &Replication,
        replicas: Vec<Arc<dyn Replica>>,
        local_datacenter: Arc<str>,
    ) -> Placement {
        let factors = Factors::of(replication, &local_datacenter);
        Placement { replicas, local_datacenter, factors }
    }

    /// All replicas, closest first, dead ones included.
    pub fn replicas(&self) -> &[Arc<dyn Replica>] {
        &self.replicas
    }

    /// Replicas that must answer for `consistency`.
    pub fn block_for(&self, consistency: Consistency) -> u32 {
        let Factors { total, local, each_quorum } = self.factors;
        match consistency {
            Consistency::Any | Consistency::One | Consistency::LocalOne => 1,
            Consistency::Two => 2,
            Consistency::Three => 3,
            Consistency::Quorum | Consistency::Serial => quorum(total),
            Consistency::All => total,
            Consistency::LocalQuorum | Consistency::LocalSerial => quorum(local),
            Consistency::EachQuorum => each_quorum,
        }
    }

    /// The live replicas that count for `consistency`, closest first, and how many of them must answer.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`] when fewer are alive.
    pub fn candidates(&self, consistency: Consistency) -> Result<(Candidates<'_>, u32), CoordinatorError> {
        let required = self.block_for(consistency);
        let is_local = matches!(
            consistency,
            Consistency::LocalOne | Consistency::LocalQuorum | Consistency::LocalSerial
        );
        let counts = |replica: &&Arc<dyn Replica>| {
            replica.is_alive() && (!is_local || replica.datacenter() == &*self.local_datacenter)
        };
        let alive: Candidates<'_> = self.replicas.iter().filter(counts).collect();
        if (alive.len() as u32) < required {
            return Err(CoordinatorError::Unavailable { consistency, required, alive: alive.len() as u32 });
        }
        Ok((alive, required))
    }
}

/// Replicas that may be asked.
pub type Candidates<'a> = SmallVec<[&'a Arc<dyn Replica>; 3]>;
