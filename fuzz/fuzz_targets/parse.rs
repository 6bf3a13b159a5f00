//! `cargo +nightly fuzz run parse`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::parse(data));
