//! `cargo +nightly fuzz run dequantize`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::dequantize(data));
