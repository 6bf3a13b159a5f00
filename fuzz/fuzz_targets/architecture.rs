//! `cargo +nightly fuzz run architecture`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::architecture(data));
