//! Hints. See `cluster::hints::fuzz::fuzz_hint`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "cluster_hint");
    (target.expect("a listed target").run)(data);
});
