//! `cargo +nightly fuzz run quantize`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::quantize(data));
