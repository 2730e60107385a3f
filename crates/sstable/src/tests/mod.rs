//! Tests over whole SSTables.

mod corruption;
mod filter;
mod golden;
mod round_trip;
mod support;
mod txn_log;
