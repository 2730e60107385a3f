//! Many replicas, one answer.
//!
//! Every request of a client comes through here. The coordinator asks the [`Topology`] which replicas hold a
//! key, checks that enough of them are alive for the consistency level, sends each what it needs, and makes
//! one answer of theirs. It never sees an SSTable: the node itself and nodes elsewhere are both a
//! [`Replica`].
//!
//! - `topology`: the nodes; `strategy`: how a keyspace is replicated; `placement`: who holds a part of the
//!   ring, and how many of them must answer;
//! - `replica`: what a node is asked; `local`: this node, whose data are read where they are;
//! - `read`: pages of rows; `paging`: where the next page starts;
//! - `write`: mutations; `batchlog`: several partitions, all or nothing; `counter`: increments, which read
//!   first;
//! - `cas`: IF conditions, one at a time for each partition; `paxos`: where several replicas decide.
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
#![cfg_attr(not(test), deny(clippy::large_futures))]

mod batchlog;
mod cas;
mod counter;
mod error;
mod local;
mod locks;
pub mod paging;
mod paxos;
mod placement;
mod read;
mod replica;
mod strategy;
mod topology;
pub mod trace;
mod write;

pub use batchlog::LateReplay;
pub use cas::CasRequest;
pub use error::CoordinatorError;
pub use local::{
    LocalReplica, LocalStore, Proving, READER_THREAD, ReadObserver, ReaderError, ReaderHooks, ReaderWait,
    Readers, Tried,
};
pub use paging::{PagingState, PagingVersion, RowMark};
pub use paxos::{Ballot, Promise, Proposal};
pub use placement::{Candidates, Placement, WritePlan};
pub use read::{Interruption, Page, Pages, PullError, ReadRepairs, ReadRequest, ReadWork, Scope, Worked};
pub use replica::{Answer, DataRequest, Hint, LoggedBatch, Replica, ReplicaError};
pub use strategy::{Required, Strategy};
pub use topology::{DiskUsage, Keepers, Node, NodeState, Part, Parts, SingleNode, Topology};
pub use write::{Hints, NoHints};

use env::Env;
use locks::KeyLocks;
use model::DecoratedKey;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use uuid::Uuid;

/// The coordinator of one node.
pub struct Coordinator {
    env: Env,
    topology: Arc<dyn Topology>,
    /// This node.
    local: Arc<LocalReplica>,
    /// This node as the only one that holds something.
    own: Arc<Placement>,
    /// Who keeps writes for replicas that do not have them.
    hints: Arc<dyn Hints>,
    /// Id of this node in counters.
    host_id: Uuid,
    /// Partitions with a condition in progress.
    cas_locks: KeyLocks,
    /// Partitions with a counter update in progress.
    counter_locks: KeyLocks,
    /// How long gathered reads took.
    latencies: read::Latencies,
    /// Reads whose replicas did not agree.
    read_repairs: ReadRepairs,
    /// The last timestamp that was given to a write, in microseconds.
    last_timestamp: AtomicI64,
    /// Whether the batch log may hold a batch whose request is over.
    batches_left_behind: AtomicBool,
}

impl Coordinator {
    /// A coordinator on `node`, whose data are in `local`.
    pub fn new(
        env: Env,
        topology: Arc<dyn Topology>,
        node: Arc<Node>,
        local: Arc<LocalReplica>,
        hints: Arc<dyn Hints>,
    ) -> Coordinator {
        let (host_id, datacenter) = (node.id, Arc::clone(&node.datacenter));
        Coordinator {
            env,
            topology,
            local,
            own: Arc::new(Placement::new(Strategy::Local, vec![node], Vec::new(), datacenter)),
            hints,
            host_id,
            cas_locks: KeyLocks::new(),
            counter_locks: KeyLocks::new(),
            latencies: read::Latencies::new(),
            read_repairs: ReadRepairs::default(),
            last_timestamp: AtomicI64::new(i64::MIN),
            batches_left_behind: AtomicBool::new(false),
        }
    }

    /// This node as a replica.
    pub fn local(&self) -> &Arc<LocalReplica> {
        &self.local
    }

    /// Reads whose replicas did not agree.
    pub fn read_repairs(&self) -> &ReadRepairs {
        &self.read_repairs
    }

    /// The ring.
    pub fn topology(&self) -> &Arc<dyn Topology> {
        &self.topology
    }

    /// Takes note of how full this node's disks are.
    pub fn set_disk_usage(&self, usage: DiskUsage) {
        self.own.replicas().iter().for_each(|node| node.set_disk_usage(usage));
    }

    /// How full the fullest disks are that writes of these partitions go to, each with its keyspace. Where no
    /// node has little room that costs next to nothing, and is the fullest in the ring.
    pub fn disk_usage<'a>(&self, partitions: impl Iterator<Item = (&'a str, &'a DecoratedKey)>) -> DiskUsage {
        let in_ring = self.topology.disk_usage();
        if in_ring <= DiskUsage::Spacious {
            return in_ring;
        }
        let placement = |(keyspace, key)| self.topology.placement(keyspace, key);
        partitions.filter_map(placement).map(|placement| placement.disk_usage()).max().unwrap_or_default()
    }

    /// A timestamp for a write, in microseconds: now, but later than every one before, whatever the clock
    /// says.
    pub fn next_timestamp(&self) -> i64 {
        let now = self.env.now_micros();
        let after = |last: i64| now.max(last.saturating_add(1));
        let given =
            self.last_timestamp.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |last| Some(after(last)));
        after(given.unwrap_or(now))
    }
}

#[cfg(test)]
mod tests;
