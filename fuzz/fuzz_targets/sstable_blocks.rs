//! Blocks.db. See `sstable::fuzz::fuzz_blocks`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "sstable_blocks");
    (target.expect("a listed target").run)(data);
});
