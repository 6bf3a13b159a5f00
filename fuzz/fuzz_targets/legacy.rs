//! `cargo +nightly fuzz run legacy`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::legacy(data));
