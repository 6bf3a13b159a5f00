//! `cargo +nightly fuzz run npy`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::npy(data));
