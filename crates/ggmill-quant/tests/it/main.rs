//! Every codec through its public door: the reference's bytes, and what a codec promises beyond
//! them.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops where something is missing"
)]
#![expect(clippy::float_cmp, reason = "equal is what these values have to be")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    reason = "the generator packs bits, as the one it repeats does"
)]

mod contract;
mod functions;
mod golden;
mod grids;
mod inputs;
mod product;
mod range;
mod simd;
