//! Handshakes between nodes. See `cluster::messaging::fuzz::fuzz_handshake`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "internode_handshake");
    (target.expect("a listed target").run)(data);
});
