//! `cargo +nightly fuzz run imatrix`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::imatrix(data));
