//! Tests of quantization through the public API.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::format_push_string,
    clippy::needless_for_each,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failed precondition fails the test, and comparisons are exact"
)]

mod fit;
mod imatrix;
mod quantize;
mod reference;
mod remarks;
mod support;
