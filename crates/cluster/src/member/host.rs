//! What a member of a ring needs of its node.

use crate::endpoint::Endpoint;
use coordinator::Node;
use model::{Mutation, Schema};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use uuid::Uuid;

/// Something that takes time.
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A node of the ring, as `system.peers` remembers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRecord {
    /// Its address.
    pub endpoint: Endpoint,
    /// Its id.
    pub host_id: Uuid,
    /// Its data center.
    pub datacenter: String,
    /// Its rack.
    pub rack: String,
    /// Its release.
    pub release_version: Option<String>,
    /// Where clients find it.
    pub native: Option<Endpoint>,
    /// Where nodes of its data center reach it, if that is known to be another address (`preferred_ip`).
    pub preferred: Option<Endpoint>,
    /// The version of its schema.
    pub schema: Option<Uuid>,
    /// Its tokens.
    pub tokens: Vec<i64>,
}

/// What clients want to know. The address is that which they connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingEvent {
    /// A node can be asked.
    Up(Endpoint),
    /// A node cannot be asked.
    Down(Endpoint),
    /// A node joined.
    Joined(Endpoint),
    /// A node left for good.
    Left(Endpoint),
}

/// What a member needs of its node.
pub trait Host: Send + Sync {
    /// The schema in force.
    fn schema(&self) -> Arc<Schema>;

    /// Its version.
    fn schema_version(&self) -> Uuid {
        self.schema().version
    }

    /// All rows of the schema that nodes share.
    fn schema_mutations(&self) -> Pending<Result<Vec<Mutation>, String>>;

    /// Merges rows of another node's schema; the version then.
    fn merge_schema(&self, mutations: Vec<Mutation>) -> Pending<Result<Uuid, String>>;

    /// Bytes of data on the disk.
    fn data_bytes(&self) -> u64;

    /// Remembers a node.
    fn save_peer(&self, peer: &PeerRecord);

    /// Forgets a node, which left for good. Its id, if it was a member.
    fn forget_peer(&self, endpoint: Endpoint, host_id: Option<Uuid>);

    /// A node can be asked again, and may have missed writes.
    fn is_back(&self, node: &Arc<Node>);

    /// Tells clients.
    fn tell(&self, event: RingEvent);
}
