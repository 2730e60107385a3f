//! A chunk of a compressed Data.db. See `sstable::fuzz::fuzz_compressed_chunk`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "sstable_compressed_chunk");
    (target.expect("a listed target").run)(data);
});
