//! The text of a statement. See `fuzz::cql_parse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::cql_parse(data));
