//! What is fuzzed: each target is a function from bytes that panics on a finding.
//!
//! `cargo xtask fuzz-seeds` writes the seeds; `cargo +nightly fuzz run parse` searches guided by coverage; the `harness` binary mutates the seeds without any
//! guidance on a stable toolchain, for machines that have nothing else. `cargo xtask fuzz-smoke` runs whichever is there.

mod check;
mod decoder_chunks;
mod dequantize;
mod parse;
mod quantize;
mod roundtrip;
pub mod seeds;

pub use check::check;
pub use decoder_chunks::decoder_chunks;
pub use dequantize::dequantize;
pub use parse::parse;
pub use quantize::quantize;
pub use roundtrip::roundtrip;

/// A target: what panics when the bytes break a promise.
pub type Target = fn(&[u8]);

/// Every target by the name of its binary.
pub const TARGETS: [(&str, Target); 6] =
    [("parse", parse), ("decoder_chunks", decoder_chunks), ("roundtrip", roundtrip), ("check", check), ("dequantize", dequantize), ("quantize", quantize)];
