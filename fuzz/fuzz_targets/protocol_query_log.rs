//! Files of the full query log. See `protocol::query_log::fuzz_query_log`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| protocol::query_log::fuzz_query_log(data));
