//! A certificate. See `fuzz::keystore_certificate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::keystore_certificate(data));
