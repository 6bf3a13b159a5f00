//! `cargo +nightly fuzz run journal`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::journal(data));
