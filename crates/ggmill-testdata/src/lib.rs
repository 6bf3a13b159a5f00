//! Valid and broken GGUF files, built byte by byte, and real ones with their provenance.
//!
//! - [`bytes::FileBytes`] composes a file field by field, of any version and byte order, wrong on
//!   purpose where asked. It shares no code with the writer it helps to test.
//! - [`corpus`] has small files made with it: one for each thing that can be wrong, and one for
//!   each thing that is allowed.
//! - [`real`] and [`shared`] lead to files that nobody here wrote, [`expected`] to what others read
//!   in them.
//! - [`server`] sends files by HTTP, well or badly.
//!
//! Tests of every crate take their input from here. Nothing here is published.

pub mod bytes;
pub mod corpus;
mod files;
pub mod legacy;
pub mod models;
pub mod server;

pub use files::{REAL_GGUF, SHARED_GGUF, every_gguf, expected, real, sha256, shared};

/// Returns `true` if the environment variable `GGMILL_LONG` is set, as `cargo xtask ci --long` does.
///
/// Exhaustive tests then run every case; by default they run a small deterministic sample.
pub fn is_long() -> bool {
    std::env::var_os("GGMILL_LONG").is_some_and(|value| !value.is_empty() && value != "0")
}
