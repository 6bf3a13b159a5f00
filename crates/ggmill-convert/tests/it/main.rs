//! Conversion through the public interface.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    clippy::format_push_string,
    clippy::needless_for_each,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed, and what it compares is exact"
)]

mod authorship;
mod back;
mod checkpoints;
mod classes;
mod legacy;
mod library_tokens;
mod lora;
mod own_layouts;
mod side_files;
mod stories;
mod support;
mod tokenizer_files;
mod torch;
mod vocabularies;
