//! Tests of the public API: the bytes of the reference, and the contract of codecs and functions.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed precondition fails the test"
)]
#![expect(clippy::float_cmp, reason = "the values must be equal")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "the input generator packs bits, as the Python one does"
)]

mod codes;
mod contract;
mod functions;
mod golden;
mod inputs;
mod product;
mod range;
mod simd;
