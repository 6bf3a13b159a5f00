//! `cargo +nightly fuzz run file_name`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::file_name(data));
