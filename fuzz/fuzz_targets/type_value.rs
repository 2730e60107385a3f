//! Values of types. See `fuzz::type_value`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::type_value(data));
