//! The log of a transaction. See `sstable::fuzz::fuzz_txn_log`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "sstable_txn_log");
    (target.expect("a listed target").run)(data);
});
