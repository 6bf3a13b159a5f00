//! Edits through the public interface.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::format_push_string,
    clippy::needless_for_each,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and what it compares is exact"
)]

mod documents;
mod edit;
#[cfg(feature = "fix")]
mod fix;
mod graft;
mod hash;
mod lora;
mod reshape;
