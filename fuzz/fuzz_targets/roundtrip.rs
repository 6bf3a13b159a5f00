//! `cargo +nightly fuzz run roundtrip`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::roundtrip(data));
