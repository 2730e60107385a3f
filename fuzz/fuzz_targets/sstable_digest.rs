//! Digest.crc32. See `sstable::fuzz::fuzz_digest`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "sstable_digest");
    (target.expect("a listed target").run)(data);
});
