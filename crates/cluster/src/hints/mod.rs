//! Hinted handoff: a coordinator keeps the writes that a replica missed, and sends them when it is back.
//!
//! ```text
//! coordinator::Hints ──> store: is it kept? ──> ledger: in memory ──> files: in Cassandra's format
//!                                                                      │ page by page
//!                             node is back ──> dispatch <──────────────┘
//!                                                 └──> coordinator::Replica::hint
//! ```
//! - [`store`](self::HintStore): which writes are kept, and until when they are in memory alone; `ledger` and
//!   `counters` are its books, `late` the writes that a node has not acknowledged yet,
//!   [`settings`](self::HintsSettings) its rules;
//! - [`mod@format`], [`reader`], [`writer`]: the bytes
//!   (docs/formats/hints.md); `files`: what lies in the directory, a Cassandra's files included;
//! - [`dispatch`](self::Dispatcher): to whom which hints are sent, a `page` at a time, not faster than a
//!   `throttle` says.
//!
//! A hint is a promise of nothing: it is lost with the coordinator, and not kept for a node that is down for
//! long. What is missing then is found by reads and repairs. Whoever applies one twice has the same data.
//!
//! Rules and format follow Cassandra 4.0 to 5.0 (`org.apache.cassandra.hints`).

mod counters;
mod dispatch;
mod files;
pub mod format;
pub mod fuzz;
mod late;
mod ledger;
mod page;
pub mod reader;
mod settings;
mod store;
#[cfg(test)]
mod tests;
mod throttle;
pub mod writer;

pub use counters::{HintsCounters, HintsCounts};
pub use dispatch::{Dispatcher, IN_FLIGHT_MAX, PendingHints, PendingNode};
pub use files::OnDisk;
pub use settings::{HintsOptions, HintsSettings};
pub use store::HintStore;
