//! A key store of any kind. See `fuzz::keystore_store`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::keystore_store(data));
