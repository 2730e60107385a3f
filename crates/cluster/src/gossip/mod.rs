//! What nodes say of themselves and of each other: Cassandra's gossip, without I/O, threads or clocks.
//!
//! **The invariant.** Only a node itself gives out generations and versions for what it says of itself, and
//! both only grow. So any two nodes can tell which of them has heard the later word of a third, and everybody
//! who keeps talking ends up with the last word of everybody.
//!
//! ```text
//!    A, each second                       B
//!    │  SYN: I know so much of each node  │
//!    ├───────────────────────────────────>│
//!    │  ACK: you lack this; send me that  │
//!    │<───────────────────────────────────┤
//!    │  ACK2: that                        │
//!    ├───────────────────────────────────>│
//!    │  ECHO, to who is new or back       │
//!    ├───────────────────────────────────>│   only its answer makes a node alive
//! ```
//! - [`gossiper`] is the machine: seconds, messages and own words in, [`effects`] out;
//! - `round` is what it does each second, `apply` how it takes in what others say, [`shadow`] how it asks
//!   before it speaks, [`removal`] how it speaks for others, [`join`] whether it may join;
//! - [`state`] is what one node has said, under the numbers of [`app_state`]; [`status`], [`tokens`] and
//!   [`values`] are the texts;
//! - [`message`] is the bytes, with Java's [`text`];
//! - [`detector`] tells who is thought dead;
//! - [`shown`] is what people see of it.
//!
//! The exception to the invariant: a node that stops in good order, is removed or assassinated is spoken for
//! by others, with the largest version or the next generation.

pub mod app_state;
mod apply;
pub mod detector;
pub mod effects;
pub mod fuzz;
pub mod gossiper;
pub mod join;
pub mod message;
mod peer;
pub mod removal;
mod round;
pub mod shadow;
pub mod shown;
pub mod state;
pub mod status;
#[cfg(test)]
mod tests;
pub mod text;
pub mod tokens;
pub mod values;

pub use app_state::AppState;
pub use effects::{Effects, Event, Outgoing, Refusal};
pub use gossiper::{Gossiper, Now, Settings, next_generation};
pub use message::Verb;
pub use peer::Saved;
pub use shadow::ShadowEnd;
pub use state::EndpointState;
pub use status::{Status, StatusKind};
pub use text::Text;
