//! What follows the header of a file of hints. See `cluster::hints::fuzz::fuzz_hints_body`.
#![no_main]

use fuzz::TARGETS;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let target = TARGETS.iter().find(|t| t.name == "cluster_hints_body");
    (target.expect("a listed target").run)(data);
});
