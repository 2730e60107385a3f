//! Tokens of SASL PLAIN. See `protocol::sasl::fuzz_plain`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocol::sasl::fuzz_plain(data));
