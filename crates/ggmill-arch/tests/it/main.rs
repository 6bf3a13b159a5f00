//! Tests of descriptions through the public API: against the reference, with invalid configurations, and
//! with descriptions as users write them.

#![allow(
    clippy::format_collect,
    clippy::unwrap_used,
    clippy::panic,
    reason = "sources are short, and a test stops where something is missing"
)]

mod file;
mod graph;
mod hostile;
mod llama;
mod reference;
mod stored;
mod user_file;
mod view;

use ggmill_arch::Architecture;

/// Returns the description under test.
fn llama() -> &'static Architecture {
    Architecture::builtin("llama").unwrap()
}
