//! `cargo +nightly fuzz run decoder_chunks`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::decoder_chunks(data));
