//! `cargo +nightly fuzz run start`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::start(data));
