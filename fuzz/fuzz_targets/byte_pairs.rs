//! `cargo +nightly fuzz run byte_pairs`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::byte_pairs(data));
