//! A member of a ring, in the words of Cassandra's nodes: internode messages of version 12, and gossip.
//!
//! ```text
//! gossip ──> ring: who holds what ──> coordinator::Topology
//!    │                                     │ asks
//!    │                                     v
//!    │                                 remote: a node elsewhere as a coordinator::Replica
//!    v                                     │
//! messaging: calls, answers, connections <─┘        serve: this node's replica, asked by others
//! ```
//! - [`endpoint`]: how nodes are addressed;
//! - [`messaging`]: handshakes, frames, messages, connections, calls and their answers;
//! - [`verbs`]: what messages carry;
//! - [`ring`]: who holds what;
//! - [`gossip`]: what nodes say of themselves and of each other, and who is thought dead;
//! - [`hints`]: writes that replicas missed, until they are back.
//!
//! Formats follow Cassandra 4.0 to 5.0 (`org.apache.cassandra.net`, `org.apache.cassandra.gms`).
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)
)]
#![cfg_attr(not(test), deny(clippy::large_futures))]

pub mod endpoint;
pub mod gossip;
pub mod hints;
pub mod member;
pub mod messaging;
pub mod remote;
pub mod ring;
pub mod serve;
#[cfg(test)]
mod testing;
pub mod verbs;
