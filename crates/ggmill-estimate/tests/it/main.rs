//! Comparison of estimates with llama.cpp, and properties of estimates.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    reason = "a test stops where something is missing"
)]

mod devices;
mod hostile;
mod laws;
mod lowered;
mod models;
mod reference;
mod table;
