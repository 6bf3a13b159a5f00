//! `cargo +nightly fuzz run index_tables`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::index_tables(data));
