//! Frames between nodes. See `cluster::messaging::fuzz::fuzz_frames`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "internode_frames");
    (target.expect("a listed target").run)(data);
});
