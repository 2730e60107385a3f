//! The ring, as the coordinator sees it: nodes, and who holds what.

use crate::error::CoordinatorError;
use crate::placement::Placement;
use crate::replica::Replica;
use crate::strategy::Strategy;
use arc_swap::ArcSwapOption;
use env::random::Random;
use foldhash::HashMap;
use model::DecoratedKey;
use model::command::PartitionSelection;
use model::schema::{KeyspaceSchema, Schema};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use uuid::Uuid;

/// Where a node is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeState {
    /// It holds its part of the ring.
    Normal,
    /// It takes its part over: it is written to, and not read.
    Joining,
    /// It hands its part over: it is read and written to.
    Leaving,
}

/// How full the disks of a node are, by the thresholds that its operator set (Cassandra's
/// `DiskUsageState`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DiskUsage {
    /// Nobody looks.
    #[default]
    NotAvailable,
    /// There is room.
    Spacious,
    /// There is little.
    Stuffed,
    /// There is so little that clients shall write no more.
    Full,
}

impl DiskUsage {
    const ALL: [DiskUsage; 4] =
        [DiskUsage::NotAvailable, DiskUsage::Spacious, DiskUsage::Stuffed, DiskUsage::Full];

    /// What a word of gossip means. One that is not known says nothing.
    pub fn of_word(word: &str) -> DiskUsage {
        DiskUsage::ALL.into_iter().find(|usage| usage.word() == word).unwrap_or_default()
    }

    /// The word for it in gossip.
    pub fn word(self) -> &'static str {
        match self {
            DiskUsage::NotAvailable => "NOT_AVAILABLE",
            DiskUsage::Spacious => "SPACIOUS",
            DiskUsage::Stuffed => "STUFFED",
            DiskUsage::Full => "FULL",
        }
    }
}

/// A node of the ring.
#[derive(Debug)]
pub struct Node {
    /// Its host id.
    pub id: Uuid,
    /// The data center that it is in.
    pub datacenter: Arc<str>,
    /// The rack that it is in.
    pub rack: Arc<str>,
    /// Where it is in its life.
    pub state: NodeState,
    /// How it is asked.
    pub replica: Arc<dyn Replica>,
    is_alive: AtomicBool,
    disks: AtomicU8,
}

impl Node {
    /// A node that is alive and holds its part of the ring.
    pub fn new(id: Uuid, datacenter: &str, rack: &str, replica: Arc<dyn Replica>) -> Node {
        Node {
            id,
            datacenter: datacenter.into(),
            rack: rack.into(),
            state: NodeState::Normal,
            replica,
            is_alive: AtomicBool::new(true),
            disks: AtomicU8::new(DiskUsage::NotAvailable as u8),
        }
    }

    /// Whether the node takes part at the moment, as far as is known here.
    #[inline]
    pub fn is_alive(&self) -> bool {
        self.is_alive.load(Ordering::Relaxed)
    }

    /// Takes note that it does, or does not.
    pub fn set_alive(&self, is_alive: bool) {
        self.is_alive.store(is_alive, Ordering::Relaxed);
    }

    /// How full its disks are, as far as is known here.
    pub fn disk_usage(&self) -> DiskUsage {
        let known = self.disks.load(Ordering::Relaxed);
        DiskUsage::ALL.into_iter().find(|usage| *usage as u8 == known).unwrap_or_default()
    }

    /// Takes note of how full they are.
    pub fn set_disk_usage(&self, usage: DiskUsage) {
        self.disks.store(usage as u8, Ordering::Relaxed);
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
    /// The same replicas hold all of it. If they are several, its keys are in the order of the ring.
    Whole(Arc<Placement>),
    /// Parts of different replicas, in the order of the selection. The keys of each are in the order of the
    /// ring.
    Several(Vec<Part>),
}

/// The ring.
pub trait Topology: Send + Sync {
    /// The schema in force.
    fn schema(&self) -> Arc<Schema>;

    /// Who holds a partition of `keyspace`. `None` for a keyspace that is unknown, or cannot be served.
    fn placement(&self, keyspace: &str, key: &DecoratedKey) -> Option<Arc<Placement>>;

    /// As [`Topology::placement`], for the selected partitions.
    fn split(&self, keyspace: &str, selection: &PartitionSelection) -> Option<Parts>;

    /// The data centers of nodes that hold something, and how many of these each has.
    fn datacenters(&self) -> Vec<(Arc<str>, u32)>;

    /// How full the fullest disks in the ring are. Costs next to nothing.
    fn disk_usage(&self) -> DiskUsage {
        DiskUsage::NotAvailable
    }

    /// Who keeps the log of a batch, drawn anew for each.
    fn batch_keepers(&self, _random: &Random) -> Keepers {
        Keepers::ThisNode
    }
}

/// Who keeps the log of a batch.
#[derive(Clone, Debug)]
pub enum Keepers {
    /// The coordinator itself, which is alone in its data center.
    ThisNode,
    /// Others of its data center that are alive: two, one if there are no more, or none.
    Others(Vec<Arc<Node>>),
}

/// Why a keyspace is on no node.
pub(crate) fn unplaced(topology: &dyn Topology, name: &str) -> CoordinatorError {
    let schema = topology.schema();
    let has_transient = |keyspace: &Arc<KeyspaceSchema>| Strategy::has_transient(&keyspace.replication);
    CoordinatorError::Invalid(match schema.keyspaces.get(name).is_some_and(has_transient) {
        true => format!("Keyspace '{name}' has transient replicas, which Ilion does not support in a ring"),
        false => format!("Keyspace '{name}' does not exist"),
    })
}

/// The ring of one node.
pub struct SingleNode {
    schema: Box<dyn Fn() -> Arc<Schema> + Send + Sync>,
    node: Arc<Node>,
    known: ArcSwapOption<Known>,
}

/// The placements of all keyspaces of one version of the schema.
struct Known {
    schema: Arc<Schema>,
    by_keyspace: HashMap<String, Arc<Placement>>,
}

impl SingleNode {
    /// A ring whose only node is `node`.
    pub fn new(node: Arc<Node>, schema: impl Fn() -> Arc<Schema> + Send + Sync + 'static) -> SingleNode {
        SingleNode { schema: Box::new(schema), node, known: ArcSwapOption::empty() }
    }

    fn placement_of(&self, keyspace: &str) -> Option<Arc<Placement>> {
        let schema = (self.schema)();
        if let Some(known) = self.known.load().as_deref()
            && Arc::ptr_eq(&known.schema, &schema)
        {
            return known.by_keyspace.get(keyspace).cloned();
        }
        let place = |strategy: Strategy| {
            // A keyspace that has no replicas in this data center has none at all.
            let holds = strategy.in_datacenter(&self.node.datacenter) > 0;
            let replicas = if holds { vec![Arc::clone(&self.node)] } else { Vec::new() };
            Placement::new(strategy, replicas, Vec::new(), self.node.datacenter.clone())
        };
        let by_keyspace: HashMap<String, Arc<Placement>> = schema
            .keyspaces
            .values()
            .map(|keyspace| (keyspace.name.clone(), Arc::new(place(Strategy::of(&keyspace.replication)))))
            .collect();
        let found = by_keyspace.get(keyspace).cloned();
        self.known.store(Some(Arc::new(Known { schema, by_keyspace })));
        found
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

    fn datacenters(&self) -> Vec<(Arc<str>, u32)> {
        vec![(Arc::clone(&self.node.datacenter), 1)]
    }

    fn disk_usage(&self) -> DiskUsage {
        self.node.disk_usage()
    }
}
