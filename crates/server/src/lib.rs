//! The node, and the binary `ilion` that runs it or one of the tools beside it (crate `tools`).
//!
//! ```text
//! main --> cli --> tools              nodetool, top, sstable
//!  |
//!  +--> run --> admin ---+            operators
//!  |     |               v
//!  |     +-----------> node --> replica, system, storage --> state --> net, config, metrics --> reads
//!  |                     ^
//!  +--> session ---------+            clients
//! ```
//!
//! An arrow points at who is used; there is none backwards. Requests of clients go from `net` to `session`,
//! which `run` was given, through the coordinator to `replica` and the engine.
//!
//! - `cli`, `config`, `logging`: what the node is told, and what it tells;
//! - `run`: the life of the process; `node`: the order of start and shutdown, and what everything hangs
//!   together by; `state`: what its parts share;
//! - `net`: connections and frames of clients; `session`: the path of a query;
//! - `replica`: this node as the coordinator sees it; `storage`: the engine as operators see it; `system`:
//!   the tables that describe the node;
//! - `membership`: this node among the nodes of its ring;
//! - `auth`: who clients are and what they may do; `audit`: the log of what they did;
//! - `admin`: the HTTP API for operators, in the vocabulary of `tools::api`;
//! - `allocator`: where memory comes from; `slices`: how threads share processors; `metrics`, `histogram`:
//!   what is counted; `reads`: those worth remembering; `running`: requests that wait; `timeouts`: how long
//!   they may; `tls`: keys, certificates and what clients prove with theirs; `sample`: data to try reads on.
#![cfg_attr(not(test), deny(clippy::large_futures))]

pub(crate) mod absence;
pub mod admin;
pub mod allocator;
pub mod audit;
pub mod auth;
pub mod cli;
pub mod config;
#[cfg(feature = "bulk")]
pub(crate) mod flight;
pub mod histogram;
pub mod logging;
pub(crate) mod membership;
pub mod metrics;
pub mod net;
pub mod node;
pub mod profile;
pub mod reads;
mod redact;
pub mod replica;
pub mod run;
pub mod running;
pub mod sample;
pub mod session;
mod slices;
pub mod state;
pub mod storage;
pub mod system;
pub mod timeouts;
pub mod tls;
mod traces;
