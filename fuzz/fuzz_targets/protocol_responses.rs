//! Bodies of responses. See `fuzz::protocol_responses`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::protocol_responses(data));
