//! What a v5 connection sends, checksums put right. See `fuzz::protocol_segments`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::protocol_segments(data));
