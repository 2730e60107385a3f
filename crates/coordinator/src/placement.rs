//! Who holds a part of the ring, and how many of them must answer.
//!
//! A read asks as many live replicas as must answer, those first that are near. A write goes to all replicas,
//! in every data center; which of them are waited for says the consistency level. A replica that is not alive
//! is part of the plan, too: somebody has to keep the write for it.

use crate::error::CoordinatorError;
use crate::strategy::{Required, Strategy};
use crate::topology::{DiskUsage, Node};
use model::Consistency;
use smallvec::SmallVec;
use std::sync::Arc;

/// The replicas of one part of the ring. Made once for a version of the schema, and shared by the requests.
#[derive(Clone, Debug)]
pub struct Placement {
    replicas: Vec<Arc<Node>>,
    pending: Vec<Arc<Node>>,
    strategy: Strategy,
    local_datacenter: Arc<str>,
    /// The levels for which one replica that is near has to answer, a bit each.
    of_one: u16,
    /// Whether this node is the only one that coordinates requests.
    is_coordinated_here: bool,
}

/// Replicas that may be asked, in the order in which they are.
pub type Candidates<'a> = SmallVec<[&'a Arc<Node>; 3]>;

/// How a write is carried out.
#[derive(Debug)]
pub struct WritePlan<'a> {
    /// Everybody who shall have it, dead or alive.
    pub targets: SmallVec<[&'a Arc<Node>; 3]>,
    /// Who is waited for.
    pub required: Required,
    /// Whether a hint counts as an acknowledgement: the level is ANY.
    pub counts_hints: bool,
}

impl Placement {
    /// `replicas` hold a part of the ring, or what is replicated as `strategy` says; `pending` are about to.
    /// Both closest first, dead ones included.
    pub fn new(
        strategy: Strategy,
        replicas: Vec<Arc<Node>>,
        pending: Vec<Arc<Node>>,
        local_datacenter: Arc<str>,
    ) -> Placement {
        let is_of_one = |level: &Consistency| strategy.required(*level, &local_datacenter).count() == 1;
        let of_one = Consistency::ALL_LEVELS.iter().filter(|level| is_of_one(level));
        let of_one = of_one.fold(0, |bits, level| bits | 1 << *level as u16);
        Placement { replicas, pending, strategy, local_datacenter, of_one, is_coordinated_here: true }
    }

    /// The same, where other nodes coordinate requests, too. Conditional writes of a partition that one node
    /// holds are decided in rounds then, and no serial read goes past those.
    pub fn with_other_coordinators(mut self) -> Placement {
        self.is_coordinated_here = false;
        self.of_one &= !(1 << Consistency::Serial as u16 | 1 << Consistency::LocalSerial as u16);
        self
    }

    /// All replicas, closest first, dead ones included.
    pub fn replicas(&self) -> &[Arc<Node>] {
        &self.replicas
    }

    /// How full the fullest disks are that a write goes to.
    pub(crate) fn disk_usage(&self) -> DiskUsage {
        let nodes = self.replicas.iter().chain(&self.pending);
        nodes.map(|node| node.disk_usage()).max().unwrap_or_default()
    }

    /// Whether the same nodes hold, and are about to hold, another part, in whatever order they are asked.
    pub fn has_nodes_of(&self, other: &Placement) -> bool {
        let same = |these: &[Arc<Node>], those: &[Arc<Node>]| {
            these.len() == those.len()
                && these.iter().all(|node| those.iter().any(|other| other.id == node.id))
        };
        same(&self.replicas, &other.replicas) && same(&self.pending, &other.pending)
    }

    /// The data center of this node.
    pub(crate) fn local_datacenter(&self) -> &str {
        &self.local_datacenter
    }

    /// The closest replica, where it alone answers a read. Costs next to nothing.
    #[inline]
    pub(crate) fn one_that_answers(&self, consistency: Consistency) -> Option<&Arc<Node>> {
        let is_of_one = self.of_one & 1 << consistency as u16 != 0;
        self.replicas
            .first()
            .filter(|node| is_of_one && node.is_alive() && node.datacenter == self.local_datacenter)
    }

