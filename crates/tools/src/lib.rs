//! What people run beside a node. Each tool is a command of the binary `ilion`. This crate parses its
//! arguments, does the work and says the exit status; `server` holds the binary and hands over.
//!
//! Two kinds of tools are here, and they have little in common:
//!
//! ```text
//! ask a node that runs                         look into files, without a node
//!
//! nodetool    top                              offline
//!     \       /                                   |
//!      client        HTTP, TCP or Unix socket     |
//!        |                                     crate sstable
//!       api  <---- the node's handlers use it, too
//! ```
//!
//! - `api`: what the admin API takes and says, as plain data: all that the node and its clients share.
//! - `client`: one request to a node, and its answer.
//! - `nodetool`: Cassandra's verbs, in its words and layouts.
//! - `top`: the reads of a node, live, in a terminal.
//! - `export`: a table as files, by crate `bulk`; only with the feature of that name. `sql`: statements on
//!   tables; `tables`: those of a node or of directories, for both.
//! - `tls`: a certificate authority and certificates for trying TLS out;
//! - `offline`: the verbs of `ilion sstable`, which dump, export, check and mend SSTables.
//! - `fqltool`: what a node's full query log holds;
//! - `format`: sizes and columns of text; `structured`: JSON and YAML as nodetool lays them out;
//!   `console`: complaints on the standard error.
//!
//! A tool is a function `run(&Args) -> u8`. What it prints goes to the standard output, and the result is the
//! process's exit status. The file that holds it says what each status means. A closed pipe is no failure.
//!
//! Nothing here knows the node. What a tool has to know of it is in an answer of the API.

pub mod api;
mod client;
pub mod console;
#[cfg(feature = "bulk")]
pub mod export;
mod format;
pub mod fqltool;
pub mod nodetool;
pub mod offline;
#[cfg(feature = "bulk")]
pub mod sql;
mod structured;
#[cfg(feature = "bulk")]
mod tables;
pub mod tls;
pub mod top;
