//! Bodies of requests. See `fuzz::protocol_requests`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::protocol_requests(data));
