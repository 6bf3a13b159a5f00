//! `cargo +nightly fuzz run location`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::location(data));
