//! `cargo +nightly fuzz run torch`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::torch(data));
