//! What a connection sends. See `fuzz::protocol_frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::protocol_frames(data));
