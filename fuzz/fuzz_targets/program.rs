//! `cargo +nightly fuzz run program`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::program(data));
