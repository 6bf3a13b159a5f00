//! `cargo +nightly fuzz run graph`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::graph(data));
