//! Class names of types. See `fuzz::type_class`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::type_class(data));
