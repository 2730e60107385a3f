//! All targets in one binary, which is linked once: libFuzzer feeds the one that `FUZZ_TARGET` names.
#![no_main]

use fuzz::{TARGETS, Target};
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").expect("FUZZ_TARGET names a target");
    TARGETS.iter().find(|target| target.name == name).expect("fuzz/src/lib.rs lists FUZZ_TARGET")
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| (TARGET.run)(data));
