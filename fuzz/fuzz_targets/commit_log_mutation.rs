//! Mutations of the commit log. See `sstable::fuzz::fuzz_mutation`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "commit_log_mutation");
    (target.expect("a listed target").run)(data);
});
