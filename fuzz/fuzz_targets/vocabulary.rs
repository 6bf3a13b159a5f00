//! `cargo +nightly fuzz run vocabulary`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::vocabulary(data));
