//! `cargo +nightly fuzz run model_card`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::model_card(data));