    /// The only replica that there is, where it alone is waited for and alive. Costs next to nothing.
    #[inline]
    pub(crate) fn only_one(&self, consistency: Consistency) -> Option<&Arc<Node>> {
        let is_alone = self.replicas.len() == 1 && self.pending.is_empty();
        if is_alone { self.one_that_answers(consistency) } else { None }
    }

    /// Whether conditional writes are this node's alone: nobody else holds the part, or is asked for it.
    pub(crate) fn is_decided_here(&self) -> bool {
        matches!(self.replicas.as_slice(), [only] if only.replica.as_local().is_some())
            && self.pending.is_empty()
            && self.is_coordinated_here
    }

    /// Fails where the replication does not tell data centers apart, in Cassandra's words.
    pub(crate) fn check_datacenters(&self, consistency: Consistency) -> Result<(), CoordinatorError> {
        let strategy = match self.strategy {
            Strategy::NetworkTopology(_) => return Ok(()),
            Strategy::Simple(_) => "SimpleStrategy",
            Strategy::Local => "LocalStrategy",
        };
        Err(CoordinatorError::Invalid(format!(
            "consistency level {} not compatible with replication strategy (org.apache.cassandra.locator.{strategy})",
            consistency.name()
        )))
    }

    /// How many replicas must answer.
    pub(crate) fn required(&self, consistency: Consistency) -> Required {
        self.strategy.required(consistency, &self.local_datacenter)
    }

    /// The live replicas that may answer a read, closest first, and how many of them must.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`] when fewer are alive.
    pub fn for_read(&self, consistency: Consistency) -> Result<(Candidates<'_>, Required), CoordinatorError> {
        let required = self.strategy.required(consistency, &self.local_datacenter);
        let counts = |node: &&Arc<Node>| node.is_alive() && required.counts(&node.datacenter);
        let alive: Candidates<'_> = self.replicas.iter().filter(counts).collect();
        check(consistency, &required, alive.iter().copied())?;
        Ok((alive, required))
    }

    /// Who gets a write, and who is waited for. A node that is about to hold the part is waited for besides.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`] when too few are alive. With ANY that shows when hints are kept.
    pub fn for_write(&self, consistency: Consistency) -> Result<WritePlan<'_>, CoordinatorError> {
        let mut required = self.strategy.required(consistency, &self.local_datacenter);
        let targets: SmallVec<[&Arc<Node>; 3]> = self.replicas.iter().chain(&self.pending).collect();
        for node in &self.pending {
            match &mut required {
                Required::Anywhere(count) => *count += 1,
                Required::In(local, count) if *local == node.datacenter => *count += 1,
                Required::In(..) => {}
                Required::Each(counts) => {
                    counts.iter_mut().filter(|(name, _)| *name == node.datacenter).for_each(|(_, n)| *n += 1);
                }
            }
        }
        let counts_hints = consistency == Consistency::Any && !targets.is_empty();
        if !counts_hints {
            check(consistency, &required, targets.iter().copied().filter(|node| node.is_alive()))?;
        }
        Ok(WritePlan { targets, required, counts_hints })
    }
}

/// Whether enough are alive.
fn check<'a>(
    consistency: Consistency,
    required: &Required,
    alive: impl Iterator<Item = &'a Arc<Node>> + Clone,
) -> Result<(), CoordinatorError> {
    let count_in = |name: &str| alive.clone().filter(|node| &*node.datacenter == name).count() as u32;
    let (required, alive) = match required {
        Required::Anywhere(count) => (*count, alive.clone().count() as u32),
        Required::In(local, count) => (*count, count_in(local)),
        // The first data center that lacks some is told of.
        Required::Each(counts) => {
            let lacks = |(name, count): &&(Arc<str>, u32)| count_in(name) < *count;
            let Some((name, count)) = counts.iter().find(lacks) else { return Ok(()) };
            let (datacenter, required) = (Some(name.to_string()), *count);
            return Err(CoordinatorError::Unavailable { consistency, datacenter, required, alive: 0 });
        }
    };
    if alive < required {
        return Err(CoordinatorError::Unavailable { consistency, datacenter: None, required, alive });
    }
    Ok(())
}
