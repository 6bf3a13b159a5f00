//! `cargo +nightly fuzz run type_plan`
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ggmill_fuzz::type_plan(data));
