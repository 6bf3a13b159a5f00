//! `cargo +nightly fuzz run config`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::config(data));
