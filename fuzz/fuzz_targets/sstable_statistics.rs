//! Statistics.db. See `sstable::fuzz::fuzz_statistics`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "sstable_statistics");
    (target.expect("a listed target").run)(data);
});
