//! Which replicas hold what, and how many of them must answer.

use crate::error::CoordinatorError;
use crate::replica::Replica;
use model::command::{Consistency, PartitionSelection};
use model::schema::{Replication, Schema};
use std::sync::Arc;

/// The replicas of one part of the ring.
#[derive(Clone, Debug)]
pub struct Placement {
    /// How the keyspace is replicated.
    pub replication: Replication,
    /// The replicas, closest first, dead ones included.
    pub replicas: Vec<Arc<dyn Replica>>,
    /// Data center of the coordinator.
    pub local_datacenter: Arc<str>,
}

/// A part of a selection that has the same replicas throughout.
#[derive(Clone, Debug)]
pub struct Part {
    /// The part.
    pub selection: PartitionSelection,
    /// Who holds it.
    pub placement: Placement,
}

/// The ring, as the coordinator sees it.
pub trait Topology: Send + Sync {
    /// The schema in force.
    fn schema(&self) -> Arc<Schema>;

    /// Splits a selection of partitions of `keyspace` into parts of the same replicas, in the order of the
    /// selection. `None` for an unknown keyspace.
    fn split(&self, keyspace: &str, selection: &PartitionSelection) -> Option<Vec<Part>>;
}

/// The ring of one node.
pub struct SingleNode {
    schema: Box<dyn Fn() -> Arc<Schema> + Send + Sync>,
    replica: Arc<dyn Replica>,
    datacenter: Arc<str>,
}

impl SingleNode {
    /// A ring whose only node is `replica`.
    pub fn new(
        replica: Arc<dyn Replica>,
        schema: impl Fn() -> Arc<Schema> + Send + Sync + 'static,
    ) -> SingleNode {
        let datacenter = replica.datacenter().into();
        SingleNode { schema: Box::new(schema), replica, datacenter }
    }
}

impl Topology for SingleNode {
    fn schema(&self) -> Arc<Schema> {
        (self.schema)()
    }

    fn split(&self, keyspace: &str, selection: &PartitionSelection) -> Option<Vec<Part>> {
        let replication = (self.schema)().keyspace(keyspace)?.replication.clone();
        // A keyspace that has no replicas in this data center has none at all.
        let holds = factor_in(&replication, &self.datacenter) > 0;
        let replicas = if holds { vec![Arc::clone(&self.replica)] } else { Vec::new() };
        let placement = Placement { replication, replicas, local_datacenter: Arc::clone(&self.datacenter) };
        Some(vec![Part { selection: selection.clone(), placement }])
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
    /// Replicas that must answer for `consistency`.
    pub fn block_for(&self, consistency: Consistency) -> u32 {
        let replication = &self.replication;
        let is_by_datacenter = replication.short_class() == "NetworkTopologyStrategy";
        match consistency {
            Consistency::Any | Consistency::One | Consistency::LocalOne => 1,
            Consistency::Two => 2,
            Consistency::Three => 3,
            Consistency::Quorum | Consistency::Serial => quorum(total_factor(replication)),
            Consistency::All => total_factor(replication),
            Consistency::LocalQuorum | Consistency::LocalSerial => {
                quorum(factor_in(replication, &self.local_datacenter))
            }
            Consistency::EachQuorum if is_by_datacenter => {
                replication.options.values().map(|f| quorum(parse_factor(f))).sum()
            }
            Consistency::EachQuorum => quorum(total_factor(replication)),
        }
    }

    /// The live replicas that count for `consistency`, closest first, and how many of them must answer.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`] when fewer are alive.
    pub fn candidates(
        &self,
        consistency: Consistency,
    ) -> Result<(Vec<Arc<dyn Replica>>, u32), CoordinatorError> {
        let required = self.block_for(consistency);
        let is_local = matches!(
            consistency,
            Consistency::LocalOne | Consistency::LocalQuorum | Consistency::LocalSerial
        );
        let alive: Vec<Arc<dyn Replica>> = self
            .replicas
            .iter()
            .filter(|r| r.is_alive() && (!is_local || r.datacenter() == &*self.local_datacenter))
            .cloned()
            .collect();
        if (alive.len() as u32) < required {
            return Err(CoordinatorError::Unavailable { consistency, required, alive: alive.len() as u32 });
        }
        Ok((alive, required))
    }
}
