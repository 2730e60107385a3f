//! TOC.txt. See `sstable::fuzz::fuzz_toc`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "sstable_toc");
    (target.expect("a listed target").run)(data);
});
