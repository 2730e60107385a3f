//! The server: everything of the process that is not the database itself.
//!
//! - `cli`, `config`, `logging`, `console`: what the node is told, and what it tells;
//! - `node`: the order of start and shutdown, and what everything hangs together by;
//! - `net`: connections and frames of clients; `session`: the path of a query;
//! - `replica`: this node as the coordinator sees it; `storage`: the engine as operators see it; `system`:
//!   the tables that describe the node;
//! - `sstable`: tools for SSTables that need no node;
//! - `api`: what the HTTP API for operators takes and says; `admin` answers it, `nodetool` and `top` ask it;
//! - `allocator`: where memory comes from; `metrics`, `histogram`: what is counted; `reads`: those worth
//!   remembering; `sample`: data to try reads on.

pub mod admin;
pub mod allocator;
mod api;
pub mod cli;
pub mod config;
pub mod console;
pub mod histogram;
pub mod logging;
pub mod metrics;
pub mod net;
pub mod node;
pub mod nodetool;
pub mod reads;
mod redact;
pub mod replica;
pub mod sample;
pub mod session;
pub mod sstable;
pub mod storage;
pub mod system;
pub mod top;
