//! `cargo +nightly fuzz run template`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::template(data));
