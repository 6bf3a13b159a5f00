//! The pipeline through its public interface.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::format_push_string,
    clippy::needless_for_each,
    clippy::panic,
    clippy::too_many_lines,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and what it compares is exact"
)]

mod compositions;
mod expression;
mod formats;
mod matching;
mod naive;
mod packings;
mod runs;
