//! `cargo +nightly fuzz run tokenizer`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::tokenizer(data));
