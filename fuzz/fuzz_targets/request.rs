//! `cargo +nightly fuzz run request`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::request(data));
