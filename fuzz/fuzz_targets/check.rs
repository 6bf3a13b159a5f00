//! `cargo +nightly fuzz run check`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::check(data));
