//! `cargo +nightly fuzz run safetensors`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::safetensors(data));
