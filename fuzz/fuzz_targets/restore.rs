//! `cargo +nightly fuzz run restore`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::restore(data));
