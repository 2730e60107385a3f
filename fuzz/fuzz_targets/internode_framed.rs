//! Frames between nodes, whose checksums hold. See `cluster::messaging::fuzz::fuzz_framed`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "internode_framed");
    (target.expect("a listed target").run)(data);
});
