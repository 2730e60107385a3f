//! Commit log segments. See `engine::fuzz_commit_log`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "commit_log_segment");
    (target.expect("a listed target").run)(data);
});
