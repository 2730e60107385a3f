//! The ring: which nodes hold what.
//!
//! ```text
//! members ──> segments of tokens ──> replicas, pending replicas of each keyspace ──> Placement
//! ```
//! - [`members`]: the nodes and their tokens, as gossip tells of them;
//! - [`replicas`]: the replicas of a token (`SimpleStrategy`, `NetworkTopologyStrategy`);
//! - [`pending`]: who is about to hold a token;
//! - [`allocation`]: which tokens a new node takes;
//! - [`topology`]: all that for each keyspace of a schema, as the coordinator asks for it.
//!
//! A segment holds the tokens behind one token of a node up to the next, that included. The first and the
//! last segment are two halves of what wraps around the end of the ring.

pub mod allocation;
mod members;
mod pending;
mod replicas;
mod topology;

pub use members::{Member, Members, Phase};
pub use replicas::{natural_replicas, ownership};
pub use topology::RingTopology;

#[cfg(test)]
mod tests;
