//! Compaction: SSTables of a table become fewer ones, and what may be forgotten is.
//!
//! Words. A [`strategy`] *picks* SSTables; the pick becomes a *task* ([`task`]) with the SSTables themselves,
//! which are *busy* from then on; a *run* ([`run`]) carries the task out; the *manager* ([`Compactions`]) has
//! the threads that look for picks, after every flush and every run, and what operators see and steer. No
//! task begins without [`room`] on the disk.
//!
//! SSTables of different data directories, and repaired and unrepaired ones, are never compacted together.

mod control;
mod guard;
mod history;
mod manager;
mod merges;
mod requested;
mod room;
mod run;
mod shadows;
pub mod strategy;
mod task;
#[cfg(test)]
mod tests;
mod throttle;

pub use control::Thresholds;
pub(crate) use manager::Compactions;
pub use requested::CompactionRequest;
pub use task::{CompactionInfo, CompactionKind};
pub use throttle::{Stopped, Throttle};
