//! Messages of gossip. See `cluster::gossip::fuzz::fuzz_gossip`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "gossip");
    (target.expect("a listed target").run)(data);
});
