//! Tests over whole SSTables.

mod access;
mod adopted;
mod bti;
mod corruption;
mod costs;
mod damage;
mod directory;
mod early;
mod exchanged;
mod fences;
mod filter;
mod fixtures;
mod golden;
mod large;
mod outline;
mod places;
mod proof;
mod prove;
mod reading;
pub(crate) mod recorded;
mod round_trip;
mod salvage;
mod samples;
mod support;
mod txn_log;
mod verify;
