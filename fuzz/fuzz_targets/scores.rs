//! `cargo +nightly fuzz run scores`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::scores(data));
