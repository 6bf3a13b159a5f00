//! `cargo +nightly fuzz run index`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::index(data));
