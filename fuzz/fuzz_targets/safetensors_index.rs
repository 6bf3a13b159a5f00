//! `cargo +nightly fuzz run safetensors_index`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::safetensors_index(data));
