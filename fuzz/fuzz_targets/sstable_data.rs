//! Data.db, not compressed. See `sstable::fuzz::fuzz_data_partition`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "sstable_data");
    (target.expect("a listed target").run)(data);
});
